// Package agent runs what workflow nodes ask other programs for: a person's
// scripts, and agents, which read a prompt and answer with text.
package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/vizier-scheduler/vizier/adapters/proc/sandbox"
	"github.com/vizier-scheduler/vizier/internal/sys"
)

// DefaultGrace is the time between TERM and KILL where nothing else is said.
const DefaultGrace = 10 * time.Second

// resultVariable names the file in which the node says how it ended. It is the
// node's own: what it starts does not learn of it.
const resultVariable = "VIZIER_RESULT_FILE="

// Shell runs scripts. Their output goes to Stdout and Stderr, without a detour
// where these are files. Stderr must take concurrent writes: an agent and its
// filter run at the same time.
type Shell struct {
	Stdout, Stderr io.Writer
	Grace          time.Duration // between TERM and KILL; 0: DefaultGrace
	Env            []string      // NAME=VALUE for whatever it runs, agents included

	// Hide is text without the secrets that are in it: what is captured becomes part of
	// records. Nil: there are none.
	Hide func(text []byte) []byte

	// Contain is the command line, and its environment, that runs args in dir in a
	// container; nil: it runs here.
	Contain func(dir string, args, env []string) (argv, client []string, err error)

	// Confine is the sandbox for what runs in dir and writes to the paths in also
	// besides; nil, and a policy of nil: it is in none.
	Confine func(dir string, also ...string) (*sandbox.Policy, error)
	Apart   func(program string)   // an agent runs in a sandbox of its own, and not in this one; nil: nobody asks
	Step    []string               // the program that puts it there, which is this one
	Ended   func(dir string) error // what ran in dir in a sandbox has ended: what is wrong with what it left
}

// Run runs `sh -c script` in dir and returns its exit code; a death by signal
// is 128 and its number. When ctx ends, so does the script.
func (s Shell) Run(ctx context.Context, dir, script string, env []string) (int, error) {
	cmd := s.command(ctx, dir, []string{"sh", "-c", script}, env)
	cmd.Stdout = s.Stdout
	return s.finish(cmd, cmd.Run())
}

// Output is Run with standard output captured: limit bytes of it, and one more
// where there was more.
func (s Shell) Output(ctx context.Context, dir, script string, env []string, limit int) ([]byte, int, error) {
	out := &capture{limit: limit}
	cmd := s.command(ctx, dir, []string{"sh", "-c", script}, env)
	cmd.Stdout = out
	exit, err := s.finish(cmd, cmd.Run())
	return s.kept(out), exit, err
}

// kept is what was captured, without secrets.
func (s Shell) kept(c *capture) []byte {
	if s.Hide == nil {
		return c.text
	}
	return s.Hide(c.text)
}

// command is args in a process group of its own, all of which is told to end
// when ctx does.
func (s Shell) command(ctx context.Context, dir string, args, env []string, also ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = dir
	cmd.Env = slices.DeleteFunc(slices.Concat(os.Environ(), s.Env, []string{"PWD=" + dir}, env), func(v string) bool {
		return strings.HasPrefix(v, resultVariable)
	})
	cmd.Stderr = s.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return sys.SignalGroup(cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = s.Grace
	if s.Grace <= 0 {
		cmd.WaitDelay = DefaultGrace
	}
	s.confine(cmd, also)
	return cmd
}

// confine puts cmd into the container or the sandbox of what runs in its directory, if it is in
// one. Where it cannot be put there, it does not start.
func (s Shell) confine(cmd *exec.Cmd, also []string) {
	if s.Contain != nil {
		argv, env, err := s.Contain(cmd.Dir, cmd.Args, cmd.Env)
		if cmd.Err = err; err == nil {
			cmd.Path, cmd.Args, cmd.Env = argv[0], argv, env
		}
		return
	}
	if s.Confine == nil || cmd.Err != nil {
		return
	}
	p, err := s.Confine(cmd.Dir, also...)
	if err == nil && p != nil {
		var step sandbox.Command
		step, err = p.Wrap(s.Step, sandbox.Command{Path: cmd.Path, Args: cmd.Args, Env: cmd.Env}, cmd.SysProcAttr)
		cmd.Path, cmd.Args, cmd.Env = step.Path, step.Args, step.Env
	}
	cmd.Err = err
}

// finish is the exit code of a command that ran. That it left a process behind
// which keeps its output open is nothing that the command did wrong.
func (s Shell) finish(cmd *exec.Cmd, err error) (int, error) {
	if cmd.ProcessState == nil {
		return 0, refused(cmd, err)
	}
	if errors.Is(err, exec.ErrWaitDelay) {
		fmt.Fprintf(s.Stderr, "warning: %s ended and left a process behind that holds its output\n", cmd.Args[0])
	}
	if s.Confine != nil && s.Ended != nil {
		if err := s.Ended(cmd.Dir); err != nil {
			return 1, err
		}
	}
	status := cmd.ProcessState.Sys().(syscall.WaitStatus)
	var exited *exec.ExitError
	switch {
	case status.Signaled():
		return 128 + int(status.Signal()), nil
	case err == nil, errors.As(err, &exited), errors.Is(err, exec.ErrWaitDelay), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return status.ExitStatus(), nil
	default:
		return status.ExitStatus(), err
	}
}

// refused says why a command did not start.
func refused(cmd *exec.Cmd, err error) error {
	name := cmd.Args[0]
	switch {
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		if _, gone := os.Stat(cmd.Dir); gone != nil {
			return fmt.Errorf("working directory %s does not exist", cmd.Dir)
		}
		return fmt.Errorf("command not found: %s", name)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("cannot execute %s: it is not executable; try `chmod +x %s`", name, name)
	case errors.Is(err, syscall.ENOEXEC):
		return fmt.Errorf("cannot execute %s: it is no program and has no #! line", name)
	default:
		return fmt.Errorf("start %s: %w", name, err)
	}
}

// capture keeps the first limit bytes, and one more where there is more, and
// passes them on as they come. It takes everything, so that what is not kept
// blocks nobody.
type capture struct {
	limit int
	text  []byte
	to    io.Writer // nil: nowhere
}

func (c *capture) Write(p []byte) (int, error) {
	kept := p[:min(len(p), c.limit+1-len(c.text))]
	if c.to != nil && len(c.text) < c.limit {
		if _, err := c.to.Write(kept[:min(len(kept), c.limit-len(c.text))]); err != nil {
			return 0, err
		}
	}
	c.text = append(c.text, kept...)
	return len(p), nil
}
