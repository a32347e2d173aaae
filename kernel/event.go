package kernel

import "time"

// EventKind names what has happened to a job or to a run.
type EventKind string

// The events of jobs are seed 004's and what the later seeds add
// (systems-and-unification 4.11); those of runs are computed from their jobs.
const (
	JobCreated         EventKind = "job.created"
	JobRunning         EventKind = "job.running"
	JobSucceeded       EventKind = "job.succeeded"
	JobFailedRetryable EventKind = "job.failed.retryable" // a further attempt is due
	JobFailedFinal     EventKind = "job.failed.final"
	JobRequeued        EventKind = "job.requeued"  // that attempt is due now, or a launch was refused
	JobResumed         EventKind = "job.resumed"   // requeued after a time-out of a resumable job
	JobReclaimed       EventKind = "job.reclaimed" // requeued after its runner was lost
	JobBlocked         EventKind = "job.blocked"
	JobCancelled       EventKind = "job.cancelled"
	JobRewound         EventKind = "job.rewound"      // a new generation; it also ends an attempt whose own end is not told
	JobPromoted        EventKind = "job.promoted"     // a sleeping job is needed
	JobArchived        EventKind = "job.archived"     // its files are gone
	EffectCaughtUp     EventKind = "effect.caught_up" // an attempt took over what an earlier one had done
	HookFailed         EventKind = "hook.failed"      // a command that was to run at the job's end
	RunSucceeded       EventKind = "run.succeeded"
	RunFailed          EventKind = "run.failed"
	RunBlocked         EventKind = "run.blocked"
)

// Event is one thing that has happened: history, on which no decision rests.
type Event struct {
	At         time.Time
	Kind       EventKind
	Job        JobID // "" : it is about the run
	Run        RunID
	Node, Name string
	Attempt    int
	Generation int
	Exit       ExitCode
	Class      FailureClass
	Reason     string
	RetryAt    time.Time // of JobFailedRetryable
}

// Events is what p, decided on before and leading to after, makes happen, in
// the order of p's actions. A plan tells only where a job ends up, so what it
// went through on the way there is told from what its counters say.
func Events(before, after *Snapshot, p Plan) []Event {
	var out []Event
	over := map[RunID]bool{} // runs in which a job stopped being active
	for _, a := range p.Actions {
		switch a := a.(type) {
		case CreateJob:
			fresh := State{Status: a.Job.begins()}
			out = append(out, event(JobCreated, &a.Job, fresh, before.now))
			out = append(out, happened(&a.Job, fresh, a.Job.State, before.now)...)
			if run := a.Job.Spec.Origin.Run; run != "" && !a.Job.State.Status.Active() {
				over[run] = true
			}
		case PutState:
			j := before.Job(a.Job)
			if j == nil {
				continue
			}
			out = append(out, happened(j, j.State, a.State, before.now)...)
			if run := j.Spec.Origin.Run; run != "" && j.State.Status.Active() && !a.State.Status.Active() {
				over[run] = true
			}
		case Strip:
			if j := before.Job(a.Job); j != nil {
				out = append(out, event(JobArchived, j, j.State, before.now))
			}
		case RemoveJob:
			if j := before.Job(a.Job); j != nil {
				out = append(out, event(JobArchived, j, j.State, before.now))
			}
		}
	}
	if len(over) > 0 {
		out = append(out, runEnds(after, over)...)
	}
	return out
}

func event(kind EventKind, j *Job, st State, now time.Time) Event {
	o := &j.Spec.Origin
	return Event{At: now, Kind: kind, Job: j.ID, Run: o.Run, Node: o.Node, Name: j.Spec.Name, Attempt: st.Attempt, Generation: st.Generation}
}

// CaughtUp tells that j's running attempt does not do again what an earlier one
// did.
func (j *Job) CaughtUp(now time.Time, what string) Event {
	e := event(EffectCaughtUp, j, j.State, now)
	e.Reason = what
	return e
}

