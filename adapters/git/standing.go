package git

import (
	"context"
	"fmt"
	iofs "io/fs"
	"os"
	"path/filepath"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Standing returns the working trees that have branch checked out or rebase it, the main one
// first. obstacle, unless "", says that git cannot work in one of them that is no job's, as on a disk that is
// away, and what to do about it.
func (r *Repo) Standing(ctx context.Context, branch string) (dirs []string, obstacle string, err error) {
	trees, err := r.worktreesOn(ctx, branch)
	for _, w := range trees {
		if w.unfit != "" && !r.atHome(w) {
			return nil, obstacleIn(branch, w, w.unfit), nil
		}
		dirs = append(dirs, w.Path)
	}
	return dirs, "", err
}

// worktreesOn returns the working trees of Standing, and those in which git cannot work: once it can, the next commit there
// would take back what has moved the branch meanwhile. One that is gone and not locked is in nobody's way.
func (r *Repo) worktreesOn(ctx context.Context, branch string) ([]Worktree, error) {
	head, err := r.Head(ctx)
	if err == nil {
		head, err = r.real(ctx, head)
	}
	if err == nil {
		branch, err = r.real(ctx, branch)
	}
	if err != nil {
		return nil, err
	}
	var on []Worktree
	if head == branch || rebases(r.root.CommonDir, branch) {
		on = append(on, Worktree{Path: r.root.Dir, Branch: head, gitDir: r.root.CommonDir})
	}
	all, err := r.Worktrees()
	if err != nil {
		return nil, err
	}
	for _, w := range all {
		stands, err := r.real(ctx, w.Branch)
		if err != nil {
			return nil, err
		}
		if stands != branch && !rebases(w.gitDir, branch) {
			continue
		}
		if w, err = r.repaired(w); err != nil {
			return nil, err
		}
		var there bool
		if there, w.unfit, err = fitness(w); err != nil {
			return nil, err
		}
		if there {
			on = append(on, w)
		}
	}
	return on, nil
}

// fitness reports whether the linked worktree w is there, or is to come back. unfit, unless "", says why git cannot work in
// it, or would work on another repository from there, and what to do about that.
func fitness(w Worktree) (there bool, unfit string, err error) {
	link := filepath.Join(w.Path, ".git")
	locked := w.Locked && w.Reason != initializing
	st, err := os.Lstat(link)
	switch {
	case denied(err) != "":
		return true, "but " + denied(err), nil
	case absent(err):
		files, unread := os.ReadDir(w.Path)
		switch empty := unread == nil && len(files) == 0; {
		case locked && (empty || absent(unread)): // a disk that is away may leave an empty directory
			return true, away(w), nil
		case absent(unread):
			return false, "", nil
		}
		return true, unlinked(w, "is missing", nil), nil
	case err != nil:
		return false, "", err
	case leadsTo(w.Path) == resolved(w.gitDir):
		return true, "", nil
	}
	to, err := gitDirOf(w.Path)
	switch {
	case denied(err) != "":
		return true, "but " + denied(err), nil
	case err != nil || to == "":
		return true, unlinked(w, "leads nowhere", st), nil
	case st.IsDir():
		return true, unlinked(w, "is another repository's", st), nil
	}
	return false, "", nil // it belongs to the repository that this one is a copy of
}

// away says what to do about a worktree that is not there, and locked.
func away(w Worktree) string {
	lock := "locked"
	if w.Reason != "" {
		lock += " (" + w.Reason + ")"
	}
	return fmt.Sprintf("a worktree that is %s and not there: bring it back or, if it is gone for good, run %s", lock, prune(w))
}

// unlinked says what to do about a worktree whose .git, if it is there, is link.
func unlinked(w Worktree, how string, link iofs.FileInfo) string {
	repair, prune := "run `git worktree repair`", prune(w)
	move := fmt.Sprintf("move %s away, then ", filepath.Join(w.Path, ".git"))
	switch {
	case link == nil:
	case link.Mode().IsRegular():
		prune = move + prune
	default: // git replaces only a file
		repair = move + repair
	}
	return fmt.Sprintf("whose .git %s: %s or, if it is to be no worktree any more, %s", how, repair, prune)
}

// prune returns the commands that have git forget a worktree that is gone.
func prune(w Worktree) string {
	if w.Locked {
		return fmt.Sprintf("`%s`, then `git worktree prune`", kernel.CommandLine("git", "worktree", "unlock", w.Path))
	}
	return "`git worktree prune`"
}
