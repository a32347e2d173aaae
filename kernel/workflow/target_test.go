package workflow_test

import (
	"strings"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/workflow"
)

// merging returns a merge, something after it, and what judges it.
func merging(args string) string {
	return wrap(`{"id": "m", "uses": "cap.env.builtin.git.integrate_plan_branch", "args": {"slug": "foo"`+args+`}, "on": {"succeeded": ["built"]}}`,
		`{"id": "built", "kind": "shell", "uses": "cap.env.shell.command.run", "args": {"command": "make"}, "on": {"succeeded": ["ci", "run"]}}`,
		`{"id": "ci", "kind": "gate", "uses": "control.gate.cicd", "gates": [{"kind": "cicd", "script": "x"}]}`,
		`{"id": "run", "kind": "shell", "uses": "cap.env.shell.cicd.run", "args": {"command": "x"}}`,
		`{"id": "w", "uses": "cap.env.builtin.worktree.prepare", "args": {"slug": "bar"}, "after": [{"node_id": "m"}], "on": {"succeeded": ["in"]}}`,
		`{"id": "in", "kind": "gate", "uses": "control.gate.cicd", "gates": [{"kind": "cicd", "script": "x"}]}`)
}

// A node that moves or judges a branch locks it exclusively, whether it names
// the branch or not.
func TestTargetsOfMerges(t *testing.T) {
	for _, c := range []struct{ args, params, target string }{
		{"", "", "main"},
		{`, "target_branch": "next"`, "", "next"},
		{`, "target": "next"`, `"target_branch": "other", `, "next"},
		{"", `"target": "trunk", `, "trunk"},
	} {
		jobs, m := compile(t, strings.Replace(merging(c.args), `"params": {`, `"params": {`+c.params, 1), nil)
		want := map[string]string{"m": "branch:draft/foo branch:" + c.target, "ci": "branch:" + c.target, "run": "branch:" + c.target, "in": "branch:draft/bar"}
		for node, locks := range want {
			if got := keys(jobs[node].Spec.Locks); got != locks {
				t.Errorf("%+v: %s locks %q, want %q", c, node, got, locks)
			}
		}
		for _, node := range []string{"m", "ci", "run"} {
			args := m.Nodes[node].Args
			if got := args["target"] + args["target_branch"]; got != c.target {
				t.Errorf("%+v: %s is about %q", c, node, got)
			}
		}
		if args := m.Nodes["in"].Args; len(args) > 0 {
			t.Errorf("%+v: the gate in a worktree is told %v", c, args)
		}
		if c.params == "" && c.args == "" && jobs["m"].Spec.Origin.Target != "main" {
			t.Errorf("the record says the target is %q", jobs["m"].Spec.Origin.Target)
		}
	}
}

// A merge cannot be queued into the branch that it takes from, whether that is named or checked out.
func TestAMergeIntoItselfIsRefused(t *testing.T) {
	for _, c := range []struct {
		args, params, head string
		refused            bool
	}{
		{`, "target": "draft/foo"`, "", "main", true},
		{"", `"target": "draft/foo", `, "main", true},
		{"", "", "draft/foo", true},
		{`, "branch": "work"`, "", "work", true},
		{`, "branch": "work"`, "", "draft/foo", false},
		{`, "target": "main"`, "", "draft/foo", false},
	} {
		tmpl, err := build(strings.Replace(merging(c.args), `"params": {`, `"params": {`+c.params, 1), nil)
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = workflow.Compile(tmpl, workflow.CompileOptions{IDs: func(n string) kernel.JobID { return kernel.JobID(n) },
			Head: func() (string, error) { return c.head, nil }})
		if refused := err != nil && strings.Contains(err.Error(), " into itself; name another target with --target BRANCH"); refused != c.refused {
			t.Errorf("%+v: got %v", c, err)
		}
	}
}

func TestAMergeWithoutATargetIsRefused(t *testing.T) {
	tmpl, err := build(merging(""), nil)
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = workflow.Compile(tmpl, workflow.CompileOptions{IDs: func(n string) kernel.JobID { return kernel.JobID(n) },
		Head: func() (string, error) { return "", nil }})
	if err == nil || !strings.Contains(err.Error(), "node `m` merges into no branch: none is named, and none is checked out; name it with --target BRANCH") {
		t.Errorf("got %v", err)
	}
}
