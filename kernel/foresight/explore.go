package foresight

import (
	"fmt"

	"slices"
	"strings"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Fault is what a run can come to that nobody wants.
type Fault uint8

// The faults that are looked for.
const (
	LeftOver    Fault = iota // a run that nothing happens in any more has a job that waits for what cannot come
	NeverRuns                // a node that runs in no history
	Silent                   // a failure that nothing handles, after which the run's last nodes succeed
	PassedRound              // a node runs whose way leads through an approval that was not given
	TooEarly                 // a node uses an artifact of the run before the run has made it
)

var faultNames = kernel.NewNames[Fault]("fault", "left_over", "never_runs", "silent_failure", "approval_passed_round", "consumed_too_early")

func (f Fault) String() string { return faultNames.Name(f) }

// Fall is a fault with the shortest history that leads to it.
type Fall struct {
	Fault   Fault
	Job     kernel.JobID
	About   kernel.JobID // the other job it is about; "": none
	Why     string       // of a job that is left over: what it waits for
	History []Step       // from the run's first tick on; nil of a node that never runs
	Stale   bool         // it begins with what an earlier run left in the repository
}

// Step is what happens in a history: what the scheduler is told, before it ticks.
type Step struct {
	What  string // finish, approve, reject, cancel, clock
	Job   kernel.JobID
	Exit  int // of finish
	Class kernel.FailureClass
	Ends  kernel.Outcome
	After time.Duration // of clock
}

// Exploration is what was found of a run.
type Exploration struct {
	States   int  // that differ in what may follow from them
	Complete bool // all of them were seen
	Falls    []Fall
}

// MostStates is how many states of a run an exploration looks at.
const MostStates = 20_000

// Explore looks at every history of a run: each running attempt succeeds, is blocked, is
// cancelled, loses its runner or fails in each way that the kernel tells apart; each
// approval is given or refused; what is due comes due, in any order. Histories that
// lead to the same are one. What the run needs from elsewhere is there, and
// conditions on the repository hold. It stops after so many states, and where stopped
// says so.
func Explore(jobs []kernel.NewJob, most int, stopped func() bool) (Exploration, error) {
	x := &explorer{most: most, out: Exploration{Complete: true}, found: map[string]bool{}, ran: map[kernel.JobID]bool{}}
	for _, n := range jobs {
		x.ids = append(x.ids, n.ID)
	}
	for _, stale := range []bool{false, true} {
		if x.stale = stale; stale && !x.leavesBehind(jobs) {
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

// explorer looks through the states of a run, breadth first.
type explorer struct {
	ids   []kernel.JobID
	most  int
	stale bool // with what an earlier run made in git
	nodes []explored
	known map[string]bool // states by what may follow from them
	found map[string]bool
	ran   map[kernel.JobID]bool
	out   Exploration
}

// explored is a state, and the step that led to it.
type explored struct {
	s    *kernel.Snapshot
	from int // -1: it is the first
	step Step
}

var begin = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// leavesBehind reports that the run makes what outlives it, and needs it itself.
func (x *explorer) leavesBehind(jobs []kernel.NewJob) bool {
	made := map[kernel.Artifact]bool{}
	for _, n := range jobs {
		for _, a := range n.Spec.Produces {
			made[a] = made[a] || a.Kind != kernel.Custom && a.Kind != kernel.CommandPatch && a.Kind != kernel.MergeSentinel
		}
	}
	return slices.ContainsFunc(jobs, func(n kernel.NewJob) bool {
		return slices.ContainsFunc(n.Spec.Needs, func(a kernel.Artifact) bool { return made[a] })
	})
}

func (x *explorer) from(jobs []kernel.NewJob, stopped func() bool) error {
	s := kernel.NewSnapshot(kernel.Observation{Now: begin, Facts: kernel.NewFacts()})
	p, err := kernel.Enqueue(s, jobs)
	if err != nil {
		return err
	}
	f := &future{s: s.Apply(p)}
	f.s = x.assumed(f.s)
	f.tick()
	x.nodes, x.known = []explored{{s: x.assumed(f.s), from: -1}}, map[string]bool{x.form(f.s): true}
	for at := 0; at < len(x.nodes); at++ {
		x.out.States++
		x.judge(at)
		if stopped() {
			x.out.Complete = false
			return nil
		}
		steps := x.steps(x.nodes[at].s)
		for _, step := range steps {
			if !x.out.Complete {
				break
			}
			next := x.follow(x.nodes[at].s, step)
			if next == nil {
				continue
			}
			form := x.form(next)
			if x.known[form] {
				continue
			}
			if x.out.States+len(x.nodes)-at > x.most {
				x.out.Complete = false
				break // the others are looked at, and nothing follows from them
			}
			x.known[form] = true
			x.nodes = append(x.nodes, explored{next, at, step})
		}
		if len(steps) > 0 { // its history is kept, and it is not needed any more
			x.nodes[at].s = nil
		}
	}
	return nil
}

func (x *explorer) assumed(s *kernel.Snapshot) *kernel.Snapshot { return assumed(s, x.stale) }

// steps are what may happen next.
func (x *explorer) steps(s *kernel.Snapshot) (out []Step) {
	for _, j := range s.Jobs() {
		switch st := &j.State; st.Status {
		case kernel.Running:
			out = append(out, Step{What: "finish", Job: j.ID, Ends: kernel.OutcomeSucceeded}, Step{What: "finish", Job: j.ID, Ends: kernel.OutcomeBlocked, Exit: 10}, Step{What: "cancel", Job: j.ID})
			for _, c := range classesOf(j) {
				out = append(out, Step{What: "finish", Job: j.ID, Ends: kernel.OutcomeFailed, Exit: 1, Class: c})
			}
		case kernel.WaitingOnApproval:
			out = append(out, Step{What: "approve", Job: j.ID}, Step{What: "reject", Job: j.ID})
		default:
		}
		if at, due := j.Due(); due && at.After(s.Now()) {
			out = append(out, Step{What: "clock", Job: j.ID, After: at.Sub(s.Now())})
		}
	}
	return out
}

// classesOf are the failure classes that the kernel treats in different ways in j: those
// it has rules for, and of the others one that is tried again and one that is not.
func classesOf(j *kernel.Job) []kernel.FailureClass {
	out := []kernel.FailureClass{kernel.ExitFailure, kernel.Timeout, kernel.Signal, kernel.WorkerLost, kernel.EffectInDoubt}
	retry := j.Retry()
	seen := map[bool]bool{retry.Covers(kernel.ExitFailure, 1): true}
	for c := kernel.OutOfMemory; c <= kernel.Preempted; c++ {
		if again := retry.Covers(c, 1); !slices.Contains(out, c) && !seen[again] {
			seen[again], out = true, append(out, c)
		}
	}
	return out
}

// follow is the state that a step leads to; nil: it cannot happen.
func (x *explorer) follow(s *kernel.Snapshot, step Step) *kernel.Snapshot {
	f := &future{s: s}
	var err error
	switch step.What {
	case "finish":
		err = f.end(step.Job, kernel.Result{Outcome: step.Ends, Exit: step.Exit, Class: step.Class, Reason: step.Class.String()})
	case "cancel":
		err = f.do(kernel.Cancel(f.s, step.Job, nobody, false))
	case "approve":
		err = f.do(kernel.Approve(f.s, step.Job, kernel.Consent{By: nobody, How: nobody}))
	case "reject":
		err = f.do(kernel.Reject(f.s, step.Job, nobody, ""))
	case "clock":
		f.s = f.s.At(f.s.Now().Add(step.After))
	}
	if err != nil {
		return nil
	}
	f.s = x.assumed(f.s)
	f.tick()
	return x.assumed(f.s)
}

// form is all of s that anything may follow from.
func (x *explorer) form(s *kernel.Snapshot) string {
	var b strings.Builder
	facts := s.Facts()
	for _, id := range x.ids {
		j := s.Job(id)
		if j == nil {
			b.WriteString("-;")
			continue
		}
		st := &j.State
		fmt.Fprintf(&b, "%d %d %d %d %t %s %t %t", st.Status, st.Outcome, st.Approval.State, st.Routed, st.Awake, st.Context.Root, st.Closed, st.Retired)
		if j.Open() { // a rewind forgets the rest
			fmt.Fprintf(&b, " %v %t %t %t %d", st.Spent, st.Lost == st.Attempt && st.Lost > 0, !st.Stop.At.IsZero(), st.Approval.InDoubt, st.Wait.Kind)
			if st.Status == kernel.FailedRetryable || st.Approval.InDoubt {
				fmt.Fprintf(&b, " %d", st.Failure)
			}
		}
		for _, a := range j.Spec.Produces {
			if a.Kind == kernel.Custom {
				fmt.Fprintf(&b, " %t", slices.Contains(facts.Markers[a].Value, id))
			} else {
				fmt.Fprintf(&b, " %t", facts.Present[a].Value)
			}
		}
		b.WriteByte(';')
	}
	return b.String()
}

// judge looks for faults of a state.
func (x *explorer) judge(at int) {
	s := x.nodes[at].s
	open := false
	for _, j := range s.Jobs() {
		open = open || j.State.Status.Active()
		if j.State.Status != kernel.Running {
			continue
		}
		x.ran[j.ID] = true
		for _, by := range x.before(s, j) {
			if a := by.State.Approval; a.State != kernel.NotRequired && !a.InDoubt && a.State != kernel.Approved {
				x.fall(at, Fall{Fault: PassedRound, Job: j.ID, About: by.ID})
			}
		}
		for _, a := range j.Spec.Needs {
			if maker := x.unmade(s, j, a); maker != "" {
				x.fall(at, Fall{Fault: TooEarly, Job: j.ID, About: maker, Why: a.String()})
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
			x.fall(at, Fall{Fault: LeftOver, Job: j.ID, About: root.ID, Why: why})
		}
	}
	if !open {
		x.silence(at, s)
	}
}

// before are the jobs that j can only begin after, whatever becomes of them.
func (x *explorer) before(s *kernel.Snapshot, j *kernel.Job) (out []*kernel.Job) {
	seen := map[kernel.JobID]bool{j.ID: true}
	for queue := []*kernel.Job{j}; len(queue) > 0; queue = queue[1:] {
		for _, id := range s.Predecessors(queue[0].ID) {
			if p := s.Job(id); p != nil && !seen[id] {
				seen[id], out, queue = true, append(out, p), append(queue, p)
			}
		}
	}
	return out
}

// unmade is the job of the run that is to make a, which j uses, where none has and
// one still may; "": that is not so.
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

// root is the job that j waits for in the end, by the reasons on record.
func (x *explorer) root(s *kernel.Snapshot, j *kernel.Job) *kernel.Job {
	for range x.ids {
		next := s.Job(j.State.Wait.Job)
		if j.State.Wait.Cause != kernel.JobNotEnded || next == nil {
			break
		}
		j = next
	}
	return j
}

// outside reports that j waits for something that no job of the run makes.
func (x *explorer) outside(s *kernel.Snapshot, j *kernel.Job) bool {
	switch j.State.Wait.Kind {
	case kernel.OnPreconditions, kernel.OnPinnedHead, kernel.OnApproval:
		return true
	case kernel.OnDependencies:
		return j.State.Wait.Cause == kernel.OtherCause && strings.HasPrefix(j.State.Wait.Detail, "awaiting producer")
	default:
		return false
	}
}

// silence looks for a failure that nothing handled and that cannot be seen by how the
// run's last jobs ended.
func (x *explorer) silence(at int, s *kernel.Snapshot) {
	follows := map[kernel.JobID]bool{} // who has a job behind it
	for _, j := range s.Jobs() {
		for _, id := range s.Predecessors(j.ID) {
			follows[id] = true
		}
	}
	var failed *kernel.Job
	for _, j := range s.Jobs() {
		handled := slices.ContainsFunc(j.Spec.Routes, func(r kernel.Route) bool { return r.On == j.State.Outcome })
		switch {
		case j.State.Status == kernel.Failed && !handled && follows[j.ID]:
			failed = j
		case !follows[j.ID] && j.State.Status != kernel.Succeeded && j.State.Status != kernel.Unscheduled:
			return
		}
	}
	if failed != nil {
		x.fall(at, Fall{Fault: Silent, Job: failed.ID})
	}
}

// fall notes f, the first time that it is found.
func (x *explorer) fall(at int, f Fall) {
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
