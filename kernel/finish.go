package kernel

import (
	"cmp"
	"fmt"
	"strings"
	"time"
)

// Finish settles a running attempt with the result that its runner recorded. It
// returns ErrStale for the result of any attempt but the current one. If the
// attempt's submissions cannot be enqueued, the attempt has failed.
func Finish(s *Snapshot, r Result) (Plan, error) {
	j := s.Job(r.Attempt.Job)
	if j == nil {
		return Plan{}, fmt.Errorf("finish %s: %w", r.Attempt.Job, ErrNotFound)
	}
	if err := j.Fence(r.Attempt); err != nil {
		return Plan{}, fmt.Errorf("finish: %w", err)
	}
	if r.Refused {
		return Refuse(s, r.Attempt, r.Reason, j.lastRefusal())
	}
	var p Plan
	st := stateAfter(j, r, s.now)
	if r.Context != nil {
		st.Context = *r.Context
		if st.Context == (Context{}) {
			p = s.clearContext(j)
		}
	}
	if len(r.Produced) > 0 && st.Status.Terminal() { // not while it will be retried: no job may use the artifacts of such an attempt
		p.add(Publish{r.Attempt, r.Produced})
	}
	merged := st.Status == Succeeded && j.Spec.Integrates() != ""
	st.Closed = st.Closed || merged
	p.add(PutState{j.ID, j.Rev, st})
	if merged {
		p = p.Then(s.Apply(p).retire(j))
	}
	if st.Status == Cancelled && st.Stop.Cleanup && st.Context.Owned {
		p.add(RemoveWorktree{j.ID, st.Context, true})
	}
	if st.Status == Succeeded && len(r.Submitted) > 0 {
		q, err := j.submit(s.Apply(p), r.Submitted)
		if err != nil {
			return Finish(s, r.Refuted(err))
		}
		p = p.Then(q)
	}
	if !j.State.Stop.At.IsZero() && j.State.cancelledWithRun() {
		return p, nil
	}
	return s.withRoutes(p, j), nil
}

// Refuted returns r as a failure because of err, an error in the submissions of
// an attempt that would otherwise have succeeded.
func (r Result) Refuted(err error) Result {
	r.Outcome, r.Exit, r.Class, r.Produced, r.Submitted = OutcomeFailed, max(r.Exit, 1), DataError, nil, nil
	r.Reason = "its submissions: " + strings.ReplaceAll(Said(err), "\n", "; ")
	return r
}

// Submissions returns the jobs that running attempts asked to enqueue, for those
// attempts whose runners are gone. The jobs that the new ones refer to must be
// loaded when the attempts are settled.
func (s *Snapshot) Submissions() []NewJob {
	var out []NewJob
	for a, f := range s.facts.Results {
		if f.Value != nil && len(f.Value.Submitted) > 0 && s.facts.Runners[a].Value.Gone() {
			out = append(out, f.Value.Submitted...)
		}
	}
	return out
}

// stateAfter returns the state of a running job whose attempt ended with r.
// Whether a job runs again by itself is decided only here; spend charges the
// budget for it (semantics 2, decision 4).
func stateAfter(j *Job, r Result, now time.Time) State {
	st := j.State
	st.Finished = now
	if !r.Ended.IsZero() {
		st.Finished = r.Ended
	}
	if !r.Started.IsZero() { // another executor may begin it later than it was handed over
		st.Started = r.Started
	}
	st.Exit, st.Outcome, st.Failure, st.Reason = Exited(r.Exit), r.Outcome, r.Class, r.Reason
	st.Place = r.Place
	if r.Agent != nil {
		st.Agent = st.Agent.with(*r.Agent)
	}
	st.Refused = 0
	if !st.Stop.At.IsZero() && r.Outcome != OutcomeSucceeded {
		st.Status, st.Exit, st.Outcome = Cancelled, Exited(143), OutcomeCancelled
		st.Failure, st.Reason = NoFailure, cancelledBy+cmp.Or(st.Stop.By, "unknown")
		if j.State.cancelledWithRun() {
			st.Reason = j.State.Reason
		}
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
	case OutcomeFailed, NoOutcome: // an attempt without an outcome has failed
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
		if again = j.mayReclaim(r); again {
			st.RetryAt, st.Lost = now, r.Attempt.N
		}
	case j.Retry().Covers(r.Class, r.Exit):
		if again = st.Spent.Retries < j.Budget().Retries; again {
			st.RetryAt = afterLimit(now.Add(j.Retry().Backoff(r.Attempt, st.Spent.Retries)), r).Truncate(time.Microsecond)
			if r.Class == EffectInDoubt { // a retry policy that names this class allows executing it again
				st.Lost = 0
			}
		}
	}
	if !again && r.Killed(j) && j.mayReclaim(r) {
		again, st.RetryAt, st.Lost, st.Failure = true, now, r.Attempt.N, WorkerLost
	}
	if again {
		st.Status = FailedRetryable
		return st
	}
	st.Status = Failed
	return st
}

