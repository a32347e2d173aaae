package kernel_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/retention"
)

const (
	planBranch = "plan_branch:foo (draft/foo)"
	planDoc    = "plan_doc:foo (draft/foo)"
	approved   = "custom:stage_token:approve:foo"
)

// A stage of a plan is a run of one job with the needs and products of the
// shipped templates.
func draft(id kernel.JobID, o ...option) kernel.Job {
	return job(id, append([]option{inRun(kernel.RunID("r" + id)), produces(planBranch, planDoc), policy(kernel.Wait)}, o...)...)
}

func approve(id kernel.JobID, o ...option) kernel.Job {
	return job(id, append([]option{inRun(kernel.RunID("r" + id)), needs(planBranch, planDoc), produces(approved), policy(kernel.Wait)}, o...)...)
}

func merge(id kernel.JobID, o ...option) kernel.Job {
	return job(id, append([]option{inRun(kernel.RunID("r" + id)), needs(approved), policy(kernel.Wait), func(j *kernel.Job) {
		j.Spec.Origin.About.Operation, j.Spec.Origin.Plan, j.Spec.Origin.Branch = "git.integrate_plan_branch", "foo", "draft/foo"
	}}, o...)...)
}

// planned returns the facts once a plan is drafted (branch) or approved
// (token).
func planned(branch bool, tokens ...kernel.JobID) kernel.Facts {
	f := marked(facts(), approved, tokens...)
	f.Present[artifact(planBranch)], f.Present[artifact(planDoc)] = kernel.Seen(branch), kernel.Seen(branch)
	return f
}

// integrated returns the snapshot after merge m of jobs has ended in its
// status.
func integrated(t *testing.T, m kernel.JobID, o kernel.Outcome, f kernel.Facts, jobs ...kernel.Job) *kernel.Snapshot {
	t.Helper()
	s := snapshot(f, jobs...)
	p, err := kernel.Finish(s, kernel.Result{Attempt: s.Job(m).Attempt(), Outcome: o, Exit: 0})
	if err != nil {
		t.Fatal(err)
	}
	s = s.Apply(p)
	gone := kernel.NewFacts()
	gone.Present[artifact(planBranch)], gone.Present[artifact(planDoc)] = kernel.Seen(false), kernel.Seen(false)
	return s.WithFacts(gone)
}

// enqueued returns s with jobs enqueued one moment later.
func enqueued(t *testing.T, s *kernel.Snapshot, jobs ...kernel.Job) *kernel.Snapshot {
	t.Helper()
	var news []kernel.NewJob
	for _, j := range jobs {
		news = append(news, kernel.NewJob{ID: j.ID, Spec: j.Spec})
	}
	p, err := kernel.Enqueue(s, news)
	if err != nil {
		t.Fatal(err)
	}
	return s.Apply(p)
}

// Seed 003's first row again, for the second cycle of a plan: the stage that is
// queued first waits for the others, and for nothing of the first cycle.
func TestTheSecondCycleOfAPlanIsLikeTheFirst(t *testing.T) {
	first := []kernel.Job{draft("a0", is(kernel.Failed)), draft("a1", is(kernel.Succeeded)), approve("b1", is(kernel.Succeeded)), merge("c1", running(1))}
	s := integrated(t, "c1", kernel.OutcomeSucceeded, planned(true, "b1"), first...)
	s = enqueued(t, s, merge("m2"))
	expect(t, s, "m2", "waiting_on_deps dependencies: awaiting producer for "+approved)
	s = enqueued(t, s, approve("n2"))
	expect(t, s, "m2", "waiting_on_deps dependencies: waiting on "+approved)
	expect(t, s, "n2", "waiting_on_deps dependencies: awaiting producer for "+planBranch)
	s = enqueued(t, s, draft("o2"))
	expect(t, s, "n2", "waiting_on_deps dependencies: waiting on "+planBranch)
	expect(t, s, "o2", "running")

	// A merge that did not succeed closes nothing.
	for _, o := range []kernel.Outcome{kernel.OutcomeFailed, kernel.OutcomeBlocked} {
		s := enqueued(t, integrated(t, "c1", o, planned(true, "b1"), first...), merge("m2"), approve("n2", after("m2")))
		expect(t, s, "m2", "running")
	}
}

