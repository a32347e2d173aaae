// Package proptest checks the kernel's laws from outside, through the exported
// API that every front end has, in randomly generated worlds.
//
// Each law is checked with 100 draws. RAPID_CHECKS=20000 asks for more. A
// failure prints the seed that reproduces it.
package proptest

import (
	"fmt"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
	"pgregory.net/rapid"
)

// Epoch is when the oldest job of every world was created.
var Epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// There are few names, so that jobs depend on each other, contend for the same
// locks and produce each other's artifacts.
var (
	jobIDs = []kernel.JobID{"j0", "j1", "j2", "j3", "j4", "j5", "j6", "j7"}
	// Labels of artifacts are canonical.
	artifacts = []kernel.Artifact{
		{Kind: kernel.Custom, Name: "tok", Ref: "a"},
		{Kind: kernel.Custom, Name: "tok", Ref: "b"},
		{Kind: kernel.Custom, Name: "tok", Ref: "c"},
		{Kind: kernel.PlanBranch, Name: "foo", Ref: "draft/foo"},
		{Kind: kernel.CommandPatch, Name: "j1"},
		{Kind: kernel.MergeSentinel, Name: "foo"},
		{Kind: kernel.Custom, Name: kernel.StageToken, Ref: "approve:foo"},
		{Kind: kernel.PlanDoc, Name: "foo", Ref: "draft/foo"},
	}
	runs     = []kernel.RunID{"", "", "r1", "r2", "r3"}
	branches = []string{"main", "dev"}
	commits  = []kernel.CommitID{"c1", "c2"}
)

func oneOf[T any](t *rapid.T, label string, from ...T) T {
	return rapid.SampledFrom(from).Draw(t, label)
}

// oneIn draws true about once in n draws.
func oneIn(t *rapid.T, n int, label string) bool { return rapid.IntRange(1, n).Draw(t, label) == n }

// World draws an observation: up to eight jobs in any state, consistent or not,
// and for each fact a value, an error or nothing.
var World = rapid.Custom(func(t *rapid.T) kernel.Observation {
	o := kernel.Observation{Now: Epoch.Add(time.Hour), Facts: Facts.Draw(t, "facts"), Limits: Limits.Draw(t, "limits")}
	for _, id := range jobIDs[:rapid.IntRange(0, len(jobIDs)).Draw(t, "jobs")] {
		j := kernel.Job{ID: id, Created: Epoch.Add(time.Duration(rapid.IntRange(0, 2).Draw(t, "created")) * time.Second),
			Rev: kernel.Revision(rapid.IntRange(1, 3).Draw(t, "rev")), Spec: Spec.Draw(t, "spec")}
		j.State = state(t, &j, o.Now)
		if oneIn(t, 25, "twice") {
			again := j
			again.Created = j.Created.Add(time.Second)
			o.Jobs = append(o.Jobs, again)
		}
		o.Jobs = append(o.Jobs, j)
		runner(t, &o, &j)
	}
	if oneIn(t, 4, "torn") {
		o.Unreadable = map[kernel.JobID]string{"torn": "half a record"}
	}
	return o
})

