package fs

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Each attempt keeps its own end, whatever came after it: one that its runner
// recorded, one whose runner vanished, one that was cancelled; a rewind changes
// nothing of that.
func TestEveryAttemptKeepsItsEnd(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, dir)
	j := plain(1)
	commit(t, s, kernel.CreateJob{Job: j})
	run := kernel.AgentRun{Agent: "claude", Session: "s", Usage: kernel.Usage{Input: 3, CostUSD: 0.25}}
	put := func(change func(*kernel.State)) {
		t.Helper()
		a := kernel.PutState{Job: j.ID, If: j.Rev, State: j.State}
		change(&a.State)
		commit(t, s, a)
		j.State, j.Rev = a.State, a.If+1
	}
	begin := func(n int) {
		put(func(st *kernel.State) {
			*st = kernel.State{Status: kernel.Running, Attempt: n, Started: t0.Add(time.Duration(n) * time.Hour), Agent: st.Agent}
		})
	}
	begin(1)
	first := kernel.Result{Attempt: j.Attempt(), Outcome: kernel.OutcomeFailed, Exit: 1, Class: kernel.RateLimited, Reason: "no more today", Agent: &run,
		Place: kernel.Place{Host: "h", PID: 7}, Started: j.State.Started, Ended: t0.Add(90 * time.Minute)}
	if err := s.Conclude(first); err != nil {
		t.Fatal(err)
	}
	put(func(st *kernel.State) {
		st.Status, st.Outcome, st.Failure, st.Exit = kernel.FailedRetryable, kernel.OutcomeFailed, kernel.RateLimited, kernel.Exited(1)
		st.Agent = &kernel.AgentState{Last: run, Runs: 1}
	})
	begin(2)
	claim := filepath.Join(dir, vizierDir, jobPath(j.ID, attemptsDir), "2.json")
	if err := os.WriteFile(claim, []byte("{\"host\":\"g\",\"pid\":1}\n{\"child\":{\"pid\":8}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	all := func() []kernel.Result {
		t.Helper()
		r, err := newStore(t, dir).Attempts(j.ID)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	if got := all(); len(got) != 2 || got[1].Outcome != kernel.NoOutcome || got[1].Place != (kernel.Place{Host: "g", PID: 8}) {
		t.Errorf("while the second runs: %+v", got)
	}
	put(func(st *kernel.State) {
		st.Status, st.Outcome, st.Failure, st.Exit, st.Finished = kernel.FailedRetryable, kernel.OutcomeFailed, kernel.WorkerLost, kernel.Exited(1), t0.Add(3*time.Hour)
	})
	begin(3)
	late := kernel.Result{Attempt: j.Attempt(), Outcome: kernel.OutcomeFailed, Exit: 143, Class: kernel.Signal, Ended: t0}
	if err := s.Conclude(late); err != nil {
		t.Fatal(err)
	}
	put(func(st *kernel.State) {
		st.Status, st.Outcome, st.Exit, st.Finished = kernel.Cancelled, kernel.OutcomeCancelled, kernel.Exited(143), t0.Add(4*time.Hour)
		st.Place = kernel.Place{Host: "h", PID: 9}
	})
	commit(t, s, kernel.Reset{Attempt: j.Attempt()})
	got := all()
	if len(got) != 3 {
		t.Fatalf("%d attempts: %+v", len(got), got)
	}
	if d := diff(first, got[0]); d != "" {
		t.Errorf("the first:\n%s", d)
	}
	if r := got[1]; r.Outcome != kernel.OutcomeFailed || r.Class != kernel.WorkerLost || !r.Started.Equal(t0.Add(2*time.Hour)) || !r.Ended.Equal(t0.Add(3*time.Hour)) || r.Agent != nil {
		t.Errorf("the second: %+v", r)
	}
	if r := got[2]; r.Outcome != kernel.OutcomeCancelled || r.Class != kernel.NoFailure || r.Exit != 143 || r.Place.PID != 9 || r.Attempt.N != 3 {
		t.Errorf("the third: %+v", r)
	}
	if r, err := s.Attempts(id(2)); err != nil || len(r) > 0 {
		t.Errorf("of a job without any: %+v, %v", r, err)
	}
}
