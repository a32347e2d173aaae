package kernel

import (
	"cmp"
	"maps"
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
// run. A run that others wait for, or whose attempts submitted it, has its turn when the last of
// these had: they go on only after it. So no runs wait for each other in a circle: on the way from one
// to the next by branch the runs took the branch later and later, and by jobs not earlier.
func (t *tick) checkRivals(i int32) verdict {
	j := t.s.jobs[i]
	if !j.Spec.takesBranch() {
		return verdict{}
	}
	takers := t.onBranch(j.Spec.Origin.Branch)
	mine := takers.of[j.Spec.Origin.Run]
	if mine == nil { // j's run has no active job
		return verdict{}
	}
	turn := mine
	for _, r := range takers.took {
		if r.tookAfter(turn) && t.waitsFor(r, mine) {
			turn = r
		}
	}
	for _, k := range takers.holders {
		other := t.s.jobs[k]
		its := takers.of[other.Spec.Origin.Run]
		next := k < i && other.Spec.takesBranch() && t.status(k) == WaitingOnLocks
		took := its.tookAfter(turn) && (its.inside || !t.serves(its, mine))
		if its == mine || !next && !took {
			continue
		}
		v := waits("another run works on branch " + j.Spec.Origin.Branch).of(other.ID)
		if other.mergeBlocked() {
			if j.Spec.Origin.About.Operation == integrate && !t.behind(i, mine) && (!mine.at.IsZero() || !t.behind(i, takers.all...)) {
				continue
			}
			v.now = ": " + other.State.Reason
		}
		if t.contested != nil {
			t.contested[j.Spec.Origin.Branch] = true
		}
		return v
	}
	return verdict{}
}

// judgeHeld judges once more the jobs that a branch holds up, if a job of it has changed its status
// since: who took the branch when, and who waits for whom, may be different by then. It reports
// whether one of them is held up no longer; such a job comes to the locks out of its turn.
func (t *tick) judgeHeld() (free bool) {
	for len(t.moved) > 0 {
		moved := slices.Sorted(maps.Keys(t.moved))
		clear(t.moved)
		var held []int32
		for _, branch := range moved {
			for _, r := range t.s.graph.onBranch[branch].runs {
				held = append(held, r.takes...)
			}
		}
		slices.Sort(held)
		for _, k := range held {
			if t.status(k) == WaitingOnDeps && t.of(k).judged && t.of(k).reason.Cause == OtherCause {
				t.judge(k)
				free = free || t.status(k) != WaitingOnDeps
			}
		}
	}
	return free
}

// behind reports whether an older active job of the runs is to take the branch before job i.
func (t *tick) behind(i int32, runs ...*taker) bool {
	return slices.ContainsFunc(runs, func(r *taker) bool {
		return slices.ContainsFunc(r.takes, func(k int32) bool { return k < i && t.status(k).Active() })
	})
}

// mergeBlocked reports whether j is a blocked merge that needs a person: it is in conflict, or
// something else is in its way.
func (j *Job) mergeBlocked() bool {
	return j.State.Status == BlockedByDependency && j.Spec.Origin.About.Operation == integrate && j.Needs() != ""
}

// taker is a run with an active job or a blocked merge, and its relation to its branch.
type taker struct {
	*branchRun
	at     time.Time // when it took the branch last; zero: it has not, or has merged it
	inside bool      // it has a worktree of the branch, or has begun to merge it
	merges bool      // it has a job that merges the branch
	merged bool
	active []int32 // its active jobs or, if it has none, its blocked merge
}

// tookAfter reports whether r took the branch after o did. No two runs took it at once.
func (r *taker) tookAfter(o *taker) bool {
	return !r.at.IsZero() && cmp.Or(r.at.Compare(o.at), cmp.Compare(r.run, o.run)) > 0
}

// takersOf is what the gate of a branch reads of it: the runs with an active job or a blocked
// merge, by id and in the order of their first jobs, and those of these jobs that may hold others
// up: their run took the branch, or they are next in line for a lock.
type takersOf struct {
	of      map[RunID]*taker
	all     []*taker
	took    []*taker // those of all that took the branch
	holders []int32
}

// worked returns when the run of job p last began to work on its branch; zero: never.
func (t *tick) worked(p int32) (last time.Time) {
	o := &t.s.jobs[p].Spec.Origin
	t.s.near.require(Near{Kind: Members, Run: o.Run})
	b := t.s.graph.onBranch[o.Branch]
	if b == nil || b.at[o.Run] == nil {
		return time.Time{}
	}
	for _, k := range b.at[o.Run].takes {
		at := t.began(k)
		if at.IsZero() && t.s.jobs[k].State.Attempt > 0 { // it was put back to its beginning, and nobody knows when it had begun
			at = t.s.now
		}
		if at.After(last) {
			last = at
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
func (t *tick) serves(r, by *taker) bool {
	if by.merges {
		return false
	}
	makes := func(r *taker, a Artifact) bool {
		return slices.ContainsFunc(r.jobs, func(i int32) bool { return slices.Contains(t.s.jobs[i].Spec.Produces, a) })
	}
	return slices.ContainsFunc(by.jobs, func(i int32) bool {
		return slices.ContainsFunc(t.s.jobs[i].Spec.Needs, func(a Artifact) bool { return makes(r, a) && !makes(by, a) })
	})
}

// onBranch returns the takers of a branch. The tick keeps them until the status of a job of the
// branch changes: many jobs may wait for it.
func (t *tick) onBranch(branch string) takersOf {
	t.s.near.require(Near{Kind: OnBranch, Key: branch})
	known, ok := t.branches[branch]
	if !ok {
		known = t.takersOf(branch)
		if t.branches == nil {
			t.branches = map[string]takersOf{}
		}
		t.branches[branch] = known
	}
	return known
}

func (t *tick) takersOf(name string) takersOf {
	known := takersOf{of: map[RunID]*taker{}}
	var blocked []int32
	for _, r := range t.s.graph.onBranch[name].runs {
		if active := t.activeOf(r); len(active) > 0 {
			known.of[r.run] = &taker{branchRun: r, active: active}
			known.all = append(known.all, known.of[r.run])
		}
	}
	if len(known.all) < 2 {
		return known
	}
	for _, r := range known.all {
		t.s.near.require(Near{Kind: Members, Run: r.run})
		for _, i := range r.takes {
			j := t.s.jobs[i]
			at := t.began(i)
			if at.After(r.at) {
				r.at = at
			}
			merges := j.Spec.Origin.About.Operation == integrate
			r.merges = r.merges || merges
			r.inside = r.inside || !at.IsZero() && (t.status(i) == Running || j.State.Context.Worktree != "" || merges)
			r.merged = r.merged || j.closed()
		}
		if r.merged {
			r.at = time.Time{}
		}
		if !r.at.IsZero() {
			known.took = append(known.took, r)
		}
		for _, k := range r.active {
			switch st := t.status(k); {
			case r.at.IsZero() && (st != WaitingOnLocks || !slices.Contains(r.takes, k)):
			case st.Active():
				known.holders = append(known.holders, k)
			default:
				blocked = append(blocked, k)
			}
		}
	}
	slices.Sort(known.holders)
	slices.Sort(blocked)
	known.holders = append(known.holders, blocked...)
	return known
}

// activeOf returns the active jobs of a run for a branch or, if it has none, its blocked merge.
func (t *tick) activeOf(r *branchRun) (active []int32) {
	for _, i := range r.jobs {
		if t.status(i).Active() {
			active = append(active, i)
		}
	}
	if active == nil {
		if k := slices.IndexFunc(r.jobs, func(i int32) bool { return t.s.jobs[i].mergeBlocked() }); k >= 0 {
			active = r.jobs[k : k+1]
		}
	}
	return active
}

// waitsFor reports whether an active job of r waits, directly or through other jobs, for a job
// of by, or submitted one.
func (t *tick) waitsFor(r, by *taker) bool {
	var waiting []int32
	for _, i := range r.active {
		switch st := t.status(i); {
		case st.Terminal():
		case slices.ContainsFunc(by.jobs, func(k int32) bool { return t.s.jobs[k].Spec.Origin.Parent == t.s.jobs[i].ID }):
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
			t.eachMaker(i, a, func(k int32) {
				if t.status(k).Active() {
					f(k)
				}
			})
		}
	}
}

// reachesBranch reports whether waiting job j is past the gates that come before that of the
// branch, as far as its record tells: else its branch decides nothing about it.
func (j *Job) reachesBranch() bool {
	st := &j.State
	switch st.Status {
	case WaitingOnDeps:
		return st.Wait.Kind == OnDependencies && st.Wait.Cause == OtherCause
	case WaitingOnApproval:
		return false
	default:
		return true
	}
}

// eachRival calls f with the other jobs that take the branch of job i's run: those of OnBranch or,
// if kind is Rivals, at least those of Rivals.
func (s *Snapshot) eachRival(i int32, kind NearKind, f func(int32)) {
	if !s.jobs[i].onBranch() {
		return
	}
	name := s.jobs[i].Spec.Origin.Branch
	s.near.require(Near{Kind: kind, Key: name})
	for _, r := range s.graph.onBranch[name].runs {
		for _, k := range r.takes {
			if k != i {
				f(k)
			}
		}
	}
}
