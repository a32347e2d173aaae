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

// cancelledJobs is `jobs cancel --format json` of a run, of all, or of several jobs.
type cancelledJobs struct {
	Jobs []cancelled `json:"jobs"`
}

// The outcomes of a cancel.
const (
	jobCancelled    = "Job cancelled"
	takenBack       = "Job cancelled and taken back" // it is to run again: its route was taken
	routesDropped   = "Its routes are not taken"     // it had ended, and its routes waited for other jobs
	cancelRequested = "Cancel requested"             // another process is going to end it
	endedBefore     = "Job ended before it could be cancelled"
)

// lines says what was done. A job that had ended before has none: there is a warning of it.
func (doc cancelledJobs) lines() (out []doneLine) {
	for _, one := range doc.Jobs {
		what := ""
		switch one.Outcome {
		case takenBack:
			what = "cancelled, and taken back since"
			if len(one.BackTo) > 0 {
				what = "cancelled, and taken back by its route to " + joined(one.BackTo)
			}
		case routesDropped:
			what = "stays " + one.Status + ": its routes are not taken"
		case cancelRequested:
			what = "is asked to end"
		case jobCancelled:
			what = "cancelled"
			if one.Cleanup == kernel.CleanupDone.String() {
				what += ", and its worktree removed"
			}
		default:
			continue
		}
		out = append(out, doneLine{job: one.Job, what: what})
	}
	return out
}

// Run cancels the jobs and waits until their processes are gone.
func (x *cancelCmd) Run(c *call) error {
	if x.All == (len(x.Jobs) > 0) {
		return usageError(errors.New("expected jobs to cancel, or --all"))
	}
	those, err := x.chosen(c)
	if err != nil {
		return err
	}
	if x.All && !x.Yes && len(those.jobs) > 0 {
		if agreed, err := c.agreeTo("Cancel "+view.Counted(len(those.jobs), "job")+"?", "vizier cancel --all"); err != nil {
			return err
		} else if !agreed {
			c.ui.print("Nothing cancelled")
			return nil
		}
	}
	all := &waiting{r: those.r}
	defer all.release(c)
	if err := all.keep(c.ctx, those.jobs); err != nil {
		return err
	}
	ends := ending{c: c, r: those.r, told: time.Now(), paths: x.Format == "json"}
	cleanup := x.CleanupWorktree || those.r.Config.Jobs.Cancel.CleanupWorktree && !x.NoCleanupWorktree
	if len(those.jobs) > 0 {
		ends.done, err = those.r.Scheduler.CancelAll(c.ctx, idsOf(those.jobs),
			app.Cancellation{By: c.actor(), Cleanup: cleanup, Runs: those.runs, Strict: those.single})
		if err != nil {
			return err
		}
		c.report(ends.done.Report)
	}
	if len(ends.done.Jobs) == 0 && !x.All { // of a single job the cancel itself failed
		has := "has"
		if len(x.Jobs) > 1 {
			has = "have"
		}
		return fmt.Errorf("nothing to cancel: %s %s ended: %w", strings.Join(x.Jobs, ", "), has, kernel.ErrConflict)
	}
	doc, failed := ends.outcomes()
	if cleanup {
		c.staying(ends.done)
	}
	switch {
	case x.Format == "text":
		c.ui.done(doc.lines())
		if len(doc.Jobs) == 0 && failed == nil {
			c.ui.print("Nothing to cancel")
		}
	case !those.single:
		err = c.ui.json(doc)
	case len(doc.Jobs) > 0 && doc.Jobs[0].Job == those.jobs[0].ID: // others are of its run, if it stands for a prompt
		err = c.ui.json(doc.Jobs[0])
	}
	return cmp.Or(failed, err)
}

// staying warns of worktrees that a cancel leaves, since the stages of a run share them.
func (c *call) staying(done app.Cancelled) {
	told := map[string]bool{}
	for _, id := range done.Jobs {
		j := done.Snapshot.Job(id)
		if j == nil || j.State.Context.Worktree == "" || j.State.Context.Owned || j.Spec.Origin.Run == "" || j.Spec.Origin.Ephemeral || told[j.State.Context.Worktree] {
			continue
		}
		told[j.State.Context.Worktree] = true
		run := string(j.Spec.Origin.Run)
		if j.Number != 0 {
			run = j.Number.String()
		}
		c.ui.warn("%s stays: the jobs of the run share it, and `vizier clean %s` removes it", j.State.Context.Worktree, run)
	}
}

// toCancel are the jobs to cancel, and the runs that are to end as a whole.
type toCancel struct {
	r      *repo
	jobs   []*kernel.Job
	runs   []kernel.RunID
	has    map[kernel.RunID]bool // those in runs
	single bool                  // one job was named
}

func (t *toCancel) add(j *kernel.Job, whole bool) {
	if !whole || j.State.UnderWay() {
		t.jobs = append(t.jobs, j)
	}
	if run := j.Spec.Origin.Run; whole && run != "" && !t.has[run] {
		if t.has == nil {
			t.has = map[kernel.RunID]bool{}
		}
		t.has[run], t.runs = true, append(t.runs, run)
	}
}

