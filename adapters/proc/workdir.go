package proc

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/vizier-scheduler/vizier/internal/sys"
	"github.com/vizier-scheduler/vizier/kernel"
)

// dir returns the command's working directory. It must be in the repository,
// with links resolved.
func (l *Local) dir(j *kernel.Job) (string, error) {
	at := j.Spec.Task.Dir
	if tree := j.Spec.Task.Tree; tree != "" && (j.State.Context.Root == "" || j.State.Context.Root == ".") {
		return l.treeDir(j, tree)
	}
	path := filepath.Join(l.Root, j.State.Context.Root, at)
	if path == filepath.Clean(l.Root) {
		return path, nil
	}
	outside := fmt.Errorf("working directory %s is outside the repository", path)
	if filepath.IsAbs(at) || filepath.IsAbs(j.State.Context.Root) {
		return "", outside
	}
	gone := l.worktreeGone(j.State.Context)
	if j.Spec.Task.Builtin && j.Spec.Origin.About.Operation == "worktree.cleanup" && strings.HasPrefix(path, filepath.Clean(l.Root)+string(filepath.Separator)) {
		if _, err := os.Stat(path); gone || errors.Is(err, fs.ErrNotExist) {
			return filepath.EvalSymlinks(l.Root) // an earlier attempt removed it; this one completes the work
		}
	}
	if l.displaced(j.State.Context) {
		return "", fmt.Errorf("something else is in the place of the worktree that this ran in: move %s away, then retry", filepath.Join(l.Root, j.State.Context.Worktree))
	}
	real, err := inside(l.Root, path, outside)
	if err == nil && gone {
		return "", fmt.Errorf("the worktree that this ran in does not exist any more: %s is another's", path)
	}
	if to := l.astray(j.State.Context); err == nil && to != "" {
		if _, err := os.Lstat(filepath.Join(gitDirOf(l.Root), "worktrees", j.State.Context.Name)); errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("git does not know the worktree %s any more: `vizier retry %s` parks what is in it, and has it made anew", j.State.Context.Worktree, j.ID)
		}
		return "", fmt.Errorf("the repository was moved or copied, and git would work on %s from here: `vizier doctor --fix`, then `vizier retry %s`", to, j.ID)
	}
	return real, err
}

// astray returns the git directory that the worktree of c leads to, if that is not
// this repository's.
func (l *Local) astray(c kernel.Context) string {
	dir := filepath.Join(l.Root, c.Root)
	link, err := readLink(dir)
	if err != nil || c.Name == "" || c.Root != c.Worktree || kernel.WorktreeName(string(link)) != c.Name {
		return ""
	}
	to := strings.TrimSpace(strings.TrimPrefix(string(link), "gitdir:"))
	if !filepath.IsAbs(to) {
		to = filepath.Join(dir, to)
	}
	own, err := filepath.EvalSymlinks(gitDirOf(l.Root))
	if at, again := filepath.EvalSymlinks(filepath.Dir(filepath.Dir(to))); err == nil && again == nil && at == own {
		return ""
	}
	return to
}

// readLink returns the file by which the linked worktree at dir leads to its git directory. A job can write there:
// reading a pipe or a device in its place would not end.
func readLink(dir string) ([]byte, error) {
	return sys.ReadRegular(filepath.Join(dir, ".git"), 1<<20) // git's own limit
}

// displaced reports whether a file or a symbolic link is in the place of the
// worktree of c.
func (l *Local) displaced(c kernel.Context) bool {
	st, err := os.Lstat(filepath.Join(l.Root, c.Worktree))
	return c.Worktree != "" && err == nil && !st.IsDir()
}

// worktreeGone reports whether the worktree of c does not exist any more: its
// directory is gone or displaced, or is now that of a worktree with another name.
func (l *Local) worktreeGone(c kernel.Context) bool {
	if c.Root == "" || c.Root == "." {
		return false
	}
	dir := filepath.Join(l.Root, c.Root)
	if _, err := os.Stat(dir); err != nil || l.displaced(c) {
		return err == nil || errors.Is(err, fs.ErrNotExist)
	}
	if c.Name == "" || c.Root != c.Worktree {
		return false
	}
	link, err := readLink(dir)
	name := kernel.WorktreeName(string(link))
	return err == nil && name != "" && name != c.Name
}

// inside returns the directory at path, which must be in root with links
// resolved; otherwise it fails with the error outside.
func inside(root, path string, outside error) (string, error) {
	at, err := filepath.EvalSymlinks(root)
	if err != nil {
		return "", fmt.Errorf("repository: %w", err)
	}
	real, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) && !strings.HasPrefix(path, filepath.Clean(root)+string(filepath.Separator)) {
		return "", outside
	}
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("working directory %s does not exist", path)
	}
	if err != nil {
		return "", fmt.Errorf("working directory: %w", err)
	}
	if real != at && !strings.HasPrefix(real, at+string(filepath.Separator)) {
		return "", outside
	}
	if st, err := os.Stat(real); err != nil || !st.IsDir() {
		return "", fmt.Errorf("working directory %s is not a directory", path)
	}
	if unix.Access(real, unix.X_OK) != nil {
		return "", fmt.Errorf("working directory %s may not be entered: `%s`, then retry", path, kernel.CommandLine("chmod", "u+rwx", path))
	}
	return real, nil
}

// treeMoved returns where the linked worktree is now that git made at tree, whose name git keeps where somebody moves it; "":
// that is not known.
func (l *Local) treeMoved(tree string) string {
	dir := filepath.Join(gitDirOf(l.Root), "worktrees", filepath.Base(tree))
	link, err := os.ReadFile(filepath.Join(dir, "gitdir"))
	at := strings.TrimSpace(string(link))
	if err != nil || at == "" {
		return ""
	}
	if !filepath.IsAbs(at) {
		at = filepath.Join(dir, at)
	}
	if _, err := os.Lstat(at); err != nil || filepath.Dir(at) == filepath.Clean(tree) {
		return ""
	}
	return filepath.Dir(at)
}

// treeDir returns the working directory of a job that runs in a linked
// worktree.
func (l *Local) treeDir(j *kernel.Job, tree string) (string, error) {
	if st, err := os.Lstat(filepath.Join(tree, ".git")); err != nil || !st.Mode().IsRegular() {
		if j.Spec.Task.Builtin && j.Spec.Origin.About.Operation == "worktree.prepare" {
			return l.Root, nil // it makes a tree of its own
		}
		if at := l.treeMoved(tree); at != "" {
			return "", fmt.Errorf("the worktree %s that the job was submitted from was moved to %s: `%s`, then retry, or submit the job from there", tree, at, kernel.MoveWorktree(at, tree))
		}
		return "", fmt.Errorf("the worktree %s that the job was submitted from is gone: `git worktree add` it again and retry, or submit the job from another", tree)
	}
	outside := fmt.Errorf("working directory %s is outside the worktree %s", j.Spec.Task.Dir, tree)
	if filepath.IsAbs(j.Spec.Task.Dir) {
		return "", outside
	}
	return inside(tree, filepath.Join(tree, j.Spec.Task.Dir), outside)
}
