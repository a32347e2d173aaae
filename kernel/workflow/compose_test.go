package workflow_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/workflow"
)

// files are templates that import one another by name.
type files map[string]string

func (f files) compose(t *testing.T, root string) (*workflow.Source, error) {
	t.Helper()
	src, err := decodeAs(root, f[root])
	if err != nil {
		t.Fatal(err)
	}
	return workflow.Compose(src, func(_ *workflow.Source, m workflow.Import) (*workflow.Source, error) {
		text, ok := f[m.Path.Value]
		if !ok {
			return nil, fmt.Errorf("no file %s", m.Path.Value)
		}
		return decodeAs(m.Path.Value, text)
	})
}

func stageText(params, contracts string, nodes ...string) string {
	return `{"id": "s", "version": "v1", "params": {` + params + `}, "artifact_contracts": [` + contracts + `], "nodes": [` + strings.Join(nodes, ", ") + `]}`
}

const imports = `"imports": [{"name": "one", "path": "one"}, {"name": "two", "path": "two"}]`

func TestCompose(t *testing.T) {
	f := files{
		"root": `{"id": "r", "version": "v1", "policy": {"dependencies": {"missing_producer": "wait"}}, "params": {"p": "x"}, ` + imports + `, "links": [{"from": "one", "to": "two"}]}`,
		"one":  stageText(`"p": "x"`, `{"id": "stage_token", "version": "v1"}`, cmdNode("a", "", "succeeded: b", "failed: h"), cmdNode("b", "a"), cmdNode("c", ""), cmdNode("h", "")),
		"two": stageText(`"q": "y"`, `{"id": "stage_token", "version": "v1"}`,
			`{"id": "i", "uses": "cap.env.builtin.git.integrate_plan_branch", "args": {"slug": "${p}"}, "on": {"blocked": ["x"]}}`,
			`{"id": "x", "kind": "gate", "uses": "control.gate.conflict_resolution", "on": {"succeeded": ["i"]}}`),
	}
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
	jobs, m := compileTemplate(t, tmpl)
	var got []string
	for id, j := range jobs {
		after := []string{}
		for _, p := range j.Spec.After {
			after = append(after, strings.TrimPrefix(string(p), "id-"))
		}
		got = append(got, fmt.Sprintf("%s%v%v", id, after, j.Spec.Routed))
	}
	slices.Sort(got)
	// Linked by the awake ends only: the handler h and the conflict gate x sleep.
	want := "one__a[]false one__b[one__a]false one__c[]false one__h[]true two__i[one__b one__c]false two__x[]true"
	if s := strings.Join(got, " "); s != want {
		t.Errorf("got  %s\nwant %s", s, want)
	}
	if m.Policy.MissingProducer != "wait" || m.Params["p"] != "x" || m.Params["q"] != "y" {
		t.Errorf("manifest: %+v %v", m.Policy, m.Params)
	}
	// The link carries no context: only after.
	if r := m.Nodes["one__b"].Routes["succeeded"]; len(r) != 0 {
		t.Errorf("the link became a route: %v", r)
	}
}

func TestComposeRefuses(t *testing.T) {
	one := stageText(`"p": "x"`, "", cmdNode("a", ""))
	for _, c := range []struct {
		name string
		f    files
		want string
	}{
		{"a cycle of imports", files{"root": `{"id": "r", "version": "v1", "imports": [{"name": "m", "path": "mid"}]}`, "mid": `{"id": "m", "version": "v1", "imports": [{"name": "r", "path": "root"}]}`},
			"mid:1: workflow import cycle detected: root -> mid -> root"},
		{"a stage without nodes", files{"root": `{"id": "r", "version": "v1", "imports": [{"name": "m", "path": "mid"}]}`, "mid": `{"id": "m", "version": "v1"}`}, "imported stage `m` has no nodes"},
		{"parameters that disagree", files{"root": `{"id": "r", "version": "v1", ` + imports + `}`, "one": one, "two": stageText(`"p": "y"`, "", cmdNode("a", ""))},
			"conflicting parameter default for `p` while composing stage `two` (`x` vs `y`)"},
		{"contracts that disagree", files{"root": `{"id": "r", "version": "v1", "artifact_contracts": [{"id": "k", "version": "v1"}], "imports": [{"name": "one", "path": "one"}]}`, "one": stageText("", `{"id": "k", "version": "v2"}`, cmdNode("a", ""))},
			"conflicting artifact contract `k` while composing stage `one`"},
		{"an empty name", files{"root": `{"id": "r", "version": "v1", "imports": [{"name": "", "path": "one"}]}`, "one": one}, "import name `` is empty"},
		{"a duplicate name", files{"root": `{"id": "r", "version": "v1", "imports": [{"name": "a", "path": "one"}, {"name": "a", "path": "one"}]}`, "one": one}, "duplicate import name `a`"},
		{"names that collide", files{"root": `{"id": "r", "version": "v1", "imports": [{"name": "a.b", "path": "one"}, {"name": "a_b", "path": "one"}]}`, "one": one}, "import names `a.b` and `a_b` both stand for the node prefix `a_b__`"},
		{"an empty endpoint", files{"root": `{"id": "r", "version": "v1", "imports": [{"name": "a", "path": "one"}], "links": [{"from": "", "to": "a"}]}`, "one": one}, "link with an empty endpoint"},
		{"an unknown stage", files{"root": `{"id": "r", "version": "v1", "imports": [{"name": "draft", "path": "one"}], "links": [{"from": "drfat", "to": "draft"}]}`, "one": one}, "link references unknown stage `drfat`; did you mean `draft`?"},
		{"a cycle of links", files{"root": `{"id": "r", "version": "v1", ` + imports + `, "links": [{"from": "one", "to": "two"}, {"from": "two", "to": "one"}]}`, "one": one, "two": one}, "workflow link cycle detected: one -> two -> one"},
		{"an unknown reference in a stage", files{"root": `{"id": "r", "version": "v1", "imports": [{"name": "a", "path": "one"}]}`, "one": stageText("", "", cmdNode("a", "bb"))}, "node `a` of stage `a` references unknown after node `bb`"},
		{"a file that is not there", files{"root": `{"id": "r", "version": "v1", "imports": [{"name": "a", "path": "nowhere"}]}`}, "root:1: no file nowhere"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := c.f.compose(t, "root"); err == nil || !strings.Contains(err.Error(), c.want) || len(each(err)) != 1 {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
		})
	}
}

