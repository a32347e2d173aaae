package main

import (
	"context"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// settled is what read reads. Where that has a job as running whose runner is
// gone, a tick settles it first, so that nobody is told that it runs; where this
// command may not do that, it says so.
func (c *call) settled(r *repo, read func() (*kernel.Snapshot, error)) (*kernel.Snapshot, error) {
	const patience = 2 * time.Second // a person waits
	snap, err := read()
	if err != nil {
		return nil, err
	}
	snap, lost := r.Scheduler.Lost(c.ctx, snap)
	if len(lost) == 0 {
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
			if snap, err = read(); err != nil {
				return nil, err
			}
			snap, lost = r.Scheduler.Lost(c.ctx, snap)
		}
	}
	for _, id := range lost {
		c.ui.warn("job %s is on record as running, but its runner is gone, and this command could not settle it: %s", id, why)
	}
	return snap, nil
}

// settledJob is the job that a person means by ref, settled.
func (c *call) settledJob(r *repo, ref string) (snap *kernel.Snapshot, id kernel.JobID, err error) {
	snap, err = c.settled(r, func() (read *kernel.Snapshot, err error) {
		read, id, err = r.job(c.ctx, ref)
		return read, err
	})
	return snap, id, err
}
