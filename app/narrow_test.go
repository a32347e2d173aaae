package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/history"
)

// narrowly has jobs in a store that reads only those that are asked for, and all of which a tick has judged.
func narrowly(jobs ...kernel.Job) *memory {
	m := newMemory(jobs...)
	m.narrow, m.judged = true, m.scheduler().Limits.String()
	return m
}

// line returns n jobs, each after the one before, of which change is made to the first.
func line(n int, change func(*kernel.Job)) (jobs []kernel.Job) {
	for i := range n {
		jobs = append(jobs, job(kernel.JobID(fmt.Sprintf("j%03d", i)), func(j *kernel.Job) {
			j.Created = at.Add(time.Duration(i) * time.Second)
			if i == 0 {
				change(j)
				return
			}
			j.Spec.After, j.State.Status = []kernel.JobID{jobs[i-1].ID}, kernel.WaitingOnDeps
		}))
	}
	return jobs
}

// However far a decision reaches, all of it is decided, and the store is not asked for each job.
func TestADecisionThatReachesFar(t *testing.T) {
	const n = 3 * mostRounds
	for name, c := range map[string]struct {
		do    func(context.Context, *Scheduler) error
		alive kernel.Liveness
	}{
		"a cancellation": {func(ctx context.Context, s *Scheduler) error {
			_, err := s.Cancel(ctx, "j000", "ann", false)
			return err
		}, kernel.Alive},
		"a tick": {func(ctx context.Context, s *Scheduler) error { _, err := s.Tick(ctx); return err }, kernel.Dead},
	} {
		m := narrowly(line(n, func(j *kernel.Job) {
			if running(1)(j); name == "a cancellation" {
				j.State = kernel.State{}
			}
		})...)
		m.alive = c.alive
		if err := c.do(t.Context(), m.scheduler()); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for id, j := range m.jobs {
			if id != "j000" && j.State.Status != kernel.BlockedByDependency {
				t.Fatalf("%s: %s is %v", name, id, j.State.Status)
			}
		}
		if len(m.scopes) > 3*mostRounds || m.scopes[0].Near == nil {
			t.Errorf("%s: %d reads, the first of %+v", name, len(m.scopes), m.scopes[0])
		}
	}
}

// Why a job is blocked is found however far away it is, and who holds it up as well. At first only what is near is read, with
// the configuration of now.
func TestALookThatReachesFar(t *testing.T) {
	m := narrowly(line(3*mostRounds, func(j *kernel.Job) { j.State = kernel.State{Status: kernel.Failed, Attempt: 1} })...)
	s, configured := m.scheduler(), 0
	last := kernel.JobID(fmt.Sprintf("j%03d", 3*mostRounds-1))
	if _, err := s.Tick(t.Context()); err != nil {
		t.Fatal(err)
	}
	m.jobs["beside"] = job("beside", func(j *kernel.Job) { j.State.Status = kernel.Succeeded })
	for id, j := range m.jobs {
		if id != "j000" {
			j.State.Status = kernel.BlockedByDependency
			m.jobs[id] = j
		}
	}
	m.scopes = nil
	s.Configure = func(*Scheduler) { configured++ }
	e, _, err := s.Explain(t.Context(), last)
	if err != nil || e.Root == nil || e.Root.Job != "j000" {
		t.Errorf("%v: %+v", err, e.Root)
	}
	if len(m.scopes) > 3*mostRounds || m.scopes[0].Near == nil || configured == 0 {
		t.Errorf("%d reads, the first of %+v; configured %d times", len(m.scopes), m.scopes[0], configured)
	}
}

