package kernel_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// explained returns what Explain says of every job of s, after a tick.
func explained(t *testing.T, s *kernel.Snapshot) string {
	t.Helper()
	s = s.Apply(kernel.Decide(s))
	var b strings.Builder
	for _, j := range s.Jobs() {
		e, err := kernel.Explain(s, j.ID)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%s %s, %s", j.ID, e.Status, e.Outlook)
		if w := e.TickWait; w.Job != "" {
			fmt.Fprintf(&b, ", waits for a tick for %s", w.Job)
			if !w.Due.IsZero() {
				fmt.Fprintf(&b, ", due %s", w.Due.Sub(s.Now()))
			}
			if w.Now {
				b.WriteString(", now")
			}
		}
		b.WriteString("\n")
		for _, u := range e.Unmet {
			fmt.Fprintf(&b, "  %s: %s", u.Kind, u.Detail)
			if u.Final {
				b.WriteString(" (final)")
			}
			if u.Job != "" {
				fmt.Fprintf(&b, " [%s]", u.Job)
			}
			if u.Artifact != (kernel.Artifact{}) {
				fmt.Fprintf(&b, " [%s]", u.Artifact)
			}
			fmt.Fprintf(&b, " <- %s\n", u.Clears)
		}
		for _, r := range e.Actions {
			fmt.Fprintf(&b, "  ! %s %s", r.Kind, r.Job)
			for _, more := range []string{r.Detail, r.Pinned.Branch, string(r.Pinned.Commit)} {
				if more != "" {
					b.WriteString(" " + more)
				}
			}
			if r.Artifact != (kernel.Artifact{}) {
				fmt.Fprintf(&b, " %s", r.Artifact)
			}
			if r.Units != 0 {
				fmt.Fprintf(&b, " %d", r.Units)
			}
			b.WriteString("\n")
		}
		if len(e.Asks) > 0 {
			fmt.Fprintf(&b, "  asks %v\n", e.Asks)
		}
		if e.Root != nil {
			fmt.Fprintf(&b, "  root %s %s: %s\n", e.Root.Job, e.Root.Status, e.Root.Detail)
		}
	}
	return strings.ReplaceAll(strings.ReplaceAll(strings.TrimSpace(b.String()), " \n", "\n"), "`", "'")
}

