package kernel_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

const key = "key"

// entry is an effect as attempt n left it.
func entry(n int, s kernel.EffectState, o kernel.Outcome) *kernel.Effect {
	return &kernel.Effect{Key: key, Job: "a", Attempt: n, State: s, Result: kernel.Result{Outcome: o}}
}

// The order of systems-and-unification 4.6: what is on record comes first, then
// the world, then the policy.
func TestRecoveryOfAnEffect(t *testing.T) {
	const (
		yes = kernel.OutcomeSucceeded
		no  = kernel.OutcomeFailed
	)
	all := []kernel.Finding{kernel.Undecidable, kernel.Made, kernel.NotMade}
	tests := map[string]struct {
		attempt, lost, round int
		policy               kernel.InDoubt
		idempotent           bool
		on                   *kernel.Effect
		first                kernel.Recovery
		settled              [3]kernel.Recovery // by finding; where the first verdict is Reconcile
	}{
		"nothing, first attempt":            {attempt: 1, first: kernel.Execute},
		"nothing, later attempt":            {attempt: 2, first: kernel.Reconcile, settled: [3]kernel.Recovery{kernel.Execute, kernel.CatchUp, kernel.Execute}},
		"nothing, later attempt, lost":      {attempt: 2, lost: 1, first: kernel.Reconcile, settled: [3]kernel.Recovery{kernel.Execute, kernel.CatchUp, kernel.Execute}},
		"committed":                         {attempt: 2, on: entry(1, kernel.Committed, yes), first: kernel.CatchUp},
		"applied, lost":                     {attempt: 2, lost: 1, on: entry(1, kernel.Applied, yes), first: kernel.CatchUp},
		"applied, then the attempt failed":  {attempt: 2, on: entry(1, kernel.Applied, yes), first: kernel.CatchUp},
		"failed, lost":                      {attempt: 2, lost: 1, on: entry(1, kernel.Applied, no), first: kernel.CatchUp},
		"failed, and tried again":           {attempt: 2, round: 1, on: entry(1, kernel.Applied, no), first: kernel.Reconcile, settled: [3]kernel.Recovery{kernel.Execute, kernel.CatchUp, kernel.Execute}},
		"failed, tried again, and lost":     {attempt: 3, lost: 2, round: 1, on: entry(1, kernel.Applied, no), first: kernel.Reconcile, settled: [3]kernel.Recovery{kernel.Execute, kernel.CatchUp, kernel.Execute}},
		"intent, lost":                      {attempt: 2, lost: 1, on: entry(1, kernel.Intended, 0), first: kernel.Reconcile, settled: [3]kernel.Recovery{kernel.StillInDoubt, kernel.CatchUp, kernel.Execute}},
		"intent, lost, ask":                 {attempt: 2, lost: 1, policy: kernel.AskInDoubt, on: entry(1, kernel.Intended, 0), first: kernel.Reconcile, settled: [3]kernel.Recovery{kernel.StillInDoubt, kernel.CatchUp, kernel.Execute}},
		"intent, lost, rerun":               {attempt: 2, lost: 1, policy: kernel.RerunInDoubt, on: entry(1, kernel.Intended, 0), first: kernel.Reconcile, settled: [3]kernel.Recovery{kernel.Execute, kernel.CatchUp, kernel.Execute}},
		"intent, lost, idempotent":          {attempt: 2, lost: 1, idempotent: true, on: entry(1, kernel.Intended, 0), first: kernel.Reconcile, settled: [3]kernel.Recovery{kernel.Execute, kernel.CatchUp, kernel.Execute}},
		"intent, the attempt after it lost": {attempt: 3, lost: 2, on: entry(1, kernel.Intended, 0), first: kernel.Reconcile, settled: [3]kernel.Recovery{kernel.StillInDoubt, kernel.CatchUp, kernel.Execute}},
		"intent, then an exit or a timeout": {attempt: 2, on: entry(1, kernel.Intended, 0), first: kernel.Reconcile, settled: [3]kernel.Recovery{kernel.Execute, kernel.CatchUp, kernel.Execute}},
		"intent of after the loss":          {attempt: 3, lost: 1, on: entry(2, kernel.Intended, 0), first: kernel.Reconcile, settled: [3]kernel.Recovery{kernel.Execute, kernel.CatchUp, kernel.Execute}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			j := job("a", running(test.attempt), func(j *kernel.Job) {
				j.State.Lost, j.Spec.InDoubt, j.Spec.Idempotent = test.lost, test.policy, test.idempotent
				j.State.Spent = kernel.Budget{Retries: test.round, Reclaims: 7}
			})
			got, err := j.Recover(test.on)
			if err != nil || got != test.first {
				t.Fatalf("first %v, %v; want %v", got, err, test.first)
			}
			if got != kernel.Reconcile {
				return
			}
			for i, f := range all {
				if got := j.Resolve(test.on, f); got != test.settled[i] {
					t.Errorf("finding %d: %v, want %v", f, got, test.settled[i])
				}
			}
		})
	}
	for _, n := range []int{2, 3} {
		j := job("a", running(2))
		if _, err := j.Recover(entry(n, kernel.Intended, 0)); !errors.Is(err, kernel.ErrStale) {
			t.Errorf("attempt 2 over an effect of attempt %d: %v", n, err)
		}
	}
}

