package main

import (
	"context"

	"github.com/vizier-scheduler/vizier/kernel"
)

// observeBlocked adds to s what the gates of blocked jobs read. A tick does not
// look at those any more; people do.
func (r *repo) observeBlocked(ctx context.Context, s *kernel.Snapshot, blocked []*kernel.Job) *kernel.Snapshot {
	open := make([]kernel.Job, len(blocked))
	for i, j := range blocked {
		open[i] = *j
		open[i].State.Status = kernel.Queued
	}
	asking := kernel.NewSnapshot(kernel.Observation{Now: s.Now(), Limits: s.Limits(), Jobs: open})
	for range 2 { // which branch is checked out raises the question where it is
		p := asking.Probes()
		if p.Empty() {
			break
		}
		facts := kernel.NewFacts()
		for _, o := range r.Scheduler.Observers {
			o.Observe(ctx, p, &facts)
		}
		asking = asking.WithFacts(facts)
	}
	return s.WithFacts(asking.Facts())
}

// blockedJobs are the jobs of s that a dependency blocks.
func blockedJobs(s *kernel.Snapshot) []*kernel.Job {
	var out []*kernel.Job
	for _, j := range s.Jobs() {
		if j.State.Status == kernel.BlockedByDependency {
			out = append(out, j)
		}
	}
	return out
}
