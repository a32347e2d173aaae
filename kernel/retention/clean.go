package retention

import (
	"fmt"
	"slices"
	"strings"

	"github.com/vizier-scheduler/vizier/kernel"
)

// CleanSet is what a clean removes: the jobs of a run, or jobs that belong to
// no run.
type CleanSet struct {
	Run  kernel.RunID   // of the first job
	Jobs []kernel.JobID // in schedule order

	// Stranded are blocked jobs outside the set that depend on it: a retry cannot
	// start them any more. Any job that makes what they lack starts those that wait for producers, so they are none of them.
	Stranded []kernel.JobID
}

// CleanOf returns the set of jobs that cleaning ids removes. It fails with
// kernel.ErrConflict if a job of the set is active, which force does not
// override, or if an active job outside the set depends on it or jobs would wait
// for each other without it, which force overrides. The snapshot must hold every job.
func CleanOf(s *kernel.Snapshot, ids []kernel.JobID, force bool) (CleanSet, error) {
	all := s.Jobs()
	var set CleanSet
	named, runs := map[kernel.JobID]bool{}, map[kernel.RunID]bool{}
	for i, id := range ids {
		j := s.Job(id)
		if j == nil {
			return CleanSet{}, fmt.Errorf("clean %s: %w", id, kernel.ErrNotFound)
		}
		run := j.Spec.Origin.Run
		if named[id], runs[run] = true, true; i == 0 {
			set.Run = run
		}
	}
	delete(runs, "")
	for _, k := range all {
		if named[k.ID] || runs[k.Spec.Origin.Run] {
			set.Jobs = append(set.Jobs, k.ID)
		}
	}
	var why []string
	scoped := map[kernel.JobID]bool{}
	for _, id := range set.Jobs {
		scoped[id] = true
		if st := s.Job(id).State.Status; st.Active() {
			why = append(why, fmt.Sprintf("cannot clean: job %s is %s", id, st))
		}
	}
	for _, k := range all {
		st := k.State.Status
		active, blocked := st.Active() && !force, st == kernel.BlockedByDependency && !k.State.Retired
		if scoped[k.ID] || !active && !blocked {
			continue
		}
		switch on := dependsOn(s, k, scoped); {
		case on == "":
		case blocked:
			set.Stranded = append(set.Stranded, k.ID)
		default:
			why = append(why, fmt.Sprintf("cannot clean: job %s, which is %s, %s", k.ID, st, on))
		}
	}
	if len(why) == 0 && !force {
		why = deadlocks(s, set)
	}
	if len(why) > 0 {
		return set, fmt.Errorf("%s: %w", strings.Join(why, "\n"), kernel.ErrConflict)
	}
	return set, nil
}

// deadlocks says which jobs would come to wait for each other without the jobs of set.
func deadlocks(s *kernel.Snapshot, set CleanSet) (why []string) {
	if !slices.ContainsFunc(set.jobs(s), func(j *kernel.Job) bool { return len(j.Spec.Produces) > 0 }) {
		return nil
	}
	already := map[kernel.JobID]bool{}
	for _, c := range s.Cycles() {
		for _, id := range c.Jobs {
			already[id] = true
		}
	}
	for _, c := range s.Apply(remove(s, set.jobs(s))).Cycles() {
		if slices.ContainsFunc(c.Jobs, func(id kernel.JobID) bool { return !already[id] }) {
			why = append(why, "cannot clean: jobs would wait for each other in a "+c.Text+"; "+c.Freed()+" first")
		}
	}
	return why
}

// dependsOn describes how j depends on jobs of the set, or returns "" if it
// does not. j does not depend on the set for an artifact that jobs outside it
// produce as well or, if it is blocked, that any job to come may produce; nor for
// the end of a job that has ended, if any end will do.
func dependsOn(s *kernel.Snapshot, j *kernel.Job, set map[kernel.JobID]bool) string {
	for _, id := range j.Spec.After {
		if set[id] && !(slices.Contains(j.Spec.AfterAny, id) && s.Job(id).State.Status.Terminal()) {
			return "runs after " + string(id)
		}
	}
	for _, a := range j.Spec.Needs {
		if a.Kind == kernel.CommandPatch && set[kernel.JobID(a.Name)] {
			return "needs the patch of " + a.Name
		}
		if j.Spec.MissingProducer == kernel.Wait && j.State.Status == kernel.BlockedByDependency {
			continue
		}
		producers := s.Producers(j.ID, a)
		if len(producers) > 0 && !slices.ContainsFunc(producers, func(id kernel.JobID) bool { return !set[id] }) {
			return fmt.Sprintf("needs %s, which nothing else produces", a)
		}
	}
	return ""
}

// jobs returns the jobs of the set.
func (set CleanSet) jobs(s *kernel.Snapshot) []*kernel.Job {
	var out []*kernel.Job
	for _, id := range set.Jobs {
		out = append(out, s.Job(id))
	}
	return out
}

// CleanWorktrees returns the plan for the first half of a clean: it removes the
// worktrees that the jobs own, while their records still exist and can hold the
// result.
func CleanWorktrees(s *kernel.Snapshot, ids []kernel.JobID, force bool) (kernel.Plan, error) {
	set, err := CleanOf(s, ids, force)
	if err != nil {
		return kernel.Plan{}, err
	}
	return removeWorktrees(set.jobs(s)), nil
}

// Clean returns the plan for the second half: it removes the records, and the
// run's manifest with its last job. Unless force is set, a job whose worktree
// still exists keeps its record and those of its run, so that a later clean can finish the work
// and the run has the status that it had.
func Clean(s *kernel.Snapshot, ids []kernel.JobID, force bool) (kernel.Plan, error) {
	set, err := CleanOf(s, ids, force)
	if err != nil {
		return kernel.Plan{}, err
	}
	gone := set.jobs(s)
	if !force {
		runs := map[kernel.RunID]bool{}
		for _, j := range gone {
			if run := j.Spec.Origin.Run; run != "" && ownsWorktree(j) {
				runs[run] = true
			}
		}
		gone = slices.DeleteFunc(gone, func(j *kernel.Job) bool { return ownsWorktree(j) || runs[j.Spec.Origin.Run] })
	}
	return remove(s, gone), nil
}

// EndedEphemeralRuns returns the ephemeral runs that have ended and that no
// active job outside depends on. It skips those that a person has to see to: a
// job of the run needs one, so that the run may go on, or a worktree could not be removed.
func EndedEphemeralRuns(s *kernel.Snapshot) []CleanSet {
	var out []CleanSet
	seen := map[kernel.RunID]bool{"": true}
	for _, j := range s.Jobs() {
		run := j.Spec.Origin.Run
		if !j.Spec.Origin.Ephemeral || seen[run] {
			continue
		}
		seen[run] = true
		set, err := CleanOf(s, []kernel.JobID{j.ID}, false)
		stuck := slices.ContainsFunc(set.jobs(s), func(j *kernel.Job) bool {
			st := j.State.Retried.Status
			return st == kernel.CleanupDegraded || st == kernel.CleanupFailed || j.Needs() != "" && !s.SeenTo(j)
		})
		if err == nil && !stuck {
			out = append(out, set)
		}
	}
	return out
}
