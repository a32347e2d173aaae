package view

import (
	"cmp"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// PromptRun is how the run of a prompt stands. The job that stands for the
// prompt only depends on the others: what blocks it, or what it waits for, is
// found among them.
type PromptRun struct {
	Status  kernel.Status  // of the job, or where another's end blocks it or another's approval is awaited, that one's
	Cause   *kernel.Job    // this other one; nil: there is none
	Reason  string         // why the run ended so, or does not go on; "": nothing is to be told
	Pending []kernel.JobID // the jobs whose approval is awaited
}

// PromptRunOf is how the run of j, which stands for a prompt, stands. members
// are the jobs of its run.
func PromptRunOf(j *kernel.Job, members []*kernel.Job, now time.Time) PromptRun {
	r := PromptRun{Status: j.State.Status, Reason: cmp.Or(j.State.Reason, j.State.Wait.Detail)}
	for _, k := range members {
		switch {
		case k.State.Status == kernel.WaitingOnApproval:
			r.Pending = append(r.Pending, k.ID)
			if k != j && j.Open() && r.Cause == nil {
				r.Status, r.Cause, r.Reason = kernel.WaitingOnApproval, k, k.State.Wait.Detail
			}
		case j.State.Status == kernel.BlockedByDependency && EndedBadly(k) && (r.Cause == nil || follows(r.Cause, k)):
			r.Status, r.Cause, r.Reason = k.State.Status, k, k.WhyEnded(now)
		}
	}
	return r
}

// follows reports that k says more of why their run ended than j does: it failed
// and j did not, or ended before.
func follows(j, k *kernel.Job) bool {
	if failed := j.State.Status == kernel.Failed; failed != (k.State.Status == kernel.Failed) {
		return !failed
	}
	return k.State.Finished.Before(j.State.Finished)
}

// String is the status, the cause and the reason.
func (r PromptRun) String() string {
	if why := r.Why(); why != "" {
		return r.Status.String() + ": " + why
	}
	return r.Status.String()
}

// Why is the cause and the reason; "": there is none.
func (r PromptRun) Why() string {
	switch {
	case r.Cause == nil:
		return r.Reason
	case r.Reason == "":
		return "job " + r.Cause.Label()
	default:
		return "job " + r.Cause.Label() + ": " + r.Reason
	}
}
