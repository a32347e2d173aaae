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

	"github.com/google/go-cmp/cmp"

	"github.com/vizier-scheduler/vizier/internal/disktest"
	"github.com/vizier-scheduler/vizier/kernel"
)

// obstruct puts something in the way of path, and returns how to clear it.
func obstruct(t *testing.T, path string, put func() error) (clear func()) {
	t.Helper()
	aside := filepath.Join(t.TempDir(), "aside")
	if err := os.Rename(path, aside); err != nil && !errors.Is(err, iofs.ErrNotExist) {
		t.Fatal(err)
	}
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), put()); err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(aside, path); err != nil && !errors.Is(err, iofs.ErrNotExist) {
			t.Fatal(err)
		}
	}
}

// obstacles returns ways to obstruct one job's files.
func obstacles(s *Store, id kernel.JobID) map[string]func(t *testing.T) (clear func()) {
	file := func(path string) func(t *testing.T) func() {
		return func(t *testing.T) func() {
			return obstruct(t, path, func() error { return os.WriteFile(path, []byte("in the way"), 0o600) })
		}
	}
	directory := func(path string) func(t *testing.T) func() {
		return func(t *testing.T) func() {
			return obstruct(t, path, func() error { return os.MkdirAll(filepath.Join(path, "in the way"), 0o700) })
		}
	}
	return map[string]func(t *testing.T) func(){
		"a file as its directory":   file(s.JobDir(id)),
		"a directory as its record": directory(s.RecordFile(id)),
		"a directory as its state":  directory(filepath.Join(s.JobDir(id), stateName)),
		"a link as its directory": func(t *testing.T) func() {
			path, to := s.JobDir(id), t.TempDir()
			return obstruct(t, path, func() error { return os.Symlink(to, path) })
		},
	}
}

// A committed change of one job that cannot be written holds up only that job, with a
// reason that names the path. It is written when the way is clear.
func TestAChangeThatCannotBeWrittenHoldsUpItsJobAlone(t *testing.T) {
	oneGoroutine(t)
	base := t.TempDir()
	makeBase(t, base)
	want := whole(t, base, bigPlan())
	for _, n := range []int{1, 2, 4, 5} {
		for name := range obstacles(NewStore("", options()), id(n)) {
			t.Run(string(id(n)[31:])+", "+name, func(t *testing.T) {
				dir := t.TempDir()
				copyTree(t, base, dir)
				crashIn(t, dir, bigPlan(), 0)
				clear := obstacles(NewStore(dir, options()), id(n))[name](t)
				s := newStore(t, dir)
				tx := begin(t, s)
				if d := cmp.Diff(world(1), tx.Unfinished()); d != "" {
					t.Errorf("unfinished:\n%s", d)
				}
				rec := load(t, tx)
				if exists(file(dir, quarantineFile)) {
					quarantined(t, dir, rec, n)
					if err := tx.Commit(kernel.NewPlan(over(n))); !errors.Is(err, kernel.ErrConflict) {
						t.Errorf("a plan over a record that is not written: %v", err)
					}
				}
				if err := tx.Commit(kernel.NewPlan(kernel.Create(plain(7)))); err != nil {
					t.Fatal(err)
				}
				if err := tx.Done(); err != nil {
					t.Fatal(err)
				}
				closeTx(t, tx)
				forceCheckpoint(t, dir) // the journal forgets it
				held := exists(file(dir, quarantineFile))
				for _, boot := range []string{"boot-1", "boot-2"} {
					o := options()
					o.Boot = boot
					for range 2 {
						rec = read(t, newStoreWith(t, dir, o))
						if held {
							quarantined(t, dir, rec, n)
						}
					}
				}
				clear()
				o := options()
				o.Boot, o.Durable = "boot-2", true
				s = newStoreWith(t, dir, o)
				rec = read(t, s)
				if len(rec.Unreadable) > 0 || len(rec.Jobs) != 5 {
					t.Errorf("%d jobs, unreadable %v", len(rec.Jobs), rec.Unreadable)
				}
				commit(t, s, kernel.RemoveJob{Job: id(7)})
				if d := cmp.Diff(want, tree(t, dir)); d != "" {
					t.Errorf("once the way is clear:\n%s", d)
				}
			})
		}
	}
}

// over returns a change to the record of job n as the journal has it.
func over(n int) kernel.Action {
	j := plain(n)
	j.Rev = 2
	return put(j, func(st *kernel.State) { st.Reason = "over it" })
}

// quarantined asserts that job n is unreadable, with its path, and no other is.
func quarantined(t *testing.T, dir string, rec kernel.Records, n int) {
	t.Helper()
	why := rec.Unreadable[id(n)]
	if len(rec.Unreadable) != 1 || !strings.Contains(why, file(dir, "jobs", string(id(n)))) || !strings.Contains(why, "cannot be written") {
		t.Errorf("unreadable: %v", rec.Unreadable)
	}
	if slices.ContainsFunc(rec.Jobs, func(j kernel.Job) bool { return j.ID == id(n) }) {
		t.Errorf("job %d is there all the same", n)
	}
}

