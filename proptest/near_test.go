package proptest

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/app/storetest"
	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/event"
	"pgregory.net/rapid"
)

func samePlan(p, q kernel.Plan) bool {
	return reflect.DeepEqual(p.Actions(), q.Actions()) && reflect.DeepEqual(p.Decisions, q.Decisions)
}

// dirty returns the jobs that changed since the last tick. ok is false if some were
// removed.
func (h *history) dirty() (ids []kernel.JobID, ok bool) {
	here := 0
	for _, j := range h.jobs {
		was, known := h.judged[j.ID]
		if known {
			here++
		}
		if !known || was.Rev != j.Rev || was.State != j.State {
			ids = append(ids, j.ID)
		}
	}
	return ids, here == len(h.judged)
}

// decideNear checks that a tick on the jobs near to the changed ones decides the same as
// whole, and has the same events and wakes. Of the jobs that wait for something that no job
// makes, it looks at those whose facts have changed. It returns the facts that a store keeps
// for the next tick, or nil if the tick needed every job.
func (h *history) decideNear(t *rapid.T, whole kernel.Plan) map[kernel.Near]string {
	ids, ok := h.dirty()
	if !ok || h.judged == nil {
		return nil
	}
	near := []kernel.Near{{Kind: kernel.Attended}, {Kind: kernel.Due, At: h.now}}
	for _, id := range ids {
		near = append(near, kernel.Near{Kind: kernel.Itself, Job: id})
	}
	pick := func(near []kernel.Near) []kernel.Job { return storetest.Pick(h.jobs, near) }
	absent := func(a kernel.Artifact) bool { return len(h.markers[a]) == 0 }
	read := storetest.Elide(storetest.Reads(h.jobs, h.facts), absent)
	h.elided += len(read.Elided)
	outside := kernel.Outside{Reads: read.Reads, Elided: read.Elided, Facts: kernel.NewFacts()}
	for range 2 {
		h.answer(outside.Asking(), &outside.Facts)
	}
	news := outside.News()
	for _, j := range pick(news) {
		ids = append(ids, j.ID)
	}
	near = append(near, news...)
	s := kernel.NewSnapshot(kernel.Observation{Now: h.now, Limits: h.limits, Jobs: pick(near), Near: near, Dirty: ids}).WithFacts(outside.Facts.Of(news))
	for range 100 {
		s = h.observe(s)
		p := kernel.Decide(s)
		after := s.Apply(p)
		events, wakes := event.Of(s, after, p), after.Wakes()
		more, all := s.Lacks()
		if all {
			return nil
		}
		if len(more) == 0 && s.Probes().Empty() {
			h.narrow++
			if !samePlan(p, whole) {
				t.Fatalf("changed %v\na tick on %d jobs decides %+v\n%+v\none on all %d jobs\n%+v\n%+v", ids, len(s.Held()), p.Decisions, p.Actions(), len(h.jobs), whole.Decisions, whole.Actions())
			}
			all := h.look()
			if want := event.Of(all, all.Apply(whole), whole); !reflect.DeepEqual(events, want) {
				t.Fatalf("events %+v, of all jobs %+v", events, want)
			}
			left := all.Apply(whole)
			var jobs []kernel.Job
			for _, j := range left.Jobs() {
				jobs = append(jobs, *j)
			}
			wakes = outside.Beside(wakes, storetest.Elide(storetest.Reads(jobs, storetest.Judged(jobs, h.facts, map[kernel.Near]string{})), absent))
			if want := left.Wakes(); wakes.At != want.At || wakes.Poll != want.Poll || wakes.Empty() != want.Empty() {
				t.Fatalf("wakes %+v, of all jobs %+v", wakes, want)
			}
			return storetest.Judged(jobs, h.facts, outside.JudgedBy(after.Facts()))
		}
		s = s.With(kernel.Records{Jobs: pick(more)}, more)
	}
	t.Fatal("what is near never ends")
	return nil
}

