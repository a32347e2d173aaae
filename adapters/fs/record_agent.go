package fs

import "github.com/vizier-scheduler/vizier/kernel"

// agentRecord is what the agent of an attempt reported.
type agentRecord struct {
	Agent   string       `json:"agent,omitempty"`
	Version string       `json:"version,omitempty"`
	Model   string       `json:"model,omitempty"`
	Session string       `json:"session,omitempty"`
	Turns   int          `json:"turns,omitempty"`
	Usage   *usageRecord `json:"usage,omitempty"`
	Resets  *stamp       `json:"resets_at,omitempty"`
	Denied  []string     `json:"denied,omitempty"`
}

// usageRecord is what agents used: tokens, and US dollars.
type usageRecord struct {
	Input   int64   `json:"input_tokens,omitempty"`
	Cached  int64   `json:"cached_tokens,omitempty"`
	Output  int64   `json:"output_tokens,omitempty"`
	CostUSD float64 `json:"cost_usd,omitempty"`
}

// agentTotal is the sum over the attempts of a job that asked an agent.
type agentTotal struct {
	Runs  int          `json:"runs"`
	Turns int          `json:"turns,omitempty"`
	Usage *usageRecord `json:"usage,omitempty"`
}

func newUsage(u kernel.Usage) *usageRecord {
	if u == (kernel.Usage{}) {
		return nil
	}
	r := usageRecord(u)
	return &r
}

func (u *usageRecord) usage() kernel.Usage {
	if u == nil {
		return kernel.Usage{}
	}
	return kernel.Usage(*u)
}

func newAgentRun(r *kernel.AgentRun) *agentRecord {
	if r == nil {
		return nil
	}
	return &agentRecord{r.Agent, r.Version, r.Model, r.Session, r.Turns, newUsage(r.Usage), optionalStamp(r.Resets), r.Denied}
}

func (a *agentRecord) run() *kernel.AgentRun {
	if a == nil {
		return nil
	}
	return &kernel.AgentRun{Agent: a.Agent, Version: a.Version, Model: a.Model, Session: a.Session, Turns: a.Turns, Usage: a.Usage.usage(),
		Resets: stampValue(a.Resets), Denied: bare(a.Denied)}
}

// agents adds to the record what the agents of the job's attempts reported.
func (r *record) agents(a *kernel.AgentState) {
	if a == nil {
		return
	}
	r.Agent = newAgentRun(&a.Last)
	r.AgentTotal = &agentTotal{a.Runs, a.Turns, newUsage(a.Total)}
}

// agentState returns what r has about the agents of the job's attempts; nil: nothing.
func (r *record) agentState() *kernel.AgentState {
	if r.Agent == nil && r.AgentTotal == nil {
		return nil
	}
	var a kernel.AgentState
	if last := r.Agent.run(); last != nil {
		a.Last = *last
	}
	if t := r.AgentTotal; t != nil {
		a.Runs, a.Turns, a.Total = t.Runs, t.Turns, t.Usage.usage()
	}
	return &a
}
