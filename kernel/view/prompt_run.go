package view

import (
	"cmp"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// PromptRun is the state of a prompt's run. The job that stands for the prompt
// only depends on the run's other jobs, so the cause of a block or a wait is
// found among those.
type PromptRun struct {
	Status  kernel.Status  // of the prompt's job, or of Cause if there is one
	Cause   *kernel.Job    // the job that failed, or that needs an approval; nil: there is none
	Reason  string         // why the run ended this way, or does not continue; "": no reason
	Pending []kernel.JobID // the jobs that wait for an approval
}

// PromptRunOf returns the state of the run of j, the job that stands for a
// prompt. members are the jobs of its run.
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

// follows reports whether k explains the end of the run better than j does: k
// failed and j did not, or k ended earlier.
func follows(j, k *kernel.Job) bool {
	if failed := j.State.Status == kernel.Failed; failed != (k.State.Status == kernel.Failed) {
		return !failed
	}
	return k.State.Finished.Before(j.State.Finished)
}

// String returns the status, the cause and the reason.
func (r PromptRun) String() string {
	if why := r.Why(); why != "" {
		return r.Status.String() + ": " + why
	}
	return r.Status.String()
}

// Why returns the cause and the reason, or "" if there is none.
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
