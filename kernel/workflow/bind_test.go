package workflow_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel/workflow"
)

const bindSource = `{"id": "t", "version": "v1", "nodes": [],
"cli": {"positional": ["spec_file", "slug"], "named": {"name": "slug", "file": "spec_file"}},
"params": {"slug": "", "spec_file": "", "missing_producers": "x"}}`

func TestBind(t *testing.T) {
	for _, c := range []struct {
		name  string
		set   map[string]string
		input []string
		want  map[string]string // of what is not empty
		err   string
	}{
		{"defaults", nil, nil, map[string]string{}, ""},
		{"a parameter", map[string]string{"slug": "a b"}, nil, map[string]string{"slug": "a b"}, ""},
		{"an alias", map[string]string{"name": "a"}, nil, map[string]string{"slug": "a"}, ""},
		{"positional", nil, []string{"S.md", "a"}, map[string]string{"slug": "a", "spec_file": "S.md"}, ""},
		{"some of both", map[string]string{"name": "a"}, []string{"S.md"}, map[string]string{"slug": "a", "spec_file": "S.md"}, ""},
		{"alias and parameter", map[string]string{"name": "a", "slug": "b"}, nil, nil,
			"workflow parameter `slug` was provided multiple ways (`--name` alias and explicit override)"},
		{"positional and alias", map[string]string{"name": "a"}, []string{"S.md", "b"}, nil,
			"workflow parameter `slug` was provided multiple ways (positional input 2 and named override)"},
		{"too many", nil, []string{"a", "b", "c"}, nil, "workflow `flow` accepts at most 2 positional input(s): spec_file, slug"},
		{"a slip of the pen", map[string]string{"slgu": "a"}, nil, nil, "workflow `flow` has no parameter `slgu`; did you mean `slug`?"},
		{"a slip in kebab case", map[string]string{"spec-fil": "a"}, nil, nil, "did you mean `spec_file`?"},
		{"nothing like it", map[string]string{"zzzzzz": "a"}, nil, nil, "its parameters are file, missing_producers, name, slug, spec_file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := workflow.Bind("flow", source(t, bindSource), c.set, c.input)
			if c.err != "" {
				if err == nil || err.Error() != c.err && !strings.Contains(err.Error(), c.err) {
					t.Fatalf("got  %v\nwant %s", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			delete(got, "missing_producers")
			maps.DeleteFunc(got, func(_, v string) bool { return v == "" })
			if !maps.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

func TestBindChecksTheCommandLineItself(t *testing.T) {
	src := source(t, `{"id": "t", "version": "v1", "nodes": [], "params": {"slug": ""}, "cli": {"positional": ["slgu"], "named": {"n": "slag", "": "slug"}}}`)
	_, err := workflow.Bind("f", src, nil, []string{"x"})
	for _, want := range []string{"workflow `f` positional input `slgu` is not declared in [params]; did you mean `slug`?",
		"workflow `f` alias `n` maps to unknown parameter `slag`; did you mean `slug`?", "workflow `f` has an empty alias"} {
		if err == nil || !strings.Contains(err.Error(), want) || len(each(err)) != 3 {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
	none := source(t, `{"id": "t", "version": "v1", "nodes": []}`)
	if _, err := workflow.Bind("f", none, nil, []string{"x"}); err == nil || !strings.Contains(err.Error(), "workflow `f` does not define positional inputs") {
		t.Errorf("got %v", err)
	}
}

func TestDecodeIsStrict(t *testing.T) {
	_, err := decode(`{"id": "t", "version": 1.5, "nodez": [],
"policy": {"dependencies": {"missing_producers": "wait"}, "failure_mode": "ignore"},
"params": {"n": 3, "b": true, "f": 1.5},
"artifact_contracts": [{"id": "x"}],
"nodes": [{"id": "a", "uses": "u", "kind": "buildin", "args": {"n": [1]},
"needs": [{"plan_doc": {"slugg": "x"}}, {"a": {}, "b": {}}, {"sentinel": {}}],
"locks": [{"key": "k"}],
"gates": [{"kind": "script", "auto_resolve": true}],
"preconditions": [{"kind": "clean_worktree", "branch": "x"}],
"after": ["b"]}]}`)
	want := []string{
		"t.json:1: unknown key `nodez` in the template; did you mean `nodes`?",
		"t.json:1: expected a string, found a float",
		"t.json:2: unknown key `missing_producers` in policy.dependencies; did you mean `missing_producer`?",
		"t.json:2: invalid value `ignore`; expected block_downstream, continue_independent",
		"t.json:3: expected a string, found a float",
		"t.json:4: missing key `version` in artifact_contracts[0]",
		"t.json:5: invalid value `buildin`; expected builtin, agent, shell, gate, custom; did you mean `builtin`?",
		"t.json:5: expected a string, found a list",
		"t.json:6: unknown key `slugg` in nodes[a].needs[0].plan_doc; did you mean `slug`?",
		"t.json:6: an artifact is a table with one key, its kind",
		"t.json:6: unknown key `sentinel` in nodes[a].needs[2]",
		"t.json:7: missing key `mode` in nodes[a].locks[0]",
		"t.json:8: key `auto_resolve` has no effect in nodes[a].gates[0] of kind `script`; remove it",
		"t.json:9: key `branch` has no effect in nodes[a].preconditions[0] of kind `clean_worktree`; remove it",
		"t.json:10: expected a table for nodes[a].after[0], found a string",
	}
	if err == nil {
		t.Fatal("accepted")
	}
	for _, w := range want {
		if !strings.Contains(err.Error()+"\n", w) {
			t.Errorf("missing: %s", w)
		}
	}
	if got := strings.Count(err.Error(), "\n") + 1; got != len(want) {
		t.Errorf("%d findings, want %d:\n%v", got, len(want), err)
	}
}

func TestDuplicateKeys(t *testing.T) {
	if _, err := decode(`{"id": "t", "version": "v1", "id": "u"}`); err == nil || !strings.Contains(err.Error(), "key `id` is given twice") {
		t.Errorf("got %v", err)
	}
}

func TestSuggest(t *testing.T) {
	for in, want := range map[string]string{"slgu": "slug", "spec-file": "spec_file", "specfile": "spec_file", "x": "", "budgte": ""} {
		if got := workflow.Suggest(in, []string{"slug", "spec_file", "branch"}); got != want {
			t.Errorf("%s: %q, want %q", in, got, want)
		}
	}
}
