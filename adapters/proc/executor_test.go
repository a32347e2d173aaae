package proc

import (
	"context"
	"errors"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
)

var bg = context.Background()

func TestStartRunsTheCommandAndRecordsItsEnd(t *testing.T) {
	w := setup(t, "sh", "-c", "echo out; echo err >&2; exit 3")
	a := w.launch()
	wantResult(t, w.outcome(a), kernel.OutcomeFailed, 3, kernel.ExitFailure, "exit code 3")
	w.eventually("dead", func() bool { return w.liveness(a) == kernel.Dead })
	if w.log("stdout") != "out\n" || w.log("stderr") != "err\n" {
		t.Fatalf("logs %q and %q", w.log("stdout"), w.log("stderr"))
	}
}

func TestStartStartsOnceHoweverOftenItIsAsked(t *testing.T) {
	w := setup(t, "sh", "-c", "echo ran; while [ ! -e go ]; do sleep 0.01; done")
	a := w.launch()
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if err := newLocal(w.root).Start(bg, a); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	w.said("ran")
	if err := os.WriteFile(w.root+"/go", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	wantResult(t, w.outcome(a), kernel.OutcomeSucceeded, 0, kernel.NoFailure, "")
	w.eventually("dead", func() bool { return w.liveness(a) == kernel.Dead })
	if err := w.Start(bg, a); err != nil { // whatever became of it
		t.Fatal(err)
	}
	if w.liveness(a) != kernel.Dead || w.log("stdout") != "ran\n" {
		t.Fatalf("ran again: %q", w.log("stdout"))
	}
}

// The locks of another host may not be seen here, so what it has started is not started again, whether its runner
// has begun or not. A later attempt of the job is.
func TestStartLeavesAnAttemptToTheHostThatStartedIt(t *testing.T) {
	w := setup(t, "sh", "-c", "echo ran")
	if err := os.WriteFile(w.Files.LockFile(w.job.ID), []byte("1\nthere\nfar\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if a := w.launch(); w.liveness(a) != kernel.Alive {
		t.Fatal("the runner of another host is not believed to be at work")
	}
	if held, err := locked(w.Files.LockFile(w.job.ID)); held || err != nil {
		t.Fatalf("started again: held %v, error %v", held, err)
	}
	w.job.State.Attempt = 2
	wantResult(t, w.outcome(w.launch()), kernel.OutcomeSucceeded, 0, kernel.NoFailure, "")
	if w.log("stdout") != "ran\n" {
		t.Fatalf("the second attempt alone runs here: %q", w.log("stdout"))
	}
}

func TestStartIsNotMisledByThoseWhoLook(t *testing.T) {
	w := setup(t, "sh", "-c", "true")
	if err := os.WriteFile(w.Files.LockFile(w.job.ID), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var lookers sync.WaitGroup
	for range 4 {
		lookers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					_, _ = locked(w.Files.LockFile(w.job.ID))
				}
			}
		})
	}
	for n := 1; n <= 10; n++ {
		w.job.State.Attempt = n
		w.outcome(w.launch())
	}
	close(stop)
	lookers.Wait()
}

func TestStartRefusesWithAReason(t *testing.T) {
	for name, test := range map[string]struct {
		prepare func(*world) error
		want    string
	}{
		"no such program": {func(w *world) error { w.Exe = w.root + "/gone"; return nil }, "gone was removed or moved while it was in use"},
		"no such job":     {func(w *world) error { return os.RemoveAll(layout(w.root).dir(w.job.ID)) }, "no such file or directory"},
		"a file for a directory": {func(w *world) error {
			dir := layout(w.root).dir(w.job.ID)
			return errors.Join(os.RemoveAll(dir), os.WriteFile(dir, nil, 0o600))
		}, "not a directory"},
		"a link for a lock": {func(w *world) error {
			return os.Symlink(w.root+"/elsewhere", w.Files.LockFile(w.job.ID))
		}, "too many levels of symbolic links"},
	} {
		t.Run(name, func(t *testing.T) {
			w := setup(t, "true")
			if err := test.prepare(w); err != nil {
				t.Fatal(err)
			}
			a := w.job.Attempt()
			if err := w.Start(bg, a); err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), label(a)) {
				t.Fatalf("error %v, want %q about %s", err, test.want, label(a))
			}
			if held, _ := locked(w.Files.LockFile(a.Job)); held {
				t.Fatal("the lock stayed held")
			}
		})
	}
}

func TestKilledRunnerIsDeadAtOnceAndItsCommandWithIt(t *testing.T) {
	w := setup(t, as("parent", "sleeper")...)
	a := w.launch()
	grandchild := mustPID(t, w.said("sleeper "))
	command := mustPID(t, w.said("parent "))
	c := w.claim(a)
	if c.Child == nil || c.Child.PID != command.pid || !c.Running() || w.liveness(a) != kernel.Alive {
		t.Fatalf("claim %+v, command %d", c, command.pid)
	}
	runner, _ := c.process()
	runner.signal(syscall.SIGKILL)
	w.eventually("runner dead", func() bool { return w.liveness(a) == kernel.Dead })
	w.eventually("command dead", func() bool { return !alive(command) })
	if !alive(grandchild) {
		t.Fatal("this test needs a grandchild that survives until it is swept")
	}
	if err := w.Sweep(bg, a); err != nil {
		t.Fatal(err)
	}
	if alive(grandchild) {
		t.Fatal("the grandchild survived the sweep")
	}
}

