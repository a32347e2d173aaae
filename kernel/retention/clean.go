package retention

import (
	"fmt"
	"slices"
	"strings"

	"github.com/vizier-scheduler/vizier/kernel"
)

// CleanSet is what a clean is about: the runs of jobs, and those of them that have
// none.
type CleanSet struct {
	Run  kernel.RunID   // of the first job
	Jobs []kernel.JobID // in schedule order
}

// CleanOf is what cleaning ids takes along, or kernel.ErrConflict and why it must
// not go: a job of it is active, which nothing overrides, or an active job outside
// it depends on it, which force overrides. The snapshot must hold every job.
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
		if force || scoped[k.ID] || !k.State.Status.Active() {
			continue
		}
		if on := dependsOn(s, k, scoped); on != "" {
			why = append(why, fmt.Sprintf("cannot clean: job %s, which is %s, %s", k.ID, k.State.Status, on))
		}
	}
	if len(why) > 0 {
		return set, fmt.Errorf("%s: %w", strings.Join(why, "\n"), kernel.ErrConflict)
	}
	return set, nil
}

// dependsOn is how j depends on jobs of the set, "" if it does not. An artifact
// that others produce as well can do without them.
func dependsOn(s *kernel.Snapshot, j *kernel.Job, set map[kernel.JobID]bool) string {
	for _, id := range j.Spec.After {
		if set[id] {
			return "runs after " + string(id)
		}
	}
	for _, a := range j.Spec.Needs {
		if a.Kind == kernel.CommandPatch && set[kernel.JobID(a.Name)] {
			return "needs the patch of " + a.Name
		}
		producers := s.Producers(j.ID, a)
		if len(producers) > 0 && !slices.ContainsFunc(producers, func(id kernel.JobID) bool { return !set[id] }) {
			return fmt.Sprintf("needs %s, which nothing else produces", a)
		}
	}
	return ""
}

// jobs are those of the set.
func (set CleanSet) jobs(s *kernel.Snapshot) []*kernel.Job {
	var out []*kernel.Job
	for _, id := range set.Jobs {
		out = append(out, s.Job(id))
	}
	return out
}

// CleanWorktrees is the first half of a clean: the worktrees that its jobs own
// go while there are still records to say what came of it.
func CleanWorktrees(s *kernel.Snapshot, ids []kernel.JobID, force bool) (kernel.Plan, error) {
	set, err := CleanOf(s, ids, force)
	if err != nil {
		return kernel.Plan{}, err
	}
	return removeWorktrees(set.jobs(s)), nil
}

// Clean is the second half: the records go, and the run's manifest with its
// last job. A job whose worktree is still there keeps its record, so that a
// later clean can finish the work, unless force says otherwise.
func Clean(s *kernel.Snapshot, ids []kernel.JobID, force bool) (kernel.Plan, error) {
	set, err := CleanOf(s, ids, force)
	if err != nil {
		return kernel.Plan{}, err
	}
	gone := set.jobs(s)
	if !force {
		gone = slices.DeleteFunc(gone, ownsWorktree)
	}
	return remove(s, gone), nil
}

// EndedEphemeralRuns are the ephemeral runs that are over and that nothing active
// outside depends on, each with one of its jobs. One whose worktree could not
// be removed is left to a person.
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
			return st == kernel.CleanupDegraded || st == kernel.CleanupFailed
		})
		if err == nil && !stuck {
			out = append(out, set)
		}
	}
	return out
}
