package main

import (
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// leavesWithReader is called by a command that is about to follow something. From then
// on the program ends once the other end of its output is closed, as by `head -1`,
// although it may have nothing to print for long. It ends as if it had printed.
func (c *call) leavesWithReader() {
	out, ok := c.stdout.(*os.File)
	if !ok {
		return
	}
	if st, err := out.Stat(); err != nil || st.Mode()&(fs.ModeNamedPipe|fs.ModeSocket) == 0 {
		return
	}
	go func() {
		watched := []unix.PollFd{{Fd: int32(out.Fd())}} // for errors alone, which are always reported
		for watched[0].Revents&(unix.POLLERR|unix.POLLHUP) == 0 {
			if _, err := unix.Poll(watched, -1); err != nil && err != unix.EINTR {
				return
			}
		}
		_, _ = out.WriteString("\n") // nobody gets it, and the system ends this process: SIGPIPE
		os.Exit(128 + int(unix.SIGPIPE))
	}()
}
