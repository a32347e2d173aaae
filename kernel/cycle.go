package kernel

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// integrate is the operation that merges a plan and so closes the plan's cycle; prepare makes
// the worktree of a stage, on the plan's branch; persist writes the plan's document.
const (
	integrate = "git.integrate_plan_branch"
	prepare   = "worktree.prepare"
	persist   = "plan.persist"
)

// InConflict is part of the reason of a job whose merge is in conflict.
const InConflict = "is in conflict"

// BehindConflict is part of the reason of a job whose merge is in conflict while the conflict of
// another merge of the plan is still open. The id of that other merge follows.
const BehindConflict = "conflicts here too, and that of "

// NoConflict begins the reason of a job that was woken to resolve a merge's conflict, where
// something else blocks the merge.
const NoConflict = "no merge conflict is open"

// LacksMerge is part of the reason of a job that failed because its target has lost what a merge put there.
const LacksMerge = "does not have that merge now"

// StageToken is the type of the custom artifacts that pass a plan from one
// stage to the next. Their keys end with the plan's name.
const StageToken = "stage_token"

// Integrates returns the plan that the job merges, or "" if it is no merge.
func (s *Spec) Integrates() string {
	if s.Origin.About.Operation != integrate {
		return ""
	}
	if s.Origin.Plan != "" {
		return s.Origin.Plan
	}
	return strings.TrimPrefix(s.Origin.Branch, "draft/")
}

// Closes returns the artifacts whose producers no longer count once this merge
// has succeeded: those of the plan and the custom artifacts that the merge
// needed.
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

// retire marks the plan's earlier producers as retired when merge j has
// succeeded, so that the plan's next cycle begins like the first. Jobs that
// have not ended belong to the next cycle. It also retires blocked jobs of other
// runs that were to merge the plan, since these no longer need a person. What other runs
// made or were to merge on another branch of the plan stays.
func (s *Snapshot) retire(j *Job) Plan {
	var p Plan
	plan := j.Spec.Integrates()
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
	merging := map[RunID]bool{}
	for _, k := range s.jobs {
		if run := k.Spec.Origin.Run; run != "" && run != j.Spec.Origin.Run && k.Spec.Integrates() == plan {
			merging[run] = true
		}
	}
	for _, k := range s.jobs {
		if k.ID == j.ID || k.State.Retired || !k.State.Status.Terminal() || k.elsewhere(j) {
			continue
		}
		if merging[k.Spec.Origin.Run] && k.State.Status == BlockedByDependency && k.Needs() != "" ||
			slices.ContainsFunc(k.Spec.Produces, func(a Artifact) bool { return closed[a] }) {
			st := k.State
			st.Retired = true
			p.add(PutState{k.ID, k.Rev, st})
		}
	}
	return p
}

// elsewhere reports whether j belongs to another run than the merge m and to another branch of
// the plan, so that m closes nothing of it.
func (j *Job) elsewhere(m *Job) bool {
	return j.onBranch() && m.onBranch() && j.Spec.Origin.Branch != m.Spec.Origin.Branch && j.Spec.Origin.Run != m.Spec.Origin.Run
}

// planCycles are the merges that closed a cycle of a plan, by plan.
type planCycles map[string]merges

type merges []*Job

// planCycles returns the cycles of all plans among the loaded jobs.
func (s *Snapshot) planCycles() planCycles {
	of := planCycles{}
	for _, j := range s.jobs {
		if j.closed() {
			of[j.Spec.Integrates()] = append(of[j.Spec.Integrates()], j)
		}
	}
	return of
}

// differ reports whether consumer took what it used in another cycle of the plan than the one
// that producer belongs to. A retry of producer does not rewind it.
func (of planCycles) differ(producer, consumer *Job) bool {
	all := of[cmp.Or(consumer.Spec.Integrates(), producer.Spec.Origin.Plan)]
	if len(all) == 0 || consumer.State.Started.IsZero() && !consumer.closed() || !consumer.State.Status.Terminal() || slices.Contains(consumer.Spec.After, producer.ID) {
		return false
	}
	cycles := slices.DeleteFunc(slices.Clone(all), func(m *Job) bool { return producer.elsewhere(m) || consumer.elsewhere(m) })
	made, used := len(cycles), cycles.before(consumer.State.Finished)
	if producer.State.Retired {
		made = cycles.before(producer.State.Finished)
	}
	if m := cycles.of(consumer.Spec.Origin.Run); m != nil { // what a run does after its merge belongs to the cycle that it closed
		used = cycles.before(m.State.Finished)
	}
	return made != used
}

