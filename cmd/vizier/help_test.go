package main

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden files and docs/cli")

// golden compares text with a file, or rewrites the file.
func golden(t *testing.T, path, text string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(have), text); d != "" {
		t.Errorf("%s is not current; run with -update and look at the difference:\n%s", path, d)
	}
}

func TestHelpIsGolden(t *testing.T) {
	w := newFake(t)
	var b strings.Builder
	for _, args := range [][]string{
		nil, {"help", "--all"}, {"jobs", "--help"}, {"jobs", "submit", "--help"}, {"help", "jobs", "schedule"}, {"help", "config", "show"},
	} {
		b.WriteString("$ vizier " + strings.Join(args, " ") + "\n" + w.ok(args...) + "\n")
	}
	golden(t, filepath.Join("testdata", "help.golden"), b.String())
}

func TestHelpTopics(t *testing.T) {
	w := newFake(t)
	for _, topic := range topics() {
		text := w.ok("help", topic)
		for line := range strings.Lines(text) {
			if len(line) > 81 {
				t.Errorf("%s: wider than a terminal: %s", topic, line)
			}
		}
		has(t, curated(), topic)
	}
	has(t, w.fails(2, "help", "gats"), `no help on "gats"`, "did you mean gates?")
	has(t, w.fails(2, "help", "jobs", "lst"), `no help on "jobs lst"`)
}

func TestUnknownNamesGetASuggestion(t *testing.T) {
	w := newFake(t)
	has(t, w.fails(2, "jbos"), `did you mean "jobs"?`)
	has(t, w.fails(2, "jobs", "aprove", "x"), `did you mean "approve"?`, "hint: vizier jobs --help")
	has(t, w.fails(2, "stop", "1"), "unexpected argument stop\n", "hint: vizier cancel")
	has(t, w.fails(2, "events"), "unexpected argument events\n", "hint: vizier jobs events")
	has(t, w.fails(2, "jobs", "submit", "--lck", "x"), `did you mean "--lock"?`)
	has(t, w.fails(2, "-v", "cancel"), "hint: vizier cancel --help")
	for word, command := range elsewhere {
		w.fails(2, word)
		w.ok(command, "--help")
	}
	for _, gone := range []string{"--background", "--pager", "--agent"} {
		w.fails(2, gone, "jobs", "list")
	}
}

func TestCompletions(t *testing.T) {
	w := newFake(t)
	w.submit("--name", "build")
	w.submit("--name", "hidden\x1b[31m\nevil", "--approval")
	w.submit("--name=-x", "--approval")
	for _, c := range []struct {
		words []string
		want  []string
		not   string
	}{
		{[]string{""}, []string{"jobs\tSubmit", "completions\t"}, "__"},
		{[]string{"jobs", "s"}, []string{"submit\t", "schedule\t", "show\t", "status\t"}, "list"},
		{[]string{"jobs", "list", "--f"}, []string{"--fields\t", "--format\t"}, "--all"},
		{[]string{"jobs", "list", "--format", ""}, []string{"block\n", "table\n", "json\n"}, "dag"},
		{[]string{"jobs", "list", "--format=t"}, []string{"--format=table\n"}, "block"},
		{[]string{"-v", "jobs", "show", ""}, []string{"1\trunning build\n", "@last\t"}, "--"},
		{[]string{"jobs", "effects", "1", ""}, nil, "1"},
		{[]string{"show", "hid"}, nil, "hid"},
		{[]string{"show", "evil"}, nil, "evil"},
		{[]string{"jobs", "show", ""}, []string{"1\t", "2\t", "3\t"}, "\n-x"},
		{[]string{"show", "bu"}, []string{"build\trunning 1\n"}, "--"},
		{[]string{"ls", "--status", "wait"}, []string{"waiting\n", "waiting_on_deps\n"}, "failed"},
		{[]string{"jobs", "wait", "1", ""}, []string{"1\t"}, "--"},
		{[]string{"jobs", "submit", "--after", "1"}, []string{"1\t"}, "--"},
		{[]string{"jobs", "submit", "--name", "x", "--", "jobs", ""}, nil, "submit"},
		{[]string{"ls", "--fields", "cr"}, []string{"created\t"}, "branch"},
		{[]string{"plans", "--fields", "br"}, []string{"branch\t"}, "created"},
		{[]string{"jobs", "approve", ""}, []string{"2\t", "3\t"}, "1\t"},
		{[]string{"jobs", "show", "--fields", "pi"}, []string{"pid\t"}, "job"},
		{[]string{"init", "--agent", "c"}, []string{"claude\n", "codex\n"}, "gemini"},
		{[]string{"help", "g"}, []string{"gates\n"}, "jobs"},
		{[]string{"help", "c"}, []string{"config\t"}, "cd\t"},
		{[]string{"help", "jobs", ""}, []string{"approve\t"}, "gates"},
		{[]string{"help", "jobs", "approve", ""}, nil, "approve"},
		{[]string{"help", "gates", ""}, nil, "jobs"},
		{[]string{"jobs", "--format", ""}, []string{"text\n", "json\n"}, "list"},
		{[]string{"what-if", "--approve", ""}, []string{"2\t", "3\t"}, "1\t"},
		{[]string{"what-if", "--retry", ""}, []string{"1\t", "2\t"}, "--"},
		{[]string{"what-if", "--fail", "1"}, []string{"1\t"}, "--"},
		{[]string{"what-if", "--after", ""}, nil, "1"},
		{[]string{"completions", ""}, []string{"bash\n", "zsh\n", "fish\n"}, "--"},
	} {
		got := w.ok(append([]string{"__complete"}, c.words...)...)
		has(t, got, c.want...)
		if c.want == nil && got != "" || strings.Contains(got, c.not) {
			t.Errorf("%q: unexpected %q in:\n%s", c.words, c.not, got)
		}
	}
}

// TestCompletionScriptsParse runs each shell that is there over its script.
func TestCompletionScriptsParse(t *testing.T) {
	w := newFake(t)
	for _, shell := range []string{"bash", "zsh", "fish"} {
		script := w.ok("completions", shell)
		has(t, script, "__complete")
		path, err := exec.LookPath(shell)
		if err != nil {
			t.Logf("%s is not installed: its script is not parsed", shell)
			continue
		}
		cmd := exec.Command(path, "-n")
		cmd.Stdin = strings.NewReader(script)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", shell, err, out)
		}
	}
	w.fails(2, "completions", "tcsh")
}

// An error about a missing template, or about a template used as a command,
// lists the templates.
func TestFlowsAreNamed(t *testing.T) {
	w := newFake(t)
	if err := os.MkdirAll(filepath.Join(w.dir, ".vizier", "workflows"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"draft", "nightly"} {
		if err := os.WriteFile(filepath.Join(w.dir, ".vizier", "workflows", name+".toml"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	has(t, w.fails(2, "run"), "expected FLOW", "hint: flows here: draft, nightly")
	has(t, w.fails(2, "audit"), "expected FLOW", "hint: flows here: draft, nightly")
	has(t, w.fails(2, "nightly", "x"), "unexpected argument nightly", "hint: vizier run nightly")
	has(t, w.fails(2, "other"), "unexpected argument other", "hint: vizier --help")
}
