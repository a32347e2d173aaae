package app

import (
	"context"

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

// NeedsResident is a job that rests on a resident scheduler of this host: its
// executor is another one, whose runners start nothing here, or it waits for a
// scheduler of this host. "": none does.
func (s *Scheduler) NeedsResident(ctx context.Context) (id kernel.JobID, executor string, err error) {
	if len(s.Executors) == 0 {
		return "", "", nil
	}
	snap, err := s.Records(ctx, kernel.Scope{Near: []kernel.Near{{Kind: kernel.Attended}, {Kind: kernel.Line, Key: kernel.LocalExecutor, Most: 1}}})
	if err != nil {
		return "", "", err
	}
	for _, j := range snap.Jobs() {
		on := j.Spec.Task.On()
		if j.State.Status == kernel.Running && on != kernel.LocalExecutor || j.AwaitsHost() {
			return j.ID, on, nil
		}
	}
	return "", "", nil
}
