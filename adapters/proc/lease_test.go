package proc

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/internal/sys"
	"github.com/vizier-scheduler/vizier/kernel"
)

// The liveness for every combination of lock, claim and sign of life
// (systems-and-unification 4.5).
func TestLivenessByLockAndLease(t *testing.T) {
	const old = 10 * time.Minute
	other := func(host, boot string) *Identity { return &Identity{Host: host, Boot: boot, PID: 1, Start: 1} }
	own := &Identity{Host: here().Host, Boot: here().Boot, PID: 1, Start: 1}
	for _, c := range []struct {
		name    string
		held    bool          // the job's lock
		started *Identity     // by whom, as the lock file says; nil: it says nothing of this attempt
		claim   *Identity     // nil: none
		age     time.Duration // of lock file and claim
		beat    time.Duration // age of the heartbeat; 0: none
		locks   bool          // locks of other hosts are seen
		want    kernel.Liveness
	}{
		{name: "never started", want: kernel.Dead},
		{name: "being started", held: true, started: own, want: kernel.Alive},
		{name: "an earlier one about to let go", held: true, want: kernel.Alive},
		{name: "ended before its claim", started: own, want: kernel.NeverStarted},
		{name: "ended before its claim, and then a reboot", started: other(here().Host, "before"), want: kernel.Dead},
		{name: "works", held: true, started: own, claim: own, want: kernel.Alive},
		{name: "works for long", held: true, started: own, claim: own, age: old, beat: time.Second, want: kernel.Alive},
		{name: "paused", held: true, started: own, claim: own, age: old, beat: old, want: kernel.Stalled},
		{name: "paused before its first heartbeat", held: true, started: own, claim: own, age: old, want: kernel.Stalled},
		{name: "gone", started: own, claim: own, beat: time.Second, want: kernel.Dead},
		{name: "from before the last boot", held: true, claim: other(here().Host, "before"), want: kernel.Dead},
		{name: "elsewhere, being started", started: other("far", "there"), want: kernel.Alive},
		{name: "elsewhere, never claimed", started: other("far", "there"), age: old, want: kernel.Dead},
		{name: "elsewhere", claim: other("far", "there"), want: kernel.Alive},
		{name: "elsewhere, held", held: true, claim: other("far", "there"), want: kernel.Alive},
		{name: "elsewhere, for long", claim: other("far", "there"), age: old, beat: time.Second, want: kernel.Alive},
		{name: "works, and the clock has stepped back", held: true, started: own, claim: own, beat: -old, want: kernel.Alive},
		{name: "elsewhere, and the clock has stepped back", claim: other("far", "there"), age: -old, beat: -old, want: kernel.Alive},
		{name: "elsewhere, silent", claim: other("far", "there"), age: old, beat: old, want: kernel.Dead},
		{name: "elsewhere, silent, held", held: true, claim: other("far", "there"), age: old, beat: old, want: kernel.Dead},
		{name: "elsewhere, its lock free and seen", claim: other("far", "there"), locks: true, want: kernel.Dead},
		{name: "elsewhere, its lock held and seen", held: true, claim: other("far", "there"), locks: true, want: kernel.Alive},
		{name: "in another container of this machine", held: true, claim: other("far", here().Boot), want: kernel.Alive},
		{name: "in another container, gone", claim: other("far", here().Boot), want: kernel.Dead},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := setup(t)
			w.Lease.Locks = c.locks
			a := w.job.Attempt()
			lock, err := openLock(w.Files.LockFile(a.Job))
			if err != nil {
				t.Fatal(err)
			}
			defer lock.Close()
			if c.held {
				if ok, err := sys.TryLock(lock); !ok || err != nil {
					t.Fatal(err)
				}
			}
			text := "" // of an earlier attempt, which was another's
			if c.started != nil {
				text = strconv.Itoa(a.N) + "\n" + c.started.Boot + "\n" + c.started.Host + "\n"
			}
			if _, err := lock.WriteString(text); err != nil {
				t.Fatal(err)
			}
			aged := func(path string, by time.Duration) {
				at := time.Now().Add(-by)
				if err := os.Chtimes(path, at, at); err != nil {
					t.Fatal(err)
				}
			}
			aged(lock.Name(), c.age)
			if c.claim != nil {
				w.forge(a, claim{Identity: *c.claim})
				aged(w.Files.ClaimFile(a), c.age)
			}
			if c.beat != 0 {
				if err := w.Beat(a); err != nil {
					t.Fatal(err)
				}
				aged(w.Files.HeartbeatFile(a), c.beat)
			}
			f := w.Alive(bg, []kernel.AttemptID{a})[a]
			if !f.Known || f.Value.Liveness != c.want {
				t.Errorf("%+v, want %v", f, c.want)
			}
			if far := strings.HasPrefix(c.name, "elsewhere") && !c.locks; far && !strings.Contains(f.Value.Remark, "host far") {
				t.Errorf("it does not say where: %+v", f.Value)
			}
		})
	}
}

