package agent

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/vizier-scheduler/vizier/kernel"
)

// replayed is what a recorded run of a program tells.
type replayed struct {
	class            kernel.FailureClass
	reason           string
	answer, progress string
	run              kernel.AgentRun
	lost             bool
	sessions         []string // as they were told of
}

// replay returns a parser a program's output, in pieces of step bytes.
func replay(p program, session string, out, errs []byte, exit, step int) replayed {
	var progress bytes.Buffer
	var sessions []string
	s := &stream{progress: &progress, began: func(r kernel.AgentRun) { sessions = append(sessions, r.Agent+" "+r.Session) }, limit: 1 << 20, now: func() time.Time { return time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC) },
		noSession: p.noSession, run: kernel.AgentRun{Agent: p.Name, Session: session}}
	parser := p.parser(s)
	for _, to := range []struct {
		*lines
		data []byte
	}{{s.stderr(parser), errs}, {s.stdout(parser), out}} {
		for data := to.data; len(data) > 0; data = data[min(step, len(data)):] {
			_, _ = to.Write(data[:min(step, len(data))])
		}
		to.close()
	}
	parser.end(exit)
	r := replayed{progress: progress.String(), lost: s.sessionLost, sessions: sessions}
	r.class, r.reason = p.classify(s, exit, Settings{})
	if r.run = s.run; r.class == kernel.NoFailure {
		r.answer = string(s.said)
	}
	return r
}

func recording(t testing.TB, base string) (p program, out, errs []byte, exit int) {
	t.Helper()
	a, err := txtar.ParseFile(filepath.Join(recorded, base+".txtar"))
	if err != nil {
		t.Fatal(err)
	}
	name, _, _ := strings.Cut(base, "-")
	p, known := programOf(name)
	if !known || len(a.Files) != 3 {
		t.Fatalf("%s: program %s, %d parts", base, name, len(a.Files))
	}
	if exit, err = strconv.Atoi(strings.TrimSpace(string(a.Files[2].Data))); err != nil {
		t.Fatal(err)
	}
	return p, a.Files[0].Data, a.Files[1].Data, exit
}

const recorded = "testdata/streams"

var update = flag.Bool("update", false, "rewrite what the recorded streams tell")

// The streams are those of the real programs; proptest/agents records them. The
// same case has the same class and answer for all of them. What else they tell
// is beside each stream.
func TestRecordedStreams(t *testing.T) {
	const plan = "1. Write hello.txt.\n2. Nothing else."
	once := kernel.Usage{Input: 110, Cached: 10, Output: 20}
	for name, want := range map[string]struct {
		class  kernel.FailureClass
		answer string
		usage  kernel.Usage
		denied string
		lost   bool
	}{
		"plain":    {answer: plan, usage: once},
		"edit":     {answer: "Done.", usage: once.Plus(once)},
		"run":      {answer: "Done.", usage: once.Plus(once), denied: "make world"},
		"busy":     {answer: plan, usage: once},
		"cutonce":  {answer: plan},
		"resumed":  {answer: "You asked first: The word is marzipan.", usage: once},
		"limit":    {class: kernel.RateLimited},
		"key":      {class: kernel.Unauthorized},
		"overload": {class: kernel.Overloaded},
		"cut":      {class: kernel.Overloaded},
		"gone":     {class: kernel.ExitFailure, lost: true},
	} {
		for _, p := range programs {
			base := p.Name + "-" + name
			t.Run(base, func(t *testing.T) {
				home(t)
				p, out, errs, exit := recording(t, base)
				session := ""
				if name == "resumed" {
					session = firstSession
				}
				got := replay(p, session, out, errs, exit, 1<<20)
				if len(got.sessions) > 1 || got.run.Session != "" && (len(got.sessions) != 1 || got.sessions[0] != p.Name+" "+got.run.Session) {
					t.Errorf("told of sessions %q", got.sessions)
				}
				if got.class != want.class || got.answer != want.answer || got.lost != want.lost || (got.reason == "") != (want.class == kernel.NoFailure) {
					t.Errorf("class %s, %q, answer %q, session lost %t", got.class, got.reason, got.answer, got.lost)
				}
				told := got.run.Usage
				if told.CostUSD = 0; want.usage != (kernel.Usage{}) && told != want.usage {
					t.Errorf("usage %+v", told)
				}
				if got.run.Session == "" && !want.lost {
					t.Error("no session")
				}
				if denied := strings.Join(got.run.Denied, ","); p.Name == "codex" && denied != "" || p.Name != "codex" && !strings.HasSuffix(denied, want.denied) {
					t.Errorf("denied %q", denied)
				}
				golden(t, filepath.Join(recorded, base+".told"), got.String())
				if slow := replay(p, session, out, errs, exit, 7); slow.String() != got.String() {
					t.Errorf("in small pieces it tells\n%s", slow)
				}
			})
		}
	}
}

// firstSession is the first id in a recording.
const firstSession = "00000000-0000-4000-8000-000000000001"

