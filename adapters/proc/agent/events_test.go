package agent

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// What Claude Code's events come to.
func TestEventsOfClaude(t *testing.T) {
	usage := func(u kernel.Usage) [4]int64 {
		return [4]int64{u.Input, u.Cached, u.Output, int64(math.Round(u.CostUSD * 100))}
	}
	for result, want := range map[string][4]int64{
		`"num_turns": 2, "total_cost_usd": 0.5, "usage": {"input_tokens": 1, "cache_creation_input_tokens": 20, "cache_read_input_tokens": 300, "output_tokens": 4000}`:                                                                                         {321, 300, 4000, 50},
		`"num_turns": 2, "usage": {"input_tokens": 9}, "modelUsage": {"b": {"inputTokens": 1, "outputTokens": 2, "cacheReadInputTokens": 30, "cacheCreationInputTokens": 400, "costUSD": 0.25}, "a": {"inputTokens": 1000, "outputTokens": 3, "costUSD": 0.5}}`: {1431, 30, 5, 75},
		`"num_turns": 2, "modelUsage": {"b": {"inputTokens": 1}}, "model_usage_since_last_result": {"b": {"inputTokens": 7, "cacheCreationInputTokens": 1}}`:                                                                                                    {8, 0, 0, 0},
	} {
		r := replay(claudeCode, "", []byte(`{"type": "result", "result": "r", `+result+"}\n"), nil, 0, 50)
		if got := usage(r.run.Usage); got != want || r.answer != "r" || r.run.Turns != 2 {
			t.Errorf("%s: %v, %+v", result, got, r)
		}
	}
	const text = `{"type": "assistant", "message": {"content": [{"type": "text", "text": "on the way"}, {"type": "tool_use", "name": "Bash", "input": {"command": "ls", "description": "d"}}, {"type": "text", "text": "last"}]}}` + "\n"
	for events, want := range map[string]string{
		text: "on the way\nBash ls\n",
		`{"type": "assistant", "message": {"content": [{"type": "tool_use", "name": "Read", "input": {"file_path": "f"}}]}}`:                                          "Read f\n",
		`{"type": "assistant", "message": {"content": [{"type": "tool_use", "name": "Fetch", "input": {"url": "u", "pattern": "p"}}]}}`:                               "Fetch u\n",
		`{"type": "assistant", "message": {"content": [{"type": "tool_use", "name": "Grep", "input": {"pattern": "p", "description": "d"}}]}}`:                        "Grep p\n",
		`{"type": "assistant", "message": {"content": [{"type": "tool_use", "name": "Task", "input": {"description": "d"}}]}}`:                                        "Task d\n",
		`{"type": "assistant", "message": {"content": [{"type": "tool_use", "name": "Other", "input": {}}]}}`:                                                         "Other\n",
		`{"type": "assistant", "message": {"content": "text"}}`:                                                                                                       "",
		`{"type": "system", "subtype": "api_retry", "attempt": 2, "max_retries": 10, "retry_delay_ms": 1234, "error_status": 529, "error": "overloaded"}`:             "claude asks again, attempt 2 of 10: status 529, overloaded in 1.2s\n",
		`{"type": "system", "subtype": "api_retry", "attempt": 2, "max_retries": 10, "retry_delay_ms": 1234, "error": {"a": 1}}`:                                      "claude asks again, attempt 2 of 10: {\"a\": 1} in 1.2s\n",
		`{"type": "result", "result": "r", "permission_denials": [{"tool_name": "Bash", "tool_input": {"command": "rm x"}}, {"tool_name": "Odd", "tool_input": {}}]}`: "not allowed: Bash rm x\nnot allowed: Odd\n",
		`{"no": "type"}`: "{\"no\": \"type\"}\n",
	} {
		if got := replay(claudeCode, "", []byte(events), nil, 0, 50).progress; got != want {
			t.Errorf("%s\n got %q\nwant %q", events, got, want)
		}
	}
	reset := time.Unix(1800000000, 0).UTC()
	for events, want := range map[string]kernel.FailureClass{
		`{"type": "rate_limit_event", "rate_limit_info": {"status": "rejected", "resetsAt": 1800000000}}`:                   kernel.RateLimited,
		`{"type": "assistant", "error": "authentication_failed", "message": {"content": [{"type": "text", "text": "no"}]}}`: kernel.Unauthorized,
		`{"type": "assistant", "error": "oauth_org_not_allowed"}`:                                                           kernel.Unauthorized,
		`{"type": "assistant", "error": "billing_error"}`:                                                                   kernel.RateLimited,
		`{"type": "assistant", "error": "rate_limit"}`:                                                                      kernel.RateLimited,
		`{"type": "assistant", "error": "server_error"}`:                                                                    kernel.Overloaded,
		`{"type": "assistant", "error": "overloaded"}`:                                                                      kernel.Overloaded,
		`{"type": "result", "is_error": true, "api_error_status": 429, "result": "slow down", "errors": ["e1", "e2"]}`:      kernel.RateLimited,
		`{"type": "result", "is_error": true, "result": "slow down", "errors": ["e1", "e2"]}`:                               kernel.ExitFailure,
	} {
		r := replay(claudeCode, "", []byte(text+events+"\n"), nil, 1, 50)
		if r.class != want || r.answer != "" || strings.Contains(events, "resetsAt") != r.run.Resets.Equal(reset) || strings.Contains(events, "errors") && !strings.Contains(r.reason, "slow down e1 e2") {
			t.Errorf("%s: %+v", events, r)
		}
	}
	for _, events := range []string{`{"type": "rate_limit_event", "rate_limit_info": {"status": "allowed", "resetsAt": 1800000000}}`, `{"type": "rate_limit_event", "rate_limit_info": {"status": "rejected"}}`} {
		if r := replay(claudeCode, "", []byte(events+"\n"+text+`{"type": "result", "session_id": "s", "result": ""}`), nil, 0, 50); r.class != kernel.NoFailure || r.answer != "last" || !r.run.Resets.IsZero() || r.run.Session != "s" {
			t.Errorf("%s: %+v", events, r)
		}
	}
	if r := replay(claudeCode, "", []byte(`{"type": "assistant", "error": "overloaded"}`+"\n"+`{"type": "result", "result": "all the same"}`), nil, 0, 50); r.class != kernel.NoFailure || r.answer != "all the same" {
		t.Errorf("%+v", r)
	}
	if r := replay(claudeCode, "", []byte(`{"type": "system", "subtype": "init", "model": "m", "claude_code_version": "1.2.3"}`), nil, 0, 50); r.run.Model != "m" || r.run.Version != "1.2.3" {
		t.Errorf("%+v", r.run)
	}
}

