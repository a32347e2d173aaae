package workflow

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Expand replaces ${name} by the parameter of that name, once, in every text
// but ids, references, words that select a kind, and the parameters themselves.
// ${name@Q} is the value quoted as one word of a shell, and $${ stands for ${.
// A value that is put into a prompt is never read as a placeholder of the
// prompt. Expand then parses every text as the value it stands for. All
// findings are returned at once; each names its field.
func Expand(src *Source, params map[string]string) (*Template, error) {
	t, err := expand(src, params, nil, nil)
	if err != nil {
		return nil, err
	}
	return t, nil
}

// expand is Expand, and also returns the template as far as it could be read.
// It reports no findings about values that depend on parameters in unsure. typed
// says how parameters were given.
func expand(src *Source, params, typed map[string]string, unsure map[string]bool) (*Template, error) {
	t := &Template{ID: src.ID.Value, Version: src.Version.Value, Params: params, pos: src.ID.Pos, doubts: slices.Clone(src.doubts)}
	e := &expander{params: params, typed: typed, unsure: unsure, partial: src.doubts.whole("params"), memo: map[string]string{}, doubts: &t.doubts}
	t.policy = policy{resumeKey: src.policy.resumeKey, reuseMode: src.policy.reuseMode}
	t.policy.failureMode, _ = kernel.ParseFailureMode(orDefault(src.policy.failureMode, kernel.ContinueIndependent.String()))
	t.policy.missingProducer, _ = kernel.ParseMissingProducer(orDefault(src.policy.missingProducer, kernel.Block.String()))
	for i, c := range src.contracts {
		at := item("artifact_contracts", i)
		sure := len(t.doubts)
		k := contract{pos: c.pos, schema: c.schema, id: e.text(c.id, at, ".id"), version: e.text(c.version, at, ".version")}
		k.doubtful = c.doubtful || len(t.doubts) > sure
		t.contracts = append(t.contracts, k)
	}
	e.variables()
	e.prompting = slices.ContainsFunc(src.nodes, func(n nodeSource) bool { u, _ := lookup(n.uses.Value); return u.makesPrompt() })
	t.nodes = make([]node, len(src.nodes))
	for i := range src.nodes {
		e.node(&src.nodes[i], &t.nodes[i])
	}
	t.patches()
	t.outputs()
	t.warnings = e.warnings
	return t, e.err()
}

func orDefault(t Text, alt string) string {
	if !t.given() {
		return alt
	}
	return t.Value
}

type expander struct {
	report
	params  map[string]string
	typed   map[string]string // parameter → the flag or the input that gave it
	unsure  map[string]bool   // parameters whose value is not known
	partial bool              // a part that could not be read may declare further parameters
	id      string            // of the current node
	doubts  *doubts           // of the current node, or of the template
	memo    map[string]string // expanded texts, since templates repeat themselves

	prompting bool // a node makes a prompt, which may read any argument

	warnings Diagnostics
}

// text returns t with its placeholders replaced. path holds the parts of the
// field's path; they are joined only for a finding.
func (e *expander) text(t Text, path ...string) string {
	if !strings.Contains(t.Value, "${") {
		return t.Value
	}
	if out, ok := e.memo[t.Value]; ok {
		return out
	}
	out, ok := e.replace(t, nil, path)
	if ok {
		e.memo[t.Value] = out
	}
	return out
}

// read returns the expanded text, and whether its value is known.
func (e *expander) read(t Text, path ...string) (string, bool) {
	s := e.text(t, path...)
	return s, len(*e.doubts) == 0 || !e.doubts.whole(e.field(path))
}

// field returns a path relative to the current node.
func (e *expander) field(path []string) string {
	return strings.TrimPrefix(strings.Join(path, ""), "nodes["+e.id+"].")
}

// replace returns t with its placeholders replaced by their values, converted
// by as.
func (e *expander) replace(t Text, as func(string) string, path []string) (out string, ok bool) {
	out, problem, hint := interpolate(t.Value, e.params, as)
	switch {
	case e.uncertain(t.Value, problem != ""):
		*e.doubts = append(*e.doubts, e.field(path))
		return out, false
	case problem != "":
		e.fail(t.Pos, problem+" in "+strings.Join(path, ""), hint, path)
	}
	return out, problem == ""
}

// uncertain reports whether s has a placeholder of a parameter whose value is
// not known. An unresolved one may be declared in a part of the template that
// could not be read.
func (e *expander) uncertain(s string, unresolved bool) bool {
	if len(e.unsure) == 0 && !unresolved {
		return false
	}
	for {
		_, after, _ := strings.Cut(s, "${")
		name, rest, closed := strings.Cut(after, "}")
		if !closed {
			return false
		}
		name = strings.TrimSuffix(strings.TrimSpace(name), quotedForm)
		_, declared := e.params[name]
		if e.unsure[name] || !declared && name != "" && e.partial {
			return true
		}
		s = rest
	}
}

