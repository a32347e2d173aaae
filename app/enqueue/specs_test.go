package enqueue

import (
	"errors"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/workflow"
)

// value returns a template's value, of strings, lists and tables.
func value(v any) workflow.Value {
	pos := workflow.Pos{File: "t", Line: 1}
	switch v := v.(type) {
	case string:
		return workflow.Value{Pos: pos, Kind: workflow.String, Text: v}
	case []any:
		out := workflow.Value{Pos: pos, Kind: workflow.List}
		for _, e := range v {
			out.List = append(out.List, value(e))
		}
		return out
	case map[string]any:
		out := workflow.Value{Pos: pos, Kind: workflow.Table}
		for _, k := range slices.Sorted(maps.Keys(v)) {
			out.Fields = append(out.Fields, workflow.Field{Key: k, Pos: pos, Value: value(v[k])})
		}
		return out
	}
	panic("a value of another kind")
}

type object = map[string]any

// planner returns a template that plans a specification.
func planner(params object) object {
	return object{"id": "t", "version": "v1", "params": params, "cli": object{"named": object{"name": "slug"}},
		"nodes": []any{object{"id": "p", "uses": "cap.env.builtin.plan.persist", "args": object{"spec_file": "${spec_file}", "intent": "${intent}"}}}}
}

// templates has one template, and the specifications by their paths.
type templates struct {
	Templates
	t         object
	specs     map[string]string
	manifests map[kernel.RunID]string
}

func (f templates) Manifest(run kernel.RunID) ([]byte, error) {
	if m, ok := f.manifests[run]; ok {
		return []byte(m), nil
	}
	return nil, os.ErrNotExist
}

func (f templates) Find(name string) (Choice, error) {
	if name == "none" {
		return Choice{}, os.ErrNotExist
	}
	return Choice{Path: name, Selector: name}, nil
}

func (f templates) Load(Choice) (*workflow.Source, error) { return workflow.Decode("t", value(f.t)) }

func (f templates) Spec(_, path string) (string, error) {
	if text, ok := f.specs[path]; ok {
		return text, nil
	}
	return "", os.ErrNotExist
}

func (f templates) Specs(_, dir string) (out []SpecFile, err error) {
	if dir == "none" {
		return nil, os.ErrNotExist
	}
	for _, path := range slices.Sorted(maps.Keys(f.specs)) {
		stem := strings.TrimSuffix(strings.TrimPrefix(path, dir+"/"), ".md")
		out = append(out, SpecFile{path, stem})
	}
	return out, nil
}

// Every specification of a directory is a plan of its own, and what else is given
// holds for all of them.
func TestEachSpecificationOfADirectoryIsAPlan(t *testing.T) {
	b := Builder{Templates: templates{t: planner(object{"spec_file": "", "slug": "", "branch": "", "intent": "none"}), specs: map[string]string{"d/One.md": "1", "d/two/b.md": "2"}}}
	flows, err := b.FlowsOf("t", "d", nil, map[string]string{"intent": "test"})
	if err != nil || len(flows) != 2 {
		t.Fatalf("%d flows, %v", len(flows), err)
	}
	for i, want := range []Spec{{"d/One.md", "one"}, {"d/two/b.md", "two-b"}} {
		params := map[string]string{"spec_file": want.File, "slug": want.Slug, "branch": "draft/" + want.Slug, "intent": "test"}
		if f := flows[i]; f.Spec != want || !maps.Equal(f.Parsed.Params, params) || f.Slug != "" {
			t.Errorf("%+v: %v, named %q", f.Spec, f.Parsed.Params, f.Slug)
		}
	}
	// A parameter that the template lacks is not set: the slug comes from the text.
	bare := planner(object{"spec_file": "", "intent": ""})
	delete(bare, "cli")
	b.Templates = templates{t: bare, specs: map[string]string{"d/One.md": "1"}}
	if flows, err = b.FlowsOf("t", "d", nil, nil); err != nil || !maps.Equal(flows[0].Parsed.Params, map[string]string{"spec_file": "d/One.md", "intent": ""}) {
		t.Errorf("%v", err)
	}
}

func TestDirectoriesOfSpecificationsThatAreRefused(t *testing.T) {
	whole := planner(object{"spec_file": "", "slug": "", "branch": "", "intent": ""})
	for _, c := range [][2]string{{"none", "d"}, {"t", "none"}} { // no such template, no such directory
		b := Builder{Templates: templates{t: whole}}
		if flows, err := b.FlowsOf(c[0], c[1], nil, nil); flows != nil || !errors.Is(err, os.ErrNotExist) || !errors.Is(err, kernel.ErrInvalid) {
			t.Errorf("%s in %s: %d flows, %v", c[0], c[1], len(flows), err)
		}
	}
	without := planner(object{"intent": ""})
	delete(without, "cli")
	broken := planner(object{"spec_file": "", "intent": ""})
	broken["odd"] = "x"
	two := map[string]string{"d/a b.md": "1", "d/a-b.md": "2"}
	one := map[string]string{"d/a.md": "1"}
	for _, c := range []struct {
		name   string
		t      object
		specs  map[string]string
		inputs []string
		given  map[string]string
		want   string
	}{
		{"an input by position", whole, one, []string{"x"}, nil, "--spec-dir sets spec_file, slug and branch itself"},
		{"a file", whole, one, nil, map[string]string{"spec_file": "x"}, "--spec-dir sets spec_file, slug and branch itself"},
		{"a name by its alias", whole, one, nil, map[string]string{"name": "x"}, "--spec-dir sets spec_file, slug and branch itself"},
		{"no parameter for them", without, one, nil, nil, "--spec-dir: workflow `t` has no parameter `spec_file`"},
		{"two of one name", whole, two, nil, nil, "--spec-dir d: d/a b.md and d/a-b.md both make the plan a-b"},
		{"no name", whole, map[string]string{"d/-.md": "1"}, nil, nil, "--spec-dir d: the name of d/-.md has no letter or digit"},
		{"a parameter that is not there", whole, one, nil, map[string]string{"intnt": "x"}, "d/a.md: workflow `t` has no parameter `intnt`"},
		{"a template with a fault", broken, one, nil, map[string]string{"intnt": "x"}, "unknown key `odd`"},
	} {
		b := Builder{Templates: templates{t: c.t, specs: c.specs}}
		if flows, err := b.FlowsOf("t", "d", c.inputs, c.given); flows != nil || err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %d flows, %v", c.name, len(flows), err)
		}
	}
}
