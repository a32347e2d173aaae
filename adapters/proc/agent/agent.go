package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Settings is an agent: a command that reads a prompt from its standard input
// and writes its answer to its standard output.
type Settings struct {
	Label   string        // a name below a directory of shims, or Builtin
	Command []string      // instead of the label's shim
	Filter  []string      // makes the answer out of the command's output; may be empty
	Timeout time.Duration // 0: none of its own
}

// Builtin is the label of the agent that is part of this program.
const Builtin = "builtin"

// ErrTimeout is an agent that did not answer within its time limit.
var ErrTimeout = fmt.Errorf("agent timed out: %w", context.DeadlineExceeded)

// Agents runs the agents that a configuration names.
type Agents struct {
	Shell

	// Select is the agent of a job.
	Select func(*kernel.Job) (Settings, error)
	Root   string   // what commands with a relative path are relative to
	Shims  []string // directories of shims, NAME/agent.sh and NAME/filter.sh; the first that has one counts
}

// Run gives prompt to job's agent, which works in dir. Its answer, or that of
// its filter, goes to Stdout as it is written and what it says about its
// progress to Stderr. text is limit bytes of the answer, and one more where
// there was more. exit is the agent's exit code, or the filter's where only
// that failed. It is an error when there is no agent, when it cannot be
// started, and, as ErrTimeout, when its time limit ended it.
func (a Agents) Run(ctx context.Context, dir string, job *kernel.Job, prompt []byte, limit int) (text []byte, exit int, err error) {
	s, err := a.Select(job)
	if err != nil {
		return nil, 0, err
	}
	if s, err = a.complete(s); err != nil {
		return nil, 0, err
	}
	parent := ctx
	if s.Timeout > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, s.Timeout)
		defer stop()
	}
	out := &capture{limit: limit, to: a.Stdout}
	switch {
	case s.Label == Builtin && len(s.Command) == 0:
		exit, err = a.builtin(ctx, dir, prompt, out)
	case len(s.Filter) == 0:
		cmd := a.command(ctx, dir, s.Command, nil)
		cmd.Stdin, cmd.Stdout = bytes.NewReader(prompt), out
		exit, err = a.finish(cmd, cmd.Run())
	default:
		exit, err = a.filtered(ctx, dir, s, prompt, out)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("agent %s: %w", s.Label, err)
	}
	if ctx.Err() != nil && parent.Err() == nil {
		return nil, 0, fmt.Errorf("agent %s did not answer within %s: %w", s.Label, s.Timeout, ErrTimeout)
	}
	return out.text, exit, nil
}

// filtered runs the agent into its filter.
func (a Agents) filtered(ctx context.Context, dir string, s Settings, prompt []byte, out *capture) (int, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	filter := a.command(ctx, dir, s.Filter, nil)
	filter.Stdin, filter.Stdout = r, out
	err = filter.Start()
	r.Close()
	if err != nil {
		w.Close()
		return 0, fmt.Errorf("progress filter: %w", refused(filter, err))
	}
	agent := a.command(ctx, dir, s.Command, nil)
	agent.Stdin, agent.Stdout = bytes.NewReader(prompt), w
	err = agent.Start()
	w.Close()
	if err != nil {
		err = refused(agent, err)
	} else {
		err = agent.Wait()
	}
	filterExit, filterErr := a.finish(filter, filter.Wait())
	if agent.ProcessState == nil {
		return 0, err
	}
	exit, err := a.finish(agent, err)
	broken := exit == 128+int(syscall.SIGPIPE) // the filter had read enough
	if exit != 0 && !broken {
		return exit, errors.Join(err, filterErr)
	}
	if filterExit != 0 {
		fmt.Fprintf(a.Stderr, "the progress filter of agent %s failed (exit %d)\n", s.Label, filterExit)
	}
	return filterExit, errors.Join(err, filterErr)
}

// complete finds the files of the agent's commands.
func (a Agents) complete(s Settings) (Settings, error) {
	if s.Label == Builtin && len(s.Command) == 0 {
		return s, nil
	}
	if len(s.Command) == 0 {
		shim, err := a.shim(s.Label)
		if err != nil {
			return s, err
		}
		s.Command = []string{shim}
		if filter := filepath.Join(filepath.Dir(shim), "filter.sh"); len(s.Filter) == 0 && regular(filter) {
			s.Filter = []string{filter}
		}
	}
	s.Command, s.Filter = a.located(s.Command), a.located(s.Filter)
	return s, nil
}

// located is args with a relative path taken from the repository's root: a
// worktree need not have the file.
func (a Agents) located(args []string) []string {
	if len(args) == 0 || filepath.IsAbs(args[0]) || !strings.Contains(args[0], "/") {
		return args
	}
	return append([]string{filepath.Join(a.Root, args[0])}, args[1:]...)
}

func (a Agents) shim(label string) (string, error) {
	for _, dir := range a.Shims {
		if path := filepath.Join(dir, label, "agent.sh"); filepath.IsLocal(label) && regular(path) {
			return path, nil
		}
	}
	return "", fmt.Errorf("no agent shim named `%s` was found (looked in %s); set command in [agents.default] of .vizier/config.toml "+
		"to a program that reads a prompt and writes an answer, or agent to the name of a shim, or to \"%s\" for the agent that comes with vizier",
		label, strings.Join(a.Shims, ", "), Builtin)
}

func regular(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.Mode().IsRegular()
}
