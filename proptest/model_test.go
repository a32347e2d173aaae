package proptest

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
	"pgregory.net/rapid"
)

// The models compute the same as the kernel in the slowest and simplest way: they
// answer every question by looking at every job.

// ownProducer reports whether another job of j's run declares a.
func ownProducer(s *kernel.Snapshot, j *kernel.Job, a kernel.Artifact) bool {
	return slices.ContainsFunc(s.Jobs(), func(p *kernel.Job) bool {
		return p.ID != j.ID && j.Spec.Origin.Run != "" && p.Spec.Origin.Run == j.Spec.Origin.Run && slices.Contains(p.Spec.Produces, a)
	})
}

// producersOf returns the jobs whose production of a counts for j.
func producersOf(s *kernel.Snapshot, j *kernel.Job, a kernel.Artifact) []*kernel.Job {
	var out []*kernel.Job
	for _, p := range s.Jobs() {
		if p.ID != j.ID && slices.Contains(p.Spec.Produces, a) && (!ownProducer(s, j, a) || p.Spec.Origin.Run == j.Spec.Origin.Run) {
			out = append(out, p)
		}
	}
	return out
}

// dependsOn reports whether j names p in After, or needs an artifact that p produces for it.
func dependsOn(s *kernel.Snapshot, j, p *kernel.Job) bool {
	if slices.Contains(j.Spec.After, p.ID) {
		return true
	}
	return slices.ContainsFunc(j.Spec.Needs, func(a kernel.Artifact) bool { return slices.Contains(producersOf(s, j, a), p) })
}

// closure returns root and everything that comes of it: it adds each job that comes
// of one in the set, until there are no more.
func closure(s *kernel.Snapshot, root *kernel.Job, comes func(j, p *kernel.Job) bool) map[kernel.JobID]bool {
	in := map[kernel.JobID]bool{root.ID: true}
	for grown := true; grown; {
		grown = false
		for _, j := range s.Jobs() {
			for _, p := range s.Jobs() {
				if !in[j.ID] && in[p.ID] && comes(j, p) {
					in[j.ID], grown = true, true
				}
			}
		}
	}
	return in
}

// heldBy reports whether j is on record as blocked by the failure of p.
func heldBy(j, p *kernel.Job) bool {
	return p.Spec.FailureMode == kernel.BlockDownstream && p.State.Status == kernel.Failed &&
		j.State.Status == kernel.BlockedByDependency && j.State.Wait.Detail == "held back by the failure of job "+string(p.ID)
}

// stops reports whether the failure of p stops j: both are of one run that stops at
// failures, j is not a job that only routes start, and no route of p handles the failure.
func stops(s *kernel.Snapshot, j, p *kernel.Job) bool {
	if j.Spec.Origin.Run == "" || j.Spec.Origin.Run != p.Spec.Origin.Run || j.Spec.Routed || p.State.Status != kernel.Failed ||
		j.Spec.FailureMode != kernel.BlockDownstream || p.Spec.FailureMode != kernel.BlockDownstream {
		return false
	}
	return !slices.ContainsFunc(p.Spec.Routes, func(r kernel.Route) bool {
		to := s.Job(r.To)
		return r.On == kernel.OutcomeFailed && to != nil && to.State.UnderWay()
	}) && !p.State.Deferred
}

// closes reports whether j is a merge that closed a cycle of its plan.
func closes(j *kernel.Job) bool {
	return j.State.Closed && j.State.Status == kernel.Succeeded && j.Spec.Integrates() != ""
}

// apart reports whether j took what it used in another cycle of its plan than the one that p
// belongs to: the plan's merges that had succeeded before were others.
func apart(s *kernel.Snapshot, j, p *kernel.Job) bool {
	plan := cmp.Or(j.Spec.Integrates(), p.Spec.Origin.Plan)
	var merges []*kernel.Job
	for _, m := range s.Jobs() {
		if closes(m) && m.Spec.Integrates() == plan {
			merges = append(merges, m)
		}
	}
	if began := !j.State.Started.IsZero() || slices.Contains(merges, j); !began || !j.State.Status.Terminal() || slices.Contains(j.Spec.After, p.ID) {
		return false
	}
	used := j.State.Finished
	ofRun := slices.DeleteFunc(slices.Clone(merges), func(m *kernel.Job) bool { return m.Spec.Origin.Run != j.Spec.Origin.Run })
	if len(ofRun) == 1 { // what a run does after its merge belongs to the cycle that it closed
		used = ofRun[0].State.Finished
	}
	return slices.ContainsFunc(merges, func(m *kernel.Job) bool {
		at := m.State.Finished
		return at.Before(used) != (!p.State.Retired || at.Before(p.State.Finished))
	})
}

