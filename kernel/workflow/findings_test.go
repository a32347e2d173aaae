package workflow_test

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel/workflow"
)

// findings returns all that Findings tells of a template, decoded from JSON,
// and of what is asked of it. other holds the templates that it imports, by
// path.
func findings(t *testing.T, text string, asked workflow.Asked, other map[string]string) []string {
	t.Helper()
	src, misread := decodeAs("t", text)
	src, err := workflow.Compose(src, func(_ *workflow.Source, m workflow.Import) (*workflow.Source, error) {
		stage, ok := other[m.Path.Value]
		if !ok {
			return nil, errors.New("no such stage")
		}
		return decodeAs(m.Path.Value, stage)
	})
	if asked.Complete == nil {
		asked.Complete = func(map[string]string) error { return nil }
	}
	if asked.Spec == nil {
		asked.Spec = func(string) (string, error) { return "text", nil }
	}
	return each(workflow.Findings(src, asked, workflow.Together(misread, err)))
}

func each(err error) (out []string) {
	var all workflow.Diagnostics
	errors.As(err, &all)
	for _, d := range all {
		out = append(out, d.String())
	}
	return out
}

// told holds a list of findings to parts of them, one each.
func told(t *testing.T, got []string, want ...string) {
	t.Helper()
	bad := len(got) != len(want)
	for _, w := range want {
		n := 0
		for _, g := range got {
			n += min(1, strings.Count(g, w))
		}
		if n != 1 {
			t.Errorf("%q is told %d times", w, n)
			bad = true
		}
	}
	if bad {
		t.Errorf("want %d findings, got %d:\n%s", len(want), len(got), strings.Join(got, "\n"))
	}
}

const run = `"kind": "shell", "uses": "cap.env.shell.command.run"`

// All that is wrong is told at once, whichever step finds it.
func TestManyFaultsAreToldAtOnce(t *testing.T) {
	got := findings(t, `{"id": "t", "version": "v1", "polcy": {}, "params": {"word": "", "n": "1"},
		"artifact_contracts": [{"id": "thing", "version": "v1"}],
		"nodes": [
			{"id": "a", "kind": "shell", "uses": "cap.env.shell.command.rum", "name": 7.5, "timeout": "${gone}", "after": [{"node_id": "zz"}, {"node_di": "b"}]},
			{"id": "b", `+run+`, "args": {"comand": "x"}, "needs": [{"custom": {"type_id": "thng", "key": "k"}}, {"plan_doc": {}}], "max_retries": "x", "retry_on": ["exit", "exitt"]},
			{"id": "b", `+run+`, "args": {"command": "x"}, "on": {"succeeded": ["c", "yy"], "faild": ["a"]}},
			{"id": "c", "kind": "gte", "uses": "control.gate.stop_condition", "gates": [{"kind": "script", "script": "true", "policy": "blck"}]},
			{`+run+`, "args": {"command": "x"}, "locks": [{"key": " ", "mode": "exclusive"}]},
			{"id": "d", "kind": "shell", "uses": "cap.agent.invoke", "resume": "maybe", "preconditions": [{"kind": "pinned_head"}]}]}`,
		workflow.Asked{Flow: "f", Set: map[string]string{"wrod": "x"}}, nil)
	told(t, got, "unknown key `polcy` in the template; did you mean `policy`?",
		"node `a` uses unknown label `cap.env.shell.command.rum`", "expected a string, found a float", "unresolved parameter `gone` in nodes[a].timeout",
		"unknown key `node_di` in nodes[a].after[1]; did you mean `node_id`?",
		"node `b` requires at least one non-empty argument of command, script, and has `comand`: did you mean `command`?",
		"without declared artifact contract `thng`; did you mean `thing`?", "missing key `slug` in nodes[b].needs[1].plan_doc",
		"invalid u32 value `x` for nodes[b].max_retries", "nodes[b].retry_on[1]", "defines duplicate node id `b`",
		"unknown key `faild` in nodes[b].on; did you mean `failed`?", "invalid value `gte`", "invalid gate policy value `blck`",
		"missing key `id` in nodes[4]", "empty lock key", "invalid bool value `maybe` for nodes[d].resume", "node `d` declares executor class `agent` but kind `shell`",
		"precondition `pinned_head` of node `d` needs branch and oid", "has no parameter `wrod`; did you mean `word`?")
}

