//go:build unix && !linux

package proc

import "syscall"

func commandAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

func becomeSubreaper() {}

func keepDescriptors() {}

func awaitEnd(pid int) (reap func() syscall.WaitStatus) {
	status := wait(pid)
	return func() syscall.WaitStatus { return status }
}

func hasChildren() bool { return false }

func oomKills() uint64 { return 0 }
