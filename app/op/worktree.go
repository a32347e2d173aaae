package op

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vizier-scheduler/vizier/kernel"
)

// worktreeHome is the directory of the worktrees of jobs, relative to the
// repository's root.
const worktreeHome = ".vizier/tmp-worktrees"

// worktreePrepare makes a worktree of the run's branch. The job owns it
// (semantics 3.11). If the branch does not exist, it begins at that from which the
// run was enqueued, as that is now.
//
// Worktrees for the same purpose and branch use one directory, one after the
// other, so that data which agents keep by directory stays valid and does not
// pile up.
//
// Two trees on one branch would interfere: a commit in one moves the branch
// under the other. So it is an error if a tree of the operator's is on the
// branch. A tree that an earlier job left on the branch is taken off it, and
// keeps its files and its commit.
func worktreePrepare(ctx context.Context, env *Env, n *Node) (Result, error) {
	o := n.Job.Spec.Origin
	branch := n.arg("branch")
	if slug := n.arg("slug", "plan"); branch == "" && slug != "" {
		branch = "draft/" + slug
	}
	if branch == "" {
		branch = o.Branch
	}
	if branch == "" && o.Plan != "" {
		branch = "draft/" + o.Plan
	}
	if branch == "" {
		return Result{}, errors.New("worktree.prepare could not determine branch (set branch or slug/plan)")
	}
	purpose := cmp.Or(n.arg("purpose"), n.Node)
	name := treeName(n, purpose)
	tip, err := tipOf(ctx, env, branch)
	if err != nil {
		return Result{}, err
	}
	if why := unapproved(n, branch, tip); why != "" {
		return failed(1, "%s; then `vizier retry %s`", why, n.Job.ID), nil
	}
	if err := ensureBranch(ctx, env, n, branch); err != nil {
		return Result{}, fmt.Errorf("worktree.prepare could not ensure branch %s: %w", branch, err)
	}
	own, err := env.Git.OwnedWorktree(name)
	if err != nil {
		return Result{}, err
	}
	on, obstacle, err := env.Git.Standing(ctx, branch)
	if err != nil {
		return Result{}, err
	}
	if obstacle != "" {
		return failed(1, "%s; then `vizier retry %s`", obstacle, n.Job.ID), nil
	}
	for _, other := range on {
		switch {
		case own.Worktree != "" && other == filepath.Join(n.Root, own.Worktree):
		case !strings.HasPrefix(other, filepath.Join(n.Root, worktreeHome)+string(filepath.Separator)):
			return failed(1, "branch %s is checked out in %s: put that working tree on another branch (%s), then `vizier retry %s`",
				branch, other, gitIn(other, "switch", "OTHER"), n.Job.ID), nil
		default:
			fmt.Fprintf(env.Stderr, "worktree %s of an earlier job was on %s; it keeps its files and its commit, and no branch\n", other, branch)
			err := env.Git.DropStaleLocks(other, n.Job.State.Started) // an earlier attempt may have been killed right here
			if err == nil {
				err = env.Git.Release(ctx, other)
			}
			if left, unfit, again := env.Git.Standing(ctx, branch); again == nil && unfit == "" && !slices.Contains(left, other) {
				err = nil // its own run has removed it in the meantime
			}
			if err != nil {
				return Result{}, fmt.Errorf("take worktree %s off branch %s: %w", other, branch, err)
			}
		}
	}
	c, err := env.Git.EnsureWorktree(ctx, name, placeOf(purpose, branch), branch, "")
	if err != nil {
		return Result{}, fmt.Errorf("worktree.prepare failed to add worktree: %w", err)
	}
	r := ok("worktree " + c.Worktree + " of branch " + branch)
	r.Context = &c
	return r, nil
}

// unapproved says what to do if branch, which is at tip, is not at the commit that n was approved for; "": it is.
func unapproved(n *Node, branch string, tip kernel.CommitID) string {
	head := n.Job.ApprovedHead(branch)
	switch {
	case head == "" || head == tip:
		return ""
	case tip == "":
		return fmt.Sprintf("branch %s is gone since the approval, which a retry asks for again: make it again with `%s`", branch, kernel.CommandLine("git", "branch", branch, string(head)))
	default:
		return fmt.Sprintf("branch %s has moved since the approval, which a retry asks for again: look at what has changed with `%s`", branch, kernel.CommandLine("git", "log", "--left-right", short(head)+"..."+short(tip)))
	}
}

