package main

import (
	"reflect"
	"slices"
	"strings"
	"unicode"
)

// narrow is the part of the grammar that the arguments of one call can be
// about: the command they name, its arguments, and what they may mean of its
// flags and of the global ones. To build the parser of the whole takes longer
// than most commands take to run.
//
// Who parses with it and fails parses again with the whole grammar: what is
// wrong is told in view of all there is.
type narrow struct {
	words   []string     // the arguments before "--"
	grammar any          // a pointer to a struct of the same fields, fewer of them
	command reflect.Type // in the whole grammar
}

// runnable is a command that a parser has filled.
type runnable interface{ Run(*call) error }

// narrowed is nil where the arguments do not begin with a command, and where
// they ask for help.
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

// toward is t with that one of its commands alone that names begin with, and so
// on below it; nil if they begin with none.
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

// given is t, a struct of flags and arguments, without the flags that the
// arguments do not mention and that are not set without them.
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

// mention reports that a word may be the flag f: by its name, or as one of
// several letters behind one dash.
func (n *narrow) mention(f reflect.StructField) bool {
	return slices.ContainsFunc(n.words, func(w string) bool {
		return strings.HasPrefix(w, "--"+nameOf(f)) || strings.HasPrefix(w, "-") && !strings.HasPrefix(w, "--") && f.Tag.Get("short") != ""
	})
}

// filled is what a parser has filled in, as of the whole grammar.
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

// fill copies from, of which to has every field. Others are as they are where
// nobody mentions them.
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

// isSwitch reports that word is a global flag that takes no value.
func isSwitch(word string) bool {
	for f := range reflect.TypeFor[globals]().Fields() {
		if f.Type.Kind() != reflect.String && (word == "--"+nameOf(f) || word == "-"+f.Tag.Get("short")) {
			return true
		}
	}
	return false
}

// isCalled reports that the command f has a name, or goes by it as well.
func isCalled(f reflect.StructField, name string) bool {
	return name == nameOf(f) || slices.Contains(strings.Split(f.Tag.Get("aliases"), ","), name)
}

// nameOf is what a command or a flag of the grammar is called: MissingProducer
// is missing-producer.
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
