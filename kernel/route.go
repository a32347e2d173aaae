package kernel

import (
	"fmt"
	"slices"
	"strings"
)

// DefaultRouteBudget is how often a route without a budget of its own may send
// a run back, so that every loop ends.
const DefaultRouteBudget = 3

func (r Route) budget() int {
	if r.Budget <= 0 {
		return DefaultRouteBudget
	}
	return r.Budget
}

// open reports whether r may be taken to job to, by a job whose routes were taken that many times: within its budget or,
// since that sends nothing back, where to still sleeps.
func (r Route) open(taken int, to *Job) bool {
	return taken < r.budget() || to.State.Status == Unscheduled && to.unrouted()
}

// withRoutes returns p, by which j ends, followed by what j's routes do then.
func (s *Snapshot) withRoutes(p Plan, j *Job) Plan {
	if len(j.Spec.Routes) == 0 {
		return p
	}
	return p.Then(s.Apply(p).route(j.ID))
}

// route returns what follows from the outcome of job id, which has just ended
// in s. Success hands its execution context to the jobs that its routes name;
// another outcome rewinds or wakes them. While a job runs that these rewind, they wait.
func (s *Snapshot) route(id JobID) Plan {
	j := s.Job(id)
	if !j.State.Status.Terminal() {
		return Plan{}
	}
	var p Plan
	if st := j.State; s.mustDefer(j) != st.Deferred {
		st.Deferred = !st.Deferred
		p = NewPlan(PutState{j.ID, j.Rev, st})
		s = s.Apply(p)
	}
	for _, r := range j.Spec.Routes {
		to := s.Job(r.To)
		if r.On != j.State.Outcome || to == nil || overtaken(j, to, r) {
			continue
		}
		var q Plan
		switch from := s.Job(id); {
		case j.handsOn(to, r):
			q = s.handOver(j, to)
		case !from.State.Deferred:
			q = s.sendBack(from, to, r, j.State.Routed)
		}
		p, s = p.Then(q), s.Apply(q)
	}
	return p
}

// handsOn reports whether route r of j to job to hands over j's context, and sends nothing back.
func (j *Job) handsOn(to *Job, r Route) bool {
	return r.On == OutcomeSucceeded && slices.Contains(to.Spec.After, j.ID)
}

// takesBack returns the jobs that the routes of j rewind, now that j has ended. A job may occur twice.
func (s *Snapshot) takesBack(j *Job) (all []JobID) {
	for _, r := range j.Spec.Routes {
		if to := s.Job(r.To); r.On == j.State.Outcome && to != nil && !overtaken(j, to, r) && !j.handsOn(to, r) && r.open(j.State.Routed, to) {
			all = append(all, s.Downstream(to.ID)...)
		}
	}
	return all
}

// mustDefer reports whether the routes of j, which has ended, must wait: for a running job that they take back or,
// unless j succeeded, for the routes of a repair that succeeded and takes back j.
func (s *Snapshot) mustDefer(j *Job) bool {
	back := s.takesBack(j)
	if len(back) == 0 {
		return false
	}
	return s.runs(back) != "" || j.State.Status != Succeeded && slices.ContainsFunc(s.deferred, func(i int32) bool {
		k := s.jobs[i]
		return k.State.Deferred && k.State.Status == Succeeded && slices.Contains(s.takesBack(k), j.ID)
	})
}

// runs returns the first of ids that is running, or "".
func (s *Snapshot) runs(ids []JobID) JobID {
	for _, id := range ids {
		if j := s.Job(id); j != nil && j.State.Status == Running {
			return id
		}
	}
	return ""
}

// UnderWay reports whether the job is active, or has ended and its routes are still to be taken.
func (st *State) UnderWay() bool { return st.Status.Active() || st.Deferred }

// deferred reports whether the routes of j wait, or j waits for routes that do.
func (j *Job) deferred() bool { return j.State.Deferred || j.State.Wait.Cause == RouteDeferred }

// takeDeferred takes the deferred routes that need not wait any more, and then those that waited for one of these: no
// other tick may follow.
func (s *Snapshot) takeDeferred() Plan {
	d := NewDraft(s)
	for taken := true; taken; {
		taken = false
		for _, i := range s.deferred {
			if j := d.s.jobs[i]; j.State.Deferred {
				d.Add(d.s.route(j.ID))
				taken = taken || !d.s.jobs[i].State.Deferred
			}
		}
	}
	return d.plan
}

// overtaken reports whether j, whose route r leads back to the job that woke it, ended well only after that job had
// succeeded: nothing is to be done again.
func overtaken(j, to *Job, r Route) bool {
	return r.On == OutcomeSucceeded && j.Spec.Routed && to.State.Status == Succeeded &&
		slices.ContainsFunc(to.Spec.Routes, func(w Route) bool { return w.On != OutcomeSucceeded && w.To == j.ID })
}

