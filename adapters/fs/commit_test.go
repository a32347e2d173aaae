package fs

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vizier-scheduler/vizier/kernel"
)

// A plan that cannot be committed changes nothing, and the transaction goes on
// with another.
func TestRefusedPlansChangeNothing(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, dir)
	commit(t, s, kernel.Create(plain(1)), kernel.Create(plain(2)))
	before, size := tree(t, dir), journalSize(t, dir)
	good := put(plain(1), func(st *kernel.State) { st.Reason = "good" })
	stale := put(plain(2), func(st *kernel.State) { st.Reason = "stale" })
	stale.If = 7
	broken := plain(3)
	broken.Spec.Task.Args = []string{"\xff"}
	for name, c := range map[string]struct {
		bad  kernel.Action
		want error
	}{
		"stale revision":  {stale, kernel.ErrStale},
		"no such job":     {put(plain(8), func(*kernel.State) {}), kernel.ErrNotFound},
		"unwritable":      {kernel.Create(broken), kernel.ErrInvalid},
		"created twice":   {kernel.Create(plain(2)), kernel.ErrConflict},
		"a foreign shape": {kernel.Create(kernel.Job{ID: "job-1", Created: t0, Rev: 1}), kernel.ErrInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			tx := begin(t, s)
			load(t, tx)
			err := tx.Commit(kernel.NewPlan(good, kernel.Create(plain(4)), c.bad))
			if !errors.Is(err, c.want) {
				t.Errorf("commit: %v, want %v", err, c.want)
			}
			if d := cmp.Diff(before, tree(t, dir)); d != "" {
				t.Fatal(d)
			}
			if now := journalSize(t, dir); now != size {
				t.Fatalf("the journal grew from %d to %d", size, now)
			}
			if err := tx.Commit(kernel.Plan{}); err != nil {
				t.Errorf("a second commit: %v", err)
			}
			size = journalSize(t, dir)
			closeTx(t, tx)
		})
	}
	tx := begin(t, s)
	load(t, tx)
	_ = tx.Commit(kernel.NewPlan(good, stale))
	if err := tx.Commit(kernel.NewPlan(good)); err != nil {
		t.Errorf("the good part of a refused plan by itself: %v", err)
	}
	closeTx(t, tx)
}

// A plan may change a job and remove it: then it is gone.
func TestRemovedJobsLeaveNothing(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, dir)
	commit(t, s, kernel.Create(plain(1)))
	empty := t.TempDir()
	closeTx(t, begin(t, newStore(t, empty)))
	writeAt(t, file(dir, "jobs", string(id(1)), "attempts", "1.json"), "{}")
	commit(t, s, put(plain(1), func(st *kernel.State) { st.Status = kernel.Failed }), kernel.RemoveJob{Job: id(1)})
	if d := cmp.Diff(tree(t, empty), tree(t, dir)); d != "" {
		t.Error(d)
	}
}

// The word in the state file is repaired by the next writer (seed 004).
func TestStateFileIsRepaired(t *testing.T) {
	for name, spoil := range map[string]func(path string) error{
		"lost":  os.Remove,
		"wrong": func(p string) error { return os.WriteFile(p, []byte("succeeded\n"), 0o600) },
		"huge":  func(p string) error { return os.WriteFile(p, make([]byte, 1<<20), 0o600) },
	} {
		dir := t.TempDir()
		s := newStore(t, dir)
		commit(t, s, kernel.Create(plain(1)))
		path := filepath.Join(s.JobDir(id(1)), "state")
		if got := contentOf(t, path); got != "queued\n" {
			t.Fatalf("state is %q", got)
		}
		if err := spoil(path); err != nil {
			t.Fatal(err)
		}
		commit(t, s, put(plain(1), func(st *kernel.State) { st.Status = kernel.WaitingOnLocks }))
		if got := contentOf(t, path); got != "queued\n" {
			t.Errorf("%s: state is %q after a write", name, got)
		}
	}
}

