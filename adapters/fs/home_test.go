package fs

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// tracking stands in for git, with answers that a test sets.
type tracking struct {
	stamp, file string
	refuses     error
	asked       int
}

func (t *tracking) IndexStamp() string { return t.stamp }

func (t *tracking) Tracked(context.Context, ...string) (string, error) {
	t.asked++
	return t.file, t.refuses
}

// Where git refuses to work, no store is made, and nothing is left.
func TestWhereGitRefusesNothingIsMade(t *testing.T) {
	refusal := errors.New("dubious ownership")
	for _, below := range []string{"", ".vizier"} {
		dir := t.TempDir()
		if err := os.MkdirAll(filepath.Join(dir, below), 0o700); err != nil {
			t.Fatal(err)
		}
		s := NewStore(dir, Options{Tracking: &tracking{refuses: refusal}})
		if _, err := s.Begin(t.Context()); !errors.Is(err, refusal) {
			t.Errorf("in %q: %v", below, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if left, err := os.ReadDir(filepath.Join(dir, ".vizier")); len(left) > 0 || below == "" && !errors.Is(err, os.ErrNotExist) {
			t.Errorf("in %q there is %v, %v", below, left, err)
		}
	}
}

// A store knows the places that it was adopted at; git is asked once for each state of
// its index.
func TestAStoreKnowsWhereItIs(t *testing.T) {
	git := &tracking{stamp: "1"}
	write := func(dir string) error {
		s := NewStore(dir, Options{Tracking: git})
		defer s.Close()
		tx, err := s.Begin(t.Context())
		if err != nil {
			return err
		}
		return tx.Close()
	}
	foreign := func(dir string, want bool) {
		t.Helper()
		if err := write(dir); errors.Is(err, ErrForeign) != want || !want && err != nil {
			t.Errorf("%s: %v", dir, err)
		}
	}
	adopt := func(dir string) error {
		s := NewStore(dir, Options{Tracking: git})
		defer s.Close()
		return s.Adopt(t.Context())
	}
	base := t.TempDir()
	one, two := filepath.Join(base, "one"), filepath.Join(base, "two")
	if err := os.Mkdir(one, 0o700); err != nil {
		t.Fatal(err)
	}
	foreign(one, false)
	asked := git.asked
	foreign(one, false)
	if git.asked != asked {
		t.Error("git is asked again about the same index")
	}
	git.stamp, git.file = "2", ".vizier/jobs/x"
	foreign(one, true)
	if err := adopt(one); !errors.Is(err, ErrForeign) {
		t.Errorf("what git tracks was adopted: %v", err)
	}
	foreign(one, true)
	git.file = ""
	foreign(one, false)

	copyStore := func(from, to string) {
		t.Helper()
		if err := errors.Join(os.CopyFS(to, os.DirFS(from)), os.Chmod(filepath.Join(to, ".vizier/jobs"), 0o700)); err != nil {
			t.Fatal(err)
		}
	}
	copyStore(one, two)
	foreign(two, true)
	if err := adopt(two); err != nil {
		t.Fatal(err)
	}
	foreign(two, false)
	back := filepath.Join(base, "back") // the store still knows its first place
	copyStore(two, back)
	foreign(back, true)
	if err := errors.Join(os.Rename(one, one+".old"), os.Rename(back, one)); err != nil {
		t.Fatal(err)
	}
	foreign(one, false)

	file := filepath.Join(one, ".vizier", homeFile)
	for _, text := range []string{"", "{", `{"version":2}`, "\x00\x00"} { // as a power failure leaves it
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		foreign(one, false)
	}
	if err := os.Chmod(filepath.Join(one, ".vizier/jobs"), 0o770); err != nil {
		t.Fatal(err)
	}
	foreign(one, true)
	if err := adopt(one); err != nil {
		t.Fatal(err)
	}
	foreign(one, false)
}
