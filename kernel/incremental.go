package kernel

import "slices"

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
//   - jobs that read facts which no job makes (Job.outside);
//   - jobs that wait for a lock which a job of the set names, or for a slot of its
//     executor that may be free (queues);
//
// and what ends in the tick is carried on through the graph, as in a full tick.
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
	created map[JobID]bool
	gone    bool // a changed job has no readable record any more
}

// judgeIncrementally judges the dirty set. It reports false where a full tick has to
// judge everything.
func (t *tick) judgeIncrementally() bool {
	if slices.ContainsFunc(t.s.jobs, (*Job).entangled) {
		return false
	}
	set := dirtySet{s: t.s, seen: map[int32]bool{}, created: map[JobID]bool{}}
	for _, id := range t.s.created {
		set.created[id] = true
	}
	if set.widen(t.watch); set.gone {
		return false
	}
	for _, i := range set.list {
		if v := t.of(i); t.s.jobs[i].unrouted() && t.idle(i) {
			v.status = Unscheduled
		}
	}
	for _, i := range t.s.in[Running] {
		t.locks.Take(t.s.jobs[i].Spec.Task.On(), t.s.jobs[i].Spec.Locks)
	}
	first := set.firstInLine()
	for _, i := range append(set.list, int32(len(t.s.jobs))) {
		for ; len(first) > 0 && first[0] < i; first = first[1:] {
			j := t.s.jobs[first[0]]
			if why, _ := t.locks.full(j.Spec.Task.On()); why != j.State.Wait.Detail {
				return false
			}
		}
		if int(i) < len(t.s.jobs) {
			if i == t.watch {
				t.watched = t.locks.clone()
			}
			t.judge(i)
		}
	}
	t.carry(0)
	return !t.late
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
	for i, j := range a.s.jobs {
		if j.outside() {
			a.reader(int32(i))
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
	a.s.unfailing(j.Spec.Origin.Run)
	a.s.unhandling(i)
	patch := Artifact{Kind: CommandPatch, Name: string(j.ID)}
	reader := func(k int32) {
		if !a.elsewhere(k, j, patch) {
			a.reader(k)
		}
	}
	a.s.graph.eachSuccessor(i, reader)
	if !a.created[j.ID] { // before that nobody can have named it
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

// queues adds the jobs that wait for a slot which may be free, and then all that
// wait for a lock which a job of the set names. So the set holds every request for
// those locks but the running jobs'.
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
	a.line(free)
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
			a.s.near.require(Near{Kind: Contenders, Key: l.Key})
			for _, w := range a.s.graph.lockers[l.Key] {
				if a.s.jobs[w].State.Status == WaitingOnLocks {
					a.add(w)
				}
			}
		}
	}
}

// line requires as many waiting jobs as slots may be free, and one more: see
// firstInLine.
func (a *dirtySet) line(free map[string]int) {
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
		if m, _ := a.s.limits.running(on); m > 0 {
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
