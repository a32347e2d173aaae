package proc

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/vizier-scheduler/vizier/internal/sys"
	"github.com/vizier-scheduler/vizier/kernel"
)

// inheritedFD is the descriptor of its job's lock in a runner.
const inheritedFD = 3

// heldLock is a job's lock in this process. When another attempt of the job
// takes it over, the former holder's becomes empty, and its Close does nothing.
type heldLock struct {
	l       *Local
	attempt kernel.AttemptID
	f       *os.File
	claimed bool // by this process
}

// Close releases the lock. Once the attempt was claimed, the note in the lock
// file is not needed any more, and is removed because it would use a block of
// the disk for ever.
func (h *heldLock) Close() error {
	h.l.mu.Lock()
	defer h.l.mu.Unlock()
	if h.f == nil {
		return nil
	}
	delete(h.l.held, h.attempt.Job)
	f := h.f
	h.f = nil
	if h.claimed {
		_ = f.Truncate(0)
	}
	return f.Close()
}

// hold makes f the lock that this process holds for the attempt's job.
func (l *Local) hold(a kernel.AttemptID, f *os.File) *heldLock {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held == nil {
		l.held = map[kernel.JobID]*heldLock{}
	}
	h := &heldLock{l: l, attempt: a, f: f}
	l.held[a.Job] = h
	return h
}

// runs reports whether this process is a's runner: it has claimed it and holds
// the lock.
func (l *Local) runs(a kernel.AttemptID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.held[a.Job]
	return h != nil && h.attempt == a && h.claimed
}

// takeOver takes the lock that this process holds for an earlier attempt of the
// job from its holder, and returns it, or nil if there is none. started is true
// if the lock is held for a itself.
func (l *Local) takeOver(a kernel.AttemptID) (f *os.File, started bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.held[a.Job]
	if h == nil {
		return nil, false
	}
	if h.attempt.N >= a.N {
		return nil, true
	}
	delete(l.held, a.Job)
	f = h.f
	h.f = nil
	return f, false
}

// Acquire takes the job's lock for an attempt that this process is going to run
// itself. It fails with kernel.ErrConflict while another process holds the
// lock.
func (l *Local) Acquire(a kernel.AttemptID) (io.Closer, error) {
	f, started := l.takeOver(a)
	if started {
		return nil, fmt.Errorf("lock of %s: held by this process: %w", label(a), kernel.ErrConflict)
	}
	if f == nil {
		var err error
		if f, err = openLock(l.Files.LockFile(a.Job)); err != nil {
			return nil, err
		}
		locked, err := sys.TryLock(f)
		if err == nil && !locked {
			err = fmt.Errorf("lock %s: held by another runner: %w", f.Name(), kernel.ErrConflict)
		}
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
	}
	if err := noteAttempt(f, a); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return l.hold(a, f), nil
}

// Inherited returns the job's lock as passed by Start. The commands that this
// process runs do not inherit it.
func (l *Local) Inherited(a kernel.AttemptID) (io.Closer, error) {
	path := l.Files.LockFile(a.Job)
	var want, have unix.Stat_t
	if err := unix.Lstat(path, &want); err != nil {
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	if err := unix.Fstat(inheritedFD, &have); err != nil || have.Dev != want.Dev || have.Ino != want.Ino {
		return nil, fmt.Errorf("descriptor %d is not %s; only the scheduler starts a runner: %w", inheritedFD, path, kernel.ErrInvalid)
	}
	unix.CloseOnExec(inheritedFD)
	return l.hold(a, os.NewFile(inheritedFD, path)), nil
}

func openLock(path string) (*os.File, error) {
	f, err := openFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW)
	if err != nil {
		return nil, fmt.Errorf("job lock: %w", err)
	}
	return f, nil
}

// Locked reports whether a process holds the lock of the file at path.
func Locked(path string) (bool, error) { return locked(path) }

// TryLock takes the lock of the existing file at path, until the returned file
// is closed or the process ends. It fails with kernel.ErrConflict while another
// process holds it.
func TryLock(path string) (*os.File, error) {
	f, err := openFile(path, os.O_RDWR|unix.O_NOFOLLOW)
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	got, err := sys.TryLock(f)
	if err == nil && !got {
		err = fmt.Errorf("lock %s: held by another process: %w", path, kernel.ErrConflict)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// locked reports whether a runner holds the lock at path.
func locked(path string) (bool, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err == unix.ENOENT {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("open %s: %w", path, err)
	}
	defer unix.Close(fd)
	err = unix.Flock(fd, unix.LOCK_SH|unix.LOCK_NB)
	if err == unix.EWOULDBLOCK {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("lock %s: %w", path, err)
	}
	// A child being forked right now has a copy of the descriptor, so closing
	// ours is not enough.
	_ = unix.Flock(fd, unix.LOCK_UN)
	return false, nil
}

// noteAttempt notes in the lock file which attempt its holder runs, and on which
// host, so that an attempt that is being claimed is not mistaken for the end of
// an earlier one.
func noteAttempt(f *os.File, a kernel.AttemptID) error {
	text := strconv.Itoa(a.N) + "\n" + here().Boot + "\n" + here().Host + "\n"
	if _, err := f.WriteAt([]byte(text), 0); err != nil {
		return fmt.Errorf("job lock: %w", err)
	}
	return nil
}

// notedAttempt returns the attempt that was last noted in the lock file, or 0, and
// the host on which it was started.
func notedAttempt(path string) (n int, by Identity) {
	b, err := readFile(path)
	if err != nil {
		return 0, by
	}
	lines := append(strings.Split(string(b), "\n"), "", "", "")
	n, _ = strconv.Atoi(lines[0])
	return n, Identity{Boot: lines[1], Host: lines[2]}
}
