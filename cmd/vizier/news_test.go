package main

import (
	"slices"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/adapters/fs"
	"github.com/vizier-scheduler/vizier/kernel"
)

// A follower reads records again where the history says that some changed, where it
// cannot tell, and now and then.
func TestNews(t *testing.T) {
	var ids []kernel.JobID
	told := false
	n := news{r: &repo{Changed: func(fs.JournalOffset) ([]kernel.JobID, fs.JournalOffset, bool) { return ids, fs.JournalOffset{}, told }}}
	for _, c := range []struct {
		what   string
		change func()
		want   bool
	}{
		{"nobody can tell what happened before the first look", func() {}, true},
		{"nothing changed", func() { told = true }, false},
		{"a job changed", func() { ids = []kernel.JobID{"a"} }, true},
		{"nothing changed since", func() { ids = nil }, false},
		{"the history does not go back that far", func() { told = false }, true},
		{"all was read long ago", func() { told, n.told = true, time.Now().Add(-2*readAll) }, true},
		{"nobody tells", func() { n.r.Changed = nil }, true},
	} {
		if c.change(); n.any() != c.want {
			t.Errorf("%s: %v", c.what, !c.want)
		}
	}
}

// What a wait hears between two of its looks is kept for the next, and that something
// cannot be told as well.
func TestHear(t *testing.T) {
	var ids []kernel.JobID
	told := true
	w := waiting{of: map[kernel.JobID]bool{"a": true, "b": true}, told: true,
		r: &repo{Changed: func(fs.JournalOffset) ([]kernel.JobID, fs.JournalOffset, bool) { return ids, fs.JournalOffset{}, told }}}
	for _, c := range []struct {
		ids  []kernel.JobID
		told bool
		any  bool
	}{{[]kernel.JobID{"a", "other"}, true, true}, {nil, true, false}, {[]kernel.JobID{"b"}, false, true}, {[]kernel.JobID{"other"}, true, false}} {
		if ids, told = c.ids, c.told; w.hear() != c.any {
			t.Errorf("%v: %v", c.ids, !c.any)
		}
	}
	if !slices.Equal(w.news, []kernel.JobID{"a", "b"}) || w.told {
		t.Errorf("it has heard of %v, and all was told: %v", w.news, w.told)
	}
}
