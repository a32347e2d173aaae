package workflow_test

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vizier-scheduler/vizier/kernel/workflow"
)

// nodeKeys returns the keys that a node may have, as the decoder's hint names
// them.
func nodeKeys(t *testing.T) []string {
	t.Helper()
	_, err := build(wrap(`{"id": "a", "uses": "cap.env.shell.command.run", "args": {"command": "x"}, "no such key": 1}`), nil)
	m := regexp.MustCompile(`known keys are ([a-z_, ]+)`).FindStringSubmatch(asText(err))
	if m == nil {
		t.Fatalf("no keys in: %v", err)
	}
	return strings.Split(m[1], ", ")
}

func asText(err error) string {
	if err == nil {
		return ""
	}
	return strings.ReplaceAll(err.Error(), "\n", " ")
}

// A key of a node that a person may write reaches the job, and the policy hash,
// by which runs of another policy are told apart. What does not is named.
func TestEveryKeyOfANodeCounts(t *testing.T) {
	base := map[string]string{"id": `"a"`, "kind": `"shell"`, "uses": `"cap.env.shell.command.run"`, "args": `{"command": "x"}`}
	examples := map[string]string{
		"id": `"c"`, "name": `"A"`, "kind": `"builtin"`, "uses": `"cap.env.builtin.worktree.cleanup"`, "args": `{"command": "y"}`,
		"after":    `[{"node_id": "b"}]`,
		"needs":    `[{"plan_doc": {"slug": "s", "branch": "draft/s"}}]`,
		"produces": `{"succeeded": [{"plan_doc": {"slug": "s", "branch": "draft/s"}}]}`,
		"locks":    `[{"key": "k", "mode": "exclusive"}]`, "preconditions": `[{"kind": "clean_worktree"}]`,
		"gates": `[{"kind": "approval", "required": "true"}]`, "retry": `{"mode": "on_failure", "budget": "2"}`, "on": `{"succeeded": ["b"]}`,
		"timeout": `"5m"`, "estimate": `"3m"`, "approval_timeout": `"4h"`, "max_retries": `"2"`, "max_resumes": `"2"`, "max_reclaims": `"7"`, "effect_in_doubt": `"ask"`, "resumable": `"true"`,
		"idempotent": `"true"`, "transient": `"transient"`, "executor": `"far"`, "options": `["a=b"]`, "retry_on": `["timeout"]`,
		"resume": `"true"`, "sandbox": `"required"`, "write": `["out"]`, "network": `"none"`,
		"secrets": `["T=@/run/token"]`, "container": `"img"`,
	}
	with := map[string]map[string]string{ // what a key is of use with alone
		"approval_timeout": {"gates": `[{"kind": "approval", "required": "true"}]`},
		"write":            {"sandbox": `"best-effort"`}, "network": {"sandbox": `"best-effort"`},
		"options": {"executor": `"far"`}, "max_resumes": {"resumable": `"true"`}, "retry_on": {"max_retries": `"1"`}, "max_reclaims": {"idempotent": `"true"`},
		"kind": {"uses": `"cap.env.builtin.worktree.cleanup"`}, "uses": {"kind": `"builtin"`},
		"resume": {"kind": `"agent"`, "uses": `"cap.agent.invoke"`, "args": `{}`, "needs": `[{"custom": {"type_id": "prompt_text", "key": "p"}}]`},
	}
	noHash := map[string]string{"name": "for people"}
	noJob := map[string]string{"args": "in the manifest, which a job's runtime reads"}
	for _, key := range nodeKeys(t) {
		t.Run(key, func(t *testing.T) {
			if examples[key] == "" {
				t.Fatal("give an example of it above, which shows what it changes")
			}
			before := maps.Clone(base)
			maps.Copy(before, with[key])
			if key == "kind" || key == "uses" {
				before = base
			}
			after := maps.Clone(before)
			maps.Copy(after, with[key])
			after[key] = examples[key]
			was, wasErr := build(wrap(nodeOf(before), cmdNode("b", "")), nil)
			is, isErr := build(wrap(nodeOf(after), cmdNode("b", "")), nil)
			if wasErr != nil || isErr != nil {
				t.Fatalf("%v\n%v", wasErr, isErr)
			}
			if same := workflow.PolicyHash(was) == workflow.PolicyHash(is); same != (noHash[key] != "") {
				t.Errorf("the policy hash is the same: %v", same)
			}
			jobs, manifest := compileTemplate(t, was)
			now, then := compileTemplate(t, is)
			for id, j := range now { // the hash is told apart already
				j.Spec.Origin.Template.PolicyHash = ""
				now[id] = j
			}
			for id, j := range jobs {
				j.Spec.Origin.Template.PolicyHash = ""
				jobs[id] = j
			}
			sameJob := cmp.Diff(jobs, now) == ""
			manifest.PolicyHash, then.PolicyHash = "", ""
			if sameJob && cmp.Diff(manifest, then) == "" {
				t.Error("neither a job nor the manifest is another")
			}
			if sameJob != (noJob[key] != "") {
				t.Errorf("the jobs are the same: %v", sameJob)
			}
		})
	}
}

func nodeOf(keys map[string]string) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		parts = append(parts, `"`+k+`": `+keys[k])
	}
	return "{" + strings.Join(parts, ", ") + "}"
}
