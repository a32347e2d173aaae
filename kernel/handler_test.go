package kernel_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
)

const sentinel = "merge_sentinel:foo"

// conflicting returns a merge whose conflict woke gate g, with the jobs after
// it. g has the given status.
func conflicting(g kernel.Status, o ...option) []kernel.Job {
	m := merge("m", func(j *kernel.Job) {
		j.State.Status, j.State.Outcome, j.State.Attempt = kernel.BlockedByDependency, kernel.OutcomeBlocked, 1
		j.State.Reason = "in conflict"
		j.Spec.Needs = nil
		j.Spec.Routes = []kernel.Route{{On: kernel.OutcomeBlocked, To: "g"}}
	})
	gate := job("g", append([]option{inRun("rm"), routed, is(g), func(j *kernel.Job) {
		j.State.Awake = g != kernel.Unscheduled
		j.Spec.Routes = []kernel.Route{{On: kernel.OutcomeSucceeded, To: "m"}}
	}}, o...)...)
	ci := job("t", inRun("rm"), after("m"), is(kernel.BlockedByDependency))
	ci.State.Wait = kernel.WaitReasonOf(kernel.OnDependencies, "dependency failed for job m (blocked_by_dependency)")
	return []kernel.Job{m, gate, ci}
}

// A job that is blocked only until a route has had its turn has not ended.
func TestWhatARouteMaySendBackHasNotEnded(t *testing.T) {
	for _, st := range kernel.Statuses() {
		s := snapshot(facts(), conflicting(st)...)
		want := kernel.JobID("")
		if st.Active() {
			want = "g"
		}
		for _, id := range []kernel.JobID{"m", "t"} {
			if got := s.Pending(id); got != want {
				t.Errorf("the gate is %s: %s waits for %q, want %q", st, id, got, want)
			}
		}
		if s.Pending("g") != "" {
			t.Errorf("the gate, %s, waits for itself", st)
		}
	}
	spent := snapshot(facts(), conflicting(kernel.Running, func(j *kernel.Job) { j.State.Routed = kernel.DefaultRouteBudget })...)
	if got := spent.Pending("t"); got != "" {
		t.Errorf("with a route that is exhausted: %q", got)
	}
	e, err := kernel.Explain(snapshot(facts(), conflicting(kernel.Running)...), "t")
	if err != nil || len(e.Actions) > 0 || e.Root != nil || len(e.Unmet) != 1 || e.Unmet[0].Job != "g" {
		t.Errorf("%+v, %v", e, err)
	}
}

// A retry of the merge rewinds what its conflict woke. Otherwise the run would
// be blocked for ever by a gate that nothing wakes any more.
func TestARetryTakesBackWhatItsEndWoke(t *testing.T) {
	for _, st := range []kernel.Status{kernel.BlockedByDependency, kernel.Failed, kernel.Cancelled, kernel.Queued} {
		s := snapshot(facts(), conflicting(st)...)
		p, err := kernel.Retry(s, "m", "ann")
		if err != nil {
			t.Fatal(err)
		}
		next := s.Apply(p)
		if got := next.Job("g").State; got.Status != kernel.Unscheduled || got.Awake {
			t.Errorf("the gate, %s, is %s, awake %v", st, got.Status, got.Awake)
		}
		if next.Job("m").State.Status != kernel.Queued || next.Job("t").State.Status != kernel.Queued {
			t.Error("the merge or what follows is not queued")
		}
	}
	// A handler that has succeeded stays, and a running one is not rewound.
	s := snapshot(facts(), conflicting(kernel.Succeeded)...)
	if set, err := kernel.RetryOf(s, "m"); err != nil || slices.Contains(set.Jobs, "g") {
		t.Errorf("%v, %v", set.Jobs, err)
	}
	if _, err := kernel.RetryOf(snapshot(facts(), conflicting(kernel.Running, running(1))...), "m"); err == nil {
		t.Error("a merge is retried while its conflict is being resolved")
	}
}

