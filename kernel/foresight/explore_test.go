package foresight_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/foresight"
)

func node(id kernel.JobID, more ...func(*kernel.NewJob)) kernel.NewJob {
	n := kernel.NewJob{ID: id, Spec: kernel.Spec{Task: kernel.Task{Args: []string{"true"}}}}
	n.Spec.Origin = kernel.Origin{Run: "run_x", Node: string(id)}
	for _, m := range more {
		m(&n)
	}
	return n
}

func follows(id kernel.JobID) func(*kernel.NewJob) {
	return func(n *kernel.NewJob) { n.Spec.RunsAfter(id, kernel.AfterSuccess) }
}

func followsAny(id kernel.JobID) func(*kernel.NewJob) {
	return func(n *kernel.NewJob) { n.Spec.RunsAfter(id, kernel.AfterAnyEnd) }
}

func asks(n *kernel.NewJob) { n.Approval = kernel.Require(t0, "ann") }

func sleeps(n *kernel.NewJob) { n.Spec.Routed = true }

func onFailed(to kernel.JobID) func(*kernel.NewJob) {
	return func(n *kernel.NewJob) {
		n.Spec.Routes = append(n.Spec.Routes, kernel.Route{On: kernel.OutcomeFailed, To: to})
	}
}

// Each fault is found, with the shortest history that shows it, and a flow without the
// fault has none.
func TestExplore(t *testing.T) {
	branch := kernel.Artifact{Kind: kernel.PlanBranch, Name: "foo", Ref: "draft/foo"}
	makes := func(n *kernel.NewJob) { n.Spec.Produces = []kernel.Artifact{branch} }
	uses := func(n *kernel.NewJob) { n.Spec.Needs = []kernel.Artifact{branch} }
	for name, c := range map[string]struct {
		jobs  []kernel.NewJob
		want  string
		steps int
	}{
		"nothing wrong":                             {[]kernel.NewJob{node("a", asks, makes), node("b", follows("a"), uses), node("c", follows("b"))}, "", 0},
		"a job waits for one that sleeps":           {[]kernel.NewJob{node("a", onFailed("m")), node("b", follows("m")), node("m", sleeps)}, "b is left open, and nothing will happen any more: m: it sleeps, and nothing wakes it", 1},
		"nothing leads to a node":                   {[]kernel.NewJob{node("a"), node("m", sleeps)}, "m runs in no history", 0},
		"any end of a failure will do":              {[]kernel.NewJob{node("a"), node("b", followsAny("a"))}, "a fails, nothing handles that, and the last nodes succeed all the same", 2},
		"the end of who was refused will do":        {[]kernel.NewJob{node("a", asks, onFailed("m")), node("b", followsAny("a")), node("m", sleeps)}, "b runs, and the approval of a was not given", 1},
		"a branch that an earlier run left is used": {[]kernel.NewJob{node("a", makes), node("b", uses)}, "b uses plan_branch:foo (draft/foo) of an earlier run before a has made it\na fails, nothing handles that, and the last nodes succeed all the same", 0},
	} {
		x, err := foresight.Explore(c.jobs, foresight.MostStates, func() bool { return false })
		if err != nil || !x.Complete {
			t.Fatalf("%s: %v, complete %t", name, err, x.Complete)
		}
		var got []string
		for _, f := range x.Falls {
			got = append(got, f.Text(func(id kernel.JobID) string { return string(id) }))
			if strings.HasPrefix(c.want, got[0]) && len(got) == 1 && len(f.History) != c.steps {
				t.Errorf("%s: a history of %d steps, want %d: %+v", name, len(f.History), c.steps, f.History)
			}
		}
		if strings.Join(got, "\n") != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", name, strings.Join(got, "\n"), c.want)
		}
	}
}

