// Package template reads workflow templates from TOML and JSON files, with the
// line of every key, and finds the file that a name on the command line refers
// to. Package workflow defines what a template means.
package template

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/vizier-scheduler/vizier/kernel/workflow"
)

// maxBytes bounds a template file, in bytes.
const maxBytes = 4 << 20

// Loader reads templates of one repository.
type Loader struct {
	Root   string // the repository's root
	Global string // a directory outside Root that templates may come from; "": none
}

// Load reads the template at path, relative to the repository's root or
// absolute, with everything that it imports. The error holds all findings; then
// the template is what could be read of it, or nil.
func (l Loader) Load(path string) (*workflow.Source, error) {
	src, misread := l.Read(path)
	if src == nil {
		return nil, misread
	}
	src, err := workflow.Compose(src, l.Import)
	return src, workflow.Together(misread, err)
}

// Import implements workflow.Loader. The path of an import is relative to the
// file that imports it.
func (l Loader) Import(from *workflow.Source, m workflow.Import) (*workflow.Source, error) {
	if strings.TrimSpace(m.Path.Value) == "" {
		return nil, fmt.Errorf("import `%s` has an empty path", m.Name.Value)
	}
	path := m.Path.Value
	if !filepath.IsAbs(path) {
		path = filepath.Join(filepath.Dir(from.File), path)
	}
	return l.Read(path)
}

// Read reads one file, without its imports.
func (l Loader) Read(path string) (*workflow.Source, error) {
	abs, shown, err := l.contained(path)
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(abs)
	if err != nil {
		return nil, fmt.Errorf("unable to read template source %s: %w", shown, err)
	}
	return Parse(shown, data)
}

// contained returns the real path of a regular file in a place where templates
// may be, and its name for messages, which is relative to the root if it can
// be.
func (l Loader) contained(path string) (abs, shown string, err error) {
	if !filepath.IsAbs(path) {
		path = filepath.Join(l.Root, path)
	}
	abs, err = filepath.EvalSymlinks(path)
	if err != nil {
		return "", "", fmt.Errorf("workflow source `%s` does not resolve to a readable file: %w", path, bare(err))
	}
	info, err := os.Stat(abs)
	switch {
	case err != nil:
		return "", "", fmt.Errorf("workflow source `%s` does not resolve to a readable file: %w", path, bare(err))
	case !info.Mode().IsRegular():
		return "", "", fmt.Errorf("workflow source `%s` is not a file", path)
	case info.Size() > maxBytes:
		return "", "", fmt.Errorf("workflow source `%s` is larger than %d bytes", path, maxBytes)
	}
	if rel, ok := within(l.Root, abs); ok {
		return abs, rel, legacy(rel)
	}
	if _, ok := within(l.Global, abs); ok {
		return abs, abs, nil
	}
	global := ""
	if l.Global != "" {
		global = " and global workflow directory " + l.Global
	}
	return "", "", fmt.Errorf("workflow source `%s` is outside repository root %s%s", path, l.Root, global)
}

// within returns path relative to dir if it is below dir.
func within(dir, path string) (string, bool) {
	if dir == "" {
		return "", false
	}
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	rel, err := filepath.Rel(dir, path)
	return rel, err == nil && filepath.IsLocal(rel)
}

// legacy returns an error for places where templates are no longer read.
func legacy(rel string) error {
	slash := filepath.ToSlash(rel)
	switch {
	case strings.HasPrefix(slash, ".vizier/workflow/"):
		return fmt.Errorf("workflow source `%s` is in a directory that is no longer read; move it to .vizier/workflows/", rel)
	case strings.HasPrefix(slash, ".vizier/workflows/") && strings.HasSuffix(slash, ".json"):
		return fmt.Errorf("workflow source `%s`: .vizier/workflows/ holds .toml templates only; rewrite it as TOML or keep it elsewhere", rel)
	}
	return nil
}

// Parse parses the content of a template file. The extension of its name
// determines the language.
func Parse(file string, data []byte) (*workflow.Source, error) {
	var v workflow.Value
	var err error
	switch filepath.Ext(file) {
	case ".toml":
		v, err = parseTOML(file, string(data))
	case ".json":
		v, err = parseJSON(file, data)
	default:
		return nil, fmt.Errorf("unsupported template source %s; expected .toml or .json", file)
	}
	if err != nil {
		return nil, err
	}
	return workflow.Decode(file, v)
}

// bare returns the cause of an error of package os without the path.
func bare(err error) error {
	var pe *os.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}

func syntax(language, file string, line int, msg string) error {
	return workflow.Diagnostics{{Pos: workflow.Pos{File: file, Line: line}, Msg: "invalid " + language + " template " + file + ": " + msg}}
}
