package kernel

import "slices"

// spent are the transient jobs whose files are to go (seed 002;
// systems-and-unification 4.8): they succeeded, every job that depends on them
// did, and nothing in their run goes on. Where something went wrong the files
// stay: whoever mends it may need them.
func (t *tick) spent() Plan {
	var p Plan
	var busy map[RunID]bool // runs that are not over, or did not end well
	for i, j := range t.s.jobs {
		if t.status[i] != Succeeded || j.State.Status != Succeeded || !j.State.Removed.IsZero() || j.Transient() != Remove {
			continue
		}
		if busy == nil {
			busy = map[RunID]bool{}
			for k, st := range t.status {
				run := t.s.jobs[k].Spec.Origin.Run
				busy[run] = busy[run] || run != "" && st != Succeeded && st != Unscheduled
			}
		}
		needed := busy[j.Spec.Origin.Run]
		t.s.graph.eachSuccessor(int32(i), func(k int32) { needed = needed || t.status[k] != Succeeded })
		if needed {
			continue
		}
		st := j.State
		st.Removed = t.s.now
		p.Actions = append(p.Actions, Strip{j.ID, slices.Clone(j.Spec.Produces)}, PutState{j.ID, j.Rev, st})
	}
	return p
}
