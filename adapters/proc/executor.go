package proc

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"time"

	"github.com/vizier-scheduler/vizier/internal/sys"
	"github.com/vizier-scheduler/vizier/kernel"
)

// Start starts a's runner: this program as `__shim --attempt JOB/N`, with the
// job's lock as descriptor 3. It starts it exactly once whatever happens: an
// attempt that is claimed, or is being claimed, counts as started. An error
// means that nothing was started.
func (l *Local) Start(ctx context.Context, a kernel.AttemptID) error {
	lock, err := l.lockFor(ctx, a)
	if err != nil {
		return fmt.Errorf("start %s: %w", label(a), err)
	}
	if lock == nil {
		return nil
	}
	done, err := claimed(l.Files.ClaimFile(a))
	if err == nil && !done {
		if err = noteAttempt(lock, a); err == nil {
			err = l.spawn(a, lock)
		}
	}
	_ = lock.Close() // the runner has its own descriptor
	if err != nil {
		return fmt.Errorf("start %s: %w", label(a), err)
	}
	return nil
}

// lockFor takes the lock for a's runner. It returns nil if a was already
// started. If the runner of an earlier attempt is about to exit, it waits for
// that.
func (l *Local) lockFor(ctx context.Context, a kernel.AttemptID) (*os.File, error) {
	const patience = 2 * time.Second
	if f, started := l.takeOver(a); f != nil || started {
		return f, nil
	}
	if n, by := notedAttempt(l.Files.LockFile(a.Job)); n == a.N && by.elsewhere() {
		return nil, nil // it runs on a host whose locks may not be visible here; its lease decides
	}
	f, err := openLock(l.Files.LockFile(a.Job))
	if err != nil {
		return nil, err
	}
	for end := time.Now().Add(patience); ; {
		got, err := sys.TryLock(f)
		if got {
			return f, nil
		}
		before := 0
		if err == nil {
			if before, _ = notedAttempt(f.Name()); before == a.N {
				return nil, f.Close()
			}
			var done bool
			if done, err = claimed(l.Files.ClaimFile(a)); done {
				return nil, f.Close()
			}
		}
		if err == nil && time.Now().After(end) {
			err = fmt.Errorf("the runner of attempt %d has not let go of it", before)
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			_ = f.Close()
			return nil, fmt.Errorf("job lock: %w", err)
		}
		time.Sleep(time.Millisecond)
	}
}

// spawn starts the runner. The runner's stderr is the job's, so that a crash of
// the runner is on record.
func (l *Local) spawn(a kernel.AttemptID, lock *os.File) error {
	null, err := null()
	if err != nil {
		return err
	}
	log, err := openLog(l.Files.LogFile(a.Job, "stderr"))
	if err != nil {
		return err
	}
	defer log.Close()
	argv := append(l.program(), "__shim", "--attempt", label(a))
	if err := l.startProcess(argv, runnerEnv(a), null, null, log, lock); err != nil {
		return fmt.Errorf("runner: %w", cmp.Or(l.programGone(), err))
	}
	return nil
}

// startProcess starts a process that outlives this one, in a session of its own
// at the repository's root, and reaps it if it ends first. It does not use
// os.Process, which would first fork another process to find out whether the
// system supports process handles; a command that starts one runner cannot
// afford that.
func (l *Local) startProcess(argv, env []string, files ...*os.File) error {
	attr := &syscall.ProcAttr{Dir: l.Root, Env: env, Sys: &syscall.SysProcAttr{Setsid: true}}
	for _, f := range files {
		attr.Files = append(attr.Files, f.Fd())
	}
	pid, err := l.start(func() (int, error) { return syscall.ForkExec(argv[0], argv, attr) })
	runtime.KeepAlive(files)
	if err != nil {
		return &os.PathError{Op: "start", Path: argv[0], Err: err}
	}
	go func() {
		wait(pid)
		l.forget(pid)
	}()
	return nil
}

// programGone returns an error if the program of runners is no longer where it was.
func (l *Local) programGone() error {
	if _, err := os.Stat(l.Exe); !os.IsNotExist(err) {
		return nil
	}
	return fmt.Errorf("the program %s was removed or moved while it was in use", l.Exe)
}

// program returns the beginning of the command line of runners.
func (l *Local) program() []string { return append([]string{l.Exe}, l.ExeArgs...) }
