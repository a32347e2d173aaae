package workflow_test

import (
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/workflow"
)

const preflightText = `{"id": "t", "version": "v1", "params": {"slug": "", "branch": "", "spec_file": "S.md", "spec_text": ""},
"cli": {"positional": ["slug", "branch"], "named": {"name": "slug"}}, "nodes": [
{"id": "w", "uses": "cap.env.builtin.worktree.prepare", "args": {"branch": "${branch}", "slug": "${slug}"}, "on": {"succeeded": ["p"]}},
{"id": "p", "uses": "cap.env.builtin.plan.persist", "args": {"spec_file": "${spec_file}", "spec_text": "${spec_text}"}}]}`

func expanded(t *testing.T, text string, set map[string]string) (*workflow.Source, *workflow.Template) {
	t.Helper()
	src := source(t, text)
	params, err := workflow.Bind("flow", src, set, nil)
	if err != nil {
		t.Fatal(err)
	}
	tmpl, err := workflow.Expand(src, params)
	if err != nil {
		t.Fatal(err)
	}
	return src, tmpl
}

func TestPreflightSpeaksOfFlags(t *testing.T) {
	src, tmpl := expanded(t, preflightText, nil)
	err := workflow.Preflight("draft", src, tmpl, []string{" "})
	want := "workflow `draft` entry node `w` (`worktree.prepare`) requires at least one non-empty input: `--branch`, `--name` (maps to `slug`)\n" +
		"received positional inputs:  \nexamples:\n  --branch VALUE\n  SLUG BRANCH"
	if err == nil || err.Error() != want || !errors.Is(err, kernel.ErrInvalid) {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
	src, tmpl = expanded(t, strings.Replace(preflightText, `"spec_file": "S.md"`, `"spec_file": ""`, 1), map[string]string{"name": "x"})
	want = "workflow `draft` node `p` (`plan.persist`) requires at least one non-empty input: `--spec-text`, `--spec-file`\n" +
		"received positional inputs: x\nexamples:\n  --spec-text VALUE" // no position has it
	if err := workflow.Preflight("draft", src, tmpl, []string{"x"}); err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
	src, tmpl = expanded(t, preflightText, map[string]string{"name": "x"})
	if err := workflow.Preflight("draft", src, tmpl, nil); err != nil {
		t.Errorf("with a name: %v", err)
	}
	src, tmpl = expanded(t, preflightText, map[string]string{"name": "x", "spec_text": "t"})
	if err := workflow.Preflight("draft", src, tmpl, nil); err != nil {
		t.Errorf("a text instead of the template's file: %v", err)
	}
	src, tmpl = expanded(t, preflightText, map[string]string{"name": "x", "spec_text": "t", "spec_file": "f"})
	want = "workflow `draft` has one specification: keep one of `--spec-text` and `--spec-file`"
	if err := workflow.Preflight("draft", src, tmpl, nil); err == nil || err.Error() != want {
		t.Errorf("a text and a file: %v", err)
	}
}

// A token that names no plan would stand for any branch's: then the plan's name is asked for, after all else.
func TestATokenOfNoPlan(t *testing.T) {
	t.Parallel()
	node := func(id, artifacts string) string {
		return `{"id": "` + id + `", ` + run + `, "args": {"command": "x"}, ` + artifacts + `}`
	}
	made, needed := `"produces": {"succeeded": [{"custom": {"type_id": "stage_token", "key": "draft:${slug}"}}]}`, `"needs": [{"custom": {"type_id": "stage_token", "key": "draft:${slug}"}}]`
	other := `"needs": [{"custom": {"type_id": "note", "key": "draft:${slug}"}}, {"plan_doc": {"slug": "stage_token", "branch": "draft:${slug}"}}]`
	const missed = "workflow `draft` node `x` has to know the name of the plan, which a branch gives only if it is draft/NAME: give the name, too"
	const lacking = "workflow `draft` entry node `w` (`worktree.prepare`) requires at least one non-empty input: `--other`\nexamples:\n  --other VALUE"
	for _, c := range []struct {
		nodes string
		set   map[string]string
		want  string
	}{
		{node("x", made), map[string]string{"branch": "work"}, missed},
		{node("x", needed), map[string]string{"branch": "work"}, missed},
		{node("a", other) + `, ` + node("x", needed), map[string]string{"branch": "work"}, missed},
		{node("x", needed), map[string]string{"branch": "work", "slug": "s"}, ""},
		{node("x", needed), nil, ""},
		{node("x", needed), map[string]string{"branch": workflow.StandIn}, ""},
		{node("x", other), map[string]string{"branch": "work"}, ""},
		{node("x", needed) + `, {"id": "w", "uses": "cap.env.builtin.worktree.prepare", "args": {"slug": "${other}"}}`, map[string]string{"branch": "work"}, lacking},
	} {
		src, tmpl := expanded(t, `{"id": "t", "version": "v1", "params": {"slug": "", "branch": "", "other": ""}, "nodes": [`+c.nodes+`]}`, c.set)
		var got string
		if err := workflow.Preflight("draft", src, tmpl, nil); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s with %v: %q, want %q", c.nodes, c.set, got, c.want)
		}
	}
}

