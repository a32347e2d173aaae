// Package disktest provides tests with directories that leftover processes may
// still write to, with file systems that are small, read-only or mounted again, and
// with an ordinary user. If the system or the user's permissions do not allow what a
// test asks for, it is skipped.
package disktest

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
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

// Bind mounts a new directory with one file, called gold, at the directory at, until undone or the
// test ends. It returns the directory.
func Bind(t testing.TB, at string) (from string, undo func()) {
	t.Helper()
	from = t.TempDir()
	if err := os.WriteFile(filepath.Join(from, "gold"), []byte("gold"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := bind(from, at); err != nil {
		t.Skipf("cannot mount a directory: %v", err)
	}
	undo = sync.OnceFunc(func() {
		if err := unmount(at); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(undo)
	return from, undo
}

// AsUser reports whether the test runs as an ordinary user, whom permissions bind. For root it runs
// the test again as such a user, in a process of its own, and the caller returns.
func AsUser(t *testing.T) bool {
	t.Helper()
	if os.Getuid() != 0 {
		return true
	}
	const nobody = 65534
	dir, err := os.MkdirTemp("", "user")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	program, err := os.ReadFile(os.Args[0])
	if err == nil {
		err = errors.Join(os.WriteFile(filepath.Join(dir, "test"), program, 0o755), os.Chown(dir, nobody, nobody))
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(dir, "test"), "-test.run=^"+t.Name()+"$", "-test.v") //nolint:gosec // it is this program
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "TMPDIR="+dir, "HOME="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := cmd.CombinedOutput()
	switch {
	case err != nil:
		t.Fatalf("as an ordinary user: %v: %s", err, out)
	case !bytes.Contains(out, []byte("--- PASS: "+t.Name())):
		t.Skipf("as an ordinary user: %s", out)
	}
	return false
}