// Jobs that work for the next cycle while a merge ends are not retired.
func TestAMergeClosesOnlyWhatHasEnded(t *testing.T) {
	s := integrated(t, "c1", kernel.OutcomeSucceeded, planned(true, "b1"),
		draft("a1", is(kernel.Succeeded)), approve("b1", is(kernel.Succeeded)), merge("c1", running(1)),
		draft("d2", running(1)), approve("e2"), merge("f2"))
	expect(t, s, "e2", "waiting_on_deps dependencies: waiting on "+planBranch)
	expect(t, s, "f2", "waiting_on_deps dependencies: waiting on "+approved)
	for id, retired := range map[kernel.JobID]bool{"a1": true, "b1": true, "c1": false, "d2": false, "e2": false} {
		if s.Job(id).State.Retired != retired {
			t.Errorf("%s: retired %v", id, !retired)
		}
	}
}

// Other plans, and jobs that only look similar, are not touched.
func TestAMergeClosesOnlyItsPlan(t *testing.T) {
	other := job("o", produces("custom:stage_token:approve:xfoo"), is(kernel.Succeeded))
	alike := job("p", produces("custom:build:foo"), is(kernel.Succeeded))
	another := job("q", produces("custom:stage_token:review:foo"), is(kernel.Succeeded))
	stuck := func(j *kernel.Job) {
		j.State.Status, j.State.Outcome = kernel.BlockedByDependency, kernel.OutcomeBlocked
	}
	elsewhere := func(j *kernel.Job) { j.Spec.Origin.Branch = "draft/x" }
	s := integrated(t, "c1", kernel.OutcomeSucceeded, planned(true, "b1"), other, alike, another, approve("b1", is(kernel.Succeeded)), merge("c1", running(1)),
		approve("b9", is(kernel.Succeeded), elsewhere), merge("m9", stuck, elsewhere), // another branch of the plan
		merge("d1", inRun("rd"), stuck), job("d2", inRun("rd"), is(kernel.Failed)), job("d3", inRun("rd"), is(kernel.BlockedByDependency)), // a run that was to merge the plan
		job("e1", inRun("re"), stuck), job("f1", stuck)) // and what has nothing to do with it
	for id, retired := range map[kernel.JobID]bool{"o": false, "p": false, "q": true, "b9": false, "m9": false, "d1": true, "d2": false, "d3": false, "e1": false, "f1": false} {
		if s.Job(id).State.Retired != retired {
			t.Errorf("%s: retired %v", id, !retired)
		}
	}
}

// A merge of one branch of a plan begins no cycle of another.
func TestARetryRewindsWhatAnotherBranchOfThePlanUsed(t *testing.T) {
	elsewhere := func(j *kernel.Job) { j.Spec.Origin.Plan, j.Spec.Origin.Branch = "foo", "draft/x" }
	const branch = "plan_branch:foo (draft/x)"
	s := integrated(t, "c1", kernel.OutcomeSucceeded, planned(true, "b1"), approve("b1", is(kernel.Succeeded)), merge("c1", running(1)),
		draft("a9", is(kernel.Succeeded), produces(branch), elsewhere), approve("b9", is(kernel.Succeeded), needs(branch), elsewhere))
	if got := words(s.Downstream("a9")); got != "a9 b9" {
		t.Errorf("a retry rewinds %s", got)
	}
}

// A merge that is retried has used up its token, unless the token is made anew
// as well.
func TestARetriedMergeNeedsNoSecondToken(t *testing.T) {
	s := integrated(t, "c1", kernel.OutcomeSucceeded, planned(true, "b1"), approve("b1", is(kernel.Succeeded)), merge("c1", running(1)))
	again := func(root kernel.JobID) *kernel.Snapshot {
		p, err := kernel.Retry(s, root, "ann")
		if err != nil {
			t.Fatal(err)
		}
		return s.Apply(p)
	}
	expect(t, again("c1"), "c1", "running")
	expect(t, again("b1"), "c1", "waiting_on_deps dependencies: waiting on "+approved)
}

