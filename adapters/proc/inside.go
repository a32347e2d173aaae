package proc

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/vizier-scheduler/vizier/kernel"
)

// InsideJob tells which attempt this process runs inside, if any (semantics
// 2.16). running are the attempts on record as running. The process tree
// decides, since no command can change its ancestors, then the session, and
// then the environment, for what outlived its runner. Where the system tells
// none of this, what may be inside counts as inside.
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
	var top process      // the last one below the system's first process
	p, ok := readProcess(os.Getpid())
	for up := 0; ok && up < deepest; up++ {
		if p.pid != 1 || up == 0 {
			top = p
		}
		at := place{p.pid, p.start}
		if a, found := commands[at]; found {
			return a, true
		}
		if a, found := runners[at]; found && up > 0 { // what its command left behind
			return a, true
		} else if found {
			delete(runners, at) // itself
		}
		p, ok = readProcess(p.parent)
	}
	if sid, err := unix.Getsid(0); err == nil {
		if a, ok := sessions[sid]; ok {
			return a, true
		}
	}
	if a, err := ParseAttempt(os.Getenv(envAttemptID)); err == nil {
		return a, true
	}
	for at, a := range runners { // whichever: one is as likely as the other
		if top.mayBeOrphanOf(at.start) {
			return a, true
		}
	}
	return kernel.AttemptID{}, false
}

// mayBeOrphanOf reports that the process, the oldest ancestor of this one, may
// have been started by a job whose runner began at start. It may not if it is
// older than the runner or another user's, or if orphans become children of
// their runner on this system. A process that the system does not show may.
func (p process) mayBeOrphanOf(start uint64) bool {
	return p.start == 0 || !adoptsOrphans && p.start >= start && p.endable()
}
