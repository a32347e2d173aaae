package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/vizier-scheduler/vizier/adapters/fs"
	"github.com/vizier-scheduler/vizier/app/answer"
	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/view"
)

type showCmd struct {
	Jobs   []string `arg:"" name:"job" help:"The jobs, or runs: their numbers, such as 12 or 14/NODE, names, ids or the beginnings of them, or @last."`
	Fields []string `placeholder:"FIELD" help:"Show these fields, in this order."`
	Format string   `enum:"block,table,json" default:"block" placeholder:"block|table|json" help:"Output format."`
	Raw    bool     `help:"With --format json: the whole record, with its types."`
	At     *string  `type:"entry" placeholder:"TIME|ENTRY" help:"The state at an earlier moment: a duration ago, a day or a time as in --since, or an entry of vizier history."`
}

// Run prints the records of the jobs.
func (s *showCmd) Run(c *call) error {
	if err := c.goBack(s.At); err != nil {
		return err
	}
	return c.each(s.Jobs, s.Format, s.show)
}

func (s *showCmd) show(c *call, ref string) error {
	if err := rawNeedsJSON(s.Raw, s.Format, s.Fields); err != nil {
		return err
	}
	r, err := c.repo()
	if err != nil {
		return err
	}
	chosen, err := fields(view.ShowFields(), s.Fields, "display.lists.jobs_show.fields", r.Config.Display.Show)
	if err != nil {
		return err
	}
	if err := r.follow(c.ctx, []string{ref}); err != nil {
		return err
	}
	snap, targets, err := r.Scheduler.Targets(c.ctx, []string{ref})
	if err != nil {
		return err
	}
	if t := targets[0]; len(t.Jobs) > 0 {
		c.warnSteering(r, t.Jobs...)
	}
	if t := targets[0]; t.Whole && len(t.Jobs) > 1 && !s.Raw {
		if ofJob := s.ofJob(); ofJob != "" {
			return usageError(fmt.Errorf("%s has no effect on a run or a batch: leave it out, or name one of its jobs, such as %s", ofJob, label(snap)(t.Jobs[0].ID)))
		}
		return c.showRun(r, snap, t, s.Format)
	}
	snap, id, err := c.settledJob(r, ref)
	if err != nil {
		return err
	}
	snap = c.remarks(r, snap)
	format := s.Format
	if s.Raw {
		format = "json"
	}
	paths, err := r.details(snap.Job(id).Attempt(), format)
	if err != nil {
		return err
	}
	if r.Contained != nil {
		paths.Container = r.Contained(snap.Job(id))
	}
	parked, err := c.parked(r, snap.Job(id))
	if err != nil {
		return err
	}
	paths.Parked = strings.Join(parked, " | ")
	if s.Raw {
		record, err := fs.Record(snap.Job(id), snap.Now())
		if err != nil {
			return err
		}
		doc, err := view.ShowRaw(snap, id, paths, json.RawMessage(record))
		if err != nil {
			return err
		}
		return c.ui.json(doc)
	}
	values, err := view.Show(snap, id, paths)
	if err != nil {
		return err
	}
	text := make(map[string]string, len(values))
	for _, v := range values {
		if text[v.Key] = v.Text; mentions[v.Key] && format != "json" {
			text[v.Key] = c.ui.people(v.Text)
		}
	}
	switch s.Format {
	case "json":
		doc := make(map[string]string, len(chosen))
		for _, key := range view.WithReference(keysOf(chosen)) {
			if t := text[key]; t != "" {
				doc[key] = t
			}
		}
		return c.ui.json(doc)
	case "table":
		var cells [][]string
		for _, f := range chosen {
			if t := text[f.Key]; t != "" {
				cells = append(cells, []string{f.Label, t})
			}
		}
		return c.page(c.ui.table(cells, -1))
	default:
		rows := make([]row, len(chosen))
		for i, f := range chosen {
			rows[i] = row{f.Label, text[f.Key]}
		}
		return c.page("Job " + label(snap)(id) + "\n" + hung(block(rows, ""), c.ui.columns()))
	}
}

// ofJob returns the flag that shapes what is printed of a job and nothing of a run; "": there is none. The JSON of a run has all
// fields, so that a program need not know first which of the two it asks about.
func (s *showCmd) ofJob() string {
	switch {
	case s.Format == "json":
		return ""
	case len(s.Fields) > 0:
		return "--fields"
	case s.Format == "table":
		return "--format table"
	}
	return ""
}

// warnSteering says in one line that the plan of the first open job among jobs changes
// files that steer Vizier once it is merged, which whoever approves it should look at.
func (c *call) warnSteering(r *repo, jobs ...*kernel.Job) {
	k := slices.IndexFunc(jobs, func(j *kernel.Job) bool { return j.Open() && j.Spec.Origin.Plan != "" })
	if k < 0 || c.past != nil || r.Steering == nil {
		return
	}
	steers, err := answer.Steering(c.ctx, jobs[k], r.Steering)
	switch {
	case err != nil:
		c.ui.debug("%v", err)
	case steers != "":
		c.ui.warn("%s", steers)
	}
}