// Those that are cancelled are named once, however often the store is asked.
func TestCancelAllOfANarrowStore(t *testing.T) {
	m := narrowly(append(line(4, running(1)), job("over", func(j *kernel.Job) { j.State.Status = kernel.Failed }))...)
	for id, j := range m.jobs {
		j.Spec.Origin.Run = "r"
		m.jobs[id] = j
	}
	done, err := m.scheduler().CancelAll(t.Context(), []kernel.JobID{"over", "j001"}, Cancellation{By: "ann", Runs: []kernel.RunID{"r"}})
	if err != nil || !slices.Equal(done.Jobs, []kernel.JobID{"j001"}) || len(m.scopes) < 2 {
		t.Errorf("cancelled %q, %v; %d reads", done.Jobs, err, len(m.scopes))
	}
	if st := m.jobs["j003"].State.Status; st != kernel.BlockedByDependency {
		t.Errorf("what comes after it is %v", st)
	}
}

// A fact that only a job asks for which a decision reaches is observed by the same tick.
func TestAFactThatIsAskedForLate(t *testing.T) {
	m := narrowly(job("a", running(1)), job("b", func(j *kernel.Job) {
		onBranch("x")(j)
		j.Spec.After, j.State.Status = []kernel.JobID{"a"}, kernel.WaitingOnDeps
	}))
	a := kernel.AttemptID{Job: "a", N: 1}
	m.alive, m.results[a] = kernel.Dead, &kernel.Result{Attempt: a, Outcome: kernel.OutcomeSucceeded, Ended: at}
	s, _ := seer(m)
	if _, err := s.Tick(t.Context()); err != nil || m.jobs["b"].State.Status != kernel.Running {
		t.Errorf("%v: %+v", err, m.jobs["b"].State)
	}
}

// What a tick has judged is on record even if it changes nothing, unless nothing was to be judged.
func TestATickThatChangesNothing(t *testing.T) {
	waits := job("a", func(j *kernel.Job) {
		onBranch("y")(j)
		j.Created = at.Add(-time.Hour)
	})
	for name, c := range map[string]struct {
		change func(*memory)
		judges bool
	}{
		"nothing is new":   {func(*memory) {}, false},
		"it is not judged": {func(m *memory) { m.dirty = []kernel.JobID{"a"} }, true},
		"by other limits":  {func(m *memory) { m.judged = "other limits" }, true},
		"a branch has come": {func(m *memory) {
			m.reads = map[kernel.Near]kernel.ReadFact{{Kind: kernel.Readers, Key: "y"}: {Judged: "c0"}}
		}, true},
	} {
		m := narrowly(waits)
		s, _ := seer(m)
		if _, err := s.Tick(t.Context()); err != nil { // the reason why it waits
			t.Fatal(err)
		}
		m.calls, m.scopes, m.plans = nil, nil, nil
		c.change(m)
		rep, err := s.Tick(t.Context())
		if err != nil || (len(m.plans) > 0) != c.judges || len(rep.Decisions) > 0 {
			t.Errorf("%s: %v, %q, %+v", name, err, m.calls, rep.Decisions)
		}
	}
}

// Where the limits are others than those that the last tick judged by, every open job is judged.
func TestNewLimits(t *testing.T) {
	for judged, want := range map[int]kernel.Status{1: kernel.Running, 2: kernel.WaitingOnLocks} {
		m := newMemory(job("a", func(j *kernel.Job) {
			j.Created, j.State.Status = at.Add(-time.Hour), kernel.WaitingOnLocks
			j.Spec.Locks = []kernel.Lock{{Key: "gpu", Mode: kernel.Shared, Units: 2}}
		}))
		s := m.scheduler()
		s.Limits.Pools = map[string]int{"gpu": judged}
		m.narrow, m.judged = true, s.Limits.String()
		s.Limits.Pools = map[string]int{"gpu": 2}
		if _, err := s.Tick(t.Context()); err != nil || m.jobs["a"].State.Status != want {
			t.Errorf("judged with %d: %v, %+v", judged, err, m.jobs["a"].State)
		}
	}
}

