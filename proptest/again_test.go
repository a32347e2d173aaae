package proptest

import (
	"flag"
	"maps"
	"os"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
	"pgregory.net/rapid"
)

// forgetful is s without what it remembers of ticks before: it is judged whole.
func forgetful(s *kernel.Snapshot) *kernel.Snapshot {
	o := kernel.Observation{Now: s.Now(), Limits: s.Limits(), Archived: s.Archived(), Facts: s.Facts()}
	for _, j := range s.Jobs() {
		o.Jobs = append(o.Jobs, *j)
	}
	for _, id := range s.UnreadableIDs() {
		if o.Unreadable == nil {
			o.Unreadable = map[kernel.JobID]string{}
		}
		o.Unreadable[id] = s.Unreadable(id)
	}
	return kernel.NewSnapshot(o)
}

func samePlan(p, q kernel.Plan) bool {
	return reflect.DeepEqual(p.Actions(), q.Actions()) && reflect.DeepEqual(p.Decisions, q.Decisions)
}

// decideBoth is the plan of a tick on s, which nobody can tell from that of a
// tick that remembers nothing.
func decideBoth(t *rapid.T, s *kernel.Snapshot) (kernel.Plan, *kernel.Baseline) {
	whole := forgetful(s)
	p, base := kernel.Tick(s)
	q := kernel.Decide(whole)
	if !samePlan(p, q) {
		t.Fatalf("a tick decides %+v\n%+v\nhad it judged every job, %+v\n%+v", p.Decisions, p.Actions(), q.Decisions, q.Actions())
	}
	if got, want := s.Wakes(), whole.Wakes(); !reflect.DeepEqual(got, want) {
		t.Fatalf("wakes %+v, of the same world made anew %+v", got, want)
	}
	if got, want := s.Probes(), whole.Probes(); !reflect.DeepEqual(got, want) {
		t.Fatalf("probes %+v, of the same world made anew %+v", got, want)
	}
	return p, base
}

// ticked is the snapshot that a tick on s leads to, which remembers it.
func ticked(s *kernel.Snapshot) *kernel.Snapshot {
	p, base := kernel.Tick(s)
	return s.Apply(p).Remember(base)
}

// anotherView is f, where a little of it may be known otherwise.
func anotherView(t *rapid.T, f kernel.Facts) kernel.Facts {
	other := Facts.Draw(t, "facts")
	next := kernel.Facts{Present: maps.Clone(f.Present), Markers: maps.Clone(f.Markers), Heads: maps.Clone(f.Heads),
		Head: f.Head, Clean: f.Clean, Merging: f.Merging, Runners: map[kernel.AttemptID]kernel.Fact[kernel.Runner]{},
		Results: map[kernel.AttemptID]kernel.Fact[*kernel.Result]{}}
	for range rapid.IntRange(0, 2).Draw(t, "news") {
		switch a := oneOf(t, "of", artifacts...); oneOf(t, "what", "artifact", "artifact", "head", "checked out", "clean") {
		case "artifact":
			replace(next.Present, other.Present, a)
			replace(next.Markers, other.Markers, a)
		case "head":
			replace(next.Heads, other.Heads, oneOf(t, "branch", branches...))
		case "checked out":
			next.Head = other.Head
		case "clean":
			next.Clean = other.Clean
		}
	}
	return next
}

func replace[K comparable, V any](m, by map[K]V, k K) {
	if v, ok := by[k]; ok {
		m[k] = v
	} else {
		delete(m, k)
	}
}

// checkOften is rapid.Check with ten times the draws, unless it is told how
// many: what is forgotten shows only where little else happens.
func checkOften(t *testing.T, prop func(*rapid.T)) {
	t.Helper()
	const checks = "rapid.checks"
	if usual := flag.Lookup(checks); usual.Value.String() == usual.DefValue && os.Getenv("RAPID_CHECKS") == "" {
		if err := flag.Set(checks, "1000"); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = flag.Set(checks, usual.DefValue) }()
	}
	rapid.Check(t, prop)
}

// A tick that remembers the one before decides as one that judges every job,
// whatever happened in between: records that others wrote, verbs, time, another
// view of the world. Snapshots are led on as a scheduler does.
func TestARememberingTickDecidesAsAWholeOne(t *testing.T) {
	checkOften(t, func(t *rapid.T) { leadOn(t, World.Draw(t, "world")) })
}

// The same where hardly anything but locks and slots holds anybody up.
func TestARememberingTickKnowsTheQueues(t *testing.T) {
	checkOften(t, func(t *rapid.T) {
		o := World.Draw(t, "world")
		o.Limits.MaxRunning = rapid.IntRange(1, 3).Draw(t, "slots")
		for i := range o.Jobs {
			if s := &o.Jobs[i].Spec; !oneIn(t, 4, "held up otherwise") {
				s.After, s.Needs, s.Pinned, s.Preconditions = nil, nil, kernel.PinnedHead{}, nil
				s.Transient, s.Routed, s.Task.Args = kernel.NotTransient, false, []string{"true"}
			}
		}
		leadOn(t, o)
	})
}

