package kernel_test

import (
	"slices"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/retention"
)

// sleeper returns a transient job as Enqueue makes it.
func sleeper(id kernel.JobID, options ...option) kernel.Job {
	return job(id, append([]option{transient(kernel.OnDemand), is(kernel.Unscheduled)}, options...)...)
}

// sleeps asserts that a tick leaves a job asleep without a decision about it.
func sleeps(t *testing.T, s *kernel.Snapshot, ids ...kernel.JobID) {
	t.Helper()
	p := kernel.Decide(s)
	next := s.Apply(p)
	for _, id := range ids {
		if st := next.Job(id).State; st.Status != kernel.Unscheduled || st.Wait != (kernel.WaitReason{}) {
			t.Errorf("%s: %s", id, said(st.Status, st.Wait))
		}
	}
	if again := kernel.Decide(next); len(again.Actions()) > 0 {
		t.Errorf("a second tick finds more to do: %+v", again.Actions())
	}
}

// Seed 002, X17, X18, X20: a transient job runs iff a job that is not transient
// needs it, and it runs once for all such jobs.
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

// U19 and I11: no job is blocked because its producer sleeps.
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
	// A sleeping target of a route blocks nobody either.
	expect(t, snapshot(marked(facts(), x), job("a", routed, is(kernel.Unscheduled), produces(x)), job("b", needs(x))), "b",
		"waiting_on_deps dependencies: waiting on "+x)
}

// U19: a job whose files were purged still satisfies jobs that run after it.
func TestATombstoneSatisfies(t *testing.T) {
	a := sleeper("a", is(kernel.Succeeded))
	a.State.Removed = t0
	expect(t, snapshot(facts(), a, job("b", after("a"))), "b", "running")
}

// X19: the files of a transient job are purged when no job needs them any more,
// and only if all went well.
func TestFilesOfATransientJobGo(t *testing.T) {
	const x = "custom:t:x"
	done := func(options ...option) kernel.Job {
		return sleeper("a", append([]option{transient(kernel.Remove), is(kernel.Succeeded), produces(x)}, options...)...)
	}
	for name, c := range map[string]struct {
		jobs []kernel.Job
		goes bool
	}{
		"nobody left":                {[]kernel.Job{done()}, true},
		"who ran after it is done":   {[]kernel.Job{done(), job("b", after("a"), is(kernel.Succeeded))}, true},
		"who needed it is done":      {[]kernel.Job{done(), job("b", needs(x), is(kernel.Succeeded))}, true},
		"somebody runs":              {[]kernel.Job{done(), job("b", after("a"), running(1))}, false},
		"somebody is to come":        {[]kernel.Job{done(), job("b", needs(x), approval(kernel.Pending, ""))}, false},
		"somebody failed":            {[]kernel.Job{done(), job("b", after("a"), is(kernel.Failed))}, false},
		"somebody sleeps":            {[]kernel.Job{done(), sleeper("b", after("a"))}, false},
		"it failed itself":           {[]kernel.Job{done(is(kernel.Failed))}, false},
		"it only is transient":       {[]kernel.Job{done(transient(kernel.OnDemand))}, false},
		"it was made not to go":      {[]kernel.Job{done(func(j *kernel.Job) { j.State.Amended.Made = true })}, false},
		"they are gone":              {[]kernel.Job{done(func(j *kernel.Job) { j.State.Removed = t0 })}, false},
		"its run goes on":            {[]kernel.Job{done(inRun("r")), job("b", inRun("r"), running(1))}, false},
		"something in it failed":     {[]kernel.Job{done(inRun("r")), job("b", inRun("r"), is(kernel.Failed))}, false},
		"its run is over":            {[]kernel.Job{done(inRun("r")), job("b", inRun("r"), is(kernel.Succeeded)), job("c", inRun("r"), routed, is(kernel.Unscheduled))}, true},
		"another run goes on":        {[]kernel.Job{done(inRun("r")), job("b", inRun("s"), running(1))}, true},
		"its patch is asked for":     {[]kernel.Job{done(), job("b", needs("command_patch:a"), approval(kernel.Pending, ""))}, false},
		"a chain of them, in a tick": {[]kernel.Job{done(), sleeper("b", after("a"), transient(kernel.Remove), is(kernel.Succeeded)), job("c", after("b"), is(kernel.Succeeded))}, true},
	} {
		s := snapshot(marked(facts(), x, "a"), c.jobs...)
		p := kernel.Decide(s)
		a := s.Apply(p).Job("a").State
		strips := slices.ContainsFunc(actionsOf[kernel.PurgeFiles](p), func(s kernel.PurgeFiles) bool { return s.Job == "a" })
		if strips != c.goes || c.goes && (a.Status != kernel.Succeeded || !a.Removed.Equal(s.Now())) {
			t.Errorf("%s: %v, %+v", name, strips, a)
		}
		if again := kernel.Decide(s.Apply(p)); len(again.Actions()) > 0 {
			t.Errorf("%s: a second tick finds more to do: %+v", name, again.Actions())
		}
	}
}

