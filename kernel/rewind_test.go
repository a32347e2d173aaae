package kernel_test

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Seed 000: the retry set is the root and all its dependents over both kinds of
// edges. Predecessors are not touched.
func TestRetrySet(t *testing.T) {
	const x, y = "custom:t:x", "custom:t:y"
	s := snapshot(facts(),
		job("f", is(kernel.Queued), needs(y)),
		job("e", is(kernel.WaitingOnDeps), after("c"), produces(y)),
		job("d", is(kernel.BlockedByDependency), needs(x), after("p")),
		job("c", is(kernel.Failed), produces(x), after("a", "b")),
		job("b", is(kernel.Succeeded)), job("a", is(kernel.Failed)),
		job("g", after("a")), job("p", is(kernel.Succeeded)))
	set, err := kernel.RetryOf(s, "c")
	if err != nil {
		t.Fatal(err)
	}
	if got := words(set.Jobs); got != "c d e f" {
		t.Errorf("retry set %s", got)
	}
	if got := words(set.Succeeded); got != "b" {
		t.Errorf("last successful point %s", got)
	}
	want := map[kernel.JobID]string{"c": "asked for", "d": "needs " + x + " of c", "e": "runs after c", "f": "needs " + y + " of e"}
	if !reflect.DeepEqual(set.Why, want) {
		t.Errorf("why: %v", set.Why)
	}
	p, err := kernel.Retry(s, "c", "ann")
	if err != nil {
		t.Fatal(err)
	}
	next := s.Apply(p)
	for _, j := range next.Jobs() {
		rewound := slices.Contains(set.Jobs, j.ID)
		if old := s.Job(j.ID); rewound != (j.State.Generation == 1) || !rewound && j.State != old.State {
			t.Errorf("%s: %+v", j.ID, j.State)
		}
	}
}

// Several roots at once: a dependent of two of them starts one new generation,
// after both, and a root that an earlier set includes needs no set of its own.
func TestRetryAll(t *testing.T) {
	s := snapshot(facts(), job("a", is(kernel.Failed)), job("b", is(kernel.Failed)), job("c", is(kernel.BlockedByDependency), after("a", "b")),
		job("d", is(kernel.Failed), after("a")), job("e", is(kernel.Failed)))
	sets, p, err := kernel.RetryAll(s, []kernel.JobID{"a", "d", "b"}, "ann")
	var got []string
	for _, set := range sets {
		got = append(got, string(set.Of)+": "+words(set.Jobs))
	}
	if want := "a: a c d; b: b"; err != nil || strings.Join(got, "; ") != want {
		t.Errorf("%q, want %q, %v", strings.Join(got, "; "), want, err)
	}
	next := s.Apply(p)
	for id, generation := range map[kernel.JobID]int{"a": 1, "b": 1, "c": 1, "d": 1, "e": 0} {
		if st := next.Job(id).State; st.Generation != generation {
			t.Errorf("%s has %d generations", id, st.Generation)
		}
	}
	running := snapshot(facts(), job("a", is(kernel.Failed)), job("b", running(1)))
	if _, p, err := kernel.RetryAll(running, []kernel.JobID{"a", "b"}, "ann"); !errors.Is(err, kernel.ErrRunning) || !p.Empty() {
		t.Errorf("%+v, %v", p, err)
	}
}

// The root comes first even if it is the youngest.
func TestRetrySetStartsWithItsRoot(t *testing.T) {
	set, err := kernel.RetryOf(snapshot(facts(), job("z"), job("a", after("z")), job("b", after("a"))), "z")
	if got := words(set.Jobs); err != nil || got != "z a b" {
		t.Errorf("%s %v", got, err)
	}
}

