package kernel

type outcome uint8

const (
	passed outcome = iota
	waiting
	blocked
)

// verdict is what a gate says about one condition of a job. Its constructors
// are the only way to make one: a verdict that passed has no detail, and any
// other has one.
type verdict struct {
	outcome  outcome
	detail   string
	job      JobID    // the job it is about, if any
	artifact Artifact // the artifact it is about, if any
}

func waits(detail string) verdict  { return verdict{outcome: waiting, detail: detail} }
func blocks(detail string) verdict { return verdict{outcome: blocked, detail: detail} }

func (v verdict) of(id JobID) verdict      { v.job = id; return v }
func (v verdict) about(a Artifact) verdict { v.artifact = a; return v }

// gate is one row of seed 000's list. check looks at the job's conditions of
// this gate from position from on, and returns the first that does not pass
// with the position after it; a verdict that passed ends the gate. Deciding
// takes the first verdict, explaining takes them all: it is the same code.
type gate struct {
	kind      WaitKind
	onWait    Status
	onBlocked Status
	check     func(t *tick, i int32, from int) (verdict, int)
}

// gates are checked in order and the first that does not pass decides. To seed
// 000's list is added, before all others, what the failure mode of a run says:
// a job that waits for what may never come ends with its run.
var gates = [...]gate{
	{OnDependencies, WaitingOnDeps, BlockedByDependency, (*tick).checkRun},
	{OnDependencies, WaitingOnDeps, BlockedByDependency, (*tick).checkAfter},
	{OnDependencies, WaitingOnDeps, BlockedByDependency, (*tick).checkNeeds},
	{OnPinnedHead, WaitingOnDeps, BlockedByDependency, (*tick).checkPinnedHead},
	{OnPreconditions, WaitingOnDeps, BlockedByDependency, (*tick).checkPreconditions},
	{OnApproval, WaitingOnApproval, BlockedByApproval, (*tick).checkApproval},
	{OnLocks, WaitingOnLocks, WaitingOnLocks, (*tick).checkLocks},
}

func (t *tick) checkAfter(i int32, from int) (verdict, int) {
	after := t.s.jobs[i].Spec.After
	for n := from; n < len(after); n++ {
		id := after[n]
		k, ok := t.s.find(id)
		switch {
		case !ok && t.s.unreadable[id] != "":
			return blocks("scheduler data error for job dependency " + string(id) + ": " + t.s.unreadable[id]).of(id), n + 1
		case !ok:
			return blocks("missing job dependency " + string(id)).of(id), n + 1
		}
		switch s := t.at(k); {
		case s == Succeeded:
		case !s.Terminal():
			return waits(waitingOnJob + string(id)).of(id), n + 1
		default:
			return blocks("dependency failed for job " + string(id) + " (" + s.String() + ")").of(id), n + 1
		}
	}
	return verdict{}, len(after)
}

func (t *tick) checkNeeds(i int32, from int) (verdict, int) {
	needs := t.s.jobs[i].Spec.Needs
	for n := from; n < len(needs); n++ {
		if v := t.checkNeed(i, needs[n]); v.outcome != passed {
			return v, n + 1
		}
	}
	return verdict{}, len(needs)
}

// checkNeed is seed 003's table, in words.
func (t *tick) checkNeed(i int32, a Artifact) verdict {
	switch n, first, why := t.need(i, a); n {
	case met:
		return verdict{}
	case unknown:
		return waits("cannot tell whether " + a.String() + " exists: " + why).about(a)
	case inTheMaking:
		return waits(waitingOnToken + a.String()).about(a).of(first)
	case notMade:
		return blocks("missing " + a.String()).about(a).of(first)
	case failed:
		return blocks("dependency failed for " + a.String()).about(a).of(first)
	case awaited:
		return waits("awaiting producer for " + a.String()).about(a)
	default:
		return blocks("missing " + a.String()).about(a)
	}
}

// need is how it stands with an artifact that a job needs.
type need uint8

const (
	met         need = iota
	unknown          // it cannot be told whether it exists
	inTheMaking      // a producer is open
	notMade          // a producer succeeded without it
	failed           // every producer failed
	awaited          // nobody produces it yet
	nobodys          // nobody produces it, and that is final
)

