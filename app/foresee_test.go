package app

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/foresight"
)

// heads observes the branches of a repository, and counts how often it is asked for one.
type heads struct {
	of    map[string]kernel.CommitID
	asked map[string]int
	idle  int // how often it is asked for nothing
}

func (h *heads) Observe(_ context.Context, p kernel.Probes, f *kernel.Facts) {
	if p.Empty() {
		h.idle++
	}
	for _, name := range p.Branches {
		h.asked[name]++
		f.Heads[name] = kernel.Seen(h.of[name])
	}
}

// seer returns a scheduler that looks ahead in m, where branch x exists.
func seer(m *memory) (*Scheduler, *heads) {
	s, h := m.scheduler(), &heads{map[string]kernel.CommitID{"x": "c1"}, map[string]int{}, 0}
	s.Observers = append(s.Observers, h)
	return s, h
}

// onBranch makes a job wait until a branch exists.
func onBranch(name string) func(*kernel.Job) {
	return func(j *kernel.Job) {
		j.Spec.Preconditions = []kernel.Precondition{{Kind: kernel.BranchExists, Branch: name}}
	}
}

func submits(id kernel.JobID, change func(*kernel.Job)) foresight.Submit {
	return foresight.Submit{Jobs: []kernel.NewJob{{ID: id, Spec: job(id, change).Spec}}}
}

func pending(j *kernel.Job) {
	j.State.Approval.State, j.State.Status = kernel.Pending, kernel.WaitingOnApproval
}

// What a change leads to is seen with all that the changed jobs depend on, and nothing happens.
func TestForesee(t *testing.T) {
	done := func(j *kernel.Job) {
		j.State = kernel.State{Status: kernel.Succeeded, Attempt: 1, Started: at.Add(-time.Hour), Finished: at.Add(-time.Minute)}
	}
	for name, c := range map[string]struct {
		jobs   []kernel.Job
		change foresight.Change
		job    kernel.JobID
		now    kernel.Status // "" : it is not there
		then   kernel.Status
	}{
		"an approval":                 {[]kernel.Job{job("a", pending)}, foresight.Approve{Job: "a"}, "a", kernel.WaitingOnApproval, kernel.Running},
		"a new job":                   {nil, submits("n", nil), "n", kernel.Status(0), kernel.Running},
		"one that waits for a branch": {nil, submits("n", onBranch("x")), "n", kernel.Status(0), kernel.Running},
		"one that lacks its branch":   {nil, submits("n", onBranch("y")), "n", kernel.Status(0), kernel.WaitingOnDeps},
		"a route that waits for a job of another run": {[]kernel.Job{job("a", done), job("b", func(j *kernel.Job) { done(j); j.Spec.After = []kernel.JobID{"a"} }),
			job("c", func(j *kernel.Job) {
				done(j)
				j.Spec.After, j.Spec.Routes = []kernel.JobID{"b"}, []kernel.Route{{On: kernel.OutcomeFailed, To: "b"}}
				j.State.Status, j.State.Outcome, j.State.Deferred = kernel.Failed, kernel.OutcomeFailed, true
			}), job("d", func(j *kernel.Job) { running(1)(j); j.Spec.After = []kernel.JobID{"b"} })}, foresight.Succeed{Job: "d"}, "c", kernel.Failed, kernel.WaitingOnDeps},
		"a retry of what is long ended": {[]kernel.Job{job("a", done)}, foresight.Retry{Jobs: []kernel.JobID{"a"}}, "a", kernel.Succeeded, kernel.Running},
		"a retry that waits for a branch": {[]kernel.Job{job("a", func(j *kernel.Job) { done(j); onBranch("y")(j) })}, foresight.Retry{Jobs: []kernel.JobID{"a"}}, "a",
			kernel.Succeeded, kernel.WaitingOnDeps},
	} {
		m := newMemory(c.jobs...)
		s, h := seer(m)
		out, err := s.Foresee(t.Context(), []foresight.Change{c.change})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if j := out.Now.Job(c.job); j == nil && c.now != 0 || j != nil && j.State.Status != c.now {
			t.Errorf("%s: now it is %+v", name, j)
		}
		if j := out.Then.Job(c.job); j == nil || j.State.Status != c.then {
			t.Errorf("%s: then it is %+v, want %s", name, j, c.then)
		}
		if p := out.Then.Probes(); !p.Empty() {
			t.Errorf("%s: not known is %+v", name, p)
		}
		if h.idle > 0 {
			t.Errorf("%s: asked for nothing %d times", name, h.idle)
		}
		if len(m.calls) > 0 || len(m.jobs) != len(c.jobs) {
			t.Errorf("%s: done was %q", name, m.calls)
		}
	}
}

