package main

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/vizier-scheduler/vizier/app"
	"github.com/vizier-scheduler/vizier/app/enqueue"
	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/view"
)

type listCmd struct {
	Jobs            []string `arg:"" optional:"" name:"job" help:"Only these jobs, or runs with all of their jobs."`
	All             bool     `short:"a" help:"Show every job."`
	Tree            bool     `short:"t" help:"Show every job of a run, not only running and failed ones."`
	Status          []string `placeholder:"STATUS" help:"Show only jobs with this status, such as running, waiting, failed, or open for all that have not ended; repeatable."`
	Of              string   `name:"run" placeholder:"RUN" help:"Show only the jobs of this run."`
	Name            string   `placeholder:"NAME" help:"Show only jobs whose name contains this, or matches it as a pattern with * or ?."`
	Tag             []string `sep:"none" placeholder:"KEY=VALUE" help:"Show only jobs with this tag; repeatable: jobs need all of them."`
	Since           string   `type:"time" placeholder:"TIME" help:"Show only jobs enqueued since then: 90m, 2h or 3d ago, a day such as 2026-11-22, or a time."`
	Most            int      `name:"most" short:"n" placeholder:"COUNT" help:"Show only the newest COUNT."`
	DismissFailures bool     `help:"Hide jobs that failed."`
	Fields          []string `placeholder:"FIELD" help:"Show these fields, in this order, as block, table or JSON."`
	Format          string   `enum:",list,block,table,json" default:"" placeholder:"list|block|table|json" help:"Output format; list prints one line per job, by runs. The default is [display.lists.jobs] format."`
	Raw             bool     `help:"With --format json: all fields, with their types."`
	At              *string  `type:"entry" placeholder:"TIME|ENTRY" help:"The state at an earlier moment: a duration ago, a day or a time as in --since, or an entry of vizier history."`
}

// listing is a list and how it is shown.
type listing struct {
	view.List
	snap   *kernel.Snapshot
	fields []view.Field
	format string
}

// Run prints the list.
func (l *listCmd) Run(c *call) error {
	if err := rawNeedsJSON(l.Raw, l.Format, l.Fields); err != nil {
		return err
	}
	if l.Format == "list" && len(l.Fields) > 0 {
		return usageError(errors.New("--fields has no effect with --format list: leave one of them out, or use --format block, table or json"))
	}
	if err := c.goBack(l.At); err != nil {
		return err
	}
	r, err := c.repoOf(append(slices.Clone(l.Jobs), l.Of))
	if err != nil {
		return err
	}
	list, err := l.read(c, r)
	if err != nil {
		return err
	}
	c.ui.warnUnreadable(list.Unreadable)
	switch {
	case l.Raw:
		return c.ui.json(list.Raw(func(id kernel.JobID) view.Paths { return r.paths(id, "json") }))
	case list.format == "json":
		return c.ui.json(listDocument{list.Document(keysOf(list.fields)), residentScheduler{r.Resident()}})
	case c.globals.Quiet:
		name := label(list.snap)
		for _, row := range list.Rows {
			c.ui.verbatim(name(row.ID) + "\n")
		}
		return nil
	case list.format == "list":
		err = c.listLines(r, list, view.LinesOptions{Whole: l.Tree || len(l.Jobs) > 0 || l.Of != "" || len(l.Status) > 0, Progress: r.Progress, Idle: c.idle(r)})
	default:
		err = c.listFields(r, list)
	}
	if err == nil {
		c.listRestless(r, list)
	}
	return err
}

// listRestless is restless for a list that has jobs that wait. A list of few jobs does not read the
// others, and what those hold counts too: status and why look at that.
func (c *call) listRestless(r *repo, list listing) {
	waits := func(row view.ListRow) bool {
		return row.Status.Waiting() || row.Status == kernel.Queued || row.Status == kernel.FailedRetryable
	}
	if !list.snap.Narrow() && slices.ContainsFunc(list.Rows, waits) && !r.Attended() && c.foreign(r) == nil {
		c.restless(r, list.snap)
	}
}

