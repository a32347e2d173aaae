package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/vizier-scheduler/vizier/app/answer"
	"github.com/vizier-scheduler/vizier/app/enqueue"
	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/foresight"
	"github.com/vizier-scheduler/vizier/kernel/view"
)

type simulateCmd struct {
	Runs       []string `arg:"" optional:"" name:"run" help:"Runs, batches or jobs to predict the end of, by default all open ones; with --run, the inputs of the template."`
	Pool       []string `sep:"none" placeholder:"NAME=N" help:"Assume that the pool has N units."`
	MaxRunning *int     `placeholder:"N" help:"Assume that this many jobs may run at once on this machine; 0: no limit."`
	Submit     string   `type:"path" xor:"new" placeholder:"FILE" help:"First enqueue the jobs of this file, in the format of submit --batch; - is standard input."`
	Flow       string   `xor:"new" name:"run" placeholder:"FLOW" help:"First enqueue a run of this template."`
	Set        []string `sep:"none" placeholder:"KEY=VALUE" help:"With --run: a parameter of the template; repeatable."`
	Draws      int      `default:"30" placeholder:"N" help:"How often to draw the future if it is left to chance."`
	Seed       uint64   `default:"1" placeholder:"S" help:"Seed of the draws."`
	Format     string   `enum:"text,json,svg" default:"text" placeholder:"text|json|svg" help:"Output format; svg is a picture."`
}

func (*simulateCmd) Help() string {
	return "Predicts when open jobs end, which resources they wait for, and what more of these would gain. It runs the scheduler's own decisions on a simulated clock, and changes nothing. " +
		"An attempt takes as long as its estimate, or else as earlier ones of the same node, name or command, or else a minute."
}

// simulated is `simulate --format json`: docs/schemas/simulate.schema.json.
type simulated struct {
	Now       time.Time         `json:"now"`
	Draws     int               `json:"draws"`
	Cut       bool              `json:"cut"` // the simulation was cut off before the end
	Ends      []simulatedEnd    `json:"ends"`
	Path      []simulatedSpan   `json:"critical_path"`
	Resources []simulatedDemand `json:"resources"`
	Spans     []simulatedSpan   `json:"spans"`
	Assumed   []answer.Assumed  `json:"assumed"`
}

type simulatedEnd struct {
	view.Reference
	Name      string         `json:"name"`
	Jobs      []kernel.JobID `json:"jobs"`
	P50       *time.Time     `json:"p50"` // null: it does not end by itself
	P90       *time.Time     `json:"p90"`
	Ends      int            `json:"ends"`
	Succeeded int            `json:"succeeded"`
	Basis     *string        `json:"basis"` // null: it does not end by itself
	From      int            `json:"from"`
	Waits     *simulatedWait `json:"waits"`
}

type simulatedWait struct {
	Job kernel.JobID `json:"job"`
	view.Reference
	For string `json:"for"`
}

type simulatedSpan struct {
	Job kernel.JobID `json:"job"`
	view.Reference
	Name      string    `json:"name"`
	Attempt   int       `json:"attempt"` // 0: a person's decision
	Start     time.Time `json:"start"`
	End       time.Time `json:"end"`
	Outcome   string    `json:"outcome"`
	Class     string    `json:"class"`
	WaitedFor string    `json:"waited_for"`
	critical  bool
}

type simulatedDemand struct {
	Kind    string   `json:"kind"`
	Name    string   `json:"name"`
	Has     int      `json:"has"` // 0: no limit
	Waited  float64  `json:"waited_seconds"`
	Busy    float64  `json:"busy"`
	Doubled *float64 `json:"doubled_saves_seconds"` // null: not computed
	Freed   int      `json:"doubled_frees,omitempty"`
}

// doubledResources is for how many resources the effect of doubling them is
// estimated.
const doubledResources = 3

// mostDraws bounds --draws: each draw takes memory until all are drawn.
const mostDraws = 10_000

// Run simulates and prints the result.
func (x *simulateCmd) Run(c *call) error {
	if x.Draws < 1 || x.Draws > mostDraws {
		return usageError(fmt.Errorf("--draws=%d: expected 1 to %d", x.Draws, mostDraws))
	}
	if len(x.Set) > 0 && x.Flow == "" {
		return usageError(errors.New("--set has no effect without --run"))
	}
	var jobs []string
	if x.Flow == "" {
		jobs = x.Runs
	}
	r, err := c.repoOf(jobs)
	if err != nil {
		return err
	}
	changes, only, err := x.changes(c, r)
	if err != nil {
		return err
	}
	habits, out, err := r.Scheduler.Foretell(c.ctx, changes, foresight.Options{Seed: x.Seed, Draws: x.Draws, Only: only, Double: doubledResources})
	if err != nil {
		return c.batch.Locate(err)
	}
	c.knows(r, out.Story.Then) // which has jobs that are not on record too
	doc := simulatedOf(out, habits)
	switch x.Format {
	case "json":
		return c.ui.json(doc)
	case "svg":
		c.ui.verbatim(doc.gantt())
	default:
		c.ui.text(c.simulation(doc))
	}
	return nil
}

