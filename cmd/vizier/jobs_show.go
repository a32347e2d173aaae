package main

import (
	"github.com/vizier-scheduler/vizier/kernel/view"
)

type showCmd struct {
	Job    string   `arg:"" help:"The job: its id or the beginning of it, RUN/NODE, or @last."`
	Fields []string `placeholder:"FIELD" help:"Show these fields, in this order."`
	Format string   `enum:"block,table,json" default:"block" placeholder:"block|table|json" help:"How it looks."`
	Raw    bool     `help:"With --format json: the whole record, with its types kept."`
}

// Run prints what is on record about the job.
func (s *showCmd) Run(c *call) error {
	if err := rawNeedsJSON(s.Raw, s.Format); err != nil {
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
	snap, id, err := c.settledJob(r, s.Job)
	if err != nil {
		return err
	}
	snap = r.remarks(c.ctx, snap)
	format := s.Format
	if s.Raw {
		format = "json"
	}
	paths, err := r.details(snap.Job(id).Attempt(), format)
	if err != nil {
		return err
	}
	if s.Raw {
		doc, err := view.ShowRaw(snap, id, paths)
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
		text[v.Key] = v.Text
	}
	switch s.Format {
	case "json":
		doc := make(map[string]string, len(chosen))
		for _, f := range chosen {
			if t := text[f.Key]; t != "" {
				doc[f.Key] = t
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
		c.ui.text(table(cells, nil))
	default:
		rows := make([]row, len(chosen))
		for i, f := range chosen {
			rows[i] = row{f.Label, text[f.Key]}
		}
		c.ui.text("Job " + string(id) + "\n" + block(rows, ""))
	}
	return nil
}

type statusCmd struct {
	Job    string `arg:"" help:"The job: its id or the beginning of it, RUN/NODE, or @last."`
	Format string `enum:"text,json" default:"text" placeholder:"text|json" help:"How it looks."`
}

// Run prints the job's status. It succeeds whatever the status is.
func (s *statusCmd) Run(c *call) error {
	r, err := c.repo()
	if err != nil {
		return err
	}
	snap, id, err := c.settledJob(r, s.Job)
	if err != nil {
		return err
	}
	status, err := view.StatusOf(snap, id, r.paths(id, s.Format))
	if err != nil {
		return err
	}
	c.warnUnattended(r, snap.Job(id))
	if s.Format == "json" {
		return c.ui.json(status)
	}
	c.ui.print(c.ui.paint(status.Status, status.String()))
	return nil
}
