package kernel

import "slices"

// wide is the number of predecessors above which the reason of a waiting job names the last
// one that has not ended, and not the first. (Only those before the first failed one count.)
// The same holds for the tokens that a job needs. Jobs mostly end in order: if the reason
// named the first, the end of each predecessor would have the job judged again and its
// record, which is as long as the list, written again (docs/adr/0063).
const wide = 32

func (j *Job) wide() bool { return len(j.Spec.After) > wide }

// wideInTokens reports whether j needs more than wide artifacts, all of them tokens: only
// jobs can change whether these exist.
func (j *Job) wideInTokens() bool {
	return len(j.Spec.Needs) > wide && !slices.ContainsFunc(j.Spec.Needs, func(a Artifact) bool { return a.Kind != Custom })
}

// decides returns the verdict of the gate that decides on job i.
func (g *gate) decides(t *tick, i int32) verdict {
	if g.decide != nil {
		return g.decide(t, i)
	}
	v, _ := g.check(t, i, 0)
	return v
}

// decideAfter decides on job i by its predecessors. It begins with the predecessor that the
// last judgement named: mostly that one or one near it still keeps the job waiting, and the
// others need not be loaded.
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

// namedAfter returns the position of the predecessor that j's last judgement named; -1 if
// there is none. Only an incremental tick knows it.
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
	v := t.lastOf(i, (*tick).checkEnded, JobNotEnded)
	if v.kind == passed {
		v, _ = t.checkAfter(i, len(j.Spec.After))
	}
	return v
}

// lastOf returns the first verdict of check. If that has the given cause, it returns the last
// of the consecutive verdicts with this cause.
func (t *tick) lastOf(i int32, check func(t *tick, i int32, from int) (verdict, int), cause WaitCause) verdict {
	last, n := check(t, i, 0)
	for v := last; v.cause == cause; v, n = check(t, i, n) {
		last = v
	}
	return last
}

// lastOpen returns the verdict that names the last of the predecessors after that has not
// ended; ok is false if all have ended. While that predecessor must still be loaded, ok is
// true as well.
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
// change the verdict, apart from the success of the one that j names.
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

// namesStill reports whether j, which waits for another predecessor, still names that one
// after predecessor id has changed to status now. A job that is not wide does, since it names
// the first predecessor that has not succeeded.
func (j *Job) namesStill(id JobID, now Status) bool {
	if !j.wide() || now == Succeeded || now.Terminal() && slices.Contains(j.Spec.AfterAny, id) {
		return true
	}
	behind := slices.Index(j.Spec.After, id) > slices.Index(j.Spec.After, j.State.Wait.Job)
	return behind == now.Terminal()
}

// decideNeeds decides on job i by the artifacts that it needs.
func (t *tick) decideNeeds(i int32) verdict {
	j := t.s.jobs[i]
	if !j.wideInTokens() {
		v, _ := t.checkNeeds(i, 0)
		return v
	}
	for n := t.namedNeed(i); n >= 0; n-- {
		if v := t.checkNeed(i, j.Spec.Needs[n]); v.cause == TokenProducing {
			return v
		} else if v.kind != passed {
			break
		}
	}
	return t.lastOf(i, (*tick).checkNeeds, TokenProducing)
}

// namedNeed returns the position of the token that the last judgement of wide job i named;
// -1 if there is none, or if something else that may change the verdict has happened since.
func (t *tick) namedNeed(i int32) int {
	j := t.s.jobs[i]
	if t.baseline == nil || t.baseline.changed[j.ID] || j.State.Status != WaitingOnDeps || j.State.Wait.Cause != TokenProducing {
		return -1
	}
	for k := range t.some {
		if !t.s.namesTokenStill(j, t.s.jobs[k], t.status(k)) {
			return -1
		}
	}
	return slices.Index(j.Spec.Needs, j.State.Wait.Artifact)
}

// namesTokenStill reports whether wide job j, which waits for a token, still names that token
// after job p has changed to status now. If p makes this very token, the caller has to check
// it. A token that p was to make may be missing although p succeeded.
func (s *Snapshot) namesTokenStill(j, p *Job, now Status) bool {
	named := slices.Index(j.Spec.Needs, j.State.Wait.Artifact)
	for _, a := range p.Spec.Produces {
		x := slices.Index(j.Spec.Needs, a)
		switch {
		case x < 0:
		case now == Succeeded:
			if p.State.Retired || !s.published(p.ID, a) {
				return false
			}
		case now.Active() && x < named, now.Terminal() && x > named:
		default:
			return false
		}
	}
	return true
}

// published reports whether the plans applied to s published token a of job id and did not
// remove it again.
func (s *Snapshot) published(id JobID, a Artifact) bool {
	for _, action := range slices.Backward(s.touched) {
		if action.Subject() != id {
			continue
		}
		p, made := action.(Publish)
		if !made || slices.Contains(p.Artifacts, a) {
			return made
		}
	}
	return false
}
