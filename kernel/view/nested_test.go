package view_test

import (
	"fmt"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/view"
)

// A job gets no place by itself only if all that have one wait for jobs that have none, after others or not.
func TestNested(t *testing.T) {
	t.Parallel()
	waits := func(cause kernel.WaitCause, on kernel.JobID) func(*kernel.Job) {
		return func(j *kernel.Job) {
			j.State.Wait = kernel.WaitReason{Kind: kernel.OnLocks, Cause: cause, Job: on}
		}
	}
	far := func(j *kernel.Job) { j.Spec.Task.Executor = "far" }
	full, after := waits(kernel.ExecutorFull, ""), waits(kernel.JobNotEnded, "c")
	s := snap(job("a", 0, kernel.Running), job("b", 1, kernel.Running), job("f", 2, kernel.Running, far),
		job("c", 3, kernel.WaitingOnLocks, full), job("d", 4, kernel.WaitingOnLocks, full), job("e", 5, kernel.WaitingOnDeps, after),
		job("g", 6, kernel.WaitingOnLocks, full, far), job("h", 7, kernel.WaitingOnApproval), job("z", 8, kernel.Succeeded))
	type of map[kernel.JobID][]kernel.JobID
	for name, c := range map[string]struct {
		job  kernel.JobID
		of   of
		want kernel.JobID
	}{
		"its own":                  {"d", of{"a": {"c"}, "b": {"d"}}, "b"},
		"others'":                  {"c", of{"a": {"d"}, "b": {"d"}}, "a"},
		"after another":            {"d", of{"a": {"e"}, "b": {"d"}}, "b"},
		"by another that runs":     {"d", of{"a": {"b"}, "b": {"d"}}, "b"},
		"each for the other":       {"d", of{"a": {"b"}, "b": {"a"}}, ""},
		"one waits for nothing":    {"d", of{"b": {"d"}}, ""},
		"one waits for a person":   {"d", of{"a": {"h"}, "b": {"d"}}, ""},
		"one waits for an end":     {"d", of{"a": {"z"}, "b": {"d"}}, ""},
		"one waits elsewhere":      {"d", of{"a": {"g"}, "b": {"d"}}, ""},
		"it waits elsewhere":       {"g", of{"a": {"c"}, "b": {"d"}, "f": {"g"}}, "f"},
		"it waits for another job": {"e", of{"a": {"c"}, "b": {"d"}}, ""},
	} {
		var got kernel.JobID
		if one := view.Nested(s, s.Job(c.job), func(id kernel.JobID) []kernel.JobID { return c.of[id] }); one != nil {
			got = one.ID
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// Sixteen jobs after each other are looked at, whether they wait or run elsewhere.
func TestNestedLooksSoFar(t *testing.T) {
	t.Parallel()
	id := func(n int) kernel.JobID { return kernel.JobID(fmt.Sprintf("j%02d", n)) }
	far := func(j *kernel.Job) { j.Spec.Task.Executor = "far" }
	for name, link := range map[string]func(n int) kernel.Job{
		"waiting": func(n int) kernel.Job {
			return job(string(id(n)), n, kernel.WaitingOnDeps, func(j *kernel.Job) { j.State.Wait = kernel.WaitReason{Cause: kernel.JobNotEnded, Job: id(n + 1)} })
		},
		"running": func(n int) kernel.Job { return job(string(id(n)), n, kernel.Running, far) },
	} {
		for long, want := range map[int]bool{16: true, 17: false} {
			jobs := []kernel.Job{job("a", 0, kernel.Running)}
			for n := 1; n < long; n++ {
				jobs = append(jobs, link(n))
			}
			jobs = append(jobs, job(string(id(long)), long, kernel.WaitingOnLocks, func(j *kernel.Job) { j.State.Wait.Cause = kernel.ExecutorFull }))
			s := snap(jobs...)
			one := view.Nested(s, s.Job(id(long)), func(of kernel.JobID) []kernel.JobID {
				n := 0
				fmt.Sscanf(string(of), "j%d", &n)
				return []kernel.JobID{id(n + 1)}
			})
			if (one != nil) != want {
				t.Errorf("%d %s: %v", long, name, one)
			}
		}
	}
}
