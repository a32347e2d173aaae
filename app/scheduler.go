// Package app holds the use cases. It runs the kernel against the world through
// the ports that it declares. It does not print, read the environment or know
// about terminals.
package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/history"
	"github.com/vizier-scheduler/vizier/kernel/retention"
)

// Scheduler has a method for every use case that a front end may offer. It must
// be used by one goroutine at a time. Each use case applies the limits that are
// configured when it begins.
type Scheduler struct {
	Store     Store
	Observers []Observer
	Executor  Executor            // of this machine
	Executors map[string]Executor // the others, by name
	Worktrees Worktrees
	Sentinels Sentinels
	Prompts   Prompts
	Cleaner   RunCleaner
	Waker     Waker    // nil: a resident scheduler is not woken
	Events    EventLog // nil: events are not kept
	Hooks     Hooks    // nil: there are no hooks
	Limits    kernel.Limits
	Keep      retention.Policy // what is kept of ended jobs without a request to remove more
	PackAfter time.Duration    // how long after a job's end its files are packed; 0: never

	// Configure updates Limits, Executors, Hooks and Waker from the current
	// configuration. Every transaction and every read begins with it; nil: they
	// do not change.
	Configure func(*Scheduler)

	// Sandboxed says that everything this process starts ends with it, and that
	// it may not see processes that others started. The process then only
	// records what is asked for. Judging jobs, and all world actions, are left
	// to a transaction elsewhere.
	Sandboxed bool

	// Ending ends once this process is to end; nil: never. From then on it starts no
	// attempt and no resident scheduler: mostly, everything here is to end, and nobody
	// would tell them. It does not wait for the lock either.
	Ending context.Context

	// Inside reports whether the caller is part of a job, or may be; nil:
	// callers are not checked.
	Inside func(context.Context) (where Descent, inside bool)

	Now   func() time.Time
	NewID func() kernel.JobID
}

// Report is the result of a use case, for people and programs to read.
type Report struct {
	Decisions []kernel.Decision
	Applied   []kernel.Action
	Refused   map[kernel.JobID]string // launches that the executor refused, and why
	Snapshot  *kernel.Snapshot        // the state after the transaction; it holds at least the jobs concerned
	Wakes     kernel.Wakes            // what has to be watched from now on
	Late      error                   // wraps kernel.ErrRecorded: why the decisions, which are durable, are not written out yet and their jobs not started; nil: they are

	// Same maps the id minted for a job that already existed to the existing
	// job. Note says why the existing job is not going to run.
	Same map[kernel.JobID]kernel.JobID
	Note map[kernel.JobID]kernel.NotRun
}

// Started returns the jobs whose attempts were launched.
func (r Report) Started() []kernel.JobID {
	var ids []kernel.JobID
	for _, a := range r.Applied {
		if l, ok := a.(kernel.Launch); ok && r.Refused[l.Attempt.Job] == "" {
			ids = append(ids, l.Attempt.Job)
		}
	}
	return ids
}

// Updated returns the jobs whose status changed.
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

// Submit enqueues jobs, all or none, and ticks. A job with an idempotency key
// that is already in use is replaced by the existing one. by is who asks.
func (s *Scheduler) Submit(ctx context.Context, news []kernel.NewJob, by string) (Report, error) {
	v := history.Submit{Jobs: news, By: by}
	var same map[kernel.JobID]kernel.JobID
	var note map[kernel.JobID]kernel.NotRun
	rep, err := s.transact(ctx, v.Scope(), verb{also: v.Scope().Artifacts,
		decide: func(snap *kernel.Snapshot) (kernel.Plan, []history.Verb, error) {
			m, plan, err := kernel.Submit(snap, news, by)
			same, note = m.Same, m.Note
			return plan, []history.Verb{v}, err
		}})
	rep.Same, rep.Note = same, note
	return rep, err
}

// ending returns why this process is to end, or nil.
func (s *Scheduler) ending() error {
	if s.Ending == nil {
		return nil
	}
	return context.Cause(s.Ending)
}

// untilEnding returns a context that ends with ctx, or once this process is to end. It
// also ends when it is released.
func (s *Scheduler) untilEnding(ctx context.Context) (_ context.Context, release func()) {
	if s.Ending == nil {
		return ctx, func() {}
	}
	ctx, stop := context.WithCancelCause(ctx)
	if err := s.ending(); err != nil {
		stop(err) // now, and not once a goroutine runs
	}
	forget := context.AfterFunc(s.Ending, func() { stop(s.ending()) })
	return ctx, func() {
		forget()
		stop(nil)
	}
}

