package agent

import (
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vizier-scheduler/vizier/internal/sys"
	"github.com/vizier-scheduler/vizier/kernel"
)

// gemini is Gemini CLI. Every worktree is a new folder to it, so its trust is
// set by the environment. With --debug it reports when it repeats a request to
// its provider.
var gemini = program{
	Name: "gemini", Made: "0.61.0", Package: "@google/gemini-cli",
	Login:     "start `gemini` and choose how to log in, or set GEMINI_API_KEY",
	noSession: "Error resuming session",
	flags: func(s Settings, q kernel.AgentRequest, scratch string) []string {
		args := []string{"--debug", "--output-format", "stream-json"}
		switch s.Permissions {
		case MayAll:
			args = append(args, "--approval-mode", "yolo")
		case MayRun:
			args = append(args, "--approval-mode", "auto_edit", "--policy", filepath.Join(scratch, geminiPolicyFile))
		default:
			args = append(args, "--approval-mode", "auto_edit")
		}
		if s.Model != "" {
			args = append(args, "--model", s.Model)
		}
		if q.Session != "" {
			args = append(args, "--resume", q.Session)
		}
		return append(args, s.Flags...)
	},
	env: func(scratch string) (env []string, err error) {
		env = []string{"GEMINI_CLI_TRUST_WORKSPACE=true", "TMPDIR=" + scratch} // it writes error reports there
		return env, os.WriteFile(filepath.Join(scratch, geminiPolicyFile), []byte(geminiPolicy), 0o600)
	},
	homes: func() []string { return homesOf(filepath.Join(geminiHome(), ".gemini")) },
	parser: func(s *stream) parser {
		return &geminiParser{stream: s, tools: map[string]string{}, home: geminiHome()}
	},
}

const (
	geminiPolicyFile = "policy.toml"
	geminiPolicy     = "[[rule]]\ntoolName = \"run_shell_command\"\ndecision = \"allow\"\npriority = 100\n"
)

type geminiParser struct {
	*stream
	tools map[string]string // requests to tools that have not answered yet
	model bool              // the last event was the model's
	words bool              // standard error had something for people
	home  string            // where it keeps its sessions
}

type geminiEvent struct {
	Type, Role, Content, Status, Message, Severity string
	SessionID                                      string `json:"session_id"`
	Model                                          string
	Tool                                           string `json:"tool_name"`
	ToolID                                         string `json:"tool_id"`
	Parameters                                     struct {
		Command, Pattern, Query, Prompt, URL string
		FilePath                             string `json:"file_path"`
		DirPath                              string `json:"dir_path"`
	}
	Error struct{ Type, Message string }
	Stats struct {
		Input  int64 `json:"input_tokens"`
		Output int64 `json:"output_tokens"`
		Cached int64
		Models map[string]struct {
			Output int64 `json:"output_tokens"`
		}
	}
}

func (g *geminiParser) event(line []byte) bool {
	var e geminiEvent
	if !decode(line, &e) || e.Type == "" {
		return false
	}
	switch e.Type {
	case "init":
		g.run.Session, g.run.Model = e.SessionID, e.Model
	case "message":
		if e.Role == "assistant" {
			g.turn()
			g.add(e.Content)
		}
	case "tool_use":
		g.turn()
		g.tool(e)
	case "tool_result":
		g.model = false
		g.toolEnded(e)
	case "error":
		if e.Severity == "warning" {
			g.use("warning:", e.Message)
			break
		}
		g.fail(classOfWords(e.Message), e.Message)
	case "result":
		g.result(e)
	}
	return true
}

// turn counts an answer of the model, which may consist of many events.
func (g *geminiParser) turn() {
	if !g.model {
		g.run.Turns++
	}
	g.model = true
}

func (g *geminiParser) tool(e geminiEvent) {
	p, what := e.Parameters, ""
	for _, v := range []string{p.Command, p.FilePath, p.DirPath, p.Pattern, p.Query, p.URL, p.Prompt} {
		if what == "" {
			what = v
		}
	}
	g.use(e.Tool, what)
	const most = 1000 // maximum number of tools running at a time
	if len(g.tools) < most {
		g.tools[e.ToolID] = strings.TrimSpace(e.Tool + " " + cut(plain(what), maxShown))
	}
}

