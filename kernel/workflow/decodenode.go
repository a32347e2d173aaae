package workflow

import (
	"slices"
	"strings"

	"github.com/vizier-scheduler/vizier/kernel"
)

func (d *decoder) node(i int, v Value) nodeSource {
	n := nodeSource{wiring: wiring{pos: v.Pos}}
	path := item("nodes", i)
	if id, ok := v.field("id"); ok && id.Kind == String {
		path = "nodes[" + id.Text + "]"
	}
	from := len(d.doubts)
	d.table(v, path, map[string]func(Value){
		"id":   d.text(&n.id),
		"name": d.text(&n.name),
		"kind": d.word(&n.kind, kinds...),
		"uses": d.text(&n.uses),
		"args": d.entries(&n.args, path+".args"),
		"after": d.each(func(i int, v Value) {
			var to, policy Text
			d.table(v, item(path+".after", i), map[string]func(Value){"node_id": d.text(&to), "policy": d.word(&policy, kernel.AfterSuccess.String(), kernel.AfterAnyEnd.String())}, "node_id")
			if !to.given() {
				return
			}
			n.after = append(n.after, to)
			if policy.Value == kernel.AfterAnyEnd.String() {
				n.afterAny = append(n.afterAny, to)
			}
		}),
		"needs":    d.artifacts(&n.needs, path+".needs"),
		"produces": func(v Value) { d.produces(v, &n, path+".produces") },
		"locks": d.each(func(i int, v Value) {
			l := lockSource{pos: v.Pos}
			d.table(v, item(path+".locks", i), map[string]func(Value){"key": d.text(&l.key), "units": d.text(&l.units),
				"mode": d.word(&l.mode, kernel.Shared.String(), kernel.Exclusive.String())}, "key", "mode")
			n.locks = append(n.locks, l)
		}),
		"preconditions": d.each(func(i int, v Value) {
			n.preconditions = append(n.preconditions, d.precondition(v, item(path+".preconditions", i)))
		}),
		"gates": d.each(func(i int, v Value) { n.gates = append(n.gates, d.gate(v, item(path+".gates", i))) }),
		"retry": func(v Value) {
			d.table(v, path+".retry", map[string]func(Value){"mode": d.text(&n.retryMode), "budget": d.text(&n.retryBudget)})
		},
		"on": func(v Value) {
			keys := map[string]func(Value){}
			for _, o := range outcomes {
				keys[o.String()] = d.texts(&n.on[o])
			}
			d.table(v, path+".on", keys)
		},
		"timeout":          d.text(&n.timeout),
		"approval_timeout": d.text(&n.approvalTimeout),
		"estimate":         d.text(&n.estimate),
		"max_retries":      d.text(&n.maxRetries),
		"max_resumes":      d.text(&n.maxResumes),
		"max_reclaims":     d.text(&n.maxReclaims),
		"effect_in_doubt":  d.text(&n.inDoubt),
		"resumable":        d.text(&n.resumable),
		"resume":           d.text(&n.resume),
		"idempotent":       d.text(&n.idempotent),
		"transient":        d.text(&n.transient),
		"executor":         d.text(&n.executor),
		"options":          d.texts(&n.options),
		"retry_on":         d.texts(&n.retryOn),
		"sandbox":          d.text(&n.sandbox),
		"write":            d.texts(&n.write),
		"network":          d.text(&n.network),
		"secrets":          d.texts(&n.secrets),
		"container":        d.text(&n.container),
	}, "id", "uses")
	for _, field := range d.doubts[from:] {
		n.doubts = append(n.doubts, strings.TrimPrefix(strings.TrimPrefix(field, path), "."))
	}
	return n
}

func (d *decoder) produces(v Value, n *nodeSource, path string) {
	keys := map[string]func(Value){}
	for _, o := range outcomes {
		keys[o.String()] = d.artifacts(&n.produces[o], path+"."+o.String())
	}
	d.table(v, path, keys)
}

