package workflow

import (
	"slices"
	"strings"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Preflight returns an error for nodes that lack input which they cannot do
// without, and for those that were given two specifications. Its messages are about what to type, not about the template. flow is
// the template's name on the command line, src the composed source from which t
// was expanded.
func Preflight(flow string, src *Source, t *Template, positional []string) error {
	var r report
	entries, _ := src.ends()
	byPosition := src.positionalHelps(t)
	for i := range t.nodes {
		n := &t.nodes[i]
		if specs := src.specs(n, &src.nodes[i]); len(specs) > 1 {
			r.add(Diagnostic{Node: n.id.Value, Msg: "workflow `" + flow + "` has one specification: keep one of " + strings.Join(specs, " and ")})
		}
		inputs := src.lacking(t, i)
		if len(inputs) == 0 {
			continue
		}
		var shown []string
		for _, in := range inputs {
			shown = append(shown, in.String())
		}
		what := "node"
		if slices.Contains(entries, n.id.Value) {
			what = "entry node"
		}
		d := Diagnostic{Node: n.id.Value, Msg: "workflow `" + flow + "` " + what + " `" + n.id.Value + "` (`" + n.use.Operation +
			"`) requires at least one non-empty input: " + strings.Join(shown, ", ")}
		first, lines := len(r.found) == 0, []string{}
		if len(positional) > 0 && first {
			lines = append(lines, "received positional inputs: "+strings.Join(positional, ", "))
		}
		lines = append(lines, "examples:", "  --"+inputs[0].flag+" VALUE")
		if byPosition && first {
			words := []string{}
			for _, p := range src.CLI.Positional {
				words = append(words, strings.ToUpper(p.Value))
			}
			lines = append(lines, "  "+strings.Join(words, " "))
		}
		d.More = strings.Join(lines, "\n")
		r.add(d)
	}
	if i := slices.IndexFunc(t.nodes, func(n node) bool { return !n.namesPlan() }); i >= 0 && len(r.found) == 0 && t.Params["branch"] != "" && t.Params["branch"] != StandIn {
		id := t.nodes[i].id.Value
		r.add(Diagnostic{Node: id, Msg: "workflow `" + flow + "` node `" + id + "` has to know the name of the plan, which a branch gives only if it is draft/NAME: give the name, too"})
	}
	return r.err()
}

// namesPlan reports whether each stage's token that n takes or makes names a plan. One that
// does not would stand for what was done on any branch.
func (n *node) namesPlan() bool {
	of := n.all()
	for _, a := range n.needs {
		of = append(of, a.Artifact)
	}
	return !slices.ContainsFunc(of, func(a kernel.Artifact) bool {
		return a.Kind == kernel.Custom && a.Name == kernel.StageToken && strings.HasSuffix(a.Ref, ":")
	})
}

// lacking returns the inputs of which node i of t needs one and has none. It is empty
// if no input could help, which validate reports.
func (s *Source) lacking(t *Template, i int) []input {
	n := &t.nodes[i]
	if n.arg(n.use.AnyOf...) != "" || n.unsure(n.use.AnyOf) {
		return nil
	}
	return s.inputs(&s.nodes[i], n.use.AnyOf)
}

// positionalHelps reports whether a node of t lacks what a positional input gives.
func (s *Source) positionalHelps(t *Template) bool {
	for i := range t.nodes {
		for _, in := range s.lacking(t, i) {
			if slices.ContainsFunc(s.CLI.Positional, func(p Text) bool { return p.Value == in.param }) {
				return true
			}
		}
	}
	return false
}

// specs returns the inputs that gave the plan of n a specification. The
// template's own gives way to them.
func (s *Source) specs(n *node, from *nodeSource) (out []string) {
	if n.use.Operation != opPlan {
		return nil
	}
	for _, key := range n.use.AnyOf {
		for _, in := range s.inputs(from, []string{key}) {
			own := slices.ContainsFunc(s.Params, func(p Entry) bool { return p.Key == in.param && p.Value == n.arg(key) })
			if !own && n.arg(key) != "" {
				out = append(out, in.String())
			}
		}
	}
	return out
}

// StandIn is the value of parameters that StandIns sets.
const StandIn = "any"

// StandIns returns a value for each parameter that Preflight would miss in t, so
// that what does not depend on the value can be examined without input. src is
// the source from which t was expanded.
func StandIns(src *Source, t *Template) map[string]string {
	out := map[string]string{}
	for i := range t.nodes {
		if inputs := src.lacking(t, i); len(inputs) > 0 {
			out[inputs[0].param] = StandIn
		}
	}
	return out
}

// input is a parameter and the flag that sets it.
type input struct{ flag, param string }

func (in input) String() string {
	if in.flag == strings.ReplaceAll(in.param, "_", "-") {
		return "`--" + in.flag + "`"
	}
	return "`--" + in.flag + "` (maps to `" + in.param + "`)"
}

// inputs returns the flags that set the named arguments of n.
func (s *Source) inputs(n *nodeSource, args []string) []input {
	var out []input
	for _, key := range args {
		for _, a := range n.args {
			param, ok := strings.CutPrefix(a.Value, "${")
			param, ok2 := strings.CutSuffix(param, "}")
			if a.Key != key || !ok || !ok2 {
				continue
			}
			in := input{strings.ReplaceAll(param, "_", "-"), param}
			for _, alias := range s.CLI.Named {
				if alias.Value == param {
					in.flag = alias.Key
				}
			}
			out = append(out, in)
		}
	}
	return out
}