// Every status has its word beside it and in the record.
func TestStateFileFollowsTheStatus(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, dir)
	j := plain(1)
	commit(t, s, kernel.Create(j))
	for _, status := range kernel.Statuses() {
		a := put(j, func(st *kernel.State) { st.Status = status })
		commit(t, s, a)
		j.State, j.Rev = a.State, j.Rev+1
		m := parseObject(t, []byte(contentOf(t, s.RecordFile(j.ID))))
		word := strings.TrimSpace(contentOf(t, filepath.Join(s.JobDir(j.ID), "state")))
		if word != status.Coarse() || m["state"] != word || m["status"] != status.String() {
			t.Errorf("%s: the file says %q, the record %v and %v", status, word, m["state"], m["status"])
		}
	}
}

// An ended job's record points to an outcome that exists.
func TestOutcomePathLeadsSomewhere(t *testing.T) {
	end := func(status kernel.Status, c kernel.FailureClass) func(*kernel.State) {
		return func(st *kernel.State) {
			st.Status, st.Failure, st.Exit, st.Outcome = status, c, kernel.Exited(1), kernel.OutcomeFailed
		}
	}
	for name, c := range map[string]struct {
		from kernel.Status
		to   func(*kernel.State)
	}{
		"blocked while waiting":    {kernel.WaitingOnDeps, end(kernel.BlockedByDependency, 0)},
		"cancelled while queued":   {kernel.Queued, end(kernel.Cancelled, 0)},
		"cancelled while running":  {kernel.Running, end(kernel.Cancelled, 0)},
		"lost":                     {kernel.Running, end(kernel.Failed, kernel.WorkerLost)},
		"could not be launched":    {kernel.Running, end(kernel.Failed, kernel.LaunchFailure)},
		"lost, will be reclaimed":  {kernel.Running, end(kernel.FailedRetryable, kernel.WorkerLost)},
		"rejected while unstarted": {kernel.WaitingOnApproval, end(kernel.BlockedByApproval, 0)},
	} {
		dir := t.TempDir()
		s := newStore(t, dir)
		j := plain(1)
		j.State.Status, j.State.Attempt = c.from, 1
		commit(t, s, kernel.Create(j))
		commit(t, s, put(j, c.to))
		m := parseObject(t, []byte(contentOf(t, s.RecordFile(j.ID))))
		at, ok := m["outcome_path"].(string)
		if ok && !exists(filepath.Join(dir, at)) {
			t.Errorf("%s: outcome_path is %s, and there is no such file", name, at)
		}
	}
}

// A store may find .vizier with nothing of its own in it, and be asked to read
// first.
func TestFirstUseOfAStore(t *testing.T) {
	for name, prepare := range map[string]func(dir string) error{
		"nothing":      func(string) error { return nil },
		"only .vizier": func(dir string) error { return os.Mkdir(filepath.Join(dir, vizierDir), 0o755) },
		"only jobs":    func(dir string) error { return os.MkdirAll(file(dir, "jobs"), 0o755) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := prepare(dir); err != nil {
				t.Fatal(err)
			}
			s := newStore(t, dir)
			before, _ := filepath.Glob(filepath.Join(dir, "*", "*"))
			if rec := read(t, s); len(rec.Jobs) != 0 {
				t.Fatal(rec)
			}
			if _, err := s.Job(id(1)); err == nil {
				t.Fatal("found a job")
			}
			f := kernel.NewFacts()
			s.Observe(context.Background(), kernel.Probes{Markers: []kernel.Artifact{custom("a", "b")}}, &f)
			if after, _ := filepath.Glob(filepath.Join(dir, "*", "*")); name != "only jobs" && !reflect.DeepEqual(before, after) {
				t.Errorf("reading made %v", after)
			}
			commit(t, s, kernel.Create(plain(1)))
			find(t, read(t, s), id(1))
		})
	}
}
