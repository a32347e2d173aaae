package workflow_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/workflow"
)

// Jobs on record carry the hash of what they are subject to: of the same
// template it never changes, or every run would seem to be of another policy.
func TestPolicyHashesOnRecord(t *testing.T) {
	var keys []string
	for _, f := range everyField {
		if strings.HasPrefix(f.json, `"retry":`) || strings.HasPrefix(f.json, `"effect_in_doubt"`) || strings.HasPrefix(f.json, `"max_retries": %q`) {
			continue // which some of the others rule out
		}
		if k, _, _ := strings.Cut(f.json, ":"); !slices.ContainsFunc(keys, func(in string) bool { return strings.HasPrefix(in, k+":") }) {
			keys = append(keys, fmt.Sprintf(f.json, f.good))
		}
	}
	text := strings.Replace(wrap(`{"id": "x", "kind": "shell", "uses": "cap.env.shell.command.run", "on": {"failed": ["y"]}, `+strings.Join(keys, ", ")+`}`,
		`{"id": "y", "kind": "agent", "uses": "cap.agent.invoke", "resume": true, "max_retries": 2, "needs": [{"custom": {"type_id": "prompt_text", "key": "k"}}]}`),
		`"params": {"slug": "foo", "n": 2}`, fieldParams, 1)
	for name, c := range map[string]struct{ text, want string }{
		"one node":    {wrap(shell), "714eb179b732b21244e08750f3d8184a0e16923da0b6f76facfecd71e2ec8220"},
		"every field": {text, "8c84ac3f35cb42dddb3515ac9de3358de49ff7b6ad173e11236a9f17b5438b5f"},
		"contracts":   {`{"id": "t", "version": "v2", "artifact_contracts": [{"id": "k", "version": "v1", "schema": {"enum": ["a", 1, true], "type": "object"}}, {"id": "b", "version": "v1"}], "nodes": [` + shell + `]}`, "401a762bb3df723ed8875b72ff209a78cd822b6dd177d535f8c90a49dbbf05f9"},
	} {
		if got := hashOf(t, c.text); got != c.want {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// Contracts of stages are the same whatever the order of their keys, and
// different by any value.
func TestContractsOfStagesAgree(t *testing.T) {
	contract := func(schema string) string {
		return stageText("", `{"id": "k", "version": "v1"`+schema+`}`, cmdNode("a", ""))
	}
	for _, c := range []struct {
		one, two string
		agree    bool
	}{
		{"", "", true},
		{`, "schema": {"type": "object", "required": ["key"]}`, `, "schema": {"required": ["key"], "type": "object"}`, true},
		{`, "schema": true`, "", false},
		{"", `, "schema": true`, false},
		{`, "schema": true`, `, "schema": false`, false},
		{`, "schema": {"required": ["key"]}`, `, "schema": {"required": ["kay"]}`, false},
		{`, "schema": {"required": ["key"]}`, `, "schema": {"required": ["key", "key"]}`, false},
		{`, "schema": {"type": "object"}`, `, "schema": {"const": "object"}`, false},
		{`, "schema": {"type": "object"}`, `, "schema": {}`, false},
		{`, "schema": {"type": "object"}`, `, "schema": {"type": "string"}`, false},
		{`, "schema": {"properties": {"key": {"const": "a"}}}`, `, "schema": {"properties": {"key": {"const": "b"}}}`, false},
		{`, "schema": {"properties": {"key": {"const": "a"}}}`, `, "schema": {"properties": {"key": {"const": "a"}}}`, true},
	} {
		f := files{"root": `{"id": "r", "version": "v1", ` + imports + `}`, "one": contract(c.one), "two": contract(c.two)}
		if _, err := f.compose(t, "root"); (err == nil) != c.agree || err != nil && !strings.Contains(err.Error(), "conflicting artifact contract `k`") {
			t.Errorf("%s and %s: %v", c.one, c.two, err)
		}
	}
}

func TestPrefixesOfStages(t *testing.T) {
	for name, want := range map[string]string{"a b!!!!c": "a_b_c__a", "0-9": "0-9__a", "_A__Z_": "A_Z__a", "{x}": "x__a", "a/z": "a_z__a", "[`@": ""} {
		f := files{"root": `{"id": "r", "version": "v1", "imports": [{"name": "` + name + `", "path": "one"}]}`, "one": stageText("", "", cmdNode("a", ""))}
		src, err := f.compose(t, "root")
		if err != nil {
			if want != "" {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		tmpl, err := workflow.Expand(src, nil)
		if err != nil {
			t.Fatal(err)
		}
		if jobs, _ := compileTemplate(t, tmpl); len(jobs) != 1 || jobs[want].ID == "" {
			t.Errorf("%s: %v", name, jobs)
		}
	}
}

func TestTimeoutsOfJobs(t *testing.T) {
	ask := `{"id": "x", "kind": "agent", "uses": "cap.agent.invoke", "needs": [{"custom": {"type_id": "prompt_text", "key": "k"}}]`
	for text, want := range map[string]time.Duration{ask + `}`: 12 * time.Hour, ask + `, "timeout": "90m"}`: 90 * time.Minute,
		strings.Replace(shell, `"sh"`, `"x"`, 1): 0} {
		jobs, _ := compile(t, wrap(text), nil)
		if got := jobs["x"].Spec.Task.Timeout; got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}

// Numbers are decimal, and a placeholder that opens a text or follows a dollar
// of it is told apart.
func TestTextsThatBeginWithAPlaceholder(t *testing.T) {
	for text, want := range map[string]string{"$${slug}": "${slug}", "${slug}": "foo", "a${slug}": "afoo", "$$${slug}": "$${slug}", "${ slug }": "foo", "${slug}${slug}": "foofoo", "$": "$", "${slug@Q}": "'foo'"} {
		_, m := compile(t, wrap(`{"id": "x", "kind": "shell", "uses": "cap.env.shell.command.run", "args": {"command": "a", "note": "`+text+`"}}`), nil)
		if got := m.Nodes["x"].Args["note"]; got != want {
			t.Errorf("%s is %s, want %s", text, got, want)
		}
	}
	for text, want := range map[string]string{"${": "unclosed parameter placeholder in nodes[x].name; write $${ for a literal ${", "${ }": "empty parameter placeholder", "${slgu}": "did you mean `slug`?",
		"${zzzzzz}": "declare it in [params], or write $${zzzzzz}", "${gone@Q}": "unresolved parameter `gone`"} {
		_, err := build(wrap(`{"id": "x", "name": "`+text+`", "kind": "shell", "uses": "cap.env.shell.command.run", "args": {"command": "a"}}`), nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	jobs, _ := compile(t, wrap(`{"id": "x", "kind": "shell", "uses": "cap.env.shell.command.run", "args": {"command": "a"}, "max_retries": 21}`), nil)
	if got := jobs["x"].Spec.Budget.Retries; got != 21 {
		t.Errorf("%d retries", got)
	}
}

// A text that cannot be read is found wherever it stands, also where the same
// text stood before.
func TestEveryBadTextIsFound(t *testing.T) {
	node := func(id string) string {
		return `{"id": "` + id + `", "name": "${gone}", "kind": "shell", "uses": "cap.env.shell.command.run", "args": {"command": "a"}}`
	}
	_, err := build(wrap(node("a"), node("b")), nil)
	for _, want := range []string{"nodes[a].name", "nodes[b].name"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s is not found: %v", want, err)
		}
	}
}

// The name of a command patch is a node's only there.
func TestNamesOfNodesInOtherArtifacts(t *testing.T) {
	jobs, _ := compile(t, wrap(`{"id": "s", "kind": "shell", "uses": "cap.env.shell.command.run", "args": {"command": "a"}, "needs": [{"plan_doc": {"slug": "s"}}, {"command_patch": {"job_id": "none"}}]}`), nil)
	var got []string
	for _, a := range jobs["s"].Spec.Needs {
		got = append(got, a.String())
	}
	if s := strings.Join(got, " "); s != "command_patch:none plan_doc:s (draft/s)" {
		t.Error(s)
	}
}

func TestVariablesOfTheLongest(t *testing.T) {
	m := workflow.Manifest{Params: map[string]string{"a": strings.Repeat("x", 96<<10), "b": strings.Repeat("x", 96<<10+1)}}
	if env, left := m.Variables(); len(env) != 1 || !slices.Equal(left, []string{"b"}) {
		t.Errorf("%d, %q", len(env), left)
	}
}

// There are no warnings about unusual but harmless parts of a script, and these
// do not hide others after them.
func TestWarningsOfOddScripts(t *testing.T) {
	for text, want := range map[string]int{"a ${slug": 0, "a }${n} ${slug} b": 2, "a ${gone}": -1, "a $${n} ${slug}": 1, "": 0, "x ${slug": 0} {
		tmpl, err := build(wrap(`{"id": "x", "kind": "gate", "uses": "control.gate.cicd", "gates": [{"kind": "cicd", "script": "`+text+`"}]}`), nil)
		switch {
		case err != nil && (want < 0 || strings.HasSuffix(text, "${slug")):
		case err != nil:
			t.Errorf("%s: %v", text, err)
		case len(tmpl.Warnings()) != want:
			t.Errorf("%s: %v", text, tmpl.Warnings())
		}
	}
}

func TestBindPositional(t *testing.T) {
	src := source(t, `{"id": "t", "version": "v1", "nodes": [], "params": {"a": "1", "b": "2"}, "cli": {"positional": ["a", "b"], "named": {"n": "a"}}}`)
	for _, c := range []struct {
		set        map[string]string
		positional []string
		want       string
	}{
		{nil, nil, "map[a:1 b:2]"},
		{nil, []string{"x", "y"}, "map[a:x b:y]"},
		{map[string]string{"n": "x"}, nil, "map[a:x b:2]"},
		{map[string]string{"b": "x"}, []string{"y"}, "map[a:y b:x]"},
		{map[string]string{"b": "x"}, []string{"y", "z"}, "workflow parameter `b` was provided multiple ways (positional input 2 and named override)"},
		{map[string]string{"a": "x"}, []string{"y", "z"}, "workflow parameter `a` was provided multiple ways (positional input 1 and named override)"},
		{map[string]string{"a": "x", "n": "y"}, nil, "workflow parameter `a` was provided multiple ways (`--n` alias and explicit override)"},
		{nil, []string{"x", "y", "z"}, "workflow `f` accepts at most 2 positional input(s): a, b"},
		{map[string]string{"zzzzzz": "y"}, nil, "workflow `f` has no parameter `zzzzzz`; its parameters are a, b, n"},
	} {
		got, err := workflow.Bind("f", src, c.set, c.positional)
		if text := fmt.Sprint(got); err == nil && text != c.want || err != nil && err.Error() != c.want {
			t.Errorf("%v %v: %s, %v", c.set, c.positional, text, err)
		}
	}
	none := source(t, `{"id": "t", "version": "v1", "nodes": []}`)
	if _, err := workflow.Bind("f", none, map[string]string{"zzzzzz": "y"}, nil); err == nil || err.Error() != "workflow `f` has no parameter `zzzzzz`" {
		t.Errorf("%v", err)
	}
}

func TestHowFarNamesAreApart(t *testing.T) {
	for in, want := range map[string]string{"ab": "", "baranch": "branch", "brnach": "branch", "brnahc": "branch", "barnhc": "branch", "xxanch": "branch", "xxxnch": "", "branches": "branch", "ranch": "branch", "slugs": "slug", "lsug": "slug", "lsgu": "",
		"spec": "", "bcd": "bcde", "branchbranch": ""} {
		if got := workflow.Suggest(in, []string{"slug", "branch", "bcdf", "bcde"}); got != want {
			t.Errorf("%s: %q, want %q", in, got, want)
		}
	}
}

func TestDecodeWantsListsAndTables(t *testing.T) {
	for text, want := range map[string]string{
		`{"id": "t", "version": "v1", "nodes": {}}`:                                                    "a list",
		`{"id": "t", "version": "v1", "nodes": [3]}`:                                                   "a table",
		`{"id": "t", "version": "v1", "nodes": [{"id": 3, "uses": "u", "options": "x"}]}`:              "expected a list, found a string",
		`{"id": "t", "version": "v1", "nodes": [{"id": "a", "uses": "u", "on": {"failed": "x"}}]}`:     "a list",
		`{"id": "t", "version": "v1", "nodes": [{"id": "a", "uses": "u", "needs": {"plan_doc": {}}}]}`: "a list",
		`[]`: "a table",
	} {
		if _, err := decode(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// A job of a plan's locks what its artifacts name.
func TestLocksOfProducts(t *testing.T) {
	jobs, _ := compile(t, wrap(`{"id": "x", "kind": "shell", "uses": "cap.env.shell.command.run", "args": {"command": "x"}, "needs": [{"plan_doc": {"slug": "a"}}], "produces": {"failed": [{"target_branch": {"name": "b"}}], "succeeded": [{"plan_branch": {"slug": "c"}}]}}`), nil)
	if got := keys(jobs["x"].Spec.Locks); got != "branch:b branch:draft/a branch:draft/c" {
		t.Error(got)
	}
	if l := jobs["x"].Spec.Locks[0]; l != kernel.BranchLock("b") {
		t.Errorf("%+v", l)
	}
}
