//go:build linux && !portable

package sys

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/vizier-scheduler/vizier/internal/disktest"
)

// Nothing is removed across a mount, and nothing else either: a person first decides about it.
func TestRemoveTreeKeepsWhatIsMounted(t *testing.T) {
	home, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	tree, at := filepath.Join(home, "tree"), filepath.Join(home, "tree", "a b", "at")
	grow(t, filepath.Join(tree, "0"), at, tree+"2")
	from, undo := disktest.Bind(t, at)
	link := filepath.Join(home, "link")
	if err := os.Symlink(home, link); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{tree, at, filepath.Join(link, "tree")} {
		var mounted *MountedError
		if err := RemoveTree(path); !errors.As(err, &mounted) || !slices.Equal(mounted.Mounts, []string{at}) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if !exist(t, filepath.Join(from, "gold")) || !exist(t, filepath.Join(tree, "0", "file")) {
		t.Error("something was removed")
	}
	if err := RemoveTree(tree + "2"); err != nil {
		t.Error(err)
	}
	undo()
	if err := RemoveTree(tree); err != nil || exist(t, tree) || !exist(t, filepath.Join(from, "gold")) {
		t.Errorf("after umount: %v", err)
	}
}