// A manifest that cannot be written makes a job of its run unreadable, with the reason.
func TestAManifestThatCannotBeWrittenIsTold(t *testing.T) {
	dir := t.TempDir()
	closeTx(t, begin(t, newStore(t, dir)))
	run := kernel.RunID("run_" + id(9))
	crashIn(t, dir, kernel.NewPlan(kernel.CreateRun{Run: run, Manifest: []byte("{}")}, kernel.Create(plain(1)), kernel.Create(plain(2))), 0)
	writeAt(t, file(dir, runsDir), "in the way")
	s := newStore(t, dir)
	rec := read(t, s)
	if why := rec.Unreadable[id(1)]; !strings.Contains(why, file(dir, runsDir)+": ") || len(rec.Jobs) != 1 {
		t.Errorf("%d jobs, unreadable %v", len(rec.Jobs), rec.Unreadable)
	}
	if err := os.Remove(file(dir, runsDir)); err != nil {
		t.Fatal(err)
	}
	if rec := read(t, s); len(rec.Jobs) != 2 || exists(file(dir, quarantineFile)) {
		t.Errorf("%d jobs, unreadable %v", len(rec.Jobs), rec.Unreadable)
	}
	if m, err := s.Run(run); string(m) != "{}" || err != nil {
		t.Errorf("manifest %q: %v", m, err)
	}
}

// An error of the whole store, such as a full disk, holds up no job in particular.
func TestAFullDiskHoldsNothing(t *testing.T) {
	dir := disktest.Small(t, 4<<20)
	makeBase(t, dir)
	crashIn(t, dir, bigPlan(), 0)
	filler := filepath.Join(dir, "filler")
	fill(t, filler, 0)
	s := newStore(t, dir)
	if tx, err := s.Begin(context.Background()); err == nil {
		t.Error("began on a full disk with something to write")
		closeTx(t, tx)
	}
	for _, s := range []*Store{s, newStore(t, dir)} { // what was committed is there to be read
		rec := read(t, s)
		if j := find(t, rec, id(1)); j.State.Reason != "started" || j.Rev != 2 || len(rec.Jobs) != 4 || len(rec.Unreadable) > 0 {
			t.Errorf("on a full disk: %d jobs, unreadable %v, job 1 is %+v", len(rec.Jobs), rec.Unreadable, j)
		}
		find(t, rec, id(5))
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	if rec := read(t, s); len(rec.Unreadable) > 0 || len(rec.Jobs) != 4 || exists(file(dir, quarantineFile)) {
		t.Errorf("%d jobs, unreadable %v", len(rec.Jobs), rec.Unreadable)
	}
}

// A damaged file of changes that wait to be written is neither believed nor overwritten.
func TestChangesThatWaitAndAreDamaged(t *testing.T) {
	oneGoroutine(t)
	dir := t.TempDir()
	makeBase(t, dir)
	crashIn(t, dir, bigPlan(), 0)
	obstacles(NewStore(dir, options()), id(1))["a directory as its record"](t)
	commit(t, newStore(t, dir), kernel.Create(plain(7)))
	forceCheckpoint(t, dir)
	name := file(dir, quarantineFile)
	good := contentOf(t, name)
	refused := func(what, bad string) {
		t.Helper()
		writeAt(t, name, bad)
		s := NewStore(dir, options())
		defer s.Close()
		tx, err := s.Begin(soon(t))
		if err == nil {
			_, err = tx.Load(kernel.Scope{All: true})
			closeTx(t, tx)
		}
		if err == nil || !strings.Contains(err.Error(), "changes that could not be written yet") {
			t.Errorf("%s: %v", what, err)
		}
		if contentOf(t, name) != bad {
			t.Errorf("%s: it was written over", what)
		}
	}
	for at := 0; at < len(good); at += 3 {
		b := []byte(good)
		b[at] ^= 1 << (at % 8)
		refused(fmt.Sprintf("byte %d changed", at), string(b))
	}
	for n := 0; n < len(good); n = n + 1 + n/5 {
		refused(fmt.Sprintf("cut at %d", n), good[:n])
	}
	writeAt(t, name, good)
	quarantined(t, dir, read(t, newStore(t, dir)), 1)
}

// A change that waits for a damaged pack names the pack.
func TestAChangeThatWaitsForAPack(t *testing.T) {
	_, s := packStore(t, options())
	packAll(t, s)
	record := []byte("{}")
	writeAt(t, s.PackFile(id(1)), "torn")
	tx := begin(t, s)
	if err := s.replayOrQuarantine(group{job: id(1), rev: 99, record: record}, ""); err != nil {
		t.Fatal(err)
	}
	if why := s.quarantineReason(id(1)); !strings.HasPrefix(why, s.PackFile(id(1))+": a change that was committed cannot be written: ") {
		t.Errorf("%q", why)
	}
	closeTx(t, tx)
}
