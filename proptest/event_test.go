package proptest

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/event"
)

// The events of a plan account for it: there is one for each attempt that begins,
// the last event about a job that ends says so, creations and removals have one
// each, and there is none about a job that the plan does not change.
func TestEventsAccountForThePlan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := kernel.NewSnapshot(World.Draw(t, "world"))
		name, p := anyVerb(t, s)
		p = p.Then(kernel.Decide(s.Apply(p)))
		after := s.Apply(p)
		told := map[kernel.JobID][]kernel.EventKind{}
		for _, e := range event.Of(s, after, p) {
			if e.Job != "" {
				told[e.Job] = append(told[e.Job], e.Kind)
			}
		}
		count := func(id kernel.JobID, kind kernel.EventKind) (n int) {
			for _, k := range told[id] {
				if k == kind {
					n++
				}
			}
			return n
		}
		for _, id := range union(s, after) {
			old, j := s.Job(id), after.Job(id)
			if j == nil {
				if count(id, kernel.JobArchived) != 1 {
					t.Fatalf("%s: %s is gone: %v", name, id, told[id])
				}
				continue
			}
			var from kernel.State
			if old != nil {
				from = old.State
			} else if count(id, kernel.JobCreated) != 1 {
				t.Fatalf("%s: %s is new: %v", name, id, told[id])
			}
			to := j.State
			if n := count(id, kernel.JobRunning); n != to.Attempt-from.Attempt {
				t.Fatalf("%s: %s went from attempt %d to %d: %v", name, id, from.Attempt, to.Attempt, told[id])
			}
			if n := count(id, kernel.JobRewound); n != min(1, to.Generation-from.Generation) {
				t.Fatalf("%s: %s went from generation %d to %d: %v", name, id, from.Generation, to.Generation, told[id])
			}
			if n := count(id, kernel.NeedsAttention); n > 1 || n == 1 && j.Needs() == "" && to.Stalled == from.Stalled {
				t.Fatalf("%s: %s is %s, and nobody is needed: %v", name, id, to.Status, told[id])
			}
			if n := count(id, kernel.JobStalled); n > 0 != (to.Stalled > from.Stalled) {
				t.Fatalf("%s: the attempt of %s that stalls was %d, is %d: %v", name, id, from.Stalled, to.Stalled, told[id])
			}
			if to == from && len(told[id]) > 0 && old != nil {
				t.Fatalf("%s: nothing happened to %s: %v", name, id, told[id])
			}
			if to.Status.Terminal() && (old == nil || to.Status != from.Status) {
				kinds := slices.DeleteFunc(slices.Clone(told[id]), func(k kernel.EventKind) bool { return k == kernel.JobArchived || k == kernel.NeedsAttention }) // in the same step
				last := kinds[len(kinds)-1]
				want := map[kernel.Status]kernel.EventKind{kernel.Succeeded: kernel.JobSucceeded, kernel.Failed: kernel.JobFailedFinal,
					kernel.Cancelled: kernel.JobCancelled, kernel.BlockedByApproval: kernel.JobBlocked, kernel.BlockedByDependency: kernel.JobBlocked}[to.Status]
				if last != want {
					t.Fatalf("%s: %s is %s now: %v", name, id, to.Status, told[id])
				}
			}
		}
	})
}

func union(a, b *kernel.Snapshot) []kernel.JobID {
	var ids []kernel.JobID
	for _, j := range a.Jobs() {
		ids = append(ids, j.ID)
	}
	for _, j := range b.Jobs() {
		if a.Job(j.ID) == nil {
			ids = append(ids, j.ID)
		}
	}
	return ids
}
