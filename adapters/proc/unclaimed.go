package proc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// unclaimed returns the process that was started as a's runner, where no claim names it. What
// fetches its secrets is below it.
func unclaimed(a kernel.AttemptID) (runner process, found bool) {
	for _, p := range processes() {
		if !p.zombie && p.env(envRunner) == label(a) && (!found || p.start < runner.start) {
			runner, found = p, true
		}
	}
	return runner, found
}

// endUnclaimed is Enforce for a runner that has not claimed a. It claims a for nobody, so
// that nothing of it is ever executed, and then kills the runner. It does nothing if it sees
// no such runner.
func (l *Local) endUnclaimed(ctx context.Context, a kernel.AttemptID) (ended bool, err error) {
	p, found := unclaimed(a)
	if !found || p.pid == os.Getpid() {
		return false, nil
	}
	err = l.Void(a, "its time was over before it began")
	if errors.Is(err, kernel.ErrStale) { // just now it has claimed it
		return false, nil
	}
	if err == nil {
		const patience = 10 * time.Second
		c := claim{Identity: Identity{PID: p.pid, Start: p.start}}
		err = endAll(ctx, patience, func(before []process) (*process, []process) { return l.remnants(a, c, before) })
	}
	if err != nil {
		return false, fmt.Errorf("end %s: %w", label(a), err)
	}
	return true, nil
}

// wake lets a runner that was stopped before its claim go on: then it notices by
// itself that a is to stop.
func wake(a kernel.AttemptID) {
	if p, found := unclaimed(a); found {
		p.signal(syscall.SIGCONT)
	}
}

// stoppedRunner returns the process id of a's runner if that was stopped, as by SIGSTOP or
// a debugger; otherwise 0.
func (l *Local) stoppedRunner(a kernel.AttemptID) int {
	c, _, err := l.claimOf(a)
	if err == nil && !c.Spaces.away() && c.Running() && Stopped(c.PID) {
		return c.PID
	}
	if errors.Is(err, os.ErrNotExist) {
		if p, _ := unclaimed(a); p.stopped {
			return p.pid
		}
	}
	return 0
}
