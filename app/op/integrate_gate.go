package op

import (
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/workflow"
)

// judge looks at the node's gate, if it has one, before the target moves: the
// gate's script runs in a tree of its own that is exactly what the target would
// become, so neither edits in the merge's worktree nor what a script leaves
// there count. A gate that fails ends the node, and the merge stays as it is
// for the next attempt; one that only warns is heard.
func (m *integration) judge(ctx context.Context, merged kernel.CommitID) (warning string, stop *Result, err error) {
	if !slices.ContainsFunc(m.n.Gates, func(g workflow.ManifestGate) bool { return g.Kind == "cicd" && strings.TrimSpace(g.Script) != "" }) {
		return "", nil, nil
	}
	rel := path.Join(worktreeHome, "gate-"+fileName(m.slug)+"-"+string(m.n.Job.ID))
	n := *m.n
	n.Dir = filepath.Join(n.Root, rel)
	tree := kernel.Context{Worktree: rel, Owned: true}
	remove := func(c context.Context) error {
		if gone := m.env.Git.RemoveWorktree(c, tree); gone.Error != "" {
			return errors.New(gone.Error)
		}
		return nil
	}
	if err := remove(ctx); err != nil { // of an attempt that was killed
		return "", nil, err
	}
	if _, err := m.env.Git.EnsureWorktree(ctx, n.Dir, "", merged); err != nil {
		return "", nil, err
	}
	r, err := controlled(ctx, m.env, &n, gatePart+" of "+short(merged))
	if gone := remove(context.WithoutCancel(ctx)); gone != nil {
		fmt.Fprintln(m.env.Stderr, gone)
	}
	switch {
	case err != nil:
		return "", nil, err
	case r.Class == kernel.EffectInDoubt:
		return "", &r, nil
	case r.Outcome != kernel.OutcomeSucceeded:
		r.Reason += fmt.Sprintf("; %s has not moved: mend %s, then `vizier jobs retry %s`", m.target, m.source, n.Job.ID)
		return "", &r, nil
	case r.Reason != "":
		return "; " + r.Reason, nil, nil
	}
	return "", nil, nil
}
