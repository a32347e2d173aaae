package proc

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/vizier-scheduler/vizier/adapters/proc/joblog"
	"github.com/vizier-scheduler/vizier/adapters/proc/sandbox"
	"github.com/vizier-scheduler/vizier/internal/sys"
	"github.com/vizier-scheduler/vizier/kernel"
)

// Run runs the task of j's current attempt to its end, with output to the job's
// logs, and ends whatever the command leaves running. Cancelling ctx ends the
// command; the cause becomes the result's reason. Run returns a result in every
// case.
func (l *Local) Run(ctx context.Context, j *kernel.Job) kernel.Result {
	began := j.State.Started
	if j.Spec.Task.On() != kernel.LocalExecutor && l.began.attempt == j.Attempt() { // until then it waited for the executor
		began = l.began.at
	}
	r := l.run(ctx, j)
	r.Attempt, r.Started, r.Ended, r.Place.Host = j.Attempt(), began, l.now(), here().Host
	return r
}

func (l *Local) run(ctx context.Context, j *kernel.Job) kernel.Result {
	if r, ok := l.removeEarlier(ctx, j, removalLimit); !ok {
		return r
	}
	failed := func(err error) kernel.Result {
		if ctx.Err() != nil { // such as while it waited for room
			return stopped(ctx)
		}
		return notStarted(err)
	}
	var cmd command
	err := repeat(ctx, noRoom, func() (err error) { // for its directories
		cmd, err = l.prepare(j)
		return err
	})
	if cmd.tmp != "" {
		defer func() { _ = sys.RemoveTree(cmd.tmp) }()
	}
	if err != nil {
		r := failed(err)
		if l.worktreeGone(j.State.Context) {
			r.Context = &kernel.Context{} // so that a retry begins where the worktree is made
		}
		return r
	}
	if ctx.Err() != nil {
		return stopped(ctx)
	}
	becomeSubreaper()
	// The command gets its death signal when the thread that forked it ends, so
	// keep this thread until then.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer l.withdraw()
	if err := repeat(ctx, noRoom, l.provided.write); err != nil {
		return failed(err)
	}
	told := l.relay(cmd, j.Attempt())
	defer told.end()
	keeper, err := l.keepContainer(cmd.container, j.Attempt())
	if err != nil {
		return failed(err)
	}
	defer keeper.dismiss()
	var c *child
	err = repeat(ctx, noRoom, func() (err error) { // for its logs, and for what it can write to
		c, err = l.startCommand(cmd, j.ID)
		return err
	})
	if err != nil {
		return failed(err)
	}
	l.claimChild(j.Attempt(), c.id)
	killsBefore := oomKills()
	grace := l.graceOf(j)
	why, status, used := c.wait(ctx, l.limit(j), grace)
	c.guard.dismiss()
	l.forget(c.pid)
	if why != byItself || status.Signaled() { // otherwise the engine has removed the container
		l.removeContainer(cmd.container)
	}
	left := l.leftoversOf(j.Attempt(), c.id)
	endLeftovers(left, min(grace, leftoverGrace))
	for _, f := range c.filters {
		f.drain()
	}
	full := c.logs.Close()

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
	told.end()
	if err := untilReadable(ctx, told.result); err != nil {
		r = badResult(r, err)
	} else {
		r = explicit(ctx, l.Files.ResultFile(j.Attempt()), j, r)
	}
	if r.Outcome == kernel.OutcomeSucceeded {
		if err := untilReadable(ctx, told.submissions); err != nil {
			r = r.Refuted(err)
		}
	}
	dropUnless(l.Files.ResultFile(j.Attempt()), resultLimit)
	if r.Outcome != kernel.OutcomeSucceeded { // else they are still to be read
		dropUnless(l.Files.SubmissionsFile(j.Attempt()), submissionsLimit)
	}
	if _, err := os.Lstat(l.Root); r.Class == kernel.ExitFailure && errors.Is(err, fs.ErrNotExist) {
		r.Reason += "; the repository was moved meanwhile, and " + l.Root + " is no more: run `vizier doctor --fix` at its new place, and retry"
	}
	r.Reason = redact(r.Reason, cmd.hidden)
	if full {
		r.Reason = strings.TrimPrefix(r.Reason+"; "+joblog.Missing, "; ")
	}
	if b := j.Spec.Task.Sandbox; b.On() {
		if err := l.MendLink(cmd.dir); err != nil {
			r = kernel.Result{Outcome: kernel.OutcomeFailed, Exit: 1, Class: kernel.RejectedByHost, Reason: kernel.Said(err), Context: r.Context, Place: r.Place}
		}
		if !j.Spec.Task.Builtin { // a node reports what it started in a sandbox itself
			r.Place.Sandbox = Kept(j)
		}
	}
	r.Place.PID, r.Place.Used = c.pid, used.Plus(left.used)
	return r
}

func (l *Local) grace() time.Duration { return orDefault(l.Grace, DefaultGrace) }

// graceOf returns the time between TERM and KILL for what runs for j.
func (l *Local) graceOf(j *kernel.Job) time.Duration {
	if grace := j.Spec.Task.Grace; grace > 0 {
		return grace
	}
	return l.grace()
}