// vanished are worktrees that are not there any more.
type vanished struct{ worktrees }

func (vanished) InPlace(kernel.Context) bool { return false }

// A retry begins where the worktree is made, if that is gone: by whoever retries, and by whoever looks ahead.
func TestARetryWhoseWorktreeIsGone(t *testing.T) {
	tree := kernel.Context{Root: "w", Worktree: "w", Name: "w"}
	in := func(id kernel.JobID, st kernel.Status, after ...kernel.JobID) kernel.Job {
		return job(id, func(j *kernel.Job) {
			j.Spec.Origin.Run, j.Spec.After = "r", after
			j.State = kernel.State{Status: st, Attempt: 1, Context: tree, Started: at.Add(-time.Hour), Finished: at.Add(-time.Minute)}
			if j.Spec.OwnsContext = len(after) == 0; j.Spec.OwnsContext {
				j.State.Context.Owned, j.Spec.Routes = true, []kernel.Route{{On: kernel.OutcomeSucceeded, To: "b"}}
			}
		})
	}
	change := []foresight.Change{foresight.Retry{Jobs: []kernel.JobID{"b"}}}
	for name, ask := range map[string]func(*Scheduler) (*kernel.Snapshot, error){
		"a retry": func(s *Scheduler) (*kernel.Snapshot, error) {
			rep, err := s.Retry(t.Context(), "ann", "b")
			return rep.Snapshot, err
		},
		"the next thing": func(s *Scheduler) (*kernel.Snapshot, error) {
			out, err := s.Foresee(t.Context(), change)
			return out.Then, err
		},
		"the end": func(s *Scheduler) (*kernel.Snapshot, error) {
			_, _, story, err := s.ForeseeToTheEnd(t.Context(), change)
			return story.Then, err
		},
	} {
		for gone, want := range map[bool]int{false: 0, true: 1} {
			m := newMemory(in("a", kernel.Succeeded), in("b", kernel.Failed, "a"))
			s := m.scheduler()
			if s.Worktrees = (worktrees{m, nil}); gone {
				s.Worktrees = vanished{worktrees{m, nil}}
			}
			snap, err := ask(s)
			if err != nil || snap.Job("a").State.Generation != want || snap.Job("b").State.Generation != 1 {
				t.Errorf("%s, gone %v: %v, a %+v, b %+v", name, gone, err, snap.Job("a").State, snap.Job("b").State)
			}
		}
	}
}

// A change that is refused, and records that cannot be read, are errors of whoever looks ahead.
func TestForeseeingWhatIsRefused(t *testing.T) {
	ways := map[string]func(*Scheduler, foresight.Change) error{
		"the next thing": func(s *Scheduler, c foresight.Change) error {
			_, err := s.Foresee(t.Context(), []foresight.Change{c})
			return err
		},
		"the end": func(s *Scheduler, c foresight.Change) error {
			_, _, _, err := s.ForeseeToTheEnd(t.Context(), []foresight.Change{c})
			return err
		},
		"futures": func(s *Scheduler, c foresight.Change) error {
			_, _, err := s.Foretell(t.Context(), []foresight.Change{c}, foresight.Options{Draws: 1})
			return err
		},
	}
	for name, ask := range ways {
		for _, c := range []foresight.Change{foresight.Approve{Job: "gone"}, foresight.Retry{Jobs: []kernel.JobID{"gone"}}} {
			s, _ := seer(newMemory(job("a", nil)))
			if err := ask(s, c); !errors.Is(err, kernel.ErrNotFound) {
				t.Errorf("%s, %+v: %v", name, c, err)
			}
		}
		for _, c := range []foresight.Change{foresight.Approve{Job: "a"}, foresight.Retry{Jobs: []kernel.JobID{"a"}}} {
			m := newMemory(job("a", pending))
			m.refuse["load"] = errDisk
			s, _ := seer(m)
			if err := ask(s, c); !errors.Is(err, errDisk) {
				t.Errorf("%s of what cannot be read, %+v: %v", name, c, err)
			}
		}
	}
}

// A front end that runs the kernel itself is given the facts that jobs depend on now: those that it names
// anew, and of the others those that it lacks.
func TestObserved(t *testing.T) {
	m := newMemory(job("a", onBranch("x")), job("b", onBranch("y")))
	s, h := seer(m)
	configured := 0
	s.Configure = func(*Scheduler) { configured++ }
	snap, err := s.Records(t.Context(), kernel.Scope{All: true})
	if err != nil {
		t.Fatal(err)
	}
	snap = s.Observed(t.Context(), snap, kernel.Probes{})
	h.of["x"], h.of["y"] = "c2", "c2"
	later := s.Observed(t.Context(), snap, kernel.Probes{})
	anew := s.Observed(t.Context(), snap, kernel.Probes{Branches: []string{"x"}})
	for what, c := range map[string]struct {
		snap *kernel.Snapshot
		x, y kernel.CommitID
	}{"at first": {snap, "c1", ""}, "again": {later, "c1", ""}, "of one anew": {anew, "c2", ""}} {
		if got := c.snap.Facts().Heads; got["x"] != kernel.Seen(c.x) || got["y"] != kernel.Seen(c.y) {
			t.Errorf("%s: %+v", what, got)
		}
	}
	if want := map[string]int{"x": 2, "y": 1}; !maps.Equal(h.asked, want) || configured != 3 {
		t.Errorf("asked %v, want %v; configured %d times", h.asked, want, configured)
	}
}

