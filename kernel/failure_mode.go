package kernel

import "slices"

// FailureMode says what the final failure of a job means for the jobs of its
// run that do not depend on it. Those that do are blocked in either mode.
type FailureMode uint8

// ContinueIndependent is the default.
const (
	ContinueIndependent FailureMode = iota // they go on
	BlockDownstream                        // those that have not started are blocked
)

var failureModeNames = NewNames[FailureMode]("failure mode", "continue_independent", "block_downstream")

// failure is what holds the jobs of a run back.
type failure struct {
	first      JobID // the first job of the run that failed, in schedule order
	roots      []int32
	downstream []int32 // of the run's jobs those that depend on one that failed, in order: their own gates speak for them
}

// noteFailure notes that job i failed, if that holds back others of its run. A
// failure is not final while its handler is active, which may rewind the job.
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
	return slices.ContainsFunc(j.Spec.Routes, func(r Route) bool {
		k, ok := t.s.find(r.To)
		return ok && r.On == OutcomeFailed && t.status(k).Active()
	})
}

// holdsBack reports that from now on the end of job i in this round may hold back
// others of its run: it failed, or it handled a failure.
func (t *tick) holdsBack(i int32) bool {
	t.s.near.require(Near{Kind: Handled, Job: t.s.jobs[i].ID})
	return t.status(i) == Failed && t.s.jobs[i].Spec.FailureMode == BlockDownstream || t.s.graph.handlers[i]
}

// checkRun blocks a job whose run stops at its first failure. Handlers, which a
// route wakes, go on.
func (t *tick) checkRun(i int32, from int) (verdict, int) {
	j := t.s.jobs[i]
	if from > 0 || j.Spec.FailureMode != BlockDownstream || j.Spec.Routed {
		return verdict{}, 1
	}
	f := t.failures[j.Spec.Origin.Run]
	if f == nil {
		t.s.unfailing(j.Spec.Origin.Run)
		return verdict{}, 1
	}
	if f.downstream == nil {
		f.downstream = t.s.graph.closure(f.roots, func(k int32, visit func(int32)) {
			if t.status(k) == Succeeded { // whatever it needed, it had
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
		return verdict{}, 1
	}
	return blocks(heldBack + string(f.first)).of(f.first).because(RunStopped), 1
}

// unfailing notes that a decision assumes that no failure stops run. Where one may,
// the decision needs every job.
func (s *Snapshot) unfailing(run RunID) {
	if s.near == nil || run == "" {
		return
	}
	s.near.require(Near{Kind: Stoppers, Run: run})
	if slices.ContainsFunc(s.graph.stopping[run], func(k int32) bool { return s.jobs[k].stops() }) {
		s.requireAll()
	}
}

// unhandling notes that a decision assumes that job i, which is of no run, handles no
// failure that stops one: with its end the failure would be final. Of the handlers of a
// run unfailing speaks.
func (s *Snapshot) unhandling(i int32) {
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

// heldBackBy reports that the failure of job by keeps j from starting.
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
