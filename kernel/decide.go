package kernel

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// tick is the working state of one Decide. Positions are schedule order.
type tick struct {
	s    *Snapshot
	all  []judgement          // of every job, in a full tick
	some map[int32]*judgement // of the jobs judged so far, in an incremental tick

	baseline *dirtySet // of an incremental tick: what may differ from the last
	locks    LockTable
	queue    []int32   // judged to end without running, in the order of judging
	carried  bool      // every job has had its turn; now the dependents of those that ended are judged
	late     bool      // a job came to the locks out of its turn, or ended and holds others back
	watch    int32     // a job to explain; -1: none
	watched  LockTable // the locks as they stood before it was judged

	branches  map[string]takersOf // of the branches whose jobs have kept their status since
	contested map[string]bool     // the branches that hold up a job judged so far
	moved     map[string]bool     // those of them on which a job has changed its status since
	failures  map[RunID]*failure  // the failures when the round began
	made      map[madeKey]*made

	rewindable map[int32]map[JobID]bool // by a job that a route woke: what it may rewind
	takes      map[JobID]int32          // the jobs that deferred routes take back: whose routes these are
	defers     map[int32]JobID          // whose routes are deferred: the first running job that these take back
}

// judgement is what the tick has decided about a job so far.
type judgement struct {
	status Status
	judged bool
	reason WaitReason
}

// Decide judges every open job in schedule order, and then the jobs that depend on
// those that ended, so that a second Decide on the result finds nothing to do. It
// is total: it returns a plan for any snapshot. In a snapshot of some of the jobs
// it judges only the dirty ones: see dirtySet. If the snapshot then Lacks jobs,
// the plan is void.
//
// Running attempts whose runner is gone are settled first, by the result on
// record or as lost, so that their locks are free in the same tick. So are
// approvals that have expired.
func Decide(s *Snapshot) Plan {
	p, settled := settle(s)
	t := newTick(settled)
	t.judgeDirty()
	q := t.plan(s)
	if gone := t.purgeable(); !gone.Empty() {
		q = q.Then(gone)
	}
	if !p.Empty() {
		q = p.Then(q)
	}
	q.Judged = s.limits.String()
	return q
}

// judgeDirty judges every job whose judgement may differ from its last one.
func (t *tick) judgeDirty() {
	if t.s.near == nil {
		t.judgeAll()
	} else if t.s.near.all {
		t.s.near.whole = false
		if !t.judgeIncrementally() || t.s.near.whole {
			*t = tick{s: t.s, some: map[int32]*judgement{}, locks: NewLockTable(t.s.limits), watch: t.watch}
			t.judgeAll()
		}
	} else if !t.judgeIncrementally() && len(t.s.near.lacks) == 0 { // else it may suffice to load the jobs that it lacks
		t.s.requireAll()
	}
}

// newTick returns a tick that has judged nothing: every job has the status of its
// record.
func newTick(s *Snapshot) *tick {
	return &tick{s: s, some: map[int32]*judgement{}, locks: NewLockTable(s.limits), watch: -1}
}

// status returns the status of job i at this point of the tick.
func (t *tick) status(i int32) Status {
	if t.all != nil {
		return t.all[i].status
	}
	if v, ok := t.some[i]; ok {
		return v.status
	}
	return t.s.jobs[i].State.Status
}

// of returns the judgement of job i, which the caller may change.
func (t *tick) of(i int32) *judgement {
	if t.all != nil {
		return &t.all[i]
	}
	v, ok := t.some[i]
	if !ok {
		v = &judgement{status: t.s.jobs[i].State.Status}
		t.some[i] = v
	}
	return v
}

// judgeAll judges every job.
func (t *tick) judgeAll() {
	t.all = make([]judgement, len(t.s.jobs))
	// A job turns terminal at most once, so there are at most as many rounds
	// as jobs. There are hardly ever more than two.
	for range len(t.s.jobs) + 1 {
		if t.round() {
			return
		}
	}
	panic("kernel: a job turned terminal twice in one tick")
}

