package kernel

import (
	"fmt"
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

	// Began hears what is known of the run as soon as it has a session, and
	// again if that changes; nil: nobody does.
	Began func(AgentRun)
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

// WhyEnded says why j ended as it did, with what its agent told of a limit.
func (j *Job) WhyEnded(now time.Time) string {
	st := &j.State
	why := orElse(st.Reason, orElse(st.Wait.Detail, orElse(st.Failure.String(), st.Status.String())))
	if slices.Contains([]FailureClass{RateLimited, Unauthorized, Overloaded}, st.Failure) {
		why = st.Failure.String() + ": " + why
	}
	if at := j.limitEnds(now); !at.IsZero() {
		why += "; the limit is over at " + at.UTC().Format(time.RFC3339) + ", in " + Brief(at.Sub(now))
	}
	return why
}

// limitEnds is when the limit is over that ended j's latest attempt, if that is
// known and still to come.
func (j *Job) limitEnds(now time.Time) time.Time {
	a := j.State.Agent
	if j.State.Failure != RateLimited || a == nil || !a.Last.Resets.After(now) {
		return time.Time{}
	}
	return a.Last.Resets
}

// agentRemedy is what a person has to do or to wait for before j's agent is
// asked again; "": nothing.
func (j *Job) agentRemedy(now time.Time) string {
	agent := "the agent"
	if a := j.State.Agent; a != nil && a.Last.Agent != "" {
		agent = "agent " + a.Last.Agent
	}
	switch at := j.limitEnds(now); {
	case j.State.Failure == Unauthorized:
		return "log " + agent + " in, or give it a key that its provider accepts"
	case !at.IsZero():
		return "wait until " + at.UTC().Format(time.RFC3339) + ", when the limit of " + agent + " is over"
	case j.State.Failure == RateLimited, j.State.Failure == Overloaded:
		return "wait until the provider of " + agent + " answers again"
	}
	return ""
}

// Brief is d as people say it, in the two largest of its units: 41s, 6m12s,
// 2h5m, 3d4h.
func Brief(d time.Duration) string {
	units := []struct {
		size time.Duration
		name string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "m"}, {time.Second, "s"}}
	text, parts := "", 0
	for _, u := range units {
		n := d / u.size
		if n > 0 {
			text += fmt.Sprintf("%d%s", n, u.name)
		}
		if d -= n * u.size; text != "" {
			parts++
		}
		if parts == 2 {
			break
		}
	}
	return orElse(text, "0s")
}
