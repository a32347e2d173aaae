package kernel_test

import (
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
)

// A producer that ends in the tick makes way for a consumer of the old token,
// which comes to the locks when everybody else has had a turn. Those who wait
// there, and whom nothing else concerns, were first.
func TestWhoComesLateToTheLocksIsBehindThoseWhoWait(t *testing.T) {
	const token = "custom:tok:a"
	s := snapshot(marked(facts(), token, "a-gone"),
		job("b-holder", running(1), locks(shared("y"))),
		job("c-waiter", locks(excl("y"))),
		job("d-first", running(1)),
		job("e-maker", after("d-first"), produces(token)),
		job("f-consumer", needs(token), locks(shared("y"))))
	s = s.Apply(kernel.Decide(s))
	for id, want := range map[kernel.JobID]kernel.Status{"c-waiter": kernel.WaitingOnLocks, "f-consumer": kernel.WaitingOnDeps} {
		if got := s.Job(id).State.Status; got != want {
			t.Fatalf("%s: %s, want %s", id, got, want)
		}
	}
	p, err := kernel.Finish(s, kernel.Result{Attempt: kernel.AttemptID{Job: "d-first", N: 1}, Outcome: kernel.OutcomeFailed, Exit: 1})
	if err != nil {
		t.Fatal(err)
	}
	s = s.Apply(p)
	expect(t, s, "e-maker", "blocked_by_dependency dependencies: dependency failed for job d-first (failed)")
	expect(t, s, "f-consumer", "waiting_on_locks locks: waiting on locks")
}
