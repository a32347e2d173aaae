package kernel_test

import (
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
)

// A producer that ends in the tick lets a consumer of the old token pass, which
// then asks for its locks after all other jobs. Jobs that already wait there,
// and that are not in the dirty set, come first.
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

// TestATrackedTickSeesTheWorldChange checks that a job is judged again when its
// artifact disappears without a change of any record: by a plan of a tick or a
// verb, or by an observation.
func TestATrackedTickSeesTheWorldChange(t *testing.T) {
	conflict := kernel.Artifact{Kind: kernel.MergeSentinel, Name: "p"}
	open, closed := facts(), facts()
	open.Present[conflict], closed.Present[conflict] = kernel.Seen(true), kernel.Seen(false)
	verb := kernel.NewPlan(kernel.ClearSentinel{Job: "older", Slug: "p"})
	tick := verb
	tick.Judged = "by a tick"
	for what, change := range map[string]func(*kernel.Snapshot) *kernel.Snapshot{
		"a verb": func(s *kernel.Snapshot) *kernel.Snapshot { return s.Apply(verb) },
		"a tick": func(s *kernel.Snapshot) *kernel.Snapshot { return s.Apply(tick) },
		"news":   func(s *kernel.Snapshot) *kernel.Snapshot { return s.WithFacts(closed) },
	} {
		newer := job("newer")
		s := snapshot(open, job("older", running(1), locks(excl("k"))), job("reader", needs("merge_sentinel:p"), locks(excl("k"))))
		s = s.Apply(kernel.Decide(s)).Tracked()
		s = s.Apply(kernel.NewPlan(kernel.CreateJob{Job: &newer}))
		s = s.Apply(kernel.Decide(s)) // from here on only jobs in the dirty set are judged
		if got := s.Job("reader").State.Status; got != kernel.WaitingOnLocks {
			t.Fatalf("reader: %s while the conflict is open", got)
		}
		s = change(s)
		if s = s.Apply(kernel.Decide(s)); s.Job("reader").State.Status == kernel.WaitingOnLocks {
			t.Errorf("%s has closed the conflict, and the reader waits on as before", what)
		}
	}
}
