package template

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Resolved is the file that a name on the command line refers to.
type Resolved struct {
	Path     string // absolute, or relative to the repository's root
	Selector string // the template's name in records
	Alias    string // the alias in [commands] that led here, if any
}

// Resolve finds the template that flow refers to. It tries, in this order, a
// path (file:PATH, or what looks like a path), an alias in commands, and a
// selector ID@VERSION of a template in .vizier or .vizier/workflows, or else in
// Global.
func (l Loader) Resolve(flow string, commands map[string]string) (Resolved, error) {
	if strings.TrimSpace(flow) == "" {
		return Resolved{}, fmt.Errorf("FLOW cannot be empty")
	}
	if explicit(flow) {
		return l.file(flow)
	}
	for _, alias := range slices.Sorted(maps.Keys(commands)) {
		if normalize(alias) != normalize(flow) {
			continue
		}
		target := commands[alias]
		r, err := l.target(target)
		if err != nil {
			return r, fmt.Errorf("alias `%s` resolves to `%s` but no readable template source was found: %w", flow, target, err)
		}
		r.Selector, r.Alias = target, normalize(flow)
		return r, nil
	}
	return l.selector(flow)
}

// target resolves the value of an alias, which is a path or a selector.
func (l Loader) target(s string) (Resolved, error) {
	if explicit(s) {
		return l.file(s)
	}
	return l.selector(s)
}

func explicit(s string) bool {
	return strings.HasPrefix(s, "file:") || strings.HasPrefix(s, ".") || strings.ContainsAny(s, `/\`) ||
		strings.HasSuffix(s, ".toml") || strings.HasSuffix(s, ".json")
}

func (l Loader) file(s string) (Resolved, error) {
	path, raw := strings.CutPrefix(s, "file:")
	if strings.TrimSpace(path) == "" {
		return Resolved{}, fmt.Errorf("file selector is missing a path")
	}
	_, shown, err := l.contained(path)
	if err != nil {
		return Resolved{}, err
	}
	r := Resolved{Path: path, Selector: "file:" + filepath.ToSlash(shown)}
	if raw || filepath.IsAbs(path) {
		r.Selector = s
	}
	return r, nil
}

// configFile is in a directory of templates, but is none.
const configFile = ".vizier/config.toml"

// selector finds the one template with that id and version.
func (l Loader) selector(s string) (Resolved, error) {
	at := strings.LastIndexByte(s, '@')
	if at <= 0 || at == len(s)-1 {
		if stem, version, ok := dotted(s); ok {
			return Resolved{}, fmt.Errorf("legacy selector `%s` is unsupported; use `%s@%s`", s, stem, version)
		}
		return Resolved{}, fmt.Errorf("unable to resolve FLOW `%s`; pass file:<path>, a direct .toml/.json path, "+
			"a configured [commands] alias, or a canonical template selector (`template.name@vN`)", s)
	}
	var unread []string
	for _, dirs := range [][]string{{".vizier", workflows}, {l.Global}} {
		var found []string
		for _, dir := range dirs {
			paths, err := l.files(dir)
			if err != nil && !os.IsNotExist(err) {
				return Resolved{}, fmt.Errorf("look for template `%s`: %w", s, err)
			}
			for _, path := range paths {
				src, err := l.Read(path)
				switch {
				case src != nil && src.ID.Value == s[:at] && src.Version.Value == s[at+1:]:
					found = append(found, path)
				case err != nil:
					unread = append(unread, err.Error())
				}
			}
		}
		if len(found) > 1 {
			slices.Sort(found)
			return Resolved{}, fmt.Errorf("template selector `%s` is ambiguous; matching files: %s", s, strings.Join(found, ", "))
		}
		if len(found) == 1 {
			return Resolved{Path: found[0], Selector: s}, nil
		}
	}
	places, hint := ".vizier or .vizier/workflows", ""
	if l.Global != "" {
		places = ".vizier, .vizier/workflows or " + l.Global
	}
	if len(unread) > 0 {
		hint = "; these could not be read:\n" + strings.Join(unread, "\n")
	}
	return Resolved{}, fmt.Errorf("unable to resolve FLOW `%s`; no template in %s has this id and version%s", s, places, hint)
}

// workflows is the directory of templates that have a name.
var workflows = filepath.Join(".vizier", "workflows")

// files returns the paths of what may be templates in dir, which is Global or
// relative to the root.
func (l Loader) files(dir string) ([]string, error) {
	at := filepath.Join(l.Root, dir)
	if dir == l.Global {
		at = dir
	}
	if !filepath.IsAbs(at) {
		return nil, nil
	}
	var out []string
	entries, err := os.ReadDir(at)
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if ext := filepath.Ext(path); !e.IsDir() && path != configFile && (ext == ".toml" || ext == ".json") {
			out = append(out, path)
		}
	}
	return out, err
}

// dotted splits a selector in the old form NAME.vN.
func dotted(s string) (stem, version string, ok bool) {
	at := strings.LastIndex(s, ".v")
	if at <= 0 || strings.Trim(s[at+2:], "0123456789") != "" || s[at+2:] == "" {
		return "", "", false
	}
	return s[:at], s[at+1:], true
}

// normalize returns an alias in the form that [commands] uses: lower case, words
// joined by underscores.
func normalize(s string) string {
	s = strings.NewReplacer("-", "_", " ", "_").Replace(strings.ToLower(s))
	for strings.Contains(s, "__") {
		s = strings.ReplaceAll(s, "__", "_")
	}
	return strings.Trim(s, "_")
}
