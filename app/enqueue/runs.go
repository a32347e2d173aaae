package enqueue

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/vizier-scheduler/vizier/app"
	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/workflow"
)

// One makes the job of a single request.
func (t *Builder) One(ctx context.Context, q Request) (kernel.NewJob, error) {
	before, wrong, err := t.afters(ctx, q.After)
	if err != nil {
		return kernel.NewJob{}, err
	}
	return t.newJob(ctx, q, before, wrong...)
}

// RunOptions are the options of runs besides their templates.
type RunOptions struct {
	After           []string         // jobs that the first run starts after, or run:RUN for the last jobs of a run; with :any, whatever their outcome
	Approval        *kernel.Approval // of the first jobs, instead of the template's; nil: the template's
	ApprovalTimeout time.Duration    // of that approval; 0: the template's
	Ephemeral       bool             // the run is removed once it has ended and nobody follows it
}

// Runs makes a run of each flow. Each run but the first starts after the one
// before it.
func (t *Builder) Runs(ctx context.Context, flows []*Flow, o RunOptions) ([]app.RunRequest, error) {
	before, wrong, err := t.afters(ctx, o.After)
	if err == nil {
		err = errors.Join(wrong...)
	}
	if err != nil {
		return nil, err
	}
	var runs []app.RunRequest
	for _, f := range flows {
		run, err := f.Compile(ctx, o.Ephemeral)
		if err != nil {
			return nil, err
		}
		if err := t.mayStart(run.Jobs); err != nil {
			return nil, err
		}
		if len(before.After) == 0 {
			if err := t.mayMerge(ctx, run); err != nil {
				return nil, err
			}
		}
		run.After, run.AfterAny, run.Approval, run.ApprovalTimeout = before.After, before.AfterAny, o.Approval, o.ApprovalTimeout
		runs = append(runs, run.RunRequest)
		before = kernel.Spec{After: run.Sinks}
	}
	return runs, nil
}

// Check returns the error with which the runs of flows would be refused, and apart from that which
// agent cannot be asked on this host: a template is right without it. It writes nothing.
func (t *Builder) Check(ctx context.Context, flows []*Flow) (agent, err error) {
	var runs []app.RunRequest
	for i, f := range flows {
		run, err := f.Compile(ctx, false)
		if err == nil && i == 0 { // the others come after it
			err = t.mayMerge(ctx, run)
		}
		if err != nil {
			return nil, err
		}
		if agent == nil {
			agent = t.mayStart(run.Jobs)
		}
		runs = append(runs, run.RunRequest)
	}
	return agent, t.Scheduler.CheckRun(ctx, runs...)
}

// mayMerge returns an error for a merge into a branch that does not exist and that neither a job of
// the run nor an open job is known to make. A run with commands is not refused, since a command may
// make the branch.
func (t *Builder) mayMerge(ctx context.Context, run Run) error {
	for _, merge := range run.Jobs {
		args := run.Plan.Nodes[merge.Spec.Origin.Node].Args
		target := cmp.Or(args["target"], args["target_branch"])
		if merge.Spec.Integrates() == "" || slices.ContainsFunc(run.Jobs, func(j kernel.NewJob) bool {
			return j.Spec.MakesBranch(target) || j.Spec.Origin.About.Class == string(workflow.EnvironmentShell)
		}) {
			continue
		}
		if tip := t.observe(ctx, kernel.Probes{Branches: []string{target}}).Heads[target]; !tip.Known || tip.Value != "" {
			continue
		}
		snap, err := t.Scheduler.Records(ctx, kernel.Scope{})
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(snap.Jobs(), func(j *kernel.Job) bool { return j.Open() && j.Spec.MakesBranch(target) }) {
			return fmt.Errorf("there is no branch %s to merge into: name another with --target BRANCH, or create it; if a job is going to create it, queue the merge with --after JOB: %w", target, kernel.ErrInvalid)
		}
	}
	return nil
}

// afters resolves refs, to jobs and to runs, into predecessors. wrong says what is wrong with
// refs.
func (t *Builder) afters(ctx context.Context, refs []string) (before kernel.Spec, wrong []error, err error) {
	names := make([]string, len(refs))
	for i, ref := range refs {
		names[i], _ = afterPolicy(ref)
	}
	find, err := t.resolver(ctx, names)
	if err != nil {
		return before, nil, err
	}
	for i, ref := range refs {
		ids, err := find(names[i])
		if err != nil {
			wrong = append(wrong, err)
		}
		_, policy := afterPolicy(ref)
		for _, id := range ids {
			before.RunsAfter(id, policy)
		}
	}
	return before, wrong, nil
}

// sinks returns the last jobs of a run on record, which its id or its number names, without jobs that
// only a route starts.
func (t *Builder) sinks(ctx context.Context, named string) ([]kernel.JobID, error) {
	run := kernel.RunID(named)
	if number, part, numbered := kernel.ParseRef(named); numbered && part == "" {
		var err error
		if run, err = t.Scheduler.Run(ctx, number.String()); err != nil {
			return nil, fmt.Errorf("--after run:%s: %w", named, err)
		}
	}
	data, err := t.Templates.Manifest(run)
	if err != nil {
		return nil, fmt.Errorf("invalid --after run reference `run:%s`: manifest not found: %w", run, err)
	}
	var m workflow.Manifest
	if err := json.Unmarshal(data, &m); err != nil {
		return nil, fmt.Errorf("invalid --after run reference `run:%s`: %w", run, err)
	}
	all := sinksOf(m)
	snap, err := t.Scheduler.Records(ctx, app.Only(all))
	if err != nil {
		return nil, err
	}
	var out []kernel.JobID
	for _, id := range all {
		if j := snap.Job(id); j == nil || !j.Spec.Routed {
			out = append(out, id)
		}
	}
	if len(out) == 0 {
		return nil, &InputError{Err: errors.New("invalid --after run reference `run:" + string(run) + "`: manifest has no success-terminal sink nodes")}
	}
	return out, nil
}
