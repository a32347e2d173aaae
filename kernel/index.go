package kernel

import (
	"slices"
	"time"
)

// listed are the statuses whose jobs a tick, its probes or its wakes go
// through: there may be few of them among many.
var listed = [...]Status{Queued, WaitingOnApproval, WaitingOnLocks, Running, FailedRetryable}

// Due is when the clock alone moves j: a retry, a launch that was refused, an
// approval that expires. The zero time means at the next tick; ever is false where
// the clock never does.
func (j *Job) Due() (at time.Time, ever bool) {
	switch st := &j.State; st.Status {
	case FailedRetryable, Queued:
		return st.RetryAt, true
	case WaitingOnApproval:
		return st.Approval.ExpiresAt, st.Approval.State == Pending && !st.Approval.ExpiresAt.IsZero()
	default:
		return time.Time{}, false
	}
}

// timed are the jobs that the clock may move.
func (s *Snapshot) timed() []int32 {
	return slices.Concat(s.in[FailedRetryable], s.in[Queued], s.in[WaitingOnApproval])
}

// index rebuilds the lists of jobs by status.
func (s *Snapshot) index() {
	s.in = [FailedRetryable + 1][]int32{}
	for i, j := range s.jobs {
		if st := j.State.Status; slices.Contains(listed[:], st) {
			s.in[st] = append(s.in[st], int32(i))
		}
	}
}

// reindex updates the lists of s, a copy of was in which the states of the jobs at
// which were replaced.
func (s *Snapshot) reindex(was *Snapshot, which []int32) {
	if len(which) == 0 {
		return
	}
	slices.Sort(which)
	which = slices.Compact(which)
	for _, st := range listed {
		here := func(i int32) bool { return s.jobs[i].State.Status == st }
		if slices.ContainsFunc(which, func(i int32) bool { return here(i) != (was.jobs[i].State.Status == st) }) {
			s.in[st] = reindexed(s.in[st], which, here)
		}
	}
}

// reindexed is list without the positions in which, and with those of them that
// here holds for.
func reindexed(index, which []int32, here func(int32) bool) []int32 {
	out := make([]int32, 0, len(index)+len(which))
	for _, i := range index {
		for len(which) > 0 && which[0] < i {
			if here(which[0]) {
				out = append(out, which[0])
			}
			which = which[1:]
		}
		if len(which) == 0 || which[0] != i {
			out = append(out, i)
		}
	}
	for _, i := range which {
		if here(i) {
			out = append(out, i)
		}
	}
	return out
}
