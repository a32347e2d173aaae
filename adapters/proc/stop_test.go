package proc

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

func TestLeftoversOfACommandAreEnded(t *testing.T) {
	// The command stays until the whole tree stands, so that there is a tree.
	w := setup(t, "sh", "-c", `"$@"; while [ ! -e go ]; do sleep 0.01; done`, "sh")
	w.job.Spec.Task.Args = append(w.job.Spec.Task.Args, as(farthest(), "parent", "sleeper", "stubborn")...)
	begun := func(s string) (all []process) {
		for line := range strings.Lines(w.log("stdout")) {
			if word, pid, _ := strings.Cut(strings.TrimSpace(line), " "); word == s {
				all = append(all, mustPID(t, pid))
			}
		}
		return all
	}
	done := make(chan kernel.Result, 1)
	go func() { done <- w.Run(bg, &w.job) }()
	for _, s := range []string{"parent ", "sleeper ", "stubborn "} {
		w.said(s)
	}
	tree := slices.Concat(begun("parent"), begun("sleeper"), begun("stubborn"))
	w.file("go", "", 0o600)
	wantResult(t, <-done, kernel.OutcomeSucceeded, 0, kernel.NoFailure, "")
	for _, p := range tree {
		// A zombie is another process's to reap where that is not the runner.
		if now, there := readProcess(p.pid); there && now.start == p.start && (adoptsOrphans || !now.zombie) {
			t.Errorf("process %d of %d is still there: %+v", p.pid, len(tree), now)
		}
	}
}

func TestLeftoversAreNotTheRunnersACommandStarted(t *testing.T) {
	inner := setup(t, "sh", "-c", "echo inner; while [ ! -e go ]; do sleep 0.01; done")
	outer := &world{Local: newLocal(inner.root), t: t, root: inner.root, job: inner.job}
	outer.job.ID = "f" + inner.job.ID[1:]
	if err := os.MkdirAll(layout(outer.root).dir(outer.job.ID)+"/attempts", 0o700); err != nil {
		t.Fatal(err)
	}
	a := inner.job.Attempt()
	if err := writeGob(jobFile(inner.root, a.Job), inner.job.Spec.Task); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = inner.Sweep(context.Background(), a) })
	outer.job.Spec.Task.Args = as("submit", label(a))
	o := outer.launch()
	wantResult(t, outer.outcome(o), kernel.OutcomeSucceeded, 0, kernel.NoFailure, "")
	inner.said("inner")
	if err := outer.Sweep(bg, o); err != nil { // nothing of the outer job is in it
		t.Fatal(err)
	}
	if inner.liveness(a) != kernel.Alive {
		t.Fatal("the inner job's runner was ended with the outer job")
	}
	inner.file("go", "", 0o600)
	wantResult(t, inner.outcome(a), kernel.OutcomeSucceeded, 0, kernel.NoFailure, "")
}

func TestStopEndsTheCommandThroughItsRunner(t *testing.T) {
	for _, frozen := range []bool{false, true} {
		w := setup(t, as("polite")...)
		a := w.launch()
		command := mustPID(t, w.said("polite "))
		runner, _ := w.claim(a).process()
		if frozen {
			runner.signal(syscall.SIGSTOP)
		}
		if err := w.Stop(bg, a); err != nil {
			t.Fatal(err)
		}
		wantResult(t, w.outcome(a), kernel.OutcomeFailed, 143, kernel.Signal, "cancelled by tester")
		w.eventually("its end", func() bool { return w.liveness(a) == kernel.Dead && !alive(command) && !alive(runner) })
		if err := w.Stop(bg, a); err != nil {
			t.Fatalf("stopping what has ended: %v", err)
		}
	}
}