// repairs makes most jobs of a world part of loops: one whose failure wakes another, which sends it back, and what
// comes after it, at last one that any end will do for.
func repairs(t *rapid.T, o *kernel.Observation) {
	at := func(i int) kernel.JobID { return o.Jobs[i].ID }
	for first := 0; first+4 < len(o.Jobs); first += 4 {
		loop := o.Jobs[first : first+4]
		for i := range loop {
			s := &loop[i].Spec
			s.After, s.AfterAny, s.Needs, s.Pinned, s.Preconditions, s.Routes = nil, nil, nil, kernel.PinnedHead{}, nil, nil
			s.Transient, s.Routed, s.Task.Args, s.Origin.Run = kernel.NotTransient, false, []string{"true"}, oneOf[kernel.RunID](t, "of run", "", "r1", "r1")
			loop[i].State.Approval = kernel.Approval{}
			s.Origin.Branch = "" // a run is for one branch at most
		}
		fails := oneOf(t, "what wakes", kernel.OutcomeFailed, kernel.OutcomeBlocked)
		loop[0].Spec.Routes = []kernel.Route{{On: fails, To: at(first + 1)}}
		loop[0].State.Status = oneOf(t, "tried", kernel.Failed, kernel.Failed, kernel.Failed, kernel.Running, kernel.Succeeded)
		loop[1].Spec.Routed, loop[1].State.Awake = true, !oneIn(t, 4, "asleep")
		loop[1].Spec.Routes = []kernel.Route{{On: kernel.OutcomeSucceeded, To: at(first), Budget: rapid.IntRange(0, 2).Draw(t, "budget")}}
		loop[1].State.Status = oneOf(t, "repairs", kernel.Running, kernel.Running, kernel.Queued, kernel.WaitingOnDeps, kernel.Succeeded, kernel.Failed)
		loop[2].Spec.After = []kernel.JobID{at(first)}
		loop[2].State.Status = oneOf(t, "then", kernel.Queued, kernel.Running, kernel.WaitingOnDeps, kernel.BlockedByDependency, kernel.BlockedByDependency)
		if loop[0].State.Status == kernel.Running && loop[2].State.Status == kernel.BlockedByDependency { // what rewound the first rewound the third
			loop[2].State.Status = kernel.WaitingOnDeps
		}
		loop[3].Spec.After = []kernel.JobID{at(first + rapid.IntRange(0, 2).Draw(t, "of which any end will do"))}
		loop[3].Spec.AfterAny = loop[3].Spec.After
		loop[3].State.Status = oneOf(t, "at last", kernel.Queued, kernel.WaitingOnDeps, kernel.WaitingOnLocks)
		for i := range loop {
			st := &loop[i].State
			if st.Deferred = st.Status.Terminal() && i < 2 && oneIn(t, 3, "routes wait"); st.Deferred {
				st.Outcome = map[kernel.Status]kernel.Outcome{kernel.Succeeded: kernel.OutcomeSucceeded, kernel.Failed: fails}[st.Status]
			}
			if oneIn(t, 4, "after another") {
				loop[i].Spec.After = append(loop[i].Spec.After[:len(loop[i].Spec.After):len(loop[i].Spec.After)], oneOf(t, "also after", jobIDs...))
			}
		}
	}
}

// waitingRoutes ends most jobs of a world, and lets them lead back to each other by routes that wait.
func waitingRoutes(t *rapid.T, o *kernel.Observation) {
	for i := range o.Jobs {
		s, st := &o.Jobs[i].Spec, &o.Jobs[i].State
		s.After, s.AfterAny, s.Needs, s.Pinned, s.Preconditions, s.Routes = nil, nil, nil, kernel.PinnedHead{}, nil, nil
		st.Approval, s.Origin.Run, s.Origin.Branch = kernel.Approval{}, "", ""
		if oneIn(t, 4, "open") {
			continue
		}
		st.Status, st.Deferred, st.Routed = oneOf(t, "ended", kernel.Failed, kernel.Failed, kernel.Succeeded), !oneIn(t, 4, "routes are taken"), 0
		st.Outcome = map[kernel.Status]kernel.Outcome{kernel.Succeeded: kernel.OutcomeSucceeded, kernel.Failed: kernel.OutcomeFailed}[st.Status]
		for range rapid.IntRange(1, 2).Draw(t, "routes") {
			s.Routes = append(s.Routes, kernel.Route{On: st.Outcome, To: o.Jobs[rapid.IntRange(0, len(o.Jobs)-1).Draw(t, "to")].ID})
		}
	}
}

// Limits draws capacities that are small enough to matter.
var Limits = rapid.Custom(func(t *rapid.T) kernel.Limits {
	return kernel.Limits{MaxRunning: rapid.IntRange(0, 4).Draw(t, "max_running"),
		Executors: map[string]int{"far": rapid.IntRange(0, 2).Draw(t, "max_running far away")},
		Pools:     map[string]int{"gpu": rapid.IntRange(0, 3).Draw(t, "gpu")}}
})