// onlyAfter reports whether j waits only for the end of p, which is of another run for the same
// plan, and for nothing that p makes.
func onlyAfter(j, p *kernel.Job) bool {
	o, its := j.Spec.Origin, p.Spec.Origin
	handsOver := slices.ContainsFunc(p.Spec.Routes, func(r kernel.Route) bool { return r.On == kernel.OutcomeSucceeded && r.To == j.ID })
	return o.Plan != "" && o.Plan == its.Plan && o.Run != its.Run && slices.Contains(j.Spec.AfterAny, p.ID) && !handsOver &&
		!slices.ContainsFunc(j.Spec.Needs, func(a kernel.Artifact) bool { return slices.Contains(p.Spec.Produces, a) })
}

// tookOthers reports whether j has begun, is not after p, and all that it needs of p are custom
// artifacts of which another producer, newer than p or ended before p, had been done by then; or p
// had not ended then, and depends on j.
func tookOthers(s *kernel.Snapshot, j, p *kernel.Job) bool {
	began := j.State.Started
	if began.IsZero() || j.State.Status != kernel.Running && !j.State.Status.Terminal() || slices.Contains(j.Spec.After, p.ID) {
		return false
	}
	of := slices.DeleteFunc(slices.Clone(j.Spec.Needs), func(a kernel.Artifact) bool { return !slices.Contains(p.Spec.Produces, a) })
	open := p.State.Finished.IsZero() || p.State.Finished.After(began)
	behind := open && closure(s, j, func(k, p *kernel.Job) bool { return dependsOn(s, k, p) })[p.ID]
	return len(of) > 0 && !slices.ContainsFunc(of, func(a kernel.Artifact) bool {
		return a.Kind != kernel.Custom || !behind && !slices.ContainsFunc(producersOf(s, j, a), func(q *kernel.Job) bool {
			done := q.State.Status == kernel.Succeeded && !q.State.Finished.After(began)
			return q != p && q != j && done && (p.Compare(q) < 0 || open)
		})
	})
}

// uses reports whether j depends on p such that a rewind of p rewinds j.
func uses(s *kernel.Snapshot, j, p *kernel.Job) bool {
	return dependsOn(s, j, p) && !apart(s, j, p) && !onlyAfter(j, p) && !tookOthers(s, j, p)
}

// sender returns the job that may still rewind p, not counting what failures hold back: an active one that a route woke
// and that waits for nothing that comes of j, or one whose routes wait; or "".
func sender(s *kernel.Snapshot, j, p *kernel.Job) kernel.JobID {
	of := closure(s, j, func(k, p *kernel.Job) bool { return dependsOn(s, k, p) })
	for _, k := range s.Jobs() {
		active := k != p && k.Spec.Routed && k.State.Status.Active() && !of[k.ID]
		if k == p && k.State.Deferred || (active || k.State.Deferred) && sendsBack(s, k, p, map[*kernel.Job]bool{}) {
			return k.ID
		}
	}
	return ""
}

func aboutTo(k kernel.JobID) string { return "job " + string(k) + " is about to send it back" }

// takesBack reports whether a route that k takes, as it has ended, rewinds j.
func takesBack(s *kernel.Snapshot, k, j *kernel.Job) bool {
	own := *k
	own.Spec.Routes = slices.DeleteFunc(slices.Clone(k.Spec.Routes), func(r kernel.Route) bool {
		to := s.Job(r.To)
		return r.On != k.State.Outcome || to == nil || r.On == kernel.OutcomeSucceeded && slices.Contains(to.Spec.After, k.ID)
	})
	return sendsBackBy(s, &own, j, map[*kernel.Job]bool{}, func(j, p *kernel.Job) bool { return uses(s, j, p) || heldBy(j, p) })
}

func sendsBack(s *kernel.Snapshot, k, p *kernel.Job, seen map[*kernel.Job]bool) bool {
	return sendsBackBy(s, k, p, seen, func(j, p *kernel.Job) bool { return uses(s, j, p) })
}

func sendsBackBy(s *kernel.Snapshot, k, p *kernel.Job, seen map[*kernel.Job]bool, follows func(j, p *kernel.Job) bool) bool {
	seen[k] = true
	return slices.ContainsFunc(k.Spec.Routes, func(r kernel.Route) bool {
		to, onSuccess, budget := s.Job(r.To), r.On == kernel.OutcomeSucceeded, r.Budget
		if budget == 0 {
			budget = 3
		}
		switch {
		case to == nil, k.State.Deferred && r.On != k.State.Outcome, onSuccess && k.Spec.Routed && to.State.Status == kernel.Succeeded && slices.ContainsFunc(to.Spec.Routes, func(w kernel.Route) bool { return w.On != kernel.OutcomeSucceeded && w.To == k.ID }):
			return false
		case onSuccess && slices.Contains(to.Spec.After, k.ID):
			return to.Spec.Routed && !seen[to] && sendsBackBy(s, to, p, seen, follows)
		}
		return (k.State.Routed < budget || to.Spec.Routed && !to.State.Awake && to.State.Status == kernel.Unscheduled) && closure(s, to, follows)[p.ID]
	})
}