// ask runs a transaction that decides v, and ticks.
func (s *Scheduler) ask(ctx context.Context, v history.Verb) (Report, error) {
	return s.transact(ctx, v.Scope(), recorded(v))
}

// InsideError says that a caller inside a job must not make this decision
// (semantics 2, decision 16).
type InsideError struct {
	Verb string
	Descent
}

// Descent is the job that a process comes from, or why that is not known.
type Descent struct {
	Job kernel.JobID
	Why string // "": the process is known to come from the job
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

// mayDecide returns an *InsideError if the caller is part of a job, or may be.
func (s *Scheduler) mayDecide(ctx context.Context, verb string) error {
	if s.Inside == nil {
		return nil
	}
	if where, inside := s.Inside(ctx); inside {
		return &InsideError{verb, where}
	}
	return nil
}

// Approve grants a pending approval and ticks. For a job that takes the branch of its run, and that
// has asked for it, the approval covers the commit that the branch is at; given earlier it covers
// none, unless c.Head says so. It fails with kernel.ErrConflict if c.Head names another commit or,
// without c.Head, if the branch is not where it was when the job asked. It fails with an
// *InsideError if the caller is inside a job.
func (s *Scheduler) Approve(ctx context.Context, id kernel.JobID, c kernel.Consent) (Report, error) {
	if err := s.mayDecide(ctx, "approve"); err != nil {
		return Report{}, err
	}
	return s.transact(ctx, kernel.Scope{Jobs: []kernel.JobID{id}}, verb{decide: func(snap *kernel.Snapshot) (kernel.Plan, []history.Verb, error) {
		v := history.Approve{Job: id, Consent: c}
		plan, err := v.Decide(snap)
		if err == nil { // there is something to approve
			v.Consent.Head, err = s.headToApprove(ctx, snap.Job(id), c.Head)
		}
		if err == nil {
			plan, err = v.Decide(snap)
		}
		return plan, []history.Verb{v}, err
	}})
}

// headToApprove returns the commit of j's branch that an approval covers, "" if it covers none.
// If want is not "", it has to be that commit.
func (s *Scheduler) headToApprove(ctx context.Context, j *kernel.Job, want kernel.CommitID) (kernel.CommitID, error) {
	branch := j.Spec.ApprovedBranch()
	switch covers := branch != "" && !j.State.Approval.InDoubt; {
	case !covers && want != "":
		return "", fmt.Errorf("the approval of job %s covers no commit of a branch: %w", j.ID, kernel.ErrInvalid)
	case !covers, want == "" && j.State.Approval.Head == "" && j.State.Status != kernel.WaitingOnApproval:
		return "", nil
	}
	f := kernel.NewFacts()
	for _, o := range s.Observers {
		o.Observe(ctx, kernel.Probes{Branches: []string{branch}}, &f)
	}
	switch head, asked := f.Heads[branch], j.State.Approval.Head; {
	case head.Err != "":
		return "", fmt.Errorf("which commit of branch %s is approved with job %s cannot be told: %s", branch, j.ID, head.Err)
	case want == "" && asked != head.Value && j.State.Status != kernel.WaitingOnApproval:
		return "", fmt.Errorf("branch %s is not where it was when job %s asked for approval, and the job waits for something else now: approve it when it asks again: %w", branch, j.ID, kernel.ErrConflict)
	case head.Value == "" && asked != "":
		return "", fmt.Errorf("branch %s has gone since job %s asked for approval: make it again with `%s`: %w",
			branch, j.ID, kernel.CommandLine("git", "branch", branch, string(asked)), kernel.ErrConflict)
	case want == "" && asked == "" && head.Value != "":
		return "", fmt.Errorf("no commit of branch %s was known when job %s asked for approval: look at what there is with `%s`, then approve that with `vizier jobs approve %s --head %s`: %w",
			branch, j.ID, kernel.CommandLine("git", "log", string(head.Value)), j.ID, head.Value, kernel.ErrConflict)
	case want == "" && asked != head.Value:
		return "", fmt.Errorf("branch %s has moved since job %s asked for approval: look at what has changed with `%s`, then approve that with `vizier jobs approve %s --head %s`: %w",
			branch, j.ID, kernel.CommandLine("git", "log", "--left-right", string(asked+"..."+head.Value)), j.ID, head.Value, kernel.ErrConflict)
	case want != "" && head.Value == "":
		return "", fmt.Errorf("branch %s is not there, so it is not at %s: look at it again: %w", branch, want, kernel.ErrConflict)
	case want != "" && want != head.Value:
		return "", fmt.Errorf("branch %s is not at %s: look at what has changed with `%s`, then approve that with `vizier jobs approve %s --head %s`: %w",
			branch, want, kernel.CommandLine("git", "log", "--left-right", string(want+"..."+head.Value)), j.ID, head.Value, kernel.ErrConflict)
	default:
		return head.Value, nil
	}
}

// Reject refuses a pending approval and ticks. It fails with an *InsideError if
// the caller is inside a job.
func (s *Scheduler) Reject(ctx context.Context, id kernel.JobID, r kernel.Refusal) (Report, error) {
	if err := s.mayDecide(ctx, "reject"); err != nil {
		return Report{}, err
	}
	return s.ask(ctx, history.Reject{Job: id, By: r.By, How: r.How, Reason: r.Reason})
}

// Cancel ends a job, or asks its running attempt to end, and ticks. It does not
// wait for the attempt's processes.
func (s *Scheduler) Cancel(ctx context.Context, id kernel.JobID, by string, cleanup bool) (Report, error) {
	done, err := s.CancelAll(ctx, []kernel.JobID{id}, Cancellation{By: by, Cleanup: cleanup, Strict: true})
	return done.Report, err
}

// Cancellation is how jobs are cancelled.
type Cancellation struct {
	By      string
	Cleanup bool           // a worktree that a cancelled job owns is removed
	Runs    []kernel.RunID // these are cancelled as a whole: see kernel.CancelIn
	Strict  bool           // it fails with kernel.ErrConflict if there is nothing to cancel of a job
}

// Cancelled is what a cancel of jobs did.
type Cancelled struct {
	Report
	Jobs    []kernel.JobID // those that it ended, told to end, or of which it gave up the routes; with the runs of those that stand for a prompt
	Dropped []kernel.JobID // those of Jobs that had ended: it gave up their routes
}

// CancelAll cancels several jobs in one transaction, dependents first, so that
// cancelling a job does not end them in another way. Unless it is strict, it leaves those
// that have ended.
func (s *Scheduler) CancelAll(ctx context.Context, ids []kernel.JobID, how Cancellation) (done Cancelled, err error) {
	done.Report, err = s.transact(ctx, kernel.Scope{Jobs: ids}, verb{decide: func(snap *kernel.Snapshot) (kernel.Plan, []history.Verb, error) {
		done.Jobs, done.Dropped = nil, nil
		v, d := history.Cancel{By: how.By, Cleanup: how.Cleanup, Runs: how.Runs}, kernel.NewDraft(snap)
		ends := map[kernel.JobID]bool{}
		for _, id := range snap.DependentsFirst(ids) {
			plan, err := kernel.CancelIn(d.Snapshot(), how.Runs, id, how.By, how.Cleanup)
			if errors.Is(err, kernel.ErrConflict) && !how.Strict {
				continue
			}
			if err != nil {
				return kernel.Plan{}, nil, err
			}
			for _, ended := range endedBy(plan, snap.Job(id)) {
				if ends[ended] {
					continue
				}
				ends[ended] = true
				done.Jobs = append(done.Jobs, ended)
				if snap.Job(ended).State.Deferred {
					done.Dropped = append(done.Dropped, ended)
				}
			}
			d.Add(plan)
			v.Jobs = append(v.Jobs, id)
		}
		return d.Plan(), []history.Verb{v}, nil
	}})
	return done, err
}

// endedBy returns what a plan to cancel j ends: j and, if that stands for a prompt, the jobs of its run. A job may occur twice.
func endedBy(plan kernel.Plan, j *kernel.Job) []kernel.JobID {
	ids := []kernel.JobID{j.ID}
	if j.Spec.Prompt == nil {
		return ids
	}
	for _, a := range plan.Actions() {
		if id := a.Subject(); id != "" {
			ids = append(ids, id)
		}
	}
	return ids
}

// Retry rewinds roots and what depends on them, and ticks. It fails with an
// *InsideError if the caller is inside a job, because it takes back what was
// done and asks for approvals again.
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
		if needs := needsOf(snap, plan); len(needs) > 0 {
			plan, err = v.Decide(s.observe(ctx, snap, needs...))
		}
		return plan, []history.Verb{v}, err
	}})
}

