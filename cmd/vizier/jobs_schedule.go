package main

import (
	"errors"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/view"
)

type scheduleCmd struct {
	All      bool    `short:"a" help:"Show jobs of every status."`
	Job      string  `placeholder:"JOB" help:"Show only this job and the jobs around it."`
	Format   string  `enum:"summary,dag,json,dot,mermaid,svg,html" default:"summary" placeholder:"summary|dag|json|dot|mermaid|svg|html" help:"Output format; dot and mermaid are input for drawing programs, svg is a picture, html the page of vizier web with all jobs as one file."`
	Raw      bool    `help:"With --format json: waits as objects, and the time."`
	Watch    bool    `help:"The same as vizier top."`
	At       *string `type:"entry" placeholder:"TIME|ENTRY" help:"The state at an earlier moment: a duration ago, a day or a time as in --since, or an entry of vizier history."`
	MaxDepth int     `default:"3" help:"How far from --job, and how deep below each job for dag."`
}

// check refuses invalid combinations of flags.
func (s *scheduleCmd) check() error {
	if err := rawNeedsJSON(s.Raw, s.Format, nil); err != nil {
		return err
	}
	switch {
	case s.Watch && s.At != nil:
		return usageError(errors.New("`--watch` shows the present: leave out `--at`"))
	case s.Format == "html" && s.At != nil:
		return usageError(errors.New("`--format html` shows the present: leave out `--at`"))
	case s.Watch && s.Format != "summary":
		return usageError(errors.New("`--watch` is the live screen and has no format"))
	}
	return nil
}

// Run prints the schedule.
func (s *scheduleCmd) Run(c *call) error {
	if err := s.check(); err != nil {
		return err
	}
	if err := c.goBack(s.At); err != nil {
		return err
	}
	if s.Watch {
		return (&topCmd{Job: s.Job}).Run(c)
	}
	r, err := c.repoOf([]string{s.Job})
	if err != nil {
		return err
	}
	if s.Format == "html" {
		return c.becomeWeb([]string{"--html", "--job", s.Job})
	}
	v, snap, err := s.read(c, r)
	if err != nil {
		return err
	}
	c.ui.warnUnreadable(v.Unreadable)
	switch s.Format {
	case "json":
		if s.Raw {
			return c.ui.json(v.Raw())
		}
		return c.ui.json(v.Document())
	case "dot":
		c.ui.text(v.DOT())
	case "svg":
		c.ui.verbatim(v.SVG())
	case "mermaid":
		c.ui.text(v.Mermaid())
	default:
		if len(v.Rows) == 0 {
			c.ui.print("Outcome: No scheduled jobs")
			return nil
		}
		if s.Format == "summary" {
			etas, err := s.etas(c, r, v, snap)
			if err != nil {
				return err
			}
			c.ui.text("Schedule (Summary)\n" + c.summary(v, v.Rows, etas))
			return nil
		}
		c.ui.print("Schedule (DAG, verbose)")
		for line := range v.DAG() {
			c.ui.print(cut(c.ui.people(line), c.ui.columns()))
		}
	}
	return nil
}

// read returns the current schedule, and the snapshot that it shows.
func (s *scheduleCmd) read(c *call, r *repo) (view.Schedule, *kernel.Snapshot, error) {
	scope := kernel.Scope{All: s.All || s.Job != ""}
	read := func() (*kernel.Snapshot, error) { return r.Scheduler.Snapshot(c.ctx, scope) }
	snap, err := c.settled(r, read)
	depth := 1 // how many further levels it shows
	switch s.Format {
	case "summary":
		depth = 0
	case "dag":
		depth = s.MaxDepth
	}
	for ; err == nil && !scope.All && depth > 0; depth-- { // what ended jobs ran after is not read with the open ones
		before := len(scope.Jobs)
		if scope.Jobs = withAbsent(snap, scope.Jobs); len(scope.Jobs) == before {
			break
		}
		snap, err = read()
	}
	if err != nil {
		return view.Schedule{}, nil, err
	}
	c.knows(r, snap)
	if s.Format != "summary" { // the other formats show whether artifacts exist
		snap = r.observeBlocked(c.ctx, snap, blockedJobs(snap))
	}
	o := view.ScheduleOptions{All: s.All, MaxDepth: s.MaxDepth, Label: label(snap)}
	if s.Job != "" {
		id, err := view.NewFinder(snap).Resolve(s.Job)
		if err != nil {
			return view.Schedule{}, nil, err
		}
		o.Focus = id
	}
	return view.ScheduleOf(snap, o), snap, nil
}

// withAbsent returns ids with the jobs that jobs of snap run after and that it does not hold.
func withAbsent(snap *kernel.Snapshot, ids []kernel.JobID) []kernel.JobID {
	asked := map[kernel.JobID]bool{}
	for _, id := range ids {
		asked[id] = true
	}
	for _, j := range snap.Jobs() {
		for _, id := range j.Spec.After {
			if !asked[id] && snap.Job(id) == nil {
				asked[id], ids = true, append(ids, id)
			}
		}
	}
	return ids
}

// etas returns when the jobs of the rows are expected to end, or nil if nothing
// is known about any of them.
func (s *scheduleCmd) etas(c *call, r *repo, v view.Schedule, snap *kernel.Snapshot) ([]string, error) {
	etas, err := r.Scheduler.ETAs(c.ctx, snap)
	if err != nil || len(etas) == 0 {
		return nil, err
	}
	out := make([]string, len(v.Rows))
	for i, row := range v.Rows {
		if j := snap.Job(row.ID); j != nil {
			if eta := etaOf([]*kernel.Job{j}, etas); eta != nil {
				out[i] = eta.In(snap.Now())
			}
		}
	}
	return out, nil
}

// summary formats rows as a table, with a column of etas if there are any.
func (c *call) summary(v view.Schedule, rows []view.ScheduleRow, etas []string) string {
	cells := append([][]string{view.SummaryColumns()}, v.Summary(rows)...)
	for _, row := range cells {
		row[4] = c.ui.people(row[4])
	}
	if etas != nil {
		for i, text := range append([]string{"Ends"}, etas...) {
			cells[i] = append(cells[i], text)
		}
	}
	if c.ui.slim() {
		without(cells, 1, 2) // the job's reference says it
	}
	return grid{cells: cells, shrink: []int{4, 2, 1, 3, 5}, paint: c.ui.paintColumn(cells, 3)}.text(c.ui.columns())
}