// What only follows from a finding is none.
func TestNothingIsToldThatFollows(t *testing.T) {
	const merge = `{"id": "m", "uses": "cap.env.builtin.git.integrate_plan_branch", "args": {"slug": "x"}`
	const gate = `{"id": "g", "kind": "gate", "uses": "control.gate.conflict_resolution"`
	const stop = `{"id": "s", "kind": "gate", "uses": "control.gate.stop_condition", "gates": [{"kind": "script", "script": "true"}]`
	const prompt = `"produces": {"succeeded": [{"custom": {"type_id": "prompt_text", "key": "k"}}]}`
	for _, c := range []struct {
		name, nodes string
		want        []string
	}{
		{"a key that is misspelt is not missing", `{"id": "x", "kind": "shell", "usess": "cap.env.shell.command.run"}`, []string{"unknown key `usess`"}},
		{"nor is an id, and who names it is right", `{"idd": "x", ` + run + `, "args": {"command": "x"}}, {"id": "y", ` + run + `, "args": {"command": "x"}, "after": [{"node_id": "x"}]}`, []string{"unknown key `idd`"}},
		{"arguments that were not read", `{"id": "x", ` + run + `, "argss": {"command": "x"}}`, []string{"unknown key `argss`"}},
		{"an argument that was not read", `{"id": "x", ` + run + `, "args": {"command": ["x"]}}`, []string{"expected a string, found a list"}},
		{"an argument that is not resolved", `{"id": "x", ` + run + `, "args": {"command": "${gone}"}}`, []string{"unresolved parameter `gone`"}},
		{"values that are not resolved", `{"id": "x", ` + run + `, "args": {"command": "x"}, "timeout": "${gone}", "max_retries": "${gone}", "idempotent": "${gone}", "transient": "${gone}", "retry_on": ["${gone}"],
			"retry": {"mode": "${gone}", "budget": 2}, "locks": [{"key": "${gone}", "mode": "shared"}], "needs": [{"plan_doc": {"slug": "${gone}"}}]}`,
			[]string{"nodes[x].timeout", "nodes[x].max_retries", "nodes[x].idempotent", "nodes[x].transient", "nodes[x].retry_on[0]", "nodes[x].retry.mode", "nodes[x].locks[0].key", "nodes[x].needs[0].plan_doc.slug"}},
		{"budgets of what was not read", `{"id": "x", ` + run + `, "args": {"command": "x"}, "resumable": "maybe", "max_resumes": 2}`, []string{"invalid bool value `maybe`"}},
		{"doubt of what was not read", `{"id": "x", ` + run + `, "args": {"command": "x"}, "max_reclaims": "some", "effect_in_doubt": "fail"}`, []string{"invalid u32 value `some`"}},
		{"an approval of gates that were not read", `{"id": "x", ` + run + `, "args": {"command": "x"}, "gates": [{"kind": "approval", "required": "maybe"}], "approval_timeout": "1h"}`, []string{"invalid bool value `maybe`"}},
		{"a conflict gate of a merge that is misspelt", `{"id": "m", "uses": "cap.env.builtin.git.integrate_plan", "on": {"blocked": ["g"]}}, ` + gate + `}`, []string{"uses unknown label"}},
		{"a conflict gate that a route misses", merge + `, "on": {"blocked": ["gg"]}}, ` + gate + `}`, []string{"references unknown on.blocked target `gg`"}},
		{"a conflict gate whose route is misspelt", merge + `, "on": {"bloked": ["g"]}}, ` + gate + `}`, []string{"unknown key `bloked`"}},
		{"a conflict gate that goes back to a node of another name", merge + `, "on": {"blocked": ["g"]}}, ` + gate + `, "args": {"auto_resolve": "true"}, "on": {"succeeded": ["mm"]}}`, []string{"references unknown on.succeeded target `mm`"}},
		{"a stop condition of a commit that is misspelt", `{"id": "c", "uses": "cap.env.builtin.git.stage_comit", "on": {"succeeded": ["s"]}}, ` + stop + `}`, []string{"uses unknown label"}},
		{"a commit whose stop condition is misspelt", `{"id": "c", "uses": "cap.env.builtin.git.stage_commit", "on": {"succeeded": ["s"]}}, {"id": "s", "kind": "gate", "uses": "control.gate.stop_conditon"}`, []string{"uses unknown label"}},
		{"a commit that leads to nobody", `{"id": "c", "uses": "cap.env.builtin.git.stage_commit", "on": {"succeeded": ["ss"]}}, ` + stop + `}`, []string{"references unknown on.succeeded target `ss`"}},
		{"a way back that is not there", `{"id": "c", "uses": "cap.env.builtin.git.commit", "on": {"succeeded": ["s"]}}, ` + stop + `, "retry": {"mode": "until_gate", "budget": 2}, "on": {"failed": ["cc"]}}`, []string{"references unknown on.failed target `cc`"}},
		{"a CI gate that comes back by a node of another name", `{"id": "h", "kind": "gate", "uses": "control.gate.cicd", "gates": [{"kind": "cicd", "script": "y", "auto_resolve": true}], "on": {"failed": ["f"]}}, {"id": "f", ` + run + `, "args": {"command": "x"}, "on": {"succeeded": ["hh"]}}`, []string{"references unknown on.succeeded target `hh`"}},
		{"needs that were not read", `{"id": "p", "uses": "cap.env.builtin.prompt.resolve", ` + prompt + `}, {"id": "x", "kind": "agent", "uses": "cap.agent.invoke", "needs": [{"custom": {"typeid": "prompt_text", "key": "k"}}]}`,
			[]string{"unknown key `typeid`", "without declared artifact contract `prompt_text`"}},
		{"a node that would wait for a handler", `{"id": "x", ` + run + `, "args": {"command": "x"}, "on": {"failed": ["y"]}}, {"id": "y", ` + run + `, "args": {"command": "x"}, "after": [{"node_id": "xx"}]}, {"id": "z", ` + run + `, "args": {"command": "x"}, "after": [{"node_id": "y"}]}`,
			[]string{"references unknown after node `xx`"}},
		{"a kind that is misspelt", `{"id": "x", "kind": "shel", "uses": "cap.env.shell.command.run", "args": {"command": "x"}}`, []string{"invalid value `shel`"}},
		{"a gate that nobody leads to, beside a label that is misspelt", gate + `}, {"id": "x", "kind": "shell", "uses": "cap.env.shell.command.rum"}`, []string{"uses unknown label", "must be the on.blocked target of exactly one git.integrate_plan_branch node, found 0"}},
		{"needs of an agent", `{"id": "x", "kind": "agent", "uses": "cap.agent.invoke", "needs": [3]}`, []string{"expected a table for nodes[x].needs[0]"}},
		{"products of a prompt", `{"id": "x", "uses": "cap.env.builtin.prompt.resolve", "produces": {"succeeded": [3]}}`, []string{"expected a table for nodes[x].produces.succeeded[0]"}},
		{"the script of a CI", `{"id": "x", "kind": "shell", "uses": "cap.env.shell.cicd.run", "args": {"comand": "x", "command": ["y"]}}`, []string{"expected a string, found a list"}},
		{"two stop conditions beside an unknown node", `{"id": "c", "uses": "cap.env.builtin.git.stage_commit", "on": {"succeeded": ["s", "r", "zz"]}}, ` + stop + `}, ` + strings.Replace(stop, `"s"`, `"r"`, 1) + `}`,
			[]string{"references unknown on.succeeded target `zz`", "found 2"}},
		{"the gate of a label that is misspelt", `{"id": "x", "kind": "shell", "uses": "cap.env.shell.command.rum", "gates": [{"kind": "script", "script": "x"}]}`, []string{"uses unknown label"}},
		{"the gate of a label that was not read", `{"id": "x", "kind": "shell", "uses": 7.5, "gates": [{"kind": "script", "script": "x"}]}`, []string{"expected a string, found a float"}},
		{"the gate of no label", `{"id": "x", "kind": "shell", "uses": " ", "gates": [{"kind": "script", "script": "x"}]}`, []string{"must declare an explicit canonical uses id"}},
		{"the arguments of an operation that is no gate", `{"id": "x", "kind": "gate", "uses": "cap.env.builtin.git.stage"}`, []string{"is a gate node and cannot declare executor operation"}},
		{"the arguments of a gate that is none", `{"id": "x", "kind": "shell", "uses": "control.gate.cicd"}`, []string{"but kind `shell` is not gate"}},
		{"the arguments of an operation of another kind", `{"id": "x", "kind": "shell", "uses": "cap.env.builtin.git.stage"}`, []string{"declares executor class"}},
		{"who waits for a handler of a label that is misspelt", `{"id": "x", ` + run + `, "args": {"command": "x"}, "on": {"failed": ["h"]}}, {"id": "h", ` + run + `, "args": {"command": "x"}}, {"id": "z", ` + run + `, "args": {"command": "x"}, "after": [{"node_id": "h"}]},
			{"id": "u", "kind": "shell", "uses": "cap.env.shell.command.rum"}`, []string{"uses unknown label"}},
		{"a secret that is not resolved", `{"id": "x", ` + run + `, "args": {"command": "x"}, "secrets": ["${gone}"]}`, []string{"unresolved parameter `gone`"}},
		{"a secret that is not closed", `{"id": "x", ` + run + `, "args": {"command": "x"}, "secrets": ["A=x ${gone"]}`, []string{"unclosed parameter placeholder"}},
		{"a class that is not resolved", `{"id": "x", ` + run + `, "args": {"command": "x"}, "max_retries": 1, "retry_on": ["worker_lost${gone}"]}`, []string{"unresolved parameter `gone`"}},
		{"nodes that were not read", `3`, []string{"expected a table for nodes[0]"}},
		{"a cycle is told for all that", `{"id": "x", ` + run + `, "args": {"command": "x"}, "after": [{"node_id": "y"}]}, {"id": "y", ` + run + `, "args": {"command": "x"}, "after": [{"node_id": "x"}, {"node_id": "zz"}]}`,
			[]string{"references unknown after node `zz`", "has a cycle: x -> y -> x"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			told(t, findings(t, `{"id": "t", "version": "v1", "nodes": [`+c.nodes+`]}`, workflow.Asked{Flow: "f"}, nil), c.want...)
		})
	}
}