// A rewound job keeps its attempt number, its record's identity, its spec and
// amendments, its growth steps, its prompt's name, the usage of its agents,
// whether it closed a cycle, and its need for an approval; nothing else. The
// test fills every field of State, so that each new field has to be considered
// here.
func TestRewindKeepsNothingButTheAttempt(t *testing.T) {
	full := kernel.State{
		Status: kernel.Failed, Wait: kernel.WaitReason{Kind: kernel.OnLocks, Detail: "d"}, WaitSince: t0,
		WaitedOn: kernel.WaitSet{}.With(kernel.OnLocks), Attempt: 7, Generation: 3,
		Approval: kernel.Approval{State: kernel.Approved, RequestedAt: t0, RequestedBy: "x", DecidedAt: t0, DecidedBy: "y", Reason: "z", Grant: &kernel.Grant{Digest: "d"}},
		Spent:    kernel.Budget{Retries: 1, Resumes: 2, Reclaims: 3}, Routed: 2, Deferred: true, Lost: 6, Stalled: 5, Refused: 3, RetryAt: t0, Requeued: t0, LastError: "x", Started: t0, Finished: t0,
		Exit: kernel.Exited(1), Outcome: kernel.OutcomeFailed, Failure: kernel.Signal, Reason: "r",
		Stop: kernel.StopRequest{At: t0, By: "x"}, Context: kernel.Context{Root: "w", Worktree: "w", Name: "n", Branch: "b", Owned: true},
		Cancelled: kernel.Cleanup{Status: kernel.CleanupDone, Error: "e"}, Retried: kernel.Cleanup{Status: kernel.CleanupFailed, Error: "e"},
		Removed: t0, Awake: true, Prompt: kernel.PromptState{Named: kernel.ErrorPrompt, Archived: true}, Amended: kernel.Amendment{Made: true, Budget: kernel.Budget{Retries: 9}},
		Place: kernel.Place{Host: "h", PID: 3}, Agent: &kernel.AgentState{Last: kernel.AgentRun{Session: "s"}, Runs: 2, Turns: 3, Total: kernel.Usage{Input: 4}},
		Retired: true, Closed: true, Grown: kernel.Grown{Memory: 1, Time: 2},
	}
	for v, i := reflect.ValueOf(full), 0; i < v.NumField(); i++ {
		if v.Field(i).IsZero() {
			t.Errorf("State.%s is not filled in by this test", v.Type().Field(i).Name)
		}
	}
	for _, c := range []struct {
		change option
		want   kernel.Status
	}{
		{func(*kernel.Job) {}, kernel.Queued},
		{transient(kernel.OnDemand), kernel.Unscheduled},
		{transient(kernel.Remove), kernel.Unscheduled},
		{routed, kernel.Queued}, // a person asked for it, so it does not wait for its route
	} {
		j := job("q", c.change)
		j.State, j.Spec.Produces = full, artifacts("custom:t:x")
		j.State.Amended.Transient = j.Spec.Transient
		s := snapshot(marked(facts(), "custom:t:x", "other", "q"), j)
		p, err := kernel.Retry(s, "q", "ann")
		if err != nil {
			t.Fatal(err)
		}
		next := s.Apply(p)
		want := kernel.State{Status: c.want, Attempt: 7, Generation: 4, Approval: kernel.Require(s.Now(), "ann"), Awake: j.Spec.Routed,
			Amended: j.State.Amended, Prompt: full.Prompt, Closed: true, Grown: full.Grown}
		want.Approval.Submitter = "x"
		if agent := next.Job("q").State.Agent; agent == nil || agent.Total.Input != 4 || agent.Last.Session != "" {
			t.Errorf("of its agents is left %+v: its context is gone, and with it the conversation about it", agent)
		}
		want.Agent = next.Job("q").State.Agent
		if got := next.Job("q").State; got != want {
			t.Errorf("got %+v\nwant %+v", got, want)
		}
		if owners := next.Facts().Markers[artifact("custom:t:x")].Value; words(owners) != "other" {
			t.Errorf("markers of %v are left", owners)
		}
		if resets := actionsOf[kernel.Reset](p); len(resets) != 1 || resets[0].Attempt.N != 7 || len(resets[0].Produces) != 1 {
			t.Errorf("resets %+v", resets)
		}
		if gone := actionsOf[kernel.RemoveWorktree](p); len(gone) != 1 || gone[0].Context != full.Context || gone[0].Cancel {
			t.Errorf("worktrees %+v", gone)
		}
	}
}

