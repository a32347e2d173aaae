package op

import (
	"context"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Files keeps what operations leave for other nodes and for people, below
// .vizier.
type Files interface {
	// WritePayload stores the data of a custom artifact that job produces.
	WritePayload(job kernel.JobID, a kernel.Artifact, data []byte) error

	// Payload is the data that job stored for a. It is kernel.ErrNotFound
	// when there is none.
	Payload(job kernel.JobID, a kernel.Artifact) ([]byte, error)

	// LogTail is the end of a log of the job's attempt, of at most so many bytes.
	LogTail(job kernel.JobID, stream string, most int64) ([]byte, error)

	// Producers are the jobs whose marker makes a custom artifact exist for
	// consumer, newest first: those of its own run where that declares any.
	Producers(consumer *kernel.Job, a kernel.Artifact) ([]kernel.JobID, error)

	// WritePatch stores the job's patch.
	WritePatch(job kernel.JobID, data []byte) error

	// WriteNoInput leaves NO_INPUT.md in the job's directory: what a person
	// finds there where the job had nothing to work on (seed 004).
	WriteNoInput(job kernel.JobID, reason string) error

	// WriteSentinel, Sentinel and ClearSentinel keep the mark of an open
	// merge conflict. Sentinel is nil when there is none.
	WriteSentinel(slug string, data []byte) error
	Sentinel(slug string) ([]byte, error)
	ClearSentinel(slug string) error
}

// Shell runs a person's script.
type Shell interface {
	// Run runs `sh -c script` in dir, its output going where the node's own
	// goes as it is written, and returns its exit code; a death by signal is
	// 128 and its number.
	Run(ctx context.Context, dir, script string, env []string) (exit int, err error)

	// Output is Run with standard output captured: limit bytes of it, and one
	// more where there was more.
	Output(ctx context.Context, dir, script string, env []string, limit int) (out []byte, exit int, err error)
}

// Git is what operations ask of git. The work tree of a call is the directory
// it names; a call without one is about the repository.
type Git interface {
	Branches
	Trees
	Commits
	Merges
	Patches
}

// Branches are the repository's branches and what they hold.
type Branches interface {
	// Heads are the tips of local branches; "" for one that does not exist.
	Heads(ctx context.Context, branches []string) (map[string]kernel.CommitID, error)

	// Head is the branch of the main working tree; "" when it is on none.
	Head(context.Context) (string, error)

	CreateBranch(ctx context.Context, name string, at kernel.CommitID) error

	// DeleteBranch drops a branch that is still at old and checked out
	// nowhere; commits that nothing else keeps are parked.
	DeleteBranch(ctx context.Context, name string, old kernel.CommitID) error

	// Obstacle says why the working trees that stand on branch cannot follow
	// it to a commit, "" if not known yet, and what to do about it; "" when
	// they can.
	Obstacle(ctx context.Context, branch string, to kernel.CommitID) (string, error)

	// Advance moves branch by compare-and-swap, and the working trees that
	// stand on it along. moved is false when it was not at from any more.
	Advance(ctx context.Context, branch string, from, to kernel.CommitID) (obstacle string, moved bool, err error)

	IsAncestor(ctx context.Context, commit, tip kernel.CommitID) (bool, error)

	// FileAt is a file's content in a commit; nil when it is not in it.
	FileAt(ctx context.Context, commit kernel.CommitID, path string) ([]byte, error)

	// LastFile is a file's content in the newest commit that has it of those
	// that lead to tip and not to base; nil when none has.
	LastFile(ctx context.Context, tip, base kernel.CommitID, path string) ([]byte, error)

	// Marked is the newest commit that leads to tip, was made since then, and
	// has the line mark in its message; "" when there is none.
	Marked(ctx context.Context, tip kernel.CommitID, mark string, since time.Time) (kernel.CommitID, error)

	// Touched reports that a commit that leads to tip, was made since then and
	// is on no other branch than that of the name changes a file outside of
	// .vizier. Without a name the other branches are not looked at.
	Touched(ctx context.Context, tip kernel.CommitID, branch string, since time.Time) (bool, error)
}

// Trees are the working trees of the repository.
type Trees interface {
	// HeadCommit and HeadBranch are what the tree at dir stands on; "" for no
	// commit yet, and for no branch.
	HeadCommit(ctx context.Context, dir string) (kernel.CommitID, error)
	HeadBranch(ctx context.Context, dir string) (string, error)

	// Standing are the trees that stand on branch.
	Standing(ctx context.Context, branch string) ([]string, error)

	// OwnedWorktree is the worktree that a job has under a name, finished or
	// not; zero if there is none.
	OwnedWorktree(name string) (kernel.Context, error)

	// EnsureWorktree makes sure that a job has a linked worktree of branch
	// under a name, which is its own; with branch "" it is detached at commit.
	// It is in the directory place, or beside it where another's is there.
	EnsureWorktree(ctx context.Context, name, place, branch string, commit kernel.CommitID) (kernel.Context, error)

	// Detach puts the tree at dir on a commit, whatever is in its way.
	// Release takes it off its branch and changes nothing else.
	Detach(ctx context.Context, dir string, commit kernel.CommitID) error
	Release(ctx context.Context, dir string) error

	// DropStaleLocks removes what a killed git left locked in the linked
	// worktree at dir before then. It does nothing in the main one.
	DropStaleLocks(dir string, before time.Time) error

	// DropStaleRefLocks removes what a killed git left locked of branches that
	// nobody else is to work on, unless a git is at work.
	DropStaleRefLocks(branches []string, before time.Time) error

	// RemoveWorktree removes a worktree of a job, whose work is parked first.
	RemoveWorktree(context.Context, kernel.Context) kernel.Cleanup
}

// Commits are made from the index of a working tree.
type Commits interface {
	// Stage stages paths relative to dir, nil for the whole tree, and force,
	// relative to the top, even if they are ignored; never what is Vizier's
	// own.
	Stage(ctx context.Context, dir string, paths, force []string) error

	// StageTracked stages every change to files that the index has.
	StageTracked(ctx context.Context, dir string) error

	// Staged reports that there is something to commit.
	Staged(ctx context.Context, dir string) (bool, error)

	// Commit commits the index. Hooks and signing apply.
	Commit(ctx context.Context, dir, message string) (kernel.CommitID, error)

	// Amend gives the commit that the tree at dir stands on another message.
	Amend(ctx context.Context, dir, message string) (kernel.CommitID, error)

	Message(ctx context.Context, commit kernel.CommitID) (string, error)

	// RemoveFile removes a file, relative to the top, and stages that.
	RemoveFile(ctx context.Context, dir, path string) error
}

// Merges happen in worktrees of their own.
type Merges interface {
	// Merge merges source into what the tree at dir stands on, without a
	// commit. Conflicts are left in progress and are no error.
	Merge(ctx context.Context, dir string, source kernel.CommitID, squash bool) error

	// Merging reports that a merge with a second parent is in progress.
	Merging(ctx context.Context, dir string) (bool, error)

	// Squashing reports that a merge without one is.
	Squashing(ctx context.Context, dir string) (bool, error)

	// Unmerged are the paths in conflict in dir, relative to it.
	Unmerged(ctx context.Context, dir string) ([]string, error)

	// StagePaths records the state of paths in dir, removed ones included, as
	// what the merge is to be.
	StagePaths(ctx context.Context, dir string, paths []string) error

	// MergeState is how far the merge at dir got: what was merged into what,
	// once that is done or in conflict, and the result, once there is one.
	MergeState(ctx context.Context, dir string) (source, target, merged kernel.CommitID, err error)
	SetMergeState(ctx context.Context, dir string, source, target, merged kernel.CommitID) error

	// Replay makes of merged, a commit on top of from, the same on top of
	// onto; "" when that conflicts.
	Replay(ctx context.Context, merged, from, onto kernel.CommitID) (kernel.CommitID, error)
}

// Patches are differences between files.
type Patches interface {
	// Patch is what the tracked files at dir differ by from the commit it
	// stands on.
	Patch(ctx context.Context, dir string) ([]byte, error)

	// Apply applies a patch to the files and the index, all of it or nothing.
	Apply(ctx context.Context, dir string, patch []byte) error

	// Applied reports that it could be taken back.
	Applied(ctx context.Context, dir string, patch []byte) (bool, error)
}

// Agents runs the agent that the configuration names for a node.
type Agents interface {
	// Run asks the agent of the request's job. Its answer goes to the node's
	// standard output as it is written, and what it says about its progress to
	// standard error. A session that the agent does not know any more is begun
	// anew. An agent that is not configured or cannot be started is an error;
	// one that failed, or that a time limit of its own ended, is an answer.
	Run(context.Context, kernel.AgentRequest) (kernel.AgentAnswer, error)
}