// A history is told as a scenario that can be played: what is there at the beginning, the jobs, and each step with its tick. As many
// states are visited as there are that differ in what can follow.
func TestFallsAsScenarios(t *testing.T) {
	t.Parallel()
	branch, token := kernel.Artifact{Kind: kernel.PlanBranch, Name: "foo", Ref: "draft/foo"}, kernel.Artifact{Kind: kernel.Custom, Name: "t", Ref: "m"}
	head, outside := kernel.Artifact{Kind: kernel.TargetBranch, Name: "main"}, kernel.Artifact{Kind: kernel.Custom, Name: "o", Ref: "p"}
	makes := func(of ...kernel.Artifact) func(*kernel.NewJob) {
		return func(n *kernel.NewJob) { n.Spec.Produces = of }
	}
	uses := func(of ...kernel.Artifact) func(*kernel.NewJob) { return func(n *kernel.NewJob) { n.Spec.Needs = of } }
	on := func(outcome kernel.Outcome, to kernel.JobID) func(*kernel.NewJob) {
		return func(n *kernel.NewJob) { n.Spec.Routes = append(n.Spec.Routes, kernel.Route{On: outcome, To: to}) }
	}
	retries := func(n *kernel.NewJob) {
		n.Spec.Budget, n.Spec.Retry = kernel.Budget{Retries: 1}, kernel.RetryPolicy{Base: time.Minute, Cap: time.Minute}.On(kernel.Timeout)
	}
	needsAll := func(n *kernel.NewJob) { n.Spec.FailureMode = kernel.BlockDownstream }
	pinned := func(n *kernel.NewJob) { n.Spec.Pinned = kernel.PinnedHead{Branch: "main", Commit: "0123"} }
	for name, c := range map[string]struct {
		jobs   []kernel.NewJob
		states int
		want   string
	}{
		"a single job":              {[]kernel.NewJob{node("a")}, 5, ``},
		"a job that is tried again": {[]kernel.NewJob{node("a", retries), node("b", follows("a"), onFailed("m"), retries), node("m", sleeps)}, 17, ``},
		"one after the other": {[]kernel.NewJob{node("a", asks), node("b", followsAny("a"), asks), node("c", follows("b"), sleeps), node("d", follows("c"))}, 37, `# b runs, and the approval of a was not given
jobs
a run=explored approval
b run=explored after=a after_any=a approval
c run=explored after=b routed
d run=explored after=c
end
tick

reject a
tick

approve b
tick
# d is left open, and nothing will happen any more: c: it sleeps, and nothing wakes it
jobs
a run=explored approval
b run=explored after=a after_any=a approval
c run=explored after=b routed
d run=explored after=c
end
tick

reject a
tick

reject b
tick
# c runs in no history
jobs
a run=explored approval
b run=explored after=a after_any=a approval
c run=explored after=b routed
d run=explored after=c
end
tick
# d runs in no history
jobs
a run=explored approval
b run=explored after=a after_any=a approval
c run=explored after=b routed
d run=explored after=c
end
tick
`},
		"what others make": {[]kernel.NewJob{node("a", uses(head, outside), makes(token)), node("b", uses(token), makes(branch)), node("c", uses(branch, token), pinned), node("m", sleeps)}, 42, `# c uses plan_branch:foo (draft/foo) of an earlier run before b has made it
present target_branch:main
marker custom:o:p elsewhere
present plan_branch:foo(draft/foo)
jobs
a run=explored needs=target_branch:main;custom:o:p produces=custom:t:m
b run=explored needs=custom:t:m produces=plan_branch:foo(draft/foo)
c run=explored needs=plan_branch:foo(draft/foo);custom:t:m
m run=explored routed
end
tick

finish a exit=0 outcome=succeeded
tick
# b fails, nothing handles that, and the last nodes succeed all the same
present target_branch:main
marker custom:o:p elsewhere
present plan_branch:foo(draft/foo)
jobs
a run=explored needs=target_branch:main;custom:o:p produces=custom:t:m
b run=explored needs=custom:t:m produces=plan_branch:foo(draft/foo)
c run=explored needs=plan_branch:foo(draft/foo);custom:t:m
m run=explored routed
end
tick

finish a exit=0 outcome=succeeded
tick

finish b exit=1 outcome=failed class=exit
tick

finish c exit=0 outcome=succeeded
tick
# m runs in no history
present target_branch:main
marker custom:o:p elsewhere
jobs
a run=explored needs=target_branch:main;custom:o:p produces=custom:t:m
b run=explored needs=custom:t:m produces=plan_branch:foo(draft/foo)
c run=explored needs=plan_branch:foo(draft/foo);custom:t:m
m run=explored routed
end
tick
`},
		"what was made before": {[]kernel.NewJob{node("a", makes(branch), needsAll), node("b", uses(branch, outside), needsAll), node("c", uses(branch), follows("b"))}, 58, `# b uses plan_branch:foo (draft/foo) of an earlier run before a has made it
present plan_branch:foo(draft/foo)
marker custom:o:p elsewhere
jobs
a run=explored failure_mode=block_downstream produces=plan_branch:foo(draft/foo)
b run=explored failure_mode=block_downstream needs=plan_branch:foo(draft/foo);custom:o:p
c run=explored after=b needs=plan_branch:foo(draft/foo)
end
tick
# c uses plan_branch:foo (draft/foo) of an earlier run before a has made it
present plan_branch:foo(draft/foo)
marker custom:o:p elsewhere
jobs
a run=explored failure_mode=block_downstream produces=plan_branch:foo(draft/foo)
b run=explored failure_mode=block_downstream needs=plan_branch:foo(draft/foo);custom:o:p
c run=explored after=b needs=plan_branch:foo(draft/foo)
end
tick

finish b exit=0 outcome=succeeded
tick
# a fails, nothing handles that, and the last nodes succeed all the same
present plan_branch:foo(draft/foo)
marker custom:o:p elsewhere
jobs
a run=explored failure_mode=block_downstream produces=plan_branch:foo(draft/foo)
b run=explored failure_mode=block_downstream needs=plan_branch:foo(draft/foo);custom:o:p
c run=explored after=b needs=plan_branch:foo(draft/foo)
end
tick

finish a exit=1 outcome=failed class=exit
tick

finish b exit=0 outcome=succeeded
tick

finish c exit=0 outcome=succeeded
tick
`},
		"a cancel and what it leaves": {[]kernel.NewJob{node("a", on(kernel.OutcomeSucceeded, "m"), on(kernel.OutcomeFailed, "m"), on(kernel.OutcomeBlocked, "m")), node("m", sleeps),
			node("z", follows("m"))}, 29, `# z is left open, and nothing will happen any more: m: it sleeps, and nothing wakes it
jobs
a run=explored on=blocked:m:0 on=failed:m:0 on=succeeded:m:0
m run=explored routed
z run=explored after=m
end
tick

cancel a
finish a exit=143
tick
`},
		"a retry that comes too late": {[]kernel.NewJob{node("a", retries, on(kernel.OutcomeFailed, "m")), node("b", retries, follows("a"), on(kernel.OutcomeSucceeded, "m")), node("m", sleeps), node("z", followsAny("m"))}, 53, `# z is left open, and nothing will happen any more: m: it sleeps, and nothing wakes it
jobs
a run=explored on=failed:m:0 retries=1 retry_on=timeout
b run=explored after=a on=succeeded:m:0 retries=1 retry_on=timeout
m run=explored routed
z run=explored after=m after_any=m
end
tick

finish a exit=10 outcome=blocked
tick
# m fails, nothing handles that, and the last nodes succeed all the same
jobs
a run=explored on=failed:m:0 retries=1 retry_on=timeout
b run=explored after=a on=succeeded:m:0 retries=1 retry_on=timeout
m run=explored routed
z run=explored after=m after_any=m
end
tick

finish a exit=0 outcome=succeeded
tick

finish b exit=0 outcome=succeeded
tick

finish m exit=1 outcome=failed class=exit
tick

finish z exit=0 outcome=succeeded
tick
`},
	} {
		x, err := foresight.Explore(c.jobs, foresight.MostStates, func() bool { return false })
		if err != nil || !x.Complete {
			t.Fatalf("%s: %v, complete %t", name, err, x.Complete)
		}
		got := ""
		for _, f := range x.Falls {
			got += f.Scenario(c.jobs, func(id kernel.JobID) string { return string(id) })
		}
		if got != c.want || x.States != c.states {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, c.want)
			t.Errorf("%s: %d states, want %d", name, x.States, c.states)
		}
	}
}

