// Package event derives from a plan what happened to jobs and runs. Events are
// history; no decision depends on them. The package is as pure as the kernel.
package event

import (
	"cmp"
	"slices"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Of returns the events of plan p, which was decided on before and leads to
// after, in the order of p's actions. A plan only has the final state of each
// job; the states in between are derived from the job's counters.
func Of(before, after *kernel.Snapshot, p kernel.Plan) []kernel.Event {
	var out []kernel.Event
	over := map[kernel.RunID]bool{} // runs in which a job is no longer under way
	for _, a := range p.Records {
		switch a := a.(type) {
		case kernel.CreateJob:
			fresh := kernel.State{Status: a.Job.Begins()}
			out = append(out, event(kernel.JobCreated, a.Job, fresh, before.Now()))
			out = append(out, happened(a.Job, fresh, a.Job.State, before.Now())...)
			if run := a.Job.Spec.Origin.Run; run != "" && !a.Job.State.UnderWay() {
				over[run] = true
			}
		case kernel.PutState:
			j := before.Job(a.Job)
			if j == nil {
				continue
			}
			out = append(out, happened(j, j.State, a.State, before.Now())...)
			if run := j.Spec.Origin.Run; run != "" && j.State.UnderWay() && !a.State.UnderWay() {
				over[run] = true
			}
		case kernel.PurgeFiles:
			if j := before.Job(a.Job); j != nil {
				out = append(out, event(kernel.JobArchived, j, j.State, before.Now()))
			}
		case kernel.RemoveJob:
			if j := before.Job(a.Job); j != nil {
				out = append(out, event(kernel.JobArchived, j, j.State, before.Now()))
			}
		}
	}
	out = append(out, calls(before, after, p)...)
	if len(over) > 0 {
		out = append(out, runEnds(after, over)...)
	}
	return out
}

// calls returns an event for each job that needs a person from now on, or needs
// one for another reason than before.
func calls(before, after *kernel.Snapshot, p kernel.Plan) (out []kernel.Event) {
	for _, a := range p.Records {
		j := after.Job(a.Subject())
		if j == nil || !changes(a) {
			continue
		}
		old := before.Job(j.ID)
		kind, what := j.Needs(), cmp.Or(j.State.Reason, j.State.Wait.Detail)
		switch {
		case old != nil && j.State.Stalled > old.State.Stalled:
			kind, what = kernel.NeedsRunner, quiet
		case kind == "", old != nil && old.Needs() == kind && old.Attempt() == j.Attempt(), j.State.Status.Terminal() && after.SeenTo(j),
			kind == kernel.NeedsSecret && j.State.Refused > 1: // each launch that is tried again is refused
			continue
		case j.State.Status.Waiting():
			what = j.State.Wait.Detail
		}
		if by := after.BlockedBy(j); by != nil {
			what = by.State.Reason
		}
		e := event(kernel.NeedsAttention, j, j.State, before.Now())
		e.Reason = string(kind) + ": " + what
		out = append(out, e)
	}
	return out
}

// changes reports whether a changes the state of a job.
func changes(a kernel.RecordAction) bool {
	switch a.(type) {
	case kernel.CreateJob, kernel.PutState:
		return true
	}
	return false
}

// quiet is the reason of the event for a stalled runner.
const quiet = "its runner has not been heard of for longer than it should be"

func event(kind kernel.EventKind, j *kernel.Job, st kernel.State, now time.Time) kernel.Event {
	o := &j.Spec.Origin
	return kernel.Event{At: now, Kind: kind, Job: j.ID, Run: o.Run, Number: j.Number, Part: j.Part, Node: o.Node, Name: j.Spec.Name, Attempt: st.Attempt, Generation: st.Generation}
}

// CaughtUp returns the event that j's running attempt takes over the effect of
// an earlier attempt and does not repeat it.
func CaughtUp(j *kernel.Job, now time.Time, what string) kernel.Event {
	e := event(kernel.EffectCaughtUp, j, j.State, now)
	e.Reason = what
	return e
}

// happened returns the events between two states of j.
func happened(j *kernel.Job, from, to kernel.State, now time.Time) []kernel.Event {
	out := decided(j, from, to, now)
	if from.Status == to.Status && from.Attempt == to.Attempt && from.Generation == to.Generation {
		return append(out, stalled(j, from, to, now)...)
	}
	told := agentTold(from, to)
	tell := func(kind kernel.EventKind, attempt int) *kernel.Event {
		e := event(kind, j, to, now)
		e.Attempt = attempt
		if attempt == from.Attempt { // the first such event ends it
			e.Agent, told = told, kernel.EventAgent{}
		}
		out = append(out, e)
		return &out[len(out)-1]
	}
	at := from.Status
	if to.Generation > from.Generation {
		tell(kernel.JobRewound, from.Attempt)
		after := *j
		after.State = to
		at = after.Begins()
	} else if class, again := budgetSpent(from, to); again {
		e := tell(kernel.JobFailedRetryable, from.Attempt)
		e.Class, e.RetryAt = class, to.RetryAt
		if to.Status == kernel.FailedRetryable {
			e.Exit, e.Reason = to.Exit, to.Reason
		}
		from.Failure, at = class, kernel.FailedRetryable
	}
	if to.Status != kernel.Unscheduled && to.Status != kernel.Cancelled {
		switch {
		case at == kernel.Unscheduled:
			tell(kernel.JobPromoted, from.Attempt)
		case at == kernel.FailedRetryable && to.Status != kernel.FailedRetryable && !to.Status.Terminal():
			tell(requeued(j, from.Failure), from.Attempt)
		case to.Refused > from.Refused:
			tell(kernel.JobRequeued, from.Attempt).Reason = to.Reason
		}
	}
	if to.Attempt > from.Attempt {
		tell(kernel.JobRunning, to.Attempt)
	}
	if to.Status.Terminal() && (at != to.Status || to.Generation > from.Generation) {
		e := tell(ending(to.Status), to.Attempt)
		e.Exit, e.Class, e.Reason = to.Exit, to.Failure, cmp.Or(to.Reason, to.Wait.Detail)
	}
	out = append(out, stalled(j, from, to, now)...)
	if to.Status == kernel.WaitingOnApproval && (from.Status != to.Status || !from.Approval.RequestedAt.Equal(to.Approval.RequestedAt)) {
		tell(kernel.ApprovalPending, to.Attempt).Reason = to.Wait.Detail
	}
	return out
}

// decided returns the event of a person's decision between two states, if there
// was one.
func decided(j *kernel.Job, from, to kernel.State, now time.Time) []kernel.Event {
	kinds := map[kernel.ApprovalState]kernel.EventKind{kernel.Approved: kernel.ApprovalGranted, kernel.Rejected: kernel.ApprovalRejected}
	kind, said := kinds[to.Approval.State]
	if from.Approval.State != kernel.Pending || !said {
		return nil
	}
	e := event(kind, j, to, now)
	e.By, e.Reason = to.Approval.DecidedBy, to.Approval.Reason
	return []kernel.Event{e}
}

// stalled returns the event that j's runner was found to have stalled, if it
// was.
func stalled(j *kernel.Job, from, to kernel.State, now time.Time) []kernel.Event {
	if to.Stalled == from.Stalled || to.Stalled == 0 {
		return nil
	}
	e := event(kernel.JobStalled, j, to, now)
	e.Reason = quiet
	return []kernel.Event{e}
}

// agentTold returns what the agent reported in the attempt that ended between
// two states.
func agentTold(from, to kernel.State) kernel.EventAgent {
	if to.Agent == nil || from.Agent != nil && from.Agent.Runs == to.Agent.Runs {
		return kernel.EventAgent{}
	}
	r := &to.Agent.Last
	return kernel.EventAgent{Agent: r.Agent, Model: r.Model, Session: r.Session, Turns: r.Turns, Usage: r.Usage}
}

// budgetSpent returns the class of the failure for which a further attempt was
// granted. A budget is spent when the job continues, which may be in the same
// plan.
func budgetSpent(was, st kernel.State) (kernel.FailureClass, bool) {
	from, to := was.Spent, st.Spent
	switch {
	case was.Status == kernel.FailedRetryable:
		return kernel.NoFailure, false
	case st.Status == kernel.FailedRetryable,
		was.Status == kernel.Running && !st.Status.Terminal() && st.Attempt == was.Attempt && st.Failure != kernel.NoFailure && st.Refused == was.Refused &&
			!st.Approval.RequestedAt.Equal(was.Approval.RequestedAt): // a person decides, and no budget is spent
		return st.Failure, true
	case to.Reclaims > from.Reclaims:
		return kernel.WorkerLost, true
	case to.Resumes > from.Resumes:
		return kernel.Timeout, true
	default:
		return st.Failure, to.Retries > from.Retries
	}
}

// requeued returns the kind of event for a job that runs again after a failure
// (semantics 2, decision 4).
func requeued(j *kernel.Job, class kernel.FailureClass) kernel.EventKind {
	switch {
	case class == kernel.WorkerLost:
		return kernel.JobReclaimed
	case class == kernel.Timeout && j.Spec.Resumable:
		return kernel.JobResumed
	default:
		return kernel.JobRequeued
	}
}

func ending(s kernel.Status) kernel.EventKind {
	switch s {
	case kernel.Succeeded:
		return kernel.JobSucceeded
	case kernel.Cancelled:
		return kernel.JobCancelled
	case kernel.BlockedByDependency, kernel.BlockedByApproval:
		return kernel.JobBlocked
	default:
		return kernel.JobFailedFinal
	}
}

// runEnds returns the end events of those of the runs that have ended, in the
// order of their first jobs.
func runEnds(s *kernel.Snapshot, runs map[kernel.RunID]bool) []kernel.Event {
	members := map[kernel.RunID][]*kernel.Job{}
	var order []kernel.RunID
	for run := range runs {
		if members[run] = s.Members(run); len(members[run]) > 0 {
			order = append(order, run)
		}
	}
	slices.SortFunc(order, func(a, b kernel.RunID) int { return members[a][0].Compare(members[b][0]) })
	var out []kernel.Event
	for _, run := range order {
		kinds := map[kernel.Outcome]kernel.EventKind{kernel.OutcomeSucceeded: kernel.RunSucceeded, kernel.OutcomeFailed: kernel.RunFailed, kernel.OutcomeBlocked: kernel.RunBlocked}
		if kind, over := kinds[runResult(members[run])]; over {
			out = append(out, kernel.Event{At: s.Now(), Kind: kind, Run: run, Number: number(members[run])})
		}
	}
	return out
}

// number returns the number of the run with these members. Jobs that they submitted have
// other numbers.
func number(members []*kernel.Job) kernel.Number {
	for _, j := range members {
		if j.Spec.Origin.Parent == "" {
			return j.Number
		}
	}
	return 0
}

// runResult returns the outcome of a run: failed if a job failed or was
// cancelled. It is NoOutcome while a job is under way, or if none was ever
// started. Dormant jobs do not keep a run open.
func runResult(members []*kernel.Job) kernel.Outcome {
	result := kernel.NoOutcome
	for _, j := range members {
		switch st := j.State.Status; {
		case j.State.UnderWay():
			return kernel.NoOutcome
		case st == kernel.Failed || st == kernel.Cancelled:
			result = kernel.OutcomeFailed
		case st == kernel.Succeeded && result == kernel.NoOutcome:
			result = kernel.OutcomeSucceeded
		case st.Terminal() && st != kernel.Succeeded && result != kernel.OutcomeFailed:
			result = kernel.OutcomeBlocked
		}
	}
	return result
}
