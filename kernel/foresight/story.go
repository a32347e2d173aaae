package foresight

import (
	"cmp"
	"container/heap"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Span is an attempt, or the time that a person took for a decision.
type Span struct {
	Job        kernel.JobID
	Attempt    int // 0: a person's decision
	Start, End time.Time
	Outcome    kernel.Outcome // of a decision: succeeded or blocked
	Class      kernel.FailureClass

	// After is the index of the span whose end let this one begin; -1: it could
	// begin at once. Held is the resource it waited for until then, or nil.
	After int
	Held  *Resource
}

// Story is one future of everything, up to its end.
type Story struct {
	Then  *kernel.Snapshot
	Spans []Span // in the order in which they began
	Ended map[kernel.JobID]time.Time
	By    map[kernel.JobID]int       // the index of the span that had to end, or to expire, for the job to end
	Waits map[Resource]time.Duration // how long jobs waited for each resource, in total
	Cut   bool                       // it was cut off because more happened than any plan should cause
}

// Guessed returns how many jobs of t have attempts, and how many have decisions,
// whose durations are the defaults, since h knows nothing of them.
func (t Story) Guessed(h *Habits) (attempts, decisions int) {
	guessed, asked := map[kernel.JobID]bool{}, map[kernel.JobID]bool{}
	for _, s := range t.Spans {
		if s.End.IsZero() {
			continue
		}
		if basis, _ := h.Basis(t.Then.Job(s.Job)); s.Attempt == 0 && h.Decisions() == 0 {
			asked[s.Job] = true
		} else if s.Attempt > 0 && basis == Guess {
			guessed[s.Job] = true
		}
	}
	return len(guessed), len(asked)
}

// most bounds the events in a story, per job, so that an endless loop is cut
// off.
const most = 60

// Tell returns how s goes on by the kernel's own decisions, with attempts and
// people as the course determines, until nothing more happens by itself. Probes
// of the story's last snapshot, other than those about runners, are facts that
// gates asked for in vain: if there are any, Tell must be called again with
// these answered.
func Tell(s *kernel.Snapshot, course Course) Story {
	t := &teller{future: future{s: s}, course: course, cause: -1, waiting: map[kernel.JobID]wait{}, used: map[kernel.Lock]int{}, open: map[kernel.JobID]int{}, lacking: map[kernel.JobID]string{},
		story: Story{Ended: map[kernel.JobID]time.Time{}, By: map[kernel.JobID]int{}, Waits: map[Resource]time.Duration{}}}
	for _, j := range s.Jobs() {
		if j.State.Status == kernel.Running {
			t.use(j, 1)
			t.begin(j, j.State.Started)
		}
	}
	for _, j := range s.Jobs() {
		if j.Needs() == kernel.NeedsSecret {
			t.lacking[j.ID] = j.State.Reason
		}
		t.look(j)
	}
	t.did, t.launched = t.follow, t.begins
	t.tick()
	t.s = t.s.Tracked()
	t.draft = kernel.NewDraft(t.s)
	for left := most * (len(t.s.Jobs()) + 10); len(t.events) > 0; left-- {
		if left == 0 {
			t.story.Cut = true
			break
		}
		t.happen(heap.Pop(&t.events).(happening))
	}
	for id := range t.waiting {
		t.waited(id, nil)
	}
	t.story.Then = t.s
	return t.story
}

// teller computes a story.
type teller struct {
	future
	course  Course
	events  queue
	made    int // number of events so far
	cause   int // the last span of the job to which something happens; -1: none
	story   Story
	waiting map[kernel.JobID]wait
	used    map[kernel.Lock]int     // by key and mode, what running jobs have: locks, and units of pools
	open    map[kernel.JobID]int    // the last span of each job
	lacking map[kernel.JobID]string // the jobs that a person must give a secret, which then none has, with the reason
}

// wait is the resource that a job waits for, and since when.
type wait struct {
	what  Resource
	since time.Time
	asked time.Time // of a wait for a person: when the approval was requested
}

// happening is a future event: the end of a span, or a job coming due.
type happening struct {
	at   time.Time
	seq  int
	job  kernel.JobID
	span int // -1: a job comes due
	end  kernel.Result
}

// queue is a heap of future events.
type queue []happening

func (q queue) Len() int { return len(q) }

func (q queue) Less(i, k int) bool {
	return cmp.Or(q[i].at.Compare(q[k].at), cmp.Compare(q[i].seq, q[k].seq)) < 0
}

func (q queue) Swap(i, k int) { q[i], q[k] = q[k], q[i] }

// Push implements heap.Interface.
func (q *queue) Push(x any) { *q = append(*q, x.(happening)) }

// Pop implements heap.Interface.
func (q *queue) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

func (t *teller) expect(e happening) {
	t.made++
	e.seq = t.made
	heap.Push(&t.events, e)
}

// happen advances the clock to e, makes e happen, and lets the scheduler tick.
func (t *teller) happen(e happening) {
	if e.at.After(t.s.Now()) {
		t.draft.At(e.at)
		t.s = t.draft.Snapshot()
	}
	j := t.s.Job(e.job)
	t.cause = t.last(e.job)
	if e.span >= 0 {
		span := &t.story.Spans[e.span]
		switch {
		case span.Attempt == 0:
			if j.State.Status != kernel.WaitingOnApproval || t.last(e.job) != e.span {
				return // it expired, or was requested anew
			}
			span.End, span.Outcome = t.s.Now(), e.end.Outcome
			t.decide(j, e.end.Outcome == kernel.OutcomeSucceeded)
		case j.State.Status != kernel.Running || j.State.Attempt != span.Attempt:
			return // it was cancelled
		default:
			span.End, span.Outcome, span.Class = t.s.Now(), e.end.Outcome, e.end.Class
			if t.end(e.job, e.end) != nil {
				return
			}
		}
	}
	t.tick()
}

func (t *teller) decide(j *kernel.Job, grants bool) {
	if grants {
		_ = t.do(kernel.Approve(t.s, j.ID, kernel.Consent{By: nobody, How: nobody})) // cannot fail: the approval is pending
	} else {
		_ = t.do(kernel.Reject(t.s, j.ID, kernel.Refusal{By: nobody, How: nobody}))
	}
}

func (t *teller) last(id kernel.JobID) int {
	if n, ok := t.open[id]; ok {
		return n
	}
	return -1
}

// follow processes what p changed.
func (t *teller) follow(was map[kernel.JobID]*kernel.Job, p kernel.Plan) {
	for _, a := range p.Records {
		if a, ok := a.(kernel.PutState); ok {
			t.trackLocks(was[a.Job], t.s.Job(a.Job))
		}
	}
	for _, a := range p.Records {
		if a, ok := a.(kernel.PutState); ok {
			j := t.s.Job(a.Job)
			if !j.Open() && was[a.Job].Open() {
				if t.story.Ended[j.ID] = t.s.Now(); t.cause >= 0 {
					t.story.By[j.ID] = t.cause
				}
			}
			t.look(j)
		}
	}
}

// trackLocks updates the resources in use after j changed from old.
func (t *teller) trackLocks(old, j *kernel.Job) {
	if was, is := old.State.Status == kernel.Running, j.State.Status == kernel.Running; is && !was {
		t.use(j, 1)
	} else if was && !is {
		t.use(j, -1)
	}
}

func (t *teller) use(j *kernel.Job, times int) {
	for _, l := range j.Spec.Locks {
		t.used[kernel.Lock{Key: l.Key, Mode: l.Mode}] += times * max(1, l.Units)
	}
}

// look notes what j waits for from now on, and when it comes due.
func (t *teller) look(j *kernel.Job) {
	now := t.s.Now()
	if d, ok := j.Due(); ok && !d.Over(now) && t.lacking[j.ID] == "" {
		t.expect(happening{at: d.Until, job: j.ID, span: -1})
	}
	st := &j.State
	if st.Status == kernel.WaitingOnApproval {
		if w := t.waiting[j.ID]; w.what.Kind == Person && w.asked.Equal(st.Approval.RequestedAt) {
			return
		}
		t.waited(j.ID, &wait{Resource{Kind: Person}, now, st.Approval.RequestedAt})
		grants, takes := t.course.Decision(j)
		outcome := kernel.OutcomeSucceeded
		if !grants {
			outcome = kernel.OutcomeBlocked
		}
		n := t.span(Span{Job: j.ID, Start: now, After: t.cause})
		if takes == Never {
			return
		}
		since := max(0, takes-now.Sub(cmp.Or(st.WaitSince, now)))
		t.expect(happening{at: now.Add(since), job: j.ID, span: n, end: kernel.Result{Outcome: outcome}})
		return
	}
	if st.Status == kernel.WaitingOnLocks {
		t.waited(j.ID, &wait{what: t.holds(j), since: now})
		return
	}
	if st.Status != kernel.Running { // begin handles running jobs
		t.waited(j.ID, nil)
	}
}

// waited adds up how long job id has waited, and starts its wait for next.
func (t *teller) waited(id kernel.JobID, next *wait) {
	if w, ok := t.waiting[id]; ok {
		t.story.Waits[w.what] += t.s.Now().Sub(w.since)
		delete(t.waiting, id)
	}
	if next != nil {
		t.waiting[id] = *next
	}
}

// holds returns the resource that j, which waits for locks, waits for: a slot,
// a pool, or the first of its locks that another job holds or has asked for
// earlier.
func (t *teller) holds(j *kernel.Job) Resource {
	on := j.Spec.Task.On()
	if j.State.Wait.Cause == kernel.ExecutorFull {
		return Resource{Slot, on}
	}
	for _, first := range []bool{true, false} {
		for _, l := range j.Spec.Locks {
			switch {
			case first && !t.taken(l):
			case l.Pool():
				return Resource{Pool, l.Key}
			default:
				return Resource{Lock, l.Key}
			}
		}
	}
	return Resource{Slot, on}
}

// taken reports whether what running jobs have leaves no room for l.
func (t *teller) taken(l kernel.Lock) bool {
	shared, exclusive := t.used[kernel.Lock{Key: l.Key, Mode: kernel.Shared}], t.used[kernel.Lock{Key: l.Key, Mode: kernel.Exclusive}]
	if l.Pool() {
		return shared+l.Units > capacity(t.s.Limits(), l.Key)
	}
	return exclusive > 0 || l.Mode == kernel.Exclusive && shared > 0
}

// capacity returns how many units a pool has.
func capacity(l kernel.Limits, pool string) int {
	if n, ok := l.Pools[pool]; ok {
		return n
	}
	return 1
}

// begins is called when an attempt is launched.
func (t *teller) begins(a kernel.AttemptID) {
	if why := t.lacking[a.Job]; why != "" {
		_ = t.do(kernel.Refuse(t.s, a, why, false)) // cannot fail: the attempt was just launched
		return
	}
	t.begin(t.s.Job(a.Job), t.s.Now())
}

// begin asks the course how j's attempt ends, which has been running since the
// given time.
func (t *teller) begin(j *kernel.Job, since time.Time) {
	now := t.s.Now()
	s := Span{Job: j.ID, Attempt: j.State.Attempt, Start: since, After: t.cause}
	if w, ok := t.waiting[j.ID]; ok {
		s.Held = &w.what
		t.waited(j.ID, nil)
	}
	ran := max(0, now.Sub(since))
	end, takes := t.course.Attempt(j, ran)
	if limit := j.Spec.Task.Timeout; limit > 0 && takes > limit {
		end, takes = kernel.Result{Outcome: kernel.OutcomeFailed, Class: kernel.Timeout, Exit: 124, Reason: "timed out"}, max(limit, ran)
	}
	if !j.State.Stop.At.IsZero() { // it is about to be stopped
		end, takes = kernel.Result{Outcome: kernel.OutcomeCancelled, Exit: 143}, ran
	}
	n := t.span(s)
	t.expect(happening{at: now.Add(max(0, takes-ran)), job: j.ID, span: n, end: end})
}

// span adds s, which has not ended yet, and returns its index.
func (t *teller) span(s Span) int {
	n := len(t.story.Spans)
	t.story.Spans = append(t.story.Spans, s)
	t.open[s.Job] = n
	return n
}