// round judges every job that has not ended in an earlier round. It reports whether
// the result is final. It is not if a job ended that might have needed a transient
// job, or if a job came to the locks out of turn: see late.
func (t *tick) round() bool {
	t.locks, t.carried, t.late, t.failures = NewLockTable(t.s.limits), false, false, nil
	for i := range t.s.jobs {
		v := &t.all[i]
		if v.judged && v.status.Terminal() {
			continue
		}
		*v = judgement{status: t.s.jobs[i].State.Status}
		if v.status == Running {
			t.locks.Take(t.s.jobs[i].Spec.Task.On(), t.s.jobs[i].Spec.Locks)
		}
	}
	transients := t.wake()
	t.branches, t.contested, t.moved = nil, map[string]bool{}, map[string]bool{}
	for i := range t.all {
		if t.all[i].status == Failed {
			t.noteFailure(int32(i))
		}
	}
	ended := len(t.queue)
	for i := range t.s.jobs {
		if int32(i) == t.watch {
			t.watched = t.locks.clone()
		}
		t.judge(int32(i))
	}
	t.judgeHeld()
	t.carry(ended)
	return len(t.queue) == ended || !transients && !t.late
}

// carry judges the dependents of the jobs that ended, from queue position told on.
func (t *tick) carry(told int) {
	t.carried = true
	again := func(k int32) {
		before := t.status(k)
		t.judge(k)
		after := t.status(k)
		t.late = t.late || after != before && (after == Running || after == WaitingOnLocks)
	}
	var many []int32 // jobs after many: each is judged once all that ended by then was told
	noted := map[int32]bool{}
	for told < len(t.queue) || len(many) > 0 {
		for ; told < len(t.queue); told++ {
			i := t.queue[told]
			t.s.graph.eachSuccessor(i, func(k int32) {
				switch j := t.s.jobs[k]; {
				case !j.wide() && len(j.Spec.Needs) <= wide:
					again(k)
				case !noted[k]:
					noted[k], many = true, append(many, k)
				}
			})
			if t.s.jobs[i].Spec.Routed {
				t.s.eachUnfinal(i, again)
			}
			t.s.eachRival(i, Rivals, func(k int32) { t.late = t.late || t.status(k).Waiting() })
		}
		for _, k := range many {
			again(k)
		}
		many = many[:0]
		clear(noted)
	}
}

// Settle returns the part of Decide's plan that ends attempts whose runner is gone, and jobs whose approval has expired. It
// may enqueue jobs, which must be observed before they can be judged.
func Settle(s *Snapshot) Plan {
	p, _ := settle(s)
	return p
}

// settle ends the running attempts whose runner is gone, and returns the snapshot
// after that, with their artifacts and without their locks.
func settle(s *Snapshot) (Plan, *Snapshot) {
	d, jobs := NewDraft(s), s.jobs
	for _, i := range s.running {
		r, began, over := d.s.resultOfGone(jobs[i].Attempt())
		if !over {
			continue
		}
		d.s.requireAll() // its end may concern any job
		var q Plan
		var err error
		if !began && jobs[i].State.Stop.At.IsZero() {
			q, err = Refuse(d.s, r.Attempt, r.Reason, jobs[i].lastRefusal())
		} else {
			q, err = Finish(d.s, r)
		}
		if err != nil {
			continue // the routes of an earlier one have ended it
		}
		if r.Class == WorkerLost && !d.s.facts.Runners[r.Attempt].Value.Late {
			q.add(Sweep{r.Attempt})
		}
		d.Add(q)
	}
	d.Add(d.s.expire())
	d.Add(d.s.stalls())
	d.Add(d.s.takeDeferred())
	return d.plan, d.s
}