// A retry takes back nothing that another end of the job would have woken, or that is gone, sleeps or needs no route.
func TestARetryLeavesWhatAnotherEndWoke(t *testing.T) {
	for name, c := range map[string]struct {
		on      kernel.Outcome
		to      kernel.JobID
		handler func(*kernel.Job)
		want    string
	}{
		"what its end woke":     {kernel.OutcomeBlocked, "g", func(*kernel.Job) {}, "[m g t]"},
		"what a success woke":   {kernel.OutcomeSucceeded, "g", func(*kernel.Job) {}, "[m t]"},
		"what is gone":          {kernel.OutcomeBlocked, "gone", func(*kernel.Job) {}, "[m t]"},
		"what sleeps":           {kernel.OutcomeBlocked, "g", func(j *kernel.Job) { j.State.Awake, j.State.Status = false, kernel.Unscheduled }, "[m t]"},
		"what needs no route":   {kernel.OutcomeBlocked, "g", func(j *kernel.Job) { j.Spec.Routed = false }, "[m t]"},
		"what did what it must": {kernel.OutcomeBlocked, "g", func(j *kernel.Job) { j.State.Status = kernel.Succeeded }, "[m t]"},
	} {
		jobs := conflicting(kernel.Failed)
		jobs[0].Spec.Routes = []kernel.Route{{On: c.on, To: c.to}}
		jobs[1].Spec.Routes = nil
		c.handler(&jobs[1])
		set, err := kernel.RetryOf(snapshot(facts(), jobs...), "m")
		if slices.Sort(set.Jobs[1:]); err != nil || fmt.Sprint(set.Jobs) != c.want {
			t.Errorf("%s: %v, %v, want %s", name, set.Jobs, err, c.want)
		}
	}
}

// A conflict's gate that is retried after the merge has succeeded does not merge again.
func TestAGateBehindAMergeThatSucceeded(t *testing.T) {
	for _, st := range []kernel.Status{kernel.Succeeded, kernel.BlockedByDependency} {
		jobs := conflicting(kernel.BlockedByDependency)
		jobs[0].State.Status = st
		s := snapshot(facts(), jobs...)
		p, err := kernel.Retry(s, "g", "ann")
		if err != nil {
			t.Fatal(err)
		}
		g := *s.Apply(p).Job("g")
		g.State.Status, g.State.Attempt = kernel.Running, 1
		jobs[1] = g
		if s = snapshot(facts(), jobs...); st == kernel.Succeeded && s.Pending("t") != "" {
			t.Error("what follows the merge waits for the gate")
		}
		next := ending(t, s, "g", kernel.OutcomeSucceeded)
		if m := next.Job("m").State; next.Job("g").State.Status != kernel.Succeeded || (m.Generation == 0) != (st == kernel.Succeeded) {
			t.Errorf("the gate %s, the merge, which was %s, is %s in generation %d", next.Job("g").State.Status, st, m.Status, m.Generation)
		}
	}
}

// A job whose merge the target has lost leads to that merge.
func TestTheWayOutOfALostMerge(t *testing.T) {
	for reason, want := range map[string]kernel.JobID{"main " + kernel.LacksMerge: "m", "exit 1": "ci", "exit 1" + kernel.LastLine + "main " + kernel.LacksMerge: "ci"} {
		m := merge("m", is(kernel.Succeeded), func(j *kernel.Job) { j.Spec.Needs = nil })
		ci := job("ci", inRun("rm"), after("m"), is(kernel.Failed), func(j *kernel.Job) {
			j.State.Failure, j.State.Reason, j.State.Outcome = kernel.ExitFailure, reason, kernel.OutcomeFailed
		})
		last := job("last", inRun("rm"), after("ci"), is(kernel.BlockedByDependency))
		last.State.Wait = kernel.WaitReasonOf(kernel.OnDependencies, "dependency failed for job ci (failed)")
		for _, id := range []kernel.JobID{"ci", "last"} {
			e, err := kernel.Explain(snapshot(facts(), m, ci, last), id)
			if err != nil || len(e.Actions) != 1 || e.Actions[0] != (kernel.Remedy{Kind: kernel.RetryJob, Job: want}) || e.Root == nil || e.Root.Job != "ci" {
				t.Errorf("%s: why %s: %+v, %v", reason, id, e, err)
			}
		}
	}
}

