package view

import (
	"slices"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Nested finds out whether j, which waits for a place of its executor, waits for ever unless somebody helps: each job that has
// one waits for the end of another that waits for one as well. waits returns what a running job waits for. It returns one of
// those jobs, if possible one that waits for j; nil: it is not so, or it is not known.
func Nested(s *kernel.Snapshot, j *kernel.Job, waits func(kernel.JobID) []kernel.JobID) (one *kernel.Job) {
	if j.State.Wait.Cause != kernel.ExecutorFull || !j.State.Status.Waiting() {
		return nil
	}
	stuck := func(id kernel.JobID) bool {
		const most = 16 // jobs after each other
		for range most {
			o := s.Job(id)
			switch {
			case o == nil || !o.State.Status.Waiting():
				return false
			case o.State.Wait.Cause == kernel.JobNotEnded:
				id = o.State.Wait.Job
			default:
				return o.State.Wait.Cause == kernel.ExecutorFull && o.Spec.Task.On() == j.Spec.Task.On()
			}
		}
		return false
	}
	for _, p := range s.Jobs() {
		if p.State.Status != kernel.Running || p.Spec.Task.On() != j.Spec.Task.On() {
			continue
		}
		others := waits(p.ID)
		if !slices.ContainsFunc(others, stuck) {
			return nil
		}
		if one == nil || slices.Contains(others, j.ID) {
			one = p
		}
	}
	return one
}
