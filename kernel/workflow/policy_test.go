package workflow_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/workflow"
)

func hashOf(t *testing.T, text string) string {
	t.Helper()
	tmpl, err := build(text, nil)
	if err != nil {
		t.Fatal(err)
	}
	return workflow.PolicyHash(tmpl)
}

// V1 and V2.
func TestPolicyHash(t *testing.T) {
	node := `{"id": "b", "kind": "shell", "uses": "cap.env.shell.command.run", "args": {"command": "x", "a": "1"}, "on": {"succeeded": ["c", "d"]},
		"needs": [{"plan_doc": {"slug": "s"}}, {"plan_branch": {"slug": "s", "branch": "draft/s"}}]}`
	reordered := `{"id": "b", "kind": "shell", "uses": "cap.env.shell.command.run", "args": {"a": "1", "command": "x"}, "on": {"succeeded": ["d", "c"]},
		"needs": [{"plan_branch": {"slug": "s"}}, {"plan_doc": {"branch": "draft/s", "slug": "s"}}]}`
	text := func(policy, contracts string, nodes ...string) string {
		return `{"id": "t", "version": "v1", "policy": {` + policy + `}, "artifact_contracts": [` + contracts + `], "nodes": [` + strings.Join(nodes, ",") + `]}`
	}
	c, d := cmdNode("c", ""), cmdNode("d", "")
	one, two := `{"id": "k", "version": "v1", "schema": {"type": "object", "required": ["key"]}}`, `{"id": "l", "version": "v1"}`
	base := hashOf(t, text("", one+","+two, node, c, d))
	if len(base) != 64 || strings.Trim(base, "0123456789abcdef") != "" {
		t.Errorf("%q is no SHA-256 in hex", base)
	}
	same := hashOf(t, text("", two+","+`{"id": "k", "version": "v1", "schema": {"required": ["key"], "type": "object"}}`, d, reordered, c))
	if same != base {
		t.Error("reordering changes the hash")
	}
	named := hashOf(t, text("", one+","+two, strings.Replace(node, `"id": "b"`, `"id": "b", "name": "B"`, 1), c, d))
	if named != base {
		t.Error("a display name changes the hash")
	}
	for what, other := range map[string]string{
		"dependency policy": text(`"dependencies": {"missing_producer": "wait"}`, one+","+two, node, c, d),
		"failure mode":      text(`"failure_mode": "block_downstream"`, one+","+two, node, c, d),
		"contract":          text("", two, node, c, d),
		"argument":          text("", one+","+two, strings.Replace(node, `"1"`, `"2"`, 1), c, d),
		"edge":              text("", one+","+two, node, c, cmdNode("d", "c")),
		"outcome of edge":   text("", one+","+two, strings.Replace(node, "succeeded", "failed", 1), c, d),
		"timeout":           text("", one+","+two, strings.Replace(node, `"id": "b"`, `"id": "b", "timeout": "5m"`, 1), c, d),
	} {
		if hashOf(t, other) == base {
			t.Errorf("another %s keeps the hash", what)
		}
	}
}