// stalls marks the attempts whose runners give no sign of life. Each is marked once,
// since the mark is reported to people.
func (s *Snapshot) stalls() (p Plan) {
	for _, i := range s.running {
		j := s.jobs[i]
		if st := j.State; st.Stalled != st.Attempt && s.facts.Runners[j.Attempt()].Value.Liveness == Stalled {
			st.Stalled = st.Attempt
			p.add(PutState{j.ID, j.Rev, st})
		}
	}
	return p
}

// resultOfGone returns the result of a running attempt whose runner is gone: the one
// on record, or else that it was lost. began is false if the command never began; such
// an attempt ends as cancelled if it was to stop, and is otherwise refused. over is
// false while the runner may live, or while there may be a result that cannot be read.
func (s *Snapshot) resultOfGone(a AttemptID) (r Result, began, over bool) {
	live, found := s.facts.Runners[a], s.facts.Results[a]
	switch {
	case !live.Known || !live.Value.Gone():
		return Result{}, false, false
	case found.Value != nil && found.Value.Attempt == a: // a result proves that it began, whatever else is missing
		r := *found.Value
		if r.Class == WorkerLost && !r.Applied { // the remark says what became of the runner
			r.Reason = cmp.Or(live.Value.Remark, r.Reason)
		}
		return r, true, true
	case live.Value.Liveness == NeverStarted:
		return Result{Attempt: a, Reason: cmp.Or(live.Value.Remark, "its runner ended before it began")}, false, true
	case !found.Known:
		return Result{}, false, false
	}
	r = Result{Attempt: a, Outcome: OutcomeFailed, Exit: 1, Class: WorkerLost, Reason: cmp.Or(live.Value.Remark, "its runner ended without a result")}
	if live.Value.Late {
		r.Exit, r.Class, r.Reason = 124, Timeout, "timed out: its runner, which did not end it, was ended as well"
	}
	return r, true, true
}

// delayed reports whether job i must wait for its RetryAt: after a failure, or after
// its executor refused it.
func (t *tick) delayed(i int32) bool {
	st := &t.s.jobs[i].State
	return st.Status == t.status(i) && !t.s.jobs[i].Delayed(t.s.now).IsZero()
}

func (t *tick) judge(i int32) {
	switch s := t.status(i); {
	case s.Terminal(), s == Running, s == Unscheduled,
		t.carried && s == WaitingOnLocks: // its place in the queue for locks is taken
		return
	case t.delayed(i):
		return
	}
	t.of(i).judged = true
	for _, g := range gates {
		switch v := g.decides(t, i); v.kind {
		case waiting:
			t.put(i, g.onWait, v.reason(g.kind))
			if g.kind == OnLocks {
				t.locks.Reserve(t.s.jobs[i].Spec.Locks)
			}
			return
		case blocked:
			t.put(i, g.onBlocked, v.reason(g.kind))
			t.queue = append(t.queue, i)
			t.late = t.late || t.holdsBack(i)
			return
		case passed:
		}
	}
	if len(t.s.jobs[i].Spec.Task.Args) == 0 {
		t.put(i, Failed, WaitReason{Kind: OnDependencies, Detail: "missing child args"})
		t.queue = append(t.queue, i)
		t.late = t.late || t.holdsBack(i)
		return
	}
	t.locks.Take(t.s.jobs[i].Spec.Task.On(), t.s.jobs[i].Spec.Locks)
	t.put(i, Running, WaitReason{})
}

// put sets the judgement of a job.
func (t *tick) put(i int32, status Status, reason WaitReason) {
	v := t.of(i)
	if v.status != status {
		branch := t.s.jobs[i].Spec.Origin.Branch
		delete(t.branches, branch)
		if t.contested[branch] {
			t.moved[branch] = true
		}
	}
	v.status, v.reason = status, reason
}

