package op

// registry maps every operation and control policy of the inventory to what
// performs it; a test asserts that they are the same set.
//
//nolint:gochecknoglobals // a table
var registry = map[string]operation{}

func lookup(n *Node) (operation, bool) {
	name := n.Operation
	if name == "" {
		name = n.Control
	}
	run, ok := registry[name]
	return run, ok
}
