package fs

import (
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
