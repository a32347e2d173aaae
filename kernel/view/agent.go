package view

import (
	"fmt"
	"strings"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Agent is what the agent of an attempt reported. Fields that it did not report
// are null.
type Agent struct {
	Agent    *string  `json:"agent"`
	Version  *string  `json:"version"`
	Model    *string  `json:"model"`
	Session  *string  `json:"session"`
	Turns    int      `json:"turns"`
	Usage    Usage    `json:"usage"`
	ResetsAt *string  `json:"resets_at"`
	Denied   []string `json:"denied"`
}

// Usage is what agents used: tokens (Input includes the cached ones) and US
// dollars, as far as agents report them.
type Usage struct {
	Input   int64   `json:"input_tokens"`
	Cached  int64   `json:"cached_tokens"`
	Output  int64   `json:"output_tokens"`
	CostUSD float64 `json:"cost_usd"`
}

// AgentTotal is the sum over the attempts that ran an agent.
type AgentTotal struct {
	Runs  int   `json:"runs"` // attempts
	Turns int   `json:"turns"`
	Usage Usage `json:"usage"`
}

// TotalOf returns what the agents of jobs used, or nil if no job ran an agent.
func TotalOf(jobs []*kernel.Job) *AgentTotal {
	var sum kernel.AgentState
	for _, j := range jobs {
		if a := j.State.Agent; a != nil {
			sum.Runs, sum.Turns, sum.Total = sum.Runs+a.Runs, sum.Turns+a.Turns, sum.Total.Plus(a.Total)
		}
	}
	return total(&sum)
}

func total(a *kernel.AgentState) *AgentTotal {
	if a == nil || a.Runs == 0 {
		return nil
	}
	return &AgentTotal{a.Runs, a.Turns, Usage(a.Total)}
}

// String returns the sum on one line, for people, or "" if no agent reported
// anything.
func (t *AgentTotal) String() string {
	if t == nil || t.Turns == 0 && t.Usage == (Usage{}) {
		return ""
	}
	var parts []string
	if u := t.Usage; u.Input != 0 || u.Output != 0 {
		in := count(int(u.Input)) + " tokens in"
		if u.Cached != 0 {
			in += " (" + count(int(u.Cached)) + " cached)"
		}
		parts = append(parts, in, count(int(u.Output))+" out")
	}
	if t.Usage.CostUSD != 0 {
		parts = append(parts, dollars(t.Usage.CostUSD))
	}
	for _, p := range []struct {
		n    int
		what string
	}{{t.Turns, "turn"}, {t.Runs, "run"}} {
		switch {
		case p.n == 1:
			parts = append(parts, "1 "+p.what)
		case p.n > 1:
			parts = append(parts, count(p.n)+" "+p.what+"s")
		}
	}
	return strings.Join(parts, ", ")
}

// dollars formats an amount with as many digits as are significant.
func dollars(usd float64) string {
	if usd < 0.1 {
		return fmt.Sprintf("$%.4f", usd)
	}
	return fmt.Sprintf("$%.2f", usd)
}

func agentOf(r *kernel.AgentRun) *Agent {
	if r == nil {
		return nil
	}
	return &Agent{nullable(r.Agent), nullable(r.Version), nullable(r.Model), nullable(r.Session), r.Turns, Usage(r.Usage), moment(r.Resets), orEmpty(r.Denied)}
}

// lastAgent returns what the job's latest agent reported, or nil if none did.
func lastAgent(j *kernel.Job) *kernel.AgentRun {
	if j.State.Agent == nil {
		return nil
	}
	return &j.State.Agent.Last
}

// agentText turns a text of an agent's run into a text of a record: "" for a
// job without one.
func agentText(text func(*kernel.AgentRun) string) func(record) string {
	return func(r record) string {
		if a := lastAgent(r.Job); a != nil {
			return text(a)
		}
		return ""
	}
}

func agentName(a *kernel.AgentRun) string { return strings.TrimSpace(a.Agent + " " + a.Version) }

func usage(r record) string { return total(r.State.Agent).String() }

// Attempt is one execution of a job, by docs/schemas/jobs_raw.schema.json.
type Attempt struct {
	Attempt      int      `json:"attempt"`
	Status       string   `json:"status"` // running, lost or an outcome
	StartedAt    *string  `json:"started_at"`
	FinishedAt   *string  `json:"finished_at"`
	Seconds      *float64 `json:"seconds"`
	Host         *string  `json:"host"`
	PID          *int     `json:"pid"`
	ExitCode     *int     `json:"exit_code"`
	FailureClass *string  `json:"failure_class"`
	Reason       *string  `json:"reason"`
	Agent        *Agent   `json:"agent"`
	Sandbox      *string  `json:"sandbox"`           // what was enforced of it
	CPU          *float64 `json:"cpu_seconds"`       // of all processors
	Memory       *int64   `json:"peak_memory_bytes"` // of the largest of its processes

	took time.Duration
	used kernel.Used
}

// attempts returns the executions of a job: the earlier ones from known, which
// holds their ends, and the latest from the job's own record.
func attempts(j *kernel.Job, known []kernel.Result) []Attempt {
	st := &j.State
	out := make([]Attempt, 0, len(known))
	latest := kernel.Result{Attempt: j.Attempt(), Outcome: st.Outcome, Exit: st.Exit.Code, Class: st.Failure, Reason: st.Reason,
		Place: st.Place, Started: st.Started, Ended: st.Finished}
	found := false
	for _, r := range known {
		switch {
		case r.Attempt.N != st.Attempt || st.Started.IsZero(): // the record is about a later attempt, or no longer about any
			out = append(out, attempt(r))
			continue
		case st.Status == kernel.Running:
			latest.Place = r.Place
		}
		latest.Agent, found = r.Agent, true
		out = append(out, attempt(latest))
	}
	if !found && st.Attempt > 0 && !st.Started.IsZero() {
		out = append(out, attempt(latest))
	}
	if n := len(out); n > 0 && out[n-1].Attempt == st.Attempt && st.Status == kernel.Running {
		out[n-1].Status = kernel.Running.String()
	}
	return out
}

func attempt(r kernel.Result) Attempt {
	a := Attempt{Attempt: r.Attempt.N, Status: r.Outcome.String(), StartedAt: moment(r.Started), FinishedAt: moment(r.Ended),
		Host: nullable(r.Place.Host), FailureClass: nullable(r.Class.String()), Reason: nullable(line(r.Reason)), Agent: agentOf(r.Agent), Sandbox: nullable(r.Place.Sandbox)}
	if r.Place.PID != 0 {
		a.PID = &r.Place.PID
	}
	if a.used = r.Place.Used; a.used != (kernel.Used{}) {
		s := a.used.CPU.Seconds()
		a.CPU, a.Memory = &s, &a.used.Memory
	}
	if r.Outcome == kernel.NoOutcome {
		a.Status = "lost"
		return a
	}
	a.ExitCode = &r.Exit
	if !r.Started.IsZero() && !r.Ended.Before(r.Started) {
		a.took = r.Ended.Sub(r.Started)
		s := a.took.Seconds()
		a.Seconds = &s
	}
	return a
}

// String returns the attempt in a few words, for people.
func (a Attempt) String() string {
	text := fmt.Sprintf("%d %s", a.Attempt, a.Status)
	if a.ExitCode != nil && a.FailureClass != nil && *a.FailureClass != kernel.ExitFailure.String() {
		text += " (" + *a.FailureClass + ")"
	}
	if a.ExitCode != nil && *a.ExitCode != 0 {
		text += fmt.Sprintf(" exit %d", *a.ExitCode)
	}
	if a.StartedAt != nil {
		text += " at " + *a.StartedAt
	}
	if a.Seconds != nil {
		text += " for " + kernel.Brief(a.took)
	}
	if a.Host != nil {
		text += " on " + *a.Host
	}
	if a.CPU != nil {
		text += ", CPU " + processorTime(a.used) + ", memory " + memory(a.used)
	}
	if a.Sandbox != nil {
		text += ", kept to: " + *a.Sandbox
	}
	return text
}

// took returns how long the latest ended attempt ran.
func took(r record) string {
	st := r.State
	if st.Started.IsZero() || st.Finished.Before(st.Started) {
		return ""
	}
	return kernel.Brief(st.Finished.Sub(st.Started))
}

// processorTime returns the processor time that an attempt used, or "" if it is
// not known.
func processorTime(u kernel.Used) string {
	switch {
	case u == kernel.Used{}:
		return ""
	case u.CPU < time.Minute:
		return fmt.Sprintf("%.1fs", u.CPU.Seconds())
	default:
		return kernel.Brief(u.CPU)
	}
}

// memory returns the peak memory of an attempt, in the units in which jobs ask
// a cluster for it, or "" if it is not known.
func memory(u kernel.Used) string {
	const mega, giga = 1 << 20, 1 << 30
	switch {
	case u.Memory == 0:
		return ""
	case u.Memory < giga:
		return fmt.Sprintf("%dM", (u.Memory+mega-1)/mega)
	default:
		return fmt.Sprintf("%.1fG", float64(u.Memory)/giga)
	}
}
