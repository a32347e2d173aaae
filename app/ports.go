package app

import (
	"context"
	"errors"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Scope says which records a read must bring besides the open ones and those
// that open ones refer to.
type Scope struct {
	All       bool              // every record
	Jobs      []kernel.JobID    // these
	Artifacts []kernel.Artifact // and every producer of these
}

// Records is one consistent read of the store.
type Records struct {
	Jobs       []kernel.Job
	Unreadable map[kernel.JobID]string // why, with the record's path
}

// Store keeps the records. Nothing else survives a process.
type Store interface {
	// Begin takes the scheduler lock and waits for it as long as ctx allows;
	// ErrBusy says who holds it. It completes record writes that a crash cut
	// short before it returns.
	Begin(context.Context) (Tx, error)

	// Read is a consistent read that changes nothing.
	Read(context.Context, Scope) (Records, error)
}

// Tx is a transaction: the scheduler lock, held.
type Tx interface {
	Load(Scope) (Records, error)

	// Commit does the plan's record actions durably, all or none, and
	// remembers its other actions until Done.
	Commit(kernel.Plan) error

	// Unfinished are actions on the world that an earlier transaction
	// committed and did not see through. They are to be done again.
	Unfinished() []kernel.Action

	// Done forgets the remembered actions.
	Done() error

	Close() error
}

// Attempts is what a runner keeps of the attempt it runs. Nothing in it is
// done under the scheduler lock.
type Attempts interface {
	// Claim makes the caller the only runner of a, for ever: a second claim
	// of the same attempt is kernel.ErrStale.
	Claim(kernel.AttemptID, Runner) error

	// Conclude records durably how a ended, before its record changes.
	Conclude(kernel.Result) error
}

// Runner identifies the process that runs an attempt, for people and for
// signals.
type Runner struct {
	Host  string
	Boot  string // boot id of that host
	PID   int
	Start uint64 // the process's start time in clock ticks since boot
}

// Observer answers the probes it understands and leaves the others alone. A
// probe it cannot answer becomes a Fact with Err set, never an error.
type Observer interface {
	Observe(context.Context, kernel.Probes, *kernel.Facts)
}

// Executor runs attempts.
type Executor interface {
	// Start starts a's runner, once whatever happens: an attempt that was
	// claimed or is being claimed counts as started. An error is a *Refusal.
	Start(context.Context, kernel.AttemptID) error

	// Alive answers for every attempt in one go.
	Alive(context.Context, []kernel.AttemptID) map[kernel.AttemptID]kernel.Fact[kernel.Liveness]

	// Stop asks the attempt's processes to end and returns at once; after the
	// grace they are killed. Stopping what has ended is no error.
	Stop(context.Context, kernel.AttemptID) error

	// Sweep ends what the runner of a lost attempt left running, and returns
	// when it is gone.
	Sweep(context.Context, kernel.AttemptID) error
}

// Worktrees removes the worktrees that jobs own.
type Worktrees interface {
	RemoveWorktree(context.Context, kernel.Context) kernel.Cleanup
}

// Sentinels drops the marks of open merge conflicts.
type Sentinels interface{ ClearSentinel(slug string) error }

// Workload runs an attempt's command to its end, its output going to the job's
// logs. It returns a Result for whatever happens.
type Workload interface {
	Run(context.Context, *kernel.Job) kernel.Result
}

// ErrBusy is the scheduler lock not being free in time.
var ErrBusy = errors.New("scheduler is busy; retry the command")

// Refusal is an executor's "no": an answer, not a crash.
type Refusal struct {
	Reason string
	Final  bool // trying again cannot help
}

func (r *Refusal) Error() string { return r.Reason }
