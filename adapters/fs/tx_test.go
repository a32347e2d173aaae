package fs

import (
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
