package history_test

import (
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/history"
)

var t0 = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func job(id kernel.JobID, st kernel.Status, after ...kernel.JobID) kernel.Job {
	return kernel.Job{ID: id, Created: t0, Rev: 1, Spec: kernel.Spec{Task: kernel.Task{Args: []string{"true"}}, After: after}, State: kernel.State{Status: st}}
}

// source reads jobs: those that a scope names, and all open ones or all if it says so.
func source(jobs ...kernel.Job) history.Source {
	return func(scope kernel.Scope) (rec kernel.Records, err error) {
		for _, j := range jobs {
			named := func(n kernel.Near) bool { return n == kernel.Near{Kind: kernel.Itself, Job: j.ID} }
			if scope.All || scope.Near == nil && j.Open() || slices.Contains(scope.Jobs, j.ID) || slices.ContainsFunc(scope.Near, named) {
				rec.Jobs = append(rec.Jobs, j)
			}
		}
		return rec, nil
	}
}

// A decision that cannot be made again is no decision: whichever read fails, and whichever
// verb refuses, says so.
func TestWhateverFailsADecisionIsNotMadeAgain(t *testing.T) {
	read := source(job("a", kernel.Failed), job("b", kernel.WaitingOnDeps, "a"))
	for name, c := range map[string]struct {
		unjudged []kernel.JobID
		verb     history.Verb
		least    int // reads
		refused  error
	}{
		"what is near is enough":    {nil, history.Cancel{Jobs: []kernel.JobID{"b"}, By: "me"}, 1, nil},
		"it asks for one more job":  {[]kernel.JobID{"b"}, history.Tick{}, 2, nil},
		"it asks for all jobs":      {nil, history.Retry{Jobs: []kernel.JobID{"a"}, By: "me"}, 2, nil},
		"the verb refuses":          {nil, history.Reject{Job: "a", By: "me"}, 1, kernel.ErrConflict},
		"there is no job like that": {nil, history.Cancel{Jobs: []kernel.JobID{"c"}, By: "me"}, 1, kernel.ErrNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			account := history.Account{At: t0, ByFacts: true, Unjudged: c.unjudged, Steps: []history.Step{{Verb: history.Settle{}}, {Verb: c.verb}}}
			broken, reads := errors.New("broken"), 0
			decide := func(fails int) (kernel.Plan, error) {
				reads = 0
				return account.Decide(func(scope kernel.Scope) (kernel.Records, error) {
					if reads++; reads == fails {
						return kernel.Records{}, broken
					}
					return read(scope)
				})
			}
			plan, err := decide(0)
			if !errors.Is(err, c.refused) || (err == nil) == plan.Empty() || reads < c.least {
				t.Fatalf("%d reads: %+v, %v", reads, plan, err)
			}
			for k, n := 1, reads; k <= n; k++ {
				if plan, err := decide(k); !errors.Is(err, broken) || !plan.Empty() {
					t.Errorf("read %d of %d fails: %+v, %v", k, n, plan, err)
				}
			}
		})
	}
}

// News are the facts that differ from those before in value, or in whether or why they are
// not known. A runner that lives is none.
func TestNews(t *testing.T) {
	run := kernel.AttemptID{Job: "a", N: 1}
	runner := func(l kernel.Liveness) kernel.Facts {
		return kernel.Facts{Runners: map[kernel.AttemptID]kernel.Fact[kernel.Runner]{run: kernel.Seen(kernel.Runner{Liveness: l})}}
	}
	markers := func(f kernel.Fact[[]kernel.JobID]) kernel.Facts {
		return kernel.Facts{Markers: map[kernel.Artifact]kernel.Fact[[]kernel.JobID]{{Kind: kernel.Custom, Name: "t", Ref: "k"}: f}}
	}
	all := []kernel.Facts{
		{Head: kernel.Seen("main")}, {Head: kernel.Unseen[string]("why")}, {Clean: kernel.Seen(true)}, {Clean: kernel.Seen(false)}, {Merging: kernel.Seen("merge")},
		{Sandbox: kernel.Seen(kernel.Enforcement{Files: "none"})},
		{Heads: map[string]kernel.Fact[kernel.CommitID]{"main": kernel.Seen(kernel.CommitID("c"))}}, {Heads: map[string]kernel.Fact[kernel.CommitID]{"main": kernel.Seen(kernel.CommitID("d"))}},
		{Present: map[kernel.Artifact]kernel.Fact[bool]{{Kind: kernel.PlanBranch, Name: "p"}: kernel.Seen(true)}},
		{Results: map[kernel.AttemptID]kernel.Fact[*kernel.Result]{run: kernel.Unseen[*kernel.Result]("why")}},
		markers(kernel.Seen([]kernel.JobID{"a"})), markers(kernel.Seen([]kernel.JobID{"a", "b"})), markers(kernel.Unseen[[]kernel.JobID]("why")), markers(kernel.Unseen[[]kernel.JobID]("why else")),
		runner(kernel.Dead), runner(kernel.Stalled),
	}
	none := history.News(kernel.Facts{}, kernel.Facts{})
	for i, now := range all {
		for k, was := range all {
			got := history.News(was, now)
			if i == k && !reflect.DeepEqual(got, none) {
				t.Errorf("of the same facts %+v are news", got)
			}
			if i != k && !reflect.DeepEqual(got, history.News(kernel.Facts{}, now)) {
				t.Errorf("after %+v, of %+v these are news: %+v", was, now, got)
			}
		}
		if reflect.DeepEqual(history.News(kernel.Facts{}, now), none) {
			t.Errorf("%+v are no news", now)
		}
	}
	if got := history.News(kernel.Facts{}, runner(kernel.Alive)); !reflect.DeepEqual(got, none) {
		t.Errorf("a runner that lives is news: %+v", got)
	}
}

