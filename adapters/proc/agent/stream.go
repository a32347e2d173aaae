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

// Bounds of what is kept of a stream, which limit the memory that this process
// uses.
const (
	maxLine   = 16 << 20 // bytes of a line; a longer one is dropped
	maxDenied = 100
	maxWords  = 500 // bytes of an error's message
	maxShown  = 200 // bytes of the description of a tool's use
)

// parser parses one program's events.
type parser interface {
	event(line []byte) bool // a line of standard output; returns false if it is not an event
	stderr(line string)     // a line of standard error
	end(exit int)           // called at the end
}

// stream collects what a program reports, and shows its progress to people as
// it arrives. Its writers may be used concurrently.
type stream struct {
	mu       sync.Mutex
	progress io.Writer
	limit    int // how many bytes of the answer are kept, and one more
	now      func() time.Time

	run         kernel.AgentRun
	began       func(kernel.AgentRun) // called with the session
	heard       string                // the session that began was last called with
	said        []byte                // the model's last message: the answer, if no other follows
	more        bool                  // said is incomplete
	done        bool                  // the program reported that its answer is complete
	events      int
	fault       fault
	last        string // its last line of standard error, or its first error
	errs        bool   // last is an error
	noSession   string // its message for a session that it does not have
	sessionLost bool   // it printed that message
}

// fault is what a program reported about its failure.
type fault struct {
	class kernel.FailureClass
	words string // the program's own message
}

// say handles a complete message of the model. An earlier message was progress,
// not the answer.
func (s *stream) say(text string) {
	s.flush()
	s.add(text)
	s.more = false
}

// add handles a part of a message of the model.
func (s *stream) add(text string) {
	if !s.more {
		s.flush()
	}
	s.more = true
	if room := s.limit + 1 - len(s.said); room > 0 {
		s.said = append(s.said, text[:min(len(text), room)]...)
	}
}

// flush shows the last message as progress.
func (s *stream) flush() {
	if text := strings.TrimSpace(string(s.said)); text != "" {
		s.show(text)
	}
	s.said, s.more = nil, false
}

// use shows the use of a tool.
func (s *stream) use(tool, what string) {
	s.flush()
	s.show(strings.TrimSpace(tool + " " + cut(plain(what), maxShown)))
}

func (s *stream) show(line string) { fmt.Fprintln(s.progress, line) }

// showRetry shows that the program repeats a request to its provider by itself.
func (s *stream) showRetry(program, attempt, why string) {
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

// fail keeps the first class and the last message of a failure.
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

// begin calls began with a new session, so that a later process can continue
// the session even if this one is killed.
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

// complain passes on a line of standard error.
func (s *stream) complain(line string) {
	s.noteReason(plain(line))
	s.show(strings.TrimRight(line, "\r"))
}

// noteReason remembers a line as the reason of a failure, until a better one
// comes.
func (s *stream) noteReason(text string) {
	if text == "" || s.errs {
		return
	}
	s.last = cut(text, maxWords)
	s.errs = anError().MatchString(text) || refusal().MatchString(text)
	s.sessionLost = s.sessionLost || s.noSession != "" && strings.Contains(text, s.noSession)
}

// lazyRegexp compiles a regular expression on first use: every command links this
// package, but few ask an agent.
func lazyRegexp(text string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })
}

var anError = lazyRegexp(`(?i)^(fatal )?error\b`)

// lines splits what is written to it into lines.
type lines struct {
	each    func([]byte)
	dropped func()
	rest    []byte
	skip    bool // skipping the rest of a line that is too long
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

// close handles an unterminated last line.
func (l *lines) close() {
	if len(l.rest) > 0 && !l.skip {
		l.each(l.rest)
	}
	l.rest = nil
}

// decode decodes an event. Fields of an unexpected type are skipped, because a
// newer program may send them.
func decode(line []byte, to any) bool {
	line = bytes.TrimSpace(line)
	if len(line) == 0 || line[0] != '{' {
		return false
	}
	err := json.Unmarshal(line, to)
	var other *json.UnmarshalTypeError
	return err == nil || errors.As(err, &other)
}

// plain returns text on one line without control characters and colours.
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

// cut returns at most n bytes of text, with a mark if there is more.
func cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n] + "…"
}
