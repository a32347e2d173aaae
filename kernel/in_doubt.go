package kernel

import "time"

// InDoubt is the policy for a job whose attempt was lost in the middle of a
// side effect that may or may not have happened. The default is FailInDoubt.
type InDoubt uint8

// The policies of systems-and-unification 4.6.
const (
	FailInDoubt  InDoubt = iota // it fails, as effect_in_doubt
	AskInDoubt                  // it waits until a person allows it to be executed again
	RerunInDoubt                // it is executed again: twice does no harm
)

var inDoubtNames = NewNames[InDoubt]("effect_in_doubt policy", "fail", "ask", "rerun")

// InDoubtPolicy returns the policy for the job's effects in doubt. An
// idempotent job is executed again.
func (s *Spec) InDoubtPolicy() InDoubt {
	if s.Idempotent {
		return RerunInDoubt
	}
	return s.InDoubt
}

// needsApproval reports whether a person must be asked before the job runs
// again after a failure of class c, because an effect is in doubt. A command
// that keeps no journal of effects is itself the effect.
func (j *Job) needsApproval(c FailureClass) bool {
	return j.Spec.InDoubtPolicy() == AskInDoubt && (c == EffectInDoubt || (c == WorkerLost || c == Preempted) && !j.Spec.Task.Builtin)
}

// requestApproval returns the request for a person to allow making the effect
// in doubt again.
func (j *Job) requestApproval(now time.Time) Approval {
	a := Require(now, j.State.Approval.RequestedBy)
	a.Submitter = j.State.Approval.Submitter
	a.InDoubt = j.State.Approval.State == NotRequired || j.State.Approval.InDoubt
	return a
}