func TestStopSweepsWhatADeadRunnerLeft(t *testing.T) {
	w := setup(t, as("parent", "stubborn")...)
	a := w.launch()
	left := mustPID(t, w.said("stubborn "))
	w.said("parent ")
	runner, _ := w.claim(a).process()
	runner.signal(syscall.SIGKILL)
	w.eventually("runner dead", func() bool { return w.liveness(a) == kernel.Dead })
	if err := w.Stop(bg, a); err != nil || alive(left) {
		t.Fatalf("left running: %v, error %v", alive(left), err)
	}
}

func TestSweepEndsARunnerThatHoldsTheLock(t *testing.T) {
	w := setup(t, "sh", "-c", `"$@"; exec sleep 600`, "sh")
	w.job.Spec.Task.Args = append(w.job.Spec.Task.Args, as(farthest(), "parent", "stubborn")...)
	a := w.launch()
	// Nothing but its ancestry tells that it is of this job, where that can tell.
	hidden := mustPID(t, w.said("stubborn "))
	runner, _ := w.claim(a).process()
	if err := w.Sweep(bg, a); err != nil {
		t.Fatal(err)
	}
	if alive(runner) || alive(hidden) || w.liveness(a) != kernel.Dead {
		t.Fatalf("runner alive: %v, command alive: %v", alive(runner), alive(hidden))
	}
}

// Enforce ends a stopped runner with its command. It leaves alone a runner that
// has taken note of its command's end, one elsewhere, and what nobody has claimed.
func TestEnforce(t *testing.T) {
	w := setup(t, as("polite")...)
	if ended, err := w.Enforce(bg, w.job.Attempt()); ended || err != nil {
		t.Fatalf("nobody has claimed it: %v %v", ended, err)
	}
	a := w.launch()
	command := mustPID(t, w.said("polite "))
	runner, _ := w.claim(a).process()
	runner.signal(syscall.SIGSTOP)
	path := layout(w.root).ClaimFile(a)
	was := w.claim(a)
	for name, change := range map[string]func(*claim){
		"in another pid namespace": func(c *claim) { c.Spaces.PID = "pid:[1]" },
		"of another boot":          func(c *claim) { c.Boot, c.Child.Boot = "other", "other" },
		"whose command is reaped":  func(c *claim) { c.Child.Start++ },
	} {
		c := was
		child := *was.Child
		c.Child = &child
		change(&c)
		if err := os.WriteFile(path, c.encode(), 0o600); err != nil {
			t.Fatal(err)
		}
		if ended, err := w.Enforce(bg, a); ended || err != nil || !alive(command) || !alive(runner) {
			t.Fatalf("a runner %s: ended %v, %v", name, ended, err)
		}
		if name != "in another pid namespace" {
			continue
		}
		if err := w.Sweep(bg, a); err == nil || !strings.HasSuffix(err.Error(), ": it ran in another pid namespace and can only be ended there") || !alive(command) {
			t.Fatalf("swept: %v", err)
		}
	}
	if err := os.WriteFile(path, was.encode(), 0o600); err != nil {
		t.Fatal(err)
	}
	if ended, err := w.Enforce(bg, a); !ended || err != nil || alive(command) || alive(runner) || w.liveness(a) != kernel.Dead {
		t.Fatalf("ended %v, %v; command alive %v, runner alive %v", ended, err, alive(command), alive(runner))
	}
}

func TestSweepKnowsTheSessionOfADeadRunnersCommand(t *testing.T) {
	w := setup(t, as("scrubbed", "stubborn")...)
	a := w.launch()
	left := mustPID(t, w.said("stubborn "))
	c := w.claim(a)
	runner, _ := c.process()
	runner.signal(syscall.SIGKILL)
	w.eventually("command dead", func() bool { return !c.Child.Running() })
	if !alive(left) || left.env(envAttemptID) != "" {
		t.Fatal("this test needs a survivor whose environment says nothing")
	}
	if err := w.Sweep(bg, a); err != nil || alive(left) {
		t.Fatalf("left running: %v, error %v", alive(left), err)
	}
}

