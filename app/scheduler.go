// Package app holds the use cases: it runs the kernel against the world
// through the ports it declares. It prints nothing, reads no environment and
// knows no terminal.
package app

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/history"
	"github.com/vizier-scheduler/vizier/kernel/retention"
)

// Scheduler is every use case a front end may offer. It serves one goroutine at a time:
// each use case takes the limits that are configured then.
type Scheduler struct {
	Store     Store
	Observers []Observer
	Executor  Executor            // of this machine
	Executors map[string]Executor // the others, by name
	Worktrees Worktrees
	Sentinels Sentinels
	Prompts   Prompts
	Cleaner   RunCleaner
	Waker     Waker    // nil: no resident scheduler is woken
	Events    EventLog // nil: none is kept
	Hooks     Hooks    // nil: there are none
	Limits    kernel.Limits
	Keep      retention.Policy // what stays of what has ended, when nobody asks for more to go
	PackAfter time.Duration    // after the end of a job its files are packed; 0: never

	// Configure brings Limits, Executors, Hooks and Waker up to the configuration
	// in force. Every transaction begins with it, and every look; nil: they stay.
	Configure func(*Scheduler)

	// Sandboxed says that what this process starts ends with it, and that it may
	// not see what others started: it only records what is asked for. Judging
	// jobs, and all world actions, are left to a transaction elsewhere.
	Sandboxed bool

	// Inside tells whether the caller is part of a job, or may be; nil: callers may
	// decide whatever they are part of.
	Inside func(context.Context) (where Descent, inside bool)

	Now   func() time.Time
	NewID func() kernel.JobID
}

// Report is what a use case did, for a person or a program to read.
type Report struct {
	Decisions []kernel.Decision
	Applied   []kernel.Action
	Refused   map[kernel.JobID]string // launches the executor refused, and why
	Snapshot  *kernel.Snapshot        // as the transaction left it: at least what it was about
	Wakes     kernel.Wakes            // what is to be looked after from then on
	Late      error                   // kernel.ErrRecorded: why what was decided is not written out yet, nor its jobs started; nil: it is

	// Same is the job that was there already, by the id minted for it in vain,
	// and Note why that job is not going to run.
	Same map[kernel.JobID]kernel.JobID
	Note map[kernel.JobID]kernel.NotRun
}

// Started are the jobs whose attempts were launched.
func (r Report) Started() []kernel.JobID {
	var ids []kernel.JobID
	for _, a := range r.Applied {
		if l, ok := a.(kernel.Launch); ok && r.Refused[l.Attempt.Job] == "" {
			ids = append(ids, l.Attempt.Job)
		}
	}
	return ids
}

// Updated are the jobs whose status changed.
func (r Report) Updated() []kernel.JobID {
	var ids []kernel.JobID
	for _, d := range r.Decisions {
		if d.From != d.Next {
			ids = append(ids, d.Job)
		}
	}
	return ids
}

// Tick advances every job that can be advanced.
func (s *Scheduler) Tick(ctx context.Context) (Report, error) {
	return s.transact(ctx, kernel.Scope{})
}

// Submit enqueues jobs, all or none, and ticks. A job whose idempotency key
// another has is that one; by is who asks.
func (s *Scheduler) Submit(ctx context.Context, news []kernel.NewJob, by string) (Report, error) {
	v := history.Submit{Jobs: news, By: by}
	var m kernel.Merged
	rep, err := s.transact(ctx, v.Scope(), verb{also: v.Scope().Artifacts,
		decide: func(snap *kernel.Snapshot) (plan kernel.Plan, _ []history.Verb, err error) {
			m, plan, err = kernel.Submit(snap, news, by)
			return plan, []history.Verb{v}, err
		}})
	rep.Same, rep.Note = m.Same, m.Note
	return rep, err
}

// ask is a transaction that decides v, and ticks.
func (s *Scheduler) ask(ctx context.Context, v history.Verb) (Report, error) {
	return s.transact(ctx, v.Scope(), recorded(v))
}

// InsideError refuses a decision to a caller inside a job: it is another's to
// make (semantics 2, decision 16).
type InsideError struct {
	Verb string
	Descent
}

// Descent is the job that a process comes from, or why that cannot be told.
type Descent struct {
	Job kernel.JobID
	Why string // "": it is known to come from the job
}

func (e *InsideError) Error() string {
	switch {
	case e.Why == "":
		return "cannot " + e.Verb + " from inside job " + string(e.Job)
	case e.Job != "":
		return "cannot " + e.Verb + ": this may run inside job " + string(e.Job) + ": " + e.Why
	default:
		return "cannot " + e.Verb + ": this may run inside a job: " + e.Why
	}
}

// mayDecide is an *InsideError where the caller is part of a job, or may be.
func (s *Scheduler) mayDecide(ctx context.Context, verb string) error {
	if s.Inside == nil {
		return nil
	}
	if where, inside := s.Inside(ctx); inside {
		return &InsideError{verb, where}
	}
	return nil
}

