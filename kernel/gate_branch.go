package kernel

import (
	"cmp"
	"slices"
	"time"
)

// takesBranch reports whether the job begins work of its run on a branch: it makes a worktree
// of the branch, or merges it.
func (s *Spec) takesBranch() bool {
	op := s.Origin.About.Operation
	return s.Origin.Run != "" && s.Origin.Branch != "" && (op == prepare || op == integrate)
}

// onBranch reports whether j belongs to a run for a branch.
func (j *Job) onBranch() bool { return j.Spec.Origin.Run != "" && j.Spec.Origin.Branch != "" }

// MakesBranch reports whether the job makes a branch, as far as its specification shows: it declares
// it as a product, or makes a worktree of it.
func (s *Spec) MakesBranch(name string) bool {
	return s.Origin.About.Operation == prepare && s.Origin.Branch == name || slices.ContainsFunc(s.Produces, func(a Artifact) bool { return a.Branch() == name })
}

// checkRivals lets one run at a time work on a branch: the one that took it last, from then
// until nothing of it goes on or its merge has closed the plan's cycle. Else two agents would
// work on it, or one on what the other's merge removes. A merge that is blocked goes on until a
// person has retried it or removed its run: it would take along what another run adds, which
// nobody approved. Another merge may do its work instead, unless it was queued behind a stage
// that waits. The gate comes after the approval: a job that waits for a person is not next.
//
// A run that merges nothing and needs what another makes may come between two stages of that one.
// A run for which another waits, or which an attempt of another submitted, does not wait for that one.
func (t *tick) checkRivals(i int32, from int) (verdict, int) {
	j := t.s.jobs[i]
	if from > 0 || !j.Spec.takesBranch() {
		return verdict{}, 1
	}
	active, takers := t.onBranch(j.Spec.Origin.Branch)
	mine := takers[j.Spec.Origin.Run]
	if mine == nil { // nothing of it goes on
		return verdict{}, 1
	}
	for _, k := range active {
		other := t.s.jobs[k]
		its := takers[other.Spec.Origin.Run]
		next := k < i && other.Spec.takesBranch() && t.status(k) == WaitingOnLocks
		took := !its.at.IsZero() && cmp.Or(its.at.Compare(mine.at), cmp.Compare(its.run, mine.run)) > 0 && (its.inside || !its.serves(mine)) && !t.waitsFor(its, mine, active)
		if its == mine || !next && !took {
			continue
		}
		v := waits("another run works on branch " + j.Spec.Origin.Branch).of(other.ID)
		if other.mergeBlocked() {
			if j.Spec.Origin.About.Operation == integrate && !t.behind(i, active, mine.at.IsZero()) {
				continue
			}
			v.now = ": " + other.State.Reason
		}
		return v, 1
	}
	return verdict{}, 1
}

// behind reports whether another job is to take the branch before job i: one of its run or, with
// others, of any run.
func (t *tick) behind(i int32, active []int32, others bool) bool {
	run := t.s.jobs[i].Spec.Origin.Run
	return slices.ContainsFunc(active, func(k int32) bool {
		j := t.s.jobs[k]
		return k < i && j.Spec.takesBranch() && t.status(k).Active() && (others || j.Spec.Origin.Run == run)
	})
}

// mergeBlocked reports whether j is a merge that a person is to go on with: it is in conflict,
// or something is in its way.
func (j *Job) mergeBlocked() bool {
	return j.State.Status == BlockedByDependency && j.Spec.Origin.About.Operation == integrate && j.Needs() != ""
}

// taker is a run that goes on, as it stands to its branch.
type taker struct {
	run    RunID
	at     time.Time // when it took the branch last; zero: it has not, or has merged it
	inside bool      // it has a worktree of the branch, or has begun to merge it
	merges bool      // it has a job that merges the branch
	merged bool
	jobs   []*Job
}

