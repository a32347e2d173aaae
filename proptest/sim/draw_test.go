package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
	"pgregory.net/rapid"
)

// Names are few, so that jobs collide.
var (
	tokens   = []kernel.Artifact{{Kind: kernel.Custom, Name: "tok", Ref: "a"}, {Kind: kernel.Custom, Name: "tok", Ref: "b"}}
	locks    = []kernel.Lock{{Key: "x"}, {Key: "x", Mode: kernel.Shared}, {Key: "y", Mode: kernel.Shared}, {Key: "gpu", Units: 1}, {Key: "gpu", Units: 2}}
	sentinel = kernel.Artifact{Kind: kernel.MergeSentinel, Name: "foo"}
)

func oneOf[T any](t *rapid.T, label string, from ...T) T {
	return rapid.SampledFrom(from).Draw(t, label)
}

// oneIn is true in about one draw of n, and shrinks to false.
func oneIn(t *rapid.T, n int, label string) bool { return rapid.IntRange(0, n-1).Draw(t, label) == n-1 }

// batch draws jobs to be enqueued together, which may depend on existing ones.
func (m *machine) batch(t *rapid.T) []kernel.NewJob {
	m.batches++
	size := rapid.IntRange(1, 4).Draw(t, "jobs")
	ids := make([]kernel.JobID, size)
	for i := range ids {
		m.born++
		ids[i] = kernel.JobID(fmt.Sprintf("j%03d", m.born))
	}
	known := append(m.w.jobIDs(), ids...)
	if len(known) > 12 {
		known = known[len(known)-12:]
	}
	run := oneOf(t, "run", "", "r"+kernel.RunID(fmt.Sprint(m.batches)))
	mode := oneOf(t, "failure mode", kernel.ContinueIndependent, kernel.BlockDownstream)
	news := make([]kernel.NewJob, size)
	for i, id := range ids {
		s := kernel.Spec{Name: fmt.Sprintf("batch %d of %d", m.batches, size), Task: kernel.Task{Args: []string{"true"}}}
		s.Origin.Run, s.FailureMode = run, mode
		if m.w.farm && oneIn(t, 2, "for pilots") {
			s.Task.Executor = onFarm
		}
		earlier := known[:max(0, len(known)-size+i)]
		if len(earlier) > 0 && oneIn(t, 2, "has after") {
			s.After = rapid.SliceOfN(rapid.SampledFrom(earlier), 1, 2).Draw(t, "after")
		}
		if oneIn(t, 25, "after nobody") {
			s.After = append(s.After, "nobody")
		}
		if oneIn(t, 8, "needs a branch") {
			s.Preconditions = []kernel.Precondition{{Kind: kernel.BranchExists}} // the one that is checked out
		}
		some(t, "needs", tokens, &s.Needs)
		some(t, "produces", append(slices.Clone(tokens), sentinel), &s.Produces)
		some(t, "locks", locks, &s.Locks)
		s.MissingProducer = oneOf(t, "missing producer", kernel.Block, kernel.Wait)
		if oneIn(t, 6, "transient") {
			s.Transient = kernel.OnDemand
		}
		s.Routed = oneIn(t, 8, "routed")
		for range rapid.IntRange(0, 2).Draw(t, "routes") {
			s.Routes = append(s.Routes, kernel.Route{To: oneOf(t, "to", known...), Budget: rapid.IntRange(0, 2).Draw(t, "budget"),
				On: oneOf(t, "on", kernel.OutcomeFailed, kernel.OutcomeSucceeded, kernel.OutcomeBlocked, kernel.OutcomeCancelled)})
		}
		s.OwnsContext = oneIn(t, 6, "owns context")
		s.Budget = kernel.Budget{Retries: rapid.IntRange(0, 2).Draw(t, "retries"), Resumes: rapid.IntRange(0, 1).Draw(t, "resumes"),
			Reclaims: rapid.IntRange(0, 2).Draw(t, "reclaims")}
		s.Retry, s.Resumable = kernel.RetryPolicy{}.On(kernel.ExitFailure), rapid.Bool().Draw(t, "resumable")
		news[i] = kernel.NewJob{ID: id, Spec: s}
		if oneIn(t, 5, "approval") {
			news[i].Approval = kernel.Require(m.w.now, "ann")
		}
	}
	return news
}

// some draws one or two of from, or most often none.
func some[T comparable](t *rapid.T, label string, from []T, into *[]T) {
	if oneIn(t, 3, "has "+label) {
		*into = rapid.SliceOfNDistinct(rapid.SampledFrom(from), 1, 2, rapid.ID[T]).Draw(t, label)
	}
}

// result draws how a command ends. One that was asked to stop may have succeeded
// before.
func (m *machine) result(t *rapid.T, c *child) kernel.Result {
	r := kernel.Result{Attempt: c.attempt, Ended: m.w.now}
	ends := []string{"succeeds", "succeeds", "succeeds", "fails", "is blocked", "times out"}
	if c.ctx.Err() != nil {
		ends = []string{"stops", "stops", "succeeds"}
	}
	switch oneOf(t, "it", ends...) {
	case "succeeds":
		m.w.succeed(&r)
	case "fails":
		r.Outcome, r.Exit, r.Class = kernel.OutcomeFailed, 1, kernel.ExitFailure
	case "is blocked":
		r.Outcome, r.Exit = kernel.OutcomeBlocked, 10
	case "times out":
		r.Outcome, r.Exit, r.Class = kernel.OutcomeFailed, 124, kernel.Timeout
	case "stops":
		r.Outcome, r.Exit, r.Class = kernel.OutcomeFailed, 143, kernel.Signal
	}
	return r
}

// succeed makes r the result of an attempt that made everything it declared.
func (w *world) succeed(r *kernel.Result) {
	j := w.truth[r.Attempt.Job]
	r.Outcome, r.Produced = kernel.OutcomeSucceeded, custom(j.Spec.Produces)
	if slices.Contains(j.Spec.Produces, sentinel) {
		w.sentinels[sentinel.Name] = true
	}
	if j.Spec.OwnsContext {
		tree := "w-" + string(j.ID)
		r.Context = &kernel.Context{Root: tree, Worktree: tree, Name: tree, Owned: true}
	}
}

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
