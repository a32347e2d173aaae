package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/retention"
)

// endedAt returns a job that ended then.
func endedAt(id kernel.JobID, at time.Time) kernel.Job {
	return job(id, func(j *kernel.Job) {
		j.Created, j.State = at, kernel.State{Status: kernel.Failed, Finished: at}
	})
}

// A collection removes some jobs at a time. It is over, and notes that, only when the
// bounds are kept.
func TestACollectionGoesOnUntilTheBoundsAreKept(t *testing.T) {
	const keep = 100
	for _, r := range []retention.Policy{{Count: keep}, {Bytes: 10 * keep}} {
		m := newMemory()
		for i := range 2*mostAtOnce + 200 {
			id := kernel.JobID(fmt.Sprintf("%04d", i))
			m.jobs[id] = endedAt(id, at.Add(-3*time.Hour).Add(time.Duration(i)*time.Second))
		}
		s := m.scheduler()
		s.Keep = r
		c, err := s.Collect(t.Context())
		if err != nil || len(c.Jobs) != 2*mostAtOnce+200-keep {
			t.Fatalf("%+v: %d jobs are to go: %v", r, len(c.Jobs), err)
		}
		for _, want := range []int{mostAtOnce + 200, 200, keep} {
			if !m.collected.IsZero() {
				t.Errorf("%+v: it is over with %d jobs left", r, len(m.jobs))
			}
			if _, more, err := c.Next(t.Context()); err != nil || len(m.jobs) != want || more != (want > keep) {
				t.Errorf("%+v: %d jobs are left, want %d; more %v: %v", r, len(m.jobs), want, more, err)
			}
		}
		if !m.collected.Equal(at) {
			t.Errorf("%+v: it is over, and %s is noted", r, m.collected)
		}
		if _, young := m.jobs[kernel.JobID(fmt.Sprintf("%04d", 2*mostAtOnce+199))]; !young {
			t.Errorf("%+v: the youngest went", r)
		}
	}
}

func TestACollectionThatFailsIsNotOver(t *testing.T) {
	m := newMemory(endedAt("a", at.Add(-48*time.Hour)))
	s := m.scheduler()
	s.Keep.Age = time.Hour
	c, err := s.Collect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	m.refuse["commit"] = errDisk
	if _, _, err := c.Next(t.Context()); !errors.Is(err, errDisk) || len(m.jobs) != 1 || !m.collected.IsZero() {
		t.Errorf("%d jobs are left, noted %s: %v", len(m.jobs), m.collected, err)
	}
	m.refuse["load"] = errDisk
	if _, err := s.Collect(t.Context()); !errors.Is(err, errDisk) {
		t.Error(err)
	}
	r := &Resident{Scheduler: s}
	for range 2 {
		if r.collect(t.Context()) || r.collected != at {
			t.Errorf("a resident that cannot look goes on at once, begun %v", r.collected)
		}
	}
	if r.Scheduler.Cleaner = nil; r.collect(t.Context()) {
		t.Error("nothing cleans up, and something was removed")
	}
}

// A resident removes a part at a time, and looks again an hour after it, or another, has begun or ended.
func TestAPartAtATime(t *testing.T) {
	now := at
	m := newMemory()
	m.now = func() time.Time { return now }
	for i := range mostAtOnce + 1 {
		id := kernel.JobID(fmt.Sprintf("%04d", i))
		m.jobs[id] = endedAt(id, at.Add(-48*time.Hour))
	}
	s := m.scheduler()
	s.Keep.Age = time.Hour
	r := &Resident{Scheduler: s}
	expect := func(what string, removed, more bool, left, looks int) {
		t.Helper()
		if got := r.collect(t.Context()); got != removed || (r.collection != nil) != more || len(m.jobs) != left || m.looks() != looks {
			t.Errorf("%s: removed %v, more %v, %d jobs are left, %d looks", what, got, r.collection != nil, len(m.jobs), m.looks())
		}
	}
	expect("the first part", true, true, 1, 2)
	expect("the second", true, false, 0, 3)
	now = at.Add(collectEvery - 1)
	expect("before the hour", false, false, 0, 3)
	m.collected, now = at.Add(1), at.Add(collectEvery)
	expect("an hour after its own, and less after another's", false, false, 0, 3)
	m.collected = at
	expect("after the hour", false, false, 0, 4)
	m.jobs["old"] = endedAt("old", at.Add(-48*time.Hour))
	m.refuse["commit"], m.collected, now = errDisk, at, now.Add(collectEvery)
	expect("it fails", false, false, 1, 6)
}

