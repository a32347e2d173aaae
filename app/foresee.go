package app

import (
	"context"
	"errors"
	"slices"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/foresight"
	"github.com/vizier-scheduler/vizier/kernel/history"
)

// Foresee returns what would follow if changes happened now, in their order. It
// changes nothing and takes no lock. It fails with the error of the verb that a
// change stands for.
func (s *Scheduler) Foresee(ctx context.Context, changes []foresight.Change) (foresight.Forecast, error) {
	var out foresight.Forecast
	var refused error
	look := func(snap *kernel.Snapshot) *kernel.Snapshot {
		snap = s.observe(ctx, snap, foresight.Artifacts(changes)...)
		for range 4 { // a change can raise new questions, which are observed in the next round
			if out, refused = foresight.WhatIf(snap, changes); refused != nil {
				break
			}
			asked := out.Then.Probes()
			if asked.Empty() {
				break
			}
			snap = s.answer(ctx, snap, asked)
		}
		return snap
	}
	if retried := retries(changes); len(retried) > 0 {
		snap, err := s.toRetry(ctx, retried)
		if err == nil {
			look(snap)
		}
		return out, errors.Join(err, refused)
	}
	near := foresight.Near(changes, s.Now())
	for _, c := range changes {
		if c, ok := c.(foresight.Submit); ok { // once a change is such that all open jobs are read, nothing says what else new jobs refer to
			near = append(near, history.Named(history.ScopeOf(c.Jobs))...)
		}
	}
	snap, err := s.Look(ctx, near, look)
	if err == nil && refused == nil && snap.Archived() > 0 && rewinds(snap, out.Then) { // as in transaction.decide
		if snap, err = s.Snapshot(ctx, kernel.Scope{All: true}); err == nil {
			look(snap)
		}
	}
	return out, errors.Join(err, refused)
}

// rewinds reports whether, in then, a job is in a newer generation than in s, or its routes wait for what they would rewind.
func rewinds(s, then *kernel.Snapshot) bool {
	return slices.ContainsFunc(then.Held(), func(j *kernel.Job) bool {
		was := s.Job(j.ID)
		return was != nil && (was.State.Generation < j.State.Generation || j.State.Deferred && !was.State.Deferred)
	})
}

// retries returns the jobs that changes retry.
func retries(changes []foresight.Change) (ids []kernel.JobID) {
	for _, c := range changes {
		if c, ok := c.(foresight.Retry); ok {
			ids = append(ids, c.Jobs...)
		}
	}
	return ids
}

// Observed returns snap, which must hold all jobs, for a front end that runs
// the kernel itself. The facts named by again are observed anew, and the facts
// that the gates of open jobs read are added. It changes nothing.
func (s *Scheduler) Observed(ctx context.Context, snap *kernel.Snapshot, again kernel.Probes) *kernel.Snapshot {
	s.configure()
	if !again.Empty() {
		snap = s.answer(ctx, snap, again)
	}
	return s.observe(ctx, snap)
}

// Foreseeable returns snap with the facts that each of changes depends on, and
// with those that say why the jobs concerned do not run. It changes nothing.
func (s *Scheduler) Foreseeable(ctx context.Context, snap *kernel.Snapshot, changes []foresight.Change) *kernel.Snapshot {
	for _, c := range changes {
		for range 4 {
			f, err := foresight.WhatIf(snap, []foresight.Change{c})
			if err != nil {
				break // the change will fail in the front end as well
			}
			asked := f.Then.Probes()
			if asked.Empty() {
				break
			}
			snap = s.answer(ctx, snap, asked)
		}
	}
	return snap
}

// ForeseeToTheEnd is Foresee continued until nothing more happens by itself.
// Everything that runs or is to run ends as it usually does by the habits that it
// returns. People make no decisions except those in changes. The forecast's Now is
// the present; the story has the end of each job.
func (s *Scheduler) ForeseeToTheEnd(ctx context.Context, changes []foresight.Change) (*foresight.Habits, foresight.Forecast, foresight.Story, error) {
	snap, err := s.toRetry(ctx, retries(changes))
	if err != nil {
		return nil, foresight.Forecast{}, foresight.Story{}, err
	}
	habits := foresight.HabitsOf(snap.Jobs())
	out, err := s.foretell(ctx, snap, changes, foresight.Options{Habits: habits, Draws: 1, Nobody: true})
	if err != nil {
		return nil, foresight.Forecast{}, foresight.Story{}, err
	}
	now, _ := foresight.WhatIf(snap, nil) // without a change, none is refused
	now.Then = out.Story.Then
	return habits, now, out.Story, nil
}

