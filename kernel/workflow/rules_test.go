package workflow_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel/workflow"
)

// What the rules say of more than one thing at a time, and of what they let
// pass.
func TestRulesOfNodes(t *testing.T) {
	const merge = `{"id": "i", "uses": "cap.env.builtin.git.integrate_plan_branch", "args": {"slug": "foo"}`
	conflict := func(id, rest string) string {
		return `{"id": "` + id + `", "kind": "gate", "uses": "control.gate.conflict_resolution"` + rest + `}`
	}
	ci := func(id, rest string) string {
		return `{"id": "` + id + `", "kind": "gate", "uses": "control.gate.cicd", "gates": [{"kind": "cicd", "script": "y"}]` + rest + `}`
	}
	sh := func(rest string) string {
		return `{"id": "x", "kind": "shell", "uses": "cap.env.shell.command.run", "args": {"command": "a"}` + rest + `}`
	}
	step := func(args string) string {
		return `{"id": "c", "uses": "cap.env.builtin.build.materialize_step", "args": {` + args + `}}`
	}
	const oid = "0123456789abcdef0123456789abcdef01234567"
	for _, c := range []struct {
		name  string
		nodes []string
		want  []string // parts of the findings, one each; none: accepted
	}{
		{"a build step with all of it", []string{step(`"build_id": "b", "step_key": "k", "slug": "s", "branch": "r", "target": "main"`)}, nil},
		{"a build step with nothing", []string{step(``)}, nil},
		{"a build step without one", []string{step(`"build_id": "b", "step_key": "k", "slug": "s", "branch": "r"`)}, []string{"requires all of build_id, step_key, slug, branch, target, or none"}},
		{"a prompt with another artifact", []string{`{"id": "p", "uses": "cap.env.builtin.prompt.resolve", "produces": {"succeeded": [{"custom": {"type_id": "prompt_text", "key": "k"}}, {"plan_doc": {"slug": "s"}}]}}`},
			[]string{"must produce exactly one artifact, custom:prompt_text:<key>"}},
		{"a prompt that makes something else", []string{`{"id": "p", "uses": "cap.env.builtin.prompt.resolve", "produces": {"succeeded": [{"plan_doc": {"slug": "s"}}]}}`},
			[]string{"must produce exactly one artifact, custom:prompt_text:<key>"}},
		{"a prompt with a script", []string{`{"id": "p", "uses": "cap.env.builtin.prompt.resolve", "args": {"script": "x"}, "produces": {"succeeded": [{"custom": {"type_id": "prompt_text", "key": "k"}}]}}`},
			[]string{"does not accept command/script args"}},
		{"an agent that needs more than its prompt", []string{`{"id": "a", "kind": "agent", "uses": "cap.agent.invoke", "needs": [{"custom": {"type_id": "prompt_text", "key": "k"}}, {"custom": {"type_id": "commit_message", "key": "k"}}]}`}, nil},
		{"a commit with two stop conditions", []string{stageCommit(`"gate", "g2"`), gateNode(`"gates": [{"kind": "script", "script": "x"}]`), strings.Replace(gateNode(`"gates": [{"kind": "script", "script": "x"}]`), `"gate"`, `"g2"`, 1)},
			[]string{"must have exactly one stop-condition gate among its on.succeeded targets, found 2"}},
		{"a payload in a text that is no message", []string{`{"id": "c", "uses": "cap.env.builtin.plan.persist", "args": {"spec_text": "x", "content": "a read_payload(b) c", "commit_message": "a read_payload(b) c"}}`}, nil},
		{"a payload in a message", []string{`{"id": "c", "uses": "cap.env.builtin.git.commit", "args": {"message": "a read_payload(b) c"}}`}, []string{"nodes[c].args.message has read_payload(…) where nothing is inserted"}},
		{"a branch of another form", []string{`{"id": "w", "uses": "cap.env.builtin.worktree.prepare", "args": {"branch": "a..b"}}`}, []string{"nodes[w].args.branch \"a..b\": git takes no such name"}},
		{"no id", []string{`{"id": " ", "kind": "shell", "uses": "cap.env.shell.command.run", "args": {"command": "a"}}`}, []string{"has a node without an id"}},
		{"no number of files", []string{`{"id": "c", "uses": "cap.env.builtin.git.stage", "args": {"files_json": "nothing"}}`}, []string{"requires `files_json`"}},
		{"a word that is no boolean", []string{merge + `, "on": {"blocked": ["g"]}}`, conflict("g", `, "args": {"auto_resolve": "maybe"}`)}, []string{"invalid bool value `maybe` for nodes[g].args.auto_resolve; expected true or false"}},
		{"squash that is no boolean", []string{`{"id": "i", "uses": "cap.env.builtin.git.integrate_plan_branch", "args": {"slug": "foo", "squash": "perhaps"}}`}, []string{"invalid bool value `perhaps` for nodes[i].args.squash; expected true or false"}},
		{"words that are", []string{`{"id": "i", "uses": "cap.env.builtin.git.integrate_plan_branch", "args": {"slug": "foo", "squash": "Off", "delete_branch": " yes "}}`}, nil},
		{"a plan from a file that has no name", []string{`{"id": "c", "uses": "cap.env.builtin.plan.persist", "args": {"spec_text": "x", "spec_source": "file"}}`}, []string{"has spec_source `file` and no spec_file"}},
		{"a plan from a file", []string{`{"id": "c", "uses": "cap.env.builtin.plan.persist", "args": {"spec_file": "x", "spec_source": "file"}}`}, nil},
		{"a plan from stdin", []string{`{"id": "c", "uses": "cap.env.builtin.plan.persist", "args": {"spec_text": "x", "spec_source": "stdin"}}`}, nil},
		{"a merge that repairs", []string{merge[:len(merge)-1] + `, "auto_resolve": true}}`}, []string{"merges what its gate accepts and repairs nothing"}},
		{"a merge whose gate repairs", []string{merge + `, "gates": [{"kind": "cicd", "script": "y", "auto_resolve": true}]}`}, []string{"merges what its gate accepts and repairs nothing"}},
		{"two conflict gates", []string{merge + `, "on": {"blocked": ["g", "h"]}}`, conflict("g", ""), conflict("h", "")}, []string{"has 2 conflict gates among its on.blocked targets; at most one is allowed"}},
		{"two CI gates after a merge", []string{merge + `, "on": {"succeeded": ["g", "h"]}}`, ci("g", ""), ci("h", "")}, []string{"has 2 cicd gates among its on.succeeded targets; at most one is allowed"}},
		{"one of each", []string{merge + `, "on": {"blocked": ["g"], "succeeded": ["h"]}}`, conflict("g", ""), ci("h", "")}, nil},
		{"a conflict gate of two merges", []string{merge + `, "on": {"blocked": ["g"]}}`,
			`{"id": "j", "uses": "cap.env.builtin.git.integrate_plan_branch", "args": {"slug": "bar"}, "on": {"blocked": ["g"]}}`, conflict("g", "")},
			[]string{"must be the on.blocked target of exactly one git.integrate_plan_branch node, found 2"}},
		{"a conflict gate that goes back", []string{merge + `, "on": {"blocked": ["g"]}}`, conflict("g", `, "args": {"auto_resolve": true}, "on": {"succeeded": ["i"]}`)}, nil},
		{"a conflict gate of a custom gate that goes on", []string{merge + `, "on": {"blocked": ["g"]}}`,
			conflict("g", `, "gates": [{"kind": "custom", "id": "conflict_resolution", "args": {"auto_resolve": "true"}}]`)}, []string{"its on.succeeded must include `i`"}},
		{"and of one that does not repair", []string{merge + `, "on": {"blocked": ["g"]}}`,
			conflict("g", `, "gates": [{"kind": "custom", "id": "conflict_resolution", "args": {"auto_resolve": "no"}}]`)}, nil},
		{"a stop condition after two commits", []string{stageCommit(`"gate"`), `{"id": "other", "uses": "cap.env.builtin.git.commit", "on": {"succeeded": ["gate"]}}`, gateNode(`"gates": [{"kind": "script", "script": "x"}]`)},
			[]string{"of exactly one git.stage_commit or git.commit node, found 2"}},
		{"a stop condition after a commit", []string{`{"id": "other", "uses": "cap.env.builtin.git.commit", "on": {"succeeded": ["gate"]}}`, gateNode(`"gates": [{"kind": "script", "script": "x"}]`)}, nil},
		{"a commit that ends the run", []string{`{"id": "commit", "uses": "cap.env.builtin.git.stage_commit"}`}, nil},
		{"CI that repairs and says how", []string{ci("c", `, "args": {"auto_resolve": "true", "auto_resolve_script": "fix"}`)}, nil},
		{"CI that repairs and does not say how", []string{ci("c", `, "args": {"auto_resolve": "true"}`)}, []string{"is to repair what its gate finds and has no auto_resolve_script"}},
		{"CI that repairs in a loop of two", []string{ci("c", "")[:len(ci("c", ""))-1] + `, "on": {"failed": ["x"]}}`, sh(`, "on": {"succeeded": ["c"]}`)}, nil},
		{"a gate that repairs and goes elsewhere", []string{`{"id": "c", "kind": "gate", "uses": "control.gate.cicd", "on": {"failed": ["x"]}, "gates": [{"kind": "cicd", "script": "x", "auto_resolve": true}]}`, sh("")},
			[]string{"its on.failed must return to it or to a node whose on.succeeded does"}},
		{"a gate that repairs by way of another", []string{`{"id": "c", "kind": "gate", "uses": "control.gate.cicd", "on": {"failed": ["x"]}, "gates": [{"kind": "cicd", "script": "x", "auto_resolve": true}]}`, sh(`, "on": {"succeeded": ["c"]}`)}, nil},
		{"two scripts at one gate", []string{stageCommit(`"gate"`), gateNode(`"gates": [{"kind": "script", "script": "x"}, {"kind": "script", "script": "y"}]`)}, []string{"has 2 script gates; at most one is allowed"}},
		{"a gate with two CI gates", []string{`{"id": "c", "kind": "gate", "uses": "control.gate.cicd", "gates": [{"kind": "cicd", "script": "y"}, {"kind": "cicd", "script": "z"}]}`},
			[]string{"requires exactly one cicd gate, found 2", "has 2 cicd gates; at most one is allowed"}},
		{"a custom gate of a command", []string{sh(`, "gates": [{"kind": "custom", "id": "conflict_resolution"}]`)}, []string{"node `x` has a custom gate that nothing looks at"}},
		{"a custom gate of another name", []string{merge + `, "on": {"blocked": ["g"]}}`, conflict("g", `, "gates": [{"kind": "custom", "id": "other"}]`)}, []string{"node `g` has a custom gate that nothing looks at"}},
		{"a script that a commit looks at", []string{`{"id": "commit", "uses": "cap.env.builtin.git.stage_commit", "gates": [{"kind": "script", "script": "x"}]}`}, nil},
		{"a payload without a need", []string{`{"id": "c", "uses": "cap.env.builtin.git.commit", "args": {"message": "read_payload( note )"}}`}, []string{"exactly one custom need that matches read_payload(note), found 0"}},
		{"a payload by type and key", []string{`{"id": "c", "uses": "cap.env.builtin.git.commit", "args": {"commit_message": "read_payload(commit_message:l)"}, "needs": [{"custom": {"type_id": "commit_message", "key": "k"}}, {"custom": {"type_id": "commit_message", "key": "l"}}]}`}, nil},
		{"two pinned heads", []string{sh(`, "preconditions": [{"kind": "pinned_head", "branch": "b", "oid": "` + oid + `"}, {"kind": "pinned_head", "branch": "c", "oid": "` + oid + `"}]`)}, []string{"node `x` pins more than one head"}},
		{"a pinned head without a branch", []string{sh(`, "preconditions": [{"kind": "pinned_head", "oid": "` + oid + `"}]`)}, []string{"needs branch and oid, a full commit id"}},
		{"a short pinned head", []string{sh(`, "preconditions": [{"kind": "pinned_head", "branch": "b", "oid": "` + oid[1:] + `"}]`)}, []string{"needs branch and oid, a full commit id"}},
		{"a pinned head of other letters", []string{sh(`, "preconditions": [{"kind": "pinned_head", "branch": "b", "oid": "g` + oid[1:] + `"}]`)}, []string{"needs branch and oid, a full commit id"}},
		{"a pinned head", []string{sh(`, "preconditions": [{"kind": "pinned_head", "branch": "b", "oid": " ` + strings.ToUpper(oid) + `"}]`)}, nil},
		{"a pinned head of SHA-256", []string{sh(`, "preconditions": [{"kind": "pinned_head", "branch": "b", "oid": "` + oid + oid[:24] + `"}]`)}, nil},
		{"a lock without a key", []string{sh(`, "locks": [{"key": " ", "mode": "shared"}]`)}, []string{"empty lock key in nodes[x].locks[0]"}},
		{"resumes of what does not resume", []string{sh(`, "max_resumes": 2`)}, []string{"max_resumes has no effect: node `x` is not resumable"}},
		{"resume of a command", []string{sh(`, "resume": true`)}, []string{"resume has no effect: node `x` asks no agent"}},
		{"a budget that nothing spends", []string{sh(`, "retry": {"mode": "never", "budget": 1}`)}, []string{"retry.budget has no effect"}},
		{"a budget of none", []string{sh(`, "retry": {"mode": "never", "budget": 0}`)}, nil},
		{"no budget", []string{sh(`, "retry": {"mode": "on_failure"}`)}, []string{"retry mode on_failure of node `x` has no budget"}},
		{"two budgets", []string{sh(`, "max_retries": 1, "retry": {"mode": "on_failure", "budget": 2}`)}, []string{"max_retries and retry.budget of node `x` disagree"}},
		{"two budgets that agree", []string{sh(`, "max_retries": 2, "retry": {"mode": "on_failure", "budget": 2}`)}, nil},
		{"retries of what is resumed", []string{sh(`, "resumable": true, "max_retries": 1, "retry_on": ["exit", "timeout"]`)}, []string{"retry_on timeout has no effect: node `x` is resumable"}},
		{"retries of what is lost", []string{sh(`, "max_retries": 1, "retry_on": ["worker_lost"]`)}, []string{"retry_on worker_lost has no effect: nobody knows whether such an attempt did its work"}},
		{"retries of what is reclaimed", []string{sh(`, "idempotent": true, "max_retries": 1, "retry_on": ["preempted"]`)}, []string{"retry_on preempted has no effect: such an attempt of node `x` is reclaimed"}},
		{"retries of what is preempted", []string{sh(`, "max_retries": 1, "retry_on": ["preempted", "effect_in_doubt"]`)}, nil},
		{"retry_on without retries", []string{sh(`, "retry_on": ["timeout"]`)}, []string{"retry_on has no effect: node `x` has no retries"}},
		{"retry_on of no class", []string{sh(`, "max_retries": 1, "retry_on": ["sometimes"]`)}, []string{"nodes[x].retry_on[0]"}},
		{"no time", []string{sh(`, "timeout": "0s"`)}, []string{"invalid duration value `0s` for nodes[x].timeout"}},
		{"too much time", []string{sh(`, "timeout": "8785h"`)}, []string{"invalid duration value `8785h`"}},
		{"a year", []string{sh(`, "timeout": "8784h"`)}, nil},
		{"a year of seconds", []string{sh(`, "timeout": " 31622400 "`)}, nil},
		{"next to no time", []string{sh(`, "timeout": "1us"`)}, nil},
		{"less than that", []string{sh(`, "timeout": "999ns"`)}, []string{"invalid duration value `999ns` for nodes[x].timeout"}},
		{"too many seconds", []string{sh(`, "timeout": "31622401"`)}, []string{"invalid duration value `31622401`"}},
		{"a mode that there is not", []string{sh(`, "transient": "often"`)}, []string{"invalid transient value `often` for nodes[x].transient"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := build(wrap(c.nodes...), nil)
			var got []string
			if err != nil {
				got = strings.Split(err.Error(), "\n")
			}
			if len(got) != len(c.want) {
				t.Fatalf("%d findings, want %d:\n%v", len(got), len(c.want), err)
			}
			for _, w := range c.want {
				if !slices.ContainsFunc(got, func(line string) bool { return strings.Contains(line, w) }) {
					t.Errorf("nothing says %s:\n%v", w, err)
				}
			}
		})
	}
}

