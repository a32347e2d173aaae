package fs

import (
	"errors"
	"syscall"
)

// NoRoom reports whether err says that a file cannot grow: its file system is full, a quota is used
// up, or it has the size to which this process is limited (see TooLarge).
func NoRoom(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || TooLarge(err)
}

// TooLarge reports whether err says that a file has reached the limit on the size of files of this process.
func TooLarge(err error) bool { return errors.Is(err, syscall.EFBIG) }
