//go:build !portable

package proc

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vizier-scheduler/vizier/internal/disktest"
)

// What is mounted in place of the file .git of a linked working tree is not removed.
func TestWhatIsMountedAtTheLinkOfAWorkingTreeStays(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	root, tree := filepath.Join(top, "root"), filepath.Join(top, "tree")
	admin, link := filepath.Join(root, ".git", "worktrees", "x"), filepath.Join(tree, ".git")
	if err := errors.Join(os.MkdirAll(admin, 0o700), os.MkdirAll(tree, 0o700), os.WriteFile(filepath.Join(admin, "gitdir"), []byte(link+"\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	l := &Local{Root: root}
	for _, at := range []string{link, link + ".vizier"} {
		if err := errors.Join(os.RemoveAll(link), os.RemoveAll(link+".vizier"), os.Mkdir(at, 0o700)); err != nil {
			t.Fatal(err)
		}
		from, undo := disktest.Bind(t, at)
		want := "it changed " + link + ", which says where the repository is, and that cannot be put back: "
		if err := l.MendLink(tree); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v", at, err)
		}
		if _, err := os.Stat(filepath.Join(from, "gold")); err != nil {
			t.Error(err)
		}
		undo()
	}
}
