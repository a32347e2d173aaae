package disktest

import (
	"fmt"

	"golang.org/x/sys/unix"
)

func mount(dir string, size int) error {
	return unix.Mount("vizier-test", dir, "tmpfs", unix.MS_NOSUID, fmt.Sprintf("size=%d", size))
}

func remount(dir string) error { return unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, "") }

func unmount(dir string) error { return unix.Unmount(dir, unix.MNT_DETACH) }

func bind(from, at string) error { return unix.Mount(from, at, "", unix.MS_BIND, "") }