// needsOf returns what the jobs need that the plan of a retry rewinds. Whether it exists decides
// whether they would wait for each other.
func needsOf(snap *kernel.Snapshot, plan kernel.Plan) (needs []kernel.Artifact) {
	for _, a := range plan.Records {
		needs = append(needs, snap.Job(a.Subject()).Spec.Needs...)
	}
	return needs
}

// RetrySets returns what Retry would rewind; see kernel.RetryAll. It changes
// nothing.
func (s *Scheduler) RetrySets(ctx context.Context, roots []kernel.JobID) ([]kernel.RetrySet, error) {
	snap, err := s.toRetry(ctx, roots)
	if err != nil {
		return nil, err
	}
	sets, _, err := kernel.RetryAll(snap, roots, "")
	return sets, err
}

// toRetry returns a snapshot of every job with the facts that decide whether roots can be retried together.
func (s *Scheduler) toRetry(ctx context.Context, roots []kernel.JobID) (*kernel.Snapshot, error) {
	snap, err := s.Snapshot(ctx, kernel.Scope{All: true})
	if err != nil {
		return nil, err
	}
	snap = snap.Apply(s.forsaken(snap, roots...))
	_, plan, err := kernel.RetryAll(snap, roots, "")
	if needs := needsOf(snap, plan); err == nil && len(needs) > 0 {
		snap = s.observe(ctx, snap, needs...)
	}
	return snap, nil // a refusal is for who retries
}

