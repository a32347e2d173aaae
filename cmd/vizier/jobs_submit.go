package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/vizier-scheduler/vizier/app"
	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/view"
)

type submitCmd struct {
	Request request `embed:""`
	Batch   bool    `help:"Read JSON Lines from standard input: one job a line, with the same keys as the flags, command, and a ref that the after of other lines may name. All are enqueued or none."`
	Format  string  `enum:"text,json" default:"text" placeholder:"text|json" help:"text prints the new ids, one a line."`
}

func (*submitCmd) Help() string {
	return "Prints the id of each new job, one a line. The job runs as soon as nothing holds it up; " +
		"`vizier jobs why` tells what does, and `vizier help gates` what may."
}

// submission is what `jobs submit --format json` prints.
type submission struct {
	Outcome string         `json:"outcome"` // jobs_submitted
	Jobs    []submittedJob `json:"jobs"`
}

type submittedJob struct {
	Job    kernel.JobID `json:"job"`
	Ref    string       `json:"ref,omitempty"`
	Name   string       `json:"name,omitempty"`
	Status string       `json:"status"`
	Wait   string       `json:"wait,omitempty"`
	Merged bool         `json:"merged,omitempty"` // it was there already, with this idempotency key
	Note   string       `json:"note,omitempty"`   // why such a job is not going to run
}

// Run enqueues the jobs and prints their ids.
func (s *submitCmd) Run(c *call) error {
	if s.Batch && len(s.Request.Command) > 0 {
		return usageError(errors.New("--batch reads the commands from standard input: leave out the command"))
	}
	if err := c.mayEnqueue(); err != nil {
		return err
	}
	r, err := c.repo()
	if err != nil {
		return err
	}
	var news []kernel.NewJob
	var refs []string
	if s.Batch {
		news, refs, err = c.intake(r).batch(c.stdin)
	} else {
		news, err = c.intake(r).one(s.Request)
		refs = []string{""}
	}
	if err != nil {
		return err
	}
	if len(news) == 0 {
		return usageError(errors.New("standard input has no jobs: expected one JSON object a line"))
	}
	by := "" // it counts for jobs that may be there already, and may take a question to git
	if slices.ContainsFunc(news, func(n kernel.NewJob) bool { return n.Spec.IdempotencyKey != "" }) {
		by = c.actor()
	}
	rep, err := r.Scheduler.Submit(c.ctx, news, by)
	if err != nil {
		return c.barred(err)
	}
	c.report(rep)
	doc := submitted(rep, news, refs)
	for _, j := range doc.Jobs {
		switch {
		case j.Note != "":
			c.ui.warn("job %s was there already: %s", j.Job, j.Note)
		case j.Merged:
			c.ui.info("job %s was there already: it is %s", j.Job, j.Status)
		}
	}
	if s.Format == "json" {
		return c.ui.json(doc)
	}
	for _, j := range doc.Jobs {
		c.ui.print(string(j.Job))
	}
	return nil
}

// one is the job that the flags describe.
func (t *intake) one(q request) ([]kernel.NewJob, error) {
	refs := make([]string, len(q.After))
	for i, ref := range q.After {
		refs[i], _ = afterPolicy(ref)
	}
	after, err := t.repo.references(t.ctx, refs)
	if err != nil {
		return nil, err
	}
	n, err := t.newJob(q, after)
	return []kernel.NewJob{n}, err
}

// references finds the jobs that refs mean, with one read of the store, and
// only if there are any. What names no job is an error when it is asked for.
func (r *repo) references(ctx context.Context, refs []string) (func(string) (kernel.JobID, error), error) {
	var snap *kernel.Snapshot
	if len(refs) > 0 {
		var err error
		if snap, err = r.records(ctx, r.mentioned(refs)); err != nil {
			return nil, err
		}
	}
	return func(ref string) (kernel.JobID, error) {
		if ref == "" {
			ref = "<empty>"
		}
		id, err := view.Resolve(snap, ref)
		switch {
		case errors.Is(err, kernel.ErrNotFound):
			return "", fmt.Errorf("unknown --after job id: %s: %w", ref, kernel.ErrNotFound)
		case err != nil:
			return "", fmt.Errorf("--after: %w", err)
		}
		return id, nil
	}, nil
}

func submitted(rep app.Report, news []kernel.NewJob, refs []string) submission {
	out := submission{Outcome: "jobs_submitted", Jobs: make([]submittedJob, len(news))}
	for i, n := range news {
		id, merged := rep.Same[n.ID]
		if !merged {
			id = n.ID
		}
		out.Jobs[i] = submittedJob{Job: id, Ref: refs[i], Name: n.Spec.Name, Merged: merged}
		if n, ended := rep.Note[id]; ended {
			out.Jobs[i].Note = view.NotRun(id, n)
		}
		if j := rep.Snapshot.Job(id); j != nil {
			out.Jobs[i].Status, out.Jobs[i].Wait = j.State.Status.String(), j.State.Wait.Detail
		}
	}
	return out
}

// report tells what a transaction did besides what was asked for: attempts
// that could not be started, those that were, and every change of a status.
func (c *call) report(rep app.Report) {
	if c.outside != "" && len(rep.Applied) > 0 {
		c.ui.warn("this is a sandbox, in which nothing is started or ended; what was asked for is on record: %s", c.outside)
	}
	if rep.Late != nil {
		c.ui.warn("%v", rep.Late)
	}
	for _, id := range slices.Sorted(maps.Keys(rep.Refused)) {
		c.ui.warn("job %s: %s", id, rep.Refused[id])
	}
	for _, id := range rep.Started() {
		c.ui.info("job %s started", id)
	}
	for _, d := range rep.Decisions {
		if d.From != d.Next {
			c.ui.debug("job %s: %s, was %s %s", d.Job, d.Next, d.From, d.Reason.Detail)
		}
	}
}