// A parameter that is misspelt may have been meant for those that lack a value,
// and one that was misread is unknown to nobody.
func TestNothingIsToldThatFollowsFromInput(t *testing.T) {
	const nodes = `"nodes": [{"id": "w", "uses": "cap.env.builtin.worktree.prepare", "args": {"slug": "${slug}"}, "on": {"succeeded": ["p"]}},
		{"id": "p", "uses": "cap.env.builtin.plan.persist", "args": {"spec_text": "${text}", "spec_file": "${file}"}, "timeout": "${limit}", "produces": {"succeeded": [{"plan_doc": {"slug": "${slug}"}}]}}]}`
	const text = `{"id": "t", "version": "v1", "params": {"slug": "", "text": "", "file": "", "limit": "1h"}, "cli": {"positional": ["file"], "named": {"name": "slug"}}, ` + nodes
	const wrong = `{"id": "t", "version": "v1", "params": {"limit": "soon", "other": "never"}, "nodes": [
		{"id": "x", ` + run + `, "args": {"command": "x"}, "timeout": "${limit}"}, {"id": "y", ` + run + `, "args": {"command": "x"}, "timeout": "${other}"}]}`
	unread := errors.New("could not read it")
	for _, c := range []struct {
		name, text string
		asked      workflow.Asked
		want       []string
	}{
		{"misspelt", text, workflow.Asked{Set: map[string]string{"txt": "x"}}, []string{"has no parameter `txt`; did you mean `text`?"}},
		{"like none", text, workflow.Asked{Set: map[string]string{"zzzzzz": "x", "limit": "soon"}}, []string{"has no parameter `zzzzzz`", "--limit: expected a duration such as 90s, 30m or 12h, not `soon`"}},
		{"given twice", text, workflow.Asked{Set: map[string]string{"slug": "x", "name": "", "file": "y", "limit": "soon"}}, []string{"`slug` was provided multiple ways", "--limit: expected a duration such as 90s, 30m or 12h, not `soon`"}},
		{"by position", `{"id": "t", "version": "v1", "params": {"limit": "", "mode": "never"}, "cli": {"positional": ["limit"]}, "nodes": [
			{"id": "x", ` + run + `, "args": {"command": "x"}, "timeout": "${limit}", "retry": {"mode": "${mode}", "budget": "limit"}}]}`, workflow.Asked{Positional: []string{"soon"}},
			[]string{"positional input 1, limit: expected a duration", "invalid u32 value `limit` for nodes[x].retry.budget; expected a number"}},
		{"too many", text, workflow.Asked{Positional: []string{"x", "y"}}, []string{"accepts at most 1 positional"}},
		{"a specification that is not there", text, workflow.Asked{Set: map[string]string{"file": "x", "limit": "soon"}, Complete: func(map[string]string) error { return unread }, Spec: func(string) (string, error) { return "", unread }},
			[]string{"could not read it", "--limit: expected a duration such as 90s, 30m or 12h, not `soon`"}},
		{"a specification that is not there, of a plan with a name", text, workflow.Asked{Set: map[string]string{"file": "x", "slug": "y", "limit": "soon"}, Spec: func(string) (string, error) { return "", unread }},
			[]string{"could not read spec file `x`", "--limit: expected a duration such as 90s, 30m or 12h, not `soon`"}},
		{"completed", text, workflow.Asked{Set: map[string]string{"txt": "x", "file": "y"}, Complete: func(p map[string]string) error { p["slug"] = "bad branch name\x00"; return nil }}, []string{"has no parameter `txt`", "bad branch name"}},
		{"misspelt, of a default that is wrong as well", wrong, workflow.Asked{Set: map[string]string{"limt": "1h"}}, []string{"has no parameter `limt`; did you mean `limit`?", "`never` for nodes[y].timeout"}},
		{"too many for defaults that are wrong", wrong, workflow.Asked{Positional: []string{"1h"}}, []string{"does not define positional inputs"}},
		{"too many, and one that is wrong", wrong, workflow.Asked{Positional: []string{"1h"}, Set: map[string]string{"other": "often"}}, []string{"does not define positional inputs", "--other: expected a duration"}},
		{"given by name and by position", strings.Replace(wrong, `"nodes"`, `"cli": {"positional": ["limit"]}, "nodes"`, 1), workflow.Asked{Positional: []string{"soon"}, Set: map[string]string{"limit": "late", "other": "1h"}}, []string{"`limit` was provided multiple ways"}},
		{"misspelt, with blanks and quoted", strings.Replace(wrong, `"${limit}"`, `"${ limit@Q }"`, 1), workflow.Asked{Set: map[string]string{"limt": "1h", "other": "1h"}}, []string{"has no parameter `limt`"}},
		{"a position that was not read beside one that was", strings.Replace(wrong, `"nodes"`, `"cli": {"positional": ["limit", 7.5]}, "nodes"`, 1), workflow.Asked{Positional: []string{"late"}, Set: map[string]string{"other": "1h"}}, []string{"expected a string, found a float", "positional input 1, limit: expected a duration"}},
		{"a number of reclaims that is none", `{"id": "t", "version": "v1", "params": {"n": "2"}, "nodes": [{"id": "x", ` + run + `, "args": {"command": "x"}, "max_reclaims": "${n}", "effect_in_doubt": "fail"}]}`,
			workflow.Asked{Set: map[string]string{"n": "some"}}, []string{"--n: expected a number"}},
		{"no name of a parameter, beside parameters that were not read", `{"id": "t", "version": "v1", "params": 3, "nodes": [{"id": "x", ` + run + `, "args": {"command": "${}"}}]}`, workflow.Asked{}, []string{"expected a table for params", "empty parameter placeholder"}},
		{"nothing", text, workflow.Asked{Flow: "f"}, []string{
			"workflow `f` entry node `w` (`worktree.prepare`) requires at least one non-empty input: `--name` (maps to `slug`)\nexamples:\n  --name VALUE\n  FILE",
			"workflow `f` node `p` (`plan.persist`) requires at least one non-empty input: `--text`, `--file`\nexamples:\n  --text VALUE"}},
		{"parameters that were not read", `{"id": "t", "version": "v1", "params": 3, "cli": {"positional": ["file"], "named": {"name": "slug"}}, ` + nodes, workflow.Asked{Set: map[string]string{"text": "x"}}, []string{"expected a table for params"}},
		{"positional inputs that were not read", `{"id": "t", "version": "v1", "params": {"slug": "x", "text": "", "file": "", "limit": ""}, "cli": {"positional": "file"}, ` + nodes, workflow.Asked{Positional: []string{"text"}}, []string{"expected a list"}},
	} {
		t.Run(c.name, func(t *testing.T) { told(t, findings(t, c.text, c.asked, nil), c.want...) })
	}
}

