package app

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/event"
)

// transact is a transaction, after which the ephemeral runs go that it ended.
func (s *Scheduler) transact(ctx context.Context, scope kernel.Scope, verbs ...verb) (Report, error) {
	rep, err := s.through(ctx, scope, verbs...)
	if err == nil && !s.Sandboxed {
		s.tidy(ctx, &rep)
	}
	return rep, err
}

// through is the one place where plans meet the world. It takes the scheduler
// lock, sees to what a crash left undone, lets each verb and at last a tick
// decide on the snapshot that those before it lead to, commits the whole as one
// plan and then does its actions on the world.
//
// If the process dies before the commit, nothing has happened. If it dies
// after, the store completes the records and the next holder of the lock does
// the remaining actions again.
func (s *Scheduler) through(ctx context.Context, scope kernel.Scope, verbs ...verb) (rep Report, err error) {
	tx, err := s.Store.Begin(ctx)
	if err != nil {
		return rep, err
	}
	defer func() {
		closed := tx.Close()
		if closed != nil && err == nil && len(rep.Applied) > 0 { // what is done stays done
			rep.Late, closed = errors.Join(rep.Late, closed), nil
		}
		if err = errors.Join(err, closed); err == nil && s.Lookout != nil {
			s.Lookout.Call(rep.Snapshot.Wakes())
		}
		if s.Hooks != nil && !s.Sandboxed {
			s.Hooks.Call()
		}
	}()
	left := tx.Unfinished()
	if len(left) > 0 && !s.Sandboxed {
		if err := s.recover(ctx, tx, left); err != nil {
			return rep, err
		}
	}
	base, err := s.load(tx, scope)
	if err != nil {
		return rep, err
	}
	t := transaction{s: s, tx: tx, rep: &rep, base: base, left: left}
	t.snap = t.base
	defer t.tell()
	if !s.Sandboxed {
		verbs = append(verbs, t.tick)
	}
	for _, v := range verbs {
		plan, err := t.decide(ctx, v)
		if err != nil {
			return rep, err
		}
		t.plan = t.plan.Then(plan)
		t.snap = t.snap.Apply(plan)
		if has[kernel.RemoveWorktree](plan) { // its outcome decides what the next verb may start
			if err := t.flush(ctx); err != nil {
				return rep, err
			}
			if rep.Late != nil { // nothing more can be done
				return rep, rep.Late
			}
		}
	}
	err = t.flush(ctx)
	rep.Snapshot = t.snap
	if err == nil && rep.Late == nil {
		s.last = t.base.Remember(t.ticked)
	}
	return rep, err
}

// load is the snapshot of what the store holds. A process that has seen the
// store before follows what changed since, which costs nothing where nothing
// did.
func (s *Scheduler) load(tx Tx, scope kernel.Scope) (*kernel.Snapshot, error) {
	last := s.last
	s.last = nil // until this transaction is through, nothing is known
	if last != nil && covers(last, scope) {
		if c, ok := tx.Changes(); ok {
			if next, ok := last.Follow(s.Now(), c); ok {
				return next, nil
			}
		}
	}
	rec, err := tx.Load(scope)
	if err != nil {
		return nil, err
	}
	return s.fresh(rec), nil
}

func covers(s *kernel.Snapshot, scope kernel.Scope) bool {
	for _, id := range scope.Jobs {
		if s.Job(id) == nil {
			return false
		}
	}
	return !scope.All && len(scope.Artifacts) == 0 && len(scope.Keys) == 0
}

// transaction is one transact under way.
type transaction struct {
	s    *Scheduler
	tx   Tx
	rep  *Report
	base *kernel.Snapshot // as the store has it
	snap *kernel.Snapshot // as the plan so far leaves it
	plan kernel.Plan      // decided, not yet committed

	ticked *kernel.Baseline
	left   []kernel.WorldAction // of a sandboxed scheduler: what others are to do

	events []kernel.Event // of what is committed
}

// tick is the last verb of every transaction.
func (t *transaction) tick(s *kernel.Snapshot) (plan kernel.Plan, err error) {
	plan, t.ticked = kernel.Tick(s)
	return plan, nil
}

// tell appends what has happened to the event log, before the lock is free for
// others to make more happen. It may fail: the records tell what counts.
func (t *transaction) tell() {
	if t.s.Events != nil && len(t.events) > 0 {
		_ = t.s.Events.AppendEvents(t.events)
	}
}