// Of a runner that somebody has stopped it is said how it continues.
func TestAStoppedRunner(t *testing.T) {
	w := setup(t)
	a := w.job.Attempt()
	lock, err := openLock(w.Files.LockFile(a.Job))
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if ok, err := sys.TryLock(lock); !ok || err != nil {
		t.Fatal(err)
	}
	runner := exec.Command("sleep", "600")
	if err := runner.Start(); err != nil {
		t.Fatal(err)
	}
	defer runner.Wait() //nolint:errcheck // it is killed
	defer runner.Process.Kill()
	w.forge(a, claim{Identity: Identify(runner.Process.Pid)})
	at := time.Now().Add(-time.Hour)
	if err := errors.Join(os.Chtimes(lock.Name(), at, at), os.Chtimes(w.Files.ClaimFile(a), at, at)); err != nil {
		t.Fatal(err)
	}
	next := fmt.Sprintf("its runner (pid %d) is stopped, as by SIGSTOP or a debugger: `kill -CONT %d` lets it continue", runner.Process.Pid, runner.Process.Pid)
	is := func(stopped bool) bool {
		r := w.Alive(bg, []kernel.AttemptID{a})[a].Value
		return r.Liveness == kernel.Stalled && r.Stuck == stopped && strings.Contains(r.Remark, next) == stopped
	}
	for _, c := range []struct {
		signal  syscall.Signal
		stopped bool
	}{{syscall.SIGSTOP, true}, {syscall.SIGCONT, false}} {
		if err := runner.Process.Signal(c.signal); err != nil {
			t.Fatal(err)
		}
		for end := time.Now().Add(10 * time.Second); !is(c.stopped); time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("after %v: %+v", c.signal, w.Alive(bg, []kernel.AttemptID{a})[a])
			}
		}
	}
}

