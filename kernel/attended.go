package kernel

import "time"

// Rest is what lets a job go on that only a tick can: one that comes when a retry
// falls due, or when something outside of all jobs has changed.
type Rest struct {
	Job JobID     // that is to go on first: the job itself, or one that it waits for
	Due time.Time // since when it has been due, or when it will be; zero: not known
	Now bool      // the next tick moves it, whatever happens
}

// Rests are the open jobs that only a tick lets go on, as a command or the end of
// a job brings one, or the resident scheduler: those that the next one moves
// first.
func (s *Snapshot) Rests() []Rest {
	s.requireAll()
	t := newTick(s)
	t.judgeAffected()
	var now, later []Rest
	for i := range s.jobs {
		if r := t.rest(int32(i)); r.Now {
			now = append(now, r)
		} else if r.Job != "" {
			later = append(later, r)
		}
	}
	return append(now, later...)
}

// rest is how job i rests on a tick alone, where it does; the zero value: it waits
// for another job or a person, or for nothing.
func (t *tick) rest(i int32) Rest {
	j := t.s.jobs[i]
	st := &j.State
	switch {
	case st.Status.Terminal(), st.Status == Running, st.Status == Unscheduled:
		return Rest{}
	case t.status(i) == Running, t.status(i).Terminal():
		return Rest{j.ID, st.RetryAt, true}
	case t.delayed(i):
		return Rest{j.ID, st.RetryAt, false}
	}
	for k := range gates {
		if v, _ := gates[k].check(t, i, 0); v.kind == waiting {
			if v.job == "" && gates[k].wakes != nil {
				return Rest{Job: j.ID}
			}
			return Rest{}
		}
	}
	return Rest{}
}

// restsOnTick is rest of job i or of the first that it waits for and that rests so.
func (x *explainer) restsOnTick(i int32, seen map[int32]bool) Rest {
	if seen[i] {
		return Rest{}
	}
	seen[i] = true
	if r := x.t.rest(i); r.Job != "" {
		return r
	}
	if st := x.t.s.jobs[i].State.Status; st.Terminal() || st == Running || st == Unscheduled {
		return Rest{}
	}
	for _, h := range x.verdicts(i) {
		if h.kind != waiting || h.job == "" {
			continue
		}
		if k, ok := x.t.s.find(h.job); ok {
			if r := x.restsOnTick(k, seen); r.Job != "" {
				return r
			}
		}
	}
	return Rest{}
}
