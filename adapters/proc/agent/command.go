// Package agent runs programs for workflow nodes: users' scripts, and agents,
// which read a prompt and answer with text.
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
	"github.com/vizier-scheduler/vizier/kernel"
)

// DefaultGrace is the default time between TERM and KILL.
const DefaultGrace = 10 * time.Second

// resultVariable holds the path of the file in which the node reports how it
// ended. Programs that the node starts do not get it.
const resultVariable = "VIZIER_RESULT_FILE="

// Shell runs scripts. Their output goes to Stdout and Stderr, directly if these
// are files. Stderr must allow concurrent writes: an agent and its filter run
// at the same time.
type Shell struct {
	Stdout, Stderr io.Writer
	Grace          time.Duration // between TERM and KILL; 0: DefaultGrace
	Env            []string      // NAME=VALUE for everything it runs, including agents

	// Hide returns text without the secrets in it, for captured output that
	// goes on record; nil: there are no secrets.
	Hide func(text []byte) []byte

	// Contain returns the command line, with its environment, that runs args in
	// dir in a container; nil: args run on this host.
	Contain func(dir string, args, env []string) (argv, client []string, err error)

	// Confine returns the sandbox for commands that run in dir and may also
	// write to the paths in also; nil, or a nil policy: no sandbox.
	Confine func(dir string, also ...string) (*sandbox.Policy, error)
	Apart   func(program string)   // called if an agent runs in a sandbox of its own instead of this one; may be nil
	Step    []string               // the program that enters the sandbox, which is this one
	Ended   func(dir string) error // called when a sandboxed command in dir has ended; its error says what is wrong with what the command left
}

// Run runs `sh -c script` in dir and returns its exit code. A death by signal
// is 128 plus the signal's number. The script is ended when ctx ends.
func (s Shell) Run(ctx context.Context, dir, script string, env []string) (int, error) {
	cmd := s.command(ctx, dir, []string{"sh", "-c", script}, env)
	cmd.Stdout = s.Stdout
	return s.finish(cmd, cmd.Run())
}

// Output is Run with standard output captured: limit bytes of it, and one more
// byte if there is more.
func (s Shell) Output(ctx context.Context, dir, script string, env []string, limit int) ([]byte, int, error) {
	out := &capture{limit: limit}
	cmd := s.command(ctx, dir, []string{"sh", "-c", script}, env)
	cmd.Stdout = out
	exit, err := s.finish(cmd, cmd.Run())
	return s.captured(out), exit, err
}

// captured returns the captured output without secrets.
func (s Shell) captured(c *capture) []byte {
	if s.Hide == nil {
		return c.text
	}
	return s.Hide(c.text)
}

// command returns args as a command in a process group of its own. The whole
// group is told to end when ctx does.
func (s Shell) command(ctx context.Context, dir string, args, env []string, also ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = dir
	cmd.Env = slices.DeleteFunc(slices.Concat(os.Environ(), s.Env, []string{"PWD=" + dir}, env), func(v string) bool {
		return strings.HasPrefix(v, resultVariable)
	})
	cmd.Stderr = s.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error {
		_ = sys.SignalGroup(cmd.Process.Pid, syscall.SIGTERM)
		return sys.SignalGroup(cmd.Process.Pid, syscall.SIGCONT) // a stopped process would not notice
	}
	cmd.WaitDelay = s.Grace
	if s.Grace <= 0 {
		cmd.WaitDelay = DefaultGrace
	}
	s.confine(cmd, also)
	return cmd
}

// confine puts cmd into the container or the sandbox for its directory, if
// there is one. If that fails, cmd will not start.
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
		step := p.Wrap(s.Step, sandbox.Command{Path: cmd.Path, Args: cmd.Args, Env: cmd.Env}, cmd.SysProcAttr)
		cmd.Path, cmd.Args, cmd.Env = step.Path, step.Args, step.Env
	}
	cmd.Err = err
}

// finish returns the exit code of a command that ran. It is not an error if the
// command left a process behind that keeps its output open.
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

// refused describes why a command did not start.
func refused(cmd *exec.Cmd, err error) error {
	name := cmd.Args[0]
	switch {
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		if _, gone := os.Stat(cmd.Dir); gone != nil {
			return fmt.Errorf("working directory %s does not exist", cmd.Dir)
		}
		return fmt.Errorf("command not found: %s", name)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("cannot execute %s: it is not executable; try `%s`", name, kernel.CommandLine("chmod", "+x", name))
	case errors.Is(err, syscall.ENOEXEC):
		return fmt.Errorf("cannot execute %s: it is no program and has no #! line", name)
	default:
		return fmt.Errorf("start %s: %w", name, err)
	}
}

// capture keeps the first limit bytes, and one more if there are more, and
// passes all bytes on as they arrive. It always accepts everything, so that a
// writer is never blocked.
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
