package kernel

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

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
			return Merged{}, err
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
				return Merged{}, err
			}
			first.Spec.Transient = min(first.Spec.Transient, spec.Transient)
			first.Spec.Budget, first.Spec.Retry = first.Spec.Budget.or(spec.Budget), first.Spec.Retry.or(spec.Retry)
			continue
		}
		if err := m.resubmit(d, d.s.Job(id), spec, n.Approval.State, by); err != nil {
			return Merged{}, err
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
	return m, m.Plan.Then(p), nil
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
