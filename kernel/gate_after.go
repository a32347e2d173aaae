package kernel

import "slices"

// wide is the number of predecessors above which a job that waits names the last of them
// that has not ended before the first that failed, and not the first. Mostly jobs end in
// their order, and naming the first would have the record, which is as long as the list,
// written at the end of each (docs/adr/0063).
const wide = 32

func (j *Job) wide() bool { return len(j.Spec.After) > wide }

// decides returns the verdict of the gate that decides on job i.
func (g *gate) decides(t *tick, i int32) verdict {
	if g.decide != nil {
		return g.decide(t, i)
	}
	v, _ := g.check(t, i, 0)
	return v
}

// decideAfter decides on job i by its predecessors. It begins with the one that the job
// was said to wait for when it was last judged: mostly that one or one near it still keeps
// the job waiting, and the others need not be loaded.
func (t *tick) decideAfter(i int32) verdict {
	j := t.s.jobs[i]
	named := t.namedAfter(j)
	if j.wide() {
		return t.decideWide(j, i, named)
	}
	if named > 0 && len(j.Spec.AfterAny) == 0 {
		if v, _ := t.checkAfter(i, named); v.kind != passed {
			return v
		}
	}
	v, _ := t.checkAfter(i, 0)
	return v
}

// namedAfter returns the position of the predecessor that j was said to wait for when it
// was last judged; -1 if there is none. Only an incremental tick knows that.
func (t *tick) namedAfter(j *Job) int {
	if t.baseline == nil || t.baseline.changed[j.ID] || j.State.Status != WaitingOnDeps || j.State.Wait.Cause != JobNotEnded {
		return -1
	}
	return slices.Index(j.Spec.After, j.State.Wait.Job)
}

// decideWide is decideAfter for a wide job. Whether it waits or is blocked follows from
// the first predecessor that has not succeeded, as for any job.
func (t *tick) decideWide(j *Job, i int32, named int) verdict {
	if named >= 0 && !t.anotherFate(j) {
		if v, ok := t.lastOpen(j.Spec.After[:named+1]); ok {
			return v
		}
	}
	last, n := t.checkAfter(i, 0)
	for v := last; v.cause == JobNotEnded; v, n = t.checkAfter(i, n) {
		last = v
	}
	return last
}

// lastOpen returns the verdict that names the last of some predecessors that has not
// ended; ok is false if all have. It is also true while one must be loaded.
func (t *tick) lastOpen(after []JobID) (v verdict, ok bool) {
	for n := len(after) - 1; n >= 0; n-- {
		k, here := t.s.find(after[n])
		if here && t.status(k).Terminal() {
			continue
		}
		if !here {
			more := max(wide, len(after)-n)
			t.s.requireSome(after[max(0, n-more):n], more)
		}
		return waits(waitingOnJob + string(after[n])).of(after[n]).because(JobNotEnded), here || t.s.lacksJob(after[n])
	}
	return verdict{}, false
}

// anotherFate reports whether something happened to a predecessor of wide job j that may
// change the verdict, besides the end of the one that it names.
func (t *tick) anotherFate(j *Job) bool {
	return slices.ContainsFunc(j.Spec.After, func(id JobID) bool {
		k, here := t.s.graph.index[id]
		if !here || id == j.State.Wait.Job && t.status(k) == Succeeded {
			return false
		}
		_, judged := t.some[k]
		return judged && !j.namesStill(id, t.status(k))
	})
}

// namesStill reports whether j, which waits for another predecessor, still does after
// predecessor id came to a status. A job that is not wide names the first that has not
// succeeded, so it does.
func (j *Job) namesStill(id JobID, now Status) bool {
	if !j.wide() || now == Succeeded || now.Terminal() && slices.Contains(j.Spec.AfterAny, id) {
		return true
	}
	behind := slices.Index(j.Spec.After, id) > slices.Index(j.Spec.After, j.State.Wait.Job)
	return behind == now.Terminal()
}