// happened is how j came from one state to another.
func happened(j *Job, from, to State, now time.Time) []Event {
	if from.Status == to.Status && from.Attempt == to.Attempt && from.Generation == to.Generation {
		return nil
	}
	var out []Event
	tell := func(kind EventKind, attempt int) *Event {
		e := event(kind, j, to, now)
		e.Attempt = attempt
		out = append(out, e)
		return &out[len(out)-1]
	}
	at := from.Status
	if to.Generation > from.Generation {
		tell(JobRewound, from.Attempt)
		after := *j
		after.State = to
		at = after.begins()
	} else if class, again := spent(from, to); again {
		e := tell(JobFailedRetryable, from.Attempt)
		e.Class, e.RetryAt = class, to.RetryAt
		if to.Status == FailedRetryable {
			e.Exit, e.Reason = to.Exit, to.Reason
		}
		from.Failure, at = class, FailedRetryable
	}
	if to.Status != Unscheduled && to.Status != Cancelled {
		switch {
		case at == Unscheduled:
			tell(JobPromoted, from.Attempt)
		case at == FailedRetryable && to.Status != FailedRetryable && !to.Status.Terminal():
			tell(requeued(j, from.Failure), from.Attempt)
		case to.Refused > from.Refused:
			tell(JobRequeued, from.Attempt).Reason = to.Reason
		}
	}
	if to.Attempt > from.Attempt {
		tell(JobRunning, to.Attempt)
	}
	if to.Status.Terminal() && (at != to.Status || to.Generation > from.Generation) {
		e := tell(ending(to.Status), to.Attempt)
		e.Exit, e.Class, e.Reason = to.Exit, to.Failure, orElse(to.Reason, to.Wait.Detail)
	}
	return out
}

// spent is the class of the failure for which a further attempt was granted.
// The budget is spent when the job goes on, which may be in the same plan.
func spent(was, st State) (FailureClass, bool) {
	from, to := was.Spent, st.Spent
	switch {
	case was.Status == FailedRetryable:
		return NoFailure, false
	case st.Status == FailedRetryable:
		return st.Failure, true
	case to.Reclaims > from.Reclaims:
		return WorkerLost, true
	case to.Resumes > from.Resumes:
		return Timeout, true
	default:
		return st.Failure, to.Retries > from.Retries
	}
}

// requeued is the kind of "again" that follows a failure (semantics 2,
// decision 4).
func requeued(j *Job, class FailureClass) EventKind {
	switch {
	case class == WorkerLost:
		return JobReclaimed
	case class == Timeout && j.Spec.Resumable:
		return JobResumed
	default:
		return JobRequeued
	}
}

func ending(s Status) EventKind {
	switch s {
	case Succeeded:
		return JobSucceeded
	case Cancelled:
		return JobCancelled
	case BlockedByDependency, BlockedByApproval:
		return JobBlocked
	default:
		return JobFailedFinal
	}
}

// runEnds are the ends of those of runs that are over, in order of their first
// jobs.
func runEnds(s *Snapshot, runs map[RunID]bool) []Event {
	members := map[RunID][]*Job{}
	var order []RunID
	for run := range runs {
		s.members(run)
	}
	for _, j := range s.jobs {
		if run := j.Spec.Origin.Run; run != "" && runs[run] {
			if members[run] == nil {
				order = append(order, run)
			}
			members[run] = append(members[run], j)
		}
	}
	var out []Event
	for _, run := range order {
		kinds := map[Outcome]EventKind{OutcomeSucceeded: RunSucceeded, OutcomeFailed: RunFailed, OutcomeBlocked: RunBlocked}
		if kind, over := kinds[RunResult(members[run])]; over {
			out = append(out, Event{At: s.now, Kind: kind, Run: run})
		}
	}
	return out
}

// RunResult is how the run of these jobs ended: one that failed or was
// cancelled fails it. NoOutcome: something in it still goes on, or nothing in
// it ever did. A job that sleeps keeps no run open.
func RunResult(members []*Job) Outcome {
	result := NoOutcome
	for _, j := range members {
		switch st := j.State.Status; {
		case st.Active():
			return NoOutcome
		case st == Failed || st == Cancelled:
			result = OutcomeFailed
		case st == Succeeded && result == NoOutcome:
			result = OutcomeSucceeded
		case st.Terminal() && st != Succeeded && result != OutcomeFailed:
			result = OutcomeBlocked
		}
	}
	return result
}
