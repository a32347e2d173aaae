package proc

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/vizier-scheduler/vizier/kernel"
)

// InsideJob tells which attempt this process runs inside, if any (semantics
// 2.16). running are the attempts on record as running. The process tree
// decides, since no command can change its ancestors, then the session, and
// then the environment, for what outlived its runner.
func (l *Local) InsideJob(running []kernel.AttemptID) (kernel.AttemptID, bool) {
	type place struct {
		pid   int
		start uint64
	}
	runners, commands := map[place]kernel.AttemptID{}, map[place]kernel.AttemptID{}
	sessions := map[int]kernel.AttemptID{}
	for _, a := range running {
		c, ours, err := l.claimOf(a)
		if err != nil || !ours || c.Boot != here().Boot {
			continue
		}
		runners[place{c.PID, c.Start}] = a
		if c.Child != nil {
			commands[place{c.Child.PID, c.Child.Start}] = a
			id, _ := c.session()
			sessions[id] = a
		}
	}
	const deepest = 4096 // the tree may change while it is read
	p, ok := readProcess(os.Getpid())
	for up := 0; ok && up < deepest; up++ {
		at := place{p.pid, p.start}
		if a, found := commands[at]; found {
			return a, true
		}
		if a, found := runners[at]; found && up > 0 { // what its command left behind
			return a, true
		}
		p, ok = readProcess(p.parent)
	}
	if sid, err := unix.Getsid(0); err == nil {
		if a, ok := sessions[sid]; ok {
			return a, true
		}
	}
	a, err := ParseAttempt(os.Getenv(envAttemptID))
	return a, err == nil
}
