package kernel

import (
	"container/heap"
	"slices"
	"strings"
)

// dirtySet is what an incremental tick judges: the jobs whose judgement may differ
// from the baseline, which is what the last tick left on record. All others keep
// their baseline.
//
// That is right because a gate reads only the job's own record, the clock (where a
// retry is due or an approval expires), the statuses of the jobs that its edges lead
// to, facts, and the locks that running jobs hold and older jobs wait for. Where none
// of that has changed, the judgement has not. So the dirty set has
//
//   - jobs that changed or are due, and the jobs that wait for them (spread);
//   - jobs that read facts which no job makes (Job.outside), where it is not known that these
//     are as they were. Of a store that knows, those whose facts have changed are among the
//     jobs that changed (Readers);
//   - jobs that wait for a slot of an executor of such a job, where one may be free
//     (queues);
//
// and what ends in the tick is carried on through the graph, as in a full tick. The
// jobs that wait for a lock which a judged job names are judged in turn, the first
// first, until one of them keeps all others out as it did before (lockLine).
//
// A full tick follows where more than that may change: what becomes of a job depends
// on the whole graph (Job.entangled); something changed in a run that stops at a
// failure; a job comes to the locks out of turn; not as many slots are taken as
// foreseen; a runner is gone, and what its job's end leads to may be anywhere. A law
// in proptest holds both kinds of tick to the same result.
type dirtySet struct {
	s       *Snapshot
	seen    map[int32]bool
	list    []int32
	changed map[JobID]bool // since they were judged
	created map[JobID]bool
	gone    bool                // a changed job has no readable record any more
	holds   map[string]lockLine // the lines of locks and pools, as the jobs that run and those that changed leave them
}

// judgeIncrementally judges the dirty set. It reports false where a full tick has to
// judge everything.
func (t *tick) judgeIncrementally() bool {
	if slices.ContainsFunc(t.s.graph.entangling, func(i int32) bool { return t.s.jobs[i].entangled() }) {
		return false
	}
	set := dirtySet{s: t.s, seen: map[int32]bool{}, changed: map[JobID]bool{}, created: map[JobID]bool{}}
	for _, id := range t.s.dirty {
		set.changed[id] = true
	}
	for _, id := range t.s.created {
		set.created[id] = true
	}
	if set.widen(t.watch); set.gone {
		return false
	}
	set.hold()
	base, named := *t, map[string]bool{}
	for _, i := range set.list {
		for _, l := range t.s.jobs[i].Spec.Locks {
			named[l.Key] = false
		}
	}
	for {
		*t = tick{s: base.s, some: map[int32]*judgement{}, locks: base.locks.clone(), watch: base.watch, baseline: &set}
		if ok, again := t.judgeSet(&set, named); !again {
			return ok
		}
	}
}

// judgeSet judges the jobs of the set, and those in the lines of named locks: true, to
// the end. It is to be done again where one of these names another lock, for which jobs
// wait whose turn is over; that is named then.
func (t *tick) judgeSet(set *dirtySet, named map[string]bool) (ok, again bool) {
	for _, i := range set.list {
		if v := t.of(i); t.s.jobs[i].unrouted() && t.idle(i) {
			v.status = Unscheduled
		}
	}
	for _, i := range t.s.in[Running] {
		t.locks.Take(t.s.jobs[i].Spec.Task.On(), t.s.jobs[i].Spec.Locks)
	}
	turns := turns(slices.Clone(set.list)) // sorted, which is a heap
	lines := map[string]*lockLine{}
	for key, whole := range named {
		lines[key] = set.line(key)
		lines[key].whole = whole
		turns.add(lines[key].next())
	}
	first := set.firstInLine()
	for last := int32(-1); ; {
		i := turns.take()
		for ; len(first) > 0 && (i < 0 || first[0] < i); first = first[1:] {
			j := t.s.jobs[first[0]]
			if why, _ := t.locks.full(j.Spec.Task.On()); why != j.State.Wait.Detail {
				return false, false
			}
		}
		if i < 0 {
			break
		}
		locks := t.s.jobs[i].Spec.Locks
		if i == last || !set.seen[i] && !slices.ContainsFunc(locks, func(l Lock) bool { return lines[l.Key] != nil && !lines[l.Key].closed }) {
			continue
		}
		for _, l := range locks {
			line := lines[l.Key]
			switch {
			case line == nil:
				line = set.line(l.Key)
				lines[l.Key] = line
				if k := line.next(); k >= 0 && k < i {
					set.name(named, l.Key, k)
					again = true
				} else {
					turns.add(k)
				}
			case line.shared:
				named[l.Key], again = true, true
			}
		}
		if again {
			return false, true
		}
		if i == t.watch {
			t.watched = t.locks.clone()
		}
		t.judge(i)
		last = i
		for _, l := range locks {
			turns.add(lines[l.Key].pass(set, i, t.of(i), l))
		}
	}
	t.carry(0)
	return !t.late, false
}

