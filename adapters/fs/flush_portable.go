//go:build !darwin && (!linux || portable)

package fs

import "golang.org/x/sys/unix"

// flush makes a file durable.
func flush(fd int) error { return unix.Fsync(fd) }
