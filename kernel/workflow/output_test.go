package workflow_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/workflow"
)

func command(id, more string) string {
	return `{"id": "` + id + `", "kind": "shell", "uses": "cap.env.shell.command.run", "args": {"command": "x"}` + more + `}`
}

const needsA = `, "needs": [{"custom": {"type_id": "operation_output", "key": "a"}}]`

func outputOf(node string) kernel.Artifact {
	return kernel.Artifact{Kind: kernel.Custom, Name: workflow.OperationOutput, Ref: node}
}

// Any end of a node will do only where the edge says so and nothing else asks for
// its success; which it is is part of the policy.
func TestAfterAnyEndOfANode(t *testing.T) {
	compiled := func(after string, nodes ...string) (kernel.Spec, string) {
		t.Helper()
		tmpl, err := build(wrap(append(nodes, command("b", `, "after": `+after))...), nil)
		if err != nil {
			t.Fatal(err)
		}
		jobs, _ := compileTemplate(t, tmpl)
		return jobs["b"].Spec, workflow.PolicyHash(tmpl)
	}
	soft := `[{"node_id": "a", "policy": "any"}]`
	any, anyHash := compiled(soft, command("a", ""))
	success, successHash := compiled(`[{"node_id": "a", "policy": "success"}]`, command("a", ""))
	if any.AfterPolicy("id-a") != kernel.AfterAnyEnd || success.AfterPolicy("id-a") != kernel.AfterSuccess || anyHash == successHash {
		t.Errorf("any %v, success %v, one hash: %v", any.AfterAny, success.AfterAny, anyHash == successHash)
	}
	for name, spec := range map[string]func() (kernel.Spec, string){
		"said both ways": func() (kernel.Spec, string) {
			return compiled(`[{"node_id": "a", "policy": "any"}, {"node_id": "a"}]`, command("a", ""))
		},
		"it also hands over": func() (kernel.Spec, string) { return compiled(soft, command("a", `, "on": {"succeeded": ["b"]}`)) },
		"the default":        func() (kernel.Spec, string) { return compiled(`[{"node_id": "a"}]`, command("a", "")) },
	} {
		if got, _ := spec(); got.AfterPolicy("id-a") != kernel.AfterSuccess || !slices.Equal(got.After, []kernel.JobID{"id-a"}) {
			t.Errorf("%s: after %v, any end of %v", name, got.After, got.AfterAny)
		}
	}
}

