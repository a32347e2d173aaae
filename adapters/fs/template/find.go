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

// Find is Resolve for names that a person types. A name that is neither a path
// nor an alias in commands may also be that of a file in .vizier/workflows. A
// path is relative to the working directory if the file exists there, and
// otherwise to the root. The error for a name that matches nothing is an
// *Unresolved.
func (l Loader) Find(flow string, commands map[string]string) (Resolved, error) {
	if explicit(flow) {
		if at := resolvePath(l.Root, flow); !strings.HasPrefix(flow, "file:") && at != filepath.Join(l.Root, flow) {
			if rel, in := within(l.Root, at); in {
				flow = "./" + filepath.ToSlash(rel)
			}
		}
		return l.Resolve(flow, commands)
	}
	names := l.Names()
	for alias := range commands {
		if normalize(alias) == normalize(flow) {
			return l.Resolve(flow, commands)
		}
	}
	for _, name := range names {
		if normalize(name) == normalize(flow) {
			path := filepath.Join(".vizier", "workflows", name+".toml")
			return Resolved{Path: path, Selector: "file:" + filepath.ToSlash(path), Alias: normalize(flow)}, nil
		}
	}
	r, err := l.Resolve(flow, commands)
	if err == nil {
		return r, nil
	}
	u := &Unresolved{err: err}
	if _, err := iofs.Stat(Shipped(), normalize(flow)+".toml"); err == nil {
		u.Shipped = true
	} else {
		u.Names = slices.Concat(names, slices.Sorted(maps.Keys(commands)))
		u.Near = workflow.Suggest(normalize(flow), u.Names)
	}
	return r, u
}

// Unresolved is the error for a name that matches no template. It wraps
// kernel.ErrInvalid.
type Unresolved struct {
	Near    string   // a name that may have been meant; "": none
	Names   []string // all names that exist
	Shipped bool     // Vizier comes with a template of that name

	err error
}

func (u *Unresolved) Error() string { return u.err.Error() }

// Unwrap returns the class and the cause.
func (u *Unresolved) Unwrap() []error { return []error{kernel.ErrInvalid, u.err} }

// Names returns the names of the templates in .vizier/workflows, without the
// extension.
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
