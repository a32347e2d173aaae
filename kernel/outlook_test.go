package kernel_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// What an explanation says of the future is true: a job that needs nobody starts by
// itself, and the actions named are those that help.
func TestOutlook(t *testing.T) {
	refused := func(why string, secrets ...kernel.Secret) option {
		return func(j *kernel.Job) {
			j.State.Status, j.State.Refused, j.State.Reason, j.State.RetryAt = kernel.Queued, 2, why, t0.Add(time.Hour+time.Second)
			j.Spec.Task.Secrets = secrets
		}
	}
	awake := func(j *kernel.Job) { j.State.Awake = true }
	at := func(executor string) option { return func(j *kernel.Job) { j.Spec.Task.Executor = executor } }
	token := kernel.Secret{Name: "T", Source: "@/token"}
	quiet := facts()
	quiet.Runners[kernel.AttemptID{Job: "a", N: 1}] = kernel.Seen(kernel.Runner{Liveness: kernel.Stalled})
	unasked := facts()
	unasked.Markers[artifact("custom:x:y")] = kernel.Fact[[]kernel.JobID]{Err: "no such directory"}
	big := pool("gpu", 3)
	for name, c := range map[string]struct {
		facts  *kernel.Facts
		limits kernel.Limits
		jobs   []kernel.Job // the last is explained
		want   string       // the outlook, what the first condition clears, and the actions
	}{
		"a lock":                     {nil, kernel.Limits{}, []kernel.Job{job("a", running(1), locks(excl("k"))), job("b", locks(excl("k")))}, "starts: job a, running (k)"},
		"a lock of a quiet runner":   {&quiet, kernel.Limits{}, []kernel.Job{job("a", running(1), locks(excl("k"))), job("b", locks(excl("k")))}, "awaits_actions: job a, running (k), see_to_runner a"},
		"a job with a quiet runner":  {&quiet, kernel.Limits{}, []kernel.Job{job("a", running(1)), job("b", after("a"))}, "awaits_actions: job a, running, see_to_runner a"},
		"a place":                    {nil, kernel.Limits{MaxRunning: 2, Executors: map[string]int{"hpc": 5}}, []kernel.Job{job("a", running(1)), job("b", running(1)), job("h", running(1), at("hpc")), job("c")}, "starts: 2 running jobs: the next that ends makes room"},
		"a limit that was lowered":   {nil, kernel.Limits{MaxRunning: 1}, []kernel.Job{job("a", running(1)), job("b", running(1)), job("d", running(1)), job("c")}, "starts: 3 running jobs: there is room once 3 of them have ended"},
		"another host":               {nil, kernel.Limits{Remote: true}, []kernel.Job{job("c")}, "starts: that scheduler, or a command on that host"},
		"a pool that is too small":   {nil, kernel.Limits{Pools: map[string]int{"gpu": 2}}, []kernel.Job{job("c", locks(big))}, "awaits_actions: a larger pool gpu, enlarge_pool c gpu 3"},
		"a job that waits for one":   {nil, kernel.Limits{Pools: map[string]int{"gpu": 2}}, []kernel.Job{job("c", locks(big)), job("d", after("c"))}, "awaits_actions: job c, queued, enlarge_pool c gpu 3"},
		"a refused launch":           {nil, kernel.Limits{}, []kernel.Job{job("r", refused("no more processes", token))}, "tried_again: time: tried again at 2026-01-01T13:00:01Z"},
		"a secret without a value":   {nil, kernel.Limits{}, []kernel.Job{job("s", refused("secret T: /token cannot be read", token))}, "awaits_actions: its source, which is asked again at 2026-01-01T13:00:01Z, see_to_secret s T"},
		"a job that waits for it":    {nil, kernel.Limits{}, []kernel.Job{job("s", refused("secret T: /token cannot be read", token)), job("t", after("s"))}, "awaits_actions: job s, queued, see_to_secret s T"},
		"nobody needs it":            {nil, kernel.Limits{}, []kernel.Job{job("t", transient(kernel.OnDemand), is(kernel.Unscheduled))}, "sleeps: a job that depends on it and is not transient"},
		"a job that no route wakes":  {nil, kernel.Limits{}, []kernel.Job{job("r", routed, is(kernel.Unscheduled)), job("t", after("r"))}, "sleeps: job r, unscheduled"},
		"its end woke another":       {nil, kernel.Limits{}, []kernel.Job{job("h", routed, awake, running(1), routesOf(on(kernel.OutcomeSucceeded, "f"))), job("f", is(kernel.Failed))}, "settles: job h, running"},
		"an artifact nobody can see": {&unasked, kernel.Limits{}, []kernel.Job{job("n", needs("custom:x:y"))}, "awaits_actions: the repository, once it can be asked, meet_condition  cannot tell whether custom:x:y exists: no such directory"},
		"besides what sleeps":        {nil, kernel.Limits{}, []kernel.Job{job("a", func(j *kernel.Job) { j.Spec.Routed, j.State.Status = true, kernel.Unscheduled }), job("b", after("a"), func(j *kernel.Job) { j.State.Approval = kernel.Require(t0, "bob") })}, "sleeps: job a, unscheduled, approve b"},
		"nothing":                    {nil, kernel.Limits{}, []kernel.Job{job("a", is(kernel.Succeeded))}, "none"},
	} {
		f := facts()
		if c.facts != nil {
			f = *c.facts
		}
		s := kernel.NewSnapshot(kernel.Observation{Now: t0.Add(time.Hour), Jobs: c.jobs, Facts: f, Limits: c.limits})
		e, err := kernel.Explain(s, c.jobs[len(c.jobs)-1].ID)
		if err != nil {
			t.Fatal(err)
		}
		got := e.Outlook.String()
		if len(e.Unmet) > 0 {
			got += ": " + e.Unmet[0].Clears
		}
		for _, r := range e.Actions {
			got += strings.TrimSuffix(fmt.Sprintf(", %s %s %s %d", r.Kind, r.Job, r.Detail, r.Units), " 0")
			got = strings.TrimSuffix(got, " ")
		}
		if got != c.want {
			t.Errorf("%s: %s\n want %s", name, got, c.want)
		}
	}
}

