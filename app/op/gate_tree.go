package op

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/workflow"
)

// inTree calls do in a worktree of its own that is at commit at. So neither
// edits in a checkout nor what a script leaves there affect the judgement. What
// is left there is parked, unless do has passed without a reason, that is without
// a failure or a repair.
func inTree(ctx context.Context, env *Env, n *Node, at kernel.CommitID, do func(*Node) (Result, error)) (Result, error) {
	slug, _ := mergeOf(n)
	name := treeName(n, "gate-"+slug)
	report := func(gone kernel.Cleanup) error {
		if gone.Status == kernel.CleanupFailed || gone.Status == kernel.CleanupDegraded {
			return errors.New(gone.Error)
		}
		if gone.Error != "" {
			fmt.Fprintln(env.Stderr, gone.Error)
		}
		return nil
	}
	tree, err := env.Git.OwnedWorktree(name) // left by an attempt that was killed
	if err == nil {
		err = report(env.Git.RemoveWorktree(ctx, tree))
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
	remove := env.Git.RemoveWorktree
	if err == nil && r.Outcome == kernel.OutcomeSucceeded && r.Reason == "" {
		remove = env.Git.DiscardWorktree
	}
	if gone := report(remove(context.WithoutCancel(ctx), tree)); gone != nil {
		fmt.Fprintln(env.Stderr, gone)
	}
	return r, err
}

// judgeBranch runs n's scripts on the current commit of branch. A repair is put
// on the branch, so that what the gate accepts is what others get.
func (c *conflict) judgeBranch(ctx context.Context, env *Env, n *Node, branch string, seen workflow.Seen) (Result, error) {
	if obstacle, err := env.Git.EndAdvance(ctx, branch); err != nil || obstacle != "" {
		return blocked("%s; then run `vizier retry %s`", obstacle, n.Job.ID), err
	}
	tip, err := tipOf(ctx, env, branch)
	if err == nil && tip == "" {
		return failed(1, "there is no branch %s for %s to judge: make it again with `%s`, then `vizier retry %s`", branch, n.Node, remake(ctx, env, branch, ""), n.Job.ID), nil
	}
	if err != nil {
		return Result{}, err
	}
	if lacks, err := lacksMerge(ctx, env, n, branch, tip); err != nil || lacks != nil {
		return deref(lacks), err
	}
	r, err := inTree(ctx, env, n, tip, func(n *Node) (Result, error) {
		fix := repair{branch: branch, tip: tip, head: tip}
		r, err := c.control(ctx, env, n, seen, func(exits []int) (*Result, error) {
			switch {
			case len(exits) == 1 && exits[0] != 0:
				return nil, fix.begins(ctx, env, n)
			case len(exits) == 2 && exits[1] == 0:
				return fix.commit(ctx, env, n)
			case len(exits) == 3 && exits[2] != 0:
				fix.head = tip // the gate does not accept it, so it is no repair
			case len(exits) == 3:
				fix.idle = fix.head == tip
			}
			return nil, nil
		})
		switch {
		case err != nil:
			return r, err
		case r.Outcome == kernel.OutcomeFailed:
			r.Reason += fmt.Sprintf(" on %s: fix it there, then `vizier retry %s`", branch, n.Job.ID)
		case fix.idle:
			r.Reason = fmt.Sprintf("passed after the auto_resolve script, which left nothing to commit: %s is as it was", branch)
		case r.Outcome == kernel.OutcomeSucceeded && fix.head != tip:
			return fix.publish(ctx, env, n, r)
		}
		return r, nil
	})
	if err != nil || r.Outcome != kernel.OutcomeSucceeded {
		return r, err
	}
	if tip, err = tipOf(ctx, env, branch); err != nil {
		return Result{}, err
	}
	if lacks, err := lacksMerge(ctx, env, n, branch, tip); err != nil || lacks != nil {
		return deref(lacks), err
	}
	return r, nil
}

// lacksMerge returns the failure of n, a gate after a merge into branch, if tip, the branch's commit, does not have
// that merge: somebody has put the branch back since.
func lacksMerge(ctx context.Context, env *Env, n *Node, branch string, tip kernel.CommitID) (*Result, error) {
	for _, m := range n.Manifest.Nodes {
		if m.Operation != "git.integrate_plan_branch" || !slices.Contains(n.Job.Spec.After, m.Job) || cmp.Or(m.Args["target_branch"], m.Args["target"], branch) != branch {
			continue
		}
		j, err := env.Records.Job(m.Job)
		if err != nil {
			return nil, err
		}
		before := &Node{Job: j, Manifest: n.Manifest, ManifestNode: m, Root: n.Root, Dir: n.Dir}
		was, has, err := merged(ctx, env, before, j.State.Generation, tip)
		if err != nil || has != "" || was.Target == "" {
			return nil, err
		}
		_, source := mergeOf(before)
		at, err := tipOf(ctx, env, source)
		if err != nil {
			return nil, err
		}
		next := fmt.Sprintf("`vizier retry %s` merges it again", j.ID)
		if at == "" {
			next = fmt.Sprintf("make the branch again with `%s`, then `vizier retry %s`", remake(ctx, env, source, was.Source), j.ID)
		}
		r := failed(1, "%s was merged into %s, but %s "+kernel.LacksMerge+": %s; if it is not to be merged again, nothing is left to do", source, branch, branch, next)
		return &r, nil
	}
	return nil, nil
}

// repair is what a script repairs in a gate's own tree. It is committed before
// the gate's script judges it, so that the branch gets what was judged.
type repair struct {
	branch    string
	tip, head kernel.CommitID      // where the branch is, and what the repair makes of it
	idle      bool                 // it left nothing to commit, and the gate passed
	litter    map[string]time.Time // the untracked files that the gate's script left, and when
}

// begins notes the state before the repair.
func (f *repair) begins(ctx context.Context, env *Env, n *Node) error {
	files, err := env.Git.Untracked(ctx, n.Dir)
	f.litter = map[string]time.Time{}
	for _, name := range files {
		f.litter[name] = changed(n, name)
	}
	return err
}

// changed returns when a file in n's tree was changed, or zero.
func changed(n *Node, name string) time.Time {
	info, err := os.Lstat(filepath.Join(n.Dir, name))
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

// commit commits what the repair left: what it staged, its changes to tracked
// files, and its new files. A script that commits by itself (a sandbox prevents
// that) has left out its other new files on purpose.
func (f *repair) commit(ctx context.Context, env *Env, n *Node) (*Result, error) {
	fails := func(err error) (*Result, error) {
		r, err := gitFailed(env, n, err)
		return &r, err
	}
	if err := env.Git.StageTracked(ctx, n.Dir); err != nil {
		return fails(err)
	}
	var err error
	if f.head, err = env.Git.HeadCommit(ctx, n.Dir); err != nil {
		return nil, err
	}
	if f.head == f.tip {
		files, err := env.Git.Untracked(ctx, n.Dir)
		if err != nil {
			return nil, err
		}
		files = slices.DeleteFunc(files, func(name string) bool {
			was, there := f.litter[name]
			return there && was.Equal(changed(n, name))
		})
		if len(files) > 0 { // an empty list would mean all files
			if err := env.Git.Stage(ctx, n.Dir, files, nil); err != nil {
				return fails(err)
			}
		}
	}
	staged, err := env.Git.Staged(ctx, n.Dir)
	if err != nil || !staged {
		return nil, err
	}
	f.head, err = env.Git.Commit(ctx, n.Dir, withEffect("fix: repair what the CI gate of "+f.branch+" found", effectKey(n, "repair")))
	if err != nil {
		return fails(err)
	}
	return nil, nil
}

// publish moves the branch to the repair. r is the result of the gate.
func (f *repair) publish(ctx context.Context, env *Env, n *Node, r Result) (Result, error) {
	obstacle, moved, err := env.Git.Advance(ctx, f.branch, f.tip, f.head)
	switch {
	case err != nil:
		return Result{}, err
	case obstacle != "":
		return blocked("%s; then run `vizier retry %s`", obstacle, n.Job.ID), nil
	case !moved:
		return failed(1, "branch %s moved while the CI gate repaired it: `vizier retry %s`", f.branch, n.Job.ID), nil
	}
	r.Reason += ", as " + short(f.head)
	return r, nil
}
