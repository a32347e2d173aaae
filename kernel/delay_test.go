package kernel_test

import (
	"strings"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// A clock that is set back makes no retry, and no launch after a refusal, wait longer than it would have by more than a
// minute. The tick, the explanation and what is told of the next tick agree about that.
func TestAClockThatIsSetBackDelaysNoRetry(t *testing.T) {
	at := func(now time.Time, j kernel.Job) *kernel.Snapshot {
		return kernel.NewSnapshot(kernel.Observation{Now: now, Jobs: []kernel.Job{j}, Facts: facts()})
	}
	after := func(s *kernel.Snapshot, p kernel.Plan, err error) kernel.Job {
		if err != nil {
			t.Fatal(err)
		}
		return *s.Apply(p).Job("q")
	}
	attempt := kernel.AttemptID{Job: "q", N: 1}
	failed := func(backoff time.Duration, r kernel.Result) kernel.Job {
		j := job("q", running(1))
		j.Spec.Budget.Retries, j.Spec.Retry = 1, kernel.RetryPolicy{Base: backoff, Cap: backoff}.On(kernel.ExitFailure).On(kernel.RateLimited)
		r.Attempt, r.Outcome, r.Exit = attempt, kernel.OutcomeFailed, 3
		s := at(t0, j)
		p, err := kernel.Finish(s, r)
		return after(s, p, err)
	}
	exit := kernel.Result{Class: kernel.ExitFailure, Reason: "exit code 3"}
	ended := func(ago time.Duration) kernel.Result {
		r := exit
		r.Ended = t0.Add(-ago)
		return r
	}
	limited := func(hours time.Duration) kernel.Result {
		return kernel.Result{Class: kernel.RateLimited, Agent: &kernel.AgentRun{Resets: t0.Add(hours*time.Hour + time.Nanosecond)}}
	}
	resumed := func(j kernel.Job) kernel.Job {
		j.Spec.Resumable, j.Spec.Budget.Resumes = true, 1
		s := at(t0, j)
		p, err := kernel.Finish(s, kernel.Result{Attempt: attempt, Outcome: kernel.OutcomeFailed, Class: kernel.Timeout})
		return after(s, p, err)
	}
	refused := func(times int) kernel.Job {
		j := job("q", elsewhere, running(1))
		for range times {
			s := at(t0, j)
			p, err := kernel.Refuse(s, j.Attempt(), "nobody there", false)
			if j = after(s, p, err); times > j.State.Refused {
				j.State.Status, j.State.Attempt = kernel.Running, j.State.Attempt+1
			}
		}
		return j
	}
	for _, c := range []struct {
		name  string
		job   kernel.Job
		now   time.Duration // after t0 or, if it is not positive, before
		waits bool
	}{
		{"in time", failed(time.Hour, exit), 30 * time.Minute, true},
		{"due", failed(time.Hour, exit), time.Hour, false},
		{"as much as clocks differ", failed(10*time.Second, exit), -time.Minute, true},
		{"more", failed(10*time.Second, exit), -time.Minute - time.Microsecond, false},
		{"an hour", failed(10*time.Second, exit), -time.Hour, false},
		{"an hour, after a failure of long ago", failed(3*time.Hour, exit), time.Hour, true},
		{"its end was recorded late", failed(10*time.Second, ended(time.Hour)), -30 * time.Minute, false},
		{"its end is to come: the clock was set back before it was recorded", failed(10*time.Second, ended(-time.Hour)), 0, true},
		{"it resumes at once", resumed(job("q", running(1))), -time.Minute, true},
		{"it resumes, more", resumed(job("q", running(1))), -time.Minute - time.Microsecond, false},
		{"a refusal", refused(2), -time.Minute, true},
		{"a refusal, more", refused(2), -time.Minute - time.Microsecond, false},
		{"the fifth refusal", refused(5), -time.Minute, true},
		{"the fifth refusal, more", refused(5), -time.Minute - time.Microsecond, false},
		{"a limit that a provider named", failed(time.Second, limited(2)), -time.Hour, true},
		{"a limit that is over before", failed(12*time.Hour, limited(2)), -time.Hour, false},
	} {
		s := at(t0.Add(c.now), c.job)
		p := kernel.Decide(s)
		if starts := s.Apply(p).Job("q").State.Status == kernel.Running; starts == c.waits || !starts && !p.Empty() {
			t.Errorf("%s: decides %+v, since it is due at %v", c.name, p.Decisions, c.job.State.RetryAt)
		}
		e, err := kernel.Explain(s, "q")
		if err != nil {
			t.Fatal(err)
		}
		due := c.job.State.RetryAt
		says := strings.Contains(e.Unmet[0].Detail+" "+e.Unmet[0].Clears, " at "+due.Format(time.RFC3339))
		if says != c.waits {
			t.Errorf("%s: explained by %+v", c.name, e.Unmet[0])
		}
		if w := e.TickWait; w.Now == c.waits || w.Now && w.Due.After(s.Now()) {
			t.Errorf("%s: told of the next tick: %+v", c.name, w)
		}
		if until := s.Job("q").Delayed(s.Now()); until.IsZero() == c.waits || c.waits && !until.Equal(due) {
			t.Errorf("%s: delayed until %v", c.name, until)
		}
		if w := s.Apply(p).Wakes(); !w.At.IsZero() != c.waits {
			t.Errorf("%s: wakes %+v", c.name, w)
		}
	}
}
