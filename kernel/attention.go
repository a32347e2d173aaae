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
	NeedsPool       Attention = "pool"     // it asks for more units of a pool than that has
	NeedsSecret     Attention = "secret"   // one of its secrets has no value
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
	case st.Status == WaitingOnLocks && st.Wait.Cause == PoolTooSmall:
		return NeedsPool
	case j.lacksSecret() != "":
		return NeedsSecret
	case st.Status != BlockedByDependency || st.Outcome != OutcomeBlocked || st.Retired: // otherwise it did not block itself, or its plan is merged
		return ""
	case strings.Contains(st.said(), InConflict):
		return NeedsResolution
	default:
		return NeedsUnblocking
	}
}

// LastLine is in the reason of a job before what its script has said last. Whatever that is, nothing depends on it.
const LastLine = "; the script's last line was: "

// said returns the reason without what a script has said.
func (st *State) said() string {
	own, _, _ := strings.Cut(st.Reason, LastLine)
	return own
}

// SeenTo reports whether j, which has ended, needs nobody: another job takes care of it, which may
// still rewind j or was handed it (see HandedOn), or j was woken for a job that a person has refused.
func (s *Snapshot) SeenTo(j *Job) bool {
	by := s.BlockedBy(j)
	return s.HandedOn(j) || s.Pending(j.ID) != "" || by != nil && by.State.Status == BlockedByApproval
}

// BlockedBy returns the blocked job whose route woke j although j could do nothing about the
// block, such as a merge that uncommitted changes block, or whose approval was rejected. A person
// goes on with that job. nil: there is none.
func (s *Snapshot) BlockedBy(j *Job) *Job {
	if j.State.Status != BlockedByDependency || !strings.HasPrefix(j.State.Reason, NoConflict) {
		return nil
	}
	for _, from := range s.jobs {
		if (from.State.Status == BlockedByDependency || from.State.Status == BlockedByApproval) && from.State.Outcome == OutcomeBlocked &&
			slices.ContainsFunc(from.Spec.Routes, func(r Route) bool { return r.On == OutcomeBlocked && r.To == j.ID }) {
			return from
		}
	}
	return nil
}

// ConflictBefore returns the other merge of j's plan whose open conflict is in the way of j. A
// person resolves that conflict first. nil: there is none, or it is no longer open.
func (s *Snapshot) ConflictBefore(j *Job) *Job {
	_, text, behind := strings.Cut(j.State.said(), BehindConflict)
	if id, _, _ := strings.Cut(text, " "); behind && j.State.Status == BlockedByDependency {
		if first := s.Job(JobID(id)); first != nil && first.Needs() == NeedsResolution {
			return first
		}
	}
	return nil
}

// HandedOn reports whether a route handed what blocked j on to another job,
// which then ended blocked as well. A person goes on with the other job, unless
// that job could do nothing about the block: see BlockedBy.
func (s *Snapshot) HandedOn(j *Job) bool { return s.HandedOnTo(j) != nil }

// HandedOnTo returns the job of HandedOn, or nil.
func (s *Snapshot) HandedOnTo(j *Job) *Job {
	for _, r := range j.Spec.Routes {
		to := s.Job(r.To)
		if r.On == OutcomeBlocked && to != nil && to.State.Status == BlockedByDependency && to.State.Outcome == OutcomeBlocked && s.BlockedBy(to) == nil {
			return to
		}
	}
	return nil
}
