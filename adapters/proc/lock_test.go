package proc

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vizier-scheduler/vizier/internal/sys"
	"github.com/vizier-scheduler/vizier/kernel"
)

func TestOneClaimOfMany(t *testing.T) {
	w := setup(t)
	a := w.job.Attempt()
	if err := os.Remove(filepath.Dir(w.Files.ClaimFile(a))); err != nil {
		t.Fatal(err)
	}
	var won, stale atomic.Int32
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			switch err := newLocal(w.root).Claim(a); {
			case err == nil:
				won.Add(1)
			case errors.Is(err, kernel.ErrStale):
				stale.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	all.Wait()
	if won.Load() != 1 || stale.Load() != 19 {
		t.Fatalf("%d won, %d were told they are stale", won.Load(), stale.Load())
	}
	if c, err := readClaim(w.Files.ClaimFile(a)); err != nil || c.Identity != Self() {
		t.Fatalf("claim %+v, error %v", c, err)
	}
	if files, _ := os.ReadDir(filepath.Dir(w.Files.ClaimFile(a))); len(files) != 1 {
		t.Fatalf("left behind: %v", files)
	}
	if err := (&Local{Files: w.Files}).Claim(kernel.AttemptID{Job: a.Job, N: 2}); err != nil {
		t.Fatal(err)
	}
}

func TestClaimWithACommandCutOff(t *testing.T) {
	w := setup(t)
	a := w.job.Attempt()
	if err := w.Claim(a); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(w.Files.ClaimFile(a))
	if err != nil {
		t.Fatal(err)
	}
	w.claimChild(a, Identify(os.Getpid()))
	both, err := os.ReadFile(w.Files.ClaimFile(a))
	if err != nil {
		t.Fatal(err)
	}
	if !json.Valid(whole) || !json.Valid(both) || len(whole) != len(both) {
		t.Fatalf("not one JSON value of one length each:\n%s%s", whole, both)
	}
	for n := range len(both) + 1 {
		if err := os.WriteFile(w.Files.ClaimFile(a), slices.Concat(both[:n], whole[n:]), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := readClaim(w.Files.ClaimFile(a))
		if err != nil || c.Identity != Self() || c.Child != nil && *c.Child != Self() || n == len(both) && c.Child == nil {
			t.Fatalf("%d of %d bytes: %+v, error %v", n, len(both), c, err)
		}
	}
}

// Claims on record were written as two values, a line each.
func TestClaimsOfBefore(t *testing.T) {
	const runner = `{"host":"h","boot":"b","pid":12,"start":345,"lock":{"dev":1,"ino":2}}` + "\n"
	for text, child := range map[string]int{runner: 0, runner + `{"child":{"host":"h","boot":"b","pid":13,"start":400}}` + "\n": 13, runner + `{"child":{"ho`: 0} {
		c, err := decodeClaim("x", []byte(text))
		if err != nil || c.PID != 12 || c.Lock.Ino != 2 || (c.Child == nil) != (child == 0) || c.Child != nil && c.Child.PID != child {
			t.Errorf("%s: %+v, error %v", text, c, err)
		}
	}
}

// A claim names directories to the byte: a sweep removes them by these names.
func TestAClaimKeepsTheBytesOfItsPaths(t *testing.T) {
	was := claim{Identity: Self(), Private: "/run/caf\xe9", Temporary: "/tmp/\xff\u00e9"}
	if c, err := decodeClaim("x", was.encode()); err != nil || c.Private != was.Private || c.Temporary != was.Temporary {
		t.Errorf("%+v, error %v", c, err)
	}
}

func TestAcquire(t *testing.T) {
	w := setup(t)
	other := newLocal(w.root)
	first := w.job.Attempt()
	second := kernel.AttemptID{Job: first.Job, N: 2}
	lock, err := w.Acquire(first)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Acquire(second); !errors.Is(err, kernel.ErrConflict) {
		t.Fatalf("a second process takes a held lock: %v", err)
	}
	if _, err := w.Acquire(first); !errors.Is(err, kernel.ErrConflict) {
		t.Fatalf("the same attempt twice: %v", err)
	}
	next, err := w.Acquire(second) // goes on with the next attempt
	if err != nil {
		t.Fatal(err)
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	if w.liveness(second) != kernel.Alive {
		t.Fatal("closing the earlier handle let go of the lock")
	}
	if err := errors.Join(next.Close(), next.Close()); err != nil {
		t.Fatal(err)
	}
	if w.liveness(second) != kernel.NeverStarted {
		t.Fatal("held after Close, though never claimed")
	}
	third, err := other.Acquire(second)
	if err != nil {
		t.Fatal(err)
	}
	_ = third.Close()
}

func TestStartHandsOverTheLockOfAnEarlierAttempt(t *testing.T) {
	w := setup(t, as("sleeper")...)
	lock, err := w.Acquire(w.job.Attempt())
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Start(bg, w.job.Attempt()); err != nil { // it is this process that runs it
		t.Fatal(err)
	}
	if _, err := os.Stat(w.Files.ClaimFile(w.job.Attempt())); err == nil {
		t.Fatal("an attempt that this process runs was started again")
	}
	w.job.State.Attempt = 2
	a := w.launch()
	w.said("sleeper")
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	if w.liveness(a) != kernel.Alive {
		t.Fatal("closing the earlier handle let go of the successor's lock")
	}
	runner, _ := w.claim(a).process()
	_ = w.Sweep(bg, a)
	w.eventually("dead", func() bool { return w.liveness(a) == kernel.Dead && !alive(runner) })
}

func TestStartWaitsForTheRunnerOfAnEarlierAttempt(t *testing.T) {
	w := setup(t, "true")
	lock, err := newLocal(w.root).Acquire(w.job.Attempt())
	if err != nil {
		t.Fatal(err)
	}
	w.job.State.Attempt = 2
	if err := w.Start(bg, w.job.Attempt()); err == nil {
		t.Fatal("an attempt nobody will run counts as started")
	}
	var closing sync.WaitGroup
	closing.Go(func() { _ = lock.Close() })
	wantResult(t, w.outcome(w.launch()), kernel.OutcomeSucceeded, 0, kernel.NoFailure, "")
	closing.Wait()
}

func TestInheritedRefusesWhatIsNotTheLock(t *testing.T) {
	w := setup(t)
	a := w.job.Attempt()
	if _, err := w.Inherited(a); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("no lock file: %v", err)
	}
	if err := os.WriteFile(w.Files.LockFile(a.Job), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Inherited(a); !errors.Is(err, kernel.ErrInvalid) {
		t.Fatalf("no inherited lock: %v", err)
	}
}

func TestParseAttempt(t *testing.T) {
	a := kernel.AttemptID{Job: "0123456789abcdef0123456789abcdef", N: 12}
	if got, err := ParseAttempt(label(a)); err != nil || got != a {
		t.Fatalf("%v, %v", got, err)
	}
	for _, bad := range []string{"", "/1", string(a.Job), string(a.Job) + "/0", string(a.Job) + "/-1", string(a.Job) + "/x", "../../x/1", label(a) + "/2"} {
		if _, err := ParseAttempt(bad); !errors.Is(err, kernel.ErrInvalid) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestALookerIsNoHolder(t *testing.T) {
	w := setup(t)
	path := w.Files.LockFile(w.job.ID)
	looker, err := openLock(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Flock(int(looker.Fd()), unix.LOCK_SH); err != nil {
		t.Fatal(err)
	}
	if held, err := locked(path); held || err != nil {
		t.Fatalf("two lookers: held %v, error %v", held, err)
	}
	f, err := openLock(path)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := sys.TryLock(f); got || err == nil {
		t.Fatalf("a looker passed for a runner, or was overrun: %v, %v", got, err)
	}
	_ = looker.Close()
	if got, err := sys.TryLock(f); !got || err != nil {
		t.Fatalf("free, and not taken: %v", err)
	}
	_ = f.Close()
}

// TryLock takes a lock that is free, and no other, whoever holds that.
func TestTryLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	if _, err := TryLock(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is missing: %v", err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := TryLock(path)
	if err != nil {
		t.Fatal(err)
	}
	if held, err := Locked(path); !held || err != nil {
		t.Errorf("taken, and not held: %v", err)
	}
	if g, err := TryLock(path); !errors.Is(err, kernel.ErrConflict) || g != nil {
		t.Errorf("taken twice: %v", err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if g, err := TryLock(path); err != nil || g.Close() != nil {
		t.Errorf("let go of, and not to be had: %v", err)
	}
}

// No child of a runner inherits its job's lock, whoever starts it: what that
// leaves running would pass for the runner.
func TestNobodyInheritsTheLockOfARunner(t *testing.T) {
	w := setup(t, "sh", "-c", "ls -l /proc/self/fd/ && echo listed")
	a := w.launch()
	wantResult(t, w.outcome(a), kernel.OutcomeSucceeded, 0, kernel.NoFailure, "")
	if open := w.log("stdout"); !strings.Contains(open, "stdout.log") || !strings.Contains(open, "listed") || strings.Contains(open, "job.lock") {
		t.Errorf("the command has open\n%s", open)
	}
	f, err := TryLock(w.Files.LockFile(a.Job))
	for end := time.Now().Add(time.Minute); errors.Is(err, kernel.ErrConflict) && time.Now().Before(end); f, err = TryLock(w.Files.LockFile(a.Job)) {
		time.Sleep(time.Millisecond) // until the runner is gone
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	heir := as("heir", w.root, label(a))
	c := exec.Command(heir[0], heir[1:]...)
	c.ExtraFiles = []*os.File{f}
	if open, err := c.CombinedOutput(); err != nil || !strings.Contains(string(open), " 1 -> ") || strings.Contains(string(open), "job.lock") {
		t.Errorf("%v: its child has open\n%s", err, open)
	}
}

// A runner that is through leaves a lock file that takes no room, and its attempt
// is refused to whoever comes late all the same. One that never began leaves what
// says so.
func TestTheLockOfWhatIsOverTakesNoRoom(t *testing.T) {
	w := setup(t)
	a := w.job.Attempt()
	noted := func() int {
		n, _ := notedAttempt(w.Files.LockFile(a.Job))
		return n
	}
	unclaimed, err := w.Acquire(a)
	if err != nil {
		t.Fatal(err)
	}
	if err := unclaimed.Close(); err != nil || noted() != a.N {
		t.Fatalf("not claimed: attempt %d is noted: %v", noted(), err)
	}
	first, err := w.Acquire(a)
	if err == nil {
		err = w.Claim(a)
	}
	if err != nil {
		t.Fatal(err)
	}
	next := kernel.AttemptID{Job: a.Job, N: a.N + 1}
	second, err := w.Acquire(next)
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil || noted() != next.N {
		t.Fatalf("taken over: attempt %d is noted: %v", noted(), err)
	}
	if err := errors.Join(w.Claim(next), second.Close()); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(w.Files.LockFile(a.Job))
	if err != nil || info.Size() != 0 {
		t.Errorf("%d bytes: %v", info.Size(), err)
	}
	late := newLocal(w.root)
	if err := late.Start(t.Context(), next); err != nil || noted() != 0 {
		t.Errorf("started again, attempt %d is noted: %v", noted(), err)
	}
	if err := late.Claim(next); !errors.Is(err, kernel.ErrStale) {
		t.Errorf("claimed again: %v", err)
	}
	if got := w.liveness(next); got != kernel.Dead {
		t.Errorf("its runner is %v", got)
	}
}

// Whoever starts the next attempt goes on as soon as the runner of the one before lets go of the lock.
func TestStartGoesOnOnceTheLockIsFree(t *testing.T) {
	w := setup(t, "true")
	lock, err := newLocal(w.root).Acquire(w.job.Attempt())
	if err != nil {
		t.Fatal(err)
	}
	w.job.State.Attempt = 2
	a := w.job.Attempt()
	ctx := &onAsked{Context: bg, then: func() { _ = lock.Close() }}
	f, err := w.lockFor(ctx, a)
	if err != nil || f == nil || ctx.n != 1 {
		t.Fatalf("%v, %v, after %d looks", f, err, ctx.n)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// onAsked is a context that does something when it is first asked whether it is over.
type onAsked struct {
	context.Context
	then func()
	n    int
}

func (c *onAsked) Err() error {
	if c.n++; c.n == 1 {
		c.then()
	}
	return c.Context.Err()
}

// An attempt that cannot be noted in its lock file is not begun.
func TestALockThatCannotBeWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := noteAttempt(f, kernel.AttemptID{Job: "x", N: 1}); err == nil || !strings.HasPrefix(err.Error(), "job lock: ") {
		t.Error(err)
	}
}
