//go:build !portable

package fs

import "golang.org/x/sys/unix"

func (machine) sync(fd int) error     { return unix.Fsync(fd) }
func (machine) syncData(fd int) error { return unix.Fdatasync(fd) }

// syncAll syncs the whole file system, with one call.
func (machine) syncAll(at int) error { return unix.Syncfs(at) }