// Bounds of ETAs, so that they cost less than the command that shows them.
const (
	mostForeseen  = 100 // open jobs; with more of them there are no ETAs
	mostRemembers = 100 // how many of the newest jobs the habits are computed from
)

// ETAs returns when the open jobs of snap, which must hold all of them, are
// expected to end; see foresight.ETAs. It observes what their gates depend on.
// It returns none if that would take long, or if how long anything takes could
// only be guessed.
func (s *Scheduler) ETAs(ctx context.Context, snap *kernel.Snapshot) (map[kernel.JobID]foresight.ETA, error) {
	var open []*kernel.Job
	known := true
	for _, j := range snap.Jobs() {
		if j.State.Status.Active() {
			open, known = append(open, j), known && j.Spec.Estimate > 0
		}
	}
	if len(open) == 0 || len(open) > mostForeseen {
		return nil, nil
	}
	habits := foresight.HabitsOf(nil)
	if !known {
		past, err := s.newest(ctx, snap)
		if err != nil {
			return nil, err
		}
		habits = foresight.HabitsOf(past)
	}
	if !slices.ContainsFunc(open, func(j *kernel.Job) bool { basis, _ := habits.Basis(j); return basis > foresight.Guess }) {
		return nil, nil
	}
	s.configure()
	var etas map[kernel.JobID]foresight.ETA
	for range 4 { // an answer may raise further questions
		var asked kernel.Probes
		if etas, asked = foresight.ETAs(snap, habits); asked.Empty() {
			break
		}
		snap = s.answer(ctx, snap, asked)
	}
	return etas, nil
}

// newest returns the newest jobs. It reads those that snap does not hold.
func (s *Scheduler) newest(ctx context.Context, snap *kernel.Snapshot) ([]*kernel.Job, error) {
	ids := s.IDs()
	slices.Sort(ids) // ids grow with time
	var jobs []*kernel.Job
	var others []kernel.JobID
	for _, id := range ids[max(0, len(ids)-mostRemembers):] {
		if j := snap.Job(id); j != nil {
			jobs = append(jobs, j)
		} else {
			others = append(others, id)
		}
	}
	if len(jobs) > 0 && len(others) == 0 {
		return jobs, nil
	}
	rec, err := s.Records(ctx, Only(others)) // all jobs where the store lists no ids
	if err != nil {
		return nil, err
	}
	return append(jobs, rec.Held()...), nil
}

// Foretell draws futures of everything open after changes have happened, and
// returns the habits of ended jobs that they are based on. It changes nothing
// and takes no lock.
func (s *Scheduler) Foretell(ctx context.Context, changes []foresight.Change, o foresight.Options) (*foresight.Habits, foresight.Outlook, error) {
	snap, err := s.Snapshot(ctx, kernel.Scope{All: true})
	if err != nil {
		return nil, foresight.Outlook{}, err
	}
	o.Habits = foresight.HabitsOf(snap.Jobs())
	out, err := s.foretell(ctx, snap, changes, o)
	return o.Habits, out, err
}

// foretell repeats the drawing with the facts that stories asked for.
func (s *Scheduler) foretell(ctx context.Context, snap *kernel.Snapshot, changes []foresight.Change, o foresight.Options) (out foresight.Outlook, err error) {
	snap = s.observe(ctx, snap, foresight.Artifacts(changes)...)
	for range 4 {
		forecast, err := foresight.WhatIf(snap, changes)
		if err != nil {
			return out, err
		}
		asked := forecast.Then.Probes()
		if asked.Attempts = nil; asked.Empty() {
			out = foresight.Foretell(forecast.Then, o)
			asked = out.Story.Then.Probes()
			asked.Attempts = nil
		}
		if asked.Empty() {
			break
		}
		snap = s.answer(ctx, snap, asked)
	}
	return out, nil
}
