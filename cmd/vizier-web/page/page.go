// Package page answers the requests of a page in the browser to the kernel that
// runs there. It builds for WebAssembly and has no side effects. What it shows
// is taken from the views.
package page

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/vizier-scheduler/vizier/app/answer"
	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/foresight"
	"github.com/vizier-scheduler/vizier/kernel/view"
)

// request holds the arguments of a question; each question uses some of the
// fields.
type request struct {
	Job  kernel.JobID `json:"job"`
	Run  kernel.RunID `json:"run"`
	What string       `json:"what"`
	News bool         `json:"news"` // only what was not returned before
	Now  *time.Time   `json:"now"`  // null: the time of the snapshot
}

// errUnseen says that the answer depends on facts that the page does not have.
var errUnseen = errors.New("it depends on what this page has not seen")

// Ask answers a question by its name: version, stand, job, graph, timeline,
// what-if (the document of the command) or follows (what it prints for people).
// What a page shows of an answer is Visible as package answer defines it.
func (p *Page) Ask(question string, args []byte) (string, error) {
	var q request
	if err := json.Unmarshal(args, &q); err != nil {
		return "", fmt.Errorf("%s: %w", question, err)
	}
	if p.snap == nil {
		return "", errors.New("no state was read")
	}
	switch question {
	case "version":
		return strconv.FormatUint(p.version, 10), nil
	case "stand":
		return answer.Shown(p.stand(q.News))
	case "job":
		doc, err := p.job(q.Job)
		if err != nil {
			return "", err
		}
		return answer.Shown(doc)
	case "graph":
		picture, err := p.graph(q)
		return answer.Visible(picture, "\n\t"), err
	case "timeline":
		return answer.Visible(p.timeline(q.Run), "\n\t"), nil
	case "what-if", "follows":
		doc, err := p.whatIf(q)
		switch {
		case err != nil:
			return "", errors.New(p.people(err.Error()))
		case question == "follows":
			return answer.Shown(p.follows(doc))
		default:
			return answer.JSON(doc, "  ")
		}
	default:
		return "", fmt.Errorf("nobody answers %q", question)
	}
}

// can returns the actions that people may take on j.
func can(j *kernel.Job) (out []string) {
	if j.State.Approval.State == kernel.Pending && j.State.Status == kernel.WaitingOnApproval {
		out = append(out, "approve", "reject")
	}
	if j.State.Status.Active() {
		out = append(out, "cancel")
	}
	if j.State.Status.Terminal() {
		out = append(out, "retry")
	}
	return out
}

// people is People of the page's state.
func (p *Page) people(text string) string { return view.People(p.snap, text) }

// job is one job with all that is in its record.
type job struct {
	row     `json:"row"`
	Fields  []field  `json:"fields"`
	Unmet   []unmet  `json:"unmet"`
	Actions []string `json:"actions"` // what people can do: commands to type, or text
	Root    string   `json:"root,omitempty"`

	Digest    kernel.Digest   `json:"digest"`         // of the statement
	Head      kernel.CommitID `json:"head,omitempty"` // of the branch, which an approval would cover
	Statement []string        `json:"statement"`      // the lines of what an approval would cover
	Near      []near          `json:"near"`
}

type field struct{ Label, Text string }

// unmet is a condition that does not hold.
type unmet struct {
	Detail string `json:"detail"`
	Clears string `json:"clears,omitempty"`
	Final  bool   `json:"final,omitempty"`
}

// near is a job that another waits for, or that waits for it.
type near struct {
	Job    kernel.JobID `json:"job"`
	Ref    string       `json:"ref"`
	Name   string       `json:"name"`
	Status string       `json:"status"`
	Before bool         `json:"before"`
}

func (p *Page) job(id kernel.JobID) (*job, error) {
	values, err := view.Show(p.snap, id, view.Paths{})
	if err != nil {
		return nil, err
	}
	e, err := kernel.Explain(p.snap, id)
	if err != nil {
		return nil, err
	}
	j := p.snap.Job(id)
	out := &job{row: p.row(j), Unmet: []unmet{}, Actions: []string{}, Near: []near{},
		Digest: j.Spec.Digest(), Head: kernel.ConsentTo(j, "", "").Head, Statement: view.Approves(j, j.Spec.Statement())}
	for _, v := range values {
		if v.Key != "job" { // a job's own id stays
			v.Text = p.people(v.Text)
		}
		out.Fields = append(out.Fields, field{v.Label, v.Text})
	}
	for _, u := range e.Unmet {
		out.Unmet = append(out.Unmet, unmet{p.people(u.Detail), p.people(u.Clears), u.Final})
	}
	if len(e.Asks) > 0 { // as an artifact may exist or not, other retries are possible
		out.Actions = append(out.Actions, errUnseen.Error()+": vizier why "+cmp.Or(j.Ref(), string(id))+" says it")
		e.Actions = nil
	}
	for _, s := range view.Steps(e.Actions) {
		out.Actions = append(out.Actions, p.people(cmp.Or(s.Text, kernel.CommandLine(s.Command...))))
	}
	if e.Root != nil && e.Root.Job != id {
		out.Root = p.people(string(e.Root.Job) + ": " + e.Root.Detail)
	}
	add := func(ids []kernel.JobID, before bool) {
		for _, id := range ids {
			if n := p.snap.Job(id); n != nil {
				out.Near = append(out.Near, near{id, cmp.Or(n.Ref(), string(id)), view.Title(n), view.Standing(p.snap, n), before})
			}
		}
	}
	add(p.snap.Predecessors(id), true)
	add(p.snap.Successors(id), false)
	return out, nil
}

