package proc

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Stop asks a's runner to end its command and returns at once; the runner does
// the rest (see Run). If the runner is gone, what it left behind is killed.
// Stopping an attempt that has ended is not an error.
func (l *Local) Stop(ctx context.Context, a kernel.AttemptID) error {
	c, ours, err := l.claimOf(a)
	if errors.Is(err, fs.ErrNotExist) {
		wake(a)
		return nil // a runner checks for a stop before and after it has claimed
	}
	if err == nil && !ours {
		return nil
	}
	if err != nil {
		return fmt.Errorf("stop %s: %w", label(a), err)
	}
	if c.elsewhere() || c.Spaces.away() {
		return nil // its runner checks for a stop with every heartbeat
	}
	lock := l.Files.LockFile(a.Job)
	held, err := locked(lock)
	if err != nil {
		return fmt.Errorf("stop %s: %w", label(a), err)
	}
	if p, ok := c.process(); ok && (held || c.unlockable(ours, lock)) {
		p.signal(syscall.SIGUSR1)
		p.signal(syscall.SIGCONT) // a stopped runner would not notice
		return nil
	}
	return l.Sweep(ctx, a)
}

// Enforce kills an attempt that is long over its time limit, including its
// runner, which was stopped or hangs, perhaps before its claim. It does nothing and returns false if the
// runner is this process, if it is of another host or pid namespace, or if its
// command has ended and it is about to record the result.
func (l *Local) Enforce(ctx context.Context, a kernel.AttemptID) (ended bool, err error) {
	if l.runs(a) {
		return false, nil
	}
	c, ours, err := l.claimOf(a)
	if errors.Is(err, fs.ErrNotExist) {
		return l.endUnclaimed(ctx, a)
	}
	if err == nil && !ours {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("end %s: %w", label(a), err)
	}
	if c.Boot != here().Boot || c.Spaces.away() {
		return false, nil
	}
	if c.Child != nil { // a zombie's end was noticed by nobody
		if p, ok := readProcess(c.Child.PID); !ok || p.start != c.Child.Start {
			return false, nil
		}
	}
	if err := l.Sweep(ctx, a); err != nil {
		return false, err
	}
	return true, nil
}

// Sweep kills whatever is left of a: its runner if that still holds the job's
// lock, the session of its command, and every process that was started with a's
// environment. It returns when all of it is gone. The engine removes a container
// meanwhile, and the job's next attempt waits for that: see removeEarlier.
func (l *Local) Sweep(ctx context.Context, a kernel.AttemptID) error {
	c, ours, err := l.claimOf(a)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !ours {
		return nil // no command starts before its claim
	}
	if c.Host == here().Host {
		defer func() {
			keeper, _ := l.keepContainer(c.Container, a)
			keeper.release() // whoever sweeps holds the scheduler lock, and an engine may hang
			sweepOutside(string(c.Private), string(c.Temporary))
		}()
	}
	if !c.Running() {
		if err := l.NoteLost(a); err != nil {
			return fmt.Errorf("sweep %s: %w", label(a), err)
		}
	}
	// If the claim is unreadable, only environments identify processes.
	if c.Boot != "" && c.Boot != here().Boot {
		if c.Host != here().Host {
			return fmt.Errorf("sweep %s: it ran on host %s and can only be ended there", label(a), c.Host)
		}
		return nil // nothing survives a reboot
	}
	if c.Spaces.away() {
		return fmt.Errorf("sweep %s: it ran in another pid namespace and can only be ended there", label(a))
	}
	const patience = 10 * time.Second
	if err := endAll(ctx, patience, func(before []process) (*process, []process) { return l.remnants(a, c, before) }); err != nil {
		return fmt.Errorf("sweep %s: %w", label(a), err)
	}
	return nil
}

// endAll kills the processes of an attempt until there are none: its runner, if remnants returns one,
// and the others. remnants is given those of before. The error is that of ctx, or says that some have
// not ended after patience.
func endAll(ctx context.Context, patience time.Duration, remnants func(before []process) (runner *process, left []process)) error {
	const step = 2 * time.Millisecond
	var left []process
	quiet := 0 // a process in the middle of an exec shows no environment, so look twice
	for end := time.Now().Add(patience); quiet < 2; time.Sleep(step) {
		var runner *process
		runner, left = remnants(left)
		late, over := time.Now().After(end), ctx.Err()
		for _, p := range left {
			p.signal(syscall.SIGKILL)
		}
		if runner != nil && len(left) > 0 && !late && over == nil {
			// The runner is stopped now and killed last, because being its
			// child is what identifies its processes. It is killed even if it
			// has let go of the lock just before.
			runner.signal(syscall.SIGSTOP)
			left = append(left, *runner)
		} else if runner != nil {
			runner.signal(syscall.SIGKILL)
			left = append(left, *runner)
		}
		if quiet++; len(left) > 0 {
			quiet = 0
		}
		if late && quiet == 0 {
			return fmt.Errorf("%d processes do not end, one of them with pid %d", len(left), left[0].pid)
		}
		if over != nil {
			return over
		}
	}
	return nil
}

// remnants returns the live processes of a: its runner, if it still holds the
// job's lock, and the others, including those of before that still exist,
// because a process that is ending no longer shows its environment. This
// process is never included: a sweep may be run from within the job.
func (l *Local) remnants(a kernel.AttemptID, c claim, before []process) (runner *process, left []process) {
	lock := l.Files.LockFile(a.Job)
	held, err := locked(lock)
	n, _ := notedAttempt(lock)
	held = held && err == nil && n == a.N
	session, since := c.session()
	me := os.Getpid()
	table := processes()
	for _, p := range table {
		if p.zombie || p.start < c.Start || p.pid == me || !p.signalable() {
			continue
		}
		known := slices.ContainsFunc(before, func(b process) bool { return b.pid == p.pid && b.start == p.start })
		if p.pid == c.PID {
			if (held || known) && p.start == c.Start {
				runner = &p
			}
			continue
		}
		of := p.env(envAttemptID)
		if known || of == label(a) || of == "" && p.session == session && p.start >= since {
			left = append(left, p)
		}
	}
	roots := left
	if runner != nil {
		roots = append([]process{*runner}, left...)
	}
	below := descendants(roots, table)
	below = slices.DeleteFunc(below, func(p process) bool { return p.pid == me || runner != nil && p.pid == runner.pid })
	return runner, below
}

// session returns the session of the claim's command and when it began, or -1
// if there is none or its number now belongs to another process.
func (c claim) session() (id int, since uint64) {
	if c.Child == nil {
		return -1, 0
	}
	if p, ok := readProcess(c.Child.PID); ok && p.start != c.Child.Start {
		return -1, 0
	}
	return c.Child.PID, c.Child.Start
}
