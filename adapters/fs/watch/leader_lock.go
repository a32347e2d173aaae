// Package watch has what a repository's resident scheduler needs of files: the
// lock jobs/resident.lock, which makes it the only one, and the news of changes
// to files that jobs wait for.
package watch

import (
	"cmp"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vizier-scheduler/vizier/internal/sys"
	"github.com/vizier-scheduler/vizier/kernel"
)

// LeaderLock is the lock, held by this process. The lock file has four lines: the
// holder's process id, a digest of what it looks after, its pid namespace and its host.
// Whoever sets the file's times wakes the holder.
type LeaderLock struct {
	Namespace string // pid namespace of this process; "": not known
	Host      string // of this process; "": not known

	path string
	f    *os.File
}

// Acquire takes the lock at path. It is nil when another process has it.
func Acquire(path string) (*LeaderLock, error) {
	f, err := open(path, os.O_CREATE)
	if err != nil {
		return nil, err
	}
	ok, err := sys.TryLock(f)
	if ok {
		err = f.Truncate(0) // what the last holder said
	}
	if !ok || err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &LeaderLock{path: path, f: f}, nil
}

// Inherited is the lock at path that Wake handed over as descriptor fd; nil if
// fd is not that file or the lock is not this process's.
func Inherited(path string, fd int) *LeaderLock {
	var have, want unix.Stat_t
	if unix.Fstat(fd, &have) != nil || unix.Lstat(path, &want) != nil || have.Dev != want.Dev || have.Ino != want.Ino {
		return nil
	}
	unix.CloseOnExec(fd)
	p := &LeaderLock{path: path, f: os.NewFile(uintptr(fd), path)}
	if ok, _ := sys.TryLock(p.f); !ok {
		return nil
	}
	return p
}

// Wake makes sure that a resident scheduler looks after w. If the lock is free,
// start starts a process that inherits it. If it is not, Wake sets the file's
// times, which wakes the holder, unless the holder has announced w already.
func Wake(path string, w kernel.Wakes, start func(lock *os.File) error) error {
	create := os.O_CREATE
	if w.Empty() {
		create = 0 // nothing to look after: only a holder is told, if there is one
	}
	f, err := open(path, create)
	if err != nil {
		if w.Empty() && errors.Is(err, os.ErrNotExist) {
			return nil
		}
		return err
	}
	defer f.Close() // the process that was started has the lock as well
	if w.Empty() {  // not even for a moment is the lock taken: who wants it would rely on a holder
		return tell(f, path, w)
	}
	free, err := sys.TryLock(f)
	switch {
	case err != nil:
		return err
	case !free:
		return tell(f, path, w)
	}
	err = f.Truncate(0) // what the last holder said
	if err == nil {
		err = start(f)
	}
	if err != nil {
		return errors.Join(err, sys.Unlock(f))
	}
	return nil
}

// tell wakes who holds the lock, if somebody does, unless it has announced w.
func tell(f *os.File, path string, w kernel.Wakes) error {
	if announced(f) == digest(w) {
		return nil
	}
	now := time.Now()
	if err := os.Chtimes(path, now, now); err != nil {
		return fmt.Errorf("wake the resident scheduler: %w", err)
	}
	return nil
}

// PID is the process that holds the lock at path; 0: none does.
func PID(path string) int {
	pid, _ := Holder(path)
	return pid
}

// Taken reports that a process has the place at path, or is just being started to
// have it.
func Taken(path string) bool {
	f, err := open(path, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB); err == unix.EWOULDBLOCK {
		return true
	}
	_ = sys.Unlock(f)
	return false
}

// Holder is the process that holds the lock at path, and its pid namespace; 0:
// none does.
func Holder(path string) (pid int, space string) {
	f, err := open(path, 0)
	if err != nil {
		return 0, ""
	}
	defer f.Close()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB); err != unix.EWOULDBLOCK {
		_ = sys.Unlock(f)
		return 0, ""
	}
	first, _, third := lines(f)
	pid, _ = strconv.Atoi(first)
	return pid, third
}

// holderHost is the host of the process that holds the lock at path; "": none does, or it has
// not said yet.
func holderHost(path string) string {
	f, err := open(path, 0)
	if err != nil {
		return ""
	}
	defer f.Close()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB); err != unix.EWOULDBLOCK {
		_ = sys.Unlock(f)
		return ""
	}
	var b [512]byte
	n, _ := f.ReadAt(b[:], 0)
	all := strings.Split(string(b[:n]), "\n")
	if len(all) < 5 { // the last one is not whole yet
		return ""
	}
	return strings.TrimSpace(all[3])
}

// Held reports that the lock file is still the one at the path. It is not when
// the repository was removed.
func (p *LeaderLock) Held() bool {
	if p.f == nil {
		return false
	}
	here, err := p.f.Stat()
	if err != nil {
		return false
	}
	there, err := os.Lstat(p.path)
	return err == nil && os.SameFile(here, there)
}

// Announce writes to the lock file what this process looks after; nil: that it is
// about to look.
func (p *LeaderLock) Announce(w *kernel.Wakes) {
	what := ""
	if w != nil {
		what = digest(*w)
	}
	_, _ = p.f.WriteAt([]byte(fmt.Sprintf("%-10d\n%-16s\n%s\n%s\n", os.Getpid(), what, p.Namespace, p.Host)), 0) // without it there are calls for nothing
}

// Release gives the lock up.
func (p *LeaderLock) Release() { _ = sys.Unlock(p.f) }

// Reacquire takes it again, unless another process did.
func (p *LeaderLock) Reacquire() bool {
	ok, _ := sys.TryLock(p.f)
	return ok && p.Held()
}

func open(path string, flags int) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|unix.O_NOFOLLOW|flags, 0o600)
	if err != nil {
		return nil, fmt.Errorf("resident scheduler: %w", err)
	}
	return f, nil
}

func lines(f *os.File) (first, second, third string) {
	var b [128]byte
	n, _ := f.ReadAt(b[:], 0)
	first, rest, _ := strings.Cut(string(b[:n]), "\n")
	second, rest, _ = strings.Cut(rest, "\n")
	third, _, _ = strings.Cut(rest, "\n")
	return strings.TrimSpace(first), strings.TrimSpace(second), strings.TrimSpace(third)
}

func announced(f *os.File) string {
	_, what, _ := lines(f)
	return what
}

// digest stands for w in an announcement. It has only the number of the attempts:
// a runner that goes on with another job is still the same process to watch, and
// the holder notices by itself when one ends.
func digest(w kernel.Wakes) string {
	h := fnv.New64a()
	o := w.Outside
	artifacts := func(list []kernel.Artifact) []kernel.Artifact {
		return slices.SortedFunc(slices.Values(list), func(a, b kernel.Artifact) int {
			return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Ref, b.Ref))
		})
	}
	fmt.Fprintf(h, "%d %t %t %t %d %q %q %q", w.At.UnixMicro(), w.Poll, o.Head, o.Clean, len(o.Attempts),
		slices.Sorted(slices.Values(o.Branches)), artifacts(o.Artifacts), artifacts(o.Markers))
	return fmt.Sprintf("%016x", h.Sum64())
}
