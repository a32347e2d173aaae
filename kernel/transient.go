package kernel

import "slices"

// purgeable is the plan for the transient jobs whose files are to go (seed 002;
// systems-and-unification 4.8): they succeeded, every job that depends on them
// did, and nothing in their run goes on. Where something went wrong the files
// stay: whoever mends it may need them.
func (t *tick) purgeable() Plan {
	var p Plan
	var unfinished map[RunID]bool
	for _, i := range t.s.graph.transients {
		j := t.s.jobs[i]
		if t.status(i) != Succeeded || j.State.Status != Succeeded || !j.State.Removed.IsZero() || j.Transient() != Remove {
			continue
		}
		needed := false
		reader := func(k int32) { needed = needed || t.status(k) != Succeeded }
		t.s.graph.eachSuccessor(i, reader)
		t.s.graph.eachConsumer(Artifact{Kind: CommandPatch, Name: string(j.ID)}, reader) // declared or not, it goes too
		if unfinished == nil {
			unfinished = t.unfinished()
		}
		if needed || unfinished[j.Spec.Origin.Run] {
			continue
		}
		st := j.State
		st.Removed = t.s.now
		p.add(PurgeFiles{j.ID, slices.Clone(j.Spec.Produces)}, PutState{j.ID, j.Rev, st})
	}
	return p
}

// unfinished are the runs of which some job is still to end, or did not end well.
func (t *tick) unfinished() map[RunID]bool {
	runs := map[RunID]bool{}
	for k, j := range t.s.jobs {
		if st := t.status(int32(k)); j.Spec.Origin.Run != "" && st != Succeeded && st != Unscheduled {
			runs[j.Spec.Origin.Run] = true
		}
	}
	return runs
}
