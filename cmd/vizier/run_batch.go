package main

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
)

// specItem is one specification of a directory of them.
type specItem struct {
	File string `json:"spec_file,omitempty"` // relative to the working tree's root
	Slug string `json:"slug,omitempty"`
}

// specItems are the Markdown files below dir, which is in the repository, in
// the order of their paths. A symbolic link is an error: it may lead anywhere.
func specItems(r *repo, dir string) ([]specItem, error) {
	at := dir
	if !filepath.IsAbs(at) {
		at = filepath.Join(r.Tree, dir)
	}
	if rel, err := filepath.Rel(r.Tree, at); err != nil || !filepath.IsLocal(rel) {
		return nil, usageError(fmt.Errorf("--spec-dir %s: outside the repository", dir))
	}
	var items []specItem
	err := filepath.WalkDir(at, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.Type()&fs.ModeSymlink != 0:
			return fmt.Errorf("%s is a symbolic link", r.rel(path))
		case !d.Type().IsRegular() || !strings.EqualFold(filepath.Ext(path), ".md"):
			return nil
		}
		stem, err := filepath.Rel(at, strings.TrimSuffix(path, filepath.Ext(path)))
		items = append(items, specItem{filepath.ToSlash(relative(r.Tree, path)), slugOfPath(stem)})
		return err
	})
	if err != nil {
		return nil, usageError(fmt.Errorf("--spec-dir %s: %w", dir, err))
	}
	slices.SortFunc(items, func(a, b specItem) int { return strings.Compare(a.File, b.File) })
	by := map[string]string{}
	for _, s := range items {
		switch {
		case s.Slug == "":
			return nil, usageError(fmt.Errorf("--spec-dir %s: the name of %s has no letter or digit", dir, s.File))
		case by[s.Slug] != "":
			return nil, usageError(fmt.Errorf("--spec-dir %s: %s and %s both make the plan %s", dir, by[s.Slug], s.File, s.Slug))
		}
		by[s.Slug] = s.File
	}
	if len(items) == 0 {
		return nil, usageError(fmt.Errorf("--spec-dir %s: no .md file is in it", dir))
	}
	return items, nil
}

// slugOfPath is the name of a plan after its specification's file.
func slugOfPath(stem string) string {
	words := strings.FieldsFunc(strings.ToLower(stem), func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') })
	slug := strings.Join(words, "-")
	return strings.Trim(slug[:min(len(slug), 32)], "-")
}

// flows are the runs that the command asks for, all of them read and checked
// before any is enqueued.
func (x *runCmd) flows(c *call, r *repo) ([]*flow, error) {
	if x.SpecDir == nil {
		f, err := c.flow(r, x.Flow, x.Inputs, x.Set)
		return slices.Repeat([]*flow{f}, x.Repeat), err
	}
	given, err := settings(x.Set)
	if err != nil {
		return nil, err
	}
	_, src, err := c.load(r, x.Flow)
	if err != nil {
		return nil, err
	}
	declared := map[string]bool{}
	for _, p := range src.Params {
		declared[p.Key] = true
	}
	own := []string{"spec_file", "slug", "branch"}
	for _, a := range src.CLI.Named {
		if _, set := given[a.Key]; set && slices.Contains(own, a.Value) {
			given[a.Value] = ""
		}
	}
	for _, key := range own {
		if _, set := given[key]; set || len(x.Inputs) > 0 {
			return nil, usageError(errors.New("--spec-dir sets spec_file, slug and branch itself: give neither them nor positional inputs"))
		}
	}
	if !declared["spec_file"] {
		return nil, usageError(fmt.Errorf("--spec-dir: workflow `%s` has no parameter `spec_file`", x.Flow))
	}
	items, err := specItems(r, *x.SpecDir)
	if err != nil {
		return nil, err
	}
	var flows []*flow
	for _, s := range items {
		set := append(slices.Clone(x.Set), "spec_file="+s.File)
		for key, value := range map[string]string{"slug": s.Slug, "branch": "draft/" + s.Slug} {
			if declared[key] {
				set = append(set, key+"="+value)
			}
		}
		f, err := c.flow(r, x.Flow, nil, set)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.File, err)
		}
		f.item = s
		flows = append(flows, f)
	}
	return flows, nil
}