// treeName returns the name of n's worktree for a purpose. It is unique to the
// job.
func treeName(n *Node, purpose string) string {
	return fileName(purpose) + "-" + string(n.Job.ID)
}

// placeOf returns the directory of the worktrees for a purpose and a plan or
// branch.
func placeOf(purpose, about string) string {
	return fileName(purpose) + "-" + fileName(about)
}

// worktreeCleanup removes the worktree that the run works in. Another job of
// the run owns it, so its path comes from the execution context.
func worktreeCleanup(ctx context.Context, env *Env, n *Node) (Result, error) {
	c := n.Job.State.Context
	if c.Worktree == "" {
		return ok("skipped: the run has no worktree"), nil
	}
	c.Owned = true
	switch gone := env.Git.RemoveWorktree(ctx, c); gone.Status {
	case kernel.CleanupFailed:
		return failed(1, "%s", gone.Error), nil
	case kernel.CleanupDegraded:
		return ok("degraded: " + gone.Error), nil
	default:
		r := ok(strings.TrimSuffix("worktree "+c.Worktree+" is removed; "+gone.Error, "; "))
		r.Context = &kernel.Context{}
		return r, nil
	}
}

// ensureBranch creates a branch at its beginning, unless it exists.
func ensureBranch(ctx context.Context, env *Env, n *Node, branch string) error {
	tip, err := tipOf(ctx, env, branch)
	if err != nil || tip != "" {
		return err
	}
	begin, err := beginning(ctx, env, n)
	if err != nil {
		return err
	}
	err = env.Git.CreateBranch(ctx, branch, begin)
	if tip, again := tipOf(ctx, env, branch); again == nil && tip != "" {
		return nil // created by this attempt, or by somebody else in the meantime
	}
	return err
}

// beginning returns the commit at which a new branch of n begins: the tip of the branch that was checked out when the
// run was enqueued. Without one, it is the commit that the working tree has now from which the run was enqueued.
func beginning(ctx context.Context, env *Env, n *Node) (kernel.CommitID, error) {
	from := n.arg("from")
	if from != "" {
		if tip, err := tipOf(ctx, env, from); err != nil || tip != "" {
			return tip, err
		}
	}
	tree := cmp.Or(n.Job.Spec.Task.Tree, n.Root)
	head, err := env.Git.HeadCommit(ctx, tree)
	switch {
	case err != nil:
		return "", fmt.Errorf("look where %s stands: %w", tree, err)
	case head == "":
		return "", errors.New("the repository has no commit to start it from: commit something first")
	case from != "":
		return "", fmt.Errorf("branch %s, at which it begins, is gone: make it again with `%s`, or queue the run again from another branch", from, remake(ctx, env, from, ""))
	}
	return head, nil
}

// remake returns the command that makes a branch again that is gone, at the commit at, or if that
// is "" where the branch was last seen.
func remake(ctx context.Context, env *Env, branch string, at kernel.CommitID) string {
	if at == "" {
		var err error
		if at, err = env.Git.LastTip(ctx, branch); err != nil {
			fmt.Fprintln(env.Stderr, err)
		}
	}
	return kernel.CommandLine("git", "branch", branch, cmp.Or(string(at), "COMMIT"))
}

func tipOf(ctx context.Context, env *Env, branch string) (kernel.CommitID, error) {
	heads, err := env.Git.Heads(ctx, []string{branch})
	return heads[branch], err
}

// fileName returns text in a form that is safe as a part of a file's name.
func fileName(text string) string {
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_':
			return r
		}
		return '-'
	}, text)
	return name[:min(len(name), 60)]
}

// gitIn returns a command of git in the working tree at dir, to be pasted.
func gitIn(dir string, words ...string) string {
	return "`" + kernel.CommandLine(append([]string{"git", "-C", dir}, words...)...) + "`"
}