// What the files of jobs take is asked for only if it decides what stays.
func TestSizesAreAskedForWhereTheyCount(t *testing.T) {
	for _, c := range []struct {
		keep retention.Policy
		want []string
	}{{retention.Policy{Count: 1}, nil}, {retention.Policy{Bytes: 1}, []string{"sizes"}}} {
		m := newMemory(endedAt("a", at))
		s := m.scheduler()
		s.Keep = c.keep
		if _, err := s.Collect(t.Context()); err != nil || !slices.Equal(m.calls, c.want) {
			t.Errorf("%+v: %q, %v", c.keep, m.calls, err)
		}
	}
}

// A time in the future counts as never.
func TestHowLongAgo(t *testing.T) {
	for then, want := range map[time.Time]time.Duration{at: 0, at.Add(-time.Hour): time.Hour, at.Add(time.Nanosecond): at.Sub(time.Time{})} {
		if got := since(at, then); got != want {
			t.Errorf("since %v: %v", then, got)
		}
	}
}

// attic is what was parked and had only been staged.
type attic struct {
	worktrees
	before []time.Time
	held   int // how often refs that hold something were dropped
}

func (s *attic) DropHeld(context.Context) error {
	s.held++
	return s.fails("drop held")
}

func (s *attic) DropStaged(_ context.Context, before time.Time) error {
	s.before = append(s.before, before)
	return s.fails("drop staged")
}

// Whatever goes wrong in a collection is said, and it is then not over.
func TestWhatGoesWrongInACollection(t *testing.T) {
	for _, what := range []string{"begin", "load", "commit", "trim history", "drop held", "drop staged", "note collected", "worktrees of", "drop conflicts"} {
		m := newMemory(endedAt("a", at.Add(-48*time.Hour)))
		s := m.scheduler()
		s.Keep.Age, s.Worktrees = time.Nanosecond, &attic{worktrees: worktrees{memory: m}}
		c, err := s.Collect(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		m.refuse[what] = errDisk
		if _, more, err := c.Next(t.Context()); !errors.Is(err, errDisk) || more || what != "note collected" && !m.collected.IsZero() && !slices.Contains(m.calls, "trim history") {
			t.Errorf("%s: %v, more %v, %q", what, err, more, m.calls)
		}
	}
}

// A collection has what was only staged kept as long as jobs, and drops the refs that hold what is gone, also if it removes none.
func TestACollectionForgetsWhatWasOnlyStaged(t *testing.T) {
	for _, c := range []struct {
		keep retention.Policy
		want []time.Time
	}{{retention.Policy{Age: time.Hour}, []time.Time{at.Add(-time.Hour)}}, {retention.Policy{Age: 1}, []time.Time{at.Add(-1)}}, {retention.Policy{Count: 1}, nil}, {retention.Policy{}, nil}} {
		m := newMemory(endedAt("a", at))
		s, kept := m.scheduler(), &attic{worktrees: worktrees{memory: m}}
		s.Keep, s.Worktrees = c.keep, kept
		found, err := s.Collect(t.Context())
		if err == nil {
			_, _, err = found.Next(t.Context())
		}
		if err != nil || !slices.Equal(kept.before, c.want) || kept.held != 1 || len(m.jobs) != 1 {
			t.Errorf("%+v: %v, %d, %v", c.keep, kept.before, kept.held, err)
		}
	}
}

// looks returns how often every job was asked for.
func (m *memory) looks() (n int) {
	for _, s := range m.scopes {
		if s.All {
			n++
		}
	}
	return n
}

// The resident removes jobs that need not be kept once it has nothing else to do. It looks
// for them once an hour, even if another process was the resident before. If all jobs are
// kept it looks at none, but still trims the history.
func TestTheResidentCollectsWhenItHasNothingElseToDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(endedAt("a", time.Now().Add(-48*time.Hour)), endedAt("b", time.Now()))
		m.now = time.Now
		sched := m.scheduler()
		reside := func(r *Resident) time.Duration {
			begun := time.Now()
			r.Scheduler = sched
			r.Serve(t.Context())
			return time.Since(begun)
		}
		fresh := func() *Resident { return newShed(kernel.Spec{}, kernel.State{}).resident() }
		if reside(fresh()); m.looks() > 0 || len(m.jobs) != 2 {
			t.Errorf("everything is kept: %d looks, %d jobs are left", m.looks(), len(m.jobs))
		}
		if m.collected.IsZero() {
			t.Error("the history was not trimmed")
		}
		time.Sleep(collectEvery)
		sched.Keep.Age = 24 * time.Hour
		stayed := reside(fresh())
		if len(m.jobs) != 1 || m.collected.IsZero() || stayed < 10*time.Second {
			t.Errorf("%d jobs are left after %s, noted %s", len(m.jobs), stayed, m.collected)
		}
		looks := m.looks()
		if reside(fresh()); m.looks() != looks {
			t.Error("another looks again at once")
		}
		time.Sleep(collectEvery)
		if reside(fresh()); m.looks() != looks+1 {
			t.Errorf("%d looks after an hour", m.looks()-looks)
		}
		// If the end of a collection cannot be noted, the resident does not look again all the time.
		time.Sleep(collectEvery)
		looks, m.refuse["note collected"] = m.looks(), errDisk
		r := fresh()
		m.jobs["c"] = job("c", func(j *kernel.Job) {
			j.State = kernel.State{Status: kernel.FailedRetryable, RetryAt: time.Now().Add(10 * time.Minute)}
		})
		done := make(chan struct{})
		ctx, stop := context.WithCancel(t.Context())
		r.Scheduler = sched
		go func() { defer close(done); r.Serve(ctx) }()
		time.Sleep(9 * time.Minute)
		synctest.Wait()
		if m.looks() != looks+1 {
			t.Errorf("%d looks in nine minutes", m.looks()-looks)
		}
		stop()
		<-done
	})
}

