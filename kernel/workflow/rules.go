package workflow

import (
	"maps"
	"slices"
	"strings"

	"github.com/vizier-scheduler/vizier/kernel"
)

const promptText = "prompt_text"

// arguments checks the arguments of a node against the inventory.
func (c *checker) arguments(n *node) {
	given := func(keys []string) (times int) {
		for _, k := range keys {
			if n.arg(k) != "" {
				times++
			}
		}
		return times
	}
	sure := func(keys ...string) bool { return !n.unsure(keys) }
	u := n.use
	switch {
	case !u.NoScript && u.OneOf == nil && given(scripts) > 1 && sure(scripts...):
		c.rule(n, n.pos, ".args.script", "has both command and script, and only one of them can run")
	case !u.NoScript || n.arg(scripts...) == "":
	case u.Policy != "":
		c.node(n, n.pos, ".args", "put the script in a gate", "node `%s` declares control policy `%s` but also sets command/script args", n.id.Value, u.Policy)
	default:
		c.rule(n, n.pos, ".args", "does not accept command/script args")
	}
	if u.AnyOf != nil && n.arg(u.AnyOf...) == "" && sure(u.AnyOf...) {
		c.lacks(n, u.AnyOf, "requires at least one non-empty argument of "+strings.Join(u.AnyOf, ", "))
	}
	if u.OneOf != nil && given(u.OneOf) != 1 && sure(u.OneOf...) {
		c.lacks(n, u.OneOf, "requires exactly one of "+strings.Join(u.OneOf, ", "))
	}
	if got := given(u.AllOrNone); got > 0 && got < len(u.AllOrNone) && sure(u.AllOrNone...) {
		c.rule(n, n.pos, ".args", "requires all of %s, or none", strings.Join(u.AllOrNone, ", "))
	}
	if u.PathList != "" && sure(u.PathList) {
		if files, err := Paths(n.args[u.PathList]); err != nil || len(files) == 0 {
			c.rule(n, n.pos, ".args."+u.PathList, "requires `%s` to be a non-empty JSON array of strings", u.PathList)
		}
	}
}

// lacks reports that n lacks one of keys and, if another argument looks like a
// misspelling of it, which one.
func (c *checker) lacks(n *node, keys []string, msg string) {
	known := n.use.arguments()
	for _, k := range slices.Sorted(maps.Keys(n.args)) {
		if _, both := n.args[Suggest(k, keys)]; both || slices.Contains(known, k) {
			continue
		}
		if hint := didYouMean(k, keys); hint != "" {
			msg += ", and has `" + k + "`: " + hint
			break
		}
	}
	c.rule(n, n.pos, ".args", "%s", msg)
}

// operation checks the rules of single operations that the inventory cannot
// express.
func (c *checker) operation(n *node) {
	switch n.use.Operation {
	case opAgent:
		if k := n.prompts(n.needs); k != 1 && !n.doubts.about("needs") {
			c.rule(n, n.pos, ".needs", "requires exactly one custom:%s:* need, found %d", promptText, k)
		}
	case opPrompt:
		var all []artifact
		for _, o := range outcomes {
			all = append(all, n.produces[o]...)
		}
		all = slices.DeleteFunc(all, func(a artifact) bool { return a.implicit })
		if (len(all) != 1 || n.prompts(all) != 1) && !n.doubts.about("produces") {
			c.rule(n, n.pos, ".produces", "must produce exactly one artifact, custom:%s:<key>", promptText)
		}
	case opCICD:
		if n.arg(scripts...) == "" && !n.gateRuns() && !n.doubts.about("args.command", "args.script", "gates") {
			c.rule(n, n.pos, ".args", "requires command or script, or a cicd gate with a script")
		}
	case opPlan:
		switch src := n.arg("spec_source"); {
		case n.doubts.about("args.spec_source", "args.spec_file"):
		case src != "" && !slices.Contains([]string{"inline", "stdin", "file"}, src):
			c.rule(n, n.pos, ".args.spec_source", "has spec_source `%s`; expected inline, stdin or file", src)
		case src == "file" && n.arg("spec_file") == "":
			c.rule(n, n.pos, ".args.spec_file", "has spec_source `file` and no spec_file")
		}
	case opCommit:
		c.payload(n)
	case opStageCommit:
		c.payload(n)
		stops := len(c.targets(n, kernel.OutcomeSucceeded, policyStop))
		if len(n.on[kernel.OutcomeSucceeded]) > 0 && (stops > 1 || stops == 0 && c.known(n, kernel.OutcomeSucceeded)) {
			c.node(n, n.pos, ".on.succeeded", "let it lead to a "+controlPrefix+"gate.stop_condition node and that one to the others, or use git.stage and git.commit",
				"executor `%s` node `%s` must have exactly one stop-condition gate among its on.succeeded targets, found %d", n.use.Operation, n.id.Value, stops)
		}
	case opIntegrate:
		c.integrate(n)
	}
	if n.repairsWithNothing() {
		c.rule(n, n.pos, ".args.auto_resolve", "is to repair what its gate finds and has no auto_resolve_script")
	}
	switch n.use.Policy {
	case policyStop:
		c.stopCondition(n)
	case policyConflict:
		c.conflict(n)
	case policyCICD:
		if k := len(n.gatesOf(gateCICD)); k != 1 && !n.doubts.about("gates") {
			c.rule(n, n.pos, ".gates", "requires exactly one cicd gate, found %d", k)
		}
		c.loop(n)
	case policyTerminal:
		for _, o := range outcomes {
			if len(n.on[o]) > 0 {
				c.rule(n, n.on[o][0].Pos, ".on."+o.String(), "must not declare outgoing routes")
			}
		}
	}
}