// Every verb names the records that it needs, by id, by key or by what is made, and all of it is read at once.
func TestScopesOfVerbs(t *testing.T) {
	token := kernel.Artifact{Kind: kernel.Custom, Name: "t", Ref: "k"}
	news := []kernel.NewJob{{ID: "n", Spec: kernel.Spec{After: []kernel.JobID{"a"}, Needs: []kernel.Artifact{token}, IdempotencyKey: "k"}}, {ID: "m", Spec: kernel.Spec{After: []kernel.JobID{"b"}}}}
	named := kernel.Scope{Jobs: []kernel.JobID{"a", "b"}, Artifacts: []kernel.Artifact{token}, Keys: []string{"k"}}
	just := func(ids ...kernel.JobID) kernel.Scope { return kernel.Scope{Jobs: ids} }
	x := kernel.AttemptID{Job: "x", N: 1}
	for _, c := range []struct {
		verb history.Verb
		want kernel.Scope
	}{
		{history.Tick{}, kernel.Scope{}}, {history.Settle{}, kernel.Scope{}}, {history.Number{}, kernel.Scope{All: true}}, {history.Submit{Jobs: news}, named}, {history.Enqueue{Jobs: news}, named},
		{history.Approve{Job: "x"}, just("x")}, {history.Reject{Job: "x"}, just("x")}, {history.Cancel{Jobs: []kernel.JobID{"x", "y"}}, just("x", "y")}, {history.Retry{Jobs: []kernel.JobID{"x"}}, kernel.Scope{All: true}},
		{history.Finish{Result: kernel.Result{Attempt: x, Submitted: news}}, kernel.Scope{Jobs: []kernel.JobID{"a", "b", "x"}, Artifacts: named.Artifacts, Keys: named.Keys}},
		{history.Refuse{Attempt: x}, just("x")}, {history.CleanedUp{Job: "x"}, just("x")}, {history.Tended{Job: "x"}, just("x")},
	} {
		if got := c.verb.Scope(); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%T: %+v, want %+v", c.verb, got, c.want)
		}
	}
	near := history.Named(named)
	want := []kernel.Near{{Kind: kernel.Itself, Job: "a"}, {Kind: kernel.Itself, Job: "b"}, {Kind: kernel.Producers, Artifact: token}, {Kind: kernel.Keyed, Key: "k"}}
	if !slices.Equal(near, want) {
		t.Errorf("near are %+v, want %+v", near, want)
	}
	if got := history.Besides(append(near, kernel.Near{Kind: kernel.Outsiders}, kernel.Near{Kind: kernel.RunProducers, Run: "r", Artifact: token})); !reflect.DeepEqual(got, kernel.Scope{Jobs: named.Jobs, Artifacts: []kernel.Artifact{token, token}, Keys: named.Keys}) {
		t.Errorf("besides: %+v", got)
	}
}

