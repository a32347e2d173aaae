package proc

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/vizier-scheduler/vizier/kernel"
)

// InsideJob returns the attempt that this process runs inside, if any
// (semantics 2.16). running are the attempts on record as running. The process tree
// decides first, because no command can change its ancestors, then the session,
// and then the environment, for processes that outlived their runner. What
// Vizier starts besides commands counts as inside too, also if a person's own
// command starts it: jobs choose secrets, hooks and git's configuration. If it
// cannot be determined, the process counts as inside, and why gives the reason:
// the system shows nothing, the process is in another pid namespace than a
// runner, or it may be an orphan of an attempt that was never swept.
func (l *Local) InsideJob(running []kernel.AttemptID) (a kernel.AttemptID, why string, inside bool) {
	return l.InsideJobOf(os.Getpid(), running)
}

// InsideJobOf is InsideJob for another process, which has sent this one a
// request.
func (l *Local) InsideJobOf(pid int, running []kernel.AttemptID) (a kernel.AttemptID, why string, inside bool) {
	own := pid == os.Getpid()
	d := l.descent(running)
	above, whole := ancestry(pid)
	for up, p := range above {
		at := place{p.pid, p.start}
		if a, found := d.commands[at]; found {
			return a, "", true
		}
		if a, found := d.runners[at]; found && (up > 0 || !own) { // a process that its command left behind
			return a, "", true
		} else if found {
			delete(d.runners, at) // itself
		}
	}
	if sid, err := unix.Getsid(pid); err == nil {
		if a, ok := d.sessions[sid]; ok {
			return a, "", true
		}
	}
	attempt, err := os.Getenv(envAttemptID), error(nil)
	if !own {
		attempt, err = variableOf(pid, envAttemptID)
	}
	if err != nil {
		return kernel.AttemptID{}, "its environment cannot be read", true
	}
	if a, err := ParseAttempt(attempt); err == nil {
		return a, "", true
	}
	for up, p := range above {
		if up > 0 && startsPrograms(p.pid) {
			return kernel.AttemptID{}, besides, true
		}
	}
	if !own && !whole {
		return kernel.AttemptID{}, "the system does not show its ancestors", true
	}
	for _, a := range d.attempts { // any will do; one is as likely as the other
		c := d.claims[a]
		_, other := d.runners[place{c.PID, c.Start}]
		switch {
		case !other: // this is the runner itself
		case c.Spaces.away():
			return a, "it is in another process namespace than the runner", true
		case !whole:
			return a, "the system does not show its ancestors", true
		case !adoptsOrphans && mayBeOrphan(above, c.Start):
			return a, orphaned, true
		}
	}
	for _, a := range d.attempts {
		if c := d.claims[a]; !c.adopts() && mayBeOrphan(above, c.Start) {
			return a, orphaned, true
		}
	}
	lost, err := l.lost()
	if err != nil {
		return kernel.AttemptID{}, "what is noted of lost runners cannot be read: " + err.Error(), true
	}
	for _, boot := range []string{genuineBoot(), here().Boot} {
		if start, some := lost[boot]; some && mayBeOrphan(above, start) {
			return kernel.AttemptID{}, sinceLost, true
		}
	}
	return kernel.AttemptID{}, "", false
}

const (
	besides   = "Vizier itself started it, as the source of a secret, a hook, a pager or a program of git's or of an executor's"
	orphaned  = "its runner does not hold what the job started, and an ancestor of this was adopted after that"
	sinceLost = "the runner of one was lost since the last boot, and an ancestor of this was adopted after that; a terminal that was open before, or that of a new login, can decide"
)

// place is a process as identified by a claim.
type place struct {
	pid   int
	start uint64
}

// descents holds the processes and sessions of running attempts.
type descents struct {
	attempts          []kernel.AttemptID
	claims            map[kernel.AttemptID]claim
	runners, commands map[place]kernel.AttemptID
	sessions          map[int]kernel.AttemptID
}

func (l *Local) descent(running []kernel.AttemptID) descents {
	boot := genuineBoot()
	d := descents{nil, map[kernel.AttemptID]claim{}, map[place]kernel.AttemptID{}, map[place]kernel.AttemptID{}, map[int]kernel.AttemptID{}}
	for _, a := range running {
		c, ours, err := l.claimOf(a)
		if err != nil || !ours || boot != "" && c.Boot != boot && c.Boot != here().Boot {
			continue
		}
		d.attempts, d.claims[a] = append(d.attempts, a), c
		d.runners[place{c.PID, c.Start}] = a
		if c.Child != nil {
			d.commands[place{c.Child.PID, c.Child.Start}] = a
			id, _ := c.session()
			d.sessions[id] = a
		}
	}
	return d
}

// ancestry returns a process and its ancestors. whole is true if they end at
// the system's first process, or at one whose parent is outside of this
// namespace, as for a process that somebody starts in a container.
func ancestry(pid int) (above []process, whole bool) {
	const deepest = 4096 // a bound, since the tree may change while it is read
	if !genuineTable() {
		return nil, false
	}
	for len(above) < deepest {
		p, ok := readProcess(pid)
		if ok && !genuine(pid) {
			return above, false
		}
		if !ok || p.pid != pid { // a process of another user, which the system may hide, does not belong to a job
			return above, !ok && len(above) > 0 && !process{pid: pid}.signalable()
		}
		above = append(above, p)
		if pid = p.parent; pid == 0 || p.pid == 1 {
			return above, true
		}
	}
	return above, false
}

// mayBeOrphan reports whether one of above, this process and its ancestors, may
// have been started by a job whose runner began at start and have been adopted
// since: its parent is older than that, and adopts orphans. Processes of other
// users do not belong to the job.
func mayBeOrphan(above []process, start uint64) bool {
	for up, p := range above {
		if p.start < start {
			return false
		}
		if up+1 == len(above) {
			return p.parent == 1 && p.signalable()
		}
		if parent := above[up+1]; parent.start < start || parent.pid == 1 {
			return adopter(parent) && p.signalable()
		}
	}
	return false
}

// adopter reports whether the system makes p the parent of orphans: it is the
// first process, or a user's service manager.
func adopter(p process) bool { return p.pid == 1 || serviceManager(p.pid) }
