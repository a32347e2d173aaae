package workflow

import "strings"

// ends returns a stage's entry nodes, which wait for no other, and its terminal
// nodes, which no other follows. Sleeping nodes are neither.
func (s *Source) ends() (entries, terminals []string) {
	ws := make([]*wiring, len(s.nodes))
	for i := range s.nodes {
		ws[i] = &s.nodes[i].wiring
	}
	g := newGraph(ws)
	for i, w := range ws {
		if g.routed[i] {
			continue
		}
		if len(g.parents(i)) == 0 {
			entries = append(entries, w.id.Value)
		}
		if len(g.next[i]) == 0 {
			terminals = append(terminals, w.id.Value)
		}
	}
	return entries, terminals
}

func (s *Source) ids() []string {
	ids := make([]string, len(s.nodes))
	for i, n := range s.nodes {
		ids[i] = n.id.Value
	}
	return ids
}

func (k contractSource) same(o contractSource) bool {
	if (k.schema == nil) != (o.schema == nil) || k.schema != nil && !k.schema.equal(*o.schema) {
		return false
	}
	return k.version.Value == o.version.Value
}

// stagePrefix returns a stage's name with all but letters, digits, dashes and
// underscores replaced, double underscores collapsed and the ends trimmed.
func stagePrefix(name string) string {
	p := strings.Map(func(r rune) rune {
		if plain(r) {
			return r
		}
		return '_'
	}, name)
	for strings.Contains(p, "__") {
		p = strings.ReplaceAll(p, "__", "_")
	}
	return strings.Trim(p, "_")
}

// plain reports whether r may stand in a file name that is made from an id.
func plain(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-'
}
