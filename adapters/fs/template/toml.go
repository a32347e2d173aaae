package template

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/BurntSushi/toml"

	"github.com/vizier-scheduler/vizier/internal/nesting"
	"github.com/vizier-scheduler/vizier/kernel/workflow"
)

// parseTOML parses the values with the library, which does not report their
// positions, and finds the lines of the keys itself. A line that ends with CR LF,
// as git writes it with core.autocrlf, is one that ends with LF: a script must not
// have that CR.
func parseTOML(file, text string) (workflow.Value, error) {
	text = strings.ReplaceAll(text, "\r\n", "\n")
	if line := nesting.TooDeep(text); line > 0 {
		return workflow.Value{}, syntax("TOML", file, line, fmt.Sprintf("more than %d levels of nesting", nesting.Most))
	}
	var tree map[string]any
	if _, err := toml.Decode(text, &tree); err != nil {
		line, msg := 0, strings.TrimPrefix(err.Error(), "toml: ")
		var pe toml.ParseError
		if errors.As(err, &pe) {
			line, msg = pe.Position.Line, pe.Message
			if msg == "" {
				msg = err.Error()
			}
		}
		return workflow.Value{}, syntax("TOML", file, line, msg)
	}
	s := &scanner{text: text, line: 1, lines: map[string]int{}, tables: map[string]int{}}
	s.scan()
	b := builder{file: file, lines: s.lines}
	return b.value(tree, "", 1), nil
}

// builder joins the values with their lines.
type builder struct {
	file  string
	lines map[string]int
}

func (b builder) value(v any, path string, line int) workflow.Value {
	if at, ok := b.lines[path]; ok {
		line = at
	}
	out := workflow.Value{Pos: workflow.Pos{File: b.file, Line: line}}
	switch v := v.(type) {
	case string:
		out.Kind, out.Text = workflow.String, v
	case int64:
		out.Kind, out.Text = workflow.Int, strconv.FormatInt(v, 10)
	case bool:
		out.Kind, out.Text = workflow.Bool, strconv.FormatBool(v)
	case float64:
		out.Kind, out.Text = workflow.Float, strconv.FormatFloat(v, 'g', -1, 64)
	case []any:
		out.Kind = workflow.List
		for i, e := range v {
			out.List = append(out.List, b.value(e, element(path, i), line))
		}
	case []map[string]any:
		out.Kind = workflow.List
		for i, e := range v {
			out.List = append(out.List, b.value(e, element(path, i), line))
		}
	case map[string]any:
		out.Kind = workflow.Table
		for key, e := range v {
			val := b.value(e, member(path, key), line)
			out.Fields = append(out.Fields, workflow.Field{Key: key, Pos: val.Pos, Value: val})
		}
		slices.SortFunc(out.Fields, func(x, y workflow.Field) int {
			return cmp.Or(cmp.Compare(x.Pos.Line, y.Pos.Line), cmp.Compare(x.Key, y.Key))
		})
	}
	return out
}

func member(path, key string) string      { return path + "\x00" + key }
func element(path string, i int) string   { return member(path, strconv.Itoa(i)) }
func (s *scanner) mark(path string)       { s.markAt(path, s.line) }
func (s *scanner) done() bool             { return s.at >= len(s.text) }
func (s *scanner) has(prefix string) bool { return strings.HasPrefix(s.text[s.at:], prefix) }
func (s *scanner) markAt(path string, line int) {
	if _, ok := s.lines[path]; !ok {
		s.lines[path] = line
	}
}

// scanner finds the line of every key of a valid TOML text. On other texts it
// finds fewer lines, but terminates.
type scanner struct {
	text   string
	at     int
	line   int
	lines  map[string]int // path → line
	tables map[string]int // path of an array of tables → number of its tables so far
	table  string         // path of the table whose keys follow
}

func (s *scanner) scan() {
	for s.blank(); !s.done(); s.blank() {
		start := s.at
		if s.text[s.at] == '[' {
			s.header()
		} else {
			s.pair(s.table)
		}
		if s.at == start {
			s.at++
		}
	}
}