// The retry set is the closure by its definition.
func TestDownstreamIsTheClosure(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := kernel.NewSnapshot(World.Draw(t, "world"))
		s = s.Apply(kernel.Decide(s)) // some are held back now
		for _, root := range s.Jobs() {
			want := closure(s, root, func(j, p *kernel.Job) bool { return uses(s, j, p) || heldBy(j, p) })
			got := s.Downstream(root.ID)
			if got[0] != root.ID || len(got) != len(want) || slices.ContainsFunc(got, func(id kernel.JobID) bool { return !want[id] }) {
				t.Fatalf("downstream of %s: %v, want %v", root.ID, got, want)
			}
			if rest := got[1:]; !slices.IsSortedFunc(rest, func(a, b kernel.JobID) int { return s.Job(a).Compare(s.Job(b)) }) {
				t.Fatalf("not in schedule order: %v", got)
			}
			for _, j := range s.Jobs() {
				direct := dependsOn(s, j, root)
				if slices.Contains(s.Successors(root.ID), j.ID) != direct || slices.Contains(s.Predecessors(j.ID), root.ID) != direct {
					t.Fatalf("%s depends on %s: %v; successors %v, predecessors %v", j.ID, root.ID, direct, s.Successors(root.ID), s.Predecessors(j.ID))
				}
			}
		}
	})
}

// held returns the job whose failure holds j back, or "".
func held(s *kernel.Snapshot, j *kernel.Job) (by kernel.JobID) {
	for _, p := range s.Jobs() {
		if !stops(s, j, p) {
			continue
		}
		if by == "" {
			by = p.ID
		}
		if closure(s, p, func(k, p *kernel.Job) bool {
			return p.State.Status != kernel.Succeeded && k.Spec.Origin.Run == j.Spec.Origin.Run && dependsOn(s, k, p)
		})[j.ID] {
			return ""
		}
	}
	return by
}

// judge returns the status that the gates before the locks give j, and its reason: the
// rules of the seeds again, on the present statuses of s. A start has no reason.
func judge(s *kernel.Snapshot, j *kernel.Job) (kernel.Status, string) {
	if by := held(s, j); by != "" {
		return kernel.BlockedByDependency, "held back by the failure of job " + string(by)
	}
	return judgeOwn(s, j)
}

