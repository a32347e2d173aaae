package template

import (
	iofs "io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/workflow"
)

// Find is Resolve for what a person types: where neither a path nor an alias
// in commands is meant, the name of a file in .vizier/workflows will do, and
// the error for a name that stands for nothing is an *Unresolved. A path is one
// from the working directory, if the file is there, or from the root.
func (l Loader) Find(flow string, commands map[string]string) (Resolved, error) {
	if explicit(flow) {
		if at := fromHere(l.Root, flow); !strings.HasPrefix(flow, "file:") && at != filepath.Join(l.Root, flow) {
			if rel, in := within(l.Root, at); in {
				flow = "./" + filepath.ToSlash(rel)
			}
		}
		return l.Resolve(flow, commands)
	}
	names := l.Names()
	for alias := range commands {
		if normal(alias) == normal(flow) {
			return l.Resolve(flow, commands)
		}
	}
	for _, name := range names {
		if normal(name) == normal(flow) {
			path := filepath.Join(".vizier", "workflows", name+".toml")
			return Resolved{Path: path, Selector: "file:" + filepath.ToSlash(path), Alias: normal(flow)}, nil
		}
	}
	r, err := l.Resolve(flow, commands)
	if err == nil {
		return r, nil
	}
	u := &Unresolved{err: err}
	if _, err := iofs.Stat(Shipped(), normal(flow)+".toml"); err == nil {
		u.Shipped = true
	} else {
		u.Names = slices.Concat(names, slices.Sorted(maps.Keys(commands)))
		u.Near = workflow.Suggest(normal(flow), u.Names)
	}
	return r, u
}

// Unresolved is a name that stands for no template. It is wrong input.
type Unresolved struct {
	Near    string   // a name that may have been meant
	Names   []string // those that there are
	Shipped bool     // Vizier comes with a template of that name

	err error
}

func (u *Unresolved) Error() string { return u.err.Error() }

// Unwrap finds both the class and the cause.
func (u *Unresolved) Unwrap() []error { return []error{kernel.ErrInvalid, u.err} }

// Names are the templates in .vizier/workflows, without the extension.
func (l Loader) Names() []string {
	var names []string
	entries, _ := os.ReadDir(filepath.Join(l.Root, ".vizier", "workflows")) // no directory: no names
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), ".toml"); ok && !e.IsDir() {
			names = append(names, name)
		}
	}
	return names
}
