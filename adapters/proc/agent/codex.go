package agent

import (
	"bufio"
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/vizier-scheduler/vizier/internal/sys"
	"github.com/vizier-scheduler/vizier/kernel"
)

// codex is Codex CLI. Its sandbox lets commands write in the working directory
// and in scratch, where jobs are submitted. A login shell would reset PATH.
var codex = program{
	Name: "codex", Made: "0.169.0", Package: "@openai/codex",
	Login:     "start `codex login`, or set the key of its model provider",
	noSession: "no rollout found for thread id",
	flags: func(s Settings, q kernel.AgentRequest, scratch string) []string {
		args := []string{"exec", "--json", "--skip-git-repo-check", "-c", "allow_login_shell=false"}
		if s.Permissions == MayAll {
			args = append(args, "--sandbox", "danger-full-access")
		} else {
			args = append(args, "--sandbox", "workspace-write", "--add-dir", scratch)
			if dir := os.Getenv("VIZIER_CHECKPOINT_DIR"); dir != "" {
				args = append(args, "--add-dir", dir)
			}
		}
		if s.Permissions == MayRun {
			args = append(args, "-c", "sandbox_workspace_write.network_access=true")
		}
		if s.Model != "" {
			args = append(args, "--model", s.Model)
		}
		args = slices.Concat(args, s.Flags)
		if q.Session != "" {
			args = append(args, "resume", q.Session)
		}
		return append(args, "-")
	},
	sandboxed: func(s Settings) bool { return s.Permissions != MayAll },
	homes:     func() []string { return homesOf(codexHome()) },
	parser: func(s *stream) parser {
		c := &codexParser{stream: s, home: codexHome()}
		c.before = c.session(s.run.Session)
		return c
	},
}

type codexParser struct {
	*stream
	home   string
	before codexSession
}

type codexEvent struct {
	Type    string
	Thread  string `json:"thread_id"`
	Message string
	Error   struct{ Message string }
	Usage   codexUsage
	Item    struct {
		Type, Text, Command, Status, Message, Query, Server, Tool string
		ExitCode                                                  *int `json:"exit_code"`
		Changes                                                   []struct{ Path, Kind string }
	}
}

type codexUsage struct {
	Input  int64 `json:"input_tokens"`
	Cached int64 `json:"cached_input_tokens"`
	Output int64 `json:"output_tokens"`
}

func (c *codexParser) event(line []byte) bool {
	var e codexEvent
	if !decode(line, &e) || e.Type == "" {
		return false
	}
	switch e.Type {
	case "thread.started":
		c.run.Session = e.Thread
	case "item.started", "item.completed":
		c.item(e)
	case "turn.completed": // totals of the whole session
		c.fault, c.done = fault{}, true
		u := c.before.usage
		c.run.Usage = kernel.Usage{Input: e.Usage.Input - u.Input, Cached: e.Usage.Cached - u.Cached, Output: e.Usage.Output - u.Output}
	case "error":
		if n, why, ok := strings.Cut(strings.TrimPrefix(e.Message, "Reconnecting... "), " "); ok && n != "" && strings.HasPrefix(e.Message, "Reconnecting") {
			c.showRetry("codex", strings.Replace(n, "/", " of ", 1), strings.Trim(why, "()"))
			return true
		}
		c.failed(e.Message)
	case "turn.failed":
		c.failed(e.Error.Message)
	}
	return true
}

var codexShell = lazyRegexp(`(?s)^/\S*sh -l?c '?(.*?)'?$`)

func (c *codexParser) item(e codexEvent) {
	begun := e.Type == "item.started"
	switch i := e.Item; i.Type {
	case "agent_message":
		if !begun {
			c.say(i.Text)
		}
	case "command_execution":
		command := codexShell().ReplaceAllString(i.Command, "$1")
		switch {
		case begun:
			c.use("$", command)
		case i.Status == "declined":
			c.denied(command)
		case i.ExitCode != nil && *i.ExitCode != 0:
			c.flush()
			c.show("  exit " + strconv.Itoa(*i.ExitCode))
		}
	case "file_change":
		if begun {
			break
		}
		for _, f := range i.Changes {
			c.use(f.Kind, f.Path)
			if i.Status == "declined" {
				c.denied(f.Kind + " " + f.Path)
			}
		}
	case "mcp_tool_call":
		if begun {
			c.use(i.Server+"."+i.Tool, "")
		}
	case "web_search":
		if !begun {
			c.use("search", i.Query)
		}
	case "error":
		if !begun {
			c.use("warning:", i.Message)
		}
	}
}

