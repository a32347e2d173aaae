package git

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vizier-scheduler/vizier/internal/sys"
	"github.com/vizier-scheduler/vizier/kernel"
)

// Obstacle says why the working trees that have branch checked out cannot
// follow it, and what to do about it. It returns "" if they can. It first ends
// what an Advance that was killed has left half done in them.
func (r *Repo) Obstacle(ctx context.Context, branch string) (string, error) {
	on, err := r.worktreesOn(ctx, branch)
	if err != nil {
		return "", err
	}
	return r.obstacle(ctx, branch, on)
}

// obstacle is Obstacle for the trees on.
func (r *Repo) obstacle(ctx context.Context, branch string, on []Worktree) (string, error) {
	if obstacle, err := r.endAll(ctx, branch, on); err != nil || obstacle != "" {
		return obstacle, err
	}
	for _, w := range on {
		if w.unfit != "" {
			return obstacleIn(branch, w, w.unfit), nil
		}
		op, err := operation(w.gitDir)
		if err != nil {
			return "", err
		}
		if op != "" {
			return fmt.Sprintf("%s is checked out in %s, where a %s is in progress: finish or abort it", branch, w.Path, op), nil
		}
		changed, err := r.cli.changed(ctx, w.Path)
		if err != nil {
			return "", fmt.Errorf("look at %s, in which %s is checked out: %w", w.Path, branch, err)
		}
		if changed.shut != "" {
			return obstacleIn(branch, w, "but "+cannotRead(filepath.Join(w.Path, changed.shut))), nil
		}
		if changed.any() && !changed.others && len(changed.unstage) == 0 { // a merge that moved a submodule leaves it so
			return fmt.Sprintf("%s is checked out in %s, where submodules are at other commits than it has: run %s; a commit would take these for it",
				branch, w.Path, changed.undo(w.Path)), nil
		}
		if changed.any() {
			return fmt.Sprintf("%s is checked out in %s with uncommitted changes: commit them, or %s", branch, w.Path, changed.undo(w.Path)), nil
		}
	}
	return "", nil
}

// EndAdvance ends what an Advance of branch that was killed has left half done:
// the working trees that have it checked out become what it is. obstacle,
// unless "", says why one cannot.
func (r *Repo) EndAdvance(ctx context.Context, branch string) (obstacle string, err error) {
	on, err := r.worktreesOn(ctx, branch)
	if err != nil {
		return "", err
	}
	return r.endAll(ctx, branch, on)
}

// endAll is EndAdvance for the trees on. It also ends what it can in trees that somebody has put on another branch
// meanwhile, which are in nobody's way.
func (r *Repo) endAll(ctx context.Context, branch string, on []Worktree) (obstacle string, err error) {
	_ = r.eachHalfWay(func(f *following) error { // what cannot be ended there, a doctor finds
		if slices.ContainsFunc(on, func(w Worktree) bool { return w.Path == f.w.Path }) {
			f.release()
			return nil
		}
		_, err := f.end(ctx)
		return err
	})
	for _, w := range on {
		f, busy, err := r.take(w, false)
		if err != nil {
			return "", err
		}
		if busy {
			return obstacleIn(branch, w, isFollowing), nil
		}
		if f == nil {
			continue
		}
		if w.unfit != "" {
			f.release()
			return obstacleIn(branch, w, w.unfit), nil
		}
		obstacle, err := f.end(ctx)
		if shut := denied(err); shut != "" {
			obstacle = "which is half way to another commit, but " + shut
		} else if err != nil && ctx.Err() == nil {
			obstacle = fmt.Sprintf("which is half way to another commit (%v): see to what that names, then run `vizier doctor --fix`", err)
		}
		if obstacle != "" {
			return obstacleIn(branch, w, obstacle), nil
		}
		if err != nil {
			return "", err
		}
	}
	return "", nil
}