// read reads what the list shows.
func (l *listCmd) read(c *call, r *repo) (out listing, err error) {
	display := r.Config.Display.Jobs
	configured := display.Fields
	if cmp.Or(l.Format, display.Format) == "table" && len(configured) == 0 {
		configured = []string{"job", "name", "status", "created", "wait", "command"} // the fields that fit a terminal
	}
	if out.fields, err = fields(view.ListFields(), l.Fields, "display.lists.jobs.fields", configured); err != nil {
		return out, err
	}
	if out.format = cmp.Or(l.Format, display.Format); l.Format == "" && out.format == "list" && len(l.Fields)+len(display.Fields) > 0 {
		out.format = "block"
	}
	o := view.ListOptions{All: l.All || len(l.Jobs) > 0 || l.Of != "", ShowSucceeded: display.ShowSucceeded, DismissFailures: l.DismissFailures, Most: l.Most, Progress: r.Progress}
	scope, err := l.filter(c, r, &o)
	if err != nil {
		return out, err
	}
	if out.snap, err = c.settled(r, func() (*kernel.Snapshot, error) { return r.Scheduler.Records(c.ctx, scope) }); err != nil {
		return out, err
	}
	o.Counts = out.snap.Counts()
	out.snap = c.remarks(r, out.snap)
	out.List = view.ListOf(out.snap, o)
	return out, nil
}

// filter sets the filters in o according to the flags, and returns the scope to
// read.
func (l *listCmd) filter(c *call, r *repo, o *view.ListOptions) (scope kernel.Scope, err error) {
	if o.Tags, err = enqueue.Tags(l.Tag); err != nil {
		return scope, err
	}
	for _, word := range l.Status {
		statuses := view.StatusesOf(word)
		if len(statuses) == 0 {
			return scope, usageError(fmt.Errorf("--status %s: expected a status such as running, waiting, approval, failed, blocked, succeeded, cancelled or open", word))
		}
		o.Statuses = append(o.Statuses, statuses...)
	}
	since, err := c.since(l.Since, r.Scheduler.Now())
	if err != nil {
		return scope, err
	}
	var ids map[kernel.JobID]bool
	for _, refs := range [][]string{l.Jobs, nonEmpty(l.Of)} {
		if len(refs) == 0 {
			continue
		}
		var targets []view.Target
		if _, targets, err = c.targets(refs); err != nil {
			return scope, err
		}
		both, only := map[kernel.JobID]bool{}, []kernel.JobID(nil)
		for _, t := range targets {
			for _, j := range t.Jobs {
				if ids == nil || ids[j.ID] {
					both[j.ID], only = true, append(only, j.ID)
				}
			}
		}
		ids, scope = both, app.Only(only)
	}
	if l.Name != "" || !since.IsZero() || ids != nil {
		o.Only = func(j *kernel.Job) bool {
			return (ids == nil || ids[j.ID]) && !j.Created.Before(since) && isNamed(j, l.Name)
		}
	}
	if ids == nil {
		succeeded := slices.Contains(o.Statuses, kernel.Succeeded) || len(o.Statuses) == 0 && o.ShowSucceeded
		hides := o.Only != nil && len(o.Statuses) == 0 // it says how many that are asked for it does not show
		scope.All = o.All || succeeded || len(o.Tags) > 0 || hides
		if l.Most > 0 && len(o.Tags) == 0 && o.Only == nil { // with other filters, the matches may be anywhere
			scope.Near = []kernel.Near{o.Near()}
		}
	}
	return scope, nil
}

func nonEmpty(s string) []string {
	if s == "" {
		return nil
	}
	return []string{s}
}

