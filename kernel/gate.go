package kernel

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// WaitKind names the gate that holds a job up. The zero value is none.
type WaitKind uint8

// The kinds of seed 000.
const (
	NoWait WaitKind = iota
	OnDependencies
	OnPinnedHead
	OnPreconditions
	OnApproval
	OnLocks
	numWaitKinds
)

var waitKindNames = NewNames[WaitKind]("wait kind", "", "dependencies", "pinned_head", "preconditions", "approval", "locks")

type verdictKind uint8

const (
	passed verdictKind = iota
	waiting
	blocked
)

// verdict is what a gate says about one condition of a job. Its constructors
// are the only way to make one: a verdict that passed has no detail, and any
// other has one.
type verdict struct {
	kind     verdictKind
	detail   string
	now      string   // what explanations add to detail: see reason
	job      JobID    // the job it is about, if any
	artifact Artifact // the artifact it is about, if any
	cause    WaitCause
}

func waits(detail string) verdict  { return verdict{kind: waiting, detail: detail} }
func blocks(detail string) verdict { return verdict{kind: blocked, detail: detail} }

func (v verdict) of(id JobID) verdict         { v.job = id; return v }
func (v verdict) about(a Artifact) verdict    { v.artifact = a; return v }
func (v verdict) because(c WaitCause) verdict { v.cause = c; return v }

// reason returns the part of v that the job's record holds. It leaves out what no
// decision depends on: otherwise each change of that would rewrite the record.
func (v verdict) reason(kind WaitKind) WaitReason {
	w := WaitReason{Kind: kind, Detail: v.detail, Cause: v.cause}
	switch v.cause {
	case JobNotEnded, RunStopped, RouteDeferred:
		w.Job = v.job
	case TokenProducing, ArtifactMissing:
		w.Artifact = v.artifact
	case OtherCause, ExecutorFull, HostAbsent, PoolTooSmall: // about none in particular
	}
	return w
}

// gate is one row of seed 000's list: everything about one condition for
// starting.
type gate struct {
	name      string // its name for people: see `vizier help gates`
	kind      WaitKind
	onWait    Status
	onBlocked Status

	// check checks the job's conditions of this gate, beginning at position from.
	// It returns the first verdict that does not pass, and the position after it;
	// a verdict that passed ends the gate. Deciding takes the first verdict,
	// explaining takes them all.
	check func(t *tick, i int32, from int) (verdict, int)

	// decide returns the verdict that decides. It takes fewer steps than check, or names
	// another job or artifact than check's first verdict; nil: that verdict decides.
	decide func(t *tick, i int32) verdict

	// has reports whether a job has conditions of this gate, and reads adds to b
	// the facts that check reads for them; both nil: check reads no facts.
	has   func(s *Spec) bool
	reads func(b *prober, j *Job)

	// wakes adds to b the facts whose change would clear v, and reports whether
	// one of them could not be observed and must be polled. nil: only a command
	// or the end of a job clears v, whatever reads says. next is the position after v's condition.
	wakes func(t *tick, b *prober, i int32, v verdict, next int) (poll bool)

	// clock returns when the clock alone changes the verdict on j, which waits for this gate;
	// the zero time, or nil: never.
	clock func(j *Job) time.Time

	// clears says in words who or what clears v.
	clears func(x *explainer, i int32, v verdict) string

	// remedy returns what a person can do about v or, if another job must be
	// helped first, that job as via. Neither: v clears by itself.
	remedy func(x *explainer, i int32, v verdict) (does []Remedy, via JobID)
}

