package kernel

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// How the reason of a cancelled job begins, and how it ends if its whole run was cancelled. A running job that is to
// stop with its run has this reason too: see State.cancelledWithRun.
const (
	cancelledBy = "cancelled by "
	withItsRun  = ", with its run"
)

// Cancel ends a job that is not terminal. Of one that has ended it gives up the routes that wait. A job that is not running ends at
// once. A running job is asked to stop; it stays running, and keeps its locks,
// until its processes are gone, and Finish or the next tick then ends it as
// cancelled with exit code 143. Cancelling a job that stands for a prompt
// cancels its whole run. With cleanup, a worktree that a cancelled job owns is
// removed. A job that only a route starts, in a run of which nothing goes on, is
// not cancelled: that would end nothing.
func Cancel(s *Snapshot, id JobID, by string, cleanup bool) (Plan, error) {
	return CancelIn(s, nil, id, by, cleanup)
}

// CancelIn is Cancel of a job where runs are cancelled as a whole: no route of their
// jobs is taken, since it would begin again what is to end.
func CancelIn(s *Snapshot, runs []RunID, id JobID, by string, cleanup bool) (Plan, error) {
	j := s.Job(id)
	if j == nil {
		return Plan{}, fmt.Errorf("cancel %s: %w", id, ErrNotFound)
	}
	run := j.Spec.Origin.Run
	all := j.Spec.Prompt != nil && run != ""
	whole := all || run != "" && slices.Contains(runs, run)
	p, err := s.cancel(j, by, cleanup, whole)
	if err != nil || !all {
		return p, err
	}
	s.requireAll()
	d := NewDraft(s)
	d.Add(p)
	for _, k := range s.jobs {
		if k.ID == id || k.Spec.Origin.Run != run {
			continue
		}
		if k = d.s.Job(k.ID); !k.State.UnderWay() {
			continue
		}
		q, err := d.s.cancel(k, by, cleanup, true)
		if err != nil {
			return Plan{}, err
		}
		d.Add(q)
	}
	return d.plan, nil
}

// DependentsFirst returns the order in which jobs are cancelled together, each once: a job
// that ended first would end those after it in another way. Unknown jobs come first.
func (s *Snapshot) DependentsFirst(ids []JobID) []JobID {
	ids = slices.Clone(ids)
	slices.SortFunc(ids, func(a, b JobID) int {
		x, y := s.Job(a), s.Job(b)
		switch {
		case x != nil && y != nil:
			return y.Compare(x)
		case x == nil && y == nil:
			return cmp.Compare(a, b)
		case x == nil:
			return -1
		}
		return 1
	})
	return slices.Compact(ids)
}

func (s *Snapshot) cancel(j *Job, by string, cleanup, whole bool) (Plan, error) {
	id := j.ID
	st := j.State
	reason := cancelledBy + cmp.Or(by, "unknown")
	if whole {
		reason += withItsRun
	}
	if st.Deferred {
		st.Deferred = false
		own := *j
		own.State = st
		return s.note(&own, "its routes are not taken: "+reason), nil
	}
	if st.Status.Terminal() {
		return Plan{}, fmt.Errorf("nothing to cancel: job %s has ended (%s): %w", id, st.Status, ErrConflict)
	}
	if j.unrouted() && st.Status == Unscheduled && s.dormant(j) != "" {
		return Plan{}, fmt.Errorf("nothing to cancel: job %s sleeps, and nothing of its run goes on: %w", id, ErrConflict)
	}
	if st.Status == Running {
		p := Plan{}
		if st.Stop.At.IsZero() {
			st.Stop = StopRequest{s.now, by, cleanup}
		}
		if whole {
			st.Reason = reason
		}
		if st != j.State {
			p.add(PutState{id, j.Rev, st})
		}
		p.add(Stop{j.Attempt()})
		return p, nil
	}
	st.Status, st.Finished, st.Exit, st.Outcome = Cancelled, s.now, Exited(143), OutcomeCancelled
	st.Wait, st.WaitSince, st.RetryAt = WaitReason{}, time.Time{}, time.Time{}
	st.Failure, st.Reason = NoFailure, reason
	st.Cancelled.Status = CleanupSkipped
	p := NewPlan(PutState{id, j.Rev, st})
	if !whole {
		p = s.withRoutes(p, j)
	}
	if cleanup && st.Context.Owned {
		p.add(RemoveWorktree{id, st.Context, true})
	}
	return p, nil
}

// cancelledWithRun reports whether the job of st was asked to stop, or was cancelled, together with its whole run.
// Then it takes no route.
func (st *State) cancelledWithRun() bool {
	return strings.HasPrefix(st.Reason, cancelledBy) && strings.HasSuffix(st.Reason, withItsRun)
}
