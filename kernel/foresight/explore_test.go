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

// As many states are visited as differ in what can follow, what is there or not is as a run finds it, and what waits for something
// outside is not left over.
func TestExploreVisitsWhatDiffers(t *testing.T) {
	t.Parallel()
	token, branch := kernel.Artifact{Kind: kernel.Custom, Name: "t", Ref: "m"}, kernel.Artifact{Kind: kernel.PlanBranch, Name: "foo", Ref: "draft/foo"}
	makes := func(of ...kernel.Artifact) func(*kernel.NewJob) {
		return func(n *kernel.NewJob) { n.Spec.Produces = of }
	}
	uses := func(of ...kernel.Artifact) func(*kernel.NewJob) { return func(n *kernel.NewJob) { n.Spec.Needs = of } }
	waits := func(n *kernel.NewJob) { n.Spec.MissingProducer = kernel.Wait }
	again := func(exits kernel.ExitSet, on ...kernel.FailureClass) func(*kernel.NewJob) {
		return func(n *kernel.NewJob) {
			n.Spec.Budget.Retries, n.Spec.Retry.Exits = 1, exits
			for _, c := range on {
				n.Spec.Retry = n.Spec.Retry.On(c)
			}
		}
	}
	requires := func(n *kernel.NewJob) {
		n.Spec.Preconditions = []kernel.Precondition{{Kind: kernel.CleanWorktree}, {Kind: kernel.BranchExists}, {Kind: kernel.BranchExists, Branch: "elsewhere"}}
	}
	pinned := func(n *kernel.NewJob) { n.Spec.Pinned = kernel.PinnedHead{Branch: "draft/foo", Commit: "0123"} }
	merges := func(n *kernel.NewJob) {
		n.Spec.Origin.Branch, n.Spec.Origin.About.Operation = "draft/foo", "git.integrate_plan_branch"
	}
	pair := func(a kernel.Artifact) []kernel.NewJob {
		return []kernel.NewJob{node("a", makes(a)), node("b", follows("a"), uses(a))}
	}
	for name, c := range map[string]struct {
		jobs   []kernel.NewJob
		states int // 0: not counted
		want   string
	}{
		// A job runs, or has succeeded, failed, been blocked or been cancelled: five states. What fails and is retried waits, and runs
		// for the last time: seven.
		"one that has no retries left":      {[]kernel.NewJob{node("a", again(kernel.ExitSet{}, kernel.WorkerLost))}, 5, ""},
		"one whose exit code 1 is retried":  {[]kernel.NewJob{node("a", again(kernel.ExitSet{}.With(1)))}, 7, ""},
		"one whose exit code 3 is retried":  {[]kernel.NewJob{node("a", again(kernel.ExitSet{}.With(3)))}, 7, ""},
		"one that is retried out of memory": {[]kernel.NewJob{node("a", again(kernel.ExitSet{}, kernel.OutOfMemory))}, 7, ""},
		"one that is retried preempted":     {[]kernel.NewJob{node("a", again(kernel.ExitSet{}, kernel.Preempted))}, 7, ""},
		"a class beside one with rules":     {[]kernel.NewJob{node("a", again(kernel.ExitSet{}, kernel.WorkerLost, kernel.MissingInput))}, 7, ""},
		"preconditions hold":                {[]kernel.NewJob{node("a", requires)}, 5, ""},
		// The second of two runs in one of the four ends of the first: 1 + 5 + 3 states.
		"a token that is asked for late":    {pair(token), 9, ""},
		"a token that a sleeper asks for":   {[]kernel.NewJob{node("a", makes(token)), node("b", follows("a"), onFailed("m")), node("m", sleeps, uses(token))}, 0, ""},
		"a patch":                           {pair(kernel.Artifact{Kind: kernel.CommandPatch, Name: "a"}), 9, ""},
		"an open merge":                     {pair(kernel.Artifact{Kind: kernel.MergeSentinel, Name: "foo"}), 9, ""},
		"what others make":                  {[]kernel.NewJob{node("a"), node("b", follows("a"), uses(kernel.Artifact{Kind: kernel.TargetBranch, Name: "main"}))}, 9, ""},
		"a branch, there before and not":    {pair(branch), 18, ""},
		"somebody else may make it":         {[]kernel.NewJob{node("a", makes(token)), node("b", uses(token), waits)}, 9, ""},
		"a branch that is not where it was": {[]kernel.NewJob{node("a", makes(branch)), node("b", follows("a"), pinned)}, 5, "b runs in no history"},
		"who has failed makes nothing more": {[]kernel.NewJob{node("a", makes(branch)), node("b", followsAny("a"), uses(branch))}, 0, "after an earlier run, a fails, nothing handles that, and the last nodes succeed all the same"},
		"who uses it goes on with it": {[]kernel.NewJob{node("a", makes(branch)), node("b", followsAny("a"), uses(branch), makes(branch)), node("c", followsAny("a"), uses(branch))}, 0,
			"b fails, nothing handles that, and the last nodes succeed all the same\nafter an earlier run, a fails, nothing handles that, and the last nodes succeed all the same"},
		"a failure in a run that is not over": {[]kernel.NewJob{node("f"), node("m", sleeps), node("w", follows("m"), makes(branch)), node("g", makes(branch)), node("c", follows("g"), followsAny("f"), uses(branch))}, 0,
			"w is left open, and nothing will happen any more: m: it sleeps, and nothing wakes it\nm runs in no history\nw runs in no history"},
		"a plan that was merged": {[]kernel.NewJob{node("m", merges, uses(branch)), node("w", follows("m"), uses(branch), waits)}, 0, "w runs in no history"},
		"a branch of the round before": {[]kernel.NewJob{node("a", makes(branch)), node("y", follows("a")), node("x", followsAny("y"), onFailed("a")), node("c", follows("x"), uses(branch))}, 0,
			"y fails, nothing handles that, and the last nodes succeed all the same\na fails, nothing handles that, and the last nodes succeed all the same"},
	} {
		x, err := foresight.Explore(c.jobs, foresight.MostStates, func() bool { return false })
		if err != nil || !x.Complete {
			t.Fatalf("%s: %v, complete %t", name, err, x.Complete)
		}
		var got []string
		for _, f := range x.Falls {
			text := f.Text(func(id kernel.JobID) string { return string(id) })
			if f.Stale {
				text = "after an earlier run, " + text
			}
			got = append(got, text)
		}
		if strings.Join(got, "\n") != c.want || c.states > 0 && x.States != c.states {
			t.Errorf("%s: %d states, want %d:\n%s\nwant\n%s", name, x.States, c.states, strings.Join(got, "\n"), c.want)
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
	for most, want := range map[int]bool{1: false, 20: false, x.States - 1: false, x.States: true} {
		if y, _ := foresight.Explore(jobs, most, func() bool { return false }); y.Complete != want || y.States != most {
			t.Errorf("of %d states %d, complete %t", most, y.States, y.Complete)
		}
	}
	branch := []kernel.Artifact{{Kind: kernel.PlanBranch, Name: "foo", Ref: "draft/foo"}}
	left := []kernel.NewJob{node("a", func(n *kernel.NewJob) { n.Spec.Produces = branch }), node("b", follows("a"), func(n *kernel.NewJob) { n.Spec.Needs = branch })}
	if y, err := foresight.Explore(left, foresight.MostStates, func() bool { return true }); err != nil || y.Complete || y.States != 1 || len(y.Falls) > 0 {
		t.Errorf("stopped: %v, %+v", err, y)
	}
}

func TestAScenarioSaysWhatAJobIs(t *testing.T) {
	t.Parallel()
	n := node("a", follows("b"), func(n *kernel.NewJob) {
		s := &n.Spec
		s.AfterAny = []kernel.JobID{"b"}
		s.Needs = []kernel.Artifact{{Kind: kernel.Custom, Name: "t", Ref: "m"}, {Kind: kernel.CommandPatch, Name: "b"}}
		s.Produces = []kernel.Artifact{{Kind: kernel.PlanBranch, Name: "p", Ref: "draft/p"}, {Kind: kernel.Custom, Name: "u", Ref: "k"}}
		s.MissingProducer, s.FailureMode, s.Routed, s.Resumable = kernel.Wait, kernel.BlockDownstream, true, true
		s.Routes = []kernel.Route{{On: kernel.OutcomeFailed, To: "b", Budget: 2}}
		s.Budget = kernel.Budget{Retries: 2, Reclaims: 3, Resumes: 1}
		s.Retry, s.Transient = s.Retry.On(kernel.OutOfMemory).On(kernel.Timeout), kernel.Remove
		s.Retry.Exits = s.Retry.Exits.With(3)
		n.Approval = kernel.Require(time.Time{}, "")
	})
	patch := node("b", func(n *kernel.NewJob) {
		n.Spec.Produces = []kernel.Artifact{{Kind: kernel.CommandPatch, Name: "b"}}
	})
	got := foresight.Fall{Stale: true, History: []foresight.Step{{What: "clock", Job: "a", After: time.Minute}}}.Scenario([]kernel.NewJob{n, patch}, func(id kernel.JobID) string { return "job_" + string(id) })
	want := "marker custom:t:m elsewhere\njobs\njob_a run=explored after=job_b after_any=job_b approval failure_mode=block_downstream missing_producer=wait " +
		"needs=custom:t:m;command_patch:job_b on=failed:job_b:2 produces=plan_branch:p(draft/p);custom:u:k reclaims=3 resumes=1 retries=2 retry_on=timeout,oom,3 routed transient=remove\n" +
		"job_b run=explored produces=command_patch:job_b\nend\ntick\n\nclock +1m0s\ntick\n"
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
