package kernel_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Then takes the decisions of the later plan if it has any, and its limits if
// it has any or has actions.
func TestWhatAPlanWasJudgedBy(t *testing.T) {
	put := kernel.PutState{Job: "a", If: 1}
	for _, c := range []struct{ p, q, want string }{{"one", "two", "two"}, {"one", "", "one"}, {"", "two", "two"}, {"", "", ""}} {
		p, q := kernel.NewPlan(put), kernel.Plan{}
		p.Judged, q.Judged = c.p, c.q
		if got := p.Then(q).Judged; got != c.want {
			t.Errorf("%q and then %q is %q", c.p, c.q, got)
		}
	}
	p, q := kernel.NewPlan(put), kernel.NewPlan(put)
	p.Judged = "one"
	if got := p.Then(q).Judged; got != "" {
		t.Errorf("what changed since was judged by nobody, and it says %q", got)
	}
	d := []kernel.Decision{{Job: "a"}}
	if got := (kernel.Plan{Decisions: d}).Then(kernel.Plan{}).Decisions; len(got) != 1 {
		t.Errorf("%v", got)
	}
	if got := (kernel.Plan{Decisions: d}).Then(kernel.Plan{Decisions: []kernel.Decision{{Job: "b"}}}).Decisions; len(got) != 1 || got[0].Job != "b" {
		t.Errorf("%v", got)
	}
}

// A job whose state a plan writes twice is in no list twice.
func TestAStateThatIsPutTwice(t *testing.T) {
	s := snapshot(facts(), job("a"), job("b"), job("c", running(1)))
	st := s.Job("b").State
	st.Status, st.Attempt, st.Started = kernel.Running, 1, t0
	next := s.Apply(kernel.NewPlan(kernel.PutState{Job: "b", If: 1, State: st}, kernel.PutState{Job: "b", If: 2, State: st}))
	if got := next.Probes().Attempts; len(got) != 2 || got[0].Job != "b" || got[1].Job != "c" {
		t.Errorf("%v", got)
	}
}

// A runner that ended before it began is no loss: the job is started again, or
// cancelled if it was asked to stop.
func TestARunnerThatNeverBegan(t *testing.T) {
	for name, c := range map[string]struct {
		remark string
		stop   bool
		want   string
	}{
		"it is started again": {"", false, "queued"},
		"it was to stop":      {"", true, "cancelled 143 cancelled by ann"},
		"with a remark":       {"the node is gone", false, "queued"},
	} {
		j := job("a", running(1), func(j *kernel.Job) {
			if c.stop {
				j.State.Stop = kernel.StopRequest{At: t0, By: "ann"}
			}
		})
		f := facts()
		f.Runners[j.Attempt()] = kernel.Seen(kernel.Runner{Liveness: kernel.NeverStarted, Remark: c.remark})
		s := snapshot(f, j)
		st := s.Apply(kernel.Settle(s)).Job("a").State
		got := st.Status.String()
		if st.Status == kernel.Cancelled {
			got += " " + map[bool]string{true: "143"}[st.Exit == kernel.Exited(143)] + " " + st.Reason
		}
		why := "its runner ended before it began"
		if c.remark != "" {
			why = c.remark
		}
		if got != c.want || !c.stop && st.Reason != why {
			t.Errorf("%s: %s (%+v)", name, got, st)
		}
	}
}

// What a result on record says counts; what is said of the runner explains only its loss.
func TestAResultThatIsOnRecord(t *testing.T) {
	for _, c := range []struct {
		r    kernel.Result
		want string
	}{
		{kernel.Result{Outcome: kernel.OutcomeFailed, Class: kernel.ExitFailure, Exit: 3, Reason: "exit code 3"}, "exit code 3"},
		{kernel.Result{Outcome: kernel.OutcomeFailed, Class: kernel.WorkerLost, Exit: 1, Reason: "lost"}, "the node is gone"},
		{kernel.Result{Outcome: kernel.OutcomeFailed, Class: kernel.WorkerLost, Applied: true, Exit: 1, Reason: "lost, its effect is made"}, "lost, its effect is made"},
	} {
		j := job("a", running(1))
		c.r.Attempt = j.Attempt()
		f := dead(facts(), j.Attempt(), &c.r)
		f.Runners[j.Attempt()] = kernel.Seen(kernel.Runner{Liveness: kernel.Dead, Remark: "the node is gone"})
		s := snapshot(f, j)
		if st := s.Apply(kernel.Settle(s)).Job("a").State; st.Reason != c.want {
			t.Errorf("%+v: %q", c.r, st.Reason)
		}
	}
}

