package kernel_test

import (
	"slices"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// A tally counts every job once, has the first creation and the last end, and
// counts a failure that an active job may take back as queued.
func TestTally(t *testing.T) {
	t.Parallel()
	over := func(st kernel.Status, minute int) func(*kernel.Job) {
		return func(j *kernel.Job) {
			j.State.Status, j.State.Finished = st, j.Created.Add(time.Duration(minute)*time.Minute)
		}
	}
	stuck := func(j *kernel.Job) { j.State.Outcome = kernel.OutcomeBlocked }
	s := snapshot(facts(), job("a", over(kernel.Failed, 9)), job("b", over(kernel.Succeeded, 3)), job("c", over(kernel.BlockedByDependency, 1), stuck),
		job("d", is(kernel.BlockedByDependency)), job("e", is(kernel.Unscheduled), func(j *kernel.Job) { j.Spec.Routed = true }),
		job("f", over(kernel.Succeeded, 2), stuck, func(j *kernel.Job) { j.Spec.Routes = []kernel.Route{{On: kernel.OutcomeFailed, To: "e"}} }),
		job("g", over(kernel.BlockedByDependency, 1), stuck, func(j *kernel.Job) { j.State.Retired = true }),
		job("h", over(kernel.BlockedByDependency, 1), stuck, func(j *kernel.Job) { j.State.Reason = kernel.NoConflict + ": see to it" }))
	got := s.Tally(s.Jobs())
	want := kernel.Tally{Stuck: 1, Routes: 2, Created: s.Job("a").Created, Finished: s.Job("a").State.Finished}
	for st, n := range map[kernel.Status]int{kernel.Failed: 1, kernel.Succeeded: 2, kernel.BlockedByDependency: 4, kernel.Unscheduled: 1} {
		want.Statuses[st] = n
	}
	if got != want || got.Total() != 7 || got.Active() {
		t.Errorf("%+v: %d in all, active: %t; want %+v", got, got.Total(), got.Active(), want)
	}

	handler := func(st kernel.Status) func(*kernel.Job) {
		return func(j *kernel.Job) {
			j.Spec.Routed, j.State.Status, j.Spec.Routes = true, st, []kernel.Route{{On: kernel.OutcomeSucceeded, To: "a", Budget: 1}}
		}
	}
	for st, failed := range map[kernel.Status]int{kernel.Running: 0, kernel.Succeeded: 1} {
		s := snapshot(facts(), job("a", over(kernel.Failed, 9)), job("h", handler(st)))
		if got := s.Tally(s.Jobs()); got.Statuses[kernel.Failed] != failed || got.Statuses[kernel.Queued] != 1-failed || got.Total() != 2 || got.Active() != (failed == 0) {
			t.Errorf("its handler is %s: %+v", st, got)
		}
	}
}

// If one predecessor is not loaded, the decision requires the others as well,
// so that it is made again once and not for each of them.
func TestPredecessorsAreBroughtTogether(t *testing.T) {
	t.Parallel()
	j := job("z", after("a", "b", "c"))
	near := []kernel.Near{{Kind: kernel.Attended}, {Kind: kernel.Due}, {Kind: kernel.Itself, Job: j.ID}}
	s := kernel.NewSnapshot(kernel.Observation{Jobs: []kernel.Job{j}, Near: near, Dirty: []kernel.JobID{j.ID}})
	kernel.Decide(s)
	lacks, _ := s.Lacks()
	for _, id := range []kernel.JobID{"a", "b", "c"} {
		if !slices.Contains(lacks, kernel.Near{Kind: kernel.Itself, Job: id}) {
			t.Errorf("%s is not asked for: %+v", id, lacks)
		}
	}
}