// What cannot be enqueued cannot be explored.
func TestExploreRefusesWhatCannotBeEnqueued(t *testing.T) {
	t.Parallel()
	if _, err := foresight.Explore([]kernel.NewJob{node("a", follows("b")), node("b", follows("a"))}, foresight.MostStates, func() bool { return false }); !errors.Is(err, kernel.ErrInvalid) {
		t.Errorf("a circle: %v", err)
	}
}

// Loops end, retries are taken and not taken, and what is cut off says so.
func TestExploreIsBounded(t *testing.T) {
	again := func(n *kernel.NewJob) {
		n.Spec.Budget, n.Spec.Retry = kernel.Budget{Retries: 2, Reclaims: 1}, kernel.RetryPolicy{}.On(kernel.Timeout)
	}
	jobs := []kernel.NewJob{node("a", again), node("b", follows("a"), onFailed("a"), again), node("c", follows("b"), again)}
	x, err := foresight.Explore(jobs, foresight.MostStates, func() bool { return false })
	if err != nil || !x.Complete || len(x.Falls) > 0 || x.States < 30 {
		t.Errorf("%v: %d states, complete %t, %v", err, x.States, x.Complete, x.Falls)
	}
	if y, _ := foresight.Explore(jobs, 20, func() bool { return false }); y.Complete || y.States > 20 {
		t.Errorf("of 20 states %d, complete %t", y.States, y.Complete)
	}
}

