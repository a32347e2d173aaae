package template

import (
	iofs "io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/workflow"
)

// Find is Resolve for names that a person types. A name that is neither a path
// nor an alias in commands may also be that of a file in .vizier/workflows or in
// Global. A path is relative to the working directory if the file exists there, and
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
	named := l.Named()
	for alias := range commands {
		if normalize(alias) == normalize(flow) {
			return l.Resolve(flow, commands)
		}
	}
	for _, n := range named {
		if normalize(n.Name) == normalize(flow) {
			return Resolved{Path: n.Path, Selector: "file:" + filepath.ToSlash(n.Path), Alias: normalize(flow)}, nil
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
		for _, n := range named {
			u.Names = append(u.Names, n.Name)
		}
		u.Names = slices.AppendSeq(u.Names, slices.Values(slices.Sorted(maps.Keys(commands))))
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

// Named is a template that has a name: that of its file, without the extension.
type Named struct {
	Name string
	Path string // absolute, or relative to the repository's root
}

// Named returns the templates in .vizier/workflows, and then those of the user's
// own directory whose names none of the former has.
func (l Loader) Named() []Named {
	var out []Named
	for _, dir := range []string{workflows, l.Global} {
		paths, _ := l.files(dir) // no directory: no names
		for _, path := range paths {
			name, ok := strings.CutSuffix(filepath.Base(path), ".toml")
			if ok && !slices.ContainsFunc(out, func(n Named) bool { return normalize(n.Name) == normalize(name) && filepath.Dir(n.Path) != dir }) {
				out = append(out, Named{name, path})
			}
		}
	}
	return out
}
