package proc

import (
	"sync/atomic"

	"github.com/vizier-scheduler/vizier/kernel"
)

// RunnerWatcher tells when runners end. It costs nothing while they live. One
// goroutine uses it.
type RunnerWatcher struct {
	local   *Local
	watched map[kernel.AttemptID]*watchedRunner
	ended   chan struct{}
}

type watchedRunner struct {
	stop func()
	over atomic.Bool
}

// NewRunnerWatcher watches no runner yet.
func (l *Local) NewRunnerWatcher() *RunnerWatcher {
	return &RunnerWatcher{local: l, watched: map[kernel.AttemptID]*watchedRunner{}, ended: make(chan struct{}, 1)}
}

// Ended has a value when the runner of a watched attempt has ended.
func (v *RunnerWatcher) Ended() <-chan struct{} { return v.ended }

// Watch watches the runners of these attempts and no others, and reports
// whether it can watch all of them. It cannot where an attempt is not claimed
// yet, where its runner has ended already or is on another host, and where the
// system has no way to tell.
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

// open begins to watch a's runner.
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
