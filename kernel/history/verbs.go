package history

import (
	"slices"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// The verbs of the kernel.
type (
	// Tick is kernel.Decide.
	Tick struct{}

	// Settle is kernel.Settle.
	Settle struct{}

	// Number is kernel.NumberAll.
	Number struct{}

	// Submit is kernel.Submit.
	Submit struct {
		Jobs []kernel.NewJob
		By   string
	}

	// Enqueue is kernel.Enqueue.
	Enqueue struct{ Jobs []kernel.NewJob }

	// Approve is kernel.Approve.
	Approve struct {
		Job     kernel.JobID
		Consent kernel.Consent
	}

	// Reject is kernel.Reject.
	Reject struct {
		Job             kernel.JobID
		By, How, Reason string
	}

	// Cancel is kernel.CancelIn of each job, in order.
	Cancel struct {
		Jobs    []kernel.JobID
		By      string
		Cleanup bool
		Runs    []kernel.RunID // those that are cancelled as a whole
	}

	// Retry is kernel.RetryAll, after kernel.ForgetWorktrees for the worktrees
	// that no longer exist.
	Retry struct {
		Jobs []kernel.JobID
		By   string
		Gone []string // paths of worktrees that no longer exist
	}

	// Finish is kernel.Finish.
	Finish struct{ Result kernel.Result }

	// Refuse is kernel.Refuse.
	Refuse struct {
		Attempt kernel.AttemptID
		Why     string
		Final   bool
	}

	// CleanedUp is kernel.CleanedUp.
	CleanedUp struct {
		Job     kernel.JobID
		Context kernel.Context
		Cancel  bool
		Cleanup kernel.Cleanup
	}

	// Tended is kernel.Tended.
	Tended struct {
		Job             kernel.JobID
		Name            kernel.PromptName
		Found, Archived bool
	}
)

func (Tick) Decide(s *kernel.Snapshot) (kernel.Plan, error)   { return kernel.Decide(s), nil }
func (Settle) Decide(s *kernel.Snapshot) (kernel.Plan, error) { return kernel.Settle(s), nil }
func (Number) Decide(s *kernel.Snapshot) (kernel.Plan, error) { return kernel.NumberAll(s), nil }

func (v Submit) Decide(s *kernel.Snapshot) (kernel.Plan, error) {
	_, p, err := kernel.Submit(s, v.Jobs, v.By)
	return p, err
}

func (v Enqueue) Decide(s *kernel.Snapshot) (kernel.Plan, error) { return kernel.Enqueue(s, v.Jobs) }

func (v Approve) Decide(s *kernel.Snapshot) (kernel.Plan, error) {
	return kernel.Approve(s, v.Job, v.Consent)
}

func (v Reject) Decide(s *kernel.Snapshot) (kernel.Plan, error) {
	return kernel.Reject(s, v.Job, kernel.Refusal{By: v.By, How: v.How, Reason: v.Reason})
}

func (v Cancel) Decide(s *kernel.Snapshot) (kernel.Plan, error) {
	d := kernel.NewDraft(s)
	for _, id := range v.Jobs {
		p, err := kernel.CancelIn(d.Snapshot(), v.Runs, id, v.By, v.Cleanup)
		if err != nil {
			return kernel.Plan{}, err
		}
		d.Add(p)
	}
	return d.Plan(), nil
}

func (v Retry) Decide(s *kernel.Snapshot) (kernel.Plan, error) {
	lost := Forget(s, v.Jobs, func(c kernel.Context) bool { return slices.Contains(v.Gone, c.Worktree) })
	_, p, err := kernel.RetryAll(s.Apply(lost), v.Jobs, v.By)
	return lost.Then(p), err
}

// Forget is kernel.ForgetWorktrees for the runs of jobs.
func Forget(s *kernel.Snapshot, jobs []kernel.JobID, gone func(kernel.Context) bool) (p kernel.Plan) {
	done := map[kernel.RunID]bool{}
	for _, id := range jobs {
		if j := s.Job(id); j != nil && !done[j.Spec.Origin.Run] {
			done[j.Spec.Origin.Run] = true
			p = p.Then(kernel.ForgetWorktrees(s, id, gone))
		}
	}
	return p
}

func (v Finish) Decide(s *kernel.Snapshot) (kernel.Plan, error) { return kernel.Finish(s, v.Result) }

func (v Refuse) Decide(s *kernel.Snapshot) (kernel.Plan, error) {
	return kernel.Refuse(s, v.Attempt, v.Why, v.Final)
}

func (v CleanedUp) Decide(s *kernel.Snapshot) (kernel.Plan, error) {
	return kernel.CleanedUp(s, kernel.RemoveWorktree{Job: v.Job, Context: v.Context, Cancel: v.Cancel}, v.Cleanup)
}

func (v Tended) Decide(s *kernel.Snapshot) (kernel.Plan, error) {
	return kernel.Tended(s, kernel.TendPrompt{Job: v.Job, Name: v.Name}, v.Found, v.Archived)
}

func (Tick) Scope() kernel.Scope      { return kernel.Scope{} }
func (Settle) Scope() kernel.Scope    { return kernel.Scope{} }
func (Number) Scope() kernel.Scope    { return kernel.Scope{All: true} }
func (v Submit) Scope() kernel.Scope  { return ScopeOf(v.Jobs) }
func (v Enqueue) Scope() kernel.Scope { return ScopeOf(v.Jobs) }
func (v Approve) Scope() kernel.Scope { return of(v.Job) }
func (v Reject) Scope() kernel.Scope  { return of(v.Job) }
func (v Cancel) Scope() kernel.Scope  { return of(v.Jobs...) }
func (v Retry) Scope() kernel.Scope   { return kernel.Scope{All: true} }

func (v Finish) Scope() kernel.Scope {
	return both(ScopeOf(v.Result.Submitted), of(v.Result.Attempt.Job))
}

func (v Refuse) Scope() kernel.Scope    { return of(v.Attempt.Job) }
func (v CleanedUp) Scope() kernel.Scope { return of(v.Job) }
func (v Tended) Scope() kernel.Scope    { return of(v.Job) }

func of(ids ...kernel.JobID) kernel.Scope { return kernel.Scope{Jobs: ids} }

// ScopeOf returns the scope of what new jobs refer to. It includes the
// artifacts they need, because the existence of an artifact decides whether the
// jobs wait for each other.
func ScopeOf(news []kernel.NewJob) kernel.Scope {
	var scope kernel.Scope
	for _, n := range news {
		scope.Jobs = append(scope.Jobs, n.Spec.After...)
		scope.Artifacts = append(scope.Artifacts, n.Spec.Needs...)
		if key := n.Spec.IdempotencyKey; key != "" {
			scope.Keys = append(scope.Keys, key)
		}
	}
	return scope
}

// EveryTick returns what every tick reads, besides jobs that changed and jobs that
// wait for something that no job makes.
func EveryTick(at time.Time) []kernel.Near {
	return []kernel.Near{{Kind: kernel.Attended}, {Kind: kernel.Due, At: at}}
}

// Named returns the near queries for what scope names.
func Named(scope kernel.Scope) []kernel.Near {
	var near []kernel.Near
	for _, id := range scope.Jobs {
		near = append(near, kernel.Near{Kind: kernel.Itself, Job: id})
	}
	for _, a := range scope.Artifacts {
		near = append(near, kernel.Near{Kind: kernel.Producers, Artifact: a})
	}
	for _, key := range scope.Keys {
		near = append(near, kernel.Near{Kind: kernel.Keyed, Key: key})
	}
	return near
}

// Besides returns the scope of what near names beyond the open jobs. It is read
// in addition to all open jobs.
func Besides(near []kernel.Near) (scope kernel.Scope) {
	for _, n := range near {
		switch n.Kind {
		case kernel.Itself:
			scope.Jobs = append(scope.Jobs, n.Job)
		case kernel.Producers, kernel.RunProducers:
			scope.Artifacts = append(scope.Artifacts, n.Artifact)
		case kernel.Keyed:
			scope.Keys = append(scope.Keys, n.Key)
		default: // the kind names open jobs only
		}
	}
	return scope
}

// both returns what a or b names.
func both(a, b kernel.Scope) kernel.Scope {
	return kernel.Scope{Jobs: slices.Concat(a.Jobs, b.Jobs), Artifacts: slices.Concat(a.Artifacts, b.Artifacts), Keys: slices.Concat(a.Keys, b.Keys)}
}
