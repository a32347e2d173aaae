package kernel_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/event"
	"github.com/vizier-scheduler/vizier/kernel/retention"
)

// tell returns the events of p on s, one word for each.
func tell(s *kernel.Snapshot, p kernel.Plan) string {
	var out []string
	for _, e := range event.Of(s, s.Apply(p), p) {
		who := string(e.Job)
		if who == "" {
			who = string(e.Run)
		}
		text := fmt.Sprintf("%s %s", who, e.Kind)
		if e.Attempt > 0 {
			text += fmt.Sprintf(" %d", e.Attempt)
		}
		if e.Class != kernel.NoFailure {
			text += " " + e.Class.String()
		}
		if e.Reason != "" {
			text += " (" + e.Reason + ")"
		}
		if e.By != "" {
			text += " by " + e.By
		}
		out = append(out, text)
	}
	return strings.Join(out, "\n")
}

func budget(retries, resumes, reclaims int) option {
	return func(j *kernel.Job) {
		j.Spec.Budget = kernel.Budget{Retries: retries, Resumes: resumes, Reclaims: reclaims}
		j.Spec.Retry, j.Spec.Resumable = j.Spec.Retry.On(kernel.ExitFailure), true
	}
}

func due(class kernel.FailureClass) option {
	return func(j *kernel.Job) {
		j.State.Status, j.State.Attempt, j.State.Failure, j.State.RetryAt = kernel.FailedRetryable, 1, class, t0
	}
}

func dirty() kernel.Facts {
	f := facts()
	f.Clean = kernel.Seen(false)
	return f
}