// mostDrawn is how many jobs a picture may have; one with more is not legible.
const mostDrawn = 400

// graph returns a picture of a run, of a job and its neighbourhood, or of
// everything open.
func (p *Page) graph(q request) (string, error) {
	s, o := p.snap, view.ScheduleOptions{MaxDepth: 3, Focus: q.Job, Label: func(id kernel.JobID) string { return p.people(string(id)) }}
	if q.Run != "" {
		o, s = view.ScheduleOptions{All: true, Label: o.Label}, p.only(q.Run)
	}
	v := view.ScheduleOf(s, o)
	if len(v.Rows) > mostDrawn {
		return "", fmt.Errorf("%d jobs make no picture that can be read: choose a run or a job", len(v.Rows))
	}
	if len(v.Rows) == 0 {
		return "", errors.New("nothing is open: choose a run or a job")
	}
	return v.SVG(), nil
}

// only returns the snapshot of one run.
func (p *Page) only(run kernel.RunID) *kernel.Snapshot {
	s := p.snap
	o := kernel.Observation{Now: s.Now(), Limits: s.Limits(), Facts: s.Facts()}
	for _, j := range s.Members(run) {
		o.Jobs = append(o.Jobs, *j)
	}
	return kernel.TakeSnapshot(o)
}

// timeline returns a picture of when the latest attempts of a run's jobs ran. Without
// a run, it shows the latest attempts of all jobs that began lately.
func (p *Page) timeline(run kernel.RunID) string {
	now := p.snap.Now()
	var bars []view.Bar
	for _, j := range p.snap.Jobs() {
		st := &j.State
		if st.Started.IsZero() || run != "" && j.Spec.Origin.Run != run || run == "" && now.Sub(st.Started) > lately {
			continue
		}
		end := cmp.Or(st.Finished, now)
		if end.Before(st.Started) {
			end = now
		}
		name := view.Short(j)
		bars = append(bars, view.Bar{Row: name, Start: st.Started, End: end, Status: st.Status.String(),
			Text: name + "\n" + st.Status.String() + "\n" + kernel.Brief(end.Sub(st.Started))})
	}
	if len(bars) == 0 {
		return ""
	}
	slices.SortStableFunc(bars, func(a, b view.Bar) int { return a.Start.Compare(b.Start) })
	bars = bars[max(0, len(bars)-mostDrawn):]
	return view.Gantt("What has run", bars[0].Start, bars)
}

// whatIf returns what would follow, in the form of `vizier what-if`.
func (p *Page) whatIf(q request) (doc answer.Foreseen, err error) {
	change, err := ChangeOf(q.What, q.Job)
	if err != nil {
		return doc, err
	}
	s := p.snap
	if q.Now != nil {
		s = s.At(*q.Now)
	}
	f, err := foresight.WhatIf(s, []foresight.Change{change})
	if err != nil {
		return doc, err
	}
	for _, s := range []*kernel.Snapshot{f.Now, f.Then} {
		if asked := s.Probes(); !asked.Empty() {
			return doc, errUnseen
		}
	}
	return answer.ForeseenOf(f, foresight.Story{}, false), nil
}

// follows formats what would follow for people, as the lines of a table or as
// one line.
func (p *Page) follows(doc answer.Foreseen) [][]string {
	if len(doc.Jobs) == 0 {
		return [][]string{{answer.NothingForeseen}}
	}
	cells := doc.Cells(false)
	for _, line := range cells {
		for i := range line {
			line[i] = p.people(line[i])
		}
	}
	return cells
}

// ChangeOf returns the change that stands for an action in row.Can.
func ChangeOf(what string, id kernel.JobID) (foresight.Change, error) {
	switch what {
	case "approve":
		return foresight.Approve{Job: id}, nil
	case "reject":
		return foresight.Reject{Job: id}, nil
	case "cancel":
		return foresight.Cancel{Jobs: []kernel.JobID{id}}, nil
	case "retry":
		return foresight.Retry{Jobs: []kernel.JobID{id}}, nil
	default:
		return nil, fmt.Errorf("%q is no change", what)
	}
}

// Changes returns the possible decisions about the jobs of s that need
// somebody, the longest waiting first. It considers at most most jobs, and
// returns the changes of those for which counts is true.
func Changes(s *kernel.Snapshot, most int, counts func(kernel.JobID) bool) (out []foresight.Change) {
	o := view.OverviewOf(s, view.OverviewOptions{FailedSince: s.Now().Add(-lately)})
	seen := map[kernel.JobID]bool{}
	for _, it := range slices.Concat(o.Attention, o.Failed) {
		j := s.Job(it.Job)
		if j == nil || seen[j.ID] || len(seen) == most {
			continue
		}
		if seen[j.ID] = true; !counts(j.ID) {
			continue
		}
		for _, what := range can(j) {
			if c, err := ChangeOf(what, j.ID); err == nil {
				out = append(out, c)
			}
		}
	}
	return out
}
