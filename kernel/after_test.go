package kernel_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Seed 000, "Explicit after dependency resolution": one row for each possible
// state of a predecessor, including all twelve statuses.
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
		q := s.Apply(kernel.Decide(s)).Job("q")
		if by := q.BlockedUnread(); by != "p" {
			t.Errorf("it says that the record of %q was not read", by)
		}
		for _, other := range []kernel.Job{job("q", is(kernel.BlockedByDependency)), {ID: "q", State: kernel.State{Status: kernel.Cancelled, Wait: q.State.Wait}}} {
			if by := other.BlockedUnread(); by != "" {
				t.Errorf("%s: it says that the record of %q was not read", other.State.Status, by)
			}
		}
	})
}

// The first predecessor, in the record's order, that does not pass decides,
// even if a later one would block.
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

// A tick propagates a failure through the whole graph, whatever the order of
// the records (semantics 3.7).
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

// The jobs of a cycle in the records wait; the tick neither hangs nor panics.
func TestCyclesWait(t *testing.T) {
	s := snapshot(marked(marked(facts(), "custom:t:x"), "custom:t:y"),
		job("a", after("b")), job("b", after("a")), job("c", after("c")),
		job("d", needs("custom:t:x"), produces("custom:t:y")), job("e", needs("custom:t:y"), produces("custom:t:x")))
	expect(t, s, "a", "waiting_on_deps dependencies: waiting on job b")
	expect(t, s, "c", "waiting_on_deps dependencies: waiting on job c")
	expect(t, s, "d", "waiting_on_deps dependencies: waiting on custom:t:x")
	expect(t, s, "e", "waiting_on_deps dependencies: waiting on custom:t:y")
}

// With AfterAnyEnd every terminal status of a predecessor lets the job start.
// So does a record that is gone, since its job had ended. No other status does, nor does a
// record that cannot be read.
func TestAfterAnyEnd(t *testing.T) {
	any := func(j *kernel.Job) { j.Spec.AfterAny = []kernel.JobID{"p"} }
	for _, s := range kernel.Statuses() {
		p := job("p", is(s), approval(kernel.Pending, ""))
		p.State.RetryAt = t0.AddDate(1, 0, 0)
		want := "waiting_on_deps dependencies: waiting on job p"
		if s.Terminal() {
			want = "running"
		}
		expect(t, snapshot(facts(), p, job("q", after("p"), any)), "q", want)
	}
	expect(t, snapshot(facts(), job("q", after("p"), any)), "q", "running")
	torn := kernel.NewSnapshot(kernel.Observation{Now: t0, Jobs: []kernel.Job{job("q", after("p"), any)}, Facts: facts(), Unreadable: map[kernel.JobID]string{"p": "torn"}})
	expect(t, torn, "q", "blocked_by_dependency dependencies: scheduler data error for job dependency p: torn")
	// The predecessor is blocked in this very tick.
	expect(t, snapshot(facts(), job("a", is(kernel.Failed)), job("p", after("a")), job("q", after("p"), any)), "q", "running")
}

// Which ends count is part of the spec. Of two policies for one predecessor the
// stricter holds, also if a merge makes two predecessors one.
func TestAfterPolicies(t *testing.T) {
	var spec kernel.Spec
	for _, ask := range []struct {
		id     kernel.JobID
		policy kernel.AfterPolicy
	}{{"a", kernel.AfterAnyEnd}, {"b", kernel.AfterAnyEnd}, {"b", kernel.AfterSuccess}, {"c", kernel.AfterSuccess}, {"c", kernel.AfterAnyEnd}} {
		spec.RunsAfter(ask.id, ask.policy)
	}
	if got := []kernel.AfterPolicy{spec.AfterPolicy("a"), spec.AfterPolicy("b"), spec.AfterPolicy("c")}; len(spec.After) != 3 ||
		got[0] != kernel.AfterAnyEnd || got[1] != kernel.AfterSuccess || got[2] != kernel.AfterSuccess {
		t.Errorf("after %v: %v", spec.After, got)
	}

	one, two := submission("n1", after()), submission("n2", after())
	one.Spec.IdempotencyKey, two.Spec.IdempotencyKey = "k", "k"
	last := submission("n3", after("n1", "n2"))
	last.Spec.AfterAny = []kernel.JobID{"n2"}
	m, err := kernel.Merge(snapshot(facts()), []kernel.NewJob{one, two, last}, "")
	if err != nil || len(m.New) != 2 || len(m.New[1].Spec.After) != 1 || len(m.New[1].Spec.AfterAny) != 0 {
		t.Errorf("%+v %v", m.New, err)
	}
	last.Spec.AfterAny = []kernel.JobID{"p"}
	if _, err := kernel.Enqueue(snapshot(facts()), []kernel.NewJob{one, two, last}); !errors.Is(err, kernel.ErrInvalid) {
		t.Errorf("any end of a job that it does not run after: %v", err)
	}
}

func submission(id kernel.JobID, o option) kernel.NewJob {
	j := job(id, o)
	return kernel.NewJob{ID: id, Spec: j.Spec}
}