// A tick on the jobs near to the changed ones decides the same as a tick on all
// jobs, whatever happened before.
func TestATickOnWhatIsNearIsTheWholeTick(t *testing.T) {
	narrow, elided, ticks := 0, 0, 0
	rapid.Check(t, func(t *rapid.T) {
		h := newHistory(t)
		h.near = true
		h.play(t)
		narrow += h.narrow
		elided += h.elided
		ticks++
	})
	t.Logf("%d ticks in %d histories did not need every job; what jobs read was left out %d times", narrow, ticks, elided)
	if narrow == 0 {
		t.Error("it tested nothing")
	}
}

// The same in worlds of any state, once a tick has judged them.
func TestATickOnWhatIsNearInAnyWorld(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { anyWorld(t, World.Draw(t, "world")) })
}

// The same if hardly anything but locks and slots holds jobs up.
func TestATickOnWhatIsNearKnowsTheQueues(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := World.Draw(t, "world")
		o.Limits.MaxRunning = rapid.IntRange(1, 3).Draw(t, "slots")
		for i := range o.Jobs {
			if s := &o.Jobs[i].Spec; !oneIn(t, 4, "held up otherwise") {
				s.After, s.Needs, s.Pinned, s.Preconditions = nil, nil, kernel.PinnedHead{}, nil
				s.Transient, s.Routed, s.Task.Args = kernel.NotTransient, false, []string{"true"}
			}
		}
		anyWorld(t, o)
	})
}

// The same if many jobs queue for a few locks, pools and slots, which some of them leave for what is observed.
func TestATickOnWhatIsNearKnowsTheLines(t *testing.T) {
	looked, there := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		limits := Limits.Draw(t, "limits")
		limits.MaxRunning, limits.Pools["disk"] = oneOf(t, "slots", 0, 1, 3), 2
		pools, alone := oneOf(t, "one in so many asks for a pool", 1, 3, 100), oneOf(t, "one in so many wants a lock alone", 1, 2, 8)
		reads := oneOf(t, "one in so many reads whether a branch is there", 3, 100)
		branch := func() kernel.Facts {
			f := kernel.NewFacts()
			f.Heads["b"] = kernel.Seen(oneOf(t, "branch", kernel.CommitID(""), "c1"))
			return f
		}
		lock := rapid.Custom(func(t *rapid.T) kernel.Lock {
			if oneIn(t, pools, "pool") {
				return kernel.Lock{Key: oneOf(t, "pool", "gpu", "disk", "a"), Units: rapid.IntRange(1, 3).Draw(t, "units")}
			}
			l := kernel.Lock{Key: oneOf(t, "key", "a", "a", "b")}
			if !oneIn(t, alone, "alone") {
				l.Mode = kernel.Shared
			}
			return l
		})
		spec := func() kernel.Spec {
			s := kernel.Spec{Task: kernel.Task{Args: []string{"true"}}, Locks: rapid.SliceOfN(lock, 0, 3).Draw(t, "locks")}
			if oneIn(t, 4, "far away") {
				s.Task.Executor = "far"
			}
			if oneIn(t, reads, "reads") {
				s.Preconditions = []kernel.Precondition{{Kind: kernel.BranchExists, Branch: "b"}}
			}
			return s
		}
		var jobs []kernel.Job
		name := func(n int) kernel.JobID { return kernel.JobID(fmt.Sprintf("j%02d", n)) }
		for n := range rapid.IntRange(2, 30).Draw(t, "jobs") {
			jobs = append(jobs, kernel.Job{ID: name(n), Created: Epoch.Add(time.Duration(n) * time.Second), Rev: 1, Spec: spec(), State: kernel.State{Status: kernel.Queued}})
		}
		s := kernel.NewSnapshot(kernel.Observation{Now: Epoch.Add(time.Hour), Limits: limits, Jobs: jobs, Facts: branch()})
		s = s.Apply(kernel.Decide(s))
		for range rapid.IntRange(1, 8).Draw(t, "changes") {
			var judged []kernel.Job
			for _, j := range s.Jobs() {
				judged = append(judged, *j)
			}
			next := kernel.NewSnapshot(kernel.Observation{Now: s.Now(), Limits: limits, Jobs: judged, Facts: branch()})
			j := s.Jobs()[rapid.IntRange(0, len(judged)-1).Draw(t, "job")]
			if running := slices.IndexFunc(judged, func(j kernel.Job) bool { return j.State.Status == kernel.Running }); running >= 0 && oneIn(t, 2, "of those that run") {
				j = s.Jobs()[running]
			}
			var p kernel.Plan
			var err error
			switch {
			case j.State.Status == kernel.Running && !oneIn(t, 5, "cancel"):
				p, err = kernel.Finish(next, kernel.Result{Attempt: j.Attempt(), Outcome: kernel.OutcomeSucceeded})
			case oneIn(t, 3, "submit"):
				p, err = kernel.Enqueue(next, []kernel.NewJob{{ID: name(len(judged)), Spec: spec()}})
			case j.State.Status.Terminal():
				p, err = kernel.Retry(next, j.ID, "ann")
			default:
				p, err = kernel.Cancel(next, j.ID, "ann", false)
			}
			if err != nil {
				continue
			}
			looked += nearIn(t, judged, next, s.Facts(), p)
			s = next.Apply(p)
			there += len(s.Jobs())
			s = s.Apply(kernel.Decide(s))
			explainedNear(t, s, s.Jobs()[rapid.IntRange(0, len(judged)-1).Draw(t, "explained")].ID)
		}
	})
	t.Logf("ticks looked at %d of %d jobs", looked, there)
	if looked == 0 {
		t.Error("it tested nothing")
	}
}