// gates are checked in order, and the first that does not pass decides. Three rows are
// not in seed 000's list. "run" is for a run's failure mode: it ends jobs that would
// otherwise wait for something that may never come. For "sandbox" and "branch" see
// docs/adr/0037 and docs/adr/0064.
var gates = [...]gate{
	{"run", OnDependencies, WaitingOnDeps, BlockedByDependency,
		single((*tick).checkRun), nil, nil, nil, nil, nil, (*explainer).clearsJob, (*explainer).remedyJob},
	{"jobs", OnDependencies, WaitingOnDeps, BlockedByDependency,
		(*tick).checkAfter, (*tick).decideAfter, nil, nil, nil, nil, (*explainer).clearsJob, (*explainer).remedyJob},
	{"artifacts", OnDependencies, WaitingOnDeps, BlockedByDependency,
		(*tick).checkNeeds, (*tick).decideNeeds, func(s *Spec) bool { return len(s.Needs) > 0 }, (*prober).needs, (*tick).wakesNeeds, nil, (*explainer).clearsNeed, (*explainer).remedyNeed},
	{"pinned head", OnPinnedHead, WaitingOnDeps, BlockedByDependency,
		single((*tick).checkPinnedHead), nil, func(s *Spec) bool { return s.Pinned.Branch != "" }, (*prober).pinnedHead, (*tick).wakesPinnedHead, nil, (*explainer).clearsPinnedHead, (*explainer).remedyPinnedHead},
	{"preconditions", OnPreconditions, WaitingOnDeps, BlockedByDependency,
		(*tick).checkPreconditions, nil, func(s *Spec) bool { return len(s.Preconditions) > 0 }, (*prober).preconditions, (*tick).wakesPreconditions, nil, (*explainer).clearsPrecondition, (*explainer).remedyPrecondition},
	{"sandbox", OnPreconditions, WaitingOnDeps, BlockedByDependency,
		single((*tick).checkSandbox), nil, func(s *Spec) bool { return s.Task.sandboxed() }, (*prober).sandbox, (*tick).wakesSandbox, nil, (*explainer).clearsSandbox, (*explainer).remedySandbox},
	{"approval", OnApproval, WaitingOnApproval, BlockedByApproval,
		single((*tick).checkApproval), nil, func(s *Spec) bool { return s.ApprovedBranch() != "" }, (*prober).approval, nil, (*Job).approvalExpires, (*explainer).clearsApproval, (*explainer).remedyApproval},
	{"branch", OnDependencies, WaitingOnDeps, BlockedByDependency,
		single((*tick).checkRivals), nil, nil, nil, nil, nil, (*explainer).clearsJob, (*explainer).remedyJob},
	{"locks", OnLocks, WaitingOnLocks, WaitingOnLocks,
		single((*tick).checkLocks), nil, nil, nil, nil, nil, (*explainer).holders, (*explainer).remedyLocks},
}

// single returns the check of a gate with one condition.
func single(check func(t *tick, i int32) verdict) func(t *tick, i int32, from int) (verdict, int) {
	return func(t *tick, i int32, from int) (verdict, int) {
		if from > 0 {
			return verdict{}, from
		}
		return check(t, i), 1
	}
}

// readsFacts reports whether gates read facts for a job with spec s (any), and
// whether they read others than the existence of artifacts (outward).
func readsFacts(s *Spec) (any, outward bool) {
	for i := range gates {
		if gates[i].has != nil && gates[i].has(s) {
			any, outward = true, outward || gates[i].kind != OnDependencies
		}
	}
	return any, outward
}

// Gate is a gate as people see it.
type Gate struct {
	Name string
	Kind WaitKind // the wait kind of a job that it holds up
}

// Gates returns all gates, in the order in which they are checked.
func Gates() []Gate {
	var out []Gate
	for i := range gates {
		out = append(out, Gate{gates[i].name, gates[i].kind})
	}
	return out
}

// unreadableDependency begins what is said of a job that is blocked since the record of one that it runs after
// could not be read (seed 000).
const unreadableDependency = "scheduler data error for job dependency "

// BlockedUnread returns the job whose record could not be read when j was blocked for that, or "". j stays blocked
// when that is mended, until it is retried.
func (j *Job) BlockedUnread() JobID {
	rest, is := strings.CutPrefix(j.State.Wait.Detail, unreadableDependency)
	if !is || j.State.Status != BlockedByDependency {
		return ""
	}
	id, _, _ := strings.Cut(rest, ":")
	return JobID(id)
}