// changes returns the changes that the flags name, and the jobs whose ends are
// asked for.
func (x *simulateCmd) changes(c *call, r *repo) (out []foresight.Change, only []kernel.JobID, err error) {
	var news []kernel.NewJob
	switch {
	case x.Submit != "":
		if news, err = c.batchOf(r, x.Submit); err != nil {
			return nil, nil, err
		}
	case x.Flow != "":
		f, err := c.flow(r, x.Flow, x.Runs, x.Set)
		if err != nil {
			return nil, nil, err
		}
		runs, err := c.builder(r).Runs(c.ctx, []*enqueue.Flow{f}, enqueue.RunOptions{})
		if err != nil {
			return nil, nil, c.hinted(err)
		}
		news = runs[0].Enqueued()
	}
	if out, err = pools(x.Pool, news); err != nil {
		return nil, nil, err
	}
	if x.MaxRunning != nil {
		out = append(out, foresight.Places{N: *x.MaxRunning})
	}
	if len(news) > 0 {
		out = append(out, foresight.Submit{Jobs: news})
		for _, n := range news {
			only = append(only, n.ID)
		}
	}
	if x.Flow == "" && len(x.Runs) > 0 {
		_, ids, _, err := r.Scheduler.Members(c.ctx, x.Runs)
		if err != nil {
			return nil, nil, err
		}
		only = append(only, ids...)
	}
	return out, only, nil
}

// pools parses --pool. A pool may be one that only jobs in news ask for.
func pools(texts []string, news []kernel.NewJob) (out []foresight.Change, err error) {
	for _, p := range texts {
		name, units, _ := strings.Cut(p, "=")
		n, err := strconv.Atoi(units)
		if err != nil {
			return nil, usageError(fmt.Errorf("--pool %s: write NAME=N", p))
		}
		out = append(out, foresight.Resize{Pool: name, Units: n, Known: slices.ContainsFunc(news, func(j kernel.NewJob) bool {
			return slices.ContainsFunc(j.Spec.Locks, func(l kernel.Lock) bool { return l.Pool() && l.Key == name })
		})})
	}
	return out, nil
}

// batchOf returns the jobs of a batch file, or of standard input for -.
func (c *call) batchOf(r *repo, path string) (_ []kernel.NewJob, err error) {
	in := c.stdin
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in = f
	}
	c.batch, err = c.builder(r).Batch(c.ctx, in)
	return c.batch.Jobs, err
}

func simulatedOf(o foresight.Outlook, habits *foresight.Habits) simulated {
	doc := simulated{Now: o.Now, Draws: o.Draws, Cut: o.Story.Cut, Ends: []simulatedEnd{}, Path: []simulatedSpan{}, Resources: []simulatedDemand{}, Spans: []simulatedSpan{}, Assumed: answer.AssumedOf(o.Story, habits)}
	then := o.Story.Then
	for _, e := range o.Ends {
		first := then.Job(e.Jobs[0])
		end := simulatedEnd{Reference: view.ReferenceOf(first), Name: view.Title(first), Jobs: e.Jobs, Ends: e.Ends, Succeeded: e.Succeeded, From: e.From}
		if len(e.Jobs) > 1 {
			end.Reference, end.Name = view.ReferenceTo(first.Number), view.RunName(first)
		}
		if !e.P50.IsZero() {
			basis := e.Basis.String()
			end.P50, end.P90, end.Basis = &e.P50, &e.P90, &basis
		}
		if j := then.Job(e.Waits); j != nil {
			end.Waits = &simulatedWait{j.ID, view.ReferenceOf(j), e.For}
		}
		doc.Ends = append(doc.Ends, end)
	}
	for i, s := range o.Story.Spans {
		j := then.Job(s.Job)
		if j == nil || s.End.IsZero() {
			continue
		}
		span := simulatedSpan{Job: s.Job, Reference: view.ReferenceOf(j), Name: view.Title(j), Attempt: s.Attempt, Start: s.Start, End: s.End,
			Outcome: s.Outcome.String(), Class: s.Class.String(), critical: slices.Contains(o.Path, i)}
		if s.Held != nil {
			span.WaitedFor = s.Held.String()
		}
		doc.Spans = append(doc.Spans, span)
		if span.critical {
			doc.Path = append(doc.Path, span)
		}
	}
	for _, u := range o.Resources {
		d := simulatedDemand{Kind: u.Kind.String(), Name: u.Name, Has: u.Has, Waited: u.Waited.Seconds(), Busy: u.Busy}
		if u.Tried {
			saves := u.Doubled.Seconds()
			d.Doubled, d.Freed = &saves, max(0, u.Freed)
		}
		doc.Resources = append(doc.Resources, d)
	}
	return doc
}

