package main

import (
	"context"

	"github.com/vizier-scheduler/vizier/kernel"
)

// observeBlocked adds the facts that the gates of blocked jobs read to s. A
// tick does not need these any more, but people want to see them.
func (r *repo) observeBlocked(ctx context.Context, s *kernel.Snapshot, blocked []*kernel.Job) *kernel.Snapshot {
	open := make([]kernel.Job, len(blocked))
	for i, j := range blocked {
		open[i] = *j
		open[i].State.Status = kernel.Queued
	}
	asking := kernel.NewSnapshot(kernel.Observation{Now: s.Now(), Limits: s.Limits(), Jobs: open})
	for range 2 { // which branch is checked out determines the next question
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

// blockedJobs returns the jobs of s that are blocked by a dependency.
func blockedJobs(s *kernel.Snapshot) []*kernel.Job {
	var out []*kernel.Job
	for _, j := range s.Jobs() {
		if j.State.Status == kernel.BlockedByDependency {
			out = append(out, j)
		}
	}
	return out
}