// checkAfter checks that the predecessors of job i have ended, then that the ends of those of which any will do are
// final (docs/adr/0066), and then that no deferred route takes job i back (docs/adr/0067).
func (t *tick) checkAfter(i int32, from int) (verdict, int) {
	ended, anyEnd := len(t.s.jobs[i].Spec.After), t.s.jobs[i].Spec.AfterAny
	if from < ended {
		if v, next := t.checkEnded(i, from); v.kind != passed {
			return v, next
		}
		from = ended
	}
	for n := from - ended; n < len(anyEnd); n++ {
		if k := t.sender(i, anyEnd[n]); k >= 0 && !t.s.jobs[k].State.Deferred {
			by := t.s.jobs[k].ID
			return waits(waitingOnJob + string(by) + ", which may send job " + string(anyEnd[n]) + " back").of(by).because(JobNotEnded), ended + n + 1
		} else if k >= 0 && t.takenBack(i) < 0 {
			return t.awaitsRoute(k), ended + n + 1
		}
	}
	last := ended + len(anyEnd)
	if k := t.takenBack(i); k >= 0 && from <= last {
		return t.awaitsRoute(k), last + 1
	}
	return verdict{}, last
}

// awaitsRoute returns the verdict on a job that waits for the deferred routes of job k.
func (t *tick) awaitsRoute(k int32) verdict {
	t.lookAtDeferred()
	v := waits("job " + string(t.s.jobs[k].ID) + " is about to send it back").of(t.s.jobs[k].ID).because(RouteDeferred)
	if r := t.defers[k]; r != "" {
		v.now = ", once job " + string(r) + " has ended"
	}
	return v
}

// takenBack returns the job whose deferred routes take back job i, or -1. A job that another one submitted
// goes on, since that one may run and wait for it.
func (t *tick) takenBack(i int32) int32 {
	t.lookAtDeferred()
	if k, back := t.takes[t.s.jobs[i].ID]; back && t.s.jobs[i].Spec.Origin.Parent == "" {
		return k
	}
	return -1
}

// lookAtDeferred finds out, once in a tick, what deferred routes take back and which running jobs are in their way.
func (t *tick) lookAtDeferred() {
	if len(t.s.deferred) == 0 || t.takes != nil {
		return
	}
	t.takes, t.defers = map[JobID]int32{}, map[int32]JobID{}
	for _, k := range t.s.deferred {
		if !t.s.jobs[k].State.Deferred {
			continue
		}
		back := t.s.takesBack(t.s.jobs[k])
		t.defers[k] = t.s.runs(back)
		for _, id := range back {
			if _, earlier := t.takes[id]; !earlier {
				t.takes[id] = k
			}
		}
	}
}

func (t *tick) checkEnded(i int32, from int) (verdict, int) {
	after := t.s.jobs[i].Spec.After
	for n := from; n < len(after); n++ {
		id := after[n]
		k, ok := t.s.find(id)
		switch {
		case !ok && t.s.unreadable[id] != "":
			return blocks(unreadableDependency + string(id) + ": " + t.s.unreadable[id]).of(id), n + 1
		case !ok && slices.Contains(t.s.jobs[i].Spec.AfterAny, id): // it had ended when it was removed
			t.s.requireSome(after[n+1:], n)
			continue
		case !ok:
			t.s.requireSome(after[n+1:], n)
			return blocks("missing job dependency " + string(id)).of(id), n + 1
		}
		switch s := t.status(k); {
		case s == Succeeded:
		case !s.Terminal():
			return waits(waitingOnJob + string(id)).of(id).because(JobNotEnded), n + 1
		case slices.Contains(t.s.jobs[i].Spec.AfterAny, id):
		default:
			return blocks("dependency failed for job " + string(id) + " (" + s.String() + ")").of(id), n + 1
		}
	}
	return verdict{}, len(after)
}

func (t *tick) checkNeeds(i int32, from int) (verdict, int) {
	needs := t.s.jobs[i].Spec.Needs
	for n := from; n < len(needs); n++ {
		if v := t.checkNeed(i, needs[n]); v.kind != passed {
			return v, n + 1
		}
	}
	return verdict{}, len(needs)
}

