// Package watch keeps the place of a repository's resident scheduler, the lock
// on jobs/resident.lock, and tells that one when files change that jobs wait
// for.
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

// Post is the place, held by this process. The lock file says in its first
// line which process that is, in its second what it looks after and in its
// third in which pid namespace it is. A change
// of the file's times is a call.
type Post struct {
	Space string // the pid namespace of this process; "": not known

	path string
	f    *os.File
}

// Take takes the place at path. It is nil when another process has it.
func Take(path string) (*Post, error) {
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
	return &Post{path: path, f: f}, nil
}

// Inherited is the place at path as Call handed it over, or nil: descriptor fd
// is its lock file.
func Inherited(path string, fd int) *Post {
	var have, want unix.Stat_t
	if unix.Fstat(fd, &have) != nil || unix.Lstat(path, &want) != nil || have.Dev != want.Dev || have.Ino != want.Ino {
		return nil
	}
	unix.CloseOnExec(fd)
	p := &Post{path: path, f: os.NewFile(uintptr(fd), path)}
	if ok, _ := sys.TryLock(p.f); !ok {
		return nil
	}
	return p
}

// Call sees to it that somebody looks after w. Where the place is free, start
// starts a process that inherits its lock; where it is not, its holder is
// told, unless it says that w is what it looks after.
func Call(path string, w kernel.Wakes, start func(lock *os.File) error) error {
	create := os.O_CREATE
	if w.Empty() {
		create = 0 // there is only somebody to tell, if at all
	}
	f, err := open(path, create)
	if err != nil {
		if w.Empty() && errors.Is(err, os.ErrNotExist) {
			return nil
		}
		return err
	}
	defer f.Close() // who was started has the lock as well
	free, err := sys.TryLock(f)
	switch {
	case err != nil:
		return err
	case !free && says(f) == digest(w):
		return nil
	case !free:
		now := time.Now()
		if err := os.Chtimes(path, now, now); err != nil {
			return fmt.Errorf("call the resident scheduler: %w", err)
		}
		return nil
	case w.Empty():
		return sys.Unlock(f)
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

// PID is the process that has the place at path; 0: nobody has.
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

// Holder is the process that has the place at path, and the pid namespace that
// it is in; 0: nobody has.
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

// Held reports that the lock file is where it was: the repository is still
// there.
func (p *Post) Held() bool {
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

// Announce says what this process looks after; nil: that it is about to look.
func (p *Post) Announce(w *kernel.Wakes) {
	what := ""
	if w != nil {
		what = digest(*w)
	}
	_, _ = p.f.WriteAt([]byte(fmt.Sprintf("%-10d\n%-16s\n%s\n", os.Getpid(), what, p.Space)), 0) // without it there are calls for nothing
}

// Leave gives the place up.
func (p *Post) Leave() { _ = sys.Unlock(p.f) }

// Retake takes it again, unless another process did.
func (p *Post) Retake() bool {
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

func says(f *os.File) string {
	_, what, _ := lines(f)
	return what
}

// digest stands for w in an announcement. Of the attempts only the number
// counts: a runner that goes on with another job is still the same process to
// look after, and one that ends is noticed.
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