// repairsWithNothing reports whether n is to repair what its CI gate finds, and has nothing to do that with. For a conflict of a
// merge an agent does.
func (n *node) repairsWithNothing() bool {
	on, _ := parseBool(n.arg("auto_resolve"))
	byAgent := n.use.Policy == policyConflict || n.use.Operation == opIntegrate
	return on && !byAgent && n.gateRuns() && n.arg("auto_resolve_command", "auto_resolve_script") == "" && !n.doubts.about("args")
}

// gateRuns reports whether a CI gate of n has a script.
func (n *node) gateRuns() bool {
	return slices.ContainsFunc(n.gatesOf(gateCICD), func(g gate) bool { return strings.TrimSpace(g.script) != "" })
}

// unsure reports whether one of the arguments is in doubt.
func (n *node) unsure(keys []string) bool {
	return slices.ContainsFunc(keys, func(k string) bool { return n.doubts.about("args." + k) })
}

func (n *node) prompts(in []artifact) int {
	k := 0
	for _, a := range in {
		if a.Kind == kernel.Custom && a.Name == promptText {
			k++
		}
	}
	return k
}

// payload checks a commit message that is taken from a need.
func (c *checker) payload(n *node) {
	sel, ok := Payload(n.arg("message", "commit_message"))
	if !ok || n.doubts.about("needs", "args.message", "args.commit_message") {
		return
	}
	k := 0
	for _, a := range n.needs {
		if a.Kind == kernel.Custom && Selects(sel, a.Artifact) {
			k++
		}
	}
	if k != 1 {
		c.rule(n, n.pos, ".args.message", "requires exactly one custom need that matches read_payload(%s), found %d", sel, k)
	}
}

const payloadPrefix = "read_payload("

// Payload returns the selector of a commit message of the form
// read_payload(SEL): TYPE or TYPE:KEY of a custom need.
func Payload(message string) (selector string, ok bool) {
	sel, ok := strings.CutPrefix(strings.TrimSpace(message), payloadPrefix)
	sel, ok2 := strings.CutSuffix(sel, ")")
	if !ok || !ok2 {
		return "", false
	}
	return strings.TrimSpace(sel), true
}

// Selects reports whether a payload's selector is about a.
func Selects(selector string, a kernel.Artifact) bool {
	return a.Name == selector || a.Name+":"+a.Ref == selector || a.String() == selector
}

// targets returns those of n's targets on an outcome that use policy.
func (c *checker) targets(n *node, o kernel.Outcome, policy string) []*node {
	var out []*node
	for _, t := range n.on[o] {
		if to := c.byID[t.Value]; to != nil && to.use.Policy == policy {
			out = append(out, to)
		}
	}
	return out
}

// sources returns the nodes that use one of ops and have n as a target on an
// outcome.
func (c *checker) sources(n *node, o kernel.Outcome, ops ...string) []*node {
	var out []*node
	for i := range c.t.nodes {
		m := &c.t.nodes[i]
		if slices.Contains(ops, m.use.Operation) && m.leads(o, n.id.Value) {
			out = append(out, m)
		}
	}
	return out
}

