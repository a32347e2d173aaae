package vizier

import (
	"errors"
	"os"

	"github.com/vizier-scheduler/vizier/adapters/fs/watch"
	"github.com/vizier-scheduler/vizier/adapters/proc"
	"github.com/vizier-scheduler/vizier/kernel"
)

// outside is who goes on with what a command in a sandbox asks for, in words;
// "": the command is in none. A sandbox is one that an agent put around its
// commands, or a container beside that of the resident scheduler: processes
// that are started there end with it.
func (w *world) outside() string {
	pid, space := watch.Holder(w.store.ResidentFile())
	a, alive, sandboxed := w.local.Sandboxed()
	apart := pid != 0 && space != "" && space != proc.PIDSpace()
	switch {
	case apart, sandboxed && pid != 0:
		return "the resident scheduler outside goes on with it"
	case sandboxed && alive:
		return "the runner of job " + string(a.Job) + " goes on with it when that job ends; a command outside, such as `vizier jobs wait`, does at once"
	case sandboxed:
		return "nobody outside is there to go on with it: run `vizier jobs wait` there"
	}
	return ""
}

// ringer calls the resident scheduler where there is one, and starts none.
type ringer struct{ path string }

func (r ringer) Call(w kernel.Wakes) {
	_ = watch.Call(r.path, w, func(*os.File) error { return errors.New("nothing is started in a sandbox") })
}

// confine has w only record what is asked for, if this process is in a sandbox.
func (w *world) confine() (outside string) {
	if outside = w.outside(); outside != "" {
		w.scheduler.Sandboxed = true
		if w.scheduler.Lookout != nil {
			w.scheduler.Lookout = ringer{w.store.ResidentFile()}
		}
	}
	return outside
}
