package kernel

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
	"time"
)

// FailureClass says what kind of failure ended an attempt, so that a policy
// can name it. The zero value is no failure.
type FailureClass uint8

// The classes of systems-and-unification 4.2.
const (
	NoFailure      FailureClass = iota
	ExitFailure                 // the command exited with a code other than 0
	Timeout                     // its time limit ended it
	Signal                      // a signal ended it
	OutOfMemory                 // the system ended it for want of memory
	WorkerLost                  // its runner vanished without a result
	Preflight                   // something it needs before it starts was not there
	LaunchFailure               // it could not be started
	EffectInDoubt               // whether a side effect happened cannot be told
	MissingInput                // its prompt or another input vanished
	DataError                   // its own record makes no sense
	MissingOutput               // it ended well without what it declared
	RejectedByHost              // the executor refused it for good
	RateLimited                 // its agent's provider let it do no more for now
	Unauthorized                // its agent's provider did not accept its key or login
	Overloaded                  // its agent's provider could not answer
	Preempted                   // its cluster took the place away for another's job
)

var failureClassNames = NewNames[FailureClass]("failure class", "", "exit", "timeout", "signal", "oom", "worker_lost", "preflight",
	"launch", "effect_in_doubt", "missing_input", "data_error", "missing_outputs", "rejected",
	"rate_limited", "unauthorized", "overloaded", "preempted")

// failureClasses are all classes but NoFailure, in their order.
func failureClasses() []FailureClass { return failureClassNames.Values()[ExitFailure:] }

// Budget bounds each kind of "again" that happens by itself: N means at most N
// further executions of that kind in a generation.
type Budget struct{ Retries, Resumes, Reclaims int }

// RetryPolicy says which failures are tried again and when.
type RetryPolicy struct {
	Classes uint32 // bit set of FailureClass; see On
	Exits   ExitSet
	Base    time.Duration // first delay; 0: DefaultBackoffBase
	Cap     time.Duration // longest delay; 0: DefaultBackoffCap
}

// The delays of a policy that names none.
const (
	DefaultBackoffBase = 5 * time.Second
	DefaultBackoffCap  = 5 * time.Minute
)

// ExitSet is a set of exit codes 0–255.
type ExitSet [4]uint64

// With is the set and code; codes outside 0–255 change nothing.
func (s ExitSet) With(code int) ExitSet {
	if code >= 0 && code < 256 {
		s[code/64] |= 1 << (code % 64)
	}
	return s
}

// Has reports whether code is in the set.
func (s ExitSet) Has(code int) bool {
	return code >= 0 && code < 256 && s[code/64]&(1<<(code%64)) != 0
}

// On is p and class.
func (p RetryPolicy) On(c FailureClass) RetryPolicy {
	p.Classes |= 1 << c
	return p
}

// Named is p and what word names: a failure class, or an exit code.
func (p RetryPolicy) Named(word string) (RetryPolicy, error) {
	if code, err := strconv.Atoi(word); err == nil {
		if code < 1 || code > 255 {
			return p, fmt.Errorf("invalid exit code `%s`: it is from 1 to 255: %w", word, ErrInvalid)
		}
		p.Exits = p.Exits.With(code)
		return p, nil
	}
	class, err := ParseFailureClass(word)
	if err != nil {
		var names []string
		for _, c := range failureClasses() {
			names = append(names, c.String())
		}
		return p, fmt.Errorf("invalid failure class `%s`: it is an exit code or one of %s: %w", word, strings.Join(names, ", "), ErrInvalid)
	}
	return p.On(class), nil
}

// or is p and what q names besides. Delays are p's where it says any.
func (p RetryPolicy) or(q RetryPolicy) RetryPolicy {
	p.Classes |= q.Classes
	for i := range p.Exits {
		p.Exits[i] |= q.Exits[i]
	}
	p.Base, p.Cap = cmp.Or(p.Base, q.Base), cmp.Or(p.Cap, q.Cap)
	return p
}

// Covers reports whether an attempt that ended as c with exit code is tried
// again: its class is named, or its exit code is. Who preempts does it by signals.
func (p RetryPolicy) Covers(c FailureClass, exit int) bool {
	if c == Preempted && p.Classes&(1<<Signal) != 0 {
		return true
	}
	return p.Classes&(1<<c) != 0 || c == ExitFailure && p.Exits.Has(exit)
}

