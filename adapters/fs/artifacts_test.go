package fs

import (
	"errors"
	iofs "io/fs"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/effect"
)

// Of the jobs that made an artifact, those of the consumer's run count if there are any, the newest first. A marker of
// a job that is gone counts as one of no run.
func TestProducersOfAnArtifact(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, dir)
	a := custom("t", "k")
	if _, err := s.Producers(&kernel.Job{}, a); !errors.Is(err, iofs.ErrNotExist) {
		t.Errorf("no store: %v", err)
	}
	var actions []kernel.Action
	for n, run := range []kernel.RunID{"", "r", "q", "r"} {
		j := plain(n + 1)
		j.Spec.Origin.Run = run
		actions = append(actions, kernel.Create(j))
	}
	commit(t, s, actions...)
	for _, n := range []int{2, 4, 1, 3, 9} {
		writeAt(t, file(dir, artifactFile(markersDir, a, id(n))), "{}")
	}
	for run, want := range map[kernel.RunID][]kernel.JobID{"": {id(9), id(4), id(3), id(2), id(1)}, "r": {id(4), id(2)}, "q": {id(3)}, "other": {id(9), id(4), id(3), id(2), id(1)}} {
		j := plain(7)
		j.Spec.Origin.Run = run
		if got, err := s.Producers(&j, a); err != nil || !slices.Equal(got, want) {
			t.Errorf("for run %q: %v, %v, want %v", run, got, err, want)
		}
	}
	if got, err := s.Producers(&kernel.Job{}, custom("t", "nobody's")); err != nil || len(got) > 0 {
		t.Errorf("nobody made it: %v, %v", got, err)
	}
	d := &faulty{}
	failing := newStore(t, dir)
	failing.disk = d
	if err := failing.open(false); err != nil {
		t.Fatal(err)
	}
	d.at, d.dead = d.n+1, true
	if got, err := failing.Producers(&kernel.Job{}, a); err == nil || !strings.Contains(err.Error(), unix.EIO.Error()) {
		t.Errorf("%s fails: %v, %v", d.where, got, err)
	}
}

// A name that would lead out of the store, or is none, is refused, and a store that is not there is missed.
func TestNamesThatAreNone(t *testing.T) {
	dir := t.TempDir()
	s, none := newStore(t, dir), newStore(t, t.TempDir())
	commit(t, s, kernel.Create(plain(1)))
	tok := custom("t", "k")
	before := tree(t, dir)
	for name, deed := range map[string]func(*Store, kernel.JobID, string) error{
		"an artifact":     func(s *Store, id kernel.JobID, _ string) error { return s.WritePayload(id, tok, nil) },
		"no artifact":     func(s *Store, _ kernel.JobID, _ string) error { return s.WritePayload(id(1), kernel.Artifact{}, nil) },
		"a patch":         func(s *Store, id kernel.JobID, _ string) error { return s.WritePatch(id, nil) },
		"a note":          func(s *Store, id kernel.JobID, _ string) error { return s.WriteNoInput(id, "") },
		"a sentinel":      func(s *Store, _ kernel.JobID, slug string) error { return s.WriteSentinel(slug, nil) },
		"no sentinel":     func(s *Store, _ kernel.JobID, slug string) error { return s.ClearSentinel(slug) },
		"a read sentinel": func(s *Store, _ kernel.JobID, slug string) error { _, err := s.Sentinel(slug); return err },
		"no conflict":     func(s *Store, _ kernel.JobID, slug string) error { return s.DropConflict(slug, &kernel.Job{}) },
		"a payload":       func(s *Store, id kernel.JobID, _ string) error { _, err := s.Payload(id, tok); return err },
		"a log":           func(s *Store, id kernel.JobID, _ string) error { _, err := s.LogTail(id, "stdout", 1); return err },
		"an outcome": func(s *Store, id kernel.JobID, _ string) error {
			return s.Conclude(kernel.Result{Attempt: kernel.AttemptID{Job: id, N: 1}, Outcome: kernel.OutcomeFailed})
		},
		"an outcome for good": func(s *Store, id kernel.JobID, _ string) error {
			return s.ConcludeOnce(kernel.Result{Attempt: kernel.AttemptID{Job: id, N: 1}, Outcome: kernel.OutcomeFailed})
		},
		"a job":         func(s *Store, id kernel.JobID, _ string) error { _, err := s.Job(id); return err },
		"attempts":      func(s *Store, id kernel.JobID, _ string) error { _, err := s.Attempts(id); return err },
		"effects":       func(s *Store, id kernel.JobID, _ string) error { _, err := s.Effects(id); return err },
		"a read effect": func(s *Store, id kernel.JobID, slug string) error { _, err := s.Effect(id, slug); return err },
		"an effect": func(s *Store, id kernel.JobID, slug string) error {
			return s.RecordEffect(t.Context(), effect.Record{Job: id, Key: slug})
		},
		"a run": func(s *Store, _ kernel.JobID, slug string) error { _, err := s.Run(kernel.RunID(slug)); return err },
		"a followed run": func(s *Store, _ kernel.JobID, slug string) error {
			_, err := s.FollowRun(kernel.RunID(slug))
			return err
		},
	} {
		if err := deed(s, "../"+id(1), "../x"); !errors.Is(err, kernel.ErrInvalid) && !errors.Is(err, kernel.ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
		if err := deed(none, "../"+id(1), "../x"); err == nil && name != "attempts" {
			t.Errorf("%s, where no store is: no error", name)
		}
	}
	if after := tree(t, dir); len(after) != len(before) {
		t.Errorf("something was made: %v, before %v", after, before)
	}
	if s.Followed("../x") || none.Followed("run_x") || none.HooksPending() || none.Full() || len(none.Sizes(t.Context(), []kernel.JobID{id(1)})) > 0 || !none.Collected().IsZero() {
		t.Error("something is known of what is not there")
	}
	if markers, payloads := none.CountArtifacts(id(1), []kernel.Artifact{tok}); markers+payloads > 0 {
		t.Error("there are artifacts where no store is")
	}
	for what, n := range map[string]func() (int, error){
		"plan states":     func() (int, error) { return none.PlanStates([]kernel.JobID{id(1)}, true) },
		"temporary files": none.DropTemporary,
		"conflicts":       func() (int, error) { return 0, none.DropConflicts([]kernel.JobID{id(1)}) },
		"ids":             func() (int, error) { ids, err := none.IDs(); return len(ids), err },
		"hooks":           func() (int, error) { all, err := none.Pending(); return len(all), err },
	} {
		if n, err := n(); n != 0 || err != nil {
			t.Errorf("%s, where no store is: %d, %v", what, n, err)
		}
	}
}
