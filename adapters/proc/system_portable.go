//go:build !linux || portable

package proc

import (
	"os"
	"os/signal"
	"strconv"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/vizier-scheduler/vizier/kernel"
)

// keepDescriptors makes sure that children get no descriptor but those they are
// given. This process may have been started with more: a pipe that someone
// reads to its end, a lock of the calling script. What it opens itself is
// closed in children anyway, so once is enough.
var keepDescriptors = sync.OnceFunc(func() {
	for _, fd := range openDescriptors() {
		if fd > 2 {
			unix.CloseOnExec(fd) // of one that is not open nothing comes
		}
	}
})

// openDescriptors are the numbers of this process's descriptors, and perhaps
// others. Where no file system lists them they are the numbers up to the usual
// limit.
func openDescriptors() (all []int) {
	const usual = 4096
	names, _ := os.ReadDir("/dev/fd")
	for _, name := range names {
		if fd, err := strconv.Atoi(name.Name()); err == nil {
			all = append(all, fd)
		}
	}
	if len(all) > 3 { // more than the three that every system lists: the directory is among them
		return all
	}
	for fd := range usual {
		all = append(all, fd)
	}
	return all
}

// awaitEnd returns when the child has ended and was reaped, with mu locked. No
// call that every system has waits without reaping, so the child is reaped under
// mu: who holds that can be sure that the pid names the child.
func awaitEnd(pid int, mu sync.Locker) (syscall.WaitStatus, kernel.Used) {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGCHLD)
	defer signal.Stop(ended)
	for {
		var status syscall.WaitStatus
		var u syscall.Rusage
		mu.Lock()
		if n, err := syscall.Wait4(pid, &status, syscall.WNOHANG, &u); n == pid || err != nil && err != syscall.EINTR {
			return status, usedBy(&u)
		}
		mu.Unlock()
		<-ended
	}
}

// spaces is empty: there are no namespaces.
func spaces() Spaces { return Spaces{} }

// oomKills is 0: this system does not tell which process ran out of memory.
func oomKills() uint64 { return 0 }

// fileLimit is not known of other processes.
func fileLimit(int) (uint64, bool) { return 0, false }
