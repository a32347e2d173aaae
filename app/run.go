package app

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/history"
)

// RunRequest is one run of a template, compiled.
type RunRequest struct {
	Run             kernel.RunID
	Jobs            []kernel.NewJob
	Manifest        []byte         // for the runtime that executes the nodes
	After           []kernel.JobID // additional predecessors of its root jobs
	AfterAny        []kernel.JobID // those of After for which any end will do
	Approval        *kernel.Approval
	ApprovalTimeout time.Duration // timeout of that approval; 0: as in the roots
}

// RunReport is the result of enqueueing runs.
type RunReport struct {
	Report
	Roots [][]kernel.JobID // root jobs of each run, ordered by id
}

// EnqueueRun enqueues runs with their manifests, all or none, and ticks. A
// request's After and, unless it is nil, its Approval apply to the run's root
// jobs: those that wait for no other job and that no route wakes. The zero
// Approval means that none is required.
func (s *Scheduler) EnqueueRun(ctx context.Context, runs ...RunRequest) (RunReport, error) {
	var rep RunReport
	var all [][]kernel.NewJob
	var manifests kernel.Plan
	scope := kernel.Scope{}
	for _, r := range runs {
		jobs, roots := r.jobs()
		all = append(all, jobs)
		more := history.ScopeOf(jobs)
		scope.Jobs, scope.Artifacts = append(scope.Jobs, more.Jobs...), append(scope.Artifacts, more.Artifacts...)
		rep.Roots = append(rep.Roots, roots)
		manifests.Records = append(manifests.Records, kernel.CreateRun{Run: r.Run, Manifest: r.Manifest})
	}
	var err error
	rep.Report, err = s.transact(ctx, scope, verb{decide: func(snap *kernel.Snapshot) (kernel.Plan, []history.Verb, error) {
		var news []kernel.NewJob
		for i, jobs := range all {
			news = append(news, startAfter(jobs, rep.Roots[i], snap.StagesAhead(jobs))...)
		}
		jobs, err := kernel.Enqueue(snap, news)
		return manifests.Then(jobs), []history.Verb{history.Enqueue{Jobs: news}}, err
	}})
	return rep, err
}

// startAfter returns the jobs of a run such that its roots start once the jobs before have ended.
func startAfter(jobs []kernel.NewJob, roots, before []kernel.JobID) []kernel.NewJob {
	out := slices.Clone(jobs)
	for i := range out {
		sp := &out[i].Spec
		if !slices.Contains(roots, out[i].ID) {
			continue
		}
		sp.After, sp.AfterAny = slices.Clone(sp.After), slices.Clone(sp.AfterAny)
		for _, id := range before {
			sp.RunsAfter(id, kernel.AfterAnyEnd)
		}
	}
	return out
}

// Enqueued returns the jobs of the run as EnqueueRun enqueues them.
func (r RunRequest) Enqueued() []kernel.NewJob {
	news, _ := r.jobs()
	return news
}

// jobs returns the jobs of the run as they are enqueued, and its root jobs, in
// order.
func (r RunRequest) jobs() (news []kernel.NewJob, roots []kernel.JobID) {
	for _, n := range r.Jobs {
		if len(n.Spec.After) == 0 && !n.Spec.Routed {
			roots = append(roots, n.ID)
			n.Spec.After, n.Spec.AfterAny = slices.Clone(r.After), slices.Clone(r.AfterAny)
			if r.Approval != nil {
				n.Approval = *r.Approval
			}
			n.Spec.ApprovalTimeout = cmp.Or(r.ApprovalTimeout, n.Spec.ApprovalTimeout)
		}
		news = append(news, n)
	}
	slices.Sort(roots)
	return news, roots
}
