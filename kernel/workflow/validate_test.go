package workflow_test

import (
	"strings"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Nodes that the cases below share.
const (
	shell     = `{"id": "sh", "kind": "shell", "uses": "cap.env.shell.command.run", "args": {"command": "true"}}`
	prompt    = `{"id": "p", "uses": "cap.env.builtin.prompt.resolve", "produces": {"succeeded": [{"custom": {"type_id": "prompt_text", "key": "k"}}]}}`
	agent     = `{"id": "a", "kind": "agent", "uses": "cap.agent.invoke", "needs": [{"custom": {"type_id": "prompt_text", "key": "k"}}]}`
	integrate = `{"id": "i", "uses": "cap.env.builtin.git.integrate_plan_branch", "args": {"slug": "foo"}, "on": {"succeeded": ["c"]}}`
)

// The rules of templates, by the scenario numbers of the tests they come
// from. Not here: V1-V3 and V4-V9 have tests of their own; V19's reserved
// operation_output contract belongs to a later revision that is out of scope;
// the single-gate cardinality of gate.cicd is lifted on purpose.
var validateCases = []struct {
	name  string
	nodes []string
	want  string // part of the only finding; "": accepted
}{
	{"V10 unknown after node", []string{`{"id": "x", "kind": "shell", "uses": "cap.env.shell.command.run", "args": {"command": "a"}, "after": [{"node_id": "shh"}]}`, shell},
		"node `x` references unknown after node `shh`; did you mean `sh`?"},
	{"V11 undeclared contract", []string{`{"id": "x", "kind": "shell", "uses": "cap.env.shell.command.run", "args": {"command": "a"}, "needs": [{"custom": {"type_id": "thing", "key": "k"}}]}`},
		"node `x` references artifact `custom:thing:k` without declared artifact contract `thing`"},
	{"V13 unknown on target", []string{`{"id": "x", "kind": "shell", "uses": "cap.env.shell.command.run", "args": {"command": "a"}, "on": {"failed": ["zz"]}}`},
		"node `x` references unknown on.failed target `zz`"},
	{"V14 several targets of one outcome", []string{`{"id": "x", "kind": "shell", "uses": "cap.env.shell.command.run", "args": {"command": "a"}, "on": {"succeeded": ["sh", "y"]}}`, shell,
		`{"id": "y", "kind": "shell", "uses": "cap.env.shell.command.run", "args": {"command": "a"}}`}, ""},
	{"V15 custom artifact with a contract", []string{prompt, agent}, ""},
	{"V16 built-in kinds need no declaration", []string{`{"id": "x", "kind": "shell", "uses": "cap.env.shell.command.run", "args": {"command": "a"}, "needs": [{"plan_doc": {"slug": "s"}}]}`}, ""},
	{"V17 stage token", []string{`{"id": "x", "kind": "shell", "uses": "cap.env.shell.command.run", "args": {"command": "a"}, "produces": {"succeeded": [{"custom": {"type_id": "stage_token@v1", "key": "approve:foo"}}]}}`}, ""},
	{"a contract of another version", []string{`{"id": "x", "kind": "shell", "uses": "cap.env.shell.command.run", "args": {"command": "a"}, "needs": [{"custom": {"type_id": "stage_token@v2", "key": "k"}}]}`},
		"of contract `stage_token@v2`, but `v1` is declared"},
	{"V20 legacy label", []string{`{"id": "x", "uses": "vizier.approve.apply"}`}, "template t@v1 node `x` uses unknown label `vizier.approve.apply`; declare one of cap.env.builtin.*, cap.env.shell.*, cap.agent.invoke, or control.*"},
	{"V21 legacy cap label", []string{`{"id": "x", "uses": "cap.git.stage_commit"}`}, "uses unknown label `cap.git.stage_commit`"},
	{"V22 unknown label", []string{`{"id": "x", "uses": "cap.env.builtin.git.stge"}`}, "did you mean `cap.env.builtin.git.stage`?"},
	{"V22 empty label", []string{`{"id": "x", "uses": " "}`}, "node `x` must declare an explicit canonical uses id"},
	{"V23 kind and class disagree", []string{`{"id": "x", "uses": "cap.agent.invoke"}`}, "declares executor class `agent` but kind `builtin` requires `environment_builtin`"},
	{"V23 gate with an operation", []string{`{"id": "x", "kind": "gate", "uses": "cap.env.shell.command.run"}`}, "is a gate node and cannot declare executor operation `command.run`"},
	{"V23 policy without gate", []string{`{"id": "x", "uses": "control.terminal"}`}, "declares control policy `terminal` but kind `builtin` is not gate"},
	{"V23 policy with a script", []string{`{"id": "x", "kind": "gate", "uses": "control.gate.approval", "args": {"script": "x"}}`}, "declares control policy `gate.approval` but also sets command/script args"},
	{"V24 agent without a prompt", []string{`{"id": "a", "kind": "agent", "uses": "cap.agent.invoke"}`}, "executor `agent.invoke` node `a` requires exactly one custom:prompt_text:* need, found 0"},
	{"V25 agent with two prompts", []string{`{"id": "a", "kind": "agent", "uses": "cap.agent.invoke", "needs": [{"custom": {"type_id": "prompt_text", "key": "k"}}, {"custom": {"type_id": "prompt_text", "key": "l"}}]}`}, "found 2"},
	{"an agent may need other things too", []string{`{"id": "a", "kind": "agent", "uses": "cap.agent.invoke", "needs": [{"custom": {"type_id": "prompt_text", "key": "k"}}, {"plan_doc": {"slug": "foo"}}]}`}, ""},
	{"V26 shell prompt without a script", []string{`{"id": "p", "kind": "shell", "uses": "cap.env.shell.prompt.resolve", "produces": {"succeeded": [{"custom": {"type_id": "prompt_text", "key": "k"}}]}}`}, "requires exactly one of command, script"},
	{"V26 shell prompt with both", []string{`{"id": "p", "kind": "shell", "uses": "cap.env.shell.prompt.resolve", "args": {"command": "a", "script": "b"}, "produces": {"succeeded": [{"custom": {"type_id": "prompt_text", "key": "k"}}]}}`}, "requires exactly one of command, script"},
	{"prompt that produces nothing", []string{`{"id": "p", "uses": "cap.env.builtin.prompt.resolve"}`}, "must produce exactly one artifact, custom:prompt_text:<key>"},
	{"a command with both", []string{`{"id": "x", "kind": "shell", "uses": "cap.env.shell.command.run", "args": {"command": "a", "script": "b"}}`}, "executor `command.run` node `x` has both command and script, and only one of them can run"},
	{"V27 worktree without a branch", []string{`{"id": "w", "uses": "cap.env.builtin.worktree.prepare", "args": {"branch": " "}}`}, "executor `worktree.prepare` node `w` requires at least one non-empty argument of branch, slug, plan"},
	{"V27 worktree with a slug", []string{`{"id": "w", "uses": "cap.env.builtin.worktree.prepare", "args": {"branch": "", "slug": "foo"}}`}, ""},
	{"V28 integrate without a branch", []string{`{"id": "i", "uses": "cap.env.builtin.git.integrate_plan_branch"}`}, "requires at least one non-empty argument of branch, source_branch, plan_branch, slug, plan"},
	{"V29 cicd.run without anything", []string{`{"id": "c", "kind": "shell", "uses": "cap.env.shell.cicd.run"}`}, "requires command or script, or a cicd gate with a script"},
	{"V30 cicd.run with a gate", []string{`{"id": "c", "kind": "shell", "uses": "cap.env.shell.cicd.run", "gates": [{"kind": "cicd", "script": "./ci.sh"}]}`}, ""},
	{"V31 patch without files", []string{`{"id": "c", "uses": "cap.env.builtin.patch.pipeline_prepare"}`}, "requires `files_json` to be a non-empty JSON array of strings"},
	{"V31 patch with no files", []string{`{"id": "c", "uses": "cap.env.builtin.patch.execute_pipeline", "args": {"files_json": "[]"}}`}, "requires `files_json` to be a non-empty JSON array of strings"},
	{"V32 git.stage with numbers", []string{`{"id": "c", "uses": "cap.env.builtin.git.stage", "args": {"files_json": "[1]"}}`}, "requires `files_json` to be a non-empty JSON array of strings"},
	{"V32 git.stage", []string{`{"id": "c", "uses": "cap.env.builtin.git.stage", "args": {"files_json": "[\".\"]"}}`}, ""},
	{"V33 message from a need", []string{`{"id": "c", "uses": "cap.env.builtin.git.commit", "args": {"message": "read_payload(commit_message)"}, "needs": [{"custom": {"type_id": "commit_message", "key": "k"}}]}`}, ""},
	{"V33 ambiguous message", []string{`{"id": "c", "uses": "cap.env.builtin.git.commit", "args": {"message": "read_payload(commit_message)"}, "needs": [{"custom": {"type_id": "commit_message", "key": "k"}}, {"custom": {"type_id": "commit_message", "key": "l"}}]}`}, "exactly one custom need that matches read_payload(commit_message), found 2"},
	{"V34 plan.persist with intent", []string{`{"id": "c", "uses": "cap.env.builtin.plan.persist", "args": {"spec_text": "do it", "intent": "i"}}`}, ""},
	{"plan.persist without a spec", []string{`{"id": "c", "uses": "cap.env.builtin.plan.persist"}`}, "requires at least one non-empty argument of spec_text, spec_file"},
	{"plan.persist from nowhere", []string{`{"id": "c", "uses": "cap.env.builtin.plan.persist", "args": {"spec_text": "x", "spec_source": "web"}}`}, "has spec_source `web`; expected inline, stdin or file"},
	{"build step by halves", []string{`{"id": "c", "uses": "cap.env.builtin.build.materialize_step", "args": {"build_id": "b"}}`}, "requires all of build_id, step_key, slug, branch, target, or none"},
	{"V35 until_gate without a way back", []string{stageCommit(`"gate"`), gateNode(`"retry": {"mode": "until_gate", "budget": 2}, "gates": [{"kind": "script", "script": "x"}]`)},
		"contract `gate.stop_condition` node `gate` has retry mode until_gate, so its on.failed must lead back to a node before it"},
	{"V35 until_gate back to the commit", []string{stageCommit(`"gate"`), gateNode(`"on": {"failed": ["commit"]}, "retry": {"mode": "until_gate", "budget": 2}, "gates": [{"kind": "script", "script": "x"}]`)}, ""},
	{"V35 until_gate to something beside it", []string{stageCommit(`"gate"`), gateNode(`"on": {"failed": ["sh"]}, "retry": {"mode": "until_gate", "budget": 2}, "gates": [{"kind": "script", "script": "x"}]`), shell},
		"its on.failed must lead back to a node before it"},
	{"V35 until_gate back to what is before the commit", []string{cmdNode("work", "", "succeeded: commit"), stageCommit(`"gate"`), gateNode(`"on": {"failed": ["work"]}, "retry": {"mode": "until_gate", "budget": 2}, "gates": [{"kind": "script", "script": "x"}]`)}, ""},
	{"stop condition without a commit before it", []string{shell, gateNode(`"after": [{"node_id": "sh"}]`)}, "must be the on.succeeded target of exactly one git.stage_commit or git.commit node, found 0"},
	{"commit without a stop condition after it", []string{stageCommit(`"sh"`), shell}, "must have exactly one stop-condition gate among its on.succeeded targets, found 0"},
	{"V36 auto_resolve without a loop", []string{integrate, `{"id": "c", "kind": "gate", "uses": "control.gate.cicd", "gates": [{"kind": "cicd", "script": "x", "auto_resolve": true}]}`}, "its on.failed must return to it"},
	{"V36 auto_resolve by a loop to itself", []string{integrate, `{"id": "c", "kind": "gate", "uses": "control.gate.cicd", "on": {"failed": ["c"]}, "gates": [{"kind": "cicd", "script": "x", "auto_resolve": true}]}`}, ""},
	{"V37 terminal with routes", []string{`{"id": "x", "kind": "gate", "uses": "control.terminal", "on": {"succeeded": ["sh"]}}`, shell}, "contract `terminal` node `x` must not declare outgoing routes"},
	{"V38 CI inside the merge and after it", []string{`{"id": "i", "uses": "cap.env.builtin.git.integrate_plan_branch", "args": {"slug": "foo"}, "gates": [{"kind": "cicd", "script": "x"}], "on": {"succeeded": ["c"]}}`,
		`{"id": "c", "kind": "gate", "uses": "control.gate.cicd", "gates": [{"kind": "cicd", "script": "y"}]}`}, ""},
	{"two CI gates in one template", []string{`{"id": "c", "kind": "gate", "uses": "control.gate.cicd", "gates": [{"kind": "cicd", "script": "y"}]}`,
		`{"id": "d", "kind": "gate", "uses": "control.gate.cicd", "gates": [{"kind": "cicd", "script": "y"}]}`}, ""},
	{"conflict gate that nothing routes to", []string{`{"id": "x", "kind": "gate", "uses": "control.gate.conflict_resolution"}`}, "must be the on.blocked target of exactly one git.integrate_plan_branch node, found 0"},
	{"conflict gate that does not return", []string{`{"id": "i", "uses": "cap.env.builtin.git.integrate_plan_branch", "args": {"slug": "foo"}, "on": {"blocked": ["x"]}}`,
		`{"id": "x", "kind": "gate", "uses": "control.gate.conflict_resolution", "args": {"auto_resolve": true}}`}, "its on.succeeded must include `i`"},
	{"duplicate ids", []string{shell, shell}, "defines duplicate node id `sh`"},
	{"ids that collide in file names", []string{`{"id": "a.b", "kind": "shell", "uses": "cap.env.shell.command.run", "args": {"command": "a"}}`, `{"id": "a-b", "kind": "shell", "uses": "cap.env.shell.command.run", "args": {"command": "a"}}`},
		"node ids `a.b` and `a-b` are the same in file names"},
	{"an id that is no word, and its place", []string{`{"id": "a b", "kind": "shell", "uses": "cap.env.shell.command.run", "args": {"command": "a"}}`, `{"id": "1", "kind": "shell", "uses": "cap.env.shell.command.run", "args": {"command": "a"}}`},
		"node ids `a b` and `1` are both called `1`"},
	{"a place, and an id that is no word", []string{`{"id": "2", "kind": "shell", "uses": "cap.env.shell.command.run", "args": {"command": "a"}}`, `{"id": "a b", "kind": "shell", "uses": "cap.env.shell.command.run", "args": {"command": "a"}}`},
		"node ids `2` and `a b` are both called `2`"},
	{"an id that is no word, and another place", []string{`{"id": "1", "kind": "shell", "uses": "cap.env.shell.command.run", "args": {"command": "a"}}`, `{"id": "a b", "kind": "shell", "uses": "cap.env.shell.command.run", "args": {"command": "a"}}`}, ""},
	{"a gate that nothing looks at", []string{`{"id": "x", "kind": "shell", "uses": "cap.env.shell.command.run", "args": {"command": "a"}, "gates": [{"kind": "script", "script": "x"}]}`}, "node `x` has a script gate that nothing looks at"},
	{"gate policy retry without retries", []string{`{"id": "c", "kind": "gate", "uses": "control.gate.cicd", "gates": [{"kind": "cicd", "script": "y", "policy": "retry"}]}`}, "has a gate with policy `retry` and nothing that retries"},
	{"gate policy retry", []string{`{"id": "c", "kind": "gate", "uses": "control.gate.cicd", "gates": [{"kind": "cicd", "script": "y", "policy": "retry"}], "retry": {"mode": "on_failure", "budget": 2}}`}, ""},
	{"approval that only warns", []string{`{"id": "x", "kind": "gate", "uses": "control.gate.approval", "gates": [{"kind": "approval", "required": true, "policy": "warn"}]}`}, "approval always blocks"},
	{"until_gate on a command", []string{`{"id": "x", "kind": "shell", "uses": "cap.env.shell.command.run", "args": {"command": "a"}, "retry": {"mode": "until_gate", "budget": 1}}`}, "which only a stop-condition gate can have"},
	{"a payload as the message", []string{needing("git.commit", "read_payload(commit_message:${slug})")}, ""},
	{"a payload as the message of a commit of everything", []string{needing("git.stage_commit", "read_payload(commit_message)")}, ""},
	{"a payload that nothing gives", []string{needing("git.stage_commit", "read_payload(other)")}, "requires exactly one custom need that matches read_payload(other), found 0"},
	{"a payload inside a message", []string{needing("git.commit", "see read_payload(commit_message)")}, "t.json:4: nodes[c].args.message has read_payload(…) where nothing is inserted; make it the whole message"},
	{"a payload inside the message of a commit of everything", []string{needing("git.stage_commit", "read_payload(commit_message) and more")}, "t.json:4: nodes[c].args.message has read_payload(…) where"},
	{"a payload as the message of a merge", []string{`{"id": "c", "uses": "cap.env.builtin.git.integrate_plan_branch", "args": {"slug": "x", "message": "read_payload(x)"}}`}, "t.json:4: nodes[c].args.message has read_payload(…) where nothing is inserted; only git.commit"},
	{"a container and a sandbox that is required", []string{`{"id": "x", "kind": "shell", "uses": "cap.env.shell.command.run", "args": {"command": "a"},
		"sandbox": "required",
		"container": "img"}`}, "t.json:6: node `x`: container img: a sandbox that is required cannot be enforced in a container"},
	{"no nodes", nil, "workflow template has no nodes"},
}

func needing(op, message string) string {
	return `{"id": "c", "uses": "cap.env.builtin.` + op + `", "args": {"message": "` + message + `"}, "needs": [{"custom": {"type_id": "commit_message", "key": "foo"}}]}`
}

func stageCommit(next string) string {
	return `{"id": "commit", "uses": "cap.env.builtin.git.stage_commit", "on": {"succeeded": [` + next + `]}}`
}

func gateNode(rest string) string {
	return `{"id": "gate", "kind": "gate", "uses": "control.gate.stop_condition", ` + rest + `}`
}

func TestValidate(t *testing.T) {
	for _, c := range validateCases {
		t.Run(c.name, func(t *testing.T) {
			tmpl, err := build(wrap(c.nodes...), nil)
			switch {
			case c.want == "" && err != nil:
				t.Fatalf("refused: %v", err)
			case c.want == "":
				compileTemplate(t, tmpl)
			case err == nil:
				t.Fatalf("accepted, want %q", c.want)
			case !strings.Contains(err.Error(), c.want):
				t.Fatalf("got  %v\nwant %s", err, c.want)
			case strings.Contains(err.Error(), "\n"):
				t.Fatalf("more than one finding:\n%v", err)
			}
		})
	}
}

// A gate for approvals asks for one, unless its argument or its own gate says
// otherwise.
func TestAGateForApprovalsAsks(t *testing.T) {
	for rest, want := range map[string]kernel.ApprovalState{
		``:                               kernel.Pending,
		`, "args": {"required": "true"}`: kernel.Pending,
		`, "args": {"required": "no"}`:   kernel.NotRequired,
		`, "gates": [{"kind": "approval", "required": true}]`:                               kernel.Pending,
		`, "gates": [{"kind": "approval", "required": false}]`:                              kernel.NotRequired,
		`, "args": {"required": "no"}, "gates": [{"kind": "approval", "required": true}]`:   kernel.Pending,
		`, "args": {"required": "yes"}, "gates": [{"kind": "approval", "required": false}]`: kernel.Pending,
		`, "approval_timeout": "4h"`:                                                        kernel.Pending,
	} {
		jobs, _ := compile(t, wrap(`{"id": "x", "kind": "gate", "uses": "control.gate.approval"`+rest+`}`, shell), nil)
		if got := jobs["x"].Approval.State; got != want || jobs["sh"].Approval.State != kernel.NotRequired {
			t.Errorf("%s: %v, want %v", rest, got, want)
		}
	}
}

func TestAllFindingsComeAtOnceInSourceOrder(t *testing.T) {
	_, err := build(wrap(
		`{"id": "a", "uses": "control.nothing"}`,
		`{"id": "b", "kind": "shell",
		  "uses": "cap.env.shell.command.run",
		  "after": [{"node_id": "nobody"}]}`,
		`{"id": "a", "kind": "shell", "uses": "cap.env.shell.command.run", "args": {"command": "x"}}`), nil)
	if err == nil {
		t.Fatal("accepted")
	}
	lines := strings.Split(err.Error(), "\n")
	want := []string{"t.json:4: ", "t.json:5: ", "t.json:7: ", "t.json:8: "}
	if len(lines) != len(want) {
		t.Fatalf("got %d findings, want %d:\n%v", len(lines), len(want), err)
	}
	for i, w := range want {
		if !strings.HasPrefix(lines[i], w) {
			t.Errorf("finding %d is %q, want it at %s", i, lines[i], w)
		}
	}
}
