package main

import (
	"reflect"
	"slices"
	"strings"
)

// narrowed is a new grammar with no command but the one that the arguments
// name, and no global flag that they cannot mean: to build the parser of the
// whole takes longer than most commands take to run. It is nil where the
// arguments do not begin with a command or ask for help.
//
// Who parses with it and fails parses again with the whole grammar: what is
// wrong is told in view of all there is.
func narrowed(args []string) any {
	if end := slices.Index(args, "--"); end >= 0 {
		args = args[:end]
	}
	if slices.Contains(args, "--help") || slices.Contains(args, "-h") {
		return nil
	}
	words := args
	for len(words) > 0 && isSwitch(words[0]) {
		words = words[1:]
	}
	t := withOnly(reflect.TypeFor[grammar](), words)
	if t == nil {
		return nil
	}
	fields := slices.Collect(t.Fields())
	fields[0].Type = flagsAmong(args)
	return reflect.New(reflect.StructOf(fields)).Interface()
}

// globalsOf are the global flags of a narrow grammar that a parser has filled.
func globalsOf(narrow any) (g globals) {
	for f, v := range reflect.ValueOf(narrow).Elem().Field(0).Fields() {
		reflect.ValueOf(&g).Elem().FieldByName(f.Name).Set(v)
	}
	return g
}

// flagsAmong is the type of the globals with those alone that args may hold. In
// several short flags behind one dash it may be any.
func flagsAmong(args []string) reflect.Type {
	var fields []reflect.StructField
	for f := range reflect.TypeFor[globals]().Fields() {
		if slices.ContainsFunc(args, func(arg string) bool {
			return strings.HasPrefix(arg, "--"+nameOf(f)) || strings.HasPrefix(arg, "-") && !strings.HasPrefix(arg, "--")
		}) {
			fields = append(fields, f)
		}
	}
	return reflect.StructOf(fields)
}

// withOnly is t with that one of its commands alone that words begin with, and
// so on below it; nil if they begin with none.
func withOnly(t reflect.Type, words []string) reflect.Type {
	var fields []reflect.StructField
	group := false
	for f := range t.Fields() {
		if _, command := f.Tag.Lookup("cmd"); command {
			group = true
			if len(words) == 0 || words[0] != nameOf(f) || words[0] == "help" {
				continue
			}
			if f.Type = withOnly(f.Type, words[1:]); f.Type == nil {
				return nil
			}
			words = nil
		}
		fields = append(fields, f)
	}
	switch {
	case !group: // a command, with its own flags and arguments
		return t
	case words != nil:
		return nil
	default:
		return reflect.StructOf(fields)
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

// nameOf is what a command or a flag of the grammar is called.
func nameOf(f reflect.StructField) string {
	if name := f.Tag.Get("name"); name != "" {
		return name
	}
	return strings.ToLower(f.Name)
}
