package workflow

import (
	"slices"

	"github.com/vizier-scheduler/vizier/kernel"
)

// lockArgs are the arguments, and the parameters, that name a branch.
var lockArgs = []string{"branch", "source_branch", "plan_branch", "target", "target_branch"}

// locksOf are n's own locks or, where it has none, inferred ones.
//
// Inferred are exclusive locks branch:NAME on every branch that n names: in
// its arguments, in its artifacts, and where neither names one in the
// template's parameters, where a plan's slug stands for its branch. A node that names no branch and changes the files of
// the main checkout gets repo_serial. One that works in a worktree of its run,
// or whose effect on files is the user's own business (a command), gets
// nothing: to serialise unrelated runs for its sake would help nobody.
func (t *Template) locksOf(i int, g *graph) []kernel.Lock {
	n := &t.nodes[i]
	if len(n.locks) > 0 {
		return n.locks
	}
	if n.use.Policy == policyTerminal || n.use.Policy == policyApproval {
		return nil
	}
	var names []string
	add := func(name string) {
		if name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, key := range lockArgs {
		add(n.arg(key))
	}
	for _, a := range n.needs {
		add(a.Branch())
	}
	for _, a := range n.all() {
		add(a.Branch())
	}
	if len(names) == 0 {
		for _, key := range lockArgs {
			add(t.Params[key])
		}
	}
	if len(names) == 0 && t.inWorktree(i, g) { // its branch is the plan's
		for _, key := range []string{"slug", "plan"} {
			if slug := t.Params[key]; slug != "" {
				add("draft/" + slug)
			}
		}
	}
	if len(names) == 0 && n.use.WritesTree && !t.inWorktree(i, g) {
		return []kernel.Lock{{Key: "repo_serial"}}
	}
	slices.Sort(names)
	locks := make([]kernel.Lock, len(names))
	for k, name := range names {
		locks[k] = kernel.Lock{Key: "branch:" + name}
	}
	return locks
}

// inWorktree reports that a worktree's context reaches node i, by on.succeeded
// or by a route.
func (t *Template) inWorktree(i int, g *graph) bool {
	has := func(p int) bool { return g.owner[p] >= 0 }
	return slices.ContainsFunc(g.succOf[i], has) || slices.ContainsFunc(g.routes[i], has)
}
