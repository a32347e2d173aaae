package fs

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vizier-scheduler/vizier/internal/disktest"
	"github.com/vizier-scheduler/vizier/kernel"
)

// A transaction that only completes what a crash left, and loads nothing, has not
// seen what others committed. So it does not write what it remembers to the cache.
func TestATransactionThatLoadedNothingWritesNoIndex(t *testing.T) {
	dir := t.TempDir()
	old, busy := newStore(t, dir), newStore(t, dir)
	commit(t, old, kernel.Create(plain(1)))
	for n := 2; n <= 10; n++ {
		j := plain(n)
		j.State.Reason = strings.Repeat("long ", 10000)
		commit(t, busy, kernel.Create(j))
	}
	closeTx(t, begin(t, old))
	for name, s := range map[string]*Store{"an old process": old, "a new process": newStore(t, dir)} {
		if rec := read(t, s); len(rec.Jobs) != 10 {
			t.Errorf("%s sees %d jobs of 10", name, len(rec.Jobs))
		}
	}
}

// A read whose cache is due does not fail because other readers keep it from the
// exclusive lock: it returns its answer and leaves the cache unwritten.
func TestAReadDoesNotWaitToWriteTheCache(t *testing.T) {
	dir := disktest.Dir(t) // a wait for the lock that was given up may still open it
	s := newStore(t, dir)
	tx := begin(t, s)
	load(t, tx)
	for n := 1; n <= 5; n++ {
		j := plain(n)
		j.State.Reason = strings.Repeat("long ", 10000)
		if err := tx.Commit(kernel.NewPlan(kernel.Create(j))); err != nil {
			t.Fatal(err)
		}
	}
	if err := tx.unlock(); err != nil { // as if this process died here, before it wrote the cache
		t.Fatal(err)
	}
	unlock, err := s.take(soon(t), lockShared)
	if err != nil {
		t.Fatal(err)
	}
	reader := newStore(t, dir)
	if rec, err := reader.Read(shortly(t), kernel.Scope{All: true}); err != nil || len(rec.Jobs) != 5 {
		t.Errorf("read %d jobs: %v", len(rec.Jobs), err)
	}
	if !reader.cache.due() || exists(file(dir, cacheFile)) {
		t.Error("the cache was not due: the test says nothing")
	}
	if err := unlock(); err != nil {
		t.Fatal(err)
	}
}

// A record that someone changed or took away by hand is seen by the commands
// that start afterwards.
func TestChangesByHandAreSeen(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, dir)
	var actions []kernel.Action
	for n := 1; n <= 6; n++ {
		j := plain(n)
		j.State.Status = []kernel.Status{kernel.Queued, kernel.Succeeded}[n%2]
		j.State.Reason = strings.Repeat("long ", 10000)
		actions = append(actions, kernel.Create(j))
	}
	commit(t, s, actions...) // enough for the cache to be written
	commit(t, s, kernel.Create(plain(7)))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{1, 2} {
		path := s.RecordFile(id(n))
		writeAt(t, path+".new", strings.Replace(contentOf(t, path), "job "+fmt.Sprint(n), "job by hand", 1))
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range []int{3, 4} {
		if err := os.RemoveAll(filepath.Dir(s.RecordFile(id(n)))); err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range []int{5, 6} {
		writeAt(t, s.RecordFile(id(n)), "")
	}
	rec := read(t, newStore(t, dir))
	var got []string
	for _, j := range rec.Jobs {
		got = append(got, string(j.ID[31:])+" "+j.Spec.Name)
	}
	for id := range rec.Unreadable {
		got = append(got, string(id[31:])+" unreadable")
	}
	slices.Sort(got)
	if d := cmp.Diff([]string{"1 job by hand", "2 job by hand", "5 unreadable", "6 unreadable", "7 job 7"}, got); d != "" {
		t.Error(d)
	}
}
