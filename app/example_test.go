package app_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/app"
	"github.com/vizier-scheduler/vizier/app/storetest"
	"github.com/vizier-scheduler/vizier/kernel"
)

// vault is what outlives every process that uses it: here, a variable.
type vault struct {
	records
	left     []kernel.WorldAction // committed and not seen through
	outcomes map[kernel.AttemptID]kernel.Result
	lock     *desk // who holds it
}

// records are what a plan changes, all or none of it.
type records struct {
	jobs    map[kernel.JobID]kernel.Job
	markers map[kernel.Artifact][]kernel.JobID
	last    kernel.Number
}

func newVault() *vault {
	return &vault{records: records{jobs: map[kernel.JobID]kernel.Job{}, markers: map[kernel.Artifact][]kernel.JobID{}}, outcomes: map[kernel.AttemptID]kernel.Result{}}
}

// desk is the vault as one process has it: the ports app.Store, app.Tx, app.Outcomes
// and app.Observer.
type desk struct{ *vault }

func (d *desk) Begin(context.Context) (app.Tx, error) {
	if d.lock != nil {
		return nil, app.ErrBusy // another store would wait as long as the context allows
	}
	d.lock = d
	return d, nil
}

func (d *desk) Read(_ context.Context, scope kernel.Scope) (kernel.Records, error) {
	return d.Load(scope)
}

// Load brings all records: a scope says what is needed at least.
func (d *desk) Load(kernel.Scope) (kernel.Records, error) {
	return kernel.Records{Jobs: slices.Collect(maps.Values(d.jobs)), Last: d.last}, nil
}

// Commit changes a copy, so that a plan which is refused has done nothing.
func (d *desk) Commit(p kernel.Plan) error {
	next := records{maps.Clone(d.jobs), maps.Clone(d.markers), d.last}
	if err := p.Write(&next); err != nil {
		return err
	}
	d.records = next
	if !p.Empty() {
		d.left = p.World
	}
	return nil
}

func (d *desk) Unfinished() []kernel.WorldAction { return d.left }
func (d *desk) Done() error                      { d.left = nil; return nil }

func (d *desk) Close() error { d.Die(); return nil }

// Die lets go of the lock, as the end of a process does.
func (d *desk) Die() {
	if d.lock == d {
		d.lock = nil
	}
}

func (d *desk) Job(id kernel.JobID) (kernel.Job, error) {
	j, ok := d.jobs[id]
	if !ok {
		return j, fmt.Errorf("job %s: %w", id, kernel.ErrNotFound)
	}
	return j, nil
}

func (d *desk) Conclude(r kernel.Result) error {
	d.outcomes[r.Attempt] = r
	return nil
}

func (d *desk) Observe(_ context.Context, p kernel.Probes, f *kernel.Facts) {
	for _, a := range p.Markers {
		f.Markers[a] = kernel.Seen(d.markers[a])
	}
	for _, a := range p.Attempts {
		f.Results[a] = kernel.Seen[*kernel.Result](nil)
		if r, ok := d.outcomes[a]; ok {
			f.Results[a] = kernel.Seen(&r)
		}
	}
}

// The methods of kernel.RecordWriter, one for each action: a store that knows too
// few does not compile.

func (r *records) CreateJob(a kernel.CreateJob) error {
	if _, taken := r.jobs[a.Job.ID]; taken {
		return fmt.Errorf("create %s: %w", a.Job.ID, kernel.ErrConflict)
	}
	r.jobs[a.Job.ID], r.last = *a.Job, max(r.last, a.Job.Number)
	return nil
}

// change replaces a job, if its revision is still the one that the plan is over.
func (r *records) change(id kernel.JobID, over kernel.Revision, change func(*kernel.Job)) error {
	j, ok := r.jobs[id]
	switch {
	case !ok:
		return fmt.Errorf("change %s: %w", id, kernel.ErrNotFound)
	case j.Rev != over:
		return fmt.Errorf("change %s: revision %d, planned over %d: %w", id, j.Rev, over, kernel.ErrStale)
	}
	change(&j)
	j.Rev++
	r.jobs[id] = j
	return nil
}

func (r *records) PutState(a kernel.PutState) error {
	return r.change(a.Job, a.If, func(j *kernel.Job) { j.State = a.State })
}