// What could not be read then is not read now. What is asked for at once is what the transaction names, what changed before it, and what every
// tick reads.
func TestWhatADecisionReads(t *testing.T) {
	jobs := []kernel.Job{job("a", kernel.Queued), job("b", kernel.WaitingOnDeps, "a"), job("c", kernel.Queued)}
	reads := 0
	decide := func(a history.Account) (first kernel.Scope, p kernel.Plan) {
		t.Helper()
		reads = 0
		p, err := a.Decide(func(scope kernel.Scope) (kernel.Records, error) {
			if reads++; reads == 1 {
				first = scope
			}
			return source(jobs...)(scope)
		})
		if err != nil {
			t.Fatal(err)
		}
		return first, p
	}
	cancel := history.Step{Verb: history.Cancel{Jobs: []kernel.JobID{"a"}, By: "me"}}
	patch := kernel.Artifact{Kind: kernel.CommandPatch, Name: "a"}
	always := []kernel.Near{{Kind: kernel.Attended}, {Kind: kernel.Due, At: t0}, {Kind: kernel.Itself, Job: "a"}}
	itself := []kernel.Near{{Kind: kernel.Dependents, Job: "a"}, {Kind: kernel.Consumers, Artifact: patch}}
	for _, c := range []struct {
		a    history.Account
		want []kernel.Near
	}{
		{history.Account{ByFacts: true}, slices.Concat(always, itself)},
		{history.Account{}, slices.Concat(always, []kernel.Near{{Kind: kernel.Outsiders}}, itself)},
		{history.Account{ByFacts: true, Unjudged: []kernel.JobID{"c"}}, slices.Concat(always, []kernel.Near{{Kind: kernel.Itself, Job: "c"}}, itself)},
		{history.Account{ByFacts: true, Limits: kernel.Limits{MaxRunning: 1}}, slices.Concat(always, itself, []kernel.Near{{Kind: kernel.Line, Key: kernel.LocalExecutor, Most: 3}})},
		{history.Account{ByFacts: true, Limits: kernel.Limits{MaxRunning: 4}}, slices.Concat(always, itself, []kernel.Near{{Kind: kernel.Line, Key: kernel.LocalExecutor, Most: 6}})},
	} {
		c.a.At, c.a.Steps = t0, []history.Step{cancel, {Verb: history.Settle{}}}
		if got, p := decide(c.a); !slices.Equal(got.Near, c.want) || p.Empty() {
			t.Errorf("near are %+v, want %+v", got.Near, c.want)
		}
		if reads != 1 {
			t.Errorf("%d reads of %+v", reads, c.want)
		}
	}
	seen := cancel
	seen.Seen = history.SeenAll
	if got, _ := decide(history.Account{At: t0, ByFacts: true, Steps: []history.Step{seen}}); !got.All || !slices.Contains(got.Jobs, "a") {
		t.Errorf("for all: %+v", got)
	}
	seen.Seen = history.SeenOpen
	if got, _ := decide(history.Account{At: t0, ByFacts: true, Unjudged: []kernel.JobID{"c"}, Steps: []history.Step{seen}}); got.All || !slices.Contains(got.Jobs, "a") || !slices.Contains(got.Jobs, "c") {
		t.Errorf("for what is open: %+v", got)
	}
	tick := history.Step{Verb: history.Tick{}, Seen: history.SeenAll}
	_, whole := decide(history.Account{At: t0, Steps: []history.Step{tick}})
	_, part := decide(history.Account{At: t0, Steps: []history.Step{tick}, Unreadable: map[kernel.JobID]string{"c": "torn"}})
	launched := func(p kernel.Plan) (ids []kernel.JobID) {
		for _, a := range p.World {
			if a, is := a.(kernel.Launch); is {
				ids = append(ids, a.Attempt.Job)
			}
		}
		return ids
	}
	if got := launched(whole); !slices.Equal(got, []kernel.JobID{"a", "c"}) {
		t.Errorf("%v start", got)
	}
	if got := launched(part); !slices.Equal(got, []kernel.JobID{"a"}) {
		t.Errorf("without what cannot be read %v start", got)
	}
}

// Worktrees that are gone are forgotten once for each run, before the retry.
func TestARetryForgetsWhatIsGone(t *testing.T) {
	failed := func(id kernel.JobID) kernel.Job {
		j := job(id, kernel.Failed)
		j.Spec.Origin.Run, j.State.Attempt = "r", 1
		j.State.Context = kernel.Context{Root: "t", Worktree: "/gone", Owned: true}
		return j
	}
	s := kernel.TakeSnapshot(kernel.Observation{Now: t0, Jobs: []kernel.Job{failed("a"), failed("b")}, Facts: kernel.NewFacts()})
	ids := []kernel.JobID{"a", "b", "none"}
	asked := 0
	gone := history.Forget(s, ids, func(c kernel.Context) bool { asked++; return c.Worktree == "/gone" })
	if asked != 2 {
		t.Errorf("%d times it was asked what became of two jobs' worktrees", asked)
	}
	if again := history.Forget(s, ids[:1], func(c kernel.Context) bool { return c.Worktree == "/gone" }); gone.Empty() || !reflect.DeepEqual(gone, again) {
		t.Errorf("%+v, for one job of the run %+v", gone, again)
	}
	if kept := history.Forget(s, ids, func(kernel.Context) bool { return false }); !kept.Empty() {
		t.Errorf("nothing is gone: %+v", kept)
	}
	p, err := history.Retry{Jobs: ids[:2], By: "me", Gone: []string{"/gone"}}.Decide(s)
	if err != nil || s.Apply(p).Job("a").State.Context.Worktree != "" || s.Apply(p).Job("a").State.Status.Terminal() {
		t.Errorf("%v: %+v", err, s.Apply(p).Job("a").State)
	}
	if _, err := (history.Retry{Jobs: []kernel.JobID{"none"}}).Decide(s); !errors.Is(err, kernel.ErrNotFound) {
		t.Errorf("of no job: %v", err)
	}
}

