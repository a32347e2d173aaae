package sim

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// ledger is what the checkers remember. It sees every entry of the journal,
// every command and every outcome, and knows nothing of how they come about.
type ledger struct {
	truth     map[kernel.JobID]kernel.Job // what the journal says, whatever the files say
	markers   map[kernel.Artifact][]kernel.JobID
	due       []kernel.WorldAction // committed actions on the world, not done yet
	spawned   map[kernel.AttemptID]int
	commands  map[kernel.AttemptID]int
	runs      map[execution]int
	results   map[kernel.AttemptID]kernel.Result // as commands returned them
	recorded  map[kernel.AttemptID]kernel.Result // as their runners wrote them down
	refusals  map[kernel.AttemptID]error
	excused   map[kernel.AttemptID]bool  // a fault beyond the model of locks befell it
	rebooted  map[kernel.AttemptID]bool  // its runner went with the machine
	fired     map[kernel.JobID]int       // routes taken since a person rewound their source
	latest    time.Time                  // the latest time that the clock has given to a process
	earliest  map[kernel.JobID]time.Time // the earliest since the job failed and was to be tried again
	trace     []string
	violation string
}

type execution struct {
	job        kernel.JobID
	generation int
}

func newLedger() ledger {
	return ledger{truth: map[kernel.JobID]kernel.Job{}, markers: map[kernel.Artifact][]kernel.JobID{},
		spawned: map[kernel.AttemptID]int{}, commands: map[kernel.AttemptID]int{}, runs: map[execution]int{},
		results: map[kernel.AttemptID]kernel.Result{}, recorded: map[kernel.AttemptID]kernel.Result{},
		refusals: map[kernel.AttemptID]error{}, excused: map[kernel.AttemptID]bool{}, rebooted: map[kernel.AttemptID]bool{},
		fired: map[kernel.JobID]int{}, earliest: map[kernel.JobID]time.Time{}}
}

func (l *ledger) note(format string, args ...any) {
	l.trace = append(l.trace, fmt.Sprintf(format, args...))
}

// fail keeps the first violation: later ones may only follow from it.
func (l *ledger) fail(format string, args ...any) {
	if l.violation == "" {
		l.violation = fmt.Sprintf(format, args...)
	}
}

func (l *ledger) jobIDs() []kernel.JobID { return slices.Sorted(maps.Keys(l.truth)) }

// checkEntry checks a plan at the moment it becomes durable.
func (w *world) checkEntry(p *process, e entry) {
	w.checkPerformed("before the next plan")
	w.due = e.world
	before := maps.Clone(w.truth)
	batches := map[string]int{}
	routed, rewound, opened := 0, kernel.JobID(""), kernel.JobID("")
	for _, g := range e.groups {
		for _, a := range g.forget {
			w.markers[a] = without(w.markers[a], g.job)
		}
		for _, a := range g.publish {
			w.markers[a] = append(without(w.markers[a], g.job), g.job)
		}
		if g.remove {
			delete(w.truth, g.job)
		}
		if g.record == nil {
			continue
		}
		w.truth[g.job] = *g.record
		old, had := before[g.job]
		if !had {
			batches[g.record.Spec.Name]++
			continue
		}
		routed += max(0, g.record.State.Routed-old.State.Routed)
		switch neverRan := old.State.Status == kernel.BlockedByDependency && old.State.Outcome == kernel.NoOutcome; {
		case g.record.State.Generation == old.State.Generation:
		case neverRan:
			opened = g.job
		case old.Spec.Routed && !old.State.Awake && old.State.Status == kernel.Unscheduled: // also a route that is used up wakes it
		default:
			rewound = g.job
		}
	}
	for name, n := range batches {
		var batch, size int
		if _, err := fmt.Sscanf(name, "batch %d of %d", &batch, &size); err != nil || n != size {
			w.fail("%d jobs of %q were enqueued: all or none", n, name)
		}
	}
	if rewound != "" && routed == 0 && p.verb != "retry" {
		w.fail("%s was rewound in a %s, and no route was taken", rewound, p.verb)
	}
	if opened != "" && routed == 0 && p.verb != "retry" && len(batches) == 0 {
		w.fail("%s was opened again in a %s that enqueued nothing", opened, p.verb)
	}
	for _, g := range e.groups {
		old, had := before[g.job]
		switch {
		case g.remove:
			w.checkRemoved(before, old)
		case g.record != nil:
			w.note("    %s: %s/%d gen %d -> %s/%d gen %d %s", g.job, old.State.Status, old.State.Attempt, old.State.Generation,
				g.record.State.Status, g.record.State.Attempt, g.record.State.Generation, g.record.State.Reason)
			if had {
				w.checkChange(p, old, *g.record)
			}
			w.checkGrant(old, *g.record)
			if g.record.State.Status == kernel.FailedRetryable && (!had || old.State.Status != kernel.FailedRetryable) {
				w.earliest[g.job] = w.now
			}
		}
	}
	w.checkAll()
}

