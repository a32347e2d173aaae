package kernel

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Explanation says why a job is not running and what would start it.
type Explanation struct {
	Job      JobID
	Status   Status
	Since    time.Time  // since when the first unmet gate has held it up; zero: unknown
	Unmet    []Unmet    // every unmet condition, in gate order
	Actions  []Remedy   // the smallest set that would start the job, in the order in which to do it; retries that follow each other are for RetryAll
	Asks     []Artifact // whether these exist decides about Actions too, and was not observed
	Root     *RootFailure
	TickWait TickWait // of the job, or of the first job that it waits for
	Outlook  Outlook  // what becomes of the job if nobody does anything
}

// Outlook is what becomes of a job that is held up, if no person does anything.
// The zero value: nothing holds it up, or it has ended.
type Outlook uint8

// The outlooks.
const (
	NoOutlook     Outlook = iota
	Starts                // by itself, once what it waits for has ended or come
	TriedAgain            // its launch was refused and is tried again by itself
	Settles               // its end becomes final, unless the job that may still rewind it does so
	Sleeps                // it sleeps, or a job that it waits for does
	AwaitsActions         // it does not start without Actions
)

var outlookNames = NewNames[Outlook]("outlook", "none", "starts", "tried_again", "settles", "sleeps", "awaits_actions")

// Unmet is one condition that does not hold.
type Unmet struct {
	Kind     WaitKind
	Detail   string // the scheduler's wait or block reason
	Final    bool   // it blocks: it will not clear by itself
	Job      JobID  // the job it is about, if any
	Artifact Artifact
	Clears   string // who or what can clear it, in words
}

// Remedy is something that a person can do. A front end says how to type it.
type Remedy struct {
	Kind     RemedyKind
	Job      JobID      // for kinds about a job
	Artifact Artifact   // for ProduceArtifact
	Pinned   PinnedHead // for MoveBranch; for MakeBranch its branch and, if it has been there, its commit; for ApproveJob where its branch has moved to; for ProduceArtifact the branch that a stage's token has to be for, if not the plan's own
	Detail   string     // what is wrong, for MendRecord, SubmitAgain and MeetCondition; what to do, for SeeToAgent; its name, for EnlargePool and SeeToSecret
	Units    int        // for EnlargePool: how many it needs at least
	Barred   Barred     // for ApproveJob
	Asked    CommitID   // for ApproveJob: where the branch was when the job asked, if it has moved since
}

// RemedyKind is a kind of thing that a person can do.
type RemedyKind uint8

// The kinds of remedies.
const (
	RetryJob        RemedyKind = iota // rewind it
	ApproveJob                        // approve it
	MendRecord                        // its record cannot be read
	SubmitAgain                       // its record is gone or invalid
	ProduceArtifact                   // by a job that is yet to be submitted
	MoveBranch                        // to the pinned commit
	MeetCondition                     // make a condition on the repository true
	SeeToAgent                        // its agent cannot run as things are
	EnlargePool                       // or have the job ask for less
	SeeToSecret                       // its source has no value
	SeeToRunner                       // it has not been heard from for too long
	CleanTree                         // commit or put away what was changed in the main working tree
	MakeBranch                        // that does not exist
	AwaitEnd                          // or cancel it: it runs, and a retry that takes it along is refused meanwhile
)

var remedyNames = NewNames[RemedyKind]("remedy", "retry", "approve", "mend_record", "submit_again", "produce", "move_branch", "meet_condition", "see_to_agent",
	"enlarge_pool", "see_to_secret", "see_to_runner", "clean_tree", "make_branch", "await_end")

// RootFailure is the failed job that a blocked job's block leads back to.
type RootFailure struct {
	Job    JobID
	Status Status
	Detail string
}

