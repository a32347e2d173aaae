package proc

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Run runs the task of j's current attempt to its end, the output going to the
// job's logs, and ends whatever the command leaves running. Cancelling ctx ends
// the command; the cause becomes the result's reason. There is a result
// whatever happens.
func (l *Local) Run(ctx context.Context, j *kernel.Job) kernel.Result {
	r := l.run(ctx, j)
	r.Attempt, r.Ended = j.Attempt(), l.now()
	return r
}

func (l *Local) run(ctx context.Context, j *kernel.Job) kernel.Result {
	cmd, err := l.prepare(j)
	if err != nil {
		return notStarted(err)
	}
	if ctx.Err() != nil {
		return stopped(ctx)
	}
	becomeSubreaper()
	c, err := l.startCommand(cmd, j.ID)
	if err != nil {
		return notStarted(err)
	}
	l.claimChild(j.Attempt(), c.pid)
	killsBefore := oomKills()
	grace := j.Spec.Task.Grace
	if grace <= 0 {
		grace = l.grace()
	}
	why := c.wait(ctx, j.Spec.Task.Timeout, grace)
	status := c.reap()
	l.forget(c.pid)
	l.endLeftovers(min(grace, leftoverGrace))

	var r kernel.Result
	switch why {
	case timedOut:
		r = kernel.Result{Outcome: kernel.OutcomeFailed, Exit: 124, Class: kernel.Timeout, Reason: fmt.Sprintf("timed out after %s", j.Spec.Task.Timeout)}
	case askedToStop:
		r = stopped(ctx)
	default:
		r = classify(status, killsBefore)
	}
	if r.Outcome == kernel.OutcomeSucceeded {
		r.Produced = customOf(j.Spec.Produces)
	}
	return explicit(l.Files.ResultFile(j.Attempt()), j, r)
}

func (l *Local) grace() time.Duration {
	if l.Grace <= 0 {
		return DefaultGrace
	}
	return l.Grace
}

// ending is why a command ended.
type ending int

const (
	byItself ending = iota
	timedOut
	askedToStop
)

// child is a running command. Its pid is its session and its process group.
type child struct {
	pid  int
	gone chan struct{}             // closed when it has ended
	reap func() syscall.WaitStatus // once it has ended
}

// startCommand starts the command in a session of its own. It dies with this
// process.
func (l *Local) startCommand(cmd command, id kernel.JobID) (*child, error) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	fds := []uintptr{null.Fd()}
	for _, stream := range []string{"stdout", "stderr"} {
		log, err := openLog(l.Files.LogFile(id, stream))
		if err != nil {
			return nil, err
		}
		defer log.Close()
		fds = append(fds, log.Fd())
	}
	if err := os.Remove(cmd.resultFile); err != nil && !os.IsNotExist(err) {
		return nil, err // what lies there would pass for the command's result
	}
	attr := &syscall.ProcAttr{Dir: cmd.dir, Env: cmd.env, Files: fds, Sys: commandAttr()}
	c := &child{gone: make(chan struct{})}
	forked := make(chan error)
	go func() {
		// The command gets its death signal when the thread that forked it ends,
		// so that thread stays for as long as the command runs.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		_, err := l.start(func() (int, error) {
			c.pid, err = syscall.ForkExec(cmd.path, cmd.args, attr)
			return c.pid, err
		})
		forked <- err
		if err == nil {
			c.reap = awaitEnd(c.pid)
			close(c.gone)
		}
	}()
	if err := <-forked; err != nil {
		return nil, cmd.refused(err)
	}
	return c, nil
}

// openLog opens a log to append to. The command writes to it without a detour.
func openLog(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("log: %w", err)
	}
	return f, nil
}

// wait returns when the command has ended, by itself or by us: TERM to its
// group, grace, KILL.
func (c *child) wait(ctx context.Context, timeout, grace time.Duration) ending {
	var expired <-chan time.Time
	if timeout > 0 {
		t := time.NewTimer(timeout)
		defer t.Stop()
		expired = t.C
	}
	why := byItself
	select {
	case <-c.gone:
	case <-expired:
		why = timedOut
	case <-ctx.Done():
		why = askedToStop
	}
	select {
	case <-c.gone:
		return byItself // before any signal of ours
	default:
	}
	_ = syscall.Kill(-c.pid, syscall.SIGTERM)
	_ = syscall.Kill(-c.pid, syscall.SIGCONT) // a stopped process would not notice
	t := time.NewTimer(grace)
	defer t.Stop()
	select {
	case <-c.gone:
	case <-t.C:
		_ = syscall.Kill(-c.pid, syscall.SIGKILL)
		<-c.gone
	}
	return why
}

func wait(pid int) (status syscall.WaitStatus) {
	for {
		if _, err := syscall.Wait4(pid, &status, 0, nil); err != syscall.EINTR {
			return status
		}
	}
}
