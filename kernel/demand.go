package kernel

// wake moves jobs in and out of Unscheduled. Demand is a least fixpoint: every
// job that is not transient and waits to run demands what it depends on and
// the producers of what it misses; a demanded transient job demands in turn
// (seed 002; systems-and-unification 4.8). A job that only a route starts
// sleeps until one has.
func (t *tick) wake() {
	transient := false
	for i, j := range t.s.jobs {
		if j.Spec.Routed && !j.State.Awake && t.unstarted(int32(i)) {
			t.status[i] = Unscheduled
		}
		transient = transient || j.Spec.Transient != NotTransient
	}
	if transient {
		t.demandTransients()
	}
	for i, j := range t.s.jobs {
		if _, ended := t.settled[int32(i)]; ended || t.status[i] == j.State.Status {
			continue
		}
		st := j.State
		st.Status, st.Wait = t.status[i], WaitReason{}
		t.put(int32(i), st)
	}
}

// unstarted reports that job i is open and none of its attempts is under way
// or due.
func (t *tick) unstarted(i int32) bool {
	s := t.status[i]
	return s == Unscheduled || s == Queued || s.Waiting()
}

func (t *tick) demandTransients() {
	t.demand = make([]bool, len(t.s.jobs))
	var queue []int32
	ask := func(p int32) {
		if !t.demand[p] && t.s.jobs[p].Spec.Transient != NotTransient && t.unstarted(p) {
			t.demand[p] = true
			queue = append(queue, p)
		}
	}
	for i, j := range t.s.jobs {
		if j.Spec.Transient == NotTransient && t.status[i] != Unscheduled && (t.unstarted(int32(i)) || t.status[i] == FailedRetryable) {
			t.eachMissing(int32(i), ask)
		}
	}
	for at := 0; at < len(queue); at++ {
		t.eachMissing(queue[at], ask)
	}
	for i, j := range t.s.jobs {
		if j.Spec.Transient == NotTransient || !t.unstarted(int32(i)) || j.Spec.Routed && !j.State.Awake {
			continue
		}
		switch {
		case !t.demand[i]:
			t.status[i] = Unscheduled
		case t.status[i] == Unscheduled:
			t.status[i] = Queued
		}
	}
}

// eachMissing calls f with the predecessors of i and the producers of the
// artifacts that do not exist for it.
func (t *tick) eachMissing(i int32, f func(int32)) {
	for _, id := range t.s.jobs[i].Spec.After {
		if k, ok := t.s.graph.index[id]; ok {
			f(k)
		}
	}
	for _, a := range t.s.jobs[i].Spec.Needs {
		if exists, _ := t.exists(i, a); !exists {
			t.s.graph.eachProducer(i, a, f)
		}
	}
}

// promotable reports that job p sleeps, and waking it is only a matter of
// demand or of a route: as a producer it counts as active, so that nobody is
// blocked for want of it.
func (t *tick) promotable(p int32) bool { return t.status[p] == Unscheduled }