// The stages that could be read are looked at beside one that could not.
func TestFindingsOfStages(t *testing.T) {
	node := func(id, rest string) string {
		return `{"id": "` + id + `", ` + run + `, "args": {"command": "x"}` + rest + `}`
	}
	got := findings(t, `{"id": "t", "version": "v1", "nodes": [`+node("a", `, "timeout": "${limit}", "after": [{"node_id": "one__x"}, {"node_id": "one__y"}, {"node_id": "gone__x"}]`)+`],
		"imports": [{"name": "one", "path": "one"}, {"name": "gone", "path": "gone"}, {"name": "half", "path": "half"}],
		"links": [{"from": "one", "to": "gone"}, {"from": "on", "to": "half"}]}`, workflow.Asked{}, map[string]string{
		"one":  `{"id": "one", "version": "v1", "foo": 2, "nodes": [` + node("x", `, "after": [{"node_id": "nobody"}], "max_retries": "many"`) + `]}`,
		"half": `{"id": "half", "version": "v1", "nodes": 3}`,
	})
	told(t, got, "no such stage", "node `a` references unknown after node `one__y`; did you mean `one__x`?", "link references unknown stage `on`; did you mean `one`?",
		"unknown key `foo`", "node `x` of stage `one` references unknown after node `nobody`", "invalid u32 value `many` for nodes[one__x].max_retries", "expected a list, found an integer")
}

