package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Finding is one problem that a check found.
type Finding struct {
	Check   string // the name of the check
	Path    string
	Problem string
	Next    string // what a person can do
	Fixed   bool
	Failed  bool // the repair failed, as Problem says

	// Fix repairs the problem; nil: a person has to. It is called with the
	// scheduler lock held.
	Fix func(context.Context) error
}

// Check examines one aspect of a repository. It changes nothing.
type Check struct {
	Name string
	Look func(context.Context, *kernel.Snapshot) ([]Finding, error)

	// Before means that the repairs come before anything is decided, since decisions
	// rest on what they repair.
	Before bool
}

// Examine makes all checks on one state of the world, with the scheduler lock
// held. With fix it makes the repairs that are possible, and ticks in between, which
// settles what a crash left; a failed repair is noted in its finding.
// If a check fails, the failure is a finding. Without fix it only looks, and fails with
// ErrBusy if it does not get the lock soon.
func (s *Scheduler) Examine(ctx context.Context, checks []Check, fix bool) ([]Finding, error) {
	var repaired []Finding
	if fix {
		before := slices.DeleteFunc(slices.Clone(checks), func(c Check) bool { return !c.Before })
		found, err := s.examine(ctx, before, true)
		if err != nil {
			return nil, err
		}
		repaired = slices.DeleteFunc(found, func(f Finding) bool { return !f.Fixed })
		if _, err := s.Tick(ctx); err != nil {
			return nil, fmt.Errorf("tick: %w", err)
		}
	}
	found, err := s.examine(ctx, checks, fix)
	return append(repaired, found...), err
}

func (s *Scheduler) examine(ctx context.Context, checks []Check, fix bool) (found []Finding, err error) {
	within := ctx
	if !fix {
		var stop context.CancelFunc
		within, stop = context.WithTimeout(ctx, lookPatience)
		defer stop()
	}
	tx, err := s.Store.Begin(within)
	if err != nil && within.Err() != nil && ctx.Err() == nil {
		return nil, ErrBusy
	}
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, tx.Close()) }()
	rec, err := tx.Load(kernel.Scope{All: true})
	if err != nil {
		return nil, err
	}
	return s.look(ctx, rec, checks, fix), nil
}

// lookPatience is how long Examine waits for the scheduler lock if it repairs nothing.
const lookPatience = time.Second

// Survey makes all checks on what can be read, without the scheduler lock. It is
// for a store that cannot be brought up to date, such as one on a full disk, or whose lock
// somebody does not let go.
func (s *Scheduler) Survey(ctx context.Context, checks []Check) ([]Finding, error) {
	rec, err := s.Store.Read(ctx, kernel.Scope{All: true})
	if err != nil {
		return nil, err
	}
	return s.look(ctx, rec, checks, false), nil
}

// look makes the checks and, with fix, the repairs.
func (s *Scheduler) look(ctx context.Context, rec kernel.Records, checks []Check, fix bool) (found []Finding) {
	snap := s.observe(ctx, s.fresh(s.Now(), rec))
	for _, c := range checks {
		all, err := c.Look(ctx, snap)
		if err != nil {
			all = append(all, Finding{Problem: "it cannot be looked at: " + err.Error()})
		}
		for _, f := range all {
			f.Check = c.Name
			if fix && f.Fix != nil {
				if err := f.Fix(ctx); err != nil {
					f.Problem += "; the repair failed: " + err.Error()
					f.Failed = true
				} else {
					f.Fixed = true
				}
			}
			found = append(found, f)
		}
	}
	return found
}
