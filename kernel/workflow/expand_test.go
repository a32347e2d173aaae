package workflow_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/workflow"
)

// everyField has a placeholder in every field that is expanded. %s is where
// each goes wrong in turn.
var everyField = []struct{ path, json, good string }{
	{"nodes[x].name", `"name": %q`, "${slug}"},
	{"nodes[x].args.command", `"args": {"command": %q}`, "echo ${slug}"},
	{"nodes[x].needs[0].plan_branch.slug", `"needs": [{"plan_branch": {"slug": %q}}]`, "${slug}"},
	{"nodes[x].needs[0].plan_doc.slug", `"needs": [{"plan_doc": {"slug": %q, "branch": "b"}}]`, "${slug}"},
	{"nodes[x].needs[0].plan_doc.branch", `"needs": [{"plan_doc": {"slug": "s", "branch": %q}}]`, "draft/${slug}"},
	{"nodes[x].needs[0].plan_commits.branch", `"needs": [{"plan_commits": {"slug": "s", "branch": %q}}]`, "draft/${slug}"},
	{"nodes[x].needs[0].target_branch.name", `"needs": [{"target_branch": {"name": %q}}]`, "${slug}"},
	{"nodes[x].needs[0].merge_sentinel.slug", `"needs": [{"merge_sentinel": {"slug": %q}}]`, "${slug}"},
	{"nodes[x].needs[0].command_patch.job_id", `"needs": [{"command_patch": {"job_id": %q}}]`, "${slug}"},
	{"nodes[x].needs[0].custom.key", `"needs": [{"custom": {"type_id": "stage_token", "key": %q}}]`, "approve:${slug}"},
	{"nodes[x].produces.succeeded[0].custom.key", `"produces": {"succeeded": [{"custom": {"type_id": "stage_token", "key": %q}}]}`, "approve:${slug}"},
	{"nodes[x].produces.blocked[0].merge_sentinel.slug", `"produces": {"blocked": [{"merge_sentinel": {"slug": %q}}]}`, "${slug}"},
	{"nodes[x].locks[0].key", `"locks": [{"key": %q, "mode": "shared"}]`, "branch:${slug}"},
	{"nodes[x].locks[0].units", `"locks": [{"key": "gpu", "mode": "shared", "units": %q}]`, "${n}"},
	{"nodes[x].preconditions[0].branch", `"preconditions": [{"kind": "branch_exists", "branch": %q}]`, "${slug}"},
	{"nodes[x].preconditions[0].args.branch", `"preconditions": [{"kind": "custom", "id": "branch_exists", "args": {"branch": %q}}]`, "${slug}"},
	{"nodes[x].preconditions[0].oid", `"preconditions": [{"kind": "pinned_head", "branch": "main", "oid": %q}]`, "${oid}"},
	{"nodes[x].gates[0].required", `"gates": [{"kind": "approval", "required": %q}]`, "${yes}"},
	{"nodes[x].retry.mode", `"retry": {"mode": %q, "budget": 1}`, "${mode}"},
	{"nodes[x].retry.budget", `"retry": {"mode": "on_failure", "budget": %q}`, "${n}"},
	{"nodes[x].timeout", `"timeout": %q`, "${n}m"},
	{"nodes[x].max_retries", `"max_retries": %q`, "${n}"},
	{"nodes[x].max_resumes", `"resumable": true, "max_resumes": %q`, "${n}"},
	{"nodes[x].max_reclaims", `"max_reclaims": %q`, "${n}"},
	{"nodes[x].resumable", `"resumable": %q`, "${yes}"},
	{"nodes[x].idempotent", `"idempotent": %q`, "${yes}"},
	{"nodes[x].effect_in_doubt", `"effect_in_doubt": %q`, "${doubt}"},
	{"nodes[x].transient", `"transient": %q`, "${yes}"},
	{"nodes[x].executor", `"executor": %q`, "${slug}"},
	{"nodes[x].options[0]", `"options": [%q]`, "cpus=${n}"},
	{"nodes[x].retry_on[0]", `"max_retries": 1, "retry_on": [%q]`, "7${n}"},
}

var fieldParams = `"params": {"slug": "foo", "n": 2, "yes": true, "mode": "on_failure", "doubt": "ask", "oid": "0123456789012345678901234567890123456789"}`

