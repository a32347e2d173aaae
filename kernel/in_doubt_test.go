package kernel_test

import (
	"strings"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// An effect in doubt fails the job, or a policy or a person lets it go on.
func TestAnEffectInDoubt(t *testing.T) {
	node := func(p kernel.InDoubt, more ...option) kernel.Job {
		return job("a", append([]option{running(2), func(j *kernel.Job) {
			j.Spec.Task.Builtin, j.Spec.InDoubt, j.State.Lost = true, p, 1
			j.Spec.Budget = kernel.Budget{Retries: 1, Reclaims: 1}
			j.State.Spent.Reclaims = 1
		}}, more...)...)
	}
	end := func(t *testing.T, j kernel.Job, c kernel.FailureClass) kernel.Job {
		t.Helper()
		s := kernel.NewSnapshot(kernel.Observation{Now: t0.Add(time.Minute), Jobs: []kernel.Job{j}})
		p, err := kernel.Finish(s, kernel.Result{Attempt: j.Attempt(), Outcome: kernel.OutcomeFailed, Exit: 1, Class: c, Reason: "who knows"})
		if err != nil {
			t.Fatal(err)
		}
		s = s.Apply(p)
		return *s.Apply(kernel.Decide(s)).Job("a")
	}
	t.Run("fails", func(t *testing.T) {
		if st := end(t, node(kernel.FailInDoubt), kernel.EffectInDoubt).State; st.Status != kernel.Failed || st.Failure != kernel.EffectInDoubt {
			t.Errorf("%s, %s", st.Status, st.Failure)
		}
	})
	t.Run("retried where the policy names it", func(t *testing.T) {
		j := end(t, node(kernel.FailInDoubt, func(j *kernel.Job) { j.Spec.Retry = j.Spec.Retry.On(kernel.EffectInDoubt) }), kernel.EffectInDoubt)
		if st := j.State; st.Status != kernel.FailedRetryable || st.Lost != 0 {
			t.Errorf("%s, lost %d: the doubt would come back", st.Status, st.Lost)
		}
	})
	for name, test := range map[string]struct {
		job   kernel.Job
		class kernel.FailureClass
	}{
		"a node asks": {node(kernel.AskInDoubt), kernel.EffectInDoubt},
		"a plain command asks when it is lost": {node(kernel.AskInDoubt, func(j *kernel.Job) {
			j.Spec.Task.Builtin, j.Spec.Budget, j.State.Lost = false, kernel.Budget{}, 0
		}), kernel.WorkerLost},
	} {
		t.Run(name, func(t *testing.T) {
			j := end(t, test.job, test.class)
			if st := j.State; st.Status != kernel.WaitingOnApproval || !strings.Contains(st.Wait.Detail, "who knows") || st.Lost != 0 {
				t.Fatalf("%s, %q, lost %d", st.Status, st.Wait.Detail, st.Lost)
			}
			s := kernel.NewSnapshot(kernel.Observation{Now: t0.Add(time.Hour), Jobs: []kernel.Job{j}})
			yes, err := kernel.Approve(s, "a", kernel.Consent{By: "ann"})
			if err != nil {
				t.Fatal(err)
			}
			s2 := s.Apply(yes)
			if st := s2.Apply(kernel.Decide(s2)).Job("a").State; st.Status != kernel.Running || st.Attempt != 3 {
				t.Errorf("approved: %s, attempt %d", st.Status, st.Attempt)
			}
			no, err := kernel.Reject(s, "a", kernel.Refusal{By: "ann", Reason: "no"})
			if err != nil {
				t.Fatal(err)
			}
			s = s.Apply(no)
			if st := s.Job("a").State; st.Status != kernel.BlockedByApproval {
				t.Errorf("rejected: %s", st.Status)
			}
			e, err := kernel.Explain(s, "a")
			if err != nil || len(e.Actions) != 1 || e.Actions[0] != (kernel.Remedy{Kind: kernel.RetryJob, Job: "a"}) {
				t.Errorf("what would start it: %+v, %v", e.Actions, err)
			}
			again, err := kernel.Retry(s, "a", "ann")
			if err != nil {
				t.Fatal(err)
			}
			if st := s.Apply(again).Job("a").State; st.Approval != (kernel.Approval{}) || st.Status != kernel.Queued {
				t.Errorf("rewound: %s with approval %+v: the job itself asks for none", st.Status, st.Approval)
			}
		})
	}
	t.Run("a node with an approval of its own keeps it, and who may not give it", func(t *testing.T) {
		j := end(t, node(kernel.AskInDoubt, approval(kernel.Approved, ""), func(j *kernel.Job) {
			j.State.Approval.RequestedBy, j.State.Approval.Submitter = "bob", "ann"
		}), kernel.EffectInDoubt)
		if a := j.State.Approval; a.State != kernel.Pending || a.InDoubt || a.RequestedBy != "bob" || a.Submitter != "ann" {
			t.Errorf("approval %+v", a)
		}
	})
	t.Run("a reclaim is of a lost attempt", func(t *testing.T) {
		j := end(t, node(kernel.FailInDoubt, func(j *kernel.Job) { j.State.Spent, j.State.Lost = kernel.Budget{}, 0 }), kernel.WorkerLost)
		if st := j.State; st.Status != kernel.Running || st.Lost != 2 {
			t.Errorf("%s, lost %d", st.Status, st.Lost)
		}
	})
}
