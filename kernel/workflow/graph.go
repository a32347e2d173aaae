package workflow

import "slices"

// graph holds the edges between nodes. It tells a loop from a dormant handler,
// which look alike: A.on.succeeded = [B] with B.on.failed = [A] may mean "A
// works, B checks, and sends back to A", or "B works, and A repairs what
// failed".
//
// A node is a candidate for being dormant if only routes of other nodes lead to
// it, and if after edges alone do not lead from it to such a node. It is
// dormant if the run can reach one of those other nodes without it. If every
// way there goes through the candidate itself, the purpose of the route
// decides: on.blocked and on.cancelled, or a target that is a conflict gate,
// mean a handler; on.failed means a loop, which starts at its target. A node
// that only dormant nodes lead to by on.succeeded is dormant too.
//
// An on.succeeded edge from a dormant node to a node that leads to it by a
// route is a return: it rewinds that node and does not order anything.
type graph struct {
	index  map[string]int
	after  [][]int // explicit after edges of each node
	next   [][]int // nodes that have the node in after, and its on.succeeded targets
	succ   [][]int // on.succeeded targets
	succOf [][]int // on.succeeded sources
	routes [][]int // on.failed, on.blocked and on.cancelled sources, other than itself
	milder []bool  // every route to the node is on.blocked or on.cancelled, or the node is a conflict gate
	routed []bool
	back   map[[2]int]bool
	owner  []int // whose worktree each node hands on; negative: none. Set by validate
}

func newGraph(nodes []*wiring) *graph {
	n := len(nodes)
	g := &graph{index: make(map[string]int, n), after: make([][]int, n), next: make([][]int, n), succ: make([][]int, n), succOf: make([][]int, n),
		routes: make([][]int, n), milder: make([]bool, n), routed: make([]bool, n), back: map[[2]int]bool{}}
	for i, w := range nodes {
		if _, taken := g.index[w.id.Value]; !taken {
			g.index[w.id.Value] = i
		}
		g.milder[i] = true
	}
	for i, w := range nodes {
		g.after[i] = g.find(w.after)
		g.succ[i] = g.find(w.on[outcomes[0]])
		g.next[i] = append(g.next[i], g.succ[i]...)
		for _, p := range g.after[i] {
			g.next[p] = append(g.next[p], i)
		}
		for _, t := range g.succ[i] {
			g.succOf[t] = append(g.succOf[t], i)
		}
		for k, o := range outcomes[1:] {
			for _, t := range g.find(w.on[o]) {
				if t == i {
					continue
				}
				if !slices.Contains(g.routes[t], i) {
					g.routes[t] = append(g.routes[t], i)
				}
				g.milder[t] = g.milder[t] && k > 0
			}
		}
	}
	for i, w := range nodes {
		if u, ok := lookup(w.uses.Value); ok && u.Policy == policyConflict {
			g.milder[i] = true
		}
	}
	g.sleep()
	return g
}

// find returns the indices of references. Unknown ones are skipped; validate
// reports them.
func (g *graph) find(refs []Text) []int {
	var at []int
	for _, r := range refs {
		if i, ok := g.index[r.Value]; ok && !slices.Contains(at, i) {
			at = append(at, i)
		}
	}
	return at
}

