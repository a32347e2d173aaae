package git

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/vizier-scheduler/vizier/internal/sys"
	"github.com/vizier-scheduler/vizier/kernel"
)

// RemoveWorktree removes a job's own worktree (seed 000, semantics 3.11 and
// 3.13). Work in it that no ref keeps is parked first, also if git's own files of
// it are damaged; if that fails, the worktree is not removed. After a crash at any point, the call can be
// repeated. A tree of another name that has taken its place meanwhile is not
// touched.
//
// The result is CleanupSkipped for a worktree that the job does not own,
// CleanupDone when it is gone, CleanupFailed when removing it was refused, and
// CleanupDegraded when git could not be made to forget it. With CleanupDone, an
// error says which of its files are left aside (LeftFiles): they are in nobody's
// way. It is refused as long as something is mounted in it.
func (r *Repo) RemoveWorktree(ctx context.Context, c kernel.Context) kernel.Cleanup {
	return r.remove(ctx, c, removed)
}

// DiscardWorktree is RemoveWorktree for a worktree whose changes are worth nothing: of work in it, only commits are parked.
func (r *Repo) DiscardWorktree(ctx context.Context, c kernel.Context) kernel.Cleanup {
	return r.remove(ctx, c, discarded)
}

func (r *Repo) remove(ctx context.Context, c kernel.Context, becomes fate) kernel.Cleanup {
	if !c.Owned || c.Worktree == "" {
		return kernel.Cleanup{Status: kernel.CleanupSkipped}
	}
	dir, err := r.ownedDir(c)
	if err == nil {
		err = r.removeWorktree(ctx, dir, c.Name, c.Branch, becomes)
	}
	var degraded *pruneError
	var left *leftError
	switch {
	case err == nil:
		return kernel.Cleanup{Status: kernel.CleanupDone}
	case errors.As(err, &left):
		return kernel.Cleanup{Status: kernel.CleanupDone, Error: err.Error()}
	case errors.As(err, &degraded):
		return kernel.Cleanup{Status: kernel.CleanupDegraded, Error: err.Error()}
	default:
		return kernel.Cleanup{Status: kernel.CleanupFailed, Error: fmt.Sprintf("worktree %s was not removed: %v", c.Worktree, err)}
	}
}

// InPlace reports whether the worktree of c exists at its path, belongs to c, is known to git and
// was not taken off its branch by Release. One that nobody may look into counts as c's.
func (r *Repo) InPlace(c kernel.Context) bool {
	dir := c.Worktree
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(r.root.Dir, dir)
	}
	name := NameAt(dir)
	if _, err := os.Lstat(filepath.Join(dir, ".git")); errors.Is(err, iofs.ErrPermission) {
		name = c.Name
	}
	if known, err := exists(filepath.Join(r.root.CommonDir, "worktrees", name)); err == nil && !known { // as after `git worktree prune` where the repository was moved to
		return false
	}
	return name != "" && (c.Name == "" || name == c.Name) && !r.released(name)
}

// released reports whether the last change of a worktree's head is its Release.
func (r *Repo) released(name string) bool {
	log, err := r.headLog(name)
	return err == nil && strings.HasSuffix(log[len(log)-1], "\t"+releasedMessage)
}

// headLog returns the lines of the reflog of a worktree's head, the oldest first.
// There may be no reflog.
func (r *Repo) headLog(name string) ([]string, error) {
	gitDir := filepath.Join(r.root.CommonDir, "worktrees", name)
	if tables, err := exists(filepath.Join(r.root.CommonDir, tablesDir)); err != nil || tables {
		return logInTables(gitDir)
	}
	log, err := os.ReadFile(filepath.Join(gitDir, "logs", "HEAD"))
	return strings.Split(strings.TrimSpace(string(log)), "\n"), err
}

// pruneError says that git did not forget a worktree.
type pruneError struct {
	name            string
	first, fallback error
}

func (e *pruneError) Error() string {
	return fmt.Sprintf("failed to prune worktree %s: %v; fallback cleanup failed: %v", e.name, e.first, e.fallback)
}

// leftError says that files of a removed worktree are left.
type leftError struct {
	aside string // where
	cause error
}

func (e *leftError) Error() string {
	return fmt.Sprintf("files of a removed worktree are left in %s: %v: make it possible to remove them, then run `vizier doctor --fix`", e.aside, e.cause)
}

// leftPrefix begins the name of the directory that a worktree becomes when it is
// removed.
const leftPrefix = ".removed-"

// LeftFiles returns the directories with what is left of removed worktrees,
// relative to the main working tree.
func (r *Repo) LeftFiles() ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(r.root.Dir, worktreeHome))
	if err != nil && !errors.Is(err, iofs.ErrNotExist) {
		return nil, err
	}
	var out []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), leftPrefix) {
			out = append(out, filepath.Join(worktreeHome, e.Name()))
		}
	}
	return out, nil
}

// RemoveLeft removes a directory of LeftFiles.
func (r *Repo) RemoveLeft(dir string) error { return sys.RemoveTree(filepath.Join(r.root.Dir, dir)) }

// worktreeHome is the directory of the worktrees of jobs, relative to the main
// working tree.
const worktreeHome = ".vizier/tmp-worktrees"

