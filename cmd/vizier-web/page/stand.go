package page

import (
	"cmp"
	"reflect"
	"slices"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/view"
)

// stand is how everything stands, or what of that was not told before.
type stand struct {
	Repository string         `json:"repository"`
	Now        time.Time      `json:"now"`
	Attention  []view.Item    `json:"attention"` // the first of what needs somebody
	Needing    int            `json:"needing"`   // how much that is
	Runs       []view.Run     `json:"runs"`      // null: as they were told
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
	What   string       `json:"what,omitempty"` // what it waits for, or why it ended
	Tags   string       `json:"tags,omitempty"`
	Since  *time.Time   `json:"since,omitempty"`
	Took   int64        `json:"took_seconds,omitempty"`
	Can    []string     `json:"can,omitempty"` // what may be asked for
	At     *int         `json:"at,omitempty"`  // of news, where it is new: its place in the list
}

// Bounds of what is shown on top: how long what failed is, and how much of what needs somebody.
const (
	lately   = 24 * time.Hour
	mostNeed = 50
)

// stand tells how everything stands; of news only what has not been told.
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
	out := stand{Repository: p.repository, Now: s.Now(), Runs: view.RunsOf(s), Attention: needs[:min(len(needs), mostNeed)], Needing: len(needs),
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

// list adds the rows that are not as they were told, in the order of the list.
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

// row is the row of a job.
func (p *Page) row(j *kernel.Job) row {
	s, st, listed := p.snap, &j.State, view.RowOf(p.snap, j)
	out := row{Job: j.ID, Run: j.Spec.Origin.Run, Ref: cmp.Or(j.Ref(), string(j.ID)), Name: view.Title(j), Status: view.Standing(s, j),
		Short: view.ShortStatus(st.Status), Sign: view.Sign(st.Status.String()), What: p.people(listed.Text("wait")), Tags: listed.Text("tags"), Can: can(j)}
	if st.Status.Terminal() && st.Status != kernel.Succeeded {
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
