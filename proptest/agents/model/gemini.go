package model

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// gemini implements generateContent and streamGenerateContent.
type gemini struct {
	*call    `json:"-"`
	Tools    []json.RawMessage
	Contents []struct {
		Role  string
		Parts []struct {
			Text     string
			Response json.RawMessage `json:"functionResponse"`
		}
	}
}

func (g *gemini) streams() bool { return strings.HasSuffix(g.r.URL.Path, ":streamGenerateContent") }

// asked returns false for questions such as which model should answer.
func (g *gemini) asked() bool { return g.streams() && len(g.Tools) > 0 }

// side answers with an object that fits all of their schemas, unless the
// provider would refuse that request as well.
func (g *gemini) side() {
	switch g.name {
	case Limit:
		g.refuse(http.StatusTooManyRequests)
	case Key:
		g.refuse(http.StatusUnauthorized)
	default:
		g.json(http.StatusOK, g.chunk(object{"text": quote(object{"complexity_reasoning": "easy", "complexity_score": 10, "reasoning": "easy",
			"model_choice": "flash", "next_speaker": "user"})}, "STOP"))
	}
}

func (g *gemini) worked() bool {
	last := len(g.Contents) - 1
	if last < 0 {
		return false
	}
	for _, p := range g.Contents[last].Parts {
		if p.Response != nil {
			return true
		}
	}
	return false
}

func (g *gemini) prompt() string {
	for _, c := range g.Contents {
		for _, p := range c.Parts {
			if text := strings.TrimSpace(p.Text); c.Role == "user" && text != "" && !strings.HasPrefix(text, "<session_context>") {
				return text
			}
		}
	}
	return ""
}

func (g *gemini) chunk(part object, finish string) object {
	candidate := object{"content": object{"role": "model", "parts": []any{part}}, "index": 0}
	if finish != "" {
		candidate["finishReason"] = finish
	}
	return object{"candidates": []any{candidate}, "modelVersion": "mock-model", "responseId": fmt.Sprintf("r%d", g.n),
		"usageMetadata": object{"promptTokenCount": 110, "cachedContentTokenCount": 10, "candidatesTokenCount": 20, "totalTokenCount": 130}}
}

func (g *gemini) text(parts []string, whole bool) {
	last := len(parts) - 1
	for _, p := range parts[:last] {
		g.event("", g.chunk(object{"text": p}, ""))
	}
	if !whole {
		g.event("", g.chunk(object{"text": parts[last]}, ""))
		g.breakOff()
		return
	}
	g.event("", g.chunk(object{"text": parts[last]}, "STOP"))
}

func (g *gemini) tool(tell string, edit bool) {
	f := object{"name": "run_shell_command", "args": object{"command": g.s.Command, "description": "run it"}}
	if edit {
		f = object{"name": "write_file", "args": object{"file_path": File, "content": Content}}
	}
	g.event("", g.chunk(object{"text": tell}, ""))
	g.event("", g.chunk(object{"functionCall": f}, "STOP"))
}

func (g *gemini) refuse(status int) {
	e := object{"code": status, "message": "The model is overloaded. Please try again later.", "status": "UNAVAILABLE", "details": []any{}}
	switch status {
	case http.StatusUnauthorized:
		e["message"], e["status"] = "API key not valid. Please pass a valid API key.", "UNAUTHENTICATED"
	case http.StatusTooManyRequests:
		e["message"], e["status"] = "You exceeded your current quota, please check your plan and billing details.", "RESOURCE_EXHAUSTED"
		e["details"] = []any{
			object{"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": []any{object{
				"quotaMetric": "generativelanguage.googleapis.com/generate_content_free_tier_requests",
				"quotaId":     "GenerateRequestsPerDayPerProjectPerModel-FreeTier"}}},
			object{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": fmt.Sprintf("%ds", int(LimitFor.Seconds()))}}
	}
	g.json(status, object{"error": e})
}
