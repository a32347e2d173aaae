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
			s.Lookout.Call(rep.Wakes)
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
	t := transaction{s: s, tx: tx, rep: &rep}
	if err := t.load(scope); err != nil {
		return rep, err
	}
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
	if err = t.flush(ctx); err == nil {
		err = t.settle(func() { rep.Wakes = t.snap.Wakes() })
	}
	rep.Snapshot = t.snap
	return rep, err
}

// load begins with the jobs that every tick looks at and those that scope
// names. Where limits changed since the last tick, or it is not known what that
// judged, it begins with every one.
func (t *transaction) load(scope kernel.Scope) error {
	if !scope.All {
		scope.Near = append([]kernel.Near{{Kind: kernel.Attended}, {Kind: kernel.Due, At: t.s.Now()}}, named(scope)...)
	}
	t.near = scope.Near
	rec, err := t.tx.Load(scope)
	if err != nil {
		return err
	}
	if rec.Narrow && rec.Judged != t.s.Limits.String() {
		scope.Near = nil
		if rec, err = t.tx.Load(scope); err != nil {
			return err
		}
		t.unjudged = true
	}
	t.unjudged = t.unjudged || len(rec.Dirty) > 0
	t.base = t.s.snapshot(rec, scope)
	t.snap = t.base
	return nil
}

// named is scope as what it names.
func named(scope kernel.Scope) []kernel.Near {
	var near []kernel.Near
	for _, id := range scope.Jobs {
		near = append(near, kernel.Near{Kind: kernel.Itself, Job: id})
	}
	for _, a := range scope.Artifacts {
		near = append(near, kernel.Near{Kind: kernel.Producers, Artifact: a})
	}
	for _, key := range scope.Keys {
		near = append(near, kernel.Near{Kind: kernel.Keyed, Key: key})
	}
	return near
}

// settle repeats look, which is a decision, until the snapshot lacks nothing that
// it looks at.
func (t *transaction) settle(look func()) error {
	for round := 1; ; round++ {
		look()
		near, whole := t.snap.Lacks()
		more, all := t.base.Lacks()
		if near, whole = append(near, more...), whole || all; !whole && len(near) == 0 {
			return nil
		}
		if whole || round > mostRounds {
			if err := t.widen(false); err != nil {
				return err
			}
			continue
		}
		rec, err := t.tx.Load(kernel.Scope{Near: near})
		if err != nil {
			return err
		}
		t.near = append(t.near, near...)
		t.base, t.snap = t.base.With(rec, near), t.snap.With(rec, near)
	}
}

// mostRounds is how often a decision may ask for more before it gets everything:
// what goes on for long goes a long way.
const mostRounds = 24

// transaction is one transact under way.
type transaction struct {
	s        *Scheduler
	tx       Tx
	rep      *Report
	near     []kernel.Near    // what was asked for
	base     *kernel.Snapshot // as the store has it
	unjudged bool             // no tick has judged all of base
	snap     *kernel.Snapshot // as the plan so far leaves it
	plan     kernel.Plan      // decided, not yet committed

	events []kernel.Event // of what is committed
}

// tell appends what has happened to the event log, before the lock is free for
// others to make more happen. It may fail: the records tell what counts.
func (t *transaction) tell() {
	if t.s.Events != nil && len(t.events) > 0 {
		_ = t.s.Events.AppendEvents(t.events)
	}
}

// decide observes and asks v, as often as what v looks at leads further. A
// rewind takes along what hangs on its root, whatever became of it, so a plan
// with one is decided on every job there is.
func (t *transaction) decide(ctx context.Context, v verb) (kernel.Plan, error) {
	t.snap = t.s.observe(ctx, t.snap)
	if news := t.snap.Submissions(); len(news) > 0 {
		if err := t.widen(true); err != nil {
			return kernel.Plan{}, err
		}
		t.snap = t.s.observe(ctx, t.snap, scopeOf(news).Artifacts...)
		settled := kernel.Settle(t.snap)
		t.plan = t.plan.Then(settled)
		t.snap = t.s.observe(ctx, t.snap.Apply(settled))
	}
	plan, err := t.ask(ctx, v)
	if err != nil || t.snap.Archived() == 0 || !has[kernel.Reset](plan) {
		return plan, err
	}
	if err := t.widen(true); err != nil {
		return kernel.Plan{}, err
	}
	return t.ask(ctx, v)
}

// ask asks v until it has seen all that it looks at, facts among it.
func (t *transaction) ask(ctx context.Context, v verb) (plan kernel.Plan, err error) {
	for {
		if failed := t.settle(func() { plan, err = v(t.snap) }); failed != nil {
			return kernel.Plan{}, failed
		}
		seen := t.s.observe(ctx, t.snap)
		if seen == t.snap {
			return plan, err
		}
		t.snap = seen
	}
}

