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
	flock *flock.Flock
	path  string
}

func newSchedulerLock(path string) *schedulerLock {
	return &schedulerLock{flock.New(path, flock.SetPermissions(fileMode), flock.SetFlag(os.O_CREATE|os.O_RDWR)), path}
}

// exclusive waits for the lock until ctx ends. It sleeps in the kernel rather
// than polling, so that a waiter goes on the moment the holder leaves.
func (l *schedulerLock) exclusive(ctx context.Context) error {
	if ok, err := l.flock.TryLock(); ok || err != nil {
		return l.failed(err)
	}
	begun := time.Now()
	done := make(chan error, 1)
	go func() { done <- l.flock.Lock() }()
	select {
	case err := <-done:
		return l.failed(err)
	case <-ctx.Done():
		go func() {
			if <-done == nil { // it came after all, and nobody waits for it any more
				_ = l.flock.Unlock()
			}
		}()
		return &BusyError{l.holder(), time.Since(begun)}
	}
}

func (l *schedulerLock) shared(ctx context.Context) error {
	ok, err := l.flock.TryRLockContext(ctx, 2*time.Millisecond)
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) || err == nil && !ok {
		return &BusyError{Holder: l.holder()}
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

func (l *schedulerLock) unlock() error { return l.flock.Unlock() }

// sign says in the file who holds the lock, for the error of those who wait.
func (l *schedulerLock) sign(who string) {
	if f, err := os.OpenFile(l.path, os.O_WRONLY, 0); err == nil {
		_, _ = f.WriteAt([]byte(fmt.Sprintf("%-119.119s\n", who)), 0)
		_ = f.Close()
	}
}

func (l *schedulerLock) holder() string {
	b, err := os.ReadFile(l.path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}
