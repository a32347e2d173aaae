package agent

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// claudeCode is Claude Code.
var claudeCode = program{
	Name: "claude", Made: "2.1.197", Package: "@anthropic-ai/claude-code",
	Login:     "start `claude` and give /login, or set ANTHROPIC_API_KEY",
	rootless:  true,
	noSession: "No conversation found with session ID",
	flags: func(s Settings, q kernel.AgentRequest, _ string) []string {
		args := []string{"--print", "--verbose"}
		switch s.Permissions {
		case MayAll:
			args = append(args, "--permission-mode", "bypassPermissions")
		case MayRun:
			args = append(args, "--allowedTools", "Bash", "--permission-mode", "acceptEdits")
		default:
			args = append(args, "--permission-mode", "acceptEdits")
		}
		if s.Model != "" {
			args = append(args, "--model", s.Model)
		}
		if q.Session != "" {
			args = append(args, "--resume", q.Session)
		}
		return slices.Concat(args, []string{"--output-format", "stream-json"}, s.Flags)
	},
	homes:  func() []string { return homesOf(os.Getenv("CLAUDE_CONFIG_DIR"), ".claude", ".claude.json") },
	parser: func(s *stream) parser { return &claudeParser{s} },
}

type claudeParser struct{ *stream }

type claudeEvent struct {
	Type, Subtype string
	SessionID     string `json:"session_id"`
	Model         string
	Version       string `json:"claude_code_version"`
	Message       struct {
		Content json.RawMessage
	}
	Error json.RawMessage // in messages of the assistant and in api_retry

	// api_retry
	Attempt     int
	MaxRetries  int     `json:"max_retries"`
	RetryDelay  float64 `json:"retry_delay_ms"`
	ErrorStatus int     `json:"error_status"`

	// rate_limit_event
	Limit struct {
		Status   string
		ResetsAt int64
	} `json:"rate_limit_info"`

	// result
	IsError bool `json:"is_error"`
	Status  int  `json:"api_error_status"`
	Turns   int  `json:"num_turns"`
	Result  string
	Errors  []string
	Cost    float64 `json:"total_cost_usd"`
	Usage   struct {
		Input   int64 `json:"input_tokens"`
		Written int64 `json:"cache_creation_input_tokens"`
		Read    int64 `json:"cache_read_input_tokens"`
		Output  int64 `json:"output_tokens"`
	}
	Models  claudeModels `json:"modelUsage"`                    // newer versions: for the whole session
	Since   claudeModels `json:"model_usage_since_last_result"` // for this answer; missing in older versions
	Denials []struct {
		Tool  string    `json:"tool_name"`
		Input claudeUse `json:"tool_input"`
	} `json:"permission_denials"`
}

// claudeModels is the usage of each model, including those of the program's own
// agents.
type claudeModels map[string]struct {
	InputTokens, OutputTokens, CacheReadInputTokens, CacheCreationInputTokens int64
	CostUSD                                                                   float64
}

func (all claudeModels) usage() kernel.Usage {
	var u kernel.Usage
	for _, name := range slices.Sorted(maps.Keys(all)) { // sorted, so that costs add up to the same number every time
		m := all[name]
		u = u.Plus(kernel.Usage{Input: m.InputTokens + m.CacheReadInputTokens + m.CacheCreationInputTokens,
			Cached: m.CacheReadInputTokens, Output: m.OutputTokens, CostUSD: m.CostUSD})
	}
	return u
}

// claudeUse is the input of a tool, for the tools whose use is worth a line.
type claudeUse struct {
	Command, URL, Pattern, Description string
	FilePath                           string `json:"file_path"`
}

func (u claudeUse) String() string {
	for _, v := range []string{u.Command, u.FilePath, u.URL, u.Pattern, u.Description} {
		if v != "" {
			return v
		}
	}
	return ""
}

func (c *claudeParser) event(line []byte) bool {
	var e claudeEvent
	if !decode(line, &e) || e.Type == "" {
		return false
	}
	if e.SessionID != "" {
		c.run.Session = e.SessionID
	}
	switch e.Type {
	case "system":
		c.system(e)
	case "assistant":
		c.assistant(e)
	case "rate_limit_event":
		if e.Limit.ResetsAt > 0 && e.Limit.Status == "rejected" {
			c.run.Resets = time.Unix(e.Limit.ResetsAt, 0).UTC()
			c.fail(kernel.RateLimited, "")
		}
	case "result":
		c.result(e)
	}
	return true
}

func (c *claudeParser) system(e claudeEvent) {
	switch e.Subtype {
	case "init":
		c.run.Model, c.run.Version = e.Model, e.Version
	case "api_retry":
		delay := time.Duration(e.RetryDelay * float64(time.Millisecond)).Round(100 * time.Millisecond)
		why := fmt.Sprintf("%s in %s", errorName(e.Error), delay)
		if e.ErrorStatus != 0 {
			why = fmt.Sprintf("status %d, %s", e.ErrorStatus, why)
		}
		c.showRetry("claude", fmt.Sprintf("%d of %d", e.Attempt, e.MaxRetries), why)
	}
}

// errorName returns the name of an error, which may be a string or a field of an
// object.
func errorName(raw json.RawMessage) string {
	var name string
	if json.Unmarshal(raw, &name) == nil {
		return name
	}
	return cut(plain(string(raw)), maxShown)
}

func (c *claudeParser) assistant(e claudeEvent) {
	if name := errorName(e.Error); name != "" { // the message is the program's own; the result contains it too
		c.fail(claudeClass(name, 0), "")
		return
	}
	var content []struct {
		Type, Text, Name string
		Input            claudeUse
	}
	if err := json.Unmarshal(e.Message.Content, &content); err != nil && len(content) == 0 {
		return
	}
	for _, b := range content {
		switch b.Type {
		case "text":
			c.say(b.Text)
		case "tool_use":
			c.use(b.Name, b.Input.String())
		}
	}
}

func (c *claudeParser) result(e claudeEvent) {
	c.run.Turns = e.Turns
	c.run.Usage = kernel.Usage{Input: e.Usage.Input + e.Usage.Read + e.Usage.Written, Cached: e.Usage.Read, Output: e.Usage.Output, CostUSD: e.Cost}
	switch {
	case len(e.Since) > 0:
		c.run.Usage = e.Since.usage()
	case len(e.Models) > 0:
		c.run.Usage = e.Models.usage()
	}
	for _, d := range e.Denials {
		c.denied(strings.TrimSpace(d.Tool + " " + d.Input.String()))
	}
	if e.IsError {
		c.said = nil
		c.fail(claudeClass("", e.Status), strings.Join(append([]string{e.Result}, e.Errors...), " "))
		return
	}
	c.fault, c.done = fault{}, true
	if e.Result != "" {
		c.said = nil
		c.add(e.Result)
	}
}

// claudeClass returns the failure class for an error's name or for the HTTP
// status of the answer.
func claudeClass(name string, status int) kernel.FailureClass {
	switch name {
	case "rate_limit", "billing_error":
		return kernel.RateLimited
	case "authentication_failed", "oauth_org_not_allowed":
		return kernel.Unauthorized
	case "server_error", "overloaded":
		return kernel.Overloaded
	}
	return classOfStatus(status)
}

func (c *claudeParser) stderr(line string) { c.complain(line) }

func (c *claudeParser) end(int) {}