// judgeOwn is judge without the failures that stop j's run.
func judgeOwn(s *kernel.Snapshot, j *kernel.Job) (kernel.Status, string) {
	for _, id := range j.Spec.After {
		p := s.Job(id)
		switch {
		case p == nil && s.Unreadable(id) != "":
			return kernel.BlockedByDependency, "scheduler data error for job dependency " + string(id) + ": " + s.Unreadable(id)
		case p == nil && slices.Contains(j.Spec.AfterAny, id):
		case p == nil:
			return kernel.BlockedByDependency, "missing job dependency " + string(id)
		case p.State.Status == kernel.Succeeded, p.State.Status.Terminal() && slices.Contains(j.Spec.AfterAny, id):
		case p.State.Status.Terminal():
			return kernel.BlockedByDependency, fmt.Sprintf("dependency failed for job %s (%s)", id, p.State.Status)
		default:
			return kernel.WaitingOnDeps, "waiting on job " + string(id)
		}
	}
	for _, id := range j.Spec.AfterAny {
		if p := s.Job(id); p != nil && p.State.Status != kernel.Succeeded {
			if k := sender(s, j, p); k != "" && s.Job(k).State.Deferred {
				return kernel.WaitingOnDeps, aboutTo(k)
			} else if k != "" {
				return kernel.WaitingOnDeps, fmt.Sprintf("waiting on job %s, which may send job %s back", k, id)
			}
		}
	}
	for _, k := range s.Jobs() {
		if j.Spec.Origin.Parent == "" && k.State.Deferred && takesBack(s, k, j) {
			return kernel.WaitingOnDeps, aboutTo(k.ID)
		}
	}
	for _, a := range j.Spec.Needs {
		if next, detail := judgeNeed(s, j, a); detail != "" {
			return next, detail
		}
	}
	f := s.Facts()
	if b := j.Spec.Pinned.Branch; b != "" && (!f.Heads[b].Known || f.Heads[b].Value != j.Spec.Pinned.Commit) {
		return kernel.WaitingOnDeps, "pinned head mismatch on " + b
	}
	for _, p := range j.Spec.Preconditions {
		switch {
		case p.ID == "odd":
			return kernel.BlockedByDependency, "custom precondition `odd` is not supported by scheduler runtime"
		case p.Kind == kernel.BranchExists:
			b := p.Branch
			if b == "" {
				b = j.Spec.Pinned.Branch
			}
			if b == "" {
				if !f.Head.Known {
					return kernel.WaitingOnDeps, "?"
				}
				if b = f.Head.Value; b == "" {
					return kernel.BlockedByDependency, "?"
				}
			}
			if !f.Heads[b].Known || f.Heads[b].Value == "" {
				return kernel.WaitingOnDeps, "?"
			}
		case !f.Clean.Known || !f.Clean.Value:
			return kernel.WaitingOnDeps, "?"
		}
	}
	if b := j.Spec.Task.Sandbox; b.Mode == kernel.RequiredSandbox && j.Spec.Task.Executor == "" {
		if e := f.Sandbox.Value; !f.Sandbox.Known || e.Files != "" || b.Network == kernel.NoNetwork && e.Network != "" {
			return kernel.WaitingOnDeps, "?"
		}
	}
	switch a := j.State.Approval; {
	case a.State == kernel.Approved && (a.Grant == nil || a.Grant.Digest != kernel.DigestOf(j.Spec.Statement())):
		if a.Grant == nil {
			return kernel.WaitingOnApproval, "approved without saying what: approve it again"
		}
		return kernel.WaitingOnApproval, "changed since it was approved: command"
	case a.State == kernel.Expired:
		return kernel.BlockedByApproval, "approval expired: nobody decided within " + j.Spec.ApprovalTimeout.String()
	case a.State == kernel.Pending:
		if st := j.State; st.Failure != kernel.NoFailure { // it was executed before
			return kernel.WaitingOnApproval, "awaiting human approval to execute it again: " + cmp.Or(st.Reason, st.Failure.String())
		}
		return kernel.WaitingOnApproval, "awaiting human approval"
	case a.State == kernel.Rejected:
		return kernel.BlockedByApproval, "approval rejected"
	}
	if slices.ContainsFunc(s.Jobs(), func(k *kernel.Job) bool { return keepsBranch(s, k, j) }) {
		return kernel.WaitingOnDeps, anotherRun + j.Spec.Origin.Branch
	}
	return kernel.Running, ""
}

const anotherRun = "another run works on branch "

// takes reports whether j makes a worktree of its run's branch, or merges the branch.
func takes(j *kernel.Job) bool {
	o := j.Spec.Origin
	return o.Run != "" && o.Branch != "" && (o.About.Operation == "worktree.prepare" || o.About.Operation == "git.integrate_plan_branch")
}

// blockedMerge reports whether the merge k waits for a person to continue it, and no job of its
// run is active.
func blockedMerge(s *kernel.Snapshot, k *kernel.Job) bool {
	st, o := k.State, k.Spec.Origin
	if slices.ContainsFunc(s.Jobs(), func(m *kernel.Job) bool {
		return m.Spec.Origin.Run == o.Run && m.Spec.Origin.Branch == o.Branch && m.State.Status.Active()
	}) {
		return false
	}
	return k.Spec.Origin.About.Operation == "git.integrate_plan_branch" && st.Status == kernel.BlockedByDependency && st.Outcome == kernel.OutcomeBlocked && !st.Retired
}

