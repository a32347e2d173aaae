package kernel_test

import (
	"slices"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/retention"
)

func stopsAtFailure(j *kernel.Job) { j.Spec.FailureMode = kernel.BlockDownstream }

// TestHeldBackIsExplained checks that a job which a failure elsewhere in its
// run holds back names that failure and the one command that ends it, and that
// a retry of the failure says why it includes the job.
func TestHeldBackIsExplained(t *testing.T) {
	s := snapshot(facts(),
		job("a", inRun("r"), stopsAtFailure, is(kernel.Failed)),
		job("b", inRun("r"), stopsAtFailure, approval(kernel.Pending, "")),
		job("c", inRun("r"), stopsAtFailure, after("b")))
	s = s.Apply(kernel.Decide(s))
	why, err := kernel.Explain(s, "b")
	if err != nil {
		t.Fatal(err)
	}
	if why.Status != kernel.BlockedByDependency || why.Root == nil || why.Root.Job != "a" || len(why.Unmet) != 2 ||
		why.Unmet[0].Detail != "held back by the failure of job a" || !why.Unmet[0].Final || why.Unmet[1].Kind != kernel.OnApproval {
		t.Errorf("%+v, root %+v", why, why.Root)
	}
	if len(why.Actions) != 2 || why.Actions[0] != (kernel.Remedy{Kind: kernel.RetryJob, Job: "a"}) || why.Actions[1] != (kernel.Remedy{Kind: kernel.ApproveJob, Job: "b"}) {
		t.Errorf("actions: %+v", why.Actions)
	}
	set, err := kernel.RetryOf(s, "a")
	if err != nil || !slices.Equal(set.Jobs, []kernel.JobID{"a", "b", "c"}) ||
		set.Why["b"] != "was held back by the failure of a" || set.Why["c"] != "runs after b" {
		t.Errorf("%+v: %v", set, err)
	}
}

// What a failure holds back: the jobs of its run that stop at failures, but for those that a route starts and those
// that depend on it; nothing while its handler is active, and nothing without a run.
func TestWhatAFailureHoldsBack(t *testing.T) {
	toFix := func(on kernel.Outcome) option {
		return func(j *kernel.Job) { j.Spec.Routes = []kernel.Route{{On: on, To: "fix"}} }
	}
	failed := func(o ...option) kernel.Job { return job("a", append(o, inRun("r"), is(kernel.Failed))...) }
	handler := func(st option) kernel.Job { return job("fix", inRun("r"), routed, stopsAtFailure, st) }
	for name, c := range map[string]struct {
		jobs []kernel.Job
		want string // of b
	}{
		"in its run":                   {[]kernel.Job{failed(stopsAtFailure), job("b", inRun("r"), stopsAtFailure)}, "held back by the failure of job a"},
		"it stops nothing":             {[]kernel.Job{failed(), job("b", inRun("r"), stopsAtFailure)}, ""},
		"b goes on":                    {[]kernel.Job{failed(stopsAtFailure), job("b", inRun("r"))}, ""},
		"of another run":               {[]kernel.Job{failed(stopsAtFailure), job("b", inRun("s"), stopsAtFailure)}, ""},
		"without a run":                {[]kernel.Job{job("a", stopsAtFailure, is(kernel.Failed)), job("b", stopsAtFailure)}, ""},
		"a route woke b":               {[]kernel.Job{failed(stopsAtFailure), job("b", inRun("r"), stopsAtFailure, routed)}, ""},
		"its handler runs":             {[]kernel.Job{failed(stopsAtFailure, toFix(kernel.OutcomeFailed)), handler(running(1)), job("b", inRun("r"), stopsAtFailure)}, ""},
		"its handler has ended":        {[]kernel.Job{failed(stopsAtFailure, toFix(kernel.OutcomeFailed)), handler(is(kernel.Cancelled)), job("b", inRun("r"), stopsAtFailure)}, "held back by the failure of job a"},
		"its handler sleeps":           {[]kernel.Job{failed(stopsAtFailure, toFix(kernel.OutcomeFailed)), handler(is(kernel.Unscheduled)), job("b", inRun("r"), stopsAtFailure)}, "held back by the failure of job a"},
		"what it leads to runs":        {[]kernel.Job{failed(stopsAtFailure, toFix(kernel.OutcomeBlocked)), handler(running(1)), job("b", inRun("r"), stopsAtFailure)}, "held back by the failure of job a"},
		"its handler is gone":          {[]kernel.Job{failed(stopsAtFailure, toFix(kernel.OutcomeFailed)), job("b", inRun("r"), stopsAtFailure)}, "held back by the failure of job a"},
		"it depends on the failure":    {[]kernel.Job{failed(stopsAtFailure), job("b", inRun("r"), stopsAtFailure, after("a"))}, "dependency failed for job a (failed)"},
		"by way of a job of the run":   {[]kernel.Job{failed(stopsAtFailure), job("b", inRun("r"), stopsAtFailure, after("c")), job("c", inRun("r"), after("a"))}, "dependency failed for job c (blocked_by_dependency)"},
		"by way of one that succeeded": {[]kernel.Job{failed(stopsAtFailure), job("b", inRun("r"), stopsAtFailure, after("c")), job("c", inRun("r"), is(kernel.Succeeded), after("a"))}, "held back by the failure of job a"},
		"by way of one of no such run": {[]kernel.Job{failed(stopsAtFailure), job("b", inRun("r"), stopsAtFailure, after("c")), job("c", inRun("s"), after("a"))}, "held back by the failure of job a"},
		"it was cancelled, not failed": {[]kernel.Job{job("a", inRun("r"), stopsAtFailure, is(kernel.Cancelled)), job("b", inRun("r"), stopsAtFailure)}, ""},
		"the first of two is named":    {[]kernel.Job{failed(stopsAtFailure), job("b", inRun("r"), stopsAtFailure), job("c", inRun("r"), stopsAtFailure, is(kernel.Failed))}, "held back by the failure of job a"},
	} {
		_, j := decided(t, snapshot(facts(), c.jobs...), "b")
		if got := j.State.Wait.Detail; got != c.want || (c.want != "") != (j.State.Status == kernel.BlockedByDependency) {
			t.Errorf("%s: %s, %q, want %q", name, j.State.Status, got, c.want)
		}
	}
}

