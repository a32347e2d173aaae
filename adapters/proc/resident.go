package proc

import (
	"cmp"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// ResidentName is what the program of the resident scheduler is called where it
// is one of its own.
const ResidentName = "vizier-resident"

// OTelName is what the program is called that runs hooks where spans are exported.
const OTelName = "vizier-otel"

// TopName is what the program of the live screen is called; it stands beside the others.
const TopName = "vizier-top"

// ResidentFD is where a resident scheduler finds the lock it was started with.
const ResidentFD = inheritedFD

// fewestFiles is what a process that launches others all day needs of open files. A
// lower soft limit it raises by itself, and gives what it starts the one it had.
const fewestFiles = 256

// StartResident starts ResidentExe as `__resident`, in a session of its own, with
// lock as descriptor ResidentFD. The process is no part of the job that the caller
// may run in: the sweep that ends a job's leftover processes spares it, as it
// spares runners.
func (l *Local) StartResident(lock *os.File) error {
	if why := TooFewFiles(); why != "" {
		return errors.New("start the resident scheduler: " + why)
	}
	if err := l.startService(cmp.Or(l.ResidentExe, l.Exe), "resident", lock); err != nil {
		return fmt.Errorf("start the resident scheduler: %w", err)
	}
	return nil
}

// TooFewFiles is why no resident scheduler is started from this process; "": one may be.
func TooFewFiles() string {
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil || files.Max >= fewestFiles {
		return ""
	}
	return fmt.Sprintf("it would inherit a limit of %d open files (`ulimit -n`), and needs %d", files.Max, fewestFiles)
}

// spareFiles is how many files a process has to be able to open for a tick that starts
// a job.
const spareFiles = 16

// Starved reports that this process cannot open as many files as a tick takes, for its
// limit.
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

// FewFilesOf is why process pid, a resident scheduler, may fail to start jobs; "": it
// has what it takes, or the system does not say.
func FewFilesOf(pid int) string {
	most, ok := fileLimit(pid)
	if !ok || most >= fewestFiles {
		return ""
	}
	return fmt.Sprintf("the resident scheduler (pid %d) may open %d files (`ulimit -n`), and needs %d to start jobs", pid, most, fewestFiles)
}

// StartHooks starts HooksExe as `__hooks`, in a session of its own like the resident
// scheduler.
func (l *Local) StartHooks() error {
	if err := l.startService(cmp.Or(l.HooksExe, l.Exe), "hooks"); err != nil {
		return fmt.Errorf("start the hooks: %w", err)
	}
	return nil
}

// StartSender starts the program of runners as `__send EXECUTOR`, in a session of its own:
// it asks an executor for what was left to be asked of it.
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
