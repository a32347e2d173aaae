package app

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
)

// A caller that looks settles what lost its runner, unless that is for another host or it must not.
func TestSettled(t *testing.T) {
	for name, row := range map[string]struct {
		change func(*memory, *Looker)
		status kernel.Status // of the snapshot
		left   []kernel.JobID
		why    string
		ticks  int
	}{
		"alive":          {func(m *memory, _ *Looker) { m.alive = kernel.Alive }, kernel.Running, nil, "", 0},
		"lost":           {func(*memory, *Looker) {}, kernel.Failed, nil, "", 1},
		"elsewhere":      {func(_ *memory, l *Looker) { l.Elsewhere = func() bool { return true } }, kernel.Running, nil, "", 0},
		"must not":       {func(_ *memory, l *Looker) { l.Forbidden = "a sandbox" }, kernel.Running, []kernel.JobID{"a"}, "a sandbox", 0},
		"a disk on fire": {func(m *memory, _ *Looker) { m.refuse["commit"] = errDisk }, kernel.Running, []kernel.JobID{"a"}, "disk on fire", 1},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMemory(job("a", running(1)))
			m.alive = kernel.Dead
			no := func() bool { return false }
			l := Looker{Attended: no, Elsewhere: no, Mine: func() bool { return true }, Patience: 1 << 40}
			row.change(m, &l)
			s := m.scheduler()
			seen, err := s.Settled(t.Context(), l, func() (*kernel.Snapshot, error) { return s.Records(t.Context(), kernel.Scope{All: true}) })
			if err != nil {
				t.Fatal(err)
			}
			if st := seen.Snapshot.Job("a").State.Status; st != row.status || !slices.Equal(seen.Unsettled, row.left) || seen.Why != row.why || seen.Unattended != nil {
				t.Errorf("%s, unsettled %q for %q, unattended %v", st, seen.Unsettled, seen.Why, seen.Unattended)
			}
			if commits := len(slices.DeleteFunc(slices.Clone(m.calls), func(c string) bool { return c != "commit" })); commits != row.ticks {
				t.Errorf("calls %q", m.calls)
			}
		})
	}
	refused := errors.New("unreadable")
	m, reads := newMemory(job("a", running(1))), 0
	m.alive = kernel.Dead
	l := Looker{Elsewhere: func() bool { return false }, Patience: 1 << 40}
	if _, err := m.scheduler().Settled(t.Context(), l, func() (*kernel.Snapshot, error) {
		if reads++; reads > 1 {
			return nil, refused
		}
		return m.scheduler().Records(t.Context(), kernel.Scope{All: true})
	}); !errors.Is(err, refused) {
		t.Errorf("what cannot be read again: %v", err)
	}
	s := newMemory().scheduler()
	if _, err := s.Settled(t.Context(), Looker{}, func() (*kernel.Snapshot, error) { return nil, refused }); !errors.Is(err, refused) {
		t.Errorf("what cannot be read: %v", err)
	}
}

// What is known of jobs of other executors is seen while a resident scheduler looks after them, if it is asked for.
func TestSettledSeesOtherExecutors(t *testing.T) {
	for _, all := range []bool{false, true} {
		m := newMemory(job("a", func(j *kernel.Job) { running(1)(j); j.Spec.Task.Executor = "far" }))
		s := m.scheduler()
		s.Executors = map[string]Executor{"far": newMemory()}
		l := Looker{Attended: func() bool { return true }, All: all, Patience: 1 << 40}
		seen, err := s.Settled(t.Context(), l, func() (*kernel.Snapshot, error) { return s.Records(t.Context(), kernel.Scope{All: true}) })
		if err != nil {
			t.Fatal(err)
		}
		if known := seen.Snapshot.Facts().Runners[kernel.AttemptID{Job: "a", N: 1}].Known; known != all {
			t.Errorf("asked for: %t, known: %t", all, known)
		}
	}
}

// refreshing is an executor that counts how often it is asked for new answers.
type refreshing struct {
	*memory
	n int
}

func (r *refreshing) Refresh(context.Context) error { r.n++; return errDisk }

// Executors are asked for new answers by who wants them, if no resident scheduler does that.
func TestSettledAsksForNewAnswers(t *testing.T) {
	for _, attended := range []bool{false, true} {
		for _, refresh := range []bool{false, true} {
			m, far := newMemory(job("a", func(j *kernel.Job) { running(1)(j); j.Spec.Task.Executor = "far" })), &refreshing{memory: newMemory()}
			s := m.scheduler()
			s.Executors = map[string]Executor{"far": far}
			l := Looker{Attended: func() bool { return attended }, Elsewhere: func() bool { return false }, Mine: func() bool { return true }, Refresh: refresh, Patience: 1 << 40}
			if _, err := s.Settled(t.Context(), l, func() (*kernel.Snapshot, error) { return s.Records(t.Context(), kernel.Scope{All: true}) }); err != nil || (far.n == 1) != (refresh && !attended) {
				t.Errorf("attended %t, asked to %t: %v, asked %d times", attended, refresh, err, far.n)
			}
		}
	}
}

// wakes counts how often a resident scheduler was started.
type wakes struct{ n int }

func (w *wakes) Wake(kernel.Wakes) { w.n++ }

// Jobs of another executor go on by a resident scheduler, which a caller that looks starts or, where it may not, names a
// job that waits for one.
func TestSettledStartsAResidentScheduler(t *testing.T) {
	for name, row := range map[string]struct {
		change  func(*Scheduler, *Looker)
		started int
		job     kernel.JobID
	}{
		"nobody is there":  {func(*Scheduler, *Looker) {}, 1, ""},
		"one is alive":     {func(_ *Scheduler, l *Looker) { l.Attended = func() bool { return true } }, 0, ""},
		"none is wanted":   {func(s *Scheduler, _ *Looker) { s.Waker = nil }, 0, "a"},
		"must not":         {func(_ *Scheduler, l *Looker) { l.Forbidden = "a sandbox" }, 0, "a"},
		"of somebody else": {func(_ *Scheduler, l *Looker) { l.Mine = func() bool { return false } }, 0, ""},
		"only local jobs":  {func(s *Scheduler, _ *Looker) { s.Executors = nil }, 0, ""},
		"none is far away": {func(s *Scheduler, _ *Looker) { s.Store = newMemory(job("a", running(1))) }, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			m, far := newMemory(job("a", func(j *kernel.Job) { running(1)(j); j.Spec.Task.Executor = "far" })), newMemory()
			no, w := func() bool { return false }, &wakes{}
			s := m.scheduler()
			s.Executors, s.Waker = map[string]Executor{"far": far}, w
			l := Looker{Attended: no, Elsewhere: no, Mine: func() bool { return true }, Patience: 1 << 40}
			row.change(s, &l)
			seen, err := s.Settled(t.Context(), l, func() (*kernel.Snapshot, error) { return s.Records(context.Background(), kernel.Scope{All: true}) })
			if err != nil {
				t.Fatal(err)
			}
			var id kernel.JobID
			if seen.Unattended != nil {
				id = seen.Unattended.ID
			}
			if w.n != row.started || id != row.job {
				t.Errorf("started %d times, unattended %q", w.n, id)
			}
		})
	}
}
