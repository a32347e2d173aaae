package model

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// openai implements /v1/responses.
type openai struct {
	*call `json:"-"`
	Tools []tool
	Input []struct {
		Type    string
		Role    string
		Tools   []tool
		Content json.RawMessage
	}
}

type tool struct {
	Type, Name string
	Tools      []tool
}

func (o *openai) asked() bool { return true }
func (o *openai) side()       {}

func (o *openai) worked() bool {
	last := len(o.Input) - 1
	return last >= 0 && strings.HasSuffix(o.Input[last].Type, "_call_output")
}

func (o *openai) prompt() string {
	for _, in := range o.Input {
		var blocks []struct{ Text string }
		if in.Role != "user" || json.Unmarshal(in.Content, &blocks) != nil {
			continue
		}
		for _, b := range blocks {
			if text := strings.TrimSpace(b.Text); text != "" && !strings.HasPrefix(text, "<") && !strings.HasPrefix(text, "# AGENTS.md") {
				return text
			}
		}
	}
	return ""
}

// has reports whether the program offers a tool.
func (o *openai) has(name string) bool {
	var find func([]tool) bool
	find = func(in []tool) bool {
		for _, t := range in {
			if t.Name == name || find(t.Tools) {
				return true
			}
		}
		return false
	}
	for _, in := range o.Input {
		if find(in.Tools) {
			return true
		}
	}
	return find(o.Tools)
}

func (o *openai) id() string { return fmt.Sprintf("resp_%d", o.n) }

func (o *openai) message(text string) object {
	return object{"type": "message", "role": "assistant", "id": fmt.Sprintf("msg_%d_%d", o.n, len(text)),
		"content": []any{object{"type": "output_text", "text": text}}}
}

func (o *openai) begin() {
	o.event("response.created", object{"type": "response.created", "response": object{"id": o.id()}})
}

func (o *openai) item(at int, v object) {
	o.event("response.output_item.done", object{"type": "response.output_item.done", "output_index": at, "item": v})
}

func (o *openai) end() {
	o.event("response.completed", object{"type": "response.completed", "response": object{"id": o.id(), "usage": object{
		"input_tokens": 110, "input_tokens_details": object{"cached_tokens": 10},
		"output_tokens": 20, "output_tokens_details": object{"reasoning_tokens": 5}, "total_tokens": 130}}})
}

func (o *openai) text(parts []string, whole bool) {
	o.begin()
	it := o.message("")
	o.event("response.output_item.added", object{"type": "response.output_item.added", "output_index": 0, "item": it})
	for _, p := range parts {
		o.event("response.output_text.delta", object{"type": "response.output_text.delta", "item_id": it["id"], "output_index": 0, "content_index": 0, "delta": p})
	}
	if !whole {
		o.breakOff()
		return
	}
	o.item(0, o.message(strings.Join(parts, "")))
	o.end()
}

const patch = "*** Begin Patch\n*** Add File: " + File + "\n+" + Content + "*** End Patch\n"

// tool uses the tools that the program offers: for newer models one that runs
// JavaScript, for others a shell and one for patches.
func (o *openai) tool(tell string, edit bool) {
	o.begin()
	o.item(0, o.message(tell))
	id := fmt.Sprintf("call_%d", o.n)
	command := o.s.Command
	if edit {
		command = "apply_patch <<'EOF'\n" + patch + "EOF"
	}
	call := object{"type": "function_call", "call_id": id, "name": "exec_command", "arguments": quote(object{"cmd": command, "yield_time_ms": 30000})}
	switch {
	case o.has("exec"):
		js := "text(JSON.stringify(await tools.exec_command(" + quote(object{"cmd": o.s.Command, "yield_time_ms": 30000}) + ")))"
		if edit {
			js = "text(JSON.stringify(await tools.apply_patch(" + quote(patch) + ")))"
		}
		call = object{"type": "custom_tool_call", "call_id": id, "name": "exec", "namespace": "functions", "input": js}
	case edit && o.has("apply_patch"):
		call = object{"type": "custom_tool_call", "call_id": id, "name": "apply_patch", "input": patch}
	case o.has("shell_command"):
		call["name"], call["arguments"] = "shell_command", quote(object{"command": command})
	}
	o.item(1, call)
	o.end()
}

// quote returns v as JSON.
func quote(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(data)
}

func (o *openai) refuse(status int) {
	e := object{"message": "The server is overloaded.", "type": "server_error", "code": "server_error", "param": nil}
	switch status {
	case http.StatusUnauthorized:
		e = object{"message": "Incorrect API key provided.", "type": "invalid_request_error", "code": "invalid_api_key", "param": nil}
	case http.StatusTooManyRequests:
		at := time.Now().Add(LimitFor).Unix()
		e = object{"type": "usage_limit_reached", "message": "The usage limit has been reached", "plan_type": "plus",
			"resets_at": at, "resets_in_seconds": int(LimitFor.Seconds())}
		o.w.Header().Set("X-Codex-Primary-Used-Percent", "100")
		o.w.Header().Set("X-Codex-Primary-Window-Minutes", "300")
		o.w.Header().Set("X-Codex-Primary-Reset-At", fmt.Sprint(at))
	}
	o.json(status, object{"error": e})
}