func (r *records) NumberJob(a kernel.NumberJob) error {
	r.last = max(r.last, a.Number)
	return r.change(a.Job, a.If, func(j *kernel.Job) { j.Number, j.Part = a.Number, a.Part })
}

func (r *records) RemoveJob(a kernel.RemoveJob) error {
	delete(r.jobs, a.Job)
	return r.mark(a.Job, a.Produces, false)
}

func (r *records) PurgeFiles(a kernel.PurgeFiles) error { return r.mark(a.Job, a.Produces, false) }

func (r *records) Publish(a kernel.Publish) error { return r.mark(a.Attempt.Job, a.Artifacts, true) }

func (r *records) Reset(a kernel.Reset) error { return r.mark(a.Attempt.Job, a.Produces, false) }

// mark says whether a job's marker of each custom artifact exists.
func (r *records) mark(id kernel.JobID, artifacts []kernel.Artifact, exists bool) error {
	for _, a := range artifacts {
		if a.Kind != kernel.Custom {
			continue // others exist in the repository
		}
		r.markers[a] = slices.DeleteFunc(slices.Clone(r.markers[a]), func(k kernel.JobID) bool { return k == id })
		if exists {
			r.markers[a] = append(r.markers[a], id)
		}
	}
	return nil
}

func (r *records) Rotate(kernel.Rotate) error       { return nil } // there are no logs
func (r *records) Announce(kernel.Announce) error   { return nil } // nor hooks
func (r *records) CreateRun(kernel.CreateRun) error { return nil } // nor templates
func (r *records) RemoveRun(kernel.RemoveRun) error { return nil }

// The store keeps the contract of the ports.
func TestVaultKeepsTheContract(t *testing.T) {
	storetest.Run(t, func(*testing.T) storetest.Store {
		s := newVault()
		return storetest.Store{Process: func() storetest.Process { return &desk{s} }}
	})
}

// here executes jobs where it is started, at once: an attempt's runner is over when Start
// returns, and left its result.
type here struct{ *desk }

func (h here) Start(_ context.Context, a kernel.AttemptID) error {
	j, err := h.Job(a.Job)
	if err != nil {
		return err
	}
	fmt.Println("run", j.Spec.Task.Args)
	return h.Conclude(kernel.Result{Attempt: a, Outcome: kernel.OutcomeSucceeded, Produced: j.Spec.Produces})
}

func (h here) Alive(_ context.Context, all []kernel.AttemptID) map[kernel.AttemptID]kernel.Fact[kernel.Runner] {
	out := map[kernel.AttemptID]kernel.Fact[kernel.Runner]{}
	for _, a := range all {
		out[a] = kernel.Seen(kernel.Runner{Liveness: kernel.Dead})
	}
	return out
}

func (h here) Stop(context.Context, kernel.AttemptID) error  { return nil }
func (h here) Sweep(context.Context, kernel.AttemptID) error { return nil }

// A scheduler over a store and an executor of one's own: ports of this package,
// and none of the files, processes and repositories that Vizier has behind them.
func ExampleScheduler() {
	ctx := context.Background()
	d := &desk{newVault()}
	s := app.Scheduler{Store: d, Observers: []app.Observer{d}, Executor: here{d},
		Now: func() time.Time { return time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC) }}

	binary := kernel.Artifact{Kind: kernel.Custom, Name: "binary", Ref: "app"}
	if _, err := s.Submit(ctx, []kernel.NewJob{
		{ID: "build", Spec: kernel.Spec{Task: kernel.Task{Args: []string{"make", "app"}}, Produces: []kernel.Artifact{binary}}},
		{ID: "test", Spec: kernel.Spec{Task: kernel.Task{Args: []string{"make", "test"}}, Needs: []kernel.Artifact{binary}}},
	}, "ann"); err != nil {
		fmt.Println(err)
	}
	for {
		rep, err := s.Tick(ctx)
		if err != nil {
			fmt.Println(err)
			return
		}
		for _, j := range rep.Snapshot.Jobs() {
			fmt.Println(j.ID, j.State.Status)
		}
		if len(rep.Decisions) == 0 {
			return
		}
	}
	// Output:
	// run [make app]
	// run [make test]
	// build succeeded
	// test running
	// build succeeded
	// test succeeded
	// build succeeded
	// test succeeded
}
