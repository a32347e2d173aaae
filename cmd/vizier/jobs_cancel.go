package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

type cancelCmd struct {
	Job               string `arg:"" help:"The job: its id or the beginning of it, RUN/NODE, or @last."`
	CleanupWorktree   bool   `xor:"cleanup" help:"Remove the worktree that the job owns, too."`
	NoCleanupWorktree bool   `xor:"cleanup" help:"Keep it, whatever [jobs.cancel] cleanup_worktree says."`
	Format            string `enum:"text,json" default:"text" placeholder:"text|json" help:"How the answer looks."`
}

func (*cancelCmd) Help() string {
	return "A running job is told to stop, and killed when it has not after the grace of [jobs] grace."
}

// cancelled is `jobs cancel --format json`.
type cancelled struct {
	Outcome string       `json:"outcome"`
	Job     kernel.JobID `json:"job"`
	Status  string       `json:"status"`
	Stdout  string       `json:"stdout"`
	Stderr  string       `json:"stderr"`
	Cleanup string       `json:"cleanup"`
}

// killMargin is how long after its grace a job that was told to stop may take
// to be gone.
const killMargin = 15 * time.Second

// Run cancels the job and waits until its processes are gone.
func (x *cancelCmd) Run(c *call) error {
	r, err := c.repo()
	if err != nil {
		return err
	}
	_, id, err := r.job(c.ctx, x.Job)
	if err != nil {
		return err
	}
	cleanup := x.CleanupWorktree || r.Config.Jobs.Cancel.CleanupWorktree && !x.NoCleanupWorktree
	rep, err := r.Scheduler.Cancel(c.ctx, id, c.actor(), cleanup)
	if err != nil {
		return err
	}
	c.report(rep)
	snap := rep.Snapshot
	if j := snap.Job(id); r.Outside != "" && !j.State.Status.Terminal() {
		return x.requested(c, r, j)
	} else if !j.State.Status.Terminal() {
		patience := cmp.Or(j.Spec.Task.Grace, r.Config.Jobs.Grace) + killMargin
		ctx, stop := context.WithTimeout(c.ctx, patience)
		defer stop()
		snap, _, err = c.await(ctx, r, []kernel.JobID{id}, nil)
		switch {
		case c.ctx.Err() != nil:
			return fmt.Errorf("detached: job %s was told to stop: %w", id, context.Canceled)
		case errors.Is(err, context.DeadlineExceeded):
			return &failure{class: classTimeout, err: fmt.Errorf("job %s was told to stop and still runs after %s", id, patience),
				hint: "vizier jobs wait " + string(id)}
		case err != nil:
			return err
		}
	}
	j := snap.Job(id)
	if j == nil {
		return fmt.Errorf("cancel %s: its record is gone: %w", id, kernel.ErrNotFound)
	}
	p := r.paths(id, x.Format)
	doc := cancelled{"Job cancelled", id, j.State.Status.String(), p.Stdout, p.Stderr, cmp.Or(j.State.Cancelled.Status, kernel.CleanupSkipped).String()}
	if why := j.State.Cancelled.Error; why != "" {
		c.ui.warn("worktree of job %s was not removed: %s", id, why)
	}
	if j.State.Status != kernel.Cancelled {
		doc.Outcome = "Job ended before it could be cancelled"
		c.ui.warn("job %s ended as %s before it could be cancelled", id, j.State.Status)
	}
	if x.Format == "json" {
		return c.ui.json(doc)
	}
	if j.State.Status == kernel.Cancelled {
		c.ui.print(fmt.Sprintf("Job %s marked cancelled (stdout: %s, stderr: %s, cleanup=%s)", id, doc.Stdout, doc.Stderr, doc.Cleanup))
	}
	return nil
}

// requested answers for a job that others are to end.
func (x *cancelCmd) requested(c *call, r *repo, j *kernel.Job) error {
	p := r.paths(j.ID, x.Format)
	if x.Format == "json" {
		return c.ui.json(cancelled{"Cancel requested", j.ID, j.State.Status.String(), p.Stdout, p.Stderr, kernel.CleanupSkipped.String()})
	}
	c.ui.print(fmt.Sprintf("Job %s is asked to end", j.ID))
	return nil
}