// checkNeed returns the verdict on one artifact that job i needs: seed 003's table.
func (t *tick) checkNeed(i int32, a Artifact) verdict {
	switch n, first, why := t.need(i, a); n {
	case met:
		return verdict{}
	case unknown:
		return waits("cannot tell whether " + a.String() + " exists: " + why).about(a)
	case producing:
		v := waits(waitingOnToken + a.String()).about(a).of(first)
		if a.Kind == Custom {
			v = v.because(TokenProducing)
		}
		return v
	case notMade:
		return blocks(missing + a.String()).about(a).of(first).because(ArtifactMissing)
	case failed:
		v := blocks(producersFailed + a.String()).about(a).of(first).because(ArtifactMissing)
		v.now = why
		return v
	case awaited:
		v := waits(awaitingProducer + a.String()).about(a)
		v.now = why
		return v
	default:
		v := blocks(missing + a.String()).about(a).because(ArtifactMissing)
		v.now = why
		return v
	}
}

// need is the state of an artifact that a job needs.
type need uint8

const (
	met        need = iota
	unknown         // nobody can tell whether it exists
	producing       // a producer is open
	notMade         // a producer succeeded without it
	failed          // every producer failed
	awaited         // nobody produces it yet
	noProducer      // nobody produces it, and that is final
)

// need returns the state of artifact a for job i by seed 003's table. The producers that
// count are those of the plan's present cycle (docs/adr/0023). If the run makes a
// itself, only the run's producers count, even if a merge has closed their cycle. first is the
// producer that the state depends on, if any; why says why the state is unknown, or why a
// token that exists does not count.
func (t *tick) need(i int32, a Artifact) (n need, first JobID, why string) {
	exists, why := t.exists(i, a)
	if why != "" {
		return unknown, "", why
	}
	since := t.elsewhere(i, a)
	if exists {
		if since = t.outdated(i, a); since == (outdating{}) {
			return met, "", ""
		}
	}
	own := t.s.graph.ownProducers(i, a)
	known, active, succeeded, first := t.producersOf(i, a)
	switch {
	case active:
		return producing, first, ""
	case t.s.jobs[i].State.Closed && (!known || own && succeeded && !since.drafted) && !t.draftedAnew(i, a): // it had what it needed, and has used it up
		return met, "", ""
	case since.failed != "":
		return failed, since.failed, since.text()
	case succeeded && !since.drafted:
		return notMade, first, ""
	case known && !since.drafted:
		return failed, first, ""
	case t.s.jobs[i].Spec.MissingProducer == Wait:
		return awaited, "", since.text()
	default:
		return noProducer, "", since.text()
	}
}

// made caches, within a tick, the part of the state of an artifact's producers that the
// tick cannot change. Consumers with the same producers share it.
type made struct {
	tokens bool  // newest is known
	newest JobID // the owner of the newest token that counts; "": there is none

	ended            int   // how many producers, counted from the first in schedule order, have ended
	known, succeeded bool  // whether one of these counts, and whether one succeeded
	first            JobID // the first that counts
}

// madeKey is an artifact as its consumers see it: those of a run that makes it itself, the merges of a
// branch, or all others.
type madeKey struct {
	Artifact
	run    RunID
	branch string
}

// mergesBy reports whether the job is a merge that takes its branch by a, a stage's token. Such a one does not
// take what was made for another branch.
func (s *Spec) mergesBy(a Artifact) bool {
	return a.Kind == Custom && a.Name == StageToken && s.takesBranch() && s.Integrates() != ""
}

// forAnother reports whether what job p makes of a is for another branch than the one that merge i takes.
func (s *Snapshot) forAnother(p, i int32, a Artifact) bool {
	j, k := s.jobs[i], s.jobs[p]
	return j.Spec.mergesBy(a) && k.onBranch() && k.Spec.Origin.Branch != j.Spec.Origin.Branch && k.Spec.Origin.Run != j.Spec.Origin.Run
}

// madeFor returns what the tick knows of a's producers for job i; own: only producers of
// the job's run count.
func (t *tick) madeFor(i int32, a Artifact, own bool) *made {
	key := madeKey{Artifact: a}
	if j := t.s.jobs[i]; own {
		key.run = j.Spec.Origin.Run
	} else if j.Spec.mergesBy(a) {
		key.branch = j.Spec.Origin.Branch
	}
	m := t.made[key]
	if m == nil {
		if t.made == nil {
			t.made = map[madeKey]*made{}
		}
		m = &made{}
		t.made[key] = m
	}
	return m
}

