package proc

import (
	"cmp"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// ResidentName is the name of the resident scheduler's program, if there is a
// separate one.
const ResidentName = "vizier-resident"

// OTelName is the name of the program that runs hooks if spans are exported.
const OTelName = "vizier-otel"

// TopName is the name of the live screen's program, which is installed beside
// the others.
const TopName = "vizier-top"

// ResidentFD is the descriptor of the lock that a resident scheduler was
// started with.
const ResidentFD = inheritedFD

// fewestFiles is the limit of open files that a process needs which launches
// others all day. It raises a lower soft limit by itself; what it starts gets
// the original limit.
const fewestFiles = 256

// fewestProcesses is the same for the processes of a user.
const fewestProcesses = 256

// StartResident starts ResidentExe as `__resident`, in a session of its own,
// with lock as descriptor ResidentFD. The process does not belong to the job
// that the caller may run in: like a runner, it is spared by the sweep that
// ends a job's leftover processes.
func (l *Local) StartResident(lock *os.File) error {
	if why := TightLimit(); why != "" {
		return errors.New("start the resident scheduler: " + why)
	}
	if err := l.startService(cmp.Or(l.ResidentExe, l.Exe), "resident", lock); err != nil {
		return fmt.Errorf("start the resident scheduler: %w", err)
	}
	return nil
}

// TightLimit returns why this process must not start a resident scheduler, or
// "" if it may.
func TightLimit() string {
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil || files.Max >= fewestFiles {
		return tightProcesses()
	}
	return fmt.Sprintf("it would inherit a limit of %d open files (`ulimit -n`), and needs %d", files.Max, fewestFiles)
}

// tightProcesses is TightLimit of processes. Systems do not hold the superuser to that limit.
func tightProcesses() string {
	var processes unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NPROC, &processes); err != nil || !heldToProcesses(os.Geteuid()) || processes.Max >= fewestProcesses {
		return ""
	}
	return fmt.Sprintf("it would inherit a limit of %d processes (`ulimit -u`), and needs %d", processes.Max, fewestProcesses)
}

var heldToProcesses = func(euid int) bool { return euid != 0 } // replaced in tests, which may be the superuser's

// spareFiles is how many files a process must be able to open for a tick that
// starts a job.
const spareFiles = 16

// Starved reports whether the limit of open files leaves this process too few
// for a tick.
func Starved() bool {
	var open []int
	defer func() {
		for _, fd := range open {
			_ = unix.Close(fd)
		}
	}()
	for range spareFiles {
		fd, err := unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return err == unix.EMFILE
		}
		open = append(open, fd)
	}
	return false
}

// TightLimitOf returns why process pid, a resident scheduler, may fail to start
// jobs, or "" if its limit of open files is sufficient or not known.
func TightLimitOf(pid int) string {
	files, processes, ok := limitsOf(pid)
	switch {
	case !ok:
		return ""
	case heldToProcesses(os.Geteuid()) && processes < fewestProcesses:
		return fmt.Sprintf("the resident scheduler (pid %d) may have %d processes (`ulimit -u`), and needs %d to start jobs", pid, processes, fewestProcesses)
	case files >= fewestFiles:
		return ""
	}
	return fmt.Sprintf("the resident scheduler (pid %d) may open %d files (`ulimit -n`), and needs %d to start jobs", pid, files, fewestFiles)
}

// Stopped reports whether process pid was stopped, as by SIGSTOP or a debugger.
func Stopped(pid int) bool {
	p, ok := readProcess(pid)
	return ok && p.stopped
}

// StartHooks starts HooksExe as `__hooks`, in a session of its own like the
// resident scheduler.
func (l *Local) StartHooks() error {
	if err := l.startService(cmp.Or(l.HooksExe, l.Exe), "hooks"); err != nil {
		return fmt.Errorf("start the hooks: %w", err)
	}
	return nil
}

// StartSender starts the program of runners as `__send EXECUTOR`, in a session
// of its own. It sends the requests that are in the executor's outbox.
func (l *Local) StartSender(executor string) error {
	if err := l.startServiceOf(l.Exe, "send", []string{executor}); err != nil {
		return fmt.Errorf("start a sender: %w", err)
	}
	return nil
}

func (l *Local) startService(program, name string, files ...*os.File) error {
	return l.startServiceOf(program, name, nil, files...)
}

func (l *Local) startServiceOf(program, name string, args []string, files ...*os.File) error {
	null, err := null()
	if err != nil {
		return err
	}
	argv := append(append(append([]string{program}, l.ExeArgs...), "__"+name), args...)
	env := environment([]string{envRunner + "=" + name}, os.Environ()...)
	return l.startProcess(argv, env, append([]*os.File{null, null, null}, files...)...)
}
