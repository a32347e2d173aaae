package main

import (
	"errors"
	"time"

	"github.com/vizier-scheduler/vizier/app"
	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/retention"
	"github.com/vizier-scheduler/vizier/kernel/view"
)

type gcCmd struct {
	Days   int    `default:"7" help:"Remove jobs that ended more than this many days ago."`
	Keep   bool   `help:"Remove jobs beyond the bounds of [gc.keep] in the configuration, as the resident scheduler does."`
	DryRun bool   `help:"Only print the jobs that would be removed."`
	Format string `enum:"text,json" default:"text" placeholder:"text|json" help:"Output format."`
}

func (*gcCmd) Help() string {
	return "Removes records and logs of jobs that ended some time ago. Jobs that an open job refers to stay, whatever their age. " +
		"With --keep, jobs with a worktree or an idempotency key stay as well. " +
		"Packs the files of remaining jobs that ended longer than [gc] pack_after ago."
}

// collected is `jobs gc --format json`.
type collected struct {
	Outcome string         `json:"outcome"`
	Removed []kernel.JobID `json:"removed"`

	Refs map[kernel.JobID]string `json:"refs,omitempty"` // their references
}

// Run removes the jobs.
func (g *gcCmd) Run(c *call) error {
	if g.Keep && c.given["days"] {
		return usageError(errors.New("--days has no effect with --keep, whose bounds are those of [gc.keep] in the configuration: leave one of them out"))
	}
	r, err := c.repo()
	if err != nil {
		return err
	}
	if !g.DryRun { // to name what it removes
		snap, err := r.Scheduler.Records(c.ctx, kernel.Scope{All: true})
		if err != nil {
			return err
		}
		c.knows(r, snap)
	}
	var gone []kernel.JobID
	if g.Keep {
		gone, err = g.collect(c, r)
	} else {
		gone, err = g.remove(c, r, days(g.Days))
	}
	if err == nil && !g.DryRun {
		err = r.Scheduler.Pack(c.ctx)
	}
	if err != nil {
		return err
	}
	doc := collected{Removed: append([]kernel.JobID{}, gone...)}
	verb := "removed"
	if g.DryRun {
		verb = "would remove"
	}
	doc.Outcome = verb + " " + view.Counted(len(doc.Removed), "job")
	if g.Format == "json" {
		doc.Refs = c.ui.refs.among(doc.Removed)
		return c.ui.json(doc)
	}
	c.ui.print("Outcome: " + doc.Outcome)
	for _, id := range doc.Removed {
		c.ui.print("  " + string(id))
	}
	return nil
}

// collect removes what the configuration does not keep.
func (g *gcCmd) collect(c *call, r *repo) ([]kernel.JobID, error) {
	work, err := r.Scheduler.Collect(c.ctx)
	if err != nil || g.DryRun {
		return work.Jobs, err
	}
	var gone []kernel.JobID
	for more := true; more; {
		var rep app.Report
		if rep, more, err = work.Next(c.ctx); err != nil {
			return gone, err
		}
		c.report(rep)
		gone = append(gone, removed(rep.Applied)...)
		more = more && rep.Late == nil
	}
	return gone, r.Scheduler.DropTemporary()
}

// remove removes jobs that ended longer ago than age.
func (g *gcCmd) remove(c *call, r *repo, age time.Duration) ([]kernel.JobID, error) {
	if !g.DryRun {
		rep, err := r.Scheduler.GC(c.ctx, age)
		if err == nil {
			c.report(rep)
		}
		return removed(rep.Applied), err
	}
	snap, err := r.Scheduler.Snapshot(c.ctx, kernel.Scope{All: true}) // markers decide what must stay
	if err != nil {
		return nil, err
	}
	var gone []kernel.JobID
	for _, a := range retention.GCWorktrees(snap, age).World { // these jobs are removed after their worktrees
		gone = append(gone, a.Subject())
	}
	return append(gone, removed(retention.GC(snap, age).Actions())...), nil
}

func removed(actions []kernel.Action) (gone []kernel.JobID) {
	for _, a := range actions {
		if r, ok := a.(kernel.RemoveJob); ok {
			gone = append(gone, r.Job)
		}
	}
	return gone
}