// ownedDir returns the directory of c's worktree, if a job may own it: it must
// be below worktreeHome, reached without a symbolic link, and not be one of the
// long-lived workspaces.
func (r *Repo) ownedDir(c kernel.Context) (string, error) {
	home := filepath.Join(r.root.Dir, worktreeHome)
	dir := absolute(r.root.Dir, c.Worktree)
	below, err := filepath.Rel(home, resolved(dir))
	switch {
	case err != nil || below == "." || !filepath.IsLocal(below) || dir != filepath.Join(home, below):
		if why := usable(dir); filepath.Dir(dir) == home && why != nil {
			return "", why
		}
		return "", fmt.Errorf("it is not below %s", worktreeHome)
	case strings.HasPrefix(c.Name, "vizier-workspace-") || strings.HasPrefix(filepath.Base(dir), "workspace-"):
		return "", errors.New("it is a workspace, which no job owns")
	}
	return dir, nil
}

// removeWorktree removes the worktree called name, of branch if it has one, or,
// without a name, whatever is at dir. It first moves the files aside as a whole, so that a crash never
// leaves half a worktree that git still lists. If git does not forget the
// worktree, they are moved back. becomes is removed or discarded.
func (r *Repo) removeWorktree(ctx context.Context, dir, name, branch string, becomes fate) error {
	w, err := r.removable(dir, name)
	if err != nil {
		return err
	}
	if w.Reason == initializing { // it may have been on its way to its place
		dir = r.placeOf(w)
	}
	present, err := exists(dir)
	if err == nil && present {
		sys.LetIn(dir)
		err = errors.Join(usable(dir), sys.Unmounted(dir))
	}
	if err != nil {
		return err
	}
	listed := w.Name != ""
	if !listed {
		w = r.unlisted(dir, name)
	}
	if w.Name != "" && present && (w.Reason != initializing || !listed) {
		why, err := r.damage(w)
		if err == nil && (why != "" || !listed) { // git forgets only what it lists
			w, err = r.mend(ctx, w, branch)
		}
		if err != nil {
			return err
		}
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil { // git works from there, and a person may have removed it
		return err
	}
	if other := NameAt(dir); w.Name == "" && name != "" && other != "" && other != name {
		present = false // the files there belong to another worktree
	}
	aside := filepath.Join(filepath.Dir(dir), leftPrefix+cmp.Or(name, filepath.Base(dir)))
	switch {
	case w.Name == "" && present:
		if os.Remove(dir+string(filepath.Separator)) != nil { // only removes an empty directory
			return errors.New("git does not list it as a worktree, so its files cannot be checked: look at them and remove it by hand")
		}
	case w.Name != "":
		err := r.save(ctx, w, present, becomes)
		if err == nil {
			err = r.saveLogged(ctx, w)
		}
		if err != nil {
			return err
		}
		if err := r.detach(ctx, w, dir, aside, present); err != nil {
			return err
		}
		_ = r.letGo(ctx, w.Name) // else DropHeld does
	}
	if err := sys.RemoveTree(aside); err != nil {
		return &leftError{aside, err}
	}
	return nil
}

// removable returns the worktree called name, if it is at dir or was never
// finished, or without a name the one at dir.
func (r *Repo) removable(dir, name string) (Worktree, error) {
	if name == "" {
		return worktreeAt(r.root.CommonDir, dir)
	}
	all, err := r.Worktrees()
	for _, w := range all {
		switch {
		case w.Name != name:
		case r.movedTo(w) == dir:
			return r.repaired(w)
		case w.Reason == initializing || resolved(w.Path) == resolved(dir):
			return w, nil
		}
	}
	return Worktree{}, err
}

// placeOf returns where the files of the unfinished worktree w are: where git
// has it on record, or the place to which it was moved before git was told.
func (r *Repo) placeOf(w Worktree) string {
	home := filepath.Dir(w.Path)
	entries, err := os.ReadDir(home)
	if err != nil {
		return w.Path
	}
	for _, e := range entries {
		if dir := filepath.Join(home, e.Name()); e.IsDir() && NameAt(dir) == w.Name {
			return dir
		}
	}
	return w.Path
}

// NameAt returns the name of the worktree whose files are at dir, or "" if
// there is none.
func NameAt(dir string) string {
	link, err := sys.ReadRegular(filepath.Join(dir, ".git"), maxLink)
	if err != nil {
		return ""
	}
	return kernel.WorktreeName(string(link))
}

// detach moves the files of w from dir to aside and makes git forget w.
func (r *Repo) detach(ctx context.Context, w Worktree, dir, aside string, present bool) error {
	if present {
		if err := sys.RemoveTree(aside); err != nil {
			return err
		}
		if err := os.Rename(dir, aside); err != nil {
			return err
		}
	}
	first := r.prune(ctx, w)
	if first == nil {
		return nil
	}
	second := r.cli.forget(ctx, w)
	left := r.forgotten(w)
	if left == nil {
		return nil
	}
	if second == nil {
		second = left
	}
	if present {
		if err := os.Rename(aside, dir); err != nil {
			second = errors.Join(second, err)
		}
	}
	return &pruneError{name: w.Name, first: first, fallback: second}
}

// prune makes git forget w, whose directory is gone, and checks that it did.
func (r *Repo) prune(ctx context.Context, w Worktree) error {
	var err error
	if w.Reason == initializing { // the lock is removed with the worktree
		_, err = r.cli.run(ctx, command{args: []string{"worktree", "remove", "--force", "--force", "--", w.Path}, writes: true})
	} else {
		err = r.PruneWorktree(ctx, w)
	}
	if err != nil {
		return err
	}
	return r.forgotten(w)
}

// forgotten returns an error if git still lists w.
func (r *Repo) forgotten(w Worktree) error {
	still, err := exists(w.gitDir)
	if err == nil && still {
		err = errors.New("git still lists it")
	}
	return err
}

func exists(path string) (bool, error) {
	_, err := os.Lstat(path)
	if absent(err) {
		return false, nil
	}
	return err == nil, err
}
