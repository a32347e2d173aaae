package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/vizier-scheduler/vizier/app"
	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/view"
)

type cancelCmd struct {
	Jobs              []string `arg:"" optional:"" name:"job" help:"The jobs, or runs: their numbers, such as 12 or 14/NODE, names, ids or the beginnings of them, or @last."`
	All               bool     `help:"Cancel all open jobs."`
	Yes               bool     `short:"y" help:"With --all: do not ask."`
	CleanupWorktree   bool     `xor:"cleanup" help:"Also remove the job's worktree."`
	NoCleanupWorktree bool     `xor:"cleanup" help:"Keep the worktree, whatever [jobs.cancel] cleanup_worktree says."`
	Format            string   `enum:"text,json" default:"text" placeholder:"text|json" help:"Output format."`
}

func (*cancelCmd) Help() string {
	return "A running job gets TERM, and KILL if it still runs after [jobs] grace."
}

// cancelled is `jobs cancel --format json`.
type cancelled struct {
	Outcome string       `json:"outcome"`
	Job     kernel.JobID `json:"job"`
	view.Reference
	Status  string `json:"status"`
	Stdout  string `json:"stdout"`
	Stderr  string `json:"stderr"`
	Cleanup string `json:"cleanup"`

	BackTo []kernel.JobID `json:"back_to,omitempty"` // where its routes took the run back to
}

// killMargin is how long after its grace period a job that was told to stop may
// take to end.
const killMargin = 15 * time.Second

// cancelledJobs is `jobs cancel --format json` of a run, of all, or of several jobs.
type cancelledJobs struct {
	Jobs []cancelled `json:"jobs"`
}

// takenBack is the outcome of a cancel after which the job is to run again: its route was taken.
const takenBack = "Job cancelled and taken back"

// routesDropped is the outcome of the cancel of a job that had ended and whose routes waited for other jobs.
const routesDropped = "Its routes are not taken"

// cancelRequested is the outcome of a cancel that another process is going to do.
const cancelRequested = "Cancel requested"

// lines says what was done. A job that had ended before has none: there is a warning of it.
func (doc cancelledJobs) lines() (out []doneLine) {
	for _, one := range doc.Jobs {
		switch {
		case one.Outcome == takenBack:
			what := "cancelled, and taken back since"
			if len(one.BackTo) > 0 {
				what = "cancelled, and taken back by its route to " + joined(one.BackTo)
			}
			out = append(out, doneLine{job: one.Job, what: what})
		case one.Outcome == routesDropped:
			out = append(out, doneLine{job: one.Job, what: "stays " + one.Status + ": its routes are not taken"})
		case one.Outcome == cancelRequested:
			out = append(out, doneLine{job: one.Job, what: "is asked to end"})
		case one.Status == kernel.Cancelled.String() && one.Cleanup == kernel.CleanupDone.String():
			out = append(out, doneLine{job: one.Job, what: "cancelled, and its worktree removed"})
		case one.Status == kernel.Cancelled.String():
			out = append(out, doneLine{job: one.Job, what: "cancelled"})
		}
	}
	return out
}

