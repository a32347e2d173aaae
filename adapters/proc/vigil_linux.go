package proc

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// handle is a pidfd of the process that i names, if it still runs: it becomes
// readable when the process ends. The runtime waits for all of them together.
func handle(i Identity) (*os.File, bool) {
	fd, err := unix.PidfdOpen(i.PID, unix.PIDFD_NONBLOCK)
	if err != nil {
		return nil, false
	}
	f := os.NewFile(uintptr(fd), "pidfd")
	if !i.Running() { // another process has its number
		_ = f.Close()
		return nil, false
	}
	return f, true
}

// awaitReadable reports false when f is closed before it is readable.
func awaitReadable(f *os.File) bool {
	raw, err := f.SyscallConn()
	if err != nil {
		return false
	}
	err = raw.Read(func(fd uintptr) bool {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
		return n > 0 || err != nil && err != syscall.EINTR
	})
	return err == nil
}