func TestStoppedRunnerIsAlive(t *testing.T) { // U05
	w := setup(t, "sh", "-c", "echo ready; while [ ! -e go ]; do sleep 0.01; done")
	a := w.launch()
	w.said("ready")
	runner, _ := w.claim(a).process()
	runner.signal(syscall.SIGSTOP)
	if err := os.WriteFile(w.root+"/go", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	child := w.claim(a).Child
	w.eventually("the command's end", func() bool { return !child.Running() })
	if w.liveness(a) != kernel.Alive {
		t.Fatal("a runner that is only stopped counts as dead")
	}
	runner.signal(syscall.SIGCONT)
	wantResult(t, w.outcome(a), kernel.OutcomeSucceeded, 0, kernel.NoFailure, "")
}

func TestAliveAfterAReboot(t *testing.T) {
	w := setup(t)
	a := w.job.Attempt()
	lock, err := w.Acquire(a)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if w.liveness(a) != kernel.Alive {
		t.Fatal("held and not claimed yet: not alive")
	}
	w.forge(a, claim{Identity: Identity{Host: here().Host, Boot: "another", PID: 1, Start: 1}})
	if w.liveness(a) != kernel.Dead {
		t.Fatal("claimed before the last boot: not dead")
	}
}

func TestAliveAnswersWhatItCannotSee(t *testing.T) {
	w := setup(t)
	a := w.job.Attempt()
	if w.liveness(a) != kernel.Dead {
		t.Fatal("never started: not dead")
	}
	dir := layout(w.root).dir(a.Job)
	if err := errors.Join(os.RemoveAll(dir), os.WriteFile(dir, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if f := w.Alive(bg, []kernel.AttemptID{a})[a]; f.Known || f.Err == "" {
		t.Fatalf("fact %+v, want an error", f)
	}
}

func TestCommandsInheritNeitherTheLockNorAnythingElse(t *testing.T) { // U24
	w := setup(t, as("descriptors")...)
	var pipe [2]int
	if err := syscall.Pipe(pipe[:]); err != nil { // not close-on-exec
		t.Fatal(err)
	}
	defer func() { _ = errors.Join(syscall.Close(pipe[0]), syscall.Close(pipe[1])) }()
	w.outcome(w.launch())
	if w.log("stdout") != "0 null\n1 stdout.log\n2 stderr.log\n" {
		t.Fatalf("descriptors of a command:\n%s", w.log("stdout"))
	}
}

func TestDaemonsDoNotDelayTheEnd(t *testing.T) { // U24
	w := setup(t, as("abandon", "sleeper")...)
	a := w.launch()
	wantResult(t, w.outcome(a), kernel.OutcomeSucceeded, 0, kernel.NoFailure, "")
	w.eventually("dead", func() bool { return w.liveness(a) == kernel.Dead })
}

// claim returns what a's claim file says.
func (w *world) claim(a kernel.AttemptID) (c claim) {
	w.t.Helper()
	w.eventually("a claim with its command", func() bool {
		var err error
		c, err = readClaim(w.Files.ClaimFile(a))
		return err == nil && c.Child != nil
	})
	return c
}

// forge makes c the content of a's claim file.
func (w *world) forge(a kernel.AttemptID, c claim) {
	w.t.Helper()
	c.Lock = inodeOf(w.Files.LockFile(a.Job))
	temp, err := writeClaim(w.Files.ClaimFile(a), c)
	if err == nil {
		err = os.Rename(temp, w.Files.ClaimFile(a))
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

func mustPID(t testing.TB, s string) process {
	t.Helper()
	pid, _ := strconv.Atoi(s)
	p, ok := readProcess(pid)
	if !ok {
		t.Fatalf("no process %q", s)
	}
	return p
}

func alive(p process) bool {
	now, ok := readProcess(p.pid)
	return ok && now.start == p.start && !now.zombie
}

// What runs through this program waits until there is one again; what does not, need not.
func TestTheProgramIsGone(t *testing.T) {
	w := setup(t, "true")
	w.Exe = w.root + "/gone"
	must(t, w.Provide(bg, &w.job))
	gone := "the program " + w.Exe + " was removed or moved while it was in use"
	for name, change := range map[string]func(*kernel.Task){
		"a node":          func(t *kernel.Task) { t.Builtin = true },
		"a sandboxed job": func(t *kernel.Task) { t.Sandbox.Mode = kernel.RequiredSandbox },
	} {
		j := w.job
		change(&j.Spec.Task)
		if err := w.Provide(bg, &j); err == nil || err.Error() != gone {
			t.Errorf("%s is provided for: %v", name, err)
		}
	}
	if err := w.Start(bg, kernel.AttemptID{Job: w.job.ID, N: 2}); err == nil || !strings.Contains(err.Error(), gone) {
		t.Errorf("a runner starts: %v", err)
	}
}
