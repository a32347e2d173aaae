package fs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/effect"
)

var effectKey = strings.Repeat("0a", 32)

// effectStore returns a store with one job that runs its n-th attempt.
func effectStore(t *testing.T, n int, durable bool) (*Store, kernel.Job) {
	t.Helper()
	o := options()
	o.Durable = durable
	s := newStoreWith(t, t.TempDir(), o)
	j := plain(1)
	j.State.Status, j.State.Attempt, j.State.Started = kernel.Running, n, t0
	commit(t, s, kernel.Create(j))
	return s, find(t, read(t, s), j.ID)
}

func intent(j kernel.Job) effect.Record {
	return effect.Record{Key: effectKey, Operation: "command.run", Job: j.ID, Generation: j.State.Generation, Attempt: j.State.Attempt, Round: 3, Begun: t0}
}

func applied(e effect.Record) effect.Record {
	e.State = effect.Applied
	e.Result = kernel.Result{Attempt: kernel.AttemptID{Job: e.Job, N: e.Attempt}, Outcome: kernel.OutcomeSucceeded, Reason: "done", Ended: t0.Add(time.Second),
		Context:  &kernel.Context{Root: "w", Worktree: "w", Name: "n", Branch: "b", Owned: true},
		Produced: []kernel.Artifact{{Kind: kernel.Custom, Name: "a", Ref: "k"}}}
	return e
}

func mustRecord(t *testing.T, s *Store, e effect.Record) {
	t.Helper()
	if err := s.RecordEffect(soon(t), e); err != nil {
		t.Fatal(err)
	}
}

// next commits a change of the job's state, and returns the job.
func next(t *testing.T, s *Store, j kernel.Job, change func(*kernel.State)) kernel.Job {
	t.Helper()
	st := j.State
	change(&st)
	commit(t, s, kernel.PutState{Job: j.ID, If: j.Rev, State: st})
	return find(t, read(t, s), j.ID)
}

func TestEffectsAreKeptAsWritten(t *testing.T) {
	for _, durable := range []bool{false, true} {
		s, j := effectStore(t, 1, durable)
		if e, err := s.Effect(j.ID, effectKey); e != nil || err != nil {
			t.Fatalf("before any: %+v, %v", e, err)
		}
		sch := schema(t, "effect")
		name, _ := effectFile(j.ID, effectKey)
		for _, e := range []effect.Record{intent(j), applied(intent(j))} {
			e.Part = "gate"
			if e.State == effect.Applied {
				e.Merge = effect.Merge{Source: kernel.CommitID(strings.Repeat("1a", 20)), Target: kernel.CommitID(strings.Repeat("2b", 20))}
			}
			mustRecord(t, s, e)
			if got, err := s.Effect(j.ID, effectKey); err != nil || !reflect.DeepEqual(*got, e) {
				t.Errorf("%+v, %v; want %+v", got, err, e)
			}
			b := []byte(contentOf(t, s.abs(name)))
			if err := holds(t, sch, b); err != nil {
				t.Errorf("%v\n%s", err, b)
			}
			if st, err := os.Stat(s.abs(name)); err != nil || st.Mode().Perm() != fileMode {
				t.Errorf("%v, %v", st.Mode(), err)
			}
		}
		if left, _ := filepath.Glob(filepath.Join(s.JobDir(j.ID), "effects", ".*")); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	}
}

