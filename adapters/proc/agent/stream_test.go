package agent

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
)

// What Codex shows of each of its items, when they begin and when they end.
func TestItemsOfCodex(t *testing.T) {
	t.Setenv("CODEX_HOME", t.TempDir())
	item := func(kind, body string) string { return `{"type": "item.` + kind + `", "item": {` + body + `}}` + "\n" }
	for events, want := range map[string]string{
		item("started", `"type": "command_execution", "command": "/bin/bash -lc 'ls -a'"`):                                                                                                   "$ ls -a\n",
		item("started", `"type": "command_execution", "command": "/bin/sh -c ls"`):                                                                                                           "$ ls\n",
		item("completed", `"type": "command_execution", "command": "ls", "exit_code": 3`):                                                                                                    "  exit 3\n",
		item("completed", `"type": "command_execution", "command": "ls", "exit_code": 0`):                                                                                                    "",
		item("completed", `"type": "command_execution", "command": "ls"`):                                                                                                                    "",
		item("completed", `"type": "command_execution", "command": "rm x", "status": "declined", "exit_code": 1`):                                                                            "not allowed: rm x\n",
		item("started", `"type": "file_change", "changes": [{"path": "a", "kind": "add"}]`):                                                                                                  "",
		item("completed", `"type": "file_change", "changes": [{"path": "a", "kind": "add"}, {"path": "b", "kind": "update"}]`):                                                               "add a\nupdate b\n",
		item("completed", `"type": "file_change", "status": "declined", "changes": [{"path": "a", "kind": "add"}]`):                                                                          "add a\nnot allowed: add a\n",
		item("started", `"type": "mcp_tool_call", "server": "s", "tool": "t"`):                                                                                                               "s.t\n",
		item("completed", `"type": "mcp_tool_call", "server": "s", "tool": "t"`):                                                                                                             "",
		item("started", `"type": "web_search", "query": "q"`):                                                                                                                                "",
		item("completed", `"type": "web_search", "query": "q"`):                                                                                                                              "search q\n",
		item("started", `"type": "error", "message": "m"`):                                                                                                                                   "",
		item("completed", `"type": "error", "message": "m"`):                                                                                                                                 "warning: m\n",
		item("started", `"type": "agent_message", "text": "no"`) + item("completed", `"type": "agent_message", "text": "one"`) + item("completed", `"type": "agent_message", "text": "two"`): "one\n",
		item("completed", `"type": "agent_message", "text": "on the way"`) + item("completed", `"type": "command_execution", "command": "ls", "exit_code": 3`):                               "on the way\n  exit 3\n",
		`{"type": "error", "message": "Reconnecting... 2/5 (timeout)"}` + "\n":                                                                                                               "codex asks again, attempt 2 of 5: timeout\n",
		`{"type": ""}` + "\n" + "{}\nnot json\n [] \n":                                                                                                                                       "{\"type\": \"\"}\n{}\nnot json\n[]\n",
	} {
		if got := replay(codex, "", []byte(events), nil, 0, 7).progress; got != want {
			t.Errorf("%s\n got %q\nwant %q", events, got, want)
		}
	}
	failed := `{"type": "error", "message": "You've hit your usage limit. Try again at 3:05 PM."}` + "\n"
	r := replay(codex, "", []byte(item("completed", `"type": "agent_message", "text": "half"`)+failed), nil, 1, 100)
	if r.class != kernel.RateLimited || r.answer != "" || r.run.Resets.IsZero() {
		t.Errorf("%+v", r)
	}
	done := `{"type": "thread.started", "thread_id": "s1"}` + "\n" + failed + item("completed", `"type": "agent_message", "text": "all"`) + `{"type": "turn.completed", "usage": {"input_tokens": 30, "cached_input_tokens": 20, "output_tokens": 10}}` + "\n"
	r = replay(codex, "", []byte(done), nil, 0, 100)
	if r.class != kernel.NoFailure || r.answer != "all" || r.run.Session != "s1" || r.run.Usage != (kernel.Usage{Input: 30, Cached: 20, Output: 10}) {
		t.Errorf("%+v", r)
	}
	if r = replay(codex, "", []byte(done+`{"type": "turn.failed", "error": {"message": "boom"}}`+"\n"), nil, 1, 100); r.class != kernel.ExitFailure || !strings.Contains(r.reason, "boom") {
		t.Errorf("%+v", r)
	}
}

