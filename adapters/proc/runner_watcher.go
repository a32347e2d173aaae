package proc

import (
	"sync/atomic"

	"github.com/vizier-scheduler/vizier/kernel"
)

// RunnerWatcher notifies of the end of runners, without polling. It must be
// used by one goroutine.
type RunnerWatcher struct {
	local   *Local
	watched map[kernel.AttemptID]*watchedRunner
	ended   chan struct{}
}

type watchedRunner struct {
	stop func()
	over atomic.Bool
}

// NewRunnerWatcher returns a RunnerWatcher that watches no runner yet.
func (l *Local) NewRunnerWatcher() *RunnerWatcher {
	return &RunnerWatcher{local: l, watched: map[kernel.AttemptID]*watchedRunner{}, ended: make(chan struct{}, 1)}
}

// Ended receives a value when the runner of a watched attempt has ended.
func (v *RunnerWatcher) Ended() <-chan struct{} { return v.ended }

// Watch sets the attempts whose runners are watched. It reports whether all of
// them can be watched. An attempt cannot be if it is not claimed yet, if its
// runner has ended already or is on another host, or if the system does not
// support it.
func (v *RunnerWatcher) Watch(attempts []kernel.AttemptID) bool {
	keep := make(map[kernel.AttemptID]bool, len(attempts))
	for _, a := range attempts {
		keep[a] = true
	}
	for a, w := range v.watched {
		if !keep[a] {
			delete(v.watched, a)
			w.stop()
		}
	}
	all := true
	for _, a := range attempts {
		if w, known := v.watched[a]; known {
			all = all && !w.over.Load()
			continue
		}
		if w, ok := v.open(a); ok {
			v.watched[a] = w
		} else {
			all = false
		}
	}
	return all
}

// open starts watching a's runner.
func (v *RunnerWatcher) open(a kernel.AttemptID) (*watchedRunner, bool) {
	c, ours, err := v.local.claimOf(a)
	if err != nil || !ours || c.Boot != here().Boot {
		return nil, false
	}
	w := &watchedRunner{}
	stop, ok := watchExit(c.Identity, func() {
		w.over.Store(true)
		select {
		case v.ended <- struct{}{}:
		default:
		}
	})
	w.stop = stop
	return w, ok
}
