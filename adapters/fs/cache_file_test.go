package fs

import (
	"encoding/binary"
	"errors"
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

// A cache of another version, of another boot or of other fields of jobs is not opened, and neither is one with half a head.
func TestTheHeadOfACache(t *testing.T) {
	at := journalOffset{3, 700}
	head := func(version, boot string, print uint64) []byte {
		b := putBytes(putBytes(nil, []byte(version)), []byte(boot))
		return appendOffset(binary.AppendUvarint(b, print), at)
	}
	good := head(cacheVersion, "boot", jobFingerprint())
	for name, c := range map[string]struct {
		head []byte
		fits bool
	}{
		"as it is written":                {cacheHead("boot", at), true},
		"of the same":                     {good, true},
		"of another version":              {head(cacheVersion+"0", "boot", jobFingerprint()), false},
		"of another boot":                 {head(cacheVersion, "boot-2", jobFingerprint()), false},
		"of jobs that have another field": {head(cacheVersion, "boot", jobFingerprint()+1), false},
		"whose offset is cut":             {good[:len(good)-1], false},
		"without an offset":               {good[:len(good)-len(appendOffset(nil, at))], false},
		"of nothing":                      {nil, false},
	} {
		base := kvHome(t)
		freshKV(t, base, string(c.head), nil).close()
		k, err := openCache(base, "boot")
		if (err == nil) != c.fits || err != nil && !errors.Is(err, errCache) {
			t.Errorf("a head %s: %v", name, err)
		}
		if err == nil {
			if k.offset != at || k.logged != at {
				t.Errorf("a head %s: it has the journal up to %v, its log up to %v", name, k.offset, k.logged)
			}
			k.kv.close()
		}
	}
}

// What others wrote to the log of the cache is taken over if it continues from what this process has, and if this process has
// nothing that the log lacks.
func TestTheLogOfACacheContinues(t *testing.T) {
	from, to := journalOffset{3, 700}, journalOffset{3, 800}
	note := appendOffset(appendOffset(nil, from), to)
	for name, c := range map[string]struct {
		note   []byte
		change func(*cache)
		fits   bool
	}{
		"it continues":                      {note, func(*cache) {}, true},
		"this process is behind":            {note, func(c *cache) { c.offset.end-- }, false},
		"this process is ahead":             {note, func(c *cache) { c.offset = to }, false},
		"the journal was emptied":           {note, func(c *cache) { c.offset.epoch++ }, false},
		"this process has one change":       {note, func(c *cache) { c.unlogged = []keyValue{{"k", nil}} }, false},
		"this process has too many changes": {note, func(c *cache) { c.long = true }, false},
		"it does not say what it continues": {nil, func(*cache) {}, false},
		"it does not say how far it leads":  {appendOffset(nil, from), func(*cache) {}, false},
		"it does not say all about how far": {note[:len(note)-1], func(*cache) {}, false},
	} {
		base := kvHome(t)
		freshKV(t, base, string(cacheHead("boot", from)), nil).close()
		mine, err := openCache(base, "boot")
		if err != nil {
			t.Fatal(err)
		}
		other, _, err := openKV(base)
		if err != nil {
			t.Fatal(err)
		}
		if err := other.add(c.note, []keyValue{{"key", []byte("value")}}); err != nil {
			t.Fatal(err)
		}
		c.change(mine)
		was := mine.offset
		err = mine.readLog()
		value, failed := mine.kv.get("key")
		if c.fits && (err != nil || string(value) != "value" || mine.offset != to || mine.logged != to) ||
			!c.fits && (!errors.Is(err, errCache) || value != nil || mine.offset != was || mine.logged != from) || failed != nil {
			t.Errorf("%s: %v, %q, up to %v", name, err, value, mine.offset)
		}
		mine.kv.close()
		other.close()
	}
}

// A cache that is made anew removes the files of the old one, and of those that earlier versions kept instead, and no other.
func TestOnlyTheFilesOfTheCacheAreRemoved(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, dir)
	commit(t, s, kernel.Create(plain(1)))
	journal := filepath.Dir(file(dir, cacheFile))
	keep := []string{"cache-x", "cached", "cach", "archives", "index.1", "my cache.1"}
	for _, name := range append([]string{"index", "archive", cacheName + ".999", cacheName + "."}, keep...) {
		writeAt(t, filepath.Join(journal, name), "")
	}
	tx := begin(t, s)
	if err := s.rebuildCache(journalOffset{tx.pos.epoch, tx.pos.end}); err != nil {
		t.Fatal(err)
	}
	closeTx(t, tx)
	entries, err := os.ReadDir(journal)
	if err != nil {
		t.Fatal(err)
	}
	want := append([]string{filepath.Base(plansFile), filepath.Base(markFile), cacheName, filepath.Base(tableFile(s.cache.kv.tables[0].number))}, keep...)
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("there is %q, want %q", got, want)
	}
}
