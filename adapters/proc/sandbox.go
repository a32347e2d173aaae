package proc

import (
	"os"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Spaces are the namespaces of a process, as the system names them, or "" if
// there are none. Processes that it starts end with its pid namespace, and see
// the files of its mount namespace.
type Spaces struct {
	PID   string `json:"pid,omitempty"`
	Mount string `json:"mount,omitempty"`
}

// PIDSpace returns this process's pid namespace, or "" if the system has none.
func PIDSpace() string { return spaces().PID }

// away reports whether s is known and this process is in another pid namespace.
func (s Spaces) away() bool { return s.PID != "" && s.PID != spaces().PID }

// Sandboxed reports whether this process runs inside of an attempt whose runner
// is in other namespaces, as in a sandbox that an agent put around its
// commands. Processes started in it end with it. alive reports whether that
// runner is alive.
func (l *Local) Sandboxed() (a kernel.AttemptID, alive, yes bool) {
	a, err := ParseAttempt(os.Getenv(envAttemptID))
	if err != nil {
		return a, false, false
	}
	c, err := readClaim(l.Files.ClaimFile(a))
	if err != nil || c.Spaces == (Spaces{}) || c.Boot != here().Boot || c.Spaces == spaces() {
		return a, false, false
	}
	alive, _ = locked(l.Files.LockFile(a.Job))
	return a, alive, true
}
