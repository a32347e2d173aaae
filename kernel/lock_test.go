package kernel_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Seed 000: an exclusive request needs a key without holders, a shared one
// needs a key without an exclusive holder.
func TestLockMatrix(t *testing.T) {
	const denied = "waiting on locks"
	for _, c := range []struct {
		held, asked kernel.Lock
		want        string
	}{
		{excl("k"), excl("k"), denied},
		{excl("k"), shared("k"), denied},
		{shared("k"), excl("k"), denied},
		{shared("k"), shared("k"), ""},
		{excl("k"), excl("other"), ""},
		{excl("k"), pool("k", 1), ""}, // a pool and a key with the same name are independent
		{pool("k", 1), excl("k"), ""},
		{pool("k", 1), pool("k", 1), "waiting on pool k (needs 1 of 1): 1 in use"},
		{pool("gpu", 2), pool("gpu", 2), ""},
		{pool("gpu", 3), pool("gpu", 2), "waiting on pool gpu (needs 2 of 4): 3 in use"},
		{pool("gpu", 1), pool("gpu", 5), "waiting on pool gpu (needs 5 of 4: more than it has)"},
		{pool("gpu", 4), pool("none", 1), "waiting on pool none (needs 1 of 0: more than it has)"},
	} {
		t.Run(fmt.Sprintf("%v/%v", c.held, c.asked), func(t *testing.T) {
			table := kernel.NewLockTable(kernel.Limits{Pools: map[string]int{"gpu": 4, "none": 0}})
			table.Take(kernel.LocalExecutor, []kernel.Lock{c.held})
			if got, now, _ := table.Denied(kernel.LocalExecutor, []kernel.Lock{c.asked}); got+now != c.want {
				t.Errorf("got %q, want %q", got+now, c.want)
			}
		})
	}
}

// Of a pool that is used up, nothing is left to be reserved.
func TestReservedUnitsAreToldOf(t *testing.T) {
	for used, want := range map[int]string{1: ": 1 in use, the rest reserved for an older job", 2: ": 2 in use"} {
		table := kernel.NewLockTable(kernel.Limits{Pools: map[string]int{"gpu": 2}})
		table.Take(kernel.LocalExecutor, []kernel.Lock{pool("gpu", used)})
		table.Reserve([]kernel.Lock{pool("gpu", 2)})
		if _, now, _ := table.Denied(kernel.LocalExecutor, []kernel.Lock{pool("gpu", 1)}); now != want {
			t.Errorf("%d used: %q, want %q", used, now, want)
		}
	}
}

// All or nothing: one lock that is not free denies the whole request, and a
// denied request takes nothing.
func TestLocksAreGrantedTogether(t *testing.T) {
	s := snapshot(facts(), job("h", running(1), locks(excl("x"))),
		job("a", locks(shared("y"), excl("x"))), job("b", locks(shared("y"))))
	expect(t, s, "a", "waiting_on_locks locks: waiting on locks")
	expect(t, s, "b", "running")
}

// The requests of one job for a pool are added up.
func TestAPoolIsNotGrantedTwiceToOneJob(t *testing.T) {
	table := kernel.NewLockTable(kernel.Limits{Pools: map[string]int{"gpu": 2}})
	if why, _, _ := table.Denied(kernel.LocalExecutor, []kernel.Lock{pool("gpu", 1), {Key: "gpu", Units: 1}}); why != "" {
		t.Error("two requests that fit together were denied")
	}
	if why, _, _ := table.Denied(kernel.LocalExecutor, []kernel.Lock{pool("gpu", 1), pool("gpu", 2)}); why == "" {
		t.Error("three units of two were granted")
	}
}

// K13: the first in schedule order starts, the second waits.
func TestLocksAreGrantedInScheduleOrder(t *testing.T) {
	s := snapshot(facts(), job("b", locks(excl("k"))), job("a", locks(excl("k"))), job("c", locks(shared("k"))))
	expect(t, s, "a", "running")
	expect(t, s, "b", "waiting_on_locks locks: waiting on locks")
	expect(t, s, "c", "waiting_on_locks locks: waiting on locks")
}