// Retryable returns those of roots that Retry takes together at the moment, and why it would refuse the
// others; see kernel.Retryable. It changes nothing.
func (s *Scheduler) Retryable(ctx context.Context, roots []kernel.JobID) (can []kernel.JobID, refused map[kernel.JobID]error, err error) {
	snap, err := s.Snapshot(ctx, kernel.Scope{All: true})
	if err != nil {
		return nil, nil, err
	}
	snap = snap.Apply(s.forsaken(snap, roots...))
	can, _ = kernel.Retryable(snap, roots)
	_, plan, err := kernel.RetryAll(snap, can, "")
	if err != nil {
		return nil, nil, err
	}
	can, refused = kernel.Retryable(s.observe(ctx, snap, needsOf(snap, plan)...), roots)
	return can, refused, nil
}

// WaysOut returns the jobs to retry so that the runs of ids, which did not
// succeed and are in schedule order, can end; see kernel.Snapshot.WayOut. It
// changes nothing.
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
	seen, after := map[kernel.JobID]bool{}, map[kernel.JobID]bool{}
	for _, id := range ids {
		if after[id] { // the retry of an earlier job includes it
			continue
		}
		for _, k := range snap.Downstream(id) {
			after[k] = true
		}
		if way := snap.WayOut(id); !seen[way] {
			seen[way], out = true, append(out, way)
		}
	}
	return out, nil
}

// forsaken returns the plan for the consequences of missing worktrees in the
// runs of roots.
func (s *Scheduler) forsaken(snap *kernel.Snapshot, roots ...kernel.JobID) kernel.Plan {
	trees, ok := s.Worktrees.(worktreeFinder)
	if !ok {
		return kernel.Plan{}
	}
	return history.Forget(snap, roots, func(c kernel.Context) bool { return !trees.InPlace(c) })
}

// GC removes old terminal jobs that no open job refers to, and temporary files
// of killed processes, and ticks.
func (s *Scheduler) GC(ctx context.Context, olderThan time.Duration) (Report, error) {
	rep, err := s.transact(ctx, kernel.Scope{All: true},
		recorded(retention.Old{Than: olderThan, Worktrees: true}), recorded(retention.Old{Than: olderThan}))
	if err == nil && s.Cleaner != nil {
		err = errors.Join(s.dropMergesOf(ctx, rep), s.Cleaner.TrimHistory(ctx), s.DropTemporary())
	}
	return rep, err
}

// DropTemporary removes temporary files of killed processes.
func (s *Scheduler) DropTemporary() error {
	if s.Cleaner == nil {
		return nil
	}
	_, err := s.Cleaner.DropTemporary()
	return err
}

