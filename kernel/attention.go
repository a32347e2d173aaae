package kernel

import (
	"slices"
	"strings"
)

// Attention is the reason why something needs a person.
type Attention string

// The reasons.
const (
	NeedsApproval   Attention = "approval"
	NeedsDecision   Attention = "in_doubt" // nobody can tell whether an effect was made
	NeedsResolution Attention = "conflict" // of a merge
	NeedsUnblocking Attention = "blocked"  // a job ended blocked; its reason says by what
	NeedsCorrection Attention = "prompt"   // the inbox refused it
	NeedsRunner     Attention = "stalled"  // a runner has not been heard from
)

// Needs returns what j needs a person for, as far as its record shows, or "". A
// job that has ended needs nobody while another job takes care of it; see
// SeenTo.
func (j *Job) Needs() Attention {
	switch st := &j.State; {
	case st.Status == WaitingOnApproval && st.Approval.InDoubt, st.Status == Failed && st.Failure == EffectInDoubt:
		return NeedsDecision
	case st.Status == WaitingOnApproval:
		return NeedsApproval
	case st.Status != BlockedByDependency || st.Outcome != OutcomeBlocked: // otherwise it did not block itself
		return ""
	case strings.Contains(st.Reason, InConflict):
		return NeedsResolution
	default:
		return NeedsUnblocking
	}
}

// SeenTo reports whether another job takes care of what ended j: a job that may
// still rewind j, or a job that j was handed on to (see HandedOn).
func (s *Snapshot) SeenTo(j *Job) bool { return s.HandedOn(j) || s.Pending(j.ID) != "" }

// HandedOn reports whether a route handed what blocked j on to another job,
// which then ended blocked as well. A person goes on with that other job.
func (s *Snapshot) HandedOn(j *Job) bool {
	return slices.ContainsFunc(j.Spec.Routes, func(r Route) bool {
		to := s.Job(r.To)
		return r.On == OutcomeBlocked && to != nil && to.State.Status == BlockedByDependency && to.State.Outcome == OutcomeBlocked
	})
}