// Semantics 2, decision 11 and U20: an exclusive request that waits is not
// overtaken by younger shared ones.
func TestSharedRequestsDoNotStarveAnExclusiveOne(t *testing.T) {
	s := snapshot(facts(), job("a", running(1), locks(shared("k"))), job("b", locks(excl("k"))), job("c", locks(shared("k"))))
	expect(t, s, "b", "waiting_on_locks locks: waiting on locks")
	expect(t, s, "c", "waiting_on_locks locks: waiting on locks")
}

// The same for pools: small requests do not starve a large one, except one
// that the pool can never grant.
func TestSmallRequestsDoNotStarveALargeOne(t *testing.T) {
	o := kernel.Observation{Facts: facts(), Limits: kernel.Limits{Pools: map[string]int{"gpu": 4}}, Jobs: []kernel.Job{
		job("a", running(1), locks(pool("gpu", 2))), job("b", locks(pool("gpu", 3))), job("c", locks(pool("gpu", 1)))}}
	expect(t, kernel.NewSnapshot(o), "b", "waiting_on_locks locks: waiting on pool gpu (needs 3 of 4)")
	expect(t, kernel.NewSnapshot(o), "c", "waiting_on_locks locks: waiting on pool gpu (needs 1 of 4)")
	o.Jobs[1].Spec.Locks = []kernel.Lock{pool("gpu", 5)}
	expect(t, kernel.NewSnapshot(o), "b", "waiting_on_locks locks: waiting on pool gpu (needs 5 of 4: more than it has)")
	expect(t, kernel.NewSnapshot(o), "c", "running")
}

// A reason to wait does not change because a younger job starts.
func TestAWaitersReasonIsStable(t *testing.T) {
	s := snapshot(facts(), job("h", running(1), locks(pool("p", 1))),
		job("a", locks(shared("k"), pool("p", 1))), job("b", locks(excl("k"))))
	expect(t, s, "a", "waiting_on_locks locks: waiting on pool p (needs 1 of 1)")
}

// One grant does not rewrite the reasons of the jobs that still wait.
func TestAQueueForAPoolIsQuiet(t *testing.T) {
	for _, size := range []int{1, 3} { // of 3 units, 2 are in use, then 3, then 1
		o := kernel.Observation{Facts: facts(), Limits: kernel.Limits{Pools: map[string]int{"gpu": size}}}
		for k, id := range []kernel.JobID{"a", "b", "c", "d", "e"} {
			o.Jobs = append(o.Jobs, job(id, locks(pool("gpu", min(size, []int{2, 3, 1, 2, 3}[k])))))
		}
		s := kernel.NewSnapshot(o)
		s = s.Apply(kernel.Decide(s))
		for _, id := range []kernel.JobID{"a", "b"} {
			finish, err := kernel.Finish(s, kernel.Result{Attempt: s.Job(id).Attempt(), Outcome: kernel.OutcomeSucceeded})
			if err != nil {
				t.Fatal(err)
			}
			s = s.Apply(finish)
			p := kernel.Decide(s)
			if written, started := len(actionsOf[kernel.PutState](p)), len(actionsOf[kernel.Launch](p)); written != started || started == 0 {
				t.Errorf("%d start, and this is written: %+v", started, p.Actions())
			}
			s = s.Apply(p)
		}
	}
}

// A job that reaches the locks only because another ended in the same tick is
// not overtaken by a younger one that reached them earlier: b had to wait for a
// new token of p, which waits for z, which turns out to be blocked.
func TestLocksAreGrantedInOrderAfterAChangeOfMind(t *testing.T) {
	const x = "custom:t:x"
	s := snapshot(marked(facts(), x, "0"), job("a", produces(x), after("z")), job("b", needs(x), locks(excl("k"))),
		job("c", locks(excl("k"))), job("z", after("gone")))
	expect(t, s, "a", "blocked_by_dependency dependencies: dependency failed for job z (blocked_by_dependency)")
	expect(t, s, "b", "running")
	expect(t, s, "c", "waiting_on_locks locks: waiting on locks")
}

