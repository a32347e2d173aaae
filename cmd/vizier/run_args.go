package main

import (
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// flowCommands are the commands whose first argument is a template and whose
// further flags may be the template's own parameters.
var flowCommands = []string{"run", "audit"}

// flowArguments makes --set of every flag that only the template can know:
// `--spec-file X` is `--set=spec_file=X`, and a flag that no value follows is
// true. What follows `--` is left alone, and so is every other command. Help
// that is asked for after the template's name is about the template.
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
				if len(rest) > 0 && (!strings.HasPrefix(rest[0], "-") || len(rest[0]) == 1) {
					value, rest = rest[0], rest[1:]
				}
			}
			out = append(out, "--set="+strings.ReplaceAll(strings.TrimPrefix(name, "--"), "-", "_")+"="+value)
		}
	}
	return out
}

// flagsFirst moves the flags of a command that takes several targets before them, since
// the parser takes none between: `approve 12 --digest X 13`.
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
	if last := node.Positional[len(node.Positional)-1]; !last.IsSlice() || last.Name == "command" { // which has flags of its own
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
				return args // for the parser to say that the value is missing
			}
			flags = append(flags, rest[0])
			rest = rest[1:]
		}
	}
	return slices.Concat(args[:at+1], flags, targets, rest)
}

// takesNext tells whether the next argument is the value of the flag word, or of the
// last of several letters behind one dash. It is false for a flag that node has not.
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
			return i+2 == len(word) // what follows in the word is its value
		}
	}
	return false
}

// commandIndex is where the name of the command stands, or -1.
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
