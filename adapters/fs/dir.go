package fs

import (
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// Modes of everything below .vizier/jobs, whatever the umask (semantics 2,
// decision 15).
const (
	fileMode = 0o600
	dirMode  = 0o700
)

// dir is an open directory below .vizier. Its names are single elements or
// paths of them, looked up one by one and never through a symbolic link, so
// nothing leads out (semantics 2, decision 15). It is the system's own calls
// and not os.Root, which opens every element of every path anew and costs five
// times as much where a plan writes thousands of files.
type dir struct{ fd int }

// tempCount makes temporary names unique within the process.
var tempCount atomic.Uint64 //nolint:gochecknoglobals // a counter of the process

// pid is asked for once: it is part of every temporary name.
var pid = strconv.Itoa(os.Getpid()) //nolint:gochecknoglobals // a constant of the process

const dirFlags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC

// openRoot opens the directory at path; its last element is not a link.
func openRoot(path string) (dir, error) {
	fd, err := retry(func() (int, error) { return unix.Open(path, dirFlags, 0) })
	return dir{fd}, failed("open", path, err)
}

// open opens the directory of that name below d.
func (d dir) open(name string) (dir, error) {
	at := d
	for part := range strings.SplitSeq(name, "/") {
		fd, err := retry(func() (int, error) {
			if part == ".." { // no name of the store's: it would lead out
				return -1, unix.EINVAL
			}
			return unix.Openat(at.fd, part, dirFlags, 0)
		})
		if at != d {
			at.close()
		}
		if err != nil {
			return dir{-1}, failed("open", name, err)
		}
		at = dir{fd}
	}
	return at, nil
}

// make opens the directory of that name below d, and makes it and its parents
// where they are missing.
func (d dir) make(name string) (dir, error) {
	at := d
	for part := range strings.SplitSeq(name, "/") {
		next, err := at.open(part)
		if errors.Is(err, iofs.ErrNotExist) {
			if err = unix.Mkdirat(at.fd, part, dirMode); err == nil || errors.Is(err, unix.EEXIST) {
				if next, err = at.open(part); err == nil {
					err = unix.Fchmod(next.fd, dirMode)
				}
			}
		}
		if at != d {
			at.close()
		}
		if err != nil {
			return dir{-1}, failed("make directory", name, err)
		}
		at = next
	}
	return at, nil
}

func (d dir) close() { _ = unix.Close(d.fd) }

// in calls f with the directory that path's last element is in, and that
// element.
func (d dir) in(path string, f func(dir, string) error) error {
	i := strings.LastIndexByte(path, '/')
	if i < 0 {
		return f(d, path)
	}
	parent, err := d.open(path[:i])
	if err != nil {
		return err
	}
	defer parent.close()
	return f(parent, path[i+1:])
}

// write replaces the file of that name whole: a reader sees the old content or
// the new. If durable, content and name are on the disk when it returns.
func (d dir) write(path string, data []byte, durable bool) error {
	return d.writeAs(path, "", data, durable)
}

// writeAs is write, with another name for what was written: one below the
// file's directory that others do not write to. It is there first, but where
// the file system has no such names it is not.
func (d dir) writeAs(path, also string, data []byte, durable bool) error {
	return d.in(path, func(d dir, name string) error {
		temp, err := d.stage(path, name, data, durable)
		if temp == "" {
			return err
		}
		if err == nil && also != "" {
			d.link(temp, also)
		}
		if err == nil {
			err = unix.Renameat(d.fd, temp, d.fd, name)
		}
		if err != nil {
			return failed("write", path, errors.Join(err, ignoreMissing(unix.Unlinkat(d.fd, temp, 0))))
		}
		if durable {
			return failed("sync directory of", path, unix.Fsync(d.fd))
		}
		return nil
	})
}

// stage writes data whole to a temporary file beside name. With an error, the
// file is there all the same, unless temp is "".
func (d dir) stage(path, name string, data []byte, durable bool) (temp string, err error) {
	temp, fd, err := d.temporary(name)
	if err != nil {
		return "", failed("create", path, err)
	}
	err = writeAll(fd, data)
	if err == nil && durable {
		err = unix.Fsync(fd)
	}
	return temp, errors.Join(err, unix.Close(fd))
}

// writeNew makes the file of that name, whole, if there is none: else it is
// fs.ErrExist. Of several that try, on whatever hosts, one succeeds.
func (d dir) writeNew(path string, data []byte, durable bool) error {
	return d.in(path, func(d dir, name string) error {
		temp, err := d.stage(path, name, data, durable)
		if temp == "" {
			return err
		}
		if err == nil {
			err = unix.Linkat(d.fd, temp, d.fd, name, 0)
		}
		err = errors.Join(err, ignoreMissing(unix.Unlinkat(d.fd, temp, 0)))
		if err != nil {
			return failed("write", path, err)
		}
		if durable {
			return failed("sync directory of", path, unix.Fsync(d.fd))
		}
		return nil
	})
}

// link gives the file of that name another, in place of any that has it.
func (d dir) link(name, path string) {
	dirs, other := filepath.Split(path)
	at, err := d.make(strings.TrimSuffix(dirs, "/"))
	if err != nil {
		return
	}
	defer at.close()
	if err := unix.Linkat(d.fd, name, at.fd, other, 0); errors.Is(err, unix.EEXIST) && unix.Unlinkat(at.fd, other, 0) == nil {
		_ = unix.Linkat(d.fd, name, at.fd, other, 0)
	}
}

// temporary makes a new file for what is to be name. One that is there already
// was left by a process of the same pid that was killed.
func (d dir) temporary(name string) (temp string, fd int, err error) {
	for range 1000 {
		temp = "." + name + "." + pid + "." + strconv.FormatUint(tempCount.Add(1), 36) + ".tmp"
		fd, err = retry(func() (int, error) {
			return unix.Openat(d.fd, temp, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, fileMode)
		})
		if err != unix.EEXIST { //nolint:errorlint // the system's own value
			break
		}
	}
	if err == nil {
		err = private(fd)
	}
	return temp, fd, err
}

// private gives a new file its mode where the umask or the directory did not:
// changing it costs as much as creating the file, looking does not.
func private(fd int) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&0o7777 == fileMode {
		return err
	}
	return unix.Fchmod(fd, fileMode)
}

