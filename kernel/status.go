package kernel

// Status is the status of a job. The zero value is Queued.
type Status uint8

// The ten statuses of seed 000, FailedRetryable (seed 004) and Unscheduled
// (seed 002).
const (
	Queued Status = iota
	WaitingOnDeps
	WaitingOnApproval
	WaitingOnLocks
	Running
	FailedRetryable // a further attempt is due at State.RetryAt
	Unscheduled     // transient and not demanded, or reachable only by a route
	Succeeded
	Failed
	Cancelled
	BlockedByDependency
	BlockedByApproval
)

var statusNames = NewNames[Status]("status", "queued", "waiting_on_deps", "waiting_on_approval", "waiting_on_locks",
	"running", "failed_retryable", "unscheduled", "succeeded", "failed", "cancelled",
	"blocked_by_dependency", "blocked_by_approval")

// Terminal reports whether the job has ended, so that only a rewind can change
// its status.
func (s Status) Terminal() bool { return s >= Succeeded }

// Active reports whether the job will go on by itself, so that dependents wait
// for it. Unscheduled is neither active nor terminal.
func (s Status) Active() bool { return s <= FailedRetryable }

// Waiting reports whether a gate holds the job up for now.
func (s Status) Waiting() bool { return s >= WaitingOnDeps && s <= WaitingOnLocks }

// Coarse returns the word for s in seed 004's contract of five states.
func (s Status) Coarse() string {
	switch s {
	case Running:
		return "running"
	case FailedRetryable:
		return "failed_retryable"
	case Succeeded:
		return "succeeded"
	case Failed, Cancelled, BlockedByDependency, BlockedByApproval:
		return "failed_final"
	default:
		return "queued"
	}
}