// Run cancels the jobs and waits until their processes are gone.
func (x *cancelCmd) Run(c *call) error {
	if x.All == (len(x.Jobs) > 0) {
		return usageError(errors.New("expected jobs to cancel, or --all"))
	}
	r, jobs, runs, single, err := x.chosen(c)
	if err != nil {
		return err
	}
	if x.All && !x.Yes && len(jobs) > 0 {
		if agreed, err := c.agreeTo("Cancel "+view.Counted(len(jobs), "job")+"?", "vizier cancel --all"); !agreed || err != nil {
			return err
		}
	}
	all := &waiting{r: r}
	defer all.release(c)
	if err := all.keep(c.ctx, jobs); err != nil {
		return err
	}
	snap, ids, err := x.cancel(c, r, idsOf(jobs), runs, single)
	if err != nil {
		return err
	}
	doc := cancelledJobs{Jobs: []cancelled{}}
	for _, id := range ids {
		was := slices.IndexFunc(jobs, func(j *kernel.Job) bool { return j.ID == id })
		one, failed := x.outcome(c, r, snap, id, was >= 0 && jobs[was].State.Deferred)
		if err = failed; err != nil {
			break
		}
		doc.Jobs = append(doc.Jobs, one)
	}
	if x.Format == "text" {
		c.ui.done(doc.lines())
	}
	if err != nil {
		return err
	}
	if x.CleanupWorktree {
		c.staying(snap, ids)
	}
	switch {
	case x.Format == "json" && single:
		return c.ui.json(doc.Jobs[0])
	case x.Format == "json":
		return c.ui.json(doc)
	case len(doc.Jobs) == 0:
		c.ui.print("Nothing to cancel")
	}
	return nil
}

// staying warns of worktrees that a cancel leaves, since the stages of a run share them.
func (c *call) staying(snap *kernel.Snapshot, ids []kernel.JobID) {
	told := map[string]bool{}
	for _, id := range ids {
		j := snap.Job(id)
		if j == nil || j.State.Context.Worktree == "" || j.State.Context.Owned || j.Spec.Origin.Run == "" || j.Spec.Origin.Ephemeral || told[j.State.Context.Worktree] {
			continue
		}
		told[j.State.Context.Worktree] = true
		run, _, _ := strings.Cut(c.ui.refs.short(string(id)), "/")
		c.ui.warn("%s stays: the jobs of the run share it, and `vizier clean %s` removes it", j.State.Context.Worktree, run)
	}
}

// chosen returns the jobs to cancel, dependents first, so that cancelling a job
// does not end them in another way, and the runs that are to end as a whole. single is
// true if one job was named.
func (x *cancelCmd) chosen(c *call) (r *repo, jobs []*kernel.Job, runs []kernel.RunID, single bool, err error) {
	add := func(j *kernel.Job, whole bool) {
		if !whole || j.State.UnderWay() {
			jobs = append(jobs, j)
		}
		if run := j.Spec.Origin.Run; whole && run != "" && !slices.Contains(runs, run) {
			runs = append(runs, run)
		}
	}
	if x.All {
		if r, err = c.repo(); err != nil {
			return nil, nil, nil, false, err
		}
		snap, err := r.Scheduler.Records(c.ctx, kernel.Scope{})
		if err != nil {
			return nil, nil, nil, false, err
		}
		for _, j := range snap.Jobs() {
			add(j, true)
		}
	} else {
		var targets []view.Target
		if r, targets, err = c.targets(x.Jobs); err != nil {
			return nil, nil, nil, false, err
		}
		for _, t := range targets {
			for _, j := range t.Jobs {
				add(j, t.Whole)
			}
		}
		single = len(targets) == 1 && !targets[0].Whole
	}
	slices.SortFunc(jobs, func(a, b *kernel.Job) int { return b.Compare(a) })
	return r, slices.Compact(jobs), runs, single, nil
}

func idsOf(jobs []*kernel.Job) (ids []kernel.JobID) {
	for _, j := range jobs {
		ids = append(ids, j.ID)
	}
	return ids
}

// cancel cancels jobs in one transaction, and returns those that it could
// cancel. If single is set, it fails if it cannot cancel the job.
func (x *cancelCmd) cancel(c *call, r *repo, ids []kernel.JobID, runs []kernel.RunID, single bool) (*kernel.Snapshot, []kernel.JobID, error) {
	if len(ids) == 0 {
		return nil, nil, nil
	}
	cleanup := x.CleanupWorktree || r.Config.Jobs.Cancel.CleanupWorktree && !x.NoCleanupWorktree
	var rep app.Report
	var left []kernel.JobID
	var err error
	if single {
		rep, err = r.Scheduler.Cancel(c.ctx, ids[0], c.actor(), cleanup)
	} else {
		rep, left, err = r.Scheduler.CancelAll(c.ctx, ids, runs, c.actor(), cleanup)
	}
	if err != nil {
		return nil, nil, err
	}
	c.report(rep)
	return rep.Snapshot, slices.DeleteFunc(ids, func(id kernel.JobID) bool { return slices.Contains(left, id) }), nil
}

