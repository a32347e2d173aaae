package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"path/filepath"
	"strings"

	"github.com/vizier-scheduler/vizier/kernel"
)

// HeadCommit returns the commit of the working tree at dir, or "" if its branch
// has none yet.
func (r *Repo) HeadCommit(ctx context.Context, dir string) (kernel.CommitID, error) {
	if _, commit, ok := head(dir); ok && commit != "" {
		return commit, nil
	}
	return r.cli.resolve(ctx, dir, "HEAD")
}

// resolve returns the commit that a name refers to in dir, or "".
func (c *cli) resolve(ctx context.Context, dir, name string) (kernel.CommitID, error) {
	out, err := c.run(ctx, command{dir: dir, args: []string{"rev-parse", "--quiet", "--verify", "--end-of-options", name + "^{commit}"}})
	if exitCode(err) == 1 {
		return "", nil
	}
	return kernel.CommitID(strings.TrimSpace(string(out))), err
}

// HeadBranch returns the branch that the working tree at dir has checked out,
// or "" if HEAD is detached.
func (r *Repo) HeadBranch(ctx context.Context, dir string) (string, error) {
	return r.cli.headBranch(ctx, dir)
}

func (c *cli) headBranch(ctx context.Context, dir string) (string, error) {
	if branch, _, ok := head(dir); ok {
		return branch, nil
	}
	out, err := c.run(ctx, command{dir: dir, args: []string{"symbolic-ref", "--quiet", "HEAD"}})
	if exitCode(err) == 1 {
		return "", nil
	}
	name, _ := strings.CutPrefix(strings.TrimSuffix(string(out), "\n"), "refs/heads/")
	return name, err
}

// releasedMessage is what the reflog of a worktree's head says of its Release.
const releasedMessage = "vizier: released"

// Release detaches the linked working tree at dir from its branch, at the same
// commit. Neither its files nor its index change, unless that is damaged.
func (r *Repo) Release(ctx context.Context, dir string) error {
	w, err := worktreeAt(r.root.CommonDir, dir)
	if err != nil || w.Name == "" {
		return err
	}
	why, err := r.damage(w)
	if err == nil && why != "" {
		w, err = r.mend(ctx, w, "")
	}
	if err != nil {
		return err
	}
	t := tree{cli: r.cli, w: w}
	head, err := t.head(ctx)
	if err != nil || head == "" {
		return err
	}
	_, err = r.cli.run(ctx, command{env: t.env(), writes: true,
		args: []string{"update-ref", "-m", releasedMessage, "--no-deref", "HEAD", string(head), string(head)}})
	return err
}

// Base returns the commit that the linked working tree at dir was made at, as the
// reflog of its head tells, or "" if there is none.
func (r *Repo) Base(dir string) (kernel.CommitID, error) {
	name := nameAt(dir)
	if name == "" {
		return "", nil
	}
	return r.baseOf(name)
}

func (r *Repo) baseOf(name string) (kernel.CommitID, error) {
	log, err := r.headLog(name)
	if errors.Is(err, iofs.ErrNotExist) {
		return "", nil
	}
	if f := strings.Fields(log[0]); err == nil && len(f) > 1 && strings.Trim(f[0], "0") == "" && commits(kernel.CommitID(f[1])) == nil {
		return kernel.CommitID(f[1]), nil
	}
	return "", err
}

// Standing returns the working trees that have branch checked out or rebase it, the main one
// first. It fails if one of them is locked and not there, as on a disk that is away.
func (r *Repo) Standing(ctx context.Context, branch string) ([]string, error) {
	trees, err := r.worktreesOn(ctx, branch)
	dirs := make([]string, len(trees))
	for i, w := range trees {
		if w.away {
			return nil, errors.New(awayWith(branch, w))
		}
		dirs[i] = w.Path
	}
	return dirs, err
}

// awayWith says that a tree which is away has branch checked out, and what to do about it.
func awayWith(branch string, w Worktree) string {
	lock := "locked"
	if w.Reason != "" {
		lock += " (" + w.Reason + ")"
	}
	return obstacleIn(branch, w, fmt.Sprintf("a worktree that is %s and not there: bring it back or, if it is gone for good, run `git worktree unlock %s`, then `git worktree prune`", lock, w.Path))
}

// worktreesOn returns the working trees of Standing, and those that are away: when one is back, its next commit would
// take back what has moved the branch meanwhile. One that is gone and not locked is in nobody's way.
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
		present, err := exists(w.Path)
		rooted := false
		if err == nil && present {
			rooted, err = exists(filepath.Join(w.Path, ".git"))
		}
		if err != nil {
			return nil, err
		}
		w.away = w.Locked && w.Reason != initializing && !rooted                                // a disk that is away may leave an empty directory
		if to := leadsTo(w.Path); w.away || present && (to == "" || to == resolved(w.gitDir)) { // else it belongs to the repository that this one is a copy of
			on = append(on, w)
		}
	}
	return on, nil
}

// RestoreMissing makes the tracked files anew that the tree at dir lacks, as its index has them, and
// returns how many these were. It changes no file that is there.
func (r *Repo) RestoreMissing(ctx context.Context, dir string) (int, error) {
	out, err := r.cli.run(ctx, command{dir: dir, args: []string{"ls-files", "--deleted", "-z"}})
	if err != nil || len(out) == 0 {
		return 0, err
	}
	_, err = r.cli.run(ctx, command{dir: dir, args: []string{"checkout-index", "-z", "--stdin"}, stdin: out, quiet: true, writes: true})
	return bytes.Count(out, []byte{0}), err
}
