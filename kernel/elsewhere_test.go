package kernel_test

import (
	"strings"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

func runnerOf(id kernel.JobID, r kernel.Fact[kernel.Runner]) kernel.Facts {
	f := facts()
	a := kernel.AttemptID{Job: id, N: 1}
	f.Runners[a], f.Results[a] = r, kernel.Seen[*kernel.Result](nil)
	return f
}

// An attempt that never began, of a job that was cancelled meanwhile, is not
// handed to the executor again.
func TestCancelledBeforeItBegan(t *testing.T) {
	s := snapshot(runnerOf("a", kernel.Seen(kernel.Runner{Liveness: kernel.NeverStarted})), job("a", running(1), elsewhere, stopped))
	p := kernel.Decide(s)
	j := s.Apply(p).Job("a")
	if j.State.Status != kernel.Cancelled || j.State.Exit != kernel.Exited(143) || !strings.HasPrefix(j.State.Reason, "cancelled by ") {
		t.Errorf("%+v", j.State)
	}
	if again := kernel.Decide(s.Apply(p)); len(again.Actions()) > 0 {
		t.Errorf("a second tick: %+v", again.Actions())
	}
}

// What another executor ended before it began is not shown as running until that is settled.
func TestWhatNeverBeganIsSubmitted(t *testing.T) {
	for executor, want := range map[string]bool{"lab": true, kernel.LocalExecutor: false} {
		for what, r := range map[string]struct {
			runner kernel.Runner
			want   bool
		}{
			"never started": {kernel.Runner{Liveness: kernel.NeverStarted}, want},
			"pending":       {kernel.Runner{Liveness: kernel.Alive, Pending: true}, true},
			"alive":         {kernel.Runner{Liveness: kernel.Alive}, false},
		} {
			j := job("a", running(1))
			j.Spec.Task.Executor = executor
			if got := snapshot(runnerOf("a", kernel.Seen(r.runner)), j).Submitted("a"); got != r.want {
				t.Errorf("%s, %s: %v", executor, what, got)
			}
		}
	}
}

// An attempt begins when its executor says so; until then its record has when it was handed over.
func TestBegan(t *testing.T) {
	handed, began := t0.Add(-time.Hour), t0.Add(-time.Minute)
	for what, c := range map[string]struct {
		runner kernel.Fact[kernel.Runner]
		status kernel.Status
		want   time.Time
	}{
		"nobody asked":          {kernel.Fact[kernel.Runner]{}, kernel.Running, handed},
		"the executor knows":    {kernel.Seen(kernel.Runner{Liveness: kernel.Alive, Began: began}), kernel.Running, began},
		"it does not":           {kernel.Seen(kernel.Runner{Liveness: kernel.Alive}), kernel.Running, handed},
		"submitted":             {kernel.Seen(kernel.Runner{Liveness: kernel.Alive, Pending: true}), kernel.Running, time.Time{}},
		"ended, as it is known": {kernel.Seen(kernel.Runner{Liveness: kernel.Alive, Began: began}), kernel.Failed, handed},
	} {
		j := job("a", running(1), elsewhere, func(j *kernel.Job) { j.State.Started, j.State.Status = handed, c.status })
		if s := snapshot(runnerOf("a", c.runner), j); !s.Began(s.Job("a")).Equal(c.want) {
			t.Errorf("%s: it began at %v, want %v", what, s.Began(s.Job("a")), c.want)
		}
	}
}

// What another executor ends again and again before it begins does not pass by itself: the fifth
// time in a row the job fails. A runner on this machine is started as often as it takes.
func TestWhatNeverBeginsElsewhereFails(t *testing.T) {
	for executor, want := range map[string]kernel.Status{"lab": kernel.Failed, kernel.LocalExecutor: kernel.Running} {
		j := job("a", running(1), func(j *kernel.Job) { j.Spec.Task.Executor = executor })
		for n := 1; n <= 5; n++ {
			a := kernel.AttemptID{Job: "a", N: j.State.Attempt}
			f := facts()
			f.Runners[a], f.Results[a] = kernel.Seen(kernel.Runner{Liveness: kernel.NeverStarted, Remark: "ended"}), kernel.Seen[*kernel.Result](nil)
			s := snapshot(f, j)
			s = s.Apply(kernel.Settle(s))
			if j = *s.Job("a"); n < 5 && j.State.Status != kernel.Queued {
				t.Fatalf("%s, after %d: %+v", executor, n, j.State)
			}
			s = s.At(s.Now().Add(time.Hour))
			j = *s.Apply(kernel.Decide(s)).Job("a")
		}
		if j.State.Status != want || want == kernel.Failed && (j.State.Failure != kernel.RejectedByHost || j.State.Reason != "ended") {
			t.Errorf("%s: %+v", executor, j.State)
		}
	}
}

// The reason of a lost attempt is the remark of the executor that found it.
func TestLostInTheExecutorsWords(t *testing.T) {
	s := snapshot(runnerOf("a", kernel.Seen(kernel.Runner{Liveness: kernel.Dead, Remark: "node n2 failed"})), job("a", running(1), elsewhere))
	if st := s.Apply(kernel.Decide(s)).Job("a").State; st.Failure != kernel.WorkerLost || st.Reason != "node n2 failed" {
		t.Errorf("%+v", st)
	}
}

// What the agent of a lost attempt reported is kept, and the next attempt
// continues its session.
func TestTheSessionOfALostAttemptIsKept(t *testing.T) {
	for remark, want := range map[string]string{"node n2 failed": "node n2 failed", "": "its runner ended"} {
		f := runnerOf("a", kernel.Seen(kernel.Runner{Liveness: kernel.Dead, Remark: remark}))
		a := kernel.AttemptID{Job: "a", N: 1}
		f.Results[a] = kernel.Seen(&kernel.Result{Attempt: a, Outcome: kernel.OutcomeFailed, Exit: 1, Class: kernel.WorkerLost, Reason: "its runner ended",
			Agent: &kernel.AgentRun{Agent: "claude", Session: "s"}})
		s := snapshot(f, job("a", running(1), elsewhere, func(j *kernel.Job) { j.Spec.KeepSession = true }))
		j := s.Apply(kernel.Decide(s)).Job("a")
		if agent, session := j.Session(); j.State.Failure != kernel.WorkerLost || j.State.Reason != want || agent != "claude" || session != "s" || j.State.Agent.Runs != 1 {
			t.Errorf("%+v, agent %+v", j.State, j.State.Agent)
		}
	}
}

// An explanation of a running job gives what the executor says about the
// attempt.
func TestRemarks(t *testing.T) {
	for _, c := range []struct {
		runner kernel.Fact[kernel.Runner]
		want   string // "": nothing holds it up
	}{
		{kernel.Seen(kernel.Runner{Liveness: kernel.Alive}), ""},
		{kernel.Fact[kernel.Runner]{}, ""},
		{kernel.Seen(kernel.Runner{Liveness: kernel.Alive, Remark: "pending: Resources"}), "pending: Resources"},
		{kernel.Seen(kernel.Runner{Liveness: kernel.Stalled}), "its runner has not been heard of for longer than it should be"},
		{kernel.Unseen[kernel.Runner]("its controller is away"), "its runner cannot be asked for: its controller is away"},
	} {
		s := snapshot(runnerOf("a", c.runner), job("a", running(1), elsewhere))
		if got := s.Remark("a"); got != c.want {
			t.Errorf("remark %q, want %q", got, c.want)
		}
		e, err := kernel.Explain(s, "a")
		if err != nil {
			t.Fatal(err)
		}
		if len(e.Unmet) > 0 != (c.want != "") || c.want != "" && e.Unmet[0].Detail != c.want {
			t.Errorf("explained as %+v, want %q", e.Unmet, c.want)
		}
	}
}

// An explanation of a job whose launch was refused says so, also before the
// next launch is tried.
func TestRefusedIsExplained(t *testing.T) {
	for at, want := range map[time.Duration]string{0: "tried again soon", time.Hour + time.Second: "tried again at "} {
		j := job("a", elsewhere)
		j.State.Refused, j.State.Reason = 1, "nobody there"
		if at > 0 {
			j.State.RetryAt = t0.Add(at)
		}
		e, err := kernel.Explain(snapshot(facts(), j), "a")
		if err != nil {
			t.Fatal(err)
		}
		if len(e.Unmet) != 1 || e.Unmet[0].Detail != "its last launch was refused: nobody there" || !strings.Contains(e.Unmet[0].Clears, want) {
			t.Errorf("%+v", e.Unmet)
		}
	}
}

// An attempt that does not end unless somebody changes something says what that is, and goes on by itself then.
func TestStuckAtItsEnd(t *testing.T) {
	r := kernel.Runner{Liveness: kernel.Alive, Stuck: true, Remark: "what it left cannot be read"}
	s := snapshot(runnerOf("a", kernel.Seen(r)), job("a", running(1)))
	if p := kernel.Decide(s); len(p.Actions()) > 0 {
		t.Errorf("it decides %+v", p.Actions())
	}
	e, err := kernel.Explain(s, "a")
	if err != nil || len(e.Unmet) != 1 || e.Unmet[0].Detail != r.Remark || !strings.HasSuffix(e.Unmet[0].Clears, "goes on by itself") {
		t.Errorf("%+v, %v", e, err)
	}
}
