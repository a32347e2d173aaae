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

// A slot that is freed goes to the first job in line that can take it. If another job takes the lock of the one that a tick judges
// for that slot, the next one is judged, too.
func TestASlotThatTheFirstInLineCannotTake(t *testing.T) {
	far := func(j *kernel.Job) { j.Spec.Task.Executor = "far" }
	stays := func(slots int) option { // on this machine, if there is a slot besides
		return func(j *kernel.Job) {
			if slots == 1 {
				far(j)
			}
		}
	}
	for name, c := range map[string]struct {
		rival kernel.Lock
		slots int
		want  kernel.Status // of the third
	}{
		"its lock is taken":           {excl("k"), 2, kernel.Running},
		"it takes it":                 {excl("other"), 2, kernel.WaitingOnLocks},
		"its lock is taken, one slot": {excl("k"), 1, kernel.Running},
		"it takes the only one":       {excl("other"), 1, kernel.WaitingOnLocks},
	} {
		newer := job("z-newer", after("a-stays"))
		s := kernel.NewSnapshot(kernel.Observation{Now: t0, Facts: facts(), Limits: kernel.Limits{MaxRunning: c.slots}, Jobs: []kernel.Job{job("a-stays", running(1), stays(c.slots)), job("b-ends", running(1)),
			job("c-rival", after("b-ends"), locks(c.rival), far), job("d-second", locks(excl("k"))), job("e-third"), job("f-last")}})
		s = s.Apply(kernel.Decide(s)).Tracked()
		s = s.Apply(kernel.NewPlan(kernel.CreateJob{Job: &newer}))
		s = s.Apply(kernel.Decide(s)) // from here on only jobs in the dirty set are judged
		for _, id := range []kernel.JobID{"d-second", "e-third", "f-last"} {
			if st := s.Job(id).State; st.Status != kernel.WaitingOnLocks {
				t.Fatalf("%s: %s is %s", name, id, st.Status)
			}
		}
		p, err := kernel.Finish(s, kernel.Result{Attempt: kernel.AttemptID{Job: "b-ends", N: 1}, Outcome: kernel.OutcomeSucceeded})
		if err != nil {
			t.Fatal(err)
		}
		s = s.Apply(p)
		s = s.Apply(kernel.Decide(s))
		if got, rival, last := s.Job("e-third").State.Status, s.Job("c-rival").State.Status, s.Job("f-last").State.Status; got != c.want || rival != kernel.Running || last != kernel.WaitingOnLocks {
			t.Errorf("%s: the third is %s, want %s, the rival %s, and the last %s", name, got, c.want, rival, last)
		}
	}
}