// I6: an effect has one owner at a time, and none without a result is applied.
func TestWhatMayFollowOnAnEffect(t *testing.T) {
	const ok = kernel.OutcomeSucceeded
	tests := []struct {
		name     string
		old, new *kernel.Effect
		err      error
	}{
		{"the first intent", nil, entry(1, kernel.Intended, 0), nil},
		{"found made, nothing on record", nil, entry(2, kernel.Applied, ok), nil},
		{"applied", entry(1, kernel.Intended, 0), entry(1, kernel.Applied, ok), nil},
		{"applied with another result", entry(1, kernel.Applied, ok), entry(1, kernel.Applied, kernel.OutcomeFailed), nil},
		{"taken over", entry(1, kernel.Intended, 0), entry(2, kernel.Intended, 0), nil},
		{"executed again", entry(1, kernel.Applied, kernel.OutcomeFailed), entry(2, kernel.Intended, 0), nil},
		{"intended twice", entry(1, kernel.Intended, 0), entry(1, kernel.Intended, 0), kernel.ErrStale},
		{"taken back", entry(2, kernel.Intended, 0), entry(1, kernel.Intended, 0), kernel.ErrStale},
		{"applied by one that lost it", entry(2, kernel.Intended, 0), entry(1, kernel.Applied, ok), kernel.ErrStale},
		{"after it was committed", entry(1, kernel.Committed, ok), entry(2, kernel.Intended, 0), kernel.ErrStale},
		{"applied without a result", entry(1, kernel.Intended, 0), entry(1, kernel.Applied, 0), kernel.ErrInvalid},
		{"committed without a result", entry(1, kernel.Applied, ok), entry(1, kernel.Committed, 0), kernel.ErrInvalid},
	}
	for _, test := range tests {
		if err := test.new.Follow(test.old); !errors.Is(err, test.err) {
			t.Errorf("%s: %v, want %v", test.name, err, test.err)
		}
	}
}

func TestWhenAnEffectIsCommitted(t *testing.T) {
	e := entry(1, kernel.Applied, kernel.OutcomeSucceeded)
	tests := []struct {
		name  string
		state kernel.State
		want  kernel.EffectState
	}{
		{"its attempt runs", kernel.State{Status: kernel.Running, Attempt: 1}, kernel.Applied},
		{"its attempt succeeded", kernel.State{Status: kernel.Succeeded, Attempt: 1, Exit: kernel.Exited(0)}, kernel.Committed},
		{"its attempt failed later on", kernel.State{Status: kernel.Failed, Attempt: 1, Exit: kernel.Exited(1), Failure: kernel.ExitFailure}, kernel.Committed},
		{"its attempt was lost", kernel.State{Status: kernel.Failed, Attempt: 1, Exit: kernel.Exited(1), Failure: kernel.WorkerLost}, kernel.Applied},
		{"a reclaim runs", kernel.State{Status: kernel.Running, Attempt: 2, Lost: 1}, kernel.Applied},
		{"a reclaim was refused", kernel.State{Status: kernel.Queued, Attempt: 2, Lost: 1, Failure: kernel.LaunchFailure}, kernel.Applied},
		{"a reclaim took its result", kernel.State{Status: kernel.Succeeded, Attempt: 2, Lost: 1, Exit: kernel.Exited(0)}, kernel.Committed},
		{"a retry runs", kernel.State{Status: kernel.Running, Attempt: 2}, kernel.Committed},
		{"a rewind", kernel.State{Status: kernel.Succeeded, Attempt: 2, Generation: 1, Exit: kernel.Exited(0)}, kernel.Applied},
	}
	for _, test := range tests {
		j := kernel.Job{ID: "a", State: test.state}
		if got := j.EffectState(e); got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
	j := kernel.Job{State: tests[1].state}
	if got := j.EffectState(entry(1, kernel.Intended, 0)); got != kernel.Intended {
		t.Errorf("an intent of an attempt that succeeded: %s", got)
	}
}

// What a doubt comes to: it fails the job, or a policy or a person goes on.
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
			no, err := kernel.Reject(s, "a", "ann", "no")
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
	t.Run("a node with an approval of its own keeps it", func(t *testing.T) {
		j := end(t, node(kernel.AskInDoubt, approval(kernel.Approved, "")), kernel.EffectInDoubt)
		if a := j.State.Approval; a.State != kernel.Pending || a.InDoubt {
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
