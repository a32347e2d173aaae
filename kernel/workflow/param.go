package workflow

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/vizier-scheduler/vizier/kernel"
)

// ParamPrefix begins the names of the environment variables that hold the
// parameters of a run.
const ParamPrefix = "VIZIER_PARAM_"

// maxVariable is the longest value, in bytes, that is passed as a variable:
// Linux does not start a program with one of 128 KiB.
const maxVariable = 96 << 10

// quotedForm follows a parameter's name to ask for its value quoted as one word
// of a shell, as in bash.
const quotedForm = "@Q"

// variable returns the name of the environment variable of a parameter.
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

// Variables returns the run's parameters as NAME=VALUE, sorted, and the names
// of those that no variable can hold.
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

// literal escapes text for a prompt, so that braces in it are not read as
// placeholders.
func literal(text string) string { return strings.ReplaceAll(text, "{", `{{"{"}}`) }

// variables reports parameters that have the same environment variable.
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

// arguments expands the arguments of a node that uses u. It warns about values
// that become part of a script, and escapes values in prompts so that they are
// not read as placeholders.
func (e *expander) arguments(u Use, in []Entry, at string) map[string]string {
	out := make(map[string]string, len(in))
	for _, a := range in {
		path := []string{at, ".args.", a.Key}
		if slices.Contains(messages, a.Key) && slices.Contains(u.Args, a.Key) {
			e.inserts(u, a.Text, path)
		}
		switch {
		case u.runs(a.Key):
			out[a.Key] = e.script(a.Text, path...)
		case u.reads(a.Key) && strings.Contains(a.Value, "${"):
			out[a.Key], _ = e.replace(a.Text, literal, path)
		case u.decides(a.Key) && e.text(a.Text, path...) != "":
			e.bool(a.Text, path...)
			out[a.Key] = e.text(a.Text, path...)
		case slices.Contains(lockArgs, a.Key) && slices.Contains(u.arguments(), a.Key):
			out[a.Key] = e.branch(a.Text, path...)
		default:
			out[a.Key] = e.text(a.Text, path...)
		}
	}
	e.unread(u, in, at)
	return out
}

// unread warns of arguments that nothing reads. If the template makes prompts,
// any of them may be for those, and only what looks like a misspelling is worth
// a warning.
func (e *expander) unread(u Use, in []Entry, at string) {
	known := slices.Concat(u.arguments(), lockArgs) // locks are inferred from the latter
	for _, a := range in {
		hint := didYouMean(a.Key, known)
		if u.Label == "" || slices.Contains(known, a.Key) || e.prompting && hint == "" {
			continue
		}
		if hint == "" {
			hint = "remove it"
		}
		e.warnings = append(e.warnings, Diagnostic{Pos: a.Pos, Node: e.id, Field: at + ".args." + a.Key,
			Msg: "node `" + e.id + "` has an argument `" + a.Key + "` that `" + u.Label + "` does not read", Hint: hint})
	}
}

// inserts reports a message that has read_payload inside other text, where it
// would stand as it is. The value of a parameter may hold that text.
func (e *expander) inserts(u Use, t Text, path []string) {
	if _, whole := Payload(t.Value); !strings.Contains(t.Value, payloadPrefix) || whole && u.Operation != opIntegrate {
		return
	}
	hint := "make it the whole message, and let the text that it reads hold the rest"
	if u.Operation == opIntegrate {
		hint = "only git.commit and git.stage_commit read their message"
	}
	e.fail(t.Pos, strings.Join(path, "")+" has "+payloadPrefix+"…) where nothing is inserted", hint, path)
}

// runs reports whether the argument is a script.
func (u Use) runs(arg string) bool {
	return slices.Contains(scripts, arg) && !u.NoScript || arg == "auto_resolve_command" || arg == "auto_resolve_script"
}

// branch expands the name of a branch.
func (e *expander) branch(t Text, path ...string) string {
	s, sure := e.read(t, path...)
	if name := strings.TrimSpace(s); sure && name != "" {
		if err := kernel.CheckBranch(name); err != nil {
			why := " " + kernel.Said(err)
			e.wrong(t, strings.Join(path, "")+why, "", why, path)
		}
	}
	return s
}

// decides reports whether the argument is a boolean.
func (u Use) decides(arg string) bool {
	return slices.Contains([]string{"auto_resolve", "required", "squash", "delete_branch"}, arg) && u.Operation != opPrompt
}

// makesPrompt reports whether it makes a prompt.
func (u Use) makesPrompt() bool { return u.Operation == opPrompt || u.Policy == policyConflict }

// reads reports whether the argument is a prompt with placeholders of its own.
func (u Use) reads(arg string) bool { return arg == promptText && u.makesPrompt() }

// script expands a script. A parameter may be the whole script; if it is a part
// of one, its value is read as code, which is worth a warning.
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

// spliced yields the parameters whose unquoted values become parts of text.
func (e *expander) spliced(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for rest := text; ; {
			before, after, _ := strings.Cut(rest, "${")
			name, tail, closed := strings.Cut(after, "}")
			if !closed {
				return
			}
			rest, name = tail, strings.TrimSpace(name)
			if _, declared := e.params[name]; declared && !strings.HasSuffix(before, "$") && !yield(name) {
				return
			}
		}
	}
}

// Warnings returns findings about things that work but should be written in
// another way.
func (t *Template) Warnings() Diagnostics { return append(slices.Clone(t.warnings), t.rareNeeds()...) }
