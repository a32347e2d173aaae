package kernel

import (
	"fmt"
	"strings"
	"time"
)

// Finish settles a running attempt with the result its runner recorded. It
// refuses a result of any other attempt than the current one with ErrStale. An
// attempt whose submissions cannot be enqueued has failed.
func Finish(s *Snapshot, r Result) (Plan, error) {
	j := s.Job(r.Attempt.Job)
	if j == nil {
		return Plan{}, fmt.Errorf("finish %s: %w", r.Attempt.Job, ErrNotFound)
	}
	if err := j.Fence(r.Attempt); err != nil {
		return Plan{}, fmt.Errorf("finish: %w", err)
	}
	var p Plan
	st := ended(j, r, s.now)
	if r.Context != nil {
		st.Context = *r.Context
		if st.Context == (Context{}) {
			p = s.leaveContext(j)
		}
	}
	if len(r.Produced) > 0 && st.Status.Terminal() { // nobody goes on with what a failure left that is tried again
		p.add(Publish{r.Attempt, r.Produced})
	}
	st.Closed = st.Closed || st.Status == Succeeded && j.Spec.Integrates() != ""
	p.add(PutState{j.ID, j.Rev, st})
	if st.Status == Succeeded && j.Spec.Integrates() != "" {
		p = p.Then(s.Apply(p).retire(j))
	}
	if st.Status == Cancelled && st.Stop.Cleanup && st.Context.Owned {
		p.add(RemoveWorktree{j.ID, st.Context, true})
	}
	if st.Status == Succeeded && len(r.Submitted) > 0 {
		news, err := j.submitted(r.Submitted)
		var q Plan
		if err == nil {
			_, q, err = Submit(s.Apply(p), news, "job "+string(j.ID))
		}
		if err != nil {
			return Finish(s, r.Refuted(err))
		}
		p = p.Then(q)
	}
	return s.routed(p, j), nil
}

// Refuted is r of an attempt that would have succeeded, had its submissions not
// been in error.
func (r Result) Refuted(err error) Result {
	r.Outcome, r.Exit, r.Class, r.Produced, r.Submitted = OutcomeFailed, max(r.Exit, 1), DataError, nil, nil
	r.Reason = "its submissions: " + strings.ReplaceAll(err.Error(), "\n", "; ")
	return r
}

// Submissions are the jobs that running attempts whose runner is gone wanted
// enqueued. The jobs that these refer to must be loaded when the attempts are
// settled.
func (s *Snapshot) Submissions() []NewJob {
	var out []NewJob
	for a, f := range s.facts.Results {
		if f.Value != nil && len(f.Value.Submitted) > 0 && s.facts.Runners[a].Value.Gone() {
			out = append(out, f.Value.Submitted...)
		}
	}
	return out
}

// ended is the state of a running job whose attempt ended as r. Only here is it
// decided whether a job runs again by itself; spend says from which budget
// (semantics 2, decision 4).
func ended(j *Job, r Result, now time.Time) State {
	st := j.State
	st.Finished = now
	if !r.Ended.IsZero() {
		st.Finished = r.Ended
	}
	st.Exit, st.Outcome, st.Failure, st.Reason = Exited(r.Exit), r.Outcome, r.Class, r.Reason
	st.Place = r.Place
	if r.Agent != nil {
		st.Agent = st.Agent.with(*r.Agent)
	}
	st.Refused = 0
	if !st.Stop.At.IsZero() && r.Outcome != OutcomeSucceeded {
		st.Status, st.Exit, st.Outcome = Cancelled, Exited(143), OutcomeCancelled
		st.Failure, st.Reason = NoFailure, "cancelled by "+orElse(st.Stop.By, "unknown")
		return st
	}
	switch r.Outcome {
	case OutcomeSucceeded:
		st.Status, st.Failure, st.LastError = Succeeded, NoFailure, ""
		return st
	case OutcomeBlocked:
		st.Status = BlockedByDependency
		return st
	case OutcomeCancelled:
		st.Status = Cancelled
		return st
	case OutcomeFailed, NoOutcome: // an attempt that does not say how it ended has failed
	}
	st.Outcome, st.LastError = OutcomeFailed, r.Reason
	again := false
	switch {
	case j.needsApproval(r.Class):
		again, st.RetryAt, st.Lost, st.Approval = true, now, 0, j.requestApproval(now)
	case j.resumes(r.Class):
		if again = st.Spent.Resumes < j.Budget().Resumes; again {
			st.RetryAt = now
		}
	case j.cutOff(r.Class):
		if again = j.reclaimed(r); again {
			st.RetryAt, st.Lost = now, r.Attempt.N
		}
	case j.Retry().Covers(r.Class, r.Exit):
		if again = st.Spent.Retries < j.Budget().Retries; again {
			st.RetryAt = afterLimit(now.Add(j.Retry().Backoff(r.Attempt, st.Spent.Retries)), r).Truncate(time.Microsecond)
			if r.Class == EffectInDoubt { // who names the class says: then execute it again
				st.Lost = 0
			}
		}
	}
	if !again && r.Killed(j) && j.reclaimed(r) {
		again, st.RetryAt, st.Lost, st.Failure = true, now, r.Attempt.N, WorkerLost
	}
	if again {
		st.Status = FailedRetryable
		return st
	}
	st.Status = Failed
	return st
}