// Explain returns why a job is not running: every unmet gate, evaluated by the
// code that schedules, and what would start the job.
func Explain(s *Snapshot, id JobID) (Explanation, error) {
	_, s = settle(s)
	i, ok := s.find(id)
	if !ok {
		return Explanation{}, fmt.Errorf("explain %s: %w", id, ErrNotFound)
	}
	t := newTick(s)
	t.watch = i
	t.judgeDirty()
	x := newExplainer(t)
	e := Explanation{Job: id, Status: s.jobs[i].State.Status, Since: s.jobs[i].State.WaitSince}
	outlook, from := Starts, i // from: the job whose remedies count
	switch st := s.jobs[i].State; {
	case st.Status == Running:
		e.Unmet = s.remarks(s.jobs[i].Attempt())
	case st.Status == Unscheduled && t.status(i) == Unscheduled:
		e.Unmet = []Unmet{x.asleep(s.jobs[i])}
		x.remedies(i)
	case t.status(i) == Queued, st.Status == Queued && st.Refused > 0: // its launch was refused and will be tried again
		when := whenDue(s.jobs[i].Delayed(s.now))
		clears := "time: tried again " + when
		if s.jobs[i].lacksSecret() != "" {
			clears = "its source, which is asked again " + when
		}
		e.Unmet = []Unmet{{Detail: "its last launch was refused: " + st.Reason, Clears: clears}}
		outlook = TriedAgain
		x.remedies(i)
	case st.Status == FailedRetryable && !s.jobs[i].Delayed(s.now).IsZero():
		e.Unmet = []Unmet{{Detail: "next attempt at " + st.RetryAt.Format(time.RFC3339) + " after: " + s.jobs[i].WhyEnded(s.now), Clears: "time"}}
	case t.tickWait(i).Now && st.Status != WaitingOnApproval && t.status(i) == Running:
		e.Unmet = []Unmet{{Detail: t.due(i), Clears: "the next tick"}}
	case s.Pending(id) != "":
		by := s.Pending(id)
		k, _ := s.find(by)
		e.Unmet = []Unmet{{Detail: "waiting for what its end woke: " + cmp.Or(st.Reason, st.Wait.Detail), Job: by, Clears: "job " + x.describe(by)}}
		if s.jobs[k].State.Deferred {
			e.Unmet = []Unmet{x.deferred(s.jobs[k], id)}
		}
		outlook, from = Settles, k
		x.remedies(k)
	case st.Status == Failed, st.Status == Cancelled:
		e.Root = &RootFailure{id, st.Status, s.jobs[i].WhyEnded(s.now)}
		x.remedies(i)
	case st.Status != Succeeded:
		e.Unmet = x.unmet(i)
		x.remedies(i)
		if st.Status.Terminal() {
			e.Root = x.root(i)
		}
	}
	e.Asks = x.onceRetried(from)
	if x.sleeps && len(e.Unmet) == 0 {
		u := x.asleep(s.jobs[i])
		u.Detail = "a retry lets it sleep: " + u.Detail
		e.Unmet = []Unmet{u}
	}
	for _, a := range x.enable() {
		if !slices.Contains(e.Asks, a) {
			e.Asks = append(e.Asks, a)
		}
	}
	x.arrange()
	x.await()
	e.Actions, e.TickWait = x.actions, x.tickWait(i, map[int32]bool{})
	switch {
	case len(e.Actions) > 0 && !x.sleepsOn:
		e.Outlook = AwaitsActions
	case len(e.Unmet) == 0 || e.Status == Running:
	case x.sleeps:
		e.Outlook = Sleeps
	default:
		e.Outlook = outlook
	}
	return e, nil
}

// due describes job i, which nothing holds up.
func (t *tick) due(i int32) string {
	j := t.s.jobs[i]
	if j.State.Status == FailedRetryable {
		if j.State.RetryAt.After(t.s.now) {
			return "its next attempt is due, since the clock was set back, after: " + j.WhyEnded(t.s.now)
		}
		return "its next attempt is due since " + j.State.RetryAt.Format(time.RFC3339) + " after: " + j.WhyEnded(t.s.now)
	}
	return "nothing holds it up any more"
}

func whenDue(at time.Time) string {
	if at.IsZero() {
		return "soon"
	}
	return "at " + at.Format(time.RFC3339)
}

