package view_test

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/view"
)

func TestTotalOfAgents(t *testing.T) {
	t.Parallel()
	asked := func(a kernel.AgentState) *kernel.Job { return &kernel.Job{State: kernel.State{Agent: &a}} }
	for want, jobs := range map[string][]*kernel.Job{
		"":                          {{}, asked(kernel.AgentState{Runs: 1})},
		"1 turn, 1 run":             {asked(kernel.AgentState{Runs: 1, Turns: 1}), asked(kernel.AgentState{})},
		"2 turns, 1 run":            {asked(kernel.AgentState{Runs: 1, Turns: 2})},
		"5 tokens in, 0 out, 1 run": {asked(kernel.AgentState{Runs: 1, Total: kernel.Usage{Input: 5}})},
		"1,005 tokens in (7 cached), 6 out, $1.25, 3 turns, 3 runs": {
			asked(kernel.AgentState{Runs: 1, Turns: 1, Total: kernel.Usage{Input: 5, Output: 2, CostUSD: 1}}), {},
			asked(kernel.AgentState{Runs: 2, Turns: 2, Total: kernel.Usage{Input: 1000, Cached: 7, Output: 4, CostUSD: 0.25}})},
	} {
		if got := view.TotalOf(jobs).String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// Sums can be written as JSON, whatever earlier versions recorded.
func TestATotalHasAnEnd(t *testing.T) {
	most := kernel.Usage{Input: math.MaxInt64 - 1, Cached: 1, Output: math.MaxInt64, CostUSD: math.MaxFloat64}
	j := &kernel.Job{State: kernel.State{Agent: &kernel.AgentState{Runs: 1, Total: most}}}
	total := view.TotalOf([]*kernel.Job{j, j})
	if want := (view.Usage{Input: math.MaxInt64, Cached: 2, Output: math.MaxInt64, CostUSD: math.MaxFloat64}); total.Usage != want {
		t.Errorf("%+v", total.Usage)
	}
	if _, err := json.Marshal(total); err != nil {
		t.Error(err)
	}
}

// What attempts are shown: those on record, the latest as the job's record has
// it, and none that a rewind forgot as if it were under way.
func TestAttempts(t *testing.T) {
	t.Parallel()
	at := func(n int) kernel.AttemptID { return kernel.AttemptID{Job: "a", N: n} }
	ended := kernel.Result{Attempt: at(1), Outcome: kernel.OutcomeFailed, Exit: 3, Class: kernel.ExitFailure, Started: noon, Ended: noon.Add(26*time.Hour + 5*time.Second),
		Place: kernel.Place{Host: "h", PID: 4, Used: kernel.Used{CPU: 1540 * time.Millisecond, Memory: 3<<29 + 1}}, Agent: &kernel.AgentRun{Session: "s"}}
	for name, c := range map[string]struct {
		state kernel.State
		known []kernel.Result
		want  string
	}{
		"never ran":              {kernel.State{Status: kernel.Queued}, nil, ""},
		"a record alone":         {kernel.State{Status: kernel.Succeeded, Attempt: 1, Started: noon, Finished: noon.Add(time.Second), Outcome: kernel.OutcomeSucceeded, Exit: kernel.Exited(0)}, nil, "1 succeeded at 2026-02-01T12:00:00+00:00 for 1s"},
		"a first failure":        {kernel.State{Status: kernel.Running, Attempt: 2, Started: noon}, []kernel.Result{ended, {Attempt: at(2), Place: kernel.Place{Host: "g", PID: 5}}}, "1 failed exit 3 at 2026-02-01T12:00:00+00:00 for 1d2h on h, CPU 1.5s, memory 1.5G | 2 running at 2026-02-01T12:00:00+00:00 on g"},
		"an end not yet seen to": {kernel.State{Status: kernel.Running, Attempt: 1, Started: noon}, []kernel.Result{{Attempt: at(1), Outcome: kernel.OutcomeFailed, Exit: 3, Class: kernel.ExitFailure, Place: kernel.Place{Host: "h", PID: 5}}}, "1 running at 2026-02-01T12:00:00+00:00 on h"},
		"little used":            {kernel.State{Status: kernel.Queued, Attempt: 1}, []kernel.Result{{Attempt: at(1), Outcome: kernel.OutcomeSucceeded, Place: kernel.Place{Used: kernel.Used{CPU: 61 * time.Second, Memory: 1}, Sandbox: "files"}}}, "1 succeeded, CPU 1m1s, memory 1M, kept to: files"},
		"a lost one":             {kernel.State{Status: kernel.Running, Attempt: 2, Started: noon}, []kernel.Result{{Attempt: at(1), Place: kernel.Place{Host: "h"}}}, "1 lost on h | 2 running at 2026-02-01T12:00:00+00:00"},
		"rewound":                {kernel.State{Status: kernel.Queued, Attempt: 1}, []kernel.Result{ended}, "1 failed exit 3 at 2026-02-01T12:00:00+00:00 for 1d2h on h, CPU 1.5s, memory 1.5G"},
		"cancelled since": {kernel.State{Status: kernel.Cancelled, Attempt: 1, Started: noon, Finished: noon.Add(time.Second), Outcome: kernel.OutcomeCancelled, Exit: kernel.Exited(143)},
			[]kernel.Result{ended}, "1 cancelled exit 143 at 2026-02-01T12:00:00+00:00 for 1s"},
	} {
		j := job("a", 0, c.state.Status, func(j *kernel.Job) { j.State = c.state })
		got := ""
		for _, line := range show(t, snap(j), "a", view.Paths{Attempts: c.known}) {
			if line[0] == "Attempts" {
				got = line[1]
			}
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
