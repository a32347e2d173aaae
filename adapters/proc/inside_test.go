package proc

import (
	"os"
	"syscall"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
)

func TestInsideJob(t *testing.T) {
	if a, ok := newLocal(t.TempDir()).InsideJob(nil); ok {
		t.Fatalf("the tests run inside %v", a)
	}
	for name, test := range map[string]struct {
		role  []string
		known bool // whether the attempt is among the running ones
		want  bool
	}{
		"by its environment":                          {[]string{"inside"}, false, true},
		"as the command itself":                       {[]string{"inside"}, true, true},
		"by its ancestors":                            {[]string{"scrubbed", "inside"}, true, true},
		"in another session":                          {[]string{"hidden", "insideLater"}, true, true},
		"nothing said, nothing known: not in the job": {[]string{"scrubbed", "inside"}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := setup(t)
			a := w.job.Attempt()
			args := append(test.role, w.root)
			if test.known {
				args = append(args, label(a))
			}
			// The command waits until it stands in the claim.
			w.job.Spec.Task.Args = append([]string{"sh", "-c",
				`while ! grep -q child jobs/$VIZIER_JOB_ID/attempts/1.json; do sleep 0.01; done; "$@"; touch later; while [ ! -e go ]; do sleep 0.01; done`, "sh"}, as(args[0], args[1:]...)...)
			if name == "as the command itself" {
				w.job.Spec.Task.Args[2] = `while ! grep -q child jobs/$VIZIER_JOB_ID/attempts/1.json; do sleep 0.01; done; exec env -u VIZIER_ATTEMPT_ID "$@"`
			}
			w.launch()
			want := "nothing"
			if test.want {
				want = label(a)
			}
			if got := w.said("inside "); got != want {
				t.Fatalf("inside %s, want %s", got, want)
			}
			if name == "in another session" && !adoptsOrphans { // so nobody else finds it
				mustPID(t, w.said("insideLater ")).signal(syscall.SIGKILL)
			}
			w.file("go", "", 0o600)
			w.outcome(a)
		})
	}
}

// What outlives its command and its runner is known by its session alone.
func TestInsideJobOfADeadRunner(t *testing.T) {
	w := setup(t)
	a := w.job.Attempt()
	w.job.Spec.Task.Args = as("scrubbed", "insideLater", w.root, label(a))
	w.launch()
	w.said("insideLater ")
	c := w.claim(a)
	runner, _ := c.process()
	runner.signal(syscall.SIGKILL)
	w.eventually("command dead", func() bool { return !alive(runner) && !c.Child.Running() })
	w.file("later", "", 0o600)
	if got := w.said("inside "); got != label(a) {
		t.Fatalf("inside %s, want %s", got, label(a))
	}
}

func TestARunnerIsNotInsideItsOwnJob(t *testing.T) {
	w := setup(t)
	a := w.job.Attempt()
	if err := w.Claim(a); err != nil {
		t.Fatal(err)
	}
	if in, ok := w.InsideJob([]kernel.AttemptID{a}); ok {
		t.Fatalf("inside %v", in)
	}
}

// An orphan whose origin the system does not tell counts as inside.
func TestMayBeOrphan(t *testing.T) {
	me, _ := readProcess(os.Getpid())
	for _, c := range []struct {
		what string
		p    process
		late uint64 // by how much the runner is the younger
		want bool
	}{
		{"one that is not shown", process{}, 0, true},
		{"an older one", me, 1, false},
		{"a younger one", me, 0, !adoptsOrphans},
	} {
		if got := c.p.mayBeOrphanOf(c.p.start + c.late); got != c.want {
			t.Errorf("%s: %v", c.what, got)
		}
	}
}
