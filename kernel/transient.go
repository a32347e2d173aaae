package kernel

import "slices"

// purgeable returns the plan that purges the files of transient jobs that are
// no longer needed (seed 002; systems-and-unification 4.8): the job and all its
// dependents succeeded, and no job of its run is still to end. After a failure
// the files stay, since whoever fixes it may need them.
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
		t.s.graph.eachConsumer(Artifact{Kind: CommandPatch, Name: string(j.ID)}, reader) // the patch is purged even if it is not declared
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

// unfinished returns the runs that have a job which has not ended or did not
// succeed. Sleeping jobs do not count.
func (t *tick) unfinished() map[RunID]bool {
	runs := map[RunID]bool{}
	for k, j := range t.s.jobs {
		if st := t.status(int32(k)); j.Spec.Origin.Run != "" && st != Succeeded && st != Unscheduled {
			runs[j.Spec.Origin.Run] = true
		}
	}
	return runs
}
