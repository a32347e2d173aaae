package fs

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vizier-scheduler/vizier/kernel"
)

// The first plan of a store, and the first after a checkpoint, begin the journal. A
// reader without a mark begins there too, and yet their actions must not be lost.
func TestCrashInTheFirstEntryKeepsItsActions(t *testing.T) {
	oneGoroutine(t)
	grown := t.TempDir()
	growJournal(t, grown)
	for name, base := range map[string]string{"empty store": "", "after a checkpoint": grown} {
		t.Run(name, func(t *testing.T) {
			for _, done := range []int{0, 1, 1000} {
				dir := t.TempDir()
				if base != "" {
					copyTree(t, base, dir)
					forceCheckpoint(t, dir)
				}
				crashIn(t, dir, kernel.Plan{Records: []kernel.RecordAction{kernel.Create(plain(1))}, World: world(1)}, done)
				for _, first := range []bool{true, false} {
					tx := begin(t, newStore(t, dir))
					if d := cmp.Diff(world(1), tx.Unfinished()); d != "" {
						t.Errorf("after %d operations, unfinished differ:\n%s", done, d)
					}
					if tx.Completed() != first {
						t.Errorf("after %d operations, the first to begin %v: completed %v", done, first, tx.Completed())
					}
					closeTx(t, tx)
				}
			}
		})
	}
}

