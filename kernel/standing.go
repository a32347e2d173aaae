package kernel

import (
	"slices"
	"time"
)

// listed are the statuses whose jobs a tick, its probes or its wakes go
// through: there may be few of them among many.
var listed = [...]Status{Queued, WaitingOnApproval, WaitingOnLocks, Running, FailedRetryable}

// Due is when the clock alone moves j, if it ever does: a retry, a launch that was
// refused, an approval that expires. The zero time is at the next tick.
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

// list makes the lists of s anew.
func (s *Snapshot) list() {
	s.in = [FailedRetryable + 1][]int32{}
	for i, j := range s.jobs {
		if st := j.State.Status; slices.Contains(listed[:], st) {
			s.in[st] = append(s.in[st], int32(i))
		}
	}
}

// moves is s, a copy of was, after the states of some jobs were replaced.
func (s *Snapshot) moves(was *Snapshot, which []int32) {
	if len(which) == 0 {
		return
	}
	slices.Sort(which)
	which = slices.Compact(which)
	for _, st := range listed {
		here := func(i int32) bool { return s.jobs[i].State.Status == st }
		if slices.ContainsFunc(which, func(i int32) bool { return here(i) != (was.jobs[i].State.Status == st) }) {
			s.in[st] = relisted(s.in[st], which, here)
		}
	}
}

// relisted is list, where those of which are in it that are here.
func relisted(list, which []int32, here func(int32) bool) []int32 {
	out := make([]int32, 0, len(list)+len(which))
	for _, i := range list {
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
