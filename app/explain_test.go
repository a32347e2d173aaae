package app

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// archive is a store that loads only the jobs that are asked for by id, like a store
// whose other jobs ended long ago.
type archive []kernel.Job

func (archive) Begin(context.Context) (Tx, error) { return nil, ErrBusy }

func (a archive) Read(_ context.Context, scope kernel.Scope) (rec kernel.Records, err error) {
	for _, j := range a {
		if slices.Contains(scope.Jobs, j.ID) {
			rec.Jobs = append(rec.Jobs, j)
		}
	}
	return rec, nil
}

// The predecessors of an ended job are loaded as well, so that they are not
// reported as gone.
func TestAnEndedJobIsExplainedWithWhatItCameAfter(t *testing.T) {
	id := func(c string) kernel.JobID { return kernel.JobID("0000000000000000000000000000000" + c) }
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	jobs := archive{
		{ID: id("1"), Created: at, Rev: 1, State: kernel.State{Status: kernel.Succeeded}},
		{ID: id("2"), Created: at, Rev: 1, State: kernel.State{Status: kernel.Failed, Reason: "exit code 3"}},
		{ID: id("3"), Created: at, Rev: 1, Spec: kernel.Spec{After: []kernel.JobID{id("1"), id("2")}, Task: kernel.Task{Args: []string{"true"}}},
			State: kernel.State{Status: kernel.BlockedByDependency}},
	}
	s := &Scheduler{Store: jobs, Now: func() time.Time { return at }}
	e, _, err := s.Explain(t.Context(), id("3"))
	if err != nil {
		t.Fatal(err)
	}
	if len(e.Unmet) != 1 || e.Root == nil || e.Root.Job != id("2") {
		t.Errorf("unmet %+v, root %+v: want the job that failed alone", e.Unmet, e.Root)
	}
}

// What cannot be read is an error of whoever asks why, and of whoever asks what holds a job up; a job that is gone is one of
// the former alone.
func TestAnExplanationThatCannotBeHad(t *testing.T) {
	m := newMemory(job("a", running(1)), job("b", func(j *kernel.Job) { j.Spec.After = []kernel.JobID{"a"} }), job("c", func(j *kernel.Job) { j.Spec.After = []kernel.JobID{"b"} }), job("d", nil))
	s := m.scheduler()
	if _, err := s.Tick(t.Context()); err != nil {
		t.Fatal(err)
	}
	for by, want := range map[kernel.JobID]kernel.JobID{"a": "c", "d": ""} {
		if got, err := s.HeldUpBy(t.Context(), by, []kernel.JobID{"gone", "c"}, nobody); got != want || err != nil {
			t.Errorf("by %s: %q, %v", by, got, err)
		}
	}
	if _, _, err := s.Explain(t.Context(), "gone"); !errors.Is(err, kernel.ErrNotFound) {
		t.Errorf("of one that is gone: %v", err)
	}
	m.refuse["load"] = errDisk
	if _, _, err := s.Explain(t.Context(), "c"); !errors.Is(err, errDisk) {
		t.Errorf("of what cannot be read: %v", err)
	}
	if _, err := s.HeldUpBy(t.Context(), "a", []kernel.JobID{"c"}, nobody); !errors.Is(err, errDisk) {
		t.Errorf("of what cannot be read, held up: %v", err)
	}
}

// nobody is what a job waits for that runs no command which waits.
func nobody(kernel.JobID) []kernel.JobID { return nil }

// Whoever waits for a job that runs, and that waits for others in its turn, is held up by these.
func TestWaitsOfJobsThatRun(t *testing.T) {
	m := newMemory(job("a", running(1)), job("b", running(1)), job("c", running(1)), job("d", func(j *kernel.Job) { j.Spec.After = []kernel.JobID{"a"} }))
	waits := map[kernel.JobID][]kernel.JobID{"b": {"c"}, "c": {"c", "d"}}
	for _, by := range []kernel.JobID{"a", "d"} {
		got, err := m.scheduler().HeldUpBy(t.Context(), by, []kernel.JobID{"b"}, func(id kernel.JobID) []kernel.JobID { return waits[id] })
		if got != "b" || err != nil {
			t.Errorf("by %s: %q, %v", by, got, err)
		}
	}
}

// A job is held up by one that runs and that excludes it, or what it waits for; not by one of several that may make what it needs.
func TestWhoHoldsUpAJob(t *testing.T) {
	made := kernel.Artifact{Kind: kernel.Custom, Name: "t", Ref: "c"}
	key := []kernel.Lock{{Key: "k", Mode: kernel.Exclusive}}
	m := newMemory(
		job("by", func(j *kernel.Job) { running(1)(j); j.Spec.Locks, j.Spec.Produces = key, []kernel.Artifact{made} }),
		job("locked", func(j *kernel.Job) { j.Spec.Locks, j.State.Status = key, kernel.WaitingOnLocks }),
		job("behind", func(j *kernel.Job) { j.Spec.After, j.State.Status = []kernel.JobID{"locked"}, kernel.WaitingOnDeps }),
		job("needs", func(j *kernel.Job) { j.Spec.Needs, j.State.Status = []kernel.Artifact{made}, kernel.WaitingOnDeps }),
	)
	for _, c := range []struct {
		ids  []kernel.JobID
		want kernel.JobID
	}{{[]kernel.JobID{"locked"}, "locked"}, {[]kernel.JobID{"needs", "behind"}, "behind"}, {[]kernel.JobID{"needs"}, ""}} {
		if got, err := m.scheduler().HeldUpBy(t.Context(), "by", c.ids, nobody); got != c.want || err != nil {
			t.Errorf("of %q: %q, %v", c.ids, got, err)
		}
	}
}

// An explanation knows the facts that the job waits for, also if it has ended, and those that another waits for before it.
func TestAnExplanationHasTheFacts(t *testing.T) {
	first := job("first", onBranch("y"))
	for id, jobs := range map[kernel.JobID][]kernel.Job{
		"then": {first, job("then", func(j *kernel.Job) { j.Spec.After, j.State.Status = []kernel.JobID{"first"}, kernel.WaitingOnDeps })},
		"over": {job("over", func(j *kernel.Job) { onBranch("y")(j); j.State.Status = kernel.BlockedByDependency })},
	} {
		for _, narrow := range []bool{false, true} {
			m := newMemory(jobs...)
			m.narrow, m.judged = narrow, m.scheduler().Limits.String()
			s, h := seer(m)
			e, _, err := s.Explain(t.Context(), id)
			if err != nil || len(e.Actions) == 0 || e.Actions[0].Kind != kernel.MakeBranch || e.Actions[0].Pinned.Branch != "y" {
				t.Errorf("%s, narrow %t: %v, %+v", id, narrow, err, e)
			}
			h.of["y"] = "c1"
			e, _, err = s.Explain(t.Context(), id)
			if err != nil || slices.ContainsFunc(e.Actions, func(r kernel.Remedy) bool { return r.Kind == kernel.MakeBranch }) {
				t.Errorf("%s, narrow %t, once it is there: %v, %+v", id, narrow, err, e)
			}
		}
	}
}