func writeAll(fd int, data []byte) error {
	for len(data) > 0 {
		n, err := retry(func() (int, error) { return unix.Write(fd, data) })
		if err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}

// file opens the file of that name, for f to read.
func (d dir) file(path string, flags int) (f *os.File, err error) {
	err = d.in(path, func(d dir, name string) error {
		fd, err := retry(func() (int, error) {
			return unix.Openat(d.fd, name, flags|unix.O_NOFOLLOW|unix.O_CLOEXEC, fileMode)
		})
		if err != nil {
			return failed("open", path, err)
		}
		f = os.NewFile(uintptr(fd), path)
		if flags&unix.O_CREAT != 0 {
			return f.Chmod(fileMode)
		}
		return nil
	})
	return f, err
}

// read reads a regular file of at most limit bytes. It does not wait on a pipe
// that stands in a record's place.
func (d dir) read(path string, limit int64) (data []byte, err error) {
	err = d.in(path, func(d dir, name string) error {
		fd, err := retry(func() (int, error) {
			return unix.Openat(d.fd, name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		})
		if err != nil {
			return failed("open", path, err)
		}
		defer unix.Close(fd)
		var st unix.Stat_t
		switch err := unix.Fstat(fd, &st); {
		case err != nil:
			return failed("stat", path, err)
		case st.Mode&unix.S_IFMT != unix.S_IFREG:
			return fmt.Errorf("%s is not a regular file", path)
		case st.Size > limit:
			return fmt.Errorf("%s has %d bytes, more than the %d that make sense", path, st.Size, limit)
		}
		data = make([]byte, st.Size)
		return failed("read", path, readAll(fd, data))
	})
	return data, err
}

func readAll(fd int, data []byte) error {
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

// names lists the directory of that name; one that is missing is empty.
func (d dir) names(path string) ([]string, error) {
	f, err := d.file(path, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, ignoreMissing(err)
	}
	names, err := f.Readdirnames(-1)
	return names, errors.Join(err, f.Close())
}

// exists reports whether there is anything of that name.
func (d dir) exists(path string) (found bool, err error) {
	err = d.in(path, func(d dir, name string) error {
		var st unix.Stat_t
		err := unix.Fstatat(d.fd, name, &st, unix.AT_SYMLINK_NOFOLLOW)
		found = err == nil
		return failed("stat", path, ignoreMissing(err))
	})
	return found, ignoreMissing(err)
}

// remove unlinks a file; one that is missing is no error.
func (d dir) remove(path string) error {
	return ignoreMissing(d.in(path, func(d dir, name string) error {
		return failed("remove", path, unix.Unlinkat(d.fd, name, 0))
	}))
}

// renameWithin renames a file of a directory unless the new name is taken; one
// that is missing is no error.
func (d dir) renameWithin(path, to string) error {
	return ignoreMissing(d.in(path, func(d dir, name string) error {
		to := to[strings.LastIndexByte(to, '/')+1:]
		if taken, err := d.exists(to); taken || err != nil {
			return err
		}
		return failed("rename", path, unix.Renameat(d.fd, name, d.fd, to))
	}))
}

func retry(call func() (int, error)) (int, error) {
	for {
		n, err := call()
		if err != unix.EINTR { //nolint:errorlint // the system's own value
			return n, err
		}
	}
}

func failed(op, path string, err error) error {
	if err == nil {
		return nil
	}
	return &iofs.PathError{Op: op, Path: path, Err: err}
}

func ignoreMissing(err error) error {
	if errors.Is(err, iofs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return nil
	}
	return err
}
