package kernel

import (
	"fmt"
	"time"
)

// InDoubt says what becomes of a job whose attempt was lost in the middle of a
// side effect, where nobody can tell whether that happened. FailInDoubt is the
// default.
type InDoubt uint8

// The policies of systems-and-unification 4.6.
const (
	FailInDoubt  InDoubt = iota // it fails, as effect_in_doubt
	AskInDoubt                  // it waits until a person allows it to be executed again
	RerunInDoubt                // it is executed again: twice does no harm
)

var inDoubtNames = NewNames[InDoubt]("effect_in_doubt policy", "fail", "ask", "rerun")

// InDoubtPolicy is what becomes of the job's effects in doubt. An idempotent job
// is executed again.
func (s *Spec) InDoubtPolicy() InDoubt {
	if s.Idempotent {
		return RerunInDoubt
	}
	return s.InDoubt
}

// InConflict is what the reason of a job says whose merge is in conflict.
const InConflict = "is in conflict"

// EffectState is how far a side effect got.
type EffectState uint8

// The states of systems-and-unification 4.6, in order.
const (
	Intended  EffectState = iota // it is about to be made, or was when its attempt was cut off
	Applied                      // it was made, and how that ended is on record
	Committed                    // the job's record has advanced past the attempt that made it
)

var effectStateNames = NewNames[EffectState]("effect state", "intent", "applied", "committed")

// Effect is the journal's entry of one side effect of a job. Its key is the
// same for every attempt of a generation, and for nothing else.
type Effect struct {
	Key        string
	Operation  string // whose effect it is
	Part       string // which of the operation's; "": all of it
	Job        JobID
	Generation int
	Attempt    int // the one that owns it: that intended it last, or found it made
	Round      int // of its owner
	State      EffectState
	Begun      time.Time // when its owner intended it
	Result     Result    // how it ended; Applied and Committed only
}

// Round is how many attempts of this generation ended with a result of their own
// that was tried again.
func (s *State) Round() int { return s.Spent.Retries + s.Spent.Resumes }

// Follow refuses e as the successor of what is on record for its key, nil:
// nothing. So an effect has one owner at a time, and none without a result is
// ever applied.
func (e *Effect) Follow(old *Effect) error {
	if e.State != Intended && e.Result.Outcome == NoOutcome {
		return fmt.Errorf("effect %s of %s is %s without a result: %w", e.Key, e.Job, e.State, ErrInvalid)
	}
	switch {
	case old == nil:
		return nil
	case old.Attempt > e.Attempt, old.Attempt == e.Attempt && e.State == Intended, old.State == Committed:
		return fmt.Errorf("effect %s of %s attempt %d: attempt %d has it as %s: %w", e.Key, e.Job, e.Attempt, old.Attempt, old.State, ErrStale)
	}
	return nil
}

// Recovery is what an attempt does about a side effect that may have been made.
type Recovery uint8

// The verdicts of systems-and-unification 4.6.
const (
	Execute      Recovery = iota // make it
	CatchUp                      // it was made: take its result, and make nothing
	Reconcile                    // it may have been made: look, and ask Resolve
	StillInDoubt                 // it may have been made, and nothing is done before a person allows it
)

// Recover is what the job's running attempt does about an effect of which e is
// on record, nil: nothing. An effect that succeeded is not made again. One
// that failed is, once the failure is on the job's record: that it is executed
// again was decided knowing it.
func (j *Job) Recover(e *Effect) (Recovery, error) {
	switch {
	case e == nil && j.State.Attempt <= 1:
		return Execute, nil
	case e == nil: // the journal may be older than the world, after a power failure
		return Reconcile, nil
	case e.Attempt >= j.State.Attempt:
		return Execute, fmt.Errorf("effect %s of %s is attempt %d's, this is attempt %d: %w", e.Key, j.ID, e.Attempt, j.State.Attempt, ErrStale)
	case e.State != Intended && (e.Result.Outcome == OutcomeSucceeded || e.Round == j.State.Round()):
		return CatchUp, nil
	default:
		return Reconcile, nil
	}
}

// Finding is what the world shows of a side effect.
type Finding uint8

// Undecidable is the zero value: nobody looked, or nothing can be seen.
const (
	Undecidable Finding = iota
	Made
	NotMade // or not wholly: executing it goes on from there
)

// Resolve decides what Recover left open, once somebody has looked. Only a lost
// attempt leaves an effect in doubt: where an attempt ended with a result of its
// own, its next try was decided knowing that result.
func (j *Job) Resolve(e *Effect, f Finding) Recovery {
	switch {
	case f == Made:
		return CatchUp
	case f == NotMade, e == nil, e.State != Intended, !j.lost(e), j.Spec.InDoubtPolicy() == RerunInDoubt:
		return Execute
	default:
		return StillInDoubt
	}
}

// lost reports that the owner of e was lost, and that nobody has answered for
// what it may have done.
func (j *Job) lost(e *Effect) bool { return e.Attempt <= j.State.Lost }

// EffectKey is for systems that are to do something once however often an attempt
// asks for it: it is the same for every attempt of a generation, and for nothing
// else.
func (j *Job) EffectKey() string { return fmt.Sprintf("%s.%d", j.ID, j.State.Generation) }

// EffectState is how far e got by the job's record, which is what makes an
// applied effect a committed one: the attempt that made it, or one that took
// its result, has ended with a result of its own.
func (j *Job) EffectState(e *Effect) EffectState {
	st := j.State
	if e.State != Applied || e.Generation != st.Generation {
		return e.State
	}
	ended := st.Status != Running && st.Exit.Known && st.Failure != WorkerLost
	if ended || e.Round < st.Round() || e.Attempt < st.Attempt && !j.lost(e) {
		return Committed
	}
	return e.State
}

// needsApproval reports that a person must be asked before the job runs again
// after a failure of class c, since an effect is in doubt. A command that keeps no
// journal is itself the effect.
func (j *Job) needsApproval(c FailureClass) bool {
	return j.Spec.InDoubtPolicy() == AskInDoubt && (c == EffectInDoubt || c == WorkerLost && !j.Spec.Task.Builtin)
}

// requestApproval is the question to a person whether the effect in doubt may be
// made again.
func (j *Job) requestApproval(now time.Time) Approval {
	a := Require(now, "")
	a.InDoubt = j.State.Approval.State == NotRequired || j.State.Approval.InDoubt
	return a
}