// name names a lock for which job first waits as the first, and further locks of first
// for which others wait before it, and so on: it is judged then, and would name them in
// one repetition each.
func (a *dirtySet) name(named map[string]bool, key string, first int32) {
	named[key] = false
	for queue := []int32{first}; len(queue) > 0; {
		i := queue[0]
		queue = queue[1:]
		for _, l := range a.s.jobs[i].Spec.Locks {
			if _, known := named[l.Key]; known {
				continue
			}
			if k := a.line(l.Key).next(); k >= 0 && k < i {
				named[l.Key] = false
				queue = append(queue, k)
			}
		}
	}
}

// turns are positions of jobs to be judged, as a heap; one may be there twice.
type turns []int32

func (q turns) Len() int           { return len(q) }
func (q turns) Less(a, b int) bool { return q[a] < q[b] }
func (q turns) Swap(a, b int)      { q[a], q[b] = q[b], q[a] }
func (q *turns) Push(x any)        { *q = append(*q, x.(int32)) }
func (q *turns) Pop() any {
	last := len(*q) - 1
	x := (*q)[last]
	*q = (*q)[:last]
	return x
}

func (q *turns) add(i int32) {
	if i >= 0 {
		heap.Push(q, i)
	}
}

// take is the first; -1: none is left.
func (q *turns) take() int32 {
	if len(*q) == 0 {
		return -1
	}
	return heap.Pop(q).(int32)
}

// widen fills the set, in schedule order; a job that is to be explained is in it.
func (a *dirtySet) widen(watch int32) {
	if watch >= 0 {
		a.add(watch)
	}
	for _, id := range a.s.dirty {
		if i, ok := a.s.find(id); ok {
			a.spread(i)
		} else { // its record is gone, or makes no sense any more
			a.gone = true
		}
	}
	for _, i := range a.s.timed() {
		if at, ok := a.s.jobs[i].Due(); ok && !a.s.now.Before(at) {
			a.spread(i)
		}
	}
	if a.s.near.known[Near{Kind: Outsiders}] || a.s.near.all && !a.s.unchanged {
		for i, j := range a.s.jobs {
			if j.outside() {
				a.reader(int32(i))
			}
		}
	}
	a.queues()
	slices.Sort(a.list)
}

func (a *dirtySet) add(i int32) {
	if !a.seen[i] {
		a.seen[i] = true
		a.list = append(a.list, i)
	}
}

// reader adds a job that reads what has changed, if it is one that gates hold.
func (a *dirtySet) reader(i int32) {
	if s := a.s.jobs[i].State.Status; s == Queued || s.Waiting() {
		a.add(i)
	}
}

// spread adds job i and those that read its status: its patch is there once it
// has succeeded, whether it declares one or not.
func (a *dirtySet) spread(i int32) {
	a.add(i)
	j := a.s.jobs[i]
	a.s.requireStoppers(j.Spec.Origin.Run)
	a.s.requireHandled(i)
	patch := Artifact{Kind: CommandPatch, Name: string(j.ID)}
	reader := func(k int32) {
		if !a.elsewhere(k, j, patch) {
			a.reader(k)
		}
	}
	a.s.graph.eachSuccessor(i, reader)
	if !a.s.near.created[j.ID] { // before that nobody can have named it
		a.s.graph.eachConsumer(patch, reader)
	}
}

// elsewhere reports that a change of job j cannot matter to job k, since k waits for
// another job or for a token that j does not make. A new job is never elsewhere: as
// a producer it may be the one that counts from now on.
func (a *dirtySet) elsewhere(k int32, j *Job, patch Artifact) bool {
	st := &a.s.jobs[k].State
	if st.Status != WaitingOnDeps || a.created[a.s.jobs[k].ID] {
		return false
	}
	switch w := st.Wait; {
	case w.Cause == JobNotEnded:
		return w.Job != j.ID
	case w.Cause == TokenProducing && !a.created[j.ID]:
		return w.Artifact != patch && !slices.Contains(j.Spec.Produces, w.Artifact)
	default:
		return false
	}
}

// queues adds the jobs that wait for a slot which may be free.
func (a *dirtySet) queues() {
	free, left := a.slots(), 0
	for _, i := range a.s.in[Running] {
		if on := a.s.jobs[i].Spec.Task.On(); free[on] > 0 {
			free[on]--
		}
	}
	for _, n := range free {
		left += n
	}
	a.requireLine(free)
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
}

