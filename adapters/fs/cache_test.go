package fs

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

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

// step commits a small random plan through s.
func (h *past) step(s *Store) {
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
	j.Created = t0.Add(1e9 * 60)
	if h.r.IntN(4) == 0 {
		j.Spec.IdempotencyKey = fmt.Sprint("key ", h.r.IntN(3))
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
	return j
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
	r := drawtest.Of(t)
	h := &past{t: t, r: r, dir: t.TempDir(), jobs: map[kernel.JobID]kernel.Job{}}
	stores := []*Store{newStore(t, h.dir), newStore(t, h.dir), newStore(t, h.dir)}
	steps := 150
	if long {
		steps = 1500
	}
	for n := range steps {
		h.step(stores[r.IntN(len(stores))])
		switch r.IntN(30) {
		case 0:
			_ = os.Remove(file(h.dir, cacheFile))
		case 1:
			_ = os.Remove(anyCache(r, h.dir))
		case 2:
			spoil(r, anyCache(r, h.dir))
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