// isNamed reports whether one of j's names contains name or matches it as a
// pattern, in which * and ? stand for any characters and all others for themselves.
func isNamed(j *kernel.Job, name string) bool {
	names := []string{view.Title(j), j.Spec.Name, j.Part, j.Spec.Origin.Plan, j.Spec.Origin.Alias}
	if strings.ContainsAny(name, "*?") {
		const slash = "\x00" // is in no name, and * stands for it too
		pattern := strings.NewReplacer(`\`, `\\`, "[", `\[`, "/", slash).Replace(name)
		return slices.ContainsFunc(names, func(s string) bool {
			ok, _ := path.Match(pattern, strings.ReplaceAll(s, "/", slash))
			return s != "" && ok
		})
	}
	return slices.ContainsFunc(names, func(s string) bool { return strings.Contains(s, name) })
}

// since parses a time: a duration before now, a day, or a time; "" is the zero
// time.
func (c *call) since(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if number, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.Atoi(number); err == nil && n >= 0 {
			return now.Add(-days(n)), nil
		}
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	for _, layout := range []string{time.DateOnly, "2006-01-02 15:04", time.RFC3339} {
		if at, err := time.ParseInLocation(layout, text, c.ui.zone); err == nil {
			return at, nil
		}
	}
	if at, err := time.ParseInLocation("15:04", text, c.ui.zone); err == nil {
		day := c.ui.today(now)
		return time.Date(day.Year(), day.Month(), day.Day(), at.Hour(), at.Minute(), 0, 0, c.ui.zone), nil
	}
	return time.Time{}, usageError(fmt.Errorf("--since %s: expected %s", text, expected("time")))
}

// days returns n days, which are not negative, or the longest duration if they are longer.
func days(n int) time.Duration {
	const day = 24 * time.Hour
	return day * min(time.Duration(n), math.MaxInt64/day)
}

// listLines prints one line per job, grouped by run.
func (c *call) listLines(r *repo, list listing, o view.LinesOptions) (err error) {
	c.knows(r, list.snap)
	if o.Wholes, err = r.Scheduler.Wholes(c.ctx, list.Jobs()); err != nil {
		return err
	}
	now := list.snap.Now().In(c.ui.zone)
	cells := [][]string{{"#", "name", "status", "for", "what"}}
	status := []kernel.Status{0}
	for _, x := range view.Lines(list.snap, list.Jobs(), o) {
		elapsed, what := "", x.Says(now)
		if x.For > 0 || x.Status == view.ShortStatus(kernel.Running) {
			elapsed = kernel.Brief(x.For)
		}
		if x.Below {
			cells = append(cells, []string{"", x.Ref + strings.TrimSuffix(" "+x.Name, " "), x.Status, elapsed, c.ui.people(what)})
		} else {
			cells = append(cells, []string{x.Ref, x.Name, x.Status, elapsed, c.ui.people(what)})
		}
		status = append(status, x.Standing)
	}
	if len(cells) == 1 {
		if list.Hidden != "" {
			c.ui.print("No jobs to show: " + list.Hidden)
		} else {
			c.ui.print("No jobs to show.")
		}
		return nil
	}
	paint := func(row, column int, padded string) string {
		if row == 0 {
			return c.ui.faint(padded)
		}
		if column != 2 {
			return padded
		}
		return c.ui.paint(status[row].String(), padded)
	}
	text := grid{cells: cells, shrink: []int{4, 1}, paint: paint}.text(c.ui.columns())
	if list.Hidden != "" && c.ui.outTTY {
		text += c.ui.faint(list.Hidden) + "\n"
	}
	return c.page(text)
}

// listFields prints the fields of jobs, as blocks or as a table.
func (c *call) listFields(r *repo, list listing) error {
	label, all := label(list.snap), []string(nil)
	for _, row := range list.Rows {
		for _, f := range list.fields {
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
			return c.ui.people(row.Text(f.Key))
		}
		return row.Text(f.Key)
	}
	if list.format == "table" {
		c.ui.verbatim(listHeader(list.List, r) + c.listTable(list.List, list.fields, text))
	} else {
		c.ui.verbatim(hung(listHeader(list.List, r)+c.listBlocks(list.List, list.fields, text), c.ui.columns()))
	}
	return nil
}

// mentions are the fields in which the program itself writes ids of jobs and
// times. In other fields, an id is part of somebody's text and stays.
var mentions = map[string]bool{"after": true, "routes": true, "wait": true, "remark": true, "prompt_run": true, "reason": true, "submitted_by": true,
	"started": true, "finished": true, "approval_requested_at": true, "approval_decided_at": true, "approval_expires_at": true, "created": true,
	"wait_since": true, "attempts": true, "limit_resets_at": true, "removed": true, "retry_at": true, "deadline": true, "cancel_requested_at": true, "failed": true}

// rawNeedsJSON refuses --raw with text output, and with some of the fields: it has all of them.
func rawNeedsJSON(raw bool, format string, fields []string) error {
	switch {
	case raw && format != "json":
		return usageError(errors.New("`--raw` requires `--format json`."))
	case raw && len(fields) > 0:
		return usageError(errors.New("--fields has no effect with --raw, which has all fields: leave one of them out"))
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
	return "\n" + c.ui.table(cells, status)
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
