package git

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"

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
