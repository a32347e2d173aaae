// Package foresight predicts how a snapshot goes on: what would follow if
// something happened, and how everything would end. It uses the decisions of
// package kernel itself. Like the kernel it is pure.
package foresight

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Change is something that may happen.
type Change interface {
	apply(*future) error
}

// The changes. Those that people make are the kernel's own verbs, and fail
// where the verbs fail.
type (
	// Approve grants a pending approval.
	Approve struct{ Job kernel.JobID }
	// Reject refuses a pending approval.
	Reject struct{ Job kernel.JobID }
	// Cancel cancels jobs, dependents first; running ones end. If there are several,
	// those that have ended by then are skipped. Runs are those that are
	// cancelled as a whole: see kernel.CancelIn.
	Cancel struct {
		Jobs []kernel.JobID
		Runs []kernel.RunID
	}
	// Retry runs ended jobs again, with the jobs that have to run with them.
	Retry struct{ Jobs []kernel.JobID }
	// Succeed lets a job succeed and make what it declares, whether it runs
	// already or not.
	Succeed struct{ Job kernel.JobID }
	// Fail lets a job fail with an exit code.
	Fail struct {
		Job  kernel.JobID
		Code int
	}
	// Merge lets the open merge of a branch succeed.
	Merge struct{ Branch string }
	// Release takes a lock or a pool away from its holders.
	Release struct{ Lock string }
	// Resize sets the number of units of a pool. It fails for an unknown pool,
	// unless Known says that a job which is not in the snapshot yet asks for it.
	Resize struct {
		Pool  string
		Units int
		Known bool
	}
	// Places sets how many jobs may run at once on this machine; 0: no limit.
	Places struct{ N int }
	// Submit enqueues jobs.
	Submit struct{ Jobs []kernel.NewJob }
	// Pass lets time pass in which nothing ends.
	Pass struct{ Time time.Duration }
)

const nobody = "what-if"

func (c Approve) apply(f *future) error {
	return f.do(kernel.Approve(f.s, c.Job, kernel.Consent{By: nobody, How: nobody}))
}

func (c Reject) apply(f *future) error {
	return f.do(kernel.Reject(f.s, c.Job, kernel.Refusal{By: nobody, How: nobody}))
}

func (c Cancel) apply(f *future) error {
	for _, id := range f.s.DependentsFirst(c.Jobs) {
		p, err := kernel.CancelIn(f.s, c.Runs, id, nobody, false)
		if len(c.Jobs) > 1 && errors.Is(err, kernel.ErrConflict) {
			continue
		}
		if err := f.do(p, err); err != nil {
			return err
		}
	}
	return nil
}

func (c Retry) apply(f *future) error {
	_, p, err := kernel.RetryAll(f.s, c.Jobs, nobody)
	return f.do(p, err)
}

func (c Submit) apply(f *future) error {
	_, p, err := kernel.Submit(f.s, c.Jobs, nobody)
	return f.do(p, err)
}

func (c Succeed) apply(f *future) error {
	return f.end(c.Job, kernel.Result{Outcome: kernel.OutcomeSucceeded})
}

func (c Fail) apply(f *future) error {
	if c.Code < 1 || c.Code > 255 {
		return fmt.Errorf("a failure has an exit code from 1 to 255, not %d: %w", c.Code, kernel.ErrInvalid)
	}
	return f.end(c.Job, kernel.Result{Outcome: kernel.OutcomeFailed, Exit: c.Code, Class: kernel.ExitFailure, Reason: fmt.Sprint("exit code ", c.Code)})
}

func (c Merge) apply(f *future) error {
	for _, j := range f.s.Jobs() {
		if j.Spec.Integrates() != "" && j.Spec.Origin.Branch == c.Branch && j.Open() {
			return f.end(j.ID, kernel.Result{Outcome: kernel.OutcomeSucceeded})
		}
	}
	return kernel.Missing{What: "open job that merges branch " + c.Branch}
}

func (c Release) apply(f *future) error {
	o := f.observation()
	held := false
	for i := range o.Jobs {
		j := &o.Jobs[i]
		mine := func(l kernel.Lock) bool { return l.Key == c.Lock }
		if j.State.Status == kernel.Running && slices.ContainsFunc(j.Spec.Locks, mine) {
			j.Spec.Locks, held = slices.DeleteFunc(slices.Clone(j.Spec.Locks), mine), true
		}
	}
	if !held {
		return kernel.Missing{What: "running job that holds " + c.Lock}
	}
	f.s = kernel.TakeSnapshot(o)
	return nil
}

func (c Resize) apply(f *future) error {
	if c.Units < 0 {
		return fmt.Errorf("pool %s cannot have %d units: %w", c.Pool, c.Units, kernel.ErrInvalid)
	}
	o := f.observation()
	_, known := o.Limits.Pools[c.Pool]
	known = known || c.Known
	for _, j := range o.Jobs {
		known = known || slices.ContainsFunc(j.Spec.Locks, func(l kernel.Lock) bool { return l.Pool() && l.Key == c.Pool })
	}
	if !known {
		return kernel.Missing{What: "pool " + c.Pool}
	}
	o.Limits.Pools = maps.Collect(maps.All(o.Limits.Pools))
	o.Limits.Pools[c.Pool] = c.Units
	f.s = kernel.TakeSnapshot(o)
	return nil
}

func (c Places) apply(f *future) error {
	if c.N < 0 {
		return fmt.Errorf("not %d jobs can run at once: %w", c.N, kernel.ErrInvalid)
	}
	o := f.observation()
	o.Limits.MaxRunning = c.N
	f.s = kernel.TakeSnapshot(o)
	return nil
}

func (c Pass) apply(f *future) error {
	if c.Time <= 0 {
		return fmt.Errorf("time that passes is more than nothing: %w", kernel.ErrInvalid)
	}
	f.s = f.s.At(f.s.Now().Add(c.Time))
	return nil
}

func themselves(jobs []kernel.JobID) (near []kernel.Near) {
	for _, id := range jobs {
		near = append(near, kernel.Near{Kind: kernel.Itself, Job: id})
	}
	return near
}

// Near returns the least that a partial snapshot must hold so that WhatIf can
// begin with changes at time now.
func Near(changes []Change, now time.Time) []kernel.Near {
	near := []kernel.Near{{Kind: kernel.Attended}, {Kind: kernel.Outsiders}}
	for _, c := range changes {
		var id kernel.JobID
		switch c := c.(type) {
		case Approve:
			id = c.Job
		case Reject:
			id = c.Job
		case Cancel:
			near = append(near, themselves(c.Jobs)...)
			continue
		case Retry:
			near = append(near, themselves(c.Jobs)...)
			continue
		case Succeed:
			id = c.Job
		case Fail:
			id = c.Job
		case Pass:
			now = now.Add(c.Time)
			continue
		default:
			continue
		}
		near = append(near, kernel.Near{Kind: kernel.Itself, Job: id})
	}
	return append(near, kernel.Near{Kind: kernel.Due, At: now})
}

// Artifacts returns what WhatIf needs to know the existence of besides what gates read: whether
// new jobs would wait for each other depends on it.
func Artifacts(changes []Change) (out []kernel.Artifact) {
	for _, c := range changes {
		if c, ok := c.(Submit); ok {
			for _, n := range c.Jobs {
				out = append(out, n.Spec.Needs...)
			}
		}
	}
	return out
}