// What could not be read of a stage may hold what its importer names; what has no meaning for the
// importer leaves no doubt about the rest of it.
func TestDoubtsOfStages(t *testing.T) {
	t.Parallel()
	const x = `, ` + run + `, "args": {"command": "x"}`
	sleeper := `{"id": "a"` + x + `, "on": {"failed": ["h"]}}, {"id": "h"` + x + `}, {"id": "z"` + x + `, "after": [{"node_id": "h"}]}`
	const waits = "node `z` waits for `h`"
	stage := func(rest string) string {
		return `{"id": "s", "version": "v1"` + rest + `, "nodes": [{"id": "x"` + x + `}]}`
	}
	for _, c := range []struct {
		name, nodes, imports, stage string
		want                        []string
	}{
		{"its command line", sleeper, "", stage(`, "cli": 3`), []string{"expected a table for cli", waits}},
		{"its alias", sleeper, "", stage(`, "cli": {"named": {"a": []}}`), []string{"expected a string, found a list", waits}},
		{"its policy", sleeper, "", stage(`, "policy": 3`), []string{"expected a table for policy", waits}},
		{"its links", sleeper, "", stage(`, "links": 3`), []string{"expected a list", waits}},
		{"its version", sleeper, "", strings.Replace(stage(""), `"v1"`, `[]`, 1), []string{"expected a string, found a list", waits}},
		{"its nodes", sleeper + `, {"id": "y"` + x + `, "after": [{"node_id": "one__zz"}]}`, "", `{"id": "s", "version": "v1", "nodes": 3}`, []string{"expected a list"}},
		{"its imports", sleeper + `, {"id": "y"` + x + `, "after": [{"node_id": "one__two__a"}]}`, "", stage(`, "imports": 3`), []string{"expected a list"}},
		{"an import of it", sleeper + `, {"id": "y"` + x + `, "after": [{"node_id": "one__two__a"}]}`, "", stage(`, "imports": [{"nme": "two", "path": "two"}]`), []string{"unknown key `nme`"}},
		{"a stage of it", sleeper + `, {"id": "y"` + x + `, "after": [{"node_id": "one__two__a"}]}`, "", stage(`, "imports": [{"name": "two", "path": "two"}]`), []string{"no such stage"}},
		{"another stage of it", `{"id": "y"` + x + `, "after": [{"node_id": "one__too__a"}]}`, "", stage(`, "imports": [{"name": "two", "path": "two"}]`), []string{"no such stage", "references unknown after node `one__too__a`"}},
		{"its parameters", `{"id": "y"` + x + `, "timeout": "${limit}"}`, "", stage(`, "params": 3`), []string{"expected a table for params"}},
		{"its contracts", `{"id": "y"` + x + `, "needs": [{"custom": {"type_id": "thing", "key": "k"}}]}`, "", stage(`, "artifact_contracts": 3`), []string{"expected a list"}},
		{"the importer's import", `{"id": "y"` + x + `, "after": [{"node_id": "one__x"}]}`, `{"nme": "one", "path": "one"}`, stage(""), []string{"unknown key `nme`"}},
		{"one that is imported twice", `{"id": "y"` + x + `}`, `{"name": "one", "path": "one"}, {"name": "one", "path": "one"}`, stage(""), []string{"duplicate import name `one`"}},
		{"two of one prefix", `{"id": "y"` + x + `}`, `{"name": "o.e", "path": "one"}, {"name": "o_e", "path": "one"}`, stage(""), []string{"import names `o.e` and `o_e` both stand for the node prefix `o_e__`"}},
		{"one without a name", `{"id": "__x"` + x + `}`, `{"name": "", "path": "one"}`, stage(""), []string{"import name `` is empty"}},
		{"all of it", sleeper + `, {"id": "y"` + x + `, "after": [{"node_id": "one__x"}], "timeout": "${limit}"}`, "", `3`, []string{"expected a table for the template"}},
		{"two of its nodes that refer to none", `{"id": "y"` + x + `}`, "", `{"id": "s", "version": "v1", "nodes": [{"id": "ab"` + x + `, "after": [{"node_id": "ac"}]}, {"id": "b"` + x + `, "needs": [{"custom": {"type_id": "operation_output", "key": "nobody"}}]}]}`,
			[]string{"node `ab` of stage `one` references unknown after node `ac`; did you mean `ab`?", "node `one__b` needs the output of the unknown node `nobody`"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			imports := cmp.Or(c.imports, `{"name": "one", "path": "one"}`)
			told(t, findings(t, `{"id": "t", "version": "v1", "nodes": [`+c.nodes+`], "imports": [`+imports+`]}`, workflow.Asked{}, map[string]string{"one": c.stage}), c.want...)
		})
	}
}