// known reports whether all of n's targets on an outcome are known.
func (c *checker) known(n *node, o kernel.Outcome) bool {
	return !n.doubts.about("on."+o.String()) && !slices.ContainsFunc(n.on[o], func(t Text) bool {
		to := c.byID[t.Value]
		return to == nil || !to.known || to.doubts.about("id", "uses")
	})
}

// found reports whether having k sources on an outcome breaks the rule that n
// has exactly one. With none, it does so only if all sources are known.
func (c *checker) found(n *node, o kernel.Outcome, k int) bool {
	return k > 1 || k == 0 && !n.doubts.about("id") && len(c.t.doubts) == 0 && !slices.ContainsFunc(c.t.nodes, func(m node) bool {
		return m.doubts.about("on."+o.String()) || m.leads(o, n.id.Value) && (!m.known || m.doubts.about("uses")) ||
			slices.ContainsFunc(m.on[o], func(t Text) bool { return c.byID[t.Value] == nil })
	})
}

func (n *node) leads(o kernel.Outcome, id string) bool {
	return slices.ContainsFunc(n.on[o], func(t Text) bool { return t.Value == id })
}

func (c *checker) integrate(n *node) {
	if n.autoResolve() {
		c.rule(n, n.pos, ".args.auto_resolve", "merges what its gate accepts and repairs nothing: give auto_resolve to a control.gate.cicd node after it")
	}
	if k := len(c.targets(n, kernel.OutcomeBlocked, policyConflict)); k > 1 {
		c.rule(n, n.pos, ".on.blocked", "has %d conflict gates among its on.blocked targets; at most one is allowed", k)
	}
	if k := len(c.targets(n, kernel.OutcomeSucceeded, policyCICD)); k > 1 {
		c.rule(n, n.pos, ".on.succeeded", "has %d cicd gates among its on.succeeded targets; at most one is allowed", k)
	}
}

func (c *checker) stopCondition(n *node) {
	if k := len(c.sources(n, kernel.OutcomeSucceeded, opStageCommit, opCommit)); c.found(n, kernel.OutcomeSucceeded, k) {
		c.rule(n, n.pos, "", "must be the on.succeeded target of exactly one git.stage_commit or git.commit node, found %d", k)
	}
	if n.retryMode != RetryUntilGate || !c.known(n, kernel.OutcomeFailed) || !c.wired() {
		return
	}
	at := c.g.index[n.id.Value]
	for _, t := range n.on[kernel.OutcomeFailed] {
		if to, ok := c.g.index[t.Value]; ok && c.upstream(at)[to] {
			return
		}
	}
	c.rule(n, n.pos, ".on.failed", "has retry mode until_gate, so its on.failed must lead back to a node before it")
}

// upstream returns i and the nodes that have to succeed before it.
func (c *checker) upstream(i int) map[int]bool {
	seen, queue := map[int]bool{i: true}, []int{i}
	for at := 0; at < len(queue); at++ {
		for _, p := range c.g.parents(queue[at]) {
			if !seen[p] {
				seen[p] = true
				queue = append(queue, p)
			}
		}
	}
	return seen
}

func (c *checker) conflict(n *node) {
	from := c.sources(n, kernel.OutcomeBlocked, opIntegrate)
	if len(from) != 1 {
		if c.found(n, kernel.OutcomeBlocked, len(from)) {
			c.rule(n, n.pos, "", "must be the on.blocked target of exactly one git.integrate_plan_branch node, found %d", len(from))
		}
		return
	}
	if n.autoResolve() && !n.doubts.about("args.auto_resolve", "gates") && c.known(n, kernel.OutcomeSucceeded) && !n.leads(kernel.OutcomeSucceeded, from[0].id.Value) {
		c.rule(n, n.pos, ".on.succeeded", "resolves by itself, so its on.succeeded must include `%s`", from[0].id.Value)
	}
}

// loop checks that a gate that repairs by itself is run again after the repair.
func (c *checker) loop(n *node) {
	if !slices.ContainsFunc(n.gatesOf(gateCICD), func(g gate) bool { return g.autoResolve }) {
		return
	}
	if !c.known(n, kernel.OutcomeFailed) {
		return
	}
	for _, t := range n.on[kernel.OutcomeFailed] {
		if to := c.byID[t.Value]; to == n || to.leads(kernel.OutcomeSucceeded, n.id.Value) || !c.known(to, kernel.OutcomeSucceeded) {
			return
		}
	}
	c.rule(n, n.pos, ".on.failed", "has a cicd gate with auto_resolve, so its on.failed must return to it or to a node whose on.succeeded does")
}
