//go:build !portable

package proc

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// watchExit calls ended once when the process that i identifies ends, unless
// stop was called before. It returns false if that cannot be watched, or if the
// process has ended. It waits on a pidfd, which becomes readable at the end of
// the process. The runtime's poller waits for all of them together.
func watchExit(i Identity, ended func()) (stop func(), ok bool) {
	fd, err := unix.PidfdOpen(i.PID, unix.PIDFD_NONBLOCK)
	if err != nil {
		return nil, false
	}
	f := os.NewFile(uintptr(fd), "pidfd")
	if !i.Running() { // the pid belongs to another process
		_ = f.Close()
		return nil, false
	}
	go func() {
		if awaitReadable(f) {
			ended()
		}
	}()
	return func() { _ = f.Close() }, true
}

// awaitReadable returns false if f is closed before it is readable.
func awaitReadable(f *os.File) bool {
	raw, err := f.SyscallConn()
	if err != nil {
		return false
	}
	err = raw.Read(func(fd uintptr) bool {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
		return n > 0 || err != nil && !errors.Is(err, syscall.EINTR)
	})
	return err == nil
}
