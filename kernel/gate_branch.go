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

// MakesBranch reports whether the job makes branch name, as far as its spec shows: it declares the
// branch as a product, or makes a worktree of it.
func (s *Spec) MakesBranch(name string) bool {
	return s.Origin.About.Operation == prepare && s.Origin.Branch == name || slices.ContainsFunc(s.Produces, func(a Artifact) bool { return a.Branch() == name })
}

// checkRivals lets one run at a time work on a branch (docs/adr/0064). The run that took the
// branch last keeps it until none of its jobs is active, or its merge has closed the plan's
// cycle. Otherwise two agents would work on the branch, or one run on what another's merge
// removes. A blocked merge keeps the branch until a person has retried it or removed its run:
// it would also merge what another run adds, which nobody approved. Another merge may do its
// work instead, unless that merge was queued behind a stage that waits. The gate comes after
// the approval: a job that waits for a person is not next in line.
//
// A run that merges nothing and needs what another run makes may go between two stages of that
// run. A run does not wait for a run that waits for it, or whose attempt submitted it.
func (t *tick) checkRivals(i int32, from int) (verdict, int) {
	j := t.s.jobs[i]
	if from > 0 || !j.Spec.takesBranch() {
		return verdict{}, 1
	}
	active, takers := t.onBranch(j.Spec.Origin.Branch)
	mine := takers[j.Spec.Origin.Run]
	if mine == nil { // j's run has no active job
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

// behind reports whether an older active job is to take the branch before job i: one of i's run
// or, with others, of any run.
func (t *tick) behind(i int32, active []int32, others bool) bool {
	run := t.s.jobs[i].Spec.Origin.Run
	return slices.ContainsFunc(active, func(k int32) bool {
		j := t.s.jobs[k]
		return k < i && j.Spec.takesBranch() && t.status(k).Active() && (others || j.Spec.Origin.Run == run)
	})
}

// mergeBlocked reports whether j is a blocked merge that needs a person: it is in conflict, or
// something else is in its way.
func (j *Job) mergeBlocked() bool {
	return j.State.Status == BlockedByDependency && j.Spec.Origin.About.Operation == integrate && j.Needs() != ""
}

// taker is a run with an active job or a blocked merge, and its relation to its branch.
type taker struct {
	run    RunID
	at     time.Time // when it took the branch last; zero: it has not, or has merged it
	inside bool      // it has a worktree of the branch, or has begun to merge it
	merges bool      // it has a job that merges the branch
	merged bool
	jobs   []*Job
}

// worked returns when the run of job p last began to work on its branch; zero: never.
func (t *tick) worked(p int32) (last time.Time) {
	o := &t.s.jobs[p].Spec.Origin
	t.s.near.require(Near{Kind: Members, Run: o.Run})
	for _, k := range t.s.graph.onBranch[o.Branch] {
		if j := t.s.jobs[k]; j.Spec.Origin.Run == o.Run && j.Spec.takesBranch() {
			at := t.began(k)
			if at.IsZero() && j.State.Attempt > 0 { // it was put back to its beginning, and nobody knows when it had begun
				at = t.s.now
			}
			if at.After(last) {
				last = at
			}
		}
	}
	return last
}

// began returns when job i's last attempt started, also if that is in this tick.
func (t *tick) began(i int32) time.Time {
	if j := t.s.jobs[i]; t.status(i) != Running || j.State.Status == Running {
		return j.State.Started
	}
	return t.s.now
}

// serves reports whether r makes an artifact that by needs and does not make itself. It is false
// if by merges the branch.
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

// onBranch returns the runs for a branch that have an active job or a blocked merge, and those
// jobs: a run's active jobs or, if it has none, its blocked merge. It returns no jobs if there
// is only one such run.
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
		at := t.began(i)
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

// waitsFor reports whether an active job of r waits, directly or through other jobs, for a job
// of by, or submitted one.
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

// eachRival calls f with the other jobs that take the branch of job i's run.
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