// A contract that could not be read leads to no other finding.
func TestDoubtsOfContracts(t *testing.T) {
	t.Parallel()
	const nodes = `"nodes": [{"id": "a", ` + run + `, "args": {"command": "x"}, "needs": [{"custom": {"type_id": "first@v2", "key": "k"}}]}]`
	for contract, want := range map[string]string{`{"idd": "x", "version": "v1"}`: "unknown key `idd`", `{"id": "${gone}", "version": "v1"}`: "unresolved parameter `gone`", `{"id": "x", "version": []}`: "expected a string, found a list"} {
		told(t, findings(t, `{"id": "t", "version": "v1", "artifact_contracts": [{"id": "first", "version": "v1"}, `+contract+`], `+nodes+`}`, workflow.Asked{}, nil), want, "references artifact `custom:first:k` of contract `first@v2`, but `v1` is declared")
	}
}

// A finding has its field, by which a program finds the place.
func TestFindingsHaveTheirFields(t *testing.T) {
	_, err := decode(`{"id": "t", "version": "v1", "nodes": [{"id": "x", "uses": "y", "name": 7.5, "on": {"failed": [[]]}, "kind": "shel"}]}`)
	var fields []string
	var all workflow.Diagnostics
	errors.As(err, &all)
	for _, d := range all {
		fields = append(fields, d.Field)
	}
	if got := strings.Join(fields, " "); got != "nodes[x].name nodes[x].on.failed nodes[x].kind" {
		t.Error(got)
	}
}