// decide observes and asks v. A rewind takes along what hangs on its root,
// whatever became of it, so a plan with one is decided on every job there is.
func (t *transaction) decide(ctx context.Context, v verb) (kernel.Plan, error) {
	t.snap = t.s.observe(ctx, t.snap)
	if news := t.snap.Submissions(); len(news) > 0 && !t.s.Sandboxed {
		if err := t.widen(ctx); err != nil {
			return kernel.Plan{}, err
		}
		t.snap = t.s.observe(ctx, t.snap, scopeOf(news).Artifacts...)
		settled := kernel.Settle(t.snap)
		t.plan = t.plan.Then(settled)
		t.snap = t.s.observe(ctx, t.snap.Apply(settled))
	}
	plan, err := v(t.snap)
	if err != nil || t.snap.Archived() == 0 || !has[kernel.Reset](plan) {
		return plan, err
	}
	if err := t.widen(ctx); err != nil {
		return kernel.Plan{}, err
	}
	return v(t.snap)
}

// widen loads every job there is.
func (t *transaction) widen(ctx context.Context) error {
	rec, err := t.tx.Load(kernel.Scope{All: true})
	if err != nil {
		return err
	}
	t.base = t.s.fresh(rec)
	t.snap = t.s.observe(ctx, t.base.Apply(t.plan))
	return nil
}

// flush commits the plan so far and does its actions on the world. What comes
// back from them (a refused launch, a degraded cleanup) is committed as well,
// and before they are forgotten: after a crash in between they are done again,
// and answer again. So whatever goes wrong once something is committed is left
// to the next transaction, and told as Late: an error means that nothing
// happened.
func (t *transaction) flush(ctx context.Context) error {
	if t.s.Sandboxed {
		return t.leave()
	}
	for committed := false; !t.plan.Empty(); committed = true {
		plan := t.plan
		t.plan = kernel.Plan{}
		err := t.commit(plan)
		if err != nil && !committed && !errors.Is(err, kernel.ErrRecorded) {
			return fmt.Errorf("commit: %w", err)
		}
		if err == nil {
			for _, a := range plan.World {
				t.rep.Applied = append(t.rep.Applied, a)
			}
			if t.plan = t.perform(ctx, plan.World); !t.plan.Empty() {
				continue // what came back is not lost: the plan is done once that is committed
			}
			err = t.tx.Done()
		}
		if err != nil {
			t.snap = t.base.WithFacts(t.snap.Facts())
			t.rep.Late = fmt.Errorf("%w (%w)", kernel.ErrRecorded, err)
			return nil
		}
	}
	return nil
}

// leave commits the plan so far. Its actions on the world stay on record, with
// those that were there before: the next holder of the lock takes them for what
// a crash cut short, and does them.
func (t *transaction) leave() error {
	if t.plan.Empty() {
		return nil
	}
	t.left = append(t.left[:len(t.left):len(t.left)], t.plan.World...)
	plan := t.plan
	t.plan, plan.World = kernel.Plan{}, t.left
	err := t.commit(plan)
	if errors.Is(err, kernel.ErrRecorded) {
		t.rep.Late = err
		return nil
	}
	return err
}

// commit makes plan durable. Where it is, if only on record, the transaction
// goes on from there.
func (t *transaction) commit(plan kernel.Plan) error {
	after := t.base.Apply(plan)
	events := event.Of(t.base, after, plan)
	plan = t.s.announced(plan, events)
	err := t.tx.Commit(plan)
	if err != nil && !errors.Is(err, kernel.ErrRecorded) {
		return err
	}
	if t.rep.Decisions == nil { // there is one for every job that waits
		t.rep.Decisions = slices.Clip(plan.Decisions)
	} else {
		t.rep.Decisions = append(t.rep.Decisions, plan.Decisions...)
	}
	for _, a := range plan.Records {
		t.rep.Applied = append(t.rep.Applied, a)
	}
	t.base = after
	t.events = append(t.events, events...)
	t.snap = t.base.WithFacts(t.snap.Facts())
	return err
}

// recover does again what an earlier transaction committed and did not see
// through.
func (s *Scheduler) recover(ctx context.Context, tx Tx, left []kernel.WorldAction) error {
	scope := kernel.Scope{}
	for _, a := range left {
		scope.Jobs = append(scope.Jobs, a.Subject())
	}
	s.last = nil // what changed since is told once, and this load hears it
	rec, err := tx.Load(scope)
	if err != nil {
		return fmt.Errorf("recover: %w", err)
	}
	t := transaction{s: s, tx: tx, rep: &Report{}, base: s.fresh(rec)}
	t.snap = t.base
	t.plan = t.perform(ctx, left)
	defer t.tell()
	if err := errors.Join(t.flush(ctx), t.rep.Late); err != nil {
		return fmt.Errorf("recover: %w", err)
	}
	return nil
}

func has[A kernel.Action](p kernel.Plan) bool {
	return slices.ContainsFunc(p.Actions(), func(a kernel.Action) bool { _, ok := a.(A); return ok })
}