// HalfWay returns the working trees that an Advance which was killed has left half
// way between two commits.
func (r *Repo) HalfWay() (dirs []string, err error) {
	err = r.eachHalfWay(func(f *following) error {
		if f.to != "" || f.holdsIndex() { // else it has ended, or has not begun
			dirs = append(dirs, f.w.Path)
		}
		f.release()
		return nil
	})
	return dirs, err
}

// EndHalfWay ends what HalfWay finds in the working tree at dir.
func (r *Repo) EndHalfWay(ctx context.Context, dir string) error {
	trees, err := r.mayBeHalfWay()
	at := slices.IndexFunc(trees, func(w Worktree) bool { return w.Path == dir })
	if at < 0 {
		return err
	}
	f, _, err := r.take(trees[at], false)
	if f == nil {
		return err
	}
	obstacle, err := f.end(ctx)
	if shut := denied(err); shut != "" {
		return errors.New(shut)
	}
	if err == nil && obstacle != "" {
		err = errors.New(obstacle)
	}
	return err
}

// mayBeHalfWay returns all working trees.
func (r *Repo) mayBeHalfWay() ([]Worktree, error) {
	trees, err := r.Worktrees()
	return append(trees, Worktree{Path: r.root.Dir, gitDir: r.root.CommonDir}), err
}

// eachHalfWay calls do with each tree that has a note which nobody holds.
func (r *Repo) eachHalfWay(do func(*following) error) error {
	trees, err := r.mayBeHalfWay()
	for _, w := range trees {
		f, _, failed := r.take(w, false)
		if f != nil && failed == nil {
			failed = do(f)
		}
		err = errors.Join(err, failed)
	}
	return err
}

// obstacleIn says what is wrong with a tree that has branch checked out.
func obstacleIn(branch string, w Worktree, what string) string {
	return fmt.Sprintf("%s is checked out in %s, %s", branch, w.Path, what)
}

// changes are the changes to tracked files of a working tree.
type changes struct {
	unstage []string // what git stash does not take: announced by git add --intent-to-add, and staged commits of submodules
	modules []string // submodules that are at another commit
	shut    string   // a file that cannot be read: git takes it for changed; "": none
	others  bool
}

func (c changes) any() bool { return len(c.unstage)+len(c.modules) > 0 || c.others }

// mayRead reports whether the user may read the file at path, if there is one.
func mayRead(path string) bool {
	f, err := sys.OpenRegular(path, os.O_RDONLY)
	if err == nil {
		f.Close()
	}
	return !errors.Is(err, iofs.ErrPermission)
}

// undo returns the commands that put c in the tree at dir aside.
func (c changes) undo(dir string) string {
	var commands []string
	for _, does := range []struct {
		command, paths []string
	}{{[]string{"reset"}, c.unstage}, {[]string{"submodule", "update"}, c.modules}} {
		if len(does.paths) > 0 {
			commands = append(commands, gitIn(dir, slices.Concat(does.command, []string{"--"}, does.paths)...))
		}
	}
	if c.others {
		commands = append(commands, gitIn(dir, "stash"))
	}
	return strings.Join(commands, ", then ")
}

// changed returns the changes to tracked files of the working tree at dir.
func (c *cli) changed(ctx context.Context, dir string) (changes, error) {
	out, err := c.run(ctx, command{dir: dir, args: []string{"status", "--porcelain=v2", "-z", "--untracked-files=no",
		"--ignore-submodules=dirty", "--no-renames"}})
	var all changes
	for entry := range strings.SplitSeq(string(out), "\x00") {
		f := strings.SplitN(entry, " ", 9) // kind, index and tree, submodule, five more of an ordinary change, path
		if len(f) < 9 || f[0] == "1" && isScratch(f[8]) {
			continue
		}
		module := f[0] == "1" && f[2][0] == 'S'
		switch {
		case f[0] == "1" && f[1] == ".A", module && f[1][0] == 'A':
			all.unstage = append(all.unstage, f[8])
		case module && f[1][0] != '.':
			all.unstage, all.modules = append(all.unstage, f[8]), append(all.modules, f[8])
		case module:
			all.modules = append(all.modules, f[8])
		case f[0] == "1" && !mayRead(filepath.Join(dir, f[8])):
			all.shut = f[8]
		default:
			all.others = true
		}
	}
	return all, err
}