// artifactFields names the two parts of each kind's identity; the second is ""
// for kinds with one part. The branch of a plan may be left out.
var artifactFields = map[kernel.ArtifactKind][2]string{
	kernel.PlanBranch:    {"slug", "branch"},
	kernel.PlanDoc:       {"slug", "branch"},
	kernel.PlanCommits:   {"slug", "branch"},
	kernel.TargetBranch:  {"name", ""},
	kernel.MergeSentinel: {"slug", ""},
	kernel.CommandPatch:  {"job_id", ""},
	kernel.Custom:        {"type_id", "key"},
}

func (d *decoder) artifacts(into *[]artifactSource, path string) func(Value) {
	return d.each(func(i int, v Value) {
		at, keys := item(path, i), map[string]func(Value){}
		for kind, names := range artifactFields {
			keys[kind.String()] = func(v Value) {
				a := artifactSource{pos: v.Pos, at: i, kind: kind}
				fields, required := map[string]func(Value){}, []string{names[0]}
				for _, name := range names {
					if name == "" {
						continue
					}
					fields[name] = func(v Value) {
						var t Text
						d.text(&t)(v)
						a.fields = append(a.fields, Entry{name, t})
					}
				}
				if kind == kernel.Custom {
					required = names[:]
				}
				d.table(v, at+"."+kind.String(), fields, required...)
				*into = append(*into, a)
			}
		}
		if v.Kind == Table && len(v.Fields) != 1 {
			d.misread(Diagnostic{Pos: v.Pos, Field: at, Msg: "an artifact is a table with one key, its kind"})
			return
		}
		d.table(v, at, keys)
	})
}

func (d *decoder) precondition(v Value, path string) preconditionSource {
	p := preconditionSource{pos: v.Pos}
	d.table(v, path, map[string]func(Value){
		"kind": d.word(&p.kind, kernel.CleanWorktree.String(), kernel.BranchExists.String(), kernel.CustomPrecondition.String(), pinnedHead),
		"id":   d.text(&p.id), "branch": d.text(&p.branch), "oid": d.text(&p.oid), "args": d.entries(&p.args, path+".args")}, "kind")
	d.inert(v, path, p.kind.Value, map[string][]string{
		kernel.BranchExists.String():       {"branch"},
		kernel.CustomPrecondition.String(): {"id", "args"},
		pinnedHead:                         {"branch", "oid"},
		kernel.CleanWorktree.String():      nil,
	})
	return p
}

func (d *decoder) gate(v Value, path string) gateSource {
	g := gateSource{pos: v.Pos}
	d.table(v, path, map[string]func(Value){
		"kind":     d.word(&g.kind, gateApproval, gateScript, gateCICD, gateCustom),
		"policy":   d.text(&g.policy),
		"required": d.text(&g.required), "script": d.text(&g.script), "auto_resolve": d.text(&g.autoResolve),
		"id": d.text(&g.id), "args": d.entries(&g.args, path+".args")}, "kind")
	d.inert(v, path, g.kind.Value, map[string][]string{
		gateApproval: {"policy", "required"},
		gateScript:   {"policy", "script"},
		gateCICD:     {"policy", "script", "auto_resolve"},
		gateCustom:   {"policy", "id", "args"},
	})
	if g.kind.Value == gateApproval && !g.required.given() {
		d.add(Diagnostic{Pos: v.Pos, Field: path, Msg: path + " asks nobody without `required`", Hint: "add required = true, or remove the gate"})
	}
	return g
}

// inert reports keys that have no effect for a node or gate of this kind.
func (d *decoder) inert(v Value, path, kind string, keys map[string][]string) {
	allowed, known := keys[kind]
	if !known {
		return
	}
	for _, f := range v.Fields {
		elsewhere := false
		for _, names := range keys {
			elsewhere = elsewhere || slices.Contains(names, f.Key)
		}
		if elsewhere && !slices.Contains(allowed, f.Key) {
			d.add(Diagnostic{Pos: f.Pos, Field: path + "." + f.Key,
				Msg: "key `" + f.Key + "` has no effect in " + path + " of kind `" + kind + "`", Hint: "remove it"})
		}
	}
}
