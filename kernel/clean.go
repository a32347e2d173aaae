package kernel

import (
	"fmt"
	"slices"
	"strings"
)

// CleanSet is what a clean is about: the run of a job, or the job alone where
// it has none.
type CleanSet struct {
	Run  RunID
	Jobs []JobID // in schedule order
}

// CleanOf is what cleaning id takes along, or ErrConflict and why it must not
// go: a job of it is active, which nothing overrides, or an active job outside
// it depends on it, which force overrides. The snapshot must hold every job.
func CleanOf(s *Snapshot, id JobID, force bool) (CleanSet, error) {
	s.requireAll()
	j := s.Job(id)
	if j == nil {
		return CleanSet{}, fmt.Errorf("clean %s: %w", id, ErrNotFound)
	}
	set := CleanSet{Run: j.Spec.Origin.Run}
	for _, k := range s.jobs {
		if k.ID == id || set.Run != "" && k.Spec.Origin.Run == set.Run {
			set.Jobs = append(set.Jobs, k.ID)
		}
	}
	var why []string
	scoped := map[JobID]bool{}
	for _, id := range set.Jobs {
		scoped[id] = true
		if st := s.Job(id).State.Status; st.Active() {
			why = append(why, fmt.Sprintf("cannot clean: job %s is %s", id, st))
		}
	}
	for i, k := range s.jobs {
		if force || scoped[k.ID] || !k.State.Status.Active() {
			continue
		}
		if on := s.dependsOn(int32(i), scoped); on != "" {
			why = append(why, fmt.Sprintf("cannot clean: job %s, which is %s, %s", k.ID, k.State.Status, on))
		}
	}
	if len(why) > 0 {
		return set, fmt.Errorf("%s: %w", strings.Join(why, "\n"), ErrConflict)
	}
	return set, nil
}

// dependsOn is how job i depends on jobs of the set, "" if it does not. An
// artifact that others produce as well can do without them.
func (s *Snapshot) dependsOn(i int32, set map[JobID]bool) string {
	for _, id := range s.jobs[i].Spec.After {
		if set[id] {
			return "runs after " + string(id)
		}
	}
	for _, a := range s.jobs[i].Spec.Needs {
		if a.Kind == CommandPatch && set[JobID(a.Name)] {
			return "needs the patch of " + a.Name
		}
		produced, only := false, true
		s.graph.eachProducer(i, a, func(p int32) {
			produced = true
			only = only && set[s.jobs[p].ID]
		})
		if produced && only {
			return fmt.Sprintf("needs %s, which nothing else produces", a)
		}
	}
	return ""
}

// CleanWorktrees is the first half of a clean: the worktrees that its jobs own
// go while there are still records to say what came of it.
func CleanWorktrees(s *Snapshot, id JobID, force bool) (Plan, error) {
	set, err := CleanOf(s, id, force)
	var p Plan
	if err != nil {
		return p, err
	}
	for _, id := range set.Jobs {
		if c := s.Job(id).State.Context; c.Owned {
			p.add(RemoveWorktree{Job: id, Context: c})
		}
	}
	return p, nil
}

// Clean is the second half: the records go, and the run's manifest with its
// last job. A job whose worktree is still there keeps its record, so that a
// later clean can finish the work, unless force says otherwise.
func Clean(s *Snapshot, id JobID, force bool) (Plan, error) {
	set, err := CleanOf(s, id, force)
	var p Plan
	if err != nil {
		return p, err
	}
	for _, id := range set.Jobs {
		if j := s.Job(id); force || !j.State.Context.Owned {
			p.add(RemoveJob{id, j.Spec.Produces})
		}
	}
	s.dropEmptied(&p)
	return p, nil
}

// dropEmptied makes p remove the manifests of the runs whose last jobs it
// removes. A record that cannot be read may be of any run, so that none goes
// while there is one.
func (s *Snapshot) dropEmptied(p *Plan) {
	left := map[RunID]int{}
	for _, j := range s.jobs {
		left[j.Spec.Origin.Run]++
	}
	for _, a := range p.Records {
		gone, ok := a.(RemoveJob)
		if !ok {
			continue
		}
		run := s.Job(gone.Job).Spec.Origin.Run
		if left[run]--; left[run] == 0 && run != "" && len(s.unreadable) == 0 {
			p.add(RemoveRun{run})
		}
	}
}

// EndedEphemeralRuns are the ephemeral runs that are over and that nothing active
// outside depends on, each with one of its jobs. One whose worktree could not
// be removed is left to a person.
func EndedEphemeralRuns(s *Snapshot) []CleanSet {
	var out []CleanSet
	seen := map[RunID]bool{"": true}
	for _, j := range s.jobs {
		run := j.Spec.Origin.Run
		if !j.Spec.Origin.Ephemeral || seen[run] {
			continue
		}
		seen[run] = true
		set, err := CleanOf(s, j.ID, false)
		stuck := slices.ContainsFunc(set.Jobs, func(id JobID) bool {
			st := s.Job(id).State.Retried.Status
			return st == CleanupDegraded || st == CleanupFailed
		})
		if err == nil && !stuck {
			out = append(out, set)
		}
	}
	return out
}
