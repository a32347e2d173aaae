package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// standIn returns a trial of a known program whose place a script takes. Its
// arguments are in the file that is returned.
func standIn(t *testing.T, s Settings, body string) (x *trial, args string) {
	t.Helper()
	x = newTrial(t, s)
	bin := t.TempDir()
	args = filepath.Join(bin, "args")
	script(t, filepath.Join(bin, s.Label), "#!/bin/sh\n[ \"$1\" = --version ] && { echo \"${VERSION:-9.9.9}\"; exit; }\nprintf '%s\\n' \"$@\" >"+args+"\n"+body, 0o755)
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	t.Setenv("HOME", bin)
	t.Setenv("CODEX_HOME", filepath.Join(bin, ".codex"))
	return x, args
}

func (x *trial) request(t *testing.T, q kernel.AgentRequest) kernel.AgentAnswer {
	t.Helper()
	q.Job, q.Dir, q.Limit = &kernel.Job{}, x.dir, 1000
	r, err := x.Run(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// The words of the configuration become the flags of each program.
func TestFlagsOfPrograms(t *testing.T) {
	for _, row := range []struct {
		set     Settings
		session string
		want    string
	}{
		{Settings{Label: "claude"}, "", "--print --verbose --permission-mode acceptEdits --output-format stream-json"},
		{Settings{Label: "claude", Permissions: MayRun, Model: "m", Flags: []string{"--effort", "low"}}, "s1",
			"--print --verbose --allowedTools Bash --permission-mode acceptEdits --model m --resume s1 --output-format stream-json --effort low"},
		{Settings{Label: "claude", Permissions: MayAll}, "", "--print --verbose --permission-mode bypassPermissions --output-format stream-json"},
		{Settings{Label: "codex"}, "", "exec --json --skip-git-repo-check -c allow_login_shell=false --sandbox workspace-write --add-dir SCRATCH -"},
		{Settings{Label: "codex", Permissions: MayRun, Model: "m", Flags: []string{"-c", "x=1"}}, "s1",
			"exec --json --skip-git-repo-check -c allow_login_shell=false --sandbox workspace-write --add-dir SCRATCH " +
				"-c sandbox_workspace_write.network_access=true --model m -c x=1 resume s1 -"},
		{Settings{Label: "codex", Permissions: MayAll}, "", "exec --json --skip-git-repo-check -c allow_login_shell=false --sandbox danger-full-access -"},
		{Settings{Label: "gemini"}, "", "--debug --output-format stream-json --approval-mode auto_edit"},
		{Settings{Label: "gemini", Permissions: MayRun, Model: "m", Flags: []string{"--x"}}, "s1",
			"--debug --output-format stream-json --approval-mode auto_edit --policy SCRATCH/policy.toml --model m --resume s1 --x"},
		{Settings{Label: "gemini", Permissions: MayAll}, "", "--debug --output-format stream-json --approval-mode yolo"},
	} {
		p, _ := programOf(row.set.Label)
		if got := strings.Join(p.flags(row.set, kernel.AgentRequest{Session: row.session}, "SCRATCH"), " "); got != row.want {
			t.Errorf("%+v:\n got %s\nwant %s", row.set, got, row.want)
		}
	}
	t.Setenv("VIZIER_CHECKPOINT_DIR", "/c")
	if got := codex.flags(Settings{}, kernel.AgentRequest{}, "/s"); !slices.Contains(got, "/c") {
		t.Errorf("the directory for checkpoints is not to be written: %q", got)
	}
}

const codexDone = `echo '{"type":"item.completed","item":{"type":"agent_message","text":"done"}}'
echo '{"type":"turn.completed","usage":{"input_tokens":5,"output_tokens":2}}'
`

// A sandboxed agent submits jobs in a directory of its own; they count once it
// has answered.
func TestJobsOutOfTheSandbox(t *testing.T) {
	for name, row := range map[string]struct{ end, want string }{
		"an answer":  {codexDone, "before\n{\"x\":1}\n"},
		"no answer":  {"exit 3\n", "before\n"},
		"no success": {codexDone + "exit 3\n", "before\n"},
	} {
		t.Run(name, func(t *testing.T) {
			x, args := standIn(t, Settings{Label: "codex"}, `echo '{"x":1}' >>"$VIZIER_SUBMISSIONS"`+"\n"+row.end)
			file := filepath.Join(t.TempDir(), "1.submissions.jsonl")
			script(t, file, "before\n", 0o600)
			t.Setenv("VIZIER_SUBMISSIONS", file)
			x.request(t, kernel.AgentRequest{})
			got, err := os.ReadFile(file)
			if string(got) != row.want || err != nil {
				t.Errorf("submitted %q, %v", got, err)
			}
			words, err := os.ReadFile(args)
			_, after, _ := strings.Cut(string(words), "--add-dir\n")
			dir, _, _ := strings.Cut(after, "\n")
			if _, gone := os.Stat(dir); err != nil || dir == "" || !os.IsNotExist(gone) {
				t.Errorf("the directory %q is left, %v", dir, err)
			}
		})
	}
}

func TestAgentsFindThisProgram(t *testing.T) {
	x := newTrial(t, Settings{Command: []string{"/bin/sh", "-c", "echo $VIZIER; command -v vizier"}})
	dir := t.TempDir()
	x.Self = filepath.Join(dir, "vizier")
	script(t, x.Self, "#!/bin/sh\n", 0o755)
	own := newTrial(t, Settings{Label: Builtin})
	own.Self = x.Self
	if err := os.Symlink("/bin/sh", filepath.Join(dir, "sh")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
	if _, exit, err := own.ask(t, "```sh\ntest \"$VIZIER $VIZIER_AGENT_PERMISSIONS\" = \""+x.Self+" edit\"\n```\n", 1000); exit != 0 || err != nil {
		t.Errorf("the builtin agent: %d, %v: %s", exit, err, own.err.String())
	}
	t.Setenv("PATH", t.TempDir())
	if text, _, err := x.ask(t, "", 1000); text != x.Self+"\n"+x.Self+"\n" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
}

// A person's own agent is told what known ones get as flags.
func TestWhatAnAgentIsTold(t *testing.T) {
	told := []string{"/bin/sh", "-c", `echo "$VIZIER_AGENT_SESSION $VIZIER_AGENT_MODEL $VIZIER_AGENT_PERMISSIONS $*"`, "x"}
	for want, s := range map[string]Settings{
		"s1  edit \n":       {Command: told},
		"s1 m all --fast\n": {Command: told, Model: "m", Permissions: MayAll, Flags: []string{"--fast"}},
	} {
		x := newTrial(t, s)
		if r := x.request(t, kernel.AgentRequest{Session: "s1"}); string(r.Text) != want {
			t.Errorf("%q, want %q", r.Text, want)
		}
	}
}

func TestASessionThatIsGone(t *testing.T) {
	x, args := standIn(t, Settings{Label: "codex"}, `case "$*" in *resume*) echo "Error: no rollout found for thread id s1" >&2; exit 1;; esac
echo '{"type":"thread.started","thread_id":"s2"}'
`+codexDone)
	r := x.request(t, kernel.AgentRequest{Session: "s1"})
	words, err := os.ReadFile(args)
	if r.Class != kernel.NoFailure || string(r.Text) != "done\n" || r.Run.Session != "s2" || strings.Contains(string(words), "resume") || err != nil {
		t.Errorf("%+v, then asked with %q, %v", r, words, err)
	}
	if !strings.Contains(x.err.String(), "codex does not have session s1 any more, and begins anew") {
		t.Errorf("it says %q", x.err.String())
	}
}

// A program that does not take its flags is told from one that fails.
func TestRefusedFlags(t *testing.T) {
	for name, row := range map[string]struct {
		label, says string
		flags       []string
		want        string
	}{
		"codex": {"codex", "error: unexpected argument '--sandbox' found", nil,
			"codex 9.9.9 does not take the flags of 0.169.0, which this vizier was made for: error: unexpected argument '--sandbox' found; install that version: npm install -g @openai/codex@0.169.0"},
		"claude":     {"claude", "error: unknown option '--verbose'", nil, "claude 9.9.9 does not take the flags of 2.1.197"},
		"gemini":     {"gemini", "Unknown argument: policy", nil, "gemini 9.9.9 does not take the flags of 0.61.0"},
		"a value":    {"claude", "error: option '--permission-mode <mode>' argument 'x' is invalid. Allowed choices are y.", nil, "claude 9.9.9 does not take the flags of"},
		"one's own":  {"codex", "error: unexpected argument '--swift' found", []string{"--swift=3"}, "codex 9.9.9 does not take `--swift=3` of the key flags: error"},
		"no refusal": {"codex", "Error: cannot open database", nil, "agent codex failed (exit 2): Error: cannot open database"},
	} {
		t.Run(name, func(t *testing.T) {
			x, _ := standIn(t, Settings{Label: row.label, Flags: row.flags}, "printf '%s\\n' \""+row.says+"\" '' 'For more information, try --help' >&2; exit 2\n")
			if r := x.request(t, kernel.AgentRequest{}); r.Class != kernel.ExitFailure || r.Exit != 2 || !strings.HasPrefix(r.Reason, row.want) {
				t.Errorf("exit %d, %s: %q", r.Exit, r.Class, r.Reason)
			}
		})
	}
}

func TestAnOldVersionIsTold(t *testing.T) {
	t.Setenv("VERSION", "codex-cli 0.99.4")
	x, _ := standIn(t, Settings{Label: "codex"}, codexDone)
	r := x.request(t, kernel.AgentRequest{})
	if want := "warning: codex 0.99.4 is older than 0.169.0, which this vizier was made for"; r.Run.Version != "0.99.4" || !strings.Contains(x.err.String(), want) {
		t.Errorf("version %q, %q", r.Run.Version, x.err.String())
	}
	for _, row := range []struct {
		a, b string
		want bool
	}{{"1.2.3", "1.2.3", false}, {"1.2.3", "1.10.0", true}, {"2.0.0", "1.9.9", false}, {"1.2.3-rc.1", "1.2.4", true}, {"1.2", "1.2.1", true}, {"x", "0.0.1", true}} {
		if older(row.a, row.b) != row.want {
			t.Errorf("%s older than %s: want %t", row.a, row.b, row.want)
		}
	}
}

// Silence ends an agent, and output keeps it: its own and its filter's, on
// either stream.
func TestSilence(t *testing.T) {
	for name, row := range map[string]struct {
		s    Settings
		want kernel.FailureClass
	}{
		"silent":             {Settings{Label: "x", Command: []string{"sleep", "300"}}, kernel.Timeout},
		"silent, filtered":   {Settings{Label: "x", Command: []string{"sleep", "300"}, Filter: []string{"cat"}}, kernel.Timeout},
		"telling":            {Settings{Label: "x", Command: []string{"sh", "-c", "for i in 1 2 3 4 5 6 7 8; do sleep 0.5; echo $i >&2; done"}}, kernel.NoFailure},
		"answering":          {Settings{Label: "x", Command: []string{"sh", "-c", "for i in 1 2 3 4 5 6 7 8; do sleep 0.5; echo $i; done"}}, kernel.NoFailure},
		"a program, silent":  {Settings{Label: "codex"}, kernel.Timeout},
		"a filter's own end": {Settings{Label: "x", Command: []string{"sh", "-c", "trap 'exit 0' TERM; sleep 300 & wait"}, Filter: []string{"sh", "-c", "trap 'exit 9' TERM; cat"}}, kernel.Timeout},
	} {
		t.Run(name, func(t *testing.T) {
			row.s.Silence = 2 * time.Second
			var x *trial
			if row.s.Label == "codex" {
				x, _ = standIn(t, row.s, "echo '{\"type\":\"thread.started\",\"thread_id\":\"s7\"}'; sleep 300\n")
			} else {
				x = newTrial(t, row.s)
			}
			r := x.request(t, kernel.AgentRequest{})
			if r.Class != row.want || row.want == kernel.Timeout && (r.Exit != 124 || r.Reason != "agent "+row.s.Label+" said nothing for 2s, as long as the key silence allows") {
				t.Errorf("exit %d, %s: %q", r.Exit, r.Class, r.Reason)
			}
			if row.s.Label == "codex" && r.Run.Session != "s7" {
				t.Errorf("what it told before is lost: %+v", r.Run)
			}
			if strings.Contains(x.err.String(), "filter") {
				t.Errorf("the filter takes the blame: %s", x.err.String())
			}
		})
	}
}

// A person's own agent tells by a file what known ones tell in their output.
func TestReports(t *testing.T) {
	const told = `{"class":"rate_limited","reason":"no more\ntoday","resets_at":"2026-01-31T12:00:00+01:00","session":"s1","model":"m","version":"1.2",
"turns":3,"usage":{"input_tokens":10,"cached_tokens":4,"output_tokens":5,"cost_usd":0.5},"denied":["rm"]}`
	want := kernel.AgentRun{Agent: "mine", Version: "1.2", Model: "m", Session: "s1", Turns: 3, Denied: []string{"rm"},
		Usage: kernel.Usage{Input: 10, Cached: 4, Output: 5, CostUSD: 0.5}, Resets: time.Date(2026, 1, 31, 11, 0, 0, 0, time.UTC)}
	run := func(report, more string, s Settings) (kernel.AgentAnswer, string) {
		s.Label = "mine"
		if s.Command == nil {
			s.Command = []string{"sh", "-c", "cat >\"$VIZIER_AGENT_REPORT\"; echo answer; " + more}
		}
		x := newTrial(t, s)
		r := x.request(t, kernel.AgentRequest{Prompt: []byte(report)})
		return r, x.err.String()
	}
	for exit, more := range map[int]string{4: "exit 4", 1: ""} {
		r, _ := run(told, more, Settings{})
		if r.Class != kernel.RateLimited || r.Exit != exit || r.Reason != "no more today" || fmt.Sprint(r.Run) != fmt.Sprint(want) {
			t.Errorf("%q: %+v; want exit code %d", more, r, exit)
		}
	}
	r, _ := run(told, "", Settings{Command: []string{"cat"}, Filter: []string{"sh", "-c", "cat >\"$VIZIER_AGENT_REPORT\"; exit 2"}})
	if r.Class != kernel.RateLimited || r.Exit != 2 || r.Run.Session != "s1" {
		t.Errorf("a filter: %+v", r)
	}
	if r, _ = run(`{"session":"s9","reason":"all is well"}`, "", Settings{}); r.Class != kernel.NoFailure || r.Reason != "" || r.Run.Session != "s9" || string(r.Text) != "answer\n" {
		t.Errorf("no failure: %+v", r)
	}
	for _, absurd := range []string{"-1", "1000000000001"} {
		r, _ := run(`{"turns":`+absurd+`,"usage":{"input_tokens":`+absurd+`,"cached_tokens":7,"output_tokens":`+absurd+`,"cost_usd":`+absurd+`}}`, "", Settings{})
		if r.Class != kernel.NoFailure || r.Run.Turns != 0 || r.Run.Usage != (kernel.Usage{Cached: 7}) {
			t.Errorf("%s: %+v", absurd, r)
		}
	}
	if r, _ := run(`{"turns":1000000,"usage":{"input_tokens":1000000000000,"cost_usd":1e6}}`, "", Settings{}); r.Run.Turns != 1_000_000 || r.Run.Usage != (kernel.Usage{Input: 1_000_000_000_000, CostUSD: 1e6}) {
		t.Errorf("the most: %+v", r)
	}
	for report, words := range map[string]string{
		"{":                     "unexpected end of JSON",
		`{"class":"bored"}`:     `class "bored": expected one of [rate_limited unauthorized overloaded timeout exit]`,
		`{"resets_at":"later"}`: "parsing time",
		`{"x":"` + strings.Repeat("y", maxReport) + `"}`: "it is longer than 65536 bytes",
	} {
		r, said := run(report, "", Settings{})
		if r.Class != kernel.NoFailure || !strings.Contains(said, "warning: what agent mine told in $VIZIER_AGENT_REPORT is not taken: ") || !strings.Contains(said, words) {
			t.Errorf("%.40s: %s, %q", report, r.Class, said)
		}
	}
}

func TestClockTimes(t *testing.T) {
	zone := time.FixedZone("X", 3600)
	now := time.Date(2026, 11, 22, 4, 0, 0, 0, zone)
	for words, want := range map[string]string{
		"or try again at 5:51 AM.":               "2026-11-22T04:51:00Z",
		"try again at 3:59 AM":                   "2026-11-23T02:59:00Z",
		"Try again at Nov 25th, 2026 5:09 PM.":   "2026-11-25T16:09:00Z",
		"try again at 12:00 AM":                  "2026-11-22T23:00:00Z",
		"try again at Foo 25th, 2026 5:09 PM":    "",
		"try again later":                        "",
		"try again at 99:99 AM, or at some time": "",
	} {
		got := clockTime(words, now)
		if text := got.Format(time.RFC3339); want == "" && !got.IsZero() || want != "" && text != want {
			t.Errorf("%q: %s, want %s", words, text, want)
		}
	}
}