// growJournal commits until the journal is due for a checkpoint.
func growJournal(t *testing.T, dir string) {
	t.Helper()
	s := newStore(t, dir)
	j := plain(9)
	commit(t, s, kernel.Create(j))
	for n := 0; journalSize(t, dir) <= checkpointSize; n++ {
		st := put(j, func(st *kernel.State) { st.Reason = fmt.Sprint(n) + strings.Repeat(" long", 20000) })
		commit(t, s, st)
		j.State, j.Rev = st.State, j.Rev+1
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func journalSize(t *testing.T, dir string) int64 {
	t.Helper()
	info, err := os.Stat(file(dir, plansFile))
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// forceCheckpoint leaves dir as a crash right after a checkpoint does.
func forceCheckpoint(t *testing.T, dir string) {
	t.Helper()
	s := newStore(t, dir)
	tx := begin(t, s)
	if _, err := s.log.checkpoint(tx.pos); err != nil {
		t.Fatal(err)
	}
	closeTx(t, tx)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestCheckpoint(t *testing.T) {
	oneGoroutine(t)
	for name, cut := range map[string]func(t *testing.T, dir string){
		"uninterrupted": func(*testing.T, string) {},
		"crash between emptying and marking": func(t *testing.T, dir string) {
			if err := os.Truncate(file(dir, plansFile), 0); err != nil {
				t.Fatal(err)
			}
		},
		"crash after marking": forceCheckpoint,
		"mark lost as well":   func(t *testing.T, dir string) { forceCheckpoint(t, dir); spoilMark["lost"](t, file(dir, markFile)) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			growJournal(t, dir)
			before := tree(t, dir)
			cut(t, dir)
			s := newStore(t, dir)
			tx := begin(t, s)
			if d := cmp.Diff(before, tree(t, dir)); d != "" {
				t.Fatal(d)
			}
			load(t, tx)
			if err := tx.Commit(kernel.Plan{Records: []kernel.RecordAction{kernel.Create(plain(1))}, World: world(1)}); err != nil {
				t.Fatal(err)
			}
			closeTx(t, tx)
			if size := journalSize(t, dir); size == 0 || size > checkpointSize/2 {
				t.Errorf("the journal has %d bytes after a checkpoint and a commit", size)
			}
			s = newStore(t, dir)
			tx = begin(t, s)
			if d := cmp.Diff(world(1), tx.Unfinished()); d != "" {
				t.Error(d)
			}
			closeTx(t, tx)
			find(t, read(t, s), id(1))
			find(t, read(t, s), id(9))
		})
	}
}

// The journal keeps the actions of a plan until they are done, whatever its size.
func TestNoCheckpointBeforeDone(t *testing.T) {
	oneGoroutine(t)
	dir := t.TempDir()
	growJournal(t, dir)
	s := newStore(t, dir)
	tx := begin(t, s)
	load(t, tx)
	for n := 1; n <= 2; n++ {
		if err := tx.Commit(kernel.Plan{Records: []kernel.RecordAction{kernel.Create(plain(n))}, World: world(n)}); err != nil {
			t.Fatal(err)
		}
		closeTx(t, tx)
		tx = begin(t, newStore(t, dir))
		if d := cmp.Diff(world(n), tx.Unfinished()); d != "" {
			t.Fatal(d)
		}
		load(t, tx)
	}
	closeTx(t, tx)
}

// A new boot ended every process, so actions that start, stop or sweep are done.
// Actions on files and branches stay unfinished for every later transaction until Done.
func TestActionsAfterAnotherBoot(t *testing.T) {
	dir := t.TempDir()
	tx := begin(t, newStore(t, dir))
	load(t, tx)
	if err := tx.Commit(kernel.Plan{Records: []kernel.RecordAction{kernel.Create(plain(1))}, World: world(1)}); err != nil {
		t.Fatal(err)
	}
	closeTx(t, tx)
	o := options()
	o.Boot = "boot-2"
	for n := range 3 {
		tx := begin(t, newStoreWith(t, dir, o))
		if d := cmp.Diff(world(1)[3:], tx.Unfinished()); d != "" {
			t.Errorf("transaction %d after the boot:\n%s", n, d)
		}
		closeTx(t, tx)
	}
}

// A power failure may lose any file that was written since the last sync, also the
// marker of a job whose record survived. The journal brings it back.
func TestAPowerFailureLosesNoCommittedMarker(t *testing.T) {
	dir := t.TempDir()
	o := options()
	o.Durable = true
	s := newStoreWith(t, dir, o)
	art := custom("t", "k")
	j, other := plain(1), plain(2)
	j.Spec.Produces, other.Spec.Produces = []kernel.Artifact{art}, []kernel.Artifact{art}
	commit(t, s, kernel.Create(j), kernel.Create(other))
	publish := func(n int) kernel.Action {
		return kernel.Publish{Attempt: kernel.AttemptID{Job: id(n), N: 1}, Artifacts: []kernel.Artifact{art}}
	}
	end := func(st *kernel.State) { st.Status = kernel.Succeeded }
	commit(t, s, publish(1), put(j, end), publish(2), put(other, end))
	other.Rev, other.State.Status = 2, kernel.Succeeded
	commit(t, s, kernel.Reset{Attempt: kernel.AttemptID{Job: id(2)}, Produces: other.Spec.Produces}, put(other, func(st *kernel.State) { st.Status = kernel.Queued }))
	want := tree(t, dir)

	lost := file(dir, artifactFile(markersDir, art, id(1)))
	if err := errors.Join(os.Remove(lost), os.Remove(file(dir, "jobs", string(id(1)), "state")), os.Truncate(s.RecordFile(id(2)), 0)); err != nil {
		t.Fatal(err)
	}
	writeAt(t, file(dir, artifactFile(markersDir, art, id(2))), "came back")
	o.Boot = "boot-2"
	closeTx(t, begin(t, newStoreWith(t, dir, o)))
	if d := cmp.Diff(want, tree(t, dir)); d != "" {
		t.Error(d)
	}
}

// Files that a later attempt wrote outside the journal stay, however often the
// journal is replayed.
func TestReplayTakesNothingLaterAway(t *testing.T) {
	dir := t.TempDir()
	makeBase(t, dir)
	s := newStore(t, dir)
	commit(t, s, bigPlan().Actions()...) // resets job 2
	job := find(t, read(t, s), id(2))
	commit(t, s, put(job, func(st *kernel.State) { st.Status, st.Attempt = kernel.Running, 3 }))
	for _, name := range []string{"outcome.json", "stdout.log", "command.patch"} {
		writeAt(t, file(dir, "jobs", string(id(2)), name), "of attempt 3")
	}
	if err := os.Remove(file(dir, "jobs", string(id(2)), "stdout.2.log")); err != nil { // retention
		t.Fatal(err)
	}
	payload := file(dir, artifactFile(payloadsDir, custom("t", "2"), id(2)))
	writeAt(t, payload, "of attempt 3")
	want := tree(t, dir)
	o := options()
	o.Boot = "boot-2"
	closeTx(t, begin(t, newStoreWith(t, dir, o)))
	if d := cmp.Diff(want, tree(t, dir)); d != "" {
		t.Error(d)
	}
}

// Reads see everything that was committed, also changes that a crash left only in the
// journal.
func TestReadAndJobAfterACrash(t *testing.T) {
	dir := t.TempDir()
	makeBase(t, dir)
	crashIn(t, dir, bigPlan(), 0)
	rec := read(t, newStore(t, dir))
	if got := find(t, rec, id(1)); got.State.Reason != "started" || got.Rev != 2 {
		t.Errorf("job 1 is %+v", got.State)
	}
	find(t, rec, id(5))
	if len(rec.Jobs) != 4 || len(rec.Unreadable) != 0 {
		t.Errorf("%d jobs, unreadable %v", len(rec.Jobs), rec.Unreadable)
	}
	tx := begin(t, newStore(t, dir)) // the read did the writing, not the actions
	if d := cmp.Diff(world(1), tx.Unfinished()); d != "" {
		t.Error(d)
	}
	closeTx(t, tx)
}

func TestBootsWithoutNameAndWithSpaces(t *testing.T) {
	for _, boot := range []string{"", "a b", "%d 1 2"} {
		o := options()
		o.Boot = boot
		dir := t.TempDir()
		tx := begin(t, newStoreWith(t, dir, o))
		load(t, tx)
		if err := tx.Commit(kernel.Plan{Records: []kernel.RecordAction{kernel.Create(plain(1))}, World: world(1)}); err != nil {
			t.Fatal(err)
		}
		closeTx(t, tx)
		tx = begin(t, newStoreWith(t, dir, o))
		if d := cmp.Diff(world(1), tx.Unfinished()); d != "" {
			t.Errorf("boot %q:\n%s", boot, d)
		}
		closeTx(t, tx)
	}
}
