package retention

import (
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// The functions of this package as verbs with their arguments, in the form in
// which they go on record.
type (
	// Old is GC or, with Worktrees, GCWorktrees.
	Old struct {
		Than      time.Duration
		Worktrees bool
	}

	// Cleaning is Clean or, with Worktrees, CleanWorktrees.
	Cleaning struct {
		Jobs             []kernel.JobID
		Force, Worktrees bool
	}

	// Keeping is Apply.
	Keeping struct {
		Policy Policy
		Sizes  map[kernel.JobID]int64
		Most   int
	}
)

// Decide returns the plan of GC or GCWorktrees.
func (v Old) Decide(s *kernel.Snapshot) (kernel.Plan, error) {
	if v.Worktrees {
		return GCWorktrees(s, v.Than), nil
	}
	return GC(s, v.Than), nil
}

// Decide returns the plan of Clean or CleanWorktrees.
func (v Cleaning) Decide(s *kernel.Snapshot) (kernel.Plan, error) {
	if v.Worktrees {
		return CleanWorktrees(s, v.Jobs, v.Force)
	}
	return Clean(s, v.Jobs, v.Force)
}

// Decide returns the plan of Apply.
func (v Keeping) Decide(s *kernel.Snapshot) (kernel.Plan, error) {
	return Apply(s, v.Policy, v.Sizes, v.Most), nil
}

// Scope returns every record.
func (Old) Scope() kernel.Scope { return kernel.Scope{All: true} }

// Scope returns every record.
func (Cleaning) Scope() kernel.Scope { return kernel.Scope{All: true} }

// Scope returns every record.
func (Keeping) Scope() kernel.Scope { return kernel.Scope{All: true} }

// Short returns v with as few sizes as the same decision about s needs: those
// of the jobs that p, v's plan, removes, and the sum of all others as the size
// of the empty id.
func (v Keeping) Short(s *kernel.Snapshot, p kernel.Plan) Keeping {
	if v.Policy.Bytes == 0 || len(v.Sizes) == 0 {
		v.Sizes = nil
		return v
	}
	all := int64(0)
	for _, b := range batchesOf(s, v.Sizes) {
		all += b.size
	}
	short := map[kernel.JobID]int64{}
	for _, a := range p.Records {
		if gone, is := a.(kernel.RemoveJob); is {
			short[gone.Job] = v.Sizes[gone.Job]
		}
	}
	for _, size := range short {
		all -= size
	}
	short[""] = all + v.Sizes[""]
	v.Sizes = short
	return v
}