// A rewind takes back what depends on it, also what succeeded long ago.
func TestALoopTakesBackWhatHasSucceeded(t *testing.T) {
	after := func(j *kernel.Job) {
		j.Spec.After, j.State = []kernel.JobID{"a"}, kernel.State{Status: kernel.Succeeded, Attempt: 1}
	}
	m := newMemory(job("a", func(j *kernel.Job) { j.State = kernel.State{Status: kernel.Succeeded, Attempt: 1} }), job("old", after),
		job("b", func(j *kernel.Job) {
			running(1)(j)
			j.Spec.After, j.Spec.Routes = []kernel.JobID{"a"}, []kernel.Route{{On: kernel.OutcomeFailed, To: "a"}}
		}))
	b := kernel.AttemptID{Job: "b", N: 1}
	m.alive, m.results[b] = kernel.Dead, &kernel.Result{Attempt: b, Outcome: kernel.OutcomeFailed, Exit: 1, Class: kernel.ExitFailure, Ended: at}
	if _, err := m.scheduler().transact(t.Context(), kernel.Scope{Jobs: []kernel.JobID{"a"}}); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[kernel.JobID]kernel.Status{"a": kernel.Running, "old": kernel.WaitingOnDeps, "b": kernel.WaitingOnDeps} {
		if st := m.jobs[id].State; st.Status != want || st.Generation != 1 {
			t.Errorf("%s is %v, of generation %d", id, st.Status, st.Generation)
		}
	}
}

// What an attempt has submitted starts with its end, once what the new jobs ask for was observed.
func TestSubmissionsStartWithTheEnd(t *testing.T) {
	m := newMemory(job("a", running(1)))
	a := kernel.AttemptID{Job: "a", N: 1}
	news := []kernel.NewJob{{ID: "n", Spec: job("n", onBranch("x")).Spec}}
	m.alive, m.results[a] = kernel.Dead, &kernel.Result{Attempt: a, Outcome: kernel.OutcomeSucceeded, Ended: at, Submitted: news}
	s, _ := seer(m)
	if _, err := s.Tick(t.Context()); err != nil || m.jobs["n"].State.Status != kernel.Running || m.jobs["a"].State.Status != kernel.Succeeded {
		t.Errorf("%v: %+v", err, m.jobs)
	}
}

// blind is an accounting store in which the record of job x cannot be read.
type blind struct{ *accounting }

func (b blind) Begin(context.Context) (Tx, error) { return b, nil }

func (b blind) Load(scope kernel.Scope) (kernel.Records, error) {
	rec, err := b.accounting.Load(scope)
	rec.Unreadable = map[kernel.JobID]string{"x": "permission denied"}
	return rec, err
}

// A job whose record cannot be read is no reason to forget it: who asks for it learns why, and what is decided without it
// says so.
func TestAJobWhoseRecordCannotBeRead(t *testing.T) {
	m := blind{&accounting{memory: newMemory(job("a", nil))}}
	s := m.scheduler()
	s.Store = m
	if _, err := s.Cancel(t.Context(), "x", "ann", false); !errors.Is(err, kernel.ErrNotFound) || !strings.HasSuffix(err.Error(), ": its record cannot be read: permission denied") {
		t.Errorf("%v", err)
	}
	if _, err := s.Cancel(t.Context(), "gone", "ann", false); !errors.Is(err, kernel.ErrNotFound) || strings.Contains(err.Error(), "cannot be read") {
		t.Errorf("%v", err)
	}
	if _, err := s.Tick(t.Context()); err != nil || len(m.accounts) == 0 || m.accounts[0].Unreadable["x"] != "permission denied" {
		t.Errorf("%v: %+v", err, m.accounts)
	}
}

