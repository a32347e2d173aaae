package fs

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/vizier-scheduler/vizier/kernel"
)

// spread makes the cache anew, with changes, and saves it. Each value is so long that it has a block of its own, which the
// cache does not keep in memory: every look at one reads it. Nobody reads what follows a value.
func spread(t *testing.T, s *Store, change func(c *cache) error) {
	t.Helper()
	tx := begin(t, s)
	defer closeTx(t, tx)
	load(t, tx)
	if err := s.rebuildCache(s.cache.offset); err != nil {
		t.Fatal(err)
	}
	if err := change(s.cache); err != nil {
		t.Fatal(err)
	}
	for key, v := range s.cache.kv.memtable.values {
		if v != nil && !strings.Contains(keyJudged+keySeen+keyUnread, key[:1]) { // these values are texts
			s.cache.kv.memtable.put(keyValue{key, append(slices.Clip(v), make([]byte, 4*blockSize)...)})
		}
	}
	if err := s.saveCache(); err != nil {
		t.Fatal(err)
	}
}

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
	for n := range 6 {
		j := plain(n + 1)
		j.Number, j.Part = 1, fmt.Sprint(n)
		j.Spec.Origin.Run = kernel.RunID(fmt.Sprintf("%c%d", 'a'+n%26, n))
		j.Spec.Needs, j.Spec.Produces = []kernel.Artifact{tok, other}, []kernel.Artifact{custom("made", "m"), tok}
		jobs = append(jobs, kernel.Create(j))
	}
	commit(t, s, jobs...)
	spread(t, s, func(c *cache) error {
		c.set(keyPatrol, []byte(statusOf(&kernel.Job{ID: id(1), Created: t0})))
		return nil
	})
	writeAt(t, s.RecordFile(id(2)), contentOf(t, s.RecordFile(id(2)))+" ")
	writeAt(t, s.RecordFile(id(3)), strings.Replace(contentOf(t, s.RecordFile(id(3))), `"job 3"`, `"edited"`, 1))
	writeAt(t, s.RecordFile(id(950)), strings.ReplaceAll(contentOf(t, s.RecordFile(id(4))), string(id(4)), string(id(950))))
	writeAt(t, s.RecordFile(id(951)), "damaged")
	if err := os.RemoveAll(filepath.Dir(s.RecordFile(id(5)))); err != nil {
		t.Fatal(err)
	}

	with := func(j kernel.Job, change func(*kernel.Job)) cachedJob {
		change(&j)
		return cachedJob{job: &j}
	}
	for name, change := range map[string]func(_ *Store, c *cache) error{
		"a job of a new status": func(_ *Store, c *cache) error {
			return c.put(with(plain(3), func(j *kernel.Job) { j.State.Status = kernel.Failed }), true)
		},
		"a job that ended": func(_ *Store, c *cache) error {
			return c.put(with(ended, func(j *kernel.Job) { j.State.Finished = t0.Add(1) }), false)
		},
		"a producer for what a job of the run needs": func(_ *Store, c *cache) error {
			return c.put(with(plain(800), func(j *kernel.Job) { j.Spec.Origin.Run, j.Spec.Produces = "r", []kernel.Artifact{other} }), true)
		},
		"no producer any more": func(_ *Store, c *cache) error { return c.remove(producer.ID) },
		"another consumer": func(_ *Store, c *cache) error {
			return c.put(with(plain(801), func(j *kernel.Job) { j.Spec.Origin.Run, j.Spec.Needs = "r", []kernel.Artifact{tok} }), true)
		},
		"a consumer that ended": func(_ *Store, c *cache) error {
			return c.put(with(consumer, func(j *kernel.Job) { j.State.Status = kernel.Succeeded }), true)
		},
		"a job that is packed": func(_ *Store, c *cache) error { return c.packed(ended.ID, fileStamp{}) },
		"a job that was never": func(_ *Store, c *cache) error { return c.remove(id(900)) },
		"what a tick judged": func(_ *Store, c *cache) error {
			return c.judge("limits", map[kernel.Near]string{{Kind: kernel.Readers, Key: "main"}: "x"})
		},
		"what a tick judged that knows no facts": func(_ *Store, c *cache) error { return c.judge("limits", nil) },
		"a job that shares its number": func(_ *Store, c *cache) error {
			return c.put(with(plain(802), func(j *kernel.Job) { j.Number, j.Part = 1, "more" }), true)
		},
		"records that were edited":   func(s *Store, _ *cache) error { return s.patrol() },
		"records that came and went": func(s *Store, _ *cache) error { return s.reconcile() },
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
			defer s.dropCache()
			begun := d.n
			if fails > 0 {
				d.at = begun + fails
			}
			s.cache = c
			err = change(s, c)
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

// Whichever read of the cache fails, and whichever of its entries makes no sense, an answer from it is right, or it is an error.
func TestWhicheverReadFailsTheCacheAnswersOrSaysSo(t *testing.T) {
	oneGoroutine(t)
	dir := t.TempDir()
	s := newStore(t, dir)
	tok, patch := custom("t", "k"), kernel.Artifact{Kind: kernel.CommandPatch, Name: string(id(1))}
	var jobs []kernel.Action
	add := func(n int, change func(*kernel.Job)) {
		j := plain(n)
		j.Number, j.Part, j.Created = 1, fmt.Sprint(n), t0.Add(time.Duration(n))
		j.Spec.Origin = kernel.Origin{Run: "r", Branch: "draft/p"}
		change(&j)
		jobs = append(jobs, kernel.Create(j))
	}
	add(1, func(j *kernel.Job) {
		j.State.Status, j.State.Finished = kernel.Failed, t0
		j.Spec.Produces, j.Spec.IdempotencyKey = []kernel.Artifact{tok, {Kind: kernel.Custom, Name: kernel.StageToken, Ref: "s"}}, "k"
	})
	add(2, func(j *kernel.Job) {
		j.Spec.After, j.Spec.Needs, j.State.Status = []kernel.JobID{id(1), id(5)}, []kernel.Artifact{tok, patch, custom("t", "nobody's"), {Kind: kernel.Custom, Name: kernel.StageToken, Ref: "s"}}, kernel.WaitingOnDeps
	})
	add(3, func(j *kernel.Job) {
		j.State.Status, j.Spec.Locks = kernel.WaitingOnLocks, []kernel.Lock{{Key: "x"}, {Key: "x", Units: 1}}
	})
	add(4, func(j *kernel.Job) { j.State.Status = kernel.WaitingOnLocks })
	add(5, func(j *kernel.Job) { j.State.Status, j.State.Finished = kernel.Succeeded, t0.Add(time.Hour) })
	add(6, func(j *kernel.Job) {
		j.State.Status, j.State.Attempt, j.Spec.Routes = kernel.Running, 1, []kernel.Route{{To: id(7), On: kernel.OutcomeFailed}}
	})
	add(7, func(j *kernel.Job) { j.Spec.Origin.Run, j.State.Status, j.Part = "q", kernel.Succeeded, "" })
	add(8, func(j *kernel.Job) {
		j.Spec.Prompt, j.State.Status, j.State.Finished = &kernel.Prompt{File: "p"}, kernel.BlockedByDependency, t0
	})
	add(9, func(j *kernel.Job) {
		j.Spec.Origin.Run, j.State.Status, j.State.Finished, j.Spec.FailureMode, j.Spec.Routes = "other", kernel.Failed, t0, kernel.BlockDownstream, []kernel.Route{{To: id(4), On: kernel.OutcomeFailed}}
	})
	add(11, func(j *kernel.Job) {
		j.Spec.Origin = kernel.Origin{}
		j.State.Status, j.Spec.Needs = kernel.WaitingOnDeps, []kernel.Artifact{custom("t", "nobody's"), custom("t", "nor theirs"), custom("t", "there"), custom("t", strings.Repeat("long", 60))}
	})
	add(10, func(j *kernel.Job) { j.State.Status, j.State.RetryAt = kernel.Queued, t0 })
	commit(t, s, jobs...)
	var keys []string
	spread(t, s, func(c *cache) (err error) {
		if err := c.judge("limits", map[kernel.Near]string{{Kind: kernel.Readers, Artifact: custom("t", "nobody's")}: "seen"}); err != nil {
			return err
		}
		c.set(keyDirty+string(id(3)), []byte{})
		keys, err = c.keys("")
		return err
	})
	keys = slices.DeleteFunc(keys, func(key string) bool { return strings.Contains(keyJudged+keySeen+keyDirty+keyUnread, key[:1]) }) // these are taken as they are
	for _, ref := range []string{"there", strings.Repeat("long", 60), "nowhere"} {
		writeAt(t, file(dir, artifactFile(markersDir, custom("t", ref), id(1))), "")
	}
	writeAt(t, file(dir, typeDir(markersDir, "t"), "odd"), "")
	few := fewFacts
	ask := func(scope kernel.Scope, fails int, wrong func(*cache)) (kernel.Records, int, string, error) {
		s, d := newStore(t, dir), &faulty{only: cacheFile}
		s.disk, s.few = d, few
		if err := s.open(false); err != nil {
			t.Fatal(err)
		}
		c, err := openCache(*s.base, s.opts.Boot)
		if err != nil {
			t.Fatal(err)
		}
		if s.cache = c; wrong != nil {
			wrong(c)
		}
		if d.n = 0; fails > 0 {
			d.at = fails
		}
		rec, err := s.records(scope)
		calls := d.n
		d.at = 0
		slices.SortFunc(rec.Jobs, func(a, b kernel.Job) int { return strings.Compare(string(a.ID), string(b.ID)) })
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		return rec, calls, d.where, err
	}
	scopes := []kernel.Scope{{}, {All: true}, {Jobs: []kernel.JobID{id(5)}, Keys: []string{"k"}, Artifacts: []kernel.Artifact{tok}}, {Near: []kernel.Near{}, Tally: []kernel.Number{1}}, {Near: []kernel.Near{}, Reads: true},
		{Near: []kernel.Near{{Kind: kernel.Newest, Most: 9}}}, {Near: []kernel.Near{{Kind: kernel.OfNumber, Number: 1, Key: "3"}}},
		{Near: []kernel.Near{{Kind: kernel.Itself, Job: id(2)}, {Kind: kernel.Itself, Job: "odd"}}}}
	for _, n := range nearEverything() {
		scopes = append(scopes, kernel.Scope{Near: []kernel.Near{n}})
	}
	reads := 0
	for _, scope := range scopes {
		want, calls, _, err := ask(scope, 0, nil)
		if err != nil {
			t.Fatalf("%+v: %v", scope, err)
		}
		reads += calls
		for k := 1; k <= calls; k++ {
			if got, _, where, err := ask(scope, k, nil); err == nil {
				t.Errorf("%+v: %s fails, call %d of %d, and nobody hears of it:\n%.500s", scope, where, k, calls, cmp.Diff(want, got))
			}
		}
		for n := 1; n <= 10; n++ {
			got, _, _, err := ask(scope, 0, func(c *cache) { c.set(keyEntry+string(id(n)), []byte{0xff}) })
			if err == nil && !reflect.DeepEqual(got, want) {
				t.Errorf("%+v: the entry of job %d makes no sense, and nobody hears of it:\n%.500s", scope, n, cmp.Diff(want, got))
			}
		}
	}
	stoppers := kernel.Scope{Near: []kernel.Near{{Kind: kernel.Stoppers, Run: "r"}}}
	if _, _, _, err := ask(stoppers, 0, func(c *cache) { c.set(keyEntry+string(id(9)), nil) }); !errors.Is(err, errCache) {
		t.Errorf("a job that stops runs has no entry: %v", err)
	}
	for _, few = range []int{0, 3} { // facts are looked at one by one, or only those that may be there
		scope := kernel.Scope{Near: []kernel.Near{}, Reads: true}
		want, calls, _, err := ask(scope, 0, nil)
		if err != nil || !slices.Contains(want.Elided, "t") {
			t.Fatalf("%v: %v", want.Elided, err)
		}
		for k := 1; k <= calls; k++ {
			if got, _, where, err := ask(scope, k, nil); err == nil {
				t.Errorf("few are %d: %s fails, call %d of %d, and nobody hears of it:\n%.500s", few, where, k, calls, cmp.Diff(want, got))
			}
		}
	}
	for _, key := range keys {
		for _, scope := range []kernel.Scope{{All: true}, {Near: []kernel.Near{{Kind: kernel.Newest, Most: 9}}, Tally: []kernel.Number{1}}} {
			want, _, _, err := ask(scope, 0, nil)
			if err != nil {
				t.Fatal(err)
			}
			got, _, _, err := ask(scope, 0, func(c *cache) { c.set(key, []byte{0xff}) })
			if err == nil && !reflect.DeepEqual(got, want) {
				t.Errorf("%+v: the value of %q makes no sense, and nobody hears of it:\n%.500s", scope, key, cmp.Diff(want, got))
			}
		}
	}
	scope := kernel.Scope{Near: []kernel.Near{{Kind: kernel.Keyed, Key: "k"}}}
	want, _, _, err := ask(scope, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	unread := func(c *cache) { c.set(keyUnread+string(id(3)), []byte("it was damaged")) }
	mended, calls, _, err := ask(scope, 0, unread)
	if err != nil || !reflect.DeepEqual(mended.Jobs, want.Jobs) || len(mended.Unreadable) > 0 {
		t.Errorf("a record that can be read again: %v\n%.500s", err, cmp.Diff(want, mended))
	}
	for k := 1; k <= calls; k++ {
		if got, _, where, err := ask(scope, k, unread); err == nil && !reflect.DeepEqual(got, mended) {
			t.Errorf("a record that can be read again, and %s fails, call %d of %d:\n%.500s", where, k, calls, cmp.Diff(mended, got))
		}
	}
	if reads < 100 {
		t.Errorf("only %d reads", reads)
	}
}

// Whichever call of the disk fails while the cache is brought up to date, an answer is that of the records or an error, and
// the next one is that of the records.
func TestWhicheverCallOfTheDiskFailsTheCacheIsBroughtUpToDate(t *testing.T) {
	oneGoroutine(t)
	files := func(dir string) map[string]string {
		out := map[string]string{}
		for _, path := range caches(dir) {
			out[path] = contentOf(t, path)
		}
		return out
	}
	for _, name := range []string{"the log of the cache has it", "the journal has it", "the records have it"} {
		dir := t.TempDir()
		s := newStore(t, dir)
		commit(t, s, kernel.Create(plain(1)), kernel.Create(plain(2)), kernel.Create(plain(3)))
		old := files(dir)
		if len(old) < 2 {
			t.Fatalf("the cache is %v", caches(dir))
		}
		commit(t, s, put(plain(1), func(st *kernel.State) { st.Reason = "changed" }), kernel.RemoveJob{Job: id(2)})
		commit(t, s, kernel.Create(plain(4)))
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		have := map[string]map[string]string{"the log of the cache has it": files(dir), "the journal has it": old}[name]
		for k, calls := 0, 1; k <= 2*calls; k++ { // at first none fails
			for _, path := range caches(dir) {
				if err := os.Remove(path); err != nil {
					t.Fatal(err)
				}
			}
			for path, text := range have {
				writeAt(t, path, text)
			}
			s, d := newStore(t, dir), &faulty{at: (k + 1) / 2, is: unix.EIO}
			if k%2 == 0 && k > 0 { // this process has no files left
				d.is, d.dead = unix.EMFILE, true
			}
			s.disk = d
			look := func() (string, error) {
				rec, err := s.Read(soon(t), kernel.Scope{})
				slices.SortFunc(rec.Jobs, func(a, b kernel.Job) int { return strings.Compare(string(a.ID), string(b.ID)) })
				text := fmt.Sprint(len(rec.Unreadable))
				for _, j := range rec.Jobs {
					text += fmt.Sprintf(" %s %d %q", j.ID[31:], j.Rev, j.State.Reason)
				}
				return text, err
			}
			const want = `0 1 2 "changed" 3 1 "" 4 1 ""`
			got, err := look()
			if k == 0 {
				calls = d.n
			}
			if err == nil && got != want && (errors.Is(d.is, unix.EMFILE) || !strings.HasPrefix(got, "1 ")) || k == 0 && err != nil {
				t.Errorf("%s, %s fails: %s, %v", name, d.where, got, err)
			}
			d.at, d.dead = 0, false
			if got, err := look(); err != nil || got != want {
				t.Errorf("%s, and after %s failed: %s, %v", name, d.where, got, err)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// Whichever call of the disk fails, or the first of all that fail, a change leaves the fields of a record that the kernel does not know as they are.
func TestWhicheverCallOfTheDiskFailsUnknownFieldsStay(t *testing.T) {
	oneGoroutine(t)
	for k, calls := 0, 1; k <= 2*calls; k++ { // at first none fails
		dir := t.TempDir()
		s := newStore(t, dir)
		commit(t, s, kernel.Create(plain(1)))
		writeAt(t, s.RecordFile(id(1)), strings.Replace(contentOf(t, s.RecordFile(id(1))), "{", `{"of_the_future": [1, {"a": "b"}],`, 1))
		closeTx(t, begin(t, s))
		d := &faulty{}
		s.disk = d
		s.base.disk = d
		tx := begin(t, s)
		load(t, tx)
		begun := d.n
		if k > 0 {
			d.at, d.dead = begun+(k+1)/2, k%2 == 0
		}
		err := tx.Commit(kernel.NewPlan(put(plain(1), func(st *kernel.State) { st.Reason = "changed" })))
		if k == 0 {
			calls = d.n - begun
		}
		where := d.where
		d.at, d.dead = 0, false
		if err := errors.Join(tx.Close(), s.Close()); err != nil {
			t.Error(err)
		}
		closeTx(t, begin(t, newStore(t, dir))) // completes what is on record
		text := contentOf(t, s.RecordFile(id(1)))
		if changed := strings.Contains(text, `"changed"`); !strings.Contains(text, "of_the_future") || !changed && err == nil || k == 0 && err != nil {
			t.Errorf("%s fails: %v, and the record is\n%s", where, err, text)
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
