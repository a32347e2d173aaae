package kernel_test

import (
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Jobs that only a tick lets go on, as they stand on record; those that the
// next tick moves come first. Jobs that wait for a person, a running job or a
// lock are not among them.
func TestRests(t *testing.T) {
	later := t0.Add(9 * time.Hour)
	for _, c := range []struct {
		name string
		jobs []kernel.Job
		want []kernel.TickWait
	}{
		{"nothing", nil, nil},
		{"a retry", []kernel.Job{job("a", retryAt(9*time.Hour)), job("b", after("a"), is(kernel.WaitingOnDeps))}, []kernel.TickWait{{Job: "a", Due: later}}},
		{"a retry that is due, and one that is not", []kernel.Job{job("a", retryAt(9*time.Hour)), job("b", retryAt(-time.Hour))},
			[]kernel.TickWait{{Job: "b", Due: t0.Add(-time.Hour), Now: true}, {Job: "a", Due: later}}},
		{"what nothing holds up any more", []kernel.Job{job("a", is(kernel.Succeeded)), job("b", after("a"), is(kernel.WaitingOnDeps))},
			[]kernel.TickWait{{Job: "b", Now: true}}},
		{"what is blocked, and nobody has said so", []kernel.Job{job("a", is(kernel.Failed)), job("b", after("a"), is(kernel.WaitingOnDeps))},
			[]kernel.TickWait{{Job: "b", Now: true}}},
		{"a branch", []kernel.Job{job("a", pinned("main", "c1"), is(kernel.WaitingOnDeps))}, []kernel.TickWait{{Job: "a"}}},
		{"a running job, an approval, a lock, a sleeper", []kernel.Job{job("a", running(1), locks(excl("k"))), job("b", after("a"), is(kernel.WaitingOnDeps)),
			job("c", approval(kernel.Pending, ""), is(kernel.WaitingOnApproval)), job("d", locks(excl("k")), is(kernel.WaitingOnLocks)), job("e", routed, is(kernel.Unscheduled))}, nil},
	} {
		f := facts()
		f.Heads["main"] = kernel.Seen(kernel.CommitID("c0"))
		s := snapshot(f, c.jobs...)
		got := s.TickWaits()
		same := len(got) == len(c.want)
		for i := range got {
			same = same && got[i] == c.want[i]
		}
		if !same {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
	s := snapshot(facts(), job("a", retryAt(-time.Hour)), job("b", after("a"), is(kernel.WaitingOnDeps)), job("c", after("b"), is(kernel.WaitingOnDeps)))
	for _, id := range []kernel.JobID{"a", "b", "c"} {
		if e, err := kernel.Explain(s, id); err != nil || e.TickWait.Job != "a" || !e.TickWait.Now {
			t.Errorf("%s rests on %+v, %v", id, e.TickWait, err)
		}
	}
}
