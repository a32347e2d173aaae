// Package op holds the operations of workflow nodes: one function per row of
// the inventory (workflow.Inventory). Each performs effects that the kernel or
// the workflow package decided on. A node runs in a process of its own, as the
// command of its job's attempt; its runner records the result.
package op

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/effect"
	"github.com/vizier-scheduler/vizier/kernel/workflow"
)

// Node is one execution of a workflow node.
type Node struct {
	Job      kernel.Job // as it was when the attempt started
	Manifest workflow.Manifest
	workflow.ManifestNode

	Root string // the repository's main working tree; absolute
	Dir  string // the execution root: absolute, Root or a worktree

	again bool // an earlier attempt may have made, or begun, what its operation does
}

// Env holds the interfaces through which operations reach the world.
type Env struct {
	Git     Git
	Files   Files
	Effects Effects
	Events  Events // nil: none is kept
	Shell   Shell
	Agents  Agents
	Stdout  io.Writer // the job's logs, written unbuffered
	Stderr  io.Writer
	Now     func() time.Time
	Records Records

	// Confined says that the node's agent and scripts cannot write to the repository's
	// git directory.
	Confined bool

	// Told records what agents have reported so far, in case the node does not
	// come to its end; nil: it is not recorded.
	Told func(kernel.AgentRun) error

	// Printed returns the last lines that a job's attempt has printed, in the order in which
	// it printed them; nil: that is not known.
	Printed func(context.Context, kernel.JobID) []Printed

	told *kernel.AgentRun // what the agents asked by n have reported so far
	said string           // the last line of the last script, if that failed and printed any
}

// Records reads the records of jobs.
type Records interface {
	Job(kernel.JobID) (kernel.Job, error)
}

// Result is how an operation ended.
type Result struct {
	Outcome  kernel.Outcome
	Exit     int
	Class    kernel.FailureClass
	Reason   string            // one line a person can act on
	Produced []kernel.Artifact // in addition to what the node declares for the outcome
	Context  *kernel.Context   // where the run continues; nil: unchanged; zero: without a context
	Agent    *kernel.AgentRun  // what its agent reported; nil: it ran none
	Merge    effect.Merge      // what a merge settled
}

// operation performs one operation or control policy. An error is a failure of
// class launch with the error as its reason; an outcome that routes depend on
// is a Result.
type operation func(context.Context, *Env, *Node) (Result, error)

// ok returns the result of an operation that succeeded.
func ok(reason string) Result { return Result{Outcome: kernel.OutcomeSucceeded, Reason: reason} }

// failed returns the result of an operation whose command exited with code.
func failed(exit int, format string, args ...any) Result {
	return Result{Outcome: kernel.OutcomeFailed, Exit: max(exit, 1), Class: kernel.ExitFailure, Reason: fmt.Sprintf(format, args...)}
}

// blocked returns the result of an operation that cannot continue without a
// person or another node.
func blocked(format string, args ...any) Result {
	return Result{Outcome: kernel.OutcomeBlocked, Exit: 10, Reason: fmt.Sprintf(format, args...)}
}

