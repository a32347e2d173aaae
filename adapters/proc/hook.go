package proc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vizier-scheduler/vizier/internal/sys"
	"github.com/vizier-scheduler/vizier/kernel"
)

// HookCall is one call of an operator's command.
type HookCall struct {
	Command string // for sh -c
	Event   kernel.Event
	Status  string // the last word of the event's kind, such as how the job ended
	Ref     string // the reference of the job or the run
	Next    string // the command to type next
	Log     string // appended to; if its directory cannot be made, output is dropped
	Timeout time.Duration
	Grace   time.Duration // between TERM and KILL; 0: DefaultGrace
}

// RunHook runs a hook at the repository's root and returns when its process
// group is gone. The hook dies with this process; the next process calls it
// again.
func (l *Local) RunHook(ctx context.Context, h HookCall) error {
	log, err := openHookLog(h.Log)
	if err != nil {
		return err
	}
	defer log.Close()
	ctx, stop := context.WithTimeout(ctx, h.Timeout)
	defer stop()
	grace := h.Grace
	if grace <= 0 {
		grace = DefaultGrace
	}
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", h.Command)
	cmd.Dir, cmd.Stdout, cmd.Stderr = l.Root, log, log
	cmd.Env = environment(l.hookEnv(h), os.Environ()...)
	cmd.SysProcAttr = commandAttr()
	cmd.Cancel = func() error {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
		return sys.SignalGroup(cmd.Process.Pid, syscall.SIGCONT) // a stopped process would not notice
	}
	cmd.WaitDelay = grace
	runtime.LockOSThread() // the hook gets its death signal when the thread that forked it ends
	defer runtime.UnlockOSThread()
	guard, err := l.newGuard()
	if err != nil {
		return fmt.Errorf("cannot be started: %w", err)
	}
	defer guard.dismiss()
	switch err = cmd.Start(); {
	case err == nil:
		guard.watch(cmd.Process.Pid)
		err = cmd.Wait()
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // kill what it left in its group
	case ctx.Err() == nil:
		return fmt.Errorf("cannot be started: %w", err)
	}
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil && errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fmt.Errorf("timed out after %s", h.Timeout)
	case ctx.Err() != nil:
		return fmt.Errorf("was ended: %w", context.Cause(ctx))
	case errors.As(err, &exit) && exit.Exited():
		return fmt.Errorf("exit code %d", exit.ExitCode())
	case errors.As(err, &exit):
		return fmt.Errorf("ended by signal %s", unix.SignalName(exit.Sys().(syscall.WaitStatus).Signal()))
	default:
		return err
	}
}

// hookEnv returns the variables that describe the event to a hook. A job may choose what its reason is: what the system would
// not take is left out, so that the hook starts.
func (l *Local) hookEnv(h HookCall) []string {
	e := h.Event
	number, _, _ := strings.Cut(h.Ref, "/")
	env := []string{envEvent + "=" + string(e.Kind), envRef + "=" + h.Ref, envNumber + "=" + number, envNext + "=" + h.Next, envBy + "=" + e.By,
		envJob + "=" + string(e.Job), envAttempt + "=" + strconv.Itoa(e.Attempt), envRoot + "=" + l.Root,
		envStatus + "=" + h.Status, envName + "=" + e.Name, envRun + "=" + string(e.Run), envNode + "=" + e.Node,
		envClass + "=" + e.Class.String(), envReason + "=" + e.Reason, envExit + "="}
	if e.Exit.Known {
		env[len(env)-1] += strconv.Itoa(e.Exit.Code)
	}
	const most = 4096
	for i, v := range env {
		if v = strings.ReplaceAll(v, "\x00", ""); len(v) > most {
			v = strings.ToValidUTF8(v[:most], "")
		}
		env[i] = v
	}
	return env
}

func openHookLog(path string) (*os.File, error) {
	if _, err := os.Stat(filepath.Dir(filepath.Dir(path))); err == nil { // otherwise the job is gone
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err == nil {
			return openLog(path)
		}
	}
	return os.OpenFile(os.DevNull, os.O_WRONLY, 0)
}
