//go:build !linux || portable

package fs

import (
	"errors"
	iofs "io/fs"
	"path"

	"golang.org/x/sys/unix"
)

func (machine) sync(fd int) error     { return flush(fd) }
func (machine) syncData(fd int) error { return flush(fd) }

// syncAll writes the store's files and directories to the device one by one, and
// then flushes the device's cache. sync(2) is not enough: it may return before the
// data is written.
func (m machine) syncAll(at int) error {
	root := dir{at, m}
	for _, name := range [...]string{jobsDir, path.Dir(planStatesDir)} {
		if err := handOver(root, name, unix.Fsync); err != nil && !errors.Is(err, iofs.ErrNotExist) {
			return err
		}
	}
	return errors.Join(failed("sync", vizierDir, unix.Fsync(at)), failed("sync", vizierDir, flush(at)))
}

// handOver calls sync with the file of that name in d, or with the directory
// and all that is below it. It skips files that are removed meanwhile or that this
// user may not read: they are not the store's.
func handOver(d dir, name string, sync func(fd int) error) error {
	var st unix.Stat_t
	if err := unix.Fstatat(d.fd, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return failed("sync", name, err)
	}
	flags := unix.O_RDONLY | unix.O_NONBLOCK
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
	case unix.S_IFDIR:
		flags |= unix.O_DIRECTORY
	default:
		return nil
	}
	fd, err := d.openFile(name, flags)
	if err != nil {
		return failed("sync", name, err)
	}
	defer unix.Close(fd)
	if flags&unix.O_DIRECTORY != 0 {
		if err := handOverBelow(dir{fd, d.disk}, sync); err != nil {
			return err
		}
	}
	return failed("sync", name, sync(fd))
}

func handOverBelow(d dir, sync func(fd int) error) error {
	names, err := d.names(".")
	if err != nil {
		return err
	}
	for _, name := range names {
		err := handOver(d, name, sync)
		if err != nil && !errors.Is(err, iofs.ErrNotExist) && !errors.Is(err, iofs.ErrPermission) {
			return err
		}
	}
	return nil
}
