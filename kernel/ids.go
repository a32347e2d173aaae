package kernel

import "strings"

type (
	// JobID names a job. The store mints 32 lowercase hex digits that grow
	// with time; the kernel only compares them.
	JobID string
	// RunID names one enqueue of a template: "run_" and 32 hex digits. Jobs
	// submitted one by one have none.
	RunID string
	// Revision counts the commits of one job record.
	Revision uint64
	// CommitID is a git object id in hex.
	CommitID string
)

// AttemptID names one execution of a job. N only ever grows, so a larger N
// fences a smaller one (seed 001).
type AttemptID struct {
	Job JobID
	N   int
}

// ValidJobID reports whether s has the shape of seed 004: 32 lowercase hex
// digits.
func ValidJobID(s string) bool {
	return len(s) == 32 && strings.Trim(s, "0123456789abcdef") == ""
}
