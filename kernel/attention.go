package kernel

import (
	"slices"
	"strings"
)

// Attention is why something needs a person.
type Attention string

// The reasons.
const (
	NeedsApproval   Attention = "approval"
	NeedsDecision   Attention = "in_doubt" // whether an effect was made cannot be told
	NeedsResolution Attention = "conflict" // of a merge
	NeedsUnblocking Attention = "blocked"  // a job ended blocked: by what its reason says
	NeedsCorrection Attention = "prompt"   // the inbox refused it
	NeedsRunner     Attention = "stalled"  // a runner is not heard of
)

// Needs is what j needs a person for, as far as its record tells, or "". What ended
// needs nobody while another job sees to it: see SeenTo.
func (j *Job) Needs() Attention {
	switch st := &j.State; {
	case st.Status == WaitingOnApproval && st.Approval.InDoubt, st.Status == Failed && st.Failure == EffectInDoubt:
		return NeedsDecision
	case st.Status == WaitingOnApproval:
		return NeedsApproval
	case st.Status != BlockedByDependency || st.Outcome != OutcomeBlocked: // else it ended so by itself
		return ""
	case strings.Contains(st.Reason, InConflict):
		return NeedsResolution
	default:
		return NeedsUnblocking
	}
}

// SeenTo reports that what ended j is seen to by another job: one that may still
// rewind it, or one that it was handed to and that ended blocked by it as well, and
// is the one to go on with.
func (s *Snapshot) SeenTo(j *Job) bool { return s.HandedOn(j) || s.Pending(j.ID) != "" }

// HandedOn reports that what blocked j was handed to another job, which ended
// blocked by it as well.
func (s *Snapshot) HandedOn(j *Job) bool {
	return slices.ContainsFunc(j.Spec.Routes, func(r Route) bool {
		to := s.Job(r.To)
		return r.On == OutcomeBlocked && to != nil && to.State.Status == BlockedByDependency && to.State.Outcome == OutcomeBlocked
	})
}
