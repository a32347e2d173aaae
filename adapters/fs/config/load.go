package config

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/BurntSushi/toml"

	"github.com/vizier-scheduler/vizier/internal/nesting"
)

// Sources says where a configuration is read from.
type Sources struct {
	Root string              // the repository's root; "" outside of one
	File string              // if set, it is read instead of the user's and the repository's file
	Env  func(string) string // the environment; "" is unset
}

// UserDir returns the directory of the user's configuration: vizier in
// $VIZIER_CONFIG_DIR, $XDG_CONFIG_HOME or $HOME/.config, whichever is set
// first; "" if none is.
func UserDir(env func(string) string) string {
	if base := cmp.Or(env("VIZIER_CONFIG_DIR"), env("XDG_CONFIG_HOME")); base != "" {
		return filepath.Join(base, "vizier")
	}
	if home := env("HOME"); home != "" {
		return filepath.Join(home, ".config", "vizier")
	}
	return ""
}

// parse parses the layers, each over the one before: defaults, the user's file,
// the repository's file, the environment. The error is an *Error with all
// findings.
func parse(src Sources, texts []content) (Config, error) {
	l := loader{c: defaults(), known: settings()}
	for _, t := range texts {
		l.c.own = t.Own
		l.file(t.Name, t.Text)
	}
	l.c.own = false
	l.environment(src.Env)
	if beat, ttl := l.c.Leases.Heartbeat, l.c.Leases.TTL; len(l.findings) == 0 && ttl < 2*beat {
		l.findings = append(l.findings, Finding{Place: cmp.Or(l.c.origins["leases.heartbeat"], l.c.origins["leases.ttl"]), Text: fmt.Sprintf(
			"leases.heartbeat = %s is too seldom for leases.ttl = %s: one heartbeat may be late, so use at most half of it", beat, ttl)})
	}
	if len(l.findings) > 0 {
		return Config{}, &Error{l.findings}
	}
	return l.c, nil
}

type file struct {
	path, show string
	required   bool
	own        bool // the user's own
}

func (src Sources) files() []file {
	if src.File != "" {
		return []file{{path: src.File, show: src.File, required: true}}
	}
	var out []file
	if dir := UserDir(src.Env); dir != "" {
		path := filepath.Join(dir, "config.toml")
		out = append(out, file{path: path, show: path, own: true})
	}
	if src.Root != "" {
		show := filepath.Join(".vizier", "config.toml")
		out = append(out, file{path: filepath.Join(src.Root, show), show: show})
	}
	return out
}

type loader struct {
	c        Config
	known    []setting
	findings []Finding
}

// file parses one layer. Its findings are in the order of lines. A line may end
// with CR LF, and no command of several lines has that CR.
func (l *loader) file(name, data string) {
	const most = 64 << 10 // the time to find the lines of keys grows with the square of the size
	if line := nesting.TooDeep(data); line > 0 {
		l.findings = append(l.findings, Finding{Place: fmt.Sprintf("%s:%d", name, line), Text: fmt.Sprintf("more than %d levels of nesting", nesting.Most)})
		return
	} else if len(data) > most {
		l.findings = append(l.findings, Finding{Place: name, Text: fmt.Sprintf("it has %d bytes, more than the %d that a configuration may have", len(data), most)})
		return
	}
	var top map[string]toml.Primitive
	md, err := toml.Decode(strings.ReplaceAll(data, "\r\n", "\n"), &top)
	if err != nil {
		found := Finding{Place: name, Text: err.Error()}
		var at toml.ParseError
		if errors.As(err, &at) {
			found.Place, found.Text = fmt.Sprintf("%s:%d", name, at.Position.Line), at.Message
		}
		l.findings = append(l.findings, found)
		return
	}
	before := len(l.findings)
	t := table{loader: l, md: &md, file: name}
	t.walk("", top)
	slices.SortStableFunc(l.findings[before:], func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.line, b.line), cmp.Compare(a.Text, b.Text))
	})
}

// table is the state of parsing one file.
type table struct {
	*loader
	md   *toml.MetaData
	file string
}

