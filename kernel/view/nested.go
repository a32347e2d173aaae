package view

import (
	"slices"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Nested finds out whether j, which waits for a place of its executor, waits for ever unless somebody helps: each job that has
// one waits for the end of another that waits for one as well, directly or by others that wait so. waits returns what a running job waits for. It returns one of
// those jobs, if possible one that waits for j; nil: it is not so, or it is not known.
func Nested(s *kernel.Snapshot, j *kernel.Job, waits func(kernel.JobID) []kernel.JobID) (one *kernel.Job) {
	if j.State.Wait.Cause != kernel.ExecutorFull || !j.State.Status.Waiting() {
		return nil
	}
	const most = 16 // jobs after each other
	var stuck func(id kernel.JobID, far int) bool
	stuck = func(id kernel.JobID, far int) bool {
		o := s.Job(id)
		switch {
		case o == nil || far > most:
			return false
		case o.State.Status == kernel.Running:
			return slices.ContainsFunc(waits(id), func(other kernel.JobID) bool { return stuck(other, far+1) })
		case !o.State.Status.Waiting():
			return false
		case o.State.Wait.Cause == kernel.JobNotEnded:
			return stuck(o.State.Wait.Job, far+1)
		default:
			return o.State.Wait.Cause == kernel.ExecutorFull && o.Spec.Task.On() == j.Spec.Task.On()
		}
	}
	for _, p := range s.Jobs() {
		if p.State.Status != kernel.Running || p.Spec.Task.On() != j.Spec.Task.On() {
			continue
		}
		if !stuck(p.ID, 0) {
			return nil
		}
		if one == nil || slices.Contains(waits(p.ID), j.ID) {
			one = p
		}
	}
	return one
}
