package kernel

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"
)

// AgentRun holds what an agent's program reported about one run of it. A field
// is zero if the program did not report it.
type AgentRun struct {
	Agent   string // its name in the configuration
	Version string // version of its program
	Model   string
	Session string // the program's id of this conversation, by which it can be continued
	Turns   int    // answers of the model
	Usage   Usage
	Resets  time.Time // when the rate limit that ended the run is lifted
	Denied  []string  // actions that were denied to it, without duplicates
}

// Then combines r with next, a later run in the same attempt. Turns and usage
// are added up and denials are merged; everything else is next's.
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
	Dir     string // working directory; absolute
	Prompt  []byte
	Session string // the conversation to continue; "": start a new one
	Limit   int    // number of bytes of the answer to keep; a longer answer is cut to Limit+1 bytes

	// Began is called with what is known of the run as soon as it has a
	// session, and again when that changes. It may be nil.
	Began func(AgentRun)
}

// AgentAnswer is how an agent ended.
type AgentAnswer struct {
	Text   []byte
	Exit   int          // 0: it answered; 128 plus the signal's number if a signal ended it
	Class  FailureClass // NoFailure if it answered
	Reason string       // one line a person can act on; empty if it answered
	Run    AgentRun
}

// Usage counts what runs of agents used. Cached is the part of Input that was
// read from the provider's cache.
type Usage struct {
	Input, Cached, Output int64   // tokens
	CostUSD               float64 // US dollars, as far as the programs report them
}

// Plus returns the sum of u and v. Each sum is capped at the largest number of its
// type: JSON cannot express infinity, and a record may hold whatever an agent told an
// earlier version.
func (u Usage) Plus(v Usage) Usage {
	return Usage{sum(u.Input, v.Input), sum(u.Cached, v.Cached), sum(u.Output, v.Output), min(u.CostUSD+v.CostUSD, math.MaxFloat64)}
}

// sum returns a+b, or the largest number if that is larger.
func sum(a, b int64) int64 {
	if a > 0 && b > math.MaxInt64-a {
		return math.MaxInt64
	}
	return a + b
}

// AgentState sums up what the agents of a job's attempts reported. A rewind
// keeps it, since what was used stays used.
type AgentState struct {
	Last  AgentRun // the run of the latest attempt that asked an agent
	Runs  int      // number of attempts that asked one
	Turns int      // of all runs
	Total Usage    // of all runs
}

// with returns a with the run of a further attempt added. a may be nil.
func (a *AgentState) with(r AgentRun) *AgentState {
	next := AgentState{Last: r, Runs: 1, Turns: r.Turns, Total: r.Usage}
	if a != nil {
		next.Runs, next.Turns, next.Total = next.Runs+a.Runs, next.Turns+a.Turns, next.Total.Plus(a.Total)
	}
	return &next
}

// withoutSession returns a without the session, so that the next attempt starts a
// new conversation.
func (a *AgentState) withoutSession() *AgentState {
	if a == nil {
		return nil
	}
	next := *a
	next.Last.Session = ""
	return &next
}

// Session returns the conversation that the job's next attempt continues, and
// the agent that it belongs to. Both are "" if the attempt starts a new one.
func (j *Job) Session() (agent, session string) {
	if a := j.State.Agent; j.Spec.KeepSession && a != nil && a.Last.Session != "" {
		return a.Last.Agent, a.Last.Session
	}
	return "", ""
}

// afterLimit returns when a job is tried again after r: at, or, if its agent
// ran into a rate limit that is lifted later, that time.
func afterLimit(at time.Time, r Result) time.Time {
	if r.Class == RateLimited && r.Agent != nil && r.Agent.Resets.After(at) {
		return r.Agent.Resets
	}
	return at
}

// awaitsLimit reports whether j is tried again when the rate limit of its agent is lifted.
func (j *Job) awaitsLimit() bool {
	a := j.State.Agent
	return j.State.Failure == RateLimited && a != nil && !a.Last.Resets.Before(j.State.RetryAt)
}

// WhyEnded returns why j ended, including when a rate limit of its agent is
// lifted.
func (j *Job) WhyEnded(now time.Time) string {
	st := &j.State
	why := cmp.Or(st.Reason, st.Wait.Detail, st.Failure.String(), st.Status.String())
	if slices.Contains([]FailureClass{RateLimited, Unauthorized, Overloaded}, st.Failure) {
		why = st.Failure.String() + ": " + why
	}
	if at := j.limitEnds(now); !at.IsZero() {
		why += "; the limit is over at " + at.UTC().Format(time.RFC3339) + ", in " + Brief(at.Sub(now))
	}
	return why
}

// limitEnds returns when the rate limit that ended j's latest attempt is
// lifted, or zero if that is unknown or past.
func (j *Job) limitEnds(now time.Time) time.Time {
	a := j.State.Agent
	if j.State.Failure != RateLimited || a == nil || !a.Last.Resets.After(now) {
		return time.Time{}
	}
	return a.Last.Resets
}

// agentRemedy returns what a person has to do, or to wait for, before j's agent
// is asked again, or "" if there is nothing.
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

// Brief formats d in its two largest units: 41s, 6m12s, 2h5m, 3d4h.
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
	return cmp.Or(text, "0s")
}