// A rewind removes only worktrees that the job prepared itself (semantics
// 3.11).
func TestRewindLeavesOthersWorktreesAlone(t *testing.T) {
	j := job("q", is(kernel.Failed))
	j.State.Context = kernel.Context{Root: "w", Worktree: "w"}
	if p, err := kernel.Retry(snapshot(facts(), j), "q", "ann"); err != nil || len(actionsOf[kernel.RemoveWorktree](p)) > 0 {
		t.Errorf("%+v %v", p, err)
	}
}

// The logs that a rewind put away are not put away again, empty, when the next
// attempt starts.
func TestNoRotationAfterAReset(t *testing.T) {
	s := snapshot(facts(), job("q", is(kernel.Failed), func(j *kernel.Job) { j.State.Attempt, j.State.Started = 2, t0 }))
	retry, err := kernel.Retry(s, "q", "ann")
	if err != nil {
		t.Fatal(err)
	}
	tick := kernel.Decide(s.Apply(retry))
	if launched := actionsOf[kernel.Launch](tick); len(launched) != 1 || launched[0].Attempt.N != 3 {
		t.Errorf("launched %v", launched)
	}
	if rotated := actionsOf[kernel.Rotate](tick); len(rotated) > 0 {
		t.Errorf("rotated %v after %v", rotated, actionsOf[kernel.Reset](retry))
	}
}

func TestRetryRefusals(t *testing.T) {
	merging := facts()
	merging.Merging = kernel.Seen("cherry-pick")
	sentinel := produces("merge_sentinel:foo")
	alias := func(j *kernel.Job) { j.Spec.Origin.Alias, j.Spec.Origin.Plan = "merge", "foo" }
	for _, c := range []struct {
		name string
		s    *kernel.Snapshot
		err  error
		text string
	}{
		{"unknown", snapshot(facts(), job("p")), kernel.ErrNotFound, "retry q"},
		{"root running", snapshot(facts(), job("q", running(1))), kernel.ErrRunning, "cannot retry while jobs are running in the retry set: q (running)"},
		{"members running", snapshot(facts(), job("q"), job("a", running(1), after("q")), job("b", running(1), after("a"))), kernel.ErrRunning, "retry set: a (running), b (running)"},
		{"merge in progress", snapshot(merging, job("q", sentinel)), kernel.ErrConflict, "git cherry-pick --abort"},
		{"merge in progress, member", snapshot(merging, job("q"), job("a", after("q"), alias)), kernel.ErrConflict, "in progress"},
		{"merge in progress, lock", snapshot(merging, job("q", locks(excl("merge_sentinel:foo")))), kernel.ErrConflict, "in progress"},
		{"merge in progress, none of its business", snapshot(merging, job("q"), job("a", sentinel)), nil, ""},
		{"running elsewhere", snapshot(facts(), job("p", running(1)), job("q", after("p"))), nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := kernel.Retry(c.s, "q", "ann")
			if !errors.Is(err, c.err) || err != nil && (!strings.Contains(err.Error(), c.text) || len(p.Actions()) > 0) {
				t.Errorf("%v, %+v", err, p)
			}
		})
	}
	// Jobs of any other status can be rewound, also if they have not failed.
	for _, st := range kernel.Statuses() {
		if _, err := kernel.Retry(snapshot(facts(), job("q", is(st))), "q", "ann"); (err != nil) != (st == kernel.Running) {
			t.Errorf("%s: %v", st, err)
		}
	}
}

// Probes asks whether git is in the middle of a merge as soon as the rewind of
// some job depends on it.
func TestAMergeInProgressIsAskedFor(t *testing.T) {
	unknown := facts()
	unknown.Merging = kernel.Fact[string]{}
	if s := snapshot(unknown, job("q", is(kernel.Failed), produces("merge_sentinel:foo"))); !s.Probes().Merging {
		t.Error("not asked")
	}
	if s := snapshot(unknown, job("q", is(kernel.Failed))); s.Probes().Merging {
		t.Error("asked for nothing")
	}
}

