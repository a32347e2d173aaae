package git

import (
	"errors"
	"os"
	"strings"
	"testing"
)

// One process at a time may make a release. What it notes stays until it forgets it.
func TestTheRightToMakeARelease(t *testing.T) {
	f := newFixture(t)
	first, second := Open(f.root()), Open(f.root())
	left := func(want Begun) {
		t.Helper()
		if got, err := second.LeftRelease(); got != want || err != nil {
			t.Errorf("left is %+v, %v; want %+v", got, err, want)
		}
	}
	left(Begun{})
	right, err := first.BeginReleasing()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := second.BeginReleasing(); !errors.Is(err, ErrReleasing) {
		t.Errorf("a second one: %v", err)
	}
	long := Begun{Branch: strings.Repeat("long", 20), From: "1", Commit: "2", Tag: "v1.0.0"}
	short := Begun{Branch: "main", From: "3", Commit: "4", Tag: "v1.0.1"}
	for _, b := range []Begun{long, short} {
		if err := right.Note(b); err != nil {
			t.Fatal(err)
		}
		left(b)
	}
	if err := right.End(); err != nil {
		t.Fatal(err)
	}
	left(short)
	if right, err = second.BeginReleasing(); err != nil {
		t.Fatal(err)
	}
	left(short)
	if err := errors.Join(right.Forget(), right.End()); err != nil {
		t.Error(err)
	}
	left(Begun{})
	f.write(".git/"+releasingFile, `{"branch": "main", "from": "3", "comm`) // killed while it noted this
	left(Begun{})
}

// Who makes a release hears of what cannot be noted or forgotten.
func TestWhatCannotBeNotedOfARelease(t *testing.T) {
	f := newFixture(t)
	f.write("note", "x")
	file, err := os.Open(f.path("note")) // not for writing
	if err != nil {
		t.Fatal(err)
	}
	right := &Releasing{file}
	if err := right.Note(Begun{Branch: "main"}); err == nil {
		t.Error("it is noted where nothing can be written")
	}
	if err := right.Forget(); err == nil {
		t.Error("it is forgotten where nothing can be written")
	}
	if err := errors.Join(right.End(), right.End()); !errors.Is(err, os.ErrClosed) {
		t.Errorf("a right that is given up twice: %v", err)
	}
}

// A release that has begun is taken back as far as it got, and nothing else is.
func TestUndoABegunRelease(t *testing.T) {
	for name, c := range map[string]struct {
		got    func(f fixture, b Begun) // what the killed process did, and others since
		undone bool
		moved  bool // the branch has moved on
		main   string
		tagged bool // afterwards
	}{
		"nothing": {got: func(fixture, Begun) {}, main: "before"},
		"a commit that is lost": {got: func(f fixture, b Begun) {
			if err := os.Remove(f.path(".git/objects/" + string(b.Commit[:2]) + "/" + string(b.Commit[2:]))); err != nil {
				f.Fatal(err)
			}
		}, main: "before"},
		"the commit":         {got: func(f fixture, b Begun) { f.git("reset", "--quiet", string(b.Commit)) }, undone: true, main: "before"},
		"the tag":            {got: func(f fixture, b Begun) { f.git("tag", "-m", "x", b.Tag, string(b.Commit)) }, undone: true, main: "before"},
		"both":               {got: func(f fixture, b Begun) { f.git("reset", "--quiet", string(b.Commit)); f.git("tag", "-m", "x", b.Tag) }, undone: true, main: "before"},
		"another one's tag":  {got: func(f fixture, b Begun) { f.git("tag", "-m", "x", b.Tag, string(b.From)) }, main: "before", tagged: true},
		"its branch is gone": {got: func(f fixture, _ Begun) { f.git("switch", "--quiet", "--detach"); f.git("branch", "-D", "main") }},
		"its branch goes on": {got: func(f fixture, b Begun) {
			f.git("reset", "--quiet", string(b.Commit))
			f.git("tag", b.Tag)
			f.commit("b", "2")
		}, moved: true, main: "elsewhere", tagged: true},
		"its branch is reset": {got: func(f fixture, b Begun) { f.git("tag", b.Tag, string(b.Commit)); f.commit("b", "2") }, undone: true, main: "elsewhere"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			b := Begun{Branch: "main", From: f.commit("a", "1"), Tag: "v1.0.0"}
			r := Open(f.root())
			var err error
			if b.Commit, err = r.EmptyCommit(t.Context(), b.From, "chore: x"); err != nil {
				t.Fatal(err)
			}
			c.got(f, b)
			undone, err := r.UndoBegun(t.Context(), b)
			if undone != c.undone || errors.Is(err, ErrMoved) != c.moved || (err != nil) != c.moved {
				t.Errorf("undone %v, %v", undone, err)
			}
			main := map[string]string{string(b.From): "before", string(b.Commit): "release", "": ""}
			at, there := main[f.git("for-each-ref", "--format=%(objectname)", "refs/heads/main")]
			if !there {
				at = "elsewhere"
			}
			if tagged := f.git("tag", "--list") != ""; at != c.main || tagged != c.tagged {
				t.Errorf("main is at %q, tagged %v", at, tagged)
			}
		})
	}
}
