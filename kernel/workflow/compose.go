package workflow

import (
	"slices"
	"strings"
)

// Loader reads the template that from imports. Its error may be Diagnostics;
// then it also returns the template as far as it could be read, or nil.
type Loader func(from *Source, m Import) (*Source, error)

// maxStages bounds the size of a composed template: with a few files that
// import one another twice, it would grow exponentially.
const maxStages = 200

// Compose returns root and the stages that it imports, directly and indirectly,
// as one template without imports. The nodes of a stage are renamed to
// STAGE__ID. Links order stages by after edges from the terminal nodes of one
// to the entry nodes of the other, so that each stage keeps its execution
// context (semantics 3.16). Parameters and artifact contracts are merged and
// must agree; policy and command line are root's. If there are findings, the
// result is composed of what could be read.
func Compose(root *Source, load Loader) (*Source, error) {
	c := composer{load: load}
	out := c.compose(root, nil)
	return out, c.err()
}

type composer struct {
	report
	load   Loader
	stages int
}

// stage is an imported template within its importer.
type stage struct {
	pos           Pos
	name          string // as links name it
	entries, ends []string
}

// doubtsOf returns the doubts of a stage, with the names that its nodes have in
// the importer.
func (s *Source) doubtsOf(prefix string) doubts {
	var out doubts
	for _, d := range s.doubts {
		of := doubts{d}
		if rest, stage := strings.CutPrefix(d, unread("")); stage {
			out = append(out, unread(prefix+"__"+rest))
		} else if of.about("nodes", "imports") {
			out = append(out, unread(prefix))
		}
		if of.about("params", "artifact_contracts") {
			out = append(out, d)
		}
	}
	return out
}

// mayHave reports whether a part of s that was not read may contain a node
// called id.
func (s *Source) mayHave(id string) bool {
	return s.doubts.node(id) || slices.ContainsFunc(s.nodes, func(n nodeSource) bool { return n.doubts.about("id") })
}

func (c *composer) compose(src *Source, path []string) *Source {
	path = append(path[:len(path):len(path)], src.File)
	out := *src
	out.nodes, out.Params, out.contracts = slices.Clone(src.nodes), slices.Clone(src.Params), slices.Clone(src.contracts)
	out.config, out.doubts = slices.Clone(src.config), slices.Clone(src.doubts)
	var stages []stage
	lost := map[string]bool{}    // stages that were not read
	taken := map[string]string{} // prefix → stage name
	for _, m := range src.Imports {
		prefix := stagePrefix(m.Name.Value)
		switch other, dup := taken[prefix]; {
		case prefix == "":
			if m.Name.given() {
				c.addf(m.Name.Pos, "import name `%s` is empty", m.Name.Value)
			}
			continue
		case dup && other == m.Name.Value:
			c.addf(m.Name.Pos, "duplicate import name `%s`", m.Name.Value)
			continue
		case dup:
			c.addf(m.Name.Pos, "import names `%s` and `%s` both stand for the node prefix `%s__`", other, m.Name.Value, prefix)
			continue
		}
		taken[prefix] = m.Name.Value
		child := c.child(src, m, path)
		if child == nil {
			lost[m.Name.Value] = true
			out.doubts = append(out.doubts, unread(prefix), "params", "artifact_contracts")
			continue
		}
		out.doubts = append(out.doubts, child.doubtsOf(prefix)...)
		stages = append(stages, c.unite(&out, child, m, prefix))
	}
	c.link(&out, src.links, stages, func(name string) bool { return lost[name] || src.doubts.about("imports") })
	return &out
}

// child returns the composed template that m names, or nil if it cannot be
// read.
func (c *composer) child(src *Source, m Import, path []string) *Source {
	if c.stages++; c.stages > maxStages {
		if c.stages == maxStages+1 {
			c.addf(m.Path.Pos, "workflow has more than %d stages", maxStages)
		}
		return nil
	}
	if !m.Path.given() {
		return nil // the decoder has reported it
	}
	child, err := c.load(src, m)
	c.merge(m.Path.Pos, err)
	if child == nil {
		return nil
	}
	if at := slices.Index(path, child.File); at >= 0 {
		c.addf(m.Path.Pos, "workflow import cycle detected: %s", strings.Join(append(slices.Clone(path[at:]), child.File), " -> "))
		return nil
	}
	child = c.compose(child, path)
	if len(child.nodes) == 0 && !child.doubts.about("nodes", "imports") {
		c.addf(m.Name.Pos, "imported stage `%s` has no nodes", m.Name.Value)
		return nil
	}
	return child
}