// What Gemini CLI's events come to.
func TestEventsOfGemini(t *testing.T) {
	home := t.TempDir()
	t.Setenv("GEMINI_CLI_HOME", home)
	message := func(role, text string) string {
		return `{"type": "message", "role": "` + role + `", "content": "` + text + `"}` + "\n"
	}
	use := func(id, parameters string) string {
		return `{"type": "tool_use", "tool_name": "tool", "tool_id": "` + id + `", "parameters": {` + parameters + `}}` + "\n"
	}
	end := func(id, kind, words string) string {
		return `{"type": "tool_result", "tool_id": "` + id + `", "error": {"type": "` + kind + `", "message": "` + words + `"}}` + "\n"
	}
	for events, want := range map[string]string{
		use("1", `"command": "c", "file_path": "f"`):                                       "tool c\n",
		use("1", `"file_path": "f", "dir_path": "d"`):                                      "tool f\n",
		use("1", `"dir_path": "d", "pattern": "p"`):                                        "tool d\n",
		use("1", `"pattern": "p", "query": "q"`):                                           "tool p\n",
		use("1", `"query": "q", "url": "u"`):                                               "tool q\n",
		use("1", `"url": "u", "prompt": "x"`):                                              "tool u\n",
		use("1", `"prompt": "x"`):                                                          "tool x\n",
		use("1", ""):                                                                       "tool\n",
		use("1", `"command": "c"`) + end("1", "policy_violation", "m"):                     "tool c\nnot allowed: tool c\n",
		use("1", `"command": "c"`) + end("1", "tool_not_registered", "m"):                  "tool c\nnot allowed: tool c\n",
		use("1", `"command": "c"`) + end("1", "permission_denied", "m"):                    "tool c\nnot allowed: tool c\n",
		use("1", `"command": "c"`) + end("1", "path_not_in_workspace", "m"):                "tool c\nnot allowed: tool c\n",
		use("1", `"command": "c"`) + end("1", "other", "m"):                                "tool c\n  failed: m\n",
		use("1", `"command": "c"`) + end("1", "", ""):                                      "tool c\n",
		end("1", "policy_violation", "m"):                                                  "",
		`{"type": "error", "severity": "warning", "message": "careful"}` + "\n":            "warning: careful\n",
		message("user", "question") + message("assistant", "one") + use("1", `"url": "u"`): "one\ntool u\n",
	} {
		if got := replay(gemini, "", []byte(events), nil, 0, 50).progress; got != want {
			t.Errorf("%s\n got %q\nwant %q", events, got, want)
		}
	}
	ok := `{"type": "result", "status": "success", "stats": {"input_tokens": 3, "output_tokens": 2, "cached": 1, "models": {"small": {"output_tokens": 5}, "large": {"output_tokens": 9}, "last": {"output_tokens": 9}}}}` + "\n"
	start := `{"type": "init", "session_id": "abc-def", "model": "auto"}` + "\n"
	all := start + message("assistant", "a") + message("assistant", "b") + use("1", "") + end("1", "", "") + message("assistant", "c") + message("assistant", "d") + ok
	r := replay(gemini, "", []byte(all), nil, 0, 50)
	if r.class != kernel.NoFailure || r.answer != "cd" || r.run.Turns != 2 || r.run.Usage != (kernel.Usage{Input: 3, Output: 2, Cached: 1}) || r.run.Model != "large" || r.run.Session != "abc-def" {
		t.Errorf("%+v", r)
	}
	// what the program keeps of its answer is the answer, where there is one such file
	chats := filepath.Join(home, ".gemini", "tmp", "x", "chats")
	if err := os.MkdirAll(chats, 0o755); err != nil {
		t.Fatal(err)
	}
	keep := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(chats, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	keep("session-1-abc.jsonl", `{"type": "gemini", "content": "c"}`+"\n"+`{"type": "gemini", "content": "d"}`+"\n"+`{"type": "user", "content": "cd"}`+"\n"+`{"type": "gemini", "content": " "}`+"\nodd\n")
	if r = replay(gemini, "", []byte(all), nil, 0, 50); r.answer != "d" {
		t.Errorf("%q", r.answer)
	}
	if r = replay(gemini, "", []byte(strings.Replace(all, `"content": "d"`, `"content": "e"`, 1)), nil, 0, 50); r.answer != "ce" {
		t.Errorf("%q", r.answer)
	}
	keep("session-2-abc.jsonl", "")
	if r = replay(gemini, "", []byte(all), nil, 0, 50); r.answer != "cd" {
		t.Errorf("of two files: %q", r.answer)
	}
	for words, want := range map[string]string{"plain": "plain", "[API Error: plain]": "plain", `[API Error: {"error": {"message": "quota", "code": 429}}]`: "quota", "[API Error: one]\\nmore": "one\nmore"} {
		text := strings.ReplaceAll(words, `"`, `\"`)
		r := replay(gemini, "", []byte(message("assistant", "half")+`{"type": "result", "status": "error", "error": {"message": "`+text+`"}}`), nil, 1, 50)
		if !strings.Contains(r.reason, strings.ReplaceAll(want, "\n", " ")) || strings.Contains(r.reason, "API Error") || r.answer != "" || r.class == kernel.NoFailure {
			t.Errorf("%s: %+v", words, r)
		}
	}
	for exit, want := range map[int]kernel.FailureClass{41: kernel.Unauthorized, 429 - 256: kernel.RateLimited, 1: kernel.ExitFailure} {
		if r := replay(gemini, "", nil, []byte("what\nelse"), exit, 50); r.class != want {
			t.Errorf("exit %d: %+v", exit, r)
		}
	}
	// a session's name is no pattern
	sole := strings.Replace(all, "abc-def", "z?-def", 1)
	keep("session-1-zz.jsonl", `{"type": "gemini", "content": "d"}`+"\n")
	if r = replay(gemini, "", []byte(sole), nil, 0, 50); r.answer != "cd" || r.run.Session != "z?-def" {
		t.Errorf("of a session with a name like a pattern: %+v", r)
	}
	// what it says before it begins is why it does not; afterwards it is for who debugs it
	const odd = "Error: no such module"
	for name, c := range map[string]struct{ out, errs, want string }{
		"at once":    {"", odd + "\n  \nsee the log\n", odd},
		"for people": {"", "debug\nUnknown argument: x\n" + odd + "\n", "Unknown argument: x"},
	} {
		r := replay(gemini, "", []byte(c.out), []byte(c.errs), 1, 50)
		if r.class == kernel.NoFailure || !strings.Contains(r.reason, c.want) || c.want != odd && strings.Contains(r.reason, odd) {
			t.Errorf("%s: %+v", name, r)
		}
	}
	for _, words := range geminiForPeople { // they stay the reason whatever it says then
		if r := replay(gemini, "", nil, []byte(words+" x\nusage of it\n"), 1, 50); !strings.Contains(r.reason, words) {
			t.Errorf("%s: %+v", words, r)
		}
	}
	s := &stream{progress: &bytes.Buffer{}, limit: 50, now: time.Now, began: func(kernel.AgentRun) {}, run: kernel.AgentRun{Agent: "gemini"}}
	parser := gemini.parser(s)
	_, _ = s.stdout(parser).Write([]byte(start))
	_, _ = s.stderr(parser).Write([]byte(odd + "\n"))
	if s.last != "" {
		t.Errorf("in the midst: %q", s.last)
	}
	for line, want := range map[string]string{"Attempt 2 failed with status 429. Retrying with backoff": "gemini asks again, attempt 2 failed: status 429\n", "Unknown argument: x": "Unknown argument: x\n", "debug": "", "": ""} {
		if r := replay(gemini, "", nil, []byte(line), 0, 50); r.progress != want {
			t.Errorf("%q: %q", line, r.progress)
		}
	}
	t.Setenv("GEMINI_CLI_HOME", "")
	t.Setenv("HOME", "/h")
	if got := geminiHome(); got != "/h" {
		t.Error(got)
	}
}

func TestClassesOfStatuses(t *testing.T) {
	for status, want := range map[int]kernel.FailureClass{0: kernel.ExitFailure, 400: kernel.ExitFailure, 401: kernel.Unauthorized, 402: kernel.RateLimited, 403: kernel.Unauthorized, 404: kernel.ExitFailure, 428: kernel.ExitFailure,
		429: kernel.RateLimited, 430: kernel.ExitFailure, 499: kernel.ExitFailure, 500: kernel.Overloaded, 529: kernel.Overloaded, 599: kernel.Overloaded, 600: kernel.ExitFailure} {
		if got := classOfStatus(status); got != want {
			t.Errorf("%d: %s", status, got)
		}
	}
	for words, want := range map[string]kernel.FailureClass{"": kernel.ExitFailure, "status 429": kernel.RateLimited, "status: 401, usage limit": kernel.Unauthorized, "status 404, usage limit": kernel.RateLimited, `"code": 503`: kernel.Overloaded, "wrong API key": kernel.Unauthorized,
		"the connection was lost": kernel.Overloaded, "too many requests, log in again": kernel.RateLimited} {
		if got := classOfWords(words); got != want {
			t.Errorf("%q: %s", words, got)
		}
	}
}
