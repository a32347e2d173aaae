package op

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/workflow"
)

// commitRest makes sure that n, a stop condition, judges only what is committed.
// If n judges a stage that commits everything in its worktree, commitRest commits
// what was changed there since, and note says so. Elsewhere such changes are
// somebody's work, and stop ends the node.
func commitRest(ctx context.Context, env *Env, n *Node) (note string, stop *Result, err error) {
	for _, unready := range []func(context.Context, *Env, *Node) (string, error){rebasing, astray, inConflict} {
		if why, err := unready(ctx, env, n); err != nil || why != "" {
			r := failed(1, "%s", why)
			return "", unfit(n, &r), err
		}
	}
	rest, err := env.Git.Uncommitted(ctx, n.Dir)
	if err != nil || len(rest) == 0 {
		return "", nil, err
	}
	by := n.stagedBy()
	if by == nil || n.Job.State.Context.Worktree == "" {
		return "", unfit(n, uncommitted(n, rest)), nil
	}
	stage := *n
	stage.Args, stage.Needs, stage.Artifacts = by.Args, by.Needs, by.Artifacts
	r, err := unlocked(gitStageCommit)(ctx, env, &stage)
	if err != nil {
		return "", nil, err
	}
	if r.Outcome != kernel.OutcomeSucceeded {
		return "", unfit(n, &r), nil
	}
	if left, err := env.Git.Uncommitted(ctx, n.Dir); err != nil || len(left) > 0 {
		return "", unfit(n, leftBehind(n, left)), err
	}
	note = fmt.Sprintf("%s has what was changed since the stage committed: %s", r.Reason, shorten(strings.Join(rest, ", ")))
	fmt.Fprintln(env.Stderr, note)
	return note, nil, nil
}

// stagedBy returns the node that commits everything before n judges it, or nil
// if there is none.
func (n *Node) stagedBy() *workflow.ManifestNode {
	for _, m := range n.Manifest.Nodes {
		leads := func(r workflow.ManifestRoute) bool { return r.Node == n.Node }
		if m.Operation == "git.stage_commit" && slices.ContainsFunc(m.Routes[kernel.OutcomeSucceeded.String()], leads) {
			return &m
		}
	}
	return nil
}

func uncommitted(n *Node, files []string) *Result {
	r := failed(1, "%s has changes that are not committed: %s: commit or remove them", cmp.Or(n.Job.State.Context.Worktree, n.Dir), shorten(strings.Join(files, ", ")))
	return &r
}

// unfit returns the result of a gate that has nothing to judge because of r. It
// is blocked: sending the run back to its agent would not help.
func unfit(n *Node, r *Result) *Result {
	if r == nil {
		return nil
	}
	then := fmt.Sprintf("; then `vizier retry %s`", n.Job.ID)
	b := blocked("%s", strings.TrimSuffix(r.Reason, then)+then)
	return &b
}
