package view

import "github.com/vizier-scheduler/vizier/kernel"

// RunStatusOf returns the status of the run of jobs.
func RunStatusOf(s *kernel.Snapshot, jobs []*kernel.Job) RunStatus { return runStatus(s.Tally(jobs)) }
