package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/vizier-scheduler/vizier/kernel"
)

// What is kept of a stream, so that no program makes this one large.
const (
	maxLine   = 16 << 20 // bytes of a line; a longer one is dropped
	maxDenied = 100
	maxWords  = 500 // bytes of an error's message
	maxShown  = 200 // bytes of what a tool is used for
)

// parser reads one program's events.
type parser interface {
	event(line []byte) bool // a line of standard output; false: it is none
	stderr(line string)     // a line of standard error
	end(exit int)           // there is no more
}

// stream collects what a program tells, and shows people its progress as it
// comes. Its writers may be used at the same time.
type stream struct {
	mu       sync.Mutex
	progress io.Writer
	limit    int // bytes of the answer that are kept, and one more
	now      func() time.Time

	run    kernel.AgentRun
	began  func(kernel.AgentRun) // hears of the session
	heard  string                // the session that it heard of
	said   []byte                // the last that the model said: the answer, if nothing follows
	more   bool                  // said goes on
	done   bool                  // the program told that it has its answer
	events int
	fault  fault
	last   string // the last that it wrote to standard error, or its first error
	errs   bool   // last is an error
	gone   string // what it says when it does not have the session
	lost   bool   // it said that
}

// fault is what a program told of its failure.
type fault struct {
	class kernel.FailureClass
	words string // its own
}

// say takes a whole thing that the model said. What it said before was on the
// way, not the answer.
func (s *stream) say(text string) {
	s.flush()
	s.add(text)
	s.more = false
}

// add takes a part of what the model says.
func (s *stream) add(text string) {
	if !s.more {
		s.flush()
	}
	s.more = true
	if room := s.limit + 1 - len(s.said); room > 0 {
		s.said = append(s.said, text[:min(len(text), room)]...)
	}
}

// flush shows what the model said on the way.
func (s *stream) flush() {
	if text := strings.TrimSpace(string(s.said)); text != "" {
		s.show(text)
	}
	s.said, s.more = nil, false
}

// use shows that a tool is used.
func (s *stream) use(tool, what string) {
	s.flush()
	s.show(strings.TrimSpace(tool + " " + cut(plain(what), maxShown)))
}

func (s *stream) show(line string) { fmt.Fprintln(s.progress, line) }

// again shows that the program asks its provider again by itself.
func (s *stream) again(program, attempt, why string) {
	s.flush()
	s.show(fmt.Sprintf("%s asks again, attempt %s: %s", program, attempt, cut(plain(why), maxShown)))
}

func (s *stream) denied(what string) {
	what = cut(plain(what), maxShown)
	if what == "" || len(s.run.Denied) >= maxDenied || slices.Contains(s.run.Denied, what) {
		return
	}
	s.run.Denied = append(s.run.Denied, what)
	s.show("not allowed: " + what)
}

// fail keeps the first class and the last words of what went wrong.
func (s *stream) fail(class kernel.FailureClass, words string) {
	if words = cut(plain(words), maxWords); words != "" {
		s.fault.words = words
	}
	if s.fault.class == kernel.NoFailure || s.fault.class == kernel.ExitFailure {
		s.fault.class = class
	}
}

// stdout and stderr are the writers for a program's output.
func (s *stream) stdout(p parser) *lines {
	return &lines{each: func(line []byte) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if p.event(line) {
			s.events++
			s.begin()
		} else if text := strings.TrimSpace(string(line)); text != "" {
			s.show(text)
		}
	}, dropped: func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.show(fmt.Sprintf("warning: a line of more than %d bytes is dropped", maxLine))
	}}
}

// begin tells of a session that nobody was told of yet: whatever ends this
// process, the next one may go on with it.
func (s *stream) begin() {
	if s.began != nil && s.run.Session != s.heard {
		s.heard = s.run.Session
		s.began(s.run)
	}
}

func (s *stream) stderr(p parser) *lines {
	return &lines{each: func(line []byte) {
		s.mu.Lock()
		defer s.mu.Unlock()
		p.stderr(string(line))
	}, dropped: func() {}}
}

// complain passes a line of standard error on.
func (s *stream) complain(line string) {
	s.keep(plain(line))
	s.show(strings.TrimRight(line, "\r"))
}

// keep remembers a line that may be the reason, if nothing better comes.
func (s *stream) keep(text string) {
	if text == "" || s.errs {
		return
	}
	s.last = cut(text, maxWords)
	s.errs = anError().MatchString(text) || refusal().MatchString(text)
	s.lost = s.lost || s.gone != "" && strings.Contains(text, s.gone)
}

// pattern is compiled when it is used first: every command starts with this
// package, and few ask an agent.
func pattern(text string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })
}

var anError = pattern(`(?i)^(fatal )?error\b`)

// lines cuts what is written to it into lines.
type lines struct {
	each    func([]byte)
	dropped func()
	rest    []byte
	skip    bool // until the end of a line that is too long
}

func (l *lines) Write(p []byte) (int, error) {
	for left := p; len(left) > 0; {
		line, after, whole := bytes.Cut(left, []byte("\n"))
		switch {
		case l.skip:
		case len(l.rest)+len(line) > maxLine:
			l.rest, l.skip = nil, true
			l.dropped()
		default:
			l.rest = append(l.rest, line...)
		}
		if !whole {
			break
		}
		if !l.skip {
			l.each(l.rest)
		}
		l.rest, l.skip = l.rest[:0], false
		left = after
	}
	return len(p), nil
}

// close takes what came last as a line of its own.
func (l *lines) close() {
	if len(l.rest) > 0 && !l.skip {
		l.each(l.rest)
	}
	l.rest = nil
}

// decode reads an event. A field of a type that is not expected is left out;
// the program may know more by now.
func decode(line []byte, to any) bool {
	line = bytes.TrimSpace(line)
	if len(line) == 0 || line[0] != '{' {
		return false
	}
	err := json.Unmarshal(line, to)
	var other *json.UnmarshalTypeError
	return err == nil || errors.As(err, &other)
}

// plain is text on one line without control characters and colours.
func plain(text string) string {
	var b strings.Builder
	escaped := false
	for _, r := range text {
		switch {
		case r == '\x1b':
			escaped = true
		case escaped:
			escaped = r == '[' || r == ';' || r >= '0' && r <= '9'
		case unicode.IsSpace(r):
			b.WriteByte(' ')
		case unicode.IsControl(r) || r == utf8.RuneError:
		default:
			b.WriteRune(r)
		}
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

// cut is text of at most n bytes, and a mark where there was more.
func cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n] + "…"
}
