package main

import (
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// leavesWithReader makes the program end once the other end of its output is closed, as
// by `head -1`, even while it has nothing to print. It ends as if it had printed: by
// SIGPIPE. A command that is about to follow something calls it.
func (c *call) leavesWithReader() {
	out, ok := c.stdout.(*os.File)
	if !ok {
		return
	}
	if st, err := out.Stat(); err != nil || st.Mode()&(fs.ModeNamedPipe|fs.ModeSocket) == 0 {
		return
	}
	go func() {
		watched := []unix.PollFd{{Fd: int32(out.Fd())}} // no events are requested: errors are always reported
		for watched[0].Revents&(unix.POLLERR|unix.POLLHUP) == 0 {
			if _, err := unix.Poll(watched, -1); err != nil && err != unix.EINTR {
				return
			}
		}
		_, _ = out.WriteString("\n") // nobody reads it, so the system ends this process: SIGPIPE
		os.Exit(128 + int(unix.SIGPIPE))
	}()
}