// What is said of jobs that are held up, all of it.
func TestWholeExplanations(t *testing.T) {
	t.Parallel()
	failed := func(j *kernel.Job) {
		j.State.Status, j.State.Attempt, j.State.Exit, j.State.Failure, j.State.Reason, j.State.Finished = kernel.Failed, 1, kernel.Exited(3), kernel.ExitFailure, "exit code 3", t0
		j.State.Outcome = kernel.OutcomeFailed
	}
	ended := func(st kernel.Status) option {
		return func(j *kernel.Job) { j.State.Status, j.State.Finished, j.State.Attempt = st, t0, 1 }
	}
	routes := func(on kernel.Outcome, to kernel.JobID) option {
		return func(j *kernel.Job) { j.Spec.Routes = append(j.Spec.Routes, kernel.Route{On: on, To: to, Budget: 1}) }
	}
	stops := func(j *kernel.Job) { j.Spec.FailureMode = kernel.BlockDownstream }
	retryAt := func(at time.Duration) option {
		return func(j *kernel.Job) {
			failed(j)
			j.State.Status, j.State.RetryAt = kernel.FailedRetryable, t0.Add(time.Hour+at)
			j.Spec.Retry.Base, j.Spec.Retry.Cap = time.Hour, time.Hour
		}
	}
	refused := func(j *kernel.Job) { j.State.Refused, j.State.Reason = 1, "the cluster is full" }
	const tok, other = "custom:tok:a", "custom:other:b"
	unseen := facts()
	unseen.Clean, unseen.Heads["main"] = kernel.Unseen[bool]("git is not there"), kernel.Unseen[kernel.CommitID]("git is not there")
	elsewhere := marked(facts(), tok)
	elsewhere.Clean, elsewhere.Heads["main"], elsewhere.Heads["gone"], elsewhere.Head = kernel.Seen(false), kernel.Seen(kernel.CommitID("c2")), kernel.Seen(kernel.CommitID("")), kernel.Seen("side")
	outcome := func(o kernel.Outcome) option {
		return func(j *kernel.Job) { j.State.Outcome, j.State.Reason = o, "it said so" }
	}
	absent := func(labels ...string) kernel.Facts {
		f := marked(facts(), tok)
		for _, l := range labels {
			f.Present[artifact(l)] = kernel.Seen(false)
		}
		return f
	}
	plan := func(kind string) string { return kind + ":p (draft/p)" }
	at := func(executor string) option { return func(j *kernel.Job) { j.Spec.Task.Executor = executor } }
	awake := func(j *kernel.Job) { j.Spec.Routed, j.State.Awake = true, true }
	stalled := facts()
	for id, live := range map[kernel.JobID]kernel.Liveness{"a": kernel.Stalled, "b": kernel.Stalled, "c": kernel.Alive} {
		stalled.Runners[kernel.AttemptID{Job: id, N: 1}] = kernel.Seen(kernel.Runner{Liveness: live})
	}
	dirty := facts()
	dirty.Clean, dirty.Heads["main"], dirty.Heads["gone"] = kernel.Seen(false), kernel.Seen(kernel.CommitID("c1")), kernel.Seen(kernel.CommitID(""))
	for name, c := range map[string]struct {
		facts  kernel.Facts
		limits kernel.Limits
		jobs   []kernel.Job
		want   string
	}{
		"after a failure": {facts(), kernel.Limits{}, []kernel.Job{job("a", failed), job("b", after("a")), job("c", after("b"), approval(kernel.Pending, "")), job("d", ended(kernel.Cancelled)), job("e", after("d", "a"))}, `a failed, awaits_actions
  ! retry a
  root a failed: exit code 3
b blocked_by_dependency, awaits_actions
  dependencies: dependency failed for job a (failed) (final) [a] <- a retry of what failed
  ! retry a
  root a failed: exit code 3
c blocked_by_dependency, awaits_actions
  dependencies: dependency failed for job b (blocked_by_dependency) (final) [b] <- a retry of what failed
  approval: awaiting human approval <- a person
  ! retry a
  ! approve c
  root a failed: exit code 3
d cancelled, awaits_actions
  ! retry d
  root d cancelled: cancelled
e blocked_by_dependency, awaits_actions
  dependencies: dependency failed for job d (cancelled) (final) [d] <- a retry of what failed
  dependencies: dependency failed for job a (failed) (final) [a] <- a retry of what failed
  ! retry d
  ! retry a
  root d cancelled: cancelled`},
		"after what goes on": {facts(), kernel.Limits{}, []kernel.Job{job("a", running(1)), job("b", after("a")), job("c", approval(kernel.Pending, "")), job("d", after("c", "b")), job("e", approval(kernel.Rejected, "no")), job("f", after("e")), job("g", after("gone"))}, `a running, none
b waiting_on_deps, starts
  dependencies: waiting on job a [a] <- job a, running
c waiting_on_approval, awaits_actions
  approval: awaiting human approval <- a person
  ! approve c
d waiting_on_deps, awaits_actions
  dependencies: waiting on job c [c] <- job c, waiting_on_approval
  dependencies: waiting on job b [b] <- job b, waiting_on_deps
  ! approve c
e blocked_by_approval, awaits_actions
  approval: no (final) <- a retry, which asks for the approval anew
  ! retry e
  ! approve e
  root e blocked_by_approval: no
f blocked_by_dependency, awaits_actions
  dependencies: dependency failed for job e (blocked_by_approval) (final) [e] <- a retry of what failed
  ! retry e
  ! approve e
  root e blocked_by_approval: no
g blocked_by_dependency, awaits_actions
  dependencies: missing job dependency gone (final) [gone] <- a new submission
  ! submit_again g names job gone, which is gone, so a retry is no use
  root g blocked_by_dependency: missing job dependency gone`},
		"artifacts": {marked(marked(facts(), tok), other), kernel.Limits{}, []kernel.Job{job("a", failed, produces(tok)), job("b", needs(tok)), job("c", needs(other)), job("d", needs(other), policy(kernel.Wait)), job("e", needs(tok, other), after("b")),
			job("f", needs("plan_branch:p (draft/p)"))}, `a failed, awaits_actions
  ! retry a
  root a failed: exit code 3
b blocked_by_dependency, awaits_actions
  dependencies: dependency failed for custom:tok:a (final) [a] [custom:tok:a] <- a retry of what failed
  ! retry a
  root a failed: exit code 3
c blocked_by_dependency, awaits_actions
  dependencies: missing custom:other:b (final) [custom:other:b] <- a job that produces it, then a retry
  ! produce  custom:other:b
  ! retry c
  root c blocked_by_dependency: missing custom:other:b
d waiting_on_deps, awaits_actions, waits for a tick for d
  dependencies: awaiting producer for custom:other:b [custom:other:b] <- any job that produces it
  ! produce  custom:other:b
e blocked_by_dependency, awaits_actions
  dependencies: dependency failed for job b (blocked_by_dependency) (final) [b] <- a retry of what failed
  dependencies: dependency failed for custom:tok:a (final) [a] [custom:tok:a] <- a retry of what failed
  dependencies: missing custom:other:b (final) [custom:other:b] <- a job that produces it, then a retry
  ! produce  custom:other:b
  ! retry a
  root a failed: exit code 3
f waiting_on_deps, awaits_actions, waits for a tick for f
  dependencies: cannot tell whether plan_branch:p (draft/p) exists: not observed [plan_branch:p (draft/p)] <- the repository, once it can be asked
  ! meet_condition  cannot tell whether plan_branch:p (draft/p) exists: not observed`},
		"artifacts that are being made": {marked(facts(), tok), kernel.Limits{}, []kernel.Job{job("a", produces(tok), approval(kernel.Pending, "")), job("b", needs(tok)), job("c", after("b"))}, `a waiting_on_approval, awaits_actions
  approval: awaiting human approval <- a person
  ! approve a
b waiting_on_deps, awaits_actions
  dependencies: waiting on custom:tok:a [a] [custom:tok:a] <- job a, waiting_on_approval
  ! approve a
c waiting_on_deps, awaits_actions
  dependencies: waiting on job b [b] <- job b, waiting_on_deps
  ! approve a`},
		"locks and pools": {facts(), kernel.Limits{MaxRunning: 2, Pools: map[string]int{"gpu": 2}}, []kernel.Job{job("a", running(1), locks(excl("x"), pool("gpu", 1))), job("b", locks(excl("x"))), job("c", locks(shared("x"))), job("d", locks(pool("gpu", 2))), job("e", locks(pool("gpu", 3))),
			job("f", after("b")), job("g"), job("h"), job("i", locks(pool("gpu", 1)))}, `a running, none
b waiting_on_locks, starts
  locks: waiting on locks <- job a, running (x)
c waiting_on_locks, starts
  locks: waiting on locks <- job a, running (x); b, waiting_on_locks (x)
d waiting_on_locks, starts
  locks: waiting on pool gpu (needs 2 of 2): 1 in use <- job a, running (gpu)
e waiting_on_locks, awaits_actions
  locks: waiting on pool gpu (needs 3 of 2: more than it has) <- a larger pool gpu
  ! enlarge_pool e gpu 3
f waiting_on_deps, starts
  dependencies: waiting on job b [b] <- job b, waiting_on_locks
  locks: waiting on pool max_running (2 of 2 in use) <- 2 running jobs: the next that ends makes room
g running, none
h waiting_on_locks, starts
  locks: waiting on pool max_running (2 of 2 in use) <- 2 running jobs: the next that ends makes room
i waiting_on_locks, starts
  locks: waiting on pool gpu (needs 1 of 2): 1 in use, the rest reserved for an older job <- job a, running (gpu); d, waiting_on_locks (gpu)`},
		"the repository": {elsewhere, kernel.Limits{}, []kernel.Job{job("a", pinned("main", "c1")), job("b", pinned("gone", "c1")), job("c", pre(kernel.Precondition{Kind: kernel.CleanWorktree})), job("d", pre(kernel.Precondition{Kind: kernel.BranchExists, Branch: "gone"})),
			job("e", pre(kernel.Precondition{Kind: kernel.CleanWorktree}), pinned("main", "c1"), approval(kernel.Pending, "")), job("f", after("e"))}, `a waiting_on_deps, awaits_actions, waits for a tick for a
  pinned_head: pinned head mismatch on main <- branch main at c1
  ! move_branch  main c1
b waiting_on_deps, awaits_actions, waits for a tick for b
  pinned_head: pinned head mismatch on gone <- branch gone at c1
  ! move_branch  gone c1
c waiting_on_deps, awaits_actions, waits for a tick for c
  preconditions: working tree has uncommitted or untracked changes <- the repository
  ! clean_tree
d waiting_on_deps, awaits_actions, waits for a tick for d
  preconditions: required branch 'gone' does not exist <- the repository
  ! make_branch  gone
e waiting_on_deps, awaits_actions, waits for a tick for e
  pinned_head: pinned head mismatch on main <- branch main at c1
  preconditions: working tree has uncommitted or untracked changes <- the repository
  approval: awaiting human approval <- a person
  ! move_branch  main c1
  ! clean_tree
  ! approve e
f waiting_on_deps, awaits_actions, waits for a tick for e
  dependencies: waiting on job e [e] <- job e, waiting_on_deps
  ! move_branch  main c1
  ! clean_tree
  ! approve e`},
		"what cannot be seen": {unseen, kernel.Limits{}, []kernel.Job{job("a", pinned("main", "c1")), job("b", pre(kernel.Precondition{Kind: kernel.CleanWorktree})), job("c", needs(tok))}, `a waiting_on_deps, awaits_actions, waits for a tick for a
  pinned_head: pinned head mismatch on main <- branch main at c1
  ! move_branch  main c1
b waiting_on_deps, awaits_actions, waits for a tick for b
  preconditions: cannot tell whether the working tree is clean: git is not there <- the repository
  ! meet_condition  cannot tell whether the working tree is clean: git is not there
c waiting_on_deps, awaits_actions, waits for a tick for c
  dependencies: cannot tell whether custom:tok:a exists: not observed [custom:tok:a] <- the repository, once it can be asked
  ! meet_condition  cannot tell whether custom:tok:a exists: not observed`},
		"a run that stops": {facts(), kernel.Limits{}, []kernel.Job{job("a", failed, inRun("r"), stops), job("b", inRun("r"), stops), job("c", inRun("r"), stops, after("b")), job("d", inRun("r"), stops, after("a")), job("e", inRun("s"), stops)}, `a failed, awaits_actions
  ! retry a
  root a failed: exit code 3
b blocked_by_dependency, awaits_actions
  dependencies: held back by the failure of job a (final) [a] <- a retry of what failed
  ! retry a
  root a failed: exit code 3
c blocked_by_dependency, awaits_actions
  dependencies: held back by the failure of job a (final) [a] <- a retry of what failed
  dependencies: dependency failed for job b (blocked_by_dependency) (final) [b] <- a retry of what failed
  ! retry a
  root a failed: exit code 3
d blocked_by_dependency, awaits_actions
  dependencies: dependency failed for job a (failed) (final) [a] <- a retry of what failed
  ! retry a
  root a failed: exit code 3
e running, none`},
		"handlers": {facts(), kernel.Limits{}, []kernel.Job{job("a", failed, inRun("r"), routes(kernel.OutcomeFailed, "h")), job("b", inRun("r"), after("a")), job("h", inRun("r"), routed, is(kernel.Unscheduled)), job("i", inRun("r"), routed, is(kernel.Unscheduled)), job("j", inRun("r"), after("i"))}, `a failed, awaits_actions
  ! retry a
  root a failed: exit code 3
b blocked_by_dependency, awaits_actions
  dependencies: dependency failed for job a (failed) (final) [a] <- a retry of what failed
  ! retry a
  root a failed: exit code 3
h unscheduled, sleeps
  : sleeps until a route starts it <- a node that ends with the outcome its route names
i unscheduled, sleeps
  : sleeps until a route starts it <- a node that ends with the outcome its route names
j waiting_on_deps, sleeps
  dependencies: waiting on job i [i] <- job i, unscheduled`},
		"what is tried again": {facts(), kernel.Limits{}, []kernel.Job{job("a", retryAt(time.Minute)), job("b", retryAt(-time.Minute)), job("c", after("a")), job("d", is(kernel.Queued), refused), job("e", after("d"))}, `a failed_retryable, starts, waits for a tick for a, due 1m0s
  : next attempt at 2026-01-01T13:01:00Z after: exit code 3 <- time
b running, none
c waiting_on_deps, starts, waits for a tick for a, due 1m0s
  dependencies: waiting on job a [a] <- job a, failed_retryable
d running, none
e waiting_on_deps, starts
  dependencies: waiting on job d [d] <- job d, running`},
		"sleepers": {marked(facts(), tok), kernel.Limits{}, []kernel.Job{job("a", is(kernel.Unscheduled), transient(kernel.OnDemand), produces(tok)), job("b", needs(tok), approval(kernel.Pending, "")), job("c", is(kernel.Unscheduled), transient(kernel.OnDemand), failed)}, `a running, none
b waiting_on_deps, awaits_actions
  dependencies: waiting on custom:tok:a [a] [custom:tok:a] <- job a, running
  approval: awaiting human approval <- a person
  ! approve b
c failed, sleeps
  : a retry lets it sleep: nobody needs it <- a job that depends on it and is not transient
  ! retry c
  root c failed: exit code 3`},
		"sleepers that were cancelled": {facts(), kernel.Limits{}, []kernel.Job{job("a", ended(kernel.Cancelled), transient(kernel.OnDemand)), job("b", after("a")),
			job("c", ended(kernel.Cancelled), routed), job("d", after("c")), job("e", ended(kernel.Cancelled), routed, awake)}, `a cancelled, awaits_actions
  ! retry a
  root a cancelled: cancelled
b blocked_by_dependency, awaits_actions
  dependencies: dependency failed for job a (cancelled) (final) [a] <- a retry of what failed
  ! retry a
  root a cancelled: cancelled
c cancelled, sleeps
  : a retry lets it sleep: only a route starts it, and nothing of its run goes on <- a retry of what leads to it
  ! retry c
  root c cancelled: cancelled
d blocked_by_dependency, sleeps
  dependencies: dependency failed for job c (cancelled) (final) [c] <- a retry of what failed
  ! retry c
  root c cancelled: cancelled
e cancelled, awaits_actions
  ! retry e
  root e cancelled: cancelled`},
		"several that failed": {facts(), kernel.Limits{}, []kernel.Job{job("a", failed), job("b", failed), job("c", after("a", "b")), job("d", after("c")), job("e", ended(kernel.Cancelled), after("c")), job("f", after("e"))}, `a failed, awaits_actions
  ! retry a
  root a failed: exit code 3
b failed, awaits_actions
  ! retry b
  root b failed: exit code 3
c blocked_by_dependency, awaits_actions
  dependencies: dependency failed for job a (failed) (final) [a] <- a retry of what failed
  dependencies: dependency failed for job b (failed) (final) [b] <- a retry of what failed
  ! retry a
  ! retry b
  root a failed: exit code 3
d blocked_by_dependency, awaits_actions
  dependencies: dependency failed for job c (blocked_by_dependency) (final) [c] <- a retry of what failed
  ! retry a
  ! retry b
  root a failed: exit code 3
e cancelled, awaits_actions
  ! retry a
  ! retry b
  root e cancelled: cancelled
f blocked_by_dependency, awaits_actions
  dependencies: dependency failed for job e (cancelled) (final) [e] <- a retry of what failed
  ! retry a
  ! retry b
  root e cancelled: cancelled`},
		"what runs": {facts(), kernel.Limits{}, []kernel.Job{job("a", failed), job("b", running(1), func(j *kernel.Job) { j.Spec.RunsAfter("a", kernel.AfterAnyEnd) }), job("c", after("a"))}, `a failed, awaits_actions
  ! await_end b
  ! retry a
  root a failed: exit code 3
b running, none
c blocked_by_dependency, awaits_actions
  dependencies: dependency failed for job a (failed) (final) [a] <- a retry of what failed
  ! await_end b
  ! retry a
  root a failed: exit code 3`},
		"a limit that expires": {facts(), kernel.Limits{}, []kernel.Job{job("a", approval(kernel.Expired, "")), job("b", func(j *kernel.Job) { j.State.Approval, j.Spec.ApprovalTimeout = kernel.Require(t0, "ann"), 2*time.Hour }), job("c", after("a", "b"))}, `a blocked_by_approval, awaits_actions
  approval: approval expired: nobody decided within 0s (final) <- a retry, which asks for the approval anew
  ! retry a
  ! approve a
  root a blocked_by_approval: approval expired: nobody decided within 0s
b waiting_on_approval, awaits_actions
  approval: awaiting human approval <- a person, until 2026-01-01T15:00:00Z
  ! approve b
c blocked_by_dependency, awaits_actions
  dependencies: dependency failed for job a (blocked_by_approval) (final) [a] <- a retry of what failed
  dependencies: waiting on job b [b] <- job b, waiting_on_approval
  ! retry a
  ! approve a
  ! approve b
  root a blocked_by_approval: approval expired: nobody decided within 0s`},
		"what has no command": {facts(), kernel.Limits{}, []kernel.Job{job("a", running(1)), job("b", noArgs, after("a")), job("c", after("b"))}, `a running, none
b waiting_on_deps, awaits_actions
  dependencies: waiting on job a [a] <- job a, running
  dependencies: missing child args (final) <- a new submission: this record has no command
  ! submit_again b has no command
c waiting_on_deps, awaits_actions
  dependencies: waiting on job b [b] <- job b, waiting_on_deps
  ! submit_again b has no command`},
		"a plan whose run failed": {absent(plan("plan_branch"), plan("plan_doc"), plan("plan_commits")), kernel.Limits{}, []kernel.Job{
			job("a", failed, inRun("r"), after("p")), job("b", needs(plan("plan_branch"))), job("c", needs(plan("plan_doc"))), job("d", needs(plan("plan_commits"))), job("e", needs(tok)),
			job("p", ended(kernel.Succeeded), inRun("r"), produces(plan("plan_branch"), plan("plan_doc"), plan("plan_commits"), tok))}, `a failed, awaits_actions
  ! retry a
  root a failed: exit code 3
b blocked_by_dependency, awaits_actions
  dependencies: missing plan_branch:p (draft/p) (final) [p] [plan_branch:p (draft/p)] <- a retry of what failed
  ! retry a
  root a failed: exit code 3
c blocked_by_dependency, awaits_actions
  dependencies: missing plan_doc:p (draft/p) (final) [p] [plan_doc:p (draft/p)] <- a retry of what failed
  ! retry a
  root a failed: exit code 3
d blocked_by_dependency, awaits_actions
  dependencies: missing plan_commits:p (draft/p) (final) [p] [plan_commits:p (draft/p)] <- a retry of what failed
  ! retry a
  root a failed: exit code 3
e blocked_by_dependency, awaits_actions
  dependencies: missing custom:tok:a (final) [p] [custom:tok:a] <- a retry of job p, which did not make it
  ! retry p
  root e blocked_by_dependency: missing custom:tok:a
p succeeded, none`},
		"a plan whose run is blocked": {absent(plan("plan_doc")), kernel.Limits{}, []kernel.Job{
			job("a", ended(kernel.BlockedByDependency), outcome(kernel.OutcomeBlocked), inRun("r"), after("p")), job("b", needs(plan("plan_doc"))), job("p", ended(kernel.Succeeded), inRun("r"), produces(plan("plan_doc")))}, `a blocked_by_dependency, awaits_actions
  ! retry a
  root a blocked_by_dependency: it said so
b blocked_by_dependency, awaits_actions
  dependencies: missing plan_doc:p (draft/p) (final) [p] [plan_doc:p (draft/p)] <- a retry of what failed
  ! retry a
  root a blocked_by_dependency: it said so
p succeeded, none`},
		"a plan of a run that goes on": {absent(plan("plan_doc")), kernel.Limits{}, []kernel.Job{
			job("a", running(1), inRun("r"), after("p")), job("b", needs(plan("plan_doc"))), job("e", failed, inRun("s"), after("p")), job("p", ended(kernel.Succeeded), inRun("r"), produces(plan("plan_doc")))}, `a running, none
b blocked_by_dependency, awaits_actions
  dependencies: missing plan_doc:p (draft/p) (final) [p] [plan_doc:p (draft/p)] <- a retry of job p, which did not make it
  ! await_end a
  ! retry p
  root b blocked_by_dependency: missing plan_doc:p (draft/p)
e failed, awaits_actions
  ! retry e
  root e failed: exit code 3
p succeeded, none`},
		"a circle of what is blocked": {marked(absent(), other), kernel.Limits{}, []kernel.Job{job("a", needs(other, tok)), job("b", after("a"), produces(tok)), job("c", ended(kernel.Cancelled), needs(tok)), job("d", after("c"), produces(other))}, `a blocked_by_dependency, awaits_actions
  dependencies: dependency failed for custom:other:b (final) [d] [custom:other:b] <- another job that produces it, then a retry
  dependencies: dependency failed for custom:tok:a (final) [b] [custom:tok:a] <- another job that produces it, then a retry
  ! produce  custom:other:b
  ! produce  custom:tok:a
  ! retry a
  root a blocked_by_dependency: dependency failed for custom:tok:a
b blocked_by_dependency, awaits_actions
  dependencies: dependency failed for job a (blocked_by_dependency) (final) [a] <- a retry of what failed
  ! produce  custom:other:b
  ! produce  custom:tok:a
  ! retry a
  root a blocked_by_dependency: dependency failed for custom:tok:a
c cancelled, awaits_actions
  ! produce  custom:tok:a
  ! retry c
  root c cancelled: cancelled
d blocked_by_dependency, awaits_actions
  dependencies: dependency failed for job c (cancelled) (final) [c] <- a retry of what failed
  ! produce  custom:tok:a
  ! retry c
  root c cancelled: cancelled`},
		"makers": {absent(), kernel.Limits{}, []kernel.Job{job("a", needs(tok)), job("b", after("a"), produces(tok)), job("c", after("x"), produces(tok)), job("d", after("x"), produces(tok)), job("x", running(1))}, `a waiting_on_deps, starts
  dependencies: waiting on custom:tok:a [b] [custom:tok:a] <- job c, waiting_on_deps
b waiting_on_deps, starts
  dependencies: waiting on job a [a] <- job a, waiting_on_deps
c waiting_on_deps, starts
  dependencies: waiting on job x [x] <- job x, running
d waiting_on_deps, starts
  dependencies: waiting on job x [x] <- job x, running
x running, none`},
		"makers that wait for their consumer": {absent(), kernel.Limits{}, []kernel.Job{job("a", needs(tok)), job("b", after("a"), produces(tok)), job("c", after("a"), produces(tok))}, `a waiting_on_deps, awaits_actions
  dependencies: waiting on custom:tok:a [b] [custom:tok:a] <- another job that produces it: b, waiting_on_deps, waits for this one
  ! produce  custom:tok:a
b waiting_on_deps, awaits_actions
  dependencies: waiting on job a [a] <- job a, waiting_on_deps
  ! produce  custom:tok:a
c waiting_on_deps, awaits_actions
  dependencies: waiting on job a [a] <- job a, waiting_on_deps
  ! produce  custom:tok:a`},
		"what may be made by another": {absent(), kernel.Limits{}, []kernel.Job{job("a", failed, produces(tok)), job("b", needs(tok), policy(kernel.Wait))}, `a failed, awaits_actions
  ! retry a
  root a failed: exit code 3
b blocked_by_dependency, awaits_actions
  dependencies: dependency failed for custom:tok:a (final) [a] [custom:tok:a] <- a retry of what failed, or another job that produces it
  ! retry a
  root a failed: exit code 3`},
		"what makes what it needs": {absent(), kernel.Limits{}, []kernel.Job{job("a", ended(kernel.BlockedByDependency), func(j *kernel.Job) { j.State.Reason = "missing it" }, needs(tok), produces(tok)), job("b", needs(tok))}, `a blocked_by_dependency, awaits_actions
  dependencies: missing custom:tok:a (final) [custom:tok:a] <- a job that produces it, then a retry
  ! produce  custom:tok:a
  ! retry a
  root a blocked_by_dependency: missing it
b blocked_by_dependency, awaits_actions
  dependencies: dependency failed for custom:tok:a (final) [a] [custom:tok:a] <- a retry of what failed
  ! produce  custom:tok:a
  ! retry a
  root a blocked_by_dependency: missing it`},
		"a job that makes again what there is": {marked(facts(), tok, "a"), kernel.Limits{}, []kernel.Job{job("a", ended(kernel.Succeeded), produces(tok)), job("b", needs(tok), produces(tok)), job("c", needs(tok))}, `a succeeded, none
b running, none
c waiting_on_deps, starts
  dependencies: waiting on custom:tok:a [b] [custom:tok:a] <- job b, running`},
		"preconditions": {dirty, kernel.Limits{}, []kernel.Job{job("a", pre(kernel.Precondition{Kind: kernel.BranchExists, Branch: "main"}, kernel.Precondition{Kind: kernel.CleanWorktree}, kernel.Precondition{Kind: kernel.BranchExists, Branch: "gone"})),
			job("b", pre(kernel.Precondition{Kind: kernel.BranchExists, Branch: "gone"}, kernel.Precondition{Kind: kernel.CleanWorktree}))}, `a waiting_on_deps, awaits_actions, waits for a tick for a
  preconditions: working tree has uncommitted or untracked changes <- the repository
  preconditions: required branch 'gone' does not exist <- the repository
  ! clean_tree
  ! make_branch  gone
b waiting_on_deps, awaits_actions, waits for a tick for b
  preconditions: required branch 'gone' does not exist <- the repository
  preconditions: working tree has uncommitted or untracked changes <- the repository
  ! make_branch  gone
  ! clean_tree`},
		"runners that are not heard of": {stalled, kernel.Limits{}, []kernel.Job{job("a", running(1), locks(excl("x"))), job("b", running(1), locks(excl("y")), func(j *kernel.Job) { j.State.Stop.At = t0 }), job("c", running(1), locks(excl("z"))), job("d", locks(excl("x"), excl("y"), excl("z")))}, `a running, none
  : its runner has not been heard of for longer than it should be <- its executor, once it is heard of or known to be gone
b running, none
  : its runner has not been heard of for longer than it should be <- its executor, once it is heard of or known to be gone
c running, none
d waiting_on_locks, awaits_actions
  locks: waiting on locks <- job a, running (x); b, running (y); c, running (z)
  ! see_to_runner a`},
		"lines for locks": {facts(), kernel.Limits{Pools: map[string]int{"gpu": 2}}, []kernel.Job{job("a", running(1), locks(excl("x"), excl("y"))), job("b", locks(excl("x"), excl("y"))), job("c", locks(excl("y"))), job("d", locks(excl("x"))), job("e", locks(excl("y"), excl("x"))),
			job("f", locks(excl("x"), pool("gpu", 3))), job("g", locks(shared("z"), excl("y"), excl("x"))), job("h", locks(shared("z")))}, `a running, none
b waiting_on_locks, starts
  locks: waiting on locks <- job a, running (x)
c waiting_on_locks, starts
  locks: waiting on locks <- job a, running (y); b, waiting_on_locks (y)
d waiting_on_locks, starts
  locks: waiting on locks <- job a, running (x); b, waiting_on_locks (x)
e waiting_on_locks, starts
  locks: waiting on locks <- job a, running (x); b, waiting_on_locks (x); c, waiting_on_locks (y); d, waiting_on_locks (x)
f waiting_on_locks, awaits_actions
  locks: waiting on pool gpu (needs 3 of 2: more than it has) <- a larger pool gpu
  ! enlarge_pool f gpu 3
g waiting_on_locks, starts
  locks: waiting on locks <- job a, running (x); b, waiting_on_locks (x); c, waiting_on_locks (y); d, waiting_on_locks (x); and others that came before it
h running, none`},
		"limits that were lowered": {facts(), kernel.Limits{MaxRunning: 1, Executors: map[string]int{"far": 2}}, []kernel.Job{job("a", running(1)), job("b", running(1)), job("c"), job("d", running(1), at("far")), job("e", running(1), at("far")), job("f", running(1), at("far")), job("g", running(1), at("far")), job("h", at("far"))}, `a running, none
b running, none
c waiting_on_locks, starts
  locks: waiting on pool max_running (2 of 1 in use) <- 2 running jobs: there is room once 2 of them have ended
d running, none
e running, none
f running, none
g running, none
h waiting_on_locks, starts
  locks: waiting on pool max_running of far (4 of 2 in use) <- 4 running jobs: there is room once 3 of them have ended`},
		"what an end woke": {facts(), kernel.Limits{}, []kernel.Job{job("a", failed, inRun("r"), routes(kernel.OutcomeFailed, "h")), job("b", after("a"), inRun("r")), job("h", awake, routes(kernel.OutcomeSucceeded, "a"), inRun("r"), approval(kernel.Pending, ""))}, `a failed, awaits_actions
  : waiting for what its end woke: exit code 3 [h] <- job h, waiting_on_approval
  ! approve h
b blocked_by_dependency, awaits_actions
  : waiting for what its end woke: dependency failed for job a (failed) [h] <- job h, waiting_on_approval
  ! approve h
h waiting_on_approval, awaits_actions
  approval: awaiting human approval <- a person
  ! approve h`},
		"what an end woke runs": {facts(), kernel.Limits{}, []kernel.Job{job("a", failed, inRun("r"), routes(kernel.OutcomeFailed, "h")), job("b", after("a"), inRun("r")), job("h", awake, routes(kernel.OutcomeSucceeded, "a"), inRun("r"), running(1))}, `a failed, settles
  : waiting for what its end woke: exit code 3 [h] <- job h, running
b blocked_by_dependency, settles
  : waiting for what its end woke: dependency failed for job a (failed) [h] <- job h, running
h running, none`},
		"what comes before what was cancelled": {facts(), kernel.Limits{}, []kernel.Job{job("a", failed), job("c", ended(kernel.Cancelled), after("t", "u")), job("t", transient(kernel.OnDemand), is(kernel.Unscheduled), after("a")), job("u", transient(kernel.OnDemand), is(kernel.Unscheduled), after("t")),
			job("v", transient(kernel.OnDemand), is(kernel.Unscheduled)), job("w", ended(kernel.Cancelled), after("v")), job("x", after("gone")), job("y", ended(kernel.Cancelled), after("x")), job("z", approval(kernel.Rejected, "no"), after("a"))}, `a failed, awaits_actions
  ! retry a
  root a failed: exit code 3
c cancelled, awaits_actions
  ! retry a
  root c cancelled: cancelled
t unscheduled, sleeps
  : nobody needs it <- a job that depends on it and is not transient
u unscheduled, sleeps
  : nobody needs it <- a job that depends on it and is not transient
v unscheduled, sleeps
  : nobody needs it <- a job that depends on it and is not transient
w cancelled, awaits_actions
  ! retry w
  root w cancelled: cancelled
x blocked_by_dependency, awaits_actions
  dependencies: missing job dependency gone (final) [gone] <- a new submission
  ! submit_again x names job gone, which is gone, so a retry is no use
  root x blocked_by_dependency: missing job dependency gone
y cancelled, awaits_actions
  ! submit_again x names job gone, which is gone, so a retry is no use
  root y cancelled: cancelled
z blocked_by_dependency, awaits_actions
  dependencies: dependency failed for job a (failed) (final) [a] <- a retry of what failed
  approval: no (final) <- a retry, which asks for the approval anew
  ! retry a
  ! approve z
  root a failed: exit code 3`},
		"what can never start": {facts(), kernel.Limits{}, []kernel.Job{job("a", failed), job("b", after("a", "gone")), job("c", after("b")), job("d", after("a", "b"))}, `a failed, awaits_actions
  ! retry a
  root a failed: exit code 3
b blocked_by_dependency, awaits_actions
  dependencies: dependency failed for job a (failed) (final) [a] <- a retry of what failed
  dependencies: missing job dependency gone (final) [gone] <- a new submission
  ! submit_again b names job gone, which is gone, so a retry is no use
  root a failed: exit code 3
c blocked_by_dependency, awaits_actions
  dependencies: dependency failed for job b (blocked_by_dependency) (final) [b] <- a retry of what failed
  ! submit_again b names job gone, which is gone, so a retry is no use
  root a failed: exit code 3
d blocked_by_dependency, awaits_actions
  dependencies: dependency failed for job a (failed) (final) [a] <- a retry of what failed
  dependencies: dependency failed for job b (blocked_by_dependency) (final) [b] <- a retry of what failed
  ! submit_again b names job gone, which is gone, so a retry is no use
  ! retry a
  root a failed: exit code 3`},
	} {
		s := kernel.NewSnapshot(kernel.Observation{Now: t0.Add(time.Hour), Jobs: c.jobs, Facts: c.facts, Limits: c.limits})
		if got := explained(t, s); got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, c.want)
		}
	}
	if _, err := kernel.Explain(snapshot(facts()), "none"); !errors.Is(err, kernel.ErrNotFound) {
		t.Errorf("no job: %v", err)
	}
}

