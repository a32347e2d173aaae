package main

import (
	"context"
	"path/filepath"
	"reflect"
	"slices"
	"time"

	"github.com/vizier-scheduler/vizier"
	"github.com/vizier-scheduler/vizier/adapters/fs"
	"github.com/vizier-scheduler/vizier/app"
	"github.com/vizier-scheduler/vizier/app/wire"
	"github.com/vizier-scheduler/vizier/cmd/vizier-web/page"
	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/view"
)

// book is the current state of a repository, and its recent changes. It reads
// each change once, however many pages ask. It must be used by one caller at a
// time.
type book struct {
	r *vizier.Repository

	snap    *kernel.Snapshot // of all jobs
	at      fs.JournalOffset
	read    time.Time // when everything was last read
	version uint64
	steps   []step // the latest steps; the last one led to version
}

// step is the difference between a version and the one before.
type step struct {
	jobs  []kernel.JobID // jobs that changed, are new or are gone
	asked kernel.Probes  // probes whose answers changed
}

// Bounds of what is kept; and how often everything is read again, to find changes
// that are not reported: a record that was edited by hand, a branch that moved, a
// runner that is gone.
const (
	mostSteps = 64
	oldest    = 20 * time.Second
	mostAsked = 20 // how many of the jobs that need a person are prepared for questions about decisions
)

func newBook(r *vizier.Repository) *book { return &book{r: r} }

// State returns the state for a page that has version have; 0: none.
func (b *book) State(ctx context.Context, have uint64) (page.State, error) {
	if err := b.look(ctx); err != nil {
		return page.State{}, err
	}
	out := page.State{Repository: filepath.Base(b.r.Root), Version: b.version, Progress: b.progress()}
	if missed := b.version - have; have == 0 || have > b.version || missed > uint64(len(b.steps)) {
		taken := wire.Taken(b.snap)
		out.Snapshot = &taken
	} else {
		out.Change = b.since(have)
	}
	return out, nil
}

// progress returns what running jobs report of how far they are.
func (b *book) progress() map[kernel.JobID]view.Progress {
	out := map[kernel.JobID]view.Progress{}
	for _, j := range b.snap.Jobs() {
		if j.State.Status != kernel.Running {
			continue
		}
		if p := b.r.Store.Progress(j.Attempt()); !p.Empty() {
			out[j.ID] = p
		}
	}
	return out
}

// since returns the change from a version to the latest.
func (b *book) since(have uint64) *page.Change {
	s := b.snap
	c := &page.Change{From: have, Now: s.Now(), Limits: s.Limits(), Unreadable: unreadable(s)}
	var ids []kernel.JobID
	for _, st := range b.steps[len(b.steps)-int(b.version-have):] {
		ids = append(ids, st.jobs...)
		c.Asked = page.Both(c.Asked, st.asked)
	}
	slices.Sort(ids)
	for _, id := range slices.Compact(ids) {
		if j := s.Job(id); j != nil {
			c.Jobs = append(c.Jobs, *j)
		} else {
			c.Gone = append(c.Gone, id)
		}
	}
	c.Facts = page.Answers(s.Facts(), c.Asked)
	return c
}

// look updates the book.
func (b *book) look(ctx context.Context) error {
	b.r.Refresh()
	ids, at, told := b.r.Store.Changed(b.at)
	began, was, facts := time.Now(), b.snap, kernel.Facts{}
	all := was == nil || !told || began.Sub(b.read) > oldest
	scope := kernel.Scope{All: true}
	if !all {
		if len(ids) == 0 {
			b.snap = was.At(b.r.Scheduler.Now())
			return nil
		}
		scope, facts = app.Only(ids), was.Facts()
	}
	next, err := b.r.Scheduler.Records(ctx, scope)
	if err != nil {
		return err
	}
	if !all {
		next, _ = changed(was, next, ids).After(was)
	}
	next = b.r.Scheduler.Observed(ctx, next, anew(facts, ids))
	changes := page.Changes(next, mostAsked, func(id kernel.JobID) bool { return all || slices.Contains(ids, id) }) // the facts about the other jobs were observed before
	next = b.r.Scheduler.Foreseeable(ctx, next, changes)
	if all {
		ids = differing(was, next)
		b.read = began
	}
	b.snap, b.at, b.version = next, at, b.version+1
	if was != nil {
		b.steps = append(b.steps, step{ids, page.Differing(was.Facts(), next.Facts())})
		b.steps = b.steps[max(0, len(b.steps)-mostSteps):]
	}
	return nil
}

// changed returns the change given by the records of some jobs.
func changed(was, got *kernel.Snapshot, ids []kernel.JobID) *page.Change {
	c := &page.Change{Now: got.Now(), Limits: got.Limits(), Unreadable: unreadable(got), Facts: page.Answers(was.Facts(), kernel.Probes{})}
	for _, id := range ids {
		if j := got.Job(id); j != nil {
			c.Jobs = append(c.Jobs, *j)
		} else {
			c.Gone = append(c.Gone, id)
		}
	}
	return c
}

// anew returns the probes whose answers may differ after jobs changed:
// everything in facts except for the runners of other jobs.
func anew(facts kernel.Facts, ids []kernel.JobID) kernel.Probes {
	p := page.Asked(facts)
	p.Attempts = slices.DeleteFunc(p.Attempts, func(a kernel.AttemptID) bool { return !slices.Contains(ids, a.Job) })
	return p
}

// differing returns the jobs that differ between two snapshots.
func differing(was, now *kernel.Snapshot) (ids []kernel.JobID) {
	if was == nil {
		return nil
	}
	for _, j := range now.Jobs() {
		if have := was.Job(j.ID); have == nil || !reflect.DeepEqual(have, j) {
			ids = append(ids, j.ID)
		}
	}
	for _, j := range was.Jobs() {
		if now.Job(j.ID) == nil {
			ids = append(ids, j.ID)
		}
	}
	return ids
}

func unreadable(s *kernel.Snapshot) map[kernel.JobID]string {
	out := map[kernel.JobID]string{}
	for _, id := range s.UnreadableIDs() {
		out[id] = s.Unreadable(id)
	}
	return out
}
