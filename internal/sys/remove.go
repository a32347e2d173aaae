package sys

import (
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// MountedError says that something is mounted at or below a directory, so that removing the directory
// would remove what is mounted.
type MountedError struct{ Mounts []string }

func (e *MountedError) Error() string {
	return fmt.Sprintf("%s is mounted there and would be emptied: `umount` it, then try again", strings.Join(e.Mounts, ", "))
}

// Unmounted returns a *MountedError if something is mounted at path or below it. A missing path is no
// error.
func Unmounted(path string) error {
	above, err := filepath.EvalSymlinks(filepath.Dir(path))
	if errors.Is(err, iofs.ErrNotExist) {
		return nil
	}
	var found []string
	if err == nil {
		found, err = mounts(filepath.Join(above, filepath.Base(path)))
	}
	switch {
	case err != nil:
		return fmt.Errorf("look what is mounted below %s: %w", path, err)
	case len(found) > 0:
		return &MountedError{found}
	}
	return nil
}

// mountsByDevice returns the directories at path or below it that are on another device than the
// directory they are in.
func mountsByDevice(path string) (found []string, err error) {
	devices := map[string]uint64{}
	if devices[filepath.Dir(path)], err = device(filepath.Dir(path)); err != nil {
		return nil, err
	}
	err = filepath.WalkDir(path, func(at string, d iofs.DirEntry, err error) error {
		switch {
		case errors.Is(err, iofs.ErrNotExist), errors.Is(err, iofs.ErrPermission), errors.Is(err, unix.ENAMETOOLONG): // what cannot be listed is looked at again before it is removed
			return nil
		case err != nil:
			return err
		case !d.IsDir():
			return nil
		}
		switch devices[at], err = device(at); {
		case errors.Is(err, unix.ENAMETOOLONG):
			return iofs.SkipDir
		case err != nil:
			return err
		}
		if devices[at] != devices[filepath.Dir(at)] {
			found = append(found, at)
			return iofs.SkipDir
		}
		return nil
	})
	return found, err
}

func device(path string) (uint64, error) {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return 0, &iofs.PathError{Op: "lstat", Path: path, Err: err}
	}
	return uint64(st.Dev), nil //nolint:unconvert // it has other types on some systems
}

// RemoveTree removes the file or directory at path with all that is in it. It goes through no symbolic
// link, and removes nothing if something is mounted there: then the error is a *MountedError.
// Directories that may not be written to, such as those of a cache of modules, do not stop it if they
// belong to the user. A missing path is no error.
func RemoveTree(path string) error {
	return RemoveBelow(filepath.Dir(path), filepath.Base(path))
}

// RemoveBelow is RemoveTree for name, a path relative to the directory dir which no symbolic link may
// lead out of it.
func RemoveBelow(dir, name string) error {
	path := filepath.Join(dir, name)
	root, err := os.OpenRoot(dir)
	if errors.Is(err, iofs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer root.Close()
	if err := root.Remove(name); err == nil || errors.Is(err, iofs.ErrNotExist) { // a file, or an empty directory
		return nil
	}
	if err := Unmounted(path); err != nil {
		return err
	}
	err = root.RemoveAll(name)
	if !errors.Is(err, iofs.ErrPermission) {
		return located(err, dir)
	}
	openUp(root, name)
	if err := Unmounted(path); err != nil { // now that all can be seen
		return err
	}
	return located(root.RemoveAll(name), dir)
}

// openUp lets the user change the directory called name and those below it, as far as they are the
// user's.
func openUp(root *os.Root, name string) {
	_ = iofs.WalkDir(root.FS(), filepath.ToSlash(name), func(at string, d iofs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			letIn(root, at)
		}
		return nil //nolint:nilerr // the removal tells
	})
}

// LetIn lets the user work in the directory at path if it is the user's and no symbolic link. Whoever
// may not is told by what comes next.
func LetIn(path string) {
	root, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return
	}
	defer root.Close()
	letIn(root, filepath.Base(path))
}

func letIn(root *os.Root, name string) {
	if st, err := root.Lstat(name); err == nil && st.IsDir() && st.Mode().Perm()&0o700 != 0o700 {
		_ = root.Chmod(name, st.Mode()|0o700)
	}
}

// located returns err with the path that it is about below dir.
func located(err error, dir string) error {
	var e *iofs.PathError
	if errors.As(err, &e) && !filepath.IsAbs(e.Path) {
		return &iofs.PathError{Op: e.Op, Path: filepath.Join(dir, e.Path), Err: e.Err}
	}
	return err
}
