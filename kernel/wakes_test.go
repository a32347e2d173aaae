package kernel_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// retryAt is a job to be tried again at that time after t0, and that waits for long.
func retryAt(d time.Duration) option {
	return func(j *kernel.Job) {
		j.State.Status, j.State.RetryAt, j.Spec.Retry.Base, j.Spec.Retry.Cap = kernel.FailedRetryable, t0.Add(d), 24*time.Hour, 24*time.Hour
	}
}

func reclaims(left int) option {
	return func(j *kernel.Job) {
		j.Spec.Budget.Reclaims, j.State.Spent.Reclaims = 2, 2-left
	}
}

func routes(on kernel.Outcome, to kernel.JobID) option {
	return func(j *kernel.Job) { j.Spec.Routes = []kernel.Route{{On: on, To: to}} }
}

func elsewhere(j *kernel.Job) { j.Spec.Task.Executor = "cluster" }

func limited(limit, grace time.Duration) option {
	return func(j *kernel.Job) { j.Spec.Task.Timeout, j.Spec.Task.Grace, j.State.Started = limit, grace, t0 }
}

func stopped(j *kernel.Job) { j.State.Stop.At = t0 }

// What has to be polled or timed for each kind of wait, after the tick that
// finds it.
func TestWakes(t *testing.T) {
	clean, exists := kernel.Precondition{}, kernel.Precondition{Kind: kernel.BranchExists, Branch: "b"}
	wait := policy(kernel.Wait)
	attempt := func(ids ...kernel.JobID) (out []kernel.AttemptID) {
		for _, id := range ids {
			out = append(out, kernel.AttemptID{Job: id, N: 1})
		}
		return out
	}
	none := kernel.Wakes{}
	outside := func(p kernel.Probes) kernel.Wakes { return kernel.Wakes{Outside: p} }
	runs := func(w kernel.Wakes, ids ...kernel.JobID) kernel.Wakes { w.Running = attempt(ids...); return w }
	for _, c := range []struct {
		name string
		jobs []kernel.Job
		want kernel.Wakes
	}{
		{"nothing", nil, none},
		{"a job that runs", []kernel.Job{job("a", running(1))}, runs(none, "a")},
		{"a job that may run for a while", []kernel.Job{job("a", running(1), limited(time.Minute, 0)), job("b", running(1), limited(time.Second, time.Hour)), job("c", running(1))},
			runs(kernel.Wakes{Overdue: t0.Add(80 * time.Second)}, "a", "b", "c")},
		{"a job that runs, of whose loss a person is told", []kernel.Job{job("a", running(1), func(j *kernel.Job) { j.Spec.InDoubt = kernel.AskInDoubt })},
			outside(kernel.Probes{Attempts: attempt("a")})},
		{"what has ended", []kernel.Job{job("a", is(kernel.Failed)), job("b", is(kernel.Succeeded)), job("c", after("a"))}, none},
		{"an approval", []kernel.Job{job("a", approval(kernel.Pending, "")), job("b", after("a"))}, none},
		{"a sleeper", []kernel.Job{job("a", routed, is(kernel.Unscheduled), pre(clean))}, none},
		{"the first of two retries", []kernel.Job{job("a", retryAt(9*time.Hour)), job("b", retryAt(2*time.Hour)), job("c", retryAt(3*time.Hour))},
			kernel.Wakes{At: t0.Add(2 * time.Hour)}},
		{"a retry that is due", []kernel.Job{job("a", retryAt(0))}, runs(none, "a")},
		{"a pinned head", []kernel.Job{job("a", pinned("main", "c1")), job("b", pinned("main", "c2"))},
			outside(kernel.Probes{Branches: []string{"main"}})},
		{"a dirty tree", []kernel.Job{job("a", pre(clean))}, outside(kernel.Probes{Clean: true})},
		{"a branch, and only then a clean tree", []kernel.Job{job("a", pre(exists, clean))}, outside(kernel.Probes{Branches: []string{"b"}})},
		{"the branch checked out", []kernel.Job{job("a", pre(kernel.Precondition{Kind: kernel.BranchExists}))},
			outside(kernel.Probes{Head: true, Branches: []string{"main"}})},
		{"an artifact nobody makes", []kernel.Job{job("a", wait, needs("custom:t:x", "custom:t:y"))}, outside(kernel.Probes{Markers: artifacts("custom:t:x")})},
		{"a plan that a job makes", []kernel.Job{job("a", approval(kernel.Pending, ""), produces("plan_branch:p")), job("b", needs("plan_branch:p"))},
			outside(kernel.Probes{Artifacts: artifacts("plan_branch:p")})},
		{"a token that a job makes", []kernel.Job{job("a", approval(kernel.Pending, ""), produces("custom:t:x")), job("b", needs("custom:t:x"))}, none},
		{"what comes after a job", []kernel.Job{job("a", approval(kernel.Pending, "")), job("b", after("a"), wait, needs("custom:t:x"), pinned("main", "c1"))}, none},
		{"a dependent", []kernel.Job{job("a", running(1)), job("b", running(1)), job("c", after("a")), job("d", after("b"), running(1))},
			runs(outside(kernel.Probes{Attempts: attempt("a")}), "b", "d")},
		{"a dependent over an artifact", []kernel.Job{job("a", running(1), produces("custom:t:x")), job("b", needs("custom:t:x"))},
			outside(kernel.Probes{Attempts: attempt("a")})},
		{"a lock", []kernel.Job{job("a", running(1), locks(excl("k"))), job("b", running(1)), job("c", locks(excl("k")))},
			outside(kernel.Probes{Attempts: attempt("a", "b")})},
		{"a job that would be started again", []kernel.Job{job("a", running(1), reclaims(1)), job("b", running(1), reclaims(0))},
			runs(outside(kernel.Probes{Attempts: attempt("a")}), "b")},
		{"a job that runs elsewhere", []kernel.Job{job("a", running(1), elsewhere), job("b", running(1))}, runs(outside(kernel.Probes{Attempts: attempt("a")}), "b")},
		{"a cancel under way", []kernel.Job{job("a", running(1), stopped)}, outside(kernel.Probes{Attempts: attempt("a")})},
		{"a route", []kernel.Job{job("a", running(1), routes(kernel.OutcomeFailed, "b")), job("b", routed, is(kernel.Unscheduled))},
			outside(kernel.Probes{Attempts: attempt("a")})},
	} {
		f := facts()
		f.Clean = kernel.Seen(false)
		f.Heads["main"], f.Heads["b"] = kernel.Seen(kernel.CommitID("")), kernel.Seen(kernel.CommitID(""))
		for _, a := range artifacts("plan_branch:p") {
			f.Present[a] = kernel.Seen(false)
		}
		f = marked(marked(f, "custom:t:x"), "custom:t:y")
		s := snapshot(f, c.jobs...)
		s = s.Apply(kernel.Decide(s))
		got := s.Wakes()
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v\nwant %+v", c.name, got, c.want)
		}
		bare := c.want
		bare.Running, bare.Overdue = nil, time.Time{}
		if got.Empty() != reflect.DeepEqual(bare, none) || got.Idle() != reflect.DeepEqual(c.want, none) {
			t.Errorf("%s: empty %v, idle %v of %+v", c.name, got.Empty(), got.Idle(), got)
		}
	}
}