// A retry of a failure takes along what it holds back, and nothing that other failures or gates hold.
func TestWhatARetryOfAFailureTakesAlong(t *testing.T) {
	held := func(by kernel.JobID, c kernel.WaitCause) option {
		return func(j *kernel.Job) { j.State.Wait = kernel.WaitReason{Kind: kernel.OnDependencies, Cause: c, Job: by} }
	}
	for _, c := range []struct {
		mode kernel.FailureMode
		was  kernel.Status
		want string
	}{{kernel.BlockDownstream, kernel.Failed, "a b"}, {kernel.BlockDownstream, kernel.Cancelled, "a"}, {kernel.ContinueIndependent, kernel.Failed, "a"}} {
		s := snapshot(facts(), job("a", inRun("r"), is(c.was), func(j *kernel.Job) { j.Spec.FailureMode = c.mode }),
			job("b", inRun("r"), is(kernel.BlockedByDependency), held("a", kernel.RunStopped)), job("c", inRun("r"), is(kernel.BlockedByDependency), held("x", kernel.RunStopped)),
			job("d", inRun("r"), is(kernel.BlockedByDependency), held("a", kernel.OtherCause)), job("e", inRun("r"), is(kernel.Cancelled), held("a", kernel.RunStopped)))
		set, err := kernel.RetryOf(s, "a")
		if got := words(set.Jobs); err != nil || got != c.want {
			t.Errorf("%+v: %s, %v", c, got, err)
		}
	}
}

// TestAFailureOfATickHoldsBackInIt lets jobs fail in the very tick that would
// have started others: one whose runner is gone, and one without a command.
func TestAFailureOfATickHoldsBackInIt(t *testing.T) {
	s := snapshot(dead(facts(), kernel.AttemptID{Job: "a", N: 1}, nil),
		job("a", inRun("r"), stopsAtFailure, running(1)),
		job("b", inRun("r"), stopsAtFailure),
		job("c", inRun("q"), stopsAtFailure),
		job("d", inRun("q"), stopsAtFailure, noArgs),
		job("e", inRun("q"), stopsAtFailure, locks(excl("k"))))
	for id, want := range map[kernel.JobID]kernel.Status{"a": kernel.Failed, "b": kernel.BlockedByDependency,
		"c": kernel.BlockedByDependency, "d": kernel.Failed, "e": kernel.BlockedByDependency} {
		if _, j := decided(t, s, id); j.State.Status != want {
			t.Errorf("%s: %s, want %s", id, j.State.Status, want)
		}
	}
	next := s.Apply(kernel.Decide(s))
	if p := kernel.Decide(next); len(p.Actions()) > 0 {
		t.Errorf("a second tick does %+v", p.Actions())
	}
}

