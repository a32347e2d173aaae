//go:build !freebsd && (!linux || portable)

package proc

import (
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// A guard ends with its command and when there is none; a hook's as well.
func TestGuardsEnd(t *testing.T) {
	w := setup(t, "true")
	w.Run(bg, &w.job)
	w.job.Spec.Task.Args = []string{"/dev/null"}
	if r := w.Run(bg, &w.job); r.Outcome == kernel.OutcomeSucceeded {
		t.Errorf("%+v", r)
	}
	must(t, w.RunHook(bg, HookCall{Command: "true", Log: filepath.Join(w.root, "hooks", "1.log"), Timeout: time.Minute}))
	w.eventually("no guards", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.own) == 0
	})
}

// What ends the runner's whole process group does not reach its guard, which
// ends the command.
func TestGuardOutlivesItsRunnersGroup(t *testing.T) {
	w := setup(t, "sh", "-c", "echo ready; exec sleep 600")
	a := w.launch()
	w.said("ready")
	c := w.claim(a)
	if err := syscall.Kill(-c.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	w.eventually("command dead", func() bool { return !c.Child.Running() })
}