func (e *expander) fail(pos Pos, msg, hint string, path []string) {
	e.add(Diagnostic{Pos: pos, Node: e.id, Field: strings.Join(path, ""), Msg: msg, Hint: hint})
	*e.doubts = append(*e.doubts, e.field(path))
}

// invalid reports that value, which t has, is not of the given kind.
func (e *expander) invalid(t Text, kind, value, expected string, path []string) {
	e.wrong(t, "invalid "+kind+" value `"+value+"` for "+strings.Join(path, ""), "expected "+expected, ": expected "+expected+", not `"+value+"`", path)
}

// wrong reports a value of t by msg and hint. If a person set it as a parameter, the finding
// names that flag or input, followed by told, and not the place in the template.
func (e *expander) wrong(t Text, msg, hint, told string, path []string) {
	param, is := strings.CutPrefix(t.Value, "${")
	typed := e.typed[strings.TrimSpace(strings.TrimSuffix(param, "}"))]
	if !is || typed == "" {
		e.fail(t.Pos, msg, hint, path)
		return
	}
	e.add(Diagnostic{Msg: typed + told})
	*e.doubts = append(*e.doubts, e.field(path))
}

// interpolate replaces the placeholders of s by their values, converted by as;
// nil: unconverted.
func interpolate(s string, params map[string]string, as func(string) string) (out, problem, hint string) {
	var b strings.Builder
	for {
		at := strings.Index(s, "${")
		if at < 0 {
			b.WriteString(s)
			return b.String(), "", ""
		}
		if at > 0 && s[at-1] == '$' {
			b.WriteString(s[:at-1] + "${")
			s = s[at+2:]
			continue
		}
		b.WriteString(s[:at])
		name, rest, closed := strings.Cut(s[at+2:], "}")
		if !closed {
			return b.String(), "unclosed parameter placeholder", "write $${ for a literal ${"
		}
		name = strings.TrimSpace(name)
		value, ok := params[name]
		if bare, quoted := strings.CutSuffix(name, quotedForm); quoted && !ok {
			if value, ok = params[bare]; ok {
				value = kernel.ShellQuote(value)
			}
			name = bare
		}
		switch {
		case name == "":
			return b.String(), "empty parameter placeholder", "write $${} for a literal ${}"
		case !ok:
			hint := didYouMean(name, slices.Sorted(maps.Keys(params)))
			if hint == "" {
				hint = "declare it in [params], or write $${" + name + "} for a literal ${" + name + "}"
			}
			return b.String(), "unresolved parameter `" + name + "`", hint
		}
		if as != nil {
			value = as(value)
		}
		b.WriteString(value)
		s = rest
	}
}

func (e *expander) bool(t Text, path ...string) bool {
	if !t.given() {
		return false
	}
	s, sure := e.read(t, path...)
	v, ok := parseBool(s)
	if !ok && sure {
		e.invalid(t, "bool", s, "true or false", path)
	}
	return v
}

// count parses a decimal number without a sign that fits in 32 bits.
func (e *expander) count(t Text, alt int, path ...string) int {
	if !t.given() {
		return alt
	}
	s, sure := e.read(t, path...)
	v, err := strconv.ParseUint(strings.TrimSpace(s), 10, 32)
	if err != nil && sure {
		e.invalid(t, "u32", s, "a number from 0 to 4294967295", path)
	}
	return int(v)
}

// word parses a text that must be one of words.
func (e *expander) word(t Text, what, alt string, words []string, path ...string) string {
	if !t.given() {
		return alt
	}
	s, sure := e.read(t, path...)
	if !slices.Contains(words, s) && sure {
		e.invalid(t, what, s, "one of "+strings.Join(words, ", "), path)
	}
	return s
}

func (e *expander) entries(in []Entry, path ...string) map[string]string {
	out := make(map[string]string, len(in))
	for _, a := range in {
		out[a.Key] = e.text(a.Text, append(path[:len(path):len(path)], ".", a.Key)...)
	}
	return out
}

// patches marks the node ids in command_patch artifacts. The compiler later
// replaces them by job ids, which a template cannot know.
func (t *Template) patches() {
	ids := make(map[string]bool, len(t.nodes))
	for i := range t.nodes {
		ids[t.nodes[i].id.Value] = true
	}
	mark := func(as []artifact) {
		for k := range as {
			if a := &as[k]; a.Kind == kernel.CommandPatch && ids[a.Name] {
				a.node = a.Name
			}
		}
	}
	for i := range t.nodes {
		mark(t.nodes[i].needs)
		for _, o := range outcomes {
			mark(t.nodes[i].produces[o])
		}
	}
}
