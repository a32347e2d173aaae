package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/view"
)

// row is a line of the tree: a run or a batch, one of its jobs, or a job by itself.
type row struct {
	key    string // identifies the row; never changes
	ref    string
	name   string
	status string // in the words of records and of runs
	done   string // of a run: 4/15
	note   string // what ls says of it: how far it is, why it waits or failed
	took   time.Duration
	whole  bool // a run or a batch
	inside bool // a job of a run or a batch
	needs  bool // a job that needs a person
	jobs   []*kernel.Job
}

// job returns the job whose logs a row shows. For a run, that is the running
// one or else the one that began last.
func (r *row) job() *kernel.Job {
	var best *kernel.Job
	for _, j := range r.jobs {
		if best == nil || later(j, best) {
			best = j
		}
	}
	return best
}

func later(a, b *kernel.Job) bool {
	if ra, rb := a.State.Status == kernel.Running, b.State.Status == kernel.Running; ra != rb {
		return ra
	}
	return a.State.Started.After(b.State.Started)
}

// filter selects the rows that are shown.
type filter int

const (
	everything filter = iota
	open
	needsPerson
	failed
	filters
)

func (f filter) String() string { return [...]string{"all", "open", "need you", "failed"}[f] }

// shows reports whether a row with these jobs is shown.
func (f filter) shows(s *kernel.Snapshot, jobs []*kernel.Job) bool {
	return slices.ContainsFunc(jobs, func(j *kernel.Job) bool {
		switch f {
		case open:
			return j.State.Status.Active()
		case needsPerson:
			return view.NeedsYou(s, j)
		case failed:
			return view.EndedBadly(j)
		default:
			return true
		}
	})
}

// rowsOf returns the rows of the tree, newest first. folded says of which runs the
// jobs are hidden. By default, they are shown if the run is open, or if there is a
// filter or a search.
func rowsOf(s *kernel.Snapshot, said progress, folded map[string]bool, f filter, search string) (out []row) {
	groups := map[string][]*kernel.Job{}
	var order []string
	for _, j := range s.Jobs() {
		key := string(j.Spec.Origin.Run)
		if key == "" && j.Number != 0 {
			key = j.Number.String()
		}
		if key == "" {
			key = string(j.ID)
		}
		if groups[key] == nil {
			order = append(order, key)
		}
		groups[key] = append(groups[key], j)
	}
	for _, key := range slices.Backward(order) {
		jobs := groups[key]
		if !f.shows(s, jobs) {
			continue
		}
		if len(jobs) == 1 && jobs[0].Part == "" {
			if r := jobRow(s, jobs[0], said, false); r.matches(search) {
				out = append(out, r)
			}
			continue
		}
		run := view.RunOf(s, jobs)
		head := row{key: key, ref: run.Ref, name: run.Name, status: run.Status, done: run.Progress(), whole: true, jobs: jobs, took: age(s, jobs)}
		var inside []row
		for _, j := range jobs {
			if r := jobRow(s, j, said, true); j.State.Status != kernel.Unscheduled && f.shows(s, []*kernel.Job{j}) && (search == "" || head.matches(search) || r.matches(search)) {
				inside = append(inside, r)
			}
		}
		if search != "" && !head.matches(search) && len(inside) == 0 {
			continue
		}
		fold, said := folded[key]
		if !said {
			fold = search == "" && f == everything && !open.shows(s, jobs)
		}
		if out = append(out, head); !fold {
			out = append(out, inside...)
		}
	}
	return out
}

func jobRow(s *kernel.Snapshot, j *kernel.Job, said progress, inside bool) row {
	l := view.LineOf(s, j, said.of)
	r := row{key: string(j.ID), ref: j.Ref(), name: l.Name, status: view.Standing(s, j), inside: inside, needs: view.NeedsYou(s, j), jobs: []*kernel.Job{j}, took: l.For}
	if inside && j.Part != "" {
		r.ref = "/" + j.Part
	}
	if r.ref == "" {
		r.ref = string(j.ID)[:8]
	}
	r.note = view.People(s, l.Says(s.Now().Local()))
	return r
}

// age returns how long the jobs of a run have been running, or have been waiting in the queues of
// executors, or how long they took together.
func age(s *kernel.Snapshot, jobs []*kernel.Job) time.Duration {
	var from, to time.Time
	for _, j := range jobs {
		st := &j.State
		if began := cmp.Or(s.Began(j), st.Started); !began.IsZero() && (from.IsZero() || began.Before(from)) {
			from = began
		}
		if st.Status == kernel.Running {
			to = s.Now()
		} else if st.Finished.After(to) {
			to = st.Finished
		}
	}
	if from.IsZero() || to.Before(from) {
		return 0
	}
	return to.Sub(from)
}

func (r *row) matches(search string) bool {
	return search == "" || strings.Contains(strings.ToLower(r.ref+" "+r.name+" "+r.status+" "+r.short()), strings.ToLower(search))
}

// counts returns a summary of all jobs in a few words.
func counts(s *kernel.Snapshot) string {
	need, run, submitted, wait, fail := 0, 0, 0, 0, 0
	for _, j := range s.Jobs() {
		switch st := j.State.Status; {
		case needsPerson.shows(s, []*kernel.Job{j}):
			need++
		case s.Submitted(j.ID):
			submitted++
		case st == kernel.Running:
			run++
		case st.Active():
			wait++
		case st == kernel.Failed:
			fail++
		}
	}
	text := fmt.Sprintf("%d running, ", run)
	if submitted > 0 {
		text += fmt.Sprintf("%d %s, ", submitted, view.Submitted)
	}
	text += fmt.Sprintf("%d waiting, %d failed", wait, fail)
	if need > 0 {
		verb := "need"
		if need == 1 {
			verb = "needs"
		}
		text = fmt.Sprintf("%d %s you, ", need, verb) + text
	}
	return text
}
