package view_test

import (
	"fmt"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/view"
)

// plenty returns n jobs in runs of ten, a chain by after and by artifact in
// each: half of them open, every tenth failed with a dependent blocked by it.
func plenty(n int) *kernel.Snapshot {
	jobs := make([]kernel.Job, 0, n)
	for i := range n {
		id := func(k int) kernel.JobID { return kernel.JobID(fmt.Sprintf("%032x", k)) }
		st := kernel.Succeeded
		switch k := i % 10; {
		case k == 4:
			st = kernel.Failed
		case k == 5:
			st = kernel.BlockedByDependency
		case k > 5:
			st = kernel.WaitingOnDeps
		}
		j := job(string(id(i)), i, st)
		j.Spec.Name = ""
		j.Spec.Origin = kernel.Origin{Run: kernel.RunID(fmt.Sprintf("run_%d", i/10)), Node: fmt.Sprintf("stage__node_%d", i%10),
			Command: []string{"vizier", "run", "develop"}}
		j.Spec.Produces = []kernel.Artifact{{Kind: kernel.Custom, Name: "operation_output", Ref: fmt.Sprint(i)}}
		if i%10 > 0 {
			j.Spec.After = []kernel.JobID{id(i - 1)}
			j.Spec.Needs = []kernel.Artifact{{Kind: kernel.Custom, Name: "operation_output", Ref: fmt.Sprint(i - 1)}}
			j.State.Wait = kernel.WaitReason{Kind: kernel.OnDependencies, Detail: "waiting on job " + string(id(i-1))}
		}
		jobs = append(jobs, j)
	}
	return snap(jobs...)
}

// rerun returns n/2 runs over the same plan: each makes the plan's branch anew,
// fails to, and has a consumer that is blocked by it.
func rerun(n int) *kernel.Snapshot {
	branch := []kernel.Artifact{{Kind: kernel.PlanBranch, Name: "p", Ref: "draft/p"}}
	jobs := make([]kernel.Job, 0, n)
	for i := range n / 2 {
		run := node(fmt.Sprintf("run_%d", i), "n")
		jobs = append(jobs,
			job(fmt.Sprintf("%d-make", i), i, kernel.Failed, run, func(j *kernel.Job) { j.Spec.Produces = branch }),
			job(fmt.Sprintf("%d-use", i), i, kernel.BlockedByDependency, run, func(j *kernel.Job) { j.Spec.Needs = branch }))
	}
	return snap(jobs...)
}

func BenchmarkSchedule(b *testing.B) {
	for _, n := range []int{1_000, 10_000} {
		s, again := plenty(n), rerun(n)
		for name, use := range map[string]func(){
			"rows":     func() { view.ScheduleOf(s, view.ScheduleOptions{All: true}) },
			"open":     func() { view.ScheduleOf(s, view.ScheduleOptions{}) },
			"rerun":    func() { view.ScheduleOf(again, view.ScheduleOptions{}).Document() },
			"document": func() { view.ScheduleOf(s, view.ScheduleOptions{All: true}).Document() },
			"focus":    func() { view.ScheduleOf(s, view.ScheduleOptions{Focus: s.Jobs()[n/2].ID, MaxDepth: 3}).Document() },
			"dag": func() {
				for range view.ScheduleOf(s, view.ScheduleOptions{MaxDepth: 3}).DAG() {
				}
			},
			"list": func() {
				view.ListOf(s, view.ListOptions{All: true}).Document([]string{"job", "status", "wait", "command"})
			},
		} {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					use()
				}
			})
		}
	}
}
