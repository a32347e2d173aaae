package watch

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A file is watched from Look on: what is written to it, and that another one takes its place. After that, the next
// Look watches the new one.
func TestNewsOfAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(path, "a")
	f := NewFile(path)
	if err := f.Close(); err != nil {
		t.Errorf("what watches nothing: %v", err)
	}
	f.Look()
	if f.notify == nil {
		t.Skip("the system allows no more watches")
	}
	watcher := f.notify
	told := func(what string) {
		t.Helper()
		select {
		case <-f.Changed():
		case <-time.After(10 * time.Second):
			t.Fatalf("no news of %s", what)
		}
	}
	select {
	case <-f.Changed():
		t.Error("nothing is news")
	default:
	}
	f.Look()
	if watched := f.notify.WatchList(); f.notify != watcher || len(watched) != 1 {
		t.Errorf("a second look watches %v", watched)
	}
	write(path, "ab")
	told("what was written")
	other := path + ".new"
	write(other, "abc")
	if err := os.Rename(other, path); err != nil {
		t.Fatal(err)
	}
	for len(f.notify.WatchList()) > 0 { // the watch of the old file ends
		told("a new file")
	}
	f.Look()
	write(path, "abcd")
	told("what was written to the new file")
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}
