package proptest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/retention"
	"pgregory.net/rapid"
)

// history is a scheduler without a disk: records, markers, a clock, and the ghost
// variables that its laws are about.
type history struct {
	now     time.Time
	limits  kernel.Limits
	jobs    []kernel.Job
	markers map[kernel.Artifact][]kernel.JobID
	present map[kernel.Artifact]bool
	moved   map[string]bool                     // branches, and other parts of the checkout, that differ from the beginning
	gone    map[kernel.AttemptID]*kernel.Result // runners that ended
	born    int

	launched   map[kernel.AttemptID]bool
	executions map[generation]int
	leaves     map[generation]int // how often a person allowed another execution of what is in doubt
	seen       map[kernel.JobID]kernel.State

	near   bool                        // ticks are also made on the jobs near to the changed ones only
	judged map[kernel.JobID]kernel.Job // the records after the last tick
	facts  map[kernel.Near]string      // the facts that the jobs were judged by, as a store keeps them
	narrow int                         // ticks that did not need every job
	elided int                         // types of artifacts that reads left out
}

type generation struct {
	job kernel.JobID
	n   int
}

// look returns a snapshot with every probe answered.
func (h *history) look() *kernel.Snapshot {
	return h.observe(kernel.NewSnapshot(kernel.Observation{Now: h.now, Limits: h.limits, Jobs: h.jobs}))
}

func (h *history) observe(s *kernel.Snapshot) *kernel.Snapshot {
	for !s.Probes().Empty() {
		f := kernel.NewFacts()
		h.answer(s.Probes(), &f)
		s = s.WithFacts(f)
	}
	return s
}

func (h *history) answer(p kernel.Probes, f *kernel.Facts) {
	for _, a := range p.Attempts {
		f.Runners[a] = kernel.Seen(kernel.Runner{Liveness: kernel.Alive})
		if r, dead := h.gone[a]; dead {
			f.Runners[a], f.Results[a] = kernel.Seen(kernel.Runner{Liveness: kernel.Dead}), kernel.Seen(r)
		}
	}
	for _, a := range p.Artifacts {
		f.Present[a] = kernel.Seen(h.present[a])
	}
	for _, a := range p.Markers {
		f.Markers[a] = kernel.Seen(slices.Clone(h.markers[a]))
	}
	for _, b := range p.Branches {
		f.Heads[b] = kernel.Seen(kernel.CommitID("c1"))
		if h.moved[b] {
			f.Heads[b] = kernel.Seen(kernel.CommitID("c2"))
		}
	}
	if p.Head {
		f.Head = kernel.Seen(branches[0])
		if h.moved["checked out"] {
			f.Head = kernel.Seen(branches[1])
		}
	}
	if p.Clean {
		f.Clean = kernel.Seen(!h.moved["clean"])
	}
	if p.Sandbox {
		f.Sandbox = kernel.Seen(kernel.Enforcement{})
	}
	if p.Merging {
		f.Merging = kernel.Seen("")
	}
}

// commit does what a store and an executor do with a plan.
func (h *history) commit(t *rapid.T, p kernel.Plan) {
	st := store{jobs: map[kernel.JobID]kernel.Job{}, markers: h.markers}
	for _, j := range h.jobs {
		st.jobs[j.ID] = j
	}
	for _, a := range artifacts {
		if _, ok := st.markers[a]; !ok && a.Kind == kernel.Custom {
			st.markers[a] = nil
		}
	}
	st.do(p.Actions())
	h.jobs = nil
	for _, j := range st.jobs {
		h.jobs = append(h.jobs, j)
	}
	slices.SortFunc(h.jobs, func(a, b kernel.Job) int { return a.Compare(&b) })
	for id, n := range launches(p) {
		a := kernel.AttemptID{Job: id, N: n}
		if h.launched[a] {
			t.Fatalf("%v was launched twice", a)
		}
		h.launched[a] = true
		h.executions[generation{id, st.jobs[id].State.Generation}]++
	}
	for _, a := range p.Actions() {
		if a, ok := a.(kernel.TendPrompt); ok {
			tended, err := kernel.Tended(kernel.NewSnapshot(kernel.Observation{Now: h.now, Limits: h.limits, Jobs: h.jobs}), a, true, false)
			if err != nil {
				t.Fatal(err)
			}
			h.commit(t, tended)
		}
	}
}