// Approve grants a pending approval and ticks. A caller inside a job may not: the
// error is an *InsideError.
func (s *Scheduler) Approve(ctx context.Context, id kernel.JobID, c kernel.Consent) (Report, error) {
	if err := s.mayDecide(ctx, "approve"); err != nil {
		return Report{}, err
	}
	return s.ask(ctx, history.Approve{Job: id, Consent: c})
}

// Reject refuses a pending approval and ticks. A caller inside a job may not.
func (s *Scheduler) Reject(ctx context.Context, id kernel.JobID, by, reason string) (Report, error) {
	if err := s.mayDecide(ctx, "reject"); err != nil {
		return Report{}, err
	}
	return s.ask(ctx, history.Reject{Job: id, By: by, Reason: reason})
}

// Cancel ends a job, or asks its running attempt to end, and ticks. It does
// not wait for a running attempt's processes.
func (s *Scheduler) Cancel(ctx context.Context, id kernel.JobID, by string, cleanup bool) (Report, error) {
	return s.ask(ctx, history.Cancel{Jobs: []kernel.JobID{id}, By: by, Cleanup: cleanup})
}

// CancelAll is Cancel of several jobs in one transaction, in their order. Those that it could not
// cancel, since they have ended or something that was cancelled ended them, are left.
func (s *Scheduler) CancelAll(ctx context.Context, ids []kernel.JobID, by string, cleanup bool) (rep Report, left []kernel.JobID, err error) {
	rep, err = s.transact(ctx, kernel.Scope{Jobs: ids}, verb{decide: func(snap *kernel.Snapshot) (kernel.Plan, []history.Verb, error) {
		done, d := history.Cancel{By: by, Cleanup: cleanup}, kernel.NewDraft(snap)
		left = nil
		for _, id := range ids {
			plan, err := kernel.Cancel(d.Snapshot(), id, by, cleanup)
			switch {
			case errors.Is(err, kernel.ErrConflict):
				left = append(left, id)
			case err != nil:
				return kernel.Plan{}, nil, err
			default:
				d.Add(plan)
				done.Jobs = append(done.Jobs, id)
			}
		}
		return d.Plan(), []history.Verb{done}, nil
	}})
	return rep, left, err
}

// Retry rewinds roots and what depends on them, and ticks. A caller inside a job
// may not: approvals are asked for again, and what was done is taken back.
func (s *Scheduler) Retry(ctx context.Context, by string, roots ...kernel.JobID) (Report, error) {
	if err := s.mayDecide(ctx, "retry"); err != nil {
		return Report{}, err
	}
	return s.transact(ctx, kernel.Scope{All: true}, verb{decide: func(snap *kernel.Snapshot) (kernel.Plan, []history.Verb, error) {
		v := history.Retry{Jobs: roots, By: by}
		for _, a := range s.forsaken(snap, roots...).Records {
			v.Gone = append(v.Gone, snap.Job(a.Subject()).State.Context.Worktree)
		}
		plan, err := v.Decide(snap)
		return plan, []history.Verb{v}, err
	}})
}

// RetrySets are what Retry would touch; see kernel.RetryAll. It changes nothing.
func (s *Scheduler) RetrySets(ctx context.Context, roots []kernel.JobID) ([]kernel.RetrySet, error) {
	snap, err := s.Snapshot(ctx, kernel.Scope{All: true})
	if err != nil {
		return nil, err
	}
	sets, _, err := kernel.RetryAll(snap.Apply(s.forsaken(snap, roots...)), roots, "")
	return sets, err
}

// WaysOut are the jobs whose retries let the runs of ids, which did not succeed,
// end; see kernel.Snapshot.WayOut. It changes nothing.
func (s *Scheduler) WaysOut(ctx context.Context, ids []kernel.JobID) ([]kernel.JobID, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	snap, err := s.Snapshot(ctx, kernel.Scope{All: true})
	if err != nil {
		return nil, err
	}
	snap = s.answer(ctx, snap, snap.ProbesOf(ids...))
	snap = snap.Apply(s.forsaken(snap, ids...))
	var out []kernel.JobID
	seen := map[kernel.JobID]bool{}
	for _, id := range ids {
		if way := snap.WayOut(id); !seen[way] {
			seen[way], out = true, append(out, way)
		}
	}
	return out, nil
}

// forsaken is what the loss of worktrees means to the runs of roots.
func (s *Scheduler) forsaken(snap *kernel.Snapshot, roots ...kernel.JobID) kernel.Plan {
	trees, ok := s.Worktrees.(worktreeFinder)
	if !ok {
		return kernel.Plan{}
	}
	return history.Forget(snap, roots, func(c kernel.Context) bool { return !trees.InPlace(c) })
}

