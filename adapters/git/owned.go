package git

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/vizier-scheduler/vizier/internal/sys"
	"github.com/vizier-scheduler/vizier/kernel"
)

// A job's worktree has a name, which is git's name for it, and a place, which
// is its directory. The name is unique to the job and identifies the tree for
// ever. The place is reused by later jobs, because data which agents keep by
// directory would pile up otherwise. So trees are found and removed by name.

// OwnedWorktree returns the job's worktree that git has under a name, finished
// or not, or zero if there is none. A damaged one, in which git cannot work, is
// removed like any other, so that the job makes it anew. It is an error if
// something else is in its place.
func (r *Repo) OwnedWorktree(name string) (kernel.Context, error) {
	w, err := r.named(name)
	if err == nil {
		w, err = r.sound(context.Background(), w, "")
	}
	if err != nil || w.Name == "" {
		return kernel.Context{}, err
	}
	return contextOf(w), nil
}

// sound returns w or, after removing it, the zero value if it is damaged. branch is
// that of a worktree which git does not list any more.
func (r *Repo) sound(ctx context.Context, w Worktree, branch string) (Worktree, error) {
	if w.Name == "" {
		return w, nil
	}
	sys.LetIn(w.Path)
	if err := usable(w.Path); err != nil {
		return w, err
	}
	c := contextOf(w)
	if why, _, err := r.Damage(c); err != nil || why == "" {
		return w, err
	}
	c.Branch = cmp.Or(c.Branch, branch)
	if gone := r.RemoveWorktree(ctx, c); gone.Status != kernel.CleanupDone {
		return Worktree{}, errors.New(gone.Error)
	}
	return Worktree{}, nil
}

// WorktreesOf returns the worktrees that git has for the jobs: those that they
// own, and those of their operations, such as a merge.
func (r *Repo) WorktreesOf(jobs []kernel.JobID) (map[kernel.JobID][]kernel.Context, error) {
	all, err := r.Worktrees()
	out := map[kernel.JobID][]kernel.Context{}
	for _, w := range all {
		id := kernel.JobID(w.Name[strings.LastIndexByte(w.Name, '-')+1:])
		if (r.atHome(w) || r.movedTo(w) != "") && slices.Contains(jobs, id) {
			out[id] = append(out[id], contextOf(w))
		}
	}
	return out, err
}

// atHome reports whether w is among the worktrees of jobs.
func (r *Repo) atHome(w Worktree) bool {
	return resolved(filepath.Dir(w.Path)) == filepath.Join(r.root.Dir, worktreeHome)
}

// LinkedHome returns where .vizier/tmp-worktrees leads if it is a symbolic link, which has no place for worktrees; else "".
func (r *Repo) LinkedHome() string {
	to, err := os.Readlink(filepath.Join(r.root.Dir, worktreeHome))
	if err != nil { // it is no link
		return ""
	}
	return to
}

// EnsureWorktree makes sure that a job has a linked worktree under a name, with
// branch checked out or, if branch is "", detached at commit. It is at place, a
// directory below .vizier/tmp-worktrees, or at the first free one of place-2,
// place-3 and so on. An existing worktree of that name and branch is left as it
// is. One that a crash left unfinished is made anew, and so is a damaged one, of
// which the files are parked. One of another branch is
// parked and removed first. The branch may be checked out elsewhere.
//
// A worktree of a branch is as sparse as the checkout that Vizier runs in. One at a commit has all
// files: what is merged or judged there is the whole commit.
func (r *Repo) EnsureWorktree(ctx context.Context, name, place, branch string, commit kernel.CommitID) (kernel.Context, error) {
	c, err := r.ensureWorktree(ctx, name, place, branch, commit)
	if err != nil {
		return kernel.Context{}, fmt.Errorf("add worktree %s: %w", place, err)
	}
	return c, nil
}

