package app

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/event"
	"github.com/vizier-scheduler/vizier/kernel/history"
)

// verb is a question to the kernel, as a use case asks it.
type verb struct {
	// decide returns the plan, and the verbs that go on record for it: decided
	// one after the other, they lead to the same plan.
	decide func(*kernel.Snapshot) (kernel.Plan, []history.Verb, error)

	also []kernel.Artifact // artifacts to observe besides those that gates read
}

// recorded returns v as a verb that goes on record as itself.
func recorded(v history.Verb) verb {
	return verb{decide: func(s *kernel.Snapshot) (kernel.Plan, []history.Verb, error) {
		plan, err := v.Decide(s)
		return plan, []history.Verb{v}, err
	}, also: v.Scope().Artifacts}
}

// transact runs a transaction, and then removes the ephemeral runs that have ended.
func (s *Scheduler) transact(ctx context.Context, scope kernel.Scope, verbs ...verb) (Report, error) {
	rep, err := s.runTx(ctx, scope, verbs...)
	if err == nil && !s.Sandboxed {
		s.tidy(ctx, &rep)
	}
	return rep, err
}

// runTx is the one place where plans meet the world. It takes the scheduler
// lock, completes what a crash left undone, lets each verb and finally a tick
// decide on the snapshot that those before it lead to, commits the whole as one
// plan and then performs its world actions. Only a plan that removes a worktree
// is committed and performed before the next verb decides.
//
// If the process dies before the commit, nothing has happened. If it dies
// after, the store completes the records and the next holder of the lock
// performs the remaining actions again.
func (s *Scheduler) runTx(ctx context.Context, scope kernel.Scope, verbs ...verb) (rep Report, err error) {
	tx, err := s.begin(ctx)
	if err != nil {
		return rep, err
	}
	s.configure()
	left := tx.Unfinished()
	defer func() {
		closed := tx.Close()
		if closed != nil && err == nil && len(rep.Applied) > 0 { // what is done stays done
			rep.Late, closed = errors.Join(rep.Late, onRecord(closed)), nil
		}
		err = errors.Join(err, closed)
		switch {
		case s.Waker == nil, s.ending() != nil:
		case rep.Late != nil, err != nil && (len(left) > 0 || completed(tx)): // nobody knows what is to be watched now
			s.Waker.Wake(kernel.Wakes{Poll: true})
		case err == nil:
			s.Waker.Wake(rep.Wakes)
		}
		if !s.Sandboxed {
			s.send()
		}
		if s.Hooks != nil && !s.Sandboxed {
			s.Hooks.Wake()
		}
	}()
	if len(left) > 0 && !s.Sandboxed {
		if err := s.recover(ctx, tx, left, &rep); err != nil {
			return rep, err
		}
	}
	t := transaction{s: s, tx: tx, now: s.Now(), rep: &rep, left: left}
	if err := t.load(ctx, scope); err != nil {
		return rep, err
	}
	defer t.tell()
	last := len(verbs) - 1
	if !s.Sandboxed {
		verbs = append(verbs, recorded(history.Tick{}))
	}
	for i, v := range verbs {
		plan, err := t.decide(ctx, v, i == len(verbs)-1)
		verbs[i] = verb{} // frees its memory
		if err != nil {
			err = t.late(t.unread(scope, err))
			return rep, err
		}
		if !has[kernel.RemoveWorktree](plan) {
			continue
		}
		if err := t.flush(ctx); err != nil { // the result of the removal decides what the next verb may start
			return rep, err
		}
		if rep.Late != nil { // nothing more can be done
			rep.Snapshot = t.snap
			if i < last {
				err = rep.Late
			}
			return rep, err
		}
		t.kept = i >= last
	}
	if err = t.flush(ctx); err == nil && rep.Late == nil {
		t.kept = len(rep.Applied) > 0
		err = t.late(t.wakes())
	}
	rep.Snapshot = t.snap
	return rep, err
}

// begin begins a transaction.
func (s *Scheduler) begin(ctx context.Context) (Tx, error) {
	ctx, release := s.untilEnding(ctx)
	defer release()
	return s.Store.Begin(ctx)
}

// completed reports whether tx began with completing what another process had committed.
func completed(tx Tx) bool {
	c, can := tx.(completer)
	return can && c.Completed()
}

