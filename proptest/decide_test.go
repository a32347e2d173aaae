package proptest

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
	"pgregory.net/rapid"
)

// Decisions do not depend on the order in which records are read.
func TestOrderOfInputIsIrrelevant(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := World.Draw(t, "world")
		want := kernel.Decide(kernel.NewSnapshot(o))
		o.Jobs = rapid.Permutation(o.Jobs).Draw(t, "shuffled")
		if got := kernel.Decide(kernel.NewSnapshot(o)); !samePlan(got, want) {
			t.Fatalf("got %+v\nwant %+v", got, want)
		}
	})
}

// I1: two decisions on one snapshot are the same, and once a decision is applied,
// nothing is left to decide.
func TestASecondTickFindsNothingToDo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := World.Draw(t, "world")
		switch oneOf(t, "shape", "any", "repairs", "routes wait") {
		case "repairs":
			repairs(t, &o)
		case "routes wait":
			waitingRoutes(t, &o)
		}
		s := kernel.NewSnapshot(o)
		p := kernel.Decide(s)
		if !samePlan(kernel.Decide(s), p) {
			t.Fatal("two decisions on one snapshot differ")
		}
		again := kernel.Decide(s.Apply(p))
		tending := func(a kernel.Action) bool { _, ok := a.(kernel.TendPrompt); return ok } // repeated until it is on record as done
		if left := slices.DeleteFunc(slices.Clone(p.Actions()), func(a kernel.Action) bool { return !tending(a) }); !slices.Equal(left, again.Actions()) {
			t.Fatalf("first %+v\nthen %+v", p.Actions(), again.Actions())
		}
	})
}

// I2: a terminal job's status changes only with a new generation, and a tick
// starts a generation only if an attempt that it settles leads back to the job. I3:
// an attempt's number only grows, by one, and only when it is launched. A tick
// writes each job at most once, over the revision that it has seen.
func TestWhatATickMayWrite(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := kernel.NewSnapshot(World.Draw(t, "world"))
		p := kernel.Decide(s)
		next, launched, written := s.Apply(p), launches(p), map[kernel.JobID]bool{}
		for _, a := range p.Actions() {
			j := s.Job(a.Subject())
			if j == nil { // an attempt that is settled submitted it
				if c, ok := a.(kernel.CreateJob); ok {
					written[c.Job.ID] = written[c.Job.ID] || c.Job.State.Status == kernel.Running && c.Job.State.Attempt == launched[c.Job.ID]
				}
				continue
			}
			after := next.Job(j.ID).State
			rewound := after.Generation > j.State.Generation
			if rewound && !ledBack(s, next, j.ID) || after.Generation < j.State.Generation {
				t.Fatalf("%s: generation %d -> %d", j.ID, j.State.Generation, after.Generation)
			}
			if j.State.Status.Terminal() && !rewound && after.Status != j.State.Status {
				t.Fatalf("%s: %s -> %s", j.ID, j.State.Status, after.Status)
			}
			put, ok := a.(kernel.PutState)
			if !ok {
				continue
			}
			if written[j.ID] || put.If != j.Rev || put.State == j.State {
				t.Fatalf("a needless or second write of %s: %+v", j.ID, put)
			}
			written[j.ID] = true
			n, starts := launched[j.ID]
			if put.State.Attempt != j.State.Attempt && !starts || starts && (n != j.State.Attempt+1 || put.State.Attempt != n || put.State.Status != kernel.Running) {
				t.Fatalf("%s: attempt %d, launched %d, then %+v", j.ID, j.State.Attempt, n, put.State)
			}
		}
		for id := range launched {
			if !written[id] {
				t.Fatalf("%s is launched and not recorded as running", id)
			}
		}
	})
}

// ledBack reports whether an attempt whose runner is gone, one whose routes wait, or an approval that has expired leads back to id: by a
// route, or by submitting it again with a larger budget. It uses the downstream of
// next too, since jobs that the attempt submits may connect the two.
func ledBack(s, next *kernel.Snapshot, id kernel.JobID) bool {
	leads := func(from kernel.JobID) bool {
		return slices.Contains(s.Downstream(from), id) || slices.Contains(next.Downstream(from), id)
	}
	for _, j := range s.Jobs() {
		live := s.Facts().Runners[j.Attempt()].Value.Liveness
		r := s.Facts().Results[j.Attempt()].Value
		began := r != nil && r.Attempt == j.Attempt()
		ends := live == kernel.Dead || live == kernel.NeverStarted && (began || !j.State.Stop.At.IsZero()) // one that never began, of a job that was cancelled, is not taken back
		lapsed := j.State.Status == kernel.WaitingOnApproval && j.State.Wait.Kind == kernel.OnApproval && j.State.Approval.Over(s.Now())
		if !j.State.Deferred && !lapsed && (j.State.Status != kernel.Running || !ends) {
			continue
		}
		for _, r := range j.Spec.Routes {
			if leads(r.To) {
				return true
			}
		}
		if r == nil {
			continue
		}
		for _, n := range r.Submitted {
			for _, k := range s.Jobs() {
				if key := n.Spec.IdempotencyKey; key != "" && k.Spec.IdempotencyKey == key && leads(k.ID) {
					return true
				}
			}
		}
	}
	return false
}

