// Package sys wraps system calls that more than one adapter needs and that
// differ between systems.
//
// The build tag portable leaves out, on Linux, what only Linux has, so that the
// code of other systems can be tested there.
package sys

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// TryLock takes the flock of f. It returns false if another process holds it
// exclusively. Readers hold it shared and only for a moment: TryLock waits for
// those, some seconds at most.
func TryLock(f *os.File) (bool, error) {
	const tries, pause = 2000, 50 * time.Microsecond
	fd := int(f.Fd())
	for range tries {
		err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return true, nil
		}
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = unix.Flock(fd, unix.LOCK_SH|unix.LOCK_NB)
		}
		if errors.Is(err, unix.EWOULDBLOCK) {
			return false, nil
		}
		if err != nil && !errors.Is(err, unix.EINTR) {
			return false, fmt.Errorf("lock %s: %w", f.Name(), err)
		}
		if err := Unlock(f); err != nil {
			return false, err
		}
		time.Sleep(pause)
	}
	return false, fmt.Errorf("lock %s: too many processes look at it", f.Name())
}

// Unlock releases the flock of f. Closing f is not always enough: a child that
// is being forked has a copy of the descriptor.
func Unlock(f *os.File) error {
	if err := unix.Flock(int(f.Fd()), unix.LOCK_UN); err != nil {
		return fmt.Errorf("unlock %s: %w", f.Name(), err)
	}
	return nil
}

// living returns pid if there is a process of that id, and else 0.
func living(pid int) int {
	if pid <= 0 || errors.Is(unix.Kill(pid, 0), unix.ESRCH) {
		return 0
	}
	return pid
}

// Touch sets the times of the file at path to now, and creates it if it is
// missing. On a network file system, now is the server's time. It needs no disk
// space for an existing file, and does not follow symbolic links.
func Touch(path string) error {
	err := unix.UtimesNanoAt(unix.AT_FDCWD, path, nil, unix.AT_SYMLINK_NOFOLLOW)
	if errors.Is(err, unix.ENOENT) {
		var f *os.File
		if f, err = os.OpenFile(path, os.O_WRONLY|os.O_CREATE|unix.O_NOFOLLOW, 0o600); err == nil {
			err = f.Close()
		}
		return err
	}
	if err != nil {
		return &os.PathError{Op: "touch", Path: path, Err: err}
	}
	return nil
}
