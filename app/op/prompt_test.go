package op

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/workflow"
)

// desk is a node's world of which only files, scripts and an agent are asked.
type desk struct {
	full bool // nothing can be kept any more
	Files
	Shell
	payloads  map[string][]byte
	noInput   string // what NO_INPUT.md says
	producers []kernel.JobID
	answer    string
	exit      int
	told      kernel.AgentAnswer // and answer as its text
	broken    error
	asked     string // the prompt that the agent got
	script    string // what ran
}

func (d *desk) WritePayload(job kernel.JobID, a kernel.Artifact, data []byte) error {
	if d.full {
		return errors.New("no room")
	}
	d.payloads[string(job)+" "+a.String()] = data
	return nil
}

func (d *desk) Payload(job kernel.JobID, a kernel.Artifact) ([]byte, error) {
	if data, ok := d.payloads[string(job)+" "+a.String()]; ok {
		return data, nil
	}
	return nil, kernel.ErrNotFound
}

func (d *desk) LogTail(_ kernel.JobID, stream string, _ int64) ([]byte, error) {
	return []byte("of " + stream + "\nand more"), nil
}

func (d *desk) Producers(*kernel.Job, kernel.Artifact) ([]kernel.JobID, error) {
	return d.producers, nil
}

// deskAgent is the agent of a desk.
type deskAgent struct{ *desk }

func (d deskAgent) Run(_ context.Context, q kernel.AgentRequest) (kernel.AgentAnswer, error) {
	d.desk.asked = string(q.Prompt)
	a := d.told
	a.Text = []byte(d.answer[:min(len(d.answer), q.Limit+1)])
	return a, d.broken
}

func (d *desk) Output(_ context.Context, _, script string, _ []string, _ int) ([]byte, int, error) {
	d.script = script
	return []byte(d.answer), d.exit, nil
}

// noLocks is git where nothing locks the index.
type noLocks struct{ Git }

func (noLocks) IndexLockIn(string) string { return "" }

// deskNode returns a node and its world; prompt is its argument prompt_text.
func deskNode(t *testing.T, operation, prompt string) (*desk, *Env, *Node) {
	t.Helper()
	d := &desk{payloads: map[string][]byte{}}
	env := &Env{Git: noLocks{}, Files: d, Effects: &journal{}, Shell: d, Agents: deskAgent{d}, Stdout: io.Discard, Stderr: &bytes.Buffer{}, Now: func() time.Time { return time.Unix(0, 0) }}
	text := kernel.Artifact{Kind: kernel.Custom, Name: "prompt_text", Ref: "main"}
	n := &Node{Root: t.TempDir(), Dir: t.TempDir(), Job: kernel.Job{ID: "me"}}
	n.Job.Spec.Origin.Branch = "draft/x"
	n.ManifestNode = workflow.ManifestNode{Node: "a__b__me", Operation: operation, Args: map[string]string{"prompt_text": prompt, "own": "mine"},
		Artifacts: map[string][]workflow.ArtifactRecord{"succeeded": {workflow.RecordOf(text)}}}
	n.Manifest.Nodes = map[string]workflow.ManifestNode{
		"a__b__me":   n.ManifestNode,
		"a__b__near": {Args: map[string]string{"x": "same stage"}},
		"a__near":    {Args: map[string]string{"x": "outer stage"}},
		"a__outer":   {Args: map[string]string{"x": "{{own}}", "branch": ""}},
		"c__far":     {Args: map[string]string{"x": "far", "branch": "b", "none": ""}},
		"c__twice":   {Args: map[string]string{"x": "1"}},
		"d__twice":   {Args: map[string]string{"x": "2"}},
	}
	return d, env, n
}

