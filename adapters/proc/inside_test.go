package proc

import (
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
)

func TestInsideJob(t *testing.T) {
	if a, why, ok := newLocal(t.TempDir()).InsideJob(nil); ok {
		t.Fatalf("the tests run inside %v: %s", a, why)
	}
	for name, test := range map[string]struct {
		role  []string
		known bool // whether the attempt is among the running ones
	}{
		"by its environment":          {[]string{"inside"}, false},
		"as the command itself":       {[]string{"inside"}, true},
		"by its ancestors":            {[]string{"scrubbed", "inside"}, true},
		"in another session":          {[]string{"hidden", "insideLater"}, true},
		"nothing said, nothing known": {[]string{"scrubbed", "inside"}, false},
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
			want := label(a)
			switch {
			case name != "nothing said, nothing known":
			case runtime.GOOS == "linux": // in some job, since a runner is above
				want = label(kernel.AttemptID{})
			default:
				want = "nothing"
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

// What outlives its command and its runner is known by its session, or because
// somebody adopted it since.
func TestInsideJobOfADeadRunner(t *testing.T) {
	for _, role := range []string{"scrubbed", farthest()} {
		t.Run(role, func(t *testing.T) { insideJobOfADeadRunner(t, role) })
	}
}

func insideJobOfADeadRunner(t *testing.T, role string) {
	noSubreaper(t)
	w := setup(t)
	a := w.job.Attempt()
	w.job.Spec.Task.Args = append([]string{"sh", "-c", `"$@"; while :; do sleep 1; done`, "sh"}, as(role, "insideLater", w.root, label(a))...)
	w.launch()
	left := mustPID(t, w.said("insideLater "))
	t.Cleanup(func() { left.signal(syscall.SIGKILL) })
	c := w.claim(a)
	runner, _ := c.process()
	runner.signal(syscall.SIGKILL)
	w.eventually("command dead", func() bool { return !alive(runner) && !c.Child.Running() })
	w.file("later", "", 0o600)
	if got := w.said("inside "); got != label(a) {
		t.Fatalf("inside %s, want %s", got, label(a))
	}
}

// A process namespace shows nothing of what is outside of it, and says nothing of
// where one comes from.
func TestInsideJobInANamespace(t *testing.T) {
	for name, args := range map[string][]string{
		"its own process table": {"unshare", "-pf", "--mount-proc"},
		"that of the outside":   {"unshare", "-pf"},
		"other mounts":          {"unshare", "-m", "sh", "-c", `mount -t tmpfs none /proc && exec "$@"`, "sh"},
	} {
		t.Run(name, func(t *testing.T) {
			if out, err := exec.Command(args[0], append(args[1:], "true")...).CombinedOutput(); err != nil {
				t.Skipf("no namespace can be made here: %v\n%s", err, out)
			}
			w := setup(t)
			a := w.job.Attempt()
			w.job.Spec.Task.Args = append([]string{"sh", "-c", `while ! grep -q child jobs/$VIZIER_JOB_ID/attempts/1.json; do sleep 0.01; done; "$@"; while [ ! -e go ]; do sleep 0.01; done`, "sh"},
				append(args, as("scrubbed", "inside", w.root, label(a))...)...)
			w.launch()
			if got := w.said("inside "); got != label(a) {
				t.Fatalf("inside %s, want %s", got, label(a))
			}
			w.file("go", "", 0o600)
			w.outcome(a)
		})
	}
}

// A process is in the sandbox of an attempt's command if its environment names the attempt, whose runner is in other
// namespaces of this boot.
func TestSandboxed(t *testing.T) {
	w := setup(t)
	a := w.job.Attempt()
	elsewhere := Spaces{PID: "pid:[1]", Mount: "mnt:[1]"}
	for name, c := range map[string]struct {
		in   string
		boot string
		at   Spaces
		want bool
	}{
		"in its sandbox":      {label(a), here().Boot, elsewhere, true},
		"in no job":           {"", here().Boot, elsewhere, false},
		"in its namespaces":   {label(a), here().Boot, spaces(), false},
		"nothing is known":    {label(a), here().Boot, Spaces{}, false},
		"of before the boot":  {label(a), "another", elsewhere, false},
		"of another attempt":  {label(kernel.AttemptID{Job: a.Job, N: 2}), here().Boot, elsewhere, false},
		"of nothing sensible": {"x", here().Boot, elsewhere, false},
	} {
		t.Setenv(envAttemptID, c.in)
		w.forge(a, claim{Identity: Identity{Host: here().Host, Boot: c.boot, PID: 1, Start: 1}, Spaces: c.at})
		of, alive, got := w.Sandboxed()
		if got != c.want || alive || got && of != a {
			t.Errorf("%s: %v, alive %v, %v", name, of, alive, got)
		}
	}
	t.Setenv(envAttemptID, label(a))
	w.forge(a, claim{Identity: Identity{Host: here().Host, Boot: here().Boot, PID: 1, Start: 1}, Spaces: elsewhere})
	lock, err := w.Acquire(a)
	must(t, err)
	if _, alive, yes := w.Sandboxed(); !alive || !yes {
		t.Errorf("its runner lives: %v, %v", alive, yes)
	}
	must(t, lock.Close())
}

func TestARunnerIsNotInsideItsOwnJob(t *testing.T) {
	w := setup(t)
	a := w.job.Attempt()
	if err := w.Claim(a); err != nil {
		t.Fatal(err)
	}
	if in, why, ok := w.InsideJob([]kernel.AttemptID{a}); ok {
		t.Fatalf("inside %v: %s", in, why)
	}
}

// What a command left behind in its session is of its attempt, and of no other, when neither it nor the runner is there any more.
func TestInsideJobByTheSession(t *testing.T) {
	w := setup(t)
	a := w.job.Attempt()
	if err := w.Claim(a); err != nil {
		t.Fatal(err)
	}
	leader := exec.Command("sh", "-c", "sleep 600 >/dev/null 2>&1 & echo $!")
	leader.SysProcAttr, leader.Env = &syscall.SysProcAttr{Setsid: true}, []string{"PATH=" + os.Getenv("PATH")}
	out, err := leader.Output() // it has ended
	if err != nil {
		t.Fatal(err)
	}
	left := mustPID(t, strings.TrimSpace(string(out)))
	t.Cleanup(func() { left.signal(syscall.SIGKILL) })
	c, err := readClaim(w.Files.ClaimFile(a))
	if err != nil {
		t.Fatal(err)
	}
	c.PID, c.Start = leader.Process.Pid, 1
	c.Child = &Identity{Host: c.Host, Boot: c.Boot, PID: leader.Process.Pid, Start: 2}
	if err := os.WriteFile(w.Files.ClaimFile(a), c.encode(), 0o600); err != nil {
		t.Fatal(err)
	}
	if in, why, ok := w.InsideJobOf(left.pid, []kernel.AttemptID{a}); in != a || why != "" || !ok {
		t.Errorf("inside %v: %s, %t", in, why, ok)
	}
}

// If orphans of a job do not become children of its runner, a process that was
// adopted since the runner began may be the job's.
func TestMayBeOrphan(t *testing.T) {
	shell, login, first := process{pid: os.Getpid(), parent: 20, start: 40}, process{pid: 20, parent: 1, start: 5}, process{pid: 1, start: 1}
	me := process{pid: os.Getpid(), parent: 1, start: 30}
	hidden := process{pid: os.Getpid(), parent: 77, start: 30}
	entered := process{pid: os.Getpid(), parent: 0, start: 30}
	for _, c := range []struct {
		what  string
		above []process
		start uint64 // of the runner
		want  bool
	}{
		{"one that the first process adopted later", []process{me, first}, 20, true},
		{"one that is older than the runner", []process{me, first}, 31, false},
		{"a shell of a login that is older", []process{shell, login, first}, 20, false},
		{"a shell of a login that is younger", []process{shell, login, first}, 4, true},
		{"one below another user's", []process{hidden}, 20, false},
		{"one that the first process, which is hidden, adopted", []process{me}, 20, true},
		{"one that came from outside", []process{entered}, 20, false},
	} {
		c.above[0].pid = os.Getpid()
		for i := range c.above { // only a process that may be signalled is the job's
			if c.above[i].pid == 20 {
				c.above[i].pid = os.Getpid()
			}
		}
		if got := mayBeOrphan(c.above, c.start); got != c.want {
			t.Errorf("%s: %v", c.what, got)
		}
	}
}
