// Package workflow turns a template into jobs.
//
// A template is data: a front end parses a file into a [Value], which holds the
// line of every key. All further steps are pure functions:
//
//	Decode    reads a Value, strictly, into a Source
//	Compose   merges a Source and the stages that it imports into one Source
//	Configure sets the defaults that come from the repository's configuration
//	Bind      turns the words of the command line into parameters
//	Expand    replaces ${name} everywhere and parses every value
//	Findings  returns everything that is wrong with a template and its input
//	Compile   checks the whole template, and makes one kernel.NewJob per node and the run's Manifest
//
// [Inventory] is the one table of what a node may use, and [Control] decides
// what a control node does next, so that a runtime only performs effects.
//
// # Edges
//
// after and on.succeeded order two nodes; on.succeeded also carries the
// execution context. on.failed, on.blocked and on.cancelled do not order
// anything: they rewind their target, or wake it. A node that only such a route
// can reach is dormant until a route is taken. When it succeeds, its
// on.succeeded edge to a node that leads to it by a route is a return: it
// rewinds that node. See graph.go for how a loop is told from a dormant
// handler.
package workflow