// remains are a process of an attempt, and one that no signal reaches. now waits until the first has stopped or ended.
func remains(t *testing.T) (p process, now func() syscall.WaitStatus, unreached process) {
	t.Helper()
	cmd := exec.Command(as("bystander")[0], "bystander")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = cmd.Process.Kill(), cmd.Wait() })
	p, _ = readProcess(cmd.Process.Pid)
	return p, func() (ws syscall.WaitStatus) {
		_, _ = syscall.Wait4(p.pid, &ws, syscall.WUNTRACED, nil)
		return ws
	}, process{pid: 1 << 30, start: 1}
}

// A runner is stopped as long as processes of its attempt are left, and killed when there are none. It is over when
// two looks in a row have found nothing.
func TestSweepKillsARunnerLast(t *testing.T) {
	runner, now, other := remains(t)
	looks := 0
	err := endAll(bg, time.Hour, func(before []process) (*process, []process) {
		looks++
		var want []process
		defer func() {
			if !slices.Equal(before, want) {
				t.Errorf("look %d knows of %+v, want %+v", looks, before, want)
			}
		}()
		switch looks {
		case 2:
			return &runner, []process{other}
		case 3:
			want = []process{other, runner}
			if ws := now(); !ws.Stopped() {
				t.Errorf("the runner is not stopped, but %v", ws)
			}
			return &runner, nil
		case 4:
			want = []process{runner}
			if ws := now(); ws.Signal() != syscall.SIGKILL {
				t.Errorf("the runner is not killed, but %v", ws)
			}
		case 5:
			return nil, []process{other}
		case 6:
			want = []process{other}
		}
		return nil, nil
	})
	if err != nil || looks != 7 {
		t.Errorf("after %d looks: %v", looks, err)
	}
}

// What does not end is told of with its number, and a sweep can be called off. The runner is not left stopped.
func TestSweepOfWhatDoesNotEnd(t *testing.T) {
	off, stop := context.WithCancel(bg)
	stop()
	for name, c := range map[string]struct {
		ctx      context.Context
		patience time.Duration
		says     string
	}{
		"too late":   {bg, 0, "2 processes do not end, one of them with pid "},
		"called off": {off, time.Hour, context.Canceled.Error()},
	} {
		runner, now, other := remains(t)
		if c.ctx == bg {
			c.says += strconv.Itoa(other.pid)
		}
		err := endAll(c.ctx, c.patience, func([]process) (*process, []process) { return &runner, []process{other} })
		if err == nil || err.Error() != c.says {
			t.Errorf("%s: %v", name, err)
		}
		if ws := now(); ws.Signal() != syscall.SIGKILL {
			t.Errorf("%s: the runner has not been killed, but is %v", name, ws)
		}
	}
	w := setup(t)
	a := w.job.Attempt()
	w.forge(a, claim{Identity: Identity{Host: here().Host, Boot: here().Boot, PID: 1 << 30, Start: 1}})
	if err := w.Sweep(off, a); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "sweep "+label(a)) {
		t.Errorf("a sweep that is called off: %v", err)
	}
}

// bystander returns a process in its own session that no attempt has to do
// with. It is unharmed if it got no signal so far.
func bystander(t *testing.T) (p process, unharmed func() bool) {
	t.Helper()
	cmd := exec.Command(as("bystander")[0], "bystander")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err == nil {
		_, err = bufio.NewReader(out).ReadString('\n')
	}
	if err != nil {
		t.Fatal(err)
	}
	p, _ = readProcess(cmd.Process.Pid)
	return p, func() bool {
		_ = cmd.Process.Signal(syscall.SIGUSR1)
		_ = cmd.Wait()
		return cmd.ProcessState.ExitCode() == 42
	}
}

