package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/clipperhouse/displaywidth"

	"github.com/vizier-scheduler/vizier/adapters/fs/inbox"
	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/foresight"
	"github.com/vizier-scheduler/vizier/kernel/view"
)

// overviewDoc is `status --format json`: docs/schemas/status.schema.json.
type overviewDoc struct {
	Now time.Time `json:"now"`
	view.Overview
	Scheduler residentScheduler `json:"scheduler"`
}

// overviewCmd is status without a job, and jobs without a subcommand.
type overviewCmd struct {
	Attention bool   `help:"Exit 10 if something needs a person."`
	Format    string `enum:"text,json" default:"text" placeholder:"text|json" help:"Output format."`
}

// Run prints the overview.
func (s *overviewCmd) Run(c *call) error {
	r, err := c.repo()
	if err != nil {
		return err
	}
	snap, err := c.settled(r, func() (*kernel.Snapshot, error) { return r.Scheduler.Records(c.ctx, kernel.Scope{}) })
	if err != nil {
		return err
	}
	c.ui.refs.named(snap)
	snap = c.remarks(r, snap)
	o := view.OverviewOptions{FailedSince: c.ui.today(snap.Now()).UTC(), Progress: r.Progress, Idle: c.idle(r)}
	if o.Prompts, err = r.refused(c, snap, o.FailedSince); err != nil {
		c.ui.warn("the inbox cannot be read: %v", err)
	}
	v, err := r.Scheduler.Overview(c.ctx, snap, o)
	if err != nil {
		return err
	}
	c.ui.warnUnreadable(v.Unreadable)
	if err := r.expect(c, snap, v); err != nil {
		return err
	}
	foreign, displaced := c.foreign(r), c.displaced(r)
	for i := range v.Attention {
		switch {
		case foreign != nil:
			v.Attention[i].Command = foreign
		case displaced(snap.Job(v.Attention[i].Job)):
			v.Attention[i].Command = mend
		}
	}
	if s.Format == "json" {
		err = c.ui.json(overviewDoc{snap.Now(), v, residentScheduler{r.Resident()}})
	} else {
		c.ui.text(c.ui.overview(v, snap.Now()))
		if foreign == nil {
			c.restless(r, snap)
		}
		if text := distrust(r.untrusted(c.ctx)); text != "" {
			c.ui.warn("%s: `vizier trust --show` lists them, `vizier trust` lets them run", text)
		}
	}
	if err == nil && s.Attention && (len(v.Attention) > 0 || len(v.Unreadable) > 0 || foreign != nil) {
		return exits(classRefused.exit)
	}
	return err
}

// expect adds the expected ends of running and waiting items.
func (r *repo) expect(c *call, snap *kernel.Snapshot, v view.Overview) error {
	etas, err := r.Scheduler.ETAs(c.ctx, snap)
	if err != nil || len(etas) == 0 {
		return err
	}
	for _, items := range [][]view.Item{v.Running, v.Waiting} {
		for i := range items {
			var jobs []*kernel.Job
			for _, j := range snap.Jobs() {
				if j.ID == items[i].Job || j.Number == items[i].Number && j.Part != "" {
					jobs = append(jobs, j)
				}
			}
			items[i].ETA = etaOf(jobs, etas)
		}
	}
	return nil
}

// etaOf returns when the last of jobs is expected to end, or nil if that is not
// known for one of them.
func etaOf(jobs []*kernel.Job, etas map[kernel.JobID]foresight.ETA) (out *view.ETA) {
	var last foresight.ETA
	for _, j := range jobs {
		if !j.State.Status.Active() {
			continue
		}
		e, known := etas[j.ID]
		if !known {
			return nil
		}
		if e.At.After(last.At) {
			last = e
		}
		out = &view.ETA{At: last.At, Basis: last.Basis.String(), From: last.From}
	}
	return out
}

