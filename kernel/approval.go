package kernel

import "time"

// ApprovalState is the state of a job's approval. The zero value means that the
// job asks for none.
type ApprovalState uint8

// The states of seed 000.
const (
	NotRequired ApprovalState = iota
	Pending
	Approved
	Rejected
	Expired // nobody decided in time
)

var approvalNames = NewNames[ApprovalState]("approval state", "", "pending", "approved", "rejected", "expired")

// Approval is a job's request for a person's approval and the decision on it.
type Approval struct {
	State       ApprovalState
	RequestedAt time.Time
	RequestedBy string
	DecidedAt   time.Time
	DecidedBy   string
	Reason      string
	ExpiresAt   time.Time // the timeout runs from when the job waits for nothing but the approval; zero: not running, or no timeout
	InDoubt     bool      // it is about an effect in doubt; the job itself asks for no approval
	Submitter   string    // who asked for it first, if not RequestedBy
	Grant       *Grant    // what was granted; nil: nothing, or an earlier version granted it
	RejectedHow string    // how it was rejected, as in Consent; "": it was not, or an earlier version rejected it

	// Head is the commit that the branch of Spec.ApprovedBranch was at when the job began to wait for
	// the approval or, once it is granted, the commit that is approved: the operation refuses another
	// one (docs/adr/0068). "": there is no branch, it could not be observed, or an earlier version asked.
	Head CommitID
}

// How returns how it was decided, as in Consent; "": that is not known, or nobody decided.
func (a Approval) How() string {
	if a.Grant != nil {
		return a.Grant.How
	}
	return a.RejectedHow
}

// Over reports whether a pending approval has expired at now.
func (a Approval) Over(now time.Time) bool {
	return a.State == Pending && !a.ExpiresAt.IsZero() && !now.Before(a.ExpiresAt)
}

// Require returns a pending approval.
func Require(at time.Time, by string) Approval {
	return Approval{State: Pending, RequestedAt: at, RequestedBy: by}
}
