package workflow_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/workflow"
)

// manifestNode returns the only node of a control policy with args and gates.
func manifestNode(policy string, retry workflow.ManifestRetry, args map[string]string, gates ...workflow.ManifestGate) workflow.ManifestNode {
	return workflow.ManifestNode{Node: "x", Control: policy, Args: args, Gates: gates, Retry: retry}
}

func TestControl(t *testing.T) {
	script := workflow.ManifestGate{Kind: "script", Policy: "block", Script: "check"}
	warn := workflow.ManifestGate{Kind: "script", Policy: "warn", Script: "check"}
	ci := workflow.ManifestGate{Kind: "cicd", Policy: "block", Script: "ci"}
	until := workflow.ManifestRetry{Mode: "until_gate", Budget: 2}
	byGate, byItsArg := ci, ci
	byGate.AutoResolve, byItsArg.Args = true, map[string]string{"auto_resolve": "true"}
	script2 := map[string]string{"auto_resolve_script": "fix"}
	fix := map[string]string{"auto_resolve": "true", "auto_resolve_script": "fix"}
	auto := map[string]string{"auto_resolve": "yes"}
	seen := func(exits ...int) workflow.Seen { return workflow.Seen{Exits: exits} }
	open := func(unmerged bool, exits ...int) workflow.Seen {
		return workflow.Seen{Sentinel: true, Unmerged: unmerged, Exits: exits}
	}
	for _, c := range []struct {
		name string
		node workflow.ManifestNode
		seen workflow.Seen
		want string // run SCRIPT, agent, or OUTCOME EXIT
	}{
		{"stop: no script", manifestNode("gate.stop_condition", until, nil), seen(), "succeeded 0"},
		{"stop: blank script", manifestNode("gate.stop_condition", until, nil, workflow.ManifestGate{Kind: "script", Script: " "}), seen(), "succeeded 0"},
		{"stop: first", manifestNode("gate.stop_condition", until, nil, script), seen(), "run check"},
		{"stop: holds", manifestNode("gate.stop_condition", until, nil, script), seen(0), "succeeded 0"},
		{"stop: does not hold", manifestNode("gate.stop_condition", until, nil, script), seen(3), "failed 3"},
		{"stop: budget left", manifestNode("gate.stop_condition", until, nil, script), workflow.Seen{Exits: []int{3}, Loops: 1}, "failed 3"},
		{"stop: budget spent", manifestNode("gate.stop_condition", until, nil, script), workflow.Seen{Exits: []int{3}, Loops: 2}, "blocked 10"},
		{"stop: no budget", manifestNode("gate.stop_condition", workflow.ManifestRetry{Mode: "until_gate"}, nil, script), seen(3), "blocked 10"},
		{"stop: never blocks otherwise", manifestNode("gate.stop_condition", workflow.ManifestRetry{Mode: "never"}, nil, script), workflow.Seen{Exits: []int{3}, Loops: 9}, "failed 3"},
		{"stop: only warns", manifestNode("gate.stop_condition", until, nil, warn), workflow.Seen{Exits: []int{3}, Loops: 9}, "succeeded 0"},

		{"ci: no script", manifestNode("gate.cicd", workflow.ManifestRetry{}, nil), seen(), "succeeded 0"},
		{"ci: first", manifestNode("gate.cicd", workflow.ManifestRetry{}, fix, ci), seen(), "run ci"},
		{"ci: passes", manifestNode("gate.cicd", workflow.ManifestRetry{}, fix, ci), seen(0), "succeeded 0"},
		{"ci: fails", manifestNode("gate.cicd", workflow.ManifestRetry{}, nil, ci), seen(4), "failed 4"},
		{"ci: fails, repair off", manifestNode("gate.cicd", workflow.ManifestRetry{}, map[string]string{"auto_resolve": "off", "auto_resolve_script": "fix"}, ci), seen(4), "failed 4"},
		{"ci: fails, nothing to repair with", manifestNode("gate.cicd", workflow.ManifestRetry{}, auto, ci), seen(4), "failed 4"},
		{"ci: repair", manifestNode("gate.cicd", workflow.ManifestRetry{}, fix, ci), seen(4), "run fix"},
		{"ci: repair, says the gate", manifestNode("gate.cicd", workflow.ManifestRetry{}, script2, byGate), seen(4), "run fix"},
		{"ci: repair, says an argument of the gate", manifestNode("gate.cicd", workflow.ManifestRetry{}, script2, byItsArg), seen(4), "run fix"},
		{"ci: no repair, says nobody", manifestNode("gate.cicd", workflow.ManifestRetry{}, script2, ci), seen(4), "failed 4"},
		{"ci: repair failed, the first exit counts", manifestNode("gate.cicd", workflow.ManifestRetry{}, fix, ci), seen(4, 5), "failed 4"},
		{"ci: once more", manifestNode("gate.cicd", workflow.ManifestRetry{}, fix, ci), seen(4, 0), "run ci"},
		{"ci: repaired", manifestNode("gate.cicd", workflow.ManifestRetry{}, fix, ci), seen(4, 0, 0), "succeeded 0"},
		{"ci: not repaired", manifestNode("gate.cicd", workflow.ManifestRetry{}, fix, ci), seen(4, 0, 6), "failed 4"},

		{"conflict: none", manifestNode("gate.conflict_resolution", workflow.ManifestRetry{}, auto), seen(), "blocked 10"},
		{"conflict: merged already", manifestNode("gate.conflict_resolution", workflow.ManifestRetry{}, auto), workflow.Seen{Merged: true}, "succeeded 0"},
		{"conflict: that of another merge of the plan", manifestNode("gate.conflict_resolution", workflow.ManifestRetry{}, nil), workflow.Seen{Merged: true, Sentinel: true, Unmerged: true}, "blocked 10"},
		{"conflict: by hand", manifestNode("gate.conflict_resolution", workflow.ManifestRetry{}, nil), open(true), "blocked 10"},
		{"conflict: resolved by hand", manifestNode("gate.conflict_resolution", workflow.ManifestRetry{}, nil), open(false), "succeeded 0 clear"},
		{"conflict: agent", manifestNode("gate.conflict_resolution", workflow.ManifestRetry{}, auto), open(true), "agent"},
		{"conflict: agent failed and did nothing", manifestNode("gate.conflict_resolution", workflow.ManifestRetry{}, auto), open(true, 7), "failed 7"},
		{"conflict: agent failed and did it", manifestNode("gate.conflict_resolution", workflow.ManifestRetry{}, auto), open(false, 7), "failed 7"},
		{"conflict: agent did half of it", manifestNode("gate.conflict_resolution", workflow.ManifestRetry{}, auto), open(true, 0), "blocked 10"},
		{"conflict: only not staged", manifestNode("gate.conflict_resolution", workflow.ManifestRetry{}, auto), workflow.Seen{Sentinel: true, Unmerged: true, Unstaged: true}, "blocked 10"},
		{"conflict: only not staged, by a script", manifestNode("gate.conflict_resolution", workflow.ManifestRetry{}, fix), workflow.Seen{Sentinel: true, Unmerged: true, Unstaged: true}, "blocked 10"},
		{"conflict: script", manifestNode("gate.conflict_resolution", workflow.ManifestRetry{}, fix), open(true), "run fix"},
		{"conflict: script failed", manifestNode("gate.conflict_resolution", workflow.ManifestRetry{}, fix), open(true, 7), "failed 7"},
		{"conflict: script did it", manifestNode("gate.conflict_resolution", workflow.ManifestRetry{}, fix), open(false, 0), "succeeded 0 clear"},

		{"approval: not asked for", manifestNode("gate.approval", workflow.ManifestRetry{}, nil), seen(), "succeeded 0"},
		{"approval: not required", manifestNode("gate.approval", workflow.ManifestRetry{}, map[string]string{"required": "false"}), seen(), "succeeded 0"},
		{"stop: a check that is no number", manifestNode("gate.stop_condition", until, nil, script), seen(-1), "failed 1"},
		{"ci: a gate that a person gives, and one that runs", manifestNode("gate.cicd", workflow.ManifestRetry{}, nil, workflow.ManifestGate{Kind: "approval", Script: "not this"}, ci), seen(), "run ci"},
		{"terminal that leads on", workflow.ManifestNode{Node: "x", Control: "terminal", Routes: map[string][]workflow.ManifestRoute{"failed": {{Node: "y"}}}}, seen(), "failed 1"},
		{"an operation with a script of its own and a gate", workflow.ManifestNode{Operation: "cicd.run", Args: map[string]string{"command": "make"}, Gates: []workflow.ManifestGate{ci}}, seen(), "run make"},
		{"approval: pending", manifestNode("gate.approval", workflow.ManifestRetry{}, nil), workflow.Seen{Approval: kernel.Pending}, "blocked 10"},
		{"approval: given", manifestNode("gate.approval", workflow.ManifestRetry{}, nil), workflow.Seen{Approval: kernel.Approved}, "succeeded 0"},
		{"approval: refused", manifestNode("gate.approval", workflow.ManifestRetry{}, nil), workflow.Seen{Approval: kernel.Rejected}, "failed 10"},

		{"terminal", manifestNode("terminal", workflow.ManifestRetry{}, nil), seen(), "succeeded 0"},
		{"an operation without a gate", workflow.ManifestNode{Operation: "git.stage_commit"}, seen(), "succeeded 0"},
		{"an operation with one", workflow.ManifestNode{Operation: "git.stage_commit", Gates: []workflow.ManifestGate{script}}, seen(), "run check"},
		{"an operation whose gate fails", workflow.ManifestNode{Operation: "git.stage_commit", Gates: []workflow.ManifestGate{script}}, seen(2), "failed 2"},
		{"cicd.run", workflow.ManifestNode{Operation: "cicd.run", Args: map[string]string{"command": "make"}}, seen(), "run make"},
		{"cicd.run with a gate that warns", workflow.ManifestNode{Operation: "cicd.run", Args: map[string]string{"command": "make"},
			Gates: []workflow.ManifestGate{{Kind: "cicd", Policy: "warn", Script: "other"}}}, seen(2), "succeeded 0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := workflow.Control(c.node, c.seen)
			got := fmt.Sprintf("%s %d", s.Outcome, s.Exit)
			switch s.Run {
			case workflow.RunScript:
				got = "run " + s.Script
			case workflow.RunAgent:
				got = "agent"
			case workflow.Nothing:
				if s.ClearSentinel {
					got += " clear"
				}
				if s.Outcome != kernel.OutcomeSucceeded && s.Reason == "" {
					t.Error("it does not say why")
				}
			}
			if got != c.want {
				t.Errorf("got %s, want %s (%s)", got, c.want, s.Reason)
			}
		})
	}
}

