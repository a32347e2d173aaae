package fs

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vizier-scheduler/vizier/internal/sys"
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
	one, two := filepath.Join(base, "on\xe9"), filepath.Join(base, "two") // the one is not UTF-8
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

// The oldest places are forgotten once there are too many, and the same place is not on record twice.
func TestAStoreKnowsItsLatestPlaces(t *testing.T) {
	git := &tracking{stamp: "1"}
	dir := t.TempDir()
	s := newStoreWith(t, dir, Options{Tracking: git})
	closeTx(t, begin(t, s))
	places := func() []home {
		t.Helper()
		have, err := s.homes()
		if err != nil || have.Version != 1 {
			t.Fatalf("%+v, %v", have, err)
		}
		return have.Homes
	}
	at := places()
	if len(at) != 1 || string(at[0].Path) != dir || at[0].Inode == 0 {
		t.Fatalf("it is at %+v", at)
	}
	if err := s.Adopt(t.Context()); err != nil || !slices.Equal(places(), at) {
		t.Errorf("%+v, %v", places(), err)
	}
	var many []home
	for n := range maxHomes {
		many = append(many, home{Inode: at[0].Inode + uint64(n) + 1, Path: sys.Path(fmt.Sprint("/", n))})
	}
	for name, c := range map[string]struct{ homes, want []home }{
		"too many":       {many, append(slices.Clone(many[1:]), at[0])},
		"one less":       {many[1:], append(slices.Clone(many[1:]), at[0])},
		"the same inode": {[]home{{at[0].Inode, "/before"}}, at},
		"the same path":  {[]home{{at[0].Inode + 1, sys.Path(dir)}}, at},
		"both":           {[]home{{at[0].Inode, "/before"}, {at[0].Inode + 1, sys.Path(dir)}, many[0]}, []home{many[0], at[0]}},
	} {
		if err := s.writeHomes(&homeRecord{Index: "1", Homes: c.homes}); err != nil {
			t.Fatal(err)
		}
		if err := s.Adopt(t.Context()); err != nil || !slices.Equal(places(), c.want) {
			t.Errorf("%s: %+v, %v", name, places(), err)
		}
	}
	// A store that was moved, or restored at its path, is at home, and that is put on record without asking for more.
	for name, known := range map[string]home{"moved": {at[0].Inode, "/before"}, "restored": {at[0].Inode + 1, sys.Path(dir)}} {
		if err := s.writeHomes(&homeRecord{Index: "1", Homes: []home{many[0], known}}); err != nil {
			t.Fatal(err)
		}
		asked := git.asked
		closeTx(t, begin(t, s))
		if got := places(); !slices.Equal(got, []home{many[0], at[0]}) || git.asked != asked {
			t.Errorf("%s: %+v, git was asked %d times", name, got, git.asked-asked)
		}
		before := contentOf(t, file(dir, homeFile))
		git.stamp = "2" // then only the index on record changes
		closeTx(t, begin(t, s))
		if now := contentOf(t, file(dir, homeFile)); now != strings.Replace(before, `"index":"1"`, `"index":"2"`, 1) || git.asked == asked {
			t.Errorf("%s: %s, before %s", name, now, before)
		}
		git.stamp = "1"
	}
	// Without a file on record, a refused adoption leaves none.
	if err := os.Remove(file(dir, homeFile)); err != nil {
		t.Fatal(err)
	}
	git.stamp, git.file = "3", ".vizier/jobs/x"
	if err := s.Adopt(t.Context()); !errors.Is(err, ErrForeign) || exists(file(dir, homeFile)) {
		t.Errorf("%v, a file is there: %t", err, exists(file(dir, homeFile)))
	}
	git.file = ""
	if err := os.Mkdir(file(dir, homeFile), 0o700); err != nil { // something else is in its place: it is moved away
		t.Fatal(err)
	}
	if err := s.Adopt(t.Context()); err != nil || !slices.Equal(places(), at) {
		t.Errorf("%v, %+v", err, places())
	}
	if err := newStore(t, t.TempDir()).Adopt(t.Context()); !errors.Is(err, iofs.ErrNotExist) {
		t.Errorf("no store: %v", err)
	}
}