// tick makes one tick, and checks that it leaves nothing to do.
func (h *history) tick(t *rapid.T) {
	p := kernel.Decide(h.look())
	if h.near {
		h.facts = h.decideNear(t, p)
	}
	h.commit(t, p)
	if h.near {
		h.judged = map[kernel.JobID]kernel.Job{}
		for _, j := range h.jobs {
			h.judged[j.ID] = j
		}
	}
	if again := kernel.Decide(h.look()); len(again.Actions()) > 0 { // every prompt was tended
		t.Fatalf("a second tick finds more to do: %+v", again.Actions())
	}
}

// check checks what holds at every moment of every history.
func (h *history) check(t *rapid.T) {
	running := map[kernel.JobID]bool{}
	for _, j := range h.jobs {
		was, known := h.seen[j.ID]
		st := j.State
		switch {
		case known && was.Status.Terminal() && st.Status != was.Status && st.Generation <= was.Generation:
			t.Fatalf("%s: %s -> %s in generation %d (I2)", j.ID, was.Status, st.Status, st.Generation)
		case known && (st.Attempt < was.Attempt || st.Generation < was.Generation):
			t.Fatalf("%s: %+v -> %+v (I3)", j.ID, was, st)
		case st.Status == kernel.Running && !h.launched[j.Attempt()]:
			t.Fatalf("%s runs and was never launched", j.ID)
		}
		b := j.Budget()
		if n := h.executions[generation{j.ID, st.Generation}]; n > 1+b.Retries+b.Resumes+b.Reclaims+h.leaves[generation{j.ID, st.Generation}] {
			t.Fatalf("%s: %d executions in generation %d with %+v (I8)", j.ID, n, st.Generation, b)
		}
		if st.Status.Terminal() && st.Status != kernel.BlockedByDependency && st.Status != kernel.BlockedByApproval && !st.Exit.Known {
			t.Fatalf("%s ended without an exit code: %+v", j.ID, st)
		}
		running[j.ID] = st.Status == kernel.Running
		h.seen[j.ID] = st
	}
	for on, m := range places(h.limits) {
		if n := runningOn(h.alive(), on); m > 0 && n > m {
			t.Fatalf("%v run, %d may on %s", h.alive(), m, on)
		}
	}
	for i, j := range h.jobs {
		for _, k := range h.jobs[:i] {
			if running[j.ID] && running[k.ID] && excludes(j.Spec.Locks, k.Spec.Locks) {
				t.Fatalf("%s and %s both run: %+v %+v (I4)", j.ID, k.ID, j.Spec.Locks, k.Spec.Locks)
			}
		}
	}
}

// places returns how many jobs may run on each executor that limits them.
func places(l kernel.Limits) map[string]int {
	all := maps.Clone(l.Executors)
	if all == nil {
		all = map[string]int{}
	}
	all[kernel.LocalExecutor] = l.MaxRunning
	return all
}

// runningOn counts those of jobs that run on executor on.
func runningOn(jobs []*kernel.Job, on string) int {
	n := 0
	for _, j := range jobs {
		if j.State.Status == kernel.Running && j.Spec.Task.On() == on {
			n++
		}
	}
	return n
}

// alive returns the jobs on record as running.
func (h *history) alive() []*kernel.Job {
	var out []*kernel.Job
	for i := range h.jobs {
		if h.jobs[i].State.Status == kernel.Running {
			out = append(out, &h.jobs[i])
		}
	}
	return out
}