// packs is a store in which nothing is left to pack after it was asked left times.
type packs struct {
	*memory
	left   int
	before []time.Time
	busy   error
	broken error
}

func (p *packs) Begin(ctx context.Context) (Tx, error) {
	if p.busy != nil {
		return nil, fmt.Errorf("held by another: %w", p.busy)
	}
	tx, err := p.memory.Begin(ctx)
	return packing{tx, p}, err
}

type packing struct {
	Tx
	*packs
}

func (p packing) Load(s kernel.Scope) (kernel.Records, error) { return p.Tx.Load(s) }

func (p packing) Pack(ended time.Time, _ int) (bool, error) {
	p.left--
	p.before = append(p.before, ended)
	return p.left > 0, p.broken
}

// Packing goes on until no job is left that ended long enough ago, and gives way if
// another process has the lock.
func TestPackingGivesWay(t *testing.T) {
	p := &packs{memory: newMemory(), left: 3}
	s := p.memory.scheduler()
	s.Store = p
	if err := s.Pack(t.Context()); err != nil || len(p.before) != 0 {
		t.Errorf("without a time nothing is packed: %d, %v", len(p.before), err)
	}
	s.PackAfter = time.Hour
	if err := s.Pack(t.Context()); err != nil || len(p.before) != 3 || !p.before[0].Equal(s.Now().Add(-time.Hour)) {
		t.Errorf("%v, %v", p.before, err)
	}
	over, end := context.WithCancel(t.Context())
	end()
	for _, c := range []struct {
		ctx  context.Context
		busy error
		want error
	}{{t.Context(), ErrBusy, nil}, {t.Context(), context.DeadlineExceeded, nil}, {over, context.DeadlineExceeded, context.DeadlineExceeded}, {t.Context(), errDisk, errDisk}} {
		if p.busy = c.busy; !errors.Is(s.Pack(c.ctx), c.want) {
			t.Errorf("%v: %v", c.busy, s.Pack(c.ctx))
		}
	}
	p.busy, p.left, p.before = nil, 3, nil
	if err := s.Pack(over); !errors.Is(err, context.Canceled) || len(p.before) != 1 {
		t.Errorf("when it is to end: %v, %d turns", err, len(p.before))
	}
	p.broken, p.left, p.before, s.PackAfter = errDisk, 3, nil, 1
	if err := s.Pack(t.Context()); !errors.Is(err, errDisk) || len(p.before) != 1 {
		t.Errorf("what cannot be packed: %v, %v", err, p.before)
	}
	if s.Store = p.memory; s.Pack(t.Context()) != nil {
		t.Error("a store that packs nothing is an error")
	}
	p.refuse["close"] = errDisk
	if err := s.Pack(t.Context()); !errors.Is(err, errDisk) {
		t.Errorf("a transaction that does not end: %v", err)
	}
	s.Sandboxed = true
	if err := s.Pack(t.Context()); err != nil {
		t.Errorf("in a sandbox: %v", err)
	}
}