// A merge whose target has lost what it merged asks for no second stage before its retry; one whose plan
// another run has merged meanwhile merges what is drafted and approved next.
func TestWhatStartsAMergeAfterItsPlanIsMerged(t *testing.T) {
	stages := []kernel.Job{draft("a1", is(kernel.Succeeded)), approve("b1", is(kernel.Succeeded))}
	for name, c := range map[string]struct {
		jobs []kernel.Job
		want []kernel.Remedy
	}{
		"its own merge is lost": {append(stages, merge("c1", is(kernel.Failed), func(j *kernel.Job) { j.State.Closed = true })), []kernel.Remedy{{Kind: kernel.RetryJob, Job: "c1"}}},
		"another has merged it": {append(stages, merge("c0", is(kernel.Succeeded), func(j *kernel.Job) { j.State.Closed = true }), merge("c1", is(kernel.BlockedByDependency), func(j *kernel.Job) {
			j.State.Outcome, j.State.Reason, j.State.Retired = kernel.OutcomeBlocked, "merging draft/foo into main is in conflict", true
		})), []kernel.Remedy{{Kind: kernel.ProduceArtifact, Artifact: artifact(planBranch)}, {Kind: kernel.ProduceArtifact, Artifact: artifact(approved)}, {Kind: kernel.RetryJob, Job: "c1"}}},
	} {
		for i := range 2 {
			c.jobs[i].State.Retired = true
		}
		e, err := kernel.Explain(snapshot(planned(false, "b1"), c.jobs...), "c1")
		if err != nil || !slices.Equal(e.Actions, c.want) {
			t.Errorf("%s: %+v, %v", name, e.Actions, err)
		}
	}
}

// Semantics 22: a consumer whose policy is to wait is blocked if its producers
// failed, and reopened by a later producer, together with its dependents.
func TestABlockedConsumerIsOpenToALaterProducer(t *testing.T) {
	blocked := func(o ...option) kernel.Job {
		j := approve("b1", append([]option{is(kernel.BlockedByDependency)}, o...)...)
		j.State.Wait = kernel.WaitReasonOf(kernel.OnDependencies, "dependency failed for "+planBranch)
		return j
	}
	held := job("b2", inRun("rb1"), after("b1"), is(kernel.BlockedByDependency))
	held.State.Wait = kernel.WaitReasonOf(kernel.OnDependencies, "dependency failed for job b1 (blocked_by_dependency)")
	ended := job("b3", inRun("rb1"), after("b2"), is(kernel.Cancelled))
	failed := draft("a1", is(kernel.Failed))

	s := snapshot(planned(false), failed, blocked(), held, ended)
	expect(t, s, "b1", "blocked_by_dependency dependencies: dependency failed for "+planBranch)
	e, err := kernel.Explain(s, "b1")
	if err != nil || len(e.Unmet) == 0 || e.Unmet[0].Clears != "a retry of what failed, or another job that produces it" {
		t.Errorf("%+v, %v", e, err)
	}
	s = enqueued(t, s, draft("x1"))
	expect(t, s, "b1", "waiting_on_deps dependencies: waiting on "+planBranch)
	expect(t, s, "b2", "waiting_on_deps dependencies: waiting on job b1")
	if s.Job("b3").State.Status != kernel.Cancelled || s.Job("b1").State.Generation != 1 {
		t.Error("more was opened than was blocked, or within the generation that ended")
	}

	for name, j := range map[string]kernel.Job{
		"a consumer that may not wait":  blocked(policy(kernel.Block)),
		"one that ended as blocked":     blocked(func(j *kernel.Job) { j.State.Outcome = kernel.OutcomeBlocked }),
		"one that is blocked otherwise": blocked(func(j *kernel.Job) { j.Spec.Needs = artifacts("custom:t:x") }),
	} {
		s := enqueued(t, snapshot(planned(false), failed, j), draft("x1"))
		if got := s.Job("b1").State; got != j.State {
			t.Errorf("%s: %s", name, strings.TrimSpace(said(got.Status, got.Wait)))
		}
	}
}

