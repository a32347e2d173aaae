package fs

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Each attempt keeps its own end, whatever comes after it, even a rewind: one that its
// runner recorded, one whose runner vanished, and one that was cancelled.
func TestEveryAttemptKeepsItsEnd(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, dir)
	j := plain(1)
	commit(t, s, kernel.Create(j))
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

// What an agent reported before its attempt was lost is found, if the job is a workflow
// node and the report is of this attempt.
func TestWhatALostAttemptsAgentToldIsSeen(t *testing.T) {
	run := kernel.AgentRun{Agent: "claude", Session: "s"}
	told := func(attempt string) string {
		b, err := json.Marshal(map[string]any{"attempt": attempt, "agent": run})
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	for name, c := range map[string]struct {
		builtin    bool
		text, want string
	}{
		"a node's":          {true, told(string(id(1)) + "/1"), "s"},
		"a command's":       {false, told(string(id(1)) + "/1"), ""},
		"another attempt's": {true, told(string(id(1)) + "/2"), ""},
		"torn":              {true, told(string(id(1)) + "/1")[:20], ""},
		"without an agent":  {true, `{"attempt": "` + string(id(1)) + `/1"}`, ""},
	} {
		dir := t.TempDir()
		s := newStore(t, dir)
		j := plain(1)
		j.Spec.Task.Builtin = c.builtin
		commit(t, s, kernel.Create(j))
		st := kernel.State{Status: kernel.Running, Attempt: 1, Started: t0}
		commit(t, s, kernel.PutState{Job: j.ID, If: j.Rev, State: st})
		j.State = st
		file := filepath.Join(dir, vizierDir, jobPath(j.ID, attemptsDir), "1.result.json")
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(c.text), 0o600),
			os.WriteFile(filepath.Join(filepath.Dir(file), "1.json"), []byte(`{"host":"h","pid":1}`), 0o600)); err != nil {
			t.Fatal(err)
		}
		f := kernel.NewFacts()
		s.Observe(t.Context(), kernel.Probes{Attempts: []kernel.AttemptID{j.Attempt()}}, &f)
		r, got := f.Results[j.Attempt()].Value, ""
		if r != nil && r.Agent != nil && r.Class == kernel.WorkerLost && r.Attempt == j.Attempt() {
			got = r.Agent.Session
		}
		if got != c.want || (r != nil) != (c.want != "") {
			t.Errorf("%s: %+v", name, r)
		}
		for _, settled := range []bool{false, true} { // by the process that takes it for lost
			if settled {
				if err := s.ConcludeOnce(kernel.Result{Attempt: j.Attempt(), Outcome: kernel.OutcomeFailed, Exit: 1, Class: kernel.WorkerLost, Ended: t0}); err != nil {
					t.Fatal(err)
				}
			}
			all, err := newStore(t, dir).Attempts(j.ID)
			if err != nil || len(all) != 1 || (all[0].Agent != nil) != (c.want != "") || settled != (all[0].Outcome != kernel.NoOutcome) {
				t.Errorf("%s: attempts %+v, %v", name, all, err)
			}
		}
	}
}
