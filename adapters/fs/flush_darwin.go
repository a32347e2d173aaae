package fs

import (
	"errors"

	"golang.org/x/sys/unix"
)

// flush makes a file durable. On macOS fsync(2) stops at the device's cache; some
// network file systems have nothing else.
func flush(fd int) error {
	_, err := unix.FcntlInt(uintptr(fd), unix.F_FULLFSYNC, 0)
	if errors.Is(err, unix.ENOTSUP) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOTTY) {
		return unix.Fsync(fd)
	}
	return err
}