// enqueue adds a batch; new jobs may come before or after those they need.
func (h *history) enqueue(t *rapid.T) {
	h.now = h.now.Add(time.Second)
	s := h.look()
	var news []kernel.NewJob
	for range rapid.IntRange(1, 2).Draw(t, "batch") {
		h.born++
		n := kernel.NewJob{ID: kernel.JobID(fmt.Sprintf("h%03d", h.born)), Spec: Spec.Draw(t, "spec")}
		n.Spec.After = nil
		for i := range n.Spec.Routes { // to any job, including itself and later ones
			n.Spec.Routes[i].To = kernel.JobID(fmt.Sprintf("h%03d", rapid.IntRange(1, h.born+1).Draw(t, "to")))
		}
		if len(h.jobs) > 0 && rapid.Bool().Draw(t, "has after") {
			n.Spec.After = []kernel.JobID{oneOf(t, "after", h.jobs...).ID}
		}
		if oneIn(t, 5, "approval") {
			n.Approval = kernel.Require(h.now, "bob")
		}
		news = append(news, n)
	}
	if p, err := kernel.Enqueue(s, news); err == nil {
		h.commit(t, p)
	}
}

// verb applies a random verb to a random job, if that is allowed.
func (h *history) verb(t *rapid.T) {
	if len(h.jobs) == 0 {
		return
	}
	s, id := h.look(), oneOf(t, "subject", h.jobs...).ID
	var p kernel.Plan
	switch oneOf(t, "verb", "retry", "retry", "cancel", "cancel its run", "approve", "reject", "gc", "submit again") {
	case "retry":
		p, _ = kernel.Retry(s, id, "ann")
	case "cancel":
		p, _ = kernel.Cancel(s, id, "ann", false)
	case "cancel its run":
		p, _ = kernel.CancelIn(s, []kernel.RunID{s.Job(id).Spec.Origin.Run}, id, "ann", false)
	case "approve":
		var err error
		g := generation{id, s.Job(id).State.Generation}
		if p, err = kernel.Approve(s, id, kernel.Consent{By: "ann"}); err == nil && h.executions[g] > 0 {
			h.leaves[g]++
		}
	case "reject":
		p, _ = kernel.Reject(s, id, kernel.Refusal{By: "ann"})
	case "gc":
		p = retention.GC(s, time.Minute)
	case "submit again":
		_, p, _ = kernel.Submit(s, again(t, s.Job(id)), "ann")
		for _, a := range p.Actions() {
			if _, fresh := a.(kernel.CreateJob); fresh { // it has no key
				return
			}
		}
	}
	h.commit(t, p)
}

// end ends a running attempt: it reports, or dies with or without a result. Or an
// earlier attempt reports, which must be refused.
func (h *history) end(t *rapid.T) {
	if len(h.alive()) == 0 {
		return
	}
	j := oneOf(t, "runner", h.alive()...)
	r := Result(t, j)
	r.Ended = h.now
	s := h.look()
	switch oneOf(t, "ends", "reports", "reports", "reports", "dies", "dies with a result", "dies having reported", "stale") {
	case "reports":
		if p, err := kernel.Finish(s, *r); err == nil {
			h.commit(t, p)
		}
	case "dies":
		h.gone[j.Attempt()] = nil
	case "dies with a result":
		h.gone[j.Attempt()] = r
	case "dies having reported":
		h.gone[j.Attempt()] = r
		if p, err := kernel.Finish(s, *r); err == nil {
			h.commit(t, p)
		}
	case "stale":
		r.Attempt.N--
		if p, err := kernel.Finish(s, *r); err == nil {
			t.Fatalf("attempt %v was accepted: %+v", r.Attempt, p)
		}
	}
}

func newHistory(t *rapid.T) *history {
	return &history{now: Epoch, moved: map[string]bool{}, limits: kernel.Limits{MaxRunning: rapid.IntRange(0, 3).Draw(t, "max_running"), Pools: map[string]int{"gpu": 2},
		Executors: map[string]int{"far": rapid.IntRange(0, 2).Draw(t, "max_running far away")}},
		markers: map[kernel.Artifact][]kernel.JobID{}, present: map[kernel.Artifact]bool{}, gone: map[kernel.AttemptID]*kernel.Result{},
		launched: map[kernel.AttemptID]bool{}, executions: map[generation]int{}, leaves: map[generation]int{}, seen: map[kernel.JobID]kernel.State{}}
}