// producersOf returns the state of the producers of a that count for job i: whether
// there is one (known), whether one may still make a (active), whether one succeeded, and
// the first.
func (t *tick) producersOf(i int32, a Artifact) (known, active, succeeded bool, first JobID) {
	list, own := t.s.graph.producersFor(i, a)
	m := &made{}
	if !t.status(i).Terminal() { // else the cached producers may include job i itself
		m = t.madeFor(i, a, own)
	}
	known, succeeded, first = m.known, m.succeeded, m.first
	ended := true
	for at := m.ended; at < len(list); at++ {
		p := list[at]
		s := t.status(p)
		if ended = ended && s.Terminal(); p != i && (own || !t.s.jobs[p].State.Retired && !t.s.forAnother(p, i, a)) {
			asleep := t.promotable(p) && !active // the first one that sleeps, unless another may make it without being woken
			if s.Active() || asleep || !known {
				first = t.s.jobs[p].ID
			}
			active = active || asleep
			if known, succeeded = true, succeeded || s == Succeeded; s.Active() {
				return known, true, succeeded, first
			}
		}
		if ended {
			m.ended, m.known, m.succeeded, m.first = at+1, known, succeeded, first
		}
	}
	return known, active, succeeded, first
}

// eachMaker calls f with the producers of a that job i may take it from, in schedule order.
func (t *tick) eachMaker(i int32, a Artifact, f func(int32)) {
	t.s.graph.eachProducer(i, a, func(p int32) {
		if !t.s.forAnother(p, i, a) {
			f(p)
		}
	})
}

// exists reports whether a exists for job i, or why that is unknown.
func (t *tick) exists(i int32, a Artifact) (bool, string) {
	if a.Kind != Custom {
		f := t.s.facts.Present[a]
		t.s.ask(t.s.jobs[i], f.asked())
		if a.Kind == CommandPatch && !f.Value {
			if k, ok := t.s.find(JobID(a.Name)); ok && t.status(k) == Succeeded && t.s.jobs[k].State.Removed.IsZero() {
				return true, ""
			}
		}
		if !f.Known {
			return false, unobserved(f.Err)
		}
		return f.Value, ""
	}
	f := t.s.facts.Markers[a]
	t.s.ask(t.s.jobs[i], f.asked())
	if !f.Known {
		return false, unobserved(f.Err)
	}
	own := t.s.graph.ownProducers(i, a)
	m := t.madeFor(i, a, own)
	if !m.tokens {
		m.tokens = true
		for _, id := range f.Value {
			if p, ok := t.s.find(id); own && !t.sameRun(i, id) || !own && (t.retired(id, a) || ok && t.s.forAnother(p, i, a)) {
				continue
			}
			if m.newest == "" || t.older(m.newest, id) {
				m.newest = id
			}
		}
	}
	return m.newest != "" && !t.superseded(i, a, m.newest), ""
}

// retired reports whether job id made a for a cycle of a plan that a merge has
// closed.
func (t *tick) retired(id JobID, a Artifact) bool {
	k, ok := t.s.find(id)
	return ok && t.s.jobs[k].State.Retired && slices.Contains(t.s.jobs[k].Spec.Produces, a)
}

// superseded reports whether a job enqueued after owner and before consumer i is about to
// produce a again. Then owner's token does not count for the consumer, which was enqueued
// for the newer one.
func (t *tick) superseded(i int32, a Artifact, owner JobID) bool {
	list, _ := t.s.graph.producersFor(i, a)
	from := 0
	if o, ok := t.s.find(owner); ok {
		from, _ = slices.BinarySearch(list, o+1)
	}
	for _, p := range list[from:] {
		if p >= i {
			break
		}
		if t.status(p).Active() && t.older(owner, t.s.jobs[p].ID) && !t.s.forAnother(p, i, a) {
			return true
		}
	}
	return false
}

