package workflow

import (
	"fmt"
	"slices"
	"strings"

	"github.com/vizier-scheduler/vizier/kernel"
)

// validate checks t against every rule of templates and returns all findings
// at once, as Diagnostics in source order.
func validate(t *Template) (*graph, error) {
	c := &checker{t: t, byID: map[string]*node{}}
	if len(t.nodes) == 0 {
		if !t.doubts.about("nodes", "imports") {
			c.addf(t.pos, "workflow template has no nodes")
		}
		return nil, c.err()
	}
	ws := make([]*wiring, len(t.nodes))
	for i := range t.nodes {
		ws[i] = &t.nodes[i].wiring
		c.identity(&t.nodes[i])
	}
	c.g = newGraph(ws)
	c.policy()
	schemas := c.schemas()
	for i := range t.nodes {
		n := &t.nodes[i]
		c.references(n)
		if c.classify(n) {
			c.arguments(n)
			c.operation(n)
			c.gates(n)
		}
		for _, a := range n.needs {
			c.artifact(n, a, schemas, true)
		}
		for _, o := range outcomes {
			for _, a := range n.produces[o] {
				c.artifact(n, a, schemas, false)
			}
		}
	}
	c.order()
	return c.g, c.err()
}

type checker struct {
	report
	t      *Template
	g      *graph
	byID   map[string]*node
	same   map[string]string // the form of an id in a file name → the id
	called map[string]string // what references call a node → its id
	place  int               // of the node whose identity is looked at, from 1
}

// node reports a finding about n.
func (c *checker) node(n *node, pos Pos, field, hint, format string, args ...any) {
	c.add(Diagnostic{Pos: pos, Node: n.id.Value, Field: "nodes[" + n.id.Value + "]" + field, Hint: hint,
		Msg: fmt.Sprintf("template %s@%s ", c.t.ID, c.t.Version) + fmt.Sprintf(format, args...)})
}

// rule reports that n breaks a rule of its operation or policy.
func (c *checker) rule(n *node, pos Pos, field, format string, args ...any) {
	what := "executor `" + n.use.Operation + "`"
	if n.use.Policy != "" {
		what = "contract `" + n.use.Policy + "`"
	}
	c.node(n, pos, field, "", "%s node `%s` %s", what, n.id.Value, fmt.Sprintf(format, args...))
}

// identity reports ids that are empty, duplicate, or the same in a file name or in a reference.
func (c *checker) identity(n *node) {
	id := n.id.Value
	file := strings.Trim(strings.Map(func(r rune) rune {
		if plain(r) {
			return r
		}
		return '-'
	}, id), "-")
	if c.same == nil {
		c.same, c.called = map[string]string{}, map[string]string{}
	}
	c.place++
	part := kernel.PartAt(id, c.place)
	namesake, called := c.called[part]
	switch other, taken := c.same[file]; {
	case !n.id.given(): // the decoder has reported it
	case strings.TrimSpace(id) == "":
		c.node(n, n.pos, ".id", "", "has a node without an id")
	case c.byID[id] != nil:
		c.node(n, n.id.Pos, ".id", "the other is at "+c.byID[id].id.Pos.String(), "defines duplicate node id `%s`", id)
	case taken:
		c.node(n, n.id.Pos, ".id", "", "node ids `%s` and `%s` are the same in file names (`%s`)", other, id, file)
	case called:
		c.node(n, n.id.Pos, ".id", "rename one of them: a node whose id is no word is called by its place", "node ids `%s` and `%s` are both called `%s`", namesake, id, part)
	default:
		c.same[file], c.called[part], c.byID[id] = id, id, n
	}
}

// The values of [policy.resume] that mean something.
const (
	onlyResumeKey = "default"
	onlyReuseMode = "strict"
)

// policy reports values that would have no effect.
func (c *checker) policy() {
	check := func(t Text, key, only string) {
		if t.given() && t.Value != only {
			c.add(Diagnostic{Pos: t.Pos, Field: "policy.resume." + key, Hint: "remove [policy.resume]",
				Msg: "policy.resume." + key + " other than `" + only + "` has no effect"})
		}
	}
	check(c.t.policy.resumeKey, "key", onlyResumeKey)
	check(c.t.policy.reuseMode, "reuse_mode", onlyReuseMode)
}

// references reports names of nodes that do not exist. Compose has checked
// those of stages.
func (c *checker) references(n *node) {
	check := func(refs []Text, field, what string) {
		for _, r := range refs {
			if !n.staged && !c.mayBe(r.Value) {
				c.node(n, r.Pos, field, didYouMean(r.Value, c.ids()), "node `%s` references unknown %s `%s`", n.id.Value, what, r.Value)
			}
		}
	}
	check(n.after, ".after", "after node")
	for _, o := range outcomes {
		check(n.on[o], ".on."+o.String(), "on."+o.String()+" target")
	}
}

// mayBe reports whether a node called id exists, or may exist because an id or
// a stage could not be read.
func (c *checker) mayBe(id string) bool {
	return c.byID[id] != nil || c.t.doubts.node(id) || slices.ContainsFunc(c.t.nodes, func(n node) bool { return n.doubts.about("id") })
}

