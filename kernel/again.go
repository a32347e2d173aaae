package kernel

import (
	"slices"
	"strings"
)

// A snapshot stands when a tick would leave every job of it as it is. The
// snapshot that a tick leads to stands, and remembers so: with which facts
// (stood), and which jobs' states are others since (moved). The next tick
// judges only what may come out differently.
//
// That is right because a gate reads nothing but the job's own record, the
// clock where a retry is due, the statuses of the jobs its edges lead to, facts,
// and the locks that running jobs hold and older jobs wait for. A job for which
// all of that is as it was when it was last judged is judged as it was. Others
// are in the set that widen makes of
//
//   - the jobs that moved or are due, and those that read their statuses (look);
//   - those that read a fact that is another (compare);
//   - those that wait for a lock which one of the set names, or for a slot of
//     their executor that may be free for them (queues);
//
// and what ends in the tick is carried on through the graph as ever. Where more
// may follow than that, all is judged: where a transient job sleeps or waits,
// for demand is a property of the whole graph; where something moved in a run
// that stops at a failure it has; where a job comes to the locks
// out of its turn; where the slots come out otherwise than foreseen; and where
// jobs were created or removed, for the graph is another then. It is a law in
// proptest that nobody can tell the difference.
type affected struct {
	s    *Snapshot
	seen map[int32]bool
	list []int32

	stopped bool // a run that one of them belongs to stops at a failure
}

// again judges what may have changed since the snapshot stood, and reports
// false where that tells too little: the tick is to be begun anew, and whole.
func (t *tick) again() bool {
	if t.s.stood == nil || t.s.drowsy() {
		return false
	}
	set := affected{s: t.s, seen: map[int32]bool{}}
	if !set.widen() {
		return false
	}
	t.some = make(map[int32]*judgement, len(set.list))
	for _, i := range set.list {
		if v := t.of(i); t.s.jobs[i].unrouted() && t.idle(i) {
			v.status = Unscheduled
		}
	}
	t.locks = NewLockTable(t.s.limits)
	for _, i := range t.s.in[Running] {
		t.locks.Take(t.s.jobs[i].Spec.Task.On(), t.s.jobs[i].Spec.Locks)
	}
	first := set.firstInLine()
	for _, i := range append(set.list, int32(len(t.s.jobs))) {
		for ; len(first) > 0 && first[0] < i; first = first[1:] {
			if j := t.s.jobs[first[0]]; j.State.Wait.Detail != t.locks.full(j.Spec.Task.On()) {
				return false
			}
		}
		if int(i) < len(t.s.jobs) {
			t.judge(i)
		}
	}
	t.carry(0)
	return !t.late
}

// drowsy reports that a transient job waits to be demanded or to run.
func (s *Snapshot) drowsy() bool {
	return slices.ContainsFunc(s.graph.transients, func(i int32) bool {
		return s.jobs[i].Open() && s.jobs[i].State.Status != Running
	})
}

// most is how many of n jobs are judged again before judging all costs less.
func most(n int) int { return max(1000, n/8) }

// widen fills the set, in schedule order. It reports false where that is not
// enough, or not worth the trouble.
func (a *affected) widen() bool {
	for _, i := range a.s.moved {
		a.look(i)
	}
	for _, i := range slices.Concat(a.s.in[FailedRetryable], a.s.in[Queued]) {
		if !a.s.now.Before(a.s.jobs[i].State.RetryAt) {
			a.look(i)
		}
	}
	a.compare(a.s.stood, a.s.facts)
	if a.stopped || len(a.list) > most(len(a.s.jobs)) {
		return false
	}
	a.queues()
	slices.Sort(a.list)
	return len(a.list) <= most(len(a.s.jobs))
}

func (a *affected) add(i int32) {
	if !a.seen[i] {
		a.seen[i] = true
		a.list = append(a.list, i)
	}
}

// reader adds a job that reads what has changed, if it is one that gates hold.
func (a *affected) reader(i int32) {
	if s := a.s.jobs[i].State.Status; s == Queued || s.Waiting() {
		a.add(i)
	}
}

// look adds job i and those that read its status: its patch is there once it
// has succeeded, whether it declares one or not.
func (a *affected) look(i int32) {
	a.add(i)
	a.stopped = a.stopped || slices.ContainsFunc(a.s.graph.stopping[a.s.jobs[i].Spec.Origin.Run], func(k int32) bool {
		return a.s.jobs[k].State.Status == Failed
	})
	a.s.graph.eachSuccessor(i, a.reader)
	a.s.graph.eachConsumer(Artifact{Kind: CommandPatch, Name: string(a.s.jobs[i].ID)}, a.reader)
}