// TestRetryOfAConflictGateKeepsTheConflict checks that only a rewind of the
// merge itself drops the conflict.
func TestRetryOfAConflictGateKeepsTheConflict(t *testing.T) {
	merging := func(j *kernel.Job) { j.Spec.Origin.Alias, j.Spec.Origin.Plan = "merge", "foo" }
	s := snapshot(facts(), job("gate", merging, routed, is(kernel.BlockedByDependency)), job("merge", merging, is(kernel.BlockedByDependency)))
	for id, clears := range map[kernel.JobID]int{"gate": 0, "merge": 1} {
		p, err := kernel.Retry(s, id, "ann")
		if got := len(actionsOf[kernel.ClearSentinel](p)); err != nil || got != clears {
			t.Errorf("a retry of %s clears %d sentinels: %v", id, got, err)
		}
	}
}

func TestRetryClearsSentinels(t *testing.T) {
	s := snapshot(facts(), job("q", needs("merge_sentinel:b"), produces("merge_sentinel:a")),
		job("r", after("q"), locks(excl("merge_sentinel:a"), excl("merge_sentinel:c"))), job("z", produces("merge_sentinel:z")))
	p, err := kernel.Retry(s, "q", "ann")
	if err != nil {
		t.Fatal(err)
	}
	var slugs []string
	for _, c := range actionsOf[kernel.ClearSentinel](p) {
		slugs = append(slugs, c.Slug)
	}
	if words(slugs) != "a b c" {
		t.Errorf("cleared %v", slugs)
	}
}

// Seed 000: worktree metadata is dropped only when the cleanup is confirmed.
func TestCleanedUp(t *testing.T) {
	c := kernel.Context{Root: ".vizier/tmp-worktrees/a", Worktree: ".vizier/tmp-worktrees/a", Name: "a", Branch: "b", Owned: true}
	for status, cleared := range map[kernel.CleanupStatus]bool{kernel.CleanupDone: true, kernel.CleanupSkipped: true,
		kernel.CleanupDegraded: false, kernel.CleanupFailed: false} {
		for _, cancel := range []bool{false, true} {
			result := kernel.Cleanup{Status: status, Error: "e"}
			s := snapshot(facts(), job("q"))
			p, err := kernel.CleanedUp(s, kernel.RemoveWorktree{Job: "q", Context: c, Cancel: cancel}, result)
			if err != nil {
				t.Fatal(err)
			}
			st := s.Apply(p).Job("q").State
			want := kernel.State{Retried: result}
			if cancel {
				want = kernel.State{Cancelled: result}
			}
			if !cleared {
				want.Context = c
			}
			if st != want {
				t.Errorf("%s, cancel %v: %+v", status, cancel, st)
			}
		}
	}
	if _, err := kernel.CleanedUp(snapshot(facts()), kernel.RemoveWorktree{Job: "q"}, kernel.Cleanup{}); !errors.Is(err, kernel.ErrNotFound) {
		t.Error(err)
	}
}

