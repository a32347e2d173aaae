package fs

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vizier-scheduler/vizier/internal/drawtest"
	"github.com/vizier-scheduler/vizier/kernel"
)

// past is a store with a random past, and a model of its records.
type past struct {
	t    *testing.T
	r    *rand.Rand
	dir  string
	next int
	jobs map[kernel.JobID]kernel.Job

	between func() // what happens between a load and its commit
}

var historyArtifacts = []kernel.Artifact{custom("t", "a"), custom("t", "b"), {Kind: kernel.PlanDoc, Name: "p", Ref: "draft/p"}}

// step commits a small random plan through s. Before that somebody may edit a record by hand.
func (h *past) step(s *Store) {
	if h.r.IntN(4) == 0 {
		h.edit()
	}
	var plan []kernel.Action
	touched := map[kernel.JobID]bool{}
	for range 1 + h.r.IntN(4) {
		if len(h.jobs) < 5 || h.r.IntN(4) == 0 {
			h.next++
			j := h.job()
			plan = append(plan, kernel.Create(j))
			h.jobs[j.ID], touched[j.ID] = j, true
			continue
		}
		j := h.any()
		if touched[j.ID] {
			continue
		}
		touched[j.ID] = true
		if h.r.IntN(12) == 0 && j.State.Status.Terminal() {
			plan = append(plan, kernel.RemoveJob{Job: j.ID, Produces: j.Spec.Produces})
			delete(h.jobs, j.ID)
			continue
		}
		a := put(j, func(st *kernel.State) {
			st.Status = kernel.Succeeded
			if h.r.IntN(3) == 0 {
				st.Status = kernel.Statuses()[h.r.IntN(len(kernel.Statuses()))]
			}
			st.Reason = fmt.Sprint(h.r.IntN(1000)) + strings.Repeat(" padding", h.r.IntN(2000))
		})
		plan = append(plan, a)
		j.State, j.Rev = a.State, j.Rev+1
		h.jobs[j.ID] = j
	}
	tx := begin(h.t, s)
	if h.r.IntN(2) == 0 {
		load(h.t, tx)
	} else if _, err := tx.Load(kernel.Scope{Jobs: []kernel.JobID{h.any().ID}}); err != nil {
		h.t.Fatal(err)
	}
	if h.between != nil {
		h.between()
	}
	if err := tx.Commit(kernel.NewPlan(plan...)); err != nil {
		h.t.Fatal(err)
	}
	closeTx(h.t, tx)
}

func (h *past) job() kernel.Job {
	j := plain(h.next)
	h.specify(&j)
	return j
}

// specify draws what the cache has keys for, but not the job's state.
func (h *past) specify(j *kernel.Job) {
	name := j.Spec.Name
	j.Created = t0.Add(time.Duration(h.r.IntN(3)) * time.Minute)
	j.Spec, j.Number, j.Part = plain(0).Spec, 0, ""
	j.Spec.Name = name
	if h.r.IntN(4) == 0 {
		j.Spec.IdempotencyKey = fmt.Sprint("key ", h.r.IntN(3))
	}
	if h.r.IntN(2) == 0 {
		j.Spec.Origin.Run = kernel.RunID(fmt.Sprint("run ", h.r.IntN(3)))
		j.Number, j.Part = kernel.Number(1+h.r.IntN(2)), strings.TrimLeft(string(j.ID), "0")
	}
	if h.r.IntN(4) == 0 {
		j.Spec.Origin.Branch = fmt.Sprint("branch ", h.r.IntN(2))
	}
	if h.r.IntN(4) == 0 {
		j.Spec.Locks = []kernel.Lock{{Key: fmt.Sprint("lock ", h.r.IntN(2)), Units: h.r.IntN(2)}}
	}
	if h.r.IntN(4) == 0 {
		j.Spec.Preconditions = []kernel.Precondition{{Kind: kernel.BranchExists, Branch: fmt.Sprint("branch ", h.r.IntN(2))}}
	}
	if h.r.IntN(4) == 0 {
		j.Spec.MissingProducer = kernel.Wait
	}
	for n := range 2 {
		if len(h.jobs) > 0 && h.r.IntN(2) == 0 {
			j.Spec.After = append(j.Spec.After, h.any().ID)
		}
		if h.r.IntN(4) == 0 {
			j.Spec.Needs = append(j.Spec.Needs, historyArtifacts[h.r.IntN(3)])
		}
		if n == 0 && h.r.IntN(3) == 0 {
			j.Spec.Produces = []kernel.Artifact{historyArtifacts[h.r.IntN(3)]}
		}
	}
}