// lockLine are the jobs that wait for a lock or pool, as a tick comes to them.
type lockLine struct {
	s       *Snapshot
	key     string
	rest    []int32 // that s holds and that have not had their turn; the first of them waits
	changed int     // at most so many wait no more that the store still has in the line
	kept    int     // of a pool: the units that jobs hold or wait for as they did when they were judged last
	at      int     // how many have had their turn
	closed  bool    // all others stand to it as they did when they were judged last
	shared  bool    // it was closed by one that could share the lock
	whole   bool    // it is not to be closed like that
}

// hold begins the lines. One is closed where a running job has held the lock by itself
// since before the last tick.
func (a *dirtySet) hold() {
	a.holds = map[string]lockLine{}
	note := func(j *Job) {
		for _, k := range j.Spec.Locks {
			l := a.holds[k.Key]
			if a.changed[j.ID] {
				l.changed++
			} else {
				l.closed, l.kept = l.closed || k == (Lock{Key: k.Key}), l.kept+k.Units
			}
			a.holds[k.Key] = l
		}
	}
	for _, i := range a.s.in[Running] {
		if j := a.s.jobs[i]; !a.changed[j.ID] {
			note(j)
		}
	}
	for id := range a.changed {
		note(a.s.Job(id))
	}
}

// line is the line of a lock.
func (a *dirtySet) line(key string) *lockLine {
	l := a.holds[key]
	l.s, l.key, l.rest = a.s, key, a.s.graph.lockers[key]
	l.skip()
	return &l
}

// skip passes over jobs that do not wait.
func (l *lockLine) skip() {
	for len(l.rest) > 0 && l.s.jobs[l.rest[0]].State.Status != WaitingOnLocks {
		l.rest = l.rest[1:]
	}
}

// requireContenders requires the first n jobs in the line of a lock, and a few more: a
// decision is made again for each load.
func (s *Snapshot) requireContenders(key string, n int) {
	most := 4
	for most < n {
		most *= 2
	}
	s.near.require(Near{Kind: Contenders, Key: key, Most: most})
}

// next is the first that has not had its turn; -1: nobody else waits.
func (l *lockLine) next() int32 {
	if l.closed {
		return -1
	}
	l.s.requireContenders(l.key, l.at+1+l.changed)
	if len(l.rest) == 0 {
		return -1
	}
	return l.rest[0]
}

// pass notes that job i has had its turn in the line, judged like v, and returns who
// is next.
//
// A job that waits for locks as it did keeps what it kept from the others: a lock that it
// wants alone, and its units of a pool. Where these and those of the jobs before it are the
// whole pool, or it waits for more than is left, none of the others passes. One that could
// share the lock, now as before, keeps out who wants that alone, and so leaves the others
// as they were; but who is judged all the same has to know who those are.
func (l *lockLine) pass(set *dirtySet, i int32, v *judgement, request Lock) int32 {
	j, size := l.s.jobs[i], l.s.limits.capacity(l.key)
	switch {
	case l.closed || set.changed[j.ID] || j.State.Status != WaitingOnLocks || v.status != WaitingOnLocks:
	case request.Pool():
		if units(j.Spec.Locks, l.key) <= size { // else it keeps nothing: see LockTable.Reserve
			l.kept += request.Units
			l.closed = l.kept >= size || v.reason == j.State.Wait && strings.HasPrefix(v.reason.Detail, waitingOnPool+l.key+" (")
		}
	case request.Mode == Exclusive:
		l.closed = true
	case v.reason == j.State.Wait && j.inLine() && !l.whole:
		l.closed, l.shared = true, true
	}
	for len(l.rest) > 0 && l.rest[0] <= i {
		l.rest, l.at = l.rest[1:], l.at+1
		l.skip()
	}
	return l.next()
}

// requireLine requires as many waiting jobs as slots may be free, and one more: see
// firstInLine.
func (a *dirtySet) requireLine(free map[string]int) {
	if a.s.near == nil {
		return
	}
	for on, n := range free {
		for _, i := range a.list { // as the store has them, they may be in the line
			if j := a.s.jobs[i]; !a.created[j.ID] && j.Spec.Task.On() == on {
				n++
			}
		}
		a.s.near.require(Near{Kind: Line, Key: on, Most: n + 1})
	}
}

// slots is how many jobs may run on each limited executor that a job of the set
// names. On the others nothing changes.
func (a *dirtySet) slots() map[string]int {
	may := map[string]int{}
	for _, i := range a.list {
		on := a.s.jobs[i].Spec.Task.On()
		if m, _ := a.s.limits.limitOf(on); m > 0 {
			may[on] = m
		}
	}
	return may
}

// inLine reports that j waits for nothing but a place on its executor.
func (j *Job) inLine() bool {
	return j.State.Wait.Cause == ExecutorFull || j.State.Wait.Cause == HostAbsent
}

// firstInLine is, for each executor, the first job outside of the set that waits
// for a slot on it. If at its turn all slots are taken, as before, it and those
// behind it keep their baseline.
func (a *dirtySet) firstInLine() []int32 {
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
