package git

import (
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Worktree is a linked worktree as recorded in the repository.
type Worktree struct {
	Name   string // git's name for it
	Path   string // where its files are, or were
	Branch string // "" : detached
	Locked bool
	Reason string // of the lock
	gitDir string
	unfit  string // of worktreesOn: why git cannot work in it, and what to do about that
}

// worktrees lists the linked worktrees in the order of their names. It reads
// the files that gitrepository-layout(5) describes: there is no other source of
// git's name for a worktree, and before git 2.36 a listing by git breaks on
// line breaks in paths. Like git, it skips an entry that cannot be read.
func worktrees(common string) ([]Worktree, error) {
	entries, err := os.ReadDir(filepath.Join(common, "worktrees"))
	if err != nil && !errors.Is(err, iofs.ErrNotExist) {
		return nil, fmt.Errorf("list worktrees: %w", err)
	}
	var all []Worktree
	var heads map[string]string // of headsInTables; nil: it was not asked yet
	for _, e := range entries {
		w := Worktree{Name: e.Name(), gitDir: filepath.Join(common, "worktrees", e.Name())}
		link, err := os.ReadFile(filepath.Join(w.gitDir, "gitdir"))
		if err != nil {
			continue
		}
		w.Path = filepath.Dir(absolute(w.gitDir, strings.TrimRight(string(link), "\n")))
		if head, err := refText(filepath.Join(w.gitDir, "HEAD")); err == nil {
			branch, on := strings.CutPrefix(head, "ref: refs/heads/")
			switch {
			case on && branch == tableHead:
				if heads == nil {
					heads, err = headsInTables(common)
				}
				var listed bool
				if w.Branch, listed = heads[w.Path]; !listed && err == nil {
					w.Branch, err = headInTables(w.gitDir)
				}
				if err != nil {
					return nil, err
				}
			case on:
				w.Branch = branch
			}
		}
		w.readLock()
		all = append(all, w)
	}
	return all, nil
}

// readLock sets whether, and why, w is locked.
func (w *Worktree) readLock() {
	if reason, err := os.ReadFile(filepath.Join(w.gitDir, "locked")); err == nil {
		w.Locked, w.Reason = true, strings.TrimSpace(string(reason))
	}
}

// worktreeAt returns the worktree registered at dir, or the zero value.
func worktreeAt(common, dir string) (Worktree, error) {
	all, err := worktrees(common)
	for _, w := range all {
		if resolved(w.Path) == resolved(dir) {
			return w, nil
		}
	}
	return Worktree{}, err
}

// resolved returns path with the symbolic links in its longest existing part
// resolved.
func resolved(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	parent := filepath.Dir(path)
	if parent == path {
		return path
	}
	return filepath.Join(resolved(parent), filepath.Base(path))
}

// rebases reports whether a rebase in the working tree of gitDir is going to move branch when it
// ends. Until then HEAD is detached, and git counts the branch as checked out there.
func rebases(gitDir, branch string) bool {
	ref := "refs/heads/" + branch
	for _, file := range []string{"rebase-merge/head-name", "rebase-apply/head-name", "rebase-merge/update-refs"} {
		b, err := os.ReadFile(filepath.Join(gitDir, file))
		if err == nil && slices.Contains(strings.Split(string(b), "\n"), ref) {
			return true
		}
	}
	return false
}

// operation returns what is in progress in the working tree of gitDir:
// "rebase", "am", "merge", "cherry-pick" or "revert", or "" for nothing. A
// rebase is checked first, because it leaves the marks of the others too when
// it stops.
func operation(gitDir string) (string, error) {
	for _, mark := range []struct{ file, op string }{
		{"rebase-merge", "rebase"},
		{"rebase-apply/applying", "am"},
		{"rebase-apply", "rebase"},
		{"MERGE_HEAD", "merge"},
		{"CHERRY_PICK_HEAD", "cherry-pick"},
		{"REVERT_HEAD", "revert"},
	} {
		_, err := os.Stat(filepath.Join(gitDir, mark.file))
		if err == nil {
			return mark.op, nil
		}
		if !errors.Is(err, iofs.ErrNotExist) {
			return "", fmt.Errorf("look for an operation in progress: %w", err)
		}
	}
	if inTables(gitDir) {
		if op, err := pickInTables(gitDir); err != nil || op != "" {
			return op, err
		}
	}
	// Between two picks of a series, only the list of remaining ones exists.
	todo, err := os.ReadFile(filepath.Join(gitDir, "sequencer", "todo"))
	switch {
	case errors.Is(err, iofs.ErrNotExist):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("look for an operation in progress: %w", err)
	case strings.HasPrefix(string(todo), "revert"):
		return "revert", nil
	default:
		return "cherry-pick", nil
	}
}
