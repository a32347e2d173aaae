package workflow

import (
	"fmt"
	"slices"
	"strings"

	"github.com/vizier-scheduler/vizier/kernel"
)

// order checks the graph: no node waits for itself or for a node that only a
// route starts, and contexts that meet are of one worktree.
func (c *checker) order() {
	if len(c.byID) < len(c.t.nodes) {
		return // with duplicate ids, edges mean nothing
	}
	g := c.g
	if !c.wired() {
		g = &graph{after: c.g.after, succOf: make([][]int, len(c.g.after))} // only the edges that cannot be in doubt
	}
	producers := map[kernel.Artifact][]int{}
	for i := range c.t.nodes {
		for _, a := range c.t.nodes[i].all() { // nothing needs an artifact that is in doubt
			if !slices.Contains(producers[a], i) {
				producers[a] = append(producers[a], i)
			}
		}
	}
	cycle := g.cycle(func(i int) (out []int) {
		for _, a := range c.t.nodes[i].needs {
			if c.t.nodes[i].misread(a) {
				continue
			}
			for _, p := range producers[a.Artifact] {
				if p != i {
					out = append(out, p)
				}
			}
		}
		return out
	})
	if cycle != nil {
		names := make([]string, len(cycle))
		for i, at := range cycle {
			names[i] = c.t.nodes[at].id.Value
		}
		n := &c.t.nodes[cycle[0]]
		c.node(n, n.pos, "", "nodes wait for what is before them: after, on.succeeded, and the producers of what they need",
			"has a cycle: %s", strings.Join(names, " -> "))
		return
	}
	if g != c.g {
		return
	}
	starts := false
	for i := range c.t.nodes {
		starts = starts || !c.g.routed[i] && len(c.g.parents(i)) == 0
	}
	if !starts {
		c.addf(c.t.nodes[0].pos, "template %s@%s has no node that starts: each waits for another or for a route", c.t.ID, c.t.Version)
	}
	c.sleepers()
	c.forward()
	c.contexts()
}

// wired reports whether all edges are known.
func (c *checker) wired() bool {
	return len(c.t.doubts) == 0 && !slices.ContainsFunc(c.t.nodes, func(n node) bool {
		unknown := func(refs []Text) bool {
			return slices.ContainsFunc(refs, func(t Text) bool { return c.byID[t.Value] == nil })
		}
		return !n.known || n.doubts.about("id", "uses", "after", "on") || unknown(n.after) ||
			slices.ContainsFunc(outcomes[:], func(o kernel.Outcome) bool { return unknown(n.on[o]) })
	})
}

// misread reports whether artifact a of n is in doubt.
func (n *node) misread(a artifact) bool {
	return !a.implicit && n.doubts.about(strings.TrimPrefix(a.path, "nodes["+n.id.Value+"]."))
}

// all returns what n produces, over all outcomes.
func (n *node) all() []kernel.Artifact {
	var out []kernel.Artifact
	for _, o := range outcomes {
		for _, a := range n.produces[o] {
			if !slices.Contains(out, a.Artifact) {
				out = append(out, a.Artifact)
			}
		}
	}
	return out
}

// sleepers reports nodes that would wait for ever, because they wait for a node
// that only a route starts.
func (c *checker) sleepers() {
	for i := range c.t.nodes {
		if c.g.routed[i] {
			continue
		}
		n := &c.t.nodes[i]
		for _, p := range c.g.parents(i) {
			if c.g.routed[p] {
				c.node(n, n.pos, ".after", "give it a route of its own, or let `"+c.t.nodes[p].id.Value+"` return to a node that leads to it",
					"node `%s` waits for `%s`, which only an on.failed, on.blocked or on.cancelled route starts", n.id.Value, c.t.nodes[p].id.Value)
			}
		}
	}
}

// forward reports routes to nodes that wait for the success of the node whose route it is: the end that would start them
// blocks them.
func (c *checker) forward() {
	next := c.g.hard(c.t)
	for i := range c.t.nodes {
		n := &c.t.nodes[i]
		var behind []bool
		for _, o := range outcomes[1:] {
			for _, ref := range n.on[o] {
				if behind == nil {
					behind = c.g.follows(i, next)
				}
				if t := c.g.index[ref.Value]; t != i && behind[t] {
					c.node(n, ref.Pos, ".on."+o.String(), `let only the route lead to it, or, for a report on any end, only an after with policy = "any"`,
						"node `%s` cannot start by on.%s of `%s`, since it waits until that has succeeded", ref.Value, o, n.id.Value)
				}
			}
		}
	}
}

// rareNeeds warns of nodes that need what the template's nodes make only if something fails.
func (t *Template) rareNeeds() (out Diagnostics) {
	ws := make([]*wiring, len(t.nodes))
	for i := range t.nodes {
		ws[i] = &t.nodes[i].wiring
	}
	g := newGraph(ws)
	makers, usual := map[kernel.Artifact][]string{}, map[kernel.Artifact]bool{} // who makes it, and whether also if nothing fails
	for i := range t.nodes {
		n := &t.nodes[i]
		for _, a := range n.all() {
			made := slices.ContainsFunc(n.produces[kernel.OutcomeSucceeded], func(p artifact) bool { return p.Artifact == a })
			makers[a], usual[a] = append(makers[a], "`"+n.id.Value+"`"), usual[a] || made && !g.routed[i]
		}
	}
	for i := range t.nodes {
		n := &t.nodes[i]
		for _, a := range n.needs {
			if len(makers[a.Artifact]) > 0 && !usual[a.Artifact] && !g.routed[i] {
				out = append(out, Diagnostic{Pos: a.pos, Node: n.id.Value, Field: a.path,
					Msg:  fmt.Sprintf("node `%s` never starts if nothing fails: it needs `%s`, which only %s makes, and only then", n.id.Value, a, strings.Join(makers[a.Artifact], ", ")),
					Hint: "start it by a route as well, or let a node that always runs make the artifact"})
			}
		}
	}
	return out
}

// contexts reports nodes to which on.succeeded edges carry the worktrees of two
// nodes.
func (c *checker) contexts() {
	const unknown, root = -2, -1
	owner := make([]int, len(c.t.nodes))
	for i := range owner {
		owner[i] = unknown
	}
	var visit func(i int) int
	visit = func(i int) int { // returns the node whose worktree i hands on
		if owner[i] != unknown {
			return owner[i]
		}
		owner[i] = root
		n, from := &c.t.nodes[i], -1
		for _, p := range c.g.succOf[i] {
			if c.g.back[[2]int{p, i}] {
				continue
			}
			switch w := visit(p); {
			case w < 0 || w == owner[i]:
			case owner[i] < 0:
				owner[i], from = w, p
			default:
				c.node(n, n.pos, "", "let one of them come before it by after only", "node `%s` would get two execution contexts: the worktree of `%s` by `%s`, and that of `%s` by `%s`",
					n.id.Value, c.t.nodes[owner[i]].id.Value, c.t.nodes[from].id.Value, c.t.nodes[w].id.Value, c.t.nodes[p].id.Value)
			}
		}
		switch n.use.Operation {
		case opPrepare:
			owner[i] = i
		case opCleanup:
			owner[i] = root
		}
		return owner[i]
	}
	for i := range owner {
		visit(i)
	}
	c.g.owner = owner
}