// It is also given the facts that each of several changes would depend on, whichever of them is refused.
func TestForeseeable(t *testing.T) {
	changes := []foresight.Change{foresight.Approve{Job: "gone"}, submits("n", onBranch("x")), submits("o", onBranch("y"))}
	s, h := seer(newMemory(job("a", nil)))
	snap, err := s.Snapshot(t.Context(), kernel.Scope{All: true})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // what is known is not asked for again
		snap = s.Foreseeable(t.Context(), snap, changes)
	}
	for _, c := range changes[1:] {
		f, err := foresight.WhatIf(snap, []foresight.Change{c})
		if err != nil || !f.Then.Probes().Empty() {
			t.Errorf("%+v: %v, not known is %+v", c, err, f.Then.Probes())
		}
	}
	if want := map[string]int{"x": 1, "y": 1}; !maps.Equal(h.asked, want) || h.idle > 0 || len(snap.Jobs()) != 1 {
		t.Errorf("asked %v, want %v; %d jobs", h.asked, want, len(snap.Jobs()))
	}
}

// took returns a change of a job that makes it an ended one, which took so long.
func took(d time.Duration) func(*kernel.Job) {
	return func(j *kernel.Job) {
		j.Spec.Name = "build"
		j.State = kernel.State{Status: kernel.Succeeded, Attempt: 1, Started: at.Add(-2 * time.Hour), Finished: at.Add(d - 2*time.Hour)}
	}
}

// named gives a job the name of those that took returns.
func named(j *kernel.Job) { j.Spec.Name = "build" }

// The end is when everything has taken as long as it usually does, and the present is a forecast of no change.
func TestForeseeToTheEnd(t *testing.T) {
	m := newMemory(job("a", took(10*time.Minute)), job("b", named), job("c", func(j *kernel.Job) { named(j); j.Spec.After = []kernel.JobID{"b"}; onBranch("x")(j) }),
		job("d", func(j *kernel.Job) {
			named(j)
			onBranch("w")(j)
			j.Spec.Routed, j.State.Status = true, kernel.Unscheduled
		}))
	c := m.jobs["c"]
	c.Spec.Routes = []kernel.Route{{On: kernel.OutcomeSucceeded, To: "d"}}
	m.jobs["c"] = c
	s, h := seer(m)
	h.of["w"] = "c4"
	h.of["z"] = "c3"
	habits, now, story, err := s.ForeseeToTheEnd(t.Context(), []foresight.Change{submits("n", func(j *kernel.Job) { named(j); j.Spec.After = []kernel.JobID{"c"}; onBranch("z")(j) })})
	if err != nil {
		t.Fatal(err)
	}
	want := map[kernel.JobID]time.Time{"b": at.Add(10 * time.Minute), "c": at.Add(20 * time.Minute), "d": at.Add(30 * time.Minute), "n": at.Add(30 * time.Minute)}
	if !maps.Equal(story.Ended, want) || now.Then != story.Then {
		t.Errorf("ends %v, want %v", story.Ended, want)
	}
	if j := now.Now.Job("b"); now.Now.Job("n") != nil || j == nil || j.State.Status != kernel.Running || now.Then.Job("n") == nil {
		t.Errorf("now %+v", now.Now.Jobs())
	}
	if basis, from := habits.Basis(now.Now.Job("b")); basis != foresight.Recorded || from != 1 {
		t.Errorf("by %d, from %d", basis, from)
	}
	drawn, out, err := s.Foretell(t.Context(), nil, foresight.Options{Draws: 3})
	if err != nil || !maps.Equal(out.Story.Ended, map[kernel.JobID]time.Time{"b": want["b"], "c": want["c"], "d": want["d"]}) {
		t.Errorf("drawn: %v, %v", out.Story.Ended, err)
	} else if basis, _ := drawn.Basis(now.Now.Job("b")); basis != foresight.Recorded {
		t.Errorf("drawn by %d", basis)
	}
	if len(m.calls) > 0 || h.idle > 0 {
		t.Errorf("done was %q, asked for nothing %d times", m.calls, h.idle)
	}
}