// Seed 000: each refusal says why, and a decision has its time and author.
func TestApproveAndReject(t *testing.T) {
	for _, c := range []struct {
		job  kernel.Job
		err  error
		text string
	}{
		{job("p"), kernel.ErrNotFound, " q: no such job"},
		{job("q", running(1), approval(kernel.Pending, "")), kernel.ErrConflict, "job q is running"},
		{job("q", is(kernel.Failed), approval(kernel.Pending, "")), kernel.ErrConflict, "job q has ended (failed) and waits for no approval: a retry asks for it anew: "},
		{job("q", is(kernel.Succeeded), approval(kernel.Approved, "")), kernel.ErrConflict, "job q has ended (succeeded) and waits for no approval: conflict"},
		{job("q", is(kernel.Failed)), kernel.ErrConflict, "job q has ended (failed) and waits for no approval: conflict"},
		{job("q"), kernel.ErrConflict, "job q is not configured for approval gating"},
		{granted(job("q", approval(kernel.Approved, ""))), kernel.ErrConflict, "job q is already approved"},
		{job("q", approval(kernel.Rejected, "")), kernel.ErrConflict, "job q approval is already rejected"},
	} {
		_, err := kernel.Approve(snapshot(facts(), c.job), "q", kernel.Consent{By: "ann"})
		_, err2 := kernel.Reject(snapshot(facts(), c.job), "q", kernel.Refusal{By: "ann"})
		for _, err := range []error{err, err2} {
			if !errors.Is(err, c.err) || !strings.Contains(err.Error(), c.text) {
				t.Errorf("%v, want %s", err, c.text)
			}
		}
	}
	asked := job("q", is(kernel.WaitingOnApproval))
	asked.State.Approval = kernel.Require(t0, "bob")
	s := snapshot(facts(), asked, job("r", after("q")))
	p, err := kernel.Approve(s, "q", kernel.Consent{By: "ann", How: "script"})
	if err != nil {
		t.Fatal(err)
	}
	want := kernel.Approval{State: kernel.Approved, RequestedAt: t0, RequestedBy: "bob", DecidedAt: s.Now(), DecidedBy: "ann"}
	got := s.Apply(p).Job("q").State.Approval
	if g := got.Grant; g == nil || *g != (kernel.Grant{How: "script", Digest: asked.Spec.Digest(), Statement: asked.Spec.Statement()}) {
		t.Errorf("granted %+v", g)
	}
	if got.Grant = nil; got != want {
		t.Errorf("%+v", got)
	}
	expect(t, s.Apply(p), "q", "running")
	for reason, detail := range map[string]string{"": "approval rejected", " too risky\n": "too risky"} {
		if p, err = kernel.Reject(s, "q", kernel.Refusal{By: "ann", How: "page", Reason: reason}); err != nil {
			t.Fatal(err)
		}
		st := s.Apply(p).Job("q").State
		if st.Approval.State != kernel.Rejected || st.Approval.DecidedBy != "ann" || st.Approval.How() != "page" || said(st.Status, st.Wait) != "blocked_by_approval approval: "+detail ||
			st.Exit != kernel.Exited(10) || !st.Finished.Equal(s.Now()) || len(st.WaitedOn.Kinds()) != 1 {
			t.Errorf("%+v", st)
		}
		expect(t, s.Apply(p), "r", "blocked_by_dependency dependencies: dependency failed for job q (blocked_by_approval)")
	}
}

// The end of an attempt that was cancelled removes the worktree if and only if the cancel
// asked for it and the worktree is the job's own.
func TestTheWorktreeOfACancelledAttempt(t *testing.T) {
	for _, cleanup := range []bool{false, true} {
		for _, owned := range []bool{false, true} {
			for _, outcome := range []kernel.Outcome{kernel.OutcomeCancelled, kernel.OutcomeSucceeded} {
				j := job("q", is(kernel.Running))
				j.State.Attempt, j.State.Context = 1, kernel.Context{Root: "w", Worktree: "w", Owned: owned}
				j.State.Stop = kernel.StopRequest{At: t0, By: "ann", Cleanup: cleanup}
				s := snapshot(facts(), j)
				p, err := kernel.Finish(s, kernel.Result{Attempt: j.Attempt(), Outcome: outcome})
				if err != nil {
					t.Fatal(err)
				}
				want := cleanup && owned && s.Apply(p).Job("q").State.Status == kernel.Cancelled
				gone := actionsOf[kernel.RemoveWorktree](p)
				if want != (len(gone) == 1 && gone[0].Cancel && gone[0].Context == j.State.Context) || !want && len(gone) > 0 {
					t.Errorf("cleanup %v, owned %v, %v: %+v", cleanup, owned, outcome, gone)
				}
			}
		}
	}
}