// All jobs blocked by a conflict name the one job whose retry ends the run.
func TestAConflictHasOneWayOut(t *testing.T) {
	for open, want := range map[bool]string{true: "g", false: "m"} {
		f := facts()
		f.Present[artifact(sentinel)] = kernel.Seen(open)
		for _, id := range []kernel.JobID{"m", "t"} {
			e, err := kernel.Explain(snapshot(f, conflicting(kernel.BlockedByDependency, func(j *kernel.Job) { j.State.Outcome = kernel.OutcomeBlocked })...), id)
			if err != nil || len(e.Actions) != 1 || e.Actions[0] != (kernel.Remedy{Kind: kernel.RetryJob, Job: kernel.JobID(want)}) {
				t.Errorf("conflict open %v: why %s: %+v, %v", open, id, e.Actions, err)
			}
		}
	}
	if p := snapshot(facts(), conflicting(kernel.BlockedByDependency)...).ProbesOf("t"); !slices.Contains(p.Artifacts, artifact(sentinel)) {
		t.Errorf("whether the conflict is open is not asked: %v", p.Artifacts)
	}
}

// A merge that is in the way of another's conflict leads to that one as long as it is open.
func TestTheWayOutOfAMergeBehindAConflict(t *testing.T) {
	f := facts()
	f.Present[artifact(sentinel)] = kernel.Seen(true)
	for reason, want := range map[string]kernel.JobID{"merging foo " + kernel.InConflict: "g", "its worktree is gone": "second"} {
		jobs := conflicting(kernel.BlockedByDependency, func(j *kernel.Job) { j.State.Outcome = kernel.OutcomeBlocked })
		jobs[0].State.Reason = reason
		second := merge("second", inRun("rn"), is(kernel.BlockedByDependency), func(j *kernel.Job) {
			j.State.Outcome, j.State.Reason, j.Spec.Needs = kernel.OutcomeBlocked, "merging foo "+kernel.BehindConflict+"m is open in d", nil
		})
		last := job("last", inRun("rn"), after("second"), is(kernel.BlockedByDependency))
		last.State.Wait = kernel.WaitReasonOf(kernel.OnDependencies, "dependency failed for job second (blocked_by_dependency)")
		for _, id := range []kernel.JobID{"second", "last"} {
			e, err := kernel.Explain(snapshot(f, append(jobs, second, last)...), id)
			if err != nil || len(e.Actions) != 1 || e.Actions[0] != (kernel.Remedy{Kind: kernel.RetryJob, Job: want}) {
				t.Errorf("%s: why %s: %+v, %v", reason, id, e.Actions, err)
			}
			if root := map[kernel.JobID]kernel.JobID{"g": "m", "second": "second"}[want]; e.Root == nil || e.Root.Job != root {
				t.Errorf("%s: why %s: the root is %+v, want %s", reason, id, e.Root, root)
			}
		}
	}
}

// Jobs that nothing will wake: a transient job that no job needs, and a route's
// target once no other job of its run is active.
func TestAsleep(t *testing.T) {
	transient := func(j *kernel.Job) { j.Spec.Transient = kernel.OnDemand }
	in := func(run kernel.RunID) option { return func(j *kernel.Job) { j.Spec.Origin.Run = run } }
	s := snapshot(facts(),
		job("a", transient, is(kernel.Unscheduled)), job("b", transient, is(kernel.WaitingOnDeps)),
		job("c", routed, in("r"), is(kernel.Unscheduled)), job("d", in("r"), is(kernel.WaitingOnApproval)),
		job("e", routed, in("q"), is(kernel.Unscheduled)), job("f", in("q"), is(kernel.Succeeded)))
	for id, want := range map[kernel.JobID]string{
		"a": "nobody needs it; a job that depends on it and is not transient wakes it", "b": "", "c": "", "d": "",
		"e": "only a route starts it, and nothing of its run goes on; a retry of what leads to it may", "f": "", "x": "",
	} {
		if got := s.Asleep(id)[id]; got != want {
			t.Errorf("%s: %q, want %q", id, got, want)
		}
	}
}

