package workflow

import "strconv"

// gates reports gates that nothing would check.
func (c *checker) gates(n *node) {
	for i, g := range n.gates {
		field := item(".gates", i)
		switch {
		case n.doubts.about(field[1:]):
		case g.kind == gateApproval && g.policy != PolicyBlock:
			c.node(n, g.pos, field+".policy", "remove it", "node `%s` has an approval gate with policy `%s`; approval always blocks", n.id.Value, g.policy)
		case g.kind == gateApproval:
		case !n.reads(g):
			c.node(n, g.pos, field, "use a "+controlPrefix+"gate.* node, or remove it", "node `%s` has a %s gate that nothing looks at", n.id.Value, g.kind)
		case g.policy == PolicyRetry && !n.doubts.about("retry", "max_retries") && n.retryMode == RetryNever && n.budget.Retries == 0:
			c.node(n, g.pos, field+".policy", "add [nodes.retry] with a mode and a budget", "node `%s` has a gate with policy `retry` and nothing that retries", n.id.Value)
		}
	}
	for _, kind := range []string{gateScript, gateCICD} {
		if k := len(n.gatesOf(kind)); k > 1 {
			c.rule(n, n.pos, ".gates", "has %s %s gates; at most one is allowed", strconv.Itoa(k), kind)
		}
	}
	if n.retryMode == RetryUntilGate && !n.doubts.about("retry") && n.use.Policy != policyStop {
		c.node(n, n.pos, ".retry.mode", "use on_failure", "node `%s` has retry mode until_gate, which only a stop-condition gate can have", n.id.Value)
	}
}

// reads reports whether executing n checks its gate g.
func (n *node) reads(g gate) bool {
	switch g.kind {
	case gateScript:
		return n.use.Policy == policyStop || n.use.Operation == opStageCommit
	case gateCICD:
		return n.use.Policy == policyCICD || n.use.Operation == opCICD || n.use.Operation == opIntegrate
	default:
		return g.id == customConflict && n.use.Policy == policyConflict
	}
}