// TestAFailureIsFinalOnceItsHandlerIsBlocked blocks the handler of a failure in
// a tick after the tick has judged the jobs that may start while it is active.
// The handler need not have a failure mode, nor be started only by routes.
func TestAFailureIsFinalOnceItsHandlerIsBlocked(t *testing.T) {
	toFix := func(j *kernel.Job) { j.Spec.Routes = []kernel.Route{{On: kernel.OutcomeFailed, To: "fix"}} }
	failed := job("a", inRun("r"), stopsAtFailure, toFix, is(kernel.Failed))
	held := "blocked_by_dependency dependencies: held back by the failure of job a"

	s := snapshot(facts(), failed, job("b", inRun("r"), stopsAtFailure), job("fix", after("nobody")))
	expect(t, s, "b", held)
	if p := kernel.Decide(s.Apply(kernel.Decide(s))); len(p.Actions()) > 0 {
		t.Errorf("a second tick does %+v", p.Actions())
	}

	const token = "custom:tok:a"
	s = snapshot(facts(), failed, job("b", inRun("r"), stopsAtFailure, locks(excl("k"))),
		job("fix", needs(token)), job("older", running(1), locks(excl("k"))))
	s = s.Apply(kernel.Decide(s))
	if got := s.Job("b").State.Status; got != kernel.WaitingOnLocks {
		t.Fatalf("b: %s while the failure is handled", got)
	}
	expect(t, s.WithFacts(marked(facts(), token)), "b", held) // in a tick that judges only readers of the token
}

// TestAHandlerOutsideOfRunsEnds ends the handler of a failure, which belongs to
// no run, in a tick that judges only the jobs that this may affect. The failure
// is then final.
func TestAHandlerOutsideOfRunsEnds(t *testing.T) {
	toFix := func(j *kernel.Job) { j.Spec.Routes = []kernel.Route{{On: kernel.OutcomeFailed, To: "fix"}} }
	s := snapshot(facts(), job("fix", running(1)),
		job("a", inRun("r"), stopsAtFailure, toFix, is(kernel.Failed)),
		job("asleep", inRun("r"), stopsAtFailure, routed, is(kernel.Unscheduled)),
		job("b", inRun("r"), stopsAtFailure, after("asleep")))
	s = s.Apply(kernel.Decide(s)).Tracked()
	p, err := kernel.Finish(s, kernel.Result{Attempt: kernel.AttemptID{Job: "fix", N: 1}, Outcome: kernel.OutcomeSucceeded})
	if err != nil {
		t.Fatal(err)
	}
	expect(t, s.Apply(p), "b", "blocked_by_dependency dependencies: held back by the failure of job a")
}

// TestGCKeepsWhatHoldsBack checks that GC keeps an old failure, like all of its run, while the
// run has an open job: it may hold that job back, and a retry of it may need a worktree.
func TestGCKeepsWhatHoldsBack(t *testing.T) {
	for _, mode := range []option{stopsAtFailure, func(*kernel.Job) {}} {
		old := finishedAt(t0.Add(-time.Hour))
		s := snapshot(facts(), job("a", inRun("r"), mode, is(kernel.Failed), old), job("b", inRun("r"), mode))
		if p := retention.GC(s, 0); !p.Empty() {
			t.Errorf("failure mode %s: removes %v", s.Job("b").Spec.FailureMode, p.Actions())
		}
		s = snapshot(facts(), job("a", inRun("r"), mode, is(kernel.Failed), old), job("b", inRun("r"), mode, is(kernel.Failed), old))
		if p := retention.GC(s, 0); len(p.Actions()) == 0 {
			t.Error("a run that has ended stays")
		}
	}
}

// TestAFailureHoldsBackInATickOfWhatIsNear fails a job in a tick that judges only what
// the end of another may move, after one of the run that would have started.
func TestAFailureHoldsBackInATickOfWhatIsNear(t *testing.T) {
	s := snapshot(facts(), job("x", inRun("r"), stopsAtFailure, running(1)),
		job("c", inRun("r"), stopsAtFailure, after("x")),
		job("d", inRun("r"), stopsAtFailure, after("x"), noArgs),
		job("e", inRun("q"), stopsAtFailure, after("x")))
	s = s.Apply(kernel.Decide(s)).Tracked()
	p, err := kernel.Finish(s, kernel.Result{Attempt: kernel.AttemptID{Job: "x", N: 1}, Outcome: kernel.OutcomeSucceeded})
	if err != nil {
		t.Fatal(err)
	}
	s = s.Apply(p)
	for id, want := range map[kernel.JobID]kernel.Status{"c": kernel.BlockedByDependency, "d": kernel.Failed, "e": kernel.Running} {
		if _, j := decided(t, s, id); j.State.Status != want {
			t.Errorf("%s: %s, want %s", id, j.State.Status, want)
		}
	}
}
