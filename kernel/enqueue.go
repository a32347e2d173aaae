package kernel

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

// NewJob is one job to be enqueued.
type NewJob struct {
	ID       JobID // made by the caller; greater than every earlier id
	Spec     Spec
	Approval Approval // see Require; zero: none
	Context  Context
	Part     string // the job's name within its number; "": its node, or its position
}

// NewJobError says what is wrong with one of the jobs to be enqueued.
type NewJobError struct {
	Job  JobID  // its new id, which no job will ever have
	Node string // its node, if any
	Err  error
}

func (e *NewJobError) Error() string {
	if e.Node != "" {
		return "node " + e.Node + ": " + e.Err.Error()
	}
	return e.Err.Error()
}

// Unwrap returns what is wrong.
func (e *NewJobError) Unwrap() error { return e.Err }

func (n *NewJob) refused(err error) error { return &NewJobError{n.ID, n.Spec.Origin.Node, err} }

// Merged is the result of merging new jobs with jobs of the same idempotency
// keys.
type Merged struct {
	New  []NewJob         // jobs still to be enqueued, with merged predecessors replaced
	Same map[JobID]JobID  // the job that counts, by the id of the one merged into it
	Plan Plan             // what the submission changes about existing jobs
	Note map[JobID]NotRun // why an existing job will not run
}

// NotRun says why a job that was submitted again does not run again: it has
// ended.
type NotRun struct {
	Status  Status
	Removed bool // it succeeded, and its files were purged
}

// Merge removes from news the jobs whose idempotency key is that of a job in s
// or of one earlier in news. Of two modes the more conservative one counts, and
// of two budgets the larger. A job that failed for good is rewound if its
// budget grows; any other job that has ended stays as it is (seed 002;
// systems-and-unification 4.8, 4.12 C29). It returns ErrConflict if jobs with
// the same key differ.
func Merge(s *Snapshot, news []NewJob, by string) (Merged, error) {
	m := Merged{Same: map[JobID]JobID{}, Note: map[JobID]NotRun{}}
	if !slices.ContainsFunc(news, func(n NewJob) bool { return n.Spec.IdempotencyKey != "" }) {
		m.New = news
		return m, nil
	}
	batch := make(map[JobID]bool, len(news))
	for _, n := range news {
		batch[n.ID] = true
	}
	for _, n := range news {
		if key := n.Spec.IdempotencyKey; key != "" {
			s.near.require(Near{Kind: Keyed, Key: key})
		}
	}
	byKey := map[string]*Job{}
	for _, j := range s.jobs {
		if key := j.Spec.IdempotencyKey; key != "" {
			byKey[key] = j // the latest, if there are several
		}
	}
	// Resolve ids first, since a job may run after one later in the batch.
	inBatch := map[string]int{}
	for i, n := range news {
		key := n.Spec.IdempotencyKey
		if key == "" {
			continue
		}
		if j := byKey[key]; j != nil {
			m.Same[n.ID] = j.ID
		} else if first, again := inBatch[key]; again {
			m.Same[n.ID] = news[first].ID
		} else {
			inBatch[key] = i
		}
	}
	at, d := map[JobID]int{}, NewDraft(s) // at: index in m.New by id
	for _, n := range news {
		asked := n.Spec
		n.Spec.After, n.Spec.AfterAny = nil, nil
		for _, id := range asked.After {
			n.Spec.RunsAfter(cmp.Or(m.Same[id], id), asked.AfterPolicy(id))
		}
		spec, err := normalise(s, n, batch)
		if err != nil {
			return Merged{}, n.refused(err)
		}
		id, merged := m.Same[n.ID]
		if !merged {
			n.Spec = spec
			at[n.ID] = len(m.New)
			m.New = append(m.New, n)
			continue
		}
		if k, fresh := at[id]; fresh {
			first := &m.New[k]
			if err := conflict(id, &first.Spec, &spec, first.Approval.State, n.Approval.State); err != nil {
				return Merged{}, n.refused(err)
			}
			first.Spec.Transient = min(first.Spec.Transient, spec.Transient)
			first.Spec.Budget, first.Spec.Retry = first.Spec.Budget.or(spec.Budget), first.Spec.Retry.or(spec.Retry)
			continue
		}
		if err := m.resubmit(d, d.s.Job(id), spec, n.Approval.State, by); err != nil {
			return Merged{}, n.refused(err)
		}
	}
	m.Plan = d.plan
	return m, nil
}

// Submit merges jobs by idempotency key and enqueues the rest: all of them or,
// if it returns an error, none.
func Submit(s *Snapshot, news []NewJob, by string) (Merged, Plan, error) {
	m, err := Merge(s, news, by)
	if err != nil {
		return m, Plan{}, err
	}
	p, err := Enqueue(s.Apply(m.Plan), m.New)
	if err != nil {
		return m, Plan{}, err
	}
	if !m.Plan.Empty() {
		p = m.Plan.Then(p)
	}
	return m, p, nil
}