// An attempt begins with nothing of the one before; a job that only waits keeps what is said of it, but for a launch
// that was refused.
func TestWhatAnAttemptBeginsWith(t *testing.T) {
	before := func(refused int) option {
		return func(j *kernel.Job) {
			j.State.Attempt, j.State.Started, j.State.Finished, j.State.Exit, j.State.Outcome = 2, t0, t0, kernel.Exited(3), kernel.OutcomeFailed
			j.State.Failure, j.State.Reason, j.State.Refused = kernel.ExitFailure, "as it was", refused
			j.State.Stop, j.State.Place = kernel.StopRequest{At: t0, By: "ann"}, kernel.Place{Host: "h"}
		}
	}
	s := snapshot(facts(), job("a", before(0)), job("b", before(0), after("a")), job("c", before(1), after("a")))
	next := s.Apply(kernel.Decide(s))
	var none kernel.State
	got := next.Job("a").State
	if got.Status != kernel.Running || got.Attempt != 3 || !got.Started.Equal(s.Now()) || !got.Finished.IsZero() || got.Exit != none.Exit || got.Outcome != none.Outcome ||
		got.Failure != none.Failure || got.Reason != "" || got.Stop != none.Stop || got.Place != none.Place {
		t.Errorf("%+v", got)
	}
	for id, want := range map[kernel.JobID]string{"b": "exit as it was", "c": " "} {
		st := next.Job(id).State
		if got := st.Failure.String() + " " + st.Reason; st.Status != kernel.WaitingOnDeps || got != want || !st.Started.Equal(t0) || st.Attempt != 2 {
			t.Errorf("%s: %q, %+v", id, got, st)
		}
	}
}

// A retry also rewinds the jobs that an earlier end woke, and gives that as the
// reason.
func TestARetryTakesBackWhatItWoke(t *testing.T) {
	s := snapshot(facts(), job("a", is(kernel.Failed), routesOf(on(kernel.OutcomeFailed, "h"), on(kernel.OutcomeSucceeded, "x"))),
		job("h", routed, is(kernel.Failed), func(j *kernel.Job) { j.State.Awake = true }), job("i", after("h"), is(kernel.BlockedByDependency)),
		job("x", routed, is(kernel.Unscheduled)), job("y", is(kernel.Queued)))
	set, err := kernel.RetryOf(s, "a")
	if err != nil || words(set.Jobs) != "a h i" || set.Why["h"] != "was woken by how an earlier one ended" || set.Why["i"] != "was woken by how an earlier one ended" || set.Why["a"] != "asked for" {
		t.Errorf("%v %v %v", set.Jobs, set.Why, err)
	}
}

// A merge blocked by a conflict is continued by the job that its conflict woke,
// as long as that is open.
func TestTheWayOutOfAConflict(t *testing.T) {
	merge := func(o ...option) kernel.Job {
		return job("m", append([]option{is(kernel.BlockedByDependency), routesOf(on(kernel.OutcomeFailed, "g"), on(kernel.OutcomeBlocked, "gone"), on(kernel.OutcomeBlocked, "h")), func(j *kernel.Job) {
			j.Spec.Origin.Plan, j.Spec.Origin.About.Operation, j.State.Outcome = "foo", "git.integrate_plan_branch", kernel.OutcomeBlocked
		}}, o...)...)
	}
	open := facts()
	open.Present[artifact("merge_sentinel:foo")] = kernel.Seen(true)
	closed := facts()
	closed.Present[artifact("merge_sentinel:foo")] = kernel.Seen(false)
	for name, c := range map[string]struct {
		facts kernel.Facts
		h     []option
		merge []option
		want  string
	}{
		"its handler failed":    {open, []option{routed, is(kernel.Failed)}, nil, "h"},
		"its handler succeeded": {open, []option{routed, is(kernel.Succeeded)}, nil, "m"},
		"nothing is open":       {closed, []option{routed, is(kernel.Failed)}, nil, "m"},
		"no handler":            {open, []option{is(kernel.Failed)}, nil, "m"},
		"no merge":              {open, []option{routed, is(kernel.Failed)}, []option{func(j *kernel.Job) { j.Spec.Origin.About.Operation = "" }}, "m"},
	} {
		s := snapshot(c.facts, merge(c.merge...), job("h", c.h...), job("g", routed, is(kernel.Failed)))
		e, err := kernel.Explain(s, "m")
		i := slices.IndexFunc(e.Actions, func(r kernel.Remedy) bool { return r.Kind == kernel.RetryJob })
		if err != nil || i < 0 || string(e.Actions[i].Job) != c.want {
			t.Errorf("%s: %+v %v", name, e, err)
		}
	}
}

// An explanation of a sleeping job says what would wake it.
func TestWhyAJobSleeps(t *testing.T) {
	s := snapshot(facts(), job("r", routed, inRun("x"), is(kernel.Unscheduled)), job("p", inRun("x"), running(1)), job("q", routed, inRun("y"), is(kernel.Unscheduled)),
		job("d", transient(kernel.OnDemand), is(kernel.Unscheduled)))
	for id, want := range map[kernel.JobID]string{"q": "only a route starts it, and nothing of its run goes on: a retry of what leads to it", "r": "sleeps until a route starts it: a node that ends with the outcome its route names", "d": "nobody needs it: a job that depends on it and is not transient"} {
		e, err := kernel.Explain(s, id)
		if err != nil || len(e.Unmet) != 1 || e.Unmet[0].Detail+": "+e.Unmet[0].Clears != want || len(e.Actions) > 0 {
			t.Errorf("%s: %+v %v", id, e, err)
		}
	}
	if e, err := kernel.Explain(snapshot(facts(), job("d", transient(kernel.OnDemand), is(kernel.Unscheduled)), job("n", after("d"), is(kernel.WaitingOnDeps))), "d"); err != nil || len(e.Unmet) == 1 && strings.Contains(e.Unmet[0].Detail, "nobody needs it") {
		t.Errorf("%+v %v", e, err)
	}
}
