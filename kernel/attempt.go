package kernel

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
	"time"
)

// FailureClass is the kind of failure that ended an attempt; retry policies
// name it. The zero value is no failure.
type FailureClass uint8

// The classes of systems-and-unification 4.2.
const (
	NoFailure      FailureClass = iota
	ExitFailure                 // the command exited with a code other than 0
	Timeout                     // its time limit ended it
	Signal                      // a signal ended it
	OutOfMemory                 // the system killed it because memory ran out
	WorkerLost                  // its runner vanished without a result
	Preflight                   // something it needs to start was missing
	LaunchFailure               // it could not be started
	EffectInDoubt               // nobody can tell whether a side effect happened
	MissingInput                // its prompt or another input vanished
	DataError                   // its record is invalid
	MissingOutput               // it succeeded without producing what it declared
	RejectedByHost              // the executor refused it for good
	RateLimited                 // its agent ran into the provider's rate limit
	Unauthorized                // its agent's provider rejected its key or login
	Overloaded                  // its agent's provider could not answer
	Preempted                   // its cluster took the place away for another job, or its runner was asked to end
)

// Resumes reports whether a resumable job is resumed, and not retried, after an attempt that ended as v.
func (v FailureClass) Resumes() bool { return v == Timeout || v == Preempted }

// Reclaims reports whether an attempt that ended as v was cut off and uses the budget of
// reclaims, which is given, and is not retried. If that is zero, a preempted attempt has
// failed like one that a signal ended.
func (v FailureClass) Reclaims(budget int) bool {
	return v == WorkerLost || v == Preempted && budget > 0
}

var failureClassNames = NewNames[FailureClass]("failure class", "", "exit", "timeout", "signal", "oom", "worker_lost", "preflight",
	"launch", "effect_in_doubt", "missing_input", "data_error", "missing_outputs", "rejected",
	"rate_limited", "unauthorized", "overloaded", "preempted")

// failureClasses returns all classes but NoFailure, in order.
func failureClasses() []FailureClass { return failureClassNames.Values()[ExitFailure:] }

// Budget bounds each kind of automatic "again": N means at most N further
// executions of that kind in one generation.
type Budget struct{ Retries, Resumes, Reclaims int }

// RetryPolicy selects the failures that are retried automatically, and the
// delays before that.
type RetryPolicy struct {
	Classes uint32 // bit set of FailureClass; see On
	Exits   ExitSet
	Base    time.Duration // first delay; 0: 5 s
	Cap     time.Duration // longest delay; 0: 5 min
}

// The delays of a policy that sets none.
const (
	defaultBackoffBase = 5 * time.Second
	defaultBackoffCap  = 5 * time.Minute
)

// ExitSet is a set of exit codes 0–255.
type ExitSet [4]uint64

// With returns the set with code added. It ignores codes outside 0–255.
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

// On returns p with class c added.
func (p RetryPolicy) On(c FailureClass) RetryPolicy {
	p.Classes |= 1 << c
	return p
}

// Named returns p with word added, which is a failure class or an exit code
// from 1 to 255.
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

// Names returns the failure classes and the exit codes that p names, the reverse of Named.
func (p RetryPolicy) Names() (classes []string, exits []int) {
	for _, c := range failureClasses() {
		if p.Classes&(1<<c) != 0 {
			classes = append(classes, c.String())
		}
	}
	for code := range 256 {
		if p.Exits.Has(code) {
			exits = append(exits, code)
		}
	}
	return classes, exits
}

// or returns the union of p and q. Delays that p sets take precedence.
func (p RetryPolicy) or(q RetryPolicy) RetryPolicy {
	p.Classes |= q.Classes
	for i := range p.Exits {
		p.Exits[i] |= q.Exits[i]
	}
	p.Base, p.Cap = cmp.Or(p.Base, q.Base), cmp.Or(p.Cap, q.Cap)
	return p
}

// Covers reports whether an attempt that ended as c with exit code exit is
// retried. A policy that names Signal covers Preempted, since schedulers
// preempt by signals.
func (p RetryPolicy) Covers(c FailureClass, exit int) bool {
	if c == Preempted && p.Classes&(1<<Signal) != 0 {
		return true
	}
	return p.Classes&(1<<c) != 0 || c == ExitFailure && p.Exits.Has(exit)
}

