package foresight

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Fault is an undesirable thing that can happen in a run.
type Fault uint8

// The faults that Explore looks for.
const (
	LeftOver    Fault = iota // nothing more happens in a run, and a job of it waits for what cannot come
	NeverRuns                // a node that runs in no history
	Silent                   // a failure that nothing handles, although the run's last nodes succeed
	PassedRound              // a node runs although an approval before it was not given
	TooEarly                 // a node uses an artifact before the run has made it
)

var faultNames = kernel.NewNames[Fault]("fault", "left_over", "never_runs", "silent_failure", "approval_passed_round", "consumed_too_early")

func (f Fault) String() string { return faultNames.Name(f) }

// Fall is a counterexample: a fault with a shortest history that leads to it.
type Fall struct {
	Fault   Fault
	Job     kernel.JobID
	About   kernel.JobID // the other job that the fault is about; "": none
	Why     string       // for LeftOver, what the job waits for
	History []Step       // from the run's first tick on; nil for NeverRuns
	Stale   bool         // the history begins with artifacts of an earlier run in the repository
}

// Step is one thing that happens in a history, before a tick.
type Step struct {
	What  string // finish, approve, reject, cancel, clock
	Job   kernel.JobID
	Exit  int // of finish
	Class kernel.FailureClass
	Ends  kernel.Outcome
	After time.Duration // of clock
}

// Exploration is the result of exploring a run.
type Exploration struct {
	States   int  // states visited; equivalent ones count once
	Complete bool // every state was visited
	Falls    []Fall
}

// MostStates is the usual bound on the states of a run that are explored.
const MostStates = 20_000

// Explore visits every history of a run: each running attempt succeeds, is
// blocked, is cancelled, loses its runner or fails in each way that the kernel
// tells apart; each approval is given or refused; timers fire in any order.
// Histories that lead to equivalent states are merged. What the run needs from
// elsewhere exists, and its preconditions on the repository hold. Explore ends
// after most states, or when stopped returns true.
func Explore(jobs []kernel.NewJob, most int, stopped func() bool) (Exploration, error) {
	x := &explorer{most: most, out: Exploration{Complete: true}, found: map[string]bool{}, ran: map[kernel.JobID]bool{}}
	for _, n := range jobs {
		x.ids = append(x.ids, n.ID)
	}
	for _, stale := range []bool{false, true} {
		if x.stale = stale; stale && (!x.out.Complete || !x.leavesBehind(jobs)) {
			break
		}
		if err := x.from(jobs, stopped); err != nil {
			return x.out, err
		}
	}
	for _, id := range x.ids {
		if x.out.Complete && !x.ran[id] {
			x.out.Falls = append(x.out.Falls, Fall{Fault: NeverRuns, Job: id})
		}
	}
	return x.out, nil
}

// explorer visits the states of a run, breadth first.
type explorer struct {
	ids   []kernel.JobID
	most  int
	stale bool // begin with what an earlier run made in git
	nodes []explored
	known map[string]bool // the visited states, by stateKey
	found map[string]bool
	ran   map[kernel.JobID]bool
	out   Exploration
}

// explored is a visited state and the step that led to it.
type explored struct {
	s    *kernel.Snapshot
	from int // the index of the state before; -1: it is the first
	step Step
}

var begin = time.Unix(1e9, 0).UTC()

// leavesBehind reports whether the run makes an artifact that outlives it, and
// needs that artifact itself.
func (x *explorer) leavesBehind(jobs []kernel.NewJob) bool {
	made := map[kernel.Artifact]bool{}
	for _, n := range jobs {
		for _, a := range n.Spec.Produces {
			made[a] = outlives(a)
		}
	}
	return slices.ContainsFunc(jobs, func(n kernel.NewJob) bool {
		return slices.ContainsFunc(n.Spec.Needs, func(a kernel.Artifact) bool { return made[a] })
	})
}

// outlives reports whether an artifact is still there when a later run begins.
func outlives(a kernel.Artifact) bool {
	return a.Kind != kernel.Custom && a.Kind != kernel.CommandPatch && a.Kind != kernel.MergeSentinel
}

func (x *explorer) from(jobs []kernel.NewJob, stopped func() bool) error {
	s := kernel.NewSnapshot(kernel.Observation{Now: begin, Facts: kernel.NewFacts()})
	p, err := kernel.Enqueue(s, jobs)
	if err != nil {
		return err
	}
	s = x.settled(s.Apply(p))
	x.nodes, x.known = []explored{{s: s, from: -1}}, map[string]bool{x.stateKey(s): true}
	for at := 0; at < len(x.nodes); at++ {
		x.out.States++
		x.judge(at)
		if stopped() {
			x.out.Complete = false
			return nil
		}
		if x.out.Complete { // otherwise the remaining states are judged but not followed
			x.expand(at)
		}
		x.nodes[at].s = nil // only its place in the history is still needed
	}
	return nil
}

