package watch

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vizier-scheduler/vizier/internal/sys"
	"github.com/vizier-scheduler/vizier/kernel"
)

var soon = kernel.Wakes{At: time.Unix(100, 0)}

func lockPath(t *testing.T) string { return filepath.Join(t.TempDir(), "resident.lock") }

func take(t *testing.T, path string) *LeaderLock {
	t.Helper()
	p, err := Acquire(path)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// woken reports whether Wake woke the holder, and fails if it starts a process.
func woken(t *testing.T, path string, w kernel.Wakes) bool {
	t.Helper()
	before := time.Unix(1, 0)
	if err := os.Chtimes(path, before, before); err != nil {
		t.Fatal(err)
	}
	if err := Wake(path, w, func(*os.File) error { t.Error("started another"); return nil }); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return !info.ModTime().Equal(before)
}

func TestOneHasThePlace(t *testing.T) {
	path := lockPath(t)
	first := take(t, path)
	if second := take(t, path); second != nil {
		t.Fatal("two have it")
	}
	if PID(path) != 0 {
		t.Error("it said nothing yet")
	}
	first.Announce(nil)
	if got := PID(path); got != os.Getpid() || !first.Held() {
		t.Errorf("pid %d, held %v", got, first.Held())
	}
	first.Release()
	if PID(path) != 0 || take(t, path) == nil {
		t.Error("it is taken though nobody has it")
	}
	if first.Reacquire() {
		t.Error("two have it")
	}
}

// A new holder is not announced under the previous holder's process id.
func TestANewHolderSaysNothingOfTheOld(t *testing.T) {
	path := lockPath(t)
	old := take(t, path)
	old.Announce(&soon)
	old.Release()
	var lock *os.File
	err := Wake(path, soon, func(f *os.File) error {
		fd, err := unix.Dup(int(f.Fd())) // what a started process would inherit
		lock = os.NewFile(uintptr(fd), path)
		return err
	})
	if err != nil || lock == nil {
		t.Fatal(err, lock)
	}
	if PID(path) != 0 {
		t.Error("the process that left is named")
	}
	heir := Inherited(path, int(lock.Fd()))
	if heir == nil || !heir.Held() {
		t.Fatal("nothing inherited")
	}
	heir.Announce(&soon)
	if PID(path) != os.Getpid() {
		t.Error("the heir is not named")
	}
}

func TestInheritedIsTheLockFileOrNothing(t *testing.T) {
	path := lockPath(t)
	other, err := os.Create(path + ".other")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	for _, there := range []bool{false, true} {
		if there {
			if err := os.WriteFile(path, []byte("what the last holder said"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if Inherited(path, int(other.Fd())) != nil || Inherited(path, 9999) != nil {
			t.Errorf("any descriptor will do, there is a lock file: %v", there)
		}
	}
	take(t, path)
	if b, err := os.ReadFile(path); len(b) > 0 || err != nil {
		t.Errorf("who takes the lock leaves %q, %v", b, err)
	}
	if p, err := Acquire(filepath.Join(path, "none")); p != nil || err == nil {
		t.Errorf("where there is no directory: %v, %v", p, err)
	}
}

func TestCallsWhoDoesNotKnow(t *testing.T) {
	path := lockPath(t)
	p := take(t, path)
	p.Announce(nil)
	if !woken(t, path, soon) {
		t.Error("not woken while it looks")
	}
	p.Announce(&soon)
	if woken(t, path, soon) {
		t.Error("woken for what it knows")
	}
	if !woken(t, path, kernel.Wakes{}) {
		t.Error("not told that nothing is left")
	}
	if !woken(t, path, kernel.Wakes{At: soon.At.Add(time.Second)}) {
		t.Error("not woken for another time")
	}
}

func TestCallStartsNobodyForNothing(t *testing.T) {
	path := lockPath(t)
	start := func(*os.File) error { t.Error("started"); return nil }
	if err := Wake(path, kernel.Wakes{}, start); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Error("it left a file")
	}
	take(t, path).Release()
	if err := Wake(path, kernel.Wakes{}, start); err != nil {
		t.Error(err)
	}
	no := errors.New("no room")
	if err := Wake(path, soon, func(*os.File) error { return no }); !errors.Is(err, no) {
		t.Errorf("%v", err)
	}
	if take(t, path) == nil {
		t.Error("a start that failed keeps the lock")
	}
}

// Who cannot reach the lock, or wake its holder, says so.
func TestACallThatFails(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none", "resident.lock")
	start := func(*os.File) error { t.Error("started"); return nil }
	if err := Wake(none, soon, start); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("where there is no directory: %v", err)
	}
	if err := Wake(none, kernel.Wakes{}, start); err != nil {
		t.Errorf("for nothing, where there is no directory: %v", err)
	}
	if err := Wake(filepath.Dir(filepath.Dir(none)), kernel.Wakes{}, start); err == nil {
		t.Error("for nothing, where a directory is in the way")
	}
	path := lockPath(t)
	p := take(t, path)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := wakeHolder(p.f, path, soon); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("of a holder whose lock is gone: %v", err)
	}
	if Taken(path) || holderHost(path) != "" {
		t.Error("a lock that is gone is taken")
	}
	if err := p.f.Close(); err != nil {
		t.Fatal(err)
	}
	if p = take(t, path); !Taken(path) || holderHost(path) != "" {
		t.Error("its holder said nothing yet")
	}
	p.Host = "here"
	if p.Announce(nil); holderHost(path) != "here" {
		t.Errorf("held by %q", holderHost(path))
	}
	if p.Release(); Taken(path) || holderHost(path) != "" {
		t.Error("taken though nobody has it")
	}
	if err := p.f.Close(); err != nil || p.Held() || p.Reacquire() {
		t.Errorf("%v, and a lock that is closed is held", err)
	}
}

// Wake with nothing to look after does not take the lock even briefly: another
// caller would assume that there is a holder.
func TestACallForNothingTakesNothing(t *testing.T) {
	path := lockPath(t)
	take(t, path).Release()
	done, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		for {
			select {
			case <-done:
				return
			default:
				if err := Wake(path, kernel.Wakes{}, nil); err != nil {
					t.Error(err)
				}
			}
		}
	}()
	for i := range 3000 {
		p := take(t, path)
		if p == nil {
			t.Errorf("taken, at try %d", i)
			break
		}
		p.Release()
		if err := p.f.Close(); err != nil {
			t.Error(err)
		}
	}
	close(done)
	<-over
}