// load loads the jobs that every tick looks at, those that scope names, and those that
// read a fact which has changed since they were judged. If the limits have changed since
// the last tick, or it is not known what that tick judged, load loads every open job.
func (t *transaction) load(ctx context.Context, scope kernel.Scope) error {
	if scope.Reads = true; !scope.All {
		scope.Near = append(history.EveryTick(t.now), history.Named(scope)...)
	}
	t.near, t.all = scope.Near, scope.All
	rec, err := t.tx.Load(scope)
	if err == nil && rec.Unnumbered {
		scope, rec, err = t.number(scope)
	}
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
	var news []kernel.Near
	switch {
	case !rec.Narrow: // the tick judges the readers of every fact
		t.outside = kernel.Outside{Reads: rec.Reads, Elided: rec.Elided}
	case rec.Reads == nil:
		news = []kernel.Near{{Kind: kernel.Outsiders}}
	default:
		news, t.byFacts = t.lookOutside(ctx, rec), true
	}
	t.unjudged = t.unjudged || len(rec.Dirty) > 0
	t.base = t.s.snapshot(t.now, rec, scope)
	if t.snap = t.base; len(news) == 0 {
		return nil
	}
	rec, err = t.tx.Load(kernel.Scope{Near: news})
	if err != nil {
		return err
	}
	if t.byFacts {
		for i := range rec.Jobs {
			rec.Dirty = append(rec.Dirty, rec.Jobs[i].ID)
		}
		t.unjudged = true
	}
	t.near = append(t.near, news...)
	t.base = t.base.With(rec, news)
	t.snap = t.base.WithFacts(t.outside.Facts.Of(news))
	return nil
}

// snapshot returns the snapshot of rec, the records that were read with scope.
func (s *Scheduler) snapshot(now time.Time, rec kernel.Records, scope kernel.Scope) *kernel.Snapshot {
	o := kernel.Observation{Now: now, Limits: s.Limits, Jobs: rec.Jobs, Archived: rec.Succeeded, Unreadable: rec.Unreadable, Last: rec.Last}
	if rec.Narrow {
		o.Near, o.Dirty = scope.Near, rec.Dirty
	}
	return kernel.TakeSnapshot(o)
}

func (s *Scheduler) fresh(now time.Time, rec kernel.Records) *kernel.Snapshot {
	return kernel.TakeSnapshot(kernel.Observation{Now: now, Limits: s.Limits, Jobs: rec.Jobs,
		Archived: rec.Succeeded, Unreadable: rec.Unreadable, Last: rec.Last})
}

// lookOutside observes the facts that jobs read and no job makes, once for all of
// them, and returns those that differ from what their readers were judged by.
func (t *transaction) lookOutside(ctx context.Context, rec kernel.Records) []kernel.Near {
	t.outside = kernel.Outside{Reads: rec.Reads, Elided: rec.Elided, Facts: kernel.NewFacts()}
	for range 2 { // the second asks for the branch that is checked out
		if p := t.outside.Asking(); !p.Empty() {
			for _, o := range t.s.Observers {
				o.Observe(ctx, p, &t.outside.Facts)
			}
		}
	}
	return t.outside.News()
}

// observe answers the probes of snap, and whether the artifacts in also exist.
// Answers may raise further questions (such as the branch that is checked out),
// so it repeats until there are none.
func (s *Scheduler) observe(ctx context.Context, snap *kernel.Snapshot, also ...kernel.Artifact) *kernel.Snapshot {
	for range 3 {
		p := snap.Probes(also...)
		if p.Empty() {
			break
		}
		snap = s.answer(ctx, snap, p)
	}
	return snap
}

// answer observes what p asks for. Runners are checked first: everything that a
// dead runner left exists by then, so its result is not missed. Results of live
// runners are not read.
func (s *Scheduler) answer(ctx context.Context, snap *kernel.Snapshot, p kernel.Probes) *kernel.Snapshot {
	f := kernel.NewFacts()
	if len(p.Attempts) > 0 {
		s.alive(ctx, snap, p.Attempts, f.Runners)
		p.Attempts = slices.DeleteFunc(p.Attempts, func(a kernel.AttemptID) bool { return !f.Runners[a].Value.Gone() })
	}
	if !p.Empty() {
		for _, o := range s.Observers {
			o.Observe(ctx, p, &f)
		}
	}
	return snap.WithFacts(f)
}