// Every transition of a job has its event, also if one plan takes the job
// through several states of which only the last is written.
func TestEvents(t *testing.T) {
	one := kernel.AttemptID{Job: "a", N: 1}
	ended := func(c kernel.FailureClass, exit int) *kernel.Result {
		return &kernel.Result{Attempt: one, Outcome: kernel.OutcomeFailed, Exit: exit, Class: c, Reason: "why"}
	}
	for name, c := range map[string]struct {
		jobs []kernel.Job
		f    kernel.Facts
		want string
	}{
		"starts":       {[]kernel.Job{job("a")}, facts(), "a job.running 1"},
		"stays":        {[]kernel.Job{job("a", running(1))}, facts(), ""},
		"succeeds":     {[]kernel.Job{job("a", running(1))}, dead(facts(), one, &kernel.Result{Attempt: one, Outcome: kernel.OutcomeSucceeded}), "a job.succeeded 1"},
		"fails":        {[]kernel.Job{job("a", running(1))}, dead(facts(), one, ended(kernel.ExitFailure, 7)), "a job.failed.final 1 exit (why)"},
		"fails, again": {[]kernel.Job{job("a", running(1), budget(1, 0, 0))}, dead(facts(), one, ended(kernel.ExitFailure, 7)), "a job.failed.retryable 1 exit (why)"},
		"is due":       {[]kernel.Job{job("a", due(kernel.ExitFailure), budget(1, 0, 0))}, facts(), "a job.requeued 1\na job.running 2"},
		"times out, resumes": {[]kernel.Job{job("a", running(1), budget(0, 1, 0))}, dead(facts(), one, ended(kernel.Timeout, 124)),
			"a job.failed.retryable 1 timeout\na job.resumed 1\na job.running 2"},
		"is lost, reclaimed": {[]kernel.Job{job("a", running(1), budget(0, 0, 1))}, dead(facts(), one, nil),
			"a job.failed.retryable 1 worker_lost\na job.reclaimed 1\na job.running 2"},
		"is lost, in doubt": {[]kernel.Job{job("a", running(1), func(j *kernel.Job) { j.Spec.InDoubt = kernel.AskInDoubt })}, dead(facts(), one, nil),
			"a job.failed.retryable 1 worker_lost\na job.reclaimed 1\na approval.pending 1 (awaiting human approval to execute it again: its runner ended without a result)\n" +
				"a attention 1 (in_doubt: awaiting human approval to execute it again: its runner ended without a result)"},
		"is lost, in doubt, behind another gate": {[]kernel.Job{job("a", running(1), pre(kernel.Precondition{Kind: kernel.CleanWorktree}), func(j *kernel.Job) { j.Spec.InDoubt = kernel.AskInDoubt })},
			dead(dirty(), one, nil), "a job.failed.retryable 1 worker_lost\na job.reclaimed 1"},
		"is reclaimed later": {[]kernel.Job{job("a", due(kernel.WorkerLost), after("z")), job("z", running(1))}, facts(), "a job.reclaimed 1"},
		"is lost for good":   {[]kernel.Job{job("a", running(1))}, dead(facts(), one, nil), "a job.failed.final 1 worker_lost (its runner ended without a result)"},
		"is blocked":         {[]kernel.Job{job("a", after("z")), job("z", is(kernel.Failed))}, facts(), "a job.blocked (dependency failed for job z (failed))"},
		"is promoted":        {[]kernel.Job{sleeper("a"), job("b", after("a"))}, facts(), "a job.promoted\na job.running 1"},
		"ends its run": {[]kernel.Job{job("a", inRun("r"), running(1)), job("b", inRun("r"), after("a")), job("c", inRun("r"), routed, is(kernel.Unscheduled))},
			dead(facts(), one, ended(kernel.ExitFailure, 7)),
			"a job.failed.final 1 exit (why)\nb job.blocked (dependency failed for job a (failed))\nr run.failed"},
		"blocks its run": {[]kernel.Job{job("a", inRun("r"), after("z")), job("z", is(kernel.Failed))}, facts(),
			"a job.blocked (dependency failed for job z (failed))\nr run.blocked"},
		"succeeds with its run": {[]kernel.Job{job("a", inRun("r"), running(1)), job("b", inRun("r"), is(kernel.Succeeded))},
			dead(facts(), one, &kernel.Result{Attempt: one, Outcome: kernel.OutcomeSucceeded}), "a job.succeeded 1\nr run.succeeded"},
		"leaves its run going": {[]kernel.Job{job("a", inRun("r"), running(1)), job("b", inRun("r"), running(1))},
			dead(facts(), one, ended(kernel.ExitFailure, 7)), "a job.failed.final 1 exit (why)"},
	} {
		t.Run(name, func(t *testing.T) {
			s := snapshot(c.f, c.jobs...)
			if got := tell(s, kernel.Decide(s)); got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

// Verbs have their events, together with those of the tick after them in the
// same plan.
func TestEventsOfVerbs(t *testing.T) {
	then := func(s *kernel.Snapshot, p kernel.Plan, err error) string {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return tell(s, p.Then(kernel.Decide(s.Apply(p))))
	}
	s := snapshot(facts())
	p, err := kernel.Enqueue(s, []kernel.NewJob{{ID: "a", Spec: job("a").Spec}, {ID: "b", Spec: kernel.Spec{Transient: kernel.OnDemand}}})
	if got, want := then(s, p, err), "a job.created\na job.running 1\nb job.created"; got != want {
		t.Errorf("enqueue:\n%s", got)
	}
	s = snapshot(facts(), job("a", is(kernel.Failed), inRun("r"), func(j *kernel.Job) { j.State.Attempt = 3 }), job("b", inRun("r"), is(kernel.BlockedByDependency), after("a")))
	p, err = kernel.Retry(s, "a", "ann")
	if got, want := then(s, p, err), "a job.rewound 3\na job.running 4\nb job.rewound"; got != want {
		t.Errorf("retry:\n%s", got)
	}
	s = snapshot(facts(), job("a", after("z")), job("z", running(1)))
	p, err = kernel.Cancel(s, "a", "ann", false)
	if got, want := then(s, p, err), "a job.cancelled (cancelled by ann)"; got != want {
		t.Errorf("cancel:\n%s", got)
	}
	s = snapshot(facts(), job("a", running(1)))
	p, err = kernel.Refuse(s, kernel.AttemptID{Job: "a", N: 1}, "no room", false)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := tell(s, p), "a job.requeued 1 (no room)"; got != want {
		t.Errorf("refuse:\n%s", got)
	}
	s = snapshot(facts(), job("a", is(kernel.Succeeded), finishedAt(t0)))
	if got, want := tell(s, retention.GC(s, time.Minute)), "a job.archived"; got != want {
		t.Errorf("gc:\n%s", got)
	}
}

// What people have to know is told once: that a job needs a person, how that
// person decided, and that a runner has stalled.
func TestEventsForPeople(t *testing.T) {
	asks := func(j *kernel.Job) { j.State.Approval = kernel.Require(t0, "ann") }
	waits := func(j *kernel.Job) { asks(j); j.State.Status = kernel.WaitingOnApproval }
	one := kernel.AttemptID{Job: "a", N: 1}
	silent := func(f kernel.Facts) kernel.Facts {
		f.Runners[one] = kernel.Seen(kernel.Runner{Liveness: kernel.Stalled})
		return f
	}
	blocked := &kernel.Result{Attempt: one, Outcome: kernel.OutcomeBlocked, Exit: 10, Reason: "merging x into main " + kernel.InConflict}
	decide := func(s *kernel.Snapshot) (kernel.Plan, error) { return kernel.Decide(s), nil }
	approve := func(s *kernel.Snapshot) (kernel.Plan, error) {
		return kernel.Approve(s, "a", kernel.Consent{By: "bob"})
	}
	reject := func(s *kernel.Snapshot) (kernel.Plan, error) {
		return kernel.Reject(s, "a", kernel.Refusal{By: "bob", Reason: "no"})
	}
	for name, c := range map[string]struct {
		jobs []kernel.Job
		f    kernel.Facts
		verb func(*kernel.Snapshot) (kernel.Plan, error)
		want string
	}{
		"is up to a person": {[]kernel.Job{job("a", asks)}, facts(), decide, "a approval.pending (awaiting human approval)\na attention (approval: awaiting human approval)"},
		"waits first":       {[]kernel.Job{job("a", asks, after("z")), job("z", running(1))}, facts(), decide, ""},
		"goes on waiting":   {[]kernel.Job{job("a", waits)}, facts(), decide, ""},
		"is granted":        {[]kernel.Job{job("a", waits)}, facts(), approve, "a approval.granted by bob"},
		"is refused":        {[]kernel.Job{job("a", waits)}, facts(), reject, "a approval.rejected (no) by bob\na job.blocked (no)"},
		"is in conflict": {[]kernel.Job{job("a", running(1))}, dead(facts(), one, blocked), decide,
			"a job.blocked 1 (" + blocked.Reason + ")\na attention 1 (conflict: " + blocked.Reason + ")"},
		"is seen to": {[]kernel.Job{job("a", running(1), func(j *kernel.Job) { j.Spec.Routes = []kernel.Route{{On: kernel.OutcomeBlocked, To: "b"}} }),
			job("b", routed, is(kernel.Unscheduled), func(j *kernel.Job) { j.Spec.Routes = []kernel.Route{{On: kernel.OutcomeSucceeded, To: "a"}} })}, dead(facts(), one, blocked), decide,
			"a job.blocked 1 (" + blocked.Reason + ")\nb job.rewound\nb job.promoted\nb job.running 1"},
		"stalls":         {[]kernel.Job{job("a", running(1))}, silent(facts()), decide, "a job.stalled 1 (S)\na attention 1 (stalled: S)"},
		"goes on so":     {[]kernel.Job{job("a", running(1), func(j *kernel.Job) { j.State.Stalled = 1 })}, silent(facts()), decide, ""},
		"is heard again": {[]kernel.Job{job("a", running(1), func(j *kernel.Job) { j.State.Stalled = 1 })}, facts(), decide, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := snapshot(c.f, c.jobs...)
			p, err := c.verb(s)
			if err != nil {
				t.Fatal(err)
			}
			want := strings.ReplaceAll(c.want, "S)", "its runner has not been heard of for longer than it should be)")
			if got := tell(s, p); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
			next := s.Apply(p)
			if again := tell(next, kernel.Decide(next)); strings.Contains(again, "approval.") || strings.Contains(again, "attention") || strings.Contains(again, "stalled") {
				t.Errorf("told again:\n%s", again)
			}
		})
	}
}

// Only the event that ends an attempt has what the attempt's agent reported.
func TestTheEndOfAnAttemptTellsOfItsAgent(t *testing.T) {
	run := kernel.AgentRun{Agent: "claude", Model: "m", Session: "s", Turns: 2, Usage: kernel.Usage{Input: 5}}
	for name, c := range map[string]struct {
		retries int
		outcome kernel.Outcome
		want    kernel.EventKind
	}{
		"it succeeds":       {0, kernel.OutcomeSucceeded, kernel.JobSucceeded},
		"it fails":          {0, kernel.OutcomeFailed, kernel.JobFailedFinal},
		"it is tried again": {1, kernel.OutcomeFailed, kernel.JobFailedRetryable},
	} {
		j := job("q", running(2), budget(c.retries, 0, 0))
		j.State.Agent = &kernel.AgentState{Last: kernel.AgentRun{Session: "older"}, Runs: 1}
		s := snapshot(facts(), j)
		r := kernel.Result{Attempt: j.Attempt(), Outcome: c.outcome, Agent: &run}
		if c.outcome == kernel.OutcomeFailed {
			r.Class, r.Exit = kernel.ExitFailure, 1
		}
		p, err := kernel.Finish(s, r)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range event.Of(s, s.Apply(p), p) {
			want := kernel.EventAgent{}
			if e.Kind == c.want {
				want = kernel.EventAgent{Agent: "claude", Model: "m", Session: "s", Turns: 2, Usage: kernel.Usage{Input: 5}}
			}
			if e.Agent != want || e.Job == "q" && e.Kind != c.want {
				t.Errorf("%s: %s %+v", name, e.Kind, e.Agent)
			}
		}
	}
	j := job("q", running(2))
	j.State.Agent = &kernel.AgentState{Last: run, Runs: 1}
	s := snapshot(facts(), j)
	p, err := kernel.Finish(s, kernel.Result{Attempt: j.Attempt(), Outcome: kernel.OutcomeSucceeded})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range event.Of(s, s.Apply(p), p) {
		if e.Agent != (kernel.EventAgent{}) {
			t.Errorf("an attempt that asked no agent: %+v", e)
		}
	}
}

// A job whose secret is not there needs a person from the first launch that is refused for it on, and says so once.
func TestAMissingSecretIsToldOnce(t *testing.T) {
	secret := kernel.Secret{Name: "TOKEN", Source: "@token"}
	s := snapshot(facts(), job("a", running(1), func(j *kernel.Job) { j.Spec.Task.Secrets = []kernel.Secret{secret} }))
	for n := 1; n <= 3; n++ {
		p, err := kernel.Refuse(s, kernel.AttemptID{Job: "a", N: n}, secret.Unavailable()+"no such file", false)
		if err != nil {
			t.Fatal(err)
		}
		if told := strings.Count(tell(s, p), "attention"); told != map[bool]int{true: 1}[n == 1] {
			t.Errorf("refused %d times: told is %s", n, tell(s, p))
		}
		s = s.Apply(p)
		j := *s.Job("a")
		j.State.Status, j.State.Attempt, j.State.RetryAt = kernel.Running, n+1, time.Time{}
		s = s.Apply(kernel.NewPlan(kernel.PutState{Job: "a", If: j.Rev, State: j.State}))
	}
}
