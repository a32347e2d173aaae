package kernel

import "slices"

// FailureMode says what the final failure of a job means for the jobs of its
// run that do not depend on it. Dependents are blocked in either mode.
type FailureMode uint8

// ContinueIndependent is the default.
const (
	ContinueIndependent FailureMode = iota // they go on
	BlockDownstream                        // those that have not started are blocked as well
)

var failureModeNames = NewNames[FailureMode]("failure mode", "continue_independent", "block_downstream")

// failure holds the failed jobs of a run that stops at its first failure.
type failure struct {
	first      JobID // the first job of the run that failed, in schedule order
	roots      []int32
	downstream []int32 // the run's jobs that depend on a root, sorted; they are blocked by their own gates
}

// noteFailure records that job i failed, if that holds back others of its run.
// While the failure's handler is active, which may rewind the job, the failure
// is not final.
func (t *tick) noteFailure(i int32) {
	j := t.s.jobs[i]
	if j.Spec.FailureMode != BlockDownstream || j.Spec.Origin.Run == "" || t.handled(j) {
		return
	}
	if t.failures == nil {
		t.failures = map[RunID]*failure{}
	}
	f := t.failures[j.Spec.Origin.Run]
	if f == nil {
		f = &failure{first: j.ID}
		t.failures[j.Spec.Origin.Run] = f
	}
	f.roots = append(f.roots, i)
}

func (t *tick) handled(j *Job) bool {
	return j.State.Deferred || slices.ContainsFunc(j.Spec.Routes, func(r Route) bool {
		k, ok := t.s.find(r.To)
		return ok && r.On == OutcomeFailed && (t.status(k).Active() || t.s.jobs[k].State.Deferred)
	})
}

// holdsBack reports whether the end of job i in this round may change which
// jobs of its run are held back: it failed, or it handled a failure.
func (t *tick) holdsBack(i int32) bool {
	t.s.near.require(Near{Kind: Handled, Job: t.s.jobs[i].ID})
	return t.status(i) == Failed && t.s.jobs[i].Spec.FailureMode == BlockDownstream || t.s.graph.handlers[i]
}

// checkRun blocks a job whose run stops at its first failure. It does not block
// handlers, which a route wakes.
func (t *tick) checkRun(i int32) verdict {
	j := t.s.jobs[i]
	if j.Spec.FailureMode != BlockDownstream || j.Spec.Routed {
		return verdict{}
	}
	f := t.failures[j.Spec.Origin.Run]
	if f == nil {
		t.s.requireStoppers(j.Spec.Origin.Run)
		return verdict{}
	}
	if f.downstream == nil {
		f.downstream = t.s.graph.closure(f.roots, func(k int32, visit func(int32)) {
			if t.status(k) == Succeeded { // it got all that it needed
				return
			}
			t.s.graph.eachSuccessor(k, func(d int32) {
				if t.s.jobs[d].Spec.Origin.Run == j.Spec.Origin.Run {
					visit(d)
				}
			})
		})
	}
	if _, depends := slices.BinarySearch(f.downstream, i); depends {
		return verdict{}
	}
	return blocks(heldBack + string(f.first)).of(f.first).because(RunStopped)
}

// requireStoppers notes that the decision assumes that no failure stops run. If
// one may, it requires every job.
func (s *Snapshot) requireStoppers(run RunID) {
	if s.near == nil || run == "" {
		return
	}
	s.near.require(Near{Kind: Stoppers, Run: run})
	if slices.ContainsFunc(s.graph.stopping[run], func(k int32) bool { return s.jobs[k].stops() }) {
		s.requireAll()
	}
}

// requireHandled notes that the decision assumes that job i, which belongs to no
// run, handles no failure that stops a run: the end of job i would make that
// failure final. For handlers that belong to a run, requireStoppers covers this.
func (s *Snapshot) requireHandled(i int32) {
	id := s.jobs[i].ID
	if s.near == nil || s.jobs[i].Spec.Origin.Run != "" {
		return
	}
	s.near.require(Near{Kind: Handled, Job: id})
	if slices.ContainsFunc(s.graph.stopping[""], func(k int32) bool {
		return s.jobs[k].stops() && (Near{Kind: Handled, Job: id}).Selects(s.jobs[k])
	}) {
		s.requireAll()
	}
}

// heldBackBy reports whether the failure of job by keeps j from starting.
func (j *Job) heldBackBy(by JobID) bool {
	w := j.State.Wait
	return j.State.Status == BlockedByDependency && w.Cause == RunStopped && w.Job == by
}

// eachHeldBack calls f with the jobs that the failure of job i holds back.
func (s *Snapshot) eachHeldBack(i int32, f func(int32)) {
	by := s.jobs[i]
	if by.Spec.FailureMode != BlockDownstream || by.State.Status != Failed {
		return
	}
	s.requireAll()
	for k, j := range s.jobs {
		if j.heldBackBy(by.ID) {
			f(int32(k))
		}
	}
}
