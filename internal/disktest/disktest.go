// Package disktest gives tests directories that processes which they leave behind may
// still write to, and file systems that are small or cannot be written to. Where the
// system or the user's rights do not allow the latter, the test is skipped.
package disktest

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Dir is an empty directory, which goes when the test has ended and nothing writes to it
// any more: the runner of a job has something to do after its end.
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