func TestControlAlwaysEnds(t *testing.T) {
	for _, u := range workflow.Inventory() {
		for _, auto := range []string{"true", "false"} {
			n := workflow.ManifestNode{Node: "x", Operation: u.Operation, Control: u.Policy,
				Args:  map[string]string{"auto_resolve": auto, "auto_resolve_script": "fix", "command": "x"},
				Gates: []workflow.ManifestGate{{Kind: "script", Script: "a", Policy: "block"}, {Kind: "cicd", Script: "b", Policy: "block"}}}
			for exit := range 2 {
				seen := workflow.Seen{Sentinel: true, Unmerged: true}
				s := workflow.Control(n, seen)
				for ; s.Run != workflow.Nothing; s = workflow.Control(n, seen) {
					if seen.Exits = append(seen.Exits, exit); len(seen.Exits) > 3 {
						t.Fatalf("%s goes on after %v", u.Label, seen.Exits)
					}
				}
				if s.Outcome == kernel.NoOutcome {
					t.Errorf("%s ends without an outcome", u.Label)
				}
			}
		}
	}
}

// What a person reads of a step says what failed, and what was skipped.
func TestReasonsOfControl(t *testing.T) {
	ci := []workflow.ManifestGate{{Kind: "cicd", Policy: "block", Script: "ci"}}
	fix := map[string]string{"auto_resolve": "true", "auto_resolve_script": "fix"}
	open := workflow.Seen{Sentinel: true, Unmerged: true, Exits: []int{7}}
	for _, c := range []struct {
		node workflow.ManifestNode
		seen workflow.Seen
		want string
	}{
		{workflow.ManifestNode{Node: "x", Operation: "git.integrate_plan_branch", Gates: ci}, workflow.Seen{Exits: []int{2}}, "the check before the merge of x failed (exit 2)"},
		{workflow.ManifestNode{Node: "x", Control: "gate.cicd", Gates: ci}, workflow.Seen{Exits: []int{2}}, "the cicd gate of x failed (exit 2)"},
		{workflow.ManifestNode{Node: "x", Control: "gate.cicd", Gates: ci, Args: fix}, workflow.Seen{Exits: []int{2, 3}}, "the cicd gate of x failed (exit 2) and its auto_resolve script as well (exit 3; its output is in the job's log)"},
		{workflow.ManifestNode{Node: "x", Control: "gate.cicd", Gates: ci, Args: fix}, workflow.Seen{Exits: []int{2, 0, 4}}, "the cicd gate of x failed (exit 2), and again (exit 4) after its auto_resolve script"},
		{workflow.ManifestNode{Node: "x", Control: "gate.cicd"}, workflow.Seen{}, "skipped: no CI script"},
		{workflow.ManifestNode{Node: "x", Operation: "git.commit"}, workflow.Seen{}, ""},
		{workflow.ManifestNode{Node: "x", Control: "gate.conflict_resolution", Args: fix}, open, "the script that resolves conflicts failed (exit 7)"},
		{workflow.ManifestNode{Node: "x", Control: "gate.conflict_resolution"}, open, "the agent that resolves conflicts failed (exit 7)"},
	} {
		if got := workflow.Control(c.node, c.seen).Reason; got != c.want {
			t.Errorf("%+v, %v: %q, want %q", c.node, c.seen, got, c.want)
		}
	}
}