// expand adds the states that follow the one with index at and are not known yet.
func (x *explorer) expand(at int) {
	s := x.nodes[at].s
	for _, step := range x.steps(s) {
		next := x.follow(s, step)
		key := x.stateKey(next)
		if x.known[key] {
			continue
		}
		if x.out.States+len(x.nodes)-at > x.most {
			x.out.Complete = false
			return
		}
		x.known[key] = true
		x.nodes = append(x.nodes, explored{next, at, step})
	}
}

// settled returns s after all that the scheduler decides by itself, with every probe
// answered.
func (x *explorer) settled(s *kernel.Snapshot) *kernel.Snapshot {
	for {
		f := &future{s: assumed(s, x.stale)}
		f.tick()
		if s = f.s; unanswered(s).Empty() {
			return s
		}
	}
}

// steps returns everything that may happen next in s.
func (x *explorer) steps(s *kernel.Snapshot) (out []Step) {
	for _, j := range s.Jobs() {
		switch st := &j.State; st.Status {
		case kernel.Running:
			out = append(out, Step{What: "finish", Job: j.ID, Ends: kernel.OutcomeSucceeded}, Step{What: "finish", Job: j.ID, Ends: kernel.OutcomeBlocked, Exit: 10}, Step{What: "cancel", Job: j.ID})
			for _, f := range failuresOf(j) {
				out = append(out, Step{What: "finish", Job: j.ID, Ends: kernel.OutcomeFailed, Exit: f.exit, Class: f.class})
			}
		case kernel.WaitingOnApproval:
			out = append(out, Step{What: "approve", Job: j.ID}, Step{What: "reject", Job: j.ID})
		default:
		}
		if d, ok := j.Due(); ok && !d.Over(s.Now()) {
			out = append(out, Step{What: "clock", Job: j.ID, After: d.Until.Sub(s.Now())})
		}
	}
	return out
}

// failuresOf returns one failure for each way in which the kernel treats those
// of j: exit codes that are retried and that are not, the classes with rules of
// their own and, of the others, one that is retried and one that is not.
func failuresOf(j *kernel.Job) (out []failure) {
	retry, seen := j.Retry(), map[bool]bool{}
	add := func(c kernel.FailureClass, exit int) {
		if again := retry.Covers(c, exit); !seen[again] {
			seen[again], out = true, append(out, failure{class: c, exit: exit})
		}
	}
	for before := range 255 {
		add(kernel.ExitFailure, before+1)
	}
	own := []kernel.FailureClass{kernel.Timeout, kernel.Signal, kernel.WorkerLost, kernel.EffectInDoubt}
	for _, c := range own {
		out = append(out, failure{class: c, exit: 1})
	}
	for c := kernel.OutOfMemory; c <= kernel.Preempted; c++ {
		if !slices.Contains(own, c) {
			add(c, 1)
		}
	}
	return out
}

// follow returns the state that a step leads to. A step that is not possible
// leads nowhere else.
func (x *explorer) follow(s *kernel.Snapshot, step Step) *kernel.Snapshot {
	f := &future{s: s}
	switch step.What {
	case "finish":
		_ = f.end(step.Job, kernel.Result{Outcome: step.Ends, Exit: step.Exit, Class: step.Class, Reason: step.Class.String()})
	case "cancel":
		_ = f.do(kernel.Cancel(f.s, step.Job, nobody, false))
	case "approve":
		_ = f.do(kernel.Approve(f.s, step.Job, kernel.Consent{By: nobody, How: nobody}))
	case "reject":
		_ = f.do(kernel.Reject(f.s, step.Job, kernel.Refusal{By: nobody, How: nobody}))
	case "clock":
		f.s = f.s.At(f.s.Now().Add(step.After))
	}
	return x.settled(f.s)
}

// stateKey returns everything in s that the future depends on. States with the
// same key are equivalent.
func (x *explorer) stateKey(s *kernel.Snapshot) string {
	var b strings.Builder
	facts := s.Facts()
	for _, id := range x.ids {
		j := s.Job(id)
		st := &j.State
		fmt.Fprintf(&b, ";%d %d %d %d %t %s %t %t", st.Status, st.Outcome, st.Approval.State, st.Routed, st.Awake, st.Context.Root, st.Closed, st.Retired)
		if j.Open() { // a rewind clears the rest of an ended job's state
			fmt.Fprintf(&b, " %v %t %t %d", st.Spent, !st.Stop.At.IsZero(), st.Approval.InDoubt, st.Wait.Kind)
		}
		for _, a := range j.Spec.Produces {
			if a.Kind == kernel.Custom {
				fmt.Fprintf(&b, " %t", slices.Contains(facts.Markers[a].Value, id))
			} else {
				fmt.Fprintf(&b, " %t", facts.Present[a].Value)
			}
		}
	}
	return b.String()
}