// remarks returns what the executor says about a running attempt, or why the
// attempt's result cannot be read.
func (s *Snapshot) remarks(a AttemptID) []Unmet {
	switch r := s.facts.Runners[a]; {
	case r.Value.Gone() && s.facts.Results[a].Err != "":
		return []Unmet{{Detail: "its runner is gone, and whether it left a result cannot be read: " + s.facts.Results[a].Err, Clears: "the next command, once it can be read"}}
	case r.Err != "":
		return []Unmet{{Detail: "its runner cannot be asked for: " + r.Err, Clears: "its executor, once it can be asked again"}}
	case r.Value.Gone():
		return []Unmet{{Detail: cmp.Or(r.Value.Remark, "its runner is gone, and nobody has settled it yet"), Clears: "the next command that may write"}}
	case r.Value.Stuck && !r.Value.Pending:
		return []Unmet{{Detail: r.Value.Remark, Clears: "a change of what this names; then it goes on by itself"}}
	case r.Value.Remark != "":
		return []Unmet{{Detail: r.Value.Remark, Clears: "its executor"}}
	case r.Value.Liveness == Stalled:
		return []Unmet{{Detail: "its runner has not been heard of for longer than it should be", Clears: "its executor, once it is heard of or known to be gone"}}
	}
	return nil
}

// Remark returns what the executor of a running job says about why its attempt
// does not proceed, as far as the snapshot knows, or "".
func (s *Snapshot) Remark(id JobID) string {
	j := s.Job(id)
	if j == nil || j.State.Status != Running {
		return ""
	}
	for _, u := range s.remarks(j.Attempt()) {
		return u.Detail
	}
	return ""
}

// Submitted reports whether a running job's attempt was handed to its executor
// and has not begun, as far as the snapshot knows.
func (s *Snapshot) Submitted(id JobID) bool {
	j := s.Job(id)
	if j == nil || j.State.Status != Running {
		return false
	}
	r := s.facts.Runners[j.Attempt()].Value
	return r.Pending || r.Liveness == NeverStarted && j.Spec.Task.On() != LocalExecutor
}

// Began returns when j's latest attempt began, zero if it has not, as far as the
// snapshot knows. Until an attempt on another executor has ended, its record holds
// the time at which it was handed over.
func (s *Snapshot) Began(j *Job) time.Time {
	if j.State.Status != Running {
		return j.State.Started
	}
	if s.Submitted(j.ID) {
		return time.Time{}
	}
	return cmp.Or(s.facts.Runners[j.Attempt()].Value.Began, j.State.Started)
}

type explainer struct {
	t        *tick
	seen     map[int32]bool
	actions  []Remedy
	sleeps   bool // a job on the way sleeps
	sleepsOn bool // whatever a person does
	retried  bool // this is after the retries, and no tick has looked

	depends *components // of jobs, by the jobs that they depend on
	blocked *components // of jobs, by those that they depend on and that cannot start
}

func newExplainer(t *tick) *explainer {
	return &explainer{t: t, seen: map[int32]bool{}, depends: newComponents(t.s.graph.eachPredecessor),
		blocked: newComponents(func(i int32, f func(int32)) {
			t.s.graph.eachPredecessor(i, func(p int32) {
				if t.held(p) {
					f(p)
				}
			})
		})}
}

func (x *explainer) add(all ...Remedy) {
	for _, r := range all {
		if !slices.Contains(x.actions, r) {
			x.actions = append(x.actions, r)
		}
	}
}

func (x *explainer) asleep(j *Job) Unmet {
	if j.unrouted() {
		if x.t.s.dormant(j) != "" {
			return Unmet{Detail: "only a route starts it, and nothing of its run goes on", Clears: "a retry of what leads to it"}
		}
		return Unmet{Detail: "sleeps until a route starts it", Clears: "a node that ends with the outcome its route names"}
	}
	return Unmet{Detail: "nobody needs it", Clears: "a job that depends on it and is not transient"}
}

// deferred tells job id that the routes of j wait: its own, or those that send it back.
func (x *explainer) deferred(j *Job, id JobID) Unmet {
	u := Unmet{Detail: "job " + j.Label() + " is about to send it back"}
	if id == j.ID {
		u.Detail = "its routes are about to be taken"
	}
	u.Job, u.Clears = x.awaited(j)
	if u.Job != j.ID {
		u.Detail += ", once job " + string(u.Job) + " has ended"
	}
	return u
}

// awaited returns the job that the deferred routes of j wait for, or else j, and what lets them be taken.
func (x *explainer) awaited(j *Job) (by JobID, clears string) {
	if r := x.t.s.runs(x.t.s.takesBack(j)); r != "" {
		return r, "job " + x.describe(r)
	}
	return j.ID, "the next tick"
}

