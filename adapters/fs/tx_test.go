package fs

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
)

// A transaction reads the last number once, and anew after a commit that gives a number.
func TestATransactionSeesTheNumbersItGave(t *testing.T) {
	s := newStore(t, t.TempDir())
	tx := begin(t, s)
	defer closeTx(t, tx)
	scope := kernel.Scope{Near: []kernel.Near{{Kind: kernel.Itself, Job: id(1)}}}
	for n := range 3 {
		for range 2 {
			rec, err := tx.Load(scope)
			if err != nil {
				t.Fatal(err)
			}
			if rec.Last != kernel.Number(n) {
				t.Errorf("after %d numbers the last is %d", n, rec.Last)
			}
		}
		j := plain(n + 1)
		j.Number = kernel.Number(n + 1)
		if err := tx.Commit(kernel.Plan{Records: []kernel.RecordAction{kernel.Create(j)}}); err != nil {
			t.Fatal(err)
		}
		if _, is := s.cache.kv.memtable.values[keyEntry+string(id(n+1))]; !is {
			t.Errorf("job %d is not in the cache", n+1)
		}
	}
}

// The file with the last number may be damaged, or be behind the records, as after a restore: then these tell, and
// no number on record is given again.
func TestANumberThatMakesNoSense(t *testing.T) {
	s := newStore(t, t.TempDir())
	tx := begin(t, s)
	j := plain(1)
	j.Number = 3
	err := tx.Commit(kernel.Plan{Records: []kernel.RecordAction{kernel.Create(j)}})
	closeTx(t, tx)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(s.JobDir(""), "number")
	for what, c := range map[string]struct {
		put        func() error
		unnumbered bool
	}{
		"as it was":          {func() error { return os.WriteFile(path, []byte("3\n"), 0o600) }, false},
		"behind":             {func() error { return os.WriteFile(path, []byte("2\n"), 0o600) }, true},
		"too large a number": {func() error { return os.WriteFile(path, []byte("18446744073709551615\n"), 0o600) }, true},
		"too large a file":   {func() error { return os.WriteFile(path, make([]byte, 100), 0o600) }, true},
		"text":               {func() error { return os.WriteFile(path, []byte("abc\n"), 0o600) }, true},
		"none":               {func() error { return nil }, true},
	} {
		if err := errors.Join(os.RemoveAll(path), c.put()); err != nil {
			t.Fatal(err)
		}
		rec, err := s.Read(t.Context(), kernel.Scope{All: true})
		if err != nil || rec.Unnumbered != c.unnumbered || rec.Last > 3 {
			t.Errorf("%s: the last number is %d, unnumbered %v: %v", what, rec.Last, rec.Unnumbered, err)
		}
	}
}
