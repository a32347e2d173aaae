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
// That is right because a gate reads only the job's own record, the clock (for a retry or
// an approval that expires), the statuses of the jobs that its edges lead to, facts, and
// the locks that running jobs hold and older jobs wait for. If none of these changed, the
// judgement has not changed. So the dirty set contains
//
//   - jobs that changed or are due, and the jobs that wait for them, for what they may rewind or for their branch (spread);
//   - jobs that read facts that no job makes (Job.outside). If a store knows by which facts
//     they were judged, the readers of changed facts are among the jobs that changed instead
//     (Readers);
//   - jobs that wait for a slot of such a job's executor, if one may be free (queues);
//
// The dependents of jobs that end in this tick are judged too, as in a full tick. The jobs
// that wait for a lock which a judged job names are judged in order, until one of them
// keeps all others out as it did before (lockLine): from the first job if a changed job
// names the lock, else from the judged job on.
//
// A full tick follows if more may change: the fate of a job depends on the whole graph
// (Job.entangled); something changed in a run that stops at a failure; a job comes to
// the locks out of turn; fewer slots are taken than expected; a runner is gone, and its
// job's end may lead anywhere. A law in proptest checks that both ticks agree.
type dirtySet struct {
	s        *Snapshot
	seen     map[int32]bool
	list     []int32
	changed  map[JobID]bool // since they were judged
	created  map[JobID]bool
	branches map[string]bool    // those whose waiting jobs are in the set
	gone     bool               // a changed job no longer has a readable record
	holds    map[queue]lockLine // the lines of locks and pools, as the running and the changed jobs leave them
	freed    map[queue]bool     // the locks and pools of changed jobs
}