// A node makes its output where another needs it, on the outcomes that no route
// follows.
func TestANodeMakesTheOutputThatIsNeeded(t *testing.T) {
	tmpl, err := build(wrap(command("a", `, "on": {"failed": ["h"]}`), command("h", ""), command("b", needsA), command("c", needsA)), nil)
	if err != nil {
		t.Fatal(err)
	}
	jobs, m := compileTemplate(t, tmpl)
	if !slices.Equal(jobs["a"].Spec.Produces, []kernel.Artifact{outputOf("a")}) || len(jobs["b"].Spec.Produces) > 0 {
		t.Errorf("a makes %v, b makes %v", jobs["a"].Spec.Produces, jobs["b"].Spec.Produces)
	}
	for outcome, want := range map[string]int{"succeeded": 1, "failed": 0, "blocked": 1, "cancelled": 1} {
		if got := len(m.Nodes["a"].Artifacts[outcome]); got != want {
			t.Errorf("on %s it makes %d, want %d", outcome, got, want)
		}
	}
	with := func(o kernel.Outcome) kernel.Products {
		return kernel.Products{On: o, Artifacts: []kernel.Artifact{outputOf("a")}}
	}
	if want := []kernel.Products{with(kernel.OutcomeSucceeded), with(kernel.OutcomeBlocked), with(kernel.OutcomeCancelled)}; !reflect.DeepEqual(jobs["a"].Spec.ProducesOn, want) || jobs["b"].Spec.ProducesOn != nil {
		t.Errorf("a makes %v, b makes %v", jobs["a"].Spec.ProducesOn, jobs["b"].Spec.ProducesOn)
	}
	jobs, _ = compile(t, wrap(command("a", `, "produces": {"succeeded": [{"plan_doc": {"slug": "s"}}]}`), command("b", needsA)), nil)
	if got := fmt.Sprint(jobs["a"].Spec.Produces); got != "[custom:operation_output:a plan_doc:s (draft/s)]" {
		t.Errorf("a makes %s", got)
	}
	jobs, _ = compile(t, wrap(command("a", `, "produces": {"succeeded": [{"plan_doc": {"slug": "s"}}]}`)), nil)
	if got := jobs["a"].Spec.ProducesOn; got != nil {
		t.Errorf("all comes with success, and %v", got)
	}
	for what, node := range map[string]string{
		"needs the output of the unknown node `c`": command("b", strings.ReplaceAll(needsA, `"a"`, `"c"`)),
		"needs its own output":                     command("b", strings.ReplaceAll(needsA, `"a"`, `"b"`)),
		"which is Vizier's own":                    command("b", `, "produces": {"succeeded": [{"custom": {"type_id": "operation_output", "key": "b"}}]}`),
	} {
		if _, err := build(wrap(command("a", ""), node), nil); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// Needs of outputs within a stage are renamed with the stage's nodes.
func TestOutputsWithinAStage(t *testing.T) {
	f := files{"root": `{"id": "r", "version": "v1", "imports": [{"name": "one", "path": "one"}]}`,
		"one": stageText("", "", command("a", ""), command("b", needsA+`, "after": [{"node_id": "a", "policy": "any"}]`))}
	src, err := f.compose(t, "root")
	if err != nil {
		t.Fatal(err)
	}
	tmpl, err := workflow.Expand(src, nil)
	if err != nil {
		t.Fatal(err)
	}
	jobs, _ := compileTemplate(t, tmpl)
	b := jobs["one__b"].Spec
	if !slices.Equal(b.Needs, []kernel.Artifact{outputOf("one__a")}) || b.AfterPolicy("id-one__a") != kernel.AfterAnyEnd {
		t.Errorf("needs %v, any end of %v", b.Needs, b.AfterAny)
	}
}

// So are patches.
func TestPatchesWithinAStage(t *testing.T) {
	f := files{"root": `{"id": "r", "version": "v1", "imports": [{"name": "one", "path": "one"}]}`,
		"one": stageText("", "", `{"id": "a", "uses": "cap.env.builtin.git.save_worktree_patch", "produces": {"succeeded": [{"command_patch": {"job_id": "a"}}]}}`,
			command("b", `, "needs": [{"command_patch": {"job_id": "a"}}]`))}
	src, err := f.compose(t, "root")
	if err != nil {
		t.Fatal(err)
	}
	tmpl, err := workflow.Expand(src, nil)
	if err != nil {
		t.Fatal(err)
	}
	jobs, _ := compileTemplate(t, tmpl)
	patch := []kernel.Artifact{{Kind: kernel.CommandPatch, Name: "id-one__a"}}
	if a, b := jobs["one__a"].Spec, jobs["one__b"].Spec; !slices.ContainsFunc(a.Produces, func(p kernel.Artifact) bool { return p == patch[0] }) || !slices.Equal(b.Needs, patch) {
		t.Errorf("produces %v, needs %v", a.Produces, b.Needs)
	}
}

// A node may need the output of a prompt node as well as its prompt.
func TestTheOutputOfAPrompt(t *testing.T) {
	for _, p := range []string{`"uses": "cap.env.builtin.prompt.resolve", "args": {"prompt_text": "x"}`, `"kind": "shell", "uses": "cap.env.shell.prompt.resolve", "args": {"script": "x"}`} {
		text := wrap(`{"id": "a", `+p+`, "produces": {"succeeded": [{"custom": {"type_id": "prompt_text", "key": "k"}}]}}`,
			`{"id": "b", `+run+`, "args": {"command": "x"}`+needsA+`}`)
		if _, err := build(text, nil); err != nil {
			t.Errorf("%v", err)
		}
	}
}