// refused returns the prompts that the inbox refused. A missing inbox has none.
func (r *repo) refused(c *call, snap *kernel.Snapshot, since time.Time) ([]view.RefusedPrompt, error) {
	if r.Inbox == nil {
		return nil, nil
	}
	box, err := r.Inbox(c.asker())
	if err != nil {
		return nil, err
	}
	prompts, err := box.Refused(c.ctx, snap.Jobs(), since)
	if errors.Is(err, inbox.ErrNoInbox) {
		return nil, nil
	}
	here, wrong := workingDir()
	for i, p := range prompts {
		if wrong != nil {
			break
		}
		prompts[i].Path = relative(here, p.Path)
		if p.Again != "" {
			prompts[i].Again = relative(here, p.Again)
		}
		if p.Tracked != "" {
			prompts[i].Tracked = relative(here, filepath.Join(r.Root, p.Tracked))
		}
	}
	return prompts, err
}

// restless warns of work that only continues once somebody ticks, and of a
// scheduler that may fail to do it. The store is not foreign.
func (c *call) restless(r *repo, snap *kernel.Snapshot) {
	if h := r.Hindrance(); h.Problem != "" {
		c.ui.warn("%s: `%s`, and %s", h.Problem, strings.Join(h.Command, " "), h.Then)
		return
	}
	if r.Attended() || len(snap.TickWaits()) == 0 {
		return
	}
	// An overview reads no facts, but what was waited for may have come true unseen.
	if u := r.firstUnattended(r.Scheduler.Observed(c.ctx, snap, kernel.Probes{})); u != nil {
		c.ui.warn("%s: `%s` has it go on", u.text, strings.Join(u.Command, " "))
	}
}

// most is how many lines are printed as text of each part of the overview and of a
// simulation.
const most = 10

// overview formats v for people.
func (u *ui) overview(v view.Overview, now time.Time) string {
	var parts []string
	if n := len(v.Attention); n > 0 {
		needs := "needs"
		if n > 1 {
			needs = "need"
		}
		parts = append(parts, u.bold(fmt.Sprintf("%d %s you", n, needs))+"\n"+u.attention(v.Attention, now))
	}
	if n := len(v.Running); n > 0 {
		submitted := 0
		for i := range v.Running {
			if it := &v.Running[i]; it.Status == view.Submitted {
				submitted++
				it.What = strings.TrimSuffix(view.Submitted+", "+it.What, ", ")
			}
		}
		title := fmt.Sprintf("running %d", n-submitted)
		if v.Places > 0 {
			title += fmt.Sprintf(" of %d", v.Places)
		}
		if submitted > 0 {
			title += fmt.Sprintf(", submitted %d", submitted)
		}
		parts = append(parts, u.section(title, "vizier ls --status running", v.Running, func(it view.Item) []string {
			left := ""
			if it.Remaining > 0 {
				left = "eta " + kernel.Brief(time.Duration(it.Remaining)*time.Second)
			} else if it.ETA != nil {
				left = it.ETA.In(now)
			}
			return []string{it.Ref, besides(it), it.Progress(), it.What, ago(it.Since, now), left}
		}, 3, 1))
	}
	if n := len(v.Waiting); n > 0 {
		parts = append(parts, u.section(fmt.Sprintf("waiting %d", n), "vizier ls --status waiting", v.Waiting, func(it view.Item) []string {
			what := it.What
			if it.Until != nil {
				what = "until " + u.clock(*it.Until, now) + ", " + what
			}
			return []string{it.Ref, besides(it), what}
		}, 2, 1))
	}
	if n := len(v.Failed); n > 0 {
		parts = append(parts, u.section(fmt.Sprintf("failed today %d", n), "vizier ls --status failed", v.Failed, func(it view.Item) []string {
			took := ""
			if it.Took > 0 {
				took = kernel.Brief(time.Duration(it.Took) * time.Second)
			}
			when := u.clock(*it.Since, now)
			if u.slim() { // what to type matters more
				took, when = "", ""
			}
			return []string{it.Ref, besides(it), it.What, took, when, kernel.CommandLine(it.Command...)}
		}, 2, 1))
	}
	if len(parts) == 0 {
		return "Nothing runs, waits or needs you.\n"
	}
	return strings.Join(parts, "\n")
}