// judge looks for faults in the state with index at.
func (x *explorer) judge(at int) {
	s := x.nodes[at].s
	for _, j := range s.Jobs() {
		if j.State.Status != kernel.Running {
			continue
		}
		x.ran[j.ID] = true
		for _, by := range x.before(s, j) {
			if a := by.State.Approval; a.State != kernel.NotRequired && !a.InDoubt && a.State != kernel.Approved {
				x.report(at, Fall{Fault: PassedRound, Job: j.ID, About: by.ID})
			}
		}
		for _, a := range j.Spec.Needs {
			if maker := x.unmade(s, j, a); maker != "" {
				x.report(at, Fall{Fault: TooEarly, Job: j.ID, About: maker, Why: a.String()})
			}
		}
	}
	if len(x.steps(s)) > 0 {
		return
	}
	for _, j := range s.Jobs() {
		if root := x.root(s, j); j.State.Status.Active() && root.State.Wait.Kind != kernel.OnLocks && !x.outside(s, root) {
			why := root.State.Wait.Detail
			if root.State.Status == kernel.Unscheduled {
				why = "it sleeps, and nothing wakes it"
			}
			x.report(at, Fall{Fault: LeftOver, Job: j.ID, About: root.ID, Why: why})
		}
	}
	x.silence(at, s)
}

// before returns the transitive predecessors of j.
func (x *explorer) before(s *kernel.Snapshot, j *kernel.Job) (out []*kernel.Job) {
	seen := map[kernel.JobID]bool{j.ID: true}
	for queue := []*kernel.Job{j}; len(queue) > 0; queue = queue[1:] {
		for _, id := range s.Predecessors(queue[0].ID) {
			if p := s.Job(id); !seen[id] {
				seen[id], out, queue = true, append(out, p), append(queue, p)
			}
		}
	}
	return out
}

// unmade returns a job of the run that may still make a, which j uses, if no
// job has made it yet; else "".
func (x *explorer) unmade(s *kernel.Snapshot, j *kernel.Job, a kernel.Artifact) (maker kernel.JobID) {
	for _, id := range s.Producers(j.ID, a) {
		switch p := s.Job(id); {
		case p.State.Status == kernel.Succeeded:
			return ""
		case p.State.Status.Active() && !slices.Contains(p.Spec.Needs, a) && p.State.Generation == 0:
			maker = id
		}
	}
	return maker
}

// root returns the job at the end of the chain of waits that begins with j, by
// the reasons on record.
func (x *explorer) root(s *kernel.Snapshot, j *kernel.Job) *kernel.Job {
	for range x.ids {
		if j.State.Wait.Cause != kernel.JobNotEnded {
			break
		}
		j = s.Job(j.State.Wait.Job)
	}
	return j
}

// outside reports whether j waits for something that no job of the run makes.
func (x *explorer) outside(s *kernel.Snapshot, j *kernel.Job) bool {
	return j.State.Wait.Kind == kernel.OnPinnedHead || j.AwaitsProducer()
}

// silence looks for a failure that nothing handled and that does not show in
// the outcomes of the run's last jobs.
func (x *explorer) silence(at int, s *kernel.Snapshot) {
	follows := map[kernel.JobID]bool{} // jobs with a dependent
	for _, j := range s.Jobs() {
		for _, id := range s.Predecessors(j.ID) {
			follows[id] = true
		}
	}
	var failed *kernel.Job
	for _, j := range s.Jobs() {
		handled := slices.ContainsFunc(j.Spec.Routes, func(r kernel.Route) bool { return r.On == j.State.Outcome })
		switch {
		case j.State.Status.Active():
			return
		case j.State.Status == kernel.Failed && !handled && follows[j.ID]:
			failed = j
		case !follows[j.ID] && j.State.Status != kernel.Succeeded && j.State.Status != kernel.Unscheduled:
			return
		}
	}
	if failed != nil {
		x.report(at, Fall{Fault: Silent, Job: failed.ID})
	}
}

// report records f unless it was found before.
func (x *explorer) report(at int, f Fall) {
	key := fmt.Sprint(f.Fault, f.Job, f.About)
	if x.found[key] {
		return
	}
	x.found[key] = true
	for ; x.nodes[at].from >= 0; at = x.nodes[at].from {
		f.History = append(f.History, x.nodes[at].step)
	}
	slices.Reverse(f.History)
	f.Stale = x.stale
	x.out.Falls = append(x.out.Falls, f)
}