// A purged artifact no longer exists, and a job that needs it later says so.
func TestATombstoneHasNoFiles(t *testing.T) {
	a := sleeper("a", is(kernel.Succeeded), produces("custom:t:x"))
	a.State.Removed = t0
	f := marked(facts(), "custom:t:x")
	f.Present[kernel.Artifact{Kind: kernel.CommandPatch, Name: "a"}] = kernel.Seen(false)
	s := snapshot(f, a, job("b", needs("custom:t:x")), job("c", needs("command_patch:a")), job("d", after("a")))
	expect(t, s, "b", "blocked_by_dependency dependencies: missing custom:t:x")
	expect(t, s, "c", "blocked_by_dependency dependencies: missing command_patch:a")
	expect(t, s, "d", "running")
}

// GC keeps a purged job that an open job runs after, however old it is.
func TestGCKeepsTombstones(t *testing.T) {
	a := sleeper("a", is(kernel.Succeeded), finishedAt(t0.Add(-1000*time.Hour)))
	a.State.Removed = t0
	if p := retention.GC(snapshot(facts(), a, job("b", after("a"), approval(kernel.Pending, ""))), time.Hour); len(p.Actions()) > 0 {
		t.Errorf("%+v", p.Actions())
	}
}

// One row for each status of the dependent: does it demand?
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

// I10: if the job that demands it is gone before it has started, it sleeps
// again; if it has started, it goes on.
func TestDemandThatGoesAway(t *testing.T) {
	held := approval(kernel.Pending, "")
	for _, s := range []kernel.Status{kernel.Queued, kernel.WaitingOnDeps, kernel.WaitingOnApproval, kernel.WaitingOnLocks} {
		sleeps(t, snapshot(facts(), sleeper("a", is(s), held), job("b", is(kernel.Cancelled), after("a"))), "a")
	}
	s := snapshot(facts(), sleeper("a", running(1)), job("b", is(kernel.Cancelled), after("a")))
	if p := kernel.Decide(s); len(p.Actions()) > 0 {
		t.Errorf("%+v", p.Actions())
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
			t.Errorf("%+v", p.Actions())
		}
	}
}

// A job that wakes supersedes an older token, which may wake another job, all
// in one tick: b's token is outdated once a runs again for c, so b needs d as
// well.
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

// Semantics 3.10: the target of a route sleeps until the route wakes it,
// whether or not a job demands it.
func TestRouteTargetsSleep(t *testing.T) {
	for _, s := range []kernel.Status{kernel.Unscheduled, kernel.Queued} {
		snap := snapshot(facts(), job("a", routed, is(s)), job("b", after("a")))
		sleeps(t, snap, "a")
		expect(t, snap, "b", "waiting_on_deps dependencies: waiting on job a")
	}
	awake := job("a", routed)
	awake.State.Awake = true
	expect(t, snapshot(facts(), awake), "a", "running")
	// A sleeping job demands nothing, transient or not.
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
			t.Errorf("%s: %+v", s, p.Actions())
		}
	}
}

// U11: while the producer is between two attempts, its consumers wait.
func TestARetryableProducerIsWaitedFor(t *testing.T) {
	const x, y = "custom:stage_token:draft", "custom:stage_token:approve"
	draft := job("a", retryAt(2*time.Hour), produces(x))
	for _, p := range []kernel.MissingProducer{kernel.Block, kernel.Wait} {
		s := snapshot(marked(marked(facts(), x), y), draft, job("b", needs(x), produces(y), policy(p)), job("c", needs(y), policy(p)))
		expect(t, s, "a", "failed_retryable")
		expect(t, s, "b", "waiting_on_deps dependencies: waiting on "+x)
		expect(t, s, "c", "waiting_on_deps dependencies: waiting on "+y)
	}
}

// A route wakes a transient job that no job demands, in the tick that settles
// the route's source; it goes back to sleep in the same tick.
func TestARouteWakesATransientJobNobodyDemands(t *testing.T) {
	p := job("p", running(1), func(j *kernel.Job) { j.Spec.Routes = []kernel.Route{{On: kernel.OutcomeFailed, To: "q"}} })
	s := snapshot(dead(facts(), p.Attempt(), nil), p, sleeper("q", routed))
	sleeps(t, s, "q")
	if got := s.Apply(kernel.Decide(s)).Job("q").State; !got.Awake || got.Generation != 1 {
		t.Errorf("%+v", got)
	}
}
