package main

import (
	"context"

	"github.com/vizier-scheduler/vizier/kernel"
)

// diskFull is the state of a repository whose file system is full.
const diskFull = "the file system of the repository is full: jobs that have ended stay running until that can be recorded, and none starts"

// settled returns the result of read. If that contains a running job whose
// runner is gone, a tick settles it first, so that it is not reported as
// running. If the tick fails or this command must not tick, settled warns. If
// another host schedules, settled leaves the job to that host. If no resident
// scheduler queries the runners of other executors, settled queries them and
// starts one.
func (c *call) settled(r *repo, read func() (*kernel.Snapshot, error)) (*kernel.Snapshot, error) {
	snap, err := read()
	if err != nil || c.past != nil {
		return snap, err
	}
	if r.Full() {
		c.ui.warn("%s: make room on it, and they go on by themselves", diskFull)
	}
	alone := len(r.Scheduler.Executors) > 0 && !r.Attended()
	lost := func() []kernel.JobID {
		within, stop := context.WithTimeout(c.ctx, patience)
		defer stop()
		if alone {
			r.Scheduler.Refresh(within, snap.Jobs()...)
		}
		next, ids := r.Scheduler.Lost(within, snap, alone)
		snap = next
		return ids
	}
	gone := lost()
	if alone {
		defer c.attend(r)
	}
	if len(gone) == 0 || r.Elsewhere() {
		return snap, nil
	}
	why := c.outside
	if why == "" {
		within, stop := context.WithTimeout(c.ctx, patience)
		defer stop()
		rep, err := r.Scheduler.Tick(within)
		if err != nil {
			why = err.Error()
		} else {
			c.report(rep)
			why = "a tick did not change it; vizier doctor looks further"
			if snap, err = read(); err != nil {
				return nil, err
			}
			gone = lost()
		}
	}
	for _, id := range gone {
		c.ui.warn("job %s is on record as running, but its runner is gone, and this command could not settle it: %s", id, why)
	}
	return snap, nil
}

// attend starts a resident scheduler if jobs elsewhere need one and none is
// alive. If it must not, it prints what to type instead.
func (c *call) attend(r *repo) {
	resting, err := r.Scheduler.NeedResident(c.ctx)
	if err != nil || len(resting) == 0 || r.Attended() || r.Foreign != nil && r.Foreign(c.ctx) != nil {
		return
	}
	if r.Config.Scheduler.Resident && r.Scheduler.Waker != nil && c.outside == "" {
		r.Scheduler.Waker.Wake(kernel.Wakes{Poll: true})
		return
	}
	why := c.outside
	if why == "" {
		why = "[scheduler] resident is off"
	}
	c.ui.warn("no scheduler is running (%s), and job %s is with executor %s: `vizier wait %s` lets it and its dependents continue",
		why, resting[0].ID, resting[0].Spec.Task.On(), resting[0].ID)
}

// settledJob returns the job that ref names, settled.
func (c *call) settledJob(r *repo, ref string) (snap *kernel.Snapshot, id kernel.JobID, err error) {
	snap, err = c.settled(r, func() (read *kernel.Snapshot, err error) {
		read, id, err = r.job(c.ctx, ref)
		return read, err
	})
	return snap, id, err
}