func withField(json, value string) string {
	args := `"args": {"command": "true"}, `
	if strings.HasPrefix(json, `"args"`) {
		args = ""
	}
	node := `{"id": "x", "kind": "shell", "uses": "cap.env.shell.command.run", ` + args + fmt.Sprintf(json, value) + `}`
	return strings.Replace(wrap(node), `"params": {"slug": "foo", "n": 2}`, fieldParams, 1)
}

func TestExpansionCoversEveryField(t *testing.T) {
	for _, f := range everyField {
		t.Run(f.path, func(t *testing.T) {
			_, m := compile(t, withField(f.json, f.good), nil)
			if strings.Contains(fmt.Sprintf("%+v", m), "${") {
				t.Errorf("a placeholder is left: %+v", m)
			}
			for text, want := range map[string]string{
				"${gone}": "unresolved parameter `gone` in " + f.path,
				"${slug":  "unclosed parameter placeholder in " + f.path,
				"${}":     "empty parameter placeholder in " + f.path,
			} {
				_, err := build(withField(f.json, text), nil)
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%s: got  %v\nwant %s", text, err, want)
				}
				if ds, ok := errors.AsType[workflow.Diagnostics](err); !ok || ds[0].Field != f.path || ds[0].Node != "x" || ds[0].Pos.Line == 0 {
					t.Errorf("%s: the finding does not name its place: %+v", text, err)
				}
			}
		})
	}
}

