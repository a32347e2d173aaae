package app

import (
	"context"
	"slices"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Lost returns the running jobs of snap whose runner is gone; the next tick
// settles them. It looks at jobs on this machine or, with elsewhere, on any
// executor. It makes no executor get new answers: see Refresh. The returned
// snapshot includes the facts about runners.
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
	gone := slices.DeleteFunc(given, func(a kernel.AttemptID) bool { return !f.Runners[a].Value.Gone() })
	settled := s.settledSince(ctx, gone)
	for _, a := range gone {
		if settled(a) {
			f.Runners[a] = kernel.Fact[kernel.Runner]{} // as if it had not been observed
		} else {
			lost = append(lost, a.Job)
		}
	}
	return snap.WithFacts(f), lost
}

// settledSince returns a function that reports whether one of attempts, which
// were read as running, is no longer running on record: its runner settled it
// and ended.
func (s *Scheduler) settledSince(ctx context.Context, attempts []kernel.AttemptID) func(kernel.AttemptID) bool {
	var near []kernel.Near
	for _, a := range attempts {
		near = append(near, kernel.Near{Kind: kernel.Itself, Job: a.Job})
	}
	if len(near) == 0 {
		return nil
	}
	now, err := s.Records(ctx, kernel.Scope{Near: near})
	return func(a kernel.AttemptID) bool {
		if err != nil {
			return false
		}
		j := now.Job(a.Job)
		return j == nil || j.State.Status != kernel.Running || j.Attempt() != a
	}
}

// NeedResident returns the jobs that depend on a resident scheduler of this
// host: jobs of other executors that run or are going to be tried again, since
// their runners start nothing here, and jobs that wait for a scheduler of this host.
func (s *Scheduler) NeedResident(ctx context.Context) ([]*kernel.Job, error) {
	if len(s.Executors) == 0 {
		return nil, nil
	}
	snap, err := s.Records(ctx, kernel.Scope{Near: []kernel.Near{{Kind: kernel.Attended}, {Kind: kernel.Due, At: s.Now()}, {Kind: kernel.Line, Key: kernel.LocalExecutor, Most: 1}}})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(snap.Jobs()), func(j *kernel.Job) bool {
		away := j.Spec.Task.On() != kernel.LocalExecutor && (j.State.Status == kernel.Running || j.Open() && !j.State.RetryAt.IsZero())
		return !away && !j.AwaitsHost()
	}), nil
}
