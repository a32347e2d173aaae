// Package disktest gives tests file systems that are small or cannot be
// written to. Where the system or the user's rights do not allow that, the test
// is skipped.
package disktest

import (
	"path/filepath"
	"testing"
)

// Small is the directory of an empty file system of so many bytes, which is
// there until the test ends. The path has no symbolic link in it.
func Small(t testing.TB, size int) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := mount(dir, size); err != nil {
		t.Skipf("cannot mount a small file system: %v", err)
	}
	t.Cleanup(func() {
		if err := unmount(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// ReadOnly lets nobody write any more to the file system that Small made at
// dir.
func ReadOnly(t testing.TB, dir string) {
	t.Helper()
	if err := remount(dir); err != nil {
		t.Skipf("cannot make a file system read-only: %v", err)
	}
}
