package op

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/workflow"
)

// judge checks the node's gate, if it has one, before the target moves. The
// gate's script runs in a tree of its own that is exactly what the target would
// become, so neither edits in the merge's worktree nor what a script leaves
// there count. If the gate fails, stop ends the node and the merge stays as it
// is for the next attempt. If the gate only warns, its warning is returned.
func (m *integration) judge(ctx context.Context, merged kernel.CommitID) (warning string, stop *Result, err error) {
	if !slices.ContainsFunc(m.n.Gates, func(g workflow.ManifestGate) bool { return g.Kind == "cicd" && strings.TrimSpace(g.Script) != "" }) {
		return "", nil, nil
	}
	r, err := inTree(ctx, m.env, m.n, merged, func(n *Node) (Result, error) {
		return controlled(ctx, m.env, n, gatePart+" of "+short(merged))
	})
	switch {
	case err != nil:
		return "", nil, err
	case r.Class == kernel.EffectInDoubt:
		return "", &r, nil
	case r.Outcome != kernel.OutcomeSucceeded:
		r.Reason += fmt.Sprintf("; %s has not moved: fix %s, then `vizier retry %s`", m.target, m.source, m.n.Job.ID)
		return "", &r, nil
	case r.Reason != "":
		return "; " + r.Reason, nil, nil
	}
	return "", nil, nil
}
