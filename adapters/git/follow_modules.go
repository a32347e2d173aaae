package git

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// replacedModule returns a submodule with files that the new commit does not have and at, above or below which it has a
// file, or "". git would delete what is in the place of that, and with it what is only there, such as the submodule's
// repository: it never looks into one.
func (f *following) replacedModule() (string, error) {
	for _, m := range f.diff {
		if m.old.mode != moduleMode || !slices.ContainsFunc(f.diff, func(c changedFile) bool {
			return c.new.mode != noMode && c.new.mode != moduleMode && (f.holds(c.path, m.path) || f.holds(m.path, c.path))
		}) {
			continue
		}
		files, err := os.ReadDir(filepath.Join(f.w.Path, m.path))
		if err != nil && !absent(err) {
			return "", err
		}
		if len(files) > 0 {
			return m.path, nil
		}
	}
	return "", nil
}

// holds reports whether what is at path is at or below what is at the path at: a file system may take two cases of a
// name for one.
func (f *following) holds(at, path string) bool {
	n := len(at)
	if len(path) < n || len(path) > n && path[n] != '/' || !strings.EqualFold(path[:n], at) {
		return false
	}
	info, err := os.Lstat(filepath.Join(f.w.Path, path[:n]))
	return err == nil && f.isAt(at, info)
}

// makeWay says what to do about a submodule with files in the place of which something else is to come.
func (f *following) makeWay(ctx context.Context, module string) (string, error) {
	dir := filepath.Join(f.w.Path, module)
	known, err := f.repo.cli.knownModules(ctx, command{dir: f.w.Path}, f.w.Path)
	if err != nil {
		return "", err
	}
	made, err := exists(filepath.Join(dir, ".git"))
	how := fmt.Sprintf("move all that is in %s away, its .git too, and leave the directory", dir)
	if made && slices.Contains(known, module) {
		how = fmt.Sprintf("save what it has not committed, ignored files too, then run %s, which keeps its commits", gitIn(f.w.Path, "submodule", "deinit", "--", module))
	}
	return fmt.Sprintf("where the submodule %s is to make way for something else: %s", module, how), err
}
