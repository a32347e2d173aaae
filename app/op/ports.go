package op

import (
	"context"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Files stores what operations leave for other nodes and for people, below
// .vizier.
type Files interface {
	// WritePayload stores the data of a custom artifact that job produces.
	WritePayload(job kernel.JobID, a kernel.Artifact, data []byte) error

	// Payload returns the data that job stored for a, or kernel.ErrNotFound.
	Payload(job kernel.JobID, a kernel.Artifact) ([]byte, error)

	// LogTail returns at most the last most bytes of a log of the job's
	// attempt.
	LogTail(job kernel.JobID, stream string, most int64) ([]byte, error)

	// Producers returns the jobs with a marker for a custom artifact that
	// consumer may use, newest first. If jobs of its own run declare the
	// artifact, only these count.
	Producers(consumer *kernel.Job, a kernel.Artifact) ([]kernel.JobID, error)

	// WritePatch stores the job's patch.
	WritePatch(job kernel.JobID, data []byte) error

	// WriteNoInput writes NO_INPUT.md to the job's directory, which tells a
	// person that the job had nothing to work on (seed 004).
	WriteNoInput(job kernel.JobID, reason string) error

	// WriteSentinel, Sentinel and ClearSentinel store, read and remove the mark
	// of an open merge conflict. Sentinel returns nil if there is none.
	WriteSentinel(slug string, data []byte) error
	Sentinel(slug string) ([]byte, error)
	ClearSentinel(slug string) error
}

// Shell runs a person's script.
type Shell interface {
	// Run runs `sh -c script` in dir and returns its exit code. The output goes
	// where the node's own goes, as it is written. A death by signal is 128
	// plus the signal's number.
	Run(ctx context.Context, dir, script string, env []string) (exit int, err error)

	// Output is Run with standard output captured: limit bytes of it, and one
	// more byte if there is more.
	Output(ctx context.Context, dir, script string, env []string, limit int) (out []byte, exit int, err error)
}

// Git is what operations need of git. A call with a directory is about the
// working tree there; a call without one is about the repository.
type Git interface {
	Branches
	Trees
	Commits
	Merges
	Patches
}

// Branches are the operations on the repository's branches and their contents.
type Branches interface {
	// Heads returns the tips of local branches, "" for one that does not exist.
	Heads(ctx context.Context, branches []string) (map[string]kernel.CommitID, error)

	// LastTip returns the commit that a branch which is gone was last seen at, or
	// "" if that is not known.
	LastTip(ctx context.Context, branch string) (kernel.CommitID, error)

	// Head returns the branch of the main working tree, or "" if it is on none.
	Head(context.Context) (string, error)

	CreateBranch(ctx context.Context, name string, at kernel.CommitID) error

	// DeleteBranch deletes a branch if it is still at old and not checked out.
	// Commits that are kept nowhere else are parked.
	DeleteBranch(ctx context.Context, name string, old kernel.CommitID) error

	// Obstacle says why the working trees on branch could not follow it, and
	// what to do about it. It is "" if they could. It first does what EndAdvance does.
	Obstacle(ctx context.Context, branch string) (string, error)

	// Advance moves branch by compare-and-swap, together with the working trees
	// on it. moved is false if the branch was not at from any more. obstacle says
	// why nothing has changed.
	Advance(ctx context.Context, branch string, from, to kernel.CommitID) (obstacle string, moved bool, err error)

	// EndAdvance ends what an Advance of branch that was killed has left half
	// done in the working trees on it. obstacle says why it cannot.
	EndAdvance(ctx context.Context, branch string) (obstacle string, err error)

	// Keep parks a commit that is kept nowhere else.
	Keep(ctx context.Context, commit kernel.CommitID) error

	IsAncestor(ctx context.Context, commit, tip kernel.CommitID) (bool, error)

	// Has reports whether git has a commit; a gc may have removed it.
	Has(ctx context.Context, commit kernel.CommitID) (bool, error)

	// Parent returns the first parent of a commit, or "" if it has none.
	Parent(ctx context.Context, commit kernel.CommitID) (kernel.CommitID, error)

	// FileAt returns a file's content in a commit, or nil if the commit does
	// not contain it.
	FileAt(ctx context.Context, commit kernel.CommitID, path string) ([]byte, error)

	// LastFile returns a file's content in the newest commit that contains it,
	// among the ancestors of tip that are not ancestors of base, or nil if
	// there is none.
	LastFile(ctx context.Context, tip, base kernel.CommitID, path string) ([]byte, error)

	// Marked returns the newest commit that was made after since and whose
	// message names the effect key, among tip and its first ancestors: what was
	// merged into these does not count. It is "" if there is none.
	Marked(ctx context.Context, tip kernel.CommitID, key string, since time.Time) (kernel.CommitID, error)

	// Containing returns the branches that contain a commit, without the one called except.
	Containing(ctx context.Context, commit kernel.CommitID, except string) ([]string, error)

	// Touched reports whether a commit changes a file outside of .vizier, among
	// the ancestors of tip that were made after since and are on no other
	// branch than the named one. With branch "", other branches are not
	// considered. Nor are base and its ancestors, unless base is "".
	Touched(ctx context.Context, tip, base kernel.CommitID, branch string, since time.Time) (bool, error)
}

// Trees are the operations on the working trees of the repository.
type Trees interface {
	// HeadCommit and HeadBranch return what the tree at dir has checked out, or
	// "" if there is no commit yet, or no branch.
	HeadCommit(ctx context.Context, dir string) (kernel.CommitID, error)
	HeadBranch(ctx context.Context, dir string) (string, error)

	// Base returns the commit that the linked tree at dir was made at, or "" if
	// that is not known.
	Base(dir string) (kernel.CommitID, error)

	// Standing returns the trees that have branch checked out. obstacle, unless "", says that git
	// cannot work in one of them that is no job's, and what to do about it.
	Standing(ctx context.Context, branch string) (dirs []string, obstacle string, err error)

	// OwnedWorktree returns a job's worktree of that name, finished or not, or
	// zero if there is none. It removes a damaged one.
	OwnedWorktree(name string) (kernel.Context, error)

	// WorktreeNamed returns where the files of the linked worktree are that git has under a name, wherever somebody has moved
	// them; "": git has none, or its files are not there.
	WorktreeNamed(name string) (dir string, err error)

	// Damage returns why nobody can work in the worktree of a job, and what to do; "": it
	// is sound, or gone. stays reports that it can be used again as it is, once that is done.
	Damage(kernel.Context) (why string, stays bool, err error)

	// EnsureWorktree makes sure that a job has a linked worktree of its own
	// under a name, with branch checked out or, if branch is "", detached at
	// commit. It is in the directory place, or beside it if another job's
	// worktree is there. One at a commit has all files, also where the checkout
	// is sparse.
	EnsureWorktree(ctx context.Context, name, place, branch string, commit kernel.CommitID) (kernel.Context, error)

	// Detach forces the tree at dir to a commit, discarding changes that are in
	// the way. Release takes the tree off its branch and changes nothing else.
	Detach(ctx context.Context, dir string, commit kernel.CommitID) error
	Release(ctx context.Context, dir string) error

	// IndexLockIn returns the file with which a git locks the index of the tree at dir; "": none
	// does, or it is not known.
	IndexLockIn(dir string) string

	// DropStaleLocks removes lock files older than before that a killed git
	// left in the linked worktree at dir. It does nothing in the main one.
	DropStaleLocks(dir string, before time.Time) error

	// DropStaleRefLocks removes lock files older than before that a killed git
	// left for branches which nobody else may be changing, unless a git process
	// is running.
	DropStaleRefLocks(branches []string, before time.Time) error

	// RemoveWorktree removes a worktree of a job. Work in it is parked first.
	RemoveWorktree(context.Context, kernel.Context) kernel.Cleanup

	// DiscardWorktree removes a worktree of a job whose changes are worth
	// nothing. Commits made in it are parked first.
	DiscardWorktree(context.Context, kernel.Context) kernel.Cleanup

	// Kept returns how often work was parked so far.
	Kept() int
}

// Commits are made from the index of a working tree, in which no file may be in
// conflict.
type Commits interface {
	// Stage stages paths relative to dir (nil: the whole tree) and, even if
	// they are ignored, the paths force relative to the top. It never stages
	// Vizier's own files.
	Stage(ctx context.Context, dir string, paths, force []string) error

	// StageTracked stages every change to files that the index has.
	StageTracked(ctx context.Context, dir string) error

	// Unstaged returns the paths of tracked files that differ from the index, and
	// the untracked paths, without Vizier's own files and what is ignored.
	Unstaged(ctx context.Context, dir string) (tracked, untracked []string, err error)

	// Uncommitted returns what Stage would stage of the whole tree and what is
	// staged: paths relative to the top.
	Uncommitted(ctx context.Context, dir string) ([]string, error)

	// Untracked returns the files of the tree at dir, relative to the top, that
	// Stage would stage as new ones.
	Untracked(ctx context.Context, dir string) ([]string, error)

	// Staged reports whether the index has changes to commit.
	Staged(ctx context.Context, dir string) (bool, error)

	// Leftover returns the paths that were in conflict at dir and are staged with their
	// conflict markers. Commit fails while there are any.
	Leftover(ctx context.Context, dir string) ([]string, error)

	// Commit commits the index. Hooks and signing apply.
	Commit(ctx context.Context, dir, message string) (kernel.CommitID, error)

	// Amend replaces the message of the commit that the tree at dir is at.
	Amend(ctx context.Context, dir, message string) (kernel.CommitID, error)

	Message(ctx context.Context, commit kernel.CommitID) (string, error)

	// RemoveFile removes a file, given relative to the top, and stages the
	// removal.
	RemoveFile(ctx context.Context, dir, path string) error
}

// Merges are the operations of merging. They are performed in worktrees of
// their own.
type Merges interface {
	// Merge merges source into the commit of the tree at dir, without
	// committing. Conflicts are left in progress and are not an error.
	Merge(ctx context.Context, dir string, source kernel.CommitID, squash bool) error

	// Related reports whether two commits have an ancestor in common.
	Related(ctx context.Context, a, b kernel.CommitID) (bool, error)

	// Shallow reports whether the repository is a shallow clone, which may lack
	// what two commits have in common.
	Shallow() (bool, error)

	// Merging reports whether a merge with a second parent is in progress.
	Merging(ctx context.Context, dir string) (bool, error)

	// Squashing reports whether a squash merge, which has no second parent, is
	// in progress.
	Squashing(ctx context.Context, dir string) (bool, error)

	// Rebasing reports whether a rebase is in progress in the linked tree at dir.
	Rebasing(ctx context.Context, dir string) (bool, error)

	// Sparse reports whether the tree at dir is a sparse checkout.
	Sparse(ctx context.Context, dir string) (bool, error)

	// Unmerged returns the paths in conflict in the tree at dir, relative to its top.
	Unmerged(ctx context.Context, dir string) ([]string, error)

	// MergeState returns the progress of the merge at dir: source and target
	// once that merge is done or in conflict, and the result once there is one.
	MergeState(ctx context.Context, dir string) (source, target, merged kernel.CommitID, err error)
	// SetMergeState records what is not empty; with a source, an empty merged
	// means that there is no result any more.
	SetMergeState(ctx context.Context, dir string, source, target, merged kernel.CommitID) error

	// Remember notes how the linked tree at dir is, in which a merge is in progress,
	// before a program works in it; confined says that the program cannot write to the
	// index. PutBack makes the tree that again, parks what has changed since, and
	// reports whether anything had; Forget drops the note. PutBack does nothing without
	// a note, fails if something of it is gone, and where only a person can have staged anything, it leaves that as it is.
	Remember(ctx context.Context, dir string, confined bool) error
	PutBack(ctx context.Context, dir string) (changed bool, err error)
	Forget(ctx context.Context, dir string) error

	// Settle stages what the program has resolved, which has ended well: the state of
	// the paths resolved, including removals, and, if no other is in conflict, all
	// else that was changed or made, in one step. Then it drops the note. If it fails or is
	// killed, the next PutBack ends it and puts nothing back, unless somebody has staged
	// something since or changed what is to be staged.
	Settle(ctx context.Context, dir string, resolved []string) error

	// Replay repeats merged, a commit on top of from, on top of onto. It
	// returns "" if that conflicts.
	Replay(ctx context.Context, merged, from, onto kernel.CommitID) (kernel.CommitID, error)
}

// Patches are the operations on differences between files.
type Patches interface {
	// Patch returns the difference between the tracked files at dir and the
	// commit that the tree is at.
	Patch(ctx context.Context, dir string) ([]byte, error)

	// Apply applies a patch to the files and the index, all of it or nothing.
	Apply(ctx context.Context, dir string, patch []byte) error

	// Applied reports whether the patch could be reverted.
	Applied(ctx context.Context, dir string, patch []byte) (bool, error)
}

// Agents runs the agent that the configuration names for a node.
type Agents interface {
	// Run asks the agent of the request's job. The answer goes to the node's
	// standard output as it is written, and the agent's progress to standard
	// error. If the agent does not know the session any more, a new one is
	// begun. It is an error if the agent is not configured or cannot be
	// started; an agent that failed or exceeded a time limit of its own is an
	// answer.
	Run(context.Context, kernel.AgentRequest) (kernel.AgentAnswer, error)
}