// widen loads every job that there is, or every one that is open, with those
// that were asked for.
func (t *transaction) widen(all bool) error {
	scope := kernel.Scope{All: all}
	for _, n := range t.near {
		switch n.Kind {
		case kernel.Itself:
			scope.Jobs = append(scope.Jobs, n.Job)
		case kernel.Producers, kernel.RunProducers:
			scope.Artifacts = append(scope.Artifacts, n.Artifact)
		case kernel.Keyed:
			scope.Keys = append(scope.Keys, n.Key)
		}
	}
	rec, err := t.tx.Load(scope)
	if err != nil {
		return err
	}
	facts := t.snap.Facts()
	t.base = t.s.fresh(rec)
	t.snap = t.base.Apply(t.plan).WithFacts(facts)
	return nil
}

// flush commits the plan so far and does its actions on the world. What comes
// back from them (a refused launch, a degraded cleanup) is committed as well,
// and before they are forgotten: after a crash in between they are done again,
// and answer again.
func (t *transaction) flush(ctx context.Context) error {
	for len(t.plan.Actions) > 0 || t.unjudged && t.plan.Judged != "" {
		var after *kernel.Snapshot
		var events []kernel.Event
		if err := t.settle(func() {
			after = t.base.Apply(t.plan)
			events = kernel.Events(t.base, after, t.plan)
		}); err != nil {
			return err
		}
		plan := t.s.announced(t.plan, events)
		if err := t.tx.Commit(plan); err != nil {
			return fmt.Errorf("commit: %w", err)
		}
		t.plan, t.unjudged = kernel.Plan{}, false
		if t.rep.Decisions == nil { // there is one for every job that waits
			t.rep.Decisions = slices.Clip(plan.Decisions)
		} else {
			t.rep.Decisions = append(t.rep.Decisions, plan.Decisions...)
		}
		t.rep.Applied = append(t.rep.Applied, plan.Actions...)
		t.base = after
		t.events = append(t.events, events...)
		t.snap = t.base.WithFacts(t.snap.Facts())
		if err := t.perform(ctx, plan.Actions); err != nil {
			return err
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
	rec, err := tx.Load(scope)
	if err != nil {
		return fmt.Errorf("recover: %w", err)
	}
	t := transaction{s: s, tx: tx, rep: &Report{}, base: s.fresh(rec)}
	t.snap = t.base
	defer t.tell()
	if err := t.perform(ctx, left); err != nil {
		return fmt.Errorf("recover: %w", err)
	}
	if err := t.flush(ctx); err != nil {
		return fmt.Errorf("recover: %w", err)
	}
	return nil
}

// perform does actions on the world and plans what the kernel makes of the
// answers.
func (t *transaction) perform(ctx context.Context, actions []kernel.Action) error {
	for _, a := range actions {
		if _, ok := a.(kernel.TendPrompt); ok && t.snap.Narrow() { // it looks at who else has the prompt
			if err := t.widen(false); err != nil {
				return err
			}
		}
		answer := t.s.perform(ctx, a, t.snap, t.rep)
		if answer == nil {
			continue
		}
		var plan kernel.Plan
		var refused error
		if err := t.settle(func() { plan, refused = answer(t.snap) }); err != nil {
			return err
		}
		if refused == nil {
			t.plan = t.plan.Then(plan)
			t.snap = t.snap.Apply(plan)
		}
	}
	return nil
}

// perform does one action on the world and returns what the kernel makes of
// the answer; nil: nothing. Record actions were done by the commit.
func (s *Scheduler) perform(ctx context.Context, a kernel.Action, snap *kernel.Snapshot, rep *Report) verb {
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
		return func(snap *kernel.Snapshot) (kernel.Plan, error) { return kernel.CleanedUp(snap, a, c) }
	}
	return nil
}

// tend sees to a prompt's files. What goes wrong is told, and tried again by the
// next tick.
func (s *Scheduler) tend(a kernel.TendPrompt, snap *kernel.Snapshot, rep *Report) verb {
	j := snap.Job(a.Job)
	if j == nil || j.Spec.Intake == nil {
		return nil
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
		return nil
	}
	return func(snap *kernel.Snapshot) (kernel.Plan, error) { return kernel.Tended(snap, a, found, archived) }
}

// launch starts an attempt. One that is no longer current, because a crash
// came between and the world moved on, is left alone.
func (s *Scheduler) launch(ctx context.Context, a kernel.Launch, snap *kernel.Snapshot, rep *Report) verb {
	j := snap.Job(a.Attempt.Job)
	if j == nil || j.Fence(a.Attempt) != nil {
		return nil
	}
	err := s.executorOf(snap, a.Attempt).Start(ctx, a.Attempt)
	if err == nil {
		return nil
	}
	rep.warn(a.Attempt.Job, err)
	var no *Refusal
	final := errors.As(err, &no)
	return func(snap *kernel.Snapshot) (kernel.Plan, error) {
		return kernel.Refuse(snap, a.Attempt, err.Error(), final)
	}
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