// failed handles an error. The same error may come in two events.
func (c *codexParser) failed(words string) {
	c.said, c.done = nil, false
	class := classOfWords(words)
	c.fail(class, words)
	if class == kernel.RateLimited && c.run.Resets.IsZero() {
		c.run.Resets = clockTime(words, c.now())
	}
}

func (c *codexParser) stderr(line string) { c.complain(line) }

func (c *codexParser) end(int) {
	after := c.session(c.run.Session)
	if c.run.Model == "" {
		c.run.Model = after.model
	}
	c.run.Turns = max(after.turns-c.before.turns, 0)
}

// codexSession is what Codex records of a session but does not print.
type codexSession struct {
	usage codexUsage
	model string
	turns int
}

func codexHome() string {
	if dir := os.Getenv("CODEX_HOME"); dir != "" {
		return dir
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return filepath.Join(home, ".codex")
}

// session reads the file of a session. If it cannot be read, the result is
// empty.
func (c *codexParser) session(id string) codexSession {
	var s codexSession
	if c.home == "" || id == "" || strings.ContainsAny(id, `*?[\/`) {
		return s
	}
	names := sys.Glob(c.home, "sessions/*/*/*/rollout-*-"+id+".jsonl")
	if len(names) == 0 {
		return s
	}
	f, err := sys.OpenRegular(names[len(names)-1], os.O_RDONLY)
	if err != nil {
		return s
	}
	defer f.Close()
	r := bufio.NewReaderSize(f, 64<<10)
	for long := false; ; { // the relevant lines are short
		line, err := r.ReadSlice('\n')
		if err == nil && !long {
			s.take(line)
		}
		if long = errors.Is(err, bufio.ErrBufferFull); err != nil && !long {
			return s
		}
	}
}

func (s *codexSession) take(line []byte) {
	var e struct {
		Type    string
		Payload struct {
			Type, Model string
			Info        struct {
				Total codexUsage `json:"total_token_usage"`
			}
		}
	}
	if !bytes.Contains(line, []byte(`"token_count"`)) && !bytes.Contains(line, []byte(`"turn_context"`)) || !decode(line, &e) {
		return
	}
	if e.Type == "turn_context" {
		s.model = e.Payload.Model
	}
	if total := e.Payload.Info.Total; e.Payload.Type == "token_count" && total != (codexUsage{}) && total != s.usage {
		s.usage = total
		s.turns++
	}
}

var (
	clock = lazyRegexp(`(?i)try again at ((?:[a-z]{3} \d{1,2}(?:st|nd|rd|th)?, \d{4} )?\d{1,2}:\d{2} [ap]m)`)
	nth   = lazyRegexp(`(\d)(?:st|nd|rd|th),`)
)

// clockTime returns the next time at which the clock shows the time of day, or
// the date, that a message mentions.
func clockTime(words string, now time.Time) time.Time {
	m := clock().FindStringSubmatch(words)
	if m == nil {
		return time.Time{}
	}
	text := strings.ToUpper(nth().ReplaceAllString(m[1], "$1,"))
	if t, err := time.ParseInLocation("Jan 2, 2006 3:04 PM", text, now.Location()); err == nil {
		return t.UTC()
	}
	t, err := time.ParseInLocation("3:04 PM", text, now.Location())
	if err != nil {
		return time.Time{}
	}
	at := time.Date(now.Year(), now.Month(), now.Day(), t.Hour(), t.Minute(), 0, 0, now.Location())
	if !at.After(now) {
		at = at.AddDate(0, 0, 1)
	}
	return at.UTC()
}