// outdating is what happened on a plan's branch since a stage's token was made.
type outdating struct {
	failed  JobID  // it was to make the token anew, and did not
	drafted bool   // the plan was drafted anew
	branch  string // it was made, or is made, for this one, which is another branch
	made    bool   // for branch
}

func (o outdating) text() string {
	switch {
	case o.failed != "":
		return ": an older one does not count, since the run of the failed job worked on the branch after it"
	case o.drafted:
		return ": the plan was drafted anew since it was made"
	case o.branch != "" && o.made:
		return ": that there is was made for branch " + o.branch
	case o.branch != "":
		return ": the one to come is for branch " + o.branch
	default:
		return ""
	}
}

// elsewhere returns for which other branch the stage token a of merge i exists, or is about to be made.
func (t *tick) elsewhere(i int32, a Artifact) (o outdating) {
	if !t.s.jobs[i].Spec.mergesBy(a) {
		return o
	}
	list, own := t.s.graph.producersFor(i, a)
	for _, p := range list {
		if own || t.s.jobs[p].State.Retired || !t.s.forAnother(p, i, a) {
			continue
		}
		branch := t.s.jobs[p].Spec.Origin.Branch
		switch {
		case slices.Contains(t.s.facts.Markers[a].Value, t.s.jobs[p].ID):
			o = outdating{branch: branch, made: true}
		case !o.made && !t.status(p).Terminal():
			o = outdating{branch: branch}
		}
	}
	return o
}

// outdated returns why the stage token a, which exists, does not count for job i, which takes
// the plan's branch (docs/adr/0023): what other runs did on the branch since then is not what
// the token stands for. A token of the job's own run counts until the run's merge has used it.
func (t *tick) outdated(i int32, a Artifact) outdating {
	j := t.s.jobs[i]
	if a.Kind != Custom || a.Name != StageToken || !j.Spec.takesBranch() {
		return outdating{}
	}
	list, own := t.s.graph.producersFor(i, a)
	owner, ok := t.s.find(t.madeFor(i, a, own).newest)
	if own && !j.State.Closed || !ok {
		return outdating{}
	}
	made := t.s.jobs[owner].State.Finished
	others := func(p int32) bool { // it is of another run for the branch, in this cycle of the plan
		k := t.s.jobs[p]
		return p != owner && !k.State.Retired && k.Spec.Origin.Run != j.Spec.Origin.Run && k.onBranch() && k.Spec.Origin.Branch == j.Spec.Origin.Branch
	}
	for _, p := range list {
		if st := t.status(p); !own && st.Terminal() && st != Succeeded && others(p) && t.worked(p).After(made) {
			return outdating{failed: t.s.jobs[p].ID}
		}
	}
	if slices.ContainsFunc(t.drafts(i), func(p int32) bool {
		return others(p) && t.status(p) == Succeeded && t.s.jobs[p].State.Started.After(made)
	}) {
		return outdating{drafted: true}
	}
	return outdating{}
}

// drafts returns the jobs that draft the plan of merge i for its branch, of all runs; none if i is no merge.
func (t *tick) drafts(i int32) []int32 {
	plan := t.s.jobs[i].Spec.Integrates()
	if plan == "" {
		return nil
	}
	doc := Artifact{Kind: PlanDoc, Name: plan, Ref: t.s.jobs[i].Spec.Origin.Branch}.Canonical()
	t.s.near.require(Near{Kind: Producers, Artifact: doc})
	return t.s.graph.producers[doc]
}

// draftedAnew reports whether another run drafts what merge i takes by stage token a, or has, since a merge closed the
// plan's cycle. What is on the branch is then not what i merged before.
func (t *tick) draftedAnew(i int32, a Artifact) bool {
	j := t.s.jobs[i]
	return j.Spec.mergesBy(a) && slices.ContainsFunc(t.drafts(i), func(p int32) bool {
		k, st := t.s.jobs[p], t.status(p)
		return k.Spec.Origin.Run != j.Spec.Origin.Run && !k.State.Retired && k.onBranch() && k.Spec.Origin.Branch == j.Spec.Origin.Branch &&
			(!st.Terminal() || st == Succeeded || !t.worked(p).IsZero())
	})
}

