package workflow

import (
	"slices"
	"strings"
)

// doubts are the fields whose value is not known to be the intended one,
// because there is a finding about them. They cause no further findings.
type doubts []string

// about reports whether one of fields is in doubt, or a field that contains it
// or is part of it.
func (d doubts) about(fields ...string) bool {
	return slices.ContainsFunc(d, func(u string) bool {
		return slices.ContainsFunc(fields, func(f string) bool { return within(u, f) || within(f, u) })
	})
}

// whole reports whether field, or a field that contains it, is in doubt.
func (d doubts) whole(field string) bool {
	return slices.ContainsFunc(d, func(u string) bool { return within(field, u) })
}

// within reports whether field equals outer or is part of it.
func within(field, outer string) bool {
	rest, ok := strings.CutPrefix(field, outer)
	return ok && (outer == "" || rest == "" || rest[0] == '.' || rest[0] == '[')
}

// unread returns the doubt about all nodes of a stage that could not be read.
func unread(prefix string) string { return "nodes." + prefix }

// node reports whether a node called id may exist in a part that could not be
// read.
func (d doubts) node(id string) bool {
	return d.whole("nodes") || d.about("imports") || slices.ContainsFunc(d, func(u string) bool { return strings.HasPrefix("nodes."+id, u+"__") })
}