// Jobs at the head of a line that leave it, for what is observed, make way for the next one.
func TestATickKnowsWhoComesAfterThoseThatLeaveALine(t *testing.T) {
	branch := func(at kernel.CommitID) kernel.Facts {
		f := kernel.NewFacts()
		f.Heads["b"] = kernel.Seen(at)
		return f
	}
	var jobs []kernel.Job
	for n := range 8 {
		j := kernel.Job{ID: kernel.JobID(fmt.Sprintf("j%d", n)), Created: Epoch.Add(time.Duration(n) * time.Second), Rev: 1, Spec: kernel.Spec{Task: kernel.Task{Args: []string{"true"}}}}
		if n > 0 && n < 4 {
			j.Spec.Preconditions = []kernel.Precondition{{Kind: kernel.BranchExists, Branch: "b"}}
		}
		jobs = append(jobs, j)
	}
	one := kernel.Limits{MaxRunning: 1}
	s := kernel.NewSnapshot(kernel.Observation{Now: Epoch.Add(time.Hour), Limits: one, Jobs: jobs, Facts: branch("c1")})
	s = s.Apply(kernel.Decide(s))
	var judged []kernel.Job
	for _, j := range s.Jobs() {
		judged = append(judged, *j)
	}
	next := kernel.NewSnapshot(kernel.Observation{Now: s.Now(), Limits: one, Jobs: judged, Facts: branch("")})
	p, err := kernel.Finish(next, kernel.Result{Attempt: s.Job("j0").Attempt(), Outcome: kernel.OutcomeSucceeded})
	if err != nil {
		t.Fatal(err)
	}
	nearIn(t, judged, next, s.Facts(), p)
	next = next.Apply(p)
	if st := next.Apply(kernel.Decide(next)).Job("j4").State.Status; st != kernel.Running {
		t.Errorf("the next one is %s", st)
	}
}

