package proc

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Stop asks a's runner to end its command and returns at once; the runner sees
// to the rest (see Run). What a runner that is gone left behind is ended by
// force. Stopping what has ended is no error.
func (l *Local) Stop(ctx context.Context, a kernel.AttemptID) error {
	c, err := readClaim(l.Files.ClaimFile(a))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // a runner looks for a stop after it has claimed
	}
	if err != nil {
		return fmt.Errorf("stop %s: %w", label(a), err)
	}
	held, err := locked(l.Files.LockFile(a.Job))
	if err != nil {
		return fmt.Errorf("stop %s: %w", label(a), err)
	}
	if p, ok := c.process(); ok && held {
		p.signal(syscall.SIGUSR1)
		p.signal(syscall.SIGCONT) // a stopped runner would not notice
		return nil
	}
	return l.Sweep(ctx, a)
}

// Sweep kills whatever is left of a: its runner if that still holds the job's
// lock, the session of its command, and every process that was started with
// a's environment. It returns when all of it is gone.
func (l *Local) Sweep(ctx context.Context, a kernel.AttemptID) error {
	const step, patience = 2 * time.Millisecond, 10 * time.Second
	c, err := readClaim(l.Files.ClaimFile(a))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		c = claim{} // unreadable: go by the environment alone
	}
	if c.Boot != "" && c.Boot != here().Boot {
		if c.Host != here().Host {
			return fmt.Errorf("sweep %s: it ran on host %s and can only be ended there", label(a), c.Host)
		}
		return nil // nothing survives a reboot
	}
	for end := time.Now().Add(patience); ; {
		left := l.remnants(a, c)
		if len(left) == 0 {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("sweep %s: %d processes do not end, the first with pid %d", label(a), len(left), left[0].pid)
		}
		for _, p := range left {
			p.signal(syscall.SIGKILL)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("sweep %s: %w", label(a), ctx.Err())
		case <-time.After(step):
		}
	}
}

// remnants are the live processes of a, this one aside: a sweep may be run from
// within the job.
func (l *Local) remnants(a kernel.AttemptID, c claim) []process {
	held, err := locked(l.Files.LockFile(a.Job))
	held = held && err == nil && inscribed(l.Files.LockFile(a.Job)) == a.N
	uid, self := os.Getuid(), os.Getpid()
	var leader uint64 // start time of the process that has the command's pid now
	if c.Child != nil {
		if p, ok := readProcess(c.Child.PID); ok {
			leader = p.start
		}
	}
	var all []process
	for _, p := range processes() {
		if p.pid == self || p.zombie || p.start < c.Start || p.owner() != uid {
			continue
		}
		if p.pid == c.PID {
			if held && p.start == c.Start {
				all = append(all, p)
			}
			continue
		}
		of := p.env(envAttemptID)
		inSession := c.Child != nil && p.session == c.Child.PID && p.start >= c.Child.Start &&
			(leader == 0 || leader == c.Child.Start) && of == ""
		if of == label(a) || inSession {
			all = append(all, p)
		}
	}
	return all
}
