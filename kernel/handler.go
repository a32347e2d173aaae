package kernel

import (
	"slices"
	"strings"
)

// Pending returns the job that may still rewind id, or "": an active one that a route woke, or one whose routes wait, such
// as id itself. Until that job has ended, or its routes are taken, the failure or block of id is not final.
func (s *Snapshot) Pending(id JobID) JobID {
	j := s.Job(id)
	switch {
	case j == nil || !j.State.Status.Terminal():
		return ""
	case j.State.Deferred:
		return id
	case j.State.Status == Succeeded:
		return ""
	}
	s.near.require(Near{Kind: Woken})
	for _, i := range s.senders() {
		if k := s.jobs[i]; k != j && k.woken() && slices.Contains(s.mayRewind(k, s.eachHeldBack, map[JobID]bool{}), id) {
			return k.ID
		}
	}
	return ""
}

// senders returns the jobs that may be woken: see Job.woken.
func (s *Snapshot) senders() []int32 {
	if len(s.deferred) == 0 {
		return s.graph.routed
	}
	all := slices.Clone(s.graph.routed)
	for _, i := range s.deferred {
		if s.jobs[i].State.Deferred && !s.jobs[i].Spec.Routed {
			all = append(all, i)
		}
	}
	slices.Sort(all)
	return all
}

// sender returns the job that job i waits for since it may still rewind the predecessor id, of which any end will
// do: until then that end is not final. It returns -1 if there is none. What depends on i cannot keep i waiting.
func (t *tick) sender(i int32, id JobID) int32 {
	p, ok := t.s.find(id)
	if !ok || !t.status(p).Terminal() || t.status(p) == Succeeded {
		return -1
	}
	t.s.near.require(Near{Kind: Woken})
	for _, k := range t.s.senders() {
		deferred := t.s.jobs[k].State.Deferred
		if !deferred && (k == p || !t.status(k).Active()) || k != p && !t.mayRewind(k)[id] {
			continue
		}
		if _, behind := slices.BinarySearch(t.s.graph.closure([]int32{i}, t.s.graph.eachSuccessor), k); deferred || !behind {
			return k
		}
	}
	return -1
}

// mayRewind returns the jobs that job k may rewind, but for those that a failure holds back: which these are, the tick is
// about to find out. It looks for them once in a tick.
func (t *tick) mayRewind(k int32) map[JobID]bool {
	if all, known := t.rewindable[k]; known {
		return all
	}
	all := map[JobID]bool{}
	for _, id := range t.s.mayRewind(t.s.jobs[k], func(int32, func(int32)) {}, map[JobID]bool{}) {
		all[id] = true
	}
	if t.rewindable == nil {
		t.rewindable = map[int32]map[JobID]bool{}
	}
	t.rewindable[k] = all
	return all
}

// eachUnfinal calls f for the jobs that read whether job k, which a route wakes, may still rewind something: those for
// which any end of that will do. Between the two there may be jobs that have ended, so it needs every job.
func (s *Snapshot) eachUnfinal(k int32, f func(int32)) {
	s.requireAll()
	rewound := s.graph.closure([]int32{k}, func(i int32, visit func(int32)) {
		for _, r := range s.jobs[i].Spec.Routes {
			if to, ok := s.find(r.To); ok && s.jobs[i].Spec.Routed {
				visit(to)
			}
		}
		s.graph.eachSuccessor(i, visit)
	})
	for _, i := range rewound {
		for _, d := range s.graph.afterOf[i] {
			if slices.Contains(s.jobs[d].Spec.AfterAny, s.jobs[i].ID) {
				f(d)
			}
		}
	}
}

// Asleep returns those of ids that nothing under way will let start, each with the reason: it
// sleeps and no open job will wake it, a pool is too small for it, or it waits for such a job.
func (s *Snapshot) Asleep(ids ...JobID) map[JobID]string {
	out, seen := map[JobID]string{}, map[JobID]string{}
	for _, id := range ids {
		if why := s.asleep(id, seen); why != "" {
			out[id] = why
		}
	}
	return out
}

// asleep returns the reason for job id, or "". It keeps its answers in seen.
func (s *Snapshot) asleep(id JobID, seen map[JobID]string) string {
	why, known := seen[id]
	if known {
		return why
	}
	seen[id] = "" // ends the recursion if jobs wait for each other
	j := s.Job(id)
	switch {
	case j == nil:
	case j.Needs() == NeedsPool && s.tooSmall(j): // the record may be older than the configuration
		why = j.State.Wait.Detail + "; a larger pool lets it start"
	case j.State.Status == WaitingOnDeps && j.State.Wait.Cause == JobNotEnded:
		if why = s.asleep(j.State.Wait.Job, seen); why != "" {
			why = "it waits for job " + string(j.State.Wait.Job) + ": " + why
		}
	case j.State.Status == Unscheduled:
		why = s.dormant(j)
	}
	seen[id] = why
	return why
}

// tooSmall reports whether j asks for more units of a pool than that has now.
func (s *Snapshot) tooSmall(j *Job) bool {
	_, never := s.limits.tooSmall(j.Spec.Locks)
	return never
}

// dormant returns why no open job will wake j, which sleeps, or "" if one may.
func (s *Snapshot) dormant(j *Job) string {
	switch {
	case !j.unrouted():
		return "nobody needs it; a job that depends on it and is not transient wakes it"
	}
	for _, k := range s.Members(j.Spec.Origin.Run) {
		if k.State.Status.Active() {
			return ""
		}
	}
	return "only a route starts it, and nothing of its run goes on; a retry of what leads to it may"
}

