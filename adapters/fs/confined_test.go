package fs

import (
	"errors"
	iofs "io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A confined directory is used name by name: what is there is kept, what is missing is made, and nothing stays open.
func TestAConfinedDirectory(t *testing.T) {
	path := t.TempDir()
	if _, err := Confine(filepath.Join(path, "missing")); !errors.Is(err, iofs.ErrNotExist) {
		t.Errorf("a missing directory: %v", err)
	}
	c, err := Confine(path)
	if err != nil {
		t.Fatal(err)
	}
	old := time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)
	for name, err := range map[string]error{
		"making":              c.Make("made/below"),
		"making again":        c.Make("made/below"),
		"a file":              c.Write("a", []byte("one"), false),
		"a file in its place": c.Write("a", []byte("a"), true),
		"a file below":        c.Write("dir/b", []byte("b"), true),
		"a new file":          c.Add("new/c", []byte("c")),
		"another":             c.Add("d", []byte("d")),
		"removing nothing":    c.Remove("nothing"),
		"a link":              os.Symlink(path, filepath.Join(path, "link")),
		"a pipe":              unix.Mkfifo(filepath.Join(path, "pipe"), 0o600),
	} {
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	if err := os.Chtimes(filepath.Join(path, "a"), old, old); err != nil {
		t.Fatal(err)
	}
	for what, r := range map[string]struct{ err, want error }{
		"a name that is taken":          {c.Add("d", []byte("other")), iofs.ErrExist},
		"a new name that is taken":      {c.Move("d", "dir/b"), iofs.ErrExist},
		"moving nothing":                {c.Move("nothing", "e"), iofs.ErrNotExist},
		"moving from nowhere":           {c.Move("nowhere/x", "e"), iofs.ErrNotExist},
		"making below a file":           {c.Make("d/e"), unix.ENOTDIR},
		"a file below a link":           {c.Write("link/x", nil, false), unix.ENOTDIR},
		"moving below a file":           {c.Move("d", "a/e"), unix.ENOTDIR},
		"a new file below a file":       {c.Add("a/e", nil), unix.ENOTDIR},
		"a file where a directory is":   {c.Write("dir", nil, false), unix.EISDIR},
		"removing where a directory is": {c.Remove("dir"), unix.EISDIR},
		"a path from the root":          {c.Write("/x", nil, false), iofs.ErrNotExist},
	} {
		if !errors.Is(r.err, r.want) {
			t.Errorf("%s: %v, want %v", what, r.err, r.want)
		}
	}
	if err := errors.Join(c.Move("d", "moved/d"), c.Move("dir/b", "b"), c.Remove("new/c")); err != nil {
		t.Error(err)
	}
	for name, want := range map[string]string{"a": "a", "b": "b", "moved/d": "d"} {
		if b, err := c.Read(name, 1); err != nil || string(b) != want {
			t.Errorf("%s has %q, %v", name, b, err)
		}
	}
	if b, err := c.Read("a", 0); err == nil {
		t.Errorf("more than the limit is read: %q", b)
	}
	names := func(dir string) []string {
		names, err := c.Names(dir)
		if err != nil {
			t.Error(err)
		}
		slices.Sort(names)
		return names
	}
	if top, below := names("."), slices.Concat(names("dir"), names("new"), names("missing"), names("made")); !slices.Equal(top, []string{"a", "b", "dir", "link", "made", "moved", "new", "pipe"}) || !slices.Equal(below, []string{"below"}) {
		t.Errorf("it has %v, and below %v", top, below)
	}
	for name, mode := range map[string]iofs.FileMode{"a": 0, "dir": iofs.ModeDir, "link": iofs.ModeSymlink, "pipe": iofs.ModeIrregular, "moved/d": 0} {
		info, err := os.Lstat(filepath.Join(path, name))
		if err != nil {
			t.Fatal(err)
		}
		e, err := c.Stat(name)
		if err != nil || e.Mode != mode || e.Size != info.Size() || !e.Modified.Equal(info.ModTime()) || e.Inode == 0 || e.Changed.Before(old.AddDate(0, 1, 0)) {
			t.Errorf("%s: %+v, %v", name, e, err)
		}
	}
	if _, err := c.Stat("nothing"); !errors.Is(err, iofs.ErrNotExist) {
		t.Errorf("what is missing: %v", err)
	}
	f, free, err := c.Lock("lock")
	if err != nil || !free {
		t.Fatalf("a free lock: %t, %v", free, err)
	}
	if g, free, err := c.Lock("lock"); g != nil || free || err != nil {
		t.Errorf("a lock that is taken: %v, %t, %v", g, free, err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if f, free, err = c.Lock("lock"); err != nil || !free {
		t.Errorf("a lock that was let go: %t, %v", free, err)
	} else if err := f.Close(); err != nil {
		t.Error(err)
	}
	if _, free, err := c.Lock("dir"); free || err == nil {
		t.Errorf("the lock of a directory: %t, %v", free, err)
	}
	c.Close()
	if open := openBelow(path); len(open) > 0 {
		t.Errorf("%v is still open", open)
	}
}

// Whichever call of the disk fails, a file in a confined directory is as before or as after, nothing lies beside it, and
// who is not told of an error can rely on it.
func TestWhicheverCallOfTheDiskFailsAConfinedDirectorySaysSo(t *testing.T) {
	for name, deed := range map[string]struct {
		do            func(Confined) error
		before, after map[string]string
	}{
		"a file is written":   {func(c Confined) error { return c.Write("d/f", []byte("new"), true) }, map[string]string{"d/f": "old"}, map[string]string{"d/f": "new"}},
		"a file is added":     {func(c Confined) error { return c.Add("d/f", []byte("new")) }, map[string]string{"d/g": "old"}, map[string]string{"d/f": "new", "d/g": "old"}},
		"a file is moved":     {func(c Confined) error { return c.Move("d/f", "e/g") }, map[string]string{"d/f": "old", "e/x": ""}, map[string]string{"e/g": "old", "e/x": ""}},
		"a file is removed":   {func(c Confined) error { return c.Remove("d/f") }, map[string]string{"d/f": "old", "d/g": ""}, map[string]string{"d/g": ""}},
		"a directory is made": {func(c Confined) error { return c.Make("d/e/f") }, map[string]string{"d/g": ""}, map[string]string{"d/g": ""}},
	} {
		for k, calls := 0, 1; k <= calls; k++ { // at first none fails
			path, d := t.TempDir(), &faulty{at: k}
			for file, text := range deed.before {
				writeAt(t, filepath.Join(path, file), text)
			}
			c, err := Confine(path)
			if err != nil {
				t.Fatal(err)
			}
			c.d.disk = d
			err = deed.do(c)
			c.Close()
			if k == 0 {
				calls = d.n
			}
			if (err == nil) != (k == 0) || err != nil && !errors.Is(err, unix.EIO) {
				t.Errorf("%s, %s fails: %v", name, d.where, err)
			}
			got := map[string]string{}
			for file, text := range all(t, path) {
				if text != "directory" {
					got[strings.TrimPrefix(file, path+"/")] = text
				}
			}
			if !maps.Equal(got, deed.after) && (k == 0 || !maps.Equal(got, deed.before)) && !strings.HasPrefix(d.where, "unlink") {
				t.Errorf("%s, %s fails: there is %q", name, d.where, got)
			}
			if open := openBelow(path); len(open) > 0 {
				t.Errorf("%s, %s fails: %v is still open", name, d.where, open)
			}
		}
	}
}
