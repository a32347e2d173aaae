package app

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/vizier-scheduler/vizier/kernel"
)

// transact is a transaction, after which the ephemeral runs go that it ended.
func (s *Scheduler) transact(ctx context.Context, scope kernel.Scope, verbs ...verb) (Report, error) {
	rep, err := s.through(ctx, scope, verbs...)
	if err == nil {
		s.tidy(ctx, &rep)
	}
	return rep, err
}

// through is the one place where plans meet the world. It takes the scheduler
// lock, sees to what a crash left undone, lets each verb decide on the
// snapshot that the verbs before it lead to, commits the whole as one plan and
// then does its actions on the world.
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
		if err = errors.Join(err, tx.Close()); err == nil && s.Lookout != nil {
			s.Lookout.Call(rep.Snapshot.Wakes())
		}
		if s.Hooks != nil {
			s.Hooks.Call()
		}
	}()
	if left := tx.Unfinished(); len(left) > 0 {
		if err := s.recover(ctx, tx, left); err != nil {
			return rep, err
		}
	}
	base, err := s.load(tx, scope)
	if err != nil {
		return rep, err
	}
	t := transaction{s: s, tx: tx, rep: &rep, base: base}
	t.snap = t.base
	defer t.tell()
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
		}
	}
	err = t.flush(ctx)
	rep.Snapshot = t.snap
	if err == nil {
		s.last = t.base.Apply(t.plan) // of which nothing is left to do
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

	events []kernel.Event // of what is committed
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
	if news := t.snap.Submissions(); len(news) > 0 {
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
// and answer again.
func (t *transaction) flush(ctx context.Context) error {
	for len(t.plan.Actions) > 0 {
		before, plan := t.base, t.plan
		t.plan = kernel.Plan{}
		after := before.Apply(plan)
		events := kernel.Events(before, after, plan)
		plan = t.s.announced(plan, events)
		if err := t.tx.Commit(plan); err != nil {
			return fmt.Errorf("commit: %w", err)
		}
		if t.rep.Decisions == nil { // there is one for every job that waits
			t.rep.Decisions = slices.Clip(plan.Decisions)
		} else {
			t.rep.Decisions = append(t.rep.Decisions, plan.Decisions...)
		}
		t.rep.Applied = append(t.rep.Applied, plan.Actions...)
		t.base = after
		t.events = append(t.events, events...)
		t.snap = t.base.WithFacts(t.snap.Facts())
		for _, a := range plan.Actions {
			answer := t.s.perform(ctx, a, t.snap, t.rep)
			t.plan = t.plan.Then(answer)
			t.snap = t.snap.Apply(answer)
		}
		if len(t.plan.Actions) > 0 {
			continue // what came back is not lost: the plan is done once that is committed
		}
		if err := t.tx.Done(); err != nil {
			return fmt.Errorf("journal: %w", err)
		}
	}
	return nil
}

// recover does again what an earlier transaction committed and did not see
// through.
func (s *Scheduler) recover(ctx context.Context, tx Tx, left []kernel.Action) error {
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
	for _, a := range left {
		answer := s.perform(ctx, a, t.snap, t.rep)
		t.plan = t.plan.Then(answer)
		t.snap = t.snap.Apply(answer)
	}
	defer t.tell()
	if err := t.flush(ctx); err != nil {
		return fmt.Errorf("recover: %w", err)
	}
	return nil
}

// perform does one action on the world and returns what the kernel makes of
// the answer. Record actions were done by the commit.
func (s *Scheduler) perform(ctx context.Context, a kernel.Action, snap *kernel.Snapshot, rep *Report) kernel.Plan {
	switch a := a.(type) {
	case kernel.Launch:
		return s.launch(ctx, a, snap, rep)
	case kernel.Stop:
		rep.warn(a.Subject(), s.executorOf(snap, a.Attempt).Stop(ctx, a.Attempt))
	case kernel.Sweep:
		rep.warn(a.Subject(), s.executorOf(snap, a.Attempt).Sweep(ctx, a.Attempt))
	case kernel.ClearSentinel:
		rep.warn(a.Job, s.Sentinels.ClearSentinel(a.Slug))
	case kernel.TendPrompt:
		return s.tend(a, snap, rep)
	case kernel.RemoveWorktree:
		c := s.Worktrees.RemoveWorktree(ctx, a.Context)
		if plan, err := kernel.CleanedUp(snap, a, c); err == nil {
			return plan
		}
	}
	return kernel.Plan{}
}

// tend sees to a prompt's files. What goes wrong is told, and tried again by the
// next tick.
func (s *Scheduler) tend(a kernel.TendPrompt, snap *kernel.Snapshot, rep *Report) kernel.Plan {
	j := snap.Job(a.Job)
	if j == nil || j.Spec.Intake == nil {
		return kernel.Plan{}
	}
	var others []uint64 // of prompts of the same name, of which this one was rewound or is the later
	for _, k := range snap.Jobs() {
		if k != j && k.HoldsPrompt() && k.Spec.Intake.File == j.Spec.Intake.File {
			others = append(others, k.Spec.Intake.Inode)
		}
	}
	found, archived, err := s.Prompts.TendPrompt(j, a.Name, others)
	if err != nil {
		rep.warn(a.Job, fmt.Errorf("its prompt: %w", err))
		return kernel.Plan{}
	}
	plan, err := kernel.Tended(snap, a, found, archived)
	if err != nil {
		return kernel.Plan{}
	}
	return plan
}

// launch starts an attempt. One that is no longer current, because a crash
// came between and the world moved on, is left alone.
func (s *Scheduler) launch(ctx context.Context, a kernel.Launch, snap *kernel.Snapshot, rep *Report) kernel.Plan {
	j := snap.Job(a.Attempt.Job)
	if j == nil || j.Fence(a.Attempt) != nil {
		return kernel.Plan{}
	}
	err := s.executorOf(snap, a.Attempt).Start(ctx, a.Attempt)
	if err == nil {
		return kernel.Plan{}
	}
	rep.warn(a.Attempt.Job, err)
	var no *Refusal
	final := errors.As(err, &no)
	plan, err := kernel.Refuse(snap, a.Attempt, err.Error(), final)
	if err != nil {
		return kernel.Plan{}
	}
	return plan
}

func (r *Report) warn(id kernel.JobID, err error) {
	if err == nil {
		return
	}
	if r.Refused == nil {
		r.Refused = map[kernel.JobID]string{}
	}
	r.Refused[id] = err.Error()
}

func has[A kernel.Action](p kernel.Plan) bool {
	return slices.ContainsFunc(p.Actions, func(a kernel.Action) bool { _, ok := a.(A); return ok })
}
