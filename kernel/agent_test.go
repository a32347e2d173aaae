package kernel_test

import (
	"cmp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

func ranOut(j kernel.Job, run *kernel.AgentRun) kernel.Result {
	return kernel.Result{Attempt: j.Attempt(), Outcome: kernel.OutcomeFailed, Exit: 1, Class: kernel.RateLimited, Reason: "no more today", Agent: run}
}

// If the end of a provider's rate limit is known, the job waits for it, however
// short the backoff is, and never less than the backoff.
func TestALimitsEndHoldsARetryBack(t *testing.T) {
	for _, c := range []struct {
		name   string
		resets time.Time
		class  kernel.FailureClass
		want   time.Duration // after t0; 0: the backoff
	}{
		{"it resets later", t0.Add(9 * time.Hour), kernel.RateLimited, 9 * time.Hour},
		{"it has reset", t0.Add(-time.Hour), kernel.RateLimited, 0},
		{"nobody told when", time.Time{}, kernel.RateLimited, 0},
		{"another failure with such a notice", t0.Add(9 * time.Hour), kernel.Overloaded, 0},
	} {
		j := job("q", running(1))
		j.Spec.Budget.Retries, j.Spec.Retry = 1, kernel.RetryPolicy{}.On(kernel.RateLimited).On(kernel.Overloaded)
		s := snapshot(facts(), j)
		r := ranOut(j, &kernel.AgentRun{Resets: c.resets})
		r.Class = c.class
		p, err := kernel.Finish(s, r)
		if err != nil {
			t.Fatal(err)
		}
		want := s.Now().Add(j.Spec.Retry.Backoff(j.Attempt(), 0)).Truncate(time.Microsecond)
		if c.want > 0 {
			want = t0.Add(c.want)
		}
		if st := s.Apply(p).Job("q").State; st.Status != kernel.FailedRetryable || !st.RetryAt.Equal(want) {
			t.Errorf("%s: %s, due at %v, want %v", c.name, st.Status, st.RetryAt, want)
		}
	}
}

// The usage of a job's agents is added up over its attempts, and the report of
// the latest run is kept. An attempt that asked no agent changes nothing.
func TestAJobAddsUpWhatItsAgentsUsed(t *testing.T) {
	j := job("q", running(1))
	j.Spec.Budget.Retries, j.Spec.Retry = 5, kernel.RetryPolicy{}.On(kernel.RateLimited)
	for i, run := range []*kernel.AgentRun{
		{Agent: "claude", Session: "one", Turns: 2, Usage: kernel.Usage{Input: 10, Cached: 4, Output: 1, CostUSD: 0.5}},
		nil,
		{Agent: "claude", Session: "two", Turns: 3, Usage: kernel.Usage{Input: 20, Output: 2, CostUSD: 0.25}},
	} {
		j.State.Status, j.State.Attempt = kernel.Running, i+1
		s := snapshot(facts(), j)
		r := ranOut(j, run)
		r.Place = kernel.Place{Host: "h", PID: 7 + i}
		p, err := kernel.Finish(s, r)
		if err != nil {
			t.Fatal(err)
		}
		j = *s.Apply(p).Job("q")
		if j.State.Place != r.Place {
			t.Errorf("attempt %d ran at %+v", i+1, j.State.Place)
		}
	}
	a := j.State.Agent
	if a == nil || a.Last.Session != "two" || a.Runs != 2 || a.Turns != 5 || a.Total != (kernel.Usage{Input: 30, Cached: 4, Output: 3, CostUSD: 0.75}) {
		t.Errorf("%+v", a)
	}
}

// A conversation is continued only if the job asks for that.
func TestSession(t *testing.T) {
	j := job("q")
	j.State.Agent = &kernel.AgentState{Last: kernel.AgentRun{Agent: "claude", Session: "s"}}
	if agent, s := j.Session(); agent != "" || s != "" {
		t.Errorf("not asked for: %q %q", agent, s)
	}
	j.Spec.KeepSession = true
	if agent, s := j.Session(); agent != "claude" || s != "s" {
		t.Errorf("asked for: %q %q", agent, s)
	}
	j.State.Agent = nil
	if agent, s := j.Session(); agent != "" || s != "" {
		t.Errorf("nothing to go on with: %q %q", agent, s)
	}
}

// A rewind continues the conversation only while the files that it is about
// still exist.
func TestARewindKeepsTheConversationAboutItsContext(t *testing.T) {
	c := kernel.Context{Root: "w", Worktree: "w"}
	prepare := job("prepare", is(kernel.Succeeded))
	prepare.Spec.OwnsContext, prepare.State.Context = true, c
	prepare.Spec.Routes = []kernel.Route{{On: kernel.OutcomeSucceeded, To: "ask"}}
	ask := job("ask", is(kernel.Failed), after("prepare"))
	ask.Spec.KeepSession, ask.State.Context = true, c
	ask.State.Agent = &kernel.AgentState{Last: kernel.AgentRun{Agent: "claude", Session: "s"}, Runs: 1}
	for root, want := range map[kernel.JobID]string{"ask": "s", "prepare": ""} {
		s := snapshot(facts(), prepare, ask)
		p, err := kernel.Retry(s, root, "ann")
		if err != nil {
			t.Fatal(err)
		}
		next := s.Apply(p).Job("ask")
		if _, session := next.Session(); session != want || next.State.Agent.Runs != 1 || next.State.Generation != 1 {
			t.Errorf("retry of %s: session %q, want %q; %+v", root, session, want, next.State)
		}
	}
}

func TestRunsOfOneAttemptAreOne(t *testing.T) {
	a := kernel.AgentRun{Agent: "x", Session: "one", Turns: 1, Usage: kernel.Usage{Input: 1, CostUSD: 1}, Denied: []string{"Bash", "Edit"}}
	b := kernel.AgentRun{Agent: "x", Session: "two", Turns: 2, Usage: kernel.Usage{Input: 2, CostUSD: 1}, Denied: []string{"Edit", "Web"}}
	got := a.Then(b)
	if got.Session != "two" || got.Turns != 3 || got.Usage != (kernel.Usage{Input: 3, CostUSD: 2}) || !slices.Equal(got.Denied, []string{"Bash", "Edit", "Web"}) {
		t.Errorf("%+v", got)
	}
	if !slices.Equal(a.Denied, []string{"Bash", "Edit"}) || !slices.Equal(b.Denied, []string{"Edit", "Web"}) {
		t.Error("it changed what it was given")
	}
}

func TestBrief(t *testing.T) {
	for d, want := range map[time.Duration]string{0: "0s", 999 * time.Millisecond: "0s", 41 * time.Second: "41s", 6*time.Minute + 12*time.Second: "6m12s",
		time.Hour: "1h", 2*time.Hour + 5*time.Minute + 9*time.Second: "2h5m", 25 * time.Hour: "1d1h", 48*time.Hour + 3*time.Minute: "2d", time.Hour + time.Second: "1h"} {
		if got := kernel.Brief(d); got != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
}

// An explanation gives the class of a provider's failure, when a rate limit is
// lifted, and what a person has to do first.
func TestWhyAnAgentFailed(t *testing.T) {
	for name, c := range map[string]struct {
		class  kernel.FailureClass
		resets time.Time
		root   string
		first  string
	}{
		"a limit": {kernel.RateLimited, t0.Add(5 * time.Hour), "rate_limited: no more today; the limit is over at 2026-01-01T17:00:00Z, in 4h",
			"wait until 2026-01-01T17:00:00Z, when the limit of agent claude is over"},
		"one that is over": {kernel.RateLimited, t0, "rate_limited: no more today", "wait until the provider of agent claude answers again"},
		"a wrong key":      {kernel.Unauthorized, time.Time{}, "unauthorized: no more today", "log agent claude in, or give it a key that its provider accepts"},
		"overload":         {kernel.Overloaded, time.Time{}, "overloaded: no more today", "wait until the provider of agent claude answers again"},
		"another":          {kernel.ExitFailure, t0.Add(5 * time.Hour), "no more today", ""},
	} {
		j := job("q", is(kernel.Failed))
		j.State.Failure, j.State.Reason, j.State.Outcome = c.class, "no more today", kernel.OutcomeFailed
		j.State.Agent = &kernel.AgentState{Last: kernel.AgentRun{Agent: "claude", Resets: c.resets}}
		s := snapshot(facts(), j, job("z", is(kernel.BlockedByDependency), after("q")))
		for _, id := range []kernel.JobID{"q", "z"} {
			e, err := kernel.Explain(s, id)
			if err != nil {
				t.Fatal(err)
			}
			if e.Root == nil || e.Root.Job != "q" || e.Root.Detail != c.root {
				t.Errorf("%s, %s: root %+v", name, id, e.Root)
			}
			var said []string
			for _, a := range e.Actions {
				said = append(said, cmp.Or(a.Detail, a.Kind.String()+" "+string(a.Job)))
			}
			want := strings.TrimPrefix(c.first+"; retry q", "; ")
			if got := strings.Join(said, "; "); got != want {
				t.Errorf("%s, %s: %s, want %s", name, id, got, want)
			}
		}
	}
}
