package proptest

import (
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/retention"
	"pgregory.net/rapid"
)

// anyVerb draws a verb and a subject. It returns the verb's name and its plan, which
// is empty if the verb refuses.
func anyVerb(t *rapid.T, s *kernel.Snapshot) (string, kernel.Plan) {
	id := oneOf(t, "subject", jobIDs...)
	j := s.Job(id)
	var p kernel.Plan
	var err error
	name := oneOf(t, "verb", "decide", "enqueue", "submit", "retry", "approve", "reject", "cancel", "cancel its run", "finish", "refuse", "gc", "cleaned up")
	switch name {
	case "decide":
		p = kernel.Decide(s)
	case "enqueue":
		p, err = kernel.Enqueue(s, newJobs(t, s))
	case "submit":
		_, p, err = kernel.Submit(s, append(newJobs(t, s), again(t, j)...), "ann")
	case "retry":
		p, err = kernel.Retry(s, id, "ann")
	case "approve":
		p, err = kernel.Approve(s, id, kernel.Consent{By: "ann"})
	case "reject":
		p, err = kernel.Reject(s, id, kernel.Refusal{By: "ann", Reason: "no"})
	case "cancel":
		p, err = kernel.Cancel(s, id, "ann", rapid.Bool().Draw(t, "cleanup"))
	case "cancel its run":
		var runs []kernel.RunID
		if j != nil {
			runs = append(runs, j.Spec.Origin.Run)
		}
		if p, err = kernel.CancelIn(s, runs, id, "ann", rapid.Bool().Draw(t, "cleanup")); err == nil && j.Spec.Origin.Run != "" {
			if k := s.Apply(p).Job(id); k.State.Generation != j.State.Generation || !k.State.Status.Terminal() && k.State.Status != kernel.Running {
				t.Fatalf("%s was cancelled with its run, and became %s", id, k.State.Status)
			}
		}
	case "finish":
		if j != nil {
			r := Result(t, j)
			if oneIn(t, 3, "submits") {
				r.Submitted = newJobs(t, s)
			}
			p, err = kernel.Finish(s, *r)
		}
	case "refuse":
		if j != nil {
			p, err = kernel.Refuse(s, j.Attempt(), "no", rapid.Bool().Draw(t, "final"))
		}
	case "gc":
		p = retention.GC(s, time.Duration(rapid.IntRange(0, 40).Draw(t, "age"))*time.Minute)
	case "cleaned up":
		if j != nil {
			p, err = kernel.CleanedUp(s, kernel.RemoveWorktree{Job: id, Context: j.State.Context, Cancel: rapid.Bool().Draw(t, "cancel")},
				kernel.Cleanup{Status: oneOf(t, "cleanup", kernel.CleanupDone, kernel.CleanupSkipped, kernel.CleanupDegraded, kernel.CleanupFailed)})
		}
	}
	if err != nil && len(p.Actions()) > 0 {
		t.Fatalf("%s refuses (%v) and plans %+v", name, err, p.Actions())
	}
	return name, p
}

// again returns j submitted once more, to run more often and less transiently.
func again(t *rapid.T, j *kernel.Job) []kernel.NewJob {
	if j == nil {
		return nil
	}
	n := kernel.NewJob{ID: "again", Spec: j.Spec, Approval: j.State.Approval}
	n.Spec.Transient = oneOf(t, "mode", kernel.NotTransient, kernel.OnDemand, kernel.Remove)
	n.Spec.Budget.Retries += rapid.IntRange(0, 1).Draw(t, "more")
	return []kernel.NewJob{n}
}

// newJobs draws a batch whose ids are new and grow.
func newJobs(t *rapid.T, s *kernel.Snapshot) []kernel.NewJob {
	var news []kernel.NewJob
	for range rapid.IntRange(1, 3).Draw(t, "batch") {
		id := kernel.JobID("k" + string(rune('a'+len(s.Jobs())+len(news))))
		n := kernel.NewJob{ID: id, Spec: Spec.Draw(t, "spec")}
		if oneIn(t, 4, "approval") {
			n.Approval = kernel.Require(s.Now(), "bob")
		}
		news = append(news, n)
	}
	return news
}

