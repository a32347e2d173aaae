package kernel

import "time"

// EventKind is the kind of an event of a job or a run.
type EventKind string

// The kinds. Those of jobs are from seed 004 and later seeds
// (systems-and-unification 4.11). Those of runs are computed from their jobs.
// The rest are for people.
const (
	JobCreated         EventKind = "job.created"
	JobRunning         EventKind = "job.running"
	JobSucceeded       EventKind = "job.succeeded"
	JobFailedRetryable EventKind = "job.failed.retryable" // a further attempt is due
	JobFailedFinal     EventKind = "job.failed.final"
	JobRequeued        EventKind = "job.requeued"  // the further attempt is due, or a launch was refused
	JobResumed         EventKind = "job.resumed"   // requeued after a timeout of a resumable job
	JobReclaimed       EventKind = "job.reclaimed" // requeued after its runner was lost
	JobBlocked         EventKind = "job.blocked"
	JobCancelled       EventKind = "job.cancelled"
	JobRewound         EventKind = "job.rewound"      // a new generation; it also ends an attempt for which no other event does
	JobPromoted        EventKind = "job.promoted"     // a sleeping job was woken
	JobArchived        EventKind = "job.archived"     // its files were purged
	EffectCaughtUp     EventKind = "effect.caught_up" // an attempt took over what an earlier one had done
	HookFailed         EventKind = "hook.failed"      // a hook's command could not be run or failed
	RunSucceeded       EventKind = "run.succeeded"
	RunFailed          EventKind = "run.failed"
	RunBlocked         EventKind = "run.blocked"
	ApprovalPending    EventKind = "approval.pending" // the job waits for nothing but its approval
	ApprovalGranted    EventKind = "approval.granted"
	ApprovalRejected   EventKind = "approval.rejected"
	JobStalled         EventKind = "job.stalled" // the attempt's runner has not been heard from for too long; at most one event per attempt
	NeedsAttention     EventKind = "attention"   // the job needs a person; Reason says what for
)

// Event is one thing that happened. It is history: no decision depends on it.
type Event struct {
	At         time.Time
	Kind       EventKind
	Job        JobID // "": it is about the run
	Run        RunID
	Number     Number // of the job or the run: the record may be gone when the event is read
	Part       string
	Node, Name string
	Attempt    int
	Generation int
	Exit       ExitCode
	Class      FailureClass
	Reason     string
	By         string    // who decided, for ApprovalGranted and ApprovalRejected
	RetryAt    time.Time // for JobFailedRetryable
	Agent      EventAgent
}

// Ref returns the name for people of what the event is about; "": it has none.
func (e *Event) Ref() string { return (&Job{Number: e.Number, Part: e.Part}).Ref() }

// EventAgent is what the agent of the attempt that an event ends reported. The
// zero value means nothing.
type EventAgent struct {
	Agent, Model, Session string
	Turns                 int
	Usage                 Usage
}
