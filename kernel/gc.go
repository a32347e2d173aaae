package kernel

import (
	"slices"
	"time"
)

// GC removes terminal jobs that ended (or, never having run, were created)
// before olderThan ago. It keeps what a route of an open job may rewind, and
// whatever that or an open job refers to: its predecessors, the jobs whose
// patch it needs, and of each artifact it needs the newest producer, the newest
// that succeeded and the owners of its markers; where the markers are not
// known, every producer. A run's manifest goes with its last job.
// The snapshot must hold every job.
func GC(s *Snapshot, olderThan time.Duration) Plan {
	active := s.activeRuns()
	keep := map[JobID]bool{}
	for _, i := range s.live(active) {
		j := s.jobs[i]
		keep[j.ID] = true
		for _, id := range j.Spec.After {
			keep[id] = true
		}
		for _, a := range j.Spec.Needs {
			if a.Kind == CommandPatch {
				keep[JobID(a.Name)] = true
			}
			s.keepProducers(i, a, keep)
		}
	}
	var p Plan
	for _, j := range s.jobs {
		at := j.State.Finished
		if at.IsZero() {
			at = j.Created
		}
		if s.awaited(j, active) || keep[j.ID] || s.now.Sub(at) <= olderThan {
			continue
		}
		p.Actions = append(p.Actions, RemoveJob{j.ID, j.Spec.Produces})
	}
	p.Actions = append(p.Actions, s.emptied(p)...)
	return p
}

// activeRuns are the runs that something may still happen in.
func (s *Snapshot) activeRuns() map[RunID]bool {
	active := map[RunID]bool{}
	for _, j := range s.jobs {
		if j.State.Status.Active() {
			active[j.Spec.Origin.Run] = true
		}
	}
	return active
}

// awaited reports that j may still run by itself. A sleeper may not once its
// run is over: no route of it can fire any more.
func (s *Snapshot) awaited(j *Job, active map[RunID]bool) bool {
	return j.State.Status.Active() || j.State.Status == Unscheduled && active[j.Spec.Origin.Run]
}

// live are the open jobs and those that their routes may rewind, with what
// depends on them: all that may yet be judged.
func (s *Snapshot) live(active map[RunID]bool) []int32 {
	g := s.graph
	routes := func(i int32, f func(int32)) {
		for _, r := range s.jobs[i].Spec.Routes {
			if k, ok := g.index[r.To]; ok {
				f(k)
			}
		}
	}
	var open, targets []int32
	for i, j := range s.jobs {
		if s.awaited(j, active) {
			open = append(open, int32(i))
			routes(int32(i), func(k int32) { targets = append(targets, k) })
		}
	}
	rewound := g.closure(targets, func(i int32, f func(int32)) {
		g.eachSuccessor(i, f)
		routes(i, f)
	})
	all := append(open, rewound...)
	slices.Sort(all)
	return slices.Compact(all)
}

// keepProducers keeps the producers of a that the judgement of consumer rests
// on, and every job whose marker makes a exist.
func (s *Snapshot) keepProducers(consumer int32, a Artifact, keep map[JobID]bool) {
	markers := s.facts.Markers[a]
	var newest, succeeded *Job
	s.graph.eachProducer(consumer, a, func(p int32) {
		newest = s.jobs[p]
		if newest.State.Status == Succeeded {
			succeeded = newest
		}
		if a.Kind == Custom && !markers.Known {
			keep[newest.ID] = true
		}
	})
	for _, j := range []*Job{newest, succeeded} {
		if j != nil {
			keep[j.ID] = true
		}
	}
	for _, id := range markers.Value {
		keep[id] = true
	}
}
