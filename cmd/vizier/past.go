package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/vizier-scheduler/vizier"
	"github.com/vizier-scheduler/vizier/adapters/fs"
	"github.com/vizier-scheduler/vizier/app"
	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/view"
)

// goBack makes repo open the repository as it was at a time or after an entry
// of the history; nil: as it is.
func (c *call) goBack(at *string) error {
	if at == nil {
		return nil
	}
	r, err := c.repo()
	if err != nil {
		return err
	}
	when, err := c.moment(*at, r.Scheduler.Now())
	if err != nil {
		return err
	}
	scheduler, err := r.At(c.ctx, when)
	if errors.Is(err, kernel.ErrNotFound) {
		return &failure{class: classify(err), err: err, hint: "vizier history"}
	}
	if err != nil {
		return err
	}
	r.Scheduler = scheduler
	r.Progress = func(kernel.AttemptID) view.Progress { return view.Progress{} }
	r.Attempts = attemptsBy(r.Attempts, scheduler)
	r.Inbox, r.Untrusted, r.Neighbour = nil, nil, nil
	r.Resident, r.Hindrance, r.Attended = func() int { return 0 }, func() vizier.Hindrance { return vizier.Hindrance{} }, func() bool { return true }
	c.past = r
	c.ui.refs.read, c.ui.now = c.reader(scheduler), scheduler.Now
	return nil
}

// moment parses at: a time as --since takes it, an entry number as history
// prints it, or now.
func (c *call) moment(at string, now time.Time) (fs.Moment, error) {
	switch at {
	case "now":
		return fs.Moment{}, nil
	case "":
		return fs.Moment{}, usageError(errors.New("--at is empty: leave it out to see the present"))
	}
	if n, err := strconv.ParseUint(at, 10, 64); err == nil {
		if n == 0 {
			return fs.Moment{}, usageError(errors.New("--at 0: entries are counted from 1"))
		}
		return fs.Moment{Entry: n}, nil
	}
	when, err := c.since(at, now)
	if err != nil {
		return fs.Moment{}, usageError(fmt.Errorf("--at %s: expected %s", at, expected("entry")))
	}
	if when.After(now) {
		return fs.Moment{}, usageError(fmt.Errorf("--at %s is in the future: `vizier what-if` and `vizier simulate` look ahead", at))
	}
	return fs.Moment{Time: when}, nil
}

// attemptsBy returns a function that returns the attempts that a job had by the
// time of s. An attempt that continued after that has no end.
func attemptsBy(attempts func(kernel.JobID) ([]kernel.Result, error), s *app.Scheduler) func(kernel.JobID) ([]kernel.Result, error) {
	return func(id kernel.JobID) ([]kernel.Result, error) {
		all, err := attempts(id)
		if err != nil {
			return nil, err
		}
		snap, err := s.Records(context.Background(), app.Only([]kernel.JobID{id}))
		if err != nil {
			return nil, err
		}
		var out []kernel.Result
		for _, a := range all {
			if j := snap.Job(id); j == nil || a.Attempt.N > j.State.Attempt {
				continue
			}
			if a.Ended.After(snap.Now()) {
				a = kernel.Result{Attempt: a.Attempt, Place: a.Place, Started: a.Started}
			}
			out = append(out, a)
		}
		return out, nil
	}
}
