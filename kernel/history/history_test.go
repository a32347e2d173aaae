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

// source reads jobs: those that a scope names, or all.
func source(jobs ...kernel.Job) history.Source {
	return func(scope kernel.Scope) (rec kernel.Records, err error) {
		for _, j := range jobs {
			named := func(n kernel.Near) bool { return n == kernel.Near{Kind: kernel.Itself, Job: j.ID} }
			if scope.All || slices.Contains(scope.Jobs, j.ID) || slices.ContainsFunc(scope.Near, named) {
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