func (r *Repo) ensureWorktree(ctx context.Context, name, place, branch string, commit kernel.CommitID) (kernel.Context, error) {
	home := filepath.Join(r.root.Dir, worktreeHome)
	if to := r.LinkedHome(); to != "" {
		return kernel.Context{}, fmt.Errorf("%s is a link to %s, but the worktrees of jobs need a directory there: remove the link, then try again", worktreeHome, to)
	}
	for _, dir := range []string{name, place} {
		_, err := r.ownedDir(kernel.Context{Worktree: filepath.Join(home, dir)})
		if filepath.Base(dir) != dir {
			err = errors.New("it is not a name")
		}
		if err != nil {
			return kernel.Context{}, fmt.Errorf("%s is no directory for a worktree of a job: %w", dir, err)
		}
	}
	w, err := r.named(name)
	if err == nil && w.Name == "" {
		w = r.unlisted(r.placeOf(Worktree{Name: name, Path: filepath.Join(home, name)}), name)
	}
	if err == nil {
		w, err = r.sound(ctx, w, branch)
	}
	if err != nil {
		return kernel.Context{}, err
	}
	present, err := exists(w.Path)
	switch {
	case err != nil:
		return kernel.Context{}, err
	case w.Name != "" && present && w.Reason != initializing && w.Branch == branch:
		return contextOf(w), nil
	case w.Name != "":
		if gone := r.RemoveWorktree(ctx, contextOf(w)); gone.Status != kernel.CleanupDone {
			return kernel.Context{}, errors.New(gone.Error)
		}
	}
	if w, err = r.addWorktree(ctx, filepath.Join(home, name), branch, commit); err != nil {
		return kernel.Context{}, err
	}
	if branch == "" {
		if err := whole(w); err != nil {
			return kernel.Context{}, err
		}
	}
	if w, err = r.moveToPlace(w, filepath.Join(home, place)); err != nil {
		return kernel.Context{}, err
	}
	return contextOf(w), r.fill(ctx, w)
}

func contextOf(w Worktree) kernel.Context {
	rel := path.Join(worktreeHome, filepath.Base(w.Path))
	return kernel.Context{Root: rel, Worktree: rel, Name: w.Name, Branch: w.Branch, Owned: true}
}

// named returns the job's worktree called name, or the zero value.
func (r *Repo) named(name string) (Worktree, error) {
	all, err := r.Worktrees()
	for _, w := range all {
		switch {
		case w.Name != name:
		case r.atHome(w), r.movedTo(w) != "":
			return r.repaired(w)
		case NameAt(w.Path) == name:
			return Worktree{}, fmt.Errorf("the worktree %s was moved to %s: `%s`, then retry", name, w.Path, kernel.MoveWorktree(w.Path, path.Join(worktreeHome, name)))
		default:
			return Worktree{}, fmt.Errorf("git has the worktree %s at %s, and its files are not there: put them back, or give them up with `%s`; then retry", name, w.Path, kernel.CommandLine("git", "worktree", "remove", "--force", w.Path))
		}
	}
	return Worktree{}, err
}

// addWorktree makes a worktree at dir, without files. It is named after the
// last element of dir, and locked as unfinished.
func (r *Repo) addWorktree(ctx context.Context, dir, branch string, commit kernel.CommitID) (Worktree, error) {
	args := []string{"worktree", "add", "--quiet", "--no-checkout", "--lock", "--reason", initializing}
	if branch == "" {
		if err := commits(commit); err != nil {
			return Worktree{}, err
		}
		args = append(args, "--detach", "--", dir, string(commit))
	} else {
		if !validBranch(branch) {
			return Worktree{}, fmt.Errorf("git does not allow the branch name %q", branch)
		}
		// Without the branch's own tip, git might use a tag or a remote's
		// branch of the same name instead.
		tips, err := r.Heads(ctx, []string{branch})
		if err == nil && tips[branch] == "" {
			err = fmt.Errorf("there is no branch %s", branch)
		}
		if err != nil {
			return Worktree{}, err
		}
		args = append(args, "--force", "--", dir, branch)
	}
	// git fails if another worktree is being made or removed at that moment, or
	// if another git prunes the one that was just begun; then it is run again.
	const tries, pause = 8, 20 * time.Millisecond
	for n := 1; ; n++ {
		_, err := r.cli.run(ctx, command{args: args, writes: true, hooks: true})
		if err == nil {
			break
		}
		if n == tries || !strings.Contains(err.Error(), "/worktrees/") {
			return Worktree{}, err
		}
		time.Sleep(time.Duration(n) * pause)
	}
	w, err := worktreeAt(r.root.CommonDir, dir)
	if err == nil && w.Name == "" {
		err = errors.New("git does not list it")
	}
	return w, err
}

