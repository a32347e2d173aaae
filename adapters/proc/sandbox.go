package proc

import (
	"os"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Spaces are the namespaces that a process is in, as the system names them; ""
// where it has none. What a process starts ends with its pid namespace, and
// sees the files of its mount namespace.
type Spaces struct {
	PID   string `json:"pid,omitempty"`
	Mount string `json:"mount,omitempty"`
}

// PIDSpace is this process's pid namespace; "" where it has none.
func PIDSpace() string { return spaces().PID }

// away reports that s is known and that this process is in another pid
// namespace.
func (s Spaces) away() bool { return s.PID != "" && s.PID != spaces().PID }

// Sandboxed tells that this process runs inside of an attempt, whose runner is
// in other namespaces: a sandbox that an agent put around its commands. What is
// started from there ends with it. alive is whether that runner lives.
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
