package workflow

import "slices"

// graph is how nodes are wired. It tells a loop from a sleeping handler, which
// look alike: A.on.succeeded = [B] with B.on.failed = [A] may mean "A works, B
// checks, and sends back to A", or "B works, and A repairs what failed".
//
// A node is a candidate for sleeping if nothing but a route of another node
// leads to it, and after alone does not lead from it to that node. It sleeps if
// the run can get to one of those other nodes without it. Where every way there
// leads through the candidate itself, what the route is for decides: on.blocked
// and on.cancelled, or a target that is a conflict gate, mean a handler;
// on.failed means a loop, which starts at its target. What only sleeping nodes
// lead to by on.succeeded sleeps too.
//
// An on.succeeded edge from a sleeping node to one that leads to it by a route
// is a return: it rewinds that node and orders nothing.
type graph struct {
	index  map[string]int
	after  [][]int // explicit, of each node
	next   [][]int // who names each node in after, and its on.succeeded targets
	succ   [][]int // on.succeeded targets
	succOf [][]int // on.succeeded sources
	routes [][]int // on.failed, on.blocked and on.cancelled sources, others than itself
	milder []bool  // every route to it is on.blocked or on.cancelled, or it is a conflict gate
	routed []bool
	back   map[[2]int]bool
	owner  []int // whose worktree each node hands on; below 0: none. Set by Validate
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

// find resolves references; unknown ones are Validate's to report.
func (g *graph) find(refs []Text) []int {
	var at []int
	for _, r := range refs {
		if i, ok := g.index[r.Value]; ok && !slices.Contains(at, i) {
			at = append(at, i)
		}
	}
	return at
}

// parents are the nodes that i waits for.
func (g *graph) parents(i int) []int {
	out := slices.Clone(g.after[i])
	for _, p := range g.succOf[i] {
		if !g.back[[2]int{p, i}] && !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	return out
}

// soft reports that any end of its parent p will do for i: nothing says that it is
// to be p's success.
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
	return named(n.afterAny) > 0 && named(n.after) == named(n.afterAny) && !slices.Contains(g.succOf[i], p)
}

// sleep finds which nodes sleep.
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

// candidates are the nodes that may sleep. One that comes before what routes
// to it by after alone does not: it is said to come first.
func (g *graph) candidates() []int {
	var out []int
	var afterOf [][]int
	for i := range g.after {
		if len(g.after[i]) > 0 || len(g.routes[i]) == 0 || slices.ContainsFunc(g.succOf[i], func(p int) bool { return p != i }) {
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

// enter takes the entries of a loop out of pending: the first node, and those
// that lead to and are sent back from the same node.
func (g *graph) enter(pending []int) []int {
	first := pending[0]
	return slices.DeleteFunc(pending, func(h int) bool {
		return h == first || slices.ContainsFunc(g.routes[h], func(s int) bool {
			return slices.Contains(g.routes[first], s) && g.follows(h, g.next)[s]
		})
	})
}

// reach is what starts in the course of a run in which nothing fails, as far
// as that does not depend on the pending nodes.
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

// follows is what comes after i over edges, i included.
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

// spread finds the returns of the nodes that sleep, and the nodes that sleep
// because of them.
func (g *graph) spread(reach []bool) {
	for changed := true; changed; {
		changed = false
		for s := range g.routed {
			for _, t := range g.succ[s] {
				edge := [2]int{s, t}
				if !g.routed[s] || g.routed[t] || g.back[edge] || !g.leadsTo(t, s, reach) {
					continue
				}
				g.back[edge], changed = true, true
			}
		}
		if changed {
			continue
		}
		for i := range g.routed {
			ps := g.parents(i)
			if !g.routed[i] && len(ps) > 0 && !slices.ContainsFunc(ps, func(p int) bool {
				return !g.routed[p] || !slices.Contains(g.succ[p], i)
			}) {
				g.routed[i], changed = true, true
				break
			}
		}
	}
}

// leadsTo reports that t, going on, comes to a route that wakes the sleeping
// node s or the one that s follows.
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
	// A handler that something wakes without t's help returns only to what
	// started without the handler.
	if slices.ContainsFunc(sources, func(x int) bool { return reach[x] }) && !reach[t] {
		return false
	}
	leads := g.follows(t, g.next)
	return slices.ContainsFunc(sources, func(x int) bool { return leads[x] })
}