// Backoff is the delay before the k-th further execution, k from 0:
// min(cap, base·2^k), of which up to a quarter is taken off by a hash of the
// attempt, so that many jobs that failed together do not come back together.
func (p RetryPolicy) Backoff(a AttemptID, k int) time.Duration {
	base, limit := p.Base, p.Cap
	if base <= 0 {
		base = DefaultBackoffBase
	}
	if limit <= 0 {
		limit = DefaultBackoffCap
	}
	d := base
	for ; k > 0 && d < limit; k-- {
		d *= 2
	}
	d = min(d, limit)
	h := fnv.New32a()
	fmt.Fprintf(h, "%s/%d", a.Job, a.N)
	return d - time.Duration(uint64(d)/4*uint64(h.Sum32()>>16)>>16)
}

// Liveness is what is known of the runner of an attempt.
type Liveness uint8

// Unknown is the zero value: nobody asked, so nothing follows from it.
const (
	Unknown Liveness = iota
	Alive
	Dead
	Stalled      // not heard of for longer than it should be, yet not known to be gone: shown, never reclaimed
	NeverStarted // it never began, and nobody will begin it: nothing of the attempt was executed
)

// Runner is what an executor knows of the runner of an attempt.
type Runner struct {
	Liveness Liveness
	Heard    time.Time // when a stalled one was last heard of; zero: not known
	Remark   string    // the executor's own words for people, such as why a cluster lets it wait; may be empty

	// Pending says that the attempt was handed over and has not begun; Stuck, of a
	// pending one, that it will not unless somebody changes something.
	Pending, Stuck bool

	// Late says of a dead one that it was ended because the attempt's time limit
	// was long over and it had not seen to that.
	Late bool
}

// Gone reports that the attempt is over, whatever became of it.
func (r Runner) Gone() bool { return r.Liveness == Dead || r.Liveness == NeverStarted }

// Outcome is how a node ended; its routes and artifacts depend on it.
type Outcome uint8

// The outcomes of seed 000. The zero value is none.
const (
	NoOutcome Outcome = iota
	OutcomeSucceeded
	OutcomeFailed
	OutcomeBlocked
	OutcomeCancelled
)

var outcomeNames = NewNames[Outcome]("outcome", "", "succeeded", "failed", "blocked", "cancelled")

// Result is how one attempt ended, as its runner recorded it.
type Result struct {
	Attempt  AttemptID
	Outcome  Outcome
	Exit     int
	Class    FailureClass
	Reason   string     // one line a person can act on; may be empty
	Produced []Artifact // what exists because of this attempt
	Context  *Context   // the execution context it leaves; nil: the one it had; zero: none any more
	Agent    *AgentRun  // what its agent told; nil: it asked none
	Place    Place
	Started  time.Time
	Ended    time.Time

	// Applied says of an attempt that was cut off that its side effect is on
	// record as made: one that takes it over makes nothing.
	Applied bool

	// Submitted are jobs that the attempt wants enqueued. They are, all or none,
	// by the commit that settles its success; those of another end are dropped.
	Submitted []NewJob
}

// Place is where an attempt ran: the process of its command, the host, and what it
// used there.
type Place struct {
	Host string
	PID  int // 0: no process was started

	Sandbox string // what was enforced of the one that was asked for, in words; "": none was
	Used    Used
}

// Used is what the processes of an attempt used that its runner was told of: its
// command, what that waited for, and what it left running where the system gives
// such processes to the runner. The zero value is that nothing is known.
type Used struct {
	CPU    time.Duration // of all processors, in programs and in the system for them
	Memory int64         // bytes: the most that one process had in memory at once
}

// Plus is what is used where both are: processors' time adds up, and of the
// memory of single processes the larger counts.
func (u Used) Plus(v Used) Used { return Used{u.CPU + v.CPU, max(u.Memory, v.Memory)} }

// Fence refuses a write made under any attempt but the current one (seed 001).
// The store, the effect journal and Finish all ask it: there is one rule.
func (j *Job) Fence(a AttemptID) error {
	if a.Job != j.ID || a.N != j.State.Attempt || j.State.Status != Running {
		return fmt.Errorf("%s attempt %d, now attempt %d %s: %w", a.Job, a.N, j.State.Attempt, j.State.Status, ErrStale)
	}
	return nil
}
