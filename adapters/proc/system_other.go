//go:build unix && !linux

package proc

import (
	"os"
	"syscall"
	"time"
)

func commandAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

func becomeSubreaper() {}

func keepDescriptors() {}

func awaitEnd(pid int) (reap func() syscall.WaitStatus) {
	status := wait(pid)
	return func() syscall.WaitStatus { return status }
}

func touch(path string) error { now := time.Now(); return os.Chtimes(path, now, now) }

func hasChildren() bool { return false }

func moveNew(from, to string) error { return linkNew(from, to) }

func oomKills() uint64 { return 0 }