// Spec draws a spec. Its predecessors may be unknown, unreadable, younger or
// the job itself.
var Spec = rapid.Custom(func(t *rapid.T) kernel.Spec {
	s := kernel.Spec{
		Needs:           rapid.SliceOfN(rapid.SampledFrom(artifacts), 0, 2).Draw(t, "needs"),
		Produces:        rapid.SliceOfN(rapid.SampledFrom(artifacts), 0, 2).Draw(t, "produces"),
		MissingProducer: oneOf(t, "policy", kernel.Block, kernel.Wait),
		FailureMode:     oneOf(t, "failure mode", kernel.ContinueIndependent, kernel.BlockDownstream),
		Transient:       oneOf(t, "transient", kernel.NotTransient, kernel.NotTransient, kernel.NotTransient, kernel.OnDemand, kernel.Remove),
		Routed:          oneIn(t, 10, "routed"),
		Resumable:       rapid.Bool().Draw(t, "resumable"),
		Locks:           rapid.SliceOfN(lock, 0, 2).Draw(t, "locks"),
		Budget: kernel.Budget{Retries: rapid.IntRange(0, 2).Draw(t, "retries"), Resumes: rapid.IntRange(0, 2).Draw(t, "resumes"),
			Reclaims: rapid.IntRange(0, 2).Draw(t, "reclaims")},
		Retry:   kernel.RetryPolicy{}.On(kernel.Signal),
		InDoubt: oneOf(t, "in doubt", kernel.FailInDoubt, kernel.FailInDoubt, kernel.AskInDoubt, kernel.RerunInDoubt),
	}
	if oneIn(t, 4, "far away") {
		s.Task.Executor = "far"
		s.Task.Options = rapid.SliceOfN(rapid.SampledFrom([]string{"partition=a", "partition=b", "memory=1G,2G,4G", "time=1m,2m"}), 0, 1).Draw(t, "options")
	}
	if oneIn(t, 4, "sandboxed") {
		s.Task.Sandbox = kernel.Sandbox{Mode: oneOf(t, "sandbox", kernel.BestEffortSandbox, kernel.RequiredSandbox), Network: oneOf(t, "network", kernel.AnyNetwork, kernel.NoNetwork)}
	}
	if oneIn(t, 8, "contained") {
		s.Task.Container = "docker.io/library/busybox:1"
	}
	if oneIn(t, 8, "stands for a prompt") {
		s.Prompt = &kernel.Prompt{File: "/in/inbox/x.running.md", Rel: "x.prompt.md", Archive: rapid.Bool().Draw(t, "archive")}
	}
	if oneIn(t, 8, "merges a plan") {
		s.Origin.Alias, s.Origin.Plan = "merge", "foo"
	}
	if oneIn(t, 3, "approval in time") {
		s.ApprovalTimeout = time.Duration(rapid.IntRange(1, 60).Draw(t, "approval timeout")) * time.Second
	}
	if oneIn(t, 3, "estimated") {
		s.Estimate = time.Duration(rapid.IntRange(1, 60).Draw(t, "estimate")) * time.Second
	}
	s.Origin.Ephemeral, s.Idempotent = oneIn(t, 8, "ephemeral"), oneIn(t, 8, "idempotent")
	s.Task.Builtin = rapid.Bool().Draw(t, "journals effects")
	s.Origin.Run = rapid.SampledFrom(runs).Draw(t, "run")
	if oneIn(t, 8, "submitted by an attempt") {
		s.Origin.Parent = oneOf(t, "parent", jobIDs...)
	}
	if s.Origin.Run != "" && !oneIn(t, 4, "on no branch") {
		s.Origin.Branch = oneOf(t, "branch of its run", "draft/foo", "draft/foo", "draft/foo", "draft/bar")
		s.Origin.About.Operation = oneOf(t, "operation", "", "worktree.prepare", "worktree.prepare", "git.integrate_plan_branch")
	}
	s.After = rapid.SliceOfN(rapid.SampledFrom(jobIDs), 0, 2).Draw(t, "after")
	for _, id := range s.After {
		if oneIn(t, 3, "any end") {
			s.AfterAny = append(s.AfterAny, id)
		}
	}
	if oneIn(t, 12, "odd after") {
		s.After = append(s.After, oneOf[kernel.JobID](t, "odd", "nobody", "torn"))
	}
	if !oneIn(t, 10, "no args") {
		s.Task.Args = []string{"true"}
	}
	for range rapid.IntRange(0, 2).Draw(t, "routes") {
		s.Routes = append(s.Routes, kernel.Route{On: outcome(t), To: oneOf(t, "to", jobIDs...), Budget: rapid.IntRange(0, 2).Draw(t, "budget")})
	}
	s.OwnsContext = oneIn(t, 5, "owns context")
	if oneIn(t, 3, "keyed") {
		s.IdempotencyKey = oneOf(t, "key", "k1", "k2", "k3")
	}
	if oneIn(t, 5, "pinned") {
		s.Pinned = kernel.PinnedHead{Branch: oneOf(t, "branch", branches...), Commit: oneOf(t, "commit", commits...)}
	}
	if oneIn(t, 5, "precondition") {
		s.Preconditions = []kernel.Precondition{oneOf(t, "which", kernel.Precondition{},
			kernel.Precondition{Kind: kernel.BranchExists}, kernel.Precondition{Kind: kernel.BranchExists, Branch: "dev"},
			kernel.Precondition{Kind: kernel.CustomPrecondition, ID: "clean_worktree"},
			kernel.Precondition{Kind: kernel.CustomPrecondition, ID: "odd"})}
	}
	if s.Origin.Branch != "" && oneIn(t, 2, "waits for its branch only") {
		s.After, s.AfterAny, s.Needs, s.Pinned, s.Preconditions = nil, nil, nil, kernel.PinnedHead{}, nil
		s.Routed, s.Transient, s.FailureMode = false, kernel.NotTransient, kernel.ContinueIndependent
	}
	return s
})