// keepsBranch reports whether k keeps the branch from j: k is active or a blocked merge, and its run took
// the branch that j is going to take, later than j's run did.
func keepsBranch(s *kernel.Snapshot, k, j *kernel.Job) bool {
	o, its := j.Spec.Origin, k.Spec.Origin
	if !takes(j) || its.Run == "" || its.Run == o.Run || its.Branch != o.Branch || !k.State.Status.Active() && !blockedMerge(s, k) {
		return false
	}
	mine, _ := tookBranch(s, o.Run, j)
	theirs, inside := tookBranch(s, its.Run, j)
	if blockedMerge(s, k) && o.About.Operation == "git.integrate_plan_branch" {
		first := slices.ContainsFunc(s.Jobs(), func(m *kernel.Job) bool { // it waits for the branch before j
			return takes(m) && m.Spec.Origin.Branch == o.Branch && m.State.Status.Active() && m.Compare(j) < 0 && (m.Spec.Origin.Run == o.Run || mine.IsZero())
		})
		if !first {
			return false
		}
	}
	of := func(run kernel.RunID, such func(*kernel.Job) bool) bool {
		return slices.ContainsFunc(s.Jobs(), func(m *kernel.Job) bool {
			return m.Spec.Origin.Run == run && m.Spec.Origin.Branch == o.Branch && such(m)
		})
	}
	makes := func(run kernel.RunID, a kernel.Artifact) bool {
		return of(run, func(m *kernel.Job) bool { return slices.Contains(m.Spec.Produces, a) })
	}
	serves := of(o.Run, takes) && !of(o.Run, func(m *kernel.Job) bool { return m.Spec.Origin.About.Operation == "git.integrate_plan_branch" }) && of(o.Run, func(m *kernel.Job) bool {
		return slices.ContainsFunc(m.Spec.Needs, func(a kernel.Artifact) bool { return makes(its.Run, a) && !makes(o.Run, a) })
	})
	awaits := func(m, p *kernel.Job) bool { // m has not started, perhaps since it sleeps, and cannot start before p ends
		if m.State.Status.Terminal() || m.State.Status == kernel.Running || p.State.Status.Terminal() {
			return false
		}
		return slices.Contains(m.Spec.After, p.ID) || slices.ContainsFunc(m.Spec.Needs, func(a kernel.Artifact) bool {
			_, detail := judgeNeed(s, m, a)
			return strings.HasPrefix(detail, "waiting on ") && p.State.Status.Active() && slices.Contains(producersOf(s, m, a), p) && !forAnother(m, p, a)
		})
	}
	waits := func(run kernel.RunID) bool { // a job of run waits for one of j's run, or submitted one
		return of(run, func(m *kernel.Job) bool {
			in := closure(s, m, func(j, p *kernel.Job) bool { return awaits(p, j) })
			return m.State.Status.Active() && slices.ContainsFunc(s.Jobs(), func(p *kernel.Job) bool {
				return p.Spec.Origin.Run == o.Run && (in[p.ID] || p.Spec.Origin.Parent == m.ID && p.Spec.Origin.Branch == o.Branch)
			})
		})
	}
	later := func(at time.Time, run kernel.RunID, than time.Time, o kernel.RunID) bool {
		return at.After(than) || at.Equal(than) && !at.IsZero() && run > o
	}
	turn := o.Run // or that of the run that took the branch last of those that wait for j's run
	for _, m := range s.Jobs() {
		run := m.Spec.Origin.Run
		if run == o.Run || run == "" || m.Spec.Origin.Branch != o.Branch || !waits(run) {
			continue
		}
		if at, _ := tookBranch(s, run, j); later(at, run, mine, turn) {
			mine, turn = at, run
		}
	}
	return later(theirs, its.Run, mine, turn) && (inside || !serves)
}

// tookBranch returns when a run last took the branch of j, as far as j may know: zero if it has
// not, or has merged it since. inside is true if the run has a worktree of the branch, or has begun
// to merge it.
func tookBranch(s *kernel.Snapshot, run kernel.RunID, j *kernel.Job) (at time.Time, inside bool) {
	merged := false
	for _, m := range s.Jobs() {
		if m.ID == j.ID {
			m = j
		}
		if m.Spec.Origin.Run == run && m.Spec.Origin.Branch == j.Spec.Origin.Branch && takes(m) {
			if m.State.Started.After(at) {
				at = m.State.Started
			}
			merged = merged || closes(m)
			inside = inside || !m.State.Started.IsZero() && (m.State.Status == kernel.Running || m.State.Context.Worktree != "" || m.Spec.Origin.About.Operation == "git.integrate_plan_branch")
		}
	}
	if merged {
		at = time.Time{}
	}
	return at, inside
}

func judgeNeed(s *kernel.Snapshot, j *kernel.Job, a kernel.Artifact) (kernel.Status, string) {
	exists, why := there(s, j, a)
	var failed, drafted bool
	if exists {
		if failed, drafted = outdated(s, j, a); !failed && !drafted {
			return 0, ""
		}
	}
	if why != "" {
		return kernel.WaitingOnDeps, "cannot tell whether " + a.String() + " exists: " + why
	}
	producers := slices.DeleteFunc(slices.Clone(producersOf(s, j, a)), func(p *kernel.Job) bool {
		return (p.State.Retired || forAnother(j, p, a)) && !ownProducer(s, j, a)
	})
	in := func(yes func(kernel.Status) bool) bool {
		return slices.ContainsFunc(producers, func(p *kernel.Job) bool { return yes(p.State.Status) })
	}
	switch {
	case in(func(s kernel.Status) bool { return !s.Terminal() }):
		return kernel.WaitingOnDeps, "waiting on " + a.String()
	case j.State.Closed && !draftedAnew(s, j, a) && (len(producers) == 0 || !drafted && ownProducer(s, j, a) && in(func(s kernel.Status) bool { return s == kernel.Succeeded })):
		return 0, ""
	case failed:
		return kernel.BlockedByDependency, "dependency failed for " + a.String()
	case in(func(s kernel.Status) bool { return s == kernel.Succeeded }) && !drafted:
		return kernel.BlockedByDependency, "missing " + a.String()
	case len(producers) > 0 && !drafted:
		return kernel.BlockedByDependency, "dependency failed for " + a.String()
	case j.Spec.MissingProducer == kernel.Wait:
		return kernel.WaitingOnDeps, "awaiting producer for " + a.String()
	default:
		return kernel.BlockedByDependency, "missing " + a.String()
	}
}

