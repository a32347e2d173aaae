package kernel

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// The functions below fill the last two columns of the table of gates: what
// clears a gate's verdicts, and what a person can do about them.

func (x *explainer) clearsJob(_ int32, v verdict) string {
	if v.kind == blocked {
		return "a retry of what failed"
	}
	return "job " + x.describe(v.job)
}

func (x *explainer) remedyJob(i int32, v verdict) (does []Remedy, via JobID) {
	k, known := x.t.s.find(v.job)
	why := x.t.s.unreadable[v.job]
	switch {
	case known && x.t.status(k) == Succeeded: // it succeeded without producing what it declared
		return []Remedy{{Kind: RetryJob, Job: v.job}}, ""
	case known:
		return nil, v.job
	case why != "":
		does = append(does, Remedy{Kind: MendRecord, Job: v.job, Detail: why})
	default:
		return []Remedy{{Kind: SubmitAgain, Job: x.t.s.jobs[i].ID, Detail: "names job " + string(v.job) + ", which is gone, so a retry is no use"}}, ""
	}
	if v.kind == blocked {
		does = append(does, Remedy{Kind: RetryJob, Job: x.t.s.jobs[i].ID})
	}
	return does, ""
}

func (x *explainer) clearsNeed(i int32, v verdict) string {
	n, _, _ := x.t.need(i, v.artifact)
	switch {
	case v.job != "" && v.kind == blocked && x.t.s.jobs[i].Spec.MissingProducer == Wait:
		return "a retry of what failed, or another job that produces it"
	case v.job != "":
		return x.clearsJob(i, v)
	case n == awaited:
		return "any job that produces it"
	case n == unknown:
		return "the repository"
	default:
		return "a job that produces it, then a retry"
	}
}

func (x *explainer) remedyNeed(i int32, v verdict) (does []Remedy, via JobID) {
	if v.job != "" {
		return x.remedyJob(i, v)
	}
	does = []Remedy{{Kind: ProduceArtifact, Artifact: v.artifact}}
	if v.kind == blocked {
		does = append(does, Remedy{Kind: RetryJob, Job: x.t.s.jobs[i].ID})
	}
	return does, ""
}

func (x *explainer) clearsPinnedHead(i int32, _ verdict) string {
	p := x.t.s.jobs[i].Spec.Pinned
	return "branch " + p.Branch + " at " + string(p.Commit)
}

func (x *explainer) remedyPinnedHead(i int32, _ verdict) (does []Remedy, via JobID) {
	return []Remedy{{Kind: MoveBranch, Pinned: x.t.s.jobs[i].Spec.Pinned}}, ""
}

func (x *explainer) clearsPrecondition(_ int32, v verdict) string {
	if v.kind == blocked {
		return "a new submission"
	}
	return "the repository"
}

func (x *explainer) remedyPrecondition(_ int32, v verdict) (does []Remedy, via JobID) {
	return []Remedy{{Kind: MeetCondition, Detail: v.detail}}, ""
}

func (x *explainer) clearsApproval(i int32, v verdict) string {
	a := x.t.s.jobs[i].State.Approval
	switch {
	case v.kind != blocked && !a.ExpiresAt.IsZero():
		return "a person, until " + a.ExpiresAt.Format(time.RFC3339)
	case v.kind != blocked:
		return "a person"
	case a.InDoubt:
		return "a retry"
	default:
		return "a retry, which asks for the approval anew"
	}
}

func (x *explainer) remedyApproval(i int32, _ verdict) (does []Remedy, via JobID) {
	return []Remedy{{Kind: ApproveJob, Job: x.t.s.jobs[i].ID}}, ""
}

// remedyLocks returns nothing, since holders of locks end by themselves.
func (x *explainer) remedyLocks(int32, verdict) (does []Remedy, via JobID) { return nil, "" }

// namedInLine is how many of the jobs that wait before a job are named.
const namedInLine = 3

// holders names the running jobs whose locks keep job i out, and the first of
// the older jobs that wait for such locks.
func (x *explainer) holders(i int32, _ verdict) string {
	mine := x.t.s.jobs[i].Spec.Locks
	keepsOut := func(k int32) (key string, yes bool) {
		for _, l := range x.t.s.jobs[k].Spec.Locks {
			if slices.ContainsFunc(mine, func(m Lock) bool {
				return m.Key == l.Key && m.Pool() == l.Pool() && (m.Pool() || m.Mode == Exclusive || l.Mode == Exclusive)
			}) {
				return l.Key, true
			}
		}
		return "", false
	}
	running := 0
	var holders, before []int32
	for k := range x.t.s.jobs {
		if x.t.status(int32(k)) != Running || int32(k) == i {
			continue
		}
		running++
		if _, yes := keepsOut(int32(k)); yes {
			holders = append(holders, int32(k))
		}
	}
	for _, l := range mine {
		before = append(before, x.inLine(l.queue(), i, keepsOut)...)
	}
	slices.Sort(before)
	before = slices.Compact(before)
	var names []string
	for _, k := range append(holders, before[:min(len(before), namedInLine)]...) {
		key, _ := keepsOut(k)
		names = append(names, x.describe(x.t.s.jobs[k].ID)+" ("+key+")")
	}
	switch {
	case len(names) == 0:
		return strconv.Itoa(running) + " running jobs: the next that ends makes room"
	case len(before) > namedInLine:
		names = append(names, "and others that came before it")
	}
	return "job " + strings.Join(names, "; ")
}

// inLine returns the first jobs that wait for a lock before job i and keep it
// out: up to namedInLine and one more.
func (x *explainer) inLine(q queue, i int32, keepsOut func(int32) (string, bool)) (first []int32) {
	s, passed := x.t.s, 1
	for _, k := range s.graph.lockers[q] {
		if k >= i || len(first) > namedInLine {
			break
		}
		if s.jobs[k].State.Status == WaitingOnLocks {
			passed++
		}
		if _, yes := keepsOut(k); yes && x.t.status(k) == WaitingOnLocks {
			first = append(first, k)
		}
	}
	s.requireContenders(q, passed+len(s.dirty))
	return first
}