// mayRewind returns the jobs that k, or a job that k's success leads to, may rewind by a
// route with budget left; for held see downstream. A job may occur twice.
func (s *Snapshot) mayRewind(k *Job, held func(int32, func(int32)), seen map[JobID]bool) (all []JobID) {
	seen[k.ID] = true
	for _, r := range k.Spec.Routes {
		to := s.Job(r.To)
		switch {
		case to == nil || overtaken(k, to, r) || k.State.Deferred && r.On != k.State.Outcome:
		case k.handsOn(to, r):
			if to.Spec.Routed && !seen[to.ID] {
				all = append(all, s.mayRewind(to, held, seen)...)
			}
		case r.open(k.State.Routed, to):
			all = append(all, s.downstream(to.ID, held)...)
		}
	}
	return all
}

// handlers returns the jobs that routes of jobs in set woke and that have not
// succeeded, with their dependents. A rewind of set rewinds them too, since it
// undoes the ends that woke them.
func (s *Snapshot) handlers(set []JobID) []JobID {
	var out []JobID
	for at := 0; at < len(set); at++ { // set grows in the loop
		for _, r := range s.Job(set[at]).Spec.Routes {
			to := s.Job(r.To)
			if to == nil || r.On == OutcomeSucceeded || !to.Spec.Routed || !to.State.Awake || to.State.Status == Succeeded || slices.Contains(set, to.ID) {
				continue
			}
			for _, id := range s.Downstream(to.ID) {
				if !slices.Contains(set, id) {
					set, out = append(set[:len(set):len(set)], id), append(out, id)
				}
			}
		}
	}
	return out
}

// WayOut returns the job to retry so that the run of id, which did not succeed,
// can end: the job that its open merge conflict woke, the job that did not make
// what id lacked, or id itself. If the worktree of that job is gone, it returns
// the job that makes the worktree.
func (s *Snapshot) WayOut(id JobID) JobID {
	j := s.Job(id)
	if j == nil {
		return id
	}
	if from := s.faultyPredecessor(j); from != nil {
		return s.rewindRoot(from.ID)
	}
	return s.rewindRoot(s.conflictHandler(j).ID)
}

// faultyPredecessor returns the predecessor of j that succeeded without
// producing what j needed of it, or whose result was lost since, so that j would fail
// again if only later jobs were retried. It returns nil if there is none.
func (s *Snapshot) faultyPredecessor(j *Job) *Job {
	if j.State.Status != Failed {
		return nil
	}
	var from *Job
	switch j.State.Failure {
	case ExitFailure:
		if strings.Contains(j.State.said(), LacksMerge) {
			from = s.mergeBefore(j)
		}
	case MissingOutput:
		if j.State.Agent == nil { // else the job's own agent answered nothing
			from = NearestAgent(j, s.Job)
		}
	case MissingInput:
		from = s.onlySource(j)
	default: // no other class means a lack of input
	}
	if from == nil || from.State.Status != Succeeded {
		return nil
	}
	return from
}

// mergeBefore returns the merge that j runs directly after, or nil.
func (s *Snapshot) mergeBefore(j *Job) *Job {
	for _, id := range j.Spec.After {
		if p := s.Job(id); p != nil && p.Spec.Integrates() != "" {
			return p
		}
	}
	return nil
}

// NearestAgent returns the nearest predecessor of j that asked an agent, or nil
// if none is known. get returns the job with an id, or nil.
func NearestAgent(j *Job, get func(JobID) *Job) *Job {
	seen := map[JobID]bool{}
	for queue := slices.Clone(j.Spec.After); len(queue) > 0; queue = queue[1:] {
		if seen[queue[0]] {
			continue
		}
		seen[queue[0]] = true
		switch p := get(queue[0]); {
		case p == nil:
		case p.State.Agent != nil:
			return p
		default:
			queue = append(queue, p.Spec.After...)
		}
	}
	return nil
}

// onlySource returns the job that made the only text that j needs, or nil.
func (s *Snapshot) onlySource(j *Job) *Job {
	var from *Job
	texts := 0
	for _, a := range j.Spec.Needs {
		if a.Kind != Custom {
			continue
		}
		texts++
		for _, id := range s.Producers(j.ID, a) {
			from = s.Job(id)
		}
	}
	if texts != 1 {
		return nil
	}
	return from
}

// conflictHandler returns the job that the open merge conflict of j woke. It
// returns j if there is none, or if the conflict is that of another merge of the
// plan.
func (s *Snapshot) conflictHandler(j *Job) *Job {
	plan := j.Spec.Integrates()
	if plan == "" || !s.facts.Present[Artifact{Kind: MergeSentinel, Name: plan}].Value {
		return j
	}
	return s.Resolver(j)
}

// Resolver returns the job to retry once the merge conflict of j is resolved, so that j goes on with what was
// resolved: the job that the conflict woke, if that has ended without success, or else j.
func (s *Snapshot) Resolver(j *Job) *Job {
	for _, r := range j.Spec.Routes {
		if to := s.Job(r.To); to != nil && r.On == OutcomeBlocked && to.Spec.Routed && to.State.Status.Terminal() && to.State.Status != Succeeded && s.BlockedBy(to) != j {
			return to
		}
	}
	return j
}
