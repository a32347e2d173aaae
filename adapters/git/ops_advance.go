package git

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Obstacle says why the working trees that have branch checked out cannot
// follow it to the commit to ("" if that is not known yet), and what to do
// about it. It returns "" if they can.
func (r *Repo) Obstacle(ctx context.Context, branch string, to kernel.CommitID) (string, error) {
	on, err := r.worktreesOn(ctx, branch)
	if err != nil {
		return "", err
	}
	return r.obstacle(ctx, branch, on, to)
}

// obstacle is Obstacle for the trees on. A tree whose files are already those
// of the commit, because of a crash before the branch was moved, is not an
// obstacle.
func (r *Repo) obstacle(ctx context.Context, branch string, on []Worktree, to kernel.CommitID) (string, error) {
	for _, w := range on {
		op, err := operation(w.gitDir)
		if err != nil {
			return "", err
		}
		if op != "" {
			return fmt.Sprintf("%s is checked out in %s, where a %s is in progress: finish or abort it", branch, w.Path, op), nil
		}
		changed, err := r.cli.changed(ctx, w.Path)
		if err != nil {
			return "", err
		}
		if !changed.any() {
			continue
		}
		if arrived, err := r.cli.arrived(ctx, w.Path, to); arrived || err != nil {
			if err != nil {
				return "", err
			}
			continue
		}
		return fmt.Sprintf("%s is checked out in %s with uncommitted changes: commit them, or %s", branch, w.Path, changed.undo(w.Path)), nil
	}
	return "", nil
}

// changes are the changes to tracked files of a working tree.
type changes struct {
	unstage []string // what git stash does not take: announced by git add --intent-to-add, and staged commits of submodules
	modules []string // submodules that are at another commit
	others  bool
}

func (c changes) any() bool { return len(c.unstage)+len(c.modules) > 0 || c.others }

// undo returns the commands that put c in the tree at dir aside.
func (c changes) undo(dir string) string {
	var commands []string
	for _, does := range []struct {
		command string
		paths   []string
	}{{"reset", c.unstage}, {"submodule update", c.modules}} {
		if len(does.paths) > 0 {
			commands = append(commands, fmt.Sprintf("`git -C %s %s -- %s`", dir, does.command, strings.Join(does.paths, " ")))
		}
	}
	if c.others {
		commands = append(commands, fmt.Sprintf("`git -C %s stash`", dir))
	}
	return strings.Join(commands, ", then ")
}

// changed returns the changes to tracked files of the working tree at dir.
func (c *cli) changed(ctx context.Context, dir string) (changes, error) {
	out, err := c.run(ctx, command{dir: dir, args: []string{"status", "--porcelain=v2", "-z", "--untracked-files=no",
		"--ignore-submodules=dirty", "--no-renames"}})
	var all changes
	for entry := range strings.SplitSeq(string(out), "\x00") {
		f := strings.SplitN(entry, " ", 9) // kind, index and tree, submodule, six more of an ordinary change, path
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
		default:
			all.others = true
		}
	}
	return all, err
}

// arrived reports whether the files and the index at dir are those of commit.
func (c *cli) arrived(ctx context.Context, dir string, commit kernel.CommitID) (bool, error) {
	if commit == "" {
		return false, nil
	}
	for _, args := range [][]string{
		{"diff-index", "--cached", "--quiet", "--ignore-submodules=none", string(commit), "--"},
		{"diff", "--quiet", "--no-ext-diff", "--ignore-submodules=dirty"},
	} {
		_, err := c.run(ctx, command{dir: dir, args: args})
		if exitCode(err) == 1 {
			return false, nil
		}
		if err != nil {
			return false, err
		}
	}
	return true, nil
}

// Advance atomically moves branch from one commit to a descendant of it,
// together with the working trees that have it checked out. moved is false if
// the branch is not at from any more. obstacle, unless "", says why a tree
// cannot follow; then nothing has changed.
func (r *Repo) Advance(ctx context.Context, branch string, from, to kernel.CommitID) (obstacle string, moved bool, err error) {
	if err := commits(from, to); err != nil {
		return "", false, fmt.Errorf("advance %s: %w", branch, err)
	}
	on, err := r.worktreesOn(ctx, branch)
	if err == nil {
		obstacle, err = r.obstacle(ctx, branch, on, to)
	}
	if err != nil || obstacle != "" {
		return obstacle, false, err
	}
	for i, w := range on {
		now, err := r.cli.refAt(ctx, "refs/heads/"+branch)
		switch {
		case err != nil:
			return "", false, err
		case i == 0 && now != from || i > 0 && now != to:
			return "", i > 0, nil
		}
		obstacle, err := r.follow(ctx, w, branch, i == 0, from, to)
		if err != nil {
			return "", i > 0, err
		}
		if obstacle != "" {
			if now, err := r.cli.refAt(ctx, "refs/heads/"+branch); err == nil && i == 0 && now != from { // somebody committed meanwhile
				return "", false, nil
			}
			return obstacle, i > 0, nil
		}
	}
	if len(on) > 0 {
		return "", true, nil
	}
	err = r.UpdateRef(ctx, "refs/heads/"+branch, to, from)
	if errors.Is(err, ErrMoved) {
		return "", false, nil
	}
	return "", err == nil, err
}

// follow moves the files of w from one commit to the other. The first tree
// moves the branch as well.
func (r *Repo) follow(ctx context.Context, w Worktree, branch string, first bool, from, to kernel.CommitID) (obstacle string, err error) {
	arrived, err := r.cli.arrived(ctx, w.Path, to)
	switch {
	case err != nil:
		return "", err
	case arrived && first:
		return "", r.UpdateRef(ctx, "refs/heads/"+branch, to, from)
	case arrived:
		return "", nil
	}
	args := []string{"merge", "--quiet", "--ff-only", "--no-squash", "--no-autostash", string(to)}
	if !first {
		args = []string{"read-tree", "-m", "-u", string(from), string(to)}
	}
	_, err = r.cli.run(ctx, command{dir: w.Path, args: args, writes: true, hooks: true})
	for again := 0; again < 10 && busyIndex(err) && ctx.Err() == nil; again++ {
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
		_, err = r.cli.run(ctx, command{dir: w.Path, args: args, writes: true, hooks: true})
	}
	if exitCode(err) > 0 {
		return fmt.Sprintf("%s is checked out in %s, which git cannot bring up to date (%v): see to that", branch, w.Path, err), nil
	}
	if err != nil {
		return "", err
	}
	now, err := r.cli.refAt(ctx, "refs/heads/"+branch)
	if err == nil && now != to {
		obstacle = fmt.Sprintf("%s is checked out in %s, where git merge did not move it: look at the settings of git merge there", branch, w.Path)
	}
	return obstacle, err
}

// busyIndex reports that another git process has locked the index of the working tree.
func busyIndex(err error) bool { return err != nil && strings.Contains(err.Error(), "index.lock") }
