package proc

import (
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// A runner's death is told at once, and that it cannot be watched any more.
func TestRunnerWatcher(t *testing.T) {
	stop, ok := watchExit(Self(), func() {})
	if !ok {
		t.Skip("this system does not tell of the end of a process")
	}
	stop()
	w := setup(t, "sleep", "600")
	v := w.NewRunnerWatcher()
	if v.Watch([]kernel.AttemptID{w.job.Attempt()}) {
		t.Error("it watches what nobody has claimed")
	}
	a := w.launch()
	var c claim
	w.eventually("a command", func() bool {
		c, _, _ = w.claimOf(a)
		return c.Child != nil
	})
	for range 2 {
		if !v.Watch([]kernel.AttemptID{a}) {
			t.Fatal("it cannot watch a runner")
		}
	}
	if err := syscall.Kill(c.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	select {
	case <-v.Ended():
	case <-time.After(time.Minute):
		t.Fatal("it does not tell of the end")
	}
	if v.Watch([]kernel.AttemptID{a}) {
		t.Error("it goes on watching the dead")
	}
	if !v.Watch(nil) || len(v.watched) > 0 {
		t.Error("it goes on watching what nobody asks about")
	}
	if v.Watch([]kernel.AttemptID{a}) {
		t.Error("it watches what ended before")
	}
	if w.liveness(a) != kernel.Dead {
		t.Error("the runner lives")
	}
}

// Only the runner that a claim of this repository and of this boot names is watched.
func TestWhichRunnersAreWatched(t *testing.T) {
	stop, ok := watchExit(Self(), func() {})
	if !ok {
		t.Skip("this system does not tell of the end of a process")
	}
	stop()
	for name, c := range map[string]struct {
		change func(*claim)
		want   bool
	}{
		"as it is":              {func(*claim) {}, true},
		"of another boot":       {func(c *claim) { c.Boot = "other" }, false},
		"copied with its files": {func(c *claim) { c.Lock.Ino++ }, false},
	} {
		w := setup(t)
		a := w.job.Attempt()
		lock := w.Files.LockFile(a.Job)
		if err := os.WriteFile(lock, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		one := claim{Identity: Self(), Lock: inodeOf(lock), Spaces: spaces()}
		c.change(&one)
		v := w.NewRunnerWatcher()
		if err := w.writeClaimOnce(a, one); err != nil || v.Watch([]kernel.AttemptID{a}) != c.want {
			t.Errorf("%s: watched %t, %v", name, !c.want, err)
		}
		v.Watch(nil)
	}
}
