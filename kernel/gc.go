package kernel

import (
	"maps"
	"slices"
	"time"
)

// GC removes terminal jobs that ended (or, never having run, were created)
// before olderThan ago. It keeps what a route of an open job may rewind, and
// whatever that or an open job refers to: its predecessors, the jobs whose
// patch it needs, and of each artifact it needs the newest producer, the newest
// that succeeded and the owners of its markers; where the markers are not
// known, every producer; the tokens of plans that are not merged; and what did not succeed in a run that stops at its
// first failure. A run's manifest goes with its last job.
// The snapshot must hold every job.
// A job whose worktree is still there keeps its record: see GCWorktrees.
func GC(s *Snapshot, olderThan time.Duration) Plan {
	var p Plan
	for _, j := range s.collectable(s.olderThan(olderThan)) {
		if !j.State.Context.Owned {
			p.add(RemoveJob{j.ID, j.Spec.Produces})
		}
	}
	s.dropEmptied(&p)
	return p
}

// GCWorktrees is the first half of it: the worktrees that such jobs own go, parked
// where nothing else keeps their work, while there are still records to say what
// came of it.
func GCWorktrees(s *Snapshot, olderThan time.Duration) Plan {
	var p Plan
	for _, j := range s.collectable(s.olderThan(olderThan)) {
		if c := j.State.Context; c.Owned {
			p.add(RemoveWorktree{Job: j.ID, Context: c})
		}
	}
	return p
}

func (s *Snapshot) olderThan(age time.Duration) func(*Job) bool {
	return func(j *Job) bool { return s.now.Sub(j.over()) > age }
}

// over is when j ended or, if it never ran, was created.
func (j *Job) over() time.Time {
	if j.State.Finished.IsZero() {
		return j.Created
	}
	return j.State.Finished
}

// collectable are the jobs that a GC is about, of those that are old.
func (s *Snapshot) collectable(old func(*Job) bool) []*Job {
	s.requireAll()
	// A sleeper goes with its run, unless something that stays refers to it.
	active := s.activeRuns()
	stays := map[JobID]bool{}
	for _, j := range s.jobs {
		stays[j.ID] = j.Open() && (j.State.Status != Unscheduled || active[j.Spec.Origin.Run] || !old(j))
	}
	keep := s.referred(stays)
	for again := true; again; {
		again = false
		for _, j := range s.jobs {
			if j.Open() && keep[j.ID] && !stays[j.ID] {
				stays[j.ID], again = true, true
			}
		}
		if again {
			keep = s.referred(stays)
		}
	}
	s.keepTokens(keep)
	s.keepConflicts(keep)
	var gone []*Job
	for _, j := range s.jobs {
		if !stays[j.ID] && !keep[j.ID] && old(j) && !j.HoldsPrompt() {
			gone = append(gone, j)
		}
	}
	return gone
}

// keepConflicts keeps the runs of merges that came to a conflict, until a later
// merge of the plan succeeds: a person may be at work on it, however long ago the
// run ended.
func (s *Snapshot) keepConflicts(keep map[JobID]bool) {
	conflict := map[string]RunID{}
	for _, j := range s.jobs {
		switch plan := j.Spec.plan(); {
		case plan == "":
		case j.State.Status == Succeeded:
			delete(conflict, plan)
		case j.State.Status == BlockedByDependency && j.State.Outcome == OutcomeBlocked:
			conflict[plan] = j.Spec.Origin.Run
		}
	}
	runs := slices.Collect(maps.Values(conflict))
	for _, j := range s.jobs {
		if run := j.Spec.Origin.Run; run != "" && slices.Contains(runs, run) {
			keep[j.ID] = true
		}
	}
}

// keepTokens keeps the newest token of each stage of a plan that no merge has used
// up: nobody may need it yet, and the plan is to be merged.
func (s *Snapshot) keepTokens(keep map[JobID]bool) {
	newest := map[Artifact]JobID{}
	for _, j := range s.jobs {
		for _, a := range j.Spec.Produces {
			if a.Kind == Custom && a.Name == stageToken && j.State.Status == Succeeded && !j.State.Retired {
				newest[a] = j.ID
			}
		}
	}
	for _, id := range newest {
		keep[id] = true
	}
}

// referred is what jobs that stay refer to, and what their routes may rewind.
func (s *Snapshot) referred(stays map[JobID]bool) map[JobID]bool {
	keep := map[JobID]bool{}
	stops := map[RunID]bool{} // runs whose jobs are judged by the failures among them
	for _, i := range s.live(stays) {
		j := s.jobs[i]
		keep[j.ID] = true
		stops[j.Spec.Origin.Run] = stops[j.Spec.Origin.Run] || j.Spec.FailureMode == BlockDownstream
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
	for _, j := range s.jobs {
		if j.Spec.Origin.Run != "" && stops[j.Spec.Origin.Run] && j.State.Status != Succeeded {
			keep[j.ID] = true
		}
	}
	return keep
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

// live are the jobs that stay and those that their routes may rewind, with what
// depends on them: all that may yet be judged.
func (s *Snapshot) live(stays map[JobID]bool) []int32 {
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
		if stays[j.ID] {
			open = append(open, int32(i))
			routes(int32(i), func(k int32) { targets = append(targets, k) })
		}
	}
	rewound := g.closure(targets, func(i int32, f func(int32)) {
		g.eachSuccessor(i, f)
		s.eachHeldBack(i, f)
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
		if a.Kind == Custom && !markers.Known || newest.State.Status == Unscheduled { // demand may wake it
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