// Run executes n. All outcomes, including errors and panics, end here; the
// result includes what the node declares for its outcome.
func Run(ctx context.Context, env *Env, n *Node) (r Result) {
	own := *env
	env, own.Files = &own, patient{env.Files, ctx}
	defer func() {
		if p := recover(); p != nil {
			fmt.Fprintf(env.Stderr, "panic: %v\n%s", p, debug.Stack())
			r = Result{Outcome: kernel.OutcomeFailed, Exit: 1, Class: kernel.LaunchFailure, Reason: fmt.Sprintf("panic in %s: %v", n.Uses, p)}
		}
		r.Reason = strings.TrimSpace(strings.ReplaceAll(r.Reason, "\n", " "))
		r.Reason = strings.ReplaceAll(r.Reason, filepath.Join(n.Root, worktreeHome)+"/", worktreeHome+"/") // stays true if the repository is moved
		if env.told != nil {
			r.Agent = env.told
		}
	}()
	run, found := lookup(n)
	if !found {
		return Result{Outcome: kernel.OutcomeFailed, Exit: 1, Class: kernel.DataError, Reason: "no operation for " + n.Uses}
	}
	r, err := run(ctx, env, n)
	if err != nil {
		r = failure(ctx, n, err)
	}
	if env.said != "" && (r.Class == kernel.ExitFailure || r.Outcome == kernel.OutcomeBlocked) {
		r.Reason += kernel.LastLine + env.said
	}
	if r.Class == kernel.ExitFailure {
		if lock := env.Git.IndexLockIn(n.Dir); lock != "" {
			r.Reason += "; a git has locked the index with " + lock + ": if none is at work any more, `vizier doctor --fix` removes that"
		}
	}
	if r.Outcome == kernel.OutcomeFailed && ctx.Err() == nil {
		r = inDamaged(env, n, r)
	}
	if r.Class == kernel.MissingInput {
		if err := env.Files.WriteNoInput(n.Job.ID, r.Reason); err != nil {
			fmt.Fprintln(env.Stderr, "NO_INPUT.md was not written:", err)
		}
	}
	for _, rec := range n.Artifacts[r.Outcome.String()] {
		a, err := rec.Artifact()
		if err != nil {
			return Result{Outcome: kernel.OutcomeFailed, Exit: 1, Class: kernel.DataError, Reason: err.Error()}
		}
		if a.Kind == kernel.Custom && a.Name == workflow.OperationOutput {
			if err := writeOutput(env, n, a, r); err != nil {
				return failure(ctx, n, err)
			}
		}
		r.Produced = append(r.Produced, a)
	}
	return r
}

// inDamaged returns the result r, or if nobody can work in n's worktree, one that says so. Its retry begins
// where the worktree is made, unless that can be used again as it is.
func inDamaged(env *Env, n *Node, r Result) Result {
	c := n.Job.State.Context
	if c.Worktree == "" {
		return r
	}
	why, stays, err := env.Git.Damage(c)
	if err != nil {
		fmt.Fprintln(env.Stderr, err)
	}
	if why == "" {
		return r
	}
	fmt.Fprintln(env.Stderr, r.Reason)
	r.Reason = fmt.Sprintf("worktree %s cannot be used: %s", c.Worktree, why)
	if !stays {
		r.Context = &kernel.Context{}
	}
	return r
}

// failure returns the result of an operation that could not do its work.
func failure(ctx context.Context, n *Node, err error) Result {
	r := Result{Outcome: kernel.OutcomeFailed, Exit: 1, Class: kernel.LaunchFailure, Reason: err.Error()}
	var c *classed
	switch {
	case errors.As(err, &c):
		r.Class = c.class
	case ctx.Err() != nil:
		r.Exit, r.Class, r.Reason = 143, kernel.Signal, "it was told to end"
	}
	if name := n.performs(); !strings.HasPrefix(r.Reason, name) {
		r.Reason = name + ": " + r.Reason
	}
	return r
}

// classed is an error with a failure class of its own.
type classed struct {
	class kernel.FailureClass
	error
}

func (c *classed) Unwrap() error { return c.error }

// missingInput returns an error of class missing input.
func missingInput(format string, args ...any) error {
	return &classed{kernel.MissingInput, fmt.Errorf(format, args...)}
}

// arg returns the first argument of keys that is not blank, trimmed.
func (n *Node) arg(keys ...string) string {
	for _, k := range keys {
		if v := strings.TrimSpace(n.Args[k]); v != "" {
			return v
		}
	}
	return ""
}

// flag returns a boolean argument; blank is its default.
func (n *Node) flag(key string, def bool) (bool, error) {
	switch v := strings.ToLower(n.arg(key)); v {
	case "":
		return def, nil
	case "1", "true", "yes", "on":
		return true, nil
	case "0", "false", "no", "off":
		return false, nil
	default:
		return def, fmt.Errorf("argument %s = %q: expected true or false: %w", key, v, kernel.ErrInvalid)
	}
}
