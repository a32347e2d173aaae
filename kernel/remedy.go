package kernel

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The functions below fill the last two columns of the table of gates: what
// clears a gate's verdicts, and what a person can do about them.

func (x *explainer) clearsJob(_ int32, v verdict) string {
	k, known := x.t.s.find(v.job)
	switch {
	case v.cause == RouteDeferred:
		_, clears := x.awaited(x.t.s.jobs[k])
		return clears
	case v.kind != blocked:
		return "job " + x.describe(v.job)
	case !known && x.t.s.unreadable[v.job] != "":
		return "a record that can be read, then a retry"
	case !known:
		return "a new submission"
	case x.t.status(k) == Succeeded && x.spoiler(k, v.artifact) >= 0:
		return "a retry of what failed"
	case x.t.status(k) == Succeeded && !x.t.s.jobs[k].State.Removed.IsZero():
		return "a retry of job " + string(v.job) + ", whose files were removed"
	case x.t.status(k) == Succeeded:
		return "a retry of job " + string(v.job) + ", which did not make it"
	default:
		return "a retry of what failed"
	}
}

func (x *explainer) remedyJob(i int32, v verdict) (does []Remedy, via JobID) {
	k, known := x.t.s.find(v.job)
	why := x.t.s.unreadable[v.job]
	switch {
	case v.cause == RouteDeferred:
		via, _ = x.awaited(x.t.s.jobs[k])
		return nil, via
	case known && x.spoiler(k, v.artifact) >= 0:
		return nil, x.t.s.jobs[x.spoiler(k, v.artifact)].ID
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

// spoiler returns the job that failed in p's run before what p made of a plan was committed, or -1:
// p itself succeeded, and a retry of it alone would end in the same way.
func (x *explainer) spoiler(p int32, a Artifact) int32 {
	if a.Name == "" || a.Kind != PlanBranch && a.Kind != PlanDoc && a.Kind != PlanCommits || x.t.status(p) != Succeeded {
		return -1
	}
	s := x.t.s
	for _, k := range s.graph.closure([]int32{p}, func(k int32, f func(int32)) {
		s.graph.eachSuccessor(k, func(c int32) {
			if s.jobs[c].Spec.Origin.Run == s.jobs[p].Spec.Origin.Run {
				f(c)
			}
		})
	}) {
		if st := x.t.status(k); st == Failed || st == Cancelled || st == BlockedByDependency && s.jobs[k].State.Outcome == OutcomeBlocked {
			return k
		}
	}
	return -1
}

// held reports whether job i was blocked, rejected or cancelled: a retry of it starts it only after the jobs that it depends on.
func (t *tick) held(i int32) bool {
	st := t.status(i)
	return st == BlockedByDependency || st == BlockedByApproval || st == Cancelled
}

// inCircle reports whether v blocks job i for want of an artifact whose producer is blocked because i is, or ended.
func (x *explainer) inCircle(i int32, v verdict) bool {
	k, ok := x.t.s.find(v.job)
	return ok && v.kind == blocked && x.waitsFor(k, i)
}

// waitsFor reports whether job k cannot start, directly or by way of others, since job i cannot, or ended
// without success.
func (x *explainer) waitsFor(k, i int32) bool {
	if st := x.t.status(i); !x.t.held(k) || !st.Terminal() || st == Succeeded {
		return false
	}
	if x.t.status(i) == BlockedByDependency && x.dependsOn(i, k) {
		return x.blocked.same(k, i)
	}
	return slices.Contains(x.t.s.graph.closure([]int32{k}, func(at int32, f func(int32)) {
		x.t.s.graph.eachPredecessor(at, func(p int32) {
			if p == i || x.t.held(p) {
				f(p)
			}
		})
	}), i)
}

// dependsOn reports whether job i depends on job k, and not only by way of others.
func (x *explainer) dependsOn(i, k int32) (yes bool) {
	x.t.s.graph.eachPredecessor(i, func(p int32) { yes = yes || p == k })
	return yes
}

func (x *explainer) clearsNeed(i int32, v verdict) string {
	n, _, _ := x.t.need(i, v.artifact)
	switch {
	case n == producing && x.circular(i):
		return "another job that produces it: " + x.describe(v.job) + ", waits for this one"
	case x.inCircle(i, v), x.notBySuccess(v):
		return "another job that produces it, then a retry"
	case v.job != "" && v.kind == blocked && x.t.s.jobs[i].Spec.MissingProducer == Wait:
		return "a retry of what failed, or another job that produces it"
	case v.job != "":
		v.job = x.maker(i, v)
		return x.clearsJob(i, v)
	case n == awaited:
		return "any job that produces it"
	case n == unknown:
		return "the repository, once it can be asked"
	default:
		return "a job that produces it, then a retry"
	}
}

// circular reports whether job i waits for itself, since what it needs is made only by jobs
// that wait for it.
func (x *explainer) circular(i int32) bool {
	if !x.depends.cyclic(i) {
		return false
	}
	c := x.t.s.deadlock([]int32{i}, func(*Job) bool { return true }, false).cycle(i)
	return c != nil && slices.Contains(c.Jobs, x.t.s.jobs[i].ID)
}

// notBySuccess reports whether the job that v names succeeded and makes what v lacks only when it ends in another way: a
// retry of it would end as it did.
func (x *explainer) notBySuccess(v verdict) bool {
	k, known := x.t.s.find(v.job)
	return known && x.t.status(k) == Succeeded && !slices.Contains(x.t.s.jobs[k].Spec.Products(OutcomeSucceeded), v.artifact)
}

// maker returns the job that is to make what job i waits for: the one that v names or, if that one waits for i itself,
// the first that does not.
func (x *explainer) maker(i int32, v verdict) JobID {
	s := x.t.s
	named, known := s.find(v.job)
	if !known || v.kind != waiting || !x.depends.same(named, i) {
		return v.job
	}
	first := v.job
	x.t.eachMaker(i, v.artifact, func(k int32) {
		if first == v.job && k != i && (x.t.status(k).Active() || x.t.promotable(k)) && !x.depends.same(k, i) {
			first = s.jobs[k].ID
		}
	})
	return first
}

func (x *explainer) remedyNeed(i int32, v verdict) (does []Remedy, via JobID) {
	if n, _, _ := x.t.need(i, v.artifact); n == producing && x.circular(i) {
		return []Remedy{x.t.frees(i, v.artifact)}, ""
	}
	if v.job != "" && !x.inCircle(i, v) && !x.notBySuccess(v) {
		v.job = x.maker(i, v)
		return x.remedyJob(i, v)
	}
	if n, _, _ := x.t.need(i, v.artifact); n == unknown {
		return []Remedy{{Kind: MeetCondition, Detail: v.detail}}, ""
	}
	does = []Remedy{x.t.frees(i, v.artifact)}
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

func (x *explainer) remedyPrecondition(i int32, v verdict) (does []Remedy, via JobID) {
	if v.kind == blocked {
		return []Remedy{{Kind: SubmitAgain, Job: x.t.s.jobs[i].ID, Detail: "asks for what cannot be checked: " + v.detail}}, ""
	}
	r := Remedy{Kind: MeetCondition, Detail: v.detail}
	j, facts := x.t.s.jobs[i], x.t.s.facts
	for _, p := range j.Spec.Preconditions {
		if x.t.checkPrecondition(j, p).detail != v.detail {
			continue
		}
		if p = p.canonical(); p.Kind == CleanWorktree && facts.Clean.Known {
			r = Remedy{Kind: CleanTree}
		} else if branch := cmp.Or(j.branchFor(p), facts.Head.Value); p.Kind == BranchExists && facts.Heads[branch].Known {
			r = Remedy{Kind: MakeBranch, Pinned: PinnedHead{Branch: branch}}
		}
		break
	}
	return []Remedy{r}, ""
}

func (x *explainer) clearsApproval(i int32, v verdict) string {
	j := x.t.s.jobs[i]
	a, person := j.State.Approval, cmp.Or(x.t.s.Barred(j).Else(), "a person")
	switch {
	case v.kind != blocked && !a.ExpiresAt.IsZero():
		return person + ", until " + a.ExpiresAt.Format(time.RFC3339)
	case v.kind != blocked:
		return person
	case a.InDoubt:
		return "a retry"
	default:
		return "a retry, which asks for the approval anew"
	}
}

func (x *explainer) remedyApproval(i int32, _ verdict) (does []Remedy, via JobID) {
	j, r := x.t.s.jobs[i], x.approve(x.t.s.jobs[i])
	branch := j.branchToApprove()
	asked, now := j.State.Approval.Head, x.t.s.facts.Heads[branch]
	switch {
	case branch == "" || !now.Known || now.Value == asked:
	case now.Value == "": // approving is refused until it is there again
		return []Remedy{{Kind: MakeBranch, Pinned: PinnedHead{Branch: branch, Commit: asked}}, r}, ""
	default:
		r.Pinned, r.Asked = PinnedHead{Branch: branch, Commit: now.Value}, asked
	}
	return []Remedy{r}, ""
}

func (x *explainer) approve(j *Job) Remedy {
	return Remedy{Kind: ApproveJob, Job: j.ID, Barred: x.t.s.Barred(j)}
}

// remedyLocks returns nothing unless a pool is too small or a holder's runner has not
// been heard from, since holders of locks end by themselves.
func (x *explainer) remedyLocks(i int32, v verdict) (does []Remedy, via JobID) {
	if v.cause == PoolTooSmall {
		j := x.t.s.jobs[i]
		l, _ := x.t.s.limits.tooSmall(j.Spec.Locks)
		return []Remedy{{Kind: EnlargePool, Job: j.ID, Detail: l.Key, Units: l.Units}}, ""
	}
	for k := range x.t.s.jobs {
		if _, yes := x.keepsOut(int32(k), i); yes {
			does = append(does, x.stalled(int32(k))...)
		}
	}
	return does, ""
}

// stalled returns what to do about job i if it runs and its runner has not been heard
// from for too long.
func (x *explainer) stalled(i int32) []Remedy {
	if j := x.t.s.jobs[i]; x.t.status(i) == Running && j.State.Stop.At.IsZero() && x.t.s.facts.Runners[j.Attempt()].Value.Liveness == Stalled {
		return []Remedy{{Kind: SeeToRunner, Job: j.ID}}
	}
	return nil
}

// keepsOut returns the first lock of job k that excludes one of job i.
func (x *explainer) keepsOut(k, i int32) (key string, yes bool) {
	for _, l := range x.t.s.jobs[k].Spec.Locks {
		if slices.ContainsFunc(x.t.s.jobs[i].Spec.Locks, func(m Lock) bool {
			return m.Key == l.Key && m.Pool() == l.Pool() && (m.Pool() || m.Mode == Exclusive || l.Mode == Exclusive)
		}) {
			return l.Key, true
		}
	}
	return "", false
}

// namedInLine is how many of the jobs that wait before a job are named.
const namedInLine = 3

// holders says what makes room for job i. It names the running jobs whose locks keep
// it out, and the first of the older jobs that wait for such locks.
func (x *explainer) holders(i int32, v verdict) string {
	on := x.t.s.jobs[i].Spec.Task.On()
	switch v.cause {
	case PoolTooSmall:
		l, _ := x.t.s.limits.tooSmall(x.t.s.jobs[i].Spec.Locks)
		return "a larger pool " + l.Key
	case HostAbsent:
		return "that scheduler, or a command on that host"
	default:
	}
	running := 0
	var holders, before []int32
	for k := range x.t.s.jobs {
		if x.t.status(int32(k)) != Running || int32(k) == i {
			continue
		}
		if x.t.s.jobs[k].Spec.Task.On() == on {
			running++
		}
		if _, yes := x.keepsOut(int32(k), i); yes {
			holders = append(holders, int32(k))
		}
	}
	if v.cause == ExecutorFull {
		m, _ := x.t.s.limits.limitOf(on)
		return roomAfter(running, running-m+1)
	}
	for _, l := range x.t.s.jobs[i].Spec.Locks {
		before = append(before, x.inLine(l.queue(), i)...)
	}
	slices.Sort(before)
	before = slices.Compact(before)
	var names []string
	for _, k := range append(holders, before[:min(len(before), namedInLine)]...) {
		key, _ := x.keepsOut(k, i)
		names = append(names, x.describe(x.t.s.jobs[k].ID)+" ("+key+")")
	}
	if len(before) > namedInLine {
		names = append(names, "and others that came before it")
	}
	return "job " + strings.Join(names, "; ")
}

// roomAfter says that an executor has a place again once that many of its running jobs
// have ended: more than one if its limit was lowered.
func roomAfter(running, ends int) string {
	if ends > 1 {
		return strconv.Itoa(running) + " running jobs: there is room once " + strconv.Itoa(ends) + " of them have ended"
	}
	return strconv.Itoa(running) + " running jobs: the next that ends makes room"
}

// inLine returns the first jobs that wait for a lock before job i and keep it
// out: up to namedInLine and one more. Those that can never start keep nobody out.
func (x *explainer) inLine(q queue, i int32) (first []int32) {
	s, passed := x.t.s, 1
	for _, k := range s.graph.lockers[q] {
		if k >= i || len(first) > namedInLine {
			break
		}
		if s.jobs[k].State.Status == WaitingOnLocks {
			passed++
		}
		if _, never := s.limits.tooSmall(s.jobs[k].Spec.Locks); never || x.t.status(k) != WaitingOnLocks {
			continue
		}
		if _, yes := x.keepsOut(k, i); yes {
			first = append(first, k)
		}
	}
	s.requireContenders(q, passed+len(s.dirty))
	return first
}