// GC keeps a token that no merge has used up, however old its job is. It
// removes the worktree of a job before the job.
func TestGCOfPlans(t *testing.T) {
	failed := draft("a1", is(kernel.Failed), func(j *kernel.Job) {
		j.State.Context = kernel.Context{Root: "w", Worktree: "w", Owned: true}
	})
	older, token := approve("b1", is(kernel.Succeeded)), approve("b2", is(kernel.Succeeded))
	used := job("c1", produces("custom:stage_token:approve:bar"), is(kernel.Succeeded), func(j *kernel.Job) { j.State.Retired = true })
	elsewhere := func(j *kernel.Job) { j.Spec.Origin.Branch = "draft/x" } // another branch of the plan
	s := snapshot(planned(false), failed, approve("b0", is(kernel.Succeeded), elsewhere), older, token, used)
	removed := func(p kernel.Plan) (ids []kernel.JobID) {
		for _, a := range actionsOf[kernel.RemoveJob](p) {
			ids = append(ids, a.Job)
		}
		return ids
	}
	if got := words(removed(retention.GC(s, 0))); got != "b1 c1" {
		t.Errorf("removed %s", got)
	}
	trees := actionsOf[kernel.RemoveWorktree](retention.GCWorktrees(s, 0))
	if len(trees) != 1 || trees[0].Job != "a1" {
		t.Fatalf("worktrees: %v", trees)
	}
	p, err := kernel.CleanedUp(s, trees[0], kernel.Cleanup{Status: kernel.CleanupDone})
	if err != nil {
		t.Fatal(err)
	}
	if got := words(removed(retention.GC(s.Apply(p), 0))); got != "a1 b1 c1" {
		t.Errorf("once the worktree is gone: removed %s", got)
	}
}

// GC keeps a failed producer that counts for a job, also if a later one, which no longer counts, succeeded.
func TestGCKeepsTheProducerThatCounts(t *testing.T) {
	s := snapshot(planned(true), approve("b1", is(kernel.Failed)), approve("b2", is(kernel.Succeeded), func(j *kernel.Job) { j.State.Retired = true }), merge("c"))
	p := retention.GC(s, 0)
	before, _ := decided(t, s, "c")
	after, _ := decided(t, s.Apply(p), "c")
	if before.Next != kernel.BlockedByDependency || after != before {
		t.Errorf("%+v, and after a GC %+v", before, after)
	}
}

// A stage that ran in a worktree which is gone is retried from the job that
// makes the worktree, and RetryOf and Explain agree on that.
func TestARetryBeginsWhereTheWorktreeIsMade(t *testing.T) {
	tree := kernel.Context{Root: "w", Worktree: "w", Branch: "draft/foo"}
	in := func(j *kernel.Job) { j.State.Context = tree }
	hands := func(to kernel.JobID) option {
		return func(j *kernel.Job) { j.Spec.Routes = []kernel.Route{{On: kernel.OutcomeSucceeded, To: to}} }
	}
	prepare := job("a", inRun("r"), is(kernel.Succeeded), in, hands("b"), func(j *kernel.Job) {
		j.Spec.OwnsContext, j.State.Context.Owned = true, true
	})
	work := job("b", inRun("r"), after("a"), is(kernel.Succeeded), in, hands("c"))
	stage := job("c", inRun("r"), after("b"), running(1), in)
	s := snapshot(facts(), prepare, work, stage)
	p, err := kernel.Finish(s, kernel.Result{Attempt: stage.Attempt(), Outcome: kernel.OutcomeFailed, Class: kernel.LaunchFailure, Exit: 126, Context: &kernel.Context{}})
	if err != nil {
		t.Fatal(err)
	}
	s = s.Apply(p)
	set, err := kernel.RetryOf(s, "c")
	if err != nil || set.Root != "a" || words(set.Jobs) != "a b c" {
		t.Errorf("%+v, %v", set, err)
	}
	e, err := kernel.Explain(s, "c")
	if err != nil || len(e.Actions) != 1 || e.Actions[0] != (kernel.Remedy{Kind: kernel.RetryJob, Job: "a"}) {
		t.Errorf("why: %+v, %v", e, err)
	}
}

