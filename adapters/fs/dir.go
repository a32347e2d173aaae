package fs

import (
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/vizier-scheduler/vizier/internal/sys"
)

// Modes of everything below .vizier/jobs, whatever the umask (semantics 2,
// decision 15).
const (
	fileMode = 0o600
	dirMode  = 0o700
)

// dir is an open directory below .vizier. Its names are single elements or
// paths of them, looked up one by one and never through a symbolic link, so
// nothing leads out (semantics 2, decision 15). It uses system calls and not
// os.Root, which opens every element of every path anew: a plan that writes
// thousands of files would take five times as long.
type dir struct {
	fd   int
	disk disk
}

// tempCount makes temporary names unique within the process.
var tempCount atomic.Uint64 //nolint:gochecknoglobals // a counter of the process

// pid is a part of every temporary name, so it is looked up once.
var pid = strconv.Itoa(os.Getpid()) //nolint:gochecknoglobals // a constant of the process

const dirFlags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC

// openRoot opens the directory at path; its last element must not be a link.
func openRoot(path string, on disk) (dir, error) {
	fd, err := retry(func() (int, error) { return unix.Open(path, dirFlags, 0) })
	return dir{fd, on}, failed("open", path, err)
}

// open opens the directory of that name below d.
func (d dir) open(name string) (dir, error) {
	fd, err := d.lookup(name, dirFlags)
	return dir{fd, d.disk}, err
}

// lookup opens the file of that path below d.
func (d dir) lookup(path string, flags int) (int, error) {
	fd, err := d.disk.open(d.fd, path, flags)
	if errors.Is(err, unix.ENOTDIR) {
		err = fmt.Errorf("a link or a file is in the place of the directory, and Vizier follows no links: move the directory itself there: %w", err)
	}
	return fd, failed("open", path, err)
}

