package fs

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// keeps is a disk that does not let go of a name.
type keeps struct {
	machine
	name string
	err  error
}

func (k keeps) unlink(at int, name string) error {
	if name == k.name {
		return k.err
	}
	return k.machine.unlink(at, name)
}

// A file that may not lose its old name gets no new one; after another error it keeps both, since the old one may be gone.
func TestAFileThatCannotBeMovedKeepsOneName(t *testing.T) {
	for _, c := range []struct {
		err error
		new bool
	}{{unix.EACCES, false}, {unix.EPERM, false}, {unix.EIO, true}} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "old"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		d, err := os.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		if err := linkNew(keeps{name: "old", err: c.err}, int(d.Fd()), "old", int(d.Fd()), "new"); !errors.Is(err, c.err) {
			t.Errorf("%v: %v", c.err, err)
		}
		if !exists(filepath.Join(dir, "old")) || exists(filepath.Join(dir, "new")) != c.new {
			t.Errorf("%v: old is there: %v, new: %v", c.err, exists(filepath.Join(dir, "old")), exists(filepath.Join(dir, "new")))
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
