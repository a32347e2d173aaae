package proc

import (
	"os"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

// openFile is os.OpenFile for regular files. It saves the system calls with
// which the runtime finds out whether a file can be polled: five for each of
// the ten files that a runner opens for a job.
func openFile(path string, flags int) (*os.File, error) {
	for {
		fd, err := unix.Open(path, flags|unix.O_CLOEXEC, 0o600)
		if err == nil {
			return os.NewFile(uintptr(fd), path), nil
		}
		if err != unix.EINTR {
			return nil, &os.PathError{Op: "open", Path: path, Err: err}
		}
	}
}

// readFile is os.ReadFile without that cost, for files of a few lines. It does
// not follow links, and does not block on a named pipe.
func readFile(path string) ([]byte, error) {
	var fd int
	var err error
	for {
		if fd, err = unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0); err != unix.EINTR {
			break
		}
	}
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	b := make([]byte, 0, 1024)
	for {
		n, err := unix.Read(fd, b[len(b):cap(b)])
		switch {
		case err == unix.EINTR:
		case err != nil:
			return nil, &os.PathError{Op: "read", Path: path, Err: err}
		case n == 0:
			return b, nil
		default:
			if b = b[:len(b)+n]; len(b) == cap(b) {
				b = slices.Grow(b, 1)
			}
		}
	}
}

// null opens /dev/null once.
var null = sync.OnceValues(func() (*os.File, error) { return openFile(os.DevNull, os.O_RDWR) })
