package kernel

import (
	"slices"
	"strings"
	"time"
)

// integrate is the operation that merges a plan, and so closes its cycle.
const integrate = "git.integrate_plan_branch"

// InConflict is what the reason of a job says whose merge is in conflict.
const InConflict = "is in conflict"

// StageToken is the type of the custom artifacts that pass a plan from one stage
// to the next; their keys end with the plan's name.
const StageToken = "stage_token"

// Integrates is the plan that the job merges; "": it is no merge.
func (s *Spec) Integrates() string {
	if s.Origin.About.Operation != integrate {
		return ""
	}
	if s.Origin.Plan != "" {
		return s.Origin.Plan
	}
	return strings.TrimPrefix(s.Origin.Branch, "draft/")
}

// Closes are the artifacts whose producers do not count any more once this merge has
// succeeded: the plan, and what the merge needed of it.
func (s *Spec) Closes() []Artifact {
	plan := s.Integrates()
	if plan == "" {
		return nil
	}
	out := []Artifact{
		{Kind: PlanBranch, Name: plan, Ref: s.Origin.Branch},
		{Kind: PlanDoc, Name: plan, Ref: s.Origin.Branch},
		{Kind: PlanCommits, Name: plan, Ref: s.Origin.Branch},
	}
	for i := range out {
		out[i] = out[i].Canonical()
	}
	for _, a := range s.Needs {
		if a.Kind == Custom {
			out = append(out, a)
		}
	}
	return out
}

// retire takes the plan's earlier producers out of account once merge j succeeded, so
// that the next cycle of the plan begins like the first. Jobs that have not ended
// belong to that next cycle.
func (s *Snapshot) retire(j *Job) Plan {
	var p Plan
	plan := j.Spec.Integrates()
	if plan == "" {
		return p
	}
	s.requireAll()
	closed := map[Artifact]bool{}
	for _, a := range j.Spec.Closes() {
		closed[a] = true
	}
	for a := range s.graph.producers {
		if a.Kind == Custom && a.Name == StageToken && strings.HasSuffix(a.Ref, ":"+plan) {
			closed[a] = true
		}
	}
	for _, k := range s.jobs {
		if k.ID == j.ID || k.State.Retired || !k.State.Status.Terminal() {
			continue
		}
		for _, a := range k.Spec.Produces {
			if closed[a] {
				st := k.State
				st.Retired = true
				p.add(PutState{k.ID, k.Rev, st})
				break
			}
		}
	}
	return p
}

// apart reports that c, a merge that has closed a cycle of its plan, used what
// another cycle's producers made, and not what p did: p came after it, or an
// earlier merge closed p's cycle. A retry of p leaves it alone.
func (s *Snapshot) apart(p, c int32) bool {
	maker, merge := s.jobs[p], s.jobs[c]
	if !merge.closed() || slices.Contains(merge.Spec.After, maker.ID) {
		return false
	}
	if !maker.State.Retired || maker.Created.After(merge.State.Finished) {
		return true
	}
	earlier := false
	for _, a := range maker.Spec.Produces {
		s.graph.eachConsumer(a, func(k int32) {
			m := s.jobs[k]
			earlier = earlier || m.closed() && !maker.Created.After(m.State.Finished) && m.State.Finished.Before(merge.State.Finished)
		})
	}
	return earlier
}

// closed reports that j is a merge that has closed a cycle.
func (j *Job) closed() bool { return j.State.Closed && j.State.Status == Succeeded }

// reopen puts consumers that may wait for a producer, and that are blocked for
// want of one, back to where they wait, now that jobs of s are enqueued which
// produce what they need. What they held up follows them.
func (s *Snapshot) reopen(news []NewJob) Plan {
	var p Plan
	seen := map[JobID]bool{}
	for _, n := range news {
		made := s.Job(n.ID)
		for _, a := range made.Spec.Produces {
			s.graph.eachConsumerIn(made.Spec.Origin.Run, a, func(c int32) {
				if seen[s.jobs[c].ID] || !s.jobs[c].lacks(a) {
					return
				}
				for _, id := range s.Downstream(s.jobs[c].ID) {
					if k := s.Job(id); !seen[id] && k.neverRan() {
						seen[id] = true
						p.add(PutState{id, k.Rev, k.reopened()})
					}
				}
			})
		}
	}
	return p
}

// lacks reports that j is blocked for want of a, which it may wait for.
func (j *Job) lacks(a Artifact) bool {
	w := j.State.Wait
	return j.Spec.MissingProducer == Wait && j.neverRan() && w.Cause == ArtifactMissing && w.Artifact == a
}

// neverRan reports that j was blocked before it began.
func (j *Job) neverRan() bool {
	return j.State.Status == BlockedByDependency && j.State.Outcome == NoOutcome
}

// reopened is the state of a blocked job that goes back to waiting. A new generation
// begins, since it had ended; nothing was executed, so there is nothing to reset.
func (j *Job) reopened() State {
	st := j.State
	st.Generation++
	st.Status = j.Begins()
	if st.Status == Unscheduled && st.Awake {
		st.Status = Queued
	}
	st.Wait, st.WaitSince = WaitReason{}, time.Time{}
	return st
}