// If a job lacked what another should have made, retrying it does not help. The
// way out is the other job, whichever job is asked about, unless that has been
// rewound since.
func TestTheWayOutIsWhoDidNotMakeIt(t *testing.T) {
	text := artifact("custom:commit_message:main")
	failed := func(c kernel.FailureClass) option {
		return func(j *kernel.Job) {
			j.State.Status, j.State.Outcome, j.State.Failure = kernel.Failed, kernel.OutcomeFailed, c
		}
	}
	asked := func(j *kernel.Job) { j.State.Agent = &kernel.AgentState{} }
	blocked := func(by kernel.JobID) kernel.Job {
		j := job("t", inRun("r"), is(kernel.BlockedByDependency), after(by))
		j.State.Wait = kernel.WaitReasonOf(kernel.OnDependencies, "dependency failed for job c (failed)")
		return j
	}
	for _, c := range []struct {
		name  string
		class kernel.FailureClass
		agent kernel.Status
		needs []kernel.Artifact
		want  kernel.JobID
	}{
		{"nothing was changed", kernel.MissingOutput, kernel.Succeeded, nil, "a"},
		{"an agent that runs again", kernel.MissingOutput, kernel.Running, nil, "c"},
		{"a message that is empty", kernel.MissingInput, kernel.Succeeded, []kernel.Artifact{text}, "m"},
		{"one of two texts", kernel.MissingInput, kernel.Succeeded, []kernel.Artifact{text, artifact("custom:other:k")}, "c"},
		{"something else", kernel.MissingInput, kernel.Succeeded, nil, "c"},
		{"a failure of its own", kernel.ExitFailure, kernel.Succeeded, []kernel.Artifact{text}, "c"},
	} {
		commit := job("c", inRun("r"), after("s"), failed(c.class))
		commit.Spec.Needs = c.needs
		maker := job("m", inRun("r"), is(kernel.Succeeded))
		maker.Spec.Produces = []kernel.Artifact{text}
		s := snapshot(facts(), job("a", inRun("r"), asked, is(c.agent)), maker,
			job("s", inRun("r"), after("a"), is(kernel.Succeeded)), commit, blocked("c"))
		if got := s.WayOut("c"); got != c.want {
			t.Errorf("%s: the way out is %s, want %s", c.name, got, c.want)
		}
		for _, id := range []kernel.JobID{"c", "t"} {
			if e, err := kernel.Explain(s, id); err != nil || len(e.Actions) != 1 || e.Actions[0] != (kernel.Remedy{Kind: kernel.RetryJob, Job: c.want}) {
				t.Errorf("%s: why %s: %+v, %v", c.name, id, e.Actions, err)
			}
		}
	}
	silent := job("b", inRun("r"), after("a"), failed(kernel.MissingOutput), asked)
	if got := snapshot(facts(), job("a", inRun("r"), asked, is(kernel.Succeeded)), silent).WayOut("b"); got != "b" {
		t.Errorf("of an agent that answered nothing: %s", got)
	}
	if got := snapshot(facts()).WayOut("zz"); got != "zz" {
		t.Errorf("of a job that is not there: %s", got)
	}
}

// A gate that sleeps in a run of which nothing goes on is not cancelled, for the run would be taken for a cancelled
// one. If that has happened, a retry lets it sleep again.
func TestASleeperOfAnEndedRunIsNotCancelled(t *testing.T) {
	for _, st := range kernel.Statuses() {
		s := snapshot(facts(), job("m", inRun("r"), is(st)), job("g", inRun("r"), routed, is(kernel.Unscheduled)))
		p, err := kernel.Cancel(s, "g", "ann", false)
		if refused := errors.Is(err, kernel.ErrConflict) && strings.Contains(err.Error(), "nothing to cancel: job g sleeps"); refused == st.Active() || (err == nil) != st.Active() {
			t.Errorf("the other job is %s: %v", st, err)
		}
		if err == nil && s.Apply(p).Job("g").State.Status != kernel.Cancelled {
			t.Errorf("the other job is %s: it is not cancelled", st)
		}
	}
	for awake, want := range map[bool]kernel.Status{false: kernel.Unscheduled, true: kernel.Queued} {
		s := snapshot(facts(), job("m", inRun("r"), is(kernel.Succeeded)), job("g", inRun("r"), routed, is(kernel.Cancelled), func(j *kernel.Job) { j.State.Awake = awake }))
		p, err := kernel.Retry(s, "g", "ann")
		if got := s.Apply(p).Job("g"); err != nil || got.State.Status != want || got.State.Awake != awake {
			t.Errorf("a cancelled one, woken %t: %s, awake %t, %v", awake, got.State.Status, got.State.Awake, err)
		}
	}
}