// older reports whether job a was created before job b. Ids grow with time, so that jobs
// whose records are gone can be compared too.
func (t *tick) older(a, b JobID) bool {
	i, ok := t.s.find(a)
	k, ok2 := t.s.find(b)
	if ok && ok2 {
		return i < k
	}
	return a < b
}

func (t *tick) sameRun(i int32, id JobID) bool {
	k, ok := t.s.find(id)
	return ok && t.s.jobs[k].Spec.Origin.Run == t.s.jobs[i].Spec.Origin.Run
}

func unobserved(err string) string {
	if err == "" {
		return "not observed"
	}
	return err
}

func (t *tick) checkPinnedHead(i int32) verdict {
	p := t.s.jobs[i].Spec.Pinned
	if p.Branch == "" {
		return verdict{}
	}
	t.s.ask(t.s.jobs[i], t.s.facts.Heads[p.Branch].asked())
	if f := t.s.facts.Heads[p.Branch]; f.Known && f.Value == p.Commit {
		return verdict{}
	}
	return waits("pinned head mismatch on " + p.Branch)
}

func (t *tick) checkApproval(i int32) verdict {
	switch a := t.s.jobs[i].State.Approval; a.State {
	case Pending:
		if branch := t.s.jobs[i].branchAskedFor(); branch != "" {
			t.s.ask(t.s.jobs[i], t.s.facts.Heads[branch].asked())
		}
		if t.s.jobs[i].lapsed(t.s.now) { // the next tick ends it
			return blocks(t.s.jobs[i].expired())
		}
		if st := t.s.jobs[i].State; st.Failure != NoFailure && st.Refused == 0 { // see Job.requestApproval; a refusal is cleared, see next
			return waits("awaiting human approval to execute it again: " + cmp.Or(st.Reason, st.Failure.String()))
		}
		return waits("awaiting human approval")
	case Rejected:
		return blocks(cmp.Or(a.Reason, "approval rejected"))
	case Expired:
		return blocks(t.s.jobs[i].expired())
	case Approved:
		if why := t.s.jobs[i].Unsealed(); why != "" {
			return waits(why)
		}
		return verdict{}
	default:
		return verdict{}
	}
}

// branchToApprove returns the branch for whose commit j waits to be approved; "": it waits for no approval, or for one of none.
func (j *Job) branchToApprove() string {
	if j.beginsToAsk() || j.State.Approval.InDoubt {
		return ""
	}
	return j.Spec.ApprovedBranch()
}

// beginsToAsk reports whether j does not wait for its approval yet, as far as its record tells.
func (j *Job) beginsToAsk() bool {
	return j.State.Status != WaitingOnApproval || j.State.Wait.Kind != OnApproval
}

// branchAskedFor returns the branch whose commit goes on record when j begins to wait for its approval; "": none does.
func (j *Job) branchAskedFor() string {
	if a := &j.State.Approval; a.State != Pending || a.InDoubt || !j.beginsToAsk() {
		return ""
	}
	return j.Spec.ApprovedBranch()
}

// approvalExpires returns when the pending approval of j expires; zero: never.
func (j *Job) approvalExpires() time.Time {
	if a := j.State.Approval; a.State == Pending {
		return a.ExpiresAt
	}
	return time.Time{}
}

// lapsed reports whether j waits for an approval that nobody has given in time.
func (j *Job) lapsed(now time.Time) bool {
	st := &j.State
	return st.Status == WaitingOnApproval && st.Wait.Kind == OnApproval && st.Approval.Over(now)
}

// expired returns the reason of a job whose approval nobody gave in time.
func (j *Job) expired() string {
	return "approval expired: nobody decided within " + j.Spec.ApprovalTimeout.String()
}

func (t *tick) checkLocks(i int32) verdict {
	if why, now, cause := t.locks.Denied(t.s.jobs[i].Spec.Task.On(), t.s.jobs[i].Spec.Locks); why != "" {
		v := waits(why).because(cause)
		v.now = now
		return v
	}
	return verdict{}
}
