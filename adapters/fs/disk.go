package fs

import (
	"errors"
	"io"
	iofs "io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/vizier-scheduler/vizier/internal/sys"
)

// disk has every call by which the store opens, reads, changes and syncs files. The tests
// put another one in its place, which records the calls, to see what a power failure
// between any two may leave (power_test.go).
type disk interface {
	open(at int, path string, flags int) (fd int, err error)         // looks up the path's elements one by one, and follows no link
	create(at int, name string, flags int) (fd int, err error)       // or opens the file that is there, if flags say so
	read(fd int, data []byte) error                                  // all of data; io.ErrUnexpectedEOF
	readAt(f *os.File, data []byte, offset int64) (n int, err error) // as f.ReadAt
	names(dir *os.File) ([]string, error)
	look(at int, path string) (sys.Looked, error)  // as sys.Look
	stat(at int, name string) (unix.Stat_t, error) // of a link itself
	mayWrite(at int, name string) error            // whether the user may make files in a directory
	mkdir(at int, name string) error
	write(fd int, data []byte) error
	writeAt(fd int, data []byte, offset int64) error
	truncate(fd int, size int64) error
	rename(from int, old string, to int, name string) error    // replaces the file that has the name
	renameNew(from int, old string, to int, name string) error // unless the name is taken
	link(from int, old string, to int, name string) error
	unlink(at int, name string) error
	removeAll(dir, name string) error // name is below the directory dir
	sync(fd int) error                // a file's data and metadata, or a directory's names
	syncData(fd int) error            // a file's data, and the metadata that reading it needs
	syncAll(at int) error             // every file below the directory, and the names above it
}

// machine is the disk of this machine.
type machine struct{}

// open asks the system for all of the path at once, where it can. Where that fails for another
// reason than a missing file, the lookup of the elements tells why.
func (m machine) open(at int, path string, flags int) (int, error) {
	flags |= unix.O_NOFOLLOW | unix.O_CLOEXEC
	if strings.Contains(path, "/") && !strings.Contains(path, "..") {
		fd, err := retry(func() (int, error) { return sys.OpenBelow(at, path, flags) })
		if err == nil || errors.Is(err, unix.ENOENT) {
			return fd, err
		}
	}
	return m.walk(at, path, flags)
}

// walk opens path element by element.
func (m machine) walk(at int, path string, flags int) (int, error) {
	first, rest, more := strings.Cut(path, "/")
	switch {
	case first == "..": // no path of the store has it: it would lead out
		return -1, unix.EINVAL
	case !more:
		return retry(func() (int, error) { return unix.Openat(at, path, flags, 0) })
	}
	dir, err := m.walk(at, first, dirFlags)
	if err != nil {
		return -1, err
	}
	defer unix.Close(dir)
	return m.walk(dir, rest, flags)
}

func (machine) create(at int, name string, flags int) (int, error) {
	return retry(func() (int, error) {
		return unix.Openat(at, name, flags|unix.O_CREAT|unix.O_NOFOLLOW|unix.O_CLOEXEC, fileMode)
	})
}

func (machine) read(fd int, data []byte) error {
	for len(data) > 0 {
		n, err := retry(func() (int, error) { return unix.Read(fd, data) })
		if err != nil {
			return err
		}
		if n == 0 {
			return io.ErrUnexpectedEOF
		}
		data = data[n:]
	}
	return nil
}

func (machine) readAt(f *os.File, data []byte, offset int64) (int, error) {
	return f.ReadAt(data, offset)
}

func (machine) names(dir *os.File) ([]string, error) { return dir.Readdirnames(-1) }

func (machine) look(at int, path string) (sys.Looked, error) { return sys.Look(at, path) }

func (machine) stat(at int, name string) (st unix.Stat_t, err error) {
	err = unix.Fstatat(at, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	return st, err
}

func (machine) mayWrite(at int, name string) error {
	return unix.Faccessat(at, name, unix.W_OK|unix.X_OK, 0)
}

func (machine) mkdir(at int, name string) error { return unix.Mkdirat(at, name, dirMode) }

func (machine) write(fd int, data []byte) error {
	for len(data) > 0 {
		n, err := retry(func() (int, error) { return unix.Write(fd, data) })
		if err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}

func (machine) writeAt(fd int, data []byte, offset int64) error {
	for len(data) > 0 {
		n, err := retry(func() (int, error) { return unix.Pwrite(fd, data, offset) })
		if err != nil {
			return err
		}
		data, offset = data[n:], offset+int64(n)
	}
	return nil
}

func (machine) truncate(fd int, size int64) error { return unix.Ftruncate(fd, size) }

func (machine) rename(from int, old string, to int, name string) error {
	return unix.Renameat(from, old, to, name)
}

func (m machine) renameNew(from int, old string, to int, name string) error {
	err := sys.RenameNew(from, old, to, name)
	if errors.Is(err, errors.ErrUnsupported) {
		return linkNew(m, from, old, to, name)
	}
	return err
}

func (machine) link(from int, old string, to int, name string) error {
	return unix.Linkat(from, old, to, name, 0)
}

func (machine) unlink(at int, name string) error { return unix.Unlinkat(at, name, 0) }

func (machine) removeAll(dir, name string) error { return sys.RemoveBelow(dir, name) }

// linkNew is a rename that never replaces a file, for file systems without such a
// call. For a moment the file has both names.
func linkNew(d disk, from int, old string, to int, name string) error {
	if err := d.link(from, old, to, name); err != nil {
		return err
	}
	err := d.unlink(from, old)
	if errors.Is(err, iofs.ErrPermission) { // after any other error the old name may be gone
		err = errors.Join(err, d.unlink(to, name))
	}
	return err
}
