package enqueue

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

// Spec is one of the specifications in a directory.
type Spec struct {
	File string `json:"spec_file,omitempty"` // relative to the working tree's root
	Slug string `json:"slug,omitempty"`      // the plan's name
}

// FlowsOf returns a flow of the template for each specification below dir. Each
// makes a plan of its own.
func (t *Builder) FlowsOf(name, dir string, inputs []string, given map[string]string) ([]*Flow, error) {
	_, src, err := t.Load(name)
	if src == nil {
		return nil, err
	}
	wrong := func(err error) error {
		return &InputError{BadSpecs, name, src, given, fmt.Errorf("--spec-dir%w", err)}
	}
	declared := map[string]bool{}
	for _, p := range src.Params {
		declared[p.Key] = true
	}
	own := []string{"spec_file", "slug", "branch"}
	set := len(inputs) > 0
	for key := range given {
		meant := key
		for _, a := range src.CLI.Named {
			if a.Key == key {
				meant = a.Value
			}
		}
		set = set || slices.Contains(own, meant)
	}
	switch {
	case set:
		return nil, wrong(errors.New(" sets spec_file, slug and branch itself: give neither them nor positional inputs"))
	case err == nil && !declared["spec_file"]:
		return nil, wrong(fmt.Errorf(": workflow `%s` has no parameter `spec_file`", name))
	}
	specs, err := t.specs(dir)
	if err != nil {
		return nil, wrong(fmt.Errorf(" %s: %w", dir, err))
	}
	var flows []*Flow
	for _, s := range specs {
		params := map[string]string{"spec_file": s.File}
		maps.Copy(params, given)
		for key, value := range map[string]string{"slug": s.Slug, "branch": "draft/" + s.Slug} {
			if declared[key] {
				params[key] = value
			}
		}
		f, err := t.Flow(name, nil, params)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.File, err)
		}
		f.Spec = s
		flows = append(flows, f)
	}
	return flows, nil
}

// specs returns the specifications below dir and the names of their plans.
func (t *Builder) specs(dir string) ([]Spec, error) {
	files, err := t.Templates.Specs(t.Tree, dir)
	if err != nil {
		return nil, err
	}
	var out []Spec
	by := map[string]string{}
	for _, f := range files {
		s := Spec{f.File, nameOf(f.Stem, len(f.Stem))}
		switch {
		case s.Slug == "":
			return nil, fmt.Errorf("the name of %s has no letter or digit", s.File)
		case by[s.Slug] != "":
			return nil, fmt.Errorf("%s and %s both make the plan %s", by[s.Slug], s.File, s.Slug)
		}
		by[s.Slug] = s.File
		out = append(out, s)
	}
	return out, nil
}
