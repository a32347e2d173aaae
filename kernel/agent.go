package kernel

import (
	"slices"
	"time"
)

// AgentRun is what an agent's program told of one run of it. What it did not
// tell is zero.
type AgentRun struct {
	Agent   string // the name it is configured by
	Version string // of its program
	Model   string
	Session string // by which the program goes on with this conversation
	Turns   int    // answers of the model
	Usage   Usage
	Resets  time.Time // when the limit that ended it is over
	Denied  []string  // what it wanted to do and was not allowed to, each once
}

// Then is r and next, a later run in the same attempt, as one: what each used
// is added up, and what else next told replaces what r did.
func (r AgentRun) Then(next AgentRun) AgentRun {
	next.Turns += r.Turns
	next.Usage = r.Usage.Plus(next.Usage)
	denied := slices.Clone(r.Denied)
	for _, d := range next.Denied {
		if !slices.Contains(denied, d) {
			denied = append(denied, d)
		}
	}
	next.Denied = denied
	return next
}

// AgentRequest is what a job asks of an agent.
type AgentRequest struct {
	Job     *Job
	Dir     string // where it works; absolute
	Prompt  []byte
	Session string // the conversation to go on with; "": a new one
	Limit   int    // bytes of the answer that are kept, and one more where there is more
}

// AgentAnswer is how an agent ended.
type AgentAnswer struct {
	Text   []byte
	Exit   int          // 0: it answered; a death by signal is 128 and its number
	Class  FailureClass // NoFailure where it answered
	Reason string       // one line a person can act on; empty where it answered
	Run    AgentRun
}

// Usage is what runs of agents used. Of the input, Cached tokens were read
// from the provider's cache.
type Usage struct {
	Input, Cached, Output int64   // tokens
	CostUSD               float64 // US dollars, as far as the programs tell
}

// Plus is both usages together.
func (u Usage) Plus(v Usage) Usage {
	return Usage{u.Input + v.Input, u.Cached + v.Cached, u.Output + v.Output, u.CostUSD + v.CostUSD}
}

// AgentState is what the agents of a job's attempts told. A rewind keeps it:
// what was used stays used.
type AgentState struct {
	Last  AgentRun // of the latest attempt that asked one
	Runs  int      // attempts that did
	Turns int      // of all of them
	Total Usage    // of all of them
}

// with is a and the run of a further attempt. A nil a is none so far.
func (a *AgentState) with(r AgentRun) *AgentState {
	next := AgentState{Last: r, Runs: 1, Turns: r.Turns, Total: r.Usage}
	if a != nil {
		next.Runs, next.Turns, next.Total = next.Runs+a.Runs, next.Turns+a.Turns, next.Total.Plus(a.Total)
	}
	return &next
}

// forgetful is a without a conversation to go on with.
func (a *AgentState) forgetful() *AgentState {
	if a == nil {
		return nil
	}
	next := *a
	next.Last.Session = ""
	return &next
}

// Session is the conversation that the job's next attempt goes on with, and the
// agent that knows it; "" where it begins one.
func (j *Job) Session() (agent, session string) {
	if a := j.State.Agent; j.Spec.KeepSession && a != nil && a.Last.Session != "" {
		return a.Last.Agent, a.Last.Session
	}
	return "", ""
}

// afterLimit is when a job whose agent ran into a limit is tried again: not
// before the limit is over, and no sooner than at.
func afterLimit(at time.Time, r Result) time.Time {
	if r.Class == RateLimited && r.Agent != nil && r.Agent.Resets.After(at) {
		return r.Agent.Resets
	}
	return at
}