// serves reports whether a job of r makes what one of by needs, which merges nothing and does
// not make it itself.
func (r *taker) serves(by *taker) bool {
	if by.merges {
		return false
	}
	makes := func(r *taker, a Artifact) bool {
		return slices.ContainsFunc(r.jobs, func(j *Job) bool { return slices.Contains(j.Spec.Produces, a) })
	}
	return slices.ContainsFunc(by.jobs, func(j *Job) bool {
		return slices.ContainsFunc(j.Spec.Needs, func(a Artifact) bool { return makes(r, a) && !makes(by, a) })
	})
}

// onBranch returns the active jobs of the runs for a branch and, of a run without one, a blocked
// merge; and these runs. It returns none if there is only one such run.
func (t *tick) onBranch(branch string) (active []int32, takers map[RunID]*taker) {
	t.s.near.require(Near{Kind: OnBranch, Key: branch})
	takers = map[RunID]*taker{}
	all := t.s.graph.onBranch[branch]
	for _, i := range all {
		if run := t.s.jobs[i].Spec.Origin.Run; t.status(i).Active() {
			active, takers[run] = append(active, i), &taker{run: run}
		}
	}
	for _, i := range all {
		if run := t.s.jobs[i].Spec.Origin.Run; takers[run] == nil && t.s.jobs[i].mergeBlocked() {
			active, takers[run] = append(active, i), &taker{run: run}
		}
	}
	if len(takers) < 2 {
		return nil, takers
	}
	for run := range takers {
		t.s.near.require(Near{Kind: Members, Run: run})
	}
	for _, i := range all {
		j := t.s.jobs[i]
		r := takers[j.Spec.Origin.Run]
		if r == nil {
			continue
		}
		r.jobs = append(r.jobs, j)
		if !j.Spec.takesBranch() {
			continue
		}
		at := j.State.Started
		if t.status(i) == Running && j.State.Status != Running {
			at = t.s.now
		}
		if at.After(r.at) {
			r.at = at
		}
		r.merges = r.merges || j.Spec.Origin.About.Operation == integrate
		r.inside = r.inside || !at.IsZero() && (t.status(i) == Running || j.State.Context.Worktree != "" || j.Spec.Origin.About.Operation == integrate)
		r.merged = r.merged || j.closed()
	}
	for _, r := range takers {
		if r.merged {
			r.at = time.Time{}
		}
	}
	return active, takers
}

// waitsFor reports whether an active job of r waits, itself or by others, for one of by, or
// submitted one.
func (t *tick) waitsFor(r, by *taker, active []int32) bool {
	var waiting []int32
	for _, i := range active {
		if t.s.jobs[i].Spec.Origin.Run != r.run {
			continue
		}
		switch st := t.status(i); {
		case st.Terminal():
		case slices.ContainsFunc(by.jobs, func(j *Job) bool { return j.Spec.Origin.Parent == t.s.jobs[i].ID }):
			return true
		case st != Running:
			waiting = append(waiting, i)
		}
	}
	return slices.ContainsFunc(t.s.graph.closure(waiting, t.eachAwaited), func(i int32) bool { return t.s.jobs[i].Spec.Origin.Run == by.run })
}

// eachAwaited calls f with the jobs that waiting job i waits for.
func (t *tick) eachAwaited(i int32, f func(int32)) {
	j := t.s.jobs[i]
	if t.status(i) == Running {
		return
	}
	for _, id := range j.Spec.After {
		if k, here := t.s.find(id); here && !t.status(k).Terminal() {
			f(k)
		}
	}
	for _, a := range j.Spec.Needs {
		if n, _, _ := t.need(i, a); n == producing {
			t.s.graph.eachProducer(i, a, func(k int32) {
				if t.status(k).Active() {
					f(k)
				}
			})
		}
	}
}

// eachRival calls f with the jobs that take the branch which job i works on.
func (s *Snapshot) eachRival(i int32, f func(int32)) {
	if !s.jobs[i].onBranch() {
		return
	}
	branch := s.jobs[i].Spec.Origin.Branch
	s.near.require(Near{Kind: OnBranch, Key: branch})
	for _, k := range s.graph.onBranch[branch] {
		if k != i && s.jobs[k].Spec.takesBranch() {
			f(k)
		}
	}
}