func TestForeignFieldsOfEffectsSurvive(t *testing.T) {
	s, j := effectStore(t, 1, false)
	mustRecord(t, s, intent(j))
	name, _ := effectFile(j.ID, effectKey)
	text := strings.Replace(contentOf(t, s.abs(name)), "{", `{"x_ours": {"a": 1},`, 1)
	if err := os.WriteFile(s.abs(name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	mustRecord(t, s, applied(intent(j)))
	if got := contentOf(t, s.abs(name)); !strings.Contains(got, `"x_ours"`) || !strings.Contains(got, `"applied"`) {
		t.Errorf("it holds\n%s", got)
	}
}

// If many processes intend one effect at the same moment, only one owns it (I6).
func TestAnEffectHasOneOwner(t *testing.T) {
	s, j := effectStore(t, 1, false)
	stores := make([]*Store, 8)
	for i := range stores {
		stores[i] = newStoreWith(t, s.root, s.opts)
	}
	for n := range 50 {
		e := intent(j)
		e.Key = fmt.Sprintf("%064x", n)
		var owners atomic.Int32
		var all sync.WaitGroup
		for _, store := range stores {
			all.Go(func() {
				switch err := store.RecordEffect(soon(t), e); {
				case err == nil:
					owners.Add(1)
				case !errors.Is(err, kernel.ErrStale):
					t.Error(err)
				}
			})
		}
		all.Wait()
		if owners.Load() != 1 {
			t.Fatalf("%d owners", owners.Load())
		}
	}
}

// A file that appears between the check and the write is not replaced.
func TestAPlaceThatIsTakenStaysAsItIs(t *testing.T) {
	d, err := openRoot(t.TempDir(), machine{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	for _, text := range []string{"first", "second"} {
		temp, err := d.stage("e.json", "e.json", []byte(text), false)
		if err == nil {
			err = d.install(temp, "e.json", true)
		}
		if text == "first" && err != nil || text == "second" && !errors.Is(err, kernel.ErrStale) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if b, err := d.read("e.json", 100); string(b) != "first" || err != nil {
		t.Errorf("it holds %q, %v", b, err)
	}
}

// Once a later attempt is committed, the earlier one writes nothing any more, even if
// only the journal has the later one yet (I5).
func TestALateAttemptRecordsNoEffect(t *testing.T) {
	s, j := effectStore(t, 1, false)
	mustRecord(t, s, intent(j))
	name, _ := effectFile(j.ID, effectKey)
	late := applied(intent(j))
	again := func(st *kernel.State) { st.Attempt = 2 }

	tx := begin(t, s)
	load(t, tx)
	st := j.State
	again(&st)
	e, err := s.entryOf(kernel.NewPlan(kernel.PutState{Job: j.ID, If: j.Rev, State: st}))
	if err != nil {
		t.Fatal(err)
	}
	if err := tx.link(&e.e, false); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.log.append(e.e, tx.pos.end); err != nil { // and no more: the process was killed here
		t.Fatal(err)
	}
	s.dropCache()
	closeTx(t, tx)

	before := contentOf(t, s.abs(name))
	if err := newStoreWith(t, s.root, s.opts).RecordEffect(soon(t), late); !errors.Is(err, kernel.ErrStale) {
		t.Errorf("attempt 1 after attempt 2 began: %v", err)
	}
	if got := contentOf(t, s.abs(name)); got != before {
		t.Errorf("it wrote\n%s", got)
	}
	j = find(t, read(t, s), j.ID)
	mustRecord(t, s, intent(j)) // attempt 2 takes it over
	if err := s.RecordEffect(soon(t), late); !errors.Is(err, kernel.ErrStale) {
		t.Errorf("attempt 1 after attempt 2 took it: %v", err)
	}
	j = next(t, s, j, func(st *kernel.State) { st.Status, st.Exit = kernel.Succeeded, kernel.Exited(0) })
	if err := s.RecordEffect(soon(t), applied(intent(j))); !errors.Is(err, kernel.ErrStale) {
		t.Errorf("after the job ended: %v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(s.JobDir(j.ID), "effects", ".*")); len(left) > 0 {
		t.Errorf("refused writes left %v", left)
	}
}

func TestARewindCommitsEffectsAndGCDropsThem(t *testing.T) {
	s, j := effectStore(t, 1, false)
	open := intent(j)
	open.Key = strings.Repeat("0b", 32)
	mustRecord(t, s, applied(intent(j)))
	mustRecord(t, s, open)
	j = next(t, s, j, func(st *kernel.State) {
		st.Status, st.Exit, st.Outcome = kernel.Succeeded, kernel.Exited(0), kernel.OutcomeSucceeded
	})
	commit(t, s, kernel.Reset{Attempt: j.Attempt()}, kernel.PutState{Job: j.ID, If: j.Rev, State: kernel.State{Attempt: 1, Generation: 1}})
	all, err := s.Effects(j.ID)
	if err != nil || len(all) != 2 || all[0].State != effect.Committed || all[1].State != effect.Intended {
		t.Errorf("after the rewind: %+v, %v", all, err)
	}
	j = find(t, read(t, s), j.ID)
	if all[0].State = effect.Applied; effect.StateOf(&j, &all[0]) != effect.Applied {
		t.Error("an effect of an earlier generation is judged by a later one's record")
	}
	commit(t, s, kernel.RemoveJob{Job: j.ID})
	if _, err := os.Stat(s.JobDir(j.ID)); !os.IsNotExist(err) {
		t.Errorf("after a collection: %v", err)
	}
}

func TestABrokenEffectIsNamedAndHidesNoOther(t *testing.T) {
	s, j := effectStore(t, 1, false)
	mustRecord(t, s, intent(j))
	bad := strings.Repeat("0c", 32)
	for _, text := range []string{"", "{", `{"version":2}`, `{"version":1,"key":"x"}`,
		strings.NewReplacer(effectKey, bad, `"intent"`, `"applied"`).Replace(contentOf(t, filepath.Join(s.JobDir(j.ID), "effects", effectKey+".json")))} {
		name, _ := effectFile(j.ID, bad)
		if err := os.WriteFile(s.abs(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Effect(j.ID, bad); err == nil || !strings.Contains(err.Error(), bad) {
			t.Errorf("%q: %v", text, err)
		}
		all, err := s.Effects(j.ID)
		if len(all) != 1 || err == nil {
			t.Errorf("%q: %d effects, %v", text, len(all), err)
		}
	}
	for _, key := range []string{"", "../../x", strings.Repeat("A", 64)} {
		if _, err := s.Effect(j.ID, key); !errors.Is(err, kernel.ErrInvalid) {
			t.Errorf("key %q: %v", key, err)
		}
	}
}

// A link in the place of the directory is not followed.
func TestEffectsFollowNoLink(t *testing.T) {
	s, j := effectStore(t, 1, false)
	out := t.TempDir()
	if err := os.Symlink(out, filepath.Join(s.JobDir(j.ID), "effects")); err != nil {
		t.Fatal(err)
	}
	if err := s.RecordEffect(soon(t), intent(j)); err == nil {
		t.Error("written through a link")
	}
	if files, _ := os.ReadDir(out); len(files) > 0 {
		t.Errorf("%v", files)
	}
}

// While a committed change of a job cannot be written, its record does not show whether
// an attempt is current; so the attempt records no effect.
func TestAnEffectWaitsForTheChangesOfItsJob(t *testing.T) {
	s, j := effectStore(t, 1, false)
	mustRecord(t, s, intent(j))
	clear := obstruct(t, s.abs(markersDir), func() error { return os.WriteFile(s.abs(markersDir), nil, 0o600) })
	tx := begin(t, s)
	load(t, tx)
	st := j.State
	st.Attempt = 2
	a := kernel.Artifact{Kind: kernel.Custom, Name: "a", Ref: "b"}
	if err := tx.Commit(kernel.NewPlan(kernel.Publish{Attempt: j.Attempt(), Artifacts: []kernel.Artifact{a}},
		kernel.PutState{Job: j.ID, If: j.Rev, State: st})); err == nil {
		t.Fatal("the way was not blocked")
	}
	closeTx(t, tx)
	other := newStoreWith(t, s.root, s.opts)
	if err := other.RecordEffect(soon(t), applied(intent(j))); err == nil {
		t.Error("attempt 1 recorded its effect while attempt 2 was on its way to the record")
	}
	clear()
	if err := other.RecordEffect(soon(t), applied(intent(j))); !errors.Is(err, kernel.ErrStale) {
		t.Errorf("once the way was clear: %v", err)
	}
}

// An observer reports an attempt without a result if its effect was applied. The effect
// of a part of its work is not enough.
func TestWhatALostAttemptDidIsSeen(t *testing.T) {
	s, j := effectStore(t, 1, false)
	seen := func() *kernel.Result {
		t.Helper()
		f := kernel.NewFacts()
		s.Observe(soon(t), kernel.Probes{Attempts: []kernel.AttemptID{j.Attempt()}}, &f)
		if f := f.Results[j.Attempt()]; f.Known {
			return f.Value
		}
		t.Fatal("not answered")
		return nil
	}
	part := applied(intent(j))
	part.Key, part.Part = strings.Repeat("a", 64), "gate"
	mustRecord(t, s, part)
	mustRecord(t, s, intent(j))
	if r := seen(); r != nil {
		t.Errorf("before it was applied: %+v", r)
	}
	mustRecord(t, s, applied(intent(j)))
	if r := seen(); r == nil || !r.Applied || r.Class != kernel.WorkerLost || r.Attempt != j.Attempt() {
		t.Errorf("applied: %+v", r)
	}
}

// An effect is that of the job and the key in whose place it stands.
func TestAnEffectSaysWhoseItIs(t *testing.T) {
	e := &effect.Record{Key: "k", Job: id(1), State: effect.Intended, Operation: "git.x", Attempt: 1}
	b, err := encodeEffect(e, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, of := range map[string]struct {
		job kernel.JobID
		key string
		ok  bool
	}{"its own": {id(1), "k", true}, "another job's": {id(2), "k", false}, "another effect's": {id(1), "l", false}} {
		if _, _, err := decodeEffect(of.job, of.key, b); (err == nil) != of.ok {
			t.Errorf("in the place of %s: %v", name, err)
		}
	}
}

// An effect of a later version's format is not believed, whatever else it says.
func TestAnEffectOfALaterVersion(t *testing.T) {
	s, j := effectStore(t, 1, false)
	mustRecord(t, s, intent(j))
	name := filepath.Join(s.JobDir(j.ID), "effects", effectKey+".json")
	newer := strings.Replace(contentOf(t, name), `"version": 1`, `"version": 2`, 1)
	writeAt(t, name, newer)
	if e, err := s.Effect(j.ID, effectKey); err == nil || !strings.Contains(err.Error(), "effect format 2") {
		t.Errorf("%+v, %v", e, err)
	}
	if all, err := s.Effects(j.ID); len(all) > 0 || err == nil {
		t.Errorf("%+v, %v", all, err)
	}
}
