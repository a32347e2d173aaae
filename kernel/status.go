package kernel

// Status is where a job stands. The zero value is Queued.
type Status uint8

// The ten statuses of seed 000, and two more: a failure that will be tried
// again (seed 004) and a job nobody needs yet (seed 002).
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

// Terminal reports that only a rewind moves the job again.
func (s Status) Terminal() bool { return s >= Succeeded }

// Active reports that the job will go on without anyone's help: dependents
// wait for it. Unscheduled is neither active nor terminal.
func (s Status) Active() bool { return s <= FailedRetryable }

// Waiting reports that a gate holds the job up for now.
func (s Status) Waiting() bool { return s >= WaitingOnDeps && s <= WaitingOnLocks }

// Coarse is the word of seed 004's five-state contract for s.
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
