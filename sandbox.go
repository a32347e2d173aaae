package vizier

import (
	"errors"
	"os"

	"github.com/vizier-scheduler/vizier/adapters/fs/watch"
	"github.com/vizier-scheduler/vizier/adapters/proc"
	"github.com/vizier-scheduler/vizier/kernel"
)

// outside describes the process outside the sandbox that will continue what a
// command asks for, or returns "" if the command is in no sandbox. A sandbox is
// one that an agent put around its commands, or a container other than the
// resident scheduler's: processes that are started in it end with it.
func (w *world) outside() string {
	pid, space := watch.Holder(w.store.ResidentFile())
	a, alive, sandboxed := w.local.Sandboxed()
	apart := pid != 0 && space != "" && space != proc.PIDSpace()
	switch {
	case apart, sandboxed && pid != 0:
		return "the resident scheduler outside goes on with it"
	case sandboxed && alive:
		return "the runner of job " + string(a.Job) + " goes on with it when that job ends; a command outside, such as `vizier wait`, does at once"
	case sandboxed:
		return "nobody outside is there to go on with it: run `vizier wait` there"
	}
	return ""
}

// notifyingWaker wakes the resident scheduler if one is running, but does not
// start one.
type notifyingWaker struct{ path string }

func (r notifyingWaker) Wake(w kernel.Wakes) {
	_ = watch.Wake(r.path, w, func(*os.File) error { return errors.New("nothing is started in a sandbox") })
}

// confine restricts w to recording requests, without starting anything, if this
// process is in a sandbox.
func (w *world) confine() (outside string) {
	if outside = w.outside(); outside != "" {
		w.scheduler.Sandboxed = true
		if w.scheduler.Waker != nil {
			w.scheduler.Waker = notifyingWaker{w.store.ResidentFile()}
		}
	}
	return outside
}