// checkChange checks I2, I3, I5 and I7, and changes of approvals, cancels and
// routes.
func (w *world) checkChange(p *process, old, now kernel.Job) {
	was, is := old.State, now.State
	again := is.Generation > was.Generation
	switch {
	case is.Attempt < was.Attempt || is.Generation < was.Generation:
		w.fail("%s: attempt %d of generation %d became %d of %d", now.ID, was.Attempt, was.Generation, is.Attempt, is.Generation)
	case was.Status.Terminal() && is.Status != was.Status && !again:
		w.fail("%s: %s -> %s without a rewind", now.ID, was.Status, is.Status)
	case now.Rev != old.Rev+1:
		w.fail("%s: revision %d became %d", now.ID, old.Rev, now.Rev)
	}
	if a, b := was.Approval.State, is.Approval.State; a != b && !again && !(a == kernel.Pending &&
		(b == kernel.Approved && p.verb == "approve" || b == kernel.Rejected && p.verb == "reject")) {
		w.fail("%s: approval %s -> %s in a %s", now.ID, a, b, p.verb)
	}
	opened := was.Status == kernel.BlockedByDependency && was.Outcome == kernel.NoOutcome && p.verb != "retry" // nothing ran: what was approved is what runs
	if again && !opened && was.Approval.State != kernel.NotRequired && is.Approval.State != kernel.Pending {
		w.fail("%s: it was rewound, and its approval is still %s", now.ID, is.Approval.State)
	}
	if (was.Approval.State == kernel.NotRequired) != (is.Approval.State == kernel.NotRequired) {
		w.fail("%s: its approval came or went", now.ID)
	}
	w.checkRoutes(p, old, now)
	if was.Status == kernel.Running {
		w.checkSettled(p, old, now)
	}
}

func (w *world) checkRoutes(p *process, old, now kernel.Job) {
	switch d := now.State.Routed - old.State.Routed; {
	case d > 0:
		w.fired[now.ID] += d
	case d < 0 && (p.verb != "retry" || now.State.Generation == old.State.Generation):
		w.fail("%s forgot its routes in a %s", now.ID, p.verb)
	case d < 0 || p.verb == "retry" && now.State.Generation > old.State.Generation:
		w.fired[now.ID] = 0
	}
	budget := 0
	for _, r := range now.Spec.Routes {
		if r.Budget == 0 {
			r.Budget = kernel.DefaultRouteBudget
		}
		budget = max(budget, r.Budget)
	}
	if n := w.fired[now.ID]; n > budget {
		w.fail("%s: its routes were taken %d times, %d may", now.ID, n, budget)
	}
}