// What is said of a running job: what its executor says, or why that cannot be asked.
func TestWhatIsSaidOfARunner(t *testing.T) {
	t.Parallel()
	began := t0.Add(time.Minute)
	for name, c := range map[string]struct {
		runner    kernel.Fact[kernel.Runner]
		result    kernel.Fact[*kernel.Result]
		executor  string
		want      string
		submitted bool
		began     time.Time
	}{
		"it lives":                        {runner: kernel.Seen(kernel.Runner{Liveness: kernel.Alive}), began: t0},
		"it lives elsewhere":              {runner: kernel.Seen(kernel.Runner{Liveness: kernel.Alive, Began: began}), executor: "far", began: began},
		"nobody asked":                    {began: t0},
		"it is handed over":               {runner: kernel.Seen(kernel.Runner{Liveness: kernel.Alive, Pending: true, Remark: "in line"}), executor: "far", want: "in line <- its executor", submitted: true},
		"it waits for a change":           {runner: kernel.Seen(kernel.Runner{Liveness: kernel.Alive, Stuck: true, Remark: "held"}), want: "held <- a change of what this names; then it goes on by itself", began: t0},
		"it will not begin":               {runner: kernel.Seen(kernel.Runner{Liveness: kernel.Alive, Stuck: true, Pending: true, Remark: "held"}), want: "held <- its executor", submitted: true},
		"it has a remark":                 {runner: kernel.Seen(kernel.Runner{Liveness: kernel.Stalled, Remark: "slow"}), want: "slow <- its executor", began: t0},
		"it is quiet":                     {runner: kernel.Seen(kernel.Runner{Liveness: kernel.Stalled}), want: "its runner has not been heard of for longer than it should be <- its executor, once it is heard of or known to be gone", began: t0},
		"it cannot be asked":              {runner: kernel.Unseen[kernel.Runner]("no route"), want: "its runner cannot be asked for: no route <- its executor, once it can be asked again", began: t0},
		"it is gone":                      {runner: kernel.Seen(kernel.Runner{Liveness: kernel.Dead}), want: "its runner is gone, and nobody has settled it yet <- the next command that may write", began: t0},
		"it is gone, and why":             {runner: kernel.Seen(kernel.Runner{Liveness: kernel.Dead, Remark: "killed"}), want: "killed <- the next command that may write", began: t0},
		"it never began here":             {runner: kernel.Seen(kernel.Runner{Liveness: kernel.NeverStarted}), want: "its last launch was refused: its runner ended before it began <- time: tried again soon", began: t0},
		"it never began elsewhere":        {runner: kernel.Seen(kernel.Runner{Liveness: kernel.NeverStarted}), executor: "far", want: "its last launch was refused: its runner ended before it began <- time: tried again soon", submitted: true},
		"what it left cannot be read":     {runner: kernel.Seen(kernel.Runner{Liveness: kernel.Dead}), result: kernel.Unseen[*kernel.Result]("torn"), want: "its runner is gone, and whether it left a result cannot be read: torn <- the next command, once it can be read", began: t0},
		"it lives, and a result is there": {runner: kernel.Seen(kernel.Runner{Liveness: kernel.Alive}), result: kernel.Unseen[*kernel.Result]("torn"), began: t0},
	} {
		j := job("a", running(1), func(j *kernel.Job) { j.Spec.Task.Executor = c.executor })
		ended := job("b", is(kernel.Succeeded), func(j *kernel.Job) { j.State.Attempt, j.State.Started = 1, t0 })
		f := facts()
		for _, a := range []kernel.AttemptID{j.Attempt(), ended.Attempt()} {
			f.Runners[a], f.Results[a] = c.runner, c.result
		}
		s := snapshot(f, j, ended)
		got := ""
		e, err := kernel.Explain(s, "a")
		for _, u := range e.Unmet {
			got += u.Detail + " <- " + u.Clears
		}
		remark, _, _ := strings.Cut(c.want, " <- ")
		if c.runner.Value.Liveness == kernel.NeverStarted { // the tick that Explain begins with settles it
			remark = "its runner is gone, and nobody has settled it yet"
		}
		if err != nil || got != c.want || s.Remark("a") != remark || s.Submitted("a") != c.submitted || !s.Began(s.Job("a")).Equal(c.began) {
			t.Errorf("%s: %v, %q, %q, submitted %t, began %v; want %q", name, err, got, s.Remark("a"), s.Submitted("a"), s.Began(s.Job("a")), c.want)
		}
		for _, id := range []kernel.JobID{"b", "none"} {
			if s.Remark(id) != "" || s.Submitted(id) {
				t.Errorf("%s: of %s, which does not run: %q, submitted %t", name, id, s.Remark(id), s.Submitted(id))
			}
		}
		if !s.Began(s.Job("b")).Equal(t0) {
			t.Errorf("%s: what ended began at %v", name, s.Began(s.Job("b")))
		}
	}
}