// unite adds child to out, with its nodes renamed.
func (c *composer) unite(out, child *Source, m Import, prefix string) stage {
	for _, p := range child.Params {
		have, ok := out.param(p.Key)
		switch {
		case !ok:
			out.Params = append(out.Params, p)
		case have.Value != p.Value:
			c.add(Diagnostic{Pos: p.Pos, Msg: "conflicting parameter default for `" + p.Key + "` while composing stage `" + m.Name.Value +
				"` (`" + have.Value + "` vs `" + p.Value + "`)", Hint: "the other is at " + have.Pos.String()})
		}
	}
	c.configured(out, child, m.Name.Value)
	for _, k := range child.contracts {
		at := slices.IndexFunc(out.contracts, func(o contractSource) bool { return o.id.Value == k.id.Value })
		switch {
		case at < 0:
			out.contracts = append(out.contracts, k)
		case !out.contracts[at].same(k):
			c.add(Diagnostic{Pos: k.pos, Msg: "conflicting artifact contract `" + k.id.Value + "` while composing stage `" + m.Name.Value + "`",
				Hint: "the other is at " + out.contracts[at].pos.String()})
		}
	}
	s := stage{pos: m.Name.Pos, name: m.Name.Value}
	s.entries, s.ends = child.ends()
	known := map[string]bool{}
	for _, n := range child.nodes {
		known[n.id.Value] = true
	}
	rename := func(t Text) Text { return Text{prefix + "__" + t.Value, t.Pos} }
	for _, n := range child.nodes {
		id := n.id.Value
		refs := func(in []Text, what string) []Text {
			renamed := make([]Text, len(in))
			for i, t := range in {
				if !known[t.Value] && !child.mayHave(t.Value) {
					c.add(Diagnostic{Pos: t.Pos, Node: id, Msg: "node `" + id + "` of stage `" + m.Name.Value +
						"` references unknown " + what + " `" + t.Value + "`", Hint: didYouMean(t.Value, child.ids())})
				}
				renamed[i] = rename(t)
			}
			return renamed
		}
		n.id = rename(n.id)
		if !n.staged { // a node of child itself
			n.staged, n.stage = true, child.Params
		}
		n.after = refs(n.after, "after node")
		n.needs = stageArtifacts(n.needs, known, rename)
		for _, o := range outcomes {
			n.produces[o] = stageArtifacts(n.produces[o], known, rename)
		}
		n.afterAny = slices.Clone(n.afterAny)
		for i, t := range n.afterAny { // these are in after as well
			n.afterAny[i] = rename(t)
		}
		for _, o := range outcomes {
			n.on[o] = refs(n.on[o], "on."+o.String()+" target")
		}
		out.nodes = append(out.nodes, n)
	}
	for i := range s.entries {
		s.entries[i] = prefix + "__" + s.entries[i]
	}
	for i := range s.ends {
		s.ends[i] = prefix + "__" + s.ends[i]
	}
	return s
}

// link adds the after edges of links. Cycles of stages are findings.
func (c *composer) link(out *Source, links []linkSource, stages []stage, lost func(name string) bool) {
	find := func(t Text) int {
		at := slices.IndexFunc(stages, func(s stage) bool { return s.name == t.Value })
		switch {
		case !t.given():
		case t.Value == "":
			c.addf(t.Pos, "link with an empty endpoint")
		case at < 0 && !lost(t.Value):
			var names []string
			for _, s := range stages {
				names = append(names, s.name)
			}
			c.add(Diagnostic{Pos: t.Pos, Msg: "link references unknown stage `" + t.Value + "`", Hint: didYouMean(t.Value, names)})
		}
		return at
	}
	g := &graph{after: make([][]int, len(stages)), succOf: make([][]int, len(stages))}
	for _, l := range links {
		from, to := find(l.from), find(l.to)
		if from < 0 || to < 0 {
			continue
		}
		g.after[to] = append(g.after[to], from)
		for i := range out.nodes {
			n := &out.nodes[i]
			if !slices.Contains(stages[to].entries, n.id.Value) {
				continue
			}
			for _, end := range stages[from].ends {
				n.after = append(n.after, Text{end, l.pos})
			}
		}
	}
	if cycle := g.cycle(func(int) []int { return nil }); cycle != nil {
		names := make([]string, len(cycle))
		for i, at := range cycle {
			names[i] = stages[at].name
		}
		c.addf(links[0].pos, "workflow link cycle detected: %s", strings.Join(names, " -> "))
	}
}
