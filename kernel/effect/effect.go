// Package effect decides what an attempt does about a side effect that an earlier
// attempt may have made, by what the journal of effects has and what the world
// shows.
package effect

import (
	"fmt"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Trailer begins the line, in the message of every commit that Vizier makes, that names
// the effect that the commit is (semantics 2, decision 7).
const Trailer = "Vizier-Effect: "

// State is how far a side effect got.
type State uint8

// The states of systems-and-unification 4.6, in order.
const (
	Intended  State = iota // it is about to be made, or was when its attempt was cut off
	Applied                // it was made, and how that ended is on record
	Committed              // the job's record has advanced past the attempt that made it
)

var stateNames = kernel.NewNames[State]("effect state", "intent", "applied", "committed")

func (s State) String() string { return stateNames.Name(s) }

// ParseState is the inverse of String.
func ParseState(s string) (State, error) { return stateNames.Parse(s) }

// Record is the journal's entry of one side effect of a job. Its key is the
// same for every attempt of a generation, and for nothing else.
type Record struct {
	Key        string
	Operation  string // whose effect it is
	Part       string // which of the operation's; "": all of it
	Job        kernel.JobID
	Generation int
	Attempt    int // the one that owns it: that intended it last, or found it made
	Round      int // of its owner
	State      State
	Begun      time.Time     // when its owner intended it
	Result     kernel.Result // how it ended; Applied and Committed only
}

// Round is how many attempts of this generation ended with a result of their own
// that was tried again.
func Round(s *kernel.State) int { return s.Spent.Retries + s.Spent.Resumes }

// Follow refuses e as the successor of what is on record for its key, nil:
// nothing. So an effect has one owner at a time, and none without a result is
// ever applied.
func (e *Record) Follow(old *Record) error {
	if e.State != Intended && e.Result.Outcome == kernel.NoOutcome {
		return fmt.Errorf("effect %s of %s is %s without a result: %w", e.Key, e.Job, e.State, kernel.ErrInvalid)
	}
	switch {
	case old == nil:
		return nil
	case old.Attempt > e.Attempt, old.Attempt == e.Attempt && e.State == Intended, old.State == Committed:
		return fmt.Errorf("effect %s of %s attempt %d: attempt %d has it as %s: %w", e.Key, e.Job, e.Attempt, old.Attempt, old.State, kernel.ErrStale)
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

// Recover is what j's running attempt does about an effect of which e is
// on record, nil: nothing. An effect that succeeded is not made again. One
// that failed is, once the failure is on the job's record: that it is executed
// again was decided knowing it.
func Recover(j *kernel.Job, e *Record) (Recovery, error) {
	switch {
	case e == nil && j.State.Attempt <= 1:
		return Execute, nil
	case e == nil: // the journal may be older than the world, after a power failure
		return Reconcile, nil
	case e.Attempt >= j.State.Attempt:
		return Execute, fmt.Errorf("effect %s of %s is attempt %d's, this is attempt %d: %w", e.Key, j.ID, e.Attempt, j.State.Attempt, kernel.ErrStale)
	case e.State != Intended && (e.Result.Outcome == kernel.OutcomeSucceeded || e.Round == Round(&j.State)):
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
func Resolve(j *kernel.Job, e *Record, f Finding) Recovery {
	switch {
	case f == Made:
		return CatchUp
	case f == NotMade, e == nil, e.State != Intended, !lost(j, e), j.Spec.InDoubtPolicy() == kernel.RerunInDoubt:
		return Execute
	default:
		return StillInDoubt
	}
}

// lost reports that the owner of e was lost, and that nobody has answered for
// what it may have done.
func lost(j *kernel.Job, e *Record) bool { return e.Attempt <= j.State.Lost }

// Key is for systems that are to do something once however often an attempt
// asks for it: it is the same for every attempt of a generation, and for nothing
// else.
func Key(j *kernel.Job) string { return fmt.Sprintf("%s.%d", j.ID, j.State.Generation) }

// StateOf is how far e got by the job's record, which is what makes an
// applied effect a committed one: the attempt that made it, or one that took
// its result, has ended with a result of its own.
func StateOf(j *kernel.Job, e *Record) State {
	st := &j.State
	if e.State != Applied || e.Generation != st.Generation {
		return e.State
	}
	ended := st.Status != kernel.Running && st.Exit.Known && st.Failure != kernel.WorkerLost
	if ended || e.Round < Round(st) || e.Attempt < st.Attempt && !lost(j, e) {
		return Committed
	}
	return e.State
}
