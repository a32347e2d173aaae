// Package retention decides which records of ended jobs are removed: by age
// (GC), by the bounds in a configuration (Apply), or because a person names a
// job (Clean). Like the kernel's verbs its functions are pure and return plans.
package retention

import (
	"maps"
	"slices"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// GC removes terminal jobs that ended (or, if they never ran, were created)
// before olderThan ago. It keeps:
//
//   - what a route of an open job may rewind;
//   - what that or an open job refers to: its predecessors, the jobs whose patch it needs and, of each artifact it needs, the newest producer, the newest successful one and the owners of its markers, or every producer if the markers are not known;
//   - the tokens of plans that are not merged;
//   - the merges in conflict.
//
// A run goes as a whole, with its manifest, or stays. A job whose worktree still exists
// keeps its record: see GCWorktrees. The snapshot must hold every job.
func GC(s *kernel.Snapshot, olderThan time.Duration) kernel.Plan {
	return remove(s, slices.DeleteFunc(collectable(s, endedBefore(s, olderThan)), ownsWorktree))
}

// GCWorktrees returns the plan for the first half of a GC: it removes the
// worktrees that the jobs own, while their records still exist and can hold the
// result. Work that is kept nowhere else is parked.
func GCWorktrees(s *kernel.Snapshot, olderThan time.Duration) kernel.Plan {
	return removeWorktrees(collectable(s, endedBefore(s, olderThan)))
}

func ownsWorktree(j *kernel.Job) bool { return j.State.Context.Owned }

// removeWorktrees returns the plan that removes the worktrees that jobs own.
func removeWorktrees(jobs []*kernel.Job) kernel.Plan {
	var all []kernel.Action
	for _, j := range jobs {
		if ownsWorktree(j) {
			all = append(all, kernel.RemoveWorktree{Job: j.ID, Context: j.State.Context})
		}
	}
	return kernel.NewPlan(all...)
}

// remove returns the plan that removes jobs, and the manifest of each run with
// its last job. An unreadable record may belong to any run, so no manifest is
// removed while there is one.
func remove(s *kernel.Snapshot, jobs []*kernel.Job) kernel.Plan {
	left := map[kernel.RunID]int{}
	for _, j := range s.Jobs() {
		left[j.Spec.Origin.Run]++
	}
	var records, runs []kernel.Action
	for _, j := range jobs {
		records = append(records, kernel.RemoveJob{Job: j.ID, Produces: j.Spec.Produces})
		run := j.Spec.Origin.Run
		if left[run]--; left[run] == 0 && run != "" && len(s.UnreadableIDs()) == 0 {
			runs = append(runs, kernel.RemoveRun{Run: run})
		}
	}
	return kernel.NewPlan(append(records, runs...)...)
}

func endedBefore(s *kernel.Snapshot, age time.Duration) func(*kernel.Job) bool {
	return func(j *kernel.Job) bool { return s.Now().Sub(over(j)) > age }
}

// over returns when j ended or, if it never ran, when it was created.
func over(j *kernel.Job) time.Time {
	if j.State.Finished.IsZero() {
		return j.Created
	}
	return j.State.Finished
}

// collectable returns the jobs that a GC may remove, of those for which old is
// true. A run goes as a whole.
func collectable(s *kernel.Snapshot, old func(*kernel.Job) bool) (gone []*kernel.Job) {
	active := map[kernel.RunID]bool{} // "": jobs without a run, which may demand a dormant one
	for _, j := range s.Jobs() {
		active[j.Spec.Origin.Run] = active[j.Spec.Origin.Run] || j.State.Status.Active()
	}
	stays := map[kernel.JobID]bool{}
	for _, j := range s.Jobs() {
		stays[j.ID] = j.State.Deferred || j.Open() && (j.State.Status != kernel.Unscheduled || active[j.Spec.Origin.Run] || !old(j))
	}
	for again := true; again; {
		keep := referred(s, stays)
		keepTokens(s, keep)
		keepConflicts(s, keep)
		runs := map[kernel.RunID]bool{} // runs that stay
		goes := func(j *kernel.Job) bool {
			return !stays[j.ID] && !keep[j.ID] && !runs[j.Spec.Origin.Run] && old(j) && !j.HoldsPrompt()
		}
		for _, j := range s.Jobs() {
			if run := j.Spec.Origin.Run; run != "" && !goes(j) {
				runs[run] = true
			}
		}
		again, gone = false, nil
		for _, j := range s.Jobs() {
			switch {
			case goes(j):
				gone = append(gone, j)
			case j.Open() && !stays[j.ID]: // dormant: it may be woken, and then needs what it refers to
				stays[j.ID], again = true, true
			}
		}
	}
	return gone
}

// keepConflicts keeps the merges that ended in a conflict until a later merge of the
// plan's branch succeeds. A person may be working on the conflict, however
// long ago the run ended.
func keepConflicts(s *kernel.Snapshot, keep map[kernel.JobID]bool) {
	type on struct{ plan, branch string }
	conflict := map[on][]kernel.JobID{}
	for _, j := range s.Jobs() {
		switch of := (on{j.Spec.Integrates(), j.Spec.Origin.Branch}); {
		case of.plan == "":
		case j.State.Status == kernel.Succeeded:
			delete(conflict, of)
		case j.State.Status == kernel.BlockedByDependency && j.State.Outcome == kernel.OutcomeBlocked:
			conflict[of] = append(conflict[of], j.ID)
		}
	}
	for _, merges := range conflict {
		for _, id := range merges {
			keep[id] = true
		}
	}
}

// keepTokens keeps, for each stage of a plan on a branch, the newest token that no merge
// has used up: the plan is still to be merged, even if no job needs the token
// yet.
func keepTokens(s *kernel.Snapshot, keep map[kernel.JobID]bool) {
	type on struct {
		stage  kernel.Artifact
		branch string
	}
	newest := map[on]kernel.JobID{}
	for _, j := range s.Jobs() {
		for _, a := range j.Spec.Produces {
			if a.Kind == kernel.Custom && a.Name == kernel.StageToken && j.State.Status == kernel.Succeeded && !j.State.Retired {
				newest[on{a, j.Spec.Origin.Branch}] = j.ID
			}
		}
	}
	for _, id := range newest {
		keep[id] = true
	}
}

// referred returns the jobs that jobs in stays refer to, and those that their
// routes may rewind.
func referred(s *kernel.Snapshot, stays map[kernel.JobID]bool) map[kernel.JobID]bool {
	keep := map[kernel.JobID]bool{}
	for _, j := range live(s, stays) {
		keep[j.ID] = true
		for _, id := range j.Spec.After {
			keep[id] = true
		}
		for _, a := range j.Spec.Needs {
			if a.Kind == kernel.CommandPatch {
				keep[kernel.JobID(a.Name)] = true
			}
			keepProducers(s, j.ID, a, keep)
		}
	}
	return keep
}

// live returns every job that may yet be judged: the jobs that stay, those that
// their routes may rewind, and what depends on these.
func live(s *kernel.Snapshot, stays map[kernel.JobID]bool) []*kernel.Job {
	var all []*kernel.Job
	for _, j := range s.Jobs() {
		if stays[j.ID] {
			all = append(all, j)
		}
	}
	seen, followed := maps.Clone(stays), map[kernel.JobID]bool{}
	for at := 0; at < len(all); at++ { // all grows in the loop
		for _, r := range all[at].Spec.Routes {
			if followed[r.To] {
				continue
			}
			followed[r.To] = true
			for _, id := range s.Downstream(r.To) {
				if !seen[id] {
					seen[id], all = true, append(all, s.Job(id))
				}
			}
		}
	}
	return all
}

// keepProducers keeps the producers of a on which the judgement of consumer
// depends, and every job with a marker of a.
func keepProducers(s *kernel.Snapshot, consumer kernel.JobID, a kernel.Artifact, keep map[kernel.JobID]bool) {
	markers := s.Facts().Markers[a]
	last := map[[2]bool]kernel.JobID{} // by whether it is retired and whether it succeeded
	for _, id := range s.Producers(consumer, a) {
		st := &s.Job(id).State
		last[[2]bool{st.Retired, false}] = id
		if st.Status == kernel.Succeeded {
			last[[2]bool{st.Retired, true}] = id
		}
		if a.Kind == kernel.Custom && !markers.Known || st.Status == kernel.Unscheduled { // demand may wake it
			keep[id] = true
		}
	}
	for _, id := range last {
		keep[id] = true
	}
	for _, id := range markers.Value {
		keep[id] = true
	}
}