// Records come before the world, whatever the verb.
func TestRecordsComeFirst(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := kernel.NewSnapshot(World.Draw(t, "world"))
		name, p := anyVerb(t, s)
		world := false
		for _, a := range p.Then(kernel.Decide(s.Apply(p))).Actions() {
			switch a.(type) {
			case kernel.Launch, kernel.Stop, kernel.Sweep, kernel.ClearSentinel, kernel.RemoveWorktree, kernel.TendPrompt:
				world = true
			default:
				if world {
					t.Fatalf("%s: %T after an action on the world", name, a)
				}
			}
		}
	})
}

// I12: after a tick, every open job runs, sleeps, is due later or says what it
// waits for, and a blocked job says why.
func TestEveryOpenJobSaysWhy(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := kernel.NewSnapshot(World.Draw(t, "world"))
		next := s.Apply(kernel.Decide(s))
		for _, j := range next.Jobs() {
			st := j.State
			was := kernel.Job{State: kernel.State{Status: kernel.Queued}} // for a job that a settled attempt submitted
			if k := s.Job(j.ID); k != nil {
				was = *k
			}
			switch {
			case st.Status.Waiting():
				if st.Wait.Kind == kernel.NoWait || st.Wait.Detail == "" || st.WaitSince.IsZero() || !slices.Contains(st.WaitedOn.Kinds(), st.Wait.Kind) {
					t.Fatalf("%s waits for nothing: %+v", j.ID, st)
				}
			case st.Status == kernel.FailedRetryable, st.Status == kernel.Queued: // the latter after a refusal
				if !dueLater(j, s.Now()) {
					t.Fatalf("%s is overdue: %+v", j.ID, st)
				}
			case st.Status == kernel.Unscheduled, st.Status == kernel.Running:
				if st.Status != was.State.Status && (st.Wait != (kernel.WaitReason{}) || !st.RetryAt.IsZero()) {
					t.Fatalf("%s: %+v", j.ID, st)
				}
			}
			if blocked := st.Status == kernel.BlockedByDependency || st.Status == kernel.BlockedByApproval; blocked && was.Open() &&
				was.State.Status != kernel.Running && st.Wait.Detail == "" {
				t.Fatalf("%s is blocked for nothing", j.ID)
			}
		}
	})
}

// Seed 003, rule 2: with the policy "wait", no job is blocked for lack of a
// producer, and no job is worse off than with "block".
func TestWaitIsNeverWorseThanBlock(t *testing.T) {
	rank := func(s kernel.Status) int {
		switch {
		case s == kernel.Running:
			return 2
		case s.Terminal():
			return 0
		default:
			return 1
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		o := World.Draw(t, "world")
		if len(o.Jobs) == 0 {
			return
		}
		o.Jobs = slices.Clone(o.Jobs)
		i := rapid.IntRange(0, len(o.Jobs)-1).Draw(t, "which")
		id := o.Jobs[i].ID
		with := func(m kernel.MissingProducer) kernel.State {
			o.Jobs[i].Spec.MissingProducer = m
			s := kernel.NewSnapshot(o)
			return s.Apply(kernel.Decide(s)).Job(id).State
		}
		block, wait := with(kernel.Block), with(kernel.Wait)
		if rank(wait.Status) < rank(block.Status) {
			t.Fatalf("%s: %s with block, %s (%s) with wait", id, block.Status, wait.Status, wait.Wait.Detail)
		}
		s := kernel.NewSnapshot(o)
		p := kernel.Decide(s)
		next := s.Apply(p)
		for _, d := range p.Decisions {
			label, missing := strings.CutPrefix(d.Reason.Detail, "missing ")
			j := next.Job(d.Job)
			if a, err := kernel.ParseArtifact(label); missing && err == nil && j.Spec.MissingProducer == kernel.Wait && len(next.Producers(j.ID, a)) == 0 {
				t.Fatalf("%+v", d)
			}
		}
	})
}

