package main

import (
	"reflect"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// flowCommands are the commands whose first argument is a template and which
// accept the template's own parameters as flags.
var flowCommands = []string{"run", "audit"}

// flowArguments turns every flag that only the template can know into --set:
// `--spec-file X` becomes `--set=spec_file=X`, and a flag without a value
// becomes true. A negative number is a value. Arguments after `--` and other commands are left alone. A
// request for help after the template's name is about the template.
func flowArguments(model *kong.Application, args []string) []string {
	at := commandIndex(model, args)
	if at < 0 || !slices.Contains(flowCommands, args[at]) {
		return args
	}
	node := child(model.Node, args[at])
	out := slices.Clone(args[:at+1])
	rest, flow := args[at+1:], false
	for len(rest) > 0 {
		word := rest[0]
		rest = rest[1:]
		name, value, given := strings.Cut(word, "=")
		known := flagOf(node, name)
		switch {
		case word == "--":
			return append(append(out, word), rest...)
		case !strings.HasPrefix(word, "-") || len(word) == 1:
			flow = true
			out = append(out, word)
		case flow && (word == "--help" || word == "-h"):
			out = append(out, "--template-help")
		case known != nil || !strings.HasPrefix(word, "--"):
			out = append(out, word)
			if known != nil && !given && !known.IsBool() && !known.IsCounter() && len(rest) > 0 {
				out = append(out, rest[0])
				rest = rest[1:]
			}
		default:
			if !given {
				value = "true"
				if len(rest) > 0 && (!strings.HasPrefix(rest[0], "-") || len(rest[0]) == 1 || rest[0][1] >= '0' && rest[0][1] <= '9') {
					value, rest = rest[0], rest[1:]
				}
			}
			out = append(out, "--set="+strings.ReplaceAll(strings.TrimPrefix(name, "--"), "-", "_")+"="+value)
		}
	}
	return out
}

// flagsFirst moves the flags of a command with several targets in front of
// these, since the parser does not accept them in between: `approve 12 --digest
// X 13`.
func flagsFirst(model *kong.Application, args []string) []string {
	at := commandIndex(model, args)
	if at < 0 {
		return args
	}
	node := child(model.Node, args[at])
	for node != nil && at+1 < len(args) && child(node, args[at+1]) != nil {
		at++
		node = child(node, args[at])
	}
	if node == nil || len(node.Positional) == 0 {
		return args
	}
	if last := node.Positional[len(node.Positional)-1]; !last.IsSlice() || last.Name == "command" { // a command has flags of its own
		return args
	}
	var flags, targets []string
	rest := args[at+1:]
	for len(rest) > 0 && rest[0] != "--" {
		word := rest[0]
		rest = rest[1:]
		if !strings.HasPrefix(word, "-") || len(word) == 1 {
			targets = append(targets, word)
			continue
		}
		flags = append(flags, word)
		if takesNext(node, word) {
			if len(rest) == 0 {
				return args // the parser reports the missing value
			}
			flags = append(flags, rest[0])
			rest = rest[1:]
		}
	}
	if len(rest) > 0 {
		rest = rest[1:] // its "--" goes in front of the targets
	}
	if targets = append(targets, rest...); len(targets) > 0 {
		flags = append(flags, "--")
	}
	return slices.Concat(args[:at+1], flags, targets)
}

// parseMany parses args. For each word after "--", the parser copies all of these words, so it gets
// only the first one; parseMany appends the others to the last argument, if that takes several.
func parseMany(parser *kong.Kong, args []string) (*kong.Context, error) {
	at := slices.Index(args, "--") + 2
	if at < 2 || at >= len(args) {
		return parser.Parse(args)
	}
	parsed, err := parser.Parse(args[:at])
	if err != nil || parsed.Selected() == nil {
		return parsed, err
	}
	words := reflect.ValueOf(args[at:])
	if all := parsed.Selected().Positional; len(all) > 0 && all[len(all)-1].Target.Type() == words.Type() {
		last := all[len(all)-1].Target
		last.Set(reflect.AppendSlice(last, words))
		return parsed, nil
	}
	return parser.Parse(args) // returns the error for too many arguments
}

// takesNext reports whether the next argument is the value of the flag word, or
// of the last of several letters after one dash. It returns false for a flag
// that node does not have.
func takesNext(node *kong.Node, word string) bool {
	if strings.HasPrefix(word, "--") {
		f := flagOf(node, word)
		return f != nil && !f.IsBool() && !f.IsCounter() && !strings.Contains(word, "=")
	}
	for i, letter := range word[1:] {
		f := flagOf(node, "-"+string(letter))
		if f == nil {
			return false
		}
		if !f.IsBool() && !f.IsCounter() {
			return i+2 == len(word) // the rest of the word is its value
		}
	}
	return false
}

// commandIndex returns the index of the command's name, or -1.
func commandIndex(model *kong.Application, args []string) int {
	for i := 0; i < len(args); i++ {
		word := args[i]
		if word == "--" {
			return -1
		}
		if !strings.HasPrefix(word, "-") {
			return i
		}
		if f := flagOf(model.Node, word); f != nil && !f.IsBool() && !f.IsCounter() && !strings.Contains(word, "=") {
			i++
		}
	}
	return -1
}
