package sys

import (
	iofs "io/fs"
	"os"
	"path/filepath"
)

// Glob returns the paths below dir that match a pattern of path.Match, in order. Characters of dir
// mean themselves: a repository may be in a directory with brackets or a backslash in its name.
func Glob(dir, pattern string) []string {
	names, _ := iofs.Glob(os.DirFS(dir), pattern) // an error is that of a bad pattern
	for i, name := range names {
		names[i] = filepath.Join(dir, filepath.FromSlash(name))
	}
	return names
}
