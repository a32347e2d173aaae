package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/adapters/fs"
	"github.com/vizier-scheduler/vizier/app"
	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/view"
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

// loggedLines is an event log.
type loggedLines []string

func (loggedLines) Look()                    {}
func (loggedLines) Changed() <-chan struct{} { return nil }
func (loggedLines) Close() error             { return nil }

func (l loggedLines) Read(f func([]byte) error) error {
	for _, text := range l {
		if err := f([]byte(text)); err != nil {
			return err
		}
	}
	return nil
}

// A job that is removed between two looks of a wait has ended as the event log says.
func TestAWaitKnowsHowARemovedJobEnded(t *testing.T) {
	var log loggedLines
	w := waiting{ids: []kernel.JobID{"a", "b"}, refs: map[kernel.JobID]view.Reference{"a": {Number: 1, Ref: "1"}, "b": {Number: 2, Ref: "2"}},
		r: &repo{Events: func(uint64) eventLog { return log }}}
	now := kernel.NewSnapshot(kernel.Observation{})
	if _, err := w.removed(now); !errors.Is(err, kernel.ErrNotFound) || !strings.Contains(err.Error(), "job a was removed, and the event log does not say how it ended") {
		t.Errorf("without events: %v", err)
	}
	log = loggedLines{`{"seq":1,"event":"job.running","job":"a"}`, `{"seq":2,"event":"job.failed.final","job":"a","exit_code":1}`, `{"seq":3,"event":"job.rewound","job":"a"}`,
		`{"seq":4,"event":"job.cancelled","job":"a","exit_code":143}`, `{"seq":5,"event":"job.succeeded","job":"b","exit_code":0}`, `{"seq":6,"event":"job.archived","job":"a"}`}
	gone, err := w.removed(now)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := new(waitCmd).answer(&w, now, nil, gone, false)
	if err != nil || doc.Outcome != "failed" || doc.ExitCode != 1 || len(doc.Jobs) != 2 {
		t.Fatalf("%+v, %v", doc, err)
	}
	for i, want := range []string{"1 cancelled 143", "2 succeeded 0"} {
		if got := doc.Jobs[i]; fmt.Sprint(got.Ref, " ", got.Status, " ", *got.ExitCode) != want {
			t.Errorf("%+v, want %s", got, want)
		}
	}
}

// countingStore notes what was read.
type countingStore struct {
	app.Store
	read *[]kernel.Scope
}

func (s countingStore) Read(ctx context.Context, of kernel.Scope) (kernel.Records, error) {
	*s.read = append(*s.read, of)
	return s.Store.Read(ctx, of)
}

// A follower of many jobs reads those that changed, and all of them at the end.
func TestAFollowerReadsWhatChanged(t *testing.T) {
	w := newFake(t)
	all := []kernel.JobID{w.submit(), w.submit(), w.submit()}
	r, err := w.open(t.Context(), nil, globals{})
	if err != nil {
		t.Fatal(err)
	}
	var changed []kernel.JobID
	r.Changed = func(fs.JournalOffset) ([]kernel.JobID, fs.JournalOffset, bool) {
		return changed, fs.JournalOffset{}, true
	}
	var read []kernel.Scope
	r.Scheduler.Store = countingStore{r.Scheduler.Store, &read}
	var run app.RunRequest
	for _, id := range all {
		run.Jobs = append(run.Jobs, kernel.NewJob{ID: id})
	}
	f, c := newRunFollower(r, run, nil, nil), &call{ctx: t.Context()}
	look := func(what string, want []kernel.JobID, whole bool) {
		t.Helper()
		read = nil
		snap, err := f.look(c)
		if err != nil || (snap != nil) != whole {
			t.Errorf("%s: whole %v: %v", what, snap != nil, err)
		}
		if len(want) == 0 && len(read) > 0 || len(want) > 0 && (len(read) != 1 || !slices.Equal(read[0].Jobs, want)) {
			t.Errorf("%s: it read %+v, not %v", what, read, want)
		}
	}
	look("at first", all, true)
	look("nothing happened", nil, false)
	for _, id := range all {
		w.end(id, kernel.OutcomeSucceeded)
		if _, err := r.Scheduler.Tick(t.Context()); err != nil {
			t.Fatal(err)
		}
		changed = []kernel.JobID{id}
		look("one ended", changed, false)
		if j := f.now[id]; j == nil || j.State.Status != kernel.Succeeded {
			t.Errorf("it does not know that %s has ended", id)
		}
	}
	changed = nil
	look("at the end", all, true)
	if len(f.now) != len(all) || !f.over() {
		t.Errorf("of %d jobs it knows %d", len(all), len(f.now))
	}
}