// plan returns what the judgements change. Its decisions are relative to before, the
// snapshot that the tick began with.
func (t *tick) plan(before *Snapshot) Plan {
	var p Plan
	p.World = t.promptUpdates() // before any launch, which needs its input
	put := func(i int32) {
		j := t.s.jobs[i]
		was := before.jobAt(i, j)
		if was == nil { // a job that settled submitted it
			was = j
		}
		if j == was && t.unchanged(i, j) {
			return
		}
		next := t.next(i)
		if next != was.State {
			p.Decisions = append(p.Decisions, Decision{j.ID, was.State.Status, next.Status, next.Wait})
		}
		if next == j.State {
			return
		}
		if next.Status == Running && next.Attempt > j.State.Attempt {
			if !j.State.Started.IsZero() { // after a rewind or a refusal there is nothing to keep
				p.add(Rotate{j.Attempt()})
			}
			p.World = append(p.World, Launch{AttemptID{j.ID, next.Attempt}})
		}
		p.Records = append(p.Records, PutState{j.ID, j.Rev, next})
	}
	if t.all != nil {
		for i := range t.s.jobs {
			put(int32(i))
		}
	} else {
		for _, i := range slices.Sorted(maps.Keys(t.some)) {
			put(i)
		}
	}
	return p
}

// jobAt returns the job of s with j's id. It is at position i, unless i comes from a
// snapshot that holds other jobs.
func (s *Snapshot) jobAt(i int32, j *Job) *Job {
	if int(i) < len(s.jobs) && s.jobs[i].ID == j.ID {
		return s.jobs[i]
	}
	return s.Job(j.ID)
}

// unchanged reports whether the tick leaves a job as it is.
func (t *tick) unchanged(i int32, j *Job) bool {
	v := t.of(i)
	if v.status != j.State.Status {
		return false
	}
	return !v.judged || v.status.Waiting() && v.reason == j.State.Wait && j.State.RetryAt.IsZero()
}

// next returns the state in which the tick leaves job i.
func (t *tick) next(i int32) State {
	st, v := t.s.jobs[i].State, t.of(i)
	if st.Status == FailedRetryable && v.status != FailedRetryable {
		spend(t.s.jobs[i], &st, t.s.now)
	}
	switch {
	case v.judged:
	case v.status == Unscheduled: // it fell asleep
		st.Status, st.Wait, st.WaitSince, st.RetryAt = Unscheduled, WaitReason{}, time.Time{}, time.Time{}
		return st
	default:
		return st
	}
	st.Status = v.status
	if v.reason.Kind != st.Wait.Kind {
		st.WaitSince = time.Time{}
		if v.reason.Kind != NoWait {
			st.WaitSince = t.s.now
		}
	}
	st.Wait = v.reason
	if st.Status != Failed { // a data error is no wait
		st.WaitedOn = st.WaitedOn.With(st.Wait.Kind)
	}
	st.RetryAt = time.Time{}
	if st.Status.Waiting() && st.Refused > 0 { // the refused launch no longer holds it up
		st.Failure, st.Reason = NoFailure, ""
	}
	switch st.Status {
	case WaitingOnApproval:
		if j := t.s.jobs[i]; j.beginsToAsk() { // its time begins
			st.Approval.ExpiresAt = time.Time{}
			if branch := j.branchAskedFor(); branch != "" {
				st.Approval.Head = t.s.facts.Heads[branch].Value
			}
		}
		if d := t.s.jobs[i].Spec.ApprovalTimeout; d > 0 && st.Approval.ExpiresAt.IsZero() {
			st.Approval.ExpiresAt = Timestamp(t.s.now.Add(d))
		}
	case Running: // the next attempt begins
		st.Attempt++
		st.Started, st.Finished = t.s.now, time.Time{}
		st.Exit, st.Outcome, st.Failure, st.Reason = ExitCode{}, NoOutcome, NoFailure, ""
		st.Stop, st.Place = StopRequest{}, Place{}
	case Failed: // missing child args: a data error, finalised at once (seed 000)
		st.Finished, st.Exit, st.Outcome = t.s.now, Exited(1), OutcomeFailed
		st.Failure, st.Reason = DataError, st.Wait.Detail
	default:
	}
	return st
}