// resubmit adds to m and d what another submission of j changes.
func (m *Merged) resubmit(d *Draft, j *Job, spec Spec, approval ApprovalState, by string) error {
	if err := conflict(j.ID, &j.Spec, &spec, j.State.Approval.State, approval); err != nil {
		return err
	}
	st := j.State
	amended := Amendment{Made: true, Transient: min(j.Transient(), spec.Transient), Budget: j.Budget(), Retry: st.Amended.Retry}
	if st.Status != Succeeded {
		amended.Budget, amended.Retry = amended.Budget.or(spec.Budget), amended.Retry.or(spec.Retry)
	}
	more := amended.Budget != j.Budget()
	if more || amended.Transient != j.Transient() || amended.Retry != st.Amended.Retry {
		st.Amended = amended
	}
	woken := *j
	woken.State = st
	if st.Status == Unscheduled && !j.unrouted() && woken.Transient() == NotTransient {
		st.Status = Queued
	}
	switch {
	case st.Status.Terminal() && !st.Removed.IsZero() && woken.Transient() == NotTransient:
		m.Note[j.ID] = NotRun{st.Status, true}
	case st.Status == Failed && !more, st.Status.Terminal() && st.Status != Succeeded && st.Status != Failed:
		m.Note[j.ID] = NotRun{st.Status, false}
	}
	if st == j.State {
		return nil
	}
	d.Add(NewPlan(PutState{j.ID, j.Rev, st}))
	if st.Status == Failed && more {
		again, err := Retry(d.s, j.ID, by)
		if err != nil {
			return fmt.Errorf("run it again with a larger limit: %w", err)
		}
		d.Add(again)
	}
	return nil
}

// or returns the larger budget of each kind.
func (b Budget) or(c Budget) Budget {
	return Budget{max(b.Retries, c.Retries), max(b.Resumes, c.Resumes), max(b.Reclaims, c.Reclaims)}
}

// conflict returns ErrConflict if two jobs with one key differ in what they run
// or in when they may start.
func conflict(id JobID, old, now *Spec, oldApproval, newApproval ApprovalState) error {
	differ := old.differs(now)
	if (oldApproval == NotRequired) != (newApproval == NotRequired) {
		differ = append(differ, "approval")
	}
	if len(differ) == 0 {
		return nil
	}
	return fmt.Errorf("idempotency key %q is that of job %s, which differs in %s: use another key, or submit the same job: %w",
		now.IdempotencyKey, id, strings.Join(differ, ", "), ErrConflict)
}

// Enqueue adds jobs: all of them or, if it returns an error, none. The error
// names the first problem. Specs are normalised: artifacts are made canonical,
// duplicates removed and a job's requests for one pool added up. Jobs that were
// blocked because an artifact was missing, and whose policy is to wait for
// producers, are reopened if a new job produces that artifact.
func Enqueue(s *Snapshot, jobs []NewJob) (Plan, error) {
	batch := make(map[JobID]bool, len(jobs))
	for _, n := range jobs {
		switch {
		case n.ID == "":
			return Plan{}, fmt.Errorf("enqueue: empty job id: %w", ErrInvalid)
		case batch[n.ID] || s.holds(n.ID) || s.unreadable[n.ID] != "":
			return Plan{}, fmt.Errorf("enqueue: job id %s is taken: %w", n.ID, ErrConflict)
		}
		batch[n.ID] = true
	}
	made := make([]*Job, len(jobs)) // allocated one by one, so that a job kept in memory does not keep the others
	for i, n := range jobs {
		spec, err := normalise(s, n, batch)
		if err != nil {
			return Plan{}, n.refused(err)
		}
		j := &Job{ID: n.ID, Created: s.now, Rev: 1, Spec: spec,
			State: State{Context: n.Context}}
		made[i] = j
		if a := n.Approval; a.State != NotRequired { // a new job's approval is always pending
			j.State.Approval = Require(a.RequestedAt, a.RequestedBy)
		}
		j.State.Status = j.Begins()
	}
	if err := s.number(jobs, made); err != nil {
		return Plan{}, err
	}
	var p Plan
	for _, j := range made {
		p.add(CreateJob{j})
	}
	next := s.Apply(p)
	if err := next.acyclic(jobs); err != nil {
		return Plan{}, err
	}
	if again := next.reopen(jobs); !again.Empty() {
		p = p.Then(again)
	}
	return p, nil
}

// holds reports whether s has job id. A partial snapshot may lack a job that
// exists; then the store refuses the new job.
func (s *Snapshot) holds(id JobID) bool {
	_, ok := s.graph.index[id]
	return ok
}