// parked returns the parked work of j's run, as lines for people.
func (c *call) parked(r *repo, j *kernel.Job) ([]string, error) {
	run := j.Spec.Origin.Run
	if c.past != nil || run == "" || r.Parked == nil {
		return nil, nil
	}
	return r.Parked(c.ctx, func() (ids []kernel.JobID, err error) {
		snap, err := r.Scheduler.Records(c.ctx, kernel.Scope{All: true, Near: []kernel.Near{{Kind: kernel.Members, Run: run}}})
		if err == nil {
			for _, j := range snap.Members(run) {
				ids = append(ids, j.ID)
			}
		}
		return ids, err
	})
}

type statusCmd struct {
	Jobs      []string `arg:"" optional:"" name:"job" help:"The jobs, or runs: their numbers, such as 12 or 14/NODE, names, ids or the beginnings of them, or @last."`
	Attention bool     `help:"Without a job: exit 10 if something needs a person."`
	Format    string   `enum:"text,json" default:"text" placeholder:"text|json" help:"Output format."`
	At        *string  `type:"entry" placeholder:"TIME|ENTRY" help:"The state at an earlier moment: a duration ago, a day or a time as in --since, or an entry of vizier history."`
}

func (*statusCmd) Help() string {
	return "Without a job: what needs a person, with the command for it; what runs; what waits and for what; and what failed today."
}

// Run prints the status of each job, or the overview. It succeeds whatever the
// status is.
func (s *statusCmd) Run(c *call) error {
	if err := c.goBack(s.At); err != nil {
		return err
	}
	switch {
	case len(s.Jobs) == 0:
		return (&overviewCmd{s.Attention, s.Format}).Run(c)
	case s.Attention:
		return usageError(errors.New("--attention is about everything: leave out the job"))
	}
	r, targets, snap, err := c.standing(s.Jobs)
	if err != nil {
		return err
	}
	snap = c.remarks(r, snap)
	for _, t := range targets {
		if t.Whole {
			err = s.print(c, view.RunOf(snap, t.Jobs), runLine(view.RunOf(snap, t.Jobs)))
		} else {
			var status view.Status
			if status, err = view.StatusOf(snap, t.Jobs[0].ID, r.paths(t.Jobs[0].ID, s.Format)); err == nil {
				c.warnUnattended(r, snap.Job(t.Jobs[0].ID))
				err = s.print(c, status, c.ui.paint(status.Status, status.String()))
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// print prints a document or a line. If there are several documents, each is on
// a line of its own.
func (s *statusCmd) print(c *call, doc any, line string) error {
	switch {
	case s.Format == "text":
		c.ui.print(line)
		return nil
	case len(s.Jobs) == 1:
		return c.ui.json(doc)
	}
	return c.ui.jsonLine(doc)
}

// runLine formats a run as one line: 18 develop api [running] 4/15.
func runLine(r view.Run) string {
	return fmt.Sprintf("%s %s [%s] %s", cmp.Or(r.Ref, string(r.Run)), r.Name, r.Status, r.Progress())
}

// shownRun is `show RUN --format json`: docs/schemas/run_show.schema.json.
type shownRun struct {
	view.Run
	Jobs []shownJob `json:"jobs"`
}

// shownJob is a job of a run.
type shownJob struct {
	view.Reference
	ID     kernel.JobID `json:"job"`
	Status string       `json:"status"`
	Why    string       `json:"why,omitempty"`
}

// showRun prints a run and its jobs.
func (c *call) showRun(r *repo, snap *kernel.Snapshot, t view.Target, format string) error {
	run := view.RunOf(snap, t.Jobs)
	var err error
	if run.Parked, err = c.parked(r, t.Jobs[0]); err != nil {
		return err
	}
	if format == "json" {
		doc := shownRun{Run: run}
		for _, j := range t.Jobs {
			doc.Jobs = append(doc.Jobs, shownJob{view.ReferenceOf(j), j.ID, view.Standing(snap, j), cmp.Or(j.State.Wait.Detail, j.State.Reason)})
		}
		return c.ui.json(doc)
	}
	rows := []row{{"Name", run.Name}, {"Status", run.Status}, {"Progress", run.Progress()}, {"Created", c.ui.clock(run.Since, snap.Now())}, {"ID", string(run.Run)}}
	cells := [][]string{{"Job", "Status", "Why"}}
	for _, j := range t.Jobs {
		cells = append(cells, []string{label(snap)(j.ID), view.Standing(snap, j), c.ui.people(cmp.Or(j.State.Wait.Detail, j.State.Reason))})
	}
	text := "Run " + cmp.Or(run.Ref, string(run.Run)) + "\n" + hung(block(rows, ""), c.ui.columns()) + "\n" + c.ui.table(cells, 1)
	if len(run.Parked) > 0 {
		text += "\nParked:\n  " + strings.Join(run.Parked, "\n  ") + "\n"
	}
	c.ui.verbatim(text)
	return nil
}