// unmet returns the conditions of job i that do not hold.
func (x *explainer) unmet(i int32) []Unmet {
	var out []Unmet
	for _, h := range x.verdicts(i) {
		out = append(out, Unmet{h.gate.kind, h.detail + h.now, h.kind == blocked, h.job, h.artifact, h.gate.clears(x, i, h.verdict)})
	}
	if len(x.t.s.jobs[i].Spec.Task.Args) == 0 {
		out = append(out, Unmet{Kind: OnDependencies, Detail: "missing child args", Final: true, Clears: "a new submission: this record has no command"})
	}
	if j := x.t.s.jobs[i]; x.t.status(i) == BlockedByDependency {
		if first := x.t.s.ConflictBefore(j); first != nil {
			out = append(out, Unmet{Kind: OnDependencies, Detail: j.State.Reason, Final: true, Job: first.ID, Clears: "whoever resolves that conflict"})
		}
	}
	return out
}

// heldUp is a verdict by which a gate does not let a job pass.
type heldUp struct {
	gate *gate
	verdict
}

// verdicts returns every verdict that holds job i up. Locks are judged by the
// job's position in this tick's queue.
func (x *explainer) verdicts(i int32) []heldUp {
	locks := x.t.locks
	if x.t.watch == i {
		x.t.locks = x.t.watched
	}
	defer func() { x.t.locks = locks }()
	var out []heldUp
	for k := range gates {
		for from := 0; ; {
			v, next := gates[k].check(x.t, i, from)
			if v.kind == passed {
				break
			}
			from = next
			out = append(out, heldUp{&gates[k], v})
		}
	}
	return out
}

func (x *explainer) describe(id JobID) string {
	j := x.t.s.Job(id)
	if j == nil {
		return string(id)
	}
	return j.Label() + ", " + j.State.Status.String()
}

// remedies collects what a person must do before job i can start: the remedies
// for its own unmet conditions and for those of the jobs that it waits for.
func (x *explainer) remedies(i int32) {
	if x.seen[i] {
		return
	}
	x.seen[i] = true
	j := x.t.s.jobs[i]
	switch st := x.t.status(i); {
	case j.State.Deferred:
		if by, _ := x.awaited(j); by != j.ID {
			x.remedies(x.t.s.graph.index[by])
		}
		return
	case j.lacksSecret() != "":
		x.add(Remedy{Kind: SeeToSecret, Job: j.ID, Detail: j.lacksSecret()})
		return
	case !st.Terminal() && len(j.Spec.Task.Args) == 0 || st == Failed && j.Open(): // the next tick fails it, also after a retry
		x.add(Remedy{Kind: SubmitAgain, Job: j.ID, Detail: "has no command"})
		return
	case st == Failed || st == Cancelled || st == BlockedByApproval || st == BlockedByDependency && j.State.Outcome == OutcomeBlocked:
		if (st == Cancelled || st == BlockedByApproval) && x.before(i) {
			return
		}
		if by := x.t.s.BlockedBy(j); by != nil {
			j = by
		}
		if first := x.t.s.ConflictBefore(j); first != nil {
			j = first
		}
		if text := j.agentRemedy(x.t.s.now); text != "" {
			x.add(Remedy{Kind: SeeToAgent, Job: j.ID, Detail: text})
		}
		retry := x.t.s.WayOut(j.ID)
		if again := x.submitAgain(retry); len(again) > 0 {
			x.add(again...)
			return
		}
		if plan := j.Spec.Integrates(); j.State.Retired && plan != "" { // it is merged: a retry merges what is drafted next
			x.add(Remedy{Kind: ProduceArtifact, Artifact: Artifact{Kind: PlanBranch, Name: plan, Ref: j.Spec.Origin.Branch}})
		}
		x.add(Remedy{Kind: RetryJob, Job: retry})
		x.remediesOfRun(j)
		return
	case st == Running:
		x.add(x.stalled(i)...)
		return
	case st == Unscheduled && !(x.retried && !j.unrouted()): // a transient one wakes for what was retried
		x.sleeps, x.sleepsOn = true, x.sleepsOn || j.unrouted()
		return
	case st == Succeeded || st == FailedRetryable:
		return
	}
	held := x.verdicts(i)
	if x.t.status(i).Terminal() && !slices.ContainsFunc(held, func(h heldUp) bool { return h.kind == blocked }) {
		x.add(Remedy{Kind: RetryJob, Job: j.ID}) // it has ended, though what blocked it is gone, such as an unreadable record
	}
	others := len(x.actions)
	var again []Remedy // a retry of the job itself comes after all that it needs, and only if it has ended
	for _, h := range held {
		does, via := h.gate.remedy(x, i, h.verdict)
		if slices.ContainsFunc(does, func(r Remedy) bool { return r.Kind == SubmitAgain }) { // this job can never start, whatever else is done
			x.actions = x.actions[:others]
			x.add(does...)
			return
		}
		for _, r := range does {
			if r.Kind != RetryJob || r.Job != j.ID {
				x.add(r)
			} else if x.t.status(i).Terminal() {
				again = []Remedy{r}
			}
		}
		if k, ok := x.t.s.find(via); via != "" && ok {
			x.remedies(k)
		}
	}
	x.add(again...)
}