// whole takes from w, which has no files yet, the patterns of a sparse checkout that git copied from
// another one. Without them git checks out everything, whatever core.sparseCheckout is, which may be
// set for all worktrees at once.
func whole(w Worktree) error {
	if err := os.Remove(patternsOf(w.gitDir)); err != nil && !absent(err) {
		return err
	}
	return nil
}

// patternsOf returns the file of a git directory that says what a sparse checkout has.
func patternsOf(gitDir string) string { return filepath.Join(gitDir, "info", "sparse-checkout") }

// moveToPlace moves w, which has no files yet, to place or to the first free
// one of place-2, place-3 and so on. Of several processes that try the same
// directory only one succeeds.
func (r *Repo) moveToPlace(w Worktree, place string) (Worktree, error) {
	from := w.Path
	for n := 1; ; n++ {
		dir := place
		if n > 1 {
			dir += "-" + strconv.Itoa(n)
		}
		if dir == from {
			return w, nil
		}
		_ = os.Remove(dir + string(filepath.Separator)) // only removes an empty directory
		if taken, err := r.inUse(dir, w.Name); err != nil {
			return w, err
		} else if taken {
			continue
		}
		if err := os.Rename(from, dir); errors.Is(err, iofs.ErrExist) {
			continue
		} else if err != nil {
			return w, err
		}
		// Another worktree may have been moved there and be about to move back.
		listed, err := r.listed(dir, w.Name)
		if err == nil && !listed {
			w.Path = dir
			return w, r.repoint(w)
		}
		if err := errors.Join(err, os.Rename(dir, from)); err != nil {
			return w, err
		}
	}
}

// inUse reports whether dir exists, or git has a worktree there that is not
// called except.
func (r *Repo) inUse(dir, except string) (bool, error) {
	there, err := exists(dir)
	if err != nil || there {
		return there, err
	}
	return r.listed(dir, except)
}

// listed reports whether git has a worktree at dir that is not called except.
func (r *Repo) listed(dir, except string) (bool, error) {
	all, err := r.Worktrees()
	for _, w := range all {
		if w.Name != except && resolved(w.Path) == dir {
			return true, nil
		}
	}
	return false, err
}

// repoint records in git that w has moved to its path, a sibling of its former
// one. Its link to the git directory stays valid.
func (r *Repo) repoint(w Worktree) error {
	file := filepath.Join(w.gitDir, "gitdir")
	link, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	beside := filepath.Dir(filepath.Dir(strings.TrimRight(string(link), "\n"))) // absolute or relative, as git is configured
	if err := os.WriteFile(file+".new", []byte(filepath.Join(beside, filepath.Base(w.Path), ".git")+"\n"), 0o666); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

// fill checks out w's files as git does for a new worktree, and removes the
// mark of an unfinished one.
func (r *Repo) fill(ctx context.Context, w Worktree) error {
	if _, err := r.cli.run(ctx, command{dir: w.Path, args: []string{"reset", "--hard", "--quiet", "--no-recurse-submodules"}, writes: true, hooks: true}); err != nil {
		return err
	}
	head, err := r.HeadCommit(ctx, w.Path)
	if err != nil {
		return err
	}
	none := strings.Repeat("0", len(head))
	_, err = r.cli.run(ctx, command{dir: w.Path, writes: true, hooks: true,
		args: []string{"hook", "run", "--ignore-missing", "post-checkout", "--", none, string(head), "1"}})
	if e := (*Error)(nil); errors.As(err, &e) {
		e.Op = "hook run post-checkout"
	}
	if err != nil {
		return err
	}
	return os.Remove(filepath.Join(w.gitDir, "locked"))
}
