// Package effect decides what an attempt does about a side effect that an
// earlier attempt may have made. It decides by the journal of effects and by
// what can be observed.
package effect

import (
	"fmt"
	"strings"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Trailer begins the line that names the effect in the message of every commit
// that Vizier makes (semantics 2, decision 7).
const Trailer = "Vizier-Effect: "

// Named returns the key of the effect that the message of a commit names, or "". Only the last trailer counts: Vizier adds its own
// after all that a message has from others, such as the text of a plan.
func Named(message string) (key string) {
	for line := range strings.Lines(message) {
		if k, is := strings.CutPrefix(strings.TrimSpace(line), Trailer); is {
			key = k
		}
	}
	return key
}

// Without returns a message without all lines that would be trailers of effects.
func Without(message string) string {
	var rest strings.Builder
	for line := range strings.Lines(message) {
		if !strings.HasPrefix(strings.TrimSpace(line), Trailer) {
			rest.WriteString(line)
		}
	}
	return rest.String()
}

// State is the progress of a side effect.
type State uint8

// The states of systems-and-unification 4.6, in order.
const (
	Intended  State = iota // it is about to be made, or was when its attempt was cut off
	Applied                // it was made, and its result is on record
	Committed              // the job's record has advanced past the attempt that made it
)

var stateNames = kernel.NewNames[State]("effect state", "intent", "applied", "committed")

func (s State) String() string { return stateNames.Name(s) }

// ParseState is the inverse of String.
func ParseState(s string) (State, error) { return stateNames.Parse(s) }

// Record is the journal's entry of one side effect of a job. Its key is the
// same for every attempt of a generation, and unique otherwise.
type Record struct {
	Key        string
	Operation  string // the operation that makes the effect
	Part       string // the part of the operation; "": all of it
	Job        kernel.JobID
	Generation int
	Attempt    int // its owner: the attempt that last intended it, or found it made
	Round      int // of its owner
	State      State
	Begun      time.Time     // when its owner intended it
	Result     kernel.Result // how it ended; Applied and Committed only
	Merge      Merge         // of a merge that has reached its target; zero: it is none, or of a version that did not record it
}

// Merge is what a merge settled that has reached its target. Its branch may be gone afterwards, and not every
// merge makes a commit that could be found.
type Merge struct {
	Source kernel.CommitID // where the merged branch was
	Target kernel.CommitID // a commit of the target that has what the branch brought
}

// Round returns how many attempts of this generation ended with a result of
// their own and were tried again.
func Round(s *kernel.State) int { return s.Spent.Retries + s.Spent.Resumes }

// Follow returns an error if e must not replace old, the entry on record for
// its key (nil: none). It makes sure that an effect has one owner at a time,
// and that an effect without a result is never marked as applied. The owner may
// add to its intent what its merge settled.
func (e *Record) Follow(old *Record) error {
	if e.State != Intended && e.Result.Outcome == kernel.NoOutcome {
		return fmt.Errorf("effect %s of %s is %s without a result: %w", e.Key, e.Job, e.State, kernel.ErrInvalid)
	}
	switch {
	case old == nil:
		return nil
	case e.State == Intended && old.State == Intended && old.Attempt == e.Attempt && old.Begun.Equal(e.Begun) && e.Merge != (Merge{}):
		return nil
	case old.Attempt > e.Attempt, old.Attempt == e.Attempt && e.State == Intended, old.State == Committed:
		return fmt.Errorf("effect %s of %s attempt %d: attempt %d has it as %s: %w", e.Key, e.Job, e.Attempt, old.Attempt, old.State, kernel.ErrStale)
	}
	return nil
}

// Recovery is what an attempt does about a side effect that may have been made.
type Recovery uint8

// The recoveries of systems-and-unification 4.6.
const (
	Execute      Recovery = iota // make it
	CatchUp                      // it was made: take its result and do not make it again
	Reconcile                    // it may have been made: observe the world and call Resolve
	StillInDoubt                 // it may have been made; do nothing until a person allows it
)

// Recover returns what j's running attempt does about an effect whose record is
// e (nil: none). A successful effect is not made again. A failed one is made
// again once the failure is on the job's record, since the decision to run the
// job again took it into account.
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

// Finding is what can be observed of a side effect.
type Finding uint8

// Undecidable is the zero value: nothing was observed, or nothing can be.
const (
	Undecidable Finding = iota
	Made
	NotMade // not made, or only in part: making it continues from there
)

// Resolve decides what Recover left open, given an observation. Only a lost
// attempt leaves an effect in doubt: if an attempt ended with a result of its
// own, the decision to try again took that result into account.
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

// lost reports whether the owner of e was lost and no person has since decided
// about what it may have done.
func lost(j *kernel.Job, e *Record) bool { return e.Attempt <= j.State.Lost }

// Key returns an idempotency key for external systems: it is the same for every
// attempt of a generation of j, and unique otherwise.
func Key(j *kernel.Job) string { return fmt.Sprintf("%s.%d", j.ID, j.State.Generation) }

// StateOf returns the state of e, given the job's record. An applied effect is
// committed once the attempt that made it, or one that took its result, has
// ended with a result of its own.
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
