package vector

import (
	"slices"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// cases returns all vectors, without the results.
func cases() []Vector {
	return slices.Concat(gates(), approvals(), lockings(), failures(), retries(), requests(), runsAndRoutes(), prompts())
}

// gates returns, for each gate and each cause of a wait, a case with a job that
// it holds up.
func gates() []Vector {
	stops := spec(func(s *kernel.Spec) { s.FailureMode = kernel.BlockDownstream })
	boxed := spec(func(s *kernel.Spec) { s.Task.Sandbox.Mode = kernel.RequiredSandbox })
	pinned := spec(func(s *kernel.Spec) { s.Pinned = kernel.PinnedHead{Branch: "main", Commit: "c2"} })
	precondition := func(p kernel.Precondition) option {
		return spec(func(s *kernel.Spec) { s.Preconditions = []kernel.Precondition{p} })
	}
	waits := spec(func(s *kernel.Spec) { s.MissingProducer = kernel.Wait })
	token := "custom:token:t"
	return []Vector{
		given("start", "Nothing holds the job up: it runs.").job("a").tick(),
		given("gate-run", "A run that stops at its first failure holds back what does not depend on it.").
			job("a", inRun("r"), stops, failed).job("b", inRun("r"), stops).job("c").tick(),
		given("gate-jobs", "A job runs after another has succeeded, after any end, or never: what it waits for failed, is gone, or cannot be read.").
			job("a", running(1)).job("b", failed).job("c", after("a")).job("d", after("b")).
			job("e", after("b"), spec(func(s *kernel.Spec) { s.AfterAny = s.After })).
			job("f", after("gone")).job("g", after("torn")).job("h", after("d")).torn().tick(),
		given("gate-artifacts", "A need is met by a marker, is being produced, was not made, or its producers failed.").
			job("a", running(1), produces(token)).job("b", needs(token)).job("c", succeeded, produces("custom:token:made")).job("d", needs("custom:token:made")).
			job("e", failed, produces("custom:token:lost")).job("f", needs("custom:token:lost")).
			job("g", succeeded, produces("custom:token:forgotten")).job("h", needs("custom:token:forgotten")).
			marked(token).marked("custom:token:made", "c").marked("custom:token:lost").marked("custom:token:forgotten").tick(),
		given("gate-artifacts-repository", "A branch that is there, one that is not, and one of which that cannot be told.").
			job("a", needs("plan_branch:one")).job("b", needs("plan_branch:two"), waits).job("c", needs("target_branch:release")).
			present("plan_branch:one", true).present("plan_branch:two", false).
			seen(func(f *kernel.Facts) {
				f.Present[artifact("target_branch:release")] = kernel.Unseen[bool]("git is busy")
			}).tick(),
		given("missing-producer-block", "What nobody produces ends the job that needs it.").job("a", needs(token)).marked(token).tick(),
		given("missing-producer-wait", "What nobody produces yet may still come.").job("a", waits, needs(token)).marked(token).tick(),
		given("gate-pinned-head", "A branch is not at the commit that the job is pinned to, and is.").
			job("a", pinned).job("b", spec(func(s *kernel.Spec) { s.Pinned = kernel.PinnedHead{Branch: "main", Commit: "c1"} })).tick(),
		given("gate-preconditions", "The working tree is dirty, a branch is missing, and a condition is not known.").
			job("a", precondition(kernel.Precondition{Kind: kernel.CleanWorktree})).job("b", precondition(kernel.Precondition{Kind: kernel.BranchExists, Branch: "dev"})).
			job("c", precondition(kernel.Precondition{Kind: kernel.CustomPrecondition, ID: "odd"})).
			seen(func(f *kernel.Facts) { f.Clean, f.Heads["dev"] = kernel.Seen(false), kernel.Seen[kernel.CommitID]("") }).tick(),
		given("gate-sandbox", "The host cannot enforce the sandbox that a job requires.").
			job("a", boxed).job("b").seen(func(f *kernel.Facts) { f.Sandbox = kernel.Seen(kernel.Enforcement{Files: "no user namespaces"}) }).tick(),
		given("several-conditions", "The first unmet gate is the reason, the explanation names them all.").
			job("a", running(1)).job("b", after("a"), needs(token), pinned, pending).marked(token).tick(),
		given("no-command", "A record without a command fails at once.").job("a", spec(func(s *kernel.Spec) { s.Task.Args = nil })).job("b", after("a")).tick(),
		given("transient", "A transient job sleeps until one that is not needs it.").
			job("a", spec(func(s *kernel.Spec) { s.Transient = kernel.OnDemand }), produces(token), state(func(st *kernel.State) { st.Status = kernel.Unscheduled })).
			job("b", spec(func(s *kernel.Spec) { s.Transient = kernel.OnDemand }), state(func(st *kernel.State) { st.Status = kernel.Unscheduled })).
			job("c", needs(token)).marked(token).tick(),
		given("transient-removed", "When all that needed it succeeded, the files of a transient job go.").
			job("a", inRun("r"), succeeded, produces(token), spec(func(s *kernel.Spec) { s.Transient = kernel.Remove })).job("b", inRun("r"), succeeded, needs(token)).marked(token, "a").tick(),
	}
}

// torn adds an unreadable record.
func (w *world) torn() *world {
	w.Given.Snapshot.Unreadable = map[kernel.JobID]string{"torn": "jobs/torn/job.json: half a record"}
	return w
}

func approvals() []Vector {
	inTime := spec(func(s *kernel.Spec) { s.ApprovalTimeout = 30 * time.Minute })
	approve := func(id kernel.JobID, by string, d kernel.Digest) Request {
		return Request{Approve: &Approve{id, kernel.Consent{By: by, How: "terminal", Digest: d}}}
	}
	own := func() *world {
		return given("approval-own", "Where others approve, who submitted a job may not.").job("a", pending).limits(kernel.Limits{OthersApprove: true})
	}
	return []Vector{
		given("gate-approval", "A job waits for a person, and what runs after it for the job.").
			job("a", state(func(st *kernel.State) { st.Approval = kernel.Require(epoch, "ann") })).job("b", after("a")).tick(),
		given("approval-limited", "The time for an approval counts from when nothing else holds the job up.").
			job("a", inTime, state(func(st *kernel.State) { st.Approval = kernel.Require(epoch, "ann") })).tick(),
		given("approval-expired", "Nobody decided in time.").
			job("a", inTime, pending, state(func(st *kernel.State) { st.Approval.ExpiresAt = noon.Add(-time.Minute) })).job("b", after("a")).tick(),
		given("approval-granted", "An approval is of a statement, and has its digest.").job("a", pending).ask(approve("a", "bob", "")),
		given("approval-other-digest", "What is approved is not what the job is.").job("a", pending).ask(approve("a", "bob", kernel.DigestOf("something else"))),
		own().ask(approve("a", "ann", "")),
		given("approval-sealed", "A job that is what was approved runs.").job("a", granted(unchanged)).tick(),
		given("approval-broken-seal", "A job that changed since it was approved does not run.").
			job("a", granted(func(s *kernel.Spec) { s.Task.Args = []string{"false"} })).tick(),
		given("approval-unsealed", "An approval that is of nothing does not count.").
			job("a", granted(unchanged), state(func(st *kernel.State) { st.Approval.Grant = nil })).tick(),
		given("approval-rejected", "A rejection ends the job, and what runs after it.").job("a", pending).job("b", after("a")).
			ask(Request{Reject: &Reject{"a", "bob", "page", "not on a Friday"}}),
		given("in-doubt", "Whether a lost attempt did its work cannot be told, and a person is asked.").
			job("a", running(1), spec(func(s *kernel.Spec) { s.InDoubt, s.Budget.Reclaims = kernel.AskInDoubt, 1 })).runner("a", 1, dead, nil).tick(),
		given("statement", "All that an approval is of: command, place, environment by digest, secrets by source, sandbox.").
			job("a", pending, spec(func(s *kernel.Spec) {
				s.Task = kernel.Task{Args: []string{"deploy", "it's", "über"}, Dir: "site", Env: []string{"TOKEN=secret"}, PassEnv: []string{"HOME"},
					Secrets: []kernel.Secret{{Name: "KEY", Source: "@~/key"}}, Timeout: time.Minute, Sandbox: kernel.Sandbox{Mode: kernel.BestEffortSandbox, Network: kernel.NoNetwork, Write: []string{"out"}}}
			})).ask(approve("a", "bob", "")),
	}
}

func lockings() []Vector {
	x, shared := kernel.Lock{Key: "x"}, kernel.Lock{Key: "x", Mode: kernel.Shared}
	gpu := func(n int) kernel.Lock { return kernel.Lock{Key: "gpu", Units: n} }
	far := spec(func(s *kernel.Spec) { s.Task.Executor = "far" })
	stage := func(run kernel.RunID, operation string) option {
		return spec(func(s *kernel.Spec) {
			s.Origin.Run, s.Origin.Branch, s.Origin.About.Operation = run, "draft/p", operation
		})
	}
	return []Vector{
		given("gate-branch", "One run at a time works on a branch; who merges it waits too.").
			job("a", stage("r1", "worktree.prepare"), succeeded, state(func(st *kernel.State) { st.Started = epoch })).job("b", stage("r1", ""), after("a"), running(1)).
			job("c", stage("r2", "worktree.prepare")).job("d", stage("r3", "git.integrate_plan_branch")).job("e", stage("r4", "")).tick(),
		given("gate-locks", "Holders of an exclusive lock exclude each other.").job("a", locks(x)).job("b", locks(x)).job("c", locks(kernel.Lock{Key: "y"})).tick(),
		given("locks-shared", "Shared locks are held together; who comes after an exclusive request waits behind it.").
			job("a", running(1), locks(shared)).job("b", locks(shared)).job("c", locks(x)).job("d", locks(shared)).tick(),
		given("pools", "A pool has units, and what does not fit waits.").
			job("a", running(1), locks(gpu(2))).job("b", locks(gpu(2))).job("c", locks(gpu(1))).job("d", locks(kernel.Lock{Key: "unnamed", Units: 1})).
			limits(kernel.Limits{Pools: map[string]int{"gpu": 3}}).tick(),
		given("pool-too-small", "A job that asks for more than a pool has can never start, and keeps nothing from others.").
			job("a", locks(x, gpu(4))).job("b", after("a")).job("c", locks(x, gpu(1))).limits(kernel.Limits{Pools: map[string]int{"gpu": 3}}).tick(),
		given("lock-of-a-stalled-runner", "Whoever holds the lock has not been heard of.").job("a", running(1), locks(x)).job("b", locks(x)).
			runner("a", 1, kernel.Runner{Liveness: kernel.Stalled, Heard: epoch}, nil).tick(),
		given("executor-full", "As many jobs run on each executor as may.").
			job("a", running(1)).job("b").job("c", far).job("d", far).limits(kernel.Limits{MaxRunning: 1, Executors: map[string]int{"far": 1}}).tick(),
		given("host-absent", "It is another host's turn to start jobs of this machine.").job("a").job("b", far).limits(kernel.Limits{Remote: true}).tick(),
		given("locks-freed", "What a runner that is gone held is free in the same tick.").
			job("a", running(1), locks(x)).job("b", locks(x)).runner("a", 1, dead, result("a", kernel.OutcomeSucceeded, 0, kernel.NoFailure)).tick(),
	}
}

// result returns how the first attempt of a job ended.
func result(id kernel.JobID, o kernel.Outcome, exit int, c kernel.FailureClass) *kernel.Result {
	return &kernel.Result{Attempt: kernel.AttemptID{Job: id, N: 1}, Outcome: o, Exit: exit, Class: c, Started: epoch, Ended: epoch.Add(time.Minute)}
}

func failures() []Vector {
	again := spec(func(s *kernel.Spec) {
		s.Budget, s.Retry = kernel.Budget{Retries: 2, Reclaims: 1, Resumes: 1}, kernel.RetryPolicy{Exits: kernel.ExitSet{}.With(75)}.On(kernel.Signal)
	})
	due := func(at time.Time) option {
		return state(func(st *kernel.State) {
			st.Status, st.Attempt, st.Started, st.Finished, st.RetryAt = kernel.FailedRetryable, 1, epoch, epoch.Add(time.Minute), at
			st.Outcome, st.Failure, st.Exit, st.Reason = kernel.OutcomeFailed, kernel.Signal, kernel.Exited(143), "signal TERM"
		})
	}
	limited := result("a", kernel.OutcomeFailed, 1, kernel.RateLimited)
	limited.Agent = &kernel.AgentRun{Agent: "scribe", Model: "m", Turns: 3, Usage: kernel.Usage{Input: 10, Output: 5, CostUSD: 0.25}, Resets: noon.Add(time.Hour)}
	made := result("a", kernel.OutcomeSucceeded, 0, kernel.NoFailure)
	made.Produced = artifacts([]string{"custom:token:t"})
	submits := result("a", kernel.OutcomeSucceeded, 0, kernel.NoFailure)
	submits.Submitted = []kernel.NewJob{{ID: "s", Spec: kernel.Spec{Task: kernel.Task{Args: []string{"true"}}, Origin: kernel.Origin{Parent: "a"}}}}
	return []Vector{
		given("lost", "A runner is gone without a result: what it may have left is swept, and the job failed.").job("a", running(1)).runner("a", 1, dead, nil).tick(),
		given("lost-reclaimed", "A lost attempt is executed again within its budget.").job("a", running(1), again, spec(func(s *kernel.Spec) { s.Idempotent = true })).runner("a", 1, dead, nil).tick(),
		given("never-started", "Nothing of an attempt was executed: it is taken back.").job("a", running(1)).runner("a", 1, kernel.Runner{Liveness: kernel.NeverStarted}, nil).tick(),
		given("stalled", "A runner is not heard of: that is noted once, and nothing is reclaimed.").job("a", running(1)).runner("a", 1, kernel.Runner{Liveness: kernel.Stalled, Heard: epoch}, nil).tick(),
		given("alive", "A running job stays as it is.").job("a", running(1)).runner("a", 1, kernel.Runner{Liveness: kernel.Alive, Remark: "3 of 7 tests"}, nil).tick(),
		given("retried", "A failure that is tried again: by its class, after a delay that depends on the attempt's name.").
			job("a", running(1), again).runner("a", 1, dead, result("a", kernel.OutcomeFailed, 143, kernel.Signal)).tick(),
		given("retried-exit", "Another, by its exit code, and one that is not.").job("a", running(1), again).job("b", running(1), again).
			runner("b", 1, dead, result("b", kernel.OutcomeFailed, 1, kernel.ExitFailure)).ask(Request{Finish: result("a", kernel.OutcomeFailed, 75, kernel.ExitFailure)}),
		given("retry-not-due", "The next attempt is not due yet.").job("a", again, due(noon.Add(time.Second))).tick(),
		given("secret-without-a-value", "What a secret comes from has no value: the launch is tried again, and somebody is to see to it.").
			job("a", spec(func(s *kernel.Spec) { s.Task.Secrets = []kernel.Secret{{Name: "T", Source: "@/token"}} }), state(func(st *kernel.State) {
				st.Refused, st.RetryAt, st.Failure, st.Reason = 2, noon.Add(time.Second), kernel.LaunchFailure, "secret T: /token has no value"
			})).tick(),
		given("retry-due", "It is due: the logs of the one before are kept under its number.").job("a", again, due(noon)).tick(),
		given("timeout-resumed", "A time-out of a resumable job is no failure of it.").job("a", running(1), again, spec(func(s *kernel.Spec) { s.Resumable = true })).
			ask(Request{Finish: result("a", kernel.OutcomeFailed, 124, kernel.Timeout)}),
		given("rate-limited", "An agent ran into a limit, and what to do is to wait.").job("a", running(1)).ask(Request{Finish: limited}),
		given("published", "What an attempt produced exists from its end on, and who needs it starts.").
			job("a", running(1), produces("custom:token:t")).job("b", needs("custom:token:t")).marked("custom:token:t").ask(Request{Finish: made}),
		given("output-missing", "It ended well without what it declared.").job("a", running(1), produces("custom:token:t")).job("b", needs("custom:token:t")).marked("custom:token:t").
			ask(Request{Finish: result("a", kernel.OutcomeSucceeded, 0, kernel.NoFailure)}),
		given("submits", "An attempt submits a job by its result.").job("a", running(1)).ask(Request{Finish: submits}),
		given("stale-result", "The result of an earlier attempt is refused.").job("a", running(2)).ask(Request{Finish: result("a", kernel.OutcomeSucceeded, 0, kernel.NoFailure)}),
		given("refused-launch", "An executor could not start it, for now.").job("a", running(1)).ask(Request{Refuse: &Refuse{kernel.AttemptID{Job: "a", N: 1}, "no space left", false}}),
		given("refused-again", "After the second refusal in a row it waits before it asks again.").job("a", running(2), state(func(st *kernel.State) { st.Refused = 1 })).
			ask(Request{Refuse: &Refuse{kernel.AttemptID{Job: "a", N: 2}, "no space left", false}}),
		given("refused-for-good", "An executor will never start it.").job("a", running(1)).ask(Request{Refuse: &Refuse{kernel.AttemptID{Job: "a", N: 1}, "no such partition", true}}),
	}
}

func retries() []Vector {
	retry := func(id kernel.JobID) Request { return Request{Retry: &Retry{id, "ann"}} }
	merge := spec(func(s *kernel.Spec) { s.Origin.Alias, s.Origin.Plan = "merge", "foo" })
	owned := state(func(st *kernel.State) {
		st.Context = kernel.Context{Root: "trees/a", Worktree: "trees/a", Name: "a", Branch: "draft/a", Owned: true}
	})
	conflict := func(merging string) *world {
		return given("retry-merge", "A retry of a merge drops the mark of its conflict.").job("a", merge, failed).present("merge_sentinel:foo", true).
			seen(func(f *kernel.Facts) { f.Merging = kernel.Seen(merging) })
	}
	inMerge := conflict("merge")
	inMerge.Name, inMerge.About = "retry-merge-in-progress", "A retry of a merge is refused while git is in the middle of one."
	return []Vector{
		given("retry-closure", "A retry rewinds what depends on the job: by jobs, by artifacts, by what those need, and keeps what came before.").
			job("a", succeeded).job("b", failed, after("a"), produces("custom:token:t")).job("c", after("b"), blocked("b")).job("d", needs("custom:token:t"), blocked("b")).
			job("e", after("d"), blocked("d")).job("f", after("a"), succeeded).marked("custom:token:t").ask(retry("b")),
		given("retry-succeeded", "What succeeded is rewound as well, with its markers.").job("a", succeeded, produces("custom:token:t")).job("b", succeeded, needs("custom:token:t")).
			marked("custom:token:t", "a").ask(retry("a")),
		given("retry-worktree", "A rewind removes the worktree that a job made.").job("a", failed, owned, spec(func(s *kernel.Spec) { s.OwnsContext = true })).ask(retry("a")),
		given("retry-running", "A retry is refused while something of it runs.").job("a", failed).job("b", running(1), after("a"), spec(func(s *kernel.Spec) { s.AfterAny = s.After })).ask(retry("a")),
		given("retry-approval", "A job that needs an approval asks for it anew.").job("a", granted(unchanged), failed).ask(retry("a")),
		conflict("").ask(retry("a")),
		inMerge.ask(retry("a")),
		given("retry-unknown", "There is no such job.").job("a").ask(retry("b")),
	}
}

func requests() []Vector {
	batch := []kernel.NewJob{
		{ID: "p", Part: "p", Spec: kernel.Spec{Task: kernel.Task{Args: []string{"true"}}, Produces: artifacts([]string{"custom:token:t"})}},
		{ID: "q", Part: "q", Spec: kernel.Spec{Task: kernel.Task{Args: []string{"true"}}, After: []kernel.JobID{"p"}}},
		{ID: "r", Part: "r", Spec: kernel.Spec{Task: kernel.Task{Args: []string{"true"}}, Needs: artifacts([]string{"custom:token:t"})}, Approval: kernel.Require(noon, "ann")},
	}
	cyclic := []kernel.NewJob{
		{ID: "p", Spec: kernel.Spec{Task: kernel.Task{Args: []string{"true"}}, After: []kernel.JobID{"q"}}},
		{ID: "q", Spec: kernel.Spec{Task: kernel.Task{Args: []string{"true"}}, After: []kernel.JobID{"p"}}},
	}
	keyed := func(command ...string) []kernel.NewJob {
		return []kernel.NewJob{{ID: "p", Spec: kernel.Spec{Task: kernel.Task{Args: command}, IdempotencyKey: "k", Budget: kernel.Budget{Retries: 3}}}}
	}
	key := spec(func(s *kernel.Spec) { s.IdempotencyKey = "k" })
	token := "custom:token:t"
	return []Vector{
		given("batch", "Jobs of a batch have one number, refer to each other, and are judged in the tick that follows.").job("a").marked(token).ask(Request{Submit: &Submit{batch, "ann"}}),
		given("batch-cycle", "A batch with a mistake is refused whole.").job("a").ask(Request{Submit: &Submit{cyclic, "ann"}}),
		given("batch-again", "A job with a key that another has is that job, with the larger budget.").job("a", running(1), key).ask(Request{Submit: &Submit{keyed("true"), "ann"}}),
		given("batch-again-other", "One key for jobs that differ is refused.").job("a", running(1), key).ask(Request{Submit: &Submit{keyed("false"), "ann"}}),
		given("batch-reopens", "A new producer opens what was blocked for want of it.").
			job("a", needs(token), spec(func(s *kernel.Spec) { s.MissingProducer = kernel.Wait }), state(func(st *kernel.State) {
				st.Status = kernel.BlockedByDependency
				st.Wait = kernel.WaitReason{Kind: kernel.OnDependencies, Detail: "dependency failed for " + token, Cause: kernel.ArtifactMissing, Artifact: artifact(token)}
			})).marked(token).ask(Request{Submit: &Submit{batch[:1], "ann"}}),
		given("cancel-waiting", "What waits ends at once, and with it what runs after it; its worktree goes where that is asked.").job("a", running(1)).
			job("b", after("a"), state(func(st *kernel.State) {
				st.Context = kernel.Context{Root: "trees/b", Worktree: "trees/b", Owned: true}
			})).job("c", after("b")).ask(Request{Cancel: &Cancel{"b", "ann", true}}),
		given("cancel-running", "What runs is asked to stop, and keeps its locks.").job("a", running(1), locks(kernel.Lock{Key: "x"})).job("b", locks(kernel.Lock{Key: "x"})).
			ask(Request{Cancel: &Cancel{"a", "ann", false}}),
		given("cancel-ended", "What has ended cannot be cancelled.").job("a", succeeded).ask(Request{Cancel: &Cancel{"a", "ann", false}}),
		given("stopped", "A running job that was asked to stop ends as cancelled.").job("a", running(1), state(func(st *kernel.State) { st.Stop = kernel.StopRequest{At: epoch, By: "ann"} })).
			runner("a", 1, dead, result("a", kernel.OutcomeFailed, 143, kernel.Signal)).tick(),
	}
}

func runsAndRoutes() []Vector {
	asleep := func(j *kernel.Job) { j.Spec.Routed, j.State.Status = true, kernel.Unscheduled }
	tree := state(func(st *kernel.State) { st.Context = kernel.Context{Root: "trees/a", Worktree: "trees/a", Owned: true} })
	loop := func(taken int) *world {
		return given("route-back", "A failure sends the run back along its route, and the route counts.").
			job("a", inRun("r"), succeeded).job("b", inRun("r"), after("a"), running(1), routes(kernel.Route{On: kernel.OutcomeFailed, To: "a", Budget: 1}),
			state(func(st *kernel.State) { st.Routed = taken })).job("c", inRun("r"), after("b"))
	}
	spent := loop(1)
	spent.Name, spent.About = "route-exhausted", "A route that was taken as often as it may is not taken again."
	back, deferred := routes(kernel.Route{On: kernel.OutcomeFailed, To: "a"}), state(func(st *kernel.State) { st.Deferred = true })
	wait := loop(0).job("d", inRun("r"), after("a"), running(1))
	wait.Name, wait.About = "route-waits", "A route waits while a job runs that it takes back."
	fail := Request{Finish: result("b", kernel.OutcomeFailed, 1, kernel.ExitFailure)}
	return []Vector{
		given("route-hands-over", "Success hands the place where a job runs to the one that its route names.").
			job("a", inRun("r"), running(1), tree, routes(kernel.Route{On: kernel.OutcomeSucceeded, To: "b"})).job("b", inRun("r"), after("a")).
			ask(Request{Finish: result("a", kernel.OutcomeSucceeded, 0, kernel.NoFailure)}),
		given("route-wakes", "An outcome wakes the job that sleeps until a route starts it, which may rewind what woke it.").
			job("a", inRun("r"), running(1), routes(kernel.Route{On: kernel.OutcomeBlocked, To: "fix"})).
			job("fix", inRun("r"), asleep, routes(kernel.Route{On: kernel.OutcomeSucceeded, To: "a"})).
			ask(Request{Finish: result("a", kernel.OutcomeBlocked, 10, kernel.NoFailure)}),
		given("route-asleep", "What only a route starts sleeps.").job("a", inRun("r"), running(1), routes(kernel.Route{On: kernel.OutcomeFailed, To: "b"})).job("b", inRun("r"), asleep).tick(),
		loop(0).ask(fail),
		spent.ask(fail),
		wait.ask(fail),
		given("route-holds", "What a waiting route takes back does not start.").job("a", inRun("r"), succeeded).job("b", inRun("r"), after("a"), failed, back, deferred).
			job("d", inRun("r"), after("a"), running(1)).job("e", inRun("r"), after("a")).tick(),
		given("route-taken", "Routes that waited for a running job are taken once it has ended.").job("a", inRun("r"), succeeded).job("b", inRun("r"), after("a"), failed, back, deferred).
			job("d", inRun("r"), after("a"), succeeded).tick(),
		given("run-ends", "The last job of a run ends.").job("a", inRun("r"), succeeded).job("b", inRun("r"), running(1)).runner("b", 1, dead, result("b", kernel.OutcomeSucceeded, 0, kernel.NoFailure)).tick(),
	}
}

func prompts() []Vector {
	prompt := func(named kernel.PromptName) option {
		return func(j *kernel.Job) {
			j.Spec.Prompt = &kernel.Prompt{Owner: "ann", Repository: "demo", Branch: "main", File: "/in/inbox/x.running.md", Rel: "x.prompt.md", Archive: true}
			j.State.Prompt.Named = named
		}
	}
	return []Vector{
		given("prompt-new", "A prompt whose job is new is claimed.").job("a", prompt(kernel.NewPrompt)).tick(),
		given("prompt-done", "The run of a prompt succeeded.").job("a", prompt(kernel.RunningPrompt), succeeded).tick(),
		given("prompt-error", "The run of a prompt failed.").job("a", prompt(kernel.RunningPrompt), failed).tick(),
		given("prompt-cancel", "Who cancels the job of a prompt cancels its run.").job("a", inRun("r"), running(1)).job("b", inRun("r"), after("a")).
			job("c", inRun("r"), after("b"), prompt(kernel.RunningPrompt)).ask(Request{Cancel: &Cancel{"c", "ann", false}}),
	}
}