// A merge that is retried takes what its token stands for, and nothing that was drafted, or not approved, since: it
// goes by the jobs that make the token now. If there are none, it had its token, and a retry finds the plan merged.
func TestAMergeThatIsRetriedAsksForItsApproval(t *testing.T) {
	at := func(hours int) option {
		return func(j *kernel.Job) {
			began := t0.Add(time.Duration(hours) * time.Hour)
			j.Created, j.Spec.Origin.Branch = began, "draft/foo"
			if j.State.Status.Terminal() {
				j.State.Started, j.State.Finished = began, began.Add(time.Hour)
			}
		}
	}
	retired := func(j *kernel.Job) { j.State.Retired = true }
	ended, ok, failed := []option{at(0), retired}, is(kernel.Succeeded), is(kernel.Failed)
	again := merge("c", at(1), func(j *kernel.Job) { j.State.Closed, j.State.Generation = true, 1 })
	a, b := draft("a", append(ended, ok)...), approve("b", append(ended, ok)...)
	for name, c := range map[string]struct {
		jobs []kernel.Job
		want kernel.Status
		why  string
	}{
		"nothing since":                          {[]kernel.Job{a, b}, kernel.Running, ""},
		"approved anew, which failed":            {[]kernel.Job{a, approve("b", at(0), failed)}, kernel.BlockedByDependency, "dependency failed for " + approved},
		"approved anew, which was cancelled":     {[]kernel.Job{a, approve("b", at(0), is(kernel.Cancelled))}, kernel.BlockedByDependency, "dependency failed for " + approved},
		"another approval, which failed":         {[]kernel.Job{a, b, approve("b2", at(3), failed)}, kernel.BlockedByDependency, "dependency failed for " + approved},
		"approved anew":                          {[]kernel.Job{a, approve("b", at(0), failed), approve("t", at(3), ok)}, kernel.Running, ""},
		"drafted anew, and not approved":         {[]kernel.Job{draft("a", at(0), ok), approve("b", at(0), failed)}, kernel.BlockedByDependency, "dependency failed for " + approved},
		"drafted since":                          {[]kernel.Job{a, b, draft("a2", at(3), ok)}, kernel.WaitingOnDeps, "awaiting producer for " + approved},
		"being drafted":                          {[]kernel.Job{a, b, draft("a2", at(3), running(1))}, kernel.WaitingOnDeps, "awaiting producer for " + approved},
		"a draft that failed before it did much": {[]kernel.Job{a, b, draft("a2", at(3), failed, func(j *kernel.Job) { j.State.Started = time.Time{} })}, kernel.Running, ""},
	} {
		var tokens []kernel.JobID
		if strings.HasPrefix(name, "approved anew") && c.want == kernel.Running {
			tokens = append(tokens, "t")
		}
		_, j := decided(t, snapshot(planned(true, tokens...), append(c.jobs, again)...), "c")
		if j.State.Status != c.want || j.State.Wait.Detail != c.why {
			t.Errorf("%s: %s %q", name, j.State.Status, j.State.Wait.Detail)
		}
	}
}

// A retry of a later cycle leaves the merge of an earlier one alone, and the
// other way round.
func TestARetryStaysInItsCycle(t *testing.T) {
	at := func(hours int) func(*kernel.Job) {
		return func(j *kernel.Job) {
			j.Created, j.State.Finished = t0.Add(time.Duration(hours)*time.Hour), t0.Add(time.Duration(hours+1)*time.Hour)
		}
	}
	retired := func(j *kernel.Job) { j.State.Retired = true }
	closed := func(j *kernel.Job) { j.State.Closed = true }
	ok := is(kernel.Succeeded)
	s := snapshot(planned(true, "b3"),
		approve("b1", ok, at(0), retired), merge("c1", ok, at(1), closed),
		approve("b2", ok, at(4), retired), merge("c2", ok, at(5), closed),
		approve("b3", is(kernel.Failed), at(8)), merge("c3", is(kernel.BlockedByDependency), at(8)))
	for root, want := range map[kernel.JobID][]kernel.JobID{"b1": {"b1", "c1", "c3"}, "b2": {"b2", "c2", "c3"}, "b3": {"b3", "c3"}} {
		set, err := kernel.RetryOf(s, root)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(set.Jobs, want) {
			t.Errorf("retry of %s takes %v, want %v", root, set.Jobs, want)
		}
	}
}