// V23: seed 000's lists of operations and policies.
func TestInventory(t *testing.T) {
	ops, policies, labels := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, u := range workflow.Inventory() {
		if labels[u.Label] || (u.Operation == "") == (u.Policy == "") || (u.Policy == "") == (u.Class == "") {
			t.Errorf("row %+v", u)
		}
		labels[u.Label] = true
		if u.Operation != "" {
			ops[u.Operation] = true
			prefix := map[workflow.Class]string{workflow.EnvironmentBuiltin: "cap.env.builtin.", workflow.EnvironmentShell: "cap.env.shell.", workflow.Agent: "cap."}[u.Class]
			if u.Label != prefix+u.Operation {
				t.Errorf("label %s of %s %s", u.Label, u.Class, u.Operation)
			}
			continue
		}
		policies[u.Policy] = true
		if u.Label != "control."+u.Policy {
			t.Errorf("label %s of policy %s", u.Label, u.Policy)
		}
	}
	const wantOps = "prompt.resolve agent.invoke worktree.prepare worktree.cleanup plan.persist git.stage_commit git.stage git.commit " +
		"git.integrate_plan_branch git.save_worktree_patch patch.pipeline_prepare patch.pipeline_finalize patch.execute_pipeline " +
		"build.materialize_step merge.sentinel.write merge.sentinel.clear command.run cicd.run"
	const wantPolicies = "gate.stop_condition gate.conflict_resolution gate.cicd gate.approval terminal"
	for _, c := range []struct {
		got  map[string]bool
		want []string
	}{{ops, strings.Fields(wantOps)}, {policies, strings.Fields(wantPolicies)}} {
		if len(c.got) != len(c.want) {
			t.Errorf("%d entries, want %d", len(c.got), len(c.want))
		}
		for _, w := range c.want {
			if !c.got[w] {
				t.Errorf("%s is missing", w)
			}
		}
	}
}
