package sys

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/vizier-scheduler/vizier/internal/disktest"
)

func grow(t *testing.T, dirs ...string) {
	t.Helper()
	for _, dir := range dirs {
		if err := errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(filepath.Join(dir, "file"), nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
}

// exist reports whether path is there. A symbolic link is not followed.
func exist(t *testing.T, path string) bool {
	t.Helper()
	_, err := os.Lstat(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return err == nil
}

func TestRemoveTree(t *testing.T) {
	home := t.TempDir()
	tree, other := filepath.Join(home, "tree"), filepath.Join(home, "other")
	grow(t, filepath.Join(tree, "a", "b"), other)
	if err := errors.Join(os.Symlink(other, filepath.Join(tree, "link")), os.Symlink(other, filepath.Join(home, "link"))); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{tree, tree, filepath.Join(home, "link"), filepath.Join(home, "none", "none")} { // also what is not there
		if err := RemoveTree(path); err != nil || exist(t, path) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if !exist(t, filepath.Join(other, "file")) {
		t.Error("it went through a link")
	}
	if err := RemoveBelow(filepath.Join(home, "other"), filepath.Join("..", "other")); err == nil {
		t.Error("it left the directory")
	}
}

// Another device is another file system also where the system has no list of mounts.
func TestMountsByDevice(t *testing.T) {
	small, home := disktest.Small(t, 1<<20), t.TempDir()
	grow(t, filepath.Join(small, "a"), filepath.Join(home, "a"))
	for dir, want := range map[string][]string{filepath.Dir(small): {small}, small: {small}, filepath.Join(small, "a"): nil, home: nil} {
		if got, err := mountsByDevice(dir); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q, %v", dir, got, err)
		}
	}
}

func TestRemoveTreeOfReadOnlyDirectories(t *testing.T) {
	if !disktest.AsUser(t) {
		return
	}
	home := t.TempDir()
	tree := filepath.Join(home, "tree")
	grow(t, filepath.Join(tree, "cache", "module"), filepath.Join(tree, "none"))
	for dir, mode := range map[string]os.FileMode{"cache/module": 0o555, "cache": 0o500, "none": 0, ".": 0o555} {
		defer os.Chmod(filepath.Join(tree, dir), 0o700) //nolint:errcheck // only if the test fails
		if err := os.Chmod(filepath.Join(tree, dir), mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := RemoveTree(tree); err != nil || exist(t, tree) {
		t.Errorf("removed: %v", err)
	}
	grow(t, filepath.Join(home, "locked", "tree"))
	if err := os.Chmod(filepath.Join(home, "locked"), 0o500); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(filepath.Join(home, "locked"), 0o700) //nolint:errcheck // for the test's end
	var where *os.PathError
	if err := RemoveTree(filepath.Join(home, "locked", "tree")); !errors.As(err, &where) || !errors.Is(err, os.ErrPermission) || where.Path != filepath.Join(home, "locked", "tree") {
		t.Errorf("in a directory of another mode: %v", err)
	}
}