// A retry of a later cycle's draft does not run the stages of an earlier cycle again, which used
// another draft, nor what their run did after its merge. A retry of the earlier one does.
func TestARetryLeavesStagesOfOtherCyclesAlone(t *testing.T) {
	at := func(hours int) func(*kernel.Job) {
		return func(j *kernel.Job) {
			j.Spec.Origin.Plan = "foo"
			j.Created, j.State.Started, j.State.Finished = t0.Add(time.Duration(hours)*time.Hour), t0.Add(time.Duration(hours)*time.Hour), t0.Add(time.Duration(hours+1)*time.Hour)
		}
	}
	retired := func(j *kernel.Job) { j.State.Retired = true }
	closed := func(j *kernel.Job) { j.State.Closed = true }
	ok := is(kernel.Succeeded)
	gate := func(id kernel.JobID, run kernel.RunID, hours int) kernel.Job {
		return job(id, needs(planBranch), ok, at(hours), inRun(run))
	}
	s := snapshot(planned(true, "b2"),
		draft("a1", ok, at(0), retired), approve("b1", ok, at(1), retired), merge("c1", ok, at(2), closed), gate("g1", "rc1", 4),
		draft("a2", ok, at(10)), approve("b2", is(kernel.BlockedByDependency)), merge("c2", is(kernel.BlockedByDependency)))
	for root, want := range map[kernel.JobID]string{"a2": "a2 b2 c2", "a1": "a1 b1 b2 c1 c2 g1"} {
		set, err := kernel.RetryOf(s, root)
		if err != nil {
			t.Fatal(err)
		}
		if got := slices.Sorted(slices.Values(set.Jobs)); words(got) != want {
			t.Errorf("retry of %s takes %v, want %s", root, set.Jobs, want)
		}
	}
}

// Where a draft's commit failed, the job that wrote the plan succeeded: the failed one is the root, and
// is to be retried.
func TestWhySaysWhichStageOfTheDraftFailed(t *testing.T) {
	s := snapshot(planned(false),
		job("p", inRun("r"), produces(planBranch, planDoc), is(kernel.Succeeded)),
		job("s", inRun("r"), after("p"), is(kernel.Failed)),
		job("b", inRun("q"), needs(planBranch, planDoc), is(kernel.BlockedByDependency)))
	e, err := kernel.Explain(s, "b")
	if err != nil || e.Root == nil || e.Root.Job != "s" || len(e.Actions) != 1 || e.Actions[0] != (kernel.Remedy{Kind: kernel.RetryJob, Job: "s"}) {
		t.Errorf("%+v, %+v, %v", e.Root, e.Actions, err)
	}
}

// Where a whole chain was cancelled, a retry of its last job alone would not start it.
func TestACancelledChainIsRetriedFromItsBeginning(t *testing.T) {
	s := snapshot(facts(), job("a", is(kernel.Cancelled)), job("b", after("a"), is(kernel.Cancelled)), job("c", after("b"), is(kernel.Cancelled)))
	for _, id := range []kernel.JobID{"a", "b", "c"} {
		e, err := kernel.Explain(s, id)
		if err != nil || len(e.Actions) != 1 || e.Actions[0] != (kernel.Remedy{Kind: kernel.RetryJob, Job: "a"}) {
			t.Errorf("%s: %+v, %v", id, e.Actions, err)
		}
	}
}

// GC keeps the run of a job that works on a conflict, however old it is, until
// a later merge of the plan has succeeded.
func TestGCKeepsTheRunOfAConflict(t *testing.T) {
	stuck := func(j *kernel.Job) {
		j.State.Status, j.State.Outcome = kernel.BlockedByDependency, kernel.OutcomeBlocked
	}
	long := []kernel.Job{approve("b1", is(kernel.Succeeded)), merge("c1", inRun("r1"), stuck), job("d1", inRun("r1"), after("c1"), is(kernel.BlockedByDependency)),
		job("z1", is(kernel.Succeeded))}
	gone := func(jobs ...kernel.Job) (out []kernel.JobID) {
		s := kernel.NewSnapshot(kernel.Observation{Now: t0.Add(1000 * time.Hour), Jobs: jobs})
		for _, a := range retention.GC(s, time.Hour).Records {
			if r, ok := a.(kernel.RemoveJob); ok {
				out = append(out, r.Job)
			}
		}
		return out
	}
	if got := gone(long...); !slices.Equal(got, []kernel.JobID{"z1"}) {
		t.Errorf("with an open conflict %v go, want z1", got)
	}
	elsewhere := func(j *kernel.Job) { j.Spec.Origin.Branch = "draft/x" } // another branch of the plan
	if got := gone(append(long, merge("e0", inRun("r0"), is(kernel.Succeeded), elsewhere))...); slices.Contains(got, "c1") {
		t.Errorf("once another branch of the plan is merged %v go", got)
	}
	later := merge("e1", inRun("r2"), is(kernel.Succeeded))
	if got := gone(append(long, later)...); !slices.Contains(got, "c1") || !slices.Contains(got, "d1") {
		t.Errorf("once a later merge has succeeded %v go, want c1 and d1 among them", got)
	}
}

