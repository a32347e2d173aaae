package main

import (
	"cmp"
	"errors"
	"strconv"
	"strings"

	"github.com/vizier-scheduler/vizier/app/enqueue"
	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/view"
)

type listCmd struct {
	All             bool     `short:"a" help:"Show every job."`
	Tag             []string `sep:"none" placeholder:"KEY=VALUE" help:"Show jobs with this tag only; repeatable: with all of them."`
	Most            int      `name:"most" short:"n" placeholder:"COUNT" help:"Show the newest COUNT of them only."`
	DismissFailures bool     `help:"Hide jobs that failed."`
	Fields          []string `placeholder:"FIELD" help:"Show these fields, in this order."`
	Format          string   `enum:",block,table,json" default:"" placeholder:"block|table|json" help:"How the list looks; the default is [display.lists.jobs] format."`
	Raw             bool     `help:"With --format json: whole records, with their types kept."`
}

// Run prints the list.
func (l *listCmd) Run(c *call) error {
	if err := rawNeedsJSON(l.Raw, l.Format); err != nil {
		return err
	}
	if l.Most < 0 {
		return usageError(errors.New("`--most` must not be negative."))
	}
	r, err := c.repo()
	if err != nil {
		return err
	}
	display := r.Config.Display.Jobs
	chosen, err := fields(view.ListFields(), l.Fields, "display.lists.jobs.fields", display.Fields)
	if err != nil {
		return err
	}
	o := view.ListOptions{All: l.All, ShowSucceeded: display.ShowSucceeded, DismissFailures: l.DismissFailures, Most: l.Most, Progress: r.Progress}
	if o.Tags, err = enqueue.Tags(l.Tag); err != nil {
		return err
	}
	scope := kernel.Scope{All: l.All || display.ShowSucceeded || len(o.Tags) > 0}
	if l.Most > 0 && len(o.Tags) == 0 { // those of a tag may be anywhere
		scope.Near = []kernel.Near{o.Near()}
	}
	snap, err := c.settled(r, func() (*kernel.Snapshot, error) { return r.Scheduler.Records(c.ctx, scope) })
	if err != nil {
		return err
	}
	o.Counts = snap.Counts()
	snap = r.remarks(c.ctx, snap)
	list := view.ListOf(snap, o)
	c.ui.warnUnreadable(list.Unreadable)
	if l.Raw {
		return c.ui.json(list.Raw(func(id kernel.JobID) view.Paths { return r.paths(id, "json") }))
	}
	label, all := label(snap), []string(nil)
	if c.globals.Quiet && l.Format != "json" {
		for _, row := range list.Rows {
			c.ui.verbatim(label(row.ID) + "\n")
		}
		return nil
	}
	for _, row := range list.Rows {
		for _, f := range chosen {
			if mentions[f.Key] {
				all = append(all, row.Text(f.Key))
			}
		}
	}
	c.ui.refs.find(view.IDs(strings.Join(all, "\n")))
	text := func(row view.ListRow, f view.Field) string {
		switch {
		case f.Key == "job":
			return label(row.ID)
		case mentions[f.Key]:
			return c.ui.refs.text(row.Text(f.Key))
		}
		return row.Text(f.Key)
	}
	switch cmp.Or(l.Format, display.Format) {
	case "json":
		return c.ui.json(listDocument{list.Document(keysOf(chosen)), residentScheduler{r.Resident()}})
	case "table":
		c.ui.verbatim(listHeader(list, r) + c.listTable(list, chosen, text))
	default:
		c.ui.verbatim(listHeader(list, r) + c.listBlocks(list, chosen, text))
	}
	return nil
}

// mentions are the fields that may speak of jobs in the program's own words. In
// the others an id is what somebody wrote.
var mentions = map[string]bool{"after": true, "wait": true, "remark": true, "prompt_run": true, "reason": true, "submitted_by": true}

// rawNeedsJSON refuses --raw for people.
func rawNeedsJSON(raw bool, format string) error {
	if raw && format != "json" {
		return usageError(errors.New("`--raw` requires `--format json`."))
	}
	return nil
}

// listDocument is `jobs list --format json`.
type listDocument struct {
	view.ListDocument
	Scheduler residentScheduler `json:"scheduler"`
}

type residentScheduler struct {
	PID int `json:"resident_pid,omitempty"` // absent: none is alive
}

func listHeader(l view.List, r *repo) string {
	scheduler := "none"
	if pid := r.Resident(); pid != 0 {
		scheduler = "resident (pid " + strconv.Itoa(pid) + ")"
	}
	return block([]row{{"Outcome", l.Outcome}, {"Hidden", l.Hidden}}, "") + block([]row{{"Scheduler", scheduler}}, "")
}

func (c *call) listTable(l view.List, chosen []view.Field, text func(view.ListRow, view.Field) string) string {
	if len(l.Rows) == 0 {
		return ""
	}
	cells := make([][]string, len(l.Rows)+1)
	status := -1
	for i, f := range chosen {
		cells[0] = append(cells[0], f.Label)
		if f.Key == "status" {
			status = i
		}
		for k, r := range l.Rows {
			cells[k+1] = append(cells[k+1], text(r, f))
		}
	}
	return "\n" + table(cells, c.ui.paintColumn(cells, status))
}

func (c *call) listBlocks(l view.List, chosen []view.Field, text func(view.ListRow, view.Field) string) string {
	var out strings.Builder
	for _, r := range l.Rows {
		rows := make([]row, len(chosen))
		for i, f := range chosen {
			rows[i] = row{f.Label, text(r, f)}
			if f.Key == "status" {
				rows[i].value = c.ui.paint(rows[i].value, rows[i].value)
			}
		}
		out.WriteString("\n")
		out.WriteString(block(rows, "  "))
	}
	return out.String()
}
