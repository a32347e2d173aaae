package kernel

import "time"

// ApprovalState is where a job's approval stands. The zero value asks for none.
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

// Approval is a job's human gate and how it was decided.
type Approval struct {
	State       ApprovalState
	RequestedAt time.Time
	RequestedBy string
	DecidedAt   time.Time
	DecidedBy   string
	Reason      string
	ExpiresAt   time.Time // counted from when the job first waited for nothing else; zero: it does not yet, or waits for ever
	InDoubt     bool      // it is about an effect in doubt: the job itself asks for none
	Submitter   string    // who asked for it first, where that is not RequestedBy
	Grant       *Grant    // of what it was granted; nil: it was not, or by an earlier version
}

// askedBy reports that who submitted the job, or asks for it now.
func (a Approval) askedBy(who string) bool { return who == a.RequestedBy || who == a.Submitter }

// Over reports that a pending approval came too late by now.
func (a Approval) Over(now time.Time) bool {
	return a.State == Pending && !a.ExpiresAt.IsZero() && !now.Before(a.ExpiresAt)
}

// Require is a pending approval.
func Require(at time.Time, by string) Approval {
	return Approval{State: Pending, RequestedAt: at, RequestedBy: by}
}