// outcome waits until a cancelled job has ended, and returns how. deferred: it had ended, and its routes waited.
func (x *cancelCmd) outcome(c *call, r *repo, snap *kernel.Snapshot, id kernel.JobID, deferred bool) (doc cancelled, err error) {
	if j := snap.Job(id); r.Outside != "" && stopping(j) {
		return x.requested(r, j), nil
	} else if stopping(j) {
		patience := cmp.Or(j.Spec.Task.Grace, r.Config.Jobs.Grace) + killMargin
		ctx, stop := context.WithTimeout(c.ctx, patience)
		defer stop()
		snap, _, err = c.await(ctx, &waiting{r: r, ids: []kernel.JobID{id}, only: j.Attempt()}, nil) // it was told to stop, and may be the job of this process
		switch {
		case c.ctx.Err() != nil:
			return doc, fmt.Errorf("detached: job %s was told to stop: %w", id, context.Canceled)
		case errors.Is(err, context.DeadlineExceeded):
			return doc, &failure{class: classTimeout, err: fmt.Errorf("job %s was told to stop and still runs after %s", id, patience),
				hint: "vizier wait " + string(id)}
		case err != nil:
			return doc, err
		}
	}
	j := snap.Job(id)
	if why := snap.Unreadable(id); why != "" {
		return doc, &failure{class: class{"failed", 1, ""}, err: fmt.Errorf("cancel %s: it was told to stop, and its record cannot be read now: %s", id, why), hint: "vizier doctor"}
	}
	if j == nil {
		return doc, fmt.Errorf("cancel %s: its record is gone: %w", id, kernel.ErrNotFound)
	}
	p := x.paths(r, id)
	doc = cancelled{"Job cancelled", id, view.ReferenceOf(j), j.State.Status.String(), p.Stdout, p.Stderr, cmp.Or(j.State.Cancelled.Status, kernel.CleanupSkipped).String(), nil}
	if why := j.State.Cancelled.Error; why != "" {
		c.ui.warn("worktree of job %s was not removed: %s", id, why)
	}
	switch {
	case j.Open():
		doc.Outcome = takenBack
		for _, route := range j.Spec.Routes {
			if route.On == kernel.OutcomeCancelled {
				doc.BackTo = append(doc.BackTo, route.To)
			}
		}
	case deferred && !j.State.Deferred:
		doc.Outcome = routesDropped
	case j.State.Status != kernel.Cancelled:
		doc.Outcome = "Job ended before it could be cancelled"
		c.ui.warn("job %s ended as %s before it could be cancelled", id, j.State.Status)
	}
	return doc, nil
}

// stopping reports whether j runs and was asked to stop.
func stopping(j *kernel.Job) bool {
	return j.State.Status == kernel.Running && !j.State.Stop.At.IsZero()
}

// requested returns the answer for a job that another process is going to end.
func (x *cancelCmd) requested(r *repo, j *kernel.Job) cancelled {
	p := x.paths(r, j.ID)
	return cancelled{cancelRequested, j.ID, view.ReferenceOf(j), j.State.Status.String(), p.Stdout, p.Stderr, kernel.CleanupSkipped.String(), nil}
}

// paths returns the paths of a job's logs for JSON. Text does not contain them, so
// they are not looked up for it.
func (x *cancelCmd) paths(r *repo, id kernel.JobID) (p view.Paths) {
	if x.Format == "json" {
		p = r.paths(id, x.Format)
	}
	return p
}
