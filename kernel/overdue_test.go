package kernel_test

import (
	"slices"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// An attempt is overdue once its limit, its grace and the time that a runner
// has to act are over, by the clock. An attempt whose runner is gone is lost,
// and not overdue.
func TestOverdue(t *testing.T) {
	jobs := []kernel.Job{
		job("a", running(1), limited(time.Minute, 0)), job("b", running(1), limited(time.Minute, time.Second)),
		job("c", running(1)), job("d", running(1), limited(time.Second, time.Second), elsewhere),
		job("e", is(kernel.Failed), limited(time.Second, time.Second)), job("f", running(1), limited(time.Second, time.Second)),
	}
	for _, c := range []struct {
		after, grace time.Duration
		want         []kernel.JobID
	}{
		{0, 0, nil},
		{70 * time.Second, 0, nil},
		{71 * time.Second, 0, []kernel.JobID{"b"}},
		{80*time.Second - time.Microsecond, 0, []kernel.JobID{"b"}},
		{80 * time.Second, 0, []kernel.JobID{"a", "b"}},
		{80 * time.Second, time.Minute, []kernel.JobID{"b"}},
		{130 * time.Second, time.Minute, []kernel.JobID{"a", "b"}},
	} {
		f := facts()
		f.Runners[kernel.AttemptID{Job: "f", N: 1}] = kernel.Seen(kernel.Runner{Liveness: kernel.Dead})
		s := kernel.NewSnapshot(kernel.Observation{Now: t0.Add(c.after), Jobs: jobs, Facts: f, Limits: kernel.Limits{Grace: c.grace}})
		var got []kernel.JobID
		for _, a := range s.Overdue() {
			got = append(got, a.Job)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("after %v, grace %v: %v, want %v", c.after, c.grace, got, c.want)
		}
	}
}

// An attempt that was ended because it was overdue has timed out: there is
// nothing to sweep, and the job goes on as after any timeout.
func TestAnAttemptThatWasEndedForItsLimitTimedOut(t *testing.T) {
	a := kernel.AttemptID{Job: "a", N: 1}
	f := facts()
	f.Runners[a], f.Results[a] = kernel.Seen(kernel.Runner{Liveness: kernel.Dead, Late: true}), kernel.Seen[*kernel.Result](nil)
	p := kernel.Decide(snapshot(f, job("a", running(1), limited(time.Minute, 0))))
	if len(actionsOf[kernel.Sweep](p)) > 0 {
		t.Errorf("%+v", p.World)
	}
	s := snapshot(f, job("a", running(1), limited(time.Minute, 0)))
	if st := s.Apply(p).Job("a").State; st.Status != kernel.Failed || st.Failure != kernel.Timeout || st.Exit != kernel.Exited(124) {
		t.Errorf("%+v", st)
	}
	resumed := snapshot(f, job("a", running(1), limited(time.Minute, 0), func(j *kernel.Job) { j.Spec.Resumable, j.Spec.Budget.Resumes = true, 1 }))
	if st := resumed.Apply(kernel.Decide(resumed)).Job("a").State; st.Status != kernel.Running || st.Attempt != 2 || st.Spent.Resumes != 1 {
		t.Errorf("%+v", st)
	}
}