// judgeIncrementally judges the dirty set. It returns false if a full tick must judge
// everything.
func (t *tick) judgeIncrementally() bool {
	if len(t.s.deferred) > 0 || slices.ContainsFunc(t.s.graph.entangling, func(i int32) bool { return t.s.jobs[i].entangled() }) {
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
	return t.judgeSet(&set)
}

// judgeSet judges the jobs of the set, and those in the lines of their locks.
func (t *tick) judgeSet(set *dirtySet) bool {
	t.some, t.baseline, t.contested, t.moved = map[int32]*judgement{}, set, map[string]bool{}, map[string]bool{}
	for _, i := range set.list {
		if v := t.of(i); t.s.jobs[i].unrouted() && t.idle(i) {
			v.status = Unscheduled
		}
	}
	for _, i := range t.s.running {
		t.locks.Take(t.s.jobs[i].Spec.Task.On(), t.s.jobs[i].Spec.Locks)
	}
	turns := turns(slices.Clone(set.list)) // sorted, which is a heap
	lines := map[queue]*lockLine{}
	for q := range set.freed {
		lines[q] = set.line(q)
		turns.add(lines[q].next())
	}
	first := set.firstInLine()
	for last := int32(-1); ; {
		i := turns.take()
		for ; len(first) > 0 && (i < 0 || first[0] < i); first = first[1:] {
			j := t.s.jobs[first[0]]
			if why, _ := t.locks.full(j.Spec.Task.On()); why != j.State.Wait.Detail {
				return false
			}
		}
		if i < 0 {
			break
		}
		locks := t.s.jobs[i].Spec.Locks
		if t.status(i).Terminal() { // where it only shared, line has seen to its end
			locks = slices.DeleteFunc(slices.Clone(locks), func(l Lock) bool { return !l.Pool() && l.Mode == Shared })
		}
		if i == last || !set.seen[i] && !slices.ContainsFunc(locks, func(l Lock) bool { return lines[l.queue()] != nil && !lines[l.queue()].closed }) {
			continue
		}
		for _, l := range locks {
			if lines[l.queue()] == nil {
				lines[l.queue()] = set.line(l.queue())
			}
			lines[l.queue()].passOver(&t.locks, i)
		}
		if i == t.watch {
			t.watched = t.locks.clone()
		}
		was := t.status(i)
		t.judge(i)
		if !set.seen[i] && t.status(i) != was && t.s.jobs[i].Spec.takesBranch() { // a line led to it, so its rivals are not in the set
			t.s.eachRival(i, Rivals, func(k int32) {
				t.late = t.late || !set.seen[k] && t.s.jobs[k].State.Status.Waiting() && t.s.jobs[k].reachesBranch()
			})
		}
		last = i
		for _, l := range locks {
			turns.add(lines[l.queue()].pass(set, i, t.of(i), l))
		}
	}
	t.late = t.judgeHeld() || t.late
	t.carry(0)
	return !t.late
}

// turns is a heap of the positions of jobs to judge. A position may occur twice.
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

// take removes and returns the smallest position; -1 if none is left.
func (q *turns) take() int32 {
	if len(*q) == 0 {
		return -1
	}
	return heap.Pop(q).(int32)
}

// widen fills the set, in schedule order, including the job to explain.
func (a *dirtySet) widen(watch int32) {
	if watch >= 0 {
		a.add(watch)
	}
	for _, id := range a.s.dirty {
		if i, ok := a.s.find(id); ok {
			a.spread(i)
		} else { // its record is gone or unreadable
			a.gone = true
		}
	}
	for _, i := range a.s.timed {
		if d, ok := a.s.jobs[i].Due(); ok && d.Over(a.s.now) {
			a.spread(i)
		}
	}
	if a.s.near.known[Near{Kind: Outsiders}] || a.s.near.all && !a.s.unchanged {
		for _, i := range a.s.outsiders {
			a.reader(i)
		}
	}
	a.queues()
	slices.Sort(a.list)
}

func (a *dirtySet) add(i int32) {
	if !a.seen[i] {
		a.seen[i] = true
		a.list = append(a.list, i)
		if a.s.jobs[i].Spec.takesBranch() {
			a.rivals(i)
		}
	}
}

// rivals adds the jobs that job i's branch may hold up. They are the same for each job of the branch.
func (a *dirtySet) rivals(i int32) {
	branch := a.s.jobs[i].Spec.Origin.Branch
	if a.branches[branch] || !a.s.jobs[i].onBranch() {
		return
	}
	if a.branches == nil {
		a.branches = map[string]bool{}
	}
	a.branches[branch] = true
	a.s.eachRival(i, Rivals, func(k int32) {
		if a.s.jobs[k].reachesBranch() {
			a.reader(k)
		}
	})
}

// reader adds a job that reads what changed, if a gate holds it up.
func (a *dirtySet) reader(i int32) {
	if a.s.jobs[i].State.Status.Waiting() {
		a.add(i)
	}
}

// spread adds job i and the jobs that read its status. A job that succeeds makes its patch
// exist, whether it declares one or not.
func (a *dirtySet) spread(i int32) {
	a.add(i)
	j := a.s.jobs[i]
	a.s.requireStoppers(j.Spec.Origin.Run)
	a.s.requireHandled(i)
	patch := Artifact{Kind: CommandPatch, Name: string(j.ID)}
	older := false // a job that was judged before runs after it
	reader := func(k int32) {
		older = older || !a.created[a.s.jobs[k].ID]
		if !a.elsewhere(k, j, patch) {
			a.reader(k)
		}
	}
	a.s.graph.eachSuccessor(i, reader)
	if older && a.created[j.ID] && j.State.Status == Queued {
		a.before(i)
	}
	if j.Spec.Routed && (!a.created[j.ID] || j.State.Status.Terminal()) {
		a.s.eachUnfinal(i, a.reader)
	}
	a.rivals(i)
	if !a.s.near.created[j.ID] { // no earlier job can have named its patch
		a.s.graph.eachConsumer(patch, reader)
	}
}

// before adds the jobs that new job i runs after: one that a route woke may run after them now, and then they do not
// wait for its end (tick.sender).
func (a *dirtySet) before(i int32) {
	a.s.near.require(Near{Kind: Woken})
	if slices.ContainsFunc(a.s.senders(), func(k int32) bool { return a.s.jobs[k].woken() }) {
		a.s.requireAll()
		for _, k := range a.s.graph.closure([]int32{i}, a.s.graph.eachPredecessor) {
			a.reader(k)
		}
	}
}

// elsewhere reports whether a change of job j cannot matter to job k, because k waits for
// another job, or for a token that j does not make. A new job is never elsewhere: it may
// be the producer that counts from now on.
func (a *dirtySet) elsewhere(k int32, j *Job, patch Artifact) bool {
	st := &a.s.jobs[k].State
	if st.Status != WaitingOnDeps || a.created[a.s.jobs[k].ID] {
		return false
	}
	switch w := st.Wait; {
	case w.Cause == JobNotEnded:
		return w.Job != j.ID && a.s.jobs[k].namesStill(j.ID, j.State.Status)
	case w.Cause == TokenProducing && !a.created[j.ID]:
		return w.Artifact != patch && !slices.Contains(j.Spec.Produces, w.Artifact) && (!a.s.jobs[k].wideInTokens() || a.s.namesTokenStill(a.s.jobs[k], j, j.State.Status))
	default:
		return false
	}
}

// queues adds the jobs that wait for a slot that may be free.
func (a *dirtySet) queues() {
	free, left := a.slots(), 0
	for _, i := range a.s.running {
		if on := a.s.jobs[i].Spec.Task.On(); free[on] > 0 {
			free[on]--
		}
	}
	for _, n := range free {
		left += n
	}
	a.requireLine(free)
	for _, w := range a.s.inLine {
		if left == 0 {
			break
		}
		if j := a.s.jobs[w]; !a.seen[w] && free[j.Spec.Task.On()] > 0 {
			a.add(w)
			free[j.Spec.Task.On()]--
			left--
		}
	}
}

// lockLine is the queue of the jobs that wait for a lock or pool, in a tick.
type lockLine struct {
	s       *Snapshot
	queue   queue
	rest    []int32 // jobs in s that have not had their turn; the first of them waits
	changed int     // how many of the jobs that the store has in the line may have left it
	kept    int     // of a pool: the units that unchanged jobs hold, or still wait for
	at      int     // how many have had their turn
	alone   bool    // a changed job asks for it exclusively
	closed  bool    // for the jobs that have not had their turn, nothing has changed
	taken   bool    // the jobs that have not had their turn are all kept out
}

// hold begins the lines of locks. A line is closed if a running job has held the lock
// exclusively since before the last tick.
func (a *dirtySet) hold() {
	a.holds, a.freed = map[queue]lockLine{}, map[queue]bool{}
	for _, i := range a.s.running {
		if j := a.s.jobs[i]; !a.changed[j.ID] {
			for _, k := range j.Spec.Locks {
				l := a.holds[k.queue()]
				l.closed, l.kept = l.closed || !k.Pool() && k.Mode == Exclusive, l.kept+k.Units
				l.taken = l.closed
				a.holds[k.queue()] = l
			}
		}
	}
	for id := range a.changed {
		for _, k := range a.s.Job(id).Spec.Locks {
			l := a.holds[k.queue()]
			l.changed, l.alone = l.changed+1, l.alone || k.Mode == Exclusive
			a.holds[k.queue()], a.freed[k.queue()] = l, true
		}
	}
}

// line returns the line of a lock.
func (a *dirtySet) line(q queue) *lockLine {
	l := a.holds[q]
	l.s, l.queue = a.s, q
	if waiters := a.s.waiters; len(waiters) > 0 { // before these only others have named the lock
		l.rest = a.s.graph.lockers[q]
		from, _ := slices.BinarySearch(l.rest, waiters[0])
		l.rest = l.rest[from:]
	}
	l.skip()
	l.closed = l.closed || !q.pool && !l.alone && a.shares(l.first(), q)
	return &l
}

// shares reports whether job k waits to share the lock of q. Where changed jobs only shared it, nothing changes for the jobs
// behind k unless k leaves the line: a sharer keeps out no other, and k those that want the lock exclusively, as before.
func (a *dirtySet) shares(k int32, q queue) bool {
	if k < 0 {
		return false
	}
	locks := a.s.jobs[k].Spec.Locks
	_, never := a.s.limits.tooSmall(locks)
	return !never && !slices.ContainsFunc(locks, func(l Lock) bool { return l.queue() == q && l.Mode == Exclusive })
}

// skip removes jobs that do not wait from the front of rest.
func (l *lockLine) skip() {
	for len(l.rest) > 0 && l.s.jobs[l.rest[0]].State.Status != WaitingOnLocks {
		l.rest = l.rest[1:]
	}
}

// requireContenders requires the first n jobs in the line of a lock, and a few more,
// because each load repeats the decision.
func (s *Snapshot) requireContenders(q queue, n int) {
	most := 4
	for most < n {
		most *= 2
	}
	kind := Contenders
	if q.pool {
		kind = PoolContenders
	}
	s.near.require(Near{Kind: kind, Key: q.key, Most: most})
}

// next returns the first job that has not had its turn and may be affected; -1 if there
// is none.
func (l *lockLine) next() int32 {
	if l.closed {
		return -1
	}
	return l.first()
}

// first returns the first job that has not had its turn; -1 if no other job waits.
func (l *lockLine) first() int32 {
	l.s.requireContenders(l.queue, l.at+1+l.changed)
	if len(l.rest) == 0 {
		return -1
	}
	return l.rest[0]
}

// passOver reserves what the jobs before job i wait for in this line. These jobs need no
// turn, because nothing changed for them.
func (l *lockLine) passOver(locks *LockTable, i int32) {
	for !l.taken {
		k := l.first()
		if k < 0 || k >= i {
			return
		}
		j := l.s.jobs[k]
		if _, never := l.s.limits.tooSmall(j.Spec.Locks); !never {
			locks.Reserve(slices.DeleteFunc(slices.Clone(j.Spec.Locks), func(r Lock) bool { return r.queue() != l.queue }))
		}
		for _, r := range j.Spec.Locks {
			if r.queue() == l.queue {
				l.keepsOut(j, r, true)
			}
		}
		l.advance(k)
	}
}

// pass notes that job i has had its turn in the line with judgement v, and returns the
// next job.
func (l *lockLine) pass(set *dirtySet, i int32, v *judgement, request Lock) int32 {
	j := l.s.jobs[i]
	leaves := j.State.Status == WaitingOnLocks && v.status != Running && v.status != WaitingOnLocks
	if l.queue.pool || request.Mode == Exclusive || leaves { // one that begins or goes on to share changes nothing
		l.closed = l.taken
	}
	if !l.taken && !set.changed[j.ID] && j.State.Status == WaitingOnLocks && v.status == WaitingOnLocks {
		l.keepsOut(j, request, v.reason == j.State.Wait)
	}
	l.advance(i)
	return l.next()
}

// keepsOut closes the line behind job j, which still waits for locks, if nothing changed
// for the jobs behind it. same says that j waits for the same reason as before.
//
// Such a job reserves the same as before: a lock that it wants exclusively, or its units of
// a pool. No other job can pass once the kept units are the whole pool, or once j waits for
// more units than are left. A job that could share the lock, now as before, keeps out the
// jobs that want it exclusively, so nothing changes for the others either.
func (l *lockLine) keepsOut(j *Job, request Lock, same bool) {
	if _, never := l.s.limits.tooSmall(j.Spec.Locks); never {
		return // it reserves nothing: see LockTable.Reserve
	}
	switch {
	case request.Pool():
		l.kept += request.Units
		l.taken = l.kept >= l.s.limits.capacity(l.queue.key) || same && strings.HasPrefix(j.State.Wait.Detail, waitingOnPool+l.queue.key+" (")
	case request.Mode == Exclusive:
		l.taken = true
	case same && j.inLine():
		l.closed = true
	}
	l.closed = l.closed || l.taken
}

// advance removes job i and the jobs before it from rest.
func (l *lockLine) advance(i int32) {
	for len(l.rest) > 0 && l.rest[0] <= i {
		l.rest, l.at = l.rest[1:], l.at+1
		l.skip()
	}
}

// requireLine requires, for each executor in free, one more waiting job than slots may be
// free: see firstInLine.
func (a *dirtySet) requireLine(free map[string]int) {
	if a.s.near == nil {
		return
	}
	for on, n := range free {
		for _, i := range a.list { // the store may still have them in the line
			if j := a.s.jobs[i]; !a.s.near.created[j.ID] && j.Spec.Task.On() == on {
				n++
			}
		}
		a.s.near.require(Near{Kind: Line, Key: on, Most: n + 1})
	}
}

// slots returns how many jobs may run on each limited executor that a job of the set
// names. On other executors nothing changes.
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

// inLine reports whether j waits only for a slot of its executor.
func (j *Job) inLine() bool {
	return j.State.Wait.Cause == ExecutorFull || j.State.Wait.Cause == HostAbsent
}

// firstInLine returns, for each executor, the first job outside the set that waits for a
// slot of it. If all slots are taken at its turn, as before, it and the jobs behind it
// keep their baseline.
func (a *dirtySet) firstInLine() []int32 {
	var first []int32
	open := a.slots()
	for _, w := range a.s.inLine {
		if len(open) == 0 {
			break
		}
		if j := a.s.jobs[w]; !a.seen[w] && open[j.Spec.Task.On()] > 0 {
			first = append(first, w)
			delete(open, j.Spec.Task.On())
		}
	}
	return first
}
