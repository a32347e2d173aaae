package fs

import (
	"fmt"
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Whichever read of its files fails, the cache follows a change or says that it did not, so
// that it is made anew.
func TestWhicheverReadFailsTheCacheFollowsAChange(t *testing.T) {
	oneGoroutine(t)
	dir := t.TempDir()
	s := newStore(t, dir)
	tok, other := custom("t", "k"), custom("t", "other")
	consumer := plain(700)
	consumer.Spec.Origin.Run, consumer.Spec.Needs = "r", []kernel.Artifact{tok, other}
	producer := plain(701)
	producer.Spec.Origin.Run, producer.Spec.Produces = "r", []kernel.Artifact{tok}
	ended := plain(702)
	ended.State.Status, ended.State.Finished = kernel.Succeeded, t0
	jobs := []kernel.Action{kernel.Create(consumer), kernel.Create(producer), kernel.Create(ended)}
	for n := range 600 { // the files have more blocks than the cache keeps in memory
		j := plain(n + 1)
		j.Spec.Origin.Run = kernel.RunID(fmt.Sprintf("%c%d", 'a'+n%26, n))
		j.Spec.Needs, j.Spec.Produces = []kernel.Artifact{tok, other}, []kernel.Artifact{custom("made", "m"), tok}
		jobs = append(jobs, kernel.Create(j))
	}
	commit(t, s, jobs...)
	tx := begin(t, s)
	load(t, tx)
	if err := s.saveCache(); err != nil {
		t.Fatal(err)
	}
	closeTx(t, tx)

	with := func(j kernel.Job, change func(*kernel.Job)) cachedJob {
		change(&j)
		return cachedJob{job: &j}
	}
	for name, change := range map[string]func(c *cache) error{
		"a job of a new status": func(c *cache) error {
			return c.put(with(plain(3), func(j *kernel.Job) { j.State.Status = kernel.Failed }), true)
		},
		"a job that ended": func(c *cache) error {
			return c.put(with(ended, func(j *kernel.Job) { j.State.Finished = t0.Add(1) }), false)
		},
		"a producer for what a job of the run needs": func(c *cache) error {
			return c.put(with(plain(800), func(j *kernel.Job) { j.Spec.Origin.Run, j.Spec.Produces = "r", []kernel.Artifact{other} }), true)
		},
		"no producer any more": func(c *cache) error { return c.remove(producer.ID) },
		"another consumer": func(c *cache) error {
			return c.put(with(plain(801), func(j *kernel.Job) { j.Spec.Origin.Run, j.Spec.Needs = "r", []kernel.Artifact{tok} }), true)
		},
		"a consumer that ended": func(c *cache) error {
			return c.put(with(consumer, func(j *kernel.Job) { j.State.Status = kernel.Succeeded }), true)
		},
		"a job that is packed": func(c *cache) error { return c.packed(ended.ID, fileStamp{}) },
		"a job that was never": func(c *cache) error { return c.remove(id(900)) },
		"what a tick judged": func(c *cache) error {
			return c.judge("limits", map[kernel.Near]string{{Kind: kernel.Readers, Key: "main"}: "x"})
		},
	} {
		follow := func(fails int) (_ map[string]string, calls int, where string, _ error) {
			s, d := newStore(t, dir), &faulty{}
			s.disk = d
			if err := s.open(false); err != nil {
				t.Fatal(err)
			}
			c, err := openCache(*s.base, s.opts.Boot)
			if err != nil {
				t.Fatal(err)
			}
			defer c.kv.close()
			begun := d.n
			if fails > 0 {
				d.at = begun + fails
			}
			err = change(c)
			calls, d.at = d.n-begun, 0
			all := map[string]string{}
			if err := c.kv.each("", func(key string, value []byte) bool { all[key] = string(value); return true }); err != nil {
				t.Fatal(err)
			}
			return all, calls, d.where, err
		}
		want, n, _, err := follow(0)
		if err != nil || n == 0 {
			t.Fatalf("%s: %d reads, %v", name, n, err)
		}
		for k := 1; k <= n; k++ {
			if got, _, where, err := follow(k); err == nil && !maps.Equal(got, want) {
				t.Errorf("%s: %s fails, call %d of %d, and nobody hears of it:\n%s", name, where, k, n, cmp.Diff(want, got))
			}
		}
	}
}

// A transaction that has read nothing else since asks no file what others wrote to the cache:
// nobody does, while it holds the lock.
func TestATransactionLooksOnceForWhatOthersWrote(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, dir)
	commit(t, s, kernel.Create(plain(1)))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s, d := newStore(t, dir), &faulty{}
	s.disk = d
	tx := begin(t, s)
	defer closeTx(t, tx)
	scope := kernel.Scope{Near: []kernel.Near{{Kind: kernel.Itself, Job: id(1)}}}
	calls := func() int {
		before := d.n
		if _, err := tx.Load(scope); err != nil {
			t.Fatal(err)
		}
		return d.n - before
	}
	if first, second := calls(), calls(); first == 0 || second != 0 {
		t.Errorf("%d calls of the disk, and then %d", first, second)
	}
}
