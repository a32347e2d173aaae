package app

import (
	"context"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Lost are the jobs that snap has as running on this machine, and whose runner is
// gone: the next tick settles them. What was found out of runners is in the
// snapshot that it returns.
func (s *Scheduler) Lost(ctx context.Context, snap *kernel.Snapshot) (*kernel.Snapshot, []kernel.JobID) {
	var given []kernel.AttemptID
	for _, j := range snap.Jobs() {
		if j.State.Status == kernel.Running && j.Spec.Task.On() == kernel.LocalExecutor {
			given = append(given, j.Attempt())
		}
	}
	if len(given) == 0 {
		return snap, nil
	}
	f := kernel.NewFacts()
	f.Runners = s.Executor.Alive(ctx, given)
	var lost []kernel.JobID
	for _, a := range given {
		if f.Runners[a].Value.Gone() {
			lost = append(lost, a.Job)
		}
	}
	return snap.WithFacts(f), lost
}