// What stands in for input is the first parameter of each node that lacks some, and of no other.
func TestWhatStandsInForInput(t *testing.T) {
	noFile := strings.Replace(preflightText, `"spec_file": "S.md"`, `"spec_file": ""`, 1)
	for _, c := range []struct {
		text string
		set  map[string]string
		want map[string]string
	}{
		{preflightText, nil, map[string]string{"branch": workflow.StandIn}},
		{preflightText, map[string]string{"name": "x"}, map[string]string{}},
		{noFile, map[string]string{"branch": "draft/x"}, map[string]string{"spec_text": workflow.StandIn}},
		{noFile, nil, map[string]string{"branch": workflow.StandIn, "spec_text": workflow.StandIn}},
		{strings.Replace(preflightText, `"args": {"branch": "${branch}", "slug": "${slug}"}`, `"args": {"slug": "a-${slug}"}`, 1), nil, map[string]string{}},
		{strings.Replace(preflightText, `"args": {"branch": "${branch}", "slug": "${slug}"}`, `"args": {"slug": "${slug}"}`, 1), nil, map[string]string{"slug": workflow.StandIn}},
		{strings.Replace(preflightText, `"args": {"branch": "${branch}", "slug": "${slug}"}`, `"args": {"slug": " "}`, 1), nil, map[string]string{}},
	} {
		src, tmpl := expanded(t, c.text, c.set)
		if got := workflow.StandIns(src, tmpl); !maps.Equal(got, c.want) {
			t.Errorf("with %v: %v, want %v", c.set, got, c.want)
		}
	}
}

func TestInlineReadsSpecsOnce(t *testing.T) {
	_, tmpl := expanded(t, preflightText, map[string]string{"name": "x"})
	if err := tmpl.Inline(func(path string) (string, error) { return "text of " + path, nil }); err != nil {
		t.Fatal(err)
	}
	_, m := compileTemplate(t, tmpl)
	if got := m.Nodes["p"].Args["spec_text"]; got != "text of S.md" {
		t.Errorf("spec_text is %q", got)
	}
	_, tmpl = expanded(t, preflightText, map[string]string{"name": "x", "spec_text": "given"})
	if err := tmpl.Inline(func(string) (string, error) { return "", errors.New("read although there is a text") }); err != nil {
		t.Error(err)
	}
	_, tmpl = expanded(t, preflightText, map[string]string{"name": "x"})
	if err := tmpl.Inline(func(string) (string, error) { return " \n", nil }); err == nil || !strings.Contains(err.Error(), "workflow node `p` has no specification: spec file `S.md` is empty") {
		t.Errorf("%v", err)
	}
	err := tmpl.Inline(func(string) (string, error) { return "", errors.New("no such file") })
	if err == nil || !strings.HasSuffix(err.Error(), "workflow node `p` could not read spec file `S.md` during enqueue: no such file") {
		t.Errorf("got %v", err)
	}
}

func TestAPlanKnownByItsBranchHasASlug(t *testing.T) {
	for _, kind := range []kernel.ArtifactKind{kernel.PlanBranch, kernel.PlanDoc, kernel.PlanCommits} {
		jobs, _ := compile(t, wrap(`{"id": "x", "kind": "shell", "uses": "cap.env.shell.command.run", "args": {"command": "a"},
			"needs": [{"`+kind.String()+`": {"slug": "", "branch": "draft/foo"}}]}`), nil)
		if got := jobs["x"].Spec.Needs[0]; got != (kernel.Artifact{Kind: kind, Name: "foo", Ref: "draft/foo"}) {
			t.Errorf("got %v", got)
		}
	}
}