// remediesOfRun collects remedies for the other failed jobs of j's run, if they would hold j back after a retry of it.
func (x *explainer) remediesOfRun(j *Job) {
	if j.Spec.FailureMode != BlockDownstream || j.Spec.Routed {
		return
	}
	x.t.s.requireStoppers(j.Spec.Origin.Run)
	if f := x.t.failures[j.Spec.Origin.Run]; f != nil {
		for _, k := range f.roots {
			x.remedies(k)
		}
	}
}

// submitAgain returns what to submit again where a retry of job id is no use; nil: nothing.
func (x *explainer) submitAgain(id JobID) []Remedy {
	i, ok := x.t.s.find(id)
	if !ok {
		return nil
	}
	for _, h := range x.verdicts(i) {
		if does, _ := h.gate.remedy(x, i, h.verdict); slices.ContainsFunc(does, func(r Remedy) bool { return r.Kind == SubmitAgain }) {
			return does
		}
	}
	return nil
}

// before collects remedies for the jobs whose ends keep job i, which was cancelled or rejected, from starting, and
// reports whether there are any: a retry of them takes i along.
func (x *explainer) before(i int32) (any bool) {
	for _, h := range x.verdicts(i) {
		_, via := h.gate.remedy(x, i, h.verdict)
		k, ok := x.t.s.find(via)
		switch {
		case via == "" || !ok:
		case h.kind == blocked:
			any = true
			x.remedies(k)
		case x.t.status(k) == Unscheduled && !x.seen[k]: // a transient one, which i would wake
			x.seen[k] = true
			any = x.before(k) || any
		}
	}
	return any
}

// root follows the blocks of job i back to the first job that failed by itself.
func (x *explainer) root(i int32) *RootFailure {
	for range x.t.s.jobs {
		j := x.t.s.jobs[i]
		st := x.t.status(i)
		if st != BlockedByDependency {
			return &RootFailure{j.ID, st, j.WhyEnded(x.t.s.now)}
		}
		next := int32(-1)
		var own Unmet
		for _, u := range x.unmet(i) {
			if !u.Final {
				continue
			}
			own = u
			k, ok := x.t.s.find(u.Job)
			if ok && u.Artifact != (Artifact{}) && x.t.status(k) == BlockedByDependency && x.waitsFor(k, i) {
				continue
			}
			if ok && x.spoiler(k, u.Artifact) >= 0 {
				k = x.spoiler(k, u.Artifact)
			}
			if ok && x.t.status(k).Terminal() && x.t.status(k) != Succeeded {
				next = k
				break
			}
		}
		if next < 0 {
			return &RootFailure{j.ID, st, cmp.Or(j.State.Reason, own.Detail, j.State.Wait.Detail)}
		}
		i = next
	}
	return nil
}

// enable puts before the retries what makes them possible, if jobs would wait for each other after them.
// It returns the artifacts that were not observed and that this depends on.
func (x *explainer) enable() (asks []Artifact) {
	var retries []JobID
	for _, r := range x.actions {
		if r.Kind == RetryJob {
			retries = append(retries, r.Job)
		}
	}
	if len(retries) == 0 || len(retries) > mostArranged || !x.circles() {
		return nil
	}
	s := x.t.s
	for _, r := range x.actions {
		s = s.made(r)
	}
	for {
		sets, _, err := RetryAll(s, retries, "")
		var d *DeadlockError
		if !errors.As(err, &d) {
			return s.unasked(sets)
		}
		frees := d.Cycle.Frees
		if slices.Contains(x.actions, frees) {
			return nil
		}
		at := slices.IndexFunc(x.actions, func(r Remedy) bool { return r.Kind == RetryJob })
		x.actions = slices.Insert(x.actions, at, frees)
		if s = s.made(frees); frees.Kind == RetryJob {
			retries = append(retries, frees.Job)
		}
	}
}