// parents returns the nodes that i waits for.
func (g *graph) parents(i int) []int {
	out := slices.Clone(g.after[i])
	for _, p := range g.succOf[i] {
		if !g.back[[2]int{p, i}] && !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	return out
}

// soft reports whether i accepts any end of its parent p, because no edge
// requires that p succeeds.
func (g *graph) soft(t *Template, i, p int) bool {
	id := t.nodes[p].id.Value
	named := func(refs []Text) (times int) {
		for _, r := range refs {
			if r.Value == id {
				times++
			}
		}
		return times
	}
	n := &t.nodes[i]
	return named(n.after) == named(n.afterAny) && !slices.Contains(g.succOf[i], p)
}

// hard returns the nodes that wait for the success of each node.
func (g *graph) hard(t *Template) [][]int {
	next := make([][]int, len(t.nodes))
	for i := range t.nodes {
		n, times := &t.nodes[i], map[string]int{} // how often it is to have succeeded
		for _, r := range n.after {
			times[r.Value]++
		}
		for _, r := range n.afterAny {
			times[r.Value]--
		}
		for _, p := range g.after[i] {
			if times[t.nodes[p].id.Value] > 0 {
				next[p] = append(next[p], i)
			}
		}
		for _, p := range g.succOf[i] {
			if !g.back[[2]int{p, i}] {
				next[p] = append(next[p], i)
			}
		}
	}
	return next
}

// sleep determines which nodes are dormant.
func (g *graph) sleep() {
	pending := g.candidates()
	for len(pending) > 0 {
		reach := g.reach(pending)
		next := slices.DeleteFunc(slices.Clone(pending), func(h int) bool {
			return slices.ContainsFunc(g.routes[h], func(s int) bool { return reach[s] })
		})
		if len(next) == len(pending) {
			next = slices.DeleteFunc(next, func(h int) bool { return g.milder[h] })
		}
		if len(next) == len(pending) {
			pending = g.enter(pending)
			continue
		}
		for _, h := range pending {
			g.routed[h] = g.routed[h] || !slices.Contains(next, h)
		}
		pending = next
		g.spread(reach)
	}
}

// candidates returns the nodes that may be dormant. A node that precedes the
// source of its route by after edges alone is not a candidate: after says that
// it comes first.
func (g *graph) candidates() []int {
	var out []int
	var afterOf [][]int
	for i := range g.after {
		if len(g.after[i]) > 0 || len(g.routes[i]) == 0 || len(g.succOf[i]) > 0 {
			continue
		}
		if afterOf == nil {
			afterOf = make([][]int, len(g.after))
			for c, ps := range g.after {
				for _, p := range ps {
					afterOf[p] = append(afterOf[p], c)
				}
			}
		}
		before := g.follows(i, afterOf)
		if !slices.ContainsFunc(g.routes[i], func(s int) bool { return before[s] }) {
			out = append(out, i)
		}
	}
	return out
}

// enter removes the entries of a loop from pending: the first node, and those
// that lead to, and are sent back from, the same node.
func (g *graph) enter(pending []int) []int {
	first := pending[0]
	return slices.DeleteFunc(pending, func(h int) bool {
		return h == first || slices.ContainsFunc(g.routes[h], func(s int) bool {
			return slices.Contains(g.routes[first], s) && g.follows(h, g.next)[s]
		})
	})
}

// reach returns the nodes that start in a run without failures, as far as that
// does not depend on the pending nodes.
func (g *graph) reach(pending []int) []bool {
	seen, out := make([]bool, len(g.after)), slices.Clone(g.routed)
	for _, i := range pending {
		out[i] = true
	}
	var queue []int
	visit := func(i int) {
		if !seen[i] && !out[i] {
			seen[i] = true
			queue = append(queue, i)
		}
	}
	for i := range g.after {
		if len(g.parents(i)) == 0 {
			visit(i)
		}
	}
	for at := 0; at < len(queue); at++ {
		for _, c := range g.next[queue[at]] {
			visit(c)
		}
	}
	return seen
}

// follows returns the nodes reachable from i over edges, including i.
func (g *graph) follows(i int, edges [][]int) []bool {
	seen := make([]bool, len(edges))
	seen[i] = true
	queue := []int{i}
	for at := 0; at < len(queue); at++ {
		for _, c := range edges[queue[at]] {
			if !seen[c] {
				seen[c] = true
				queue = append(queue, c)
			}
		}
	}
	return seen
}

// spread finds the returns of the dormant nodes, and the nodes that are dormant
// because of them.
func (g *graph) spread(reach []bool) {
	for {
		for s := range g.routed {
			for _, t := range g.succ[s] {
				if g.routed[s] && !g.routed[t] && g.leadsTo(t, s, reach) {
					g.back[[2]int{s, t}] = true
				}
			}
		}
		i := g.follower()
		if i < 0 {
			return
		}
		g.routed[i] = true // so it may have returns of its own
	}
}

// follower returns a node that is not known to be dormant and that only dormant nodes lead to,
// by on.succeeded; -1: none.
func (g *graph) follower() int {
	for i := range g.routed {
		ps := g.parents(i)
		if !g.routed[i] && len(ps) > 0 && !slices.ContainsFunc(ps, func(p int) bool { return !g.routed[p] || !slices.Contains(g.succ[p], i) }) {
			return i
		}
	}
	return -1
}

// leadsTo reports whether t leads to a route that wakes the dormant node s or
// the node that s follows.
func (g *graph) leadsTo(t, s int, reach []bool) bool {
	chain := []int{s}
	for at := 0; at < len(chain); at++ {
		for _, p := range g.succOf[chain[at]] {
			if g.routed[p] && !slices.Contains(chain, p) {
				chain = append(chain, p)
			}
		}
	}
	var sources []int
	for _, h := range chain {
		sources = append(sources, g.routes[h]...)
	}
	// A handler that something wakes without t's help only returns to nodes
	// that started without the handler.
	if slices.ContainsFunc(sources, func(x int) bool { return reach[x] }) && !reach[t] {
		return false
	}
	leads := g.follows(t, g.next)
	return slices.ContainsFunc(sources, func(x int) bool { return leads[x] })
}
