package app

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// patient is a store whose lock is free after a while.
type patient struct{ *memory }

func (p patient) Begin(ctx context.Context) (Tx, error) {
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(5 * time.Second):
		return p.memory.Begin(ctx)
	}
}

// Who repairs waits for the lock. Who only looks does not wait long.
func TestExamineWaitsToRepair(t *testing.T) {
	for fix, want := range map[bool]error{false: ErrBusy, true: nil} {
		synctest.Test(t, func(t *testing.T) {
			s := newMemory().scheduler()
			s.Store = patient{newMemory()}
			if _, err := s.Examine(t.Context(), nil, fix); !errors.Is(err, want) {
				t.Errorf("to repair %v: %v", fix, err)
			}
		})
	}
	m := newMemory()
	m.refuse["begin"] = errDisk
	if _, err := m.scheduler().Examine(t.Context(), nil, false); !errors.Is(err, errDisk) {
		t.Errorf("no lock: %v", err)
	}
}

// Examine reports problems. It repairs them only if asked to, after a tick, and
// also reports failed repairs and failed checks.
func TestExamine(t *testing.T) {
	for _, fix := range []bool{false, true} {
		m := newMemory(job("a", nil), job("b", func(j *kernel.Job) { j.State.Status = kernel.Succeeded }))
		mend := func(what string) func(context.Context) error {
			return func(context.Context) error { return m.called("mend %s", what) }
		}
		m.refuse["mend two"] = errDisk
		checks := []Check{
			{Name: "files", Look: func(_ context.Context, s *kernel.Snapshot) ([]Finding, error) {
				if s.Job("b") == nil {
					t.Error("it sees not every job")
				}
				return []Finding{{Problem: "one", Fix: mend("one")}, {Problem: "two", Fix: mend("two")}, {Problem: "three"}}, nil
			}},
			{Name: "git", Look: func(context.Context, *kernel.Snapshot) ([]Finding, error) {
				return []Finding{{Problem: "four"}}, errDisk
			}},
		}
		found, err := m.scheduler().Examine(t.Context(), checks, fix)
		if err != nil {
			t.Fatal(err)
		}
		var said []string
		for _, f := range found {
			what := f.Check + ": " + f.Problem
			if f.Fixed {
				what += " (mended)"
			}
			if f.Failed != strings.Contains(f.Problem, "the repair failed") {
				t.Errorf("failed is %v: %s", f.Failed, f.Problem)
			}
			said = append(said, what)
		}
		want, calls := []string{"files: one", "files: two", "files: three", "git: four", "git: it cannot be looked at: disk on fire"}, []string(nil)
		if fix {
			want[0], want[1] = "files: one (mended)", "files: two; the repair failed: disk on fire"
			calls = []string{"commit", "start a/1", "done", "mend one", "mend two"}
		}
		if !slices.Equal(said, want) {
			t.Errorf("fix %v: %q, want %q", fix, said, want)
		}
		m.expectCalls(t, calls...)
	}
	for _, what := range []string{"begin", "load", "close"} {
		m := newMemory(job("a", nil))
		m.refuse[what] = errDisk
		for _, fix := range []bool{false, true} {
			if _, err := m.scheduler().Examine(t.Context(), nil, fix); !errors.Is(err, errDisk) {
				t.Errorf("%s, fix %v: %v", what, fix, err)
			}
		}
	}
}

// What decisions rest on is repaired before any is made, and looked at again after them.
func TestExamineRepairsRecordsFirst(t *testing.T) {
	m := newMemory(job("a", nil))
	mended := false
	checks := []Check{{Name: "records", Before: true, Look: func(_ context.Context, s *kernel.Snapshot) (found []Finding, err error) {
		if !mended {
			found = []Finding{{Problem: "torn", Fix: func(context.Context) error { mended = true; return m.called("mend") }}}
		}
		return append(found, Finding{Problem: s.Job("a").State.Status.String()}), nil
	}}}
	found, err := m.scheduler().Examine(t.Context(), checks, true)
	if err != nil || len(found) != 2 || found[0].Problem != "torn" || !found[0].Fixed || found[1].Problem != "running" {
		t.Errorf("%+v, %v", found, err)
	}
	m.expectCalls(t, "mend", "commit", "start a/1", "done")
}

// A survey needs neither the lock nor a write, and repairs nothing.
func TestSurvey(t *testing.T) {
	m := newMemory(job("a", nil))
	m.refuse["begin"] = errDisk
	checks := []Check{{Name: "files", Look: func(_ context.Context, s *kernel.Snapshot) ([]Finding, error) {
		return []Finding{{Problem: s.Jobs()[0].State.Status.String(), Fix: func(context.Context) error { return m.called("mend") }}}, nil
	}}}
	found, err := m.scheduler().Survey(t.Context(), checks)
	if err != nil || len(found) != 1 || found[0].Check != "files" || found[0].Problem != m.jobs["a"].State.Status.String() || found[0].Fixed {
		t.Errorf("%+v, %v", found, err)
	}
	m.expectCalls(t)
}