// Every verb is on record in order with the facts that are new to it, and with what was looked at.
func TestTheAccountOfATransaction(t *testing.T) {
	for _, narrow := range []bool{false, true} {
		m := &accounting{memory: newMemory(job("a", onBranch("x")))}
		m.narrow, m.judged = narrow, m.scheduler().Limits.String()
		s, _ := seer(m.memory)
		s.Store = m
		if _, err := s.Submit(t.Context(), []kernel.NewJob{{ID: "n", Spec: job("n", nil).Spec}}, "ann"); err != nil || len(m.accounts) != 1 {
			t.Fatalf("%v: %+v", err, m.accounts)
		}
		steps, seen := m.accounts[0].Steps, map[bool]history.Seen{false: history.SeenOpen, true: history.SeenNear}[narrow]
		if len(steps) != 2 || steps[0].Seen != seen || steps[1].Seen != seen {
			t.Fatalf("%+v", steps)
		}
		if v, is := steps[0].Verb.(history.Submit); !is || v.Jobs[0].ID != "n" || v.By != "ann" {
			t.Errorf("%+v", steps[0])
		}
		if _, is := steps[1].Verb.(history.Tick); !is || len(steps[0].Facts.Heads)+len(steps[1].Facts.Heads) != 1 {
			t.Errorf("%+v after %+v", steps[1], steps[0].Facts)
		}
	}
}

// What a sandbox leaves to others is on record with what it found left, and its account says how much that was.
func TestASandboxCarriesWhatIsLeft(t *testing.T) {
	m := &accounting{memory: newMemory(job("a", running(1)), job("b", running(1)))}
	before := kernel.Stop{Attempt: kernel.AttemptID{Job: "a", N: 1}}
	m.left = []kernel.WorldAction{before}
	s := m.scheduler()
	s.Store, s.Sandboxed = m, true
	if _, err := s.Cancel(t.Context(), "b", "ann", false); err != nil {
		t.Fatal(err)
	}
	m.expectCalls(t, "commit")
	if want := []kernel.WorldAction{before, kernel.Stop{Attempt: kernel.AttemptID{Job: "b", N: 1}}}; !slices.Equal(m.left, want) || m.accounts[0].Carried != 1 {
		t.Errorf("left is %+v, carried are %d", m.left, m.accounts[0].Carried)
	}
}

// reading is a narrow store that keeps what facts that no job makes were judged as.
type reading struct{ *memory }

func (r reading) Begin(ctx context.Context) (Tx, error) {
	_, err := r.memory.Begin(ctx)
	return r, err
}

func (r reading) JudgedBy(by map[kernel.Near]string) {
	r.reads = map[kernel.Near]kernel.ReadFact{}
	for n, judged := range by {
		r.reads[n] = kernel.ReadFact{Judged: judged, Awaited: true}
	}
}

// What jobs read outside is watched while it is as they were judged by, and has them judged once it differs.
func TestWhatIsOutsideIsWatched(t *testing.T) {
	y := kernel.Near{Kind: kernel.Readers, Key: "y"}
	m := reading{narrowly(job("a", func(j *kernel.Job) { onBranch("y")(j); j.Created = at.Add(-time.Hour) }))}
	m.reads = map[kernel.Near]kernel.ReadFact{y: {}}
	s, h := seer(m.memory)
	s.Store = m
	for _, c := range []struct {
		tip     kernel.CommitID
		watched []string
		is      kernel.Status
		commits bool
		limits  string // by which a tick has judged; "": by those of now
	}{
		{"", []string{"y"}, kernel.WaitingOnDeps, true, ""},
		{"", []string{"y"}, kernel.WaitingOnDeps, false, ""},
		{"", []string{"y"}, kernel.WaitingOnDeps, true, "others"},
		{"c2", nil, kernel.Running, true, ""},
	} {
		h.of["y"], m.plans, m.judged = c.tip, nil, cmp.Or(c.limits, s.Limits.String())
		rep, err := s.Tick(t.Context())
		if err != nil || !slices.Equal(rep.Wakes.Outside.Branches, c.watched) || (len(m.plans) > 0) != c.commits || m.jobs["a"].State.Status != c.is {
			t.Errorf("at %q: %v, %+v, %q; %+v", c.tip, err, rep.Wakes, m.calls, m.jobs["a"].State)
		}
		if m.reads[y].Judged == "" {
			t.Errorf("at %q it is not known by what it was judged", c.tip)
		}
	}
}