func (x *cancelCmd) chosen(c *call) (t toCancel, err error) {
	if x.All {
		if t.r, err = c.repo(); err != nil {
			return t, err
		}
		snap, err := t.r.Scheduler.Records(c.ctx, kernel.Scope{})
		if err != nil {
			return t, err
		}
		for _, j := range snap.Jobs() {
			t.add(j, true)
		}
		return t, nil
	}
	r, targets, err := c.targets(x.Jobs)
	if err != nil {
		return t, err
	}
	t.r, t.single = r, len(targets) == 1 && !targets[0].Whole
	for _, target := range targets {
		for _, j := range target.Jobs {
			t.add(j, target.Whole)
		}
	}
	return t, nil
}

func idsOf(jobs []*kernel.Job) (ids []kernel.JobID) {
	for _, j := range jobs {
		ids = append(ids, j.ID)
	}
	return ids
}

// ending is a cancel whose jobs are to end.
type ending struct {
	c     *call
	r     *repo
	done  app.Cancelled
	told  time.Time // when the jobs were told to end
	paths bool      // the documents have the paths of logs; text does not, so they are not looked up for it
}

// killMargin is how long after its grace period a job that was told to stop may
// take to end.
const killMargin = 15 * time.Second

// outcomes waits for each job and returns how it ended. failed is the first error, without which there would be more documents; it
// warns of others.
func (e *ending) outcomes() (doc cancelledJobs, failed error) {
	doc.Jobs = []cancelled{}
	for _, id := range e.done.Jobs {
		one, err := e.outcome(id)
		switch {
		case err == nil:
			doc.Jobs = append(doc.Jobs, one)
		case failed == nil:
			failed = err
		case e.c.ctx.Err() == nil:
			e.c.ui.warn("%v", err)
		}
	}
	return doc, failed
}

// outcome waits until a cancelled job has ended, and returns how.
func (e *ending) outcome(id kernel.JobID) (cancelled, error) {
	snap := e.done.Snapshot
	if j := snap.Job(id); stopping(j) {
		if e.r.Outside != "" {
			return e.document(j, cancelRequested), nil
		}
		var err error
		if snap, err = e.wait(j); err != nil {
			return cancelled{}, err
		}
	}
	if why := snap.Unreadable(id); why != "" {
		err := fmt.Errorf("cancel %s: it was told to stop, and its record cannot be read now: %s", id, why)
		return cancelled{}, &failure{class: classify(err), err: err, hint: "vizier doctor"}
	}
	j := snap.Job(id)
	if j == nil {
		err := fmt.Errorf("cancel %s: it was told to stop, and somebody has removed its record since: %w", id, kernel.ErrNotFound)
		return cancelled{}, &failure{class: classify(err), err: err, hint: "vizier doctor says if anything of it is left"}
	}
	if why := j.State.Cancelled.Error; why != "" {
		e.c.ui.warn("worktree of job %s was not removed: %s", id, why)
	}
	switch {
	case j.Open():
		doc := e.document(j, takenBack)
		for _, route := range j.Spec.Routes {
			if route.On == kernel.OutcomeCancelled {
				doc.BackTo = append(doc.BackTo, route.To)
			}
		}
		return doc, nil
	case slices.Contains(e.done.Dropped, id):
		return e.document(j, routesDropped), nil
	case j.State.Status != kernel.Cancelled:
		e.c.ui.warn("job %s ended as %s before it could be cancelled", id, j.State.Status)
		return e.document(j, endedBefore), nil
	}
	return e.document(j, jobCancelled), nil
}

// wait waits until j, which was told to stop, has ended. All jobs have the same time for that, since they were told at once.
func (e *ending) wait(j *kernel.Job) (*kernel.Snapshot, error) {
	patience := cmp.Or(j.Spec.Task.Grace, e.r.Config.Jobs.Grace) + killMargin
	ctx, stop := context.WithDeadline(e.c.ctx, e.told.Add(patience))
	defer stop()
	// No deadlock is looked for: if it is the job of this process, it ends all the same.
	snap, _, err := e.c.await(ctx, &waiting{r: e.r, ids: []kernel.JobID{j.ID}, only: j.Attempt()}, nil)
	late := errors.Is(err, context.DeadlineExceeded) && e.c.ctx.Err() == nil
	if late { // perhaps because of the jobs before it
		if snap, err = e.r.Scheduler.Records(e.c.ctx, app.Only([]kernel.JobID{j.ID})); err == nil {
			now := snap.Job(j.ID)
			late = now != nil && stopping(now) && now.Attempt() == j.Attempt()
		}
	}
	switch {
	case e.c.ctx.Err() != nil:
		return nil, fmt.Errorf("detached: job %s was told to stop; `vizier wait %s` waits for its end: %w", j.ID, j.ID, context.Canceled)
	case err != nil:
		return nil, err
	case late:
		return nil, &failure{class: classTimeout, err: fmt.Errorf("job %s was told to stop and still runs after %s", j.ID, patience), hint: "vizier wait " + string(j.ID)}
	}
	return snap, nil
}

// stopping reports whether j runs and was asked to stop.
func stopping(j *kernel.Job) bool {
	return j.State.Status == kernel.Running && !j.State.Stop.At.IsZero()
}

// document returns what is printed of j as JSON.
func (e *ending) document(j *kernel.Job, outcome string) cancelled {
	doc := cancelled{Outcome: outcome, Job: j.ID, Reference: view.ReferenceOf(j), Status: j.State.Status.String(),
		Cleanup: cmp.Or(j.State.Cancelled.Status, kernel.CleanupSkipped).String()}
	if e.paths {
		p := e.r.paths(j.ID, "json")
		doc.Stdout, doc.Stderr = p.Stdout, p.Stderr
	}
	return doc
}
