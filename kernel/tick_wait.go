package kernel

import "time"

// TickWait says that a job waits for a tick, and for no other job or person: its retry
// falls due, or something outside of all jobs changes. The zero value: it does not.
type TickWait struct {
	Job JobID     // the job that continues first: the job itself, or one that it waits for
	Due time.Time // since when it has been due, or when it will be; zero: not known
	Now bool      // the next tick moves it, whatever happens
}

// TickWaits returns the TickWait of each open job that has one; those that the next tick
// moves come first. A tick comes with a command, with the end of a job, or from the resident
// scheduler.
func (s *Snapshot) TickWaits() []TickWait {
	s.requireAll()
	t := newTick(s)
	t.judgeDirty()
	var now, later []TickWait
	for i := range s.jobs {
		if r := t.tickWait(int32(i)); r.Now {
			now = append(now, r)
		} else if r.Job != "" {
			later = append(later, r)
		}
	}
	return append(now, later...)
}

// tickWait returns the TickWait of job i; the zero value if it waits for another job, a
// person or nothing.
func (t *tick) tickWait(i int32) TickWait {
	j := t.s.jobs[i]
	st := &j.State
	switch {
	case st.Status.Terminal(), st.Status == Running, st.Status == Unscheduled:
		return TickWait{}
	case t.status(i) == Running, t.status(i).Terminal():
		r := TickWait{j.ID, st.RetryAt, true}
		if st.RetryAt.After(t.s.now) { // the clock was set back
			r.Due = time.Time{}
		}
		return r
	case t.delayed(i):
		return TickWait{j.ID, st.RetryAt, false}
	}
	for k := range gates {
		if v, _ := gates[k].check(t, i, 0); v.kind == waiting {
			if v.job == "" && gates[k].wakes != nil {
				return TickWait{Job: j.ID}
			}
			return TickWait{}
		}
	}
	return TickWait{}
}

// tickWait returns the TickWait of job i or, if it waits for other jobs, of the first of them
// that has one.
func (x *explainer) tickWait(i int32, seen map[int32]bool) TickWait {
	if seen[i] {
		return TickWait{}
	}
	seen[i] = true
	if r := x.t.tickWait(i); r.Job != "" {
		return r
	}
	if st := x.t.s.jobs[i].State.Status; st.Terminal() || st == Running || st == Unscheduled {
		return TickWait{}
	}
	for _, h := range x.verdicts(i) {
		if h.kind != waiting || h.job == "" {
			continue
		}
		if k, ok := x.t.s.find(h.job); ok {
			if r := x.tickWait(k, seen); r.Job != "" {
				return r
			}
		}
	}
	return TickWait{}
}