// need is seed 003's table. first is the producer it is about, if any.
func (t *tick) need(i int32, a Artifact) (n need, first JobID, why string) {
	exists, why := t.exists(i, a)
	switch {
	case why != "":
		return unknown, "", why
	case exists:
		return met, "", ""
	}
	var known, active, succeeded bool
	t.s.graph.eachProducer(i, a, func(p int32) {
		s := t.at(p)
		if s.Active() && !active || !known {
			first = t.s.jobs[p].ID
		}
		known, active, succeeded = true, active || s.Active() || t.promotable(p), succeeded || s == Succeeded
	})
	switch {
	case active:
		return inTheMaking, first, ""
	case succeeded:
		return notMade, first, ""
	case known:
		return failed, first, ""
	case t.s.jobs[i].Spec.MissingProducer == Wait:
		return awaited, "", ""
	default:
		return nobodys, "", ""
	}
}

// exists tells whether a exists for job i, or why that cannot be told.
func (t *tick) exists(i int32, a Artifact) (bool, string) {
	if a.Kind != Custom {
		f := t.s.facts.Present[a]
		t.s.ask(t.s.jobs[i], f.asked())
		if a.Kind == CommandPatch && !f.Value {
			if k, ok := t.s.find(JobID(a.Name)); ok && t.at(k) == Succeeded && t.s.jobs[k].State.Removed.IsZero() {
				return true, ""
			}
		}
		if !f.Known {
			return false, unobserved(f.Err)
		}
		return f.Value, ""
	}
	f := t.s.facts.Markers[a]
	t.s.ask(t.s.jobs[i], f.asked())
	if !f.Known {
		return false, unobserved(f.Err)
	}
	var newest JobID
	found := false
	own := t.s.graph.ownProducers(i, a)
	for _, m := range f.Value {
		if own && !t.sameRun(i, m) {
			continue
		}
		if !found || t.older(newest, m) {
			newest, found = m, true
		}
	}
	return found && !t.superseded(i, a, newest), ""
}

// superseded reports that a job enqueued after the marker's owner and before
// consumer i is about to produce a anew: the old token is not the one that
// the consumer was enqueued for.
func (t *tick) superseded(i int32, a Artifact, owner JobID) bool {
	yes := false
	t.s.graph.eachProducer(i, a, func(p int32) {
		yes = yes || p < i && t.at(p).Active() && t.older(owner, t.s.jobs[p].ID)
	})
	return yes
}

// older reports that job a was created before job b. Ids of the store grow
// with time, which orders jobs whose records are gone.
func (t *tick) older(a, b JobID) bool {
	i, ok := t.s.find(a)
	k, ok2 := t.s.find(b)
	if ok && ok2 {
		return i < k
	}
	return a < b
}

func (t *tick) sameRun(i int32, id JobID) bool {
	k, ok := t.s.find(id)
	return ok && t.s.jobs[k].Spec.Origin.Run == t.s.jobs[i].Spec.Origin.Run
}

func unobserved(err string) string {
	if err == "" {
		return "not observed"
	}
	return err
}

func (t *tick) checkPinnedHead(i int32, from int) (verdict, int) {
	p := t.s.jobs[i].Spec.Pinned
	if from > 0 || p.Branch == "" {
		return verdict{}, 1
	}
	t.s.ask(t.s.jobs[i], t.s.facts.Heads[p.Branch].asked())
	if f := t.s.facts.Heads[p.Branch]; f.Known && f.Value == p.Commit {
		return verdict{}, 1
	}
	return waits("pinned head mismatch on " + p.Branch), 1
}

func (t *tick) checkApproval(i int32, from int) (verdict, int) {
	if from > 0 {
		return verdict{}, 1
	}
	switch a := t.s.jobs[i].State.Approval; a.State {
	case Pending:
		if st := t.s.jobs[i].State; st.Failure != NoFailure { // see Job.leave
			return waits("awaiting human approval to execute it again: " + orElse(st.Reason, st.Failure.String())), 1
		}
		return waits("awaiting human approval"), 1
	case Rejected:
		return blocks(orElse(a.Reason, "approval rejected")), 1
	default:
		return verdict{}, 1
	}
}

func (t *tick) checkLocks(i int32, from int) (verdict, int) {
	if from > 0 {
		return verdict{}, 1
	}
	if why := t.locks.Denied(t.s.jobs[i].Spec.Task.On(), t.s.jobs[i].Spec.Locks); why != "" {
		return waits(why), 1
	}
	return verdict{}, 1
}

func orElse(s, alt string) string {
	if s == "" {
		return alt
	}
	return s
}
