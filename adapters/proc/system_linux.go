//go:build !portable

package proc

import (
	"errors"
	"math"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vizier-scheduler/vizier/kernel"
)

// keepDescriptors makes sure that children only get the descriptors that they
// are given. This process may have been started with more, such as a pipe that
// someone reads to its end, or a lock of the calling script.
func keepDescriptors() { _ = unix.CloseRange(3, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC) }

// awaitEnd returns when the child has ended and was reaped, with mu locked.
// Until mu is locked, the child is a zombie, so its pid is not reused.
func awaitEnd(pid int, mu sync.Locker) (syscall.WaitStatus, kernel.Used) {
	for unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
	mu.Lock()
	return wait(pid)
}

// limitsOf returns how many files a process may have open, and how many processes its user may have by its limit, if
// that is known.
func limitsOf(pid int) (files, processes uint64, known bool) {
	var f, p unix.Rlimit
	err := errors.Join(unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &f), unix.Prlimit(pid, unix.RLIMIT_NPROC, nil, &p))
	return f.Cur, p.Cur, err == nil
}

// ProgramGone returns the path of the program that process pid runs if there is no
// file any more, and else "", also if that is not known.
func ProgramGone(pid int) string {
	link, _ := os.Readlink("/proc/" + strconv.Itoa(pid) + "/exe")
	path, deleted := strings.CutSuffix(link, " (deleted)")
	if _, err := os.Stat(path); !deleted || !os.IsNotExist(err) { // another file may have taken its place
		return ""
	}
	return path
}

// WaitedForCore returns how long the threads of a process, which need not exist, have been ready to
// run and waited for a core, all together: the second figure of /proc/PID/schedstat. 0 where the
// system does not count that.
func WaitedForCore(pid int) (waited time.Duration) {
	threads, _ := os.ReadDir("/proc/" + strconv.Itoa(pid) + "/task")
	for _, thread := range threads {
		if figures := strings.Fields(string(readProc(pid, "task/"+thread.Name()+"/schedstat"))); len(figures) > 1 {
			ns, _ := strconv.ParseInt(figures[1], 10, 64)
			waited += time.Duration(ns)
		}
	}
	return waited
}

func spaces() Spaces {
	pid, _ := os.Readlink("/proc/self/ns/pid")
	mount, _ := os.Readlink("/proc/self/ns/mnt")
	return Spaces{pid, mount}
}
