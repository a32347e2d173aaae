// Package disktest provides tests with directories that leftover processes may
// still write to, and with file systems that are small or read-only. If the
// system or the user's permissions do not allow the latter, the test is
// skipped.
package disktest

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Dir returns an empty directory. It is removed when the test has ended and
// nothing writes to it any more: a job's runner is still at work after the
// job's end.
func Dir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "vizier-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		end := time.Now().Add(time.Minute)
		for err := os.RemoveAll(dir); err != nil; err = os.RemoveAll(dir) {
			if time.Now().After(end) {
				t.Error(err)
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
	})
	return dir
}

// Small returns the directory of an empty file system of size bytes, which
// exists until the test ends. The path contains no symbolic link.
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

// ReadOnly makes the file system at dir, which Small made, read-only.
func ReadOnly(t testing.TB, dir string) {
	t.Helper()
	if err := remount(dir); err != nil {
		t.Skipf("cannot make a file system read-only: %v", err)
	}
}