// A job that asks for more of a pool than that has keeps nothing from others, and is not
// named as one of those before them.
func TestWhatCanNeverStartKeepsNothing(t *testing.T) {
	o := kernel.Observation{Facts: facts(), Limits: kernel.Limits{Pools: map[string]int{"gpu": 2}}, Jobs: []kernel.Job{
		job("h", running(1), locks(pool("gpu", 2))), job("n", locks(pool("gpu", 3), excl("k"))), job("a", locks(pool("gpu", 1))), job("b", locks(excl("k")))}}
	s := kernel.NewSnapshot(o)
	expect(t, s, "b", "running")
	e, err := kernel.Explain(s.Apply(kernel.Decide(s)), "a")
	if err != nil || len(e.Unmet) != 1 || e.Unmet[0].Clears != "job h, running (gpu)" {
		t.Errorf("%+v %v", e, err)
	}
}

// A job needs a person as long as a pool is too small for it or a secret of it has no
// value, and not for any other refusal.
func TestWhatCannotStartNeedsAPerson(t *testing.T) {
	s := kernel.NewSnapshot(kernel.Observation{Facts: facts(), Limits: kernel.Limits{Pools: map[string]int{"gpu": 2}}, Jobs: []kernel.Job{
		job("h", running(1), locks(excl("k"))), job("n", locks(excl("k"), pool("gpu", 3)))}})
	if got := s.Apply(kernel.Decide(s)).Job("n").Needs(); got != kernel.NeedsPool {
		t.Errorf("a pool that is too small: %q", got)
	}
	secrets := func(j *kernel.Job) { j.Spec.Task.Secrets = []kernel.Secret{{Name: "T", Source: "@/token"}} }
	for why, want := range map[string]kernel.Attention{"secret T: no value": kernel.NeedsSecret, "secret U: no value": "", "no more processes": ""} {
		s := snapshot(facts(), job("s", running(1), secrets))
		p, err := kernel.Refuse(s, kernel.AttemptID{Job: "s", N: 1}, why, false)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Apply(p).Job("s").Needs(); got != want {
			t.Errorf("%s: %q, want %q", why, got, want)
		}
	}
}

// What waits for a job that nothing lets start is asleep as well.
func TestAsleepByAnother(t *testing.T) {
	waits := func(id kernel.JobID) option {
		return func(j *kernel.Job) {
			j.Spec.After, j.State.Status = []kernel.JobID{id}, kernel.WaitingOnDeps
			j.State.Wait = kernel.WaitReason{Kind: kernel.OnDependencies, Detail: "waiting on job " + string(id), Cause: kernel.JobNotEnded, Job: id}
		}
	}
	small := func(j *kernel.Job) {
		j.Spec.Locks = []kernel.Lock{{Key: "gpu", Units: 3}}
		j.State.Status, j.State.Wait = kernel.WaitingOnLocks, kernel.WaitReason{Kind: kernel.OnLocks, Detail: "waiting on pool gpu (needs 3 of 2: more than it has)", Cause: kernel.PoolTooSmall}
	}
	within := func(size int) *kernel.Snapshot {
		return kernel.NewSnapshot(kernel.Observation{Facts: facts(), Limits: kernel.Limits{Pools: map[string]int{"gpu": size}}, Jobs: []kernel.Job{
			job("a", small), job("b", waits("a")), job("c", waits("b")), job("d", waits("e")), job("e", waits("d")), job("f", waits("g")), job("g", running(1))}})
	}
	got := within(2).Asleep("a", "b", "c", "d", "e", "f")
	const why = "waiting on pool gpu (needs 3 of 2: more than it has); a larger pool lets it start"
	if len(got) != 3 || got["a"] != why || got["b"] != "it waits for job a: "+why || got["c"] != "it waits for job b: it waits for job a: "+why {
		t.Errorf("%q", got)
	}
	if got := within(3).Asleep("a", "b"); len(got) > 0 {
		t.Errorf("though the pool is larger now: %q", got)
	}
}
