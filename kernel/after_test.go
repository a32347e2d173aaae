package kernel_test

import (
	"strings"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Seed 000, "Explicit after dependency resolution": one row for each thing
// that can be true of a predecessor, all twelve statuses among them.
func TestAfterResolution(t *testing.T) {
	want := map[kernel.Status]string{
		kernel.Queued:              "waiting_on_deps dependencies: waiting on job p",
		kernel.WaitingOnDeps:       "waiting_on_deps dependencies: waiting on job p",
		kernel.WaitingOnApproval:   "waiting_on_deps dependencies: waiting on job p",
		kernel.WaitingOnLocks:      "waiting_on_deps dependencies: waiting on job p",
		kernel.Running:             "waiting_on_deps dependencies: waiting on job p",
		kernel.FailedRetryable:     "waiting_on_deps dependencies: waiting on job p",
		kernel.Unscheduled:         "waiting_on_deps dependencies: waiting on job p",
		kernel.Succeeded:           "running",
		kernel.Failed:              "blocked_by_dependency dependencies: dependency failed for job p (failed)",
		kernel.Cancelled:           "blocked_by_dependency dependencies: dependency failed for job p (cancelled)",
		kernel.BlockedByDependency: "blocked_by_dependency dependencies: dependency failed for job p (blocked_by_dependency)",
		kernel.BlockedByApproval:   "blocked_by_dependency dependencies: dependency failed for job p (blocked_by_approval)",
	}
	for _, s := range kernel.Statuses() {
		t.Run(s.String(), func(t *testing.T) {
			for _, predecessor := range []kernel.JobID{"p", "z"} { // before and after the consumer in schedule order
				w := want[s]
				if predecessor == "z" {
					w = strings.Replace(w, "job p", "job z", 1)
				}
				p := job(predecessor, is(s), approval(kernel.Pending, ""))
				p.State.RetryAt = t0.AddDate(1, 0, 0)
				expect(t, snapshot(facts(), p, job("q", after(predecessor))), "q", w)
			}
		})
	}
	t.Run("missing", func(t *testing.T) {
		expect(t, snapshot(facts(), job("q", after("p"))), "q",
			"blocked_by_dependency dependencies: missing job dependency p")
	})
	t.Run("unreadable", func(t *testing.T) {
		s := kernel.NewSnapshot(kernel.Observation{Jobs: []kernel.Job{job("q", after("p"))},
			Unreadable: map[kernel.JobID]string{"p": "p/job.json: unexpected end"}})
		expect(t, s, "q", "blocked_by_dependency dependencies: scheduler data error for job dependency p: p/job.json: unexpected end")
	})
}

// The first predecessor in the record's order that does not pass decides, even
// when a later one would block.
func TestFirstPredecessorDecides(t *testing.T) {
	jobs := []kernel.Job{job("a", is(kernel.Succeeded)), job("b", is(kernel.Running)), job("c", is(kernel.Failed))}
	for _, c := range []struct {
		after []kernel.JobID
		want  string
	}{
		{[]kernel.JobID{"a", "b", "c"}, "waiting_on_deps dependencies: waiting on job b"},
		{[]kernel.JobID{"a", "c", "b"}, "blocked_by_dependency dependencies: dependency failed for job c (failed)"},
		{[]kernel.JobID{"a"}, "running"},
	} {
		expect(t, snapshot(facts(), append(jobs, job("q", after(c.after...)))...), "q", c.want)
	}
}

// A tick carries a failure through the whole graph, whatever the order of the
// records (semantics 3.7).
func TestFailureReachesTheEndOfTheChainInOneTick(t *testing.T) {
	for name, ids := range map[string][]kernel.JobID{"forwards": {"a", "b", "c", "d"}, "backwards": {"d", "c", "b", "a"}} {
		t.Run(name, func(t *testing.T) {
			jobs := []kernel.Job{job(ids[0], is(kernel.Failed))}
			for i := 1; i < len(ids); i++ {
				jobs = append(jobs, job(ids[i], after(ids[i-1])))
			}
			expect(t, snapshot(facts(), jobs...), ids[3],
				"blocked_by_dependency dependencies: dependency failed for job "+string(ids[2])+" (blocked_by_dependency)")
		})
	}
}

// A cycle that got into the records waits; it neither hangs nor panics.
func TestCyclesWait(t *testing.T) {
	s := snapshot(marked(marked(facts(), "custom:t:x"), "custom:t:y"),
		job("a", after("b")), job("b", after("a")), job("c", after("c")),
		job("d", needs("custom:t:x"), produces("custom:t:y")), job("e", needs("custom:t:y"), produces("custom:t:x")))
	expect(t, s, "a", "waiting_on_deps dependencies: waiting on job b")
	expect(t, s, "c", "waiting_on_deps dependencies: waiting on job c")
	expect(t, s, "d", "waiting_on_deps dependencies: waiting on custom:t:x")
	expect(t, s, "e", "waiting_on_deps dependencies: waiting on custom:t:y")
}
