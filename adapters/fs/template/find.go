package template

import (
	"fmt"
	iofs "io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/workflow"
)

// Choice is the template that a name on the command line stands for.
type Choice struct {
	Path     string // relative to the repository's root, or absolute
	Selector string // how it was chosen; goes on record
	Alias    string // the [commands] alias or the file's stem; "" where neither was used
}

// places are the directories whose templates can be chosen by ID@VERSION.
var places = []string{".vizier", ".vizier/workflows"}

// Find is the template that flow names: the path of a file, an alias, the name
// of a file in .vizier/workflows, or ID@VERSION, in this order.
func (l Loader) Find(flow string, aliases map[string]string) (Choice, error) {
	flow = strings.TrimSpace(flow)
	if flow == "" {
		return Choice{}, fmt.Errorf("FLOW cannot be empty: %w", kernel.ErrInvalid)
	}
	if explicit(flow) {
		return l.direct(flow)
	}
	alias := normal(flow)
	for name, target := range aliases {
		if normal(name) != alias {
			continue
		}
		c, err := l.target(target)
		if err != nil {
			return Choice{}, fmt.Errorf("alias `%s` resolves to `%s` but no readable template source was found: %w", name, target, err)
		}
		c.Alias, c.Selector = name, target
		return c, nil
	}
	for _, name := range l.names() {
		if normal(name) == alias {
			path := filepath.Join(".vizier", "workflows", name+".toml")
			return Choice{Path: path, Selector: "file:" + path, Alias: alias}, nil
		}
	}
	if strings.Contains(flow, "@") {
		return l.canonical(flow)
	}
	return Choice{}, l.unknown(flow, aliases)
}

// target is what an alias stands for: a path or ID@VERSION.
func (l Loader) target(text string) (Choice, error) {
	if explicit(text) {
		return l.direct(text)
	}
	return l.canonical(text)
}

func explicit(flow string) bool {
	return strings.HasPrefix(flow, "file:") || strings.HasPrefix(flow, ".") || strings.ContainsAny(flow, `/\`) ||
		strings.HasSuffix(flow, ".toml") || strings.HasSuffix(flow, ".json")
}

func (l Loader) direct(flow string) (Choice, error) {
	path, raw := strings.CutPrefix(flow, "file:")
	if strings.TrimSpace(path) == "" {
		return Choice{}, fmt.Errorf("file selector is missing a path: %w", kernel.ErrInvalid)
	}
	_, shown, err := l.contained(path)
	if err != nil {
		return Choice{}, err
	}
	c := Choice{Path: path, Selector: "file:" + shown}
	if raw || filepath.IsAbs(path) {
		c.Selector = flow
	}
	return c, nil
}

// canonical finds the one file whose template is ID@VERSION.
func (l Loader) canonical(selector string) (Choice, error) {
	var found []string
	for _, dir := range places {
		entries, err := os.ReadDir(filepath.Join(l.Root, dir))
		if err != nil {
			continue
		}
		for _, e := range entries {
			path := filepath.Join(dir, e.Name())
			if ext := filepath.Ext(path); ext != ".toml" && ext != ".json" || path == filepath.Join(".vizier", "config.toml") {
				continue
			}
			if src, err := l.Read(path); err == nil && src.ID.Value+"@"+src.Version.Value == selector {
				found = append(found, path)
			}
		}
	}
	switch len(found) {
	case 1:
		return Choice{Path: found[0], Selector: selector}, nil
	case 0:
		return Choice{}, l.unknown(selector, nil)
	}
	return Choice{}, fmt.Errorf("template selector `%s` is ambiguous; matching files: %s: %w", selector, strings.Join(found, ", "), kernel.ErrInvalid)
}

// Unresolved is a name that stands for no template. Shipped tells that
// `vizier init` would make it one.
type Unresolved struct {
	Flow, Hint string
	Shipped    bool
}

func (u *Unresolved) Error() string {
	return fmt.Sprintf("unable to resolve FLOW `%s`%s; pass file:<path>, a direct .toml/.json path, a configured [commands] alias, "+
		"the name of a template in .vizier/workflows, or a canonical template selector (`template.name@vN`)", u.Flow, u.Hint)
}

// Unwrap makes it wrong input.
func (u *Unresolved) Unwrap() error { return kernel.ErrInvalid }

func (l Loader) unknown(flow string, aliases map[string]string) error {
	u := &Unresolved{Flow: flow}
	if at := strings.LastIndex(flow, ".v"); at > 0 && strings.Trim(flow[at+2:], "0123456789") == "" && flow[at+2:] != "" {
		u.Hint = " (did you mean `" + flow[:at] + "@" + flow[at+1:] + "`?)"
	}
	if _, err := iofs.Stat(Shipped(), normal(flow)+".toml"); err == nil {
		u.Shipped = true
	} else if near := workflow.Suggest(normal(flow), append(l.names(), slices.Collect(maps.Keys(aliases))...)); near != "" {
		u.Hint = " (did you mean `" + near + "`?)"
	}
	return u
}

// names are the templates in .vizier/workflows, without the extension.
func (l Loader) names() []string {
	var names []string
	entries, _ := os.ReadDir(filepath.Join(l.Root, ".vizier", "workflows")) // no directory: no names
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), ".toml"); ok {
			names = append(names, name)
		}
	}
	return names
}

// normal is the one spelling of an alias.
func normal(s string) string {
	s = strings.NewReplacer("-", "_", " ", "_").Replace(strings.ToLower(strings.TrimSpace(s)))
	for strings.Contains(s, "__") {
		s = strings.ReplaceAll(s, "__", "_")
	}
	return strings.Trim(s, "_")
}