// wakes sets the report's Wakes: what has to be watched from now on.
func (t *transaction) wakes() error {
	if err := t.untilComplete(new(int), func() { t.rep.Wakes = t.snap.Wakes() }); err != nil || !t.snap.Narrow() || len(t.outside.Reads)+len(t.outside.Elided) == 0 {
		return err
	}
	now, err := t.tx.Load(kernel.Scope{Near: []kernel.Near{}, Reads: true})
	if err == nil {
		t.rep.Wakes = t.outside.Beside(t.rep.Wakes, now)
	}
	return err
}

// untilComplete repeats a decision until the snapshot holds every job that the
// decision needs. It counts the loads in rounds. A caller that observes facts between
// two calls passes the same count on, since each observation may let the decision
// reach one more job.
func (t *transaction) untilComplete(rounds *int, look func()) error {
	for {
		look()
		near, whole := t.lacks()
		if !whole && len(near) == 0 {
			return nil
		}
		if *rounds++; whole || *rounds > mostRounds {
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

// lacks returns what the last decision needed and either snapshot does not hold. Mostly
// both lack the same.
func (t *transaction) lacks() (near []kernel.Near, whole bool) {
	near, whole = t.snap.Lacks()
	more, all := t.base.Lacks()
	have := make(map[kernel.Near]bool, len(near))
	for _, n := range near {
		have[n] = true
	}
	more = slices.DeleteFunc(more, func(n kernel.Near) bool { return have[n] })
	return append(near, more...), whole || all
}

// mostRounds is how often a decision may ask for more jobs before it gets all open
// ones: a decision that has asked that often is likely to ask for many more.
const mostRounds = 24

// transaction is a transaction under way.
type transaction struct {
	s    *Scheduler
	tx   Tx
	now  time.Time // one moment for the whole transaction, however long it takes
	rep  *Report
	base *kernel.Snapshot // as the store has it
	snap *kernel.Snapshot // as the plan so far leaves it
	plan kernel.Plan      // decided, not yet committed
	kept bool             // all that was asked for is committed
	redo bool             // it performs the world actions of an earlier transaction, which may have been performed

	near     []kernel.Near        // what was asked for
	all      bool                 // base has every record
	unjudged bool                 // no tick has judged all of base
	left     []kernel.WorldAction // of a sandboxed scheduler: world actions that others are to perform
	carried  int                  // how many of the plan's world actions are from earlier transactions

	events []kernel.Event // of what is committed

	outside kernel.Outside // facts that no job makes
	byFacts bool           // a tick judges only the readers of outside.News, not of every fact

	steps []history.Step // the steps that led to plan
	known kernel.Facts   // the facts that are in the steps so far
}

// late returns err. If all that was asked for is committed, it returns nil instead, and the
// report has err as Late.
func (t *transaction) late(err error) error {
	if err == nil || !t.kept {
		return err
	}
	t.rep.Late, t.rep.Snapshot = onRecord(err), t.snap
	return nil
}

// unread returns err, and why jobs that scope names could not be read, if they could not: to the kernel, they do not
// exist.
func (t *transaction) unread(scope kernel.Scope, err error) error {
	for _, id := range scope.Jobs {
		if why := t.snap.Unreadable(id); why != "" {
			err = fmt.Errorf("%w: its record cannot be read: %s", err, why)
		}
	}
	return err
}

// onRecord returns err as a kernel.ErrRecorded.
func onRecord(err error) error {
	if errors.Is(err, kernel.ErrRecorded) {
		return err
	}
	return fmt.Errorf("%w (%w)", kernel.ErrRecorded, err)
}

// tell appends what has happened to the event log, before others can get the lock
// and make more happen. An error is ignored: no decision reads the log.
func (t *transaction) tell() {
	if t.s.Events != nil && len(t.events) > 0 {
		_ = t.s.Events.AppendEvents(t.events)
	}
	t.events = nil
}

// decide observes facts and asks v, until v needs no more jobs or facts. A plan that
// rewinds is decided on every job. last: no verb comes after v.
func (t *transaction) decide(ctx context.Context, v verb, last bool) (kernel.Plan, error) {
	t.snap = t.s.observe(ctx, t.snap)
	if !t.s.Sandboxed {
		t.enforce(ctx)
	}
	if news := t.snap.Submissions(); len(news) > 0 && !t.s.Sandboxed {
		if err := t.widen(true); err != nil {
			return kernel.Plan{}, err
		}
		t.snap = t.s.observe(ctx, t.snap, history.ScopeOf(news).Artifacts...)
		settled := kernel.Settle(t.snap)
		t.follow(settled, history.Settle{})
		t.snap = t.s.observe(ctx, t.snap)
	}
	plan, asked, err := t.ask(ctx, v)
	if err == nil && t.snap.Archived() > 0 && looksBack(plan) {
		if err := t.widen(true); err != nil {
			return kernel.Plan{}, err
		}
		plan, asked, err = t.ask(ctx, v)
	}
	if err != nil {
		return plan, err
	}
	if last && !(t.plan.Empty() && plan.Empty()) {
		t.followLast(plan, asked)
	} else {
		t.follow(plan, asked...)
	}
	return plan, nil
}

// ask asks v until the snapshot holds all jobs and facts that v looks at.
func (t *transaction) ask(ctx context.Context, v verb) (plan kernel.Plan, asked []history.Verb, err error) {
	if v.also != nil {
		t.snap = t.s.observe(ctx, t.snap, v.also...)
	}
	rounds := 0
	for open := t.snap.Probes(); ; { // open: the probes that nobody can answer
		if failed := t.untilComplete(&rounds, func() {
			plan = kernel.Plan{} // frees its memory
			plan, asked, err = v.decide(t.snap)
		}); failed != nil {
			return kernel.Plan{}, nil, failed
		}
		p := t.snap.Probes()
		if p.Empty() || reflect.DeepEqual(p, open) {
			return plan, asked, err
		}
		t.snap = t.s.observe(ctx, t.snap)
		open = t.snap.Probes()
	}
}

// widen loads every job or, if all is false, the open ones and those that were asked
// for.
func (t *transaction) widen(all bool) error {
	scope := history.Besides(t.near)
	scope.All, t.all = all, all
	rec, err := t.tx.Load(scope)
	if err != nil {
		return err
	}
	t.base = t.s.fresh(t.now, rec)
	t.standOn(t.base.Apply(t.plan))
	return nil
}

// standOn makes snap, with the facts that are known, the transaction's snapshot. The memory
// of the one before can be freed.
func (t *transaction) standOn(snap *kernel.Snapshot) { t.snap = snap.WithFacts(t.snap.Facts()) }

// follow applies plan to the transaction's snapshot, and records what it was
// decided on.
func (t *transaction) follow(plan kernel.Plan, by ...history.Verb) {
	t.record(by)
	t.plan, t.snap = t.plan.Then(plan), t.snap.Apply(plan)
	if len(by) > 0 { // without a verb, facts that were observed belong to the next step
		t.known = t.snap.Facts()
	}
}

// followLast is follow for the last plan before a commit. Nothing reads the snapshot
// that the plan leads to, so none is made, and the memory of the one that it was decided
// on can be freed.
func (t *transaction) followLast(plan kernel.Plan, by []history.Verb) {
	t.record(by)
	before := t.plan
	t.plan = kernel.Plan{}
	t.standOn(t.base)
	t.plan = before.Then(plan)
}

// record adds what the next plan was decided on to the account.
func (t *transaction) record(by []history.Verb) {
	seen := history.SeenNear
	switch {
	case t.snap.Narrow():
	case t.all:
		seen = history.SeenAll
	default:
		seen = history.SeenOpen
	}
	for _, v := range by {
		if c, can := t.tx.(condenser); can {
			v = c.Condense(v)
		}
		t.steps = append(t.steps, history.Step{Verb: v, Facts: history.News(t.known, t.snap.Facts()), Seen: seen})
		t.known = t.snap.Facts()
	}
}

// flush commits the plan so far and performs its world actions. Their results (a
// refused launch, a degraded cleanup) are committed as well, before the store
// forgets the actions: after a crash in between, the actions are performed again
// and give their results again. So whatever goes wrong once something is
// committed is left to the next transaction, and reported as Late: an error
// means that nothing happened.
func (t *transaction) flush(ctx context.Context) error {
	if t.s.Sandboxed {
		return t.commitDeferred()
	}
	for committed := t.kept; !t.plan.Empty() || t.unjudged && t.plan.Judged != ""; committed = true {
		plan := t.sweep(ctx, t.plan)
		err := t.commit(plan)
		if err != nil && !committed && !errors.Is(err, kernel.ErrRecorded) {
			return err
		}
		if err == nil {
			for _, a := range plan.World {
				t.rep.Applied = append(t.rep.Applied, a)
			}
			t.tell() // before the launched attempts append events of their own
			if err = t.perform(ctx, plan.World); err == nil && !t.plan.Empty() {
				continue // the actions are done only once their results are committed
			}
			if err == nil {
				err = t.tx.Done()
			}
		}
		if err != nil {
			t.standOn(t.base)
			t.rep.Late = onRecord(err)
			return nil
		}
	}
	return nil
}

// sweep ends what the plan's lost attempts left running, before it is on record
// that they are over. Repeating it after a crash does no harm.
func (t *transaction) sweep(ctx context.Context, plan kernel.Plan) kernel.Plan {
	p := performer{transaction: t, ctx: ctx}
	left := plan.World[:0:0]
	for _, a := range plan.World {
		if s, ok := a.(kernel.Sweep); ok {
			p.Sweep(s)
			t.rep.Applied = append(t.rep.Applied, a)
		} else {
			left = append(left, a)
		}
	}
	plan.World = left
	return plan
}

// commit makes plan durable. If it is, even if its files are not written yet
// (kernel.ErrRecorded), the transaction goes on from there.
func (t *transaction) commit(plan kernel.Plan) error {
	var after *kernel.Snapshot
	var events []kernel.Event
	if err := t.untilComplete(new(int), func() {
		after = t.base.Apply(plan)
		events = event.Of(t.base, after, plan)
	}); err != nil {
		return err
	}
	plan = t.s.announced(plan, after, events)
	t.explain()
	t.standOn(after)
	err := t.tx.Commit(plan)
	if err != nil && !errors.Is(err, kernel.ErrRecorded) {
		return err
	}
	if t.rep.Decisions == nil { // avoids a copy: there may be very many
		t.rep.Decisions = slices.Clip(plan.Decisions)
	} else {
		t.rep.Decisions = append(t.rep.Decisions, plan.Decisions...)
	}
	for _, a := range plan.Records {
		t.rep.Applied = append(t.rep.Applied, a)
	}
	t.plan, t.unjudged, t.steps, t.known = kernel.Plan{}, false, nil, kernel.Facts{}
	t.base = after
	t.events = append(t.events, events...)
	return err
}

// explain passes the account of the plan to the store.
func (t *transaction) explain() {
	a := history.Account{At: t.now, Limits: t.s.Limits, Unjudged: t.base.Unjudged(), Steps: t.steps, ByFacts: t.byFacts, Carried: t.carried}
	for _, id := range t.base.UnreadableIDs() {
		if a.Unreadable == nil {
			a.Unreadable = map[kernel.JobID]string{}
		}
		a.Unreadable[id] = t.base.Unreadable(id)
	}
	t.account(a)
	if r, can := t.tx.(reader); can {
		r.JudgedBy(t.outside.JudgedBy(t.snap.Facts()))
	}
}

func (t *transaction) account(a history.Account) {
	if h, can := t.tx.(historian); can {
		h.Explain(a)
	}
}

// perform performs actions in order, and adds the kernel's reactions to their
// results to the plan.
func (t *transaction) perform(ctx context.Context, actions []kernel.WorldAction) error {
	p := performer{transaction: t, ctx: ctx}
	for _, a := range actions {
		if _, ok := a.(kernel.TendPrompt); ok && t.snap.Narrow() { // it needs to know which other jobs have the prompt
			if err := t.widen(false); err != nil {
				return err
			}
		}
		kernel.Perform(&p, a)
		if p.err != nil {
			return p.err
		}
	}
	return nil
}

// looksBack reports whether p rewinds jobs, or lets routes that do so wait for what they would rewind. That is everything
// that depends on a job, and depends also on jobs that succeeded long ago.
func looksBack(p kernel.Plan) bool {
	return slices.ContainsFunc(p.Actions(), func(a kernel.Action) bool {
		put, is := a.(kernel.PutState)
		return is && put.State.Deferred
	}) || has[kernel.Reset](p)
}

func has[A kernel.Action](p kernel.Plan) bool {
	return slices.ContainsFunc(p.Actions(), func(a kernel.Action) bool { _, ok := a.(A); return ok })
}
