package fs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"strings"
	"time"

	"github.com/gofrs/flock"
	"golang.org/x/sys/unix"

	"github.com/vizier-scheduler/vizier/internal/sys"
)

// BusyError says that the scheduler lock was not free in time.
type BusyError struct {
	Holder string        // the process that holds it and its command; "": the system does not tell
	Waited time.Duration // how long the caller waited
}

func (e *BusyError) Error() string {
	return "scheduler is busy; retry the command (held by " + e.By() + ")"
}

// By returns the holder, or how to find it.
func (e *BusyError) By() string {
	return cmp.Or(e.Holder, "another process that `fuser "+vizierDir+"/"+lockFile+"` names")
}

// schedulerLock is the flock on jobs/scheduler.lock together with a lock among
// the goroutines of this process, the turn: the fields of a store belong to the
// goroutine that has it. The operating system releases the flock when its holder
// dies, and the file is never unlinked, so nothing is ever left to clean up
// (semantics 3.2).
type schedulerLock struct {
	path string
	who  string        // the command of this process, for the processes that wait
	turn chan struct{} // full while a goroutine has its turn: a flock tells processes apart, not goroutines
	note *os.File      // the same file, to write the holder into
}

func newSchedulerLock(path, who string) *schedulerLock {
	return &schedulerLock{path: path, who: who, turn: make(chan struct{}, 1)}
}

// release gives a lock back. A second call does nothing.
type release func() error

// alone waits for the turn until ctx ends. It does not lock out other processes.
// A goroutine that has the turn must not call it again.
func (l *schedulerLock) alone(ctx context.Context) (release, error) {
	select {
	case l.turn <- struct{}{}:
	default:
		begun := time.Now()
		select {
		case l.turn <- struct{}{}:
		case <-ctx.Done():
			return nil, &BusyError{l.holder(), time.Since(begun)}
		}
	}
	over := false
	return func() error {
		if !over {
			over = true
			<-l.turn
		}
		return nil
	}, nil
}

// getLock gets the flock. The error is one of ctx's if the flock was not free in
// time.
type getLock func(context.Context, *flock.Flock) error

// take waits for the turn and then for the flock, by get.
func (l *schedulerLock) take(ctx context.Context, get getLock) (release, error) {
	begun := time.Now()
	leave, err := l.alone(ctx)
	if err != nil {
		return nil, err
	}
	// Every try opens the file anew: a lock call that was given up may succeed
	// later, and then locks another descriptor than the next try.
	f := flock.New(l.path, flock.SetPermissions(fileMode), flock.SetFlag(os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW))
	if err := get(ctx, f); err != nil {
		_ = leave()
		if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
			return nil, &BusyError{l.holder(), time.Since(begun)}
		}
		return nil, l.failed(err)
	}
	l.sign()
	return func() error { return errors.Join(f.Unlock(), leave()) }, nil // a second Unlock does nothing
}

// lockAtOnce does not wait.
func lockAtOnce(_ context.Context, f *flock.Flock) error {
	ok, err := f.TryLock()
	if err == nil && !ok {
		return context.DeadlineExceeded
	}
	return err
}

// lockExclusive sleeps in the kernel rather than polling, so that a waiter goes
// on the moment the holder leaves.
func lockExclusive(ctx context.Context, f *flock.Flock) error {
	if ok, err := f.TryLock(); ok || err != nil {
		return err
	}
	if ctx.Done() == nil { // ctx never ends, as in runners: no goroutine is needed to end the wait
		return f.Lock()
	}
	done := make(chan error, 1)
	go func() { done <- f.Lock() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		go func() {
			if <-done == nil { // the lock came after the caller gave up
				_ = f.Unlock()
			}
		}()
		return ctx.Err()
	}
}

func lockShared(ctx context.Context, f *flock.Flock) error {
	_, err := f.TryRLockContext(ctx, 2*time.Millisecond)
	return err
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

// sign writes the holder note: who holds the lock, for the error of the processes that wait.
func (l *schedulerLock) sign() {
	if l.note == nil {
		f, err := sys.OpenRegular(l.path, os.O_WRONLY)
		if err != nil {
			return
		}
		l.note = f
		_ = f.Chmod(fileMode)
	}
	_, _ = l.note.WriteAt(fmt.Appendf(nil, "%-119.119s\n", fmt.Sprintf(holderNote, os.Getpid())+l.who), 0)
}

// close closes the file of the holder note. The lock must not be held.
func (l *schedulerLock) close() error {
	if l.note == nil {
		return nil
	}
	return l.note.Close()
}

// holderNote is how a note begins: with the process that wrote it.
const holderNote = "pid %d, "

// holder returns what is known of the process that holds the lock: its note, or its command if the note is another's,
// as when the process is not of this program. The note outlives who wrote it.
func (l *schedulerLock) holder() string {
	b, _ := sys.ReadRegular(l.path, 1<<10)
	note, noted := strings.TrimSpace(string(b)), 0
	_, _ = fmt.Sscanf(note, holderNote, &noted)
	switch pid := sys.Flocked(l.path, noted); pid {
	case 0:
		return ""
	case noted:
		return note
	default:
		command, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		return fmt.Sprintf(holderNote+"%.100s", pid, strings.TrimRight(strings.ReplaceAll(string(command), "\x00", " "), " "))
	}
}