// header parses [a.b] or [[a.b]].
func (s *scanner) header() {
	array := s.has("[[")
	s.at++
	if array {
		s.at++
	}
	path := ""
	parts := s.key()
	for i, p := range parts {
		path = member(path, p)
		s.mark(path)
		n, isArray := s.tables[path]
		switch last := i == len(parts)-1; {
		case last && array:
			s.tables[path] = n + 1
			path = element(path, n)
			s.mark(path)
		case isArray:
			path = element(path, n-1)
		}
	}
	s.table = path
	for !s.done() && s.text[s.at] == ']' {
		s.at++
	}
}

// pair parses key = value in the table at path.
func (s *scanner) pair(path string) {
	line := s.line
	for _, p := range s.key() {
		path = member(path, p)
		s.markAt(path, line)
	}
	if s.has("=") {
		s.at++
		s.blank()
		s.value(path)
	}
}

// key parses a dotted key.
func (s *scanner) key() []string {
	var parts []string
	for {
		s.space()
		start := s.at
		switch {
		case s.done():
			return parts
		case s.text[s.at] == '"' || s.text[s.at] == '\'':
			s.quoted()
			raw := s.text[start:s.at]
			if text, err := strconv.Unquote(raw); err == nil && raw[0] == '"' {
				parts = append(parts, text)
			} else {
				parts = append(parts, strings.Trim(raw, raw[:1]))
			}
		default:
			for !s.done() && !strings.ContainsRune(" \t\r\n.=]#,}", rune(s.text[s.at])) {
				s.at++
			}
			parts = append(parts, s.text[start:s.at])
		}
		s.space()
		if !s.has(".") {
			return parts
		}
		s.at++
	}
}

// value skips a value and marks the lines of what is inside it.
func (s *scanner) value(path string) {
	switch {
	case s.done():
	case s.has(`"`), s.has("'"):
		s.quoted()
	case s.has("["):
		s.at++
		for i := 0; ; i++ {
			s.blank()
			if s.done() || s.has("]") {
				break
			}
			start := s.at
			s.mark(element(path, i))
			s.value(element(path, i))
			s.comma(start)
		}
		s.skip("]")
	case s.has("{"):
		s.at++
		for {
			s.blank()
			if s.done() || s.has("}") {
				break
			}
			start := s.at
			s.pair(path)
			s.comma(start)
		}
		s.skip("}")
	default:
		for !s.done() && !strings.ContainsRune(",]}\n#", rune(s.text[s.at])) {
			s.at++
		}
	}
}

// comma skips the separator after a member, or one byte if that would make no
// progress since start.
func (s *scanner) comma(start int) {
	s.blank()
	s.skip(",")
	if s.at == start {
		s.at++
	}
}

func (s *scanner) skip(what string) {
	if s.has(what) {
		s.at += len(what)
	}
}

// quoted skips a string of any of the four forms.
func (s *scanner) quoted() {
	quote := s.text[s.at : s.at+1]
	long := s.has(strings.Repeat(quote, 3))
	if long {
		quote = strings.Repeat(quote, 3)
	}
	for s.at += len(quote); !s.done(); s.at++ {
		switch {
		case s.text[s.at] == '\\' && quote[0] == '"':
			s.at++
			if !s.done() && s.text[s.at] == '\n' {
				s.line++
			}
		case s.text[s.at] == '\n':
			s.line++
		case s.has(quote):
			s.at += len(quote)
			for long && !s.done() && s.text[s.at] == quote[0] { // the text may end with quotes
				s.at++
			}
			return
		}
	}
}

func (s *scanner) space() {
	for !s.done() && (s.text[s.at] == ' ' || s.text[s.at] == '\t') {
		s.at++
	}
}

// blank skips white space, line ends and comments.
func (s *scanner) blank() {
	for ; !s.done(); s.at++ {
		switch s.text[s.at] {
		case '\n':
			s.line++
		case ' ', '\t', '\r':
		case '#':
			for !s.done() && s.text[s.at] != '\n' {
				s.at++
			}
			s.at--
		default:
			return
		}
	}
}
