package agent

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// trial is an agent under test and what it said.
type trial struct {
	Agents
	dir string
	out bytes.Buffer
	err output
}

// output takes what an agent and its filter write at the same time.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

func newTrial(t *testing.T, s Settings) *trial {
	t.Helper()
	x := &trial{dir: t.TempDir()}
	x.Agents = Agents{Shell: Shell{Stdout: &x.out, Stderr: &x.err, Grace: 30 * time.Second}, Root: t.TempDir(), Shims: []string{t.TempDir()},
		Select: func(*kernel.Job) (Settings, error) { return s, nil }}
	return x
}

func (x *trial) ask(t *testing.T, prompt string, limit int) (string, int, error) {
	t.Helper()
	r, err := x.Run(t.Context(), kernel.AgentRequest{Job: &kernel.Job{}, Dir: x.dir, Prompt: []byte(prompt), Limit: limit})
	return string(r.Text), r.Exit, err
}

func script(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

func TestAnAgentReadsThePromptAndWritesTheAnswer(t *testing.T) {
	x := newTrial(t, Settings{Label: "x", Command: []string{"sh", "-c", "echo thinking >&2; tr a-z A-Z; pwd > where"}})
	text, exit, err := x.ask(t, "hello\n", 1000)
	if text != "HELLO\n" || exit != 0 || err != nil {
		t.Fatalf("%q, %d, %v", text, exit, err)
	}
	if x.out.String() != "HELLO\n" || x.err.String() != "thinking\n" {
		t.Errorf("stdout %q, stderr %q", &x.out, x.err.String())
	}
	where, err := os.ReadFile(filepath.Join(x.dir, "where"))
	if real, _ := filepath.EvalSymlinks(x.dir); err != nil || strings.TrimSpace(string(where)) != real {
		t.Errorf("it ran in %s, %v", where, err)
	}
}

func TestAnAgentNeedNotReadItsPrompt(t *testing.T) {
	x := newTrial(t, Settings{Label: "x", Command: []string{"sh", "-c", "echo done"}})
	if text, exit, err := x.ask(t, strings.Repeat("x", 1<<20), 1000); text != "done\n" || exit != 0 || err != nil {
		t.Fatalf("%q, %d, %v", text, exit, err)
	}
}

func TestAFloodIsCut(t *testing.T) {
	x := newTrial(t, Settings{Label: "x", Command: []string{"sh", "-c", "head -c 50000000 /dev/zero"}})
	text, exit, err := x.ask(t, "", 1000)
	if len(text) != 1001 || exit != 0 || err != nil {
		t.Fatalf("%d bytes, exit %d, %v: want one byte more than the limit", len(text), exit, err)
	}
	if x.out.Len() != 1000 {
		t.Errorf("%d bytes went to the log, want 1000", x.out.Len())
	}
}

func TestHowAnAgentEnds(t *testing.T) {
	for name, row := range map[string]struct {
		settings Settings
		exit     int
		text     string
	}{
		"with a code":                  {Settings{Command: []string{"sh", "-c", "echo half; exit 7"}}, 7, "half\n"},
		"by a signal":                  {Settings{Command: []string{"sh", "-c", "kill -KILL $$"}}, 137, ""},
		"well, through a filter":       {Settings{Command: []string{"printf", "a\nb\n"}, Filter: []string{"sed", "s/^/> /"}}, 0, "> a\n> b\n"},
		"badly, before its filter":     {Settings{Command: []string{"sh", "-c", "echo a; exit 5"}, Filter: []string{"cat"}}, 5, "a\n"},
		"with a filter that fails":     {Settings{Command: []string{"echo", "a"}, Filter: []string{"sh", "-c", "cat >/dev/null; exit 9"}}, 9, ""},
		"with a filter that has it":    {Settings{Command: []string{"sh", "-c", "while :; do echo a; done"}, Filter: []string{"head", "-n1"}}, 0, "a\n"},
		"leaving a process behind":     {Settings{Command: []string{"sh", "-c", "sleep 300 >/dev/null 2>&1 & echo $! >left; echo a"}}, 0, "a\n"},
		"builtin, which carries out":   {Settings{Label: Builtin}, 0, "Do this:\nand say so\n"},
		"builtin, with its own script": {Settings{Label: Builtin, Command: []string{"echo", "mine"}}, 0, "mine\n"},
	} {
		t.Run(name, func(t *testing.T) {
			x := newTrial(t, row.settings)
			t.Cleanup(func() {
				var left int
				if b, err := os.ReadFile(filepath.Join(x.dir, "left")); err == nil {
					_, _ = fmt.Sscan(string(b), &left)
					_ = syscall.Kill(left, syscall.SIGKILL)
				}
			})
			text, exit, err := x.ask(t, "Do this:\n```sh\necho x > made\n```\nand say so", 1000)
			if text != row.text || exit != row.exit || err != nil {
				t.Errorf("%q, %d, %v", text, exit, err)
			}
		})
	}
}

func TestTheBuiltinAgentStopsAtTheFirstFailure(t *testing.T) {
	x := newTrial(t, Settings{Label: Builtin})
	text, exit, err := x.ask(t, "```sh\necho one\nfalse\necho two\n```\n```sh\ntouch three\n```\n", 1000)
	if text != "" || exit != 1 || err != nil || x.err.String() != "one\n" {
		t.Errorf("%q, %d, %v, stderr %q", text, exit, err, x.err.String())
	}
	if _, err := os.Stat(filepath.Join(x.dir, "three")); err == nil {
		t.Error("the second block ran")
	}
	if _, exit, _ := x.ask(t, "a\n```sh\necho never closed", 1000); exit != 2 {
		t.Errorf("an open block: exit %d", exit)
	}
}

// A prompt that git wrote with CR LF at the ends of its lines says the same as before.
func TestThePromptOfTheBuiltinAgentMayHaveCRLF(t *testing.T) {
	x := newTrial(t, Settings{Label: Builtin})
	text, exit, err := x.ask(t, "Do:\r\n```sh\r\necho x >b.txt\r\n```\r\nDone\r\n", 1000)
	if text != "Do:\nDone\n" || exit != 0 || err != nil {
		t.Errorf("%q, %d, %v", text, exit, err)
	}
	if b, err := os.ReadFile(filepath.Join(x.dir, "b.txt")); string(b) != "x\n" {
		t.Errorf("b.txt: %q, %v", b, err)
	}
}

// A block of commands without an end is named by its line.
func TestABlockThatNothingCloses(t *testing.T) {
	x := newTrial(t, Settings{Label: Builtin})
	if r := x.request(t, kernel.AgentRequest{Prompt: []byte("Do:\n```sh\ntouch made\n```\nand\n```sh\ntrue\n")}); r.Class != kernel.ExitFailure || !strings.Contains(x.err.String(), "line 6 of the prompt") {
		t.Errorf("%+v, %q", r, x.err.String())
	}
	if _, err := os.Stat(filepath.Join(x.dir, "made")); err == nil {
		t.Error("a part of the prompt was carried out")
	}
}

// Exit code 127 is of something that was not found: with the builtin agent a command of the prompt, with others
// perhaps the agent itself.
func TestWhatWasNotFound(t *testing.T) {
	for what, s := range map[string]Settings{
		"a command in the prompt was not found (exit 127): install it, or correct the prompt":       {Label: Builtin},
		"the agent's program, or a command that it ran, was not found (exit 127): install what its": {Command: []string{"sh", "-c", "no-such-agent"}},
	} {
		x := newTrial(t, s)
		if r := x.request(t, kernel.AgentRequest{Prompt: []byte("```sh\nno-such-tool --fix\n```\n")}); r.Class != kernel.ExitFailure || !strings.HasPrefix(r.Reason, what) {
			t.Errorf("%q, want %q", r.Reason, what)
		}
	}
}

func TestAnAgentThatCannotBeStarted(t *testing.T) {
	for name, row := range map[string]struct {
		settings Settings
		want     string
	}{
		"no shim":          {Settings{Label: "mine"}, "no agent shim named `mine` was found (looked in "},
		"a known one":      {Settings{Label: "codex"}, "codex is not installed: npm install -g @openai/codex, or set another agent in .vizier/config.toml, which is not there: /r/.vizier/config.toml; "},
		"a label as path":  {Settings{Label: "../codex"}, "no agent shim named `../codex` was found"},
		"not installed":    {Settings{Command: []string{"no-such-agent"}}, "command not found: no-such-agent"},
		"not executable":   {Settings{Command: []string{"./plain.sh"}}, "it is not executable; try `chmod +x"},
		"no program":       {Settings{Command: []string{"./empty"}}, "it is no program and has no #! line"},
		"bad filter":       {Settings{Command: []string{"echo"}, Filter: []string{"no-such-filter"}}, "progress filter: command not found"},
		"bad, with filter": {Settings{Command: []string{"no-such-agent"}, Filter: []string{"cat"}}, "command not found: no-such-agent"},
	} {
		t.Run(name, func(t *testing.T) {
			if row.settings.Label == "codex" {
				t.Setenv("PATH", t.TempDir())
			}
			x := newTrial(t, row.settings)
			x.Unconfigured = "/r/.vizier/config.toml"
			script(t, filepath.Join(x.Root, "plain.sh"), "#!/bin/sh\n", 0o644)
			script(t, filepath.Join(x.Root, "empty"), "\x00\x01", 0o755)
			if _, _, err := x.ask(t, "", 10); err == nil || !strings.Contains(err.Error(), row.want) {
				t.Errorf("got %v, want %s", err, row.want)
			}
		})
	}
}

func TestAShimAndItsFilterAreFound(t *testing.T) {
	x := newTrial(t, Settings{Label: "claude"})
	x.Shims = append([]string{filepath.Join(x.dir, "absent")}, x.Shims...)
	script(t, filepath.Join(x.Shims[1], "claude", "agent.sh"), "#!/bin/sh\ncat; echo raw\n", 0o755)
	script(t, filepath.Join(x.Shims[1], "claude", "filter.sh"), "#!/bin/sh\ngrep -v raw\n", 0o755)
	if text, exit, err := x.ask(t, "prompt\n", 100); text != "prompt\n" || exit != 0 || err != nil {
		t.Errorf("%q, %d, %v", text, exit, err)
	}
}

func TestAnAgentIsEndedWhenItsTimeIsUp(t *testing.T) {
	x := newTrial(t, Settings{Label: "slow", Timeout: 50 * time.Millisecond, Command: []string{"sh", "-c", "sleep 300"}})
	r, err := x.Run(t.Context(), kernel.AgentRequest{Job: &kernel.Job{}, Dir: x.dir, Limit: 10})
	if err != nil || r.Class != kernel.Timeout || r.Exit != 124 || r.Reason != "agent slow did not answer within 50ms" {
		t.Errorf("%+v, %v", r, err)
	}
}

// A script that was told to end may still end well, even if it was stopped.
func TestAScriptIsToldToEnd(t *testing.T) {
	for _, before := range []string{"touch ready", "(kill -STOP $$; touch ready) &"} {
		var out, errs bytes.Buffer
		s := Shell{Stdout: &out, Stderr: &errs, Grace: time.Minute}
		ctx, stop := context.WithCancel(t.Context())
		dir := t.TempDir()
		ready := filepath.Join(dir, "ready")
		go func() {
			defer stop()
			for t.Context().Err() == nil {
				if _, err := os.Stat(ready); err == nil {
					return
				}
			}
		}()
		exit, err := s.Run(ctx, dir, "trap 'echo bye; exit 3' TERM\n"+before+"\nwhile :; do sleep 0.05; done", nil)
		if exit != 3 || err != nil || out.String() != "bye\n" {
			t.Errorf("%s: exit %d, %v, %q", before, exit, err, &out)
		}
	}
}

func TestScriptsDoNotLearnOfTheResultFile(t *testing.T) {
	t.Setenv("VIZIER_RESULT_FILE", "/x")
	t.Setenv("VIZIER_JOB_ID", "j")
	out, exit, err := Shell{Stderr: os.Stderr}.Output(t.Context(), t.TempDir(), "echo $VIZIER_JOB_ID-$VIZIER_RESULT_FILE-$EXTRA", []string{"EXTRA=1"}, 100)
	if string(out) != "j--1\n" || exit != 0 || err != nil {
		t.Errorf("%q, %d, %v", out, exit, err)
	}
}

// What agents say goes onto lines of its own without what steers a terminal.
func TestPlain(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "one\ttwo \n three": "one two three", "\x1b[31;1mred\x1b[0m end": "red end", "a\x00b\x07\x7fc": "abc", "bad \xff byte": "bad byte", "é ü": "é ü",
	} {
		if got := plain(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestLimitsWhereNoneAreConfigured(t *testing.T) {
	for _, c := range []struct {
		s                Settings
		timeout, silence time.Duration
	}{
		{Settings{Label: "claude"}, DefaultTimeout, DefaultSilence},
		{Settings{Label: "claude", Timeout: 1, Silence: 2}, 1, 2},
		{Settings{Label: "claude", Command: []string{"mine"}}, DefaultTimeout, 0},
		{Settings{Label: "mine", Silence: 3}, DefaultTimeout, 3},
	} {
		if got := c.s.Limited(); got.Timeout != c.timeout || got.Silence != c.silence {
			t.Errorf("%+v: %v, %v", c.s, got.Timeout, got.Silence)
		}
	}
}
