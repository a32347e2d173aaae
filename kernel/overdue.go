package kernel

import (
	"cmp"
	"time"
)

// DefaultGrace is the time between TERM and KILL where nothing else is said.
const DefaultGrace = 10 * time.Second

// overtime is how much longer than its limit and its grace an attempt may take
// before somebody else than its runner ends it: the runner also ends what the
// command leaves running, and has other work on a busy machine.
const overtime = 10 * time.Second

// Overdue are the running attempts whose time limit is over for so long that
// their runners cannot be at it: they were stopped, say. A limit is of time by
// the clock, whoever sleeps meanwhile.
func (s *Snapshot) Overdue() []AttemptID {
	var out []AttemptID
	for _, i := range s.in[Running] {
		if at := s.jobs[i].overdue(s.limits.Grace); !at.IsZero() && !s.now.Before(at) && !s.gone(s.jobs[i]) {
			out = append(out, s.jobs[i].Attempt())
		}
	}
	return out
}

// overdue is when j's running attempt is to be ended by somebody else than its
// runner; zero: never. Other executors than the local one see to their limits.
func (j *Job) overdue(grace time.Duration) time.Time {
	t := &j.Spec.Task
	if t.Timeout <= 0 || t.On() != LocalExecutor || j.State.Started.IsZero() {
		return time.Time{}
	}
	return j.State.Started.Add(t.Timeout + cmp.Or(t.Grace, grace, DefaultGrace) + overtime)
}
