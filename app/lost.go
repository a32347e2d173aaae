package app

import (
	"context"
	"slices"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Lost are the jobs that snap has as running, on this machine or, with elsewhere,
// on any executor, and whose runner is gone: the next tick settles them. What was
// found out of runners is in the snapshot that it returns.
func (s *Scheduler) Lost(ctx context.Context, snap *kernel.Snapshot, elsewhere bool) (*kernel.Snapshot, []kernel.JobID) {
	var given []kernel.AttemptID
	for _, j := range snap.Jobs() {
		if j.State.Status == kernel.Running && (elsewhere || j.Spec.Task.On() == kernel.LocalExecutor) {
			given = append(given, j.Attempt())
		}
	}
	if len(given) == 0 {
		return snap, nil
	}
	if elsewhere {
		s.Refresh(ctx, snap.Jobs()...)
	}
	f := kernel.NewFacts()
	s.alive(ctx, snap, given, f.Runners)
	var lost []kernel.JobID
	for _, a := range given {
		if f.Runners[a].Value.Gone() {
			lost = append(lost, a.Job)
		}
	}
	return snap.WithFacts(f), lost
}

// NeedResident are jobs that rest on a resident scheduler of this host: their
// executor is another one, whose runners start nothing here, or they wait for a
// scheduler of this host.
func (s *Scheduler) NeedResident(ctx context.Context) ([]*kernel.Job, error) {
	if len(s.Executors) == 0 {
		return nil, nil
	}
	snap, err := s.Records(ctx, kernel.Scope{Near: []kernel.Near{{Kind: kernel.Attended}, {Kind: kernel.Line, Key: kernel.LocalExecutor, Most: 1}}})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(snap.Jobs()), func(j *kernel.Job) bool {
		return !j.AwaitsHost() && (j.State.Status != kernel.Running || j.Spec.Task.On() == kernel.LocalExecutor)
	}), nil
}
