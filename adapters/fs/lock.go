package fs

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"strings"
	"time"

	"github.com/gofrs/flock"
	"golang.org/x/sys/unix"
)

// BusyError is the scheduler lock not being free in time.
type BusyError struct {
	Holder string        // what the holder wrote into the lock file
	Waited time.Duration // how long the caller waited
}

func (e *BusyError) Error() string {
	msg := "scheduler is busy; retry the command"
	if e.Holder != "" {
		msg += " (held by " + e.Holder + ")"
	}
	return msg
}

// schedulerLock is the flock on jobs/scheduler.lock. The operating system
// releases it when its holder dies, and the file is never unlinked, so nothing
// is ever left to clean up (semantics 3.2).
type schedulerLock struct {
	path string
	held *flock.Flock
	slip *os.File // the same file, to write into
}

func newSchedulerLock(path string) *schedulerLock { return &schedulerLock{path: path} }

// attempt is a file of its own for every try, so that one that was given up and
// comes through after all has nothing to do with the next.
func (l *schedulerLock) attempt() (*flock.Flock, error) {
	if l.held != nil {
		return nil, fmt.Errorf("lock %s: this process holds it already", l.path)
	}
	return flock.New(l.path, flock.SetPermissions(fileMode), flock.SetFlag(os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW)), nil
}

// exclusive waits for the lock until ctx ends. It sleeps in the kernel rather
// than polling, so that a waiter goes on the moment the holder leaves.
func (l *schedulerLock) exclusive(ctx context.Context) error {
	f, err := l.attempt()
	if err != nil {
		return err
	}
	ok, err := f.TryLock()
	if ok {
		l.held = f
	}
	if ok || err != nil {
		return l.failed(err)
	}
	if ctx.Done() == nil { // a runner waits for ever, and needs nobody to watch over it
		if err = f.Lock(); err == nil {
			l.held = f
		}
		return l.failed(err)
	}
	begun := time.Now()
	done := make(chan error, 1)
	go func() { done <- f.Lock() }()
	select {
	case err := <-done:
		if err == nil {
			l.held = f
		}
		return l.failed(err)
	case <-ctx.Done():
		go func() {
			if <-done == nil { // it came after all, and nobody waits for it any more
				_ = f.Unlock()
			}
		}()
		return &BusyError{l.holder(), time.Since(begun)}
	}
}

func (l *schedulerLock) shared(ctx context.Context) error {
	f, err := l.attempt()
	if err != nil {
		return err
	}
	begun := time.Now()
	ok, err := f.TryRLockContext(ctx, 2*time.Millisecond)
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return &BusyError{l.holder(), time.Since(begun)}
	}
	if ok {
		l.held = f
	}
	return l.failed(err)
}

func (l *schedulerLock) failed(err error) error {
	if err == nil {
		return nil
	}
	var p *iofs.PathError
	if errors.As(err, &p) {
		err = p.Err
	}
	return fmt.Errorf("lock %s: %w", l.path, err)
}

func (l *schedulerLock) unlock() error {
	if l.held == nil {
		return nil
	}
	err := l.held.Unlock()
	l.held = nil
	return err
}

// sign says in the file who holds the lock, for the error of those who wait.
func (l *schedulerLock) sign(who string) {
	if l.slip == nil {
		f, err := os.OpenFile(l.path, os.O_WRONLY|unix.O_NOFOLLOW, 0)
		if err != nil {
			return
		}
		l.slip = f
		_ = f.Chmod(fileMode)
	}
	_, _ = l.slip.WriteAt(fmt.Appendf(nil, "%-119.119s\n", who), 0)
}

// close lets go of the file. The lock is not held.
func (l *schedulerLock) close() error {
	if l.slip == nil {
		return nil
	}
	return l.slip.Close()
}

func (l *schedulerLock) holder() string {
	b, err := os.ReadFile(l.path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}
