package fs

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
)

// A follower of a store learns of every changed job, once. If the journal was emptied
// since, it learns that any job may have changed.
func TestWhatChangedIsTold(t *testing.T) {
	dir := t.TempDir()
	s, follower := newStore(t, dir), newStore(t, dir)
	commit(t, s, kernel.Create(plain(1)), kernel.Create(plain(2)))
	_, at, told := follower.Changed(JournalOffset{})
	if told {
		t.Fatal("it is told what changed since nobody knows when")
	}
	expect := func(want ...kernel.JobID) {
		t.Helper()
		ids, next, told := follower.Changed(at)
		if at = next; !told || !slices.Equal(ids, want) {
			t.Errorf("told %v: %v, want %v", told, ids, want)
		}
	}
	expect()
	commit(t, s, put(plain(1), func(st *kernel.State) { st.Reason = "x" }))
	commit(t, s, kernel.Create(plain(3)), kernel.RemoveJob{Job: id(2)})
	expect(id(1), id(2), id(3))
	expect()
	s.log.limit = 0
	commit(t, s, kernel.Create(plain(4)))
	if _, next, told := follower.Changed(at); told {
		t.Errorf("the journal was emptied between %v and %v, and it is told what changed", at, next)
	}
}

// beforeMark is a disk that calls then before the mark is read for the second time.
type beforeMark struct {
	machine
	n    int
	then func()
}

func (d *beforeMark) readAt(file *os.File, b []byte, at int64) (int, error) {
	if filepath.Base(file.Name()) == filepath.Base(markFile) {
		if d.n++; d.n == 2 {
			d.then()
		}
	}
	return d.machine.readAt(file, b, at)
}

// What is read while the journal is emptied does not count: other entries may be in its place.
func TestTheJournalIsEmptiedWhileItIsRead(t *testing.T) {
	for _, empties := range []bool{false, true} {
		dir := t.TempDir()
		s, follower := newStore(t, dir), newStore(t, dir)
		commit(t, s, kernel.Create(plain(1)))
		_, at, _ := follower.Changed(JournalOffset{})
		commit(t, s, kernel.Create(plain(2)))
		d := &beforeMark{then: func() {
			if empties {
				s.log.limit = 0
				commit(t, s, kernel.Create(plain(3)))
			}
		}}
		follower = newStore(t, dir)
		follower.disk = d
		if ids, _, told := follower.Changed(at); told == empties || d.n != 2 {
			t.Errorf("emptied: %v; told: %v, %v after the mark was read %d times", empties, told, ids, d.n)
		}
	}
}

// Whatever is read behind the end is nothing, and an error.
func TestNothingIsReadBehindTheEnd(t *testing.T) {
	for name, read := range map[string]func(*reader) bool{
		"a number": func(r *reader) bool { return r.uint() == 0 }, "a count": func(r *reader) bool { return r.count() == 0 },
		"bytes": func(r *reader) bool { return len(r.bytes()) == 0 }, "a text": func(r *reader) bool { return r.string() == "" },
		"a byte": func(r *reader) bool { return r.byte() == 0 }, "a digest": func(r *reader) bool { return r.digest() == digest{} },
	} {
		if r := new(reader); !read(r) || !errors.Is(r.err, errShort) {
			t.Errorf("%s: %v", name, r.err)
		}
	}
	if r := (&reader{b: []byte{3, 1, 2}}); r.count() != 0 || !errors.Is(r.err, errShort) {
		t.Errorf("more than there is: %v", r.err)
	}
	if r := (&reader{b: []byte{2, 1, 2}}); r.count() != 2 || r.err != nil {
		t.Errorf("all that there is: %v", r.err)
	}
}
