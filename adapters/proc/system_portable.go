//go:build !linux || portable

package proc

import (
	"os"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vizier-scheduler/vizier/kernel"
)

// keepDescriptors makes sure that children only get the descriptors that they
// are given. This process may have been started with more, such as a pipe that
// someone reads to its end, or a lock of the calling script. Files that it
// opens itself are closed in children anyway, so doing it once is enough.
var keepDescriptors = sync.OnceFunc(func() {
	for _, fd := range openDescriptors() {
		if fd > 2 {
			unix.CloseOnExec(fd) // does nothing for a descriptor that is not open
		}
	}
})

// WaitedForCore returns how long the threads of a process have waited for a core. No portable
// call tells.
func WaitedForCore(int) time.Duration { return 0 }

// openDescriptors returns the numbers of this process's descriptors, and
// perhaps others. If no file system lists them, it returns all numbers up to
// the usual limit.
func openDescriptors() (all []int) {
	const usual = 4096
	names, _ := os.ReadDir("/dev/fd")
	for _, name := range names {
		if fd, err := strconv.Atoi(name.Name()); err == nil {
			all = append(all, fd)
		}
	}
	if len(all) > 3 { // more than the three that every system lists, so the directory's own is among them
		return all
	}
	for fd := range usual {
		all = append(all, fd)
	}
	return all
}

// awaitEnd returns when the child has ended and was reaped, with mu locked.
// There is no portable call that waits without reaping, so the child is reaped
// under mu: while mu is held, the pid identifies the child.
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

// spaces returns the zero value: there are no namespaces.
func spaces() Spaces { return Spaces{} }

// oomKills returns 0: this system does not report which process ran out of
// memory.
func oomKills() uint64 { return 0 }

// limitsOf is not known for other processes.
func limitsOf(int) (files, processes uint64, known bool) { return 0, 0, false }

// ProgramGone is not known for other processes.
func ProgramGone(int) string { return "" }