// Semantics 2, decision 13: cancel works on every job that is not terminal.
func TestCancel(t *testing.T) {
	owned := kernel.Context{Root: "w", Worktree: "w", Owned: true}
	for _, st := range kernel.Statuses() {
		for _, cleanup := range []bool{false, true} {
			j := job("q", is(st), locks(excl("k")))
			j.State.Attempt, j.State.Context, j.State.RetryAt = 1, owned, t0.AddDate(1, 0, 0)
			s := snapshot(facts(), j, job("r", after("q")), job("w", locks(excl("k"))))
			p, err := kernel.Cancel(s, "q", "ann", cleanup)
			next := s.Apply(p)
			got := next.Job("q").State
			switch {
			case st.Terminal():
				if !errors.Is(err, kernel.ErrConflict) || len(p.Actions()) > 0 {
					t.Errorf("%s: %v %+v", st, err, p)
				}
				continue
			case err != nil:
				t.Errorf("%s: %v", st, err)
			case st == kernel.Running:
				if got.Status != kernel.Running || got.Stop != (kernel.StopRequest{At: s.Now(), By: "ann", Cleanup: cleanup}) || len(actionsOf[kernel.Stop](p)) != 1 {
					t.Errorf("%+v", got)
				}
				expect(t, next, "w", "waiting_on_locks locks: waiting on locks")
				again, err := kernel.Cancel(next, "q", "bob", cleanup)
				if err != nil || next.Apply(again).Job("q").State != got || len(actionsOf[kernel.Stop](again)) != 1 {
					t.Errorf("a second cancel: %v %+v", err, again)
				}
				lost := snapshot(dead(facts(), j.Attempt(), nil), *next.Job("q"))
				expect(t, lost, "q", "cancelled")
			default:
				if got.Status != kernel.Cancelled || got.Exit != kernel.Exited(143) || got.Outcome != kernel.OutcomeCancelled ||
					!got.Finished.Equal(s.Now()) || !got.RetryAt.IsZero() || got.Reason != "cancelled by ann" {
					t.Errorf("%s: %+v", st, got)
				}
				if gone := actionsOf[kernel.RemoveWorktree](p); cleanup != (len(gone) == 1 && gone[0].Cancel && gone[0].Context == owned) {
					t.Errorf("%s: worktrees %+v", st, gone)
				}
				expect(t, next, "r", "blocked_by_dependency dependencies: dependency failed for job q (cancelled)")
				expect(t, next, "w", "running")
			}
		}
	}
	if _, err := kernel.Cancel(snapshot(facts()), "q", "ann", false); !errors.Is(err, kernel.ErrNotFound) {
		t.Error(err)
	}
}

// The snapshot after a plan reflects what the plan does to the world.
func TestAClearedSentinelIsGoneFromWhatIsKnown(t *testing.T) {
	f := facts()
	f.Present[artifact(sentinel)] = kernel.Seen(true)
	f.Present[artifact("merge_sentinel:other")] = kernel.Seen(true)
	s := snapshot(f, conflicting(kernel.BlockedByDependency)...)
	if got := s.WayOut("m"); got != "g" {
		t.Fatalf("the way out of an open conflict is %s", got)
	}
	if got := s.Apply(kernel.NewPlan(kernel.ClearSentinel{Job: "m", Slug: "other"})).WayOut("m"); got != "g" {
		t.Errorf("with another's sentinel cleared it is %s", got)
	}
	if got := s.Apply(kernel.NewPlan(kernel.ClearSentinel{Job: "m", Slug: "foo"})).WayOut("m"); got != "m" {
		t.Errorf("with the sentinel cleared it is %s", got)
	}
	if got := s.WayOut("m"); got != "g" {
		t.Errorf("the snapshot before has changed: %s", got)
	}
}

// A job that was approved asks for that again after a retry, so two commands start it. An approval
// because of a doubtful effect, which a retry settles, is not asked for again.
func TestRetryOfWhatWasApprovedNeedsAnApproval(t *testing.T) {
	retry, approve := kernel.Remedy{Kind: kernel.RetryJob, Job: "q"}, kernel.Remedy{Kind: kernel.ApproveJob, Job: "q"}
	for _, c := range []struct {
		approval kernel.Approval
		want     []kernel.Remedy
	}{
		{kernel.Approval{State: kernel.Approved}, []kernel.Remedy{retry, approve}},
		{kernel.Approval{State: kernel.Approved, InDoubt: true}, []kernel.Remedy{retry}},
		{kernel.Approval{}, []kernel.Remedy{retry}},
	} {
		j := job("q", is(kernel.Failed))
		j.State.Approval = c.approval
		e, err := kernel.Explain(snapshot(facts(), j), "q")
		if err != nil || !slices.Equal(e.Actions, c.want) {
			t.Errorf("%+v: %+v, %v; want %+v", c.approval, e.Actions, err, c.want)
		}
	}
}