func TestThePlaceGoesWithTheRepository(t *testing.T) {
	path := lockPath(t)
	p := take(t, path)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if p.Held() {
		t.Error("held though it is gone")
	}
	if q := take(t, path); q == nil || p.Held() {
		t.Error("a new file is another lock")
	}
}

// The digests of two sets of facts differ exactly if the holder would have to
// watch something else.
func TestDigest(t *testing.T) {
	attempts := func(ids ...kernel.JobID) (out []kernel.AttemptID) {
		for _, id := range ids {
			out = append(out, kernel.AttemptID{Job: id, N: 1})
		}
		return out
	}
	outside := func(p kernel.Probes) kernel.Wakes { return kernel.Wakes{Outside: p} }
	a, b := kernel.Artifact{Kind: kernel.Custom, Name: "t", Ref: "x"}, kernel.Artifact{Kind: kernel.Custom, Name: "t", Ref: "y"}
	all := []kernel.Wakes{{}, soon, {Poll: true}, outside(kernel.Probes{Head: true}), outside(kernel.Probes{Clean: true}),
		outside(kernel.Probes{Branches: []string{"a"}}), outside(kernel.Probes{Branches: []string{"a", "b"}}), outside(kernel.Probes{Branches: []string{"a b"}}),
		outside(kernel.Probes{Markers: []kernel.Artifact{a}}), outside(kernel.Probes{Artifacts: []kernel.Artifact{a}}),
		outside(kernel.Probes{Markers: []kernel.Artifact{a, b}}), outside(kernel.Probes{Types: []string{"t"}}), outside(kernel.Probes{Attempts: attempts("a")}), outside(kernel.Probes{Attempts: attempts("a", "b")})}
	seen := map[string]int{}
	for i, w := range all {
		if k, ok := seen[digest(w)]; ok {
			t.Errorf("%+v and %+v are one", w, all[k])
		}
		seen[digest(w)] = i
	}
	for _, same := range [][2]kernel.Probes{
		{{Branches: []string{"a", "b"}}, {Branches: []string{"b", "a"}}},
		{{Markers: []kernel.Artifact{a, b}}, {Markers: []kernel.Artifact{b, a}}},
		{{Attempts: attempts("a")}, {Attempts: attempts("b")}},
	} {
		if digest(outside(same[0])) != digest(outside(same[1])) {
			t.Errorf("%+v and %+v differ", same[0], same[1])
		}
	}
}

// A process that only looks holds the lock shared and briefly. It does not
// count as a holder, and callers wait for it.
func TestWhoLooksDoesNotHaveThePlace(t *testing.T) {
	path := lockPath(t)
	looker, err := open(path, os.O_CREATE)
	if err != nil {
		t.Fatal(err)
	}
	defer looker.Close()
	if err := unix.Flock(int(looker.Fd()), unix.LOCK_SH); err != nil {
		t.Fatal(err)
	}
	if p, err := Acquire(path); p != nil || err == nil {
		t.Fatalf("while somebody looks without end: %v, error %v", p, err)
	}
	if pid, _ := Holder(path); pid != 0 {
		t.Errorf("held by %d", pid)
	}
	if err := sys.Unlock(looker); err != nil {
		t.Fatal(err)
	}
	if take(t, path) == nil {
		t.Error("free, and not to be had")
	}
}