// forAnother reports whether j is a merge, a a stage's token, and p of another run for another branch.
func forAnother(j, p *kernel.Job, a kernel.Artifact) bool {
	o, its := j.Spec.Origin, p.Spec.Origin
	return a.Kind == kernel.Custom && a.Name == kernel.StageToken && takes(j) && j.Spec.Integrates() != "" &&
		its.Run != "" && its.Run != o.Run && its.Branch != "" && its.Branch != o.Branch
}

// draftedAnew reports whether a job of another run drafts the plan of merge j for its branch, or has, in the plan's present cycle.
func draftedAnew(s *kernel.Snapshot, j *kernel.Job, a kernel.Artifact) bool {
	if a.Kind != kernel.Custom || a.Name != kernel.StageToken || !takes(j) || j.Spec.Integrates() == "" {
		return false
	}
	doc := kernel.Artifact{Kind: kernel.PlanDoc, Name: j.Spec.Integrates(), Ref: j.Spec.Origin.Branch}.Canonical()
	return slices.ContainsFunc(s.Jobs(), func(p *kernel.Job) bool {
		o := p.Spec.Origin
		if !slices.Contains(p.Spec.Produces, doc) || p.State.Retired || o.Run == "" || o.Run == j.Spec.Origin.Run || o.Branch != j.Spec.Origin.Branch {
			return false
		}
		return !p.State.Status.Terminal() || p.State.Status == kernel.Succeeded || slices.ContainsFunc(s.Jobs(), func(m *kernel.Job) bool {
			return m.Spec.Origin.Run == o.Run && m.Spec.Origin.Branch == o.Branch && takes(m) && (!m.State.Started.IsZero() || m.State.Attempt > 0)
		})
	})
}

// outdated reports what happened on the branch that j takes since the newest token a that exists
// for j was made: another run worked on it and did not make the token, or drafted the plan anew.
func outdated(s *kernel.Snapshot, j *kernel.Job, a kernel.Artifact) (failed, drafted bool) {
	own := ownProducer(s, j, a)
	if a.Kind != kernel.Custom || a.Name != kernel.StageToken || !takes(j) || own && !j.State.Closed {
		return false, false
	}
	var owner *kernel.Job
	for _, id := range s.Facts().Markers[a].Value {
		p := s.Job(id)
		if own && (p == nil || p.Spec.Origin.Run != j.Spec.Origin.Run) {
			continue
		} else if p == nil {
			p = &kernel.Job{ID: id} // nobody knows when it was made
		} else if !own && p.State.Retired && slices.Contains(p.Spec.Produces, a) || forAnother(j, p, a) {
			continue
		}
		if owner == nil || older(s, owner.ID, id) {
			owner = p
		}
	}
	if owner == nil || s.Job(owner.ID) == nil {
		return false, false
	}
	later := func(a kernel.Artifact, is func(*kernel.Job) bool) bool {
		return slices.ContainsFunc(s.Jobs(), func(p *kernel.Job) bool {
			o := p.Spec.Origin
			return slices.Contains(p.Spec.Produces, a) && p != owner && !p.State.Retired && o.Run != "" && o.Run != j.Spec.Origin.Run && o.Branch == j.Spec.Origin.Branch && is(p)
		})
	}
	failed = !own && later(a, func(p *kernel.Job) bool {
		return p.State.Status.Terminal() && p.State.Status != kernel.Succeeded && slices.ContainsFunc(s.Jobs(), func(m *kernel.Job) bool {
			return m.Spec.Origin.Run == p.Spec.Origin.Run && m.Spec.Origin.Branch == p.Spec.Origin.Branch && takes(m) &&
				(m.State.Started.After(owner.State.Finished) || m.State.Started.IsZero() && m.State.Attempt > 0 && s.Now().After(owner.State.Finished))
		})
	})
	plan := j.Spec.Integrates()
	doc := kernel.Artifact{Kind: kernel.PlanDoc, Name: plan, Ref: j.Spec.Origin.Branch}.Canonical()
	return failed, !failed && plan != "" && later(doc, func(p *kernel.Job) bool {
		return p.State.Status == kernel.Succeeded && p.State.Started.After(owner.State.Finished)
	})
}