// handOver gives the context of a job that succeeded to one that runs after it,
// and wakes that one if it sleeps. A job whose parents hand over different
// contexts is blocked, since it has no single place to run in.
func (s *Snapshot) handOver(from, to *Job) Plan {
	c := from.State.Context
	c.Owned = false
	st := to.State
	if st.Status.Terminal() || st.Status == Running {
		return Plan{}
	}
	if to.unrouted() {
		st.Status, st.Awake = Queued, true
	}
	switch {
	case c.Root == "" || st.Context == c:
	case st.Context.Root != "" && st.Context.Root != c.Root:
		st.Status = BlockedByDependency
		st.Wait = WaitReason{Kind: OnDependencies, Detail: "its parents hand over different execution contexts: " + st.Context.Root + " and " + c.Root}
		st.WaitSince = s.now
	default:
		st.Context = c
	}
	if st == to.State {
		return Plan{}
	}
	return NewPlan(PutState{to.ID, to.Rev, st})
}

// sendBack rewinds or wakes the target of a route, whose job's routes were taken after that many of its earlier ends. The
// source keeps this count, even if it is rewound itself.
func (s *Snapshot) sendBack(from, to *Job, r Route, taken int) Plan {
	if !r.open(taken, to) {
		own := *from // a person goes on with it: see Needs
		own.State.Reason = strings.ReplaceAll(own.State.Reason, "vizier retry "+string(to.ID), "vizier retry "+string(from.ID))
		return s.note(&own, fmt.Sprintf("its route to %s was taken %d times and is exhausted", to.Label(), taken))
	}
	set := s.Downstream(to.ID)
	if id := s.runs(set); id != "" { // only what an earlier route of the same outcome took back leads to it
		return s.note(from, fmt.Sprintf("its route to %s was not taken: %s is running", to.Label(), s.Job(id).Label()))
	}
	st := from.State
	if taken < r.budget() {
		st.Routed = taken + 1
	}
	counted := NewPlan(PutState{from.ID, from.Rev, st})
	next := s.Apply(counted)
	p := next.rewind([][]JobID{set}, "route of "+string(from.ID), byRoute)
	target := next.Apply(p).Job(to.ID)
	c := from.State.Context
	if c.Root == "" || to.Spec.OwnsContext {
		return counted.Then(p)
	}
	st = target.State
	c.Owned = false
	st.Context = c
	return counted.Then(p).Then(NewPlan(PutState{to.ID, target.Rev, st}))
}

func (s *Snapshot) note(j *Job, what string) Plan {
	st := j.State
	if st.Reason != "" {
		st.Reason += "; "
	}
	st.Reason += what
	return NewPlan(PutState{j.ID, j.Rev, st})
}

// inheritedContext returns the context that j gets back when it is rewound:
// that of a predecessor outside set that succeeded and hands its context to j.
func (s *Snapshot) inheritedContext(j *Job, set map[JobID]bool) Context {
	if j.Spec.OwnsContext {
		return Context{}
	}
	for _, id := range j.Spec.After {
		p := s.Job(id)
		if p == nil || set[id] || p.State.Status != Succeeded || !p.handsOver(j.ID) || p.State.Context.Root == "" {
			continue
		}
		c := p.State.Context
		c.Owned = false
		return c
	}
	return Context{}
}

func (j *Job) handsOver(to JobID) bool {
	return slices.ContainsFunc(j.Spec.Routes, func(r Route) bool { return r.On == OutcomeSucceeded && r.To == to })
}

// rewindRoot returns the job at which a rewind of root has to begin: root, or, if
// the context that root runs in is gone, the job that makes that context
// (semantics 3.11). Root never falls back to the operator's checkout.
func (s *Snapshot) rewindRoot(root JobID) JobID {
	j := s.Job(root)
	if s.inheritedContext(j, nil).Root != "" {
		return root
	}
	seen := map[JobID]bool{root: true}
	for queue := []*Job{j}; len(queue) > 0; queue = queue[1:] {
		if queue[0].Spec.OwnsContext {
			return queue[0].ID
		}
		for _, id := range queue[0].Spec.After {
			if p := s.Job(id); p != nil && !seen[id] && p.handsOver(queue[0].ID) {
				seen[id] = true
				queue = append(queue, p)
			}
		}
	}
	return root
}

// ForgetWorktrees clears the contexts of the jobs of root's run whose worktrees
// are gone from the disk, or have lost their branch to another run, so that a
// rewind begins at the jobs that make them.
func ForgetWorktrees(s *Snapshot, root JobID, gone func(Context) bool) Plan {
	var p Plan
	j := s.Job(root)
	if j == nil || j.Spec.Origin.Run == "" {
		return p
	}
	s.near.require(Near{Kind: Members, Run: j.Spec.Origin.Run})
	for _, k := range s.jobs {
		if c := k.State.Context; k.Spec.Origin.Run == j.Spec.Origin.Run && c.Worktree != "" && k.State.Status != Running && gone(c) {
			st := k.State
			st.Context = Context{}
			p.add(PutState{k.ID, k.Rev, st})
		}
	}
	return p
}

// clearContext clears the context of every other job of j's run that ran in j's
// worktree, which is gone.
func (s *Snapshot) clearContext(j *Job) Plan {
	var p Plan
	gone := j.State.Context.Worktree
	if gone == "" || j.Spec.Origin.Run == "" {
		return p
	}
	s.requireAll()
	for _, k := range s.jobs {
		if k.ID != j.ID && k.Spec.Origin.Run == j.Spec.Origin.Run && k.State.Context.Worktree == gone {
			st := k.State
			st.Context = Context{}
			p.add(PutState{k.ID, k.Rev, st})
		}
	}
	return p
}
