// Package vector generates and checks the conformance vectors of docs/vectors:
// snapshots with the kernel's results for them, as JSON. The kernel in
// WebAssembly, or one in another language, must have the same results.
package vector

import (
	"time"

	"github.com/vizier-scheduler/vizier/app/wire"
	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/view"
)

// Vector is one file of docs/vectors.
type Vector struct {
	Name    string
	About   string
	Given   Given
	Follows Follows
}

// Given is the input of a vector: a snapshot and a request.
type Given struct {
	Snapshot wire.Snapshot
	Request  *Request // nil: only a tick
}

// Request is a request that precedes the tick. Exactly one of its fields is
// set.
type Request struct {
	Submit  *Submit
	Approve *Approve
	Reject  *Reject
	Cancel  *Cancel
	Retry   *Retry
	Finish  *kernel.Result
	Refuse  *Refuse
}

// The arguments of the kernel's functions that take several.
type (
	// Submit is for kernel.Submit.
	Submit struct {
		Jobs []kernel.NewJob
		By   string
	}

	// Approve is for kernel.Approve.
	Approve struct {
		Job     kernel.JobID
		Consent kernel.Consent
	}

	// Reject is for kernel.Reject.
	Reject struct {
		Job             kernel.JobID
		By, How, Reason string
	}

	// Cancel is for kernel.Cancel.
	Cancel struct {
		Job     kernel.JobID
		By      string
		Cleanup bool
	}

	// Retry is for kernel.Retry.
	Retry struct {
		Job kernel.JobID
		By  string
	}

	// Refuse is for kernel.Refuse.
	Refuse struct {
		Attempt kernel.AttemptID
		Why     string
		Final   bool
	}
)

// Follows is the kernel's result. Tick is decided on the snapshot that Asked
// leads to; Why and the views are of the snapshot that Tick leads to from
// there.
type Follows struct {
	Refused  string           // why the request was refused; "": it was not
	RetrySet *kernel.RetrySet // of a retry
	Asked    *Plan            // what the request does
	Tick     Plan             `wire:"always"`
	Why      map[kernel.JobID]kernel.Explanation
	List     view.ListDocument
	Status   map[kernel.JobID]view.Status
	Overview view.Overview
}

// Plan is a kernel.Plan without the parts that only a store that reads narrowly
// needs.
type Plan struct {
	Decisions []kernel.Decision
	Records   []kernel.RecordAction
	World     []kernel.WorldAction
}

func planOf(p kernel.Plan) Plan { return Plan{p.Decisions, p.Records, p.World} }

// follow returns the kernel's result for g.
func follow(g Given) Follows {
	s := g.Snapshot.Kernel()
	f := Follows{Why: map[kernel.JobID]kernel.Explanation{}, Status: map[kernel.JobID]view.Status{}}
	if r := g.Request; r != nil {
		if r.Retry != nil {
			if set, err := kernel.RetryOf(s, r.Retry.Job); err == nil {
				f.RetrySet = &set
			}
		}
		if p, err := ask(s, r); err != nil {
			f.Refused = err.Error()
		} else {
			asked := planOf(p)
			f.Asked, s = &asked, s.Apply(p)
		}
	}
	tick := kernel.Decide(s)
	f.Tick, s = planOf(tick), s.Apply(tick)
	for _, j := range s.Jobs() {
		// These only fail for a job that is not in the snapshot.
		f.Why[j.ID], _ = kernel.Explain(s, j.ID)
		f.Status[j.ID], _ = view.StatusOf(s, j.ID, view.Paths{})
	}
	var keys []string
	for _, field := range view.ListFields() {
		keys = append(keys, field.Key)
	}
	f.List = view.ListOf(s, view.ListOptions{All: true}).Document(keys)
	f.Overview = view.OverviewOf(s, view.OverviewOptions{FailedSince: s.Now().Add(-24 * time.Hour)})
	return f
}

// ask returns the plan of r.
func ask(s *kernel.Snapshot, r *Request) (kernel.Plan, error) {
	switch {
	case r.Submit != nil:
		_, p, err := kernel.Submit(s, r.Submit.Jobs, r.Submit.By)
		return p, err
	case r.Approve != nil:
		return kernel.Approve(s, r.Approve.Job, r.Approve.Consent)
	case r.Reject != nil:
		return kernel.Reject(s, r.Reject.Job, kernel.Refusal{By: r.Reject.By, How: r.Reject.How, Reason: r.Reject.Reason})
	case r.Cancel != nil:
		return kernel.Cancel(s, r.Cancel.Job, r.Cancel.By, r.Cancel.Cleanup)
	case r.Retry != nil:
		return kernel.Retry(s, r.Retry.Job, r.Retry.By)
	case r.Finish != nil:
		return kernel.Finish(s, *r.Finish)
	default:
		return kernel.Refuse(s, r.Refuse.Attempt, r.Refuse.Why, r.Refuse.Final)
	}
}
