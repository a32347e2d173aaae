package model

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path"
	"regexp"
	"strings"
	"time"
)

// anthropic implements /v1/messages.
type anthropic struct {
	*call  `json:"-"`
	Model  string
	Stream bool
	Tools  []struct{ Name string }
	System json.RawMessage
	Turns  []struct {
		Role    string
		Content json.RawMessage
	} `json:"messages"`
}

// asked returns false for what the program asks a smaller model, such as a
// title.
func (a *anthropic) asked() bool {
	for _, t := range a.Tools {
		if t.Name == "Write" {
			return true
		}
	}
	return false
}

func (a *anthropic) side() { a.text([]string{"fine"}, true) }

func (a *anthropic) worked() bool {
	return len(a.Turns) > 0 && strings.Contains(string(a.Turns[len(a.Turns)-1].Content), `"tool_result"`)
}

var reminder = regexp.MustCompile(`(?s)<system-reminder>.*?</system-reminder>`)

func (a *anthropic) prompt() string {
	for _, t := range a.Turns {
		var text string
		var blocks []struct{ Text string }
		if json.Unmarshal(t.Content, &text) != nil && json.Unmarshal(t.Content, &blocks) == nil {
			for _, b := range blocks {
				text += b.Text
			}
		}
		if text = strings.TrimSpace(reminder.ReplaceAllString(text, "")); t.Role == "user" && text != "" {
			return text
		}
	}
	return ""
}

var workingDirectory = regexp.MustCompile(`[Ww]orking directory: ([^\\"\n]+)`)

// file returns File in the directory that the program works in, since its tool
// requires the whole path.
func (a *anthropic) file() string {
	if m := workingDirectory.FindStringSubmatch(a.body); m != nil {
		return path.Join(strings.TrimSpace(m[1]), File)
	}
	return "/no/directory/" + File
}

func (a *anthropic) message(content []any, stop any) object {
	return object{"id": fmt.Sprintf("msg_%d", a.n), "type": "message", "role": "assistant", "model": a.Model, "content": content,
		"stop_reason": stop, "stop_sequence": nil,
		"usage": object{"input_tokens": 100, "output_tokens": 1, "cache_read_input_tokens": 10, "cache_creation_input_tokens": 0}}
}

func (a *anthropic) text(parts []string, whole bool) {
	if !a.Stream {
		if !whole {
			panic(http.ErrAbortHandler)
		}
		a.json(http.StatusOK, a.message([]any{object{"type": "text", "text": strings.Join(parts, "")}}, "end_turn"))
		return
	}
	a.event("message_start", object{"type": "message_start", "message": a.message([]any{}, nil)})
	a.block(0, parts)
	if !whole {
		a.breakOff()
		return
	}
	a.event("content_block_stop", object{"type": "content_block_stop", "index": 0})
	a.stop("end_turn")
}

func (a *anthropic) block(i int, parts []string) {
	a.event("content_block_start", object{"type": "content_block_start", "index": i, "content_block": object{"type": "text", "text": ""}})
	for _, p := range parts {
		a.event("content_block_delta", object{"type": "content_block_delta", "index": i, "delta": object{"type": "text_delta", "text": p}})
	}
}

func (a *anthropic) stop(why string) {
	a.event("message_delta", object{"type": "message_delta", "delta": object{"stop_reason": why, "stop_sequence": nil}, "usage": object{"output_tokens": 20}})
	a.event("message_stop", object{"type": "message_stop"})
}

func (a *anthropic) tool(tell string, edit bool) {
	name, input := "Bash", object{"command": a.s.Command, "description": "run it"}
	if edit {
		name, input = "Write", object{"file_path": a.file(), "content": Content}
	}
	data, err := json.Marshal(input)
	if err != nil {
		panic(err)
	}
	a.event("message_start", object{"type": "message_start", "message": a.message([]any{}, nil)})
	a.block(0, []string{tell})
	a.event("content_block_stop", object{"type": "content_block_stop", "index": 0})
	a.event("content_block_start", object{"type": "content_block_start", "index": 1,
		"content_block": object{"type": "tool_use", "id": fmt.Sprintf("toolu_%d", a.n), "name": name, "input": object{}}})
	a.event("content_block_delta", object{"type": "content_block_delta", "index": 1, "delta": object{"type": "input_json_delta", "partial_json": string(data)}})
	a.event("content_block_stop", object{"type": "content_block_stop", "index": 1})
	a.stop("tool_use")
}

func (a *anthropic) refuse(status int) {
	kind, words := "api_error", "something is wrong"
	switch status {
	case http.StatusUnauthorized:
		kind, words = "authentication_error", "invalid x-api-key"
	case http.StatusServiceUnavailable:
		status, kind, words = 529, "overloaded_error", "Overloaded"
	case http.StatusTooManyRequests:
		kind, words = "rate_limit_error", "This request would exceed your account's rate limit. Please try again later."
		h := a.w.Header()
		at := fmt.Sprint(time.Now().Add(LimitFor).Unix())
		h.Set("Retry-After", fmt.Sprint(int(LimitFor.Seconds())))
		h.Set("X-Should-Retry", "false")
		for _, part := range []string{"", "5h-"} {
			h.Set("Anthropic-Ratelimit-Unified-"+part+"Status", "rejected")
			h.Set("Anthropic-Ratelimit-Unified-"+part+"Reset", at)
		}
		h.Set("Anthropic-Ratelimit-Unified-Representative-Claim", "five_hour")
	}
	a.json(status, object{"type": "error", "error": object{"type": kind, "message": words}, "request_id": "req_1"})
}
