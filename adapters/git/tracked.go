package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/vizier-scheduler/vizier/kernel"
)

// IndexStamp returns a value that changes whenever the index of the main
// working tree does.
func (r *Repo) IndexStamp() string {
	var st unix.Stat_t
	if unix.Lstat(filepath.Join(r.root.CommonDir, "index"), &st) != nil {
		return "none"
	}
	return fmt.Sprintf("%d %d %d", st.Mtim.Nano(), st.Size, st.Ino)
}

// Tracked returns a file below one of the paths, ignoring case, that is in the
// index of the main working tree, or "" if there is none.
func (r *Repo) Tracked(ctx context.Context, below ...string) (string, error) {
	args := []string{"ls-files", "-z", "--cached", "--"}
	for _, path := range below {
		args = append(args, ":(top,icase)"+path)
	}
	out, err := r.cli.read(ctx, args...)
	if err != nil {
		return "", r.untold(err)
	}
	first, _, _ := bytes.Cut(out, []byte{0})
	return string(first), nil
}

// IndexError says that git cannot read the index of the main working tree, since it is damaged.
type IndexError struct {
	Path string
	err  error
}

func (e *IndexError) Error() string {
	return fmt.Sprintf("%s is damaged (%v): %s", e.Path, e.err, e.Next())
}

func (e *IndexError) Unwrap() error { return e.err }

// Next says what to do.
func (e *IndexError) Next() string {
	return fmt.Sprintf("`%s` and `git reset` make it anew, without what was staged and not committed; no file changes", kernel.CommandLine("rm", e.Path))
}

// untold returns the error of a git that was to list the index.
func (r *Repo) untold(err error) error {
	// git names what it finds wrong in many ways, and all have this word. What it may not open may be whole.
	if text := err.Error(); exitCode(err) > 0 && strings.Contains(text, "index") && !strings.Contains(text, "index file open failed") {
		err = &IndexError{filepath.Join(r.root.CommonDir, "index"), err}
	}
	return fmt.Errorf("ask git what it tracks: %w", err)
}

// IndexLock returns the file with which a git that is about to write the index of the main
// working tree locks it, and whether one does. What it checks out is in the tree before it
// is in the index.
func (r *Repo) IndexLock() (file string, locked bool) {
	file = filepath.Join(r.root.CommonDir, "index.lock")
	_, err := os.Lstat(file)
	return file, !errors.Is(err, iofs.ErrNotExist)
}

// TrackedIn returns what the index of the main working tree has in the directory of its
// root that dir, relative to the root, begins with: files and submodules, of which the index
// has only the directory. It ignores case.
func (r *Repo) TrackedIn(ctx context.Context, dir string) ([]string, error) {
	top, _, _ := strings.Cut(dir, string(filepath.Separator))
	out, err := r.cli.read(ctx, "ls-files", "-z", "--cached", "--", ":(top,icase,literal)"+top)
	if err != nil {
		return nil, r.untold(err)
	}
	return strings.FieldsFunc(string(out), func(c rune) bool { return c == 0 }), nil
}