// Advance atomically moves branch from one commit to a descendant of it,
// together with the working trees that have it checked out. moved is false if
// the branch is not at from any more. obstacle, unless "", says why a tree
// cannot follow, or git does not move the branch; then nothing has changed.
// With an error, moved says where the branch is, and a tree may be half way.
// After a kill EndAdvance ends it. What git does not track in a tree stays, ignored or not.
func (r *Repo) Advance(ctx context.Context, branch string, from, to kernel.CommitID) (obstacle string, moved bool, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("advance %s: %w", branch, err)
		}
	}()
	if err := commits(from, to); err != nil {
		return "", false, err
	}
	on, err := r.worktreesOn(ctx, branch)
	if err == nil {
		obstacle, err = r.obstacle(ctx, branch, on)
	}
	if err != nil || obstacle != "" {
		return obstacle, false, err
	}
	if len(on) == 0 {
		err = r.UpdateRef(ctx, "refs/heads/"+branch, to, from)
		if errors.Is(err, ErrMoved) {
			return "", false, nil
		}
		return "", err == nil, err
	}
	if now, err := r.cli.refAt(ctx, "refs/heads/"+branch); err != nil || now != from {
		return "", false, err
	}
	var begun []*following
	for _, w := range on {
		var f *following
		if f, obstacle, err = r.begin(ctx, w, from, to); obstacle != "" {
			obstacle = obstacleIn(branch, w, obstacle)
		}
		if f == nil {
			break
		}
		begun = append(begun, f)
	}
	if err == nil && obstacle == "" {
		obstacle, moved, err = r.moveWith(ctx, begun, branch, from, to)
	}
	for _, f := range begun {
		stays, unread := f.stays(ctx)
		if moved && (stays || unread != nil) {
			err = errors.Join(err, f.arrive())
		} else {
			err = errors.Join(err, f.comeBack(ctx))
		}
	}
	if moved && err == nil { // as git merge does; whatever the hook says
		_, _ = r.cli.run(ctx, command{dir: on[0].Path, args: []string{"hook", "run", "--ignore-missing", "post-merge", "--", "0"}, writes: true, hooks: true})
	}
	return obstacle, moved, err
}

// moveWith moves branch, which the trees of all have checked out.
func (r *Repo) moveWith(ctx context.Context, all []*following, branch string, from, to kernel.CommitID) (obstacle string, moved bool, err error) {
	k := command{dir: all[0].w.Path, writes: true, hooks: true,
		args: []string{"update-ref", "-m", "vizier: Fast-forward", "refs/heads/" + branch, string(to), string(from)}}
	for _, f := range all {
		k.held = append(k.held, f.note)
	}
	_, err = r.cli.run(ctx, k)
	if err == nil {
		return "", true, nil
	}
	now, unread := r.cli.refAt(context.WithoutCancel(ctx), "refs/heads/"+branch)
	switch {
	case unread != nil:
		return "", false, errors.Join(err, unread)
	case now == to:
		return "", true, nil
	case now != from: // somebody committed meanwhile
		return "", false, nil
	case exitCode(err) > 0:
		if _, said, held := strings.Cut(err.Error(), "Unable to create '"); held {
			if lock, _, is := strings.Cut(said, ".lock': File exists"); is {
				return fmt.Sprintf("another git is moving %s: wait for it or, if there is none, remove %s.lock", branch, lock), false, nil
			}
		}
		return fmt.Sprintf("git does not move %s (%v): have what refuses that allow it, such as a hook", branch, err), false, nil
	}
	return "", false, err
}
