// Package watch has the files that a repository's resident scheduler needs: the
// lock jobs/resident.lock, which ensures that there is only one, and
// notifications of changes to files that jobs wait for.
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

// LeaderLock is the lock, held by this process. The lock file has four lines:
// the holder's process id, a digest of what it looks after, its pid namespace
// and its host. Setting the file's times wakes the holder.
type LeaderLock struct {
	Namespace string // pid namespace of this process; "": unknown
	Host      string // host of this process; "": unknown

	path string
	f    *os.File
}

// Acquire takes the lock at path. It returns nil if another process has it.
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

// Inherited returns the lock at path that Wake handed over as descriptor fd. It
// returns nil if fd is not that file or this process does not have the lock.
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

// Wake ensures that a resident scheduler looks after w. If the lock is free, it
// calls start, which starts a process that inherits the lock. Otherwise it sets
// the file's times, which wakes the holder, unless the holder has already
// announced w.
func Wake(path string, w kernel.Wakes, start func(lock *os.File) error) error {
	create := os.O_CREATE
	if w.Empty() {
		create = 0 // nothing to look after: only wake a holder, if there is one
	}
	f, err := open(path, create)
	if err != nil {
		if w.Empty() && errors.Is(err, os.ErrNotExist) {
			return nil
		}
		return err
	}
	defer f.Close() // the started process keeps the lock
	if w.Empty() {  // do not take the lock, not even briefly: another caller would assume that there is a holder
		return wakeHolder(f, path, w)
	}
	free, err := sys.TryLock(f)
	switch {
	case err != nil:
		return err
	case !free:
		return wakeHolder(f, path, w)
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

// wakeHolder wakes the holder of the lock, if there is one, unless it has
// announced w.
func wakeHolder(f *os.File, path string, w kernel.Wakes) error {
	if announced(f) == digest(w) {
		return nil
	}
	now := time.Now()
	if err := os.Chtimes(path, now, now); err != nil {
		return fmt.Errorf("wake the resident scheduler: %w", err)
	}
	return nil
}

// PID returns the process that holds the lock at path, or 0 if none does.
func PID(path string) int {
	pid, _ := Holder(path)
	return pid
}

// Taken reports whether a process holds the lock at path or is about to inherit
// it.
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

// Holder returns the process that holds the lock at path and its pid namespace,
// or 0 if none does.
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

// holderHost returns the host of the process that holds the lock at path, or ""
// if none does or it is not yet announced.
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
	if len(all) < 5 { // the last line is incomplete
		return ""
	}
	return strings.TrimSpace(all[3])
}

// Held reports whether the lock file is still the one at the path. It is not if
// the repository was removed.
func (p *LeaderLock) Held() bool {
	here, err := p.f.Stat()
	if err != nil {
		return false
	}
	there, err := os.Lstat(p.path)
	return err == nil && os.SameFile(here, there)
}

// Announce writes to the lock file what this process looks after. nil means
// that it is about to find out.
func (p *LeaderLock) Announce(w *kernel.Wakes) {
	what := ""
	if w != nil {
		what = digest(*w)
	}
	_, _ = p.f.WriteAt([]byte(fmt.Sprintf("%-10d\n%-16s\n%s\n%s\n", os.Getpid(), what, p.Namespace, p.Host)), 0) // a failure only costs unnecessary wake-ups
}

// Release releases the lock.
func (p *LeaderLock) Release() { _ = sys.Unlock(p.f) }

// Reacquire takes the lock again, and reports whether it did.
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

// digest returns the digest of w for an announcement. It contains only the
// number of attempts: a runner that goes on with another job is still the same
// process to watch, and the holder notices by itself when one ends.
func digest(w kernel.Wakes) string {
	h := fnv.New64a()
	o := w.Outside
	artifacts := func(list []kernel.Artifact) []kernel.Artifact {
		return slices.SortedFunc(slices.Values(list), func(a, b kernel.Artifact) int {
			return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Ref, b.Ref))
		})
	}
	fmt.Fprintf(h, "%d %t %t %t %d %q %q %q %q", w.At.UnixMicro(), w.Poll, o.Head, o.Clean, len(o.Attempts),
		slices.Sorted(slices.Values(o.Branches)), artifacts(o.Artifacts), artifacts(o.Markers), o.Types)
	return fmt.Sprintf("%016x", h.Sum64())
}
