package proc

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// commandAttr puts a command into a session of its own and kills it when the
// thread that forked it ends.
func commandAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
}

// becomeSubreaper makes orphaned descendants children of this process.
var becomeSubreaper = sync.OnceFunc(func() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) })

// keepDescriptors makes sure that children get no descriptor but those they are
// given. This process may have been started with more: a pipe that someone
// reads to its end, a lock of the calling script.
func keepDescriptors() { _ = unix.CloseRange(3, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC) }

// awaitEnd returns when the child has ended. The child stays a zombie until it
// is reaped, so that its pid names nothing else.
func awaitEnd(pid int) (reap func() syscall.WaitStatus) {
	for unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
	return func() syscall.WaitStatus { return wait(pid) }
}

// touch gives the file at path the present as its times: where those are a
// file server's, by its clock.
func touch(path string) error {
	now := []unix.Timespec{{Nsec: unix.UTIME_NOW}, {Nsec: unix.UTIME_NOW}}
	return unix.UtimesNanoAt(unix.AT_FDCWD, path, now, unix.AT_SYMLINK_NOFOLLOW)
}

// hasChildren reports whether this process has any child, dead or alive.
func hasChildren() bool {
	return unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil) != unix.ECHILD
}

// oomFile is where the kernel counts the processes of this one's control group
// that it killed for want of memory, or "".
var oomFile = sync.OnceValue(func() string {
	groups, _ := os.ReadFile("/proc/self/cgroup")
	for line := range strings.Lines(string(groups)) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) != 3 {
			continue
		}
		path := ""
		switch f[1] {
		case "":
			path = filepath.Join("/sys/fs/cgroup", f[2], "memory.events")
		case "memory":
			path = filepath.Join("/sys/fs/cgroup/memory", f[2], "memory.oom_control")
		default:
			continue
		}
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	return ""
})

// oomEvents is that file, open; nil: there is none. It is asked twice for each
// command.
var oomEvents = sync.OnceValue(func() *os.File {
	if oomFile() == "" {
		return nil
	}
	f, _ := openFile(oomFile(), os.O_RDONLY)
	return f
})

func oomKills() uint64 {
	f := oomEvents()
	if f == nil {
		return 0
	}
	b := make([]byte, 512)
	n, _ := f.ReadAt(b, 0) // up to the end of the file, which is shorter
	return countOOM(b[:n])
}

// moveNew gives a file another name unless that is taken: then it is
// fs.ErrExist.
func moveNew(from, to string) error {
	err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE)
	if err == unix.EINVAL || err == unix.ENOSYS { // not on every file system
		return linkNew(from, to)
	}
	return err
}

// countOOM reads the oom_kill line of memory.events or memory.oom_control.
func countOOM(b []byte) uint64 {
	for line := range bytes.Lines(b) {
		if n, ok := bytes.CutPrefix(line, []byte("oom_kill ")); ok {
			count, _ := strconv.ParseUint(string(bytes.TrimSpace(n)), 10, 64)
			return count
		}
	}
	return 0
}