// A heartbeat renews the lease, however often and however late.
func TestBeat(t *testing.T) {
	w := setup(t)
	a := w.job.Attempt()
	w.forge(a, claim{Identity: Identity{Host: "far", Boot: "there", PID: 1, Start: 1}})
	long := time.Now().Add(-time.Hour)
	for range 3 {
		err := os.Chtimes(w.Files.ClaimFile(a), long, long)
		if err == nil {
			if err = os.Chtimes(w.Files.HeartbeatFile(a), long, long); errors.Is(err, os.ErrNotExist) {
				err = nil
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := w.liveness(a); got != kernel.Dead {
			t.Fatalf("silent for an hour: %v", got)
		}
		if err := w.Beat(a); err != nil {
			t.Fatal(err)
		}
		if got := w.liveness(a); got != kernel.Alive {
			t.Fatalf("after a heartbeat: %v", got)
		}
	}
	for _, path := range []string{w.Files.ClaimFile(a), w.Files.HeartbeatFile(a)} {
		if err := os.Chtimes(path, long, long); err != nil {
			t.Fatal(err)
		}
	}
	next := kernel.AttemptID{Job: a.Job, N: a.N + 1}
	if err := w.Beat(next); err != nil {
		t.Fatal(err)
	}
	if got := w.liveness(a); got != kernel.Dead {
		t.Errorf("after a heartbeat of another attempt: %v", got)
	}
	if err := os.Remove(w.Files.HeartbeatFile(next)); err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(layout(w.root).dir(a.Job) + "/attempts"); len(left) != 2 {
		t.Errorf("more than a claim and a heartbeat: %v", left)
	}
}

// A lease that cannot be read does not say that the runner is dead.
func TestALeaseThatCannotBeRead(t *testing.T) {
	w := setup(t)
	a := w.job.Attempt()
	w.forge(a, claim{Identity: Identity{Host: "far", Boot: "there", PID: 1, Start: 1}})
	if err := os.Mkdir(w.Files.LockFile(a.Job), 0o700); err != nil {
		t.Fatal(err)
	}
	if f := w.Alive(bg, []kernel.AttemptID{a})[a]; f.Known && f.Value.Liveness == kernel.Dead {
		t.Errorf("%+v", f)
	}
}

// Without a file there the clock of a directory's file system cannot be told; it is not zero.
func TestTheClockOfADirectory(t *testing.T) {
	dir := t.TempDir()
	info, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	if now, err := clockOf(dir); err != nil || now.Before(info.ModTime()) {
		t.Errorf("%v, %v", now, err)
	}
	if left, err := os.ReadDir(dir); len(left) > 0 || err != nil {
		t.Errorf("%v is left, %v", left, err)
	}
	if _, err := clockOf(filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("of no directory: %v", err)
	}
}

// Without a sign of life nothing is known of a lease, and neither is it where the clock cannot be told.
func TestALeaseWithoutASign(t *testing.T) {
	w := setup(t)
	a := w.job.Attempt()
	none := filepath.Join(t.TempDir(), "none", "sign")
	if at, err := w.lastSign(a, none); !errors.Is(err, os.ErrNotExist) || !at.IsZero() {
		t.Errorf("no sign at all: %v, %v", at, err)
	}
	if r, err := w.leaseLiveness(a, "far", none); !errors.Is(err, os.ErrNotExist) || r != (kernel.Runner{}) {
		t.Errorf("no sign at all: %+v, %v", r, err)
	}
	w.forge(a, claim{})
	must(t, w.Beat(a))
	at, err := w.lastSign(a, none)
	if err != nil || time.Since(at).Abs() > time.Minute {
		t.Errorf("a heartbeat alone: %v, %v", at, err)
	}
	if r, err := w.leaseLiveness(a, "far", none); err != nil || r.Liveness != kernel.Alive || r.Remark != "on host far" {
		t.Errorf("a heartbeat alone: %+v, %v", r, err)
	}
	long := time.Now().Add(-time.Hour)
	must(t, os.Chtimes(w.Files.HeartbeatFile(a), long, long))
	if r, err := w.leaseLiveness(a, "far", none); !errors.Is(err, os.ErrNotExist) || r != (kernel.Runner{}) {
		t.Errorf("an old one, and no clock: %+v, %v", r, err)
	}
}

// What the lock file says of another attempt says nothing of this one.
func TestTheLockFileOfAnotherAttempt(t *testing.T) {
	w := setup(t)
	a := w.job.Attempt()
	own := "\n" + here().Boot + "\n" + here().Host + "\n"
	for n, want := range map[int]kernel.Liveness{a.N: kernel.NeverStarted, a.N + 1: kernel.Dead, a.N - 1: kernel.Dead} {
		if err := os.WriteFile(w.Files.LockFile(a.Job), []byte(strconv.Itoa(n)+own), 0o600); err != nil {
			t.Fatal(err)
		}
		if f := w.Alive(bg, []kernel.AttemptID{a})[a]; !f.Known || f.Value.Liveness != want {
			t.Errorf("attempt %d, where the lock names %d: %+v, want %v", a.N, n, f, want)
		}
	}
}

// A lock file that was removed or replaced while its job runs says nothing: the process decides, and a stop reaches
// it. After the end of its command it counts as alive for the time of a lease.
func TestALockFileThatWasReplaced(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux tells where a process works")
	}
	w := setup(t, as("polite")...)
	a := w.launch()
	mustPID(t, w.said("polite "))
	is, lock, long := w.claim(a), w.Files.LockFile(a.Job), time.Now().Add(-2*DefaultLease)
	must(t, os.Remove(lock))
	if got := w.liveness(a); got != kernel.Alive {
		t.Errorf("without its lock file it is %v", got)
	}
	must(t, os.WriteFile(lock, nil, 0o600))
	for what, c := range map[string]struct {
		change func(*claim)
		silent bool
		want   kernel.Liveness
	}{
		"it runs, and was silent for long": {func(*claim) {}, true, kernel.Stalled},
		"it runs":                          {func(*claim) {}, false, kernel.Alive},
		"its command has ended just now":   {func(c *claim) { c.Child.Start++ }, false, kernel.Alive},
		"its command ended long ago":       {func(c *claim) { c.Child.Start++ }, true, kernel.Dead},
		"its runner is gone":               {func(c *claim) { c.Start++ }, false, kernel.Dead},
		"it ran in another namespace":      {func(c *claim) { c.Spaces.PID = "pid:[1]" }, false, kernel.Dead},
		"the claim knows no lock":          {func(c *claim) { c.Lock = inode{} }, false, kernel.Dead},
	} {
		forged, child := is, *is.Child
		forged.Child = &child
		c.change(&forged)
		temp, err := writeClaim(w.Files.ClaimFile(a), forged)
		must(t, errors.Join(err, os.Rename(temp, w.Files.ClaimFile(a))))
		if c.silent {
			must(t, os.Chtimes(w.Files.ClaimFile(a), long, long))
			_ = os.Chtimes(w.Files.HeartbeatFile(a), long, long) // there may be none
		}
		if got := w.liveness(a); got != c.want {
			t.Errorf("%s: it is %v, want %v", what, got, c.want)
		}
	}
	temp, err := writeClaim(w.Files.ClaimFile(a), is)
	must(t, errors.Join(err, os.Rename(temp, w.Files.ClaimFile(a)), w.Stop(bg, a)))
	wantResult(t, w.outcome(a), kernel.OutcomeFailed, 143, kernel.Signal, "cancelled by tester")
}
