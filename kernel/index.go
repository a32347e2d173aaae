package kernel

import (
	"slices"
	"time"
)

// listed are the statuses whose jobs a tick, its probes or its wakes visit. There may be
// few such jobs among many.
var listed = [...]Status{Queued, WaitingOnApproval, WaitingOnLocks, Running, FailedRetryable}

// Due returns when the clock alone moves j: a retry, a launch that was refused, an
// approval that expires. The zero time means at the next tick; ever is false if the clock
// never does.
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

// timed returns the jobs that the clock may move.
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

// move is a job whose state was replaced, and the status it had before.
type move struct {
	at   int32
	from Status
}

// reindex updates the lists, which s must not share with another snapshot.
func (s *Snapshot) reindex(moved []move) {
	const few = 64
	if len(moved) > few {
		s.index()
		return
	}
	for _, m := range moved {
		now := s.jobs[m.at].State.Status
		if slices.Contains(listed[:], m.from) && m.from != now {
			if k, there := slices.BinarySearch(s.in[m.from], m.at); there {
				s.in[m.from] = slices.Delete(s.in[m.from], k, k+1)
			}
		}
		if slices.Contains(listed[:], now) {
			if k, there := slices.BinarySearch(s.in[now], m.at); !there {
				s.in[now] = slices.Insert(s.in[now], k, m.at)
			}
		}
	}
}