// Facts that could not be observed, and launches that were refused, can only be
// tried again.
func TestWakesToTryAgain(t *testing.T) {
	unseen := kernel.NewFacts()
	unseen.Clean, unseen.Head = kernel.Unseen[bool]("no"), kernel.Unseen[string]("no")
	unseen.Heads["main"] = kernel.Unseen[kernel.CommitID]("no")
	unseen.Present[artifact("plan_doc:p")] = kernel.Unseen[bool]("no")
	unseen.Markers[artifact("custom:t:x")] = kernel.Unseen[[]kernel.JobID]("no")
	for name, o := range map[string]option{
		"pinned head": pinned("main", "c1"), "clean": pre(kernel.Precondition{}),
		"branch": pre(kernel.Precondition{Kind: kernel.BranchExists, Branch: "main"}),
		"head":   pre(kernel.Precondition{Kind: kernel.BranchExists}),
		"plan":   needs("plan_doc:p"), "token": needs("custom:t:x"),
	} {
		s := snapshot(unseen, job("a", o))
		if w := s.Apply(kernel.Decide(s)).Wakes(); !w.Poll || w.Empty() {
			t.Errorf("%s: %+v", name, w)
		}
	}
	s := snapshot(facts(), job("a"))
	s = s.Apply(kernel.Decide(s))
	p, err := kernel.Refuse(s, s.Job("a").Attempt(), "no room", false)
	if err != nil {
		t.Fatal(err)
	}
	if w := s.Apply(p).Wakes(); !w.Poll || w.Empty() {
		t.Errorf("refused: %+v", w)
	}
}
