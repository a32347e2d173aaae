package kernel

import "time"

// EventKind names what has happened to a job or to a run.
type EventKind string

// The events of jobs are seed 004's and what the later seeds add
// (systems-and-unification 4.11); those of runs are computed from their jobs, and
// the others are for people.
const (
	JobCreated         EventKind = "job.created"
	JobRunning         EventKind = "job.running"
	JobSucceeded       EventKind = "job.succeeded"
	JobFailedRetryable EventKind = "job.failed.retryable" // a further attempt is due
	JobFailedFinal     EventKind = "job.failed.final"
	JobRequeued        EventKind = "job.requeued"  // that attempt is due now, or a launch was refused
	JobResumed         EventKind = "job.resumed"   // requeued after a time-out of a resumable job
	JobReclaimed       EventKind = "job.reclaimed" // requeued after its runner was lost
	JobBlocked         EventKind = "job.blocked"
	JobCancelled       EventKind = "job.cancelled"
	JobRewound         EventKind = "job.rewound"      // a new generation; it also ends an attempt whose own end is not told
	JobPromoted        EventKind = "job.promoted"     // a sleeping job is needed
	JobArchived        EventKind = "job.archived"     // its files are gone
	EffectCaughtUp     EventKind = "effect.caught_up" // an attempt took over what an earlier one had done
	HookFailed         EventKind = "hook.failed"      // a command that was to run at the job's end
	RunSucceeded       EventKind = "run.succeeded"
	RunFailed          EventKind = "run.failed"
	RunBlocked         EventKind = "run.blocked"
	ApprovalPending    EventKind = "approval.pending" // nothing but a person's word holds the job up
	ApprovalGranted    EventKind = "approval.granted"
	ApprovalRejected   EventKind = "approval.rejected"
	JobStalled         EventKind = "job.stalled" // the runner of the attempt has not been heard of for too long; told once for an attempt
	NeedsAttention     EventKind = "attention"   // the job needs a person; reason says what for
)

// Event is one thing that has happened: history, on which no decision rests.
type Event struct {
	At         time.Time
	Kind       EventKind
	Job        JobID // "" : it is about the run
	Run        RunID
	Node, Name string
	Attempt    int
	Generation int
	Exit       ExitCode
	Class      FailureClass
	Reason     string
	By         string    // who decided, of ApprovalGranted and ApprovalRejected
	RetryAt    time.Time // of JobFailedRetryable
	Agent      EventAgent
}

// EventAgent is what the agent of the attempt that an event ends told. The zero
// value is nothing.
type EventAgent struct {
	Agent, Model, Session string
	Turns                 int
	Usage                 Usage
}