// besides returns an item's name, unless its reference contains it.
func besides(it view.Item) string {
	if _, part, ok := strings.Cut(it.Ref, "/"); ok && part == strings.ReplaceAll(it.Name, " ", "_") {
		return ""
	}
	return it.Name
}

// attention returns the lines of what needs a person. Commands are not cut,
// since they are to be typed; one that takes half of the terminal's width gets
// a line of its own.
func (u *ui) attention(items []view.Item, now time.Time) string {
	items, more := together(items)
	var cells [][]string
	long := func(command string) bool { return u.columns() > 0 && displaywidth.String(command) > u.columns()/2 }
	for _, it := range items {
		name := it.Ref
		switch {
		case name == "":
			name = it.Name
		case !strings.Contains(name, "/"):
			name += " " + it.Name
		}
		for _, kind := range []struct {
			of   kernel.Attention
			word string
		}{{kernel.NeedsDecision, "in doubt"}, {kernel.NeedsCorrection, "refused prompt"}} {
			if it.Kind == kind.of {
				it.Kind = kernel.Attention(kind.word)
			}
		}
		command := kernel.CommandLine(it.Command...)
		if long(command) {
			command = ""
		}
		cells = append(cells, []string{name, string(it.Kind), ago(it.Since, now), command})
	}
	lines := strings.SplitAfter(grid{cells: cells, indent: "  ", shrink: []int{0}}.text(u.columns()), "\n")
	var b strings.Builder
	for i, it := range items {
		b.WriteString(lines[i])
		what := it.What
		if it.Until != nil {
			what = strings.TrimPrefix(what+", until "+u.clock(*it.Until, now), ", ")
		}
		if what != "" {
			b.WriteString(cut("      "+u.people(what), u.columns()) + "\n")
		}
		if command := kernel.CommandLine(it.Command...); long(command) {
			b.WriteString("      " + command + "\n")
		}
		if n := more[it.Ref]; n > 0 {
			fmt.Fprintf(&b, "      and %d more of %s alike: vizier ls %s --status waiting_on_approval\n", n, it.Number, it.Number)
		}
	}
	return b.String()
}

// together returns items without the approvals of a run or batch that are like its first one, where there are more
// than a part of the overview has lines, and how many each first one stands for beside itself.
func together(items []view.Item) (out []view.Item, more map[string]int) {
	type alike struct {
		number kernel.Number
		what   string
		until  time.Time
	}
	of := func(it view.Item) alike {
		a := alike{number: it.Number, what: it.What}
		if it.Until != nil {
			a.until = *it.Until
		}
		return a
	}
	together := func(it view.Item) bool { return it.Kind == kernel.NeedsApproval && strings.Contains(it.Ref, "/") }
	n, first := map[alike]int{}, map[alike]string{}
	for _, it := range items {
		if together(it) {
			n[of(it)]++
		}
	}
	more = map[string]int{}
	for _, it := range items {
		switch a := of(it); {
		case !together(it) || n[a] <= most:
			out = append(out, it)
		case first[a] == "":
			out, first[a] = append(out, it), it.Ref
		default:
			more[first[a]]++
		}
	}
	return out, more
}

// section returns a part of the overview: its title, and a line for each item.
func (u *ui) section(title, rest string, items []view.Item, line func(view.Item) []string, shrink ...int) string {
	var cells [][]string
	for _, it := range items[:min(most, len(items))] {
		row := line(it)
		for i, cell := range row {
			row[i] = u.people(cell)
		}
		cells = append(cells, row)
	}
	text := u.bold(title) + "\n" + grid{cells: cells, indent: "  ", shrink: shrink}.text(u.columns())
	if more := len(items) - most; more > 0 {
		text += fmt.Sprintf("  and %d more: %s\n", more, rest)
	}
	return text
}
