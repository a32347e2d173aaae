package view_test

import (
	"slices"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/view"
)

// The run of a prompt is told by the job that it goes back to.
func TestHowTheRunOfAPromptStands(t *testing.T) {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	job := func(id kernel.JobID, st kernel.Status, reason string, minute int) *kernel.Job {
		j := &kernel.Job{ID: id}
		j.State.Status, j.State.Reason, j.State.Finished = st, reason, at.Add(time.Duration(minute)*time.Minute)
		return j
	}
	for what, c := range map[string]struct {
		last    *kernel.Job
		others  []*kernel.Job
		want    string
		pending []kernel.JobID
	}{
		"it succeeded":      {job("z", kernel.Succeeded, "", 9), []*kernel.Job{job("a", kernel.Succeeded, "", 1)}, "succeeded", nil},
		"it failed itself":  {job("z", kernel.Failed, "exit 1", 9), []*kernel.Job{job("a", kernel.Succeeded, "", 1)}, "failed: exit 1", nil},
		"another failed":    {job("z", kernel.BlockedByDependency, "", 9), []*kernel.Job{job("b", kernel.BlockedByDependency, "", 0), job("a", kernel.Failed, "exit 3", 1)}, "failed: job a: exit 3", nil},
		"the first failed":  {job("z", kernel.BlockedByDependency, "", 9), []*kernel.Job{job("b", kernel.Failed, "late", 2), job("a", kernel.Failed, "soon", 1)}, "failed: job a: soon", nil},
		"failed, cancelled": {job("z", kernel.BlockedByDependency, "", 9), []*kernel.Job{job("a", kernel.Cancelled, "by ann", 1), job("b", kernel.Failed, "exit 3", 2)}, "failed: job b: exit 3", nil},
		"rejected":          {job("z", kernel.BlockedByDependency, "", 9), []*kernel.Job{job("a", kernel.BlockedByApproval, "no", 1)}, "blocked_by_approval: job a: no", nil},
		"blocked by itself": {job("z", kernel.BlockedByDependency, "the branch moved", 9), []*kernel.Job{job("a", kernel.Succeeded, "", 1)}, "blocked_by_dependency: the branch moved", nil},
		"awaits approval":   {job("z", kernel.WaitingOnDeps, "", 0), []*kernel.Job{job("a", kernel.Running, "", 0), job("b", kernel.WaitingOnApproval, "", 0)}, "waiting_on_approval: job b", []kernel.JobID{"b"}},
		"its own approval":  {job("z", kernel.WaitingOnApproval, "", 0), nil, "waiting_on_approval", []kernel.JobID{"z"}},
		"it goes on":        {job("z", kernel.WaitingOnDeps, "", 0), []*kernel.Job{job("a", kernel.Running, "", 0)}, "waiting_on_deps", nil},
	} {
		r := view.PromptRunOf(c.last, append(c.others, c.last), at)
		if r.String() != c.want || !slices.Equal(r.Pending, c.pending) {
			t.Errorf("%s: %s, %v, want %s, %v", what, r, r.Pending, c.want, c.pending)
		}
	}
}
