package workflow_test

import (
	"errors"
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
		if args := m.Nodes["w"].Args; args["from"] != "main" || args["target_branch"] != "" {
			t.Errorf("%+v: the worktree is told %v", c, args)
		}
		if args := m.Nodes["in"].Args; len(args) > 0 {
			t.Errorf("%+v: the gate in a worktree is told %v", c, args)
		}
		if c.params == "" && c.args == "" && jobs["m"].Spec.Origin.Target != "main" {
			t.Errorf("the record says the target is %q", jobs["m"].Spec.Origin.Target)
		}
	}
}

// What resolves the conflicts of a merge is about its target.
func TestTargetOfAConflict(t *testing.T) {
	for args, want := range map[string]string{"": "main", `, "target": "next"`: "next"} {
		jobs, m := compile(t, wrap(`{"id": "m", "uses": "cap.env.builtin.git.integrate_plan_branch", "args": {"slug": "foo"`+args+`}, "on": {"blocked": ["g"]}}`,
			`{"id": "g", "kind": "gate", "uses": "control.gate.conflict_resolution", "on": {"succeeded": ["m"]}}`), nil)
		if got := m.Nodes["g"].Args["target_branch"]; got != want || keys(jobs["g"].Spec.Locks) != "branch:"+want {
			t.Errorf("%s: it is about %q and locks %s", args, got, keys(jobs["g"].Spec.Locks))
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

// A branch that cannot be asked for fails what needs it, and nothing else.
func TestABranchThatCannotBeAskedFor(t *testing.T) {
	t.Parallel()
	broken := errors.New("no such repository")
	for node, asks := range map[string]bool{
		`"uses": "cap.env.builtin.git.integrate_plan_branch", "args": {"slug": "foo"}`:                      true,
		`"uses": "cap.env.builtin.git.integrate_plan_branch", "args": {"slug": "foo", "target": "main"}`:    false,
		`"uses": "cap.env.builtin.worktree.prepare", "args": {"slug": "foo"}`:                               true,
		`"uses": "cap.env.builtin.worktree.prepare", "args": {"slug": "foo", "from": "main"}`:               false,
		run + `, "args": {"command": "x"}, "locks": [{"key": "branch:HEAD", "mode": "shared"}]`:             true,
		run + `, "args": {"command": "x"}, "locks": [{"key": "branch:HEAD", "mode": "shared", "units": 2}]`: false,
		run + `, "args": {"command": "x"}, "locks": [{"key": "branch:main", "mode": "shared"}]`:             false,
	} {
		tmpl, err := build(wrap(`{"id": "x", `+node+`}`), nil)
		if err != nil {
			t.Fatal(err)
		}
		o := workflow.CompileOptions{IDs: func(n string) kernel.JobID { return kernel.JobID(n) }, Head: func() (string, error) { return "", broken }}
		if _, _, err := workflow.Compile(tmpl, o); errors.Is(err, broken) != asks || !asks && err != nil {
			t.Errorf("%s: %v", node, err)
		}
		o.Head = nil // nobody to ask
		if _, _, err := workflow.Compile(tmpl, o); err != nil && !strings.Contains(err.Error(), "merges into no branch") {
			t.Errorf("%s: %v", node, err)
		}
	}
}

// A target that is the name of no branch, whoever gave it.
func TestATargetThatIsNoBranch(t *testing.T) {
	tmpl, err := build(strings.Replace(merging(""), `"params": {`, `"params": {"target": "a..b", `, 1), nil)
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = workflow.Compile(tmpl, workflow.CompileOptions{IDs: func(n string) kernel.JobID { return kernel.JobID(n) }, Head: onMain})
	told(t, each(err), "t.json:4: node `m` merges into \"a..b\": git takes no such name, for it has .. or @{, or ends with a dot")
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
