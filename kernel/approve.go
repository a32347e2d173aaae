package kernel

import (
	"cmp"
	"fmt"
	"strings"
)

// Consent is a person's yes to a job.
type Consent struct {
	By     string
	How    string   // "terminal", "script", or the name of a front end
	Digest Digest   // of the approved statement; "": the statement of the job's current spec
	Head   CommitID // of the branch, as in Approval; "": none is approved
}

// ConsentTo returns by's yes to j as j is now: to its statement and, if it waits for the approval of a
// branch's commit, to that commit. A front end that shows j says no more by it than what it has shown.
func ConsentTo(j *Job, by, how string) Consent {
	c := Consent{By: by, How: how, Digest: j.Spec.Digest()}
	if j.branchToApprove() != "" {
		c.Head = j.State.Approval.Head
	}
	return c
}

// Refusal is a person's no to a job.
type Refusal struct {
	By     string
	How    string // as in Consent
	Reason string // may be empty
}

// Approve grants the approval that a job asks for. It returns ErrConflict if
// c.Digest is not the digest of the job's statement, and ErrOwn if the
// submitter approves, or who retried the job, but others have to.
func Approve(s *Snapshot, id JobID, c Consent) (Plan, error) {
	j, err := s.undecided(id, "approve")
	if err != nil {
		return Plan{}, err
	}
	st := j.State
	statement := j.Spec.Statement()
	g := Grant{How: c.How, Digest: DigestOf(statement), Statement: statement}
	switch {
	case c.Digest != "" && c.Digest != g.Digest:
		return Plan{}, fmt.Errorf("job %s is not what is approved: its digest is %s, not %s; look at it again: %w", id, g.Digest, c.Digest, ErrConflict)
	case s.limits.OthersApprove && s.Barred(j).bars(c.By):
		did := "submitted"
		if c.By != s.Barred(j).Submitter {
			did = "retried"
		}
		return Plan{}, fmt.Errorf("job %s was %s by %s: %w", id, did, c.By, ErrOwn)
	}
	st.Approval.State, st.Approval.DecidedAt, st.Approval.DecidedBy, st.Approval.Reason, st.Approval.Grant, st.Approval.Head = Approved, s.now, c.By, "", &g, c.Head
	return NewPlan(PutState{id, j.Rev, st}), nil
}

// Barred are those who may not approve a job, since others have to. The zero value bars nobody.
type Barred struct {
	Submitter string
	Retrier   string // who has had it ask anew; "": nobody, or the submitter
}

// Else says in words who may approve, such as "somebody else than Ann"; "": anybody.
func (b Barred) Else() string {
	switch {
	case b == Barred{}:
		return ""
	case b.Retrier == "":
		return "somebody else than " + b.Submitter
	}
	return "somebody else than " + b.Submitter + " and " + b.Retrier
}

func (b Barred) bars(who string) bool { return who == b.Submitter || who == b.Retrier }

// Barred returns who may not approve j. That of a job that has ended asks anew only after a retry, and whoever
// retries it may not approve it either.
func (s *Snapshot) Barred(j *Job) (by Barred) {
	a := j.State.Approval
	if !s.limits.OthersApprove {
		return by
	}
	by.Submitter = cmp.Or(a.Submitter, a.RequestedBy)
	if a.RequestedBy != by.Submitter && !j.State.Status.Terminal() {
		by.Retrier = a.RequestedBy
	}
	return by
}

// Reject denies a job's pending approval and ends the job as
// blocked_by_approval with exit code 10.
func Reject(s *Snapshot, id JobID, r Refusal) (Plan, error) {
	j, err := s.undecided(id, "reject")
	if err != nil {
		return Plan{}, err
	}
	st := j.State
	st.Approval.State, st.Approval.DecidedAt, st.Approval.DecidedBy, st.Approval.Reason = Rejected, s.now, r.By, strings.TrimSpace(r.Reason)
	st.Approval.RejectedHow, st.Approval.Grant = r.How, nil
	return s.unapproved(j, st, cmp.Or(st.Approval.Reason, "approval rejected")), nil
}

// unapproved ends j, whose approval was rejected or has expired, in state st, and takes its routes.
func (s *Snapshot) unapproved(j *Job, st State, why string) Plan {
	st.Status, st.Wait = BlockedByApproval, WaitReason{Kind: OnApproval, Detail: why}
	st.WaitedOn, st.WaitSince = st.WaitedOn.With(OnApproval), s.now
	st.Finished, st.Exit, st.Outcome, st.Reason = s.now, Exited(10), OutcomeBlocked, why
	return s.withRoutes(NewPlan(PutState{j.ID, j.Rev, st}), j)
}

// expire ends the jobs that waited for an approval which nobody gave in time.
func (s *Snapshot) expire() Plan {
	d := NewDraft(s)
	for _, i := range s.timed {
		if j := d.s.jobs[i]; j.lapsed(s.now) {
			d.s.requireAll() // its end may concern any job
			st := j.State
			st.Approval.State = Expired
			d.Add(d.s.unapproved(j, st, j.expired()))
		}
	}
	return d.plan
}

func (s *Snapshot) undecided(id JobID, verb string) (*Job, error) {
	j := s.Job(id)
	if j == nil {
		return nil, fmt.Errorf("%s %s: %w", verb, id, ErrNotFound)
	}
	switch st := j.State; {
	case st.Status == Running:
		return nil, fmt.Errorf("job %s is running: %w", id, ErrConflict)
	case st.Status.Terminal() && st.Status != Succeeded && st.Approval.State != NotRequired && !st.Approval.InDoubt:
		return nil, fmt.Errorf("job %s has ended (%s) and waits for no approval: a retry asks for it anew: %w", id, st.Status, ErrConflict)
	case st.Status.Terminal():
		return nil, fmt.Errorf("job %s has ended (%s) and waits for no approval: %w", id, st.Status, ErrConflict)
	case st.Approval.State == NotRequired:
		return nil, fmt.Errorf("job %s is not configured for approval gating: %w", id, ErrConflict)
	case st.Approval.State == Approved && j.Seal() == Sealed:
		return nil, fmt.Errorf("job %s is already approved: %w", id, ErrConflict)
	case st.Approval.State == Rejected:
		return nil, fmt.Errorf("job %s approval is already rejected: %w", id, ErrConflict)
	case st.Approval.Over(s.now):
		return nil, fmt.Errorf("%s of job %s: a retry asks for it anew: %w", j.expired(), id, ErrConflict)
	}
	return j, nil
}
