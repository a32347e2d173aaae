package app

import (
	"context"
	"errors"
	"fmt"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Finding is one thing that is not as it should be.
type Finding struct {
	Check   string // which check found it
	Path    string
	Problem string
	Next    string // what a person can do
	Fixed   bool

	// Fix repairs it; nil: a person has to. It is called with the scheduler
	// lock held.
	Fix func(context.Context) error
}

// Check looks at one side of a repository. It changes nothing.
type Check struct {
	Name string
	Look func(context.Context, *kernel.Snapshot) ([]Finding, error)
}

// Examine makes every check on one state of the world, the scheduler lock held.
// With fix it ticks first, which settles what a crash left, and then repairs
// what can be; a repair that fails is told in its finding. A check that cannot
// look is a finding itself.
func (s *Scheduler) Examine(ctx context.Context, checks []Check, fix bool) (found []Finding, err error) {
	if fix {
		if _, err := s.Tick(ctx); err != nil {
			return nil, fmt.Errorf("tick: %w", err)
		}
	}
	tx, err := s.Store.Begin(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, tx.Close()) }()
	rec, err := tx.Load(kernel.Scope{All: true})
	if err != nil {
		return nil, err
	}
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
				} else {
					f.Fixed = true
				}
			}
			found = append(found, f)
		}
	}
	return found, nil
}