// circles reports whether a job on the way needs what a job behind it is to make.
func (x *explainer) circles() bool {
	for i := range x.seen {
		for _, a := range x.t.s.jobs[i].Spec.Needs {
			circle := false
			x.t.s.graph.eachProducer(i, a, func(p int32) { circle = circle || p != i && x.depends.same(p, i) })
			if circle {
				return true
			}
		}
	}
	return false
}

// made returns s with a job that makes what r, if it is of that kind, says to produce.
func (s *Snapshot) made(r Remedy) *Snapshot {
	if r.Kind != ProduceArtifact {
		return s
	}
	return s.Apply(NewPlan(Create(Job{ID: JobID("make " + r.Artifact.String()), Created: s.now, Spec: Spec{Produces: []Artifact{r.Artifact}}})))
}

// unasked returns what jobs of sets need and s was not told of.
func (s *Snapshot) unasked(sets []RetrySet) (all []Artifact) {
	for _, set := range sets {
		for _, id := range set.Jobs {
			for _, a := range s.Job(id).Spec.Needs {
				if !s.facts.Markers[a].asked() && !s.facts.Present[a].asked() && !slices.Contains(all, a) {
					all = append(all, a)
				}
			}
		}
	}
	return all
}

// mostArranged is how many retries are compared with each other. Nobody types a longer list one by one.
const mostArranged = 32

// retries returns how many retries are among the actions.
func (x *explainer) retries() (n int) {
	for _, r := range x.actions {
		if r.Kind == RetryJob {
			n++
		}
	}
	return n
}

// arrange removes the retries that another retry includes and, where something is to be submitted again, what is no use
// then. Retries come after what the retried jobs need, and approvals last: a retry asks for them anew, and what they start
// may be in its way.
func (x *explainer) arrange() {
	if x.retries() > mostArranged {
		return
	}
	gone := map[JobID]bool{}
	for _, of := range x.actions {
		if of.Kind != RetryJob || x.retries() < 2 || gone[of.Job] {
			continue
		}
		_, set, _ := x.t.s.rewinds(of.Job)
		for _, id := range set {
			gone[id] = gone[id] || id != of.Job
		}
	}
	x.actions = slices.DeleteFunc(x.actions, func(r Remedy) bool { return r.Kind == RetryJob && gone[r.Job] })
	lost := map[JobID]bool{}
	for _, r := range x.actions {
		if r.Kind == SubmitAgain {
			lost[r.Job] = true
		}
	}
	x.actions = slices.DeleteFunc(x.actions, func(r Remedy) bool {
		return r.Kind == RetryJob && lost[r.Job] || r.Kind == ApproveJob && len(lost) > 0 && x.t.s.Job(r.Job).State.Status.Terminal()
	})
	turn := func(r Remedy) int {
		switch r.Kind {
		case RetryJob:
			return 1
		case ApproveJob:
			return 2
		default:
			return 0
		}
	}
	slices.SortStableFunc(x.actions, func(a, b Remedy) int { return cmp.Compare(turn(a), turn(b)) })
}