// gantt returns doc as a picture.
func (doc simulated) gantt() string {
	var bars []view.Bar
	for _, s := range doc.Spans {
		b := view.Bar{Row: strings.TrimSpace(s.Ref + " " + s.Name), Start: s.Start, End: s.End, Status: kernel.Succeeded.String(), Critical: s.critical}
		switch {
		case s.Attempt == 0:
			b.Status = kernel.WaitingOnApproval.String()
		case s.Outcome != kernel.OutcomeSucceeded.String():
			b.Status = kernel.Failed.String()
		}
		b.Text = fmt.Sprintf("%s\n%s\n%s", b.Row, s.what(), kernel.Brief(s.End.Sub(s.Start)))
		bars = append(bars, b)
	}
	return view.Gantt("What is to come", doc.Now, bars)
}

// what describes s in words.
func (s simulatedSpan) what() string {
	switch {
	case s.Attempt == 0:
		return "a person decides"
	case s.Attempt > 1:
		return fmt.Sprintf("attempt %d", s.Attempt)
	default:
		return "runs"
	}
}

// simulation formats doc for people.
func (c *call) simulation(doc simulated) string {
	if len(doc.Ends) == 0 {
		return "Nothing is open.\n"
	}
	in := func(t time.Time) string { return kernel.Brief(t.Sub(doc.Now)) }
	cells := [][]string{{"#", "Name", "Ends in", "9 of 10", "At", "Known from"}}
	var remarks []string
	for _, e := range doc.Ends {
		row := []string{e.Ref, e.Name, "never", "", "", e.knownFrom()}
		if e.P50 != nil {
			row[2], row[3], row[4] = in(*e.P50), in(*e.P90), c.ui.clock(*e.P50, doc.Now)
		}
		if e.Waits != nil {
			remarks = append(remarks, fmt.Sprintf("%s does not end by itself in %d of %d: %s: %s", e.Ref, doc.Draws-e.Ends, doc.Draws, e.Waits.Ref, c.ui.refs.text(e.Waits.For)))
		}
		if e.Succeeded < e.Ends {
			remarks = append(remarks, fmt.Sprintf("%s ends well in %d of %d", e.Ref, e.Succeeded, doc.Draws))
		}
		cells = append(cells, row)
	}
	if c.ui.slim() {
		without(cells, 3, 5)
	}
	parts := []string{grid{cells: cells, shrink: []int{1, 5, 0}}.text(c.ui.columns())}
	if doc.Cut {
		remarks = append(remarks, "the simulation stopped early: too many events")
	}
	if len(remarks) > 0 {
		for i, text := range remarks {
			remarks[i] = plainLine(text)
		}
		parts = append(parts, prose(strings.Join(remarks, "\n")+"\n", c.ui.columns()))
	}
	if len(doc.Path) > 0 {
		cells = nil
		for _, s := range doc.Path[max(0, len(doc.Path)-most):] {
			held := ""
			if s.WaitedFor != "" {
				held = "waited for " + s.WaitedFor
			}
			cells = append(cells, []string{s.Ref, s.Name, s.what(), kernel.Brief(s.End.Sub(later(s.Start, doc.Now))), "until +" + in(s.End), held})
		}
		text := c.ui.bold("critical path") + "\n"
		if more := len(doc.Path) - most; more > 0 {
			text += fmt.Sprintf("  %d before these: --format json has them\n", more)
		}
		if c.ui.slim() {
			without(cells, 1, 5)
		}
		parts = append(parts, text+grid{cells: cells, indent: "  ", shrink: []int{1, 5, 2, 0}}.text(c.ui.columns()))
	}
	cells = nil
	for _, d := range doc.Resources {
		if d.Has == 0 && d.Waited == 0 {
			continue
		}
		row := []string{strings.TrimSpace(d.Kind + " " + d.Name), strconv.Itoa(d.Has), "waited for " + kernel.Brief(time.Duration(d.Waited*float64(time.Second))), fmt.Sprintf("busy %.0f%%", 100*d.Busy), ""}
		if d.Freed > 0 {
			row[4] = "twice as much: " + view.Counted(d.Freed, "more job") + " would end"
		} else if d.Doubled != nil && *d.Doubled < 1 {
			row[4] = "twice as much gains nothing"
		} else if d.Doubled != nil {
			row[4] = "twice as much: " + kernel.Brief(time.Duration(*d.Doubled*float64(time.Second))) + " sooner"
		}
		cells = append(cells, row)
	}
	if c.ui.slim() {
		without(cells, 3)
	}
	if len(cells) > 0 {
		parts = append(parts, c.ui.bold("what jobs wait for")+"\n"+grid{cells: cells[:min(most, len(cells))], indent: "  ", shrink: []int{0, 4, 2}}.text(c.ui.columns()))
	}
	if assumed := answer.AssumedText(doc.Assumed); assumed != "" {
		parts = append(parts, prose(assumed, c.ui.columns()))
	}
	return strings.Join(parts, "\n")
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// knownFrom describes how reliable an end is.
func (e simulatedEnd) knownFrom() string {
	switch {
	case e.Basis == nil:
		return "-"
	case *e.Basis == foresight.Recorded.String():
		return view.Counted(e.From, "attempt")
	case *e.Basis == foresight.Guess.String():
		return "a guess"
	default:
		return *e.Basis
	}
}