// Snapshot.Apply has the same result as a store.
func TestApplyAgreesWithAStore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := kernel.NewSnapshot(World.Draw(t, "world"))
		name, p := anyVerb(t, s)
		st := newStore(s)
		st.do(p.Actions())
		if got := newStore(s.Apply(p)); !got.same(st, true) {
			t.Fatalf("%s: %+v\ngot  %+v\nwant %+v", name, p.Actions(), got, st)
		}
	})
}

// p.Then(q) does what p and then q do. A state that both write is written once.
func TestThenIsOneAfterTheOther(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := kernel.NewSnapshot(World.Draw(t, "world"))
		together, apart := kernel.Plan{}, s
		var names []string
		for range rapid.IntRange(2, 4).Draw(t, "verbs") {
			name, p := anyVerb(t, apart)
			names = append(names, name)
			together, apart = together.Then(p), apart.Apply(p)
		}
		if got, want := newStore(s.Apply(together)), newStore(apart); !got.same(want, false) {
			t.Fatalf("%v: %+v\ngot  %+v\nwant %+v", names, together.Actions(), got, want)
		}
		writes := map[kernel.JobID]bool{}
		for _, a := range together.Actions() {
			if put, ok := a.(kernel.PutState); ok {
				if writes[put.Job] {
					t.Fatalf("%v: %s is written twice", names, put.Job)
				}
				writes[put.Job] = true
			}
		}
	})
}

// A plan that was cut short after any action and is done again from its start has the
// same result as without that (4.2, 7).
func TestAnyPlanMayBeRepeated(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := kernel.NewSnapshot(World.Draw(t, "world"))
		name, p := anyVerb(t, s)
		p = p.Then(kernel.Decide(s.Apply(p)))
		want := newStore(s)
		want.do(p.Actions())
		got := newStore(s)
		got.do(p.Actions()[:rapid.IntRange(0, len(p.Actions())).Draw(t, "crash after")])
		got.do(p.Actions())
		if !got.same(want, true) {
			t.Fatalf("%s: %+v\ngot  %+v\nwant %+v", name, p.Actions(), got, want)
		}
	})
}

// I5, I14: a write under any attempt but the current one is refused and plans
// nothing.
func TestAStaleAttemptChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := kernel.NewSnapshot(World.Draw(t, "world"))
		for _, j := range s.Jobs() {
			a := kernel.AttemptID{Job: j.ID, N: rapid.IntRange(0, 5).Draw(t, "attempt")}
			current := j.State.Status == kernel.Running && a == j.Attempt()
			p, err := kernel.Finish(s, kernel.Result{Attempt: a, Outcome: kernel.OutcomeSucceeded, Produced: j.Spec.Produces})
			if errors.Is(err, kernel.ErrStale) == current || (len(p.Actions()) > 0) != current {
				t.Fatalf("finish %v of %+v: %v", a, j.State, err)
			}
			if p, err = kernel.Refuse(s, a, "no", false); errors.Is(err, kernel.ErrStale) == current || (len(p.Actions()) > 0) != current {
				t.Fatalf("refuse %v of %+v: %v", a, j.State, err)
			}
		}
	})
}

// needsOfDependents reports whether a job of set needs what a job makes that depends on it.
func needsOfDependents(s *kernel.Snapshot, set []kernel.JobID) bool {
	for _, id := range set {
		down := s.Downstream(id)
		for _, a := range s.Job(id).Spec.Needs {
			if slices.ContainsFunc(s.Producers(id, a), func(p kernel.JobID) bool { return slices.Contains(down, p) }) {
				return true
			}
		}
	}
	return false
}

// upstream returns the jobs that root depends on, directly or not.
func upstream(s *kernel.Snapshot, root kernel.JobID) []kernel.JobID {
	all := []kernel.JobID{root}
	for at := 0; at < len(all); at++ { // all grows in the loop
		for _, id := range s.Predecessors(all[at]) {
			if !slices.Contains(all, id) {
				all = append(all, id)
			}
		}
	}
	return all
}