// Killed reports that a node's own process was ended in the middle of its operation.
// The journal of effects says how far the operation got, as after the loss of a
// runner.
func (r *Result) Killed(j *Job) bool {
	return j.Spec.Task.Builtin && (r.Class == Signal || r.Class == OutOfMemory)
}

// resumes reports that j goes on from its checkpoint after an attempt that ended as c,
// through no fault of its own.
func (j *Job) resumes(c FailureClass) bool {
	return j.Spec.Resumable && (c == Timeout || c == Preempted)
}

// cutOff reports that an attempt that ended as c was cut off in the middle. Where a job
// may not be executed again after that, an attempt that was preempted has failed like
// any other that a signal ended.
func (j *Job) cutOff(c FailureClass) bool {
	return c == WorkerLost || c == Preempted && j.Budget().Reclaims > 0
}

// reclaimed reports that another attempt follows one that was cut off: within the
// budget for that, or once more if the effect is already on record as made, so that
// the attempt only takes it over.
func (j *Job) reclaimed(r Result) bool {
	budget := j.Budget().Reclaims
	if r.Applied {
		budget++
	}
	return j.State.Spent.Reclaims < budget
}

// spend makes st, of a failure that is to be tried again, one that has been
// put back into the queue. A budget is spent only here, when the job does go on
// (seed 004).
func spend(j *Job, st *State, now time.Time) {
	st.Grown = j.Spec.Task.grow(st.Grown, st.Failure)
	switch {
	case j.needsApproval(st.Failure): // a person lets it go on
	case j.resumes(st.Failure):
		st.Spent.Resumes++
	case j.cutOff(st.Failure):
		st.Spent.Reclaims++
	default:
		st.Spent.Retries++
	}
	st.Requeued = now
}

// refusals is how long a job waits that its executor refuses again and again.
var refusals = RetryPolicy{Base: time.Second, Cap: time.Minute}

// Refuse takes back an attempt of which nothing was executed, since its
// executor could not start it: the job is queued again with the reason on
// record, and the attempt's number is spent (seed 000: the record stays
// queued). From the second refusal in a row on the job waits before it asks
// again. A refusal that cannot change fails the job instead, and one that was
// to be cancelled is.
func Refuse(s *Snapshot, a AttemptID, why string, final bool) (Plan, error) {
	j := s.Job(a.Job)
	if j == nil {
		return Plan{}, fmt.Errorf("refuse %s: %w", a.Job, ErrNotFound)
	}
	if err := j.Fence(a); err != nil {
		return Plan{}, fmt.Errorf("refuse: %w", err)
	}
	st := j.State
	if !st.Stop.At.IsZero() { // nobody wants it any more
		return Finish(s, Result{Attempt: a, Outcome: OutcomeFailed, Class: LaunchFailure})
	}
	st.Failure, st.Reason = LaunchFailure, why
	if final {
		st.Status, st.Finished, st.Exit, st.Outcome = Failed, s.now, Exited(1), OutcomeFailed
		st.Failure = RejectedByHost
	} else {
		st.Status, st.Started = Queued, time.Time{}
		if st.Refused > 0 {
			st.RetryAt = s.now.Add(refusals.Backoff(a, st.Refused-1)).Truncate(time.Microsecond)
		}
		st.Refused++
	}
	return NewPlan(PutState{j.ID, j.Rev, st}), nil
}
