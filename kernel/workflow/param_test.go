package workflow_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel/workflow"
)

// awkward is a value that breaks whatever takes it for code.
const awkward = "It's \"$(touch hacked)\"; `touch hacked`\n{{file:/etc/passwd}} ${slug} \\"

// A quoted parameter is one word, whatever it holds.
func TestQuotedParameters(t *testing.T) {
	for _, value := range []string{awkward, "", "-n", "a b"} {
		text := wrap(`{"id": "x", "kind": "shell", "uses": "cap.env.shell.command.run", "args": {"command": "printf '%s|' ${slug@Q} ${ slug@Q }"}}`)
		_, m := compile(t, text, map[string]string{"slug": value})
		cmd := exec.Command("sh", "-c", m.Nodes["x"].Args["command"])
		cmd.Dir = t.TempDir()
		out, err := cmd.CombinedOutput()
		if err != nil || string(out) != value+"|"+value+"|" {
			t.Errorf("%q: %v, printed %q", value, err, out)
		}
	}
	_, err := build(wrap(`{"id": "x", "kind": "shell", "uses": "cap.env.shell.command.run", "args": {"command": "echo ${slgu@Q}"}}`), nil)
	if err == nil || !strings.Contains(err.Error(), "unresolved parameter `slgu`") || !strings.Contains(err.Error(), "did you mean `slug`?") {
		t.Errorf("got %v", err)
	}
}

// A value is no placeholder of a prompt, not even together with what is around
// it.
func TestParametersInPrompts(t *testing.T) {
	text := wrap(`{"id": "x", "uses": "cap.env.builtin.prompt.resolve", "args": {"prompt_text": "{${slug}} {{own}}", "tone": "${slug}"}, "produces": {"succeeded": [{"custom": {"type_id": "prompt_text", "key": "k"}}]}}`)
	_, m := compile(t, text, map[string]string{"slug": "{own}} {{own"})
	if got, want := m.Nodes["x"].Args["prompt_text"], `{{{"{"}}own}} {{"{"}}{{"{"}}own} {{own}}`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := m.Nodes["x"].Args["tone"]; got != "{own}} {{own" {
		t.Errorf("an argument that is no prompt is %s", got)
	}
}

func TestVariablesOfParameters(t *testing.T) {
	m := workflow.Manifest{Params: map[string]string{"target_branch": "main", "a-b.c": awkward, "ü": "", "long": strings.Repeat("x", 100<<10), "nul": "a\x00b", "az@AZ[09`{/:": "x"}}
	env, left := m.Variables()
	if want := []string{"VIZIER_PARAM_A_B_C=" + awkward, "VIZIER_PARAM_AZ_AZ_09____=x", "VIZIER_PARAM_TARGET_BRANCH=main", "VIZIER_PARAM__="}; !slices.Equal(env, want) {
		t.Errorf("got %q", env)
	}
	if !slices.Equal(left, []string{"long", "nul"}) {
		t.Errorf("left out %q", left)
	}
	_, err := build(strings.Replace(wrap(shell), `"params": {`, `"params": {"a-b": "", "a_b": "", `, 1), nil)
	if err == nil || !strings.Contains(err.Error(), "parameters `a-b` and `a_b` are the same environment variable, VIZIER_PARAM_A_B; rename one of them") {
		t.Errorf("got %v", err)
	}
}

// A value that becomes a part of a script is warned of; a parameter that is the
// script is none.
func TestRawParametersInScriptsAreWarnedOf(t *testing.T) {
	node := func(rest string) string { return `{"id": "x", ` + rest + `}` }
	run := func(script string) string {
		return node(`"kind": "shell", "uses": "cap.env.shell.command.run", "args": {"command": "` + script + `", "branch": "a-${slug}"}`)
	}
	for text, want := range map[string]int{
		run("echo ${slug}"):         1,
		run("echo ${slug} ${n}"):    2,
		run("${slug}${n}"):          2,
		run(" ${slug} "):            0,
		run("echo ${slug@Q}"):       0,
		run("echo $${slug}"):        0,
		run("echo $VIZIER_PARAM_N"): 0,
		node(`"kind": "gate", "uses": "control.gate.cicd", "gates": [{"kind": "cicd", "script": "make ${slug}"}], "args": {"auto_resolve": "true", "auto_resolve_script": "fix ${n}"}`): 2,
		node(`"uses": "cap.env.builtin.git.stage_commit", "args": {"message": "plan ${slug}"}`):                                                                                         0,
	} {
		tmpl, err := build(wrap(text), nil)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		got := tmpl.Warnings()
		if len(got) != want {
			t.Errorf("%s: %v", text, got)
		}
		for _, w := range got {
			if w.Pos.Line == 0 || w.Node != "x" || !strings.Contains(w.Hint, `write "$VIZIER_PARAM_`) {
				t.Errorf("%+v", w)
			}
		}
	}
}