// Snapshot returns the current state, with every fact that the gates of its
// open jobs read. It changes nothing.
func (s *Scheduler) Snapshot(ctx context.Context, scope kernel.Scope) (*kernel.Snapshot, error) {
	s.configure()
	rec, err := s.Store.Read(ctx, scope)
	if err != nil {
		return nil, err
	}
	return s.observe(ctx, s.fresh(s.Now(), rec)), nil
}

// Explain says why a job is not running at the moment. It changes nothing.
func (s *Scheduler) Explain(ctx context.Context, id kernel.JobID) (kernel.Explanation, *kernel.Snapshot, error) {
	var e kernel.Explanation
	var refused error
	explain := func(snap *kernel.Snapshot) *kernel.Snapshot {
		for range 3 { // an answer may raise further questions
			snap = s.observe(ctx, snap)
			snap = s.answer(ctx, snap, snap.ProbesOf(id))
			e, refused = kernel.Explain(snap, id)
			var lost kernel.Plan
			for _, a := range e.Actions {
				if a.Kind == kernel.RetryJob {
					lost = lost.Then(s.forsaken(snap, a.Job))
				}
			}
			if len(e.Asks) > 0 {
				snap = s.observe(ctx, snap, e.Asks...)
			}
			if !lost.Empty() || len(e.Asks) > 0 {
				e, refused = kernel.Explain(snap.Apply(lost), id)
			}
			if !snap.Narrow() || snap.Probes().Empty() {
				break
			}
		}
		return snap
	}
	near := append(history.EveryTick(s.Now()), kernel.Near{Kind: kernel.Outsiders}, kernel.Near{Kind: kernel.Itself, Job: id})
	for looked := map[kernel.JobID]bool{}; ; {
		snap, err := s.Look(ctx, near, explain)
		if err != nil || snap.Narrow() {
			return e, snap, errors.Join(err, refused)
		}
		known := len(near)
		for _, of := range append([]kernel.JobID{id}, about(e)...) {
			if j := snap.Job(of); j != nil && !j.Open() && !looked[of] { // what open jobs refer to is already there
				looked[of] = true
				for _, p := range j.Spec.After {
					near = append(near, kernel.Near{Kind: kernel.Itself, Job: p})
				}
				for _, a := range j.Spec.Needs {
					near = append(near, kernel.Near{Kind: kernel.Producers, Artifact: a})
				}
			}
		}
		if len(near) == known {
			return e, snap, refused
		}
	}
}

// about returns the jobs that e says to do something about.
func about(e kernel.Explanation) (ids []kernel.JobID) {
	for _, a := range e.Actions {
		ids = append(ids, a.Job)
	}
	return ids
}

// HeldUpBy returns the first of jobs ids that cannot start before job by, which runs, has ended; "":
// there is none. It follows the jobs that they wait for, up to a bound; waits returns what a command in a running job waits for.
func (s *Scheduler) HeldUpBy(ctx context.Context, by kernel.JobID, ids []kernel.JobID, waits func(kernel.JobID) []kernel.JobID) (kernel.JobID, error) {
	const most = 64 // explanations
	of := map[kernel.JobID]kernel.JobID{}
	for _, id := range ids {
		of[id] = id
	}
	for next := slices.Clone(ids); len(next) > 0 && len(of) < len(ids)+most; next = next[1:] {
		e, snap, err := s.Explain(ctx, next[0])
		if err != nil && !errors.Is(err, kernel.ErrNotFound) {
			return "", err
		}
		if j, holder := snap.Job(next[0]), snap.Job(by); err == nil && j != nil && holder != nil && j.State.Status.Waiting() && snap.Limits().Exclude(&holder.Spec, &j.Spec) {
			return of[next[0]], nil
		}
		var behind []kernel.JobID
		if e.Status == kernel.Running {
			behind = waits(next[0])
		}
		for _, u := range e.Unmet {
			if u.Job != "" && !u.Final && u.Artifact == (kernel.Artifact{}) { // another job may make the artifact
				behind = append(behind, u.Job)
			}
		}
		for _, id := range behind {
			if id == by {
				return of[next[0]], nil
			}
			if of[id] == "" {
				of[id], next = of[next[0]], append(next, id)
			}
		}
	}
	return "", nil
}

// Look calls look with a snapshot of the records that near names. It repeats
// that with the records that look asked for in vain until there are none. Facts
// in the snapshot that look returns are passed on to the next call. Look
// returns look's last result.
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