// checkSettled checks the end of an attempt: only its own runner's report or its
// runner's death ends it, and a report counts.
func (w *world) checkSettled(p *process, old, now kernel.Job) {
	a, is := old.Attempt(), now.State
	stop := !old.State.Stop.At.IsZero() || !is.Stop.At.IsZero() && p.verb == "cancel"
	if is.Status == kernel.Running && is.Attempt == a.N {
		if !old.State.Stop.At.IsZero() && is.Stop.At.IsZero() {
			w.fail("%v: a cancel was forgotten", a)
		}
		return
	}
	again := is.Generation > old.State.Generation
	r, told := w.recorded[a]
	if !told && w.claims[a] == p {
		r, told = w.results[a]
	}
	begun := w.hosts > 1 && w.lockOf(a.Job).inscribed == a.N // on the other host, which may have died before the fork
	switch {
	case w.excused[a]:
		return
	case !told && is.Status == kernel.Queued && !again && !w.voided(a) && (w.refusals[a] == nil && w.spawned[a] == 0 && !begun || w.claims[a] != nil || w.lives(a)):
		w.fail("%v was taken back, and nobody had refused it", a)
	case !told && w.refusals[a] == nil && !w.rebooted[a] && w.spawned[a] == 0 && !begun && !w.voided(a):
		w.fail("%v ended as %s and never had a runner", a, is.Status)
	case w.refusals[a] != nil && w.spawned[a] == 0 && !w.rebooted[a] && (is.Failure == kernel.WorkerLost || is.Spent.Reclaims > old.State.Spent.Reclaims):
		w.fail("%v was refused and passes for lost", a)
	case !told && w.lives(a):
		w.fail("%v ended as %s, and its runner lives and has not reported", a, is.Status)
	case again:
		return
	case is.Failure == kernel.LaunchFailure && is.Status == kernel.Failed && !errors.Is(w.refusals[a], final):
		w.fail("%v failed for good: %v", a, w.refusals[a])
	case is.Status == kernel.Running && is.Spent.Retries > old.State.Spent.Retries:
		w.fail("%v failed and is tried again at once", a)
	case is.Status == kernel.Succeeded && !w.published(r):
		w.fail("%v succeeded without the markers of %v", a, r.Produced)
	case told && r.Outcome == kernel.OutcomeSucceeded && is.Status != kernel.Succeeded:
		w.fail("%v succeeded and became %s/%d (%s)", a, is.Status, is.Attempt, is.Reason)
	case is.Status == kernel.Succeeded && (!told || r.Outcome != kernel.OutcomeSucceeded):
		w.fail("%v is on record as succeeded, and did not", a)
	case stop && is.Status != kernel.Succeeded && (is.Status != kernel.Cancelled || is.Exit != kernel.Exited(143)):
		w.fail("%v was cancelled and became %s (exit %d)", a, is.Status, is.Exit.Code)
	case told && r.Outcome == kernel.OutcomeFailed && is.Failure != r.Class && !stop && is.Attempt == a.N:
		w.fail("%v failed as %s and is on record as %s", a, r.Class, is.Failure)
	}
}

// published reports whether there is a marker for everything that r produced.
func (w *world) published(r kernel.Result) bool {
	return !slices.ContainsFunc(r.Produced, func(a kernel.Artifact) bool { return !slices.Contains(w.markers[a], r.Attempt.Job) })
}

// lives reports whether a process holds a's lock for a and, if a is for pilots, has claimed a.
func (w *world) lives(a kernel.AttemptID) bool {
	if o := w.orders[a]; o != nil {
		return o.holder != nil && w.claims[a] == o.holder
	}
	l := w.lockOf(a.Job)
	return l.inscribed == a.N && slices.ContainsFunc(l.holders[:], func(p *process) bool {
		return p != nil && p.live() && (p.held[a.Job] == nil || p.held[a.Job].attempt == a)
	})
}

// checkGrant checks the start of an attempt by every gate except those that need
// git.
func (w *world) checkGrant(old, now kernel.Job) {
	is := now.State
	if is.Status != kernel.Running || old.State.Status == kernel.Running && old.State.Attempt == is.Attempt {
		return
	}
	delay, _ := old.Due()
	switch {
	case is.Attempt <= old.State.Attempt:
		w.fail("%s runs as attempt %d after attempt %d", now.ID, is.Attempt, old.State.Attempt)
	case is.Approval.State == kernel.Pending || is.Approval.State == kernel.Rejected:
		w.fail("%s runs with its approval %s", now.ID, is.Approval.State)
	case old.State.Status == kernel.FailedRetryable && is.Generation == old.State.Generation && w.latest.Before(old.State.RetryAt) &&
		delay.Since.Sub(w.earliest[now.ID]) <= time.Minute: // else the clock was set back
		w.fail("%s runs at %v, before %v", now.ID, w.latest, old.State.RetryAt)
	case now.Spec.Routed && !is.Awake:
		w.fail("%s runs, and no route woke it", now.ID)
	case now.Spec.Transient != kernel.NotTransient && !w.demanded(now.ID):
		w.fail("%s runs, and nobody needs it", now.ID)
	}
	for _, a := range now.Spec.Needs {
		if a.Kind == kernel.Custom && len(w.markers[a]) == 0 {
			w.fail("%s runs without %s", now.ID, a)
		}
	}
}