// Backoff returns the delay before the k-th further execution, with k from 0:
// min(cap, base·2^k), reduced by up to a quarter. The reduction is derived from
// a hash of the attempt, so that jobs which failed together do not all come
// back together.
func (p RetryPolicy) Backoff(a AttemptID, k int) time.Duration {
	base, limit := p.Base, p.Cap
	if base <= 0 {
		base = defaultBackoffBase
	}
	if limit <= 0 {
		limit = defaultBackoffCap
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

// Liveness is what is known about whether an attempt's runner lives.
type Liveness uint8

// Unknown is the zero value: nobody asked, so no decision may rest on it.
const (
	Unknown Liveness = iota
	Alive
	Dead
	Stalled      // not heard from for too long, but not known to be gone: it is shown, never reclaimed
	NeverStarted // it never began and never will: nothing of the attempt was executed
)

// Runner is what an executor knows about the runner of an attempt.
type Runner struct {
	Liveness Liveness
	Heard    time.Time // when a stalled runner was last heard from; zero: unknown
	Remark   string    // the executor's message for people, such as why a cluster makes it wait; may be empty
	Began    time.Time // when the attempt began, if the executor knows better than the record; zero: it does not

	// Pending means that the attempt was handed over and has not begun. Stuck
	// means that it will not begin, or if it is not pending not end, unless
	// somebody changes something.
	Pending, Stuck bool

	// Late means that a dead runner was killed because the attempt was long
	// past its time limit and the runner had not ended it.
	Late bool
}

// Gone reports whether the runner is gone, whether or not it ever ran.
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

// Result is how an attempt ended, as its runner recorded it.
type Result struct {
	Attempt  AttemptID
	Outcome  Outcome
	Exit     int
	Class    FailureClass
	Reason   string     // one line a person can act on; may be empty
	Produced []Artifact // artifacts that this attempt made
	Context  *Context   // the execution context it leaves; nil: unchanged; zero: it no longer has one
	Agent    *AgentRun  // what its agent reported; nil: it asked none
	Place    Place
	Started  time.Time // when its runner began it; on this host, when the tick started it
	Ended    time.Time

	// Applied means that the attempt was cut off but its side effect is on
	// record as made, so that the next attempt takes the effect over and does
	// not make it again.
	Applied bool

	// Refused means that the system could not start the attempt's command for
	// now, so that nothing of it was executed. The job is queued again, as by
	// Refuse.
	Refused bool

	// Submitted are jobs that the attempt asks to enqueue. The commit that
	// settles its success enqueues all of them or none. They are dropped if it
	// does not succeed.
	Submitted []NewJob
}

// Place is where an attempt ran: the process of its command and the host, with
// the resources that it used.
type Place struct {
	Host string
	PID  int // 0: no process was started

	Sandbox string // what was enforced of the requested sandbox, in words; "": nothing
	Used    Used
}

// Used is the resource usage of an attempt's processes, as far as the system
// reported it to the runner: the command, the children that the command waited
// for, and, where the system reparents them to the runner, the processes that
// the command left running. If the runner was lost, it is what the accounts of
// its executor say, which include the runner. The zero value means unknown.
type Used struct {
	CPU    time.Duration // user and system time over all processors
	Memory int64         // bytes: the peak resident size of the largest process
}

// Plus combines the usage of two groups of processes: it adds the processor
// times and takes the larger of the memory peaks, which are of single
// processes.
func (u Used) Plus(v Used) Used { return Used{u.CPU + v.CPU, max(u.Memory, v.Memory)} }

// Fence returns ErrStale unless a is the job's current attempt and the job is
// running (seed 001). The store, the effect journal and Finish all call it, so
// that there is one rule.
func (j *Job) Fence(a AttemptID) error {
	if a.Job != j.ID || a.N != j.State.Attempt || j.State.Status != Running {
		return fmt.Errorf("%s attempt %d, now attempt %d %s: %w", a.Job, a.N, j.State.Attempt, j.State.Status, ErrStale)
	}
	return nil
}
