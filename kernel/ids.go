package kernel

import "strings"

type (
	// JobID identifies a job. The store generates 32 lowercase hex digits that
	// grow with time; the kernel only compares them.
	JobID string
	// RunID identifies one enqueue of a template: "run_" and 32 hex digits. It
	// is empty for jobs submitted one by one.
	RunID string
	// Revision counts the commits of one job record.
	Revision uint64
	// CommitID is a git object id in hex.
	CommitID string
)

// AttemptID identifies one execution of a job. N only grows, so a larger N
// fences off a smaller one (seed 001).
type AttemptID struct {
	Job JobID
	N   int
}

// ValidJobID reports whether s has the form that seed 004 demands: 32 lowercase
// hex digits.
func ValidJobID(s string) bool {
	return len(s) == 32 && strings.Trim(s, "0123456789abcdef") == ""
}
