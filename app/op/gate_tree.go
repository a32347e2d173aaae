package op

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/workflow"
)

// inTree calls do in a worktree of its own that is at commit at. So neither
// edits in a checkout nor what a script leaves there affect the judgement.
func inTree(ctx context.Context, env *Env, n *Node, at kernel.CommitID, do func(*Node) (Result, error)) (Result, error) {
	slug, _ := mergeOf(n)
	name := treeName(n, "gate-"+slug)
	remove := func(c context.Context, tree kernel.Context) error {
		if gone := env.Git.RemoveWorktree(c, tree); gone.Error != "" {
			return errors.New(gone.Error)
		}
		return nil
	}
	tree, err := env.Git.OwnedWorktree(name) // left by an attempt that was killed
	if err == nil {
		err = remove(ctx, tree)
	}
	if err == nil {
		tree, err = env.Git.EnsureWorktree(ctx, name, placeOf("gate", slug), "", at)
	}
	if err != nil {
		return Result{}, err
	}
	there := *n
	there.Dir = filepath.Join(n.Root, tree.Worktree)
	r, err := do(&there)
	if gone := remove(context.WithoutCancel(ctx), tree); gone != nil {
		fmt.Fprintln(env.Stderr, gone)
	}
	return r, err
}

// judgedBranch returns the branch that n's CI script judges, or "" if it judges
// what is in n's own execution root.
func (n *Node) judgedBranch() string {
	if n.Control != "gate.cicd" && n.Operation != "cicd.run" {
		return ""
	}
	return n.arg("target_branch", "target")
}

// judgeBranch runs n's scripts on the current commit of branch. A repair is put
// on the branch, so that what the gate accepts is what others get.
func (c *conflict) judgeBranch(ctx context.Context, env *Env, n *Node, branch string, seen workflow.Seen) (Result, error) {
	tip, err := tipOf(ctx, env, branch)
	if err == nil && tip == "" {
		return failed(1, "there is no branch %s for %s to judge", branch, n.Node), nil
	}
	if err != nil {
		return Result{}, err
	}
	return inTree(ctx, env, n, tip, func(n *Node) (Result, error) {
		r, repaired, err := c.control(ctx, env, n, seen)
		switch {
		case err != nil:
			return r, err
		case r.Outcome == kernel.OutcomeFailed:
			r.Reason += fmt.Sprintf(" on %s: fix it there, then `vizier retry %s`", branch, n.Job.ID)
		case r.Outcome == kernel.OutcomeSucceeded && repaired:
			return keepRepair(ctx, env, n, branch, tip, r)
		}
		return r, nil
	})
}

// keepRepair moves branch from tip to the result of a repair in n's tree: its
// commits, and its changes to tracked files.
func keepRepair(ctx context.Context, env *Env, n *Node, branch string, tip kernel.CommitID, r Result) (Result, error) {
	if err := env.Git.StageTracked(ctx, n.Dir); err != nil {
		return gitFailed(env, n, err)
	}
	staged, err := env.Git.Staged(ctx, n.Dir)
	if err != nil {
		return Result{}, err
	}
	head, err := env.Git.HeadCommit(ctx, n.Dir)
	if err != nil {
		return Result{}, err
	}
	if staged {
		head, err = env.Git.Commit(ctx, n.Dir, withEffect("fix: repair what the CI gate of "+branch+" found", effectKey(n, "repair")))
		if err != nil {
			return gitFailed(env, n, err)
		}
	}
	if head == tip {
		return r, nil
	}
	obstacle, moved, err := env.Git.Advance(ctx, branch, tip, head)
	switch {
	case err != nil:
		return Result{}, err
	case obstacle != "":
		return blocked("%s; then run `vizier retry %s`", obstacle, n.Job.ID), nil
	case !moved:
		return failed(1, "branch %s moved while the CI gate repaired it: `vizier retry %s`", branch, n.Job.ID), nil
	}
	r.Reason += ", as " + short(head)
	return r, nil
}
