package workflow

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
)

// ParamPrefix begins the names of the environment variables that hold the
// parameters of a run.
const ParamPrefix = "VIZIER_PARAM_"

// maxVariable is the longest value that is handed on as a variable, in bytes:
// Linux refuses to start a program with one of 128 KiB.
const maxVariable = 96 << 10

// quotedForm, after a parameter's name, asks for its value as one word of a
// shell: the form that bash has for its own parameters.
const quotedForm = "@Q"

// variable is the environment variable of a parameter.
func variable(param string) string {
	return ParamPrefix + strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z':
			return r - 'a' + 'A'
		case r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
			return r
		}
		return '_'
	}, param)
}

// Variables are the run's parameters as NAME=VALUE, sorted. Those that no
// variable can hold are left out and told by name.
func (m Manifest) Variables() (env, left []string) {
	for _, name := range slices.Sorted(maps.Keys(m.Params)) {
		value := m.Params[name]
		if len(value) > maxVariable || strings.ContainsRune(value, 0) {
			left = append(left, name)
			continue
		}
		env = append(env, variable(name)+"="+value)
	}
	return env, left
}

// shellQuote is text as one word of a POSIX shell.
func shellQuote(text string) string {
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// literal is text that stands for itself in a prompt, whose placeholders may be
// quoted texts.
func literal(text string) string { return strings.ReplaceAll(text, "{", `{{"{"}}`) }

// variables refuses parameters whose variables are the same.
func (e *expander) variables() {
	of := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(e.params)) {
		v := variable(name)
		if other, taken := of[v]; taken {
			e.add(Diagnostic{Field: "params." + name, Hint: "rename one of them",
				Msg: fmt.Sprintf("parameters `%s` and `%s` are the same environment variable, %s", other, name, v)})
		}
		of[v] = name
	}
}

// arguments expands the arguments of a node that uses u: scripts with a warning
// where a value becomes a part of one, and prompts so that no value is read as
// a placeholder.
func (e *expander) arguments(u Use, in []Entry, at string) map[string]string {
	out := make(map[string]string, len(in))
	for _, a := range in {
		path := []string{at, ".args.", a.Key}
		switch {
		case u.runs(a.Key):
			out[a.Key] = e.script(a.Text, path...)
		case u.reads(a.Key) && strings.Contains(a.Value, "${"):
			out[a.Key], _ = e.replace(a.Text, literal, path)
		default:
			out[a.Key] = e.text(a.Text, path...)
		}
	}
	if a, meant := u.slip(in, u.arguments()); meant != "" {
		e.warnings = append(e.warnings, Diagnostic{Pos: a.Pos, Node: e.id, Field: at + ".args." + a.Key,
			Msg: "node `" + e.id + "` has an argument `" + a.Key + "` that `" + u.Label + "` does not read", Hint: "did you mean `" + meant + "`?"})
	}
	return out
}

// runs reports that the argument is a script.
func (u Use) runs(arg string) bool {
	return slices.Contains(scripts, arg) && !u.NoScript || arg == "auto_resolve_command" || arg == "auto_resolve_script"
}

// reads reports that the argument is a prompt with placeholders of its own.
func (u Use) reads(arg string) bool {
	return arg == "prompt_text" && (u.Operation == opPrompt || u.Policy == policyConflict)
}

// script expands a script. A parameter that is the whole of it is a script
// itself; as a part of one its value would be read as code.
func (e *expander) script(t Text, path ...string) string {
	text := strings.TrimSpace(t.Value)
	whole := strings.HasPrefix(text, "${") && strings.IndexByte(text, '}') == len(text)-1
	for name := range e.spliced(text) {
		if whole {
			break
		}
		e.warnings = append(e.warnings, Diagnostic{Pos: t.Pos, Node: e.id, Field: strings.Join(path, ""),
			Msg:  fmt.Sprintf("${%s} in %s becomes a part of the script: a quote in its value breaks it, and `$(…)` runs", name, strings.Join(path, "")),
			Hint: fmt.Sprintf("write \"$%s\", or ${%s%s} where no variable is read", variable(name), name, quotedForm)})
	}
	return e.text(t, path...)
}

// spliced are the parameters whose values become parts of a text as they are.
func (e *expander) spliced(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for rest := text; ; {
			before, after, found := strings.Cut(rest, "${")
			name, tail, closed := strings.Cut(after, "}")
			if !found || !closed {
				return
			}
			rest, name = tail, strings.TrimSpace(name)
			if _, declared := e.params[name]; declared && !strings.HasSuffix(before, "$") && !yield(name) {
				return
			}
		}
	}
}

// Warnings are findings about what works and had better be written otherwise.
func (t *Template) Warnings() Diagnostics { return t.warnings }