func TestMaxRunning(t *testing.T) {
	o := kernel.Observation{Facts: facts(), Limits: kernel.Limits{MaxRunning: 2}, Jobs: []kernel.Job{
		job("a", running(1)), job("b"), job("c"), job("d", is(kernel.Failed))}}
	expect(t, kernel.NewSnapshot(o), "b", "running")
	expect(t, kernel.NewSnapshot(o), "c", "waiting_on_locks locks: waiting on pool max_running (2 of 2 in use)")
	o.Limits = kernel.Limits{}
	expect(t, kernel.NewSnapshot(o), "c", "running")
}

// A running attempt that is settled in a tick frees its locks in that tick.
func TestLocksOfADeadRunnerAreFree(t *testing.T) {
	h := job("h", running(1), locks(excl("k")))
	waiter := job("q", locks(excl("k")))
	expect(t, snapshot(facts(), h, waiter), "q", "waiting_on_locks locks: waiting on locks")
	expect(t, snapshot(dead(facts(), h.Attempt(), nil), h, waiter), "q", "running")
}

func TestLockValidate(t *testing.T) {
	for _, l := range []kernel.Lock{{}, {Key: " "}, {Key: "k", Units: -1}, {Key: "k", Mode: 2}} {
		if err := l.Validate(); !errors.Is(err, kernel.ErrInvalid) {
			t.Errorf("%+v: %v", l, err)
		}
	}
	for _, l := range []kernel.Lock{excl("k"), shared("k"), pool("k", 1)} {
		if err := l.Validate(); err != nil {
			t.Error(err)
		}
	}
}

// If another host starts them, jobs of the local executor wait, and those of
// other executors do not. A tick of that host judges them again.
func TestJobsOfAnotherHostWait(t *testing.T) {
	here := kernel.Limits{MaxRunning: 4}
	far := here
	far.Remote = true
	table := kernel.NewLockTable(far)
	why, _, cause := table.Denied(kernel.LocalExecutor, nil)
	if !strings.Contains(why, "on the host") || cause != kernel.HostAbsent {
		t.Errorf("a local job: %q, %v", why, cause)
	}
	if why, _, _ := table.Denied("lab", nil); why != "" {
		t.Errorf("a job of another executor: %q", why)
	}
	if here.String() == far.String() {
		t.Error("what the one judged counts for the other")
	}
	j := kernel.Job{State: kernel.State{Status: kernel.WaitingOnLocks, Wait: kernel.WaitReason{Kind: kernel.OnLocks, Cause: cause}}}
	if !j.AwaitsHost() {
		t.Error("nobody would know that it waits for a host")
	}
}

// Two jobs exclude each other if they can never run at once.
func TestExclude(t *testing.T) {
	limits := kernel.Limits{MaxRunning: 2, Executors: map[string]int{"far": 1}, Pools: map[string]int{"gpu": 3}}
	with := func(on string, locks ...kernel.Lock) *kernel.Spec {
		return &kernel.Spec{Task: kernel.Task{Executor: on}, Locks: locks}
	}
	a, shared, gpu := kernel.Lock{Key: "a"}, kernel.Lock{Key: "a", Mode: kernel.Shared}, func(n int) kernel.Lock { return kernel.Lock{Key: "gpu", Units: n} }
	for name, c := range map[string]struct {
		one, other *kernel.Spec
		want       bool
	}{
		"nothing in common":            {with("", a), with("", kernel.Lock{Key: "b"}), false},
		"one lock":                     {with("", a), with("", kernel.Lock{Key: "b"}, a), true},
		"one wants it alone":           {with("", a), with("", shared), true},
		"they share it":                {with("", shared), with("", shared), false},
		"the pool has room":            {with("", gpu(1)), with("", gpu(2)), false},
		"the pool has none":            {with("", gpu(2)), with("", gpu(2)), true},
		"a pool that is not set":       {with("", kernel.Lock{Key: "x", Units: 1}), with("", kernel.Lock{Key: "x", Units: 1}), true},
		"a pool and a lock":            {with("", kernel.Lock{Key: "a", Units: 1}), with("", a), false},
		"an executor of one":           {with("far"), with("far"), true},
		"that, and another executor":   {with("far"), with(""), false},
		"an executor with room for it": {with(""), with(""), false},
	} {
		if got, back := limits.Exclude(c.one, c.other), limits.Exclude(c.other, c.one); got != c.want || back != c.want {
			t.Errorf("%s: %v and %v", name, got, back)
		}
	}
}
