package retention

import (
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// The functions of this package as verbs with their arguments, as they are put
// on record.
type (
	// Old is GC; with Worktrees GCWorktrees.
	Old struct {
		Than      time.Duration
		Worktrees bool
	}

	// Cleaning is Clean; with Worktrees CleanWorktrees.
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

// Decide is the plan of the function.
func (v Old) Decide(s *kernel.Snapshot) (kernel.Plan, error) {
	if v.Worktrees {
		return GCWorktrees(s, v.Than), nil
	}
	return GC(s, v.Than), nil
}

// Decide is the plan of the function.
func (v Cleaning) Decide(s *kernel.Snapshot) (kernel.Plan, error) {
	if v.Worktrees {
		return CleanWorktrees(s, v.Jobs, v.Force)
	}
	return Clean(s, v.Jobs, v.Force)
}

// Decide is the plan of the function.
func (v Keeping) Decide(s *kernel.Snapshot) (kernel.Plan, error) {
	return Apply(s, v.Policy, v.Sizes, v.Most), nil
}

// Scope is every record.
func (Old) Scope() kernel.Scope { return kernel.Scope{All: true} }

// Scope is every record.
func (Cleaning) Scope() kernel.Scope { return kernel.Scope{All: true} }

// Scope is every record.
func (Keeping) Scope() kernel.Scope { return kernel.Scope{All: true} }

// Short is v with no more sizes than the same decision about s needs: those of the
// jobs that p, v's plan, removes, and what all others come to, as that of no job.
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
