package kernel_test

import (
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// sleeper is a transient job as Enqueue makes it.
func sleeper(id kernel.JobID, options ...option) kernel.Job {
	return job(id, append([]option{transient(kernel.OnDemand), is(kernel.Unscheduled)}, options...)...)
}

// sleeps expects a job to sleep on without a decision about it.
func sleeps(t *testing.T, s *kernel.Snapshot, ids ...kernel.JobID) {
	t.Helper()
	p := kernel.Decide(s)
	next := s.Apply(p)
	for _, id := range ids {
		if st := next.Job(id).State; st.Status != kernel.Unscheduled || st.Wait != (kernel.WaitReason{}) {
			t.Errorf("%s: %s", id, said(st.Status, st.Wait))
		}
	}
	if again := kernel.Decide(next); len(again.Actions) > 0 {
		t.Errorf("a second tick finds more to do: %+v", again.Actions)
	}
}

// Seed 002, X17, X18, X20: a transient job runs iff a job that is not
// transient needs it, once for all of them.
func TestTransientJobsRunOnDemand(t *testing.T) {
	for _, mode := range []kernel.Transient{kernel.OnDemand, kernel.Remove} {
		sleeps(t, snapshot(facts(), sleeper("a", transient(mode))), "a")
		s := snapshot(facts(), sleeper("a", transient(mode)), job("b", after("a")), job("c", after("a")))
		expect(t, s, "a", "running")
		if launched := actionsOf[kernel.Launch](kernel.Decide(s)); len(launched) != 1 {
			t.Errorf("launched %v", launched)
		}
		expect(t, s, "b", "waiting_on_deps dependencies: waiting on job a")
	}
}

// X23, X24: demand passes through chains of transient jobs that end at one
// that is not.
func TestTransientChains(t *testing.T) {
	a, b := sleeper("a"), sleeper("b", after("a"))
	sleeps(t, snapshot(facts(), a, b, sleeper("c", after("b"))), "a", "b", "c")
	s := snapshot(facts(), a, b, job("c", after("b")))
	expect(t, s, "a", "running")
	expect(t, s, "b", "waiting_on_deps dependencies: waiting on job a")
	expect(t, s, "c", "waiting_on_deps dependencies: waiting on job b")
}

// U19 and I11: nobody is blocked for want of a producer that only sleeps.
func TestASleepingProducerIsWokenNotMissed(t *testing.T) {
	const x = "custom:t:x"
	for _, p := range []kernel.MissingProducer{kernel.Block, kernel.Wait} {
		s := snapshot(marked(facts(), x), sleeper("a", produces(x)), job("b", needs(x), policy(p)))
		expect(t, s, "a", "running")
		expect(t, s, "b", "waiting_on_deps dependencies: waiting on "+x)
	}
	// A present artifact demands nothing.
	s := snapshot(marked(facts(), x, "gone"), sleeper("a", produces(x)), job("b", needs(x)))
	sleeps(t, s, "a")
	expect(t, s, "b", "running")
	// A sleeping route target is no reason to block either.
	expect(t, snapshot(marked(facts(), x), job("a", routed, is(kernel.Unscheduled), produces(x)), job("b", needs(x))), "b",
		"waiting_on_deps dependencies: waiting on "+x)
}

// U19: a tombstone still satisfies who runs after it.
func TestATombstoneSatisfies(t *testing.T) {
	a := sleeper("a", is(kernel.Succeeded))
	a.State.Removed = t0
	expect(t, snapshot(facts(), a, job("b", after("a"))), "b", "running")
}

// Who demands: every status of the dependent.
func TestWhoDemands(t *testing.T) {
	for _, s := range kernel.Statuses() {
		b := job("b", is(s), after("a"), approval(kernel.Pending, ""))
		b.State.RetryAt = t0.AddDate(1, 0, 0)
		snap := snapshot(facts(), sleeper("a"), b)
		if s.Active() && s != kernel.Running {
			expect(t, snap, "a", "running")
		} else {
			sleeps(t, snap, "a")
		}
	}
}

// I10: a job whose demander is gone before it started sleeps again; one that
// has started goes on.
func TestDemandThatGoesAway(t *testing.T) {
	held := approval(kernel.Pending, "")
	for _, s := range []kernel.Status{kernel.Queued, kernel.WaitingOnDeps, kernel.WaitingOnApproval, kernel.WaitingOnLocks} {
		sleeps(t, snapshot(facts(), sleeper("a", is(s), held), job("b", is(kernel.Cancelled), after("a"))), "a")
	}
	s := snapshot(facts(), sleeper("a", running(1)), job("b", is(kernel.Cancelled), after("a")))
	if p := kernel.Decide(s); len(p.Actions) > 0 {
		t.Errorf("%+v", p.Actions)
	}
}

// A job that is blocked in this very tick demands nothing.
func TestABlockedJobDemandsNothing(t *testing.T) {
	f := job("f", is(kernel.Failed))
	for _, demander := range []kernel.JobID{"b", "0"} {
		s := snapshot(facts(), sleeper("a"), f, job(demander, after("f", "a")))
		expect(t, s, demander, "blocked_by_dependency dependencies: dependency failed for job f (failed)")
		sleeps(t, s, "a")
		if p := kernel.Decide(s); len(actionsOf[kernel.Launch](p)) > 0 {
			t.Errorf("%+v", p.Actions)
		}
	}
}

// A job that is woken supersedes an older token, which may wake another, all in
// one tick: b's token is old news once a runs again for c, so b needs d as well.
func TestDemandFollowsASupersededToken(t *testing.T) {
	const x = "custom:t:x"
	s := snapshot(marked(facts(), x, "0"), sleeper("a", produces(x)), job("b", needs(x)), job("c", after("a")), sleeper("d", produces(x)))
	expect(t, s, "a", "running")
	expect(t, s, "b", "waiting_on_deps dependencies: waiting on "+x)
	expect(t, s, "d", "running")
}

// A transient job between two attempts still demands what it depends on.
func TestATransientJobThatIsTriedAgainDemands(t *testing.T) {
	const x = "custom:t:x"
	b := sleeper("b", is(kernel.FailedRetryable), needs(x))
	s := snapshot(marked(facts(), x), sleeper("a", produces(x)), b, job("c", after("b")))
	expect(t, s, "a", "running")
	expect(t, s, "b", "waiting_on_deps dependencies: waiting on "+x)
}

// Semantics 3.10: the target of a route sleeps until the route wakes it, asked
// for or not.
func TestRouteTargetsSleep(t *testing.T) {
	for _, s := range []kernel.Status{kernel.Unscheduled, kernel.Queued} {
		snap := snapshot(facts(), job("a", routed, is(s)), job("b", after("a")))
		sleeps(t, snap, "a")
		expect(t, snap, "b", "waiting_on_deps dependencies: waiting on job a")
	}
	awake := job("a", routed)
	awake.State.Awake = true
	expect(t, snapshot(facts(), awake), "a", "running")
	// One that sleeps demands nothing, transient or not.
	for _, mode := range []kernel.Transient{kernel.NotTransient, kernel.OnDemand} {
		s := snapshot(facts(), sleeper("a"), job("b", routed, transient(mode), is(kernel.Unscheduled), after("a")), job("c", after("b")))
		sleeps(t, s, "a", "b")
	}
}

// U10, I7: only a running attempt whose runner is known to be gone is
// reclaimed, however old it is.
func TestNobodyElseIsReclaimed(t *testing.T) {
	for _, s := range kernel.Statuses() {
		j := job("q", is(s), approval(kernel.Pending, ""))
		j.State.Attempt, j.State.Started, j.Spec.Budget.Reclaims = 3, t0.AddDate(0, 0, -7), 2
		p := kernel.Decide(snapshot(dead(facts(), j.Attempt(), nil), j))
		if reclaimed := len(actionsOf[kernel.Sweep](p)) > 0; reclaimed != (s == kernel.Running) {
			t.Errorf("%s: %+v", s, p.Actions)
		}
	}
}

// U11: while the producer is between two attempts, everybody waits.
func TestARetryableProducerIsWaitedFor(t *testing.T) {
	const x, y = "custom:stage_token:draft", "custom:stage_token:approve"
	draft := job("a", is(kernel.FailedRetryable), produces(x))
	draft.State.RetryAt = t0.Add(2 * time.Hour)
	for _, p := range []kernel.MissingProducer{kernel.Block, kernel.Wait} {
		s := snapshot(marked(marked(facts(), x), y), draft, job("b", needs(x), produces(y), policy(p)), job("c", needs(y), policy(p)))
		expect(t, s, "a", "failed_retryable")
		expect(t, s, "b", "waiting_on_deps dependencies: waiting on "+x)
		expect(t, s, "c", "waiting_on_deps dependencies: waiting on "+y)
	}
}

// A route wakes a job that nobody demands, in the tick that settles the
// route's source: it goes back to sleep in that tick.
func TestARouteWakesATransientJobNobodyDemands(t *testing.T) {
	p := job("p", running(1), func(j *kernel.Job) { j.Spec.Routes = []kernel.Route{{On: kernel.OutcomeFailed, To: "q"}} })
	s := snapshot(dead(facts(), p.Attempt(), nil), p, sleeper("q", routed))
	sleeps(t, s, "q")
	if got := s.Apply(kernel.Decide(s)).Job("q").State; !got.Awake || got.Generation != 1 {
		t.Errorf("%+v", got)
	}
}
