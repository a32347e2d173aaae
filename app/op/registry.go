package op

// registry maps every operation and control policy of the inventory to what
// performs it; a test asserts that they are the same set.
//
//nolint:gochecknoglobals // a table
var registry = map[string]operation{
	"agent.invoke":             gated(agentInvoke),
	"cicd.run":                 control,
	"command.run":              gated(commandRun),
	"gate.approval":            control,
	"gate.cicd":                control,
	"gate.conflict_resolution": control,
	"gate.stop_condition":      control,
	"prompt.resolve":           gated(promptResolve),
	"terminal":                 control,
}

func lookup(n *Node) (operation, bool) {
	name := n.Operation
	if name == "" {
		name = n.Control
	}
	run, ok := registry[name]
	return run, ok
}