// Runs for one plan go one after the other. A retry of the first leaves the second, which may have
// merged since, as it is; where the second needs what the first makes, it is done again.
func TestARetryLeavesALaterRunOfThePlan(t *testing.T) {
	of := func(run kernel.RunID) option {
		return func(j *kernel.Job) { j.Spec.Origin.Run, j.Spec.Origin.Plan = run, "p" }
	}
	anyEnd := func(j *kernel.Job) { j.Spec.AfterAny = j.Spec.After }
	jobs := func(more ...option) *kernel.Snapshot {
		return snapshot(facts(), job("draft", of("r1"), is(kernel.Failed)), job("end", of("r1"), after("draft"), produces("custom:x:p"), is(kernel.BlockedByDependency)),
			job("next", append([]option{of("r2"), after("end"), anyEnd, is(kernel.Succeeded)}, more...)...))
	}
	if got := jobs().Downstream("draft"); !slices.Equal(got, []kernel.JobID{"draft", "end"}) {
		t.Errorf("a retry takes %v", got)
	}
	if got := jobs(needs("custom:x:p")).Downstream("draft"); !slices.Equal(got, []kernel.JobID{"draft", "end", "next"}) {
		t.Errorf("of what is needed a retry takes %v", got)
	}
}

// A token that was made before another run worked on the plan's branch does not let a merge take
// along what that run left: it waits for a token made since then.
func TestATokenIsOfWhatItsBranchHeld(t *testing.T) {
	on := func(started, finished time.Duration, o ...option) option {
		return func(j *kernel.Job) {
			j.Spec.Origin.Plan, j.Spec.Origin.Branch, j.Spec.Origin.About.Operation = "foo", "draft/foo", "worktree.prepare"
			for _, f := range o {
				f(j)
			}
			if started > 0 {
				j.State.Started, j.State.Finished = t0.Add(started-time.Hour), t0.Add(finished-time.Hour)
			}
		}
	}
	token := approve("b1", is(kernel.Succeeded), on(1, 2))
	failed := func(o ...option) kernel.Job {
		return approve("b2", append([]option{is(kernel.Failed), on(3, 4)}, o...)...)
	}
	again := draft("a2", is(kernel.Succeeded), on(3, 4))
	const anew = "waiting_on_deps dependencies: awaiting producer for " + approved
	for name, c := range map[string]struct {
		want   string
		tokens []kernel.JobID
		jobs   []kernel.Job
	}{
		"nothing happened since":                      {"running", nil, []kernel.Job{draft("a1", is(kernel.Succeeded), on(1, 1)), token}},
		"the next approve failed":                     {"blocked_by_dependency dependencies: dependency failed for " + approved, nil, []kernel.Job{token, failed()}},
		"it was cancelled at work":                    {"blocked_by_dependency dependencies: dependency failed for " + approved, nil, []kernel.Job{token, failed(is(kernel.Cancelled))}},
		"it was cancelled before":                     {"running", nil, []kernel.Job{token, approve("b2", is(kernel.Cancelled), on(0, 0))}},
		"it was cancelled, put back to its beginning": {"blocked_by_dependency dependencies: dependency failed for " + approved, nil, []kernel.Job{token, approve("b2", is(kernel.Cancelled), on(0, 0), func(j *kernel.Job) { j.State.Attempt = 1 })}},
		"it failed before":                            {"running", nil, []kernel.Job{failed(on(1, 1)), token}},
		"it belongs to a closed cycle":                {"running", nil, []kernel.Job{token, failed(func(j *kernel.Job) { j.State.Retired = true })}},
		"it succeeded":                                {"running", []kernel.JobID{"b1", "b2"}, []kernel.Job{token, failed(is(kernel.Succeeded))}},
		"it is for another branch":                    {"running", nil, []kernel.Job{token, failed(func(j *kernel.Job) { j.Spec.Origin.Branch = "draft/x" })}},
		"the plan was drafted anew":                   {anew, nil, []kernel.Job{token, again}},
		"and approved since then":                     {"running", []kernel.JobID{"b1", "b3"}, []kernel.Job{token, again, approve("b3", is(kernel.Succeeded), on(5, 6))}},
		"an earlier one was tried again":              {"blocked_by_dependency dependencies: dependency failed for " + approved, []kernel.JobID{"b2"}, []kernel.Job{approve("b1", is(kernel.Failed), on(5, 6)), failed(is(kernel.Succeeded))}},
	} {
		t.Run(name, func(t *testing.T) {
			if c.tokens == nil {
				c.tokens = []kernel.JobID{"b1"}
			}
			expect(t, snapshot(planned(true, c.tokens...), append(c.jobs, merge("c1"))...), "c1", c.want)
		})
	}
	e, err := kernel.Explain(snapshot(planned(true, "b1"), token, failed(), merge("c1")), "c1")
	if err != nil || len(e.Unmet) != 1 || e.Unmet[0].Detail != "dependency failed for "+approved+": an older one does not count, since the run of the failed job worked on the branch after it" || e.Unmet[0].Job != "b2" {
		t.Errorf("%+v, %v", e.Unmet, err)
	}
	e, err = kernel.Explain(snapshot(planned(true, "b1"), token, again, merge("c1")), "c1")
	if err != nil || len(e.Unmet) != 1 || e.Unmet[0].Detail != "awaiting producer for "+approved+": the plan was drafted anew since it was made" {
		t.Errorf("%+v, %v", e.Unmet, err)
	}
}