func TestExpansionOfContractsAndGates(t *testing.T) {
	text := `{"id": "t", "version": "v1", "params": {"k": "thing", "s": "./ci.sh", "yes": "On"},
		"artifact_contracts": [{"id": "${k}", "version": "${gone}"}], "nodes": [
		{"id": "c", "kind": "gate", "uses": "control.gate.cicd", "gates": [{"kind": "cicd", "script": "${s}", "auto_resolve": "${maybe}"}]}]}`
	_, err := build(text, nil)
	for _, want := range []string{"unresolved parameter `gone` in artifact_contracts[0].version", "unresolved parameter `maybe` in nodes[c].gates[0].auto_resolve"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
}

func TestCoercions(t *testing.T) {
	for json, want := range map[string]string{
		`"gates": [{"kind": "approval", "required": "maybe"}]`:               "invalid bool value `maybe` for nodes[x].gates[0].required",
		`"retry": {"mode": "on_failure", "budget": "-1"}`:                    "invalid u32 value `-1` for nodes[x].retry.budget",
		`"retry": {"mode": "on_failure", "budget": "4294967296"}`:            "invalid u32 value `4294967296` for nodes[x].retry.budget",
		`"retry": {"mode": "sometimes"}`:                                     "invalid retry mode value `sometimes` for nodes[x].retry.mode",
		`"retry": {"mode": "on_failure"}`:                                    "retry mode on_failure of node `x` has no budget",
		`"retry": {"budget": 3}`:                                             "retry.budget has no effect",
		`"retry": {"mode": "on_failure", "budget": 3}, "max_retries": 2`:     "max_retries and retry.budget of node `x` disagree",
		`"timeout": "soon"`:                                                  "invalid duration value `soon` for nodes[x].timeout",
		`"timeout": "-1s"`:                                                   "invalid duration value `-1s`",
		`"timeout": -18446743073`:                                            "invalid duration value `-18446743073`",
		`"max_resumes": 3`:                                                   "max_resumes has no effect",
		`"retry_on": ["exit"]`:                                               "retry_on has no effect",
		`"max_retries": 1, "retry_on": ["sunspots"]`:                         "invalid failure class `sunspots`",
		`"max_retries": 1, "retry_on": [256]`:                                "invalid exit code `256`",
		`"effect_in_doubt": "never"`:                                         "invalid effect_in_doubt value `never` for nodes[x].effect_in_doubt; expected one of fail, ask, rerun",
		`"effect_in_doubt": "ask", "idempotent": true`:                       "effect_in_doubt has no effect: node `x` is idempotent",
		`"effect_in_doubt": "fail"`:                                          "effect_in_doubt has no effect: node `x` is not executed again when its runner is lost",
		`"effect_in_doubt": "ask", "max_reclaims": 0`:                        "effect_in_doubt has no effect: node `x` is not executed again when its runner is lost",
		`"transient": "often"`:                                               "invalid transient value `often`",
		`"preconditions": [{"kind": "pinned_head", "branch": "m"}]`:          "needs branch and oid, a full commit id",
		`"gates": [{"kind": "approval", "required": true, "policy": "ask"}]`: "invalid gate policy value `ask`",
	} {
		_, err := build(wrap(`{"id": "x", "kind": "shell", "uses": "cap.env.shell.command.run", "args": {"command": "a"}, `+json+`}`), nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\ngot  %v\nwant %s", json, err, want)
		}
	}
}

func TestEscapeAndSinglePass(t *testing.T) {
	_, m := compile(t, strings.Replace(wrap(`{"id": "x", "kind": "shell", "uses": "cap.env.shell.command.run", "args": {"command": "echo $${HOME} ${slug} $slug $${slug}}"}}`),
		`"foo"`, `"${n}"`, 1), nil)
	if got := m.Nodes["x"].Args["command"]; got != "echo ${HOME} ${n} $slug ${slug}}" {
		t.Errorf("got %q", got)
	}
}

func TestSpecCarriesWhatTheNodeSays(t *testing.T) {
	jobs, _ := compile(t, wrap(`{"id": "x", "name": "Say ${slug}", "kind": "shell", "uses": "cap.env.shell.command.run", "args": {"command": "a"},
		"timeout": 90, "max_retries": 2, "retry_on": ["exit", 75], "resumable": true, "max_resumes": 4, "idempotent": true,
		"transient": "remove", "executor": "slurm", "options": ["cpus=${n}", "--exclusive"], "gates": [{"kind": "approval", "required": true}],
		"locks": [{"key": "gpu", "mode": "shared", "units": 1}], "preconditions": [{"kind": "clean_worktree"}]}`), nil)
	j := jobs["x"]
	s := j.Spec
	if s.Name != "Say foo" || s.Task.Timeout != 90*time.Second || s.Budget != (kernel.Budget{Retries: 2, Resumes: 4, Reclaims: 2}) ||
		!s.Retry.Covers(kernel.ExitFailure, 1) || !s.Retry.Exits.Has(75) || s.Retry.Covers(kernel.Timeout, 124) || !s.Resumable || !s.Idempotent ||
		s.Transient != kernel.Remove || s.Task.Executor != "slurm" || !slices.Equal(s.Task.Options, []string{"cpus=2", "--exclusive"}) || !s.Task.Builtin || strings.Join(s.Task.Args, " ") != "__workflow-node --job-id id-x" {
		t.Errorf("spec: %+v", s)
	}
	if j.Approval != kernel.Require(someTime, "ann") {
		t.Errorf("approval: %+v", j.Approval)
	}
	if len(s.Locks) != 1 || s.Locks[0] != (kernel.Lock{Key: "gpu", Mode: kernel.Shared, Units: 1}) || len(s.Preconditions) != 1 {
		t.Errorf("locks %+v, preconditions %+v", s.Locks, s.Preconditions)
	}
	o := s.Origin
	if o.Run != "run_1" || o.Alias != "draft" || o.Plan != "foo" || o.Branch != "draft/foo" || o.About.Class != "environment_shell" ||
		o.About.Operation != "command.run" || len(o.About.Gates) != 1 || o.About.Gates[0] != "approval(required=true)" {
		t.Errorf("origin: %+v", o)
	}
}

func TestRetryOnFailureIsABudgetOfRetries(t *testing.T) {
	for _, text := range []string{`"retry": {"mode": "on_failure", "budget": 3}`, `"retry": {"mode": "on_failure"}, "max_retries": 3`, `"max_retries": 3`} {
		jobs, _ := compile(t, wrap(`{"id": "x", "kind": "shell", "uses": "cap.env.shell.command.run", "args": {"command": "a"}, `+text+`}`), nil)
		s := jobs["x"].Spec
		if s.Budget.Retries != 3 || !s.Retry.Covers(kernel.ExitFailure, 1) || !s.Retry.Covers(kernel.Timeout, 124) || s.Retry.Covers(kernel.WorkerLost, 1) {
			t.Errorf("%s: %+v %+v", text, s.Budget, s.Retry)
		}
	}
}

// A node that asks an agent may go on with its conversation, and with retries
// it waits for a provider that may answer later.
func TestNodesThatAskAnAgent(t *testing.T) {
	const ask = `{"id": "x", "kind": "agent", "uses": "cap.agent.invoke", "needs": [{"custom": {"type_id": "prompt_text", "key": "k"}}]`
	hashes := map[string]bool{}
	for more, want := range map[string]bool{``: false, `, "resume": true`: true, `, "resume": "${yes}"`: true, `, "resume": false`: false} {
		jobs, m := compile(t, strings.Replace(wrap(ask+more+`}`), `"params": {`, `"params": {"yes": true, `, 1), nil)
		if got := jobs["x"].Spec.KeepSession; got != want {
			t.Errorf("%s: %v", more, got)
		}
		hashes[m.PolicyHash] = true
	}
	if len(hashes) != 2 {
		t.Errorf("%d policy hashes of 2 policies", len(hashes))
	}
	for text, retried := range map[string]bool{
		ask + `, "max_retries": 1}`:                          true,
		ask + `, "max_retries": 1, "retry_on": ["timeout"]}`: false,
		`{"id": "x", "kind": "shell", "uses": "cap.env.shell.command.run", "args": {"command": "a"}, "max_retries": 1}`: false,
	} {
		jobs, _ := compile(t, wrap(text), nil)
		r := jobs["x"].Spec.Retry
		if r.Covers(kernel.RateLimited, 1) != retried || r.Covers(kernel.Overloaded, 1) != retried || r.Covers(kernel.Unauthorized, 1) {
			t.Errorf("%s: classes %b", text, r.Classes)
		}
	}
	jobs, _ := compile(t, wrap(ask+`, "max_retries": 1, "retry_on": ["unauthorized", "overloaded", "rate_limited"]}`), nil)
	if r := jobs["x"].Spec.Retry; !r.Covers(kernel.RateLimited, 1) || !r.Covers(kernel.Unauthorized, 1) || !r.Covers(kernel.Overloaded, 1) || r.Covers(kernel.ExitFailure, 1) {
		t.Errorf("classes %b", r.Classes)
	}
	if _, err := build(wrap(`{"id": "x", "uses": "cap.env.builtin.git.stage_commit", "resume": true}`), nil); err == nil || !strings.Contains(err.Error(), "resume has no effect: node `x` asks no agent") {
		t.Errorf("of a commit: %v", err)
	}
}

func TestWhatBecomesOfAnEffectInDoubt(t *testing.T) {
	hashes := map[string]bool{}
	for more, want := range map[string]kernel.InDoubt{``: kernel.FailInDoubt, `, "effect_in_doubt": "ask"`: kernel.AskInDoubt,
		`, "effect_in_doubt": "rerun"`: kernel.RerunInDoubt, `, "effect_in_doubt": "fail", "max_reclaims": 1`: kernel.FailInDoubt} {
		jobs, m := compile(t, wrap(`{"id": "x", "kind": "shell", "uses": "cap.env.shell.command.run", "args": {"command": "a"}`+more+`}`), nil)
		if got := jobs["x"].Spec.InDoubt; got != want {
			t.Errorf("%s: %s", more, got)
		}
		hashes[m.PolicyHash] = true
	}
	if len(hashes) != 4 {
		t.Errorf("%d policy hashes of 4 policies", len(hashes))
	}
	text := wrap(`{"id": "x", "uses": "cap.env.builtin.git.stage_commit", "effect_in_doubt": "ask"%s}`)
	if _, err := build(fmt.Sprintf(text, ""), nil); err == nil || !strings.Contains(err.Error(), "effect_in_doubt has no effect: node `x` does nothing that cannot be looked up") {
		t.Errorf("of a commit: %v", err)
	}
	if _, err := build(fmt.Sprintf(text, `, "gates": [{"kind": "script", "script": "true"}]`), nil); err != nil {
		t.Errorf("of a commit whose gate runs a script: %v", err)
	}
}

func TestUntilGateIsABudgetOfItsRoute(t *testing.T) {
	for budget, want := range map[string]string{"0": "[]", "2": "[{failed id-commit 2}]"} {
		jobs, _ := compile(t, wrap(stageCommit(`"gate"`), gateNode(`"on": {"failed": ["commit"]}, "retry": {"mode": "until_gate", "budget": `+budget+`}, "gates": [{"kind": "script", "script": "x"}]`)), nil)
		if got := fmt.Sprint(jobs["gate"].Spec.Routes); got != want {
			t.Errorf("budget %s: %s, want %s", budget, got, want)
		}
	}
}

func TestReclaimDefaults(t *testing.T) {
	for node, want := range map[string]int{
		`{"id": "x", "kind": "shell", "uses": "cap.env.shell.command.run", "args": {"command": "a"}}`:                                         0,
		`{"id": "x", "kind": "shell", "uses": "cap.env.shell.command.run", "args": {"command": "a"}, "idempotent": true}`:                     2,
		`{"id": "x", "kind": "shell", "uses": "cap.env.shell.command.run", "args": {"command": "a"}, "effect_in_doubt": "ask"}`:               2,
		`{"id": "x", "kind": "shell", "uses": "cap.env.shell.command.run", "args": {"command": "a"}, "effect_in_doubt": "rerun"}`:             2,
		`{"id": "x", "kind": "shell", "uses": "cap.env.shell.command.run", "args": {"command": "a"}, "max_reclaims": 5}`:                      5,
		`{"id": "x", "uses": "cap.env.builtin.git.stage_commit"}`:                                                                             2,
		`{"id": "x", "kind": "gate", "uses": "control.terminal"}`:                                                                             2,
		`{"id": "x", "kind": "gate", "uses": "control.gate.cicd", "gates": [{"kind": "cicd", "script": "s"}]}`:                                0,
		`{"id": "x", "kind": "gate", "uses": "control.gate.cicd", "gates": [{"kind": "cicd", "script": ""}]}`:                                 2,
		`{"id": "x", "uses": "cap.env.builtin.git.stage_commit", "gates": [{"kind": "script", "script": "s"}]}`:                               0,
		`{"id": "x", "uses": "cap.env.builtin.git.save_worktree_patch", "produces": {"succeeded": [{"command_patch": {"job_id": "other"}}]}}`: 2,
	} {
		jobs, _ := compile(t, wrap(node), nil)
		if got := jobs["x"].Spec.Budget.Reclaims; got != want {
			t.Errorf("%s: %d reclaims, want %d", node, got, want)
		}
	}
}

func TestCommandPatchOfANode(t *testing.T) {
	jobs, m := compile(t, wrap(
		`{"id": "save", "uses": "cap.env.builtin.git.save_worktree_patch", "produces": {"succeeded": [{"command_patch": {"job_id": "save"}}]}}`,
		`{"id": "use", "kind": "shell", "uses": "cap.env.shell.command.run", "args": {"command": "a"}, "needs": [{"command_patch": {"job_id": "save"}}]}`), nil)
	want := kernel.Artifact{Kind: kernel.CommandPatch, Name: "id-save"}
	if jobs["save"].Spec.Produces[0] != want || jobs["use"].Spec.Needs[0] != want {
		t.Errorf("%v, %v", jobs["save"].Spec.Produces, jobs["use"].Spec.Needs)
	}
	if got, err := m.Nodes["use"].Needs[0].Artifact(); err != nil || got != want {
		t.Errorf("manifest: %v, %v", got, err)
	}
}

// A budget of retries is none of the routes that a failure takes.
func TestRetryOnFailureIsNoBudgetOfARoute(t *testing.T) {
	const shell = `"kind": "shell", "uses": "cap.env.shell.command.run", "args": {"command": "a"}`
	jobs, _ := compile(t, wrap(`{"id": "x", `+shell+`, "retry": {"mode": "on_failure", "budget": 3}, "on": {"succeeded": ["y"], "failed": ["z"]}}`,
		`{"id": "y", `+shell+`}`, `{"id": "z", `+shell+`}`), nil)
	if got := fmt.Sprint(jobs["x"].Spec.Routes); got != "[{succeeded id-y 0} {failed id-z 0}]" {
		t.Errorf("routes %s", got)
	}
}
