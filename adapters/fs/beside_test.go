package fs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gofrs/flock"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/vizier-scheduler/vizier/kernel"
)

// A read does not wait for a process that is stopped while it holds the lock, wherever in a
// commit that is: it sees what is committed, says whose lock it passed, and changes nothing.
func TestAReadPassesALockThatIsNotLetGo(t *testing.T) {
	for n := 0; ; n++ {
		dir, copied := t.TempDir(), t.TempDir()
		makeBase(t, dir)
		more := crashIn(t, dir, bigPlan(), n)
		copyTree(t, dir, copied)
		want := read(t, newStore(t, copied))

		held := stopped(t, dir)
		s := newStore(t, dir)
		s.patience = time.Millisecond
		before := tree(t, dir)
		got := read(t, s)
		if d := diff(want.Jobs, got.Jobs); d != "" || len(got.Unreadable) > 0 || len(got.Jobs) != 4 {
			t.Errorf("after %d operations: %v\n%s", n, got.Unreadable, d)
		}
		if d := cmp.Diff(before, tree(t, dir)); d != "" {
			t.Errorf("after %d operations the read changed files:\n%s", n, d)
		}
		if p := s.Passed(); p == nil || !strings.HasSuffix(p.Holder, "vizier 4711") {
			t.Errorf("it passed the lock of %v", p)
		}
		if p, err := s.history(soon(t), false); err != nil || len(p.journal) == 0 {
			t.Errorf("the history beside the lock: %v, %d bytes", err, len(p.journal))
		}
		_, err := s.history(soon(t), true) // the files lack what the holder has committed
		mustBeBusy(t, err)
		_, _, err = s.Validate(soon(t))
		mustBeBusy(t, err)
		if err := held.Unlock(); err != nil {
			t.Fatal(err)
		}
		s.patience = time.Minute
		read(t, s)
		if p := s.Passed(); p != nil {
			t.Errorf("a read that had the lock passed that of %v", p)
		}
		if !more {
			return
		}
	}
}

// stopped takes the scheduler lock of the store in dir, as vizier 4711.
func stopped(t *testing.T, dir string) *flock.Flock {
	t.Helper()
	path := filepath.Join(dir, vizierDir, lockFile)
	held := flock.New(path)
	if ok, err := held.TryLock(); !ok || err != nil {
		t.Fatal(ok, err)
	}
	t.Cleanup(func() { _ = held.Unlock() })
	writeAt(t, path, fmt.Sprintf("pid %d, vizier 4711\n", os.Getpid()))
	return held
}

// Also looks at all files, and at the history, go on beside a lock whose holder has written everything.
func TestLooksPassALockThatIsNotLetGo(t *testing.T) {
	dir := t.TempDir()
	makeBase(t, dir)
	for _, n := range []int{2, 3} { // no outcomes are in there
		if err := os.Remove(file(dir, "jobs", string(id(n)), "outcome.json")); err != nil {
			t.Fatal(err)
		}
	}
	stopped(t, dir)
	s := newStore(t, dir)
	s.patience = time.Millisecond
	if problems, n, err := s.Validate(soon(t)); err != nil || n != 4 || len(problems) > 0 {
		t.Errorf("%d records, %v, %v", n, problems, err)
	}
	if p, err := s.history(soon(t), true); err != nil || len(p.records) != 4 || len(p.odd) > 0 || len(p.journal) == 0 {
		t.Errorf("%d records, %v, %d bytes of the journal, %v", len(p.records), p.odd, len(p.journal), err)
	}
	if s.Passed() == nil {
		t.Error("it passed no lock")
	}
}

// Whichever open or read of a file fails beside such a lock, the answer is right or there is an error.
func TestWhicheverReadFailsBesideALockAnAnswerSaysSo(t *testing.T) {
	dir := t.TempDir()
	makeBase(t, dir)
	stopped(t, dir)
	ask := func(ctx context.Context, d *faulty) (kernel.Records, error) {
		s := newStore(t, dir)
		s.disk, s.patience = d, 0
		rec, err := s.Read(ctx, kernel.Scope{All: true})
		return rec, errors.Join(err, s.Close())
	}
	whole := &faulty{}
	want, err := ask(soon(t), whole)
	if err != nil || len(want.Jobs) != 4 {
		t.Fatalf("%d jobs, %v", len(want.Jobs), err)
	}
	for k := 1; k <= whole.n; k++ {
		d := &faulty{at: k}
		got, err := ask(soon(t), d) // it does not wait for the holder, who is not to blame
		switch {
		case err == nil && len(got.Unreadable) == 0 && diff(want.Jobs, got.Jobs) != "":
			t.Errorf("%s fails, and nobody hears of it:\n%s", d.where, diff(want.Jobs, got.Jobs))
		case err != nil && !errors.Is(err, unix.EIO):
			t.Errorf("%s fails: %v", d.where, err)
		}
	}
}

// Reads that pass the lock of a process that goes on writing see each commit whole or not
// at all, in their order.
func TestReadsThatPassALockSeeWholeCommits(t *testing.T) {
	const commits = 150
	dir := t.TempDir()
	s := newStore(t, dir)
	s.opts.Durable = false
	commit(t, s, kernel.Create(plain(1)), kernel.Create(plain(2)))
	s.log.limit = 4 << 10 // so that the journal is emptied often
	var over atomic.Bool
	var readers sync.WaitGroup
	var passed atomic.Int32
	for range 2 {
		r := newStore(t, dir)
		r.patience = 0
		readers.Go(func() {
			last := kernel.Revision(0)
			for !over.Load() || passed.Load() == 0 {
				rec, err := r.Read(t.Context(), kernel.Scope{All: true})
				if err != nil || len(rec.Jobs) != 2 || rec.Jobs[0].Rev != rec.Jobs[1].Rev || rec.Jobs[0].Rev < last {
					t.Errorf("after revision %d: %v, %d jobs, %v", last, err, len(rec.Jobs), revisions(rec))
					return
				}
				if last = rec.Jobs[0].Rev; r.Passed() != nil {
					passed.Add(1)
				}
			}
		})
	}
	for rev := kernel.Revision(1); rev <= commits || passed.Load() == 0 && !t.Failed(); rev++ {
		tx := begin(t, s)
		rec := load(t, tx)
		if err := tx.Commit(kernel.NewPlan(put(rec.Jobs[0], saying(rev)), put(rec.Jobs[1], saying(rev)))); err != nil {
			t.Fatal(err)
		}
		if err := tx.Done(); err != nil {
			t.Fatal(err)
		}
		closeTx(t, tx)
	}
	over.Store(true)
	readers.Wait()
	t.Logf("%d reads passed the lock", passed.Load())
}

func saying(rev kernel.Revision) func(*kernel.State) {
	return func(st *kernel.State) { st.Reason = fmt.Sprint(rev) }
}

func revisions(rec kernel.Records) (out []kernel.Revision) {
	for _, j := range rec.Jobs {
		out = append(out, j.Rev)
	}
	return out
}
