package workflow

import (
	"slices"
	"strings"
)

// doubts are the fields whose values are not what their author means, because
// something was found of them: they lead to no further finding.
type doubts []string

// about reports that one of fields, what it lies in or a part of it is in doubt.
func (d doubts) about(fields ...string) bool {
	return slices.ContainsFunc(d, func(u string) bool {
		return slices.ContainsFunc(fields, func(f string) bool { return within(u, f) || within(f, u) })
	})
}

// whole reports that field, or what it lies in, is in doubt.
func (d doubts) whole(field string) bool {
	return slices.ContainsFunc(d, func(u string) bool { return within(field, u) })
}

// within reports that the field lies in outer, or is it.
func within(field, outer string) bool {
	rest, ok := strings.CutPrefix(field, outer)
	return ok && (outer == "" || rest == "" || rest[0] == '.' || rest[0] == '[')
}

// unread is the doubt about all nodes of a stage that was not read.
func unread(prefix string) string { return "nodes." + prefix }

// node reports that there may be a node called id that was not read.
func (d doubts) node(id string) bool {
	return d.whole("nodes") || slices.ContainsFunc(d, func(u string) bool { return strings.HasPrefix("nodes."+id, u+"__") })
}
