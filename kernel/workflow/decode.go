package workflow

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Decode reads a parsed file as a template. It is strict: an unknown key or a
// value of the wrong kind is an error. All findings are returned at once.
func Decode(file string, v Value) (*Source, error) {
	d, s := &decoder{}, &Source{File: file}
	d.table(v, "", map[string]func(Value){
		"id":      d.text(&s.ID),
		"version": d.text(&s.Version),
		"params":  d.entries(&s.Params, "params"),
		"config":  d.entries(&s.config, "config"),
		"cli": func(v Value) {
			d.table(v, "cli", map[string]func(Value){
				"positional": d.texts(&s.CLI.Positional), "named": d.entries(&s.CLI.Named, "cli.named")})
		},
		"policy":             func(v Value) { d.policy(v, &s.policy) },
		"artifact_contracts": d.each(func(i int, v Value) { s.contracts = append(s.contracts, d.contract(i, v)) }),
		"nodes":              d.each(func(i int, v Value) { s.nodes = append(s.nodes, d.node(i, v)) }),
		"imports": d.each(func(i int, v Value) {
			var m Import
			d.table(v, item("imports", i), map[string]func(Value){"name": d.text(&m.Name), "path": d.text(&m.Path)}, "name", "path")
			s.Imports = append(s.Imports, m)
		}),
		"links": d.each(func(i int, v Value) {
			l := linkSource{pos: v.Pos}
			d.table(v, item("links", i), map[string]func(Value){"from": d.text(&l.from), "to": d.text(&l.to)}, "from", "to")
			s.links = append(s.links, l)
		}),
	}, "id", "version")
	for _, field := range d.doubts {
		if !strings.HasPrefix(field, "nodes[") { // doubts about a node are kept with the node
			s.doubts = append(s.doubts, field)
		}
	}
	return s, d.err()
}

func item(list string, i int) string { return list + "[" + strconv.Itoa(i) + "]" }

type decoder struct {
	report
	doubts doubts // fields whose value could not be read as intended
}

// misread reports a finding and marks the field d.Field as doubtful: its
// intended value is not known.
func (d *decoder) misread(f Diagnostic) {
	d.add(f)
	d.doubts = append(d.doubts, f.Field)
}

// table calls the setter of each key. Keys without one, keys given twice and
// missing required keys are findings.
func (d *decoder) table(v Value, path string, keys map[string]func(Value), required ...string) {
	if v.Kind != Table {
		d.misread(Diagnostic{Pos: v.Pos, Field: path, Msg: "expected a table for " + orTop(path) + ", found " + v.Kind.String()})
		return
	}
	seen := make(map[string]bool, len(v.Fields))
	meant := map[string]bool{} // known keys that an unknown key seems to misspell
	for _, f := range v.Fields {
		set, known := keys[f.Key]
		field := join(path, f.Key)
		switch {
		case !known:
			names := slices.Sorted(maps.Keys(keys))
			hint := "known keys are " + strings.Join(names, ", ")
			if near := Suggest(f.Key, names); near != "" {
				hint, meant[near] = "did you mean `"+near+"`?", true
				d.doubts = append(d.doubts, join(path, near))
			}
			d.add(Diagnostic{Pos: f.Pos, Field: field, Msg: "unknown key `" + f.Key + "` in " + orTop(path), Hint: hint})
		case seen[f.Key]:
			d.misread(Diagnostic{Pos: f.Pos, Field: field, Msg: "key `" + f.Key + "` is given twice in " + orTop(path)})
		default:
			from := len(d.found)
			set(f.Value)
			d.place(from, field)
		}
		seen[f.Key] = true
	}
	for _, key := range required {
		if !seen[key] && !meant[key] {
			d.misread(Diagnostic{Pos: v.Pos, Field: join(path, key), Msg: "missing key `" + key + "` in " + orTop(path)})
		}
	}
}

// place sets the field of the findings from index from on that have none.
func (d *decoder) place(from int, field string) {
	for i := from; i < len(d.found); i++ {
		if d.found[i].Field == "" {
			d.found[i].Field = field
			d.doubts = append(d.doubts, field)
		}
	}
}

func join(path, key string) string { return strings.TrimPrefix(path+"."+key, ".") }

func orTop(path string) string {
	if path == "" {
		return "the template"
	}
	return path
}

func (d *decoder) wrong(v Value, want string) {
	d.addf(v.Pos, "expected %s, found %s", want, v.Kind)
}

func (d *decoder) text(into *Text) func(Value) {
	return func(v Value) {
		if v.Kind != String && v.Kind != Int && v.Kind != Bool {
			d.wrong(v, "a string")
			return
		}
		if strings.Contains(v.Text, "\x00") {
			d.add(Diagnostic{Pos: v.Pos, Msg: "the value has a NUL byte, which no program can be given", Hint: "hand it over in a file"})
		}
		*into = Text{v.Text, v.Pos}
	}
}

// word returns a setter for a text that must be one of words and is never
// expanded.
func (d *decoder) word(into *Text, words ...string) func(Value) {
	return func(v Value) {
		d.text(into)(v)
		if into.given() && !slices.Contains(words, into.Value) {
			d.add(Diagnostic{Pos: v.Pos, Msg: "invalid value `" + into.Value + "`; expected " + strings.Join(words, ", "),
				Hint: didYouMean(into.Value, words)})
		}
	}
}

func (d *decoder) each(f func(int, Value)) func(Value) {
	return func(v Value) {
		if v.Kind != List {
			d.wrong(v, "a list")
			return
		}
		for i, e := range v.List {
			f(i, e)
		}
	}
}

func (d *decoder) texts(into *[]Text) func(Value) {
	return d.each(func(_ int, v Value) {
		var t Text
		d.text(&t)(v)
		if t.given() {
			*into = append(*into, t)
		}
	})
}

func (d *decoder) entries(into *[]Entry, path string) func(Value) {
	return func(v Value) {
		keys := map[string]func(Value){}
		for _, f := range v.Fields {
			keys[f.Key] = func(v Value) {
				var t Text
				d.text(&t)(v)
				*into = append(*into, Entry{f.Key, t})
			}
		}
		d.table(v, path, keys)
	}
}

func (d *decoder) policy(v Value, p *policySource) {
	d.table(v, "policy", map[string]func(Value){
		"failure_mode": d.word(&p.failureMode, kernel.BlockDownstream.String(), kernel.ContinueIndependent.String()),
		"resume": func(v Value) {
			d.table(v, "policy.resume", map[string]func(Value){
				"key": d.text(&p.resumeKey), "reuse_mode": d.word(&p.reuseMode, "strict", "compatible")})
		},
		"dependencies": func(v Value) {
			d.table(v, "policy.dependencies", map[string]func(Value){
				"missing_producer": d.word(&p.missingProducer, kernel.Block.String(), kernel.Wait.String())})
		},
	})
}

func (d *decoder) contract(i int, v Value) contractSource {
	c, from := contractSource{pos: v.Pos}, len(d.doubts)
	d.table(v, item("artifact_contracts", i), map[string]func(Value){
		"id": d.text(&c.id), "version": d.text(&c.version), "schema": func(v Value) { c.schema = &v }}, "id", "version")
	c.doubtful = len(d.doubts) > from
	return c
}
