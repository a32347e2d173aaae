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
		return "", fmt.Errorf("ask git what it tracks: %w", err)
	}
	first, _, _ := bytes.Cut(out, []byte{0})
	return string(first), nil
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
		return nil, fmt.Errorf("ask git what it tracks: %w", err)
	}
	return strings.FieldsFunc(string(out), func(c rune) bool { return c == 0 }), nil
}