// The same where hardly anything but artifacts holds anybody up.
func TestARememberingTickKnowsTheArtifacts(t *testing.T) {
	checkOften(t, func(t *rapid.T) {
		o := World.Draw(t, "world")
		o.Limits.MaxRunning = 0
		for i := range o.Jobs {
			s := &o.Jobs[i].Spec
			s.Pinned, s.Preconditions = kernel.PinnedHead{}, nil
			if !oneIn(t, 3, "after") {
				s.After = nil
			}
			if !oneIn(t, 3, "locks") {
				s.Locks = nil
			}
			s.Transient, s.Routed, s.Task.Args = kernel.NotTransient, false, []string{"true"}
			s.Origin.Run = oneOf[kernel.RunID](t, "of run", "", "r1", "r1", "r1", "r2")
			if !oneIn(t, 3, "needs what it needs") {
				s.Needs = []kernel.Artifact{oneOf(t, "needs", artifacts[:2]...)}
			}
			if !oneIn(t, 3, "makes what it makes") {
				s.Produces = []kernel.Artifact{oneOf(t, "makes", artifacts[:2]...)}
			}
		}
		leadOn(t, o)
	})
}

// The same where hardly anything but branches and the checkout holds anybody up.
func TestARememberingTickKnowsTheRepository(t *testing.T) {
	checkOften(t, func(t *rapid.T) {
		o := World.Draw(t, "world")
		o.Limits.MaxRunning = 0
		for i := range o.Jobs {
			s := &o.Jobs[i].Spec
			s.Needs, s.Locks, s.Preconditions, s.Pinned = nil, nil, nil, kernel.PinnedHead{}
			if !oneIn(t, 3, "after") {
				s.After = nil
			}
			s.Transient, s.Routed, s.Task.Args = kernel.NotTransient, false, []string{"true"}
			switch oneOf(t, "reads", "pinned", "clean", "branch", "its branch") {
			case "pinned":
				s.Pinned = kernel.PinnedHead{Branch: oneOf(t, "branch", branches...), Commit: oneOf[kernel.CommitID](t, "at", "c1", "c2")}
			case "clean":
				s.Preconditions = []kernel.Precondition{{Kind: kernel.CleanWorktree}}
			case "branch":
				s.Preconditions = []kernel.Precondition{{Kind: kernel.BranchExists, Branch: oneOf(t, "branch", branches...)}}
			case "its branch":
				s.Preconditions = []kernel.Precondition{{Kind: kernel.BranchExists}}
			}
		}
		leadOn(t, o)
	})
}

// leadOn leads snapshots on from o as a scheduler does, and looks at each.
func leadOn(t *rapid.T, o kernel.Observation) {
	base := kernel.NewSnapshot(o)
	facts, s := o.Facts, base
	for range rapid.IntRange(2, 8).Draw(t, "ticks") {
		var plan kernel.Plan
		if rapid.Bool().Draw(t, "verb") {
			_, p := anyVerb(t, s)
			plan, s = plan.Then(p), s.Apply(p)
		}
		p, ticked := decideBoth(t, s)
		if oneIn(t, 4, "elsewhere") { // a plan may be applied to what it was not decided on
			other, _ := s.Follow(s.Now(), written(t, s, s.Now()))
			decideBoth(t, other.WithFacts(s.Facts()).Apply(p).Remember(ticked))
		}
		plan, s = plan.Then(p), s.Apply(p).Remember(ticked)
		if oneIn(t, 4, "at once") {
			base = base.Apply(plan).Remember(ticked).WithFacts(s.Facts())
		} else {
			base = base.Apply(plan).Remember(ticked)
		}
		decideBoth(t, s)
		if oneIn(t, 4, "goes on from there") {
			continue
		}
		now := s.Now().Add(time.Duration(rapid.IntRange(0, 2).Draw(t, "seconds")) * time.Second)
		facts = anotherView(t, facts)
		c := written(t, base, now)
		for _, j := range base.Jobs() {
			if oneIn(t, 3, "runner") {
				runner(t, &kernel.Observation{Facts: facts}, j)
			}
		}
		for i := range c.Jobs {
			if oneIn(t, 3, "runner") {
				runner(t, &kernel.Observation{Facts: facts}, &c.Jobs[i])
			}
		}
		next, ok := base.Follow(now, c)
		if !ok {
			t.Fatal("a change of a known job is not followed")
		}
		base, s = next, next.WithFacts(facts)
	}
}

// written is what others made of some jobs of s.
func written(t *rapid.T, s *kernel.Snapshot, now time.Time) kernel.Changes {
	var c kernel.Changes
	for _, j := range s.Jobs() {
		if oneIn(t, 6, "written by others") {
			k := *j
			k.Rev++
			k.State = state(t, &k, now)
			c.Jobs = append(c.Jobs, k)
		}
	}
	return c
}

// The same over histories, in which nothing happens that cannot.
func TestHistoriesOfARememberingScheduler(t *testing.T) {
	checkOften(t, func(t *rapid.T) {
		h := newHistory(t)
		h.remembers = true
		h.play(t)
	})
}

// follow leads what the scheduler remembers on to what the store became.
func (h *history) follow() *kernel.Snapshot {
	c := kernel.Changes{}
	if h.last != nil {
		for _, j := range h.jobs {
			if k := h.last.Job(j.ID); k == nil || k.Rev != j.Rev || k.State != j.State {
				c.Jobs = append(c.Jobs, j)
			}
		}
		gone := slices.ContainsFunc(h.last.Jobs(), func(j *kernel.Job) bool {
			return !slices.ContainsFunc(h.jobs, func(k kernel.Job) bool { return k.ID == j.ID })
		})
		if s, ok := h.last.Follow(h.now, c); ok && !gone {
			return s
		}
	}
	return kernel.NewSnapshot(kernel.Observation{Now: h.now, Limits: h.limits, Jobs: h.jobs})
}