func normalise(s *Snapshot, n NewJob, batch map[JobID]bool) (Spec, error) {
	spec := n.Spec
	spec.After, spec.AfterAny = sorted(spec.After), sorted(spec.AfterAny)
	for _, id := range spec.AfterAny {
		if _, in := slices.BinarySearch(spec.After, id); !in {
			return spec, fmt.Errorf("any end of %s will do, and it does not run after it: %w", id, ErrInvalid)
		}
	}
	for _, id := range spec.After {
		switch {
		case strings.TrimSpace(string(id)) == "":
			return spec, fmt.Errorf("unknown --after job id: <empty>: %w", ErrNotFound)
		case id == n.ID:
			return spec, fmt.Errorf("invalid --after self dependency: %s: %w", id, ErrInvalid)
		case batch[id] || s.Job(id) != nil:
		case s.unreadable[id] != "":
			return spec, fmt.Errorf("cannot read job record for --after %s: %s: %w", id, s.unreadable[id], ErrInvalid)
		default:
			return spec, fmt.Errorf("unknown --after job id: %s: %w", id, ErrNotFound)
		}
	}
	if o := spec.Origin; o.Plan != "" && slices.Contains(ofPlans, o.About.Operation) {
		check := CheckRef
		if o.About.Operation == persist {
			check = CheckPlan
		}
		if err := check(o.Plan); err != nil {
			return spec, fmt.Errorf("slug %w", err)
		}
	}
	branches := []string{spec.Pinned.Branch}
	for _, p := range spec.Preconditions {
		branches = append(branches, p.Branch)
	}
	for _, b := range branches {
		if b == "" {
			continue
		}
		if err := CheckBranch(b); err != nil {
			return spec, fmt.Errorf("precondition: branch %w", err)
		}
	}
	var err error
	if spec.Tags, err = tags(spec.Tags); err != nil {
		return spec, err
	}
	if spec.Needs, err = artifacts(spec.Needs); err != nil {
		return spec, fmt.Errorf("need: %w", err)
	}
	if spec.Produces, err = artifacts(spec.Produces); err != nil {
		return spec, fmt.Errorf("produce: %w", err)
	}
	for _, l := range spec.Locks {
		if err := l.Validate(); err != nil {
			return spec, err
		}
	}
	spec.Locks = addedUp(spec.Locks)
	for _, l := range spec.Locks {
		size, asked := s.limits.capacity(l.Key), units(spec.Locks, l.Key)
		if l.Pool() && asked > size {
			return spec, &PoolError{l.Key, size, asked}
		}
	}
	spec.Configured = s.limits.configured(&spec)
	return spec, nil
}

func artifacts(in []Artifact) ([]Artifact, error) {
	out := make([]Artifact, 0, len(in))
	for _, a := range in {
		a = a.Canonical()
		if err := errors.Join(a.Validate(), a.refs()); err != nil {
			return nil, err
		}
		out = append(out, a)
	}
	return unique(out), nil
}

// sorted returns ids in order, each once.
func sorted(ids []JobID) []JobID { return slices.Compact(slices.Sorted(slices.Values(ids))) }

// addedUp returns locks, each once, with one request for each pool: all that locks ask of it.
func addedUp(locks []Lock) []Lock {
	var out []Lock
	for _, l := range locks {
		at := slices.IndexFunc(out, func(k Lock) bool { return l.Pool() && k.queue() == l.queue() })
		if at < 0 {
			out = append(out, l)
		} else {
			out[at].Units += min(l.Units, math.MaxInt-out[at].Units) // a larger sum has no place in any pool either
		}
	}
	return unique(out)
}

func unique[T comparable](in []T) []T {
	var out []T
	for _, v := range in {
		if !slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	return out
}

// acyclic returns ErrInvalid if a new job waits for itself: jobs in a cycle can never
// start. s already holds the new jobs.
func (s *Snapshot) acyclic(jobs []NewJob) error {
	back := s.near == nil || s.leadsBack(jobs)
	from := make([]int32, len(jobs))
	for k, n := range jobs {
		from[k] = s.graph.index[n.ID]
	}
	d := s.deadlock(from, func(j *Job) bool { return back || s.near.created[j.ID] }, true)
	d.called = func(j *Job) string { // a new job's id will never be of use; of a batch the caller tells which line it is of
		switch fresh := slices.ContainsFunc(jobs, func(n NewJob) bool { return n.ID == j.ID }); {
		case fresh && j.Spec.Origin.Node != "":
			return "node " + j.Spec.Origin.Node
		case fresh && len(jobs) == 1:
			return j.with("the new job")
		default:
			return j.byID()
		}
	}
	for k, n := range jobs {
		if c := d.cycle(from[k]); c != nil {
			return n.refused(fmt.Errorf("invalid %s: %w", c.Text, ErrInvalid))
		}
	}
	return nil
}

// leadsBack reports whether an older open job needs what a new job makes. Only
// then can a cycle lead through an older job, since no older job has a new one
// as its predecessor.
func (s *Snapshot) leadsBack(jobs []NewJob) bool {
	yes := false
	for _, n := range jobs {
		s.graph.eachSuccessor(s.graph.index[n.ID], func(k int32) {
			yes = yes || !s.near.created[s.jobs[k].ID] && s.jobs[k].Open()
		})
	}
	if yes {
		s.requireAll()
	}
	return yes
}
