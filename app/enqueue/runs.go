package enqueue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/vizier-scheduler/vizier/app"
	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/workflow"
)

// One makes the job of a single request.
func (t *Intake) One(ctx context.Context, q Request) (kernel.NewJob, error) {
	after, err := t.resolver(ctx, q.After)
	if err != nil {
		return kernel.NewJob{}, err
	}
	return t.newJob(ctx, q, after)
}

// RunOptions are what is asked of runs besides their templates.
type RunOptions struct {
	After     []string         // jobs, or run:RUN for the last jobs of a run, that the first run starts after
	Approval  *kernel.Approval // of the first jobs, instead of what the template asks for; nil: as it asks
	Ephemeral bool             // it goes once nobody looks at it any more
}

// Runs makes a run of each flow. Each but the first starts after the one before.
func (t *Intake) Runs(ctx context.Context, flows []*Flow, o RunOptions) ([]app.RunRequest, error) {
	after, err := t.afters(ctx, o.After)
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
		run.After, run.Approval = after, o.Approval
		runs = append(runs, run.RunRequest)
		after = run.Sinks
	}
	return runs, nil
}

// afters are the jobs that refs mean, of jobs and of runs.
func (t *Intake) afters(ctx context.Context, refs []string) ([]kernel.JobID, error) {
	var out []kernel.JobID
	var jobs []string
	for _, ref := range refs {
		run, ok := strings.CutPrefix(ref, "run:")
		switch {
		case ok:
			sinks, err := t.sinks(ctx, kernel.RunID(run))
			if err != nil {
				return nil, err
			}
			out = append(out, sinks...)
		case strings.HasPrefix(ref, "run_") && !strings.Contains(ref, "/"):
			return nil, &InputError{Err: fmt.Errorf("invalid --after reference `%s`; use `run:%s` for run dependencies", ref, ref)}
		default:
			jobs = append(jobs, ref)
		}
	}
	find, err := t.resolver(ctx, jobs)
	if err != nil {
		return nil, err
	}
	for _, ref := range jobs {
		id, err := find(ref)
		if err != nil {
			return nil, err
		}
		out = append(out, id)
	}
	return out, nil
}

// sinks are the last jobs of a run on record; those that only a route would
// start are not among them.
func (t *Intake) sinks(ctx context.Context, run kernel.RunID) ([]kernel.JobID, error) {
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