// compare adds the readers of what was known otherwise. Merging and what is
// known of runners is nothing that a gate reads.
func (a *affected) compare(was, now *Facts) {
	if was == now {
		return
	}
	eachChange(was.Present, now.Present, func(x, y bool) bool { return x == y },
		func(key Artifact, _, _ Fact[bool]) { a.s.graph.eachConsumer(key, a.reader) })
	eachChange(was.Markers, now.Markers, slices.Equal[[]JobID], a.marked)
	head := was.Head != now.Head || was.Clean != now.Clean
	eachChange(was.Heads, now.Heads, func(x, y CommitID) bool { return x == y },
		func(string, Fact[CommitID], Fact[CommitID]) { head = true })
	if head {
		for _, i := range a.s.graph.outward {
			a.reader(i)
		}
	}
}

// marked adds the readers of markers of key that came or went: those of other
// runs than the marker's may not count it.
func (a *affected) marked(key Artifact, was, now Fact[[]JobID]) {
	if !was.Known || !now.Known {
		a.s.graph.eachConsumer(key, a.reader)
		return
	}
	for _, lists := range [][2][]JobID{{was.Value, now.Value}, {now.Value, was.Value}} {
		for _, id := range lists[0] {
			if slices.Contains(lists[1], id) {
				continue
			}
			run := RunID("")
			if k, ok := a.s.graph.index[id]; ok {
				run = a.s.jobs[k].Spec.Origin.Run
			}
			a.s.graph.eachConsumerIn(run, key, a.reader)
		}
	}
}

// eachChange calls f with the facts that are not the same in both maps.
func eachChange[K comparable, V any](was, now map[K]Fact[V], same func(V, V) bool, f func(K, Fact[V], Fact[V])) {
	for k, x := range was {
		if y := now[k]; x.Known != y.Known || x.Err != y.Err || !same(x.Value, y.Value) {
			f(k, x, y)
		}
	}
	for k, y := range now {
		if x, ok := was[k]; !ok && y.asked() {
			f(k, x, y)
		}
	}
}

// queues adds who waits for a slot that may be free, and then who waits for a
// lock of anyone in the set: so the set holds every claim to a lock that it
// names, but those of running jobs.
func (a *affected) queues() {
	free, left := a.slots(), 0
	for _, i := range a.s.in[Running] {
		if on := a.s.jobs[i].Spec.Task.On(); free[on] > 0 {
			free[on]--
		}
	}
	for _, n := range free {
		left += n
	}
	for _, w := range a.s.in[WaitingOnLocks] {
		if left == 0 {
			break
		}
		if j := a.s.jobs[w]; !a.seen[w] && j.inLine() && free[j.Spec.Task.On()] > 0 {
			a.add(w)
			free[j.Spec.Task.On()]--
			left--
		}
	}
	named := map[string]bool{}
	for at := 0; at < len(a.list); at++ {
		for _, l := range a.s.jobs[a.list[at]].Spec.Locks {
			if named[l.Key] {
				continue
			}
			named[l.Key] = true
			for _, w := range a.s.graph.lockers[l.Key] {
				if a.s.jobs[w].State.Status == WaitingOnLocks {
					a.add(w)
				}
			}
		}
	}
}

// slots is how many jobs may run on each limited executor of a job in the set:
// on others as many run as ran, whatever the set comes to.
func (a *affected) slots() map[string]int {
	may := map[string]int{}
	for _, i := range a.list {
		on := a.s.jobs[i].Spec.Task.On()
		if m, _ := a.s.limits.running(on); m > 0 {
			may[on] = m
		}
	}
	return may
}

// inLine reports that j waits for nothing but that fewer jobs run.
func (j *Job) inLine() bool { return strings.HasPrefix(j.State.Wait.Detail, waitingOnSlot) }

// firstInLine is, for each executor, the first job outside of the set that
// waits for a slot on it. When it would have its turn, as many slots must be
// taken as before: then those behind it find the same, and none need be judged.
func (a *affected) firstInLine() []int32 {
	var first []int32
	open := a.slots()
	for _, w := range a.s.in[WaitingOnLocks] {
		if len(open) == 0 {
			break
		}
		if j := a.s.jobs[w]; !a.seen[w] && j.inLine() && open[j.Spec.Task.On()] > 0 {
			first = append(first, w)
			delete(open, j.Spec.Task.On())
		}
	}
	return first
}
