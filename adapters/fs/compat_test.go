package fs

import (
	"context"
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

	"github.com/vizier-scheduler/vizier/kernel"
)

const compat = "testdata/compat"

// The stores below testdata/compat were written by released formats. They load
// and tick for ever: no file of them is ever changed. A new format adds one,
// written by VIZIER_WRITE_COMPAT=NAME go test -run TestCompatibility.
func TestCompatibility(t *testing.T) {
	switch name := os.Getenv("VIZIER_WRITE_COMPAT"); name {
	case "":
	case "trust":
		writeTrust(t, filepath.Join(compat, name))
	default:
		writeCompat(t, filepath.Join(compat, name))
	}
	versions, err := filepath.Glob(compat + "/*")
	if err != nil || len(versions) == 0 {
		t.Fatalf("no stores in %s: %v", compat, err)
	}
	for _, v := range versions {
		t.Run(filepath.Base(v), func(t *testing.T) {
			dir := t.TempDir()
			if err := os.CopyFS(filepath.Join(dir, vizierDir), os.DirFS(filepath.Join(v, "store"))); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(contentOf(t, filepath.Join(v, "want.txt")), story(t, dir)); d != "" {
				t.Error(d)
			}
		})
	}
}

// story describes the store of dir on a later boot: its content, and what a tick
// makes of it.
func story(t *testing.T, dir string) string {
	t.Helper()
	o := options()
	o.Boot = "a later boot"
	s := newStoreWith(t, dir, o)
	var out strings.Builder
	tx := begin(t, s)
	for _, a := range tx.Unfinished() {
		fmt.Fprintf(&out, "unfinished %T %s\n", a, a.Subject())
	}
	if err := tx.Done(); err != nil {
		t.Fatal(err)
	}
	rec := load(t, tx)
	tell(&out, "loaded", rec)
	for _, j := range rec.Jobs {
		raw, err := s.readRecordFile(j.ID)
		if err != nil {
			t.Fatal(err)
		}
		_, f, err := decodeRecord(j.ID, raw)
		if err != nil {
			t.Fatal(err)
		}
		kept(t, string(j.ID), parseObject(t, raw), parseObject(t, encode(t, &j, f)))
	}
	plan := kernel.Decide(seen(s, rec))
	if err := tx.Commit(plan); err != nil {
		t.Fatal(err)
	}
	closeTx(t, tx)
	after := read(t, newStoreWith(t, dir, o))
	tell(&out, "ticked", after)
	ids, err := s.jobIDs()
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(ids)
	for _, id := range ids {
		if s.Packed(id) != "" {
			log, err := s.LogTail(id, "stderr", 100)
			fmt.Fprintf(&out, "packed %s %q %v\n", id, log, err)
		}
	}
	if raw, err := os.ReadFile(s.RecordFile(id(3))); err == nil && !strings.Contains(string(raw), `"x_future": "kept"`) {
		t.Errorf("a foreign field was lost:\n%s", raw)
	}
	return out.String()
}

// A process of the boot in which a released program died finds every action that
// it left unfinished, of each kind.
func TestUnfinishedActionsOfReleasedJournals(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, vizierDir), os.DirFS(compat+"/v1-unfinished/store")); err != nil {
		t.Fatal(err)
	}
	tx := begin(t, newStore(t, dir))
	defer closeTx(t, tx)
	a := kernel.AttemptID{Job: id(1), N: 1}
	tree := kernel.Context{Root: "root", Worktree: "worktree", Name: "name", Branch: "branch", Owned: true}
	want := []kernel.WorldAction{kernel.Launch{Attempt: a}, kernel.Stop{Attempt: a}, kernel.Sweep{Attempt: a},
		kernel.ClearSentinel{Job: id(1), Slug: "plan"}, kernel.RemoveWorktree{Job: id(1), Context: tree, Cancel: true},
		kernel.TendPrompt{Job: id(1), Name: kernel.ErrorPrompt}}
	if d := cmp.Diff(want, tx.Unfinished()); d != "" {
		t.Error(d)
	}
}

// kept asserts that now holds all that was written then.
func kept(t *testing.T, path string, then, now any) {
	t.Helper()
	if m, ok := then.(map[string]any); ok {
		have, ok := now.(map[string]any)
		for k, v := range m {
			if _, found := have[k]; !ok || !found {
				t.Errorf("%s.%s was written and is lost", path, k)
			} else if k != "updated_at" {
				kept(t, path+"."+k, v, have[k])
			}
		}
		return
	}
	if !reflect.DeepEqual(then, now) {
		t.Errorf("%s was written as %v and becomes %v", path, then, now)
	}
}

// seen returns a snapshot of rec with every fact that a decision asks for.
func seen(s *Store, rec kernel.Records) *kernel.Snapshot {
	snap := kernel.NewSnapshot(kernel.Observation{Now: t0.Add(24 * time.Hour), Jobs: rec.Jobs, Unreadable: rec.Unreadable})
	p := snap.Probes()
	f := kernel.NewFacts()
	s.Observe(context.Background(), p, &f)
	for _, a := range p.Attempts {
		f.Runners[a] = kernel.Seen(kernel.Runner{Liveness: kernel.Dead})
	}
	return snap.WithFacts(f)
}