// What Codex used before in its session is not this turn's.
func TestSessionsOfCodex(t *testing.T) {
	home := t.TempDir()
	t.Setenv("CODEX_HOME", home)
	write := func(name, text string) {
		t.Helper()
		at := filepath.Join(home, "sessions", "2026", "01", "02", name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	count := func(in, out string) string {
		return `{"type": "event_msg", "payload": {"type": "token_count", "info": {"total_token_usage": {"input_tokens": ` + in + `, "output_tokens": ` + out + `}}}}` + "\n"
	}
	long := `{"type": "x", "text": "` + strings.Repeat("y", 200<<10) + `token_count"}` + "\n"
	write("rollout-1-s1.jsonl", `{"type": "turn_context", "payload": {"model": "m1"}}`+"\n"+count("5", "1")+count("5", "1")+long+count("9", "2")+`{"type": "event_msg", "payload": {"type": "token_count"}}`+"\n"+"half")
	c := &codexParser{stream: &stream{progress: &bytes.Buffer{}}, home: home}
	if s := c.session("s1"); s != (codexSession{codexUsage{Input: 9, Output: 2}, "m1", 2}) {
		t.Errorf("%+v", s)
	}
	for _, id := range []string{"", "s2", "*", "s?", "[s]1", "a/s1", `a\s1`} {
		if s := c.session(id); s != (codexSession{}) {
			t.Errorf("%q: %+v", id, s)
		}
	}
	turn := `{"type": "turn.completed", "usage": {"input_tokens": 30, "output_tokens": 10}}` + "\n"
	r := replay(codex, "s1", []byte(turn), nil, 0, 100)
	if r.run.Usage != (kernel.Usage{Input: 21, Output: 8}) || r.run.Model != "m1" || r.run.Turns != 0 {
		t.Errorf("%+v", r.run)
	}
	if c = (&codexParser{stream: &stream{progress: &bytes.Buffer{}}}); c.session("s1") != (codexSession{}) {
		t.Error("a session without a home")
	}
	t.Setenv("CODEX_HOME", "")
	t.Setenv("HOME", "/h")
	if got := codexHome(); got != "/h/.codex" {
		t.Error(got)
	}
}

// What is kept of a stream, and what is shown, is bounded.
func TestWhatIsKeptOfAStream(t *testing.T) {
	var shown bytes.Buffer
	s := &stream{progress: &shown, limit: 4, noSession: "no such session"}
	s.add("ab")
	s.add("cdefg")
	if string(s.said) != "abcde" {
		t.Errorf("%q", s.said)
	}
	s.say("x")
	if string(s.said) != "x" || s.more {
		t.Errorf("%q %t", s.said, s.more)
	}
	s.add("y")
	if string(s.said) != "y" || shown.String() != "abcde\nx\n" {
		t.Errorf("%q, shown %q", s.said, shown.String())
	}
	shown.Reset()
	for range 2 {
		for i := range maxDenied + 5 {
			s.denied(" tool " + strings.Repeat("x", i) + "\x07")
		}
	}
	s.denied(" \x07")
	if len(s.run.Denied) != maxDenied || s.run.Denied[0] != "tool" || strings.Count(shown.String(), "not allowed: ") != maxDenied {
		t.Errorf("%d denied, shown %d", len(s.run.Denied), strings.Count(shown.String(), "\n"))
	}
	for words, want := range map[string]int{strings.Repeat("é", 300): maxWords, strings.Repeat("a", maxWords): maxWords, strings.Repeat("a", maxWords+1): maxWords, "a" + strings.Repeat("é", 300): maxWords - 1} {
		s := &stream{progress: &shown}
		s.fail(kernel.ExitFailure, words)
		if got := len(strings.TrimSuffix(s.fault.words, "…")); got != want {
			t.Errorf("%.3s: %d bytes, want %d", words, got, want)
		}
	}
	// the first class that says something counts, and the last words
	s = &stream{progress: &shown}
	s.fail(kernel.ExitFailure, "one")
	s.fail(kernel.RateLimited, "two")
	s.fail(kernel.Overloaded, "three")
	s.fail(kernel.ExitFailure, " ")
	if s.fault != (fault{kernel.RateLimited, "three"}) {
		t.Errorf("%+v", s.fault)
	}
	// of what it writes to standard error the last counts, and the first error before all
	s = &stream{progress: &shown, noSession: "no such session"}
	for _, line := range []string{"one", "", "two"} {
		s.noteReason(line)
	}
	if s.last != "two" || s.errs || s.sessionLost {
		t.Errorf("%+v", s)
	}
	for _, line := range []string{"Fatal error: no such session", "error: later"} {
		s.noteReason(line)
	}
	if s.last != "Fatal error: no such session" || !s.errs || !s.sessionLost {
		t.Errorf("%q %t %t", s.last, s.errs, s.sessionLost)
	}
	if s = (&stream{progress: &shown}); s.sessionLost {
		t.Error("lost")
	}
	s.noteReason("anything")
	if s.sessionLost {
		t.Error("a program that never says so has lost its session")
	}
	for text, want := range map[string]bool{"{}": true, ` {"type": 3} `: true, `{"type": "x"}`: true, "": false, "[]": false, "{": false, "x{}": false} {
		var e codexEvent
		if got := decode([]byte(text), &e); got != want {
			t.Errorf("%q: %t", text, got)
		}
	}
}

func TestEndsOfLines(t *testing.T) {
	for text, want := range map[string]string{"": "", "a": "a", "a\n": "a", "a\nb": "a|b", "\n\na": "||a", "a\n\n": "a|", "ab\ncd\n": "ab|cd"} {
		for step := 1; step < 4; step++ {
			var got []string
			l := &lines{each: func(line []byte) { got = append(got, string(line)) }, dropped: func() { t.Error("dropped") }}
			for left := text; left != ""; left = left[min(step, len(left)):] {
				if n, err := l.Write([]byte(left[:min(step, len(left))])); n != min(step, len(left)) || err != nil {
					t.Errorf("%d %v", n, err)
				}
			}
			l.close()
			l.close()
			if g := strings.Join(got, "|"); g != want {
				t.Errorf("%q by %d: %q, want %q", text, step, g, want)
			}
		}
	}
}

// The jobs that an agent submitted from its sandbox go after those that are
// there.
func TestSubmittedFromASandbox(t *testing.T) {
	dir := t.TempDir()
	file, to := filepath.Join(dir, "jobs"), filepath.Join(dir, "to")
	t.Setenv(submissionsVariable, to)
	if err := forwardSubmissions(file); err != nil {
		t.Errorf("of none: %v", err)
	}
	put := func(at, text string) {
		t.Helper()
		if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put(file, "")
	if err := forwardSubmissions(file); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(to); !os.IsNotExist(err) {
		t.Errorf("nothing was submitted, and %v", err)
	}
	put(file, "two\n")
	put(to, "one\n")
	if err := forwardSubmissions(file); err != nil {
		t.Error(err)
	}
	if b, err := os.ReadFile(to); string(b) != "one\ntwo\n" || err != nil {
		t.Errorf("%q %v", b, err)
	}
	t.Setenv(submissionsVariable, "")
	if err := forwardSubmissions(file); err != nil {
		t.Errorf("to nobody: %v", err)
	}
	t.Setenv(submissionsVariable, filepath.Join(dir, "no", "such"))
	if err := forwardSubmissions(file); err == nil {
		t.Error("they are lost, and nobody hears of it")
	}
	t.Setenv(submissionsVariable, to)
	if err := forwardSubmissions(dir); err == nil {
		t.Error("a directory was read")
	}
	for size, want := range map[int64]bool{maxSubmitted: true, maxSubmitted + 1: false} {
		big, all := filepath.Join(dir, "big"), filepath.Join(dir, "all")
		put(big, "")
		t.Setenv(submissionsVariable, all)
		if err := errors.Join(os.Truncate(big, size), os.RemoveAll(all)); err != nil {
			t.Fatal(err)
		}
		err := forwardSubmissions(big)
		if info, lost := os.Stat(all); (err == nil) != want || want && (lost != nil || info.Size() != size) || !want && lost == nil {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
	if err := os.Symlink(file, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	t.Setenv(submissionsVariable, filepath.Join(dir, "link"))
	if err := forwardSubmissions(file); err == nil {
		t.Error("a link was followed")
	}
}

func TestLastLine(t *testing.T) {
	for text, want := range map[string]string{"": "", "\n \n": "", "a\nb\n\n": "b", " a ": "a", strings.Repeat("x", 200): strings.Repeat("x", 200), strings.Repeat("x", 201): strings.Repeat("x", 200) + "…"} {
		if got := lastLine(text); got != want {
			t.Errorf("%.5q: %.5q of %d", text, got, len(got))
		}
	}
}
