// Package enqueue makes jobs from what people and programs ask for: single
// requests, batches, templates and prompts. app.Scheduler enqueues the jobs;
// this package writes nothing.
package enqueue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/vizier-scheduler/vizier/app"
	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/workflow"
)

// Builder makes jobs for one repository and one requester.
type Builder struct {
	Scheduler *app.Scheduler
	Trees     Trees
	Templates Templates
	Agents    app.AgentPrograms // nil: it is not checked whether an agent can start
	Defaults  Defaults

	Root string // the main working tree's root; absolute
	Tree string // the requester's working tree; absolute

	Origin kernel.Origin // of every job; its Command is the command line as typed
	By     func() string // returns the requester's name; called only if it goes on record

	// Late makes requests refer to whole ids without looking them up. The
	// scheduler checks them when it enqueues, because the jobs that a job's
	// submissions refer to may not exist yet.
	Late bool

	// StandIn gives flows a stand-in for input that they cannot do without. It is
	// for callers whose result does not depend on that input.
	StandIn bool
}

// Defaults are configured values for what a request or a template leaves open.
type Defaults struct {
	Timeout    time.Duration     // of single jobs
	Executor   string            // of single jobs, and of nodes that run commands
	Sandbox    kernel.Sandbox    // the least restrictive sandbox that these may have
	Containers map[string]string // the default image of these, by executor
	Settings   map[string]workflow.Setting
	Agent      func(alias string, selectors ...string) app.AgentChoice
}

// Trees looks up the working trees of repositories.
type Trees interface {
	// TreeOf returns the repository that contains a path, as the root of its
	// main working tree, and the working tree that contains it; both absolute.
	TreeOf(path string) (root, tree string, err error)

	// HeadBranch returns the branch that is checked out in a working tree.
	HeadBranch(ctx context.Context, tree string) (string, error)
}

// Templates finds and reads templates, specifications and the manifests of runs.
type Templates interface {
	// Find returns the template with a name that a person typed.
	Find(name string) (Choice, error)

	// Load reads a template. If there are findings, it also returns the
	// template as far as it could be read, or nil.
	Load(Choice) (*workflow.Source, error)

	// Spec returns the text of a specification. path is relative to tree or, if
	// there is no such file, to the working directory.
	Spec(tree, path string) (string, error)

	// Specs returns the Markdown files below a directory of tree, ordered by
	// path. It is kernel.ErrInvalid if there are none.
	Specs(tree, dir string) ([]SpecFile, error)

	// Manifest returns the manifest of a run, or kernel.ErrNotFound.
	Manifest(kernel.RunID) ([]byte, error)
}

// Choice is a template that was found.
type Choice struct {
	Path     string // absolute, or relative to the repository's root
	Selector string // the template's name in records
	Alias    string // the configured alias by which it was found, if any
}

// SpecFile is a file with a specification.
type SpecFile struct {
	File string // relative to the working tree, with slashes
	Stem string // path relative to the requested directory, without its extension
}

// InputError is an error in the requester's input, as opposed to one in a
// template. It wraps kernel.ErrInvalid.
type InputError struct {
	Kind   InputKind
	Flow   string            // the template's name as typed
	Source *workflow.Source  // the template, if it could be read
	Given  map[string]string // the parameters that were given
	Err    error
}

// InputKind is the part of the input that is wrong. A front end uses it to
// suggest a correction.
type InputKind int

// The kinds of wrong input.
const (
	BadReference InputKind = iota // a reference to a job or a run
	NoTemplate                    // the template's name
	BadParameter                  // the parameters
	BadInput                      // the positional inputs, or what they refer to
	NoSlug                        // the plan's name cannot be derived from the specification
	BadSpecs                      // the directory of specifications
)

func (e *InputError) Error() string { return e.Err.Error() }

// Unwrap returns both the class and the cause.
func (e *InputError) Unwrap() []error { return []error{kernel.ErrInvalid, e.Err} }

// resolver returns a function that resolves each of refs, which --after names, to
// a job, or to the last jobs of a run: `run:RUN`, or a run's number.
func (t *Builder) resolver(ctx context.Context, refs []string) (func(string) ([]kernel.JobID, error), error) {
	jobs := slices.DeleteFunc(slices.Clone(refs), func(ref string) bool { return strings.HasPrefix(ref, ofRun) })
	find, err := t.Scheduler.Resolver(ctx, jobs)
	if err != nil {
		return nil, err
	}
	return func(ref string) ([]kernel.JobID, error) {
		if run, ok := strings.CutPrefix(ref, ofRun); ok {
			return t.sinks(ctx, run)
		}
		if ref == "" {
			ref = "<empty>"
		}
		id, err := find(ref)
		if strings.HasPrefix(ref, "run_") && !strings.Contains(ref, "/") {
			if _, no := t.Scheduler.Run(ctx, ref); no == nil || err != nil {
				return nil, &InputError{Err: fmt.Errorf("invalid --after reference `%s`; use `run:%s` for run dependencies", ref, ref)}
			}
		}
		switch number, part, numbered := kernel.ParseRef(ref); {
		case errors.Is(err, kernel.ErrNotFound):
			return nil, fmt.Errorf("unknown --after job id: %s: %w", ref, kernel.ErrNotFound)
		case err != nil && numbered && part == "":
			if run, no := t.Scheduler.Run(ctx, number.String()); no == nil {
				return t.sinks(ctx, string(run))
			}
		}
		if err != nil {
			return nil, fmt.Errorf("--after: %w", err)
		}
		return []kernel.JobID{id}, nil
	}, nil
}

// ofRun begins a reference to the last jobs of a run.
const ofRun = "run:"

// linked returns the linked worktree that the requester is in, or "" for the
// main one.
func (t *Builder) linked() string {
	if t.Tree == t.Root {
		return ""
	}
	return t.Tree
}
