package kernel_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

func approvalWithin(d time.Duration) option {
	return func(j *kernel.Job) {
		j.Spec.ApprovalTimeout, j.State.Approval = d, kernel.Require(t0, "ann")
	}
}

func at(now time.Time, jobs ...*kernel.Job) *kernel.Snapshot {
	o := kernel.Observation{Now: now, Facts: facts()}
	for _, j := range jobs {
		o.Jobs = append(o.Jobs, *j)
	}
	return kernel.NewSnapshot(o)
}

// The timeout of an approval starts when the job waits for nothing else, is
// among the times at which the scheduler wakes up, and ends the job. A retry
// asks anew.
func TestAnApprovalExpires(t *testing.T) {
	p, q, r := job("p", running(1)), job("q", after("p"), approvalWithin(time.Hour)), job("r", after("q"))
	now := t0.Add(48 * time.Hour)
	s := at(now, &p, &q, &r)
	s = s.Apply(kernel.Decide(s))
	if q := s.Job("q"); q.State.Status != kernel.WaitingOnDeps || !q.State.Approval.ExpiresAt.IsZero() || !s.Wakes().At.IsZero() {
		t.Fatalf("while it waits for something else its time runs: %+v", q.State)
	}
	done := *s.Job("p")
	done.State.Status = kernel.Succeeded
	s = at(now, &done, s.Job("q"), s.Job("r"))
	s = s.Apply(kernel.Decide(s))
	end := now.Add(time.Hour)
	if q := s.Job("q"); q.State.Approval.ExpiresAt != end || s.Wakes().At != end {
		t.Fatalf("it expires at %v, the scheduler wakes at %v, want %v", q.State.Approval.ExpiresAt, s.Wakes().At, end)
	}
	if e, err := kernel.Explain(s, "q"); err != nil || len(e.Unmet) != 1 || e.Unmet[0].Clears != "a person, until 2026-01-03T13:00:00Z" {
		t.Errorf("%+v %v", e, err)
	}
	jobs := []*kernel.Job{s.Job("p"), s.Job("q"), s.Job("r")}

	if _, err := kernel.Approve(at(end.Add(-time.Microsecond), jobs...), "q", kernel.Consent{By: "bob"}); err != nil {
		t.Errorf("just in time: %v", err)
	}
	late := at(end, jobs...)
	if _, err := kernel.Approve(late, "q", kernel.Consent{By: "bob"}); !errors.Is(err, kernel.ErrConflict) || !strings.Contains(err.Error(), "approval expired: nobody decided within 1h0m0s of job q: a retry asks for it anew") {
		t.Errorf("too late: %v", err)
	}
	expect(t, late, "q", "blocked_by_approval approval: approval expired: nobody decided within 1h0m0s")
	expect(t, late, "r", "blocked_by_dependency dependencies: dependency failed for job q (blocked_by_approval)")
	late = late.Apply(kernel.Decide(late))
	if got := late.Job("q").State.Approval.State; got != kernel.Expired || !late.Wakes().Empty() {
		t.Errorf("it is %s, and %+v is left to look after", got, late.Wakes())
	}
	e, err := kernel.Explain(late, "q")
	if err != nil || len(e.Unmet) != 1 || e.Unmet[0].Clears != "a retry, which asks for the approval anew" ||
		len(e.Actions) != 2 || e.Actions[0].Kind != kernel.RetryJob || e.Actions[1].Kind != kernel.ApproveJob {
		t.Errorf("%+v %v", e, err)
	}

	again, err := kernel.Retry(late, "q", "bob")
	if err != nil {
		t.Fatal(err)
	}
	late = late.Apply(again)
	late = late.Apply(kernel.Decide(late))
	if a := late.Job("q").State.Approval; a.State != kernel.Pending || a.RequestedBy != "bob" || a.ExpiresAt != end.Add(time.Hour) {
		t.Errorf("after a retry: %+v", a)
	}
}

// An approval that expires takes the routes of its job, as a rejection does. Its time begins anew if the job waited for
// something else in between.
func TestAnExpiredApprovalTakesItsRoutes(t *testing.T) {
	p := job("p", is(kernel.Succeeded))
	q := job("q", after("p"), approvalWithin(time.Hour), routesOf(on(kernel.OutcomeBlocked, "r")))
	r := job("r", func(j *kernel.Job) { j.Spec.Routed = true }, is(kernel.Unscheduled))
	s := at(t0, &p, &q, &r)
	s = s.Apply(kernel.Decide(s)).At(t0.Add(time.Hour))
	s = s.Apply(kernel.Decide(s))
	if got := statuses(s); got != "p:succeeded q:blocked_by_approval r:running" {
		t.Error(got)
	}
	if st := s.Job("q").State; st.Outcome != kernel.OutcomeBlocked || st.Exit != kernel.Exited(10) || st.Finished != s.Now() || st.Approval.State != kernel.Expired {
		t.Errorf("%+v", st)
	}
	if p := kernel.Decide(s); len(p.Actions()) > 0 {
		t.Errorf("a second tick: %+v", p.Actions())
	}

	waited := job("q", after("p"), approvalWithin(time.Hour), is(kernel.WaitingOnDeps), func(j *kernel.Job) { j.State.Approval.ExpiresAt = t0 })
	s = at(t0, &p, &waited)
	s = s.Apply(kernel.Decide(s))
	if st := s.Job("q").State; st.Status != kernel.WaitingOnApproval || st.Approval.ExpiresAt != t0.Add(time.Hour) {
		t.Errorf("%+v", st)
	}
}

// Only a job's own approval expires, and only one with a timeout.
func TestAnApprovalWithoutALimitNeverExpires(t *testing.T) {
	q := job("q", approval(kernel.Pending, ""))
	s := at(t0.AddDate(100, 0, 0), &q)
	expect(t, s, "q", "waiting_on_approval approval: awaiting human approval")
	if s = s.Apply(kernel.Decide(s)); !s.Wakes().Empty() {
		t.Errorf("%+v", s.Wakes())
	}
}

// A job whose launch was refused and whose approval is needed again has the
// same reason in every tick.
func TestARefusedJobThatWaitsForApprovalIsJudgedOnce(t *testing.T) {
	j := job("a", is(kernel.FailedRetryable), approval(kernel.Pending, ""))
	j.State.Refused, j.State.Failure, j.State.Reason = 2, kernel.LaunchFailure, "no room"
	s := snapshot(facts(), j)
	s = s.Apply(kernel.Decide(s))
	if got := s.Job("a").State; got.Status != kernel.WaitingOnApproval || got.Wait.Detail != "awaiting human approval" {
		t.Errorf("%s: %s", got.Status, got.Wait.Detail)
	}
	if p := kernel.Decide(s); !p.Empty() {
		t.Errorf("a second tick decides %+v", p.Decisions)
	}
}