// A verb that needs all jobs is decided on all that are open, and no other way.
func TestADecisionOnAllThatIsOpen(t *testing.T) {
	a, b := job("a", kernel.Failed), job("b", kernel.WaitingOnDeps, "a")
	a.Spec.Origin.Run, b.Spec.Origin.Run = "r", "r"
	a.State.Context = kernel.Context{Root: "t", Worktree: "t", Owned: true}
	b.State.Context = a.State.Context
	step := history.Step{Verb: history.Retry{Jobs: []kernel.JobID{"a"}, By: "me", Gone: []string{"t"}}}
	account := history.Account{At: t0, ByFacts: true, Steps: []history.Step{step}}
	got, err := account.Decide(source(a, b))
	account.Steps[0].Seen = history.SeenAll
	want, again := account.Decide(source(a, b))
	if err != nil || again != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v\nwant %+v, %v", got, err, want, again)
	}
}

// What a verb is about has to be there.
func TestVerbsAboutNothing(t *testing.T) {
	s := kernel.TakeSnapshot(kernel.Observation{Now: t0, Jobs: []kernel.Job{job("a", kernel.Queued)}, Facts: kernel.NewFacts()})
	news := []kernel.NewJob{{ID: "n", Spec: kernel.Spec{Task: kernel.Task{Args: []string{"true"}}, After: []kernel.JobID{"none"}}}}
	x := kernel.AttemptID{Job: "none", N: 1}
	for _, v := range []history.Verb{
		history.Submit{Jobs: news, By: "me"}, history.Enqueue{Jobs: news}, history.Approve{Job: "none"}, history.Reject{Job: "none"}, history.Cancel{Jobs: []kernel.JobID{"a", "none"}}, history.Retry{Jobs: []kernel.JobID{"a", "none"}},
		history.Finish{Result: kernel.Result{Attempt: x}}, history.Refuse{Attempt: x}, history.CleanedUp{Job: "none"}, history.Tended{Job: "none"},
	} {
		if p, err := v.Decide(s); !errors.Is(err, kernel.ErrNotFound) || !p.Empty() {
			t.Errorf("%T: %+v, %v", v, p, err)
		}
	}
}

// A step knows the facts of the steps before it, also where it sees more records.
func TestFactsOfEarlierSteps(t *testing.T) {
	main := kernel.Artifact{Kind: kernel.TargetBranch, Name: "main"}
	waits := job("a", kernel.WaitingOnDeps)
	waits.Spec.Needs = []kernel.Artifact{main}
	for there, want := range map[bool]int{true: 1, false: 0} {
		account := history.Account{At: t0, ByFacts: true, Steps: []history.Step{
			{Verb: history.Settle{}, Facts: kernel.Facts{Present: map[kernel.Artifact]kernel.Fact[bool]{main: kernel.Seen(there)}}}, {Verb: history.Tick{}, Seen: history.SeenAll}}}
		if p, err := account.Decide(source(waits)); err != nil || len(p.World) != want {
			t.Errorf("there %t: %+v, %v", there, p, err)
		}
	}
}

// A job that runs after one whose record cannot be read is told why that was so then; why it is so now, only if it could be read then.
func TestWhyARecordCannotBeRead(t *testing.T) {
	b := job("b", kernel.WaitingOnDeps, "a")
	for _, c := range []struct{ then, now map[kernel.JobID]string }{{nil, map[kernel.JobID]string{"a": "torn"}}, {map[kernel.JobID]string{"a": "torn"}, map[kernel.JobID]string{"a": "gone"}}, {map[kernel.JobID]string{"a": "torn"}, nil}} {
		account := history.Account{At: t0, Unreadable: c.then, Steps: []history.Step{{Verb: history.Tick{}, Seen: history.SeenAll}}}
		p, err := account.Decide(func(kernel.Scope) (kernel.Records, error) {
			return kernel.Records{Jobs: []kernel.Job{b}, Unreadable: c.now}, nil
		})
		s := kernel.TakeSnapshot(kernel.Observation{Now: t0, Jobs: []kernel.Job{b}, Facts: kernel.NewFacts()}).Apply(p)
		if st := s.Job("b").State; err != nil || st.Status != kernel.BlockedByDependency || st.Wait.Detail != "scheduler data error for job dependency a: torn" {
			t.Errorf("then %v, now %v: %s, %+v, %v", c.then, c.now, st.Status, st.Wait, err)
		}
	}
}
