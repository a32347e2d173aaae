package kernel

import "time"

// GC removes terminal jobs that ended (or, never having run, were created)
// before olderThan ago. It keeps whatever an open job refers to: its
// predecessors, the jobs whose patch it needs, and the newest producer of
// each artifact it needs. The snapshot must hold every job.
func GC(s *Snapshot, olderThan time.Duration) Plan {
	keep := map[JobID]bool{}
	for i, j := range s.jobs {
		if !j.Open() {
			continue
		}
		for _, id := range j.Spec.After {
			keep[id] = true
		}
		for _, r := range j.Spec.Routes {
			keep[r.To] = true
		}
		for _, a := range j.Spec.Needs {
			if a.Kind == CommandPatch {
				keep[JobID(a.Name)] = true
			}
			s.graph.keepProducers(int32(i), a, s.facts.Markers[a].Value, keep)
		}
	}
	var p Plan
	for _, j := range s.jobs {
		at := j.State.Finished
		if at.IsZero() {
			at = j.Created
		}
		if j.Open() || keep[j.ID] || s.now.Sub(at) <= olderThan {
			continue
		}
		p.Actions = append(p.Actions, RemoveJob{j.ID, j.Spec.Produces})
	}
	return p
}

// keepProducers keeps the newest producer of a that counts for consumer and
// every job whose marker makes a exist.
func (g *graph) keepProducers(consumer int32, a Artifact, markers []JobID, keep map[JobID]bool) {
	newest := int32(-1)
	g.eachProducer(consumer, a, func(p int32) { newest = max(newest, p) })
	if newest >= 0 {
		keep[g.jobs[newest].ID] = true
	}
	for _, id := range markers {
		keep[id] = true
	}
}
