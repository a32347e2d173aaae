package kernel

import (
	"slices"
	"time"
)

// Wakes is what may move a job without any command or runner. The zero value is nothing.
type Wakes struct {
	At time.Time // when the first retry is due or the first approval expires; zero: none does

	// Outside are the facts that open jobs wait for, and the running attempts
	// whose runner's death would move other jobs. Runners of executors other than
	// the local one do not report their end, so all their attempts are included.
	Outside Probes

	// Poll says that something must be tried again at intervals, because nothing
	// reports when it would succeed: a refused launch, a failed observation.
	Poll bool

	// Running are the other attempts under way. They are no reason to start a
	// resident scheduler, but one to stay: it settles those whose runner dies.
	Running []AttemptID

	// Overdue is when the first of the attempts with a time limit must be ended,
	// unless its runner does so before; zero: none has one.
	Overdue time.Time
}

// Empty reports whether no resident scheduler need be started.
func (w Wakes) Empty() bool { return w.At.IsZero() && w.Outside.Empty() && !w.Poll }

// Idle reports whether there is nothing to watch.
func (w Wakes) Idle() bool { return w.Empty() && len(w.Running) == 0 }

// Attempts returns all attempts whose runners must be watched.
func (w Wakes) Attempts() []AttemptID { return slices.Concat(w.Outside.Attempts, w.Running) }

// Wakes returns what the jobs of s wait for after a tick. Of each job only the first
// condition that holds it up counts: a tick that clears this one looks at the next one. A
// person approves, and a runner reports the end of its job, so neither is a wake; the
// expiry of an approval is, and so is the death of a runner on which other jobs depend.
func (s *Snapshot) Wakes() Wakes {
	t := newTick(s)
	locks := s.contended()
	b := prober{s: s.unobserved(), seen: map[Artifact]bool{}, branches: map[string]bool{}}
	var w Wakes
	for _, i := range s.running {
		if j := s.jobs[i]; locks || j.Spec.Task.On() != LocalExecutor || t.deathMovesOthers(i) {
			b.attempt(j.Attempt())
		} else {
			w.Running = append(w.Running, j.Attempt())
		}
		if at := s.jobs[i].overdue(s.limits.Grace); !at.IsZero() && (w.Overdue.IsZero() || at.Before(w.Overdue)) {
			w.Overdue = at
		}
	}
	for _, i := range s.timed {
		if d, ok := s.jobs[i].Due(); !ok {
			continue
		} else if d.Until.IsZero() {
			w.Poll = true // a tick leaves a job queued only where its launch was refused
		} else if w.At.IsZero() || d.Until.Before(w.At) {
			w.At = d.Until
		}
	}
	for _, i := range s.graph.asking {
		switch st := &s.jobs[i].State; {
		case st.Status != WaitingOnDeps:
		case st.Wait.Cause == JobNotEnded, st.Wait.Cause == TokenProducing: // a job's end clears that
		default:
			w.Poll = t.outside(&b, i) || w.Poll
		}
	}
	w.Outside = b.p
	return w
}

// contended reports whether a job waits for locks, pools or slots.
func (s *Snapshot) contended() bool {
	if len(s.waiters) == 0 && s.near != nil {
		s.near.require(Near{Kind: Waiters, Most: len(s.jobs) + 1})
	}
	return len(s.waiters) > 0
}

// unobserved returns s without facts, so that a prober asks for every fact it meets.
func (s *Snapshot) unobserved() *Snapshot {
	next := *s
	next.facts = &Facts{}
	return &next
}

// deathMovesOthers reports whether the death of running job i's runner would move more
// than its status: it would start again, or a person would be asked whether it should; a
// cancel of it is under way; it has routes; it would stop its run; or a job depends on it.
func (t *tick) deathMovesOthers(i int32) bool {
	j := t.s.jobs[i]
	t.s.near.require(Near{Kind: Handled, Job: j.ID})
	if j.State.Spent.Reclaims < j.Budget().Reclaims || j.needsApproval(WorkerLost) || !j.State.Stop.At.IsZero() || len(j.Spec.Routes) > 0 ||
		j.Spec.FailureMode == BlockDownstream || t.s.graph.handlers[i] {
		return true
	}
	return t.s.graph.hasSuccessor(i, func(k int32) bool { return !t.status(k).Terminal() && t.status(k) != Running })
}

// outside asks b for what would clear the first condition that job i waits on,
// unless that is the end of another job. It reports whether the condition could
// not be observed.
func (t *tick) outside(b *prober, i int32) (poll bool) {
	for k := range gates {
		if gates[k].kind != t.s.jobs[i].State.Wait.Kind {
			continue
		}
		if v, next := gates[k].check(t, i, 0); v.kind != passed {
			return gates[k].wakes != nil && gates[k].wakes(t, b, i, v, next)
		}
	}
	return false
}

func (t *tick) wakesNeeds(b *prober, i int32, v verdict, _ int) (poll bool) {
	a := v.artifact
	if n, _, _ := t.need(i, a); n == unknown || n == awaited || n == producing {
		b.artifact(a)
		return t.unseen(a)
	}
	return false
}

func (t *tick) unseen(a Artifact) bool {
	if a.Kind == Custom {
		return t.s.facts.Markers[a].Err != ""
	}
	return t.s.facts.Present[a].Err != ""
}

func (t *tick) wakesPinnedHead(b *prober, i int32, _ verdict, _ int) (poll bool) {
	branch := t.s.jobs[i].Spec.Pinned.Branch
	b.branch(branch)
	return t.s.facts.Heads[branch].Err != ""
}

// wakesPreconditions asks for the branch that is checked out together with its head.
func (t *tick) wakesPreconditions(b *prober, i int32, v verdict, next int) (poll bool) {
	if v.kind != waiting {
		return false
	}
	j, f := t.s.jobs[i], t.s.facts
	p := j.Spec.Preconditions[next-1].canonical()
	if p.Kind == CleanWorktree {
		b.p.Clean = true
		return f.Clean.Err != ""
	}
	name := j.branchFor(p)
	if name == "" {
		b.p.Head, name = true, f.Head.Value
	}
	b.branch(name)
	return f.Head.Err != "" || f.Heads[name].Err != ""
}
