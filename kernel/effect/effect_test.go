package effect_test

import (
	"errors"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/effect"
)

const key = "key"

// attempt returns a job whose n-th attempt is under way.
func attempt(n int) kernel.Job {
	return kernel.Job{ID: "a", State: kernel.State{Status: kernel.Running, Attempt: n}}
}

// entry returns an effect as attempt n left it.
func entry(n int, s effect.State, o kernel.Outcome) *effect.Record {
	return &effect.Record{Key: key, Job: "a", Attempt: n, State: s, Result: kernel.Result{Outcome: o}}
}

// merged returns e with what a merge settled that began at that time.
func merged(e *effect.Record, begun int64) *effect.Record {
	e.Merge.Target = "target"
	if begun > 0 {
		e.Begun = time.Unix(begun, 0)
	}
	return e
}

// The order of systems-and-unification 4.6: what is on record comes first, then
// the world, then the policy.
func TestRecoveryOfAnEffect(t *testing.T) {
	const (
		yes = kernel.OutcomeSucceeded
		no  = kernel.OutcomeFailed
	)
	all := []effect.Finding{effect.Undecidable, effect.Made, effect.NotMade}
	tests := map[string]struct {
		attempt, lost, round int
		policy               kernel.InDoubt
		idempotent           bool
		on                   *effect.Record
		first                effect.Recovery
		resolved             [3]effect.Recovery // by finding; where first is Reconcile
	}{
		"nothing, first attempt":            {attempt: 1, first: effect.Execute},
		"nothing, later attempt":            {attempt: 2, first: effect.Reconcile, resolved: [3]effect.Recovery{effect.Execute, effect.CatchUp, effect.Execute}},
		"nothing, later attempt, lost":      {attempt: 2, lost: 1, first: effect.Reconcile, resolved: [3]effect.Recovery{effect.Execute, effect.CatchUp, effect.Execute}},
		"committed":                         {attempt: 2, on: entry(1, effect.Committed, yes), first: effect.CatchUp},
		"applied, lost":                     {attempt: 2, lost: 1, on: entry(1, effect.Applied, yes), first: effect.CatchUp},
		"applied, then the attempt failed":  {attempt: 2, on: entry(1, effect.Applied, yes), first: effect.CatchUp},
		"failed, lost":                      {attempt: 2, lost: 1, on: entry(1, effect.Applied, no), first: effect.CatchUp},
		"failed, and tried again":           {attempt: 2, round: 1, on: entry(1, effect.Applied, no), first: effect.Reconcile, resolved: [3]effect.Recovery{effect.Execute, effect.CatchUp, effect.Execute}},
		"failed, tried again, and lost":     {attempt: 3, lost: 2, round: 1, on: entry(1, effect.Applied, no), first: effect.Reconcile, resolved: [3]effect.Recovery{effect.Execute, effect.CatchUp, effect.Execute}},
		"intent, lost":                      {attempt: 2, lost: 1, on: entry(1, effect.Intended, 0), first: effect.Reconcile, resolved: [3]effect.Recovery{effect.StillInDoubt, effect.CatchUp, effect.Execute}},
		"intent, lost, ask":                 {attempt: 2, lost: 1, policy: kernel.AskInDoubt, on: entry(1, effect.Intended, 0), first: effect.Reconcile, resolved: [3]effect.Recovery{effect.StillInDoubt, effect.CatchUp, effect.Execute}},
		"intent, lost, rerun":               {attempt: 2, lost: 1, policy: kernel.RerunInDoubt, on: entry(1, effect.Intended, 0), first: effect.Reconcile, resolved: [3]effect.Recovery{effect.Execute, effect.CatchUp, effect.Execute}},
		"intent, lost, idempotent":          {attempt: 2, lost: 1, idempotent: true, on: entry(1, effect.Intended, 0), first: effect.Reconcile, resolved: [3]effect.Recovery{effect.Execute, effect.CatchUp, effect.Execute}},
		"intent, the attempt after it lost": {attempt: 3, lost: 2, on: entry(1, effect.Intended, 0), first: effect.Reconcile, resolved: [3]effect.Recovery{effect.StillInDoubt, effect.CatchUp, effect.Execute}},
		"intent, then an exit or a timeout": {attempt: 2, on: entry(1, effect.Intended, 0), first: effect.Reconcile, resolved: [3]effect.Recovery{effect.Execute, effect.CatchUp, effect.Execute}},
		"intent of after the loss":          {attempt: 3, lost: 1, on: entry(2, effect.Intended, 0), first: effect.Reconcile, resolved: [3]effect.Recovery{effect.Execute, effect.CatchUp, effect.Execute}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			j := attempt(test.attempt)
			j.State.Lost, j.Spec.InDoubt, j.Spec.Idempotent = test.lost, test.policy, test.idempotent
			j.State.Spent = kernel.Budget{Retries: test.round, Reclaims: 7}
			got, err := effect.Recover(&j, test.on)
			if err != nil || got != test.first {
				t.Fatalf("first %v, %v; want %v", got, err, test.first)
			}
			if got != effect.Reconcile {
				return
			}
			for i, f := range all {
				if got := effect.Resolve(&j, test.on, f); got != test.resolved[i] {
					t.Errorf("finding %d: %v, want %v", f, got, test.resolved[i])
				}
			}
		})
	}
	for _, n := range []int{2, 3} {
		j := attempt(2)
		if _, err := effect.Recover(&j, entry(n, effect.Intended, 0)); !errors.Is(err, kernel.ErrStale) {
			t.Errorf("attempt 2 over an effect of attempt %d: %v", n, err)
		}
	}
}