func (t table) walk(prefix string, in map[string]toml.Primitive) {
	for name, value := range in {
		key := prefix + name
		raw, line := t.raw(value)
		s, entry := t.find(key)
		_, isTable := raw.(map[string]any)
		switch {
		case s != nil:
			if err := s.put(&t.c, entry, raw); err != nil {
				t.report(line, key+": "+err.Error())
			}
			if entry != "" && s.table() == "inbox.repositories" {
				key = s.table() + "." + strconv.Quote(entry)
			}
			t.origin(key, value)
		case t.isTable(key) && isTable:
			var inner map[string]toml.Primitive
			_ = t.md.PrimitiveDecode(value, &inner) // no table fails
			t.walk(key+".", inner)
		case t.isTable(key):
			t.report(line, key+": "+mismatch("a table", raw).Error())
		default:
			t.report(line, "unknown key "+key+hint(cmp.Or(namesake(key, t.keys()), Nearest(key, t.keys()))))
		}
	}
}

// origin records where key was set and, if its value is a table, where each key
// in it was, under the names that Agents.shown gives them.
func (t table) origin(key string, value toml.Primitive) {
	_, line := t.raw(value)
	t.c.origins[key] = fmt.Sprintf("%s:%d", t.file, line)
	var inner map[string]toml.Primitive
	if t.md.PrimitiveDecode(value, &inner) != nil {
		return
	}
	for name, v := range inner {
		if key == "agents.templates" {
			name = `"` + name + `"`
		}
		t.origin(key+"."+name, v)
	}
}

func (t table) report(line int, text string) {
	place := t.file
	if line > 0 {
		place = fmt.Sprintf("%s:%d", t.file, line)
	}
	t.findings = append(t.findings, Finding{Place: place, Text: text, line: line})
}

// raw returns a value as it is in the file, and its line. A table that only
// dotted keys imply has the line of the first of them.
func (t table) raw(p toml.Primitive) (any, int) {
	var v located
	var at toml.ParseError
	if errors.As(t.md.PrimitiveDecode(p, &v), &at) && at.Position.Line > 0 {
		return v.value, at.Position.Line
	}
	var inner map[string]toml.Primitive
	line := 0
	if _, ok := v.value.(map[string]any); ok && t.md.PrimitiveDecode(p, &inner) == nil {
		for _, q := range inner {
			if _, n := t.raw(q); line == 0 || n < line {
				line = n
			}
		}
	}
	return v.value, line
}

// located takes a value and returns an error, because the decoder tells the
// position of a value only in its errors.
type located struct{ value any }

func (l *located) UnmarshalTOML(v any) error {
	l.value = v
	return errors.New("located")
}

// find returns the setting that key belongs to and, if the setting stands for
// many names, the name.
func (l *loader) find(key string) (*setting, string) {
	for i, s := range l.known {
		if s.key == key {
			return &l.known[i], ""
		}
		if s.names == nil {
			continue
		}
		if name, ok := strings.CutPrefix(key, s.table()+"."); ok && name != "" {
			return &l.known[i], name
		}
	}
	return nil, ""
}

func (l *loader) isTable(key string) bool {
	return slices.ContainsFunc(l.known, func(s setting) bool { return strings.HasPrefix(s.key, key+".") })
}

// keys returns the names that a mistyped key may have meant: settings and
// tables.
func (l *loader) keys() []string {
	var out []string
	for _, s := range l.known {
		for at := range s.key {
			if s.key[at] == '.' {
				out = append(out, s.key[:at])
			}
		}
		if s.names == nil {
			out = append(out, s.key)
		}
	}
	return slices.Compact(out)
}

func hint(nearest string) string {
	if nearest == "" {
		return ""
	}
	return " (did you mean " + nearest + "?)"
}

func (l *loader) environment(env func(string) string) {
	for _, s := range l.known {
		name := s.env()
		v := env(name)
		if s.names != nil || v == "" {
			continue
		}
		if err := s.put(&l.c, "", fromEnv(v)); err != nil {
			l.findings = append(l.findings, Finding{Place: "env " + name, Text: err.Error()})
		}
		l.c.origins[s.key] = "env " + name
	}
}