func TestNoSignalForAReusedPID(t *testing.T) { // U23
	for name, end := range map[string]func(*world, process){
		"stop":  func(w *world, _ process) { must(t, w.Stop(bg, w.job.Attempt())) },
		"sweep": func(w *world, _ process) { must(t, w.Sweep(bg, w.job.Attempt())) },
		"signal": func(_ *world, p process) {
			p.start--
			p.signal(syscall.SIGKILL)
		},
	} {
		w := setup(t)
		p, unharmed := bystander(t)
		lock, err := w.Acquire(w.job.Attempt())
		must(t, err)
		was := Identity{Host: here().Host, Boot: here().Boot, PID: p.pid, Start: p.start - 1}
		if was.Running() || !Identify(p.pid).Running() {
			t.Error("a pid alone makes a process")
		}
		w.forge(w.job.Attempt(), claim{Identity: was})
		end(w, p)
		gone := was
		gone.PID = 1 << 30
		w.forge(w.job.Attempt(), claim{Identity: gone, Child: &was})
		end(w, p)
		if !unharmed() {
			t.Errorf("%s: a process was signalled that only has the pid of another", name)
		}
		must(t, lock.Close())
	}
}

func TestNoSignalForARunnerThatHasGoneOn(t *testing.T) {
	w := setup(t)
	a := w.job.Attempt()
	must(t, os.WriteFile(w.Files.LockFile(a.Job), []byte("1\n"), 0o600))
	for name, end := range map[string]func(context.Context, kernel.AttemptID) error{"stop": w.Stop, "sweep": w.Sweep} {
		p, unharmed := bystander(t)
		w.forge(a, claim{Identity: Identify(p.pid)}) // runs another job's attempt by now
		must(t, end(bg, a))
		if !unharmed() {
			t.Errorf("%s: the runner was signalled", name)
		}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Nothing is to be stopped of an attempt that nobody has claimed, or whose claim another's runner left.
func TestStopOfWhatHasNotBegun(t *testing.T) {
	w := setup(t)
	a := w.job.Attempt()
	for name, end := range map[string]func(context.Context, kernel.AttemptID) error{"stop": w.Stop, "sweep": w.Sweep} {
		if err := end(bg, a); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSweepOfWhatIsNotHere(t *testing.T) {
	w := setup(t)
	a := w.job.Attempt()
	if err := w.Sweep(bg, a); err != nil { // never claimed
		t.Fatal(err)
	}
	w.forge(a, claim{Identity: Identity{Host: here().Host, Boot: "another", PID: 1, Start: 1}})
	if err := w.Sweep(bg, a); err != nil { // before the last boot
		t.Fatal(err)
	}
	w.forge(a, claim{Identity: Identity{Host: "elsewhere", Boot: "another", PID: 1, Start: 1}})
	if err := w.Sweep(bg, a); err == nil || !strings.Contains(err.Error(), "elsewhere") {
		t.Fatalf("error %v", err)
	}
	w.file("jobs/"+string(a.Job)+"/attempts/1.json", "{torn", 0o600)
	if err := w.Sweep(bg, a); err != nil {
		t.Fatal(err)
	}
	if err := w.Stop(bg, a); err == nil {
		t.Fatal("a claim that makes no sense can be stopped")
	}
}

// A repository copied with its jobs is full of claims of the original's.
func TestNoSignalFromACopyOfTheRepository(t *testing.T) {
	w := setup(t, as("sleeper")...)
	a := w.launch()
	command := mustPID(t, w.said("sleeper "))
	w.claim(a)
	to := newLocal(t.TempDir())
	if err := os.CopyFS(to.Root, os.DirFS(w.root)); err != nil {
		t.Fatal(err)
	}
	for _, end := range []func(context.Context, kernel.AttemptID) error{to.Stop, to.Sweep} {
		if err := end(bg, a); err != nil {
			t.Fatal(err)
		}
	}
	if !alive(command) || w.liveness(a) != kernel.Alive {
		t.Fatal("the original's job was ended")
	}
}
