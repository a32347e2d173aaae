package workflow

import (
	"cmp"
	"slices"

	"github.com/vizier-scheduler/vizier/kernel"
)

// argTarget is the argument that tells a node a branch that it did not name
// itself.
const argTarget = "target_branch"

// argFrom is the branch at which a plan's branch begins. A node that does not name it is told the branch
// that is checked out when the run is enqueued: by the time that it runs, another may be.
const argFrom = "from"

// targets returns the target branch of each node that merges, resolves a merge's
// conflicts or judges the result of a merge; "" if the node names the branch
// itself, and for any other node. A merge goes to the target in the parameters or
// to head. The other nodes have the target of their merge: the one that wakes
// them, or the nearest before them, unless they work in a worktree of the run.
func (t *Template) targets(g *graph, head func() (string, error)) ([]string, error) {
	var r report
	out := make([]string, len(t.nodes))
	for i := range t.nodes {
		n := &t.nodes[i]
		if n.use.Operation != opIntegrate {
			continue
		}
		itself := func(target string) {
			if target != "" && target == cmp.Or(n.arg(branches...), t.sourceOf(n)) {
				r.add(Diagnostic{Pos: n.pos, Node: n.id.Value, Hint: "name another target with --target BRANCH; without it, it is the branch that is checked out here",
					Msg: "node `" + n.id.Value + "` merges " + target + " into itself"})
			}
		}
		if target := n.arg(targetArgs...); target != "" {
			itself(target)
			continue
		}
		out[i] = cmp.Or(t.Params[argTarget], t.Params["target"])
		if err := kernel.CheckBranch(out[i]); err != nil && out[i] != "" {
			r.add(Diagnostic{Pos: n.pos, Node: n.id.Value, Msg: "node `" + n.id.Value + "` merges into " + kernel.Said(err)})
		}
		if out[i] == "" && head != nil {
			var err error
			if out[i], err = head(); err != nil {
				return nil, err
			}
		}
		if out[i] == "" {
			r.add(Diagnostic{Pos: n.pos, Node: n.id.Value, Field: "nodes[" + n.id.Value + "].args." + argTarget, Hint: "name it with --target BRANCH, or switch to a branch",
				Msg: "node `" + n.id.Value + "` merges into no branch: none is named, and none is checked out"})
		}
		itself(out[i])
	}
	for i := range t.nodes {
		n := &t.nodes[i]
		switch {
		case n.arg(targetArgs...) != "":
		case n.use.Policy == policyConflict:
			out[i] = t.merged(g.routes[i], g, out)
		case (n.use.Policy == policyCICD || n.use.Operation == opCICD) && t.worktreeOf(i, g) == nil:
			out[i] = t.merged(g.parents(i), g, out)
		}
	}
	return out, r.err()
}

var targetArgs = []string{"target", argTarget}

// origins returns the branch at which the branch of each worktree.prepare begins; "" if the node names it, or no branch
// is checked out, and for any other node.
func (t *Template) origins(head func() (string, error)) ([]string, error) {
	out := make([]string, len(t.nodes))
	for i := range t.nodes {
		if n := &t.nodes[i]; n.use.Operation != opPrepare || n.arg(argFrom) != "" || head == nil {
			continue
		}
		var err error
		if out[i], err = head(); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// merged returns the target of the first merge among the nodes at from and
// their predecessors, or "".
func (t *Template) merged(from []int, g *graph, targets []string) string {
	queue := slices.Clone(from)
	for at := 0; at < len(queue); at++ {
		if n := &t.nodes[queue[at]]; n.use.Operation == opIntegrate {
			return cmp.Or(n.arg(targetArgs...), targets[queue[at]])
		}
		for _, p := range g.parents(queue[at]) {
			if !slices.Contains(queue, p) {
				queue = append(queue, p)
			}
		}
	}
	return ""
}

// sourceOf returns the branch that a merge takes from, if its arguments do not
// name it.
func (t *Template) sourceOf(n *node) string {
	if n.arg(branches...) != "" {
		return ""
	}
	if slug := n.arg("slug", "plan"); slug != "" {
		return "draft/" + slug
	}
	return ""
}
