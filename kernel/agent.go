package kernel

import "time"

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