// A rewind changes the jobs of its set and no others. It refuses exactly when a member
// runs, a merge is in progress, or a member would need what only jobs behind it make; also if the
// root was open and waits for a job of which this holds.
func TestARewindTouchesItsSetOnly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := kernel.NewSnapshot(World.Draw(t, "world"))
		for _, root := range s.Jobs() {
			// The set may begin at the job that makes the worktree root ran in.
			first, _ := kernel.RetryOf(s, root.ID)
			// After the jobs downstream come the handlers that ends of these jobs woke.
			set, down := first.Jobs, s.Downstream(first.Root)
			if !slices.Contains(down, root.ID) || len(set) < len(down) || !slices.Equal(set[:len(down)], down) {
				t.Fatalf("retry of %s: %+v, downstream %v", root.ID, first, down)
			}
			if got, want := slices.Sorted(slices.Values(set)), withHandlers(s, down); !slices.Equal(got, want) {
				t.Fatalf("retry of %s: %v, want %v", root.ID, got, want)
			}
			running := false
			for _, id := range set {
				running = running || s.Job(id).State.Status == kernel.Running
			}
			p, err := kernel.Retry(s, root.ID, "ann")
			if errors.Is(err, kernel.ErrRunning) != running {
				t.Fatalf("retry %s: %v, set %v", root.ID, err, set)
			}
			if err != nil {
				waits := !s.Job(first.Root).State.Status.Terminal() && needsOfDependents(s, upstream(s, first.Root))
				if m := s.Facts().Merging; !running && m.Value == "" && m.Err == "" && !needsOfDependents(s, set) && !waits {
					t.Fatalf("retry %s: %v", root.ID, err)
				}
				continue
			}
			next := s.Apply(p)
			in := map[kernel.JobID]bool{}
			for _, id := range set {
				in[id] = true
			}
			for _, j := range s.Jobs() {
				got := next.Job(j.ID).State
				if !in[j.ID] && got != j.State {
					t.Fatalf("retry %s touched %s", root.ID, j.ID)
				}
				if in[j.ID] && (got.Generation != j.State.Generation+1 || got.Attempt != j.State.Attempt || got.Status.Terminal() || got.Spent != (kernel.Budget{})) {
					t.Fatalf("retry %s left %s as %+v", root.ID, j.ID, got)
				}
			}
		}
	})
}

// withHandlers returns, in a slow way, the jobs that a rewind of set includes, sorted:
// it adds the jobs that an end of a member woke, and what is downstream of these,
// until nothing is new.
func withHandlers(s *kernel.Snapshot, set []kernel.JobID) []kernel.JobID {
	in := map[kernel.JobID]bool{}
	for _, id := range set {
		in[id] = true
	}
	for grown := true; grown; {
		grown = false
		for _, j := range s.Jobs() {
			for _, r := range j.Spec.Routes {
				to := s.Job(r.To)
				if !in[j.ID] || to == nil || in[to.ID] || r.On == kernel.OutcomeSucceeded || !to.Spec.Routed || !to.State.Awake || to.State.Status == kernel.Succeeded {
					continue
				}
				for _, id := range s.Downstream(to.ID) {
					in[id], grown = true, true
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(in))
}

// I13 and 4.2, 11: a GC removes no job that an open job refers to, and changes no
// judgement.
func TestGCChangesNoDecision(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := kernel.NewSnapshot(World.Draw(t, "world"))
		changesNoDecision(t, s, retention.GC(s, time.Duration(rapid.IntRange(0, 40).Draw(t, "age"))*time.Minute))
	})
}

// Retention by bounds changes no judgement either. It removes only jobs that a GC
// would remove.
func TestRetainChangesNoDecision(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := World.Draw(t, "world")
		o.Unreadable = nil // with an unreadable record, retention removes nothing
		sizes := map[kernel.JobID]int64{}
		for i := range o.Jobs {
			sizes[o.Jobs[i].ID] = rapid.Int64Range(0, 9).Draw(t, "size")
			if at := &o.Jobs[i].State.Finished; !at.IsZero() {
				*at = at.Add(-time.Hour)
			}
		}
		s := kernel.NewSnapshot(o)
		keep := retention.Policy{Age: time.Duration(rapid.IntRange(0, 120).Draw(t, "age")) * time.Minute,
			Count: rapid.IntRange(0, 3).Draw(t, "count"), Bytes: rapid.Int64Range(0, 20).Draw(t, "bytes")}
		p := retention.Apply(s, keep, sizes, rapid.IntRange(0, 2).Draw(t, "most"))
		changesNoDecision(t, s, p)
		would := map[kernel.JobID]bool{}
		for _, a := range retention.GC(s, 0).Actions() {
			would[a.Subject()] = true
		}
		for _, a := range p.Actions() {
			if !would[a.Subject()] {
				t.Fatalf("%+v goes, which a GC keeps", a)
			}
		}
	})
}