// A job that gets the lock that it waited for takes its branch: by then its run may be one that others need not wait for.
func TestATickKnowsWhomAJobInLineFrees(t *testing.T) {
	job := func(n int, id kernel.JobID, run kernel.RunID, operation string, s kernel.Spec) kernel.Job {
		s.Task.Args, s.Origin.Run = []string{"true"}, run
		if run != "" {
			s.Origin.Branch, s.Origin.About.Operation = "draft/foo", operation
		}
		return kernel.Job{ID: id, Created: Epoch.Add(time.Duration(n) * time.Second), Rev: 1, Spec: s}
	}
	lock := []kernel.Lock{{Key: "x"}}
	jobs := []kernel.Job{
		job(0, "holds", "", "", kernel.Spec{Locks: lock}),
		job(1, "merges", "one", "git.integrate_plan_branch", kernel.Spec{Locks: lock}),
		job(2, "waits", "two", "worktree.prepare", kernel.Spec{}), // for a run that takes the branch next
		job(3, "later", "two", "", kernel.Spec{After: []kernel.JobID{"waits"}}),
		job(4, "last", "one", "", kernel.Spec{After: []kernel.JobID{"later"}}),
	}
	s := kernel.NewSnapshot(kernel.Observation{Now: Epoch.Add(time.Hour), Jobs: jobs})
	s = s.Apply(kernel.Decide(s))
	if w := s.Job("waits").State; w.Status != kernel.WaitingOnDeps {
		t.Fatalf("before, it is %s", w.Status)
	}
	var judged []kernel.Job
	for _, j := range s.Jobs() {
		judged = append(judged, *j)
	}
	next := kernel.NewSnapshot(kernel.Observation{Now: s.Now(), Jobs: judged})
	p, err := kernel.Finish(next, kernel.Result{Attempt: s.Job("holds").Attempt(), Outcome: kernel.OutcomeSucceeded})
	if err != nil {
		t.Fatal(err)
	}
	nearIn(t, judged, next, s.Facts(), p)
	next = next.Apply(p)
	if w := next.Apply(kernel.Decide(next)).Job("waits").State; w.Status != kernel.Running {
		t.Errorf("then it is %s: %s", w.Status, w.Wait.Detail)
	}
}

// What any end of a failed job will do for waits while a repair may send that job back: no longer once the repair has
// ended, even if what it reads changed too, or once a new job makes the repair one that comes after it.
func TestATickKnowsWhatWaitsForARepair(t *testing.T) {
	made := func(name string) kernel.Artifact { return kernel.Artifact{Kind: kernel.Custom, Name: "t", Ref: name} }
	for name, c := range map[string]struct {
		repair kernel.Spec
		verb   func(s *kernel.Snapshot) (kernel.Plan, error)
		facts  func(f *kernel.Facts)
	}{
		"it is cancelled, and what it requires is gone": {kernel.Spec{Preconditions: []kernel.Precondition{{Kind: kernel.BranchExists, Branch: "b"}}},
			func(s *kernel.Snapshot) (kernel.Plan, error) { return kernel.Cancel(s, "repair", "ann", false) },
			func(f *kernel.Facts) { f.Heads["b"] = kernel.Seen(kernel.CommitID("c2")) }},
		"what it needs is made after what waits": {kernel.Spec{Needs: []kernel.Artifact{made("a")}, MissingProducer: kernel.Wait},
			func(s *kernel.Snapshot) (kernel.Plan, error) {
				return kernel.Enqueue(s, []kernel.NewJob{{ID: "maker", Spec: kernel.Spec{After: []kernel.JobID{"waits"}, Produces: []kernel.Artifact{made("a")}, Task: kernel.Task{Args: []string{"true"}}}}})
			}, func(*kernel.Facts) {}},
	} {
		t.Run(name, func(t *testing.T) {
			job := func(n int, id kernel.JobID, s kernel.Spec, status kernel.Status) kernel.Job {
				s.Task.Args = []string{"true"}
				return kernel.Job{ID: id, Created: Epoch.Add(time.Duration(n) * time.Second), Rev: 1, Spec: s, State: kernel.State{Status: status}}
			}
			c.repair.Routed, c.repair.Routes = true, []kernel.Route{{On: kernel.OutcomeSucceeded, To: "fails"}}
			fails := job(0, "fails", kernel.Spec{Routes: []kernel.Route{{On: kernel.OutcomeFailed, To: "repair"}}}, kernel.Failed)
			repair := job(1, "repair", c.repair, kernel.Queued)
			fails.State.Outcome, repair.State.Awake = kernel.OutcomeFailed, true
			waits := job(2, "waits", kernel.Spec{After: []kernel.JobID{"fails"}, AfterAny: []kernel.JobID{"fails"}}, kernel.Queued)
			facts := func(then func(*kernel.Facts)) kernel.Facts {
				f := kernel.NewFacts()
				f.Heads["b"], f.Markers[made("a")] = kernel.Seen(kernel.CommitID("")), kernel.Seen[[]kernel.JobID](nil)
				then(&f)
				return f
			}
			s := kernel.NewSnapshot(kernel.Observation{Now: Epoch.Add(time.Hour), Jobs: []kernel.Job{fails, repair, waits}, Facts: facts(func(*kernel.Facts) {})})
			s = s.Apply(kernel.Decide(s))
			if w := s.Job("waits").State; w.Wait.Job != "repair" {
				t.Fatalf("before, it is %s: %s", w.Status, w.Wait.Detail)
			}
			var judged []kernel.Job
			for _, j := range s.Jobs() {
				judged = append(judged, *j)
			}
			next := kernel.NewSnapshot(kernel.Observation{Now: s.Now(), Jobs: judged, Facts: facts(c.facts)})
			p, err := c.verb(next)
			if err != nil {
				t.Fatal(err)
			}
			nearIn(t, judged, next, s.Facts(), p)
			next = next.Apply(p)
			if w := next.Apply(kernel.Decide(next)).Job("waits").State; w.Status != kernel.Running {
				t.Errorf("then it is %s: %s", w.Status, w.Wait.Detail)
			}
		})
	}
}