func TestPaths(t *testing.T) {
	for text, want := range map[string]string{
		`[]`: "", ` [ ] `: "", `["a"]`: "a", "\t[ \"a\" ,\r\n\"b c\" ] \n": "a|b c", `["a/b","",""]`: "a/b||",
		`["\"\\\/\b\f\n\r\t"]`: "\"\\/\b\f\n\r\t", `["\u0041\u00e9\u20AC"]`: "Aé€", `["\ud83d\ude00x"]`: "😀x",
		`["\ud83d"]`: "\uFFFD", `["\ud83dx"]`: "\uFFFDx", `["\ude00"]`: "\uFFFD", `["\ud83d\u0041"]`: "\uFFFDA", `["\ud83d\ud83d\ude00"]`: "\uFFFD😀",
		`["\ud7ff\ue000"]`: "\ud7ff\ue000", `["\ud800\udc00"]`: "\U00010000", `["\udbff\udfff"]`: "\U0010FFFF", `["\udc00\udc00"]`: "\uFFFD\uFFFD", `["\ud7ff\udc00"]`: "\ud7ff\uFFFD", `["\ud83d\udbff"]`: "\uFFFD\uFFFD", `["\ud83d\n"]`: "\uFFFD\n", `["\ud83d\ue000"]`: "\uFFFD\ue000",
		`["é"]`: "é",
	} {
		got, err := workflow.Paths(text)
		if err != nil || strings.Join(got, "|") != want || want == "" && strings.Contains(text, `"`) != (len(got) > 0) {
			t.Errorf("%s: %q, %v, want %q", text, got, err, want)
		}
		for end := range strings.LastIndexByte(text, ']') {
			if got, err := workflow.Paths(text[:end]); err == nil {
				t.Errorf("%q, the beginning of a list, is %q", text[:end], got)
			}
		}
	}
	for _, text := range []string{``, `"a"`, `[`, `["a"`, `["a",`, `["a",]`, `[,"a"]`, `["a" "b"]`, `["a"]x`, `[] x`, `[a]`, `[1]`, `["a]`, `["`, `["\`, `["\"]`, `["\x"]`, `["\u12"]`, `["\u12G4"]`, `["\u123`,
		`["\'"]`, "[\"\n\"]", "[\"\x1f\"]", `["\u"]`, `["a"],`, `["\ud83d\u12"]`} {
		if got, err := workflow.Paths(text); err == nil {
			t.Errorf("%q is %q", text, got)
		}
	}
	if got, err := workflow.Paths(`["\u0000"]`); err != nil || len(got) != 1 || got[0] != "\x00" {
		t.Errorf("%q %v", got, err)
	}
}

// Paths takes what encoding/json takes, and reads the same: whatever these pieces make, on their
// own and in a string.
func TestPathsAgreesWithJSON(t *testing.T) {
	pieces := []string{"[", "]", `"`, ",", " ", "\t", "\v", `\`, "/", "n", "'", "\x1f", "é", `\u00e9`, `\ud83d`, `\ude00`, "004G"}
	var try func(before, after string, more int)
	try = func(before, after string, more int) {
		var want []string
		unread := json.Unmarshal([]byte(before+after), &want)
		if got, err := workflow.Paths(before + after); (err == nil) != (unread == nil) || err == nil && !slices.Equal(got, want) {
			t.Errorf("%q: %q, %v, want %q, %v", before+after, got, err, want, unread)
		}
		for k := 0; more > 0 && k < len(pieces); k++ {
			try(before+pieces[k], after, more-1)
		}
	}
	try("", "", 4)
	try(`["`, `"]`, 4)
}

func TestPayload(t *testing.T) {
	for text, want := range map[string]string{"read_payload(a)": "a", " read_payload( a:b ) ": "a:b", "read_payload(a": "", "payload(a)": "", "read_payload a": ""} {
		if got, ok := workflow.Payload(text); got != want || ok != (want != "") {
			t.Errorf("%q: %q, %t", text, got, ok)
		}
	}
}

// What merges, cleans up and keeps the run's own records has nothing to do with
// the tree that the run was queued from.
func TestAnywhere(t *testing.T) {
	var got []string
	for _, u := range workflow.Inventory() {
		n := workflow.ManifestNode{Operation: u.Operation, Control: u.Policy}
		if n.Anywhere() {
			got = append(got, u.Label)
		}
	}
	if all := strings.Join(got, " "); all != "cap.env.builtin.worktree.cleanup cap.env.builtin.git.integrate_plan_branch cap.env.builtin.merge.sentinel.write "+
		"cap.env.builtin.merge.sentinel.clear control.gate.conflict_resolution control.gate.approval control.terminal" {
		t.Error(all)
	}
	for _, n := range []workflow.ManifestNode{{Control: "gate.cicd"}, {Operation: "cicd.run"}} {
		n.Args = map[string]string{"target_branch": " main "} // it judges that branch, in a worktree of its own
		if !n.Anywhere() || n.JudgedBranch() != "main" {
			t.Errorf("%s%s of main depends on the working tree", n.Control, n.Operation)
		}
	}
}