var lock = rapid.Custom(func(t *rapid.T) kernel.Lock {
	return oneOf(t, "lock", kernel.Lock{Key: "x"}, kernel.Lock{Key: "y"}, kernel.Lock{Key: "x", Mode: kernel.Shared},
		kernel.Lock{Key: "y", Mode: kernel.Shared}, kernel.Lock{Key: "gpu", Units: 1}, kernel.Lock{Key: "gpu", Units: 2})
})

func state(t *rapid.T, j *kernel.Job, now time.Time) kernel.State {
	st := kernel.State{Status: rapid.SampledFrom(kernel.Statuses()).Draw(t, "status"), Awake: oneIn(t, 4, "awake"),
		Attempt: rapid.IntRange(0, 3).Draw(t, "attempt"), Generation: rapid.IntRange(0, 2).Draw(t, "generation")}
	blockedMerge := j.Spec.Origin.About.Operation == "git.integrate_plan_branch" && oneIn(t, 2, "blocked merge")
	if blockedMerge {
		st.Status, st.Started = kernel.BlockedByDependency, j.Created
	}
	st.Approval.State = oneOf(t, "approval", kernel.NotRequired, kernel.NotRequired, kernel.NotRequired, kernel.Pending, kernel.Approved, kernel.Rejected, kernel.Expired)
	if st.Approval.State == kernel.Pending && j.Spec.ApprovalTimeout > 0 && oneIn(t, 2, "waited for it before") {
		st.Approval.ExpiresAt = now.Add(time.Duration(rapid.IntRange(-1, 60).Draw(t, "expires")) * time.Second)
	}
	if st.Approval.State == kernel.Approved && !oneIn(t, 4, "unsealed") {
		of := *j
		if oneIn(t, 4, "changed since") {
			of.Spec.Task.Args = []string{"false"}
		}
		st.Approval.Grant = &kernel.Grant{Digest: of.Spec.Digest(), Statement: of.Spec.Statement()}
	}
	st.Approval.InDoubt = st.Approval.State != kernel.NotRequired && oneIn(t, 4, "about a doubt")
	if oneIn(t, 5, "submitted again") {
		st.Amended = kernel.Amendment{Made: true, Transient: oneOf(t, "mode then", kernel.NotTransient, kernel.OnDemand, kernel.Remove),
			Budget: j.Spec.Budget}
		st.Amended.Budget.Retries += rapid.IntRange(0, 1).Draw(t, "more")
		st.Amended.Retry = st.Amended.Retry.On(oneOf(t, "also after", kernel.ExitFailure, kernel.Timeout))
	}
	if j.Spec.Prompt != nil {
		st.Prompt.Named = oneOf(t, "prompt", kernel.NewPrompt, kernel.RunningPrompt, kernel.DonePrompt, kernel.ErrorPrompt)
	}
	if st.Status == kernel.Running || st.Status == kernel.FailedRetryable || st.Status == kernel.Succeeded || st.Status == kernel.Failed {
		st.Attempt++
		st.Started = j.Created
	}
	if st.Status == kernel.Succeeded && j.Spec.Transient == kernel.Remove {
		st.Removed = oneOf(t, "removed", time.Time{}, now)
	}
	if st.Status.Terminal() || st.Status == kernel.FailedRetryable {
		st.Outcome, st.Exit = outcome(t), kernel.Exited(rapid.IntRange(0, 2).Draw(t, "exited"))
		st.Failure = oneOf(t, "failed as", kernel.NoFailure, kernel.ExitFailure, kernel.WorkerLost, kernel.EffectInDoubt, kernel.OutOfMemory, kernel.Timeout)
	}
	switch {
	case blockedMerge:
		st.Outcome = kernel.OutcomeBlocked
	case st.Status == kernel.FailedRetryable:
		st.Outcome = kernel.OutcomeFailed
	}
	if oneIn(t, 4, "grown before") {
		st.Grown = kernel.Grown{Memory: rapid.IntRange(0, 3).Draw(t, "memory"), Time: rapid.IntRange(0, 2).Draw(t, "time")}
	}
	if oneIn(t, 4, "failed before") {
		st.LastError, st.Reason, st.Requeued = "of old", "of old", j.Created
		st.Lost, st.Stalled, st.Routed = rapid.IntRange(0, st.Attempt).Draw(t, "lost"), rapid.IntRange(0, st.Attempt).Draw(t, "stalled"), rapid.IntRange(0, 3).Draw(t, "routed")
		cleanup := kernel.Cleanup{Status: oneOf(t, "cleaned up", kernel.CleanupDone, kernel.CleanupDegraded)}
		st.Cancelled, st.Retried = cleanup, cleanup
	}
	st.Retired, st.Closed = st.Status.Terminal() && oneIn(t, 8, "retired"), oneIn(t, 12, "closed")
	if st.Status.Terminal() {
		st.Deferred = oneIn(t, 12, "routes wait")
		st.Finished = now.Add(-time.Duration(rapid.IntRange(0, 50).Draw(t, "ended")) * time.Minute)
	}
	if st.Status == kernel.FailedRetryable || st.Status == kernel.Queued && oneIn(t, 4, "refused") {
		st.RetryAt = now.Add(time.Duration(rapid.IntRange(-1, 1).Draw(t, "again")) * time.Second)
		if oneIn(t, 4, "the clock was set back") {
			st.RetryAt = st.RetryAt.Add(clockSetBack)
		}
		st.Refused = rapid.IntRange(0, 2).Draw(t, "refusals")
		st.Spent.Retries = rapid.IntRange(0, j.Spec.Budget.Retries).Draw(t, "spent")
	}
	if st.Status.Waiting() {
		st.Wait = kernel.WaitReason{Kind: oneOf(t, "wait", kernel.OnDependencies, kernel.OnPinnedHead, kernel.OnLocks), Detail: "of old"}
		st.WaitedOn, st.WaitSince = st.WaitedOn.With(st.Wait.Kind), j.Created
	}
	if st.Status == kernel.Running && oneIn(t, 5, "stopping") {
		st.Stop = kernel.StopRequest{At: now, By: "ann"}
	}
	if !st.Started.Before(now) { // the model assumes that the tick started what starts now
		st.Started = now.Add(-time.Second)
	}
	if oneIn(t, 5, "worktree") {
		st.Context = kernel.Context{Root: "w", Worktree: "w", Owned: true}
	}
	return st
}

