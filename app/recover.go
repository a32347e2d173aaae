package app

import (
	"context"
	"errors"
	"fmt"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/history"
)

// recover performs again the world actions that an earlier transaction committed
// and did not complete. What fails of them is in rep, except for launches, of which the
// records tell.
func (s *Scheduler) recover(ctx context.Context, tx Tx, left []kernel.WorldAction, rep *Report) error {
	scope := kernel.Scope{}
	for _, a := range left {
		scope.Jobs = append(scope.Jobs, a.Subject())
	}
	rec, err := tx.Load(scope)
	if err != nil {
		return fmt.Errorf("recover: %w", err)
	}
	now := s.Now()
	t := transaction{s: s, tx: tx, now: now, rep: &Report{}, base: s.fresh(now, rec), redo: true}
	t.snap = t.base
	defer t.tell()
	if err := t.perform(ctx, left); err != nil {
		return fmt.Errorf("recover: %w", err)
	}
	if t.plan.Empty() { // there are no results to be committed first
		err = tx.Done()
	} else {
		err = errors.Join(t.flush(ctx), t.rep.Late)
	}
	if err != nil {
		return fmt.Errorf("recover: %w", err)
	}
	for _, a := range left {
		if _, is := a.(kernel.Launch); is {
			delete(t.rep.Refused, a.Subject())
		}
	}
	rep.Refused = t.rep.Refused
	return nil
}

// number gives numbers to the jobs of a store that is older than numbers, and loads
// scope again. If no job lacks a number, it returns every job instead: only the jobs
// tell what the last number is.
func (t *transaction) number(scope kernel.Scope) (kernel.Scope, kernel.Records, error) {
	all := kernel.Scope{All: true, Reads: scope.Reads}
	rec, err := t.tx.Load(all)
	if err != nil {
		return scope, rec, err
	}
	plan := kernel.NumberAll(t.s.snapshot(t.now, rec, all))
	if plan.Empty() {
		t.all = true
		return all, rec, nil
	}
	t.account(history.Account{At: t.now, Limits: t.s.Limits, Unreadable: rec.Unreadable,
		Steps: []history.Step{{Verb: history.Number{}, Seen: history.SeenAll}}})
	if err := t.tx.Commit(plan); err != nil {
		return scope, rec, err
	}
	rec, err = t.tx.Load(scope)
	return scope, rec, err
}

// enforce ends the attempts whose time limits are long over; the tick then settles
// them. An attempt that cannot be ended goes on, and the report says why.
func (t *transaction) enforce(ctx context.Context) {
	late := t.snap.Overdue()
	force, can := t.s.Executor.(enforcer)
	if len(late) == 0 || !can {
		return
	}
	f := kernel.NewFacts()
	for _, a := range late {
		ended, err := force.Enforce(ctx, a)
		t.rep.warn(a.Job, err)
		if ended {
			f.Runners[a] = kernel.Seen(kernel.Runner{Liveness: kernel.Dead, Late: true})
		}
	}
	for _, o := range t.s.Observers { // once more, since an attempt may have recorded its result meanwhile
		o.Observe(ctx, kernel.Probes{Attempts: late}, &f)
	}
	t.snap = t.snap.WithFacts(f)
}

// commitDeferred commits the plan so far, but performs none of its world actions. These
// stay on record with those that were there before: the next holder of the lock treats
// them like actions that a crash cut short, and performs them.
func (t *transaction) commitDeferred() error {
	if t.plan.Empty() {
		return nil
	}
	t.left = append(t.left[:len(t.left):len(t.left)], t.plan.World...)
	plan := t.plan
	plan.World = t.left
	t.carried = len(t.left) - len(t.plan.World)
	err := t.commit(plan)
	if errors.Is(err, kernel.ErrRecorded) {
		t.rep.Late = err
		return nil
	}
	return err
}