func (g *geminiParser) toolEnded(e geminiEvent) {
	what := g.tools[e.ToolID]
	delete(g.tools, e.ToolID)
	switch e.Error.Type {
	case "":
	case "tool_not_registered", "policy_violation", "permission_denied", "path_not_in_workspace":
		g.denied(what)
	default:
		g.show("  failed: " + cut(plain(e.Error.Message), maxShown))
	}
}

func (g *geminiParser) result(e geminiEvent) {
	g.run.Usage = kernel.Usage{Input: e.Stats.Input, Cached: e.Stats.Cached, Output: e.Stats.Output}
	most := int64(0)
	for _, name := range slices.Sorted(maps.Keys(e.Stats.Models)) { // a model that only routed the question answered less
		if m := e.Stats.Models[name]; m.Output > most {
			most, g.run.Model = m.Output, name
		}
	}
	if e.Status == "success" {
		g.done, g.fault = true, fault{}
		if text := g.recorded(); text != "" && strings.HasSuffix(string(g.said), text) {
			g.said = []byte(text)
		}
		return
	}
	g.said = nil
	g.fail(classOfWords(e.Error.Message), geminiWords(e.Error.Message))
}

func geminiHome() string {
	if dir := os.Getenv("GEMINI_CLI_HOME"); dir != "" {
		return dir
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return home
}

// recorded returns the model's last message from the program's session file. In
// the stream, a message also contains the text before a part that was cut off.
// It returns "" if the program has no such file.
func (g *geminiParser) recorded() (text string) {
	id, _, _ := strings.Cut(g.run.Session, "-")
	if g.home == "" || id == "" || strings.ContainsAny(id, `*?[\/`) {
		return ""
	}
	names := sys.Glob(g.home, ".gemini/tmp/*/chats/session-*-"+id+".jsonl")
	if len(names) != 1 {
		return ""
	}
	f, err := sys.OpenRegular(names[0], os.O_RDONLY)
	if err != nil {
		return ""
	}
	defer f.Close()
	l := &lines{dropped: func() {}, each: func(line []byte) {
		var m struct{ Type, Content string }
		if decode(line, &m) && m.Type == "gemini" && strings.TrimSpace(m.Content) != "" {
			text = m.Content
		}
	}}
	if _, err := io.Copy(l, f); err != nil {
		return ""
	}
	l.close()
	return text
}

var geminiMessage = lazyRegexp(`"message":\s*"((?:[^"\\]|\\.)*)"`)

// geminiWords returns the message in an error that is formatted as JSON.
func geminiWords(text string) string {
	text = strings.TrimPrefix(text, "[API Error: ")
	text = strings.TrimSuffix(strings.Replace(text, "]\n", "\n", 1), "]")
	if m := geminiMessage().FindStringSubmatch(text); m != nil {
		return m[1]
	}
	return text
}

var geminiRetry = lazyRegexp(`^Attempt (\d+) failed(.*?)\. Retrying with backoff`)

// stderr passes on the part of the --debug output that is for people.
func (g *geminiParser) stderr(line string) {
	if m := geminiRetry().FindStringSubmatch(line); m != nil {
		g.showRetry("gemini", m[1]+" failed", strings.TrimPrefix(m[2], " with "))
		return
	}
	text := plain(line)
	for _, start := range geminiForPeople {
		if strings.HasPrefix(text, start) {
			g.words = true
			g.complain(text)
			return
		}
	}
	if g.events == 0 && !g.words {
		g.noteReason(text)
	}
}

// geminiForPeople are the prefixes of the messages with which it refuses to
// start.
var geminiForPeople = []string{"Gemini CLI is not running in a trusted", "Please set an Auth method", "Invalid auth method",
	"Error resuming session", "Unknown argument", "Invalid values", "Argument:"}

// end derives the class of a failure from the exit code, which tells the
// provider's status.
func (g *geminiParser) end(exit int) {
	if g.done || exit == 0 {
		return
	}
	const authentication = 41
	class := classOfStatus(256 + exit)
	if exit == authentication {
		class = kernel.Unauthorized
	}
	if class != kernel.ExitFailure {
		g.fail(class, "")
	}
}