// explainedNear checks that the explanation of job id on the jobs near to it is the same as
// on all of s, which a tick has judged.
func explainedNear(t rapid.TB, s *kernel.Snapshot, id kernel.JobID) {
	var judged []kernel.Job
	for _, j := range s.Jobs() {
		judged = append(judged, *j)
	}
	near := []kernel.Near{{Kind: kernel.Attended}, {Kind: kernel.Outsiders}, {Kind: kernel.Due, At: s.Now()}, {Kind: kernel.Itself, Job: id}}
	n := kernel.NewSnapshot(kernel.Observation{Now: s.Now(), Limits: s.Limits(), Jobs: storetest.Pick(judged, near), Near: near, Facts: s.Facts()})
	for {
		got, err := kernel.Explain(n, id)
		more, all := n.Lacks()
		if all {
			return
		}
		if len(more) == 0 {
			if want, _ := kernel.Explain(s, id); err != nil || !reflect.DeepEqual(got, want) {
				t.Fatalf("on %d jobs %s is explained by %+v (%v), on all by %+v", len(n.Held()), id, got, err, want)
			}
			return
		}
		n = n.With(kernel.Records{Jobs: storetest.Pick(judged, more)}, more)
	}
}

// The number of jobs that a tick looks at does not grow with the queue for a lock or for a
// pool, whichever jobs have left or joined it, even if they also wait for another pool. It
// does not grow either with a chain of jobs in which each shares a lock with the next, nor with jobs that all
// share one, except where one comes to the end of that line: an older job may want it alone.
func TestATickLooksAtTheHeadOfALine(t *testing.T) {
	const sharing, comes = "a lock that all share, and another", "one comes"
	all := func(locks ...kernel.Lock) func(int) []kernel.Lock { return func(int) []kernel.Lock { return locks } }
	for kind, locks := range map[string]func(n int) []kernel.Lock{
		"a lock":    all(kernel.Lock{Key: "main"}),
		"a pool":    all(kernel.Lock{Key: "gpu", Units: 1}),
		"two pools": all(kernel.Lock{Key: "gpu", Units: 1}, kernel.Lock{Key: "disk", Units: 1}),
		sharing:     all(kernel.Lock{Key: "shared", Mode: kernel.Shared}, kernel.Lock{Key: "main"}),
		"a chain": func(n int) []kernel.Lock {
			return []kernel.Lock{{Key: strconv.Itoa(n)}, {Key: strconv.Itoa(n + 1)}}
		},
	} {
		var jobs []kernel.Job
		for n := range 1000 {
			jobs = append(jobs, kernel.Job{ID: kernel.JobID(fmt.Sprintf("j%03d", n)), Created: Epoch, Rev: 1, State: kernel.State{Status: kernel.Queued},
				Spec: kernel.Spec{Task: kernel.Task{Args: []string{"true"}}, Locks: locks(n)}})
		}
		s := kernel.NewSnapshot(kernel.Observation{Now: Epoch, Jobs: jobs})
		for what, change := range map[string]func(*kernel.Snapshot) (kernel.Plan, error){
			"the holder ends": func(s *kernel.Snapshot) (kernel.Plan, error) {
				return kernel.Finish(s, kernel.Result{Attempt: s.Job("j000").Attempt(), Outcome: kernel.OutcomeSucceeded})
			},
			"one in the middle is cancelled": func(s *kernel.Snapshot) (kernel.Plan, error) { return kernel.Cancel(s, "j500", "ann", false) },
			comes: func(s *kernel.Snapshot) (kernel.Plan, error) {
				return kernel.Enqueue(s, []kernel.NewJob{{ID: "new", Spec: jobs[0].Spec}})
			},
		} {
			before := s.Apply(kernel.Decide(s))
			var judged []kernel.Job
			for _, j := range before.Jobs() {
				judged = append(judged, *j)
			}
			p, err := change(before)
			if err != nil {
				t.Fatal(err)
			}
			if looked := nearIn(t, judged, before, before.Facts(), p); looked == 0 || looked > 8 && (kind != sharing || what != comes) {
				t.Errorf("%s: %s: a tick looked at %d jobs", kind, what, looked)
			}
		}
	}
}

