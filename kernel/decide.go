package kernel

import "time"

// tick is the working state of one Decide. Positions are schedule order.
type tick struct {
	s       *Snapshot
	status  []Status // as they stand at this point of the tick
	reason  []WaitReason
	judged  []bool
	locks   LockTable
	queue   []int32   // judged to end without running, in the order this came out
	late    bool      // a job came to the locks out of its turn
	watch   int32     // a job to explain; -1: none
	watched LockTable // the locks as they stood before it was judged
}

// Decide judges every open job in schedule order and carries what follows from
// each judgement through the whole graph, so that a second Decide on the
// outcome finds nothing to do. It is total: whatever the snapshot holds, it
// returns a plan.
//
// Running attempts whose runner is gone are settled first, by the result on
// record or as lost, so that their locks are free in the same tick.
func Decide(s *Snapshot) Plan {
	p, settled := settle(s)
	t := newTick(settled)
	t.run()
	return p.Then(t.plan(s))
}

func newTick(s *Snapshot) *tick {
	n := len(s.jobs)
	return &tick{s: s, status: make([]Status, n),
		reason: make([]WaitReason, n), judged: make([]bool, n), locks: NewLockTable(s.limits), watch: -1}
}

func (t *tick) run() {
	// A job turns terminal at most once, so there are at most as many rounds
	// as jobs. There are hardly ever more than two.
	for range len(t.s.jobs) + 1 {
		if t.round() {
			return
		}
	}
	panic("kernel: a job turned terminal twice in one tick")
}

// round judges every job that has not ended in an earlier round, and reports
// that it stands. It does not when a job ended in it that might have demanded
// a transient job, or made way for one that now came to the locks too late.
func (t *tick) round() bool {
	t.locks, t.late = NewLockTable(t.s.limits), false
	for i := range t.s.jobs {
		if t.judged[i] && t.status[i].Terminal() {
			continue
		}
		t.status[i], t.judged[i], t.reason[i] = t.s.jobs[i].State.Status, false, WaitReason{}
		if t.status[i] == Running {
			t.locks.Take(t.s.jobs[i].Spec.Task.On(), t.s.jobs[i].Spec.Locks)
		}
	}
	transients := t.wake()
	ended := len(t.queue)
	for i := range t.s.jobs {
		if int32(i) == t.watch {
			t.watched = t.locks.clone()
		}
		t.judge(int32(i))
	}
	for told := ended; told < len(t.queue); told++ {
		t.s.graph.eachSuccessor(t.queue[told], func(k int32) {
			before := t.status[k]
			t.judge(k)
			after := t.status[k]
			t.late = t.late || after != before && (after == Running || after == WaitingOnLocks)
		})
	}
	return len(t.queue) == ended || !transients && !t.late
}

// settle ends the running attempts whose runner is gone, and returns the
// snapshot that leads to: what they published is there for their consumers,
// and their locks are free.
func settle(s *Snapshot) (Plan, *Snapshot) {
	var p Plan
	for _, j := range s.jobs {
		if j.State.Status != Running {
			continue
		}
		r, over := s.verdict(j.Attempt())
		if !over {
			continue
		}
		var q Plan
		var err error
		if s.facts.Runners[r.Attempt].Value.Liveness == Absent {
			q, err = Refuse(s, r.Attempt, r.Reason, false)
		} else {
			q, err = Finish(s, r)
		}
		if err != nil {
			continue // an earlier one's routes took it along
		}
		if r.Class == WorkerLost {
			q.Actions = append(q.Actions, Sweep{r.Attempt})
		}
		p, s = p.Then(q), s.Apply(q)
	}
	return p, s
}

// verdict is the result of a running attempt whose runner is gone: the one on
// record, or that it is lost.
func (s *Snapshot) verdict(a AttemptID) (Result, bool) {
	live := s.facts.Runners[a]
	switch {
	case !live.Known:
		return Result{}, false
	case live.Value.Liveness == Absent:
		return Result{Attempt: a, Reason: orElse(live.Value.Remark, "its runner ended before it began")}, true
	case live.Value.Liveness != Dead:
		return Result{}, false
	}
	lost := Result{Attempt: a, Outcome: OutcomeFailed, Exit: 1, Class: WorkerLost, Reason: "its runner ended without a result"}
	switch f := s.facts.Results[a]; {
	case !f.asked():
		return Result{}, false
	case f.Err != "":
		lost.Reason = "its runner ended, and its result cannot be read: " + f.Err
	case f.Value != nil && f.Value.Attempt == a:
		return *f.Value, true
	}
	return lost, true
}

// delayed reports that job i is not to be started before its RetryAt, which
// has not come: after a failure, or after its executor refused it.
func (t *tick) delayed(i int32) bool {
	st := &t.s.jobs[i].State
	return st.Status == t.status[i] && t.s.now.Before(st.RetryAt)
}

