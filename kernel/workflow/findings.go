package workflow

import (
	"errors"
	"strings"
)

// Findings are all that is wrong with a template and its input, in one answer:
// found, the findings of the steps so far, and what the steps after them find of
// the nodes that nothing is found of yet. Of a node that lacks input they would
// only say so again.
func Findings(src *Source, params map[string]string, found ...error) error {
	var r report
	for _, err := range found {
		r.merge(Pos{}, err)
	}
	t, err := expand(src, params)
	r.merge(Pos{}, err)
	told := map[string]bool{}
	for _, d := range r.found {
		told[d.node()] = true
	}
	for i := range t.nodes {
		if n := &t.nodes[i]; len(n.use.AnyOf) > 0 && n.arg(n.use.AnyOf...) == "" {
			told[n.id.Value] = true
		}
	}
	_, err = validate(t)
	if more, ok := errors.AsType[Diagnostics](err); ok {
		for _, d := range more {
			if !told[d.node()] {
				r.add(d)
			}
		}
	}
	return r.err()
}

// node is the node that a finding is about; a decoder knows it by its field only.
func (d Diagnostic) node() string {
	if d.Node != "" {
		return d.Node
	}
	rest, ok := strings.CutPrefix(d.Field, "nodes[")
	id, _, closed := strings.Cut(rest, "]")
	if !ok || !closed {
		return "\x00" // none that a node is called
	}
	return id
}
