package config

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// field is a repository whose configuration changes.
type field struct {
	t    *testing.T
	src  Sources
	kept string
}

func newField(t *testing.T, text string) *field {
	root := t.TempDir()
	f := &field{t, Sources{Root: root, Env: func(string) string { return "" }}, filepath.Join(root, "kept")}
	if err := os.Mkdir(filepath.Join(root, ".vizier"), 0o700); err != nil {
		t.Fatal(err)
	}
	f.write(text)
	return f
}

func (f *field) write(text string) {
	f.t.Helper()
	if err := os.WriteFile(filepath.Join(f.src.Root, ".vizier", "config.toml"), []byte(text), 0o600); err != nil {
		f.t.Fatal(err)
	}
}

func (f *field) open(how func(Sources, string) (*Live, error)) *Live {
	f.t.Helper()
	l, err := how(f.src, f.kept)
	if err != nil {
		f.t.Fatal(err)
	}
	return l
}

func (f *field) expect(l *Live, running int, changed, bad bool) {
	f.t.Helper()
	if got := l.Refresh(); got != changed || l.Config().Scheduler.MaxRunning != running || (l.bad != nil) != bad {
		f.t.Fatalf("changed %v, max_running %d, wrong %v; want %v, %d, %v", got, l.Config().Scheduler.MaxRunning, l.bad, changed, running, bad)
	}
}

func places(n string) string { return "[scheduler]\nmax_running = " + n + "\n" }

// A change of a file takes effect at the next Refresh, however small it is. An
// invalid file changes nothing until it is valid.
func TestLive(t *testing.T) {
	f := newField(t, places("1"))
	l := f.open(Open)
	if files := l.Files(); !slices.Equal(files, []string{filepath.Join(f.src.Root, ".vizier", "config.toml")}) {
		t.Errorf("it reads %v", files)
	}
	f.expect(l, 1, false, false)
	f.write(places("2")) // same size, and possibly the same modification time
	f.expect(l, 2, true, false)
	f.expect(l, 2, false, false)
	f.write(places("x"))
	f.expect(l, 2, false, true)
	f.expect(l, 2, false, true)
	if _, err := Open(f.src, f.kept); err == nil {
		t.Error("a command takes it")
	}
	f.write(places("2"))
	f.expect(l, 2, false, false)
	if _, err := os.Stat(f.kept); !os.IsNotExist(err) {
		t.Errorf("it is still kept: %v", err)
	}
	f.write(places("x"))
	f.expect(l, 2, false, true)
	f.write(places("3"))
	f.expect(l, 3, true, false)
	if err := os.Remove(filepath.Join(f.src.Root, ".vizier", "config.toml")); err != nil {
		t.Fatal(err)
	}
	f.expect(l, 0, true, false)
}

// A process that is started while the files are invalid uses the configuration
// of its starter, or of the one that read the files last if there are several.
// What was kept for other files is ignored.
func TestInherit(t *testing.T) {
	f := newField(t, places("1"))
	older := f.open(Open)
	f.write(places("2"))
	newer := f.open(Inherit)
	f.write(places("x"))
	if _, err := Inherit(f.src, f.kept); err == nil {
		t.Error("nobody has kept anything")
	}
	f.expect(older, 1, false, true)
	f.expect(f.open(Inherit), 1, false, true)
	f.expect(newer, 2, false, true)
	f.expect(older, 2, true, true)
	f.expect(f.open(Inherit), 2, false, true)
	f.write(places("y"))
	if _, err := Inherit(f.src, f.kept); err == nil {
		t.Error("it took what was kept about something else")
	}
	f.expect(newer, 2, false, true)
	if info, err := os.Stat(f.kept); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	f.expect(f.open(Inherit), 2, false, true)
	if err := os.WriteFile(f.kept, []byte("torn"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Inherit(f.src, f.kept); err == nil {
		t.Error("it took what makes no sense either")
	}
	f.expect(newer, 2, false, true)
	f.expect(f.open(Inherit), 2, false, true)
}

// If there were no files at all, that is what is inherited.
func TestInheritOfNoFiles(t *testing.T) {
	f := newField(t, "")
	if err := os.Remove(filepath.Join(f.src.Root, ".vizier", "config.toml")); err != nil {
		t.Fatal(err)
	}
	l := f.open(Open)
	f.write("[")
	f.expect(l, 0, false, true)
	if got := f.open(Inherit).Config(); got.Store.Durability != "full" {
		t.Errorf("%+v", got)
	}
}

// Where nothing can be kept, a command that is started says what is wrong, and nothing is left there.
func TestAConfigurationThatCannotBeKept(t *testing.T) {
	f := newField(t, places("1"))
	l := f.open(Open)
	if err := os.MkdirAll(filepath.Join(f.kept, "in the way"), 0o700); err != nil {
		t.Fatal(err)
	}
	f.write(places("x"))
	f.expect(l, 1, false, true)
	if _, err := Inherit(f.src, f.kept); err == nil {
		t.Error("nobody could keep anything")
	}
	if left, err := filepath.Glob(filepath.Join(f.src.Root, ".kept*")); err != nil || len(left) > 0 {
		t.Errorf("%v, %v", left, err)
	}
	file := filepath.Join(f.src.Root, ".vizier", "config.toml")
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(file, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(f.src, ""); err == nil {
		t.Error("a directory is in the place of the file")
	}
}

// What was kept counts only if it is a configuration.
func TestInheritOfAWrongConfiguration(t *testing.T) {
	f := newField(t, places("1"))
	l := f.open(Open)
	f.write(places("x"))
	f.expect(l, 1, false, true)
	b, err := os.ReadFile(f.kept)
	if err != nil {
		t.Fatal(err)
	}
	wrong := bytes.ReplaceAll(b, []byte("max_running = 1"), []byte("max_running = y"))
	if bytes.Equal(b, wrong) {
		t.Fatalf("%s", b)
	}
	if err := os.WriteFile(f.kept, wrong, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Inherit(f.src, f.kept); err == nil {
		t.Error("it took what makes no sense")
	}
}
