package app

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/history"
)

// Store holds the records. Nothing else outlives a process.
type Store interface {
	// Begin takes the scheduler lock. It waits for it as long as ctx allows,
	// and then fails with ErrBusy, which names the holder. Before it returns,
	// it completes record writes that a crash interrupted.
	Begin(context.Context) (Tx, error)

	// Read makes a consistent read. It changes nothing.
	Read(context.Context, kernel.Scope) (kernel.Records, error)
}

// atOnceSettler is a Store that can record the result of an attempt and settle
// its job in one commit.
type atOnceSettler interface {
	// BeginSettling is Begin for a transaction that is to settle r's attempt.
	// If the lock is not free at once, it fails with ErrBusy. The commit that
	// settles the attempt also records r, so that Conclude need not be called
	// before.
	BeginSettling(context.Context, kernel.Result) (Tx, error)
}

// Tx is a transaction. The scheduler lock is held until it is closed.
type Tx interface {
	// Load reads the records of a scope. The store may keep using the jobs that
	// it returns, so they must not be modified.
	Load(kernel.Scope) (kernel.Records, error)

	// Commit performs the plan's record actions durably, all or none. It
	// remembers the plan's world actions until Done, or until the next Commit
	// replaces them. A store that reads narrowly also remembers which jobs have
	// changed since a plan was last Judged; a plan without actions only updates
	// that.
	Commit(kernel.Plan) error

	// Unfinished returns the world actions that an earlier transaction
	// committed but did not complete. They must be performed again.
	Unfinished() []kernel.WorldAction

	// Done forgets the remembered actions.
	Done() error

	Close() error
}

// Outcomes stores how a runner's attempt ended.
type Outcomes interface {
	// Job reads one record without the lock. That is safe for its Spec, which
	// never changes.
	Job(kernel.JobID) (kernel.Job, error)

	// Conclude durably records how an attempt ended, before its job's record
	// changes. It takes no lock.
	Conclude(kernel.Result) error
}

// Observer answers the probes that it understands and ignores the others. If it
// cannot answer a probe, the Fact has Err set; this is never an error of the
// call.
type Observer interface {
	Observe(context.Context, kernel.Probes, *kernel.Facts)
}

// Executor runs attempts.
type Executor interface {
	// Start starts a's runner, exactly once whatever happens: an attempt that
	// is claimed, or is being claimed, counts as started. An error is a refusal
	// by the executor.
	Start(context.Context, kernel.AttemptID) error

	// Alive reports on all attempts in one call. If the executor cannot be
	// reached, their state is Unseen, never Dead.
	Alive(context.Context, []kernel.AttemptID) map[kernel.AttemptID]kernel.Fact[kernel.Runner]

	// Stop asks the attempt's processes to end and returns at once; they are
	// killed after the grace period. Stopping an attempt that has ended is not
	// an error.
	Stop(context.Context, kernel.AttemptID) error

	// Sweep kills what is left of an attempt, including its runner, and returns
	// when it is gone. It holds up everybody, so it does not wait for a program
	// that ends the rest, such as an engine that removes a container: the job's
	// next attempt does, in Workload.Run, before it starts anything.
	Sweep(context.Context, kernel.AttemptID) error
}

// enforcer is an Executor whose runners enforce time limits themselves, but may
// fail to.
type enforcer interface {
	// Enforce kills an attempt that is long over its limit, including its
	// runner, and returns when it is gone, as Sweep does. It does nothing and
	// returns false if the runner already has its command's end, or is not for
	// this process to end.
	Enforce(context.Context, kernel.AttemptID) (ended bool, err error)
}

// Workload runs attempts in this process.
type Workload interface {
	// Claim makes the caller the only runner of an attempt, for ever. A second
	// claim fails with kernel.ErrStale.
	Claim(kernel.AttemptID) error

	// Beat renews the attempt's lease, as a sign that its runner is alive.
	Beat(kernel.AttemptID) error

	// Acquire takes the lock which says that this process runs the attempt. It
	// is held until closed or until the process ends.
	Acquire(kernel.AttemptID) (io.Closer, error)

	// Run runs the job's command to its end, with output to the job's logs. It
	// stops the command when ctx ends. It returns a Result in every case.
	Run(context.Context, *kernel.Job) kernel.Result
}

// provider is a Workload that has to fetch what an attempt needs before it runs
// it.
type provider interface {
	// Provide fetches what j's attempt is given, such as secrets. An error says
	// why that is not available now; nothing was executed, and the job is
	// queued again.
	Provide(ctx context.Context, j *kernel.Job) error
}

// Worktrees removes the worktrees that jobs own.
type Worktrees interface {
	RemoveWorktree(context.Context, kernel.Context) kernel.Cleanup
}

// worktreeFinder is a Worktrees that can tell whether a worktree is where its
// record says, and which worktrees jobs have besides. With other implementations
// each is assumed to be in place, and to be on record.
type worktreeFinder interface {
	InPlace(kernel.Context) bool
	WorktreesOf([]kernel.JobID) (map[kernel.JobID][]kernel.Context, error)
}

// refDropper is a Worktrees that can forget what was parked before a time and had only been staged, and drop the refs that keep
// commits for worktrees which are gone.
type refDropper interface {
	DropStaged(ctx context.Context, before time.Time) error
	DropHeld(ctx context.Context) error
}

// worktreeMender is a Worktrees that can have a worktree found again after the
// repository was moved.
type worktreeMender interface {
	RepairWorktree(context.Context, kernel.Context) error
}

// Prompts keeps the files of prompts in accordance with their jobs.
type Prompts interface {
	// TendPrompt updates the copy and the name of a job's prompt. how describes
	// the state of its run, in words. Files whose inode numbers are in others
	// belong to other jobs. found reports whether there was a prompt at all,
	// archived whether a copy is in the archive of failed prompts. TendPrompt
	// is idempotent.
	TendPrompt(j *kernel.Job, want kernel.PromptName, how string, others []uint64) (found, archived bool, err error)
}

// Sentinels removes the marks of open merge conflicts.
type Sentinels interface {
	// DropConflict removes the mark of a plan, unless the mark is of a job of another run:
	// what is resolved there must not be lost.
	DropConflict(slug string, of *kernel.Job) error
}

// EventLog stores events for people and programs to follow. No decision depends
// on events, and a crash may lose some.
type EventLog interface{ AppendEvents([]kernel.Event) error }

// ErrBusy says that the scheduler lock was not free in time.
var ErrBusy = errors.New("scheduler is busy; retry the command")

// ErrOtherHost says that another host is scheduling at the moment. It wraps
// ErrBusy.
var ErrOtherHost = errors.New("another host schedules")

// Refusal is a refusal that trying again does not change.
type Refusal struct{ Reason string }

func (r *Refusal) Error() string { return r.Reason }

// completer is a Tx that knows whether its beginning completed what another process had committed.
type completer interface {
	Completed() bool
}

// historian is a Tx that records what plans were decided on.
type historian interface {
	// Explain sets the account of the next commit.
	Explain(history.Account)
}

// condenser is a historian that has a smaller form of what goes on record.
type condenser interface {
	Condense(history.Verb) history.Verb
}

// reader is a Tx that knows which facts jobs read, and what they were judged by.
type reader interface {
	// JudgedBy passes the result of kernel.Outside.JudgedBy for the next commit whose plan
	// is a tick's. The store forgets other facts.
	JudgedBy(map[kernel.Near]string)
}
