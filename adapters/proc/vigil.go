package proc

import (
	"sync/atomic"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Vigil tells when runners end, at no cost while they live. It is for one
// goroutine.
type Vigil struct {
	l     *Local
	at    map[kernel.AttemptID]*watched
	ended chan struct{}
}

type watched struct {
	stop func()
	over atomic.Bool
}

// NewVigil looks at no runner yet.
func (l *Local) NewVigil() *Vigil {
	return &Vigil{l: l, at: map[kernel.AttemptID]*watched{}, ended: make(chan struct{}, 1)}
}

// Ended has a value when the runner of an attempt under watch has ended.
func (v *Vigil) Ended() <-chan struct{} { return v.ended }

// Watch looks at the runners of these attempts and at no others, and reports
// whether it can. It cannot where an attempt is not claimed yet, where its
// runner has ended already or is on another host, and where the system has no
// way to tell.
func (v *Vigil) Watch(attempts []kernel.AttemptID) bool {
	keep := make(map[kernel.AttemptID]bool, len(attempts))
	for _, a := range attempts {
		keep[a] = true
	}
	for a, w := range v.at {
		if !keep[a] {
			delete(v.at, a)
			w.stop()
		}
	}
	all := true
	for _, a := range attempts {
		if w, known := v.at[a]; known {
			all = all && !w.over.Load()
			continue
		}
		if w, ok := v.open(a); ok {
			v.at[a] = w
		} else {
			all = false
		}
	}
	return all
}

// open begins to watch a's runner.
func (v *Vigil) open(a kernel.AttemptID) (*watched, bool) {
	c, ours, err := v.l.claimOf(a)
	if err != nil || !ours || c.Boot != here().Boot {
		return nil, false
	}
	w := &watched{}
	stop, ok := watchEnd(c.Identity, func() {
		w.over.Store(true)
		select {
		case v.ended <- struct{}{}:
		default:
		}
	})
	w.stop = stop
	return w, ok
}