// V4 to V9, with the departures that locksOf documents.
func TestInferredLocks(t *testing.T) {
	for _, c := range []struct{ name, node, want string }{
		{"V4 from arguments", `"uses": "cap.env.builtin.git.integrate_plan_branch", "args": {"branch": "b", "target_branch": "main"}`, "branch:b branch:main"},
		{"V4 from artifacts", `"kind": "shell", "uses": "cap.env.shell.command.run", "args": {"command": "x"}, "needs": [{"plan_doc": {"slug": "s"}}]`, "branch:draft/s"},
		{"V4 from parameters", `"kind": "shell", "uses": "cap.env.shell.command.run", "args": {"command": "x"}`, "branch:trunk"},
		{"V7 explicit ones replace them", `"uses": "cap.env.builtin.git.integrate_plan_branch", "args": {"branch": "b"}, "locks": [{"key": "mine", "mode": "shared"}]`, "mine"},
		{"V8 none for terminals", `"kind": "gate", "uses": "control.terminal"`, ""},
		{"V8 none for approvals", `"kind": "gate", "uses": "control.gate.approval"`, ""},
	} {
		text := strings.Replace(wrap(`{"id": "x", `+c.node+`}`), `"params": {`, `"params": {"target": "trunk", `, 1)
		jobs, _ := compile(t, text, nil)
		if got := keys(jobs["x"].Spec.Locks); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	jobs, _ := compile(t, wrap(
		`{"id": "w", "uses": "cap.env.builtin.worktree.prepare", "args": {"slug": "foo"}, "on": {"succeeded": ["in"]}}`,
		`{"id": "in", "uses": "cap.env.builtin.git.stage", "args": {"files_json": "[\".\"]"}, "on": {"succeeded": ["clean"]}}`,
		`{"id": "clean", "uses": "cap.env.builtin.worktree.cleanup", "on": {"succeeded": ["out"]}}`,
		`{"id": "out", "uses": "cap.env.builtin.git.stage", "args": {"files_json": "[\".\"]"}}`,
		shell), nil)
	for node, want := range map[string]string{"w": "branch:draft/foo", "in": "branch:draft/foo", "out": "repo_serial", "sh": ""} {
		if got := keys(jobs[node].Spec.Locks); got != want {
			t.Errorf("%s: %q, want %q", node, got, want)
		}
	}
}

// A lock on the branch that is checked out is one on its name, where it has one.
func TestLockOnTheBranchThatIsCheckedOut(t *testing.T) {
	tmpl, err := build(wrap(`{"id": "x", "kind": "shell", "uses": "cap.env.shell.command.run", "args": {"command": "x"},
		"locks": [{"key": "mine", "mode": "exclusive"}, {"key": "branch:HEAD", "mode": "shared"}, {"key": "branch:HEAD", "mode": "exclusive", "units": 2}]}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	mine, pool := kernel.Lock{Key: "mine"}, kernel.Lock{Key: "branch:HEAD", Units: 2}
	for head, want := range map[string][]kernel.Lock{"main": {mine, {Key: "branch:main", Mode: kernel.Shared}, pool}, "": {mine, pool}} {
		jobs, _, err := workflow.Compile(tmpl, workflow.CompileOptions{IDs: func(node string) kernel.JobID { return kernel.JobID(node) },
			Head: func() (string, error) { return head, nil }})
		if err != nil || !slices.Equal(jobs[0].Spec.Locks, want) {
			t.Errorf("on %q: %+v, %v, want %+v", head, jobs[0].Spec.Locks, err, want)
		}
	}
}

// T3 and V5: neither another stage's parameters nor the template's say which
// branch a node in a worktree writes to.
func TestLocksOfStages(t *testing.T) {
	shell := func(id string) string {
		return `{"id": "` + id + `", "kind": "shell", "uses": "cap.env.shell.command.run", "args": {"command": "x"}}`
	}
	f := files{"root": `{"id": "r", "version": "v1", "params": {"branch": "trunk"}, "nodes": [` + shell("own") + `], ` + imports + `}`,
		"one": stageText(`"target": "main"`, "", shell("merge"),
			`{"id": "w", "uses": "cap.env.builtin.worktree.prepare", "args": {"branch": "work", "slug": "foo"}, "on": {"succeeded": ["in"]}}`, shell("in")),
		"two": stageText(`"n": "1"`, "", shell("note"))}
	src, err := f.compose(t, "root")
	if err != nil {
		t.Fatal(err)
	}
	params, err := workflow.Bind("r", src, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	tmpl, err := workflow.Expand(src, params)
	if err != nil {
		t.Fatal(err)
	}
	jobs, _ := compileTemplate(t, tmpl)
	for node, want := range map[string]string{"own": "branch:main branch:trunk", "one__merge": "branch:main", "one__w": "branch:work", "one__in": "branch:work", "two__note": ""} {
		if got := keys(jobs[node].Spec.Locks); got != want {
			t.Errorf("%s: %q, want %q", node, got, want)
		}
	}
}

func keys(locks []kernel.Lock) string {
	var out []string
	for _, l := range locks {
		out = append(out, l.Key)
	}
	return strings.Join(out, " ")
}

// V18 and V19.
func TestSchemaSubset(t *testing.T) {
	for _, c := range []struct{ schema, want string }{
		{`true`, ""},
		{`false`, "violates schema for contract `stage_token`: $ is not allowed"},
		{`{}`, ""},
		{`{"type": "object", "required": ["type_id", "key"], "additionalProperties": true}`, ""},
		{`{"type": "string"}`, "$ is an object, not of type string"},
		{`{"required": ["slug"]}`, "$.slug is required"},
		{`{"properties": {"key": {"type": "string", "pattern": "^(approve|draft)$"}}}`, "$.key value `approve:foo` does not match pattern"},
		{`{"properties": {"key": {"pattern": "^approve:foo$"}}}`, ""},
		{`{"properties": {"key": {"pattern": "^(draft:foo|approve:foo)$"}}}`, ""},
		{`{"properties": {"key": {"const": "approve:bar"}}}`, "$.key value `approve:foo` does not match const"},
		{`{"properties": {"key": {"const": "approve:foo"}}}`, ""},
		{`{"properties": {"key": {"enum": ["a", "approve:foo"]}}}`, ""},
		{`{"properties": {"key": {"enum": ["a", 1]}}}`, "does not match enum"},
		{`{"properties": {"key": {"type": "integer"}}}`, "$.key is a string, not of type integer"},
		{`{"properties": {"key": false}}`, "$.key is not allowed"},
		{`{"properties": {"key": true}, "additionalProperties": false}`, "$.type_id is not allowed"},
		{`{"properties": {"key": true, "type_id": {}}, "additionalProperties": false}`, ""},
		{`{"const": "x"}`, "$ does not match const"},
		{`"no"`, "has invalid schema: $ must be a table or a boolean, not a string"},
		{`{"oneOf": []}`, "has invalid schema: $.oneOf is not supported"},
		{`{"type": "text"}`, "has invalid schema: $.type must be one of"},
		{`{"required": "key"}`, "has invalid schema: $.required must be a list of strings"},
		{`{"properties": {"key": {"pattern": "^a.*$"}}}`, "has invalid schema: $.properties.key.pattern must have the form"},
		{`{"properties": {"key": {"pattern": "a"}}}`, "has invalid schema: $.properties.key.pattern must have the form"},
		{`{"properties": {"key": {"pattern": "^a"}}}`, "has invalid schema: $.properties.key.pattern must have the form"},
		{`{"properties": {"key": {"pattern": "a$"}}}`, "has invalid schema: $.properties.key.pattern must have the form"},
		{`{"properties": {"key": {"pattern": "^(a$"}}}`, "has invalid schema: $.properties.key.pattern must have the form"},
		{`{"properties": {"key": {"pattern": "^a|b$"}}}`, "has invalid schema: $.properties.key.pattern must have the form"},
		{`{"additionalProperties": {}, "const": "x"}`, "has invalid schema: $.additionalProperties must be a boolean"},
		{`{"properties": []}`, "has invalid schema: $.properties must be a table"},
		{`{"additionalProperties": {}}`, "has invalid schema: $.additionalProperties must be a boolean"},
		{`{"enum": []}`, "has invalid schema: $.enum must be a list that is not empty"},
	} {
		text := fmt.Sprintf(`{"id": "t", "version": "v1", "artifact_contracts": [{"id": "stage_token", "version": "v1", "schema": %s}], "nodes": [
			{"id": "x", "kind": "gate", "uses": "control.terminal", "produces": {"succeeded": [{"custom": {"type_id": "stage_token", "key": "approve:foo"}}]}}]}`, c.schema)
		_, err := build(text, nil)
		if (c.want == "") != (err == nil) || err != nil && (!strings.Contains(err.Error(), c.want) || len(each(err)) != 1) {
			t.Errorf("%s\ngot  %v\nwant %s", c.schema, err, c.want)
		}
	}
}

func TestContracts(t *testing.T) {
	for contracts, want := range map[string]string{
		`{"id": "a", "version": "v1"}, {"id": "a", "version": "v1"}`:        "duplicate artifact contract `a`",
		`{"id": "plan_doc", "version": "v2"}`:                               "artifact contract `plan_doc` has version `v2`; the built-in kind's is v1",
		`{"id": "", "version": "v1"}`:                                       "artifact contract with an empty id or version",
		`{"id": "operation_output", "version": "v1"}`:                       "artifact contract `operation_output` is Vizier's own: remove it",
		`{"id": "a", "version": "v2"}, {"id": "plan_doc", "version": "v1"}`: "",
	} {
		_, err := build(`{"id": "t", "version": "v1", "artifact_contracts": [`+contracts+`], "nodes": [`+shell+`]}`, nil)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %v", contracts, err)
		}
	}
}

func TestResumePolicyHasNoOtherValue(t *testing.T) {
	text := strings.Replace(wrap(shell), `"id": "t",`, `"id": "t", "policy": {"resume": {"key": "default", "reuse_mode": %q}},`, 1)
	if _, err := build(fmt.Sprintf(text, "strict"), nil); err != nil {
		t.Error(err)
	}
	text = strings.Replace(wrap(shell), `"id": "t",`, "\"id\": \"t\", \"policy\": {\"resume\": {\n\"reuse_mode\": \"compatible\",\n\"key\": \"x\"}},", 1)
	want := "t.json:2: policy.resume.reuse_mode other than `strict` has no effect; remove [policy.resume]\nt.json:3: policy.resume.key other than `default` has no effect; remove [policy.resume]"
	if _, err := build(text, nil); err == nil || err.Error() != want {
		t.Errorf("got %v", err)
	}
}
