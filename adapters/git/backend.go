package git

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/vizier-scheduler/vizier/kernel"
)

// engine holds the operations that both the git CLI and libgit2 implement. The
// number of processes of a call does not depend on the number of things it is
// asked about.
type engine interface {
	// Version names the engine as `vizier version` shows it.
	Version(context.Context) (string, error)

	// Heads returns the tips of local branches, by their short names. A branch
	// that does not exist, or whose name git does not allow, is "".
	Heads(ctx context.Context, branches []string) (map[string]kernel.CommitID, error)

	// Files reports which of files exist. A commit that does not exist contains
	// none.
	Files(ctx context.Context, files []File) (map[File]bool, error)

	// ReadFile returns a file's content as it is stored. If the file does not
	// exist, the error is fs.ErrNotExist.
	ReadFile(ctx context.Context, f File) ([]byte, error)

	// Head returns the branch checked out in the main working tree, even if it
	// has no commit yet, or "" if HEAD is detached.
	Head(context.Context) (string, error)

	// Clean reports whether the main working tree has neither uncommitted nor
	// untracked changes. Ignored files, submodules and Vizier's own files (see
	// scratch) do not count.
	Clean(context.Context) (bool, error)

	// IsAncestor reports whether commit is reachable from tip. A commit is
	// reachable from itself.
	IsAncestor(ctx context.Context, commit, tip kernel.CommitID) (bool, error)

	// PruneWorktree makes git forget a linked worktree whose directory is gone.
	// It fails for a locked one.
	PruneWorktree(context.Context, Worktree) error
}

// Backend is everything Vizier asks of git. Changes are made by the git CLI
// alone, so that hooks, reflogs and lock files are git's own.
type Backend interface {
	engine

	// CreateBranch creates a branch at a commit. It fails with ErrMoved if the
	// branch exists.
	CreateBranch(ctx context.Context, name string, at kernel.CommitID) error

	// DeleteBranch deletes a branch. It fails with ErrMoved if the branch is
	// not at old, and with ErrCheckedOut if a working tree has it checked out.
	DeleteBranch(ctx context.Context, name string, old kernel.CommitID) error

	// UpdateRef atomically moves a ref, given by its full name, from one commit
	// to another. It fails with ErrMoved if the ref is not at from. Working
	// trees are not changed.
	UpdateRef(ctx context.Context, ref string, to, from kernel.CommitID) error
}

// Errors that callers may distinguish.
var (
	ErrMoved      = errors.New("the ref is not where it was expected to be")
	ErrCheckedOut = errors.New("the branch is checked out")
)

// File names a file in a commit. Path is slash-separated and relative to the
// repository's root.
type File struct {
	Commit kernel.CommitID
	Path   string
}

// valid reports whether f can be looked up: its commit is an object id, and git
// reads its path literally.
func (f File) valid() bool {
	return validCommit(f.Commit) && f.Path == path.Clean(f.Path) && f.Path != "." &&
		!strings.HasPrefix(f.Path, "/") && f.Path != ".." && !strings.HasPrefix(f.Path, "../") &&
		!strings.Contains(f.Path, "\x00")
}

// validCommit reports whether c is a full object id, SHA-1 or SHA-256. Nothing
// else is passed to git as a commit.
func validCommit(c kernel.CommitID) bool {
	return (len(c) == 40 || len(c) == 64) && strings.Trim(string(c), "0123456789abcdef") == ""
}

// validBranch reports whether git allows a branch of that name. No valid name is read as an option, a
// pattern or a revision expression.
func validBranch(name string) bool { return name != "HEAD" && kernel.CheckRef(name) == nil }

// home is the directory of Vizier's own files in a working tree.
const home = ".vizier"

// linkedHome returns an error if home is a symbolic link in the working tree at top: nothing is written through it.
func linkedHome(top string) error {
	if info, err := os.Lstat(filepath.Join(top, home)); err != nil || info.Mode()&os.ModeSymlink == 0 {
		return nil // whatever else is wrong, git says
	}
	return fmt.Errorf("%s is a symbolic link, and Vizier follows none there: remove it, and bring back what git has with %s", filepath.Join(top, home), gitIn(top, "checkout", "HEAD", "--", home))
}

// scratch are the directories of Vizier's own files. They never make a working
// tree dirty (seed 000, clean_worktree), and are never committed: a prompt that an
// agent leaves in its worktree would come into the inbox with the merge.
var scratch = [...]string{".vizier/jobs", ".vizier/sessions", ".vizier/tmp", ".vizier/tmp-worktrees", ".vizier/state",
	".vizier/inbox", ".vizier/processed", ".vizier/finished", ".vizier/failed"}

// isScratch reports whether a path of the working tree is below scratch.
func isScratch(p string) bool {
	for _, dir := range scratch {
		if rest, ok := strings.CutPrefix(p, dir); ok && (rest == "" || rest[0] == '/') {
			return true
		}
	}
	return false
}

// notScratch returns the pathspecs of everything but scratch, at the top of a
// working tree.
func notScratch() []string { return except(scratch[:]) }

// except returns the pathspecs of everything but dirs, at the top of a working
// tree.
func except(dirs []string) []string {
	specs := []string{"."}
	for _, dir := range dirs {
		specs = append(specs, ":(top,exclude)"+dir)
	}
	return specs
}

// gitIn returns a command of git in the working tree at dir, to be pasted.
func gitIn(dir string, words ...string) string {
	return "`" + kernel.CommandLine(append([]string{"git", "-C", dir}, words...)...) + "`"
}
