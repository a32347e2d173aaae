package git

import (
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/vizier-scheduler/vizier/kernel"
)

// UnreadError says what of a working tree git could not read: directories, which it took for empty or for unchanged, or
// files at which it failed.
type UnreadError struct {
	Tree  string   // its top
	Paths []string // relative to the top of the working tree
	Deep  []string // likewise: directories with others below them whose paths are longer than the system takes
	cause error    // as which git failed; nil: it did not
}

func (e *UnreadError) Error() string {
	var deep []string
	for _, dir := range e.Deep {
		deep = append(deep, tooDeep(filepath.Join(e.Tree, dir)))
	}
	if len(e.Paths) == 0 {
		return strings.Join(deep, "; ")
	}
	orElse := "remove it, or have git ignore it"
	if e.cause != nil { // a tracked file cannot be ignored
		orElse = "or remove it"
	}
	shut := fmt.Sprintf("cannot read %s in %s: make it readable, as its owner's `chmod -R u+rwX` does, %s", strings.Join(e.Paths, ", "), e.Tree, orElse)
	return strings.Join(append(deep, shut), "; ")
}

func (e *UnreadError) Unwrap() error { return e.cause }

// failed returns err or, if k failed with it at files that cannot be read, an *UnreadError.
func (c *cli) failed(k command, err *Error) error {
	top := c.topOf(k)
	var files []string
	for line := range strings.Lines(err.Stderr) {
		name, found := strings.CutPrefix(line, "error: open(\"")
		name, denied := strings.CutSuffix(name, "\"): Permission denied\n")
		if !found || !denied {
			continue
		}
		f, unread := os.OpenFile(filepath.Join(top, name), os.O_RDONLY|syscall.O_NONBLOCK, 0)
		if unread == nil {
			f.Close()
		} else if errors.Is(unread, iofs.ErrPermission) {
			files = append(files, name)
		}
	}
	if len(files) == 0 {
		return err
	}
	return &UnreadError{Tree: top, Paths: files, cause: err}
}

// unread returns an *UnreadError if k has left out what git could not read: git says so on its standard error, and
// succeeds. Vizier's own files do not count, nor does what is gone since.
func (c *cli) unread(k command, stderr string) error {
	top := c.topOf(k)
	var dirs, deep []string
	for line := range strings.Lines(stderr) {
		line = strings.TrimSuffix(line, "\n")
		if name, listed := strings.CutPrefix(line, unlisted); listed && len(line) > longLine { // git cuts it off, with the reason
			if !isScratch(name) {
				deep = append(deep, beginning(name))
			}
			continue
		}
		if at := strings.LastIndex(line, ": "); at >= 0 {
			line = line[:at] // what follows is the system's reason
		}
		name, listed := strings.CutPrefix(line, unlisted)
		switch {
		case listed:
			name = strings.TrimSuffix(strings.TrimSuffix(name, "'"), "/")
			if f, err := os.OpenFile(filepath.Join(top, name), os.O_RDONLY|syscall.O_NONBLOCK, 0); err == nil {
				f.Close()
			} else if errors.Is(err, syscall.ENAMETOOLONG) && !isScratch(name) {
				deep = append(deep, beginning(name))
				continue
			} else if absent(err) {
				continue
			}
		case filepath.IsLocal(line): // it names a tracked file, unless it is a filter's
			if _, err := os.Lstat(filepath.Join(top, line)); err == nil || absent(err) || errors.Is(err, syscall.ENAMETOOLONG) || errors.Is(err, syscall.EINVAL) {
				continue
			}
			name = path.Dir(line)
		default:
			continue
		}
		if !isScratch(name) {
			dirs = append(dirs, name)
		}
	}
	if len(dirs)+len(deep) == 0 {
		return nil
	}
	slices.Sort(deep)
	slices.Sort(dirs)
	all := slices.Clone(dirs)
	dirs = slices.DeleteFunc(slices.Compact(dirs), func(name string) bool {
		return slices.ContainsFunc(all, func(other string) bool { return strings.HasPrefix(name, other+"/") })
	})
	return &UnreadError{Tree: top, Paths: dirs, Deep: slices.Compact(deep)}
}

// unlisted begins git's warnings of directories that it takes for empty.
const unlisted = "warning: could not open directory '"

// longLine is less than what git writes in a line at most, and more than it would for paths that it can open.
const longLine = 4000

// beginning returns the first directories of a path: as many as take 60 characters, if there are so many, and no more.
func beginning(path string) string {
	const enough = 60
	if len(path) > enough {
		if end := strings.IndexByte(path[enough:], '/'); end >= 0 {
			return path[:enough+end]
		}
	}
	return path
}

// denied says what to do if err is about something that cannot be read, or "".
func denied(err error) string {
	var unread *UnreadError
	var at *iofs.PathError
	switch {
	case errors.As(err, &unread) && len(unread.Paths) == 0:
		return tooDeep(filepath.Join(unread.Tree, unread.Deep[0]))
	case errors.As(err, &unread):
		return cannotRead(filepath.Join(unread.Tree, unread.Paths[0]))
	case errors.As(err, &at) && errors.Is(at, iofs.ErrPermission):
		return cannotRead(shut(at.Path))
	}
	return ""
}

// cannotRead says what to do about a path that cannot be read.
func cannotRead(path string) string {
	return fmt.Sprintf("%s cannot be read: make it readable, as its owner's `%s` does", path, kernel.CommandLine("chmod", "u+rwX", path))
}

// tooDeep says what to do about a directory whose contents have paths that are too long.
func tooDeep(path string) string {
	return fmt.Sprintf("%s cannot be read as a whole, since paths below it are longer than the system takes: move these to shorter ones, remove them, or have git ignore them", path)
}

// shut returns what keeps the user from path: path itself, if it can be looked at, else the nearest directory above it.
func shut(path string) string {
	for path != filepath.Dir(path) {
		if _, err := os.Lstat(path); err == nil {
			break
		}
		path = filepath.Dir(path)
	}
	return path
}

// absent reports whether err says that there is nothing at a path.
func absent(err error) bool {
	return errors.Is(err, iofs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// topOf returns the top of the working tree that k runs in.
func (c *cli) topOf(k command) string {
	for _, v := range k.env {
		if top, ok := strings.CutPrefix(v, "GIT_WORK_TREE="); ok {
			return top
		}
	}
	if k.dir == "" {
		return c.root.Dir
	}
	for at := k.dir; at != filepath.Dir(at); at = filepath.Dir(at) {
		if there, err := exists(filepath.Join(at, ".git")); there || err != nil {
			return at
		}
	}
	return k.dir
}