// demanded reports whether a job that is not transient and has not ended depends on
// id, directly or by other jobs.
func (w *world) demanded(id kernel.JobID) bool {
	reached := map[kernel.JobID]bool{id: true}
	for queue := []kernel.JobID{id}; len(queue) > 0; queue = queue[1:] {
		for _, k := range w.jobIDs() {
			j := w.truth[k]
			if reached[k] || !hangsOn(j, w.truth[queue[0]]) || j.State.Status.Terminal() {
				continue
			}
			if j.Spec.Transient == kernel.NotTransient {
				return true
			}
			reached[k] = true
			queue = append(queue, k)
		}
	}
	return false
}

func hangsOn(j, on kernel.Job) bool {
	return slices.Contains(j.Spec.After, on.ID) ||
		slices.ContainsFunc(j.Spec.Needs, func(a kernel.Artifact) bool { return slices.Contains(on.Spec.Produces, a) })
}

// overslept reports whether gone sleeps and no job of its run is active, so that no
// route can wake it.
func overslept(jobs map[kernel.JobID]kernel.Job, gone kernel.Job) bool {
	if gone.State.Status != kernel.Unscheduled {
		return false
	}
	for _, j := range jobs {
		if j.State.Status.Active() && j.Spec.Origin.Run == gone.Spec.Origin.Run {
			return false
		}
	}
	return true
}

// checkRemoved checks I13, for jobs that were open when the removal was decided.
func (w *world) checkRemoved(before map[kernel.JobID]kernel.Job, gone kernel.Job) {
	if gone.Open() && !overslept(before, gone) && !overslept(w.truth, gone) { // the same entry may open the run again, or end it
		w.fail("%s was removed while it was %s", gone.ID, gone.State.Status)
	}
	for _, id := range w.jobIDs() {
		jobs, _ := refers(w.truth[id])
		if j, had := before[id]; had && j.Open() && slices.Contains(jobs, gone.ID) {
			w.fail("%s was removed, and %s refers to it", gone.ID, id)
		}
	}
}

// checkAll checks after every plan that no job has run whose predecessor has not
// succeeded, and that nothing is given out twice (I4).
func (w *world) checkAll() {
	var running []kernel.Lock
	n := 0
	for _, id := range w.jobIDs() {
		j := w.truth[id]
		if j.State.Status == kernel.Running {
			if j.Spec.Task.On() == kernel.LocalExecutor {
				n++
			}
			if conflict(w.limits, running, j.Spec.Locks) {
				w.fail("%s runs with %v beside %v", id, j.Spec.Locks, running)
			}
			running = append(running, j.Spec.Locks...)
		}
		if s := j.State.Status; s != kernel.Running && s != kernel.Succeeded {
			continue
		}
		for _, p := range j.Spec.After {
			if q, ok := w.truth[p]; ok && q.State.Status != kernel.Succeeded || !ok && j.Open() {
				w.fail("%s is %s and its predecessor %s is %s", id, j.State.Status, p, q.State.Status)
			}
		}
	}
	if m := w.limits.MaxRunning; m > 0 && n > m {
		w.fail("%d run, %d may", n, m)
	}
}

// conflict reports whether locks cannot be held beside held.
func conflict(limits kernel.Limits, held, locks []kernel.Lock) bool {
	used := map[string]int{}
	for _, l := range append(slices.Clone(held), locks...) {
		used[l.Key] += l.Units
		if l.Pool() && used[l.Key] > limits.Pools[l.Key] {
			return true
		}
	}
	for _, l := range locks {
		for _, h := range held {
			if !l.Pool() && !h.Pool() && l.Key == h.Key && (l.Mode == kernel.Exclusive || h.Mode == kernel.Exclusive) {
				return true
			}
		}
	}
	return false
}