// ending is why a command ended.
type ending int

const (
	byItself ending = iota
	timedOut
	askedToStop
)

// child is a running command. Its pid is also its session and its process
// group.
type child struct {
	pid   int
	id    Identity
	logs  *joblog.Watcher
	guard *guard

	filters []*filter // its output goes through these; none: straight to the logs

	mu    sync.Mutex
	ended bool        // its pid may soon belong to another process
	why   ending      // why this process ended it, if it did
	kill  *time.Timer // fires after the grace period
}

// startCommand starts the command in a session of its own. The command dies
// with this process.
func (l *Local) startCommand(cmd command, id kernel.JobID) (_ *child, err error) {
	null, err := null()
	if err != nil {
		return nil, err
	}
	stdout, err := openLog(l.Files.LogFile(id, "stdout"))
	if err != nil {
		return nil, err
	}
	stderr, err := openLog(l.Files.LogFile(id, "stderr"))
	if err != nil {
		return nil, errors.Join(err, stdout.Close())
	}
	outputs := []*os.File{stdout, stderr}
	c := &child{logs: joblog.WatchBoth(l.MaxLog, stdout, stderr, l.Files.LogFile(id, "order"))}
	defer func() {
		if err != nil {
			for _, f := range c.filters {
				f.drain()
			}
			c.logs.Close()
		}
	}()
	if temporaryGone != "" {
		if _, err := fmt.Fprintln(stderr, "vizier:", temporaryGone); err != nil {
			return nil, fmt.Errorf("log: %w", err)
		}
	}
	for i, log := range outputs {
		if len(cmd.hidden) == 0 {
			break
		}
		f, err := newFilter(log, cmd.hidden)
		if err != nil {
			return nil, fmt.Errorf("log: %w", err)
		}
		c.filters, outputs[i] = append(c.filters, f), f.write
	}
	if err = os.Remove(cmd.says.result); err != nil && !os.IsNotExist(err) {
		return nil, err // an old file would be taken for the command's result
	}
	if err = cmd.createWritable(); err != nil {
		return nil, err
	}
	if c.guard, err = l.newGuard(); err != nil {
		return nil, err
	}
	attrs := commandAttr()
	if cmd.sandbox != nil {
		step := cmd.sandbox.Wrap(l.program(), sandbox.Command{Path: cmd.path, Args: cmd.args, Env: cmd.env}, attrs)
		cmd.path, cmd.args, cmd.env = step.Path, step.Args, step.Env
	}
	attr := &syscall.ProcAttr{Dir: cmd.dir, Env: cmd.env, Files: []uintptr{null.Fd(), outputs[0].Fd(), outputs[1].Fd()}, Sys: attrs}
	c.pid, err = l.start(func() (int, error) { return syscall.ForkExec(cmd.path, cmd.args, attr) })
	if err != nil {
		c.guard.dismiss()
		return nil, cmd.execError(err)
	}
	for _, f := range c.filters {
		f.started()
	}
	c.guard.watch(c.pid)
	c.id = Identify(c.pid)
	return c, nil
}

// openLog opens a log for appending. A command without secrets writes to it
// directly.
func openLog(path string) (*os.File, error) {
	f, err := joblog.Append(path)
	if err != nil {
		return nil, fmt.Errorf("log: %w", err)
	}
	return f, nil
}

// wait returns when the command has ended, by itself or because this process
// ended it.
func (c *child) wait(ctx context.Context, timeout, grace time.Duration) (ending, syscall.WaitStatus, kernel.Used) {
	defer context.AfterFunc(ctx, func() { c.end(askedToStop, grace) })()
	if timeout > 0 {
		defer time.AfterFunc(timeout, func() { c.end(timedOut, grace) }).Stop()
	}
	status, used := awaitEnd(c.pid, &c.mu)
	defer c.mu.Unlock()
	c.ended = true
	if c.kill != nil {
		c.kill.Stop()
	}
	return c.why, status, used
}

// end ends the command's process group: TERM, grace period, KILL.
func (c *child) end(why ending, grace time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p, ok := readProcess(c.pid); c.ended || c.why != byItself || ok && p.zombie {
		return
	}
	c.why = why
	_ = syscall.Kill(-c.pid, syscall.SIGTERM)
	_ = syscall.Kill(-c.pid, syscall.SIGCONT) // a stopped process would not notice
	c.kill = time.AfterFunc(grace, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if !c.ended {
			_ = syscall.Kill(-c.pid, syscall.SIGKILL)
		}
	})
}

func wait(pid int) (status syscall.WaitStatus, used kernel.Used) {
	for {
		var u syscall.Rusage
		if _, err := syscall.Wait4(pid, &status, 0, &u); err != syscall.EINTR {
			return status, usedBy(&u)
		}
	}
}

// usedBy returns the resources used by a process that was waited for, including
// those of its descendants that were waited for.
func usedBy(u *syscall.Rusage) kernel.Used {
	unit := int64(1024)
	if runtime.GOOS == "darwin" {
		unit = 1
	}
	return kernel.Used{CPU: time.Duration(u.Utime.Nano() + u.Stime.Nano()), Memory: int64(u.Maxrss) * unit} //nolint:unconvert // it has 32 bits on some systems
}
