package fs

import (
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Confined is an open directory outside the store. Its files are reached as the
// store reaches its own: name by name, and never through a symbolic link.
type Confined struct{ d dir }

// Confine opens the directory at path.
func Confine(path string) (Confined, error) {
	d, err := openRoot(path, machine{})
	return Confined{d}, err
}

// Close closes the directory.
func (c Confined) Close() { c.d.close() }

// Make makes the directory of that name and its parents if they are missing.
// Only the user can read them.
func (c Confined) Make(name string) error {
	d, err := c.d.make(name)
	if err == nil {
		d.close()
	}
	return err
}

// Names lists the directory of that name; a missing one is empty.
func (c Confined) Names(name string) ([]string, error) { return c.d.names(name) }

// Read reads a regular file of at most limit bytes.
func (c Confined) Read(name string, limit int64) ([]byte, error) { return c.d.read(name, limit) }

// Write replaces a file atomically, and makes the directories above it.
func (c Confined) Write(name string, data []byte, durable bool) error {
	return c.above(name, func(d dir, name string) error { return d.write(name, data, durable) })
}

// Add creates a file atomically. It is ErrExist if the name is taken.
func (c Confined) Add(name string, data []byte) error {
	return c.above(name, func(d dir, name string) error {
		temp, err := d.stage(name, name, data, true)
		if err != nil {
			return err
		}
		if err := d.disk.renameNew(d.fd, temp, d.fd, name); err != nil {
			return failed("write", name, d.discard(temp, err))
		}
		return d.sync(name, true)
	})
}

// Move renames a file and makes the directories above its new name. It is
// ErrExist if that name is taken. When Move returns, the new name is durable.
func (c Confined) Move(from, to string) error {
	return c.d.in(from, func(d dir, old string) error {
		return c.above(to, func(e dir, name string) error {
			if err := d.disk.renameNew(d.fd, old, e.fd, name); err != nil {
				return failed("rename", from, err)
			}
			return errors.Join(e.sync(to, true), d.sync(from, true))
		})
	})
}

// Remove unlinks a file; a missing one is no error.
func (c Confined) Remove(name string) error { return c.d.remove(name) }

// Entry describes a file or directory. A symbolic link is not followed.
type Entry struct {
	Mode              iofs.FileMode
	Size              int64
	Inode             uint64
	Modified, Changed time.Time
}

// Stat describes the file or directory of that name; ErrNotExist if there is none.
func (c Confined) Stat(name string) (e Entry, err error) {
	err = c.d.in(name, func(d dir, name string) error {
		st, err := d.disk.stat(d.fd, name)
		if err != nil {
			return failed("stat", name, err)
		}
		e = Entry{Size: st.Size, Inode: st.Ino, Modified: time.Unix(st.Mtim.Unix()), Changed: time.Unix(st.Ctim.Unix())}
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFREG:
		case unix.S_IFDIR:
			e.Mode = iofs.ModeDir
		case unix.S_IFLNK:
			e.Mode = iofs.ModeSymlink
		default:
			e.Mode = iofs.ModeIrregular
		}
		return nil
	})
	return e, err
}

// Lock opens the file of that name, makes it if it is missing, and takes its
// flock if it is free.
func (c Confined) Lock(name string) (f *os.File, free bool, err error) {
	f, err = c.d.file(name, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, false, err
	}
	switch err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err {
	case nil:
		return f, true, nil
	case unix.EWOULDBLOCK:
		return nil, false, f.Close()
	default:
		f.Close()
		return nil, false, fmt.Errorf("lock %s: %w", name, err)
	}
}

// above calls f with the directory of name's last element, which it makes if it
// is missing, and that element.
func (c Confined) above(name string, f func(dir, string) error) error {
	i := strings.LastIndexByte(name, '/')
	if i < 0 {
		return f(c.d, name)
	}
	parent, err := c.d.make(name[:i])
	if err != nil {
		return err
	}
	defer parent.close()
	return f(parent, name[i+1:])
}