// Killed reports whether a signal or the lack of memory ended a node's own
// process in the middle of its operation. The journal of effects then tells how
// far the operation got, as after the loss of a runner.
func (r *Result) Killed(j *Job) bool {
	return j.Spec.Task.Builtin && (r.Class == Signal || r.Class == OutOfMemory)
}

// resumes reports whether j continues from its checkpoint after an attempt that
// ended as c.
func (j *Job) resumes(c FailureClass) bool {
	return j.Spec.Resumable && c.Resumes()
}

// cutOff reports whether an attempt that ended as c uses the budget of reclaims.
func (j *Job) cutOff(c FailureClass) bool { return c.Reclaims(j.Budget().Reclaims) }

// mayReclaim reports whether another attempt follows one that was cut off:
// within the budget, or once more if the effect is already on record as made,
// since then the attempt only takes it over.
func (j *Job) mayReclaim(r Result) bool {
	budget := j.Budget().Reclaims
	if r.Applied {
		budget++
	}
	return j.State.Spent.Reclaims < budget
}

// spend turns st, the state of a job after a retryable failure, into that of
// the job put back into the queue. Budgets are charged only here, when the job
// does run again (seed 004).
func spend(j *Job, st *State, now time.Time) {
	st.Grown = j.Spec.Task.grow(st.Grown, st.Failure)
	switch {
	case j.needsApproval(st.Failure): // no budget: a person decides
	case j.resumes(st.Failure):
		st.Spent.Resumes++
	case j.cutOff(st.Failure):
		st.Spent.Reclaims++
	default:
		st.Spent.Retries++
	}
	st.Requeued = now
}

// backoff returns how long j waits from the failure of its last attempt, or from the refusal of its launch, to the next.
func (j *Job) backoff() time.Duration {
	switch st := &j.State; {
	case st.Status == Queued:
		return refusalBackoff.Backoff(j.Attempt(), st.Refused-2)
	case j.needsApproval(st.Failure), j.resumes(st.Failure), j.cutOff(st.Failure):
		return 0
	default:
		return j.Retry().Backoff(j.Attempt(), st.Spent.Retries)
	}
}

// refusalBackoff is the delay before a job whose launches were refused is
// launched again.
var refusalBackoff = RetryPolicy{Base: time.Second, Cap: time.Minute}

// mostRefused is the number of attempts of a job that an executor other than the local one may
// end in a row before their commands begin. Then the job fails: the cause does not pass by itself.
const mostRefused = 5

// lastRefusal reports whether a further refusal of j is final.
func (j *Job) lastRefusal() bool {
	return j.Spec.Task.On() != LocalExecutor && j.State.Refused >= mostRefused-1
}

// Refuse takes back an attempt that its executor could not start, so that nothing
// of it was executed. The job is queued again with the reason on record, and
// the attempt's number is used up (seed 000: the record stays queued). From the
// second refusal in a row the job waits before the next launch. A final refusal
// fails the job; a job that was to be cancelled is cancelled.
func Refuse(s *Snapshot, a AttemptID, why string, final bool) (Plan, error) {
	j := s.Job(a.Job)
	if j == nil {
		return Plan{}, fmt.Errorf("refuse %s: %w", a.Job, ErrNotFound)
	}
	if err := j.Fence(a); err != nil {
		return Plan{}, fmt.Errorf("refuse: %w", err)
	}
	st := j.State
	if !st.Stop.At.IsZero() { // it was to be cancelled
		return Finish(s, Result{Attempt: a, Outcome: OutcomeFailed, Class: LaunchFailure})
	}
	if final {
		return Finish(s, Result{Attempt: a, Outcome: OutcomeFailed, Exit: 1, Class: RejectedByHost, Reason: why})
	}
	st.Failure, st.Reason = LaunchFailure, why
	st.Status, st.Started = Queued, time.Time{}
	if st.Refused > 0 {
		st.RetryAt = s.now.Add(refusalBackoff.Backoff(a, st.Refused-1)).Truncate(time.Microsecond)
	}
	st.Refused++
	return NewPlan(PutState{j.ID, j.Rev, st}), nil
}
