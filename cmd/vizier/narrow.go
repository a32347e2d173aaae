package main

import (
	"reflect"
	"slices"
	"strings"
	"unicode"
)

// narrow is the part of the grammar that the arguments of one call may use: the
// command they name, its arguments, and the flags, its own and global ones,
// that they may set. Building the parser for the whole grammar takes longer
// than most commands take to run.
//
// If parsing with it fails, the arguments are parsed again with the whole
// grammar, so that errors take all of it into account.
type narrow struct {
	words   []string     // the arguments before "--"
	grammar any          // a pointer to a struct with a subset of the fields
	command reflect.Type // in the whole grammar
}

// runnable is a parsed command.
type runnable interface{ Run(*call) error }

// narrowed returns the narrow grammar for args, or nil if they do not begin
// with a command or ask for help.
func narrowed(args []string) *narrow {
	n := &narrow{words: args}
	if end := slices.Index(args, "--"); end >= 0 {
		n.words = args[:end]
	}
	if slices.Contains(n.words, "--help") || slices.Contains(n.words, "-h") {
		return nil
	}
	names := n.words
	for len(names) > 0 && isSwitch(names[0]) {
		names = names[1:]
	}
	t := n.toward(reflect.TypeFor[grammar](), names)
	if t == nil {
		return nil
	}
	n.grammar = reflect.New(t).Interface()
	return n
}

// toward returns t with only the command that names begin with, recursively, or
// nil if there is no such command.
func (n *narrow) toward(t reflect.Type, names []string) reflect.Type {
	if !isGroup(t) {
		n.command = t
		return n.given(t)
	}
	var fields []reflect.StructField
	for f := range t.Fields() {
		switch _, command := f.Tag.Lookup("cmd"); {
		case !command:
			f.Type = n.given(f.Type)
			fields = append(fields, f)
		case len(names) > 0 && isCalled(f, names[0]) && names[0] != "help", len(names) == 0 && f.Tag.Get("default") != "":
			if f.Type = n.toward(f.Type, names[min(1, len(names)):]); f.Type != nil {
				return reflect.StructOf(append(fields, f))
			}
		}
	}
	return nil
}

func isGroup(t reflect.Type) bool {
	for f := range t.Fields() {
		if _, command := f.Tag.Lookup("cmd"); command {
			return true
		}
	}
	return false
}

// given returns t, a struct of flags and arguments, without the flags that the
// arguments do not mention and that have no default.
func (n *narrow) given(t reflect.Type) reflect.Type {
	var fields []reflect.StructField
	for f := range t.Fields() {
		_, argument := f.Tag.Lookup("arg")
		_, embedded := f.Tag.Lookup("embed")
		_, set := f.Tag.Lookup("default")
		switch {
		case embedded:
			f.Type = n.given(f.Type)
		case !argument && !n.mention(f) && !(set && f.Type.Kind() != reflect.String):
			continue
		}
		fields = append(fields, f)
	}
	return reflect.StructOf(fields)
}

// mention reports whether a word may be the flag f: by its name, or as one of
// several letters after one dash.
func (n *narrow) mention(f reflect.StructField) bool {
	return slices.ContainsFunc(n.words, func(w string) bool {
		return strings.HasPrefix(w, "--"+nameOf(f)) || strings.HasPrefix(w, "-") && !strings.HasPrefix(w, "--") && f.Tag.Get("short") != ""
	})
}

// filled returns the parsed values in the types of the whole grammar.
func (n *narrow) filled() (g globals, command runnable) {
	v := reflect.ValueOf(n.grammar).Elem()
	fill(reflect.ValueOf(&g).Elem(), v.Field(0))
	to := reflect.New(n.command)
	for isGroup(v.Type()) {
		v = v.Field(v.NumField() - 1)
	}
	fill(to.Elem(), v)
	return g, to.Interface().(runnable)
}

// fill copies from to to, which has at least the same fields. The others keep
// their values.
func fill(to, from reflect.Value) {
	for f, v := range to.Fields() {
		have := from.FieldByName(f.Name)
		_, embedded := f.Tag.Lookup("embed")
		switch {
		case embedded:
			fill(v, have)
		case have.IsValid():
			v.Set(have)
		case v.Kind() == reflect.String:
			v.SetString(f.Tag.Get("default"))
		}
	}
}

// isSwitch reports whether word is a global flag that takes no value.
func isSwitch(word string) bool {
	for f := range reflect.TypeFor[globals]().Fields() {
		if f.Type.Kind() != reflect.String && (word == "--"+nameOf(f) || word == "-"+f.Tag.Get("short")) {
			return true
		}
	}
	return false
}

// isCalled reports whether the command f has a name or alias.
func isCalled(f reflect.StructField, name string) bool {
	return name == nameOf(f) || slices.Contains(strings.Split(f.Tag.Get("aliases"), ","), name)
}

// nameOf returns the name of a command or a flag in the grammar:
// MissingProducer is missing-producer.
func nameOf(f reflect.StructField) string {
	if name := f.Tag.Get("name"); name != "" {
		return name
	}
	var b strings.Builder
	letters := []rune(f.Name)
	for i, r := range letters {
		word := i > 0 && unicode.IsUpper(r) && (unicode.IsLower(letters[i-1]) || i+1 < len(letters) && unicode.IsLower(letters[i+1]))
		if word {
			b.WriteByte('-')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}
