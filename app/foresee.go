package app

import (
	"context"
	"errors"

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