// before returns how many cycles were closed before t.
func (ms merges) before(t time.Time) (n int) {
	for _, m := range ms {
		if m.State.Finished.Before(t) {
			n++
		}
	}
	return n
}

// of returns the only merge of run, or nil.
func (ms merges) of(run RunID) (only *Job) {
	for _, m := range ms {
		if m.Spec.Origin.Run != run {
			continue
		}
		if only != nil {
			return nil
		}
		only = m
	}
	return only
}

// closed reports whether j is a merge that closed a cycle.
func (j *Job) closed() bool {
	return j.State.Closed && j.State.Status == Succeeded && j.Spec.Integrates() != ""
}

// reopen returns the plan that puts blocked consumers back to waiting if one of
// the new jobs, which s already holds, produces what they lack and their policy
// is to wait for producers. Blocked jobs downstream of them that never ran are
// reopened too.
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
				below := s.Downstream(s.jobs[c].ID)
				if slices.Contains(below, n.ID) { // it waits for this consumer
					return
				}
				for _, id := range below {
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

// unused reports whether job c has begun and took every artifact that p makes from another
// producer: one that was newer or had ended when p had not or, if that is no longer on record,
// any, since p depends on c. A retry of p does not rewind it.
func (s *Snapshot) unused(p, c int32) bool {
	producer, consumer := s.jobs[p], s.jobs[c]
	began := consumer.State.Started
	if st := consumer.State.Status; began.IsZero() || st != Running && !st.Terminal() || slices.Contains(consumer.Spec.After, producer.ID) {
		return false
	}
	open := producer.State.Finished.IsZero() || producer.State.Finished.After(began)
	other := false
	for _, a := range consumer.Spec.Needs {
		if !slices.Contains(producer.Spec.Produces, a) {
			continue
		}
		newest := s.newestOther(p, c, a, began)
		if other = a.Kind == Custom && (newest > p || open && (newest >= 0 || s.behind([]int32{p}, c))); !other {
			return false
		}
	}
	return other
}

// newestOther returns the newest producer of a for job c, other than p, that had succeeded at
// some time; -1: there is none.
func (s *Snapshot) newestOther(p, c int32, a Artifact, at time.Time) int32 {
	list, _ := s.graph.producersFor(c, a)
	for _, q := range slices.Backward(list) {
		if st := &s.jobs[q].State; q != p && q != c && st.Status == Succeeded && !st.Finished.After(at) {
			return q
		}
	}
	return -1
}

// lacks reports whether j is blocked because a is missing but may wait for a
// new producer of it.
func (j *Job) lacks(a Artifact) bool {
	w := j.State.Wait
	return j.Spec.MissingProducer == Wait && j.neverRan() && w.Cause == ArtifactMissing && w.Artifact == a
}

// neverRan reports whether j was blocked before its first attempt of this
// generation.
func (j *Job) neverRan() bool {
	return j.State.Status == BlockedByDependency && j.State.Outcome == NoOutcome
}

// reopened returns the state of a blocked job that goes back to waiting. It
// begins a new generation, since the job had ended. Nothing was executed, so
// there is nothing to reset.
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

// onlyAfter reports whether c, of another run for p's plan, only starts after p, however p ends,
// and uses nothing that p makes. A retry of p does not rewind c. Earlier versions ordered the
// runs of a plan in this way.
func (s *Snapshot) onlyAfter(p, c int32) bool {
	before, after := s.jobs[p], s.jobs[c]
	o, its := &before.Spec.Origin, &after.Spec.Origin
	return o.Plan != "" && o.Plan == its.Plan && o.Run != its.Run && slices.Contains(after.Spec.AfterAny, before.ID) && !before.handsOver(after.ID) &&
		!slices.ContainsFunc(after.Spec.Needs, func(a Artifact) bool { return slices.Contains(before.Spec.Produces, a) })
}