func TestAScenarioSaysWhatAJobIs(t *testing.T) {
	t.Parallel()
	n := node("a", follows("b"), func(n *kernel.NewJob) {
		s := &n.Spec
		s.AfterAny = []kernel.JobID{"b"}
		s.Needs = []kernel.Artifact{{Kind: kernel.Custom, Name: "t", Ref: "m"}}
		s.Produces = []kernel.Artifact{{Kind: kernel.PlanBranch, Name: "p", Ref: "draft/p"}, {Kind: kernel.Custom, Name: "u", Ref: "k"}}
		s.MissingProducer, s.FailureMode, s.Routed, s.Resumable = kernel.Wait, kernel.BlockDownstream, true, true
		s.Routes = []kernel.Route{{On: kernel.OutcomeFailed, To: "b", Budget: 2}}
		s.Budget = kernel.Budget{Retries: 2, Reclaims: 3, Resumes: 1}
		s.Retry = s.Retry.On(kernel.ExitFailure).On(kernel.Timeout)
		n.Approval = kernel.Require(time.Time{}, "")
	})
	got := foresight.Fall{History: []foresight.Step{{What: "clock", Job: "a", After: time.Minute}}}.Scenario([]kernel.NewJob{n}, func(id kernel.JobID) string { return "job_" + string(id) })
	want := "marker custom:t:m elsewhere\njobs\njob_a run=explored after=job_b after_any=job_b approval failure_mode=block_downstream missing_producer=wait " +
		"needs=custom:t:m on=failed:job_b:2 produces=plan_branch:p(draft/p);custom:u:k reclaims=3 resumes=1 retries=2 retry_on=exit,timeout routed\nend\ntick\n\nclock +1m0s\ntick\n"
	if !strings.HasSuffix(got, want) {
		t.Errorf("it says\n%s", got)
	}
}

// Of the classes without rules of their own, one that is retried and one that is not are explored.
func TestExploreTriesTheClassesThatAreRetried(t *testing.T) {
	t.Parallel()
	states := func(retries int) int {
		x, err := foresight.Explore([]kernel.NewJob{node("a", func(n *kernel.NewJob) {
			n.Spec.Budget.Retries, n.Spec.Retry = retries, kernel.RetryPolicy{}.On(kernel.OutOfMemory)
		})}, foresight.MostStates, func() bool { return false })
		if err != nil || !x.Complete {
			t.Fatal(err)
		}
		return x.States
	}
	if never, some := states(0), states(1); some <= never {
		t.Errorf("%d states where running out of memory is retried, %d where it is not", some, never)
	}
}