// older reports whether job a was created before job b.
func older(s *kernel.Snapshot, a, b kernel.JobID) bool {
	if p, q := s.Job(a), s.Job(b); p != nil && q != nil {
		return p.Compare(q) < 0
	}
	return a < b
}

// there reports whether a exists for j, or why that is not known.
func there(s *kernel.Snapshot, j *kernel.Job, a kernel.Artifact) (bool, string) {
	unknown := func(err string) string {
		if err == "" {
			return "not observed"
		}
		return err
	}
	if a.Kind != kernel.Custom {
		f := s.Facts().Present[a]
		if p := s.Job(kernel.JobID(a.Name)); a.Kind == kernel.CommandPatch && p != nil && p.State.Status == kernel.Succeeded && p.State.Removed.IsZero() {
			return true, ""
		}
		if !f.Known {
			return false, unknown(f.Err)
		}
		return f.Value, ""
	}
	f := s.Facts().Markers[a]
	if !f.Known {
		return false, unknown(f.Err)
	}
	for _, owner := range f.Value {
		if p := s.Job(owner); p != nil && (p.State.Retired && slices.Contains(p.Spec.Produces, a) || forAnother(j, p, a)) && !ownProducer(s, j, a) {
			continue
		}
		if ownProducer(s, j, a) && (s.Job(owner) == nil || s.Job(owner).Spec.Origin.Run != j.Spec.Origin.Run) {
			continue
		}
		// It exists for j, unless a producer between its owner and j is going to renew it.
		if !slices.ContainsFunc(producersOf(s, j, a), func(p *kernel.Job) bool {
			return p.State.Status.Active() && older(s, owner, p.ID) && p.Compare(j) < 0 && !forAnother(j, p, a)
		}) {
			return true, ""
		}
	}
	return false, ""
}

// heldBackIn reports whether the failure that j says it is blocked by does stop it. An
// older failure may have become known later.
func heldBackIn(s *kernel.Snapshot, j *kernel.Job) bool {
	return slices.ContainsFunc(s.Jobs(), func(p *kernel.Job) bool { return stops(s, j, p) && heldBy(j, p) })
}

// handedAnother reports whether a job that succeeded hands j another place to run in than it has.
func handedAnother(s *kernel.Snapshot, j *kernel.Job) bool {
	return slices.ContainsFunc(s.Jobs(), func(p *kernel.Job) bool {
		return p.State.Status == kernel.Succeeded && slices.Contains(j.Spec.After, p.ID) &&
			slices.ContainsFunc(p.Spec.Routes, func(r kernel.Route) bool { return r.On == kernel.OutcomeSucceeded && r.To == j.ID }) &&
			p.State.Context.Root != "" && j.State.Context.Root != "" && p.State.Context.Root != j.State.Context.Root
	})
}

// midTick returns the worlds in which the gates of job j may have seen the jobs that count for its
// branch in the tick of o: each one as it was before the tick judged it, or after.
func midTick(o kernel.Observation, settled, after *kernel.Snapshot, j *kernel.Job) iter.Seq[*kernel.Snapshot] {
	var moved []kernel.JobID
	for _, m := range after.Jobs() {
		counts := m.Spec.Origin.Branch == j.Spec.Origin.Branch || m.State.Status.Terminal()
		if m.ID != j.ID && counts && m.State.Status != settled.Job(m.ID).State.Status {
			moved = append(moved, m.ID)
		}
	}
	return func(yield func(*kernel.Snapshot) bool) {
		for set := range 1 << len(moved) {
			o.Jobs = nil
			for _, m := range after.Jobs() {
				if at := slices.Index(moved, m.ID); at >= 0 && set>>at&1 == 1 {
					m = settled.Job(m.ID)
				}
				o.Jobs = append(o.Jobs, *m)
			}
			if !yield(kernel.NewSnapshot(o)) {
				return
			}
		}
	}
}

// dueLater reports whether j's next attempt has to wait for its time.
func dueLater(j *kernel.Job, now time.Time) bool {
	wait := j.State.RetryAt.Sub(now)
	return wait > 0 && wait < clockSetBack/2
}