// A retry of a producer leaves alone what took the artifact of another one.
func TestARetryLeavesWhatTookAnothersArtifact(t *testing.T) {
	ran := func(st kernel.Status, started, finished time.Duration) option {
		return func(j *kernel.Job) {
			j.State.Status, j.State.Started, j.State.Finished = st, t0.Add(started-time.Hour), t0.Add(finished-time.Hour)
		}
	}
	const app = "custom:bin:app"
	for name, c := range map[string]struct {
		rewound string
		retried kernel.JobID
		jobs    []kernel.Job
	}{
		"an older one that failed":      {"p1", "p1", []kernel.Job{job("p1", produces(app), ran(kernel.Failed, 1, 2)), job("p2", produces(app), ran(kernel.Succeeded, 1, 3))}},
		"an older one":                  {"p1", "p1", []kernel.Job{job("p1", produces(app), ran(kernel.Succeeded, 1, 2)), job("p2", produces(app), ran(kernel.Succeeded, 1, 3))}},
		"the one whose artifact it was": {"p2 pz", "p2", []kernel.Job{job("p1", produces(app), ran(kernel.Succeeded, 1, 2)), job("p2", produces(app), ran(kernel.Succeeded, 1, 3))}},
		"a newer one, made later":       {"p2", "p2", []kernel.Job{job("p1", produces(app), ran(kernel.Succeeded, 1, 2)), job("p2", produces(app), ran(kernel.Succeeded, 1, 9))}},
		"a newer one that failed":       {"p2 pz", "p2", []kernel.Job{job("p1", produces(app), ran(kernel.Succeeded, 1, 2)), job("p2", produces(app), ran(kernel.Failed, 1, 3))}},
		"the only one":                  {"p1 pz", "p1", []kernel.Job{job("p1", produces(app), ran(kernel.Succeeded, 1, 2))}},
		"one that it is also after":     {"p1 pz", "p1", []kernel.Job{job("p1", produces(app), ran(kernel.Failed, 1, 2)), job("p2", produces(app), ran(kernel.Succeeded, 1, 3))}},
	} {
		t.Run(name, func(t *testing.T) {
			consumer := job("pz", needs(app), ran(kernel.Succeeded, 5, 6))
			if name == "one that it is also after" {
				consumer.Spec.After = []kernel.JobID{"p1"}
			}
			set, err := kernel.RetryOf(snapshot(facts(), append(c.jobs, consumer)...), c.retried)
			if got := words(set.Jobs); err != nil || got != c.rewound {
				t.Errorf("rewound %s, want %s (%v)", got, c.rewound, err)
			}
			waiting := consumer
			waiting.State.Status = kernel.WaitingOnDeps
			set, err = kernel.RetryOf(snapshot(facts(), append(c.jobs, waiting)...), c.retried)
			if got := words(set.Jobs); err != nil || got != string(c.retried)+" pz" {
				t.Errorf("with a consumer that waits: %s (%v)", got, err)
			}
		})
	}
}