// listing is a store that lists its ids, and counts the records that it reads.
type listing struct {
	*memory
	read *int
}

func (l listing) IDs() ([]kernel.JobID, error) { return slices.Collect(maps.Keys(l.jobs)), nil }

func (l listing) Read(_ context.Context, scope kernel.Scope) (rec kernel.Records, err error) {
	for _, id := range scope.Jobs {
		rec.Jobs = append(rec.Jobs, l.jobs[id])
	}
	*l.read += len(rec.Jobs)
	return rec, l.refuse["load"]
}

// The open jobs of a snapshot end when they usually do, by what the newest jobs took or by what is declared. There
// are no guesses, and none for very many jobs.
func TestETAs(t *testing.T) {
	jobs := func(n int, id string, change func(*kernel.Job)) (out []kernel.Job) {
		for i := range n {
			out = append(out, job(kernel.JobID(fmt.Sprintf("%s%03d", id, i)), change))
		}
		return out
	}
	within := func(d time.Duration) func(*kernel.Job) { return func(j *kernel.Job) { j.Spec.Estimate = d } }
	ended := jobs(100, "m", took(10*time.Minute))
	for name, c := range map[string]struct {
		jobs  []kernel.Job
		takes time.Duration // how long the first open job takes; 0: there is no answer
		n     int           // how many answers there are
		read  int           // how many records are read besides the snapshot
	}{
		"nothing is open":                 {ended, 0, 0, 0},
		"declared":                        {jobs(1, "z", within(5*time.Minute)), 5 * time.Minute, 1, 0},
		"as many as are foreseen":         {jobs(100, "z", within(5*time.Minute)), 5 * time.Minute, 100, 0},
		"more than that":                  {jobs(101, "z", within(5*time.Minute)), 0, 0, 0},
		"nobody knows":                    {jobs(2, "z", onBranch("x")), 0, 0, 0},
		"by what was":                     {append(jobs(1, "z", named), ended[:3]...), 10 * time.Minute, 1, 3},
		"declared and by what was":        {append(append(jobs(1, "x", within(5*time.Minute)), jobs(1, "z", named)...), ended[:3]...), 5 * time.Minute, 2, 3},
		"by the newest of them":           {slices.Concat(jobs(1, "z", named), jobs(9, "k", took(time.Minute)), ended[1:]), 10 * time.Minute, 1, 99},
		"not by what was long before":     {slices.Concat(jobs(1, "z", named), jobs(9, "k", took(time.Minute)), jobs(100, "m", func(j *kernel.Job) { took(time.Minute)(j); j.Spec.Name, j.Spec.Task.Args = "", []string{"other"} })), 0, 0, 99},
		"with a branch to be asked about": {jobs(1, "z", func(j *kernel.Job) { within(5 * time.Minute)(j); onBranch("x")(j) }), 5 * time.Minute, 1, 0},
	} {
		m := newMemory(c.jobs...)
		s, h := seer(m)
		configured := 0
		s.Configure = func(*Scheduler) { configured++ }
		open := slices.DeleteFunc(slices.Clone(c.jobs), func(j kernel.Job) bool { return !j.Open() })
		snap := kernel.TakeSnapshot(kernel.Observation{Now: at, Jobs: open})
		read := 0
		s.Store = listing{m, &read}
		etas, err := s.ETAs(t.Context(), snap)
		if err != nil {
			t.Fatal(err)
		}
		if len(etas) != c.n || read != c.read {
			t.Errorf("%s: %d answers, want %d; %d records were read, want %d", name, len(etas), c.n, read, c.read)
		}
		if c.takes > 0 && !etas[open[0].ID].At.Equal(at.Add(c.takes)) {
			t.Errorf("%s: %+v", name, etas[open[0].ID])
		}
		if c.n == 0 && len(h.asked) > 0 || h.idle > 0 || c.n > 0 && configured != 1 {
			t.Errorf("%s: asked for %v, for nothing %d times, configured %d times", name, h.asked, h.idle, configured)
		}
		all := kernel.TakeSnapshot(kernel.Observation{Now: at, Jobs: c.jobs})
		read = 0
		if etas, err := s.ETAs(t.Context(), all); c.read == 3 && (err != nil || len(etas) != c.n || read != 0) {
			t.Errorf("%s, and known: %d answers, %v, %d records were read", name, len(etas), err, read)
		}
		m.refuse["load"] = errDisk
		if etas, err := s.ETAs(t.Context(), snap); c.read > 0 && !errors.Is(err, errDisk) || c.read == 0 && name != "nobody knows" && (err != nil || len(etas) != c.n) {
			t.Errorf("%s, where nothing can be read: %d answers, %v", name, len(etas), err)
		}
	}
}
