package workflow

import (
	"slices"

	"github.com/vizier-scheduler/vizier/kernel"
)

// OperationOutput is the type of the artifact that holds a node's output and
// how the node ended. Its key is the node's id. It is never declared: a node
// makes it if another node needs it.
const OperationOutput = "operation_output"

// outputs adds to the nodes the outputs that others need. They are made on
// every outcome that no route follows; after a route the node may run again.
func (t *Template) outputs() {
	byID := make(map[string]*node, len(t.nodes))
	for i := range t.nodes {
		byID[t.nodes[i].id.Value] = &t.nodes[i]
	}
	for i := range t.nodes {
		for _, a := range t.nodes[i].needs {
			n := byID[a.Ref]
			if !a.isOutput() || n == nil {
				continue
			}
			for _, o := range outcomes {
				made := slices.ContainsFunc(n.produces[o], func(p artifact) bool { return p.Artifact == a.Artifact })
				if !made && (o == kernel.OutcomeSucceeded || len(n.on[o]) == 0) {
					n.produces[o] = append(n.produces[o], artifact{Artifact: a.Artifact, implicit: true})
				}
			}
		}
	}
}

func (a *artifact) isOutput() bool { return a.Kind == kernel.Custom && a.Name == OperationOutput }

// output checks a need of a node's output. Declaring an output is a finding.
func (c *checker) output(n *node, a artifact, field string, need bool) {
	switch {
	case a.implicit:
	case !need:
		c.node(n, a.pos, field, "remove it: a node makes its output by itself where another needs it", "node `%s` declares the artifact `%s`, which is Vizier's own", n.id.Value, a)
	case !c.mayBe(a.Ref):
		c.node(n, a.pos, field, didYouMean(a.Ref, c.ids()), "node `%s` needs the output of the unknown node `%s`", n.id.Value, a.Ref)
	case a.Ref == n.id.Value:
		c.node(n, a.pos, field, "", "node `%s` needs its own output", n.id.Value)
	}
}

// stageArtifacts returns the artifacts of a stage's node as the importer has
// them: the output and the patch of a node name it by its id in the importer.
func stageArtifacts(in []artifactSource, known map[string]bool, rename func(Text) Text) []artifactSource {
	out := slices.Clone(in)
	for i, a := range in {
		field := func(key string) int {
			return slices.IndexFunc(a.fields, func(e Entry) bool { return e.Key == key })
		}
		at := -1
		switch kind := field("type_id"); {
		case a.kind == kernel.CommandPatch:
			at = field("job_id")
		case a.kind == kernel.Custom && kind >= 0 && a.fields[kind].Value == OperationOutput:
			at = field("key")
		}
		if at < 0 || !known[a.fields[at].Value] {
			continue
		}
		out[i].fields = slices.Clone(a.fields)
		out[i].fields[at].Text = rename(a.fields[at].Text)
	}
	return out
}
