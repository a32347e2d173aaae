package proptest

import (
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
	"pgregory.net/rapid"
)

// request is what one job holds, or waits for.
type request []kernel.Lock

// ledger is the lock table as two lists.
type ledger struct {
	limits       kernel.Limits
	held, queued []request
}

func (l *ledger) capacity(key string) int {
	if n, ok := l.limits.Pools[key]; ok {
		return n
	}
	return 1
}

// units returns how many of pool key the requests ask for together.
func units(key string, rs ...request) int {
	sum := 0
	for _, r := range rs {
		for _, m := range r {
			if m.Pool() && m.Key == key {
				sum += m.Units
			}
		}
	}
	return sum
}

// free reports whether no request that is held or queued excludes r, and there is
// room for one more job.
func (l *ledger) free(r request) bool {
	if m := l.limits.MaxRunning; m > 0 && len(l.held) >= m {
		return false
	}
	for _, want := range r {
		if want.Pool() {
			taken := units(want.Key, l.held...)
			for _, q := range l.queued {
				taken += units(want.Key, q)
			}
			if taken+units(want.Key, r) > l.capacity(want.Key) {
				return false
			}
			continue
		}
		for _, other := range append(append([]request{}, l.held...), l.queued...) {
			for _, have := range other {
				if !have.Pool() && have.Key == want.Key && (have.Mode == kernel.Exclusive || want.Mode == kernel.Exclusive) {
					return false
				}
			}
		}
	}
	return true
}

// queue adds r to the waiting requests, unless a pool is too small for it: then it must not hold up others.
func (l *ledger) queue(r request) {
	for _, k := range r {
		if k.Pool() && units(k.Key, r) > l.capacity(k.Key) {
			return
		}
	}
	l.queued = append(l.queued, r)
}

func TestLockTableAgreesWithALedger(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		model := ledger{limits: Limits.Draw(t, "limits")}
		table := kernel.NewLockTable(model.limits)
		for range rapid.IntRange(1, 8).Draw(t, "requests") {
			r := request(rapid.SliceOfN(lock, 0, 3).Draw(t, "locks"))
			why, _, _ := table.Denied(kernel.LocalExecutor, r)
			if (why == "") != model.free(r) {
				t.Fatalf("%+v: %q, free %v; held %+v, queued %+v", r, why, model.free(r), model.held, model.queued)
			}
			if why == "" || oneIn(t, 8, "held already") {
				table.Take(kernel.LocalExecutor, r)
				model.held = append(model.held, r)
			} else {
				table.Reserve(r)
				model.queue(r)
			}
		}
	})
}

// I4: the jobs that a tick starts are compatible with everything that runs after it.
func TestNoTwoHoldersExcludeEachOther(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := kernel.NewSnapshot(World.Draw(t, "world"))
		p := kernel.Decide(s)
		next, started := s.Apply(p), launches(p)
		var alive []*kernel.Job
		for _, j := range next.Jobs() {
			if j.State.Status == kernel.Running {
				alive = append(alive, j)
			}
		}
		for id := range started {
			on := next.Job(id).Spec.Task.On()
			if m, n := places(s.Limits())[on], runningOn(next.Jobs(), on); m > 0 && n > m {
				t.Fatalf("%d run, %d may on %s", n, m, on)
			}
		}
		used := 0
		for i, j := range alive {
			used += units("gpu", j.Spec.Locks)
			for _, k := range alive[:i] {
				_, one := started[j.ID]
				_, other := started[k.ID]
				if (one || other) && excludes(j.Spec.Locks, k.Spec.Locks) {
					t.Fatalf("%s and %s both run: %+v, %+v", j.ID, k.ID, j.Spec.Locks, k.Spec.Locks)
				}
			}
		}
		for id := range started {
			if units("gpu", next.Job(id).Spec.Locks) > 0 && used > s.Limits().Pools["gpu"] {
				t.Fatalf("%s was started with %d of %d units in use", id, used, s.Limits().Pools["gpu"])
			}
		}
	})
}

func excludes(a, b request) bool {
	for _, l := range a {
		for _, m := range b {
			if !l.Pool() && !m.Pool() && l.Key == m.Key && (l.Mode == kernel.Exclusive || m.Mode == kernel.Exclusive) {
				return true
			}
		}
	}
	return false
}

// Locks are granted in schedule order: a job that still waits could not have
// started even if no younger job had.
func TestNobodyIsOvertaken(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := kernel.NewSnapshot(World.Draw(t, "world"))
		p := kernel.Decide(s)
		started, next := launches(p), s.Apply(p)
		model := ledger{limits: kernel.Limits{Pools: s.Limits().Pools}} // of locks only; may and on count the places
		may, on := places(s.Limits()), map[string]int{}
		for _, j := range next.Jobs() {
			if _, fresh := started[j.ID]; j.State.Status == kernel.Running && !fresh {
				on[j.Spec.Task.On()]++
				model.held = append(model.held, j.Spec.Locks)
			}
		}
		for _, j := range next.Jobs() {
			_, fresh := started[j.ID]
			at := j.Spec.Task.On()
			switch free := model.free(j.Spec.Locks) && (may[at] <= 0 || on[at] < may[at]); {
			case fresh && !free:
				t.Fatalf("%s was started out of turn", j.ID)
			case fresh:
				on[at]++
				model.held = append(model.held, j.Spec.Locks)
			case j.State.Status == kernel.WaitingOnLocks && free:
				t.Fatalf("%s waits for what is free: %s", j.ID, j.State.Wait.Detail)
			case j.State.Status == kernel.WaitingOnLocks:
				model.queue(j.Spec.Locks)
			}
		}
	})
}
