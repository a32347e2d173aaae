package workflow

import (
	"slices"

	"github.com/vizier-scheduler/vizier/kernel"
)

// lockArgs are the names of arguments and of parameters that hold a branch.
var lockArgs = []string{"branch", "source_branch", "plan_branch", "target", "target_branch"}

// headLock is the key of a lock on the branch that is checked out when the run is enqueued. No branch
// has this name.
var headLock = kernel.BranchLock("HEAD").Key

// headOf returns the branch that headLock means, "" if none is checked out or no node has such a lock.
func (t *Template) headOf(head func() (string, error)) (string, error) {
	for i := range t.nodes {
		if head != nil && slices.ContainsFunc(t.nodes[i].locks, isHeadLock) {
			return head()
		}
	}
	return "", nil
}

func isHeadLock(l kernel.Lock) bool { return l.Key == headLock && !l.Pool() }

// ownLocks returns the node's own locks: headLock is one on head or, without one, left out.
func (n *node) ownLocks(head string) []kernel.Lock {
	var locks []kernel.Lock
	for _, l := range n.locks {
		switch {
		case !isHeadLock(l):
			locks = append(locks, l)
		case head != "":
			locks = append(locks, kernel.Lock{Key: kernel.BranchLock(head).Key, Mode: l.Mode})
		}
	}
	return locks
}

// locksOf returns n's own locks or, if it has none, inferred ones.
//
// Inferred locks are exclusive locks branch:NAME on every branch that n names
// in its arguments and in its artifacts. If it names none, the branch is that
// of the worktree which it makes or works in and, if there is none, the
// branches named by the parameters of its own stage. A node that names no
// branch and changes the files of the main checkout gets repo_serial. A node
// that runs a user's command gets no lock: its effect on files is not known,
// and serialising unrelated runs because of it would help nobody.
//
// target is the branch that the node moves or judges without naming it. A merge
// changes the branch of its plan as well. head is that of headOf.
func (t *Template) locksOf(i int, g *graph, target, head string) []kernel.Lock {
	n := &t.nodes[i]
	if len(n.locks) > 0 {
		return n.ownLocks(head)
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
	add(target)
	if n.use.Operation == opIntegrate {
		add(t.sourceOf(n))
	}
	for _, a := range n.needs {
		add(a.Branch())
	}
	for _, a := range n.all() {
		add(a.Branch())
	}
	tree := t.worktreeOf(i, g)
	if n.use.Operation == opPrepare {
		tree = n
	}
	if len(names) == 0 && tree != nil {
		branch := tree.arg("branch")
		if slug := tree.arg("slug", "plan"); branch == "" && slug != "" {
			branch = "draft/" + slug
		}
		add(branch)
	}
	if len(names) == 0 {
		for _, key := range lockArgs {
			if n.sees(key) {
				add(t.Params[key])
			}
		}
	}
	if len(names) == 0 && n.use.WritesTree && tree == nil {
		return []kernel.Lock{{Key: "repo_serial"}}
	}
	slices.Sort(names)
	locks := make([]kernel.Lock, len(names))
	for k, name := range names {
		locks[k] = kernel.BranchLock(name)
	}
	return locks
}

// worktreeOf returns the node that made the worktree in the context that
// reaches node i, by on.succeeded or by a route; nil: there is none.
func (t *Template) worktreeOf(i int, g *graph) *node {
	for _, p := range slices.Concat(g.succOf[i], g.routes[i]) {
		if w := g.owner[p]; w >= 0 {
			return &t.nodes[w]
		}
	}
	return nil
}

// sees reports whether the node's own stage declares the parameter. Parameters
// of other stages do not concern it.
func (n *node) sees(param string) bool {
	return !n.staged || slices.ContainsFunc(n.stage, func(p Entry) bool { return p.Key == param })
}