func changesNoDecision(t *rapid.T, s *kernel.Snapshot, p kernel.Plan) {
	next := s.Apply(p)
	for _, a := range p.Actions() {
		if r, ok := a.(kernel.RemoveRun); ok {
			if n := len(membersOf(next, r.Run)); n > 0 {
				t.Fatalf("the manifest of %s went, and %d of its jobs stay", r.Run, n)
			}
			continue
		}
		gone := s.Job(a.Subject())
		if gone.State.Status.Active() {
			t.Fatalf("%s is active", gone.ID)
		}
		for _, j := range s.Jobs() {
			for _, id := range j.Spec.After {
				if j.State.Status.Active() && id == gone.ID {
					t.Fatalf("%s is after %s", j.ID, gone.ID)
				}
			}
		}
	}
	want := map[kernel.JobID]kernel.Decision{}
	for _, d := range kernel.Decide(s).Decisions {
		want[d.Job] = d
	}
	got := kernel.Decide(next).Decisions
	if len(got) != len(want) {
		t.Fatalf("%d decisions after, %d before", len(got), len(want))
	}
	for _, d := range got {
		if want[d.Job] != d {
			t.Fatalf("after %+v: %+v, before %+v", p.Actions(), d, want[d.Job])
		}
	}
}

// A clean that nothing forbids takes a whole run or a job without one, nothing
// that is active, and leaves no active job after one that is gone.
func TestCleanTakesNoneThatIsNeeded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := kernel.NewSnapshot(World.Draw(t, "world"))
		if len(s.Jobs()) == 0 {
			return
		}
		j := rapid.SampledFrom(s.Jobs()).Draw(t, "job")
		force := rapid.Bool().Draw(t, "force")
		p, err := retention.Clean(s, []kernel.JobID{j.ID}, force)
		if err != nil {
			if len(p.Actions()) > 0 {
				t.Fatalf("refused (%v), and plans %+v", err, p.Actions())
			}
			return
		}
		next := s.Apply(p)
		of := func(k *kernel.Job) bool {
			return k.ID == j.ID || j.Spec.Origin.Run != "" && k.Spec.Origin.Run == j.Spec.Origin.Run
		}
		kept := slices.ContainsFunc(s.Jobs(), func(k *kernel.Job) bool { return of(k) && k.State.Context.Owned }) // its worktree, and so its run
		for _, k := range s.Jobs() {
			stays := !of(k) || kept && !force
			if (next.Job(k.ID) != nil) != stays {
				t.Fatalf("%s stays is %t", k.ID, !stays)
			}
			if !stays && k.State.Status.Active() {
				t.Fatalf("%s is active", k.ID)
			}
			for _, id := range k.Spec.After {
				if !force && stays && k.State.Status.Active() && s.Job(id) != nil && next.Job(id) == nil {
					t.Fatalf("%s is after %s", k.ID, id)
				}
			}
		}
		for _, a := range p.Actions() {
			if r, ok := a.(kernel.RemoveRun); ok && len(membersOf(next, r.Run)) > 0 {
				t.Fatalf("the manifest of %s went before its jobs", r.Run)
			}
		}
	})
}

func membersOf(s *kernel.Snapshot, run kernel.RunID) []kernel.JobID {
	var out []kernel.JobID
	for _, j := range s.Jobs() {
		if j.Spec.Origin.Run == run {
			out = append(out, j.ID)
		}
	}
	return out
}