// The same if hardly anything but artifacts holds jobs up.
func TestATickOnWhatIsNearKnowsTheArtifacts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
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
		anyWorld(t, o)
	})
}

// The same if much waits for what may be sent back.
func TestATickOnWhatIsNearKnowsTheRepairs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := World.Draw(t, "world")
		if oneIn(t, 3, "routes wait") {
			waitingRoutes(t, &o)
		} else {
			repairs(t, &o)
		}
		anyWorld(t, o)
	})
}

// anyWorld lets a tick judge a world, and then changes it again and again by verbs,
// time and facts from outside. Markers change only by the jobs that make them.
func anyWorld(t *rapid.T, o kernel.Observation) {
	s := kernel.NewSnapshot(o)
	for range rapid.IntRange(1, 6).Draw(t, "ticks") {
		s = s.Apply(kernel.Decide(s))
		var judged []kernel.Job
		for _, j := range s.Jobs() {
			judged = append(judged, *j)
		}
		facts := anotherView(t, s.Facts())
		next := kernel.NewSnapshot(kernel.Observation{Now: s.Now().Add(time.Duration(rapid.IntRange(0, 2).Draw(t, "seconds")) * time.Second), Limits: o.Limits, Jobs: judged, Unreadable: o.Unreadable, Facts: facts})
		_, p := anyVerb(t, next)
		if slices.ContainsFunc(p.Actions(), func(a kernel.Action) bool {
			switch a.(type) {
			case kernel.RemoveJob, kernel.Reset, kernel.PurgeFiles:
				return true
			}
			return false
		}) {
			return // a tick after these needs every job
		}
		nearIn(t, judged, next, s.Facts(), p)
		s = next.Apply(p)
	}
}

