package main

import (
	"cmp"

	"github.com/vizier-scheduler/vizier/adapters/fs"
	"github.com/vizier-scheduler/vizier/app"
	"github.com/vizier-scheduler/vizier/kernel"
)

// diskFull is the state of a repository whose file system is full.
const diskFull = "the file system of the repository is full: jobs that have ended stay running until that can be recorded, and none starts"

// unreleased says what follows from a scheduler lock that a look did without.
func unreleased(p *fs.BusyError) string {
	return p.By() + " does not let go of the scheduler lock: this is what is on record, and whatever changes something waits for it"
}

// settled returns the result of read, after it has settled what it can: see app.Scheduler.Settled. It warns of
// what it cannot settle.
func (c *call) settled(r *repo, read func() (*kernel.Snapshot, error)) (*kernel.Snapshot, error) {
	if c.past != nil {
		return read()
	}
	seen, err := r.Scheduler.Settled(c.ctx, app.Looker{Attended: r.Attended, Elsewhere: r.Elsewhere, Mine: func() bool { return r.Foreign == nil || r.Foreign(c.ctx) == nil },
		Refresh: true, Forbidden: c.outside, Patience: patience}, read)
	if p := r.Passed(); p != nil {
		c.ui.warn("%s; if it is stopped, kill -CONT lets it continue", unreleased(p))
	}
	c.warned(r.Held())
	if r.Full() {
		c.ui.warn("%s: make room on it, and they go on by themselves", diskFull)
	}
	if seen.Report.Snapshot != nil {
		c.report(seen.Report)
	}
	if err != nil {
		return nil, err
	}
	why := cmp.Or(seen.Why, "a tick did not change that; vizier doctor looks further")
	switch lost := seen.Unsettled; len(lost) {
	case 0:
	case 1:
		c.ui.warn("job %s is on record as running, but its runner is gone, and this command could not settle it: %s", lost[0], why)
	default:
		c.ui.warn("job %s and %d more are on record as running, but their runners are gone, and this command could not settle them: %s", lost[0], len(lost)-1, why)
	}
	if j := seen.Unattended; j != nil {
		c.ui.warn("no scheduler is running (%s), and job %s is with executor %s: `vizier wait %s` lets it and its dependents continue",
			cmp.Or(c.outside, r.Off), j.ID, j.Spec.Task.On(), j.ID)
	}
	return seen.Snapshot, nil
}

// settledJob returns the job that ref names, settled.
func (c *call) settledJob(r *repo, ref string) (snap *kernel.Snapshot, id kernel.JobID, err error) {
	snap, err = c.settled(r, func() (read *kernel.Snapshot, err error) {
		read, id, err = r.job(c.ctx, ref)
		return read, err
	})
	return snap, id, err
}