// A node's name that always means another job is refused where it is written, or by the parameter that gave it.
func TestNamesThatMeanAnotherJob(t *testing.T) {
	t.Parallel()
	named := func(name string) string {
		return wrap(`{"id": "x", ` + run + `, "args": {"command": "true"}, "name": "` + name + `"}`)
	}
	_, err := build(named("12"), nil)
	told(t, each(err), "t.json:4: name \"12\": a number always means the job with that number, so this name could never be used: choose another")
	_, err = build(named("${n}"), nil)
	told(t, each(err), "name \"2\": a number always means the job with that number")
	for _, fine := range []string{"${slug}", "a12", "0", "12345678"} {
		if _, err := build(named(fine), nil); err != nil {
			t.Errorf("%s: %v", fine, err)
		}
	}
}

// A node that needs what others make only if something fails never starts otherwise: that is warned of, but not
// if the node is started by a route too, or if another node makes it as well.
func TestNeedsThatOnlyAFailureMeets(t *testing.T) {
	t.Parallel()
	const token = `[{"custom": {"type_id": "stage_token", "key": "x"}}]`
	node := func(id, rest string) string {
		return `{"id": "` + id + `", ` + run + `, "args": {"command": "true"}, ` + rest + `}`
	}
	use := node("use", `"needs": `+token)
	routed := node("mend", `"produces": {"succeeded": `+token+`}`)
	for name, c := range map[string]struct {
		nodes []string
		want  string
	}{
		"a route's node makes it": {[]string{node("try", `"on": {"failed": ["mend"]}`), routed, use}, "node `use` never starts if nothing fails: it needs `custom:stage_token:x`, which only `mend` makes, and only then"},
		"a failure makes it":      {[]string{node("try", `"produces": {"failed": `+token+`}`), use}, "node `use` never starts if nothing fails: it needs `custom:stage_token:x`, which only `try` makes, and only then"},
		"two make it":             {[]string{node("try", `"on": {"failed": ["mend"]}, "produces": {"failed": `+token+`}`), routed, use}, "node `use` never starts if nothing fails: it needs `custom:stage_token:x`, which only `try`, `mend` makes, and only then"},
		"a success makes it too":  {[]string{node("try", `"on": {"failed": ["mend"]}, "produces": {"succeeded": `+token+`}`), routed, use}, ""},
		"a route starts it too":   {[]string{node("try", `"on": {"failed": ["mend", "use"]}`), routed, use}, ""},
		"somebody else makes it":  {[]string{use}, ""},
		"it follows the route":    {[]string{node("try", `"on": {"failed": ["mend"]}`), node("mend", `"on": {"succeeded": ["use"]}, "produces": {"succeeded": `+token+`}`), use}, ""},
	} {
		tmpl, err := build(wrap(c.nodes...), nil)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var want []string
		if c.want != "" {
			want = append(want, c.want+"; start it by a route as well, or let a node that always runs make the artifact")
		}
		t.Run(name, func(t *testing.T) { told(t, each(tmpl.Warnings()), want...) })
	}
}

