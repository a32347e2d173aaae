package fs

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
)

// A process that is killed at any call while it puts on record that the end of the journal
// is gone leaves a history that the next one takes up as if nobody had been killed.
func TestKilledWhileALossIsPutOnRecord(t *testing.T) {
	oneGoroutine(t)
	l := newLivedStore(t)
	l.seal(func() { l.submit(4) })
	l.submit(5)
	end := l.s.log.last.at.end
	commit(t, l.s, put(find(t, read(t, l.s), id(3)), func(st *kernel.State) { st.Reason = "lost" })) // what was on record of it is sealed
	if err := errors.Join(l.s.Close(), os.Truncate(filepath.Join(l.dir, vizierDir, plansFile), end)); err != nil {
		t.Fatal(err)
	}
	o := options()
	o.Program, o.Boot = "1.0", "boot-2"
	life := func(dir string, d disk) error {
		s := NewStore(dir, o)
		s.disk = d
		tx, err := s.Begin(t.Context())
		if err == nil {
			err = tx.Close()
		}
		return errors.Join(err, s.Close())
	}
	kinds := func(dir string) []string {
		t.Helper()
		v, err := newStoreWith(t, dir, o).VerifyHistory(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, f := range v.Findings {
			out = append(out, f.Kind+": "+f.Text)
		}
		return out
	}
	copied := func() string {
		t.Helper()
		to := t.TempDir()
		if err := os.CopyFS(to, os.DirFS(l.dir)); err != nil {
			t.Fatal(err)
		}
		return to
	}
	all, at := &faulty{}, copied()
	if err := life(at, all); err != nil {
		t.Fatal(err)
	}
	want := kinds(at)
	if len(want) == 0 || want[0] != FoundGap+": "+lostEntries(8).Text {
		t.Fatalf("the loss is not on record: %v", want)
	}
	for k := 1; k <= all.n; k++ {
		d, at := &faulty{at: k, dead: true}, copied()
		_ = life(at, d)
		if err := life(at, machine{}); err != nil {
			t.Errorf("killed at call %d of %d (%s): %v", k, all.n, d.where, err)
		}
		if got := kinds(at); !slices.Equal(got, want) {
			t.Errorf("killed at call %d of %d (%s): %q, want %q", k, all.n, d.where, got, want)
		}
	}
}