func TestComposeEndsOnTemplatesThatMultiply(t *testing.T) {
	f := files{"leaf": stageText("", "", cmdNode("a", ""))}
	last := "leaf"
	for i := range 40 {
		name := fmt.Sprint("level", i)
		f[name] = `{"id": "l", "version": "v1", "imports": [{"name": "a", "path": "` + last + `"}, {"name": "b", "path": "` + last + `"}]}`
		last = name
	}
	for stages, bad := range map[int]bool{200: false, 201: true, 210: true} {
		var all []string
		for i := range stages {
			all = append(all, fmt.Sprintf(`{"name": "s%d", "path": "leaf"}`, i))
		}
		f["root"] = `{"id": "r", "version": "v1", "imports": [` + strings.Join(all, ", ") + `]}`
		if _, err := f.compose(t, "root"); bad != (err != nil) || bad && err.Error() != "root:1: workflow has more than 200 stages" {
			t.Errorf("%d stages: %v", stages, err)
		}
	}
	if _, err := f.compose(t, last); err == nil || !strings.Contains(err.Error(), "has more than 200 stages") {
		t.Errorf("got %v", err)
	}
}

func TestNestedStages(t *testing.T) {
	f := files{
		"root": `{"id": "r", "version": "v1", "imports": [{"name": "outer", "path": "mid"}]}`,
		"mid":  `{"id": "m", "version": "v1", ` + imports + `, "links": [{"from": "one", "to": "two"}]}`,
		"one":  stageText("", "", cmdNode("a", "")), "two": stageText("", "", cmdNode("a", "")),
	}
	src, err := f.compose(t, "root")
	if err != nil {
		t.Fatal(err)
	}
	tmpl, err := workflow.Expand(src, nil)
	if err != nil {
		t.Fatal(err)
	}
	jobs, _ := compileTemplate(t, tmpl)
	if got := jobs["outer__two__a"].Spec.After; len(got) != 1 || got[0] != "id-outer__one__a" {
		t.Errorf("after: %v of %d jobs", got, len(jobs))
	}
}

// What was composed stays as it is when the same source is composed with other stages.
func TestASourceThatIsComposedTwice(t *testing.T) {
	root, err := decode(`{"id": "r", "version": "v1", "params": {"a": "", "b": "", "c": ""}, "artifact_contracts": [{"id": "a", "version": "v1"}, {"id": "b", "version": "v1"}, {"id": "c", "version": "v1"}],
		"config": {"a": "x", "b": "x", "c": "x"}, "nodes": [` + cmdNode("a", "") + `, ` + cmdNode("b", "") + `, ` + cmdNode("c", "") + `], "imports": [{"name": "s", "path": "s"}]}`)
	if err != nil {
		t.Fatal(err)
	}
	with := func(id string) *workflow.Source {
		src, err := workflow.Compose(root, func(*workflow.Source, workflow.Import) (*workflow.Source, error) {
			return decodeAs("s", `{"id": "s", "version": "v1", "params": {"`+id+`": ""}, "artifact_contracts": [{"id": "`+id+`", "version": "v1"}], "config": {"`+id+`": "`+id+`"}, "nodes": [`+cmdNode(id, "")+`]}`)
		})
		if err != nil {
			t.Fatal(err)
		}
		return src
	}
	first := with("x")
	was := fmt.Sprintf("%+v", *first)
	if with("y"); fmt.Sprintf("%+v", *first) != was {
		t.Errorf("was %s\nis  %+v", was, *first)
	}
}

// A loader may give the same source twice: composing changes none.
func TestAStageThatIsImportedTwice(t *testing.T) {
	stage, err := decodeAs("stage.json", stageText("", `{"id": "note", "version": "v1"}`, cmdNode("a", ""), `{"id": "b", `+run+`, "args": {"command": "x"}, "after": [{"node_id": "a", "policy": "any"}],
		"needs": [{"plan_doc": {"slug": "a"}}, {"custom": {"type_id": "operation_output", "key": "a"}}, {"custom": {"type_id": "note", "key": "a"}}, {"command_patch": {"job_id": "a"}}, {"command_patch": {"job_id": "other"}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	root, err := decode(`{"id": "r", "version": "v1", ` + imports + `}`)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		src, err := workflow.Compose(root, func(*workflow.Source, workflow.Import) (*workflow.Source, error) { return stage, nil })
		if err != nil {
			t.Fatal(err)
		}
		tmpl, err := workflow.Expand(src, nil)
		if err != nil {
			t.Fatal(err)
		}
		jobs, _ := compileTemplate(t, tmpl)
		for _, s := range []string{"one", "two"} {
			b := jobs[s+"__b"].Spec
			if a := []kernel.JobID{jobs[s+"__a"].ID}; !slices.Equal(b.After, a) || !slices.Equal(b.AfterAny, a) || fmt.Sprint(b.Needs) != "[command_patch:id-"+s+"__a command_patch:other custom:note:a custom:operation_output:"+s+"__a plan_doc:a (draft/a)]" {
				t.Errorf("%s__b: %+v", s, b)
			}
		}
	}
}