// GC removes old terminal jobs that nothing open refers to, and what killed
// processes were writing, and ticks.
func (s *Scheduler) GC(ctx context.Context, olderThan time.Duration) (Report, error) {
	rep, err := s.transact(ctx, kernel.Scope{All: true},
		recorded(retention.Old{Than: olderThan, Worktrees: true}), recorded(retention.Old{Than: olderThan}))
	if err == nil && s.Cleaner != nil {
		err = errors.Join(s.Cleaner.TrimHistory(ctx), s.DropTemporary())
	}
	return rep, err
}

// DropTemporary removes what killed processes were writing.
func (s *Scheduler) DropTemporary() error {
	if s.Cleaner == nil {
		return nil
	}
	_, err := s.Cleaner.DropTemporary()
	return err
}

// Snapshot is the world as it stands, with every fact that its open jobs'
// gates read. It changes nothing.
func (s *Scheduler) Snapshot(ctx context.Context, scope kernel.Scope) (*kernel.Snapshot, error) {
	s.configure()
	rec, err := s.Store.Read(ctx, scope)
	if err != nil {
		return nil, err
	}
	return s.observe(ctx, s.fresh(s.Now(), rec)), nil
}

// Explain says why a job is not running, on the world as it stands. It changes
// nothing.
func (s *Scheduler) Explain(ctx context.Context, id kernel.JobID) (kernel.Explanation, *kernel.Snapshot, error) {
	var e kernel.Explanation
	var refused error
	explain := func(snap *kernel.Snapshot) *kernel.Snapshot {
		for range 3 { // what an answer leads to may be asked about as well
			snap = s.observe(ctx, snap)
			snap = s.answer(ctx, snap, snap.ProbesOf(id))
			e, refused = kernel.Explain(snap, id)
			var lost kernel.Plan
			for _, a := range e.Actions {
				if a.Kind == kernel.RetryJob {
					lost = lost.Then(s.forsaken(snap, a.Job))
				}
			}
			if !lost.Empty() {
				e, refused = kernel.Explain(snap.Apply(lost), id)
			}
			if !snap.Narrow() || snap.Probes().Empty() {
				break
			}
		}
		return snap
	}
	near := append(history.EveryTick(s.Now()), kernel.Near{Kind: kernel.Outsiders}, kernel.Near{Kind: kernel.Itself, Job: id})
	snap, err := s.Look(ctx, near, explain)
	if err != nil || snap.Narrow() {
		return e, snap, errors.Join(err, refused)
	}
	if j := snap.Job(id); j != nil && !j.Open() { // what open jobs refer to is there already
		for _, p := range j.Spec.After {
			near = append(near, kernel.Near{Kind: kernel.Itself, Job: p})
		}
		for _, a := range j.Spec.Needs {
			near = append(near, kernel.Near{Kind: kernel.Producers, Artifact: a})
		}
		snap, err = s.Look(ctx, near, explain)
	}
	return e, snap, errors.Join(err, refused)
}

// Look shows look what is near to something, and again with what it looked at in
// vain, until that is nothing. What look has learned on the way is what it
// returns.
func (s *Scheduler) Look(ctx context.Context, near []kernel.Near, look func(*kernel.Snapshot) *kernel.Snapshot) (*kernel.Snapshot, error) {
	s.configure()
	for facts, round := kernel.NewFacts(), 0; ; round++ {
		scope := history.Besides(near)
		if round < mostRounds {
			scope.Near = near
		}
		rec, err := s.Store.Read(ctx, scope)
		if err != nil {
			return nil, err
		}
		snap := look(s.snapshot(s.Now(), rec, scope).WithFacts(facts))
		more, whole := snap.Lacks()
		if !whole && len(more) == 0 {
			return snap, nil
		}
		if near, facts = append(near, more...), snap.Facts(); whole {
			round = mostRounds - 1
		}
	}
}

func (s *Scheduler) configure() {
	if s.Configure != nil {
		s.Configure(s)
	}
}

// snapshot is of what scope brought.
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

// observe answers what snap still asks, and whether the artifacts also exist.
// Answers may raise further questions (the branch that is checked out), so it
// asks until there are none.
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

// answer observes what p asks. Whether runners live comes first: what one that
// is gone has left is then all there, and its result is not missed. Nobody reads the
// results of the others.
func (s *Scheduler) answer(ctx context.Context, snap *kernel.Snapshot, p kernel.Probes) *kernel.Snapshot {
	f := kernel.NewFacts()
	if len(p.Attempts) > 0 {
		s.alive(ctx, snap, p.Attempts, f.Runners)
		p.Attempts = slices.DeleteFunc(p.Attempts, func(a kernel.AttemptID) bool { return !f.Runners[a].Value.Gone() })
	}
	for _, o := range s.Observers {
		o.Observe(ctx, p, &f)
	}
	return snap.WithFacts(f)
}
