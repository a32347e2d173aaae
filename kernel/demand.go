package kernel

// wake moves jobs into and out of Unscheduled and reports whether any job is
// transient. Demand is a least fixpoint: a job that waits to run and is not
// transient demands its predecessors and the producers of the artifacts that it
// lacks, and a demanded transient job demands in turn (seed 002;
// systems-and-unification 4.8). A job that only a route starts sleeps until a
// route has woken it.
func (t *tick) wake() bool {
	t.s.requireAll()
	transients := false
	for i, j := range t.s.jobs {
		transient := j.Transient() != NotTransient
		transients = transients || transient
		if (transient || j.unrouted()) && t.idle(int32(i)) {
			t.of(int32(i)).status = Unscheduled
		}
	}
	if transients {
		t.demandTransients()
	}
	return transients
}

// unrouted reports whether only a route can start j and none has.
func (j *Job) unrouted() bool { return j.Spec.Routed && !j.State.Awake }

// idle reports whether job i is open, with no attempt under way or due later.
func (t *tick) idle(i int32) bool {
	s := t.status(i)
	return s == Queued || s.Waiting() || s == FailedRetryable && t.s.jobs[i].Delayed(t.s.now).IsZero()
}

func (t *tick) demandTransients() {
	var queue []int32 // jobs that wait to run and whose needs have not been visited
	look := func(i int32) {
		if s := t.status(i); s.Active() && s != Running {
			queue = append(queue, i)
		}
	}
	for i := range t.s.jobs {
		look(int32(i))
	}
	for at := 0; at < len(queue); at++ {
		t.eachMissing(queue[at], func(p int32) {
			if j := t.s.jobs[p]; t.status(p) != Unscheduled || j.Transient() == NotTransient || j.unrouted() {
				return
			}
			v := t.of(p)
			if v.status = t.s.jobs[p].State.Status; v.status == Unscheduled {
				v.status = Queued
			}
			look(p)
			t.s.graph.eachSuccessor(p, look) // p may supersede a token that they relied on
		})
	}
}

// eachMissing calls f with the predecessors of i and with the producers of the
// artifacts that i needs and that do not exist yet.
func (t *tick) eachMissing(i int32, f func(int32)) {
	for _, id := range t.s.jobs[i].Spec.After {
		if k, ok := t.s.find(id); ok {
			f(k)
		}
	}
	for _, a := range t.s.jobs[i].Spec.Needs {
		if exists, _ := t.exists(i, a); !exists {
			t.eachMaker(i, a, f)
		}
	}
}

// promotable reports whether job p sleeps. As a producer it counts as active,
// since demand or a route may wake it: no consumer is blocked because of it.
func (t *tick) promotable(p int32) bool { return t.status(p) == Unscheduled }
