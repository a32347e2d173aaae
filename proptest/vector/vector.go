// Package vector makes and checks the conformance vectors of docs/vectors:
// snapshots with what the kernel makes of them, as JSON, by which the kernel in
// WebAssembly, or one in another language, is held to this one.
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

// Given is what decisions depend on, and what is asked.
type Given struct {
	Snapshot wire.Snapshot
	Request  *Request // nil: nothing but a tick
}

// Request is what somebody asks for before the tick: one of its fields is set.
type Request struct {
	Submit  *Submit
	Approve *Approve
	Reject  *Reject
	Cancel  *Cancel
	Retry   *Retry
	Finish  *kernel.Result
	Refuse  *Refuse
}

// The arguments of those functions of the kernel that take several.
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
		Job        kernel.JobID
		By, Reason string
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

// Follows is what the kernel makes of what is given. Tick is decided on the snapshot
// that Asked leads to; Why and the views are of the one that Tick leads to from there.
type Follows struct {
	Refused  string           // why the request was; "": it was not
	RetrySet *kernel.RetrySet // of a retry
	Asked    *Plan            // what the request does
	Tick     Plan             `wire:"always"`
	Why      map[kernel.JobID]kernel.Explanation
	List     view.ListDocument
	Status   map[kernel.JobID]view.Status
	Overview view.Overview
}

// Plan is a kernel.Plan without what only a store of some of the jobs needs.
type Plan struct {
	Decisions []kernel.Decision
	Records   []kernel.RecordAction
	World     []kernel.WorldAction
}

func planOf(p kernel.Plan) Plan { return Plan{p.Decisions, p.Records, p.World} }

// follow is what the kernel makes of g.
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
		// Neither is an error of a job that the snapshot has.
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

// ask is the plan of r.
func ask(s *kernel.Snapshot, r *Request) (kernel.Plan, error) {
	switch {
	case r.Submit != nil:
		_, p, err := kernel.Submit(s, r.Submit.Jobs, r.Submit.By)
		return p, err
	case r.Approve != nil:
		return kernel.Approve(s, r.Approve.Job, r.Approve.Consent)
	case r.Reject != nil:
		return kernel.Reject(s, r.Reject.Job, r.Reject.By, r.Reject.Reason)
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
