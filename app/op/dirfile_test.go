package op

import (
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A file that was written, read or looked for is not kept open, nor is its directory, whether
// that went well or not. The garbage collector, which would close them some day, waits here.
func TestNothingStaysOpen(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	dir := t.TempDir()
	next := func() uintptr {
		f, err := os.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		return f.Fd()
	}
	const times = 50
	if err := writeIn(t.Context(), dir, "a/b", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, do := range map[string]func(name string) error{
		"write": func(name string) error { return writeIn(t.Context(), dir, name, []byte("x"), 0o600) },
		"read":  func(name string) error { _, err := readIn(dir, name); return err },
		"look":  func(name string) error { present(dir, name); return nil },
	} {
		before := next()
		for range times {
			if err := do("a/b"); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			_ = do("a/b/c") // b is a file
			_ = do("a")     // that is a directory
		}
		if do("../out") == nil && name != "look" {
			t.Errorf("%s: nobody hears of what is outside", name)
		}
		if after := next(); after > before+times/2 {
			t.Errorf("%s: %d files were open, and now %d", name, before, after)
		}
	}
}

// A pipe in the place of a file is not waited for, but is an error.
func TestAPipeIsNoFile(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"in", ".out.tmp"} {
		if err := syscall.Mkfifo(filepath.Join(dir, name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	done := make(chan []error, 1)
	go func() {
		_, in := readIn(dir, "in")
		done <- []error{in, writeIn(t.Context(), dir, "out", []byte("x"), 0o600)}
	}()
	select {
	case errs := <-done:
		if errs[0] == nil || errs[0].Error() != "in is not a regular file" || errs[1] == nil {
			t.Errorf("%v", errs)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("it is waited for")
	}
}

// What cannot be written in a directory is an error with the file's name, whatever is in the way.
func TestWhatCannotBeWrittenInADirectory(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "dir"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, ".taken.tmp"), 0o700); err != nil { // where it is written first
		t.Fatal(err)
	}
	for in, name := range map[string]string{filepath.Join(dir, "none"): "a", dir: "file/a", filepath.Join(dir, "."): "dir", filepath.Join(dir, "dir"): "../../out", dir + "/dir/..": "taken"} {
		if err := writeIn(t.Context(), in, name, []byte("y"), 0o600); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s in %s: %v", name, in, err)
		}
	}
	if err := writeIn(t.Context(), dir, "new/file", []byte("y"), 0o600); err != nil {
		t.Error(err)
	}
	entries, err := os.ReadDir(filepath.Join(dir, "new"))
	if text, failed := os.ReadFile(filepath.Join(dir, "new/file")); string(text) != "y" || failed != nil || err != nil || len(entries) != 1 {
		t.Errorf("written is %q, %v; there are %v, %v", text, failed, entries, err)
	}
}
