// Package enqueue makes jobs of what people and programs ask for: of single
// requests, of batches, of templates and of prompts. What it makes is enqueued
// by app.Scheduler; this package writes nothing.
package enqueue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/vizier-scheduler/vizier/app"
	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/workflow"
)

// Builder makes jobs for one repository and one asker.
type Builder struct {
	Scheduler *app.Scheduler
	Trees     Trees
	Templates Templates
	Agents    app.AgentPrograms // nil: nobody looks whether an agent can start
	Defaults  Defaults

	Root string // of the main working tree; absolute
	Tree string // the working tree that the asker stands in; absolute

	Origin kernel.Origin // of every job: its Command is what was typed
	By     func() string // who asks; called only where it goes on record

	// Late leaves whole ids that requests refer to for the scheduler to look up
	// when it enqueues: the jobs of a job's submissions may not be there yet.
	Late bool
}

// Defaults are what the configuration says where a request or a template does not.
type Defaults struct {
	Timeout    time.Duration     // of single jobs
	Executor   string            // of single jobs, and of nodes that run commands
	Sandbox    kernel.Sandbox    // the least that these get
	Containers map[string]string // by executor: the image of these, where they name none
	Settings   map[string]workflow.Setting
	Agent      func(alias string, selectors ...string) app.AgentChoice
}

// Trees tells of the working trees of repositories.
type Trees interface {
	// TreeOf is the repository that a path lies in, by the root of its main
	// working tree, and the working tree; both absolute.
	TreeOf(path string) (root, tree string, err error)

	// HeadBranch is the branch that is checked out in a working tree.
	HeadBranch(ctx context.Context, tree string) (string, error)
}

// Templates finds and reads templates, specifications and the manifests of runs.
type Templates interface {
	// Find is the template that a person means by a name.
	Find(name string) (Choice, error)

	// Load reads a template. With findings it is read as far as it could be,
	// or nil.
	Load(Choice) (*workflow.Source, error)

	// Spec is the text of a specification: a path relative to tree or, where
	// there is no such file, to the working directory.
	Spec(tree, path string) (string, error)

	// Specs are the Markdown files below a directory of tree, in the order of
	// their paths; kernel.ErrInvalid where there is none.
	Specs(tree, dir string) ([]SpecFile, error)

	// Manifest is that of a run; kernel.ErrNotFound if there is none.
	Manifest(kernel.RunID) ([]byte, error)
}

// Choice is a template, found.
type Choice struct {
	Path     string // absolute, or relative to the repository's root
	Selector string // how records name the template
	Alias    string // the configured alias that led here, if any
}

// SpecFile is the file of a specification.
type SpecFile struct {
	File string // relative to the working tree, with slashes
	Stem string // relative to the directory that was asked for, without its extension
}

// InputError is wrong input of the asker, as opposed to a fault of a template.
// It is kernel.ErrInvalid.
type InputError struct {
	Kind   InputKind
	Flow   string            // the template's name as it was given
	Source *workflow.Source  // the template, where it was read
	Given  map[string]string // parameters
	Err    error
}

// InputKind is what about the input is wrong, so that a front end can say how to
// put it right.
type InputKind int

// The kinds of wrong input.
const (
	BadReference InputKind = iota // a job or run that was named
	NoTemplate                    // the template that was named
	BadParameter                  // the parameters
	BadInput                      // the positional inputs, or what they lead to
	NoSlug                        // the plan's name cannot be told from the specification
	BadSpecs                      // the directory of specifications
)

func (e *InputError) Error() string { return e.Err.Error() }

// Unwrap is both the class and the cause.
func (e *InputError) Unwrap() []error { return []error{kernel.ErrInvalid, e.Err} }

// resolver finds the jobs that requests start after.
func (t *Builder) resolver(ctx context.Context, refs []string) (func(string) (kernel.JobID, error), error) {
	find, err := t.Scheduler.Resolver(ctx, refs)
	if err != nil {
		return nil, err
	}
	return func(ref string) (kernel.JobID, error) {
		if ref == "" {
			ref = "<empty>"
		}
		id, err := find(ref)
		switch {
		case errors.Is(err, kernel.ErrNotFound):
			return "", fmt.Errorf("unknown --after job id: %s: %w", ref, kernel.ErrNotFound)
		case err != nil:
			return "", fmt.Errorf("--after: %w", err)
		}
		return id, nil
	}, nil
}

// linked is the linked worktree that the asker stands in; "": it is the main one.
func (t *Builder) linked() string {
	if t.Tree == t.Root {
		return ""
	}
	return t.Tree
}
