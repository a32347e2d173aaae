package kernel

import (
	"cmp"
	"time"
)

// DefaultGrace is the time between TERM and KILL unless a job or the
// configuration sets another.
const DefaultGrace = 10 * time.Second

// overtime is how much longer than its limit and its grace an attempt may take
// before somebody other than its runner ends it. The runner also has to end
// what the command left running, and the machine may be busy.
const overtime = 10 * time.Second

// Overdue returns the running attempts whose time limit passed so long ago that
// their runners cannot be working, for example because they were stopped.
// Limits are in wall-clock time, also while processes sleep.
func (s *Snapshot) Overdue() []AttemptID {
	var out []AttemptID
	for _, i := range s.running {
		if at := s.jobs[i].overdue(s.limits.Grace); !at.IsZero() && !s.now.Before(at) && !s.gone(s.jobs[i]) {
			out = append(out, s.jobs[i].Attempt())
		}
	}
	return out
}

// overdue returns when somebody other than its runner is to end j's running
// attempt, or zero for never. Executors other than the local one enforce their
// limits themselves.
func (j *Job) overdue(grace time.Duration) time.Time {
	t := &j.Spec.Task
	if t.Timeout <= 0 || t.On() != LocalExecutor || j.State.Started.IsZero() {
		return time.Time{}
	}
	return j.State.Started.Add(t.Timeout + cmp.Or(t.Grace, grace, DefaultGrace) + overtime)
}
