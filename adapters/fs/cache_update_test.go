package fs

import (
	"slices"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
)

// A damaged count of jobs costs only time, as all of the cache does.
func TestACountThatIsDamagedIsMadeAnew(t *testing.T) {
	s := newStore(t, t.TempDir())
	done := plain(1)
	done.State.Status = kernel.Succeeded
	commit(t, s, kernel.Create(done), kernel.Create(plain(2)))
	tx := begin(t, s)
	defer closeTx(t, tx)
	load(t, tx)
	s.cache.set(countKey(kernel.Succeeded), []byte{0x80})
	rec, err := tx.Load(kernel.Scope{})
	if err != nil || len(rec.Jobs) != 1 || rec.Succeeded != 1 {
		t.Errorf("%d jobs and %d more: %v", len(rec.Jobs), rec.Succeeded, err)
	}
}

// The log of the cache has the same changes in the same order, whenever they are made.
func TestTheOrderOfTheLogIsNotRandom(t *testing.T) {
	order := func() (keys []string) {
		c := &cache{kv: &kv{}}
		was, now := plain(1), plain(1)
		was.Number, was.Part, was.Spec.Needs = 1, "a", historyArtifacts
		was.State.Status = kernel.WaitingOnDeps
		now.Number, now.Part, now.State.Status = 1, "a", kernel.Running
		facts := map[kernel.Near]string{}
		for _, a := range historyArtifacts {
			facts[kernel.Near{Kind: kernel.Readers, Artifact: a}] = "judged"
		}
		for _, step := range []func() error{
			func() error { return c.replace(nil, &cachedJob{job: &was}, true) },
			func() error { return c.judge("limits", facts) },
			func() error { return c.replace(&cachedJob{job: &was}, &cachedJob{job: &now}, true) },
		} {
			if err := step(); err != nil {
				t.Fatal(err)
			}
		}
		for _, e := range c.unlogged {
			keys = append(keys, e.key)
		}
		return keys
	}
	first := order()
	for n := range 30 {
		if again := order(); !slices.Equal(again, first) {
			t.Fatalf("%d: %q, and before %q", n, again, first)
		}
	}
}
