// Package workflow turns a template into jobs.
//
// A template is data: a front end parses a file into a [Value], which knows
// the line of every key, and from there on everything is a pure function:
//
//	Decode   a Value, strictly, into a Source
//	Compose  a Source and the stages it imports into one Source
//	Configure what the repository's configuration says into default parameters
//	Bind     what was typed on the command line into parameters
//	Expand   ${name} everywhere, and read every text as what it stands for
//	Validate the whole template; all findings at once, in source order
//	Compile  one kernel.NewJob per node, and the run's Manifest
//
// [Inventory] is the one table of what a node may use, and [Control] decides
// what a control node does next, so that a runtime only performs effects.
//
// # Edges
//
// after and on.succeeded order two nodes; on.succeeded also carries the
// execution context. on.failed, on.blocked and on.cancelled do not order
// anything: they rewind their target, or wake it. A node that only such a
// route can reach sleeps until one fires; when it succeeds, its on.succeeded
// edge to a node that leads to it by a route is a return: it rewinds that node.
// See graph.go for how a loop is told from a sleeping handler.
package workflow
