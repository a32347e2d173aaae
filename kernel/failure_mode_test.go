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
