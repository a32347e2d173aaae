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

// Agents runs the agents that a configuration names.
type Agents struct {
	Shell

	// Select is the agent of a job.
	Select func(*kernel.Job) (Settings, error)
	Root   string   // what commands with a relative path are relative to
	Shims  []string // directories of shims, NAME/agent.sh and NAME/filter.sh; the first that has one counts
}

// exitTimeout is the exit code of what a time limit ended, exitNotFound that of
// a shell that does not find a program.
const (
	exitTimeout  = 124
	exitNotFound = 127
)

// Run asks the agent of q's job. Its answer, or that of its filter, goes to
// Stdout as it is written and what it says about its progress to Stderr. The
// answer's exit code is the agent's, or the filter's where only that failed.
// It is an error when there is no agent and when it cannot be started.
func (a Agents) Run(ctx context.Context, q kernel.AgentRequest) (kernel.AgentAnswer, error) {
	s, err := a.Select(q.Job)
	if err != nil {
		return kernel.AgentAnswer{}, err
	}
	if s, err = a.complete(s); err != nil {
		return kernel.AgentAnswer{}, err
	}
	parent := ctx
	if s.Timeout > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, s.Timeout)
		defer stop()
	}
	out := &capture{limit: q.Limit, to: a.Stdout}
	r := kernel.AgentAnswer{Run: kernel.AgentRun{Agent: s.Label}}
	switch {
	case s.Label == Builtin && len(s.Command) == 0:
		r.Exit, err = a.builtin(ctx, q.Dir, q.Prompt, out)
	case len(s.Filter) == 0:
		cmd := a.command(ctx, q.Dir, s.Command, nil)
		cmd.Stdin, cmd.Stdout = bytes.NewReader(q.Prompt), out
		r.Exit, err = a.finish(cmd, cmd.Run())
	default:
		r.Exit, err = a.filtered(ctx, q.Dir, s, q.Prompt, out)
	}
	if err != nil {
		return kernel.AgentAnswer{}, fmt.Errorf("agent %s: %w", s.Label, err)
	}
	r.Text = out.text
	switch {
	case ctx.Err() != nil && parent.Err() == nil:
		r.Exit, r.Class = exitTimeout, kernel.Timeout
		r.Reason = fmt.Sprintf("agent %s did not answer within %s", s.Label, s.Timeout)
	case r.Exit != 0:
		r.Class, r.Reason = kernel.ExitFailure, failure(r.Exit, string(r.Text))
	}
	return r, nil
}

// failure says how an agent failed that told nothing but its exit code.
func failure(exit int, text string) string {
	var why string
	switch {
	case exit == exitNotFound:
		why = fmt.Sprintf("the agent's program was not found (exit %d): install it, or name another agent in .vizier/config.toml", exit)
	case exit > 128 && exit < 128+65:
		why = fmt.Sprintf("the agent was ended by signal %d (exit %d)", exit-128, exit)
	default:
		why = fmt.Sprintf("the agent failed (exit %d)", exit)
	}
	if last := lastLine(text); last != "" {
		why += "; its last line was: " + last
	}
	return why
}

// lastLine is the last line of text that says anything, shortened.
func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	last := strings.TrimSpace(lines[len(lines)-1])
	if len(last) > 200 {
		last = last[:200] + "…"
	}
	return last
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