// clockSetBack is by how much the clock was set back since a job of a world was to be tried again: by more than any
// of them waits.
const clockSetBack = time.Hour

// runner draws the facts about a running attempt.
func runner(t *rapid.T, o *kernel.Observation, j *kernel.Job) {
	if j.State.Status != kernel.Running {
		return
	}
	a := j.Attempt()
	live := fact(t, kernel.Runner{Liveness: oneOf(t, "runner", kernel.Dead, kernel.Dead, kernel.Dead, kernel.Dead,
		kernel.Alive, kernel.Unknown, kernel.Stalled, kernel.NeverStarted)})
	set(o.Facts.Runners, a, live)
	var r *kernel.Result
	if !oneIn(t, 3, "no result") {
		r = Result(t, j)
		if oneIn(t, 8, "of another attempt") {
			r.Attempt.N--
		}
	}
	if r != nil && oneIn(t, 12, "submits") {
		r.Submitted = []kernel.NewJob{{ID: "s" + a.Job, Spec: Spec.Draw(t, "submitted")}}
	}
	set(o.Facts.Results, a, fact(t, r))
}

// Result draws a result of the current attempt of j.
func Result(t *rapid.T, j *kernel.Job) *kernel.Result {
	r := &kernel.Result{Attempt: j.Attempt(), Exit: rapid.IntRange(0, 2).Draw(t, "exit"),
		Outcome: outcome(t),
		Class:   oneOf(t, "class", kernel.NoFailure, kernel.ExitFailure, kernel.Signal, kernel.Timeout, kernel.WorkerLost, kernel.EffectInDoubt)}
	if oneIn(t, 4, "context") {
		r.Context = &kernel.Context{}
		if rapid.Bool().Draw(t, "a new one") {
			r.Context = &kernel.Context{Root: "v", Worktree: "v", Owned: j.Spec.OwnsContext}
		}
	}
	for _, a := range j.Spec.Produces {
		if a.Kind == kernel.Custom && !oneIn(t, 8, "without") {
			r.Produced = append(r.Produced, a)
		}
	}
	return r
}

