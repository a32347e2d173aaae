// Package model is a server that stands in for the models of Claude Code, Codex
// and Gemini, so that tests can run the real programs without cost. It
// implements as much of Anthropic's messages, OpenAI's responses and Gemini's
// generateContent as these programs need. The first segment of a URL's path is
// the case, which determines what the model does.
package model

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"
)

// The cases.
const (
	Plain    = "plain"    // answers with Plan
	Edit     = "edit"     // announces it, writes File, and answers with Done
	Run      = "run"      // runs Command, and answers with Done
	Work     = "work"     // Edit if the prompt contains Marker, else Plain
	Recall   = "recall"   // answers with the first question of this session
	Limit    = "limit"    // 429, for LimitFor
	Key      = "key"      // 401
	Overload = "overload" // 529, or 503
	Busy     = "busy"     // Overload once, then Plain
	Cut      = "cut"      // the stream of every answer breaks off
	CutOnce  = "cutonce"  // the stream of the first answer breaks off
	Hang     = "hang"     // no answer at all
	Stall    = "stall"    // half an answer, and then nothing
)

// What the model says and does.
const (
	Plan     = "1. Write hello.txt.\n2. Nothing else."
	Half     = "1. Write h"
	Telling  = "I will now write it."
	Done     = "Done."
	File     = "hello.txt"
	Content  = "hello\n"
	Marker   = "IMPLEMENT THE PLAN"
	LimitFor = 2 * time.Hour
)

// Server is a model on loopback.
type Server struct {
	*httptest.Server
	Command string // of Run

	mu       sync.Mutex
	requests map[string][]Request // by case
	done     chan struct{}
}

// Request is a request of a program.
type Request struct {
	Path, Body string
}

// New starts a server.
func New() *Server {
	s := &Server{Command: "id", requests: map[string][]Request{}, done: make(chan struct{})}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	return s
}

// Close ends the server and its open requests.
func (s *Server) Close() {
	close(s.done)
	s.Server.CloseClientConnections()
	s.Server.Close()
}

// Requests returns the questions to the model in a case.
func (s *Server) Requests(name string) []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.requests[name]...)
}

// note records a request and returns how many there are now in its case.
func (s *Server) note(name string, r Request) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests[name] = append(s.requests[name], r)
	return len(s.requests[name])
}

// call is one question to a model.
type call struct {
	s    *Server
	w    http.ResponseWriter
	r    *http.Request
	name string // the case
	body string
	n    int // its number within the case, from 1
}

// dialect is the protocol of one provider's models.
type dialect interface {
	asked() bool                     // reports whether it is a question that the case is about
	side()                           // answers any other question
	worked() bool                    // reports whether the question contains the result of a tool
	prompt() string                  // returns the first message of a person in this session
	text(parts []string, whole bool) // answers with a text; if not whole, without its end
	tool(tell string, edit bool)     // asks the program to write File, or to run Command
	refuse(status int)               // answers with an error
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	name, rest, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	c := &call{s: s, w: w, r: r, name: name, body: string(body)}
	var d dialect
	switch {
	case r.Method != http.MethodPost:
		c.json(http.StatusOK, object{"object": "list", "data": []any{}, "models": []any{}})
		return
	case strings.Contains(rest, "count_tokens"):
		c.json(http.StatusOK, object{"input_tokens": 10})
		return
	case strings.Contains(rest, "countTokens"):
		c.json(http.StatusOK, object{"totalTokens": 10})
		return
	case strings.HasSuffix(rest, "/messages"):
		d = &anthropic{call: c}
	case strings.HasSuffix(rest, "/responses"):
		d = &openai{call: c}
	case strings.HasSuffix(rest, "enerateContent"):
		d = &gemini{call: c}
	default:
		c.json(http.StatusNotFound, object{"error": object{"message": "nothing is here"}})
		return
	}
	if err := json.Unmarshal(body, d); err != nil {
		c.json(http.StatusBadRequest, object{"error": object{"message": err.Error()}})
		return
	}
	if !d.asked() {
		d.side()
		return
	}
	c.n = s.note(name, Request{r.URL.Path, c.body})
	c.answer(d)
}

// answer answers as the case prescribes.
func (c *call) answer(d dialect) {
	switch c.name {
	case Edit:
		c.act(d, true)
	case Run:
		c.act(d, false)
	case Work:
		if strings.Contains(c.body, Marker) {
			c.act(d, true)
			return
		}
		d.text([]string{Plan}, true)
	case Recall:
		d.text([]string{"You asked first: " + d.prompt()}, true)
	case Limit:
		d.refuse(http.StatusTooManyRequests)
	case Key:
		d.refuse(http.StatusUnauthorized)
	case Overload:
		d.refuse(http.StatusServiceUnavailable)
	case Busy:
		if c.n == 1 {
			d.refuse(http.StatusServiceUnavailable)
			return
		}
		d.text([]string{Plan}, true)
	case Cut:
		d.text([]string{Half}, false)
	case CutOnce:
		if c.n == 1 {
			d.text([]string{Half}, false)
			return
		}
		d.text([]string{Half, strings.TrimPrefix(Plan, Half)}, true)
	case Hang:
		c.wait()
	case Stall:
		d.text([]string{Half}, false)
	default:
		d.text([]string{Plan}, true)
	}
}

func (c *call) act(d dialect, edit bool) {
	if d.worked() {
		d.text([]string{Done}, true)
		return
	}
	d.tool(Telling, edit)
}

// wait returns when the client no longer waits for the answer.
func (c *call) wait() {
	select {
	case <-c.r.Context().Done():
	case <-c.s.done:
	}
}

// breakOff breaks off a stream. In the case Stall it keeps the connection open.
func (c *call) breakOff() {
	if c.name == Stall {
		c.wait()
	}
}

type object = map[string]any

func (c *call) json(status int, v any) {
	c.w.Header().Set("Content-Type", "application/json")
	c.w.WriteHeader(status)
	_ = json.NewEncoder(c.w).Encode(v) // the client may be gone
}

// event sends one event of a stream.
func (c *call) event(kind string, v any) {
	c.w.Header().Set("Content-Type", "text/event-stream")
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // impossible: only strings and numbers
	}
	if kind != "" {
		_, _ = io.WriteString(c.w, "event: "+kind+"\n")
	}
	_, _ = io.WriteString(c.w, "data: "+string(data)+"\n\n")
	if f, ok := c.w.(http.Flusher); ok {
		f.Flush()
	}
}