// Decisions on a tracked snapshot are the same as on any other, tick after tick: it takes
// account of what jobs make and remove, of changes outside, and of time.
func TestATrackedWorldIsDecidedOnAsAny(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := World.Draw(t, "world")
		for i := range o.Jobs {
			if s := &o.Jobs[i].Spec; !oneIn(t, 3, "held up otherwise") { // most wait for something outside
				s.After, s.AfterAny, s.Locks, s.Transient, s.Routed, s.Task.Args = nil, nil, nil, kernel.NotTransient, false, []string{"true"}
				s.Needs, s.MissingProducer = []kernel.Artifact{oneOf(t, "needs", artifacts...)}, kernel.Wait
			}
		}
		switch oneOf(t, "shape", "any", "repairs", "routes wait") {
		case "repairs":
			repairs(t, &o)
		case "routes wait":
			waitingRoutes(t, &o)
		}
		s := kernel.NewSnapshot(o)
		s = s.Apply(kernel.Decide(s))
		tracked := s.Tracked()
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			switch oneOf(t, "what happens", "time", "news", "news", "verb") {
			case "time":
				now := s.Now().Add(time.Duration(rapid.IntRange(1, 4000).Draw(t, "seconds")) * time.Second)
				s, tracked = s.At(now), tracked.At(now)
			case "news":
				f := anotherView(t, s.Facts())
				s, tracked = s.WithFacts(f), tracked.WithFacts(f)
			case "verb":
				_, p := anyVerb(t, s)
				s, tracked = s.Apply(p), tracked.Apply(p)
			}
			p, q := kernel.Decide(s), kernel.Decide(tracked)
			if !samePlan(p, q) {
				t.Fatalf("of all:\n%+v\n%+v\ntracked:\n%+v\n%+v", p.Decisions, p.Actions(), q.Decisions, q.Actions())
			}
			s, tracked = s.Apply(p), tracked.Apply(q)
		}
	})
}

// nearIn checks that a decision on the jobs near to those that p changes in s is the same as
// one on all jobs. judged are the jobs as the last tick left them; it knew the facts was.
// nearIn returns how many jobs that took; 0: all.
func nearIn(t rapid.TB, judged []kernel.Job, s *kernel.Snapshot, was kernel.Facts, p kernel.Plan) (looked int) {
	then := kernel.Outside{Reads: storetest.Reads(judged, nil), Facts: was}
	now := kernel.Outside{Reads: storetest.Reads(judged, then.JudgedBy(was)), Facts: s.Facts()}
	near := append(now.News(), kernel.Near{Kind: kernel.Attended}, kernel.Near{Kind: kernel.Due, At: s.Now()})
	var ids []kernel.JobID
	for _, j := range storetest.Pick(judged, now.News()) {
		ids = append(ids, j.ID)
	}
	for _, a := range p.Actions() {
		if put, ok := a.(kernel.PutState); ok {
			near = append(near, kernel.Near{Kind: kernel.Itself, Job: put.Job})
		}
	}
	unreadable := map[kernel.JobID]string{}
	for _, id := range s.UnreadableIDs() {
		unreadable[id] = s.Unreadable(id)
	}
	n := kernel.NewSnapshot(kernel.Observation{Now: s.Now(), Limits: s.Limits(), Jobs: storetest.Pick(judged, near), Near: near, Dirty: ids, Unreadable: unreadable, Facts: s.Facts()}).Apply(p)
	s = s.Apply(p)
	for range 100 {
		got := kernel.Decide(n)
		more, all := n.Lacks()
		if all {
			return 0
		}
		if len(more) == 0 {
			if want := kernel.Decide(s); !samePlan(got, want) {
				t.Fatalf("after %+v\na tick on %d jobs decides %+v\n%+v\none on all %d\n%+v\n%+v", p.Actions(), len(n.Held()), got.Decisions, got.Actions(), len(s.Jobs()), want.Decisions, want.Actions())
			}
			return len(n.Held())
		}
		n = n.With(kernel.Records{Jobs: storetest.Pick(judged, more)}, more)
	}
	t.Fatal("what is near never ends")
	return 0
}

// anotherView returns f, in which up to two facts about things that no job makes may
// differ.
func anotherView(t *rapid.T, f kernel.Facts) kernel.Facts {
	other := Facts.Draw(t, "facts")
	next := f
	next.Present, next.Heads = map[kernel.Artifact]kernel.Fact[bool]{}, map[string]kernel.Fact[kernel.CommitID]{}
	for k, v := range f.Present {
		next.Present[k] = v
	}
	for k, v := range f.Heads {
		next.Heads[k] = v
	}
	for range rapid.IntRange(0, 2).Draw(t, "news") {
		switch oneOf(t, "what", "artifact", "head", "checked out", "clean") {
		case "artifact":
			replace(next.Present, other.Present, oneOf(t, "of", artifacts...))
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