func outcome(t *rapid.T) kernel.Outcome {
	return oneOf(t, "outcome", kernel.OutcomeSucceeded, kernel.OutcomeSucceeded, kernel.OutcomeFailed, kernel.OutcomeFailed,
		kernel.OutcomeBlocked, kernel.OutcomeCancelled, kernel.NoOutcome)
}

// fact draws v as an observation, an error, or the absence of an observation.
func fact[T any](t *rapid.T, v T) kernel.Fact[T] {
	switch rapid.IntRange(0, 7).Draw(t, "known") {
	case 0:
		return kernel.Fact[T]{}
	case 1:
		return kernel.Unseen[T]("no answer")
	default:
		return kernel.Seen(v)
	}
}

// set stores a fact, unless it is the absence of an observation.
func set[K comparable, T any](m map[K]kernel.Fact[T], k K, f kernel.Fact[T]) {
	if f.Known || f.Err != "" {
		m[k] = f
	}
}

// Facts draws facts about everything but runners.
var Facts = rapid.Custom(func(t *rapid.T) kernel.Facts {
	f := kernel.NewFacts()
	for _, a := range artifacts {
		if a.Kind != kernel.Custom {
			set(f.Present, a, fact(t, rapid.Bool().Draw(t, "present")))
			continue
		}
		var owners []kernel.JobID
		for range rapid.IntRange(0, 2).Draw(t, "markers") {
			owners = append(owners, oneOf(t, "owner", append([]kernel.JobID{"gone", "a-gone"}, jobIDs...)...))
		}
		set(f.Markers, a, fact(t, owners))
	}
	for _, b := range branches {
		set(f.Heads, b, fact(t, oneOf(t, fmt.Sprint("head of ", b), "", commits[0], commits[1])))
	}
	f.Head = fact(t, oneOf(t, "checked out", "", "main", "dev"))
	f.Clean = fact(t, rapid.Bool().Draw(t, "clean"))
	f.Sandbox = fact(t, oneOf(t, "enforces", kernel.Enforcement{}, kernel.Enforcement{Files: "no"}, kernel.Enforcement{Network: "no"}))
	f.Merging = fact(t, oneOf(t, "merging", "", "", "", "merge"))
	return f
})
