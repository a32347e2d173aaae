package kernel

import (
	"fmt"
	"slices"
	"strings"
)

// Merged is what is left of jobs to be enqueued when those are taken out that
// are the same as another one.
type Merged struct {
	New  []NewJob         // still to be enqueued; they refer to the jobs that count
	Same map[JobID]JobID  // the job that counts, by the id minted in vain
	Plan Plan             // what the submission changes of jobs that were there
	Note map[JobID]NotRun // of such a job that is not going to run
}

// NotRun is why a job that was submitted again does not run again: it has ended.
type NotRun struct {
	Status  Status
	Removed bool // it succeeded, and its files are gone since
}

// Merge takes the jobs out of news whose idempotency key another job has, of s
// or earlier in news. Of two modes the more conservative one counts, of two
// budgets the larger. A job that failed for good and gets a larger budget is
// rewound; otherwise one that has ended stays as it is (seed 002;
// systems-and-unification 4.8, 4.12 C29). One key for jobs that differ is
// ErrConflict.
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
			byKey[key] = j // the latest, should there be several
		}
	}
	// Ids first: a line may run after one below it.
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
	at, d := map[JobID]int{}, NewDraft(s) // at: of a job that is left
	for _, n := range news {
		asked := n.Spec
		n.Spec.After, n.Spec.AfterAny = nil, nil
		for _, id := range asked.After {
			n.Spec.RunsAfter(orElseID(m.Same[id], id), asked.AfterPolicy(id))
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
		if err := m.again(d, d.s.Job(id), spec, n.Approval.State, by); err != nil {
			return Merged{}, err
		}
	}
	m.Plan = d.plan
	return m, nil
}

// Submit merges jobs with those that are the same, and enqueues the others: all
// of them or, with an error, none.
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

// again adds to m and d what a further submission of j comes to.
func (m *Merged) again(d *Draft, j *Job, spec Spec, approval ApprovalState, by string) error {
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

// or is of each kind the larger budget.
func (b Budget) or(c Budget) Budget {
	return Budget{max(b.Retries, c.Retries), max(b.Resumes, c.Resumes), max(b.Reclaims, c.Reclaims)}
}

// conflict is the error that one key was given to jobs that differ in what they
// run or in when they may.
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

func orElseID(id, alt JobID) JobID {
	if id == "" {
		return alt
	}
	return id
}
