//go:build !darwin && (!linux || portable)

package fs

import "golang.org/x/sys/unix"

// flush has the device keep a file.
func flush(fd int) error { return unix.Fsync(fd) }