func tell(out *strings.Builder, what string, rec kernel.Records) {
	rec.Jobs = slices.Clone(rec.Jobs)
	slices.SortFunc(rec.Jobs, func(a, b kernel.Job) int { return strings.Compare(string(a.ID), string(b.ID)) })
	for _, j := range rec.Jobs {
		fmt.Fprintf(out, "%s %s rev %d %s attempt %d %s %q", what, j.ID, j.Rev, j.State.Status, j.State.Attempt, j.Spec.Name, j.Spec.Task.Args)
		if j.State.Wait.Kind != kernel.NoWait {
			fmt.Fprintf(out, " (%s: %s)", j.State.Wait.Kind, j.State.Wait.Detail)
		}
		if j.State.Failure != kernel.NoFailure {
			fmt.Fprintf(out, " (%s: %s)", j.State.Failure, j.State.Reason)
		}
		out.WriteString("\n")
	}
	for _, id := range slices.Sorted(maps.Keys(rec.Unreadable)) {
		fmt.Fprintf(out, "%s %s unreadable: %s\n", what, id, rec.Unreadable[id])
	}
}

// writeCompat writes a store of the present format, and its story.
func writeCompat(t *testing.T, to string) {
	t.Helper()
	dir := t.TempDir()
	s := newStore(t, dir)
	art := custom("stage_token", "approve:x")
	job := func(n int, name string, change func(*kernel.Job)) kernel.CreateJob {
		j := plain(n)
		j.Spec.Name = name
		change(&j)
		return kernel.Create(j)
	}
	full := fullJob()
	full.ID, full.State.Status = id(1), kernel.Succeeded
	producer := job(2, "producer", func(j *kernel.Job) {
		j.Spec.Produces = []kernel.Artifact{art}
		j.State.Status = kernel.Running
		j.State.Attempt = 1
	})
	commit(t, s, kernel.Create(full), producer,
		job(3, "with a foreign field", func(j *kernel.Job) { j.Spec.After = []kernel.JobID{id(2)} }),
		job(4, "consumer", func(j *kernel.Job) { j.Spec.Needs = []kernel.Artifact{art} }),
		job(5, "after the full one", func(j *kernel.Job) { j.Spec.After = []kernel.JobID{id(1)} }),
		job(6, "lost", func(j *kernel.Job) { j.State.Status, j.State.Attempt = kernel.Running, 1 }),
		job(7, "ended, and its runner died", func(j *kernel.Job) { j.State.Status, j.State.Attempt = kernel.Running, 3 }),
		job(8, "to be approved", func(j *kernel.Job) { j.State.Approval = kernel.Require(t0, "someone") }),
		job(9, "failed", func(j *kernel.Job) {
			j.State.Status, j.State.Failure, j.State.Exit, j.State.Reason = kernel.Failed, kernel.ExitFailure, kernel.Exited(2), "exit code 2"
		}),
		job(10, "after a failure", func(j *kernel.Job) { j.Spec.After = []kernel.JobID{id(9)} }),
		job(11, "removed", func(j *kernel.Job) { j.State.Status = kernel.Cancelled }))
	commit(t, s, kernel.Publish{Attempt: kernel.AttemptID{Job: id(2), N: 1}, Artifacts: []kernel.Artifact{art}},
		put(*producer.Job, func(st *kernel.State) {
			st.Status, st.Exit, st.Outcome = kernel.Succeeded, kernel.Exited(0), kernel.OutcomeSucceeded
		}),
		kernel.RemoveJob{Job: id(11)})
	ended := someResult(id(7))
	if err := s.Conclude(ended); err != nil {
		t.Fatal(err)
	}
	writeAt(t, file(dir, "jobs", string(id(2)), "stdout.log"), "output\n")
	writeAt(t, file(dir, sentinelsDir, "plan.json"), "{}\n")
	path := s.RecordFile(id(3))
	writeAt(t, path, strings.Replace(contentOf(t, path), `"version": 1,`, `"version": 1, "x_future": "kept",`, 1))
	writeAt(t, s.RecordFile(id(12)), "{ torn")
	writeAt(t, s.LogFile(id(9), "stderr"), "why it failed\n")
	packAll(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	last := job(13, "in the journal alone", func(j *kernel.Job) {})
	crashIn(t, dir, kernel.NewPlan(last, kernel.Launch{Attempt: kernel.AttemptID{Job: id(13), N: 1}},
		kernel.ClearSentinel{Job: id(13), Slug: "plan"}), 0)
	freeze(t, dir, to)
}

// freeze copies the store of dir to its permanent place, with its story.
func freeze(t *testing.T, dir, to string) {
	t.Helper()
	if exists(to) {
		t.Fatalf("%s is there already: it never changes", to)
	}
	for _, name := range []string{cacheFile, cacheFile + ".0", ignoreName} {
		if err := os.RemoveAll(file(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.CopyFS(filepath.Join(to, "store"), os.DirFS(file(dir))); err != nil {
		t.Fatal(err)
	}
	writeAt(t, filepath.Join(to, "want.txt"), story(t, dir))
}