// edit changes by hand what a job is. Of one that has succeeded, only who reads it notices.
func (h *past) edit() {
	h.t.Helper()
	j := h.any()
	path := NewLayout(h.dir).RecordFile(j.ID)
	if j.ID == "" || j.State.Status == kernel.Succeeded || !exists(path) {
		return
	}
	h.specify(&j)
	b, err := encodeRecord(&j, nil, t0)
	if err != nil {
		h.t.Fatal(err)
	}
	writeAt(h.t, path+".new", string(b)) // a file in its place has another inode
	if err := os.Rename(path+".new", path); err != nil {
		h.t.Fatal(err)
	}
	h.jobs[j.ID] = j
}

func (h *past) any() kernel.Job {
	if len(h.jobs) == 0 {
		return kernel.Job{}
	}
	ids := make([]kernel.JobID, 0, len(h.jobs))
	for id := range h.jobs {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return h.jobs[ids[h.r.IntN(len(ids))]]
}

// check asserts that s shows the records, all of them and the part that
// decisions need.
func (h *past) check(who string, s *Store) {
	h.t.Helper()
	all := read(h.t, s)
	if len(all.Jobs) != len(h.jobs) || len(all.Unreadable) > 0 || all.Succeeded != 0 {
		h.t.Fatalf("%s: %d jobs of %d, unreadable %v, %d more", who, len(all.Jobs), len(h.jobs), all.Unreadable, all.Succeeded)
	}
	for _, j := range all.Jobs {
		if d := diff(h.jobs[j.ID], j); d != "" {
			h.t.Fatalf("%s: job %s differs:\n%s", who, j.ID, d)
		}
	}
	asked := h.any()
	some, err := s.Read(soon(h.t), kernel.Scope{Jobs: []kernel.JobID{asked.ID}, Artifacts: historyArtifacts[:1], Keys: []string{"key 1"}})
	if err != nil {
		h.t.Fatal(err)
	}
	needed := h.needed(asked.ID, historyArtifacts[0])
	for id, j := range h.jobs {
		if j.Spec.IdempotencyKey == "key 1" {
			needed[id] = "one with the key"
		}
	}
	h.suffices(who, some, needed)
}

// suffices asserts that the records that were read are right, and include those that are needed.
func (h *past) suffices(who string, some kernel.Records, needed map[kernel.JobID]string) {
	h.t.Helper()
	have := map[kernel.JobID]bool{}
	for _, j := range some.Jobs {
		if have[j.ID] {
			h.t.Fatalf("%s: job %s twice", who, j.ID)
		}
		have[j.ID] = true
		if d := diff(h.jobs[j.ID], j); d != "" {
			h.t.Fatalf("%s: job %s differs:\n%s", who, j.ID, d)
		}
	}
	for id, why := range needed {
		if !have[id] {
			h.t.Fatalf("%s: job %s is missing, which is %s", who, id, why)
		}
	}
	if len(some.Jobs)+some.Succeeded != len(h.jobs) {
		h.t.Fatalf("%s: %d jobs and %d more, of %d", who, len(some.Jobs), some.Succeeded, len(h.jobs))
	}
}

// needed returns the jobs that a read must return, and why.
func (h *past) needed(asked kernel.JobID, produced ...kernel.Artifact) map[kernel.JobID]string {
	out := map[kernel.JobID]string{}
	if _, ok := h.jobs[asked]; ok {
		out[asked] = "asked for"
	}
	arts := map[kernel.Artifact]bool{}
	for _, a := range produced {
		arts[a] = true
	}
	for id, j := range h.jobs {
		if !j.Open() {
			continue
		}
		out[id] = "open"
		for _, a := range j.Spec.Needs {
			arts[a] = true
		}
		for _, id := range j.Spec.After {
			if _, ok := h.jobs[id]; ok {
				out[id] = "what " + string(j.ID) + " runs after"
			}
		}
	}
	for id, j := range h.jobs {
		if slices.ContainsFunc(j.Spec.Produces, func(a kernel.Artifact) bool { return arts[a] }) {
			out[id] = "a producer"
		}
	}
	return out
}

// What a process remembers and what it finds in a cache agree with the records,
// whatever happened to the cache.
func TestCachesChangeNothing(t *testing.T) {
	oneGoroutine(t)
	r, stores := drawtest.Of(t), 1
	if long {
		stores = 8
	}
	for range stores {
		cachesChangeNothing(t, r)
	}
}

func cachesChangeNothing(t *testing.T, r *rand.Rand) {
	t.Helper()
	h := &past{t: t, r: r, dir: t.TempDir(), jobs: map[kernel.JobID]kernel.Job{}}
	stores := []*Store{newStore(t, h.dir), newStore(t, h.dir), newStore(t, h.dir)}
	spoilt := false
	for n := range 150 {
		h.step(stores[r.IntN(len(stores))])
		switch r.IntN(30) {
		case 0:
			_ = os.Remove(file(h.dir, cacheFile))
		case 1:
			_ = os.Remove(anyCache(r, h.dir))
		case 2:
			spoil(r, anyCache(r, h.dir))
			spoilt = true
		case 3:
			_ = os.Truncate(file(h.dir, markFile), 0)
		case 4: // the process ends
			k := r.IntN(len(stores))
			if err := stores[k].Close(); err != nil {
				t.Fatal(err)
			}
			stores[k] = newStore(t, h.dir)
		case 5: // it rests
			stores[r.IntN(len(stores))].Forget()
		}
		if n%5 == 0 {
			h.check(fmt.Sprintf("step %d, an old process", n), stores[r.IntN(len(stores))])
			fresh := newStore(t, h.dir)
			h.check(fmt.Sprintf("step %d, a new process", n), fresh)
			asRebuilt(t, fresh, spoilt)
			if err := fresh.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	bare := t.TempDir()
	copyTree(t, h.dir, bare)
	if err := os.RemoveAll(file(bare, "jobs/journal")); err != nil {
		t.Fatal(err)
	}
	h.check("without a journal", newStore(t, bare))
}

// A cache that the last process left behind the journal follows that, and still notices what was edited by hand since.
func TestAnEditThatTheJournalIsBehind(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, dir)
	commit(t, s, kernel.Create(plain(1)))
	was := contentOf(t, file(dir, cacheFile))
	commit(t, s, put(plain(1), func(st *kernel.State) { st.Reason = "later" }))
	writeAt(t, file(dir, cacheFile), was)
	path := NewLayout(dir).RecordFile(id(1))
	record := strings.Replace(contentOf(t, path), `"job 1"`, `"edited"`, 1)
	writeAt(t, path+".new", record)
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
	j := find(t, read(t, newStore(t, dir)), id(1))
	if j.Spec.Name != "edited" || j.State.Reason != "later" {
		t.Errorf("it shows %q, %q", j.Spec.Name, j.State.Reason)
	}
}

// asRebuilt asserts that the cache of s has what one has that is made from every record, except for what only ticks know. A
// part of it that was spoilt, and that nobody has read since, is found to be.
func asRebuilt(t *testing.T, s *Store, spoilt bool) {
	t.Helper()
	tx := begin(t, s)
	defer closeTx(t, tx)
	load(t, tx)
	all := func(made bool) map[string]string {
		out := map[string]string{}
		err := s.cache.kv.each("", func(key string, value []byte) bool {
			none := key[:1] == keyCount && string(value) == "\x00"
			if !none && !strings.Contains(keyDirty+keyJudged+keySeen+keyBlind+keyPatrol, key[:1]) {
				out[key] = string(value)
			}
			return true
		})
		if spoilt && !made && errors.Is(err, errCache) {
			return nil
		}
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	have := all(false)
	if err := s.rebuildCache(s.cache.offset); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(all(true), have); have != nil && d != "" {
		t.Fatalf("the cache differs from one that is made from the records:\n%.3000s", d)
	}
	s.dropCache()
}

// caches returns the files of the cache.
func caches(dir string) []string {
	files, _ := filepath.Glob(file(dir, cacheFile) + "*")
	return files
}

// anyCache returns a random file of the cache, or the path of its log if there is none.
func anyCache(r *rand.Rand, dir string) string {
	if files := caches(dir); len(files) > 0 {
		return files[r.IntN(len(files))]
	}
	return file(dir, cacheFile)
}

// spoil cuts a file, overwrites all of it, or flips a bit.
func spoil(r *rand.Rand, path string) {
	b, err := os.ReadFile(path)
	if err != nil || len(b) == 0 {
		return
	}
	switch r.IntN(4) {
	case 0:
		b = b[:r.IntN(len(b))]
	case 1:
		for i := range b {
			b[i] = byte(r.Uint32())
		}
	default:
		b[r.IntN(len(b))] ^= 1 << r.IntN(8)
	}
	_ = os.WriteFile(path, b, 0o600)
}

// cachedPast returns a store of some forty jobs whose cache has several files.
func cachedPast(t *testing.T, r *rand.Rand) *past {
	t.Helper()
	h := &past{t: t, r: r, dir: t.TempDir(), jobs: map[kernel.JobID]kernel.Job{}}
	s := newStore(t, h.dir)
	for range 2000 {
		h.step(s)
		if len(caches(h.dir)) > 2 && len(h.jobs) > 40 {
			break
		}
	}
	if len(caches(h.dir)) < 3 {
		t.Fatalf("the cache is %v", caches(h.dir))
	}
	return h
}

// A read of what decisions need has the jobs that are open or did not succeed, and of the others just those that these concern.
func TestAWideReadHasWhatDecisionsNeed(t *testing.T) {
	tok, token := custom("t", "k"), kernel.Artifact{Kind: kernel.Custom, Name: kernel.StageToken, Ref: "stage"}
	succeeded := func(change func(*kernel.Job)) func(*kernel.Job) {
		return func(j *kernel.Job) {
			j.State.Status, j.State.Outcome = kernel.Succeeded, kernel.OutcomeSucceeded
			change(j)
		}
	}
	failed := func(st kernel.Status, change func(*kernel.Job)) func(*kernel.Job) {
		return func(j *kernel.Job) { j.State.Status = st; change(j) }
	}
	in := func(run kernel.RunID) func(*kernel.Job) { return func(j *kernel.Job) { j.Spec.Origin.Run = run } }
	none := func(*kernel.Job) {}
	for name, c := range map[string]struct {
		scope kernel.Scope
		other func(*kernel.Job) // a job that counts, if its status says so
		one   func(*kernel.Job) // job 1, which is there because of it, or is not
		there bool
	}{
		"nothing asks for it":       {kernel.Scope{}, none, none, false},
		"all":                       {kernel.Scope{All: true}, none, none, true},
		"its id":                    {kernel.Scope{Jobs: []kernel.JobID{id(1)}}, none, none, true},
		"its key":                   {kernel.Scope{Keys: []string{"k"}}, none, func(j *kernel.Job) { j.Spec.IdempotencyKey = "k" }, true},
		"another key":               {kernel.Scope{Keys: []string{"k"}}, none, func(j *kernel.Job) { j.Spec.IdempotencyKey = "k2" }, false},
		"its artifact":              {kernel.Scope{Artifacts: []kernel.Artifact{tok}}, none, func(j *kernel.Job) { j.Spec.Produces = []kernel.Artifact{tok} }, true},
		"an open job needs it":      {kernel.Scope{}, func(j *kernel.Job) { j.Spec.Needs = []kernel.Artifact{tok} }, func(j *kernel.Job) { j.Spec.Produces = []kernel.Artifact{tok} }, true},
		"a blocked job needs it":    {kernel.Scope{}, failed(kernel.BlockedByDependency, func(j *kernel.Job) { j.Spec.Needs = []kernel.Artifact{tok} }), func(j *kernel.Job) { j.Spec.Produces = []kernel.Artifact{tok} }, true},
		"a failed job needed it":    {kernel.Scope{}, failed(kernel.Failed, func(j *kernel.Job) { j.Spec.Needs = []kernel.Artifact{tok} }), func(j *kernel.Job) { j.Spec.Produces = []kernel.Artifact{tok} }, false},
		"an open job runs after it": {kernel.Scope{}, func(j *kernel.Job) { j.Spec.After = []kernel.JobID{id(1)} }, none, true},
		"a route leads to it":       {kernel.Scope{}, func(j *kernel.Job) { j.Spec.Routes = []kernel.Route{{To: id(1), On: kernel.OutcomeFailed}} }, none, true},
		"an open job needs its patch": {kernel.Scope{}, func(j *kernel.Job) {
			j.Spec.Needs = []kernel.Artifact{{Kind: kernel.CommandPatch, Name: string(id(1))}}
		}, none, true},
		"another needs no patch": {kernel.Scope{}, func(j *kernel.Job) { j.Spec.Needs = []kernel.Artifact{custom(string(id(1)), "k")} }, none, false},
		"its run goes on":        {kernel.Scope{}, in("r"), in("r"), true},
		"another run goes on":    {kernel.Scope{}, in("r"), in("q"), false},
		"its run is blocked":     {kernel.Scope{}, failed(kernel.BlockedByDependency, in("r")), in("r"), false},
		"its run failed":         {kernel.Scope{}, failed(kernel.Failed, in("r")), in("r"), false},
		"it is to be removed":    {kernel.Scope{}, none, func(j *kernel.Job) { j.Spec.Transient = kernel.Remove }, true},
		"it was removed":         {kernel.Scope{}, none, func(j *kernel.Job) { j.Spec.Transient, j.State.Removed = kernel.Remove, t0 }, false},
		"its prompt has the old name": {kernel.Scope{}, none, func(j *kernel.Job) {
			j.Spec.Prompt, j.State.Prompt.Named = &kernel.Prompt{File: "p"}, kernel.RunningPrompt
		}, true},
		"its prompt has the right one": {kernel.Scope{}, none, func(j *kernel.Job) {
			j.Spec.Prompt, j.State.Prompt.Named = &kernel.Prompt{File: "p"}, kernel.DonePrompt
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t, t.TempDir())
			one, other, idle := plain(1), plain(2), plain(3)
			succeeded(c.one)(&one)
			succeeded(none)(&idle)
			c.other(&other)
			commit(t, s, kernel.Create(one), kernel.Create(other), kernel.Create(idle))
			rec, err := s.Read(soon(t), c.scope)
			if err != nil {
				t.Fatal(err)
			}
			want := []kernel.JobID{id(2)}
			if c.there {
				want = []kernel.JobID{id(1), id(2)}
			}
			if c.scope.All {
				want = append(want, id(3))
			}
			if got := idsOf(rec.Jobs); !slices.Equal(got, want) || len(rec.Jobs)+rec.Succeeded != 3 {
				t.Errorf("it has %v, and %d more", got, rec.Succeeded)
			}
		})
	}

	// the run of a job that ended without a token that is needed
	for name, c := range map[string]struct {
		ended func(*kernel.Job)
		there bool
	}{
		"it failed":                  {failed(kernel.Failed, none), true},
		"it was cancelled":           {failed(kernel.Cancelled, none), true},
		"it succeeded":               {succeeded(none), false},
		"it is retired":              {failed(kernel.Failed, func(j *kernel.Job) { j.State.Retired = true }), false},
		"it is in no run":            {failed(kernel.Failed, in("")), false},
		"it makes something else":    {failed(kernel.Failed, func(j *kernel.Job) { j.Spec.Produces = []kernel.Artifact{tok} }), false},
		"it makes a token of others": {failed(kernel.Failed, func(j *kernel.Job) { j.Spec.Produces[0].Ref = "other" }), false},
	} {
		t.Run("of a stage: "+name, func(t *testing.T) {
			s := newStore(t, t.TempDir())
			member, ended, needs := plain(1), plain(2), plain(3)
			succeeded(in("r"))(&member)
			ended.Spec.Origin.Run, ended.Spec.Produces = "r", []kernel.Artifact{token}
			c.ended(&ended)
			needs.Spec.Needs = []kernel.Artifact{token, tok}
			commit(t, s, kernel.Create(member), kernel.Create(ended), kernel.Create(needs))
			rec, err := s.Read(soon(t), kernel.Scope{})
			if got := slices.Contains(idsOf(rec.Jobs), id(1)); err != nil || got != c.there {
				t.Errorf("the run is there: %t, %v", got, err)
			}
		})
	}
}

// An answer has the jobs whose delay is over, and of the others the one whose delay is over next.
func TestWhoseDelayIsOver(t *testing.T) {
	type delay struct{ since, takes time.Duration } // since when from now, and about how long
	for name, c := range map[string]struct {
		delays map[int]delay
		want   []int
	}{
		"one after the other": {map[int]delay{1: {-3 * time.Hour, time.Hour}, 2: {-2 * time.Hour, time.Hour}, 3: {-time.Minute, time.Hour}, 4: {-time.Minute, 3 * time.Hour}}, []int{1, 2, 3}},
		"none is over":        {map[int]delay{1: {-time.Minute, time.Hour}, 2: {-time.Minute, 3 * time.Hour}}, []int{1}},
		"all are over":        {map[int]delay{1: {-3 * time.Hour, time.Hour}, 2: {-4 * time.Hour, time.Hour}}, []int{1, 2}},
		"the clock was set back since some began": {map[int]delay{1: {5 * time.Minute, 5 * time.Minute}, 2: {30 * time.Second, time.Hour}, 3: {40 * time.Second, 2 * time.Hour},
			4: {-time.Hour, 4 * time.Hour}, 5: {2 * time.Minute, 6 * time.Hour}}, []int{1, 2, 5}},
	} {
		s := newStore(t, t.TempDir())
		now := t0.Add(24 * time.Hour)
		var creates []kernel.Action
		for n, d := range c.delays {
			j := plain(n)
			j.State.Status, j.State.RetryAt, j.Spec.Retry = kernel.FailedRetryable, now, kernel.RetryPolicy{Base: d.takes, Cap: d.takes}
			due, _ := j.Due()
			j.State.RetryAt = now.Add(d.since + due.Until.Sub(due.Since))
			creates = append(creates, kernel.Create(j))
		}
		commit(t, s, creates...)
		judgedBy(t, s, nil) // else all are dirty
		rec, err := s.Read(soon(t), kernel.Scope{Near: []kernel.Near{{Kind: kernel.Due, At: now}}})
		var want []kernel.JobID
		for _, n := range c.want {
			want = append(want, id(n))
		}
		if got := idsOf(rec.Jobs); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

// A cache that is spoiled while a transaction is under way does not stop its commit.
func TestACacheIsSpoiledBeforeACommit(t *testing.T) {
	oneGoroutine(t)
	r := drawtest.Of(t)
	h := cachedPast(t, r)
	h.between = func() {
		for _, path := range caches(h.dir) {
			spoil(r, path)
		}
	}
	for n := range 30 {
		s := newStore(t, h.dir)
		h.step(s)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		h.check(fmt.Sprintf("round %d", n), newStore(t, h.dir))
	}
}

// A cache that was torn, or in which a single bit flipped, is never believed.
func TestSpoiledCachesAreNotBelieved(t *testing.T) {
	oneGoroutine(t)
	r := drawtest.Of(t)
	h := cachedPast(t, r)
	whole := map[string]string{}
	for _, path := range append(caches(h.dir), file(h.dir, markFile)) {
		whole[path] = contentOf(t, path)
	}
	for n := range 100 {
		for path, content := range whole {
			writeAt(t, path, content)
		}
		for range 1 + r.IntN(2) {
			spoil(r, anyCache(r, h.dir))
		}
		fresh := newStore(t, h.dir)
		h.check(fmt.Sprintf("round %d", n), fresh)
		if err := fresh.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