// home is where Codex and Gemini keep sessions of these ids: of one that was
// asked before, and of one whose answer came in two pieces.
func home(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("HOME", dir)
	t.Setenv("CODEX_HOME", filepath.Join(dir, ".codex"))
	t.Setenv("GEMINI_CLI_HOME", "")
	script(t, filepath.Join(dir, ".codex/sessions/2026/01/31/rollout-2026-01-31T12-00-00-"+firstSession+".jsonl"), `{"type":"session_meta","payload":{}}
{"type":"turn_context","payload":{"model":"gpt-x"}}
{"type":"event_msg","payload":{"type":"token_count","info":null}}
{"type":"event_msg","payload":{"type":"token_count","info":{"total_token_usage":{"input_tokens":110,"cached_input_tokens":10,"output_tokens":20}}}}
`, 0o600)
	script(t, filepath.Join(dir, ".gemini/tmp/work/chats/session-2026-01-31T12-00-00000000.jsonl"), `{"sessionId":"x","kind":"main"}
{"$set":{"lastUpdated":"2026-01-31T12:00:00.000Z"}}
{"type":"user","content":[{"text":"Do it."}]}
{"type":"gemini","content":"1. Write hello.txt.\n2. Nothing else.","model":"m"}
`, 0o600)
}

// String returns everything for people to look at.
func (r replayed) String() string {
	at := ""
	if !r.run.Resets.IsZero() {
		at = r.run.Resets.Format(time.RFC3339)
	}
	return fmt.Sprintf("class: %s\nreason: %s\nanswer: %q\nsession: %s\nversion: %s\nmodel: %s\nturns: %d\nusage: %+v\nresets: %s\ndenied: %q\nprogress:\n%s",
		r.class, r.reason, r.answer, r.run.Session, r.run.Version, r.run.Model, r.run.Turns, r.run.Usage, at, r.run.Denied, r.progress)
}

func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil || string(want) != got {
		t.Errorf("it tells\n%s\nwant\n%s\n%v; -update rewrites %s", got, want, err, file)
	}
}

// A file of sessions that says something else changes nothing.
func TestOnlyTheSameAnswerIsTakenFromTheSession(t *testing.T) {
	home(t)
	p, out, errs, exit := recording(t, "gemini-plain")
	file := filepath.Join(os.Getenv("HOME"), ".gemini/tmp/work/chats/session-2026-01-31T12-00-00000000.jsonl")
	for _, text := range []string{"not json\n", `{"type":"gemini","content":"something else"}`, ""} {
		script(t, file, text, 0o600)
		if r := replay(p, "", out, errs, exit, 1<<20); !strings.HasPrefix(r.answer, "1. Write") {
			t.Errorf("%q: %q", text, r.answer)
		}
	}
}

// Whatever a program prints, line by line: nothing breaks, little is kept, and
// only an answer is a success.
func FuzzStreams(f *testing.F) {
	files, err := filepath.Glob(filepath.Join(recorded, "*.txtar"))
	if err != nil || len(files) == 0 {
		f.Fatalf("no recordings, %v", err)
	}
	for _, file := range files {
		_, out, errs, exit := recording(f, strings.TrimSuffix(filepath.Base(file), ".txtar"))
		f.Add(out, errs, exit)
		for line := range bytes.Lines(out) {
			f.Add(line, errs, 0)
		}
	}
	f.Fuzz(func(t *testing.T, out, errs []byte, exit int) {
		for _, p := range programs {
			t.Setenv("HOME", "/nonexistent")
			t.Setenv("CODEX_HOME", "/nonexistent")
			r := replay(p, "", out, errs, exit, 1+len(out)/3)
			if (r.class == kernel.NoFailure) != (r.reason == "") || r.class == kernel.NoFailure && (exit != 0 || r.answer == "") {
				t.Errorf("%s: class %s, exit %d, %q, answer %q", p.Name, r.class, exit, r.reason, r.answer)
			}
			if len(r.reason) > 4096 || strings.ContainsAny(r.reason, "\n\x1b") || len(r.run.Denied) > maxDenied {
				t.Errorf("%s: reason %q, %d denied", p.Name, r.reason, len(r.run.Denied))
			}
		}
	})
}

// A line without an end is not kept, and what follows it is read.
func TestLinesAreBounded(t *testing.T) {
	var got []string
	dropped := 0
	l := &lines{each: func(line []byte) { got = append(got, string(line)) }, dropped: func() { dropped++ }}
	piece := bytes.Repeat([]byte("x"), 1<<20)
	for range 40 {
		_, _ = l.Write(piece)
		if len(l.rest) > maxLine {
			t.Fatalf("%d bytes are kept", len(l.rest))
		}
	}
	_, _ = l.Write([]byte("\na\n\nb"))
	l.close()
	if dropped != 1 || strings.Join(got, "|") != "a||b" {
		t.Errorf("%d dropped, lines %q", dropped, got)
	}
}

// Newer versions of Claude Code tell what the whole session used, and besides
// what this answer did.
func TestUsageOfAResumedSession(t *testing.T) {
	const line = `{"type":"result","is_error":false,"num_turns":1,"result":"ok","session_id":"s","total_cost_usd":0.3,"usage":{"input_tokens":100,"cache_read_input_tokens":10,"output_tokens":20},` +
		`"modelUsage":{"m":{"inputTokens":300,"outputTokens":60,"cacheReadInputTokens":30,"costUSD":0.3}}SINCE}`
	for since, want := range map[string]kernel.Usage{
		"": {Input: 330, Cached: 30, Output: 60, CostUSD: 0.3},
		`,"model_usage_since_last_result":{"m":{"inputTokens":100,"outputTokens":20,"cacheReadInputTokens":10,"costUSD":0.1}}`: {Input: 110, Cached: 10, Output: 20, CostUSD: 0.1},
	} {
		if r := replay(claudeCode, "s", []byte(strings.Replace(line, "SINCE", since, 1)), nil, 0, 100); r.run.Usage != want {
			t.Errorf("%s: %+v", since, r.run.Usage)
		}
	}
}