func put(t *testing.T, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// The output of a script becomes the prompt verbatim, because the text may come
// from anybody.
func TestThePromptOfAScriptIsData(t *testing.T) {
	d, env, n := deskNode(t, "prompt.resolve", "")
	n.Args["command"] = "git log -1"
	d.answer = "fix {{own}} of {{file:/etc/passwd}} and {{unclosed\n"
	if r := Run(t.Context(), env, n); r.Outcome != kernel.OutcomeSucceeded {
		t.Fatalf("%+v", r)
	}
	for _, data := range d.payloads {
		var p struct{ Text string }
		if err := json.Unmarshal(data, &p); err != nil || p.Text != d.answer {
			t.Errorf("the prompt is %q, %v", p.Text, err)
		}
	}
	if len(d.payloads) != 1 {
		t.Errorf("%d payloads", len(d.payloads))
	}
}

// The reason says which of two files a prompt is from: the branch's, even if the checkout's was edited since.
func TestWhereAPromptIsFromIsSaid(t *testing.T) {
	const file = ".vizier/prompts/p.md"
	for name, c := range map[string]struct{ branch, checkout, want string }{
		"both":     {"ours", "ours", "prompt of 4 bytes, from " + file + " of draft/x"},
		"edited":   {"ours", "edited", "prompt of 4 bytes, from " + file + " of draft/x; that of the checkout differs"},
		"one":      {"ours", "", "prompt of 4 bytes, from " + file + " of draft/x"},
		"no other": {"", "edited", "prompt of 6 bytes, from " + file + " of the checkout"},
	} {
		_, env, n := deskNode(t, "prompt.resolve", "")
		n.Args["prompt_file"], n.Job.State.Context.Branch = file, "draft/x"
		for dir, text := range map[string]string{n.Dir: c.branch, n.Root: c.checkout} {
			if text != "" {
				put(t, dir, file, text)
			}
		}
		if r := Run(t.Context(), env, n); r.Outcome != kernel.OutcomeSucceeded || r.Reason != c.want {
			t.Errorf("%s: %+v", name, r)
		}
	}
	_, env, n := deskNode(t, "prompt.resolve", "")
	n.Args["prompt_file"], n.Root = "p.md", n.Dir
	put(t, n.Dir, "p.md", "ours")
	if r := Run(t.Context(), env, n); r.Reason != "prompt of 4 bytes, from p.md of the checkout" {
		t.Errorf("in the checkout: %+v", r)
	}
	n.Args["prompt_file"] = "gone.md"
	if r := Run(t.Context(), env, n); r.Class != kernel.MissingInput {
		t.Errorf("gone from the checkout: %+v", r)
	}
}

func TestPlaceholders(t *testing.T) {
	for prompt, want := range map[string]string{
		"no placeholder, {one} brace":              "no placeholder, {one} brace",
		"{{own}} and {{ own }}":                    "mine and mine",
		"{{near.x}}, {{a__near.x}}":                "same stage, outer stage",
		"{{outer.x}}":                              "{{own}}", // what is filled in is not looked at again
		"{{outer.branch}}":                         "draft/x",
		"{{far.x}}":                                "far",
		"{{far.branch}}, {{far.none}}":             "b, ",
		"{{file:notes.md}}":                        "in the worktree {{own}}",
		"{{file:.vizier/prompts/only-in-root.md}}": "in the root",
		"{{file:.vizier/prompts/in-both.md}}":      "the branch's",
		"{{execution_root}}":                       "DIR",
		"{{twice.x}}":                              "error: more than one stage",
		"{{near.y}}":                               "error: unresolved placeholder `{{near.y}}`",
		`{{"{{own}}"}} {{"{"}}{own}}`:              "{{own}} {{own}}",
		`{{{"{"}}own}} {{"{"}}{{"{"}}own}`:         "{{own}} {{own}", // what parameters become
		`{"a": {{{own}}}`:                          `{"a": {mine}`,
		`{{"own}}`:                                 "error: found unclosed placeholder; expected `}}`",
		"{{}}":                                     "error: found empty placeholder `{{}}`",
		"{{own":                                    "error: found unclosed placeholder; expected `}}`",
		"{{file:absent.md}}":                       "error: there is no such file in DIR",
		"{{file:only-in-root.md}}":                 "error: there is no such file in DIR", // the root's files are not the branch's
		"{{file:.vizier/../only-in-root.md}}":      "error: there is no such file in DIR",
		"{{file:.}}":                               "error: is not a regular file",
	} {
		_, _, n := deskNode(t, "prompt.resolve", prompt)
		put(t, n.Dir, "notes.md", "in the worktree {{own}}")
		put(t, n.Root, "only-in-root.md", "x")
		put(t, n.Root, ".vizier/prompts/only-in-root.md", "in the root")
		put(t, n.Root, ".vizier/prompts/in-both.md", "the root's")
		put(t, n.Dir, ".vizier/prompts/in-both.md", "the branch's")
		got, err := render(n, prompt)
		if err != nil {
			got = "error: " + err.Error()
		}
		want = strings.ReplaceAll(want, "DIR", n.Dir)
		if wrong, isError := strings.CutPrefix(want, "error: "); isError && (err == nil || !strings.Contains(got, wrong)) || !isError && got != want {
			t.Errorf("%s: got %q, want %q", prompt, got, want)
		}
	}
}

func TestAPromptBecomesThePayload(t *testing.T) {
	d, env, n := deskNode(t, "prompt.resolve", "Say {{own}}\n")
	if r := Run(t.Context(), env, n); r.Outcome != kernel.OutcomeSucceeded || len(r.Produced) != 1 {
		t.Fatalf("%+v", r)
	}
	var p payload
	if err := json.Unmarshal(d.payloads["me custom:prompt_text:main"], &p); err != nil || p.Text != "Say mine\n" || p.Type != "prompt_text" || p.Key != "main" {
		t.Errorf("%+v, %v", p, err)
	}
}

func (d *desk) WriteNoInput(_ kernel.JobID, reason string) error {
	d.noInput = reason
	return nil
}

func TestWherePromptsComeFrom(t *testing.T) {
	for name, row := range map[string]struct {
		args  map[string]string
		exit  int
		class kernel.FailureClass
		want  string // the script that ran, or a part of the reason
	}{
		"nowhere":                      {map[string]string{"prompt_text": " "}, 0, kernel.MissingInput, "set prompt_text, prompt_file, command or script"},
		"a file that is gone":          {map[string]string{"prompt_file": "gone.md"}, 0, kernel.MissingInput, "prompt file gone.md is neither in"},
		"a shipped one that is gone":   {map[string]string{"prompt_file": ".vizier/prompts/gone.md"}, 0, kernel.MissingInput, "prompt file .vizier/prompts/gone.md is neither in"},
		"an absolute one that is gone": {map[string]string{"prompt_file": "/nowhere/gone.md"}, 0, kernel.MissingInput, "prompt file /nowhere/gone.md is neither in"},
		"a script":                     {map[string]string{"script": "make prompt"}, 0, kernel.NoFailure, "make prompt"},
		"a script that fails":          {map[string]string{"command": "false"}, 3, kernel.ExitFailure, "exit 3"},
	} {
		d, env, n := deskNode(t, "prompt.resolve", "")
		n.Args, d.exit = row.args, row.exit
		r := Run(t.Context(), env, n)
		if r.Class != row.class || !strings.Contains(r.Reason+d.script, row.want) {
			t.Errorf("%s: %+v, script %q", name, r, d.script)
		}
		if (row.class == kernel.MissingInput) != (d.noInput != "") || d.noInput != "" && d.noInput != r.Reason {
			t.Errorf("%s: NO_INPUT.md says %q", name, d.noInput)
		}
		if row.class != kernel.NoFailure && len(r.Produced)+len(d.payloads) > 0 {
			t.Errorf("%s: it failed and left %v, %v", name, r.Produced, d.payloads)
		}
	}
}

func TestAnAgentWhoseAnswerCannotBeKept(t *testing.T) {
	d, env, n, agents := invoking(t)
	n.Artifacts = map[string][]workflow.ArtifactRecord{"succeeded": {workflow.RecordOf(kernel.Artifact{Kind: kernel.Custom, Name: "plan_text", Ref: "x"})}}
	agents.answers, d.full = []kernel.AgentAnswer{{Text: []byte("an answer")}}, true
	if r := Run(t.Context(), env, n); r.Outcome != kernel.OutcomeFailed || !strings.Contains(r.Reason, "no room") {
		t.Errorf("%+v", r)
	}
}

func TestAnAgentWhoseProductMakesNoSense(t *testing.T) {
	_, env, n, _ := invoking(t)
	n.Artifacts = map[string][]workflow.ArtifactRecord{"succeeded": {{"nonsense": {}}}}
	if r := Run(t.Context(), env, n); r.Outcome != kernel.OutcomeFailed || !strings.Contains(r.Reason, "nonsense") {
		t.Errorf("%+v", r)
	}
}

func TestAnAgentGetsTheNewestPromptAndItsAnswerIsKept(t *testing.T) {
	d, env, n := deskNode(t, "agent.invoke", "")
	prompt := kernel.Artifact{Kind: kernel.Custom, Name: "prompt_text", Ref: "main"}
	plan := kernel.Artifact{Kind: kernel.Custom, Name: "plan_text", Ref: "x"}
	n.Needs = []workflow.ArtifactRecord{workflow.RecordOf(prompt)}
	n.Artifacts = map[string][]workflow.ArtifactRecord{"succeeded": {workflow.RecordOf(plan)}}
	retry := func() Result { // each attempt is a retry of the one that failed before it
		n.Job.State.Attempt++
		n.Job.State.Spent.Retries++
		return Run(t.Context(), env, n)
	}
	if r := retry(); r.Class != kernel.MissingInput {
		t.Errorf("no prompt: %+v", r)
	}
	d.producers = []kernel.JobID{"without", "new", "old"}
	d.payloads["new custom:prompt_text:main"] = []byte(`{"assistant_text": "do it"}`)
	d.payloads["old custom:prompt_text:main"] = []byte(`{"text": "do that"}`)
	d.told = kernel.AgentAnswer{Exit: 4, Class: kernel.RateLimited, Reason: "no more today", Run: kernel.AgentRun{Session: "s1", Turns: 2}}
	if r := retry(); r.Outcome != kernel.OutcomeFailed || r.Exit != 4 || r.Class != kernel.RateLimited || r.Reason != "no more today" || r.Agent == nil || r.Agent.Session != "s1" {
		t.Errorf("an agent that fails: %+v", r)
	}
	if d.asked != "do it" || d.payloads["me custom:plan_text:x"] != nil {
		t.Errorf("it was asked %q and left %s", d.asked, d.payloads["me custom:plan_text:x"])
	}
	d.broken = errors.New("no agent shim named x")
	if r := retry(); r.Class != kernel.LaunchFailure || !strings.Contains(r.Reason, "no agent shim") || r.Agent != nil {
		t.Errorf("an agent that is not there: %+v", r)
	}
	d.answer, d.told, d.broken = strings.Repeat("x", maxText+5), kernel.AgentAnswer{Run: kernel.AgentRun{Session: "s2"}}, nil
	if r := retry(); r.Outcome != kernel.OutcomeSucceeded || r.Agent == nil || r.Agent.Session != "s2" || !strings.Contains(r.Reason, "was cut at 8388608 bytes") {
		t.Errorf("a long answer: %+v", r.Reason)
	}
	if text, err := TextOf(d.payloads["me custom:plan_text:x"]); len(text) != maxText || err != nil {
		t.Errorf("%d bytes were kept, %v", len(text), err)
	}
	var kept struct {
		Stderr     []string `json:"stderr"`
		ExitCode   *int     `json:"exit_code"`
		DurationMS *int     `json:"duration_ms"`
	}
	if err := json.Unmarshal(d.payloads["me custom:plan_text:x"], &kept); err != nil || !slices.Equal(kept.Stderr, []string{"of stderr", "and more"}) || kept.ExitCode == nil || kept.DurationMS == nil {
		t.Errorf("how it came about: %+v %v", kept, err)
	}
}

func TestWhatCountsAsResolved(t *testing.T) {
	dir := t.TempDir()
	for text, marked := range map[string]bool{
		"plain\n": false, "a\n<<<<<<< main\nb\n": true, "a\n>>>>>>> x": true, "  <<<<<<< main\n": false, "<<<<<<<\n": false,
		strings.Repeat("x", 5000) + "<<<<<<< main": false, strings.Repeat("x", 5000) + "\n<<<<<<< main": true,
	} {
		put(t, dir, "f", text)
		if _, got, err := look(filepath.Join(dir, "f")); got != marked || err != nil {
			t.Errorf("%.20q: %t, %v", text, got, err)
		}
	}
	gone, _, err := look(filepath.Join(dir, "gone"))
	put(t, dir, "empty", "")
	empty, _, err2 := look(filepath.Join(dir, "empty"))
	if gone == empty || errors.Join(err, err2) != nil {
		t.Error("a file that is gone looks like an empty one")
	}
}

func TestTheRegistryIsTheInventory(t *testing.T) {
	want := map[string]bool{}
	for _, u := range workflow.Inventory() {
		want[u.Operation+u.Policy] = true
	}
	for name := range registry {
		if !want[name] {
			t.Errorf("%s is in no row of the inventory", name)
		}
	}
	for name := range want {
		if _, ok := registry[name]; !ok {
			t.Errorf("nothing performs %s", name)
		}
	}
	for _, u := range workflow.Inventory() {
		if p := registry[u.Operation+u.Policy]; p.run != nil && u.Reconcilable && p.look == nil {
			t.Errorf("%s is said to be reconcilable, and nothing looks for what it did", u.Label)
		}
	}
}

// A file that is too large is refused, and not cut.
func TestReadRegularIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	for size, fits := range map[int64]bool{maxText: true, maxText + 1: false} {
		if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, size)); err != nil {
			t.Fatal(err)
		}
		if text, err := readRegular(path); (err == nil) != fits || int64(len(text)) != size {
			t.Errorf("%d bytes: %d read, %v", size, len(text), err)
		}
	}
}