// An argument that nobody reads is warned of. Where a node makes a prompt, which
// may read any of them, only one that looks like a misspelling is.
func TestArgumentsThatNobodyReads(t *testing.T) {
	prompt := `{"id": "p", "uses": "cap.env.builtin.prompt.resolve", "args": {"prompt_text": "x", "tone": "plain"}, "produces": {"succeeded": [{"custom": {"type_id": "prompt_text", "key": "k"}}]}}`
	for _, prompting := range []bool{false, true} {
		nodes := []string{`{"id": "m", "uses": "cap.env.builtin.git.integrate_plan_branch", "args": {"slug": "x", "squahs": "true", "mine": "y", "target_brnch": "main", "target_branch": "main"}}`,
			`{"id": "s", "uses": "cap.env.builtin.git.stage", "args": {"files_json": "[\".\"]", "files_jsn": "x"}}`,
			`{"id": "t", "uses": "cap.env.builtin.git.stage", "args": {"files_jsn": "x"}}`,
			`{"id": "x", ` + run + `, "args": {"command": "x", "title": "y"}}`}
		want := []string{"node `m` has an argument `squahs` that `cap.env.builtin.git.integrate_plan_branch` does not read; did you mean `squash`?",
			"node `m` has an argument `mine` that `cap.env.builtin.git.integrate_plan_branch` does not read; remove it",
			"node `m` has an argument `target_brnch` that `cap.env.builtin.git.integrate_plan_branch` does not read; did you mean `target_branch`?",
			"node `s` has an argument `files_jsn` that `cap.env.builtin.git.stage` does not read; did you mean `files_json`?",
			"node `t` has an argument `files_jsn` that `cap.env.builtin.git.stage` does not read; did you mean `files_json`?",
			"node `x` has an argument `title` that `cap.env.shell.command.run` does not read; remove it"}
		if prompting {
			nodes = append(nodes, prompt)
			want = slices.DeleteFunc(want, func(w string) bool { return strings.HasSuffix(w, "remove it") })
		}
		tmpl, err := workflow.Expand(source(t, wrap(nodes...)), nil)
		if err != nil {
			t.Fatal(err)
		}
		told(t, each(tmpl.Warnings()), want...)
	}
}

// Restrictions and secrets that have no effect, or not the one that they seem to have, are told.
func TestFindingsOfSandboxesAndSecrets(t *testing.T) {
	const words = `, "args": {"command": "x"}`
	for node, want := range map[string]string{
		`"network": "none"`:                                  "write and network have no effect: node `a` has no sandbox",
		`"write": ["x"]`:                                     "write and network have no effect: node `a` has no sandbox",
		`"write": ["x"], "sandbox": "best-effort"`:           "",
		`"approval_timeout": "1h"`:                           "approval_timeout has no effect: node `a` asks for no approval",
		`"approval_timeout": "1h", "effect_in_doubt": "ask"`: "",
		`"gates": [{"kind": "approval"}]`:                    "nodes[a].gates[0] asks nobody without `required`",
		`"gates": [{"kind": "approval", "required": false}]`: "",
		`"secrets": ["A"]`:                                   `expected NAME=@FILE or NAME=COMMAND`,
		`"secrets": ["A=@~/a", "B=@~/a"]`:                    "",
		`"secrets": ["A=@~/a", "A=cat x"]`:                   "secret A of node `a` is given twice",
		`"secrets": ["A=pass ${p}"]`:                         "${p} in nodes[a].secrets[0] becomes a part of a command",
		`"secrets": ["A=@/x/${p}"]`:                          "",
		`"secrets": ["A=@~/a"], "executor": "far"`:           "secrets are handed to jobs of this host, and node `a` is for executor far",
		`"secrets": ["A=@~/a"], "executor": "local"`:         "",
		`"container": "img", "executor": "far"`:              "",
		`"container": "a b"`:                                 "node `a`: container \"a b\": expected the name of an image",
	} {
		got := findings(t, `{"id": "t", "version": "v1", "params": {"p": "v"}, "nodes": [{"id": "a", `+run+words+`, `+node+`}]}`, workflow.Asked{}, nil)
		switch {
		case want == "" && len(got) > 0, want != "" && len(got) != 1:
			t.Errorf("%s: %q, want %q", node, got, want)
		case want != "":
			told(t, got, want)
		}
	}
	got := findings(t, `{"id": "t", "version": "v1", "nodes": [{"id": "a", "kind": "gate", "uses": "control.terminal", "container": "img"}]}`, workflow.Asked{}, nil)
	told(t, got, "container has no effect: node `a` runs no command of its own")
}