func (t *tick) judge(i int32) {
	switch s := t.status[i]; {
	case s.Terminal(), s == Running, s == Unscheduled,
		t.judged[i] && s == WaitingOnLocks: // its place in the queue for locks is taken
		return
	case s == FailedRetryable, s == Queued:
		t.judged[i] = true
		if t.delayed(i) {
			return
		}
	}
	t.judged[i] = true
	for _, g := range gates {
		v, _ := g.check(t, i, 0)
		switch v.outcome {
		case waiting:
			t.status[i], t.reason[i] = g.onWait, WaitReason{g.kind, v.detail}
			if g.kind == OnLocks {
				t.locks.Reserve(t.s.jobs[i].Spec.Locks)
			}
			return
		case blocked:
			t.status[i], t.reason[i] = g.onBlocked, WaitReason{g.kind, v.detail}
			t.queue = append(t.queue, i)
			return
		}
	}
	if len(t.s.jobs[i].Spec.Task.Args) == 0 {
		t.status[i], t.reason[i] = Failed, WaitReason{OnDependencies, "missing child args"}
		t.queue = append(t.queue, i)
		return
	}
	t.locks.Take(t.s.jobs[i].Spec.Task.On(), t.s.jobs[i].Spec.Locks)
	t.status[i], t.reason[i] = Running, WaitReason{}
}

// plan turns the judgements into what must change. Decisions tell of the change
// since before, the snapshot that the tick began with.
func (t *tick) plan(before *Snapshot) Plan {
	p := Plan{Decisions: make([]Decision, 0, len(t.s.jobs))}
	var launches []Action
	for i, j := range t.s.jobs {
		was := before.jobs[i].State.Status
		if !t.judged[i] && t.status[i] == was && was == j.State.Status {
			continue
		}
		if t.unchanged(int32(i), j) && was == j.State.Status {
			p.Decisions = append(p.Decisions, Decision{j.ID, was, was, j.State.Wait})
			continue
		}
		next := t.next(int32(i))
		p.Decisions = append(p.Decisions, Decision{j.ID, was, next.Status, next.Wait})
		if next == j.State {
			continue
		}
		if next.Status == Running && next.Attempt > j.State.Attempt {
			if !j.State.Started.IsZero() { // after a rewind or a refusal there is nothing to keep
				p.Actions = append(p.Actions, Rotate{j.Attempt()})
			}
			launches = append(launches, Launch{AttemptID{j.ID, next.Attempt}})
		}
		p.Actions = append(p.Actions, PutState{j.ID, j.Rev, next})
	}
	p.Actions = append(p.Actions, t.tending()...) // what has no input is not launched
	p.Actions = append(p.Actions, launches...)
	return p
}

// unchanged reports that the tick leaves a waiting job as it is.
func (t *tick) unchanged(i int32, j *Job) bool {
	return t.judged[i] && t.status[i].Waiting() && t.status[i] == j.State.Status && t.reason[i] == j.State.Wait && j.State.RetryAt.IsZero()
}

// next is the state that the tick leaves job i in.
func (t *tick) next(i int32) State {
	st := t.s.jobs[i].State
	switch {
	case t.judged[i] && (st.Status != t.status[i] || st.Status != FailedRetryable && st.Status != Queued): // those stay only while delayed
	case t.status[i] == Unscheduled: // it fell asleep
		st.Status, st.Wait, st.WaitSince, st.RetryAt = Unscheduled, WaitReason{}, time.Time{}, time.Time{}
		return st
	default:
		return st
	}
	if st.Status == FailedRetryable {
		requeued(&t.s.jobs[i].Spec, &st, t.s.now)
	}
	st.Status = t.status[i]
	if t.reason[i].Kind != st.Wait.Kind {
		st.WaitSince = time.Time{}
		if t.reason[i].Kind != NoWait {
			st.WaitSince = t.s.now
		}
	}
	st.Wait = t.reason[i]
	if st.Status != Failed { // a data error is nothing that was waited on
		st.WaitedOn = st.WaitedOn.With(st.Wait.Kind)
	}
	st.RetryAt = time.Time{}
	switch st.Status {
	case Running:
		started(&st, t.s.now)
	case Failed: // missing child args: a data error, finalised at once (seed 000)
		st.Finished, st.Exit, st.Outcome = t.s.now, Exited(1), OutcomeFailed
		st.Failure, st.Reason = DataError, st.Wait.Detail
	}
	return st
}

// started makes st the state of its next attempt.
func started(st *State, now time.Time) {
	st.Status = Running
	st.Attempt++
	st.Started, st.Finished = now, time.Time{}
	st.Exit, st.Outcome, st.Failure, st.Reason = ExitCode{}, NoOutcome, NoFailure, ""
	st.Stop = StopRequest{}
}