// make opens the directory of that name below d, and makes it and its parents
// if they are missing.
func (d dir) make(name string) (dir, error) {
	at := d
	for part := range strings.SplitSeq(name, "/") {
		next, err := at.open(part)
		if errors.Is(err, iofs.ErrNotExist) {
			if err = d.disk.mkdir(at.fd, part); err == nil || errors.Is(err, unix.EEXIST) {
				if next, err = at.open(part); err == nil {
					err = unix.Fchmod(next.fd, dirMode)
				}
			}
		}
		if at != d {
			at.close()
		}
		if err != nil {
			return dir{fd: -1}, failed("make directory", name, err)
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

// write replaces the file of that name atomically: a reader sees the old content or
// the new. If durable is set, content and name are on the disk when it returns.
func (d dir) write(path string, data []byte, durable bool) error {
	return d.writeAs(path, "", data, durable)
}

// writeAs is write, and gives the content a second name below the file's directory, to
// which nobody else writes. The second name exists before the first; a file system
// without hard links has only the first.
func (d dir) writeAs(path, also string, data []byte, durable bool) error {
	return d.in(path, func(d dir, name string) error {
		temp, err := d.stage(path, name, data, durable)
		if err != nil {
			return err
		}
		if also != "" {
			d.link(temp, also)
		}
		if err := d.disk.rename(d.fd, temp, d.fd, name); err != nil {
			return failed("write", path, d.discard(temp, err))
		}
		return d.sync(path, durable)
	})
}

// stage writes data to a temporary file beside name, and removes it if that fails. Errors
// call the file path.
func (d dir) stage(path, name string, data []byte, durable bool) (temp string, err error) {
	temp, fd, err := d.temporary(name)
	if err != nil {
		return "", failed("create", path, err)
	}
	err = d.disk.write(fd, data)
	if err == nil && durable {
		err = d.disk.sync(fd)
	}
	if err = errors.Join(err, unix.Close(fd)); err != nil {
		return "", failed("write", path, d.discard(temp, err))
	}
	return temp, nil
}

// discard removes a temporary file that err keeps from being used.
func (d dir) discard(temp string, err error) error {
	return errors.Join(err, ignoreMissing(d.disk.unlink(d.fd, temp)))
}

// syncAll makes every file below d durable.
func (d dir) syncAll() error {
	return failed("sync the files below", vizierDir, d.disk.syncAll(d.fd))
}

// sync makes the names in d durable, path's included, if durable is set.
func (d dir) sync(path string, durable bool) error {
	if !durable {
		return nil
	}
	return failed("sync directory of", path, d.disk.sync(d.fd))
}

// writeNew creates the file of that name with its whole content, or returns fs.ErrExist.
// If several processes try, on any hosts, one succeeds.
func (d dir) writeNew(path string, data []byte, durable bool) error {
	return d.in(path, func(d dir, name string) error {
		temp, err := d.stage(path, name, data, durable)
		if err != nil {
			return err
		}
		if err := d.discard(temp, d.disk.link(d.fd, temp, d.fd, name)); err != nil {
			return failed("write", path, err)
		}
		return d.sync(path, durable)
	})
}

// writeOnce is writeNew for path, below the directory of latest, and then replaces latest
// by the same file, if it can. One sync of the content serves both.
func (d dir) writeOnce(path, latest string, data []byte, durable bool) error {
	return d.in(latest, func(top dir, latest string) error {
		temp, err := top.stage(path, latest, data, durable)
		if err != nil {
			return err
		}
		return d.in(path, func(d dir, name string) error {
			if err := d.disk.link(top.fd, temp, d.fd, name); err != nil {
				return failed("write", path, top.discard(temp, err))
			}
			if err := top.disk.rename(top.fd, temp, top.fd, latest); err != nil {
				_ = top.discard(temp, err)
			}
			if err := d.sync(path, durable); err != nil {
				return err
			}
			_ = top.sync(latest, durable)
			return nil
		})
	})
}

// link gives the file of that name a second name, and replaces any file that has it.
func (d dir) link(name, path string) {
	dirs, other := filepath.Split(path)
	at, err := d.make(strings.TrimSuffix(dirs, "/"))
	if err != nil {
		return
	}
	defer at.close()
	if err := d.disk.link(d.fd, name, at.fd, other); errors.Is(err, unix.EEXIST) && d.disk.unlink(at.fd, other) == nil {
		_ = d.disk.link(d.fd, name, at.fd, other)
	}
}

// maxTempName is how many bytes of a file's name are in the name of its temporary file: a file's
// name may have the maximum length, and the temporary name needs room for more.
const maxTempName = 200

// temporary creates the file that is to replace name. One that exists already was left by
// a killed process of the same pid.
func (d dir) temporary(name string) (temp string, fd int, err error) {
	for range 1000 {
		temp = "." + strings.ToValidUTF8(name[:min(len(name), maxTempName)], "") + "." + pid + "." + strconv.FormatUint(tempCount.Add(1), 36) + ".tmp"
		fd, err = d.disk.create(d.fd, temp, unix.O_WRONLY|unix.O_EXCL)
		if err != unix.EEXIST { //nolint:errorlint // the system's own value
			break
		}
	}
	if err == nil {
		err = private(fd)
	}
	return temp, fd, err
}

// private sets the mode of a new file, unless it has it already: changing the mode costs
// as much as creating the file, and looking at it costs little.
func private(fd int) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&0o7777 == fileMode {
		return err
	}
	return unix.Fchmod(fd, fileMode)
}

// file opens the regular file of that name, or the directory if flags ask for one. It
// does not block: a pipe or a device in the file's place is sys.ErrNotRegular.
func (d dir) file(path string, flags int) (f *os.File, err error) {
	err = d.in(path, func(d dir, name string) error {
		fd, err := d.openFile(name, flags|unix.O_NONBLOCK)
		switch {
		case errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENXIO):
			return failed("open", path, fmt.Errorf("%w: %w", sys.ErrNotRegular, err))
		case errors.Is(err, unix.ENOTDIR) && d.isLink(name): // perhaps a link to a directory: it is not missing
			return failed("open", path, sys.ErrNotRegular)
		case err != nil:
			return failed("open", path, err)
		}
		if flags&unix.O_DIRECTORY == 0 {
			if err := sys.Regular(fd); err != nil {
				return failed("open", path, errors.Join(err, unix.Close(fd)))
			}
		}
		if flags&unix.O_CREAT != 0 {
			if err := private(fd); err != nil {
				return failed("set the mode of", path, errors.Join(err, unix.Close(fd)))
			}
		}
		f = os.NewFile(uintptr(fd), path)
		return nil
	})
	return f, err
}

// isLink reports that name is a symbolic link.
func (d dir) isLink(name string) bool {
	st, err := d.disk.stat(d.fd, name)
	return err == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK
}

// behindLink reports that path, or a directory on the way to it, is a symbolic link.
func (d dir) behindLink(path string) bool {
	for ; path != "."; path = filepath.Dir(path) {
		if d.isLink(path) {
			return true
		}
	}
	return false
}

func (d dir) openFile(name string, flags int) (fd int, err error) {
	if flags&unix.O_CREAT != 0 {
		return d.disk.create(d.fd, name, flags)
	}
	return d.disk.open(d.fd, name, flags)
}

// read reads a regular file of at most limit bytes. It does not block on a pipe
// in the place of a record.
func (d dir) read(path string, limit int64) ([]byte, error) {
	fd, err := d.lookup(path, unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	switch st, err := d.disk.look(fd, ""); {
	case err != nil:
		return nil, failed("stat", path, err)
	case !st.Regular():
		return nil, fmt.Errorf("%s is not a regular file", path)
	case st.Size > limit:
		return nil, fmt.Errorf("%s has %d bytes, more than the %d that make sense", path, st.Size, limit)
	default:
		data := make([]byte, st.Size)
		return data, failed("read", path, d.disk.read(fd, data))
	}
}

// names lists the directory of that name; a missing one is empty.
func (d dir) names(path string) ([]string, error) {
	f, err := d.file(path, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, ignoreMissing(err)
	}
	names, err := d.disk.names(f)
	return names, errors.Join(ignoreMissing(err), f.Close()) // it may have been removed since
}

// fileStamp tells whether a file was replaced or edited. The zero value means
// that there is no regular file.
type fileStamp struct {
	modified int64
	size     int64
	inode    uint64
}

// stamp returns the stamp of the file of that name. It resolves the whole path at once,
// links included: a stamp says that a file is the one that was read before, not where
// it is.
func (d dir) stamp(path string) fileStamp {
	st, _ := d.stampOf(path)
	return st
}

// stampOf is stamp for those who must know whether there is no file.
func (d dir) stampOf(path string) (fileStamp, error) {
	st, err := d.disk.look(d.fd, path)
	if err != nil || !st.Regular() {
		return fileStamp{}, failed("stat", path, err)
	}
	return fileStamp{st.Modified, st.Size, st.Inode}, nil
}

// lacks reports that nothing has that name. It resolves the whole path at once: see stamp.
func (d dir) lacks(path string) bool {
	_, err := d.disk.stat(d.fd, path)
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR)
}

// modified returns when the directory of that name was last changed; 0: it is
// not known.
func (d dir) modified(path string) (at int64) {
	_ = d.in(path, func(d dir, name string) error {
		st, err := d.disk.look(d.fd, name)
		if err == nil {
			at = st.Modified
		}
		return nil
	})
	return at
}

// exists reports whether there is anything of that name.
func (d dir) exists(path string) (found bool, err error) {
	err = d.in(path, func(d dir, name string) error {
		_, err := d.disk.stat(d.fd, name)
		found = err == nil
		return failed("stat", path, ignoreMissing(err))
	})
	return found, ignoreMissing(err)
}

// remove unlinks a file. A missing file is no error.
func (d dir) remove(path string) error {
	return ignoreMissing(d.in(path, func(d dir, name string) error {
		return failed("remove", path, d.disk.unlink(d.fd, name))
	}))
}

// renameWithin renames a file within its directory unless the new name is taken. A
// missing file is no error.
func (d dir) renameWithin(path, to string) error {
	return ignoreMissing(d.in(path, func(d dir, name string) error {
		to := to[strings.LastIndexByte(to, '/')+1:]
		if taken, err := d.exists(to); taken || err != nil {
			return err
		}
		return failed("rename", path, d.disk.rename(d.fd, name, d.fd, to))
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

// below returns err, which an operation in the directory of that path returned, with the whole path of the file.
func below(dir string, err error) error {
	if p, ok := errors.AsType[*iofs.PathError](err); ok {
		p.Path = filepath.Join(dir, p.Path)
	}
	return err
}

func ignoreMissing(err error) error {
	if errors.Is(err, iofs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return nil
	}
	return err
}