// onceRetried collects what the jobs on the way from job i lack after the retries among the actions, by the gates that
// they meet then, and the retries of what comes to light only then. It returns the artifacts that were not observed and that
// this depends on.
func (x *explainer) onceRetried(i int32) (asks []Artifact) {
	s := x.t.s
	for more := true; more; {
		if n := x.retries(); n == 0 || n > mostArranged {
			return nil
		}
		var again Plan
		var set RetrySet
		for _, k := range x.takenAlong() {
			j := s.jobs[k]
			st := rewound(j, s.now, "")
			if j.Spec.Routed && !j.cancelledAsleep() && slices.Contains(x.actions, Remedy{Kind: RetryJob, Job: j.ID}) {
				st.Status, st.Awake = Queued, true
			}
			set.Jobs = append(set.Jobs, j.ID)
			again.add(PutState{j.ID, j.Rev, st})
		}
		if asks = s.unasked([]RetrySet{set}); len(asks) > 0 {
			return asks
		}
		then := newExplainer(newTick(s.Apply(again)))
		then.retried = true
		then.remedies(then.t.s.graph.index[s.jobs[i].ID])
		more = false
		var lacks []Remedy
		for _, r := range then.actions {
			k, here := s.find(r.Job)
			switch {
			case r.Kind != RetryJob:
				lacks = append(lacks, r)
			case here && !x.seen[k] && x.t.status(k) != Succeeded && !then.circles(): // else it is retried already, made nothing the first time, or enable finds it
				more = true
				x.remedies(k)
			}
		}
		x.actions = append(slices.DeleteFunc(x.actions, func(r Remedy) bool { return slices.Contains(lacks, r) }), lacks...)
		if !more {
			idle := s.jobs[i].Transient() != NotTransient && !x.needed(i)
			x.sleeps, x.sleepsOn = x.sleeps || then.sleeps || idle, x.sleepsOn || then.sleepsOn || idle
		}
	}
	return nil
}

// needed reports whether job i, a transient one, wakes after a retry of it, for a job that the retry takes along.
func (x *explainer) needed(i int32) bool {
	s := x.t.s
	return slices.ContainsFunc(s.Downstream(s.jobs[i].ID), func(id JobID) bool {
		j := s.Job(id)
		return j.Transient() == NotTransient && !j.unrouted()
	})
}

// takenAlong returns the jobs on the way that the retries among the actions rewind: the retried ones, those that have ended and
// not succeeded, and those of the others that come after one of them.
func (x *explainer) takenAlong() (all []int32) {
	way, taken := slices.Sorted(maps.Keys(x.seen)), map[int32]bool{}
	for _, k := range way {
		if st := x.t.status(k); st.Terminal() && st != Succeeded {
			taken[k] = true
		}
	}
	for _, r := range x.actions {
		if k, here := x.t.s.find(r.Job); here && r.Kind == RetryJob && x.t.status(k) != Running {
			taken[k] = true
		}
	}
	for grown := true; grown; {
		grown = false
		for _, k := range way {
			if st := x.t.status(k); taken[k] || st == Running || st == Unscheduled {
				continue
			}
			x.t.s.graph.eachPredecessor(k, func(p int32) {
				if taken[p] && !taken[k] {
					taken[k], grown = true, true
				}
			})
		}
	}
	return slices.Sorted(maps.Keys(taken))
}

// mostBefore is how many jobs before a running one runsAfter looks at: each takes a read of a store.
const mostBefore = 16

// runsAfter reports whether a running job comes after root, as far as the jobs nearest before it tell. To ask what comes after
// root takes every record. A retry that takes a running job along all the same is refused, and names it.
func (s *Snapshot) runsAfter(root JobID) bool {
	for _, r := range s.running {
		seen := map[JobID]bool{}
		for queue := []JobID{s.jobs[r].ID}; len(queue) > 0 && len(seen) < mostBefore; queue = queue[1:] {
			j := s.Job(queue[0])
			switch {
			case j == nil || seen[j.ID]:
				continue
			case j.ID == root:
				return true
			}
			seen[j.ID] = true
			queue = append(queue, j.Spec.After...)
			for _, a := range j.Spec.Needs {
				queue = append(queue, s.Producers(j.ID, a)...)
			}
		}
	}
	return false
}

// await puts before the retries the ends of the running jobs that they take along.
func (x *explainer) await() {
	first := slices.IndexFunc(x.actions, func(r Remedy) bool { return r.Kind == RetryJob })
	if first < 0 || len(x.actions) > mostArranged || len(x.t.s.running) == 0 {
		return
	}
	var ends []Remedy
	for _, r := range x.actions[first:] {
		if r.Kind != RetryJob || !x.t.s.runsAfter(x.t.s.rewindRoot(r.Job)) {
			continue
		}
		_, set, _ := x.t.s.rewinds(r.Job)
		for _, id := range set {
			if end := (Remedy{Kind: AwaitEnd, Job: id}); x.t.s.Job(id).State.Status == Running && !slices.Contains(ends, end) {
				ends = append(ends, end)
			}
		}
	}
	x.actions = slices.Insert(x.actions, first, ends...)
}
