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
	var manifests kernel.Plan
	for _, r := range runs {
		if r.leavesOut() {
			if err := s.mayDecide(ctx, "leave out the approval of a template"); err != nil {
				return rep, err
			}
		}
		_, roots := r.jobs()
		rep.Roots = append(rep.Roots, roots)
		manifests.Records = append(manifests.Records, kernel.CreateRun{Run: r.Run, Manifest: r.Manifest})
	}
	news, scope := jobsOf(runs)
	var err error
	rep.Report, err = s.transact(ctx, scope, verb{decide: func(snap *kernel.Snapshot) (kernel.Plan, []history.Verb, error) {
		jobs, err := kernel.Enqueue(snap, news)
		return manifests.Then(jobs), []history.Verb{history.Enqueue{Jobs: news}}, err
	}})
	return rep, err
}

// CheckRun returns the error with which EnqueueRun would now refuse the jobs of runs. It writes nothing.
func (s *Scheduler) CheckRun(ctx context.Context, runs ...RunRequest) error {
	s.configure()
	news, scope := jobsOf(runs)
	snap, err := s.Records(ctx, scope)
	if err == nil {
		_, err = kernel.Enqueue(snap, news)
	}
	return err
}

// jobsOf returns the jobs of runs, and what enqueueing them depends on.
func jobsOf(runs []RunRequest) (news []kernel.NewJob, scope kernel.Scope) {
	for _, r := range runs {
		news = append(news, r.Enqueued()...)
	}
	return news, history.ScopeOf(news)
}

// leavesOut reports whether the run does without an approval that its template asks for.
func (r RunRequest) leavesOut() bool {
	return r.Approval != nil && r.Approval.State == kernel.NotRequired &&
		slices.ContainsFunc(r.Jobs, func(n kernel.NewJob) bool {
			return len(n.Spec.After) == 0 && !n.Spec.Routed && n.Approval.State != kernel.NotRequired
		})
}

// Enqueued returns the jobs of the run as EnqueueRun enqueues them.
func (r RunRequest) Enqueued() []kernel.NewJob {
	news, _ := r.jobs()
	return news
}

// jobs returns the jobs of the run, and its root jobs, in order.
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