// play makes a history of drawn steps and checks it after each.
func (h *history) play(t *rapid.T) {
	t.Repeat(map[string]func(*rapid.T){
		"enqueue": h.enqueue,
		"verb":    h.verb,
		"end":     h.end,
		"end too": h.end,
		"tick":    h.tick,
		"clock": func(t *rapid.T) {
			h.now = h.now.Add(time.Duration(rapid.IntRange(0, 400).Draw(t, "seconds")) * time.Second)
		},
		"clock set back": func(t *rapid.T) {
			h.now = h.now.Add(-time.Duration(rapid.IntRange(0, 7200).Draw(t, "seconds")) * time.Second)
		},
		"branch": func(t *rapid.T) {
			what := oneOf(t, "what", append([]string{"checked out", "clean"}, branches...)...)
			h.moved[what] = !h.moved[what]
		},
		"artifact": func(t *rapid.T) {
			if a := oneOf(t, "artifact", artifacts...); a.Kind != kernel.Custom {
				h.present[a] = rapid.Bool().Draw(t, "present")
			}
		},
		"": h.check,
	})
}

func TestHistories(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { newHistory(t).play(t) })
}

// If the trouble stops at any moment — every attempt succeeds from then on,
// every approval is granted, the clock goes on, perhaps from long ago — the scheduler
// comes to rest, and then no job waits that could continue (I12, liveness).
func TestEverybodyGetsSomewhere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := newHistory(t)
		h.play(t)
		if rapid.Bool().Draw(t, "the clock is set back") {
			h.now = h.now.AddDate(-1, 0, 0)
		}
		for range 20 * (1 + len(h.jobs)) {
			h.now = h.now.Add(time.Hour)
			h.tick(t)
			progress := false
			for _, j := range h.alive() {
				r := kernel.Result{Attempt: j.Attempt(), Outcome: kernel.OutcomeSucceeded, Produced: j.Spec.Produces, Ended: h.now}
				p, err := kernel.Finish(h.look(), r)
				if err != nil {
					t.Fatal(err)
				}
				h.commit(t, p)
				progress = true
			}
			for _, j := range h.jobs {
				progress = progress || j.State.Status == kernel.FailedRetryable
				if p, err := kernel.Approve(h.look(), j.ID, kernel.Consent{By: "ann"}); err == nil {
					if g := (generation{j.ID, j.State.Generation}); h.executions[g] > 0 {
						h.leaves[g]++
					}
					h.commit(t, p)
					progress = true
				}
			}
			h.check(t)
			if !progress {
				h.atRest(t)
				return
			}
		}
		t.Fatal("the scheduler does not come to rest")
	})
}

// atRest checks which jobs are still open when nothing moves. These may be: jobs
// that sleep, jobs whose head or precondition does not hold, jobs with a need that
// no job produces, and jobs that wait for an open job, or for the branch of a run
// that has an open job. (A rewind may make a cycle of open jobs: if a job failed for
// lack of an artifact, and its producer was enqueued later to run after it.)
func (h *history) atRest(t *rapid.T) {
	s := h.look()
	for _, j := range s.Jobs() {
		if !j.Open() || j.State.Status == kernel.Unscheduled {
			continue
		}
		blocked := false
		for _, id := range s.Predecessors(j.ID) {
			blocked = blocked || s.Job(id).Open()
		}
		switch w := j.State.Wait; {
		case w.Kind == kernel.OnPinnedHead, w.Kind == kernel.OnPreconditions, strings.HasPrefix(w.Detail, "awaiting producer"):
		case w.Kind == kernel.OnDependencies && blocked:
		case strings.HasPrefix(w.Detail, anotherRun) && slices.ContainsFunc(s.Jobs(), func(k *kernel.Job) bool {
			return keepsBranch(s, k, j) && !strings.HasPrefix(k.State.Wait.Detail, anotherRun)
		}):
		default:
			t.Fatalf("%s is left as %s (%s: %s)", j.ID, j.State.Status, w.Kind, w.Detail)
		}
	}
}