// Without locks, the judgement of every open job after a tick is what the model
// says of the world that the tick leaves. So a failure reaches exactly the open jobs
// downstream, and so does success.
func TestDecideAgreesWithTheModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := World.Draw(t, "world")
		if oneIn(t, 3, "repairs") {
			repairs(t, &o)
		}
		o.Limits = kernel.Limits{}
		for i := range o.Jobs {
			o.Jobs[i].Spec.Locks = nil
		}
		before := kernel.NewSnapshot(o)
		p := kernel.Decide(before)
		settled, after := before.Apply(kernel.Settle(before)), before.Apply(p)
		launched := launches(p)
		for _, d := range p.Decisions {
			j := after.Job(d.Job)
			st := j.State
			_, started := launched[d.Job]
			if !started && (d.From == kernel.Running || settled.Job(d.Job).State.Approval.State == kernel.Expired && d.From == kernel.WaitingOnApproval || d.From.Terminal() && d.From == d.Next || st.Status == kernel.Unscheduled || dueLater(j, after.Now())) {
				continue // settled, submitted again, asleep or due later: not judged by its gates
			}
			if st.Status == kernel.BlockedByDependency && handedAnother(settled, j) {
				continue
			}
			if started { // the gates saw the time of its earlier start
				k := *j
				k.State.Started = settled.Job(d.Job).State.Started
				j = &k
			}
			want, detail := judge(after, j)
			if started && strings.HasPrefix(detail, anotherRun) {
				for s := range midTick(o, settled, after, j) {
					if at, why := judge(s, j); at == kernel.Running {
						want, detail = at, why
						break
					}
				}
			}
			if st.Status.Terminal() && held(after, j) != "" {
				if heldBackIn(after, j) {
					continue
				}
				want, detail = judgeOwn(after, j) // it ended before that failure was known
			}
			if len(j.Spec.Task.Args) == 0 && (want == kernel.Running || st.Status == kernel.Failed && strings.HasPrefix(detail, anotherRun)) { // the other run took the branch after j had failed
				want, detail = kernel.Failed, "missing child args"
			}
			if st.Status != want || detail != "?" && st.Wait.Detail != detail && !strings.HasPrefix(st.Wait.Detail, "custom precondition") {
				t.Fatalf("%s: %s (%s), the model says %s (%s)", j.ID, st.Status, st.Wait.Detail, want, detail)
			}
		}
	})
}

// I10, I11 and seed 002: after a tick, exactly the demanded transient jobs are
// awake.
func TestTransientJobsRunIffDemanded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		before := kernel.NewSnapshot(World.Draw(t, "world"))
		p := kernel.Decide(before)
		after := before.Apply(p)
		launched := launches(p)
		waits := func(j *kernel.Job) bool {
			return j.State.Status.Active() && j.State.Status != kernel.Running
		}
		lacks := func(j, p *kernel.Job) bool {
			return slices.Contains(j.Spec.After, p.ID) || slices.ContainsFunc(j.Spec.Needs, func(a kernel.Artifact) bool {
				ok, _ := there(after, j, a)
				return !ok && slices.Contains(producersOf(after, j, a), p)
			})
		}
		demanded := map[kernel.JobID]bool{}
		for grown := true; grown; {
			grown = false
			for _, j := range after.Jobs() {
				asks := waits(j) && (j.Transient() == kernel.NotTransient || demanded[j.ID] || j.State.Status == kernel.FailedRetryable)
				for _, p := range after.Jobs() {
					if asks && !demanded[p.ID] && lacks(j, p) {
						demanded[p.ID], grown = true, true
					}
				}
			}
		}
		for _, j := range after.Jobs() {
			if j.Transient() == kernel.NotTransient || j.Spec.Routed && !j.State.Awake {
				continue
			}
			_, started := launched[j.ID]
			var was kernel.State // of a job that a settled attempt submitted: queued
			if k := before.Job(j.ID); k != nil {
				was = k.State
			}
			switch asleep := j.State.Status == kernel.Unscheduled; {
			case asleep && demanded[j.ID]:
				t.Fatalf("%s is demanded and sleeps", j.ID)
			case (started || j.State.Status.Waiting()) && !demanded[j.ID] && was.Status != kernel.Running:
				t.Fatalf("%s: %s -> %s, and nobody demands it", j.ID, was.Status, j.State.Status)
			}
		}
	})
}

// A job that only a route starts sleeps until one has.
func TestUnroutedJobsSleep(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := kernel.NewSnapshot(World.Draw(t, "world"))
		p := kernel.Decide(s)
		after := s.Apply(p)
		for id := range launches(p) {
			j := s.Job(id)
			if j == nil {
				j = &kernel.Job{Spec: after.Job(id).Spec} // a settled attempt submitted it
			}
			if j.Spec.Routed && !j.State.Awake && j.State.Status != kernel.Running && !ledBack(s, after, id) {
				t.Fatalf("%s started without its route", id)
			}
		}
	})
}