func (c *checker) ids() []string {
	ids := make([]string, len(c.t.nodes))
	for i := range c.t.nodes {
		ids[i] = c.t.nodes[i].id.Value
	}
	return ids
}

// classify checks uses and kind. It reports whether they are valid; if not, no
// other rule makes sense.
func (c *checker) classify(n *node) bool {
	uses, id := n.uses.Value, n.id.Value
	switch {
	case n.doubts.about("uses"):
		return false
	case strings.TrimSpace(uses) == "":
		c.node(n, n.pos, ".uses", "", "node `%s` must declare an explicit canonical uses id", id)
		return false
	case !n.known:
		var labels []string
		for _, u := range Inventory() {
			labels = append(labels, u.Label)
		}
		c.node(n, n.uses.Pos, ".uses", didYouMean(uses, labels), "node `%s` uses unknown label `%s`; declare one of "+
			"cap.env.builtin.*, cap.env.shell.*, cap.agent.invoke, or control.*", id, uses)
		return false
	case n.doubts.about("kind"):
	case n.kind == kindGate && n.use.Operation != "":
		c.node(n, n.uses.Pos, ".kind", "", "node `%s` is a gate node and cannot declare executor operation `%s`", id, n.use.Operation)
		return false
	case n.kind != kindGate && n.use.Policy != "":
		c.node(n, n.uses.Pos, ".kind", "set kind = \"gate\"", "node `%s` declares control policy `%s` but kind `%s` is not gate", id, n.use.Policy, n.kind)
		return false
	case n.kind != kindGate && n.use.Class != kindClass[n.kind]:
		c.node(n, n.uses.Pos, ".kind", "", "node `%s` declares executor class `%s` but kind `%s` requires `%s`", id, n.use.Class, n.kind, kindClass[n.kind])
		return false
	}
	return true
}

// artifact checks an artifact's form and its contract. The kinds of seed 000
// have a contract without declaring one.
func (c *checker) artifact(n *node, a artifact, schemas map[string]*Value, need bool) {
	field := strings.TrimPrefix(a.path, "nodes["+n.id.Value+"]")
	if n.misread(a) {
		return
	}
	if err := a.Validate(); err != nil {
		c.node(n, a.pos, field, "", "node `%s`: %s", n.id.Value, err)
		return
	}
	if a.isOutput() {
		c.output(n, a, field, need)
		return
	}
	id := a.Kind.String()
	if a.Kind == kernel.Custom {
		id = a.Name
	}
	at := slices.IndexFunc(c.t.contracts, func(k contract) bool { return k.id == id })
	if at < 0 {
		if a.Kind == kernel.Custom && !c.t.doubts.about("artifact_contracts") {
			var known []string
			for _, k := range c.t.contracts {
				known = append(known, k.id)
			}
			c.node(n, a.pos, field, didYouMean(id, known), "node `%s` references artifact `%s` without declared artifact contract `%s`", n.id.Value, a, id)
		}
		return
	}
	k := c.t.contracts[at]
	if a.version != "" && a.version != k.version {
		c.node(n, a.pos, field, "", "node `%s` references artifact `%s` of contract `%s@%s`, but `%s` is declared", n.id.Value, a, id, a.version, k.version)
	}
	if schema := schemas[id]; schema != nil {
		if why := conforms(*schema, identityOf(a.Artifact), "$"); why != "" {
			c.node(n, a.pos, field, "", "node `%s`: artifact `%s` violates schema for contract `%s`: %s", n.id.Value, a, id, why)
		}
	}
}

// schemas checks the contracts and returns their usable schemas.
func (c *checker) schemas() map[string]*Value {
	usable := map[string]*Value{}
	seen := map[string]bool{}
	for _, k := range c.t.contracts {
		_, err := kernel.ParseArtifactKind(k.id)
		switch {
		case k.doubtful:
		case strings.TrimSpace(k.id) == "" || strings.TrimSpace(k.version) == "":
			c.addf(k.pos, "artifact contract with an empty id or version")
		case seen[k.id]:
			c.addf(k.pos, "duplicate artifact contract `%s`", k.id)
		case k.id == OperationOutput:
			c.addf(k.pos, "artifact contract `%s` is Vizier's own: remove it", k.id)
		case err == nil && k.version != "v1":
			c.addf(k.pos, "artifact contract `%s` has version `%s`; the built-in kind's is v1", k.id, k.version)
		}
		seen[k.id] = true
		if k.schema == nil {
			continue
		}
		if why := sane(*k.schema, "$"); why != "" {
			c.addf(k.schema.Pos, "artifact contract `%s` has invalid schema: %s", k.id, why)
		} else {
			usable[k.id] = k.schema
		}
	}
	return usable
}

func identityOf(a kernel.Artifact) map[string]string {
	names := artifactFields[a.Kind]
	out := map[string]string{names[0]: a.Name}
	if names[1] != "" {
		out[names[1]] = a.Ref
	}
	return out
}
