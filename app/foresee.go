package app

import (
	"context"
	"errors"
	"slices"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/foresight"
)

// Foresee says what would follow if changes happened, in their order, to the world as
// it stands. It changes nothing and takes no lock. Errors are those of the verbs that
// a change stands for.
func (s *Scheduler) Foresee(ctx context.Context, changes []foresight.Change) (foresight.Forecast, error) {
	var out foresight.Forecast
	var refused error
	_, err := s.Look(ctx, foresight.Near(changes, s.Now()), func(snap *kernel.Snapshot) *kernel.Snapshot {
		snap = s.observe(ctx, snap)
		for range 4 { // what a change opens reads facts of its own
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
	})
	return out, errors.Join(err, refused)
}

// Observed is snap, of all jobs, for a front end that asks the kernel itself: with what
// again names observed anew, and what open jobs' gates read besides. It changes nothing.
func (s *Scheduler) Observed(ctx context.Context, snap *kernel.Snapshot, again kernel.Probes) *kernel.Snapshot {
	s.configure()
	if !again.Empty() {
		snap = s.answer(ctx, snap, again)
	}
	return s.observe(ctx, snap)
}

// Foreseeable is snap with what tells of each of changes, and why the job that it is about
// does not run. It changes nothing.
func (s *Scheduler) Foreseeable(ctx context.Context, snap *kernel.Snapshot, changes []foresight.Change) *kernel.Snapshot {
	for _, c := range changes {
		for range 4 {
			f, err := foresight.WhatIf(snap, []foresight.Change{c})
			if err != nil {
				break // as it will be there
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

// ForeseeToTheEnd is Foresee carried on until nothing more happens by itself: what runs
// and is to run ends as it usually did. Now is of the world as it stands; the story
// has when each job ends.
func (s *Scheduler) ForeseeToTheEnd(ctx context.Context, changes []foresight.Change) (foresight.Forecast, foresight.Story, error) {
	snap, err := s.Snapshot(ctx, kernel.Scope{All: true})
	if err != nil {
		return foresight.Forecast{}, foresight.Story{}, err
	}
	out, err := s.foretell(ctx, snap, changes, foresight.Options{Habits: foresight.HabitsOf(snap.Jobs()), Draws: 1})
	if err != nil {
		return foresight.Forecast{}, foresight.Story{}, err
	}
	now, err := foresight.WhatIf(snap, nil)
	now.Then = out.Story.Then
	return now, out.Story, err
}

// What ETAs are told of: they cost less than the command that shows them.
const (
	mostForeseen  = 100 // open jobs; of more there are no ETAs
	mostRemembers = 100 // of the newest jobs; what is known of durations is known from these
)

// ETAs are when the open jobs of snap, which has them all, are expected to end; see
// foresight.ETAs. There are none where that would take long.
func (s *Scheduler) ETAs(ctx context.Context, snap *kernel.Snapshot) (map[kernel.JobID]foresight.ETA, error) {
	open, known := 0, true
	for _, j := range snap.Jobs() {
		if j.State.Status.Active() {
			open, known = open+1, known && j.Spec.Estimate > 0
		}
	}
	if open == 0 || open > mostForeseen {
		return nil, nil
	}
	habits := foresight.HabitsOf(nil)
	if !known {
		ids := s.IDs()
		slices.Sort(ids) // they grow with time
		past, err := s.Records(ctx, Only(ids[max(0, len(ids)-mostRemembers):]))
		if err != nil {
			return nil, err
		}
		habits = foresight.HabitsOf(past.Held())
	}
	return foresight.ETAs(snap, habits), nil
}

// Foretell draws how everything open goes on once changes have happened. What
// is known of how long that takes are the habits of what has ended. It changes
// nothing and takes no lock.
func (s *Scheduler) Foretell(ctx context.Context, changes []foresight.Change, o foresight.Options) (*foresight.Habits, foresight.Outlook, error) {
	snap, err := s.Snapshot(ctx, kernel.Scope{All: true})
	if err != nil {
		return nil, foresight.Outlook{}, err
	}
	o.Habits = foresight.HabitsOf(snap.Jobs())
	out, err := s.foretell(ctx, snap, changes, o)
	return o.Habits, out, err
}

// foretell asks the world again for what stories come across.
func (s *Scheduler) foretell(ctx context.Context, snap *kernel.Snapshot, changes []foresight.Change, o foresight.Options) (out foresight.Outlook, err error) {
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
