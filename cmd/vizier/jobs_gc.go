package main

import (
	"fmt"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

type gcCmd struct {
	Days   int    `default:"7" help:"Keep jobs that ended within this many days."`
	DryRun bool   `help:"Only print the jobs that would go."`
	Format string `enum:"text,json" default:"text" placeholder:"text|json" help:"How the answer looks."`
}

func (*gcCmd) Help() string {
	return "Removes records and logs of jobs that have ended. What an open job refers to stays, whatever its age."
}

// collected is `jobs gc --format json`.
type collected struct {
	Outcome string         `json:"outcome"`
	Removed []kernel.JobID `json:"removed"`
}

// Run removes the jobs.
func (g *gcCmd) Run(c *call) error {
	if g.Days < 0 {
		return usageError(fmt.Errorf("--days %d: expected 0 or more", g.Days))
	}
	r, err := c.repo()
	if err != nil {
		return err
	}
	age := time.Duration(g.Days) * 24 * time.Hour
	doc := collected{Removed: []kernel.JobID{}}
	var actions []kernel.Action
	if g.DryRun {
		snap, err := r.Scheduler.Snapshot(c.ctx, kernel.Scope{All: true}) // markers decide what must stay
		if err != nil {
			return err
		}
		for _, a := range kernel.GCWorktrees(snap, age).World { // they go with their worktrees
			actions = append(actions, kernel.RemoveJob{Job: a.Subject()})
		}
		actions = append(actions, kernel.GC(snap, age).Actions()...)
	} else {
		rep, err := r.Scheduler.GC(c.ctx, age)
		if err != nil {
			return err
		}
		c.report(rep)
		actions = rep.Applied
	}
	for _, a := range actions {
		if gone, ok := a.(kernel.RemoveJob); ok {
			doc.Removed = append(doc.Removed, gone.Job)
		}
	}
	verb := "removed"
	if g.DryRun {
		verb = "would remove"
	}
	doc.Outcome = fmt.Sprintf("%s %d job(s)", verb, len(doc.Removed))
	if g.Format == "json" {
		return c.ui.json(doc)
	}
	c.ui.print("Outcome: " + doc.Outcome)
	if g.DryRun {
		for _, id := range doc.Removed {
			c.ui.print("  " + string(id))
		}
	}
	return nil
}