// I7: only the attempt of a running job whose runner is known to be gone is
// settled by a tick.
func TestOnlyTheDeadAreReclaimed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := kernel.NewSnapshot(World.Draw(t, "world"))
		p := kernel.Decide(s)
		next := s.Apply(p)
		for _, j := range s.Jobs() {
			if j.State.Status != kernel.Running {
				continue
			}
			live := s.Facts().Runners[j.Attempt()]
			gone := live.Known && (live.Value.Liveness == kernel.Dead || live.Value.Liveness == kernel.NeverStarted)
			want := j.State
			if live.Value.Liveness == kernel.Stalled {
				want.Stalled = want.Attempt
			}
			if !gone && next.Job(j.ID).State != want {
				t.Fatalf("%s is not known to be gone: %+v", j.ID, next.Job(j.ID).State)
			}
		}
		for _, a := range p.Actions() {
			if sweep, ok := a.(kernel.Sweep); ok && s.Job(sweep.Attempt.Job).Fence(sweep.Attempt) != nil {
				t.Fatalf("%+v", sweep)
			}
		}
	})
}

// Probes name everything that a decision depends on: once they are answered, no
// gate is left unobserved. The probes of jobs that a settled attempt submitted are
// known once it is settled.
func TestProbesAreComplete(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := World.Draw(t, "world")
		s := kernel.NewSnapshot(observed(o))
		s = ask(s.Apply(kernel.Settle(s)), o.Facts)
		if p := s.Probes(); !p.Empty() {
			t.Fatalf("the kernel goes on asking: %+v", p)
		}
		p := kernel.Decide(s)
		for _, d := range p.Decisions {
			if strings.Contains(d.Reason.Detail, "not observed") {
				t.Fatalf("%+v", d)
			}
		}
		// Facts that no probe asked for change nothing.
		more := s.WithFacts(Facts.Draw(t, "other facts"))
		if got := kernel.Decide(more.WithFacts(s.Facts())); !samePlan(got, p) {
			t.Fatalf("got %+v\nwant %+v", got, p)
		}
	})
}

// Seed 003, rule 1: an artifact that exists holds no job up, whatever its
// producers do. (Semantics 3.8 is the exception: a job waits for an artifact that
// its own run makes.)
func TestWhatExistsHoldsNobodyUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := kernel.NewSnapshot(World.Draw(t, "world"))
		a := oneOf(t, "artifact", artifacts...)
		f := kernel.NewFacts()
		if a.Kind == kernel.Custom {
			f.Markers[a] = kernel.Seen([]kernel.JobID{"zz-newest"})
		} else {
			f.Present[a] = kernel.Seen(true)
		}
		s = s.WithFacts(f)
		p := kernel.Decide(s)
		next := s.Apply(p)
		for _, act := range p.Actions() {
			if r, ok := act.(kernel.Reset); ok && a.Kind == kernel.CommandPatch && string(r.Attempt.Job) == a.Name {
				return // the tick rewinds the job by a route, and its patch goes with that
			}
		}
		for _, d := range p.Decisions {
			if d.Reason.Kind == kernel.OnDependencies && strings.HasSuffix(d.Reason.Detail, " "+a.String()) && !ownProducer(next, next.Job(d.Job), a) {
				t.Fatalf("%s exists: %+v", a, d)
			}
		}
	})
}

// Snapshot.Later, given the changed states of some jobs, equals a new snapshot of the later
// observation.
func TestLaterIsObservedAnew(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o, then := World.Draw(t, "world"), World.Draw(t, "facts and limits of later")
		s, moved := kernel.NewSnapshot(o), []kernel.Job(nil)
		o.Now, o.Limits, o.Facts = then.Now, then.Limits, then.Facts
		o.Jobs = nil // there may have been two of one id
		for _, j := range s.Jobs() {
			now := *j
			if oneIn(t, 2, "moves") {
				now.State, now.Rev, now.Number = state(t, j, o.Now), j.Rev+1, j.Number+1
				moved = append(moved, now)
			}
			o.Jobs = append(o.Jobs, now)
		}
		want, got := kernel.NewSnapshot(o), s.Later(o.Now, o.Limits, o.Facts, moved)
		if !samePlan(kernel.Decide(got), kernel.Decide(want)) {
			t.Fatalf("later %v, anew %v", kernel.Decide(got), kernel.Decide(want))
		}
		if a, b := got.Probes(), want.Probes(); !reflect.DeepEqual(a, b) {
			t.Fatalf("later it asks %v, anew %v", a, b)
		}
	})
}
