package app

import (
	"context"
	"errors"
	"io"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Store keeps the records. Nothing else survives a process.
type Store interface {
	// Begin takes the scheduler lock and waits for it as long as ctx allows;
	// ErrBusy, with who holds it, when that is too short. It completes record writes that a crash
	// cut short before it returns.
	Begin(context.Context) (Tx, error)

	// Read is a consistent read that changes nothing.
	Read(context.Context, kernel.Scope) (kernel.Records, error)
}

// atOnceSettler is a Store that can take the result of an attempt and settle its
// job in one commit.
type atOnceSettler interface {
	// BeginSettling is Begin for a transaction that is to settle r's attempt,
	// where the lock is free at once: else it is ErrBusy. What settles the
	// attempt records r as well, so that it need not be concluded before.
	BeginSettling(context.Context, kernel.Result) (Tx, error)
}

// Tx is a transaction: the scheduler lock, held.
type Tx interface {
	// Load reads the records of a scope. The store may go on using the jobs it
	// hands out: they are neither changed nor moved.
	Load(kernel.Scope) (kernel.Records, error)

	// Commit does the plan's record actions durably, all or none, and
	// remembers its world actions until Done, or until the next Commit takes
	// their place. A store that reads narrowly remembers as well which jobs
	// changed since a plan was Judged; of a plan without actions it is that alone.
	Commit(kernel.Plan) error

	// Unfinished are world actions that an earlier transaction
	// committed and did not see through. They are to be done again.
	Unfinished() []kernel.WorldAction

	// Done forgets the remembered actions.
	Done() error

	Close() error
}

// Outcomes is where a runner records how its attempt ended.
type Outcomes interface {
	// Job reads one record without the lock: what was asked for never changes.
	Job(kernel.JobID) (kernel.Job, error)

	// Conclude records durably how an attempt ended, before its record
	// changes. It takes no lock.
	Conclude(kernel.Result) error
}

// Observer answers the probes it understands and leaves the others alone. A
// probe it cannot answer becomes a Fact with Err set, never an error.
type Observer interface {
	Observe(context.Context, kernel.Probes, *kernel.Facts)
}

// Executor runs attempts.
type Executor interface {
	// Start starts a's runner, once whatever happens: an attempt that was
	// claimed or is being claimed counts as started. An error is a refusal:
	// an answer, not a crash.
	Start(context.Context, kernel.AttemptID) error

	// Alive answers for every attempt in one go. An executor that cannot be
	// asked knows nothing of them: that is Unseen, never Dead.
	Alive(context.Context, []kernel.AttemptID) map[kernel.AttemptID]kernel.Fact[kernel.Runner]

	// Stop asks the attempt's processes to end and returns at once; after the
	// grace they are killed. Stopping what has ended is no error.
	Stop(context.Context, kernel.AttemptID) error

	// Sweep ends by force what is left of an attempt, its runner included,
	// and returns when it is gone.
	Sweep(context.Context, kernel.AttemptID) error
}

// enforcer is an Executor whose runners see to time limits, and may fail to.
type enforcer interface {
	// Enforce ends by force an attempt whose limit is long over, its runner
	// included, and returns when it is gone. It reports false, and does nothing,
	// where the runner has its command's end, or is not for this process to end.
	Enforce(context.Context, kernel.AttemptID) (ended bool, err error)
}

// Workload runs attempts in this process.
type Workload interface {
	// Claim makes the caller the only runner of an attempt, for ever: a
	// second claim is kernel.ErrStale.
	Claim(kernel.AttemptID) error

	// Beat renews the attempt's lease: a sign that its runner lives.
	Beat(kernel.AttemptID) error

	// Acquire takes the lock that says this process runs the attempt, until
	// it is closed or the process ends.
	Acquire(kernel.AttemptID) (io.Closer, error)

	// Run runs the job's command to its end, its output going to the job's
	// logs; a ctx that ends stops it. It returns a Result for whatever
	// happens.
	Run(context.Context, *kernel.Job) kernel.Result
}

// provider is a Workload that has to fetch what an attempt needs before it is the
// attempt's runner.
type provider interface {
	// Provide fetches what j's attempt is handed. An error is why that cannot be
	// had now: nothing was executed, and the job waits to be started again.
	Provide(ctx context.Context, j *kernel.Job) error
}

// Worktrees removes the worktrees that jobs own.
type Worktrees interface {
	RemoveWorktree(context.Context, kernel.Context) kernel.Cleanup
}

// worktreeFinder is Worktrees that can tell whether a worktree is where the record has
// it. Others are trusted to be.
type worktreeFinder interface{ InPlace(kernel.Context) bool }

// Prompts makes the files of the prompts that jobs stand for say what the jobs
// do.
type Prompts interface {
	// TendPrompt sees to the copy and to the name of a job's prompt. It
	// reports whether there was a prompt at all, and whether a copy is
	// archived as failed. how is how the run stands, in words; files with the
	// numbers in others are other jobs'. It may be repeated.
	TendPrompt(j *kernel.Job, want kernel.PromptName, how string, others []uint64) (found, archived bool, err error)
}

// Sentinels drops the marks of open merge conflicts.
type Sentinels interface{ ClearSentinel(slug string) error }

// EventLog keeps what has happened for people and programs to follow. It is
// history on which nothing rests: what a crash loses of it is lost.
type EventLog interface{ AppendEvents([]kernel.Event) error }

// ErrBusy is the scheduler lock not being free in time.
var ErrBusy = errors.New("scheduler is busy; retry the command")

// ErrOtherHost is that another host schedules at the moment. It is an ErrBusy as well.
var ErrOtherHost = errors.New("another host schedules")

// Refusal is a refusal that trying again cannot change.
type Refusal struct{ Reason string }

func (r *Refusal) Error() string { return r.Reason }