// I6: an effect has one owner at a time, and none without a result is applied.
func TestWhatMayFollowOnAnEffect(t *testing.T) {
	const ok = kernel.OutcomeSucceeded
	tests := []struct {
		name     string
		old, new *effect.Record
		err      error
	}{
		{"the first intent", nil, entry(1, effect.Intended, 0), nil},
		{"found made, nothing on record", nil, entry(2, effect.Applied, ok), nil},
		{"applied", entry(1, effect.Intended, 0), entry(1, effect.Applied, ok), nil},
		{"applied with another result", entry(1, effect.Applied, ok), entry(1, effect.Applied, kernel.OutcomeFailed), nil},
		{"taken over", entry(1, effect.Intended, 0), entry(2, effect.Intended, 0), nil},
		{"executed again", entry(1, effect.Applied, kernel.OutcomeFailed), entry(2, effect.Intended, 0), nil},
		{"intended twice", entry(1, effect.Intended, 0), entry(1, effect.Intended, 0), kernel.ErrStale},
		{"intended, and merged", entry(1, effect.Intended, 0), merged(entry(1, effect.Intended, 0), 0), nil},
		{"merged by another process", entry(1, effect.Intended, 0), merged(entry(1, effect.Intended, 0), 1), kernel.ErrStale},
		{"merged by one that lost it", entry(2, effect.Intended, 0), merged(entry(1, effect.Intended, 0), 0), kernel.ErrStale},
		{"merged after it was applied", entry(1, effect.Applied, ok), merged(entry(1, effect.Intended, 0), 0), kernel.ErrStale},
		{"taken back", entry(2, effect.Intended, 0), entry(1, effect.Intended, 0), kernel.ErrStale},
		{"applied by one that lost it", entry(2, effect.Intended, 0), entry(1, effect.Applied, ok), kernel.ErrStale},
		{"after it was committed", entry(1, effect.Committed, ok), entry(2, effect.Intended, 0), kernel.ErrStale},
		{"applied without a result", entry(1, effect.Intended, 0), entry(1, effect.Applied, 0), kernel.ErrInvalid},
		{"committed without a result", entry(1, effect.Applied, ok), entry(1, effect.Committed, 0), kernel.ErrInvalid},
	}
	for _, test := range tests {
		if err := test.new.Follow(test.old); !errors.Is(err, test.err) {
			t.Errorf("%s: %v, want %v", test.name, err, test.err)
		}
	}
}

func TestWhenAnEffectIsCommitted(t *testing.T) {
	e := entry(1, effect.Applied, kernel.OutcomeSucceeded)
	tests := []struct {
		name  string
		state kernel.State
		want  effect.State
	}{
		{"its attempt runs", kernel.State{Status: kernel.Running, Attempt: 1}, effect.Applied},
		{"its attempt succeeded", kernel.State{Status: kernel.Succeeded, Attempt: 1, Exit: kernel.Exited(0)}, effect.Committed},
		{"its attempt failed later on", kernel.State{Status: kernel.Failed, Attempt: 1, Exit: kernel.Exited(1), Failure: kernel.ExitFailure}, effect.Committed},
		{"its attempt was lost", kernel.State{Status: kernel.Failed, Attempt: 1, Exit: kernel.Exited(1), Failure: kernel.WorkerLost}, effect.Applied},
		{"a reclaim runs", kernel.State{Status: kernel.Running, Attempt: 2, Lost: 1}, effect.Applied},
		{"a reclaim was refused", kernel.State{Status: kernel.Queued, Attempt: 2, Lost: 1, Failure: kernel.LaunchFailure}, effect.Applied},
		{"a reclaim took its result", kernel.State{Status: kernel.Succeeded, Attempt: 2, Lost: 1, Exit: kernel.Exited(0)}, effect.Committed},
		{"a retry runs", kernel.State{Status: kernel.Running, Attempt: 2}, effect.Committed},
		{"a rewind", kernel.State{Status: kernel.Succeeded, Attempt: 2, Generation: 1, Exit: kernel.Exited(0)}, effect.Applied},
	}
	for _, test := range tests {
		j := kernel.Job{ID: "a", State: test.state}
		if got := effect.StateOf(&j, e); got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
	j := kernel.Job{State: tests[1].state}
	if got := effect.StateOf(&j, entry(1, effect.Intended, 0)); got != effect.Intended {
		t.Errorf("an intent of an attempt that succeeded: %s", got)
	}
}
