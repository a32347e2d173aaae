package page

import (
	"cmp"
	"reflect"
	"slices"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/view"
)

// stand is the overall state, or the part of it that was not returned before.
type stand struct {
	Repository string         `json:"repository"`
	Now        time.Time      `json:"now"`
	Actions    bool           `json:"actions"`   // the server takes actions
	Attention  []view.Item    `json:"attention"` // the first of the items that need somebody
	Needing    int            `json:"needing"`   // the number of items that need somebody
	Runs       []view.Run     `json:"runs"`      // null: unchanged
	Outcome    string         `json:"outcome"`
	Jobs       []row          `json:"jobs"`
	Gone       []kernel.JobID `json:"gone"`
}

// row is a job of the list.
type row struct {
	Job    kernel.JobID `json:"job"`
	Run    kernel.RunID `json:"run,omitempty"`
	Ref    string       `json:"ref"`
	Name   string       `json:"name"`
	Status string       `json:"status"`
	Short  string       `json:"short"`
	Sign   string       `json:"sign"`
	What   string       `json:"what,omitempty"` // what it waits for, how far it is, or why it ended
	Tags   string       `json:"tags,omitempty"`
	Since  *time.Time   `json:"since,omitempty"`
	Took   int64        `json:"took_seconds,omitempty"`
	Can    []string     `json:"can,omitempty"` // actions that people may take
	At     *int         `json:"at,omitempty"`  // of a new row: its index in the list; only if News is set
}

// Bounds of the top of the page: the age of failures, and the number of items
// that need somebody.
const (
	lately   = 24 * time.Hour
	mostNeed = 50
)

// stand returns the overall state, or with news only what was not returned
// before.
func (p *Page) stand(news bool) stand {
	s := p.snap
	wholes := map[kernel.Number]kernel.Tally{}
	of := map[kernel.Number][]*kernel.Job{}
	for _, j := range s.Jobs() {
		if j.Part != "" {
			of[j.Number] = append(of[j.Number], j)
		}
	}
	for n, jobs := range of {
		wholes[n] = s.Tally(jobs)
	}
	needs := view.OverviewOf(s, view.OverviewOptions{FailedSince: s.Now().Add(-lately), Wholes: wholes}).Attention
	out := stand{Repository: p.repository, Actions: p.actions, Now: s.Now(), Runs: view.RunsOf(s), Attention: needs[:min(len(needs), mostNeed)], Needing: len(needs),
		Outcome: view.ListOf(s, view.ListOptions{All: true, Most: 1}).Outcome, Jobs: []row{}, Gone: []kernel.JobID{}}
	for i := range out.Attention {
		it := &out.Attention[i]
		it.What = p.people(it.What)
		for k, word := range it.Command {
			it.Command[k] = p.people(word)
		}
	}
	for i := range out.Runs {
		out.Runs[i].Jobs = nil
	}
	if news && p.rows != nil && reflect.DeepEqual(out.Runs, p.runs) {
		out.Runs = nil
	} else {
		p.runs = out.Runs
	}
	if !news {
		p.rows = nil
	}
	p.list(&out)
	p.whole, p.moved = false, nil
	return out
}

// list adds the rows that have changed since they were last returned, in the
// order of the list.
func (p *Page) list(out *stand) {
	jobs, first := p.snap.Jobs(), p.rows == nil
	if first {
		p.rows = make(map[kernel.JobID]row, len(jobs))
	}
	for i, j := range slices.Backward(jobs) {
		if !first && !p.whole && !p.moved[j.ID] && j.State.Status != kernel.Running && j.State.Failure != kernel.RateLimited {
			continue // see view.RowOf
		}
		at, told := p.rows[j.ID]
		now := p.row(j)
		if told && reflect.DeepEqual(at, now) {
			continue
		}
		p.rows[j.ID] = now
		if place := len(jobs) - 1 - i; !told && !first {
			now.At = &place
		}
		out.Jobs = append(out.Jobs, now)
	}
	if len(p.rows) > len(jobs) {
		for id := range p.rows {
			if p.snap.Job(id) == nil {
				delete(p.rows, id)
				out.Gone = append(out.Gone, id)
			}
		}
		slices.Sort(out.Gone)
	}
}

// row returns the row of a job.
func (p *Page) row(j *kernel.Job) row {
	s, st, listed := p.snap, &j.State, view.RowOf(p.snap, j)
	out := row{Job: j.ID, Run: j.Spec.Origin.Run, Ref: cmp.Or(j.Ref(), string(j.ID)), Name: view.Title(j), Status: view.Standing(s, j),
		Short: view.ShortStatus(st.Status), Sign: view.Sign(st.Status.String()), What: p.people(listed.Text("wait")), Tags: listed.Text("tags"), Can: can(j)}
	switch {
	case st.Status == kernel.Running:
		out.What = p.people(view.Going(s, j, p.progress[j.ID]))
	case st.Status.Terminal() && st.Status != kernel.Succeeded:
		out.What = p.people(j.WhyEnded(s.Now()))
	}
	if since := cmp.Or(st.Finished, st.Started, st.WaitSince, j.Created); !since.IsZero() {
		out.Since = &since
	}
	if !st.Started.IsZero() && st.Finished.After(st.Started) {
		out.Took = int64(st.Finished.Sub(st.Started) / time.Second)
	}
	return out
}
