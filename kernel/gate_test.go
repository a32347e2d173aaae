package kernel_test

import (
	"slices"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Seed 000, "Gate order": each job is held up by a gate and every gate behind
// it, so that only the order explains the answer. Rows are in gate order, and
// each row's options are the last ones dropped from the front.
func TestGateOrder(t *testing.T) {
	const x = "custom:t:x"
	f := marked(facts(), x)
	f.Heads["main"] = kernel.Seen(kernel.CommitID("c2"))
	f.Clean = kernel.Seen(false)
	holders := []kernel.Job{job("failed", is(kernel.Failed)), job("busy", is(kernel.Running)),
		job("maker", is(kernel.Running), produces(x), locks(excl("k")))}
	dirty := kernel.Precondition{Kind: kernel.CleanWorktree}
	behind := []struct {
		blocks, waits option // nil if the gate never does that
		block, wait   string
	}{
		{after("failed"), after("busy"), "blocked_by_dependency dependencies: dependency failed for job failed (failed)", "waiting_on_deps dependencies: waiting on job busy"},
		{needs("custom:t:none"), needs(x), "blocked_by_dependency dependencies: missing custom:t:none", "waiting_on_deps dependencies: waiting on " + x},
		{nil, pinned("main", "c1"), "", "waiting_on_deps pinned_head: pinned head mismatch on main"},
		{pre(kernel.Precondition{Kind: kernel.CustomPrecondition, ID: "odd"}), pre(dirty),
			"blocked_by_dependency preconditions: custom precondition `odd` is not supported by scheduler runtime",
			"waiting_on_deps preconditions: working tree has uncommitted or untracked changes"},
		{approval(kernel.Rejected, "no"), approval(kernel.Pending, ""), "blocked_by_approval approval: no", "waiting_on_approval approval: awaiting human approval"},
		{nil, locks(excl("k")), "", "waiting_on_locks locks: waiting on locks"},
		{noArgs, nil, "failed dependencies: missing child args", ""},
	}
	f.Markers[artifact("custom:t:none")] = kernel.Seen[[]kernel.JobID](nil)
	hold := func(from int, first option) []option {
		out := []option{first}
		for _, g := range behind[from+1:] {
			if g.waits != nil {
				out = append(out, g.waits)
			} else {
				out = append(out, g.blocks)
			}
		}
		return out
	}
	for i, g := range behind {
		if g.blocks != nil {
			expect(t, snapshot(f, append(holders, job("q", hold(i, g.blocks)...))...), "q", g.block)
		}
		if g.waits != nil {
			expect(t, snapshot(f, append(holders, job("q", hold(i, g.waits)...))...), "q", g.wait)
		}
	}
	expect(t, snapshot(f, append(holders, job("q"))...), "q", "running")
}

func TestPinnedHead(t *testing.T) {
	for _, c := range []struct {
		head kernel.Fact[kernel.CommitID]
		want string
	}{
		{kernel.Seen(kernel.CommitID("c1")), "running"},
		{kernel.Seen(kernel.CommitID("c2")), "waiting_on_deps pinned_head: pinned head mismatch on main"},
		{kernel.Seen(kernel.CommitID("")), "waiting_on_deps pinned_head: pinned head mismatch on main"},
		{kernel.Unseen[kernel.CommitID]("no repository"), "waiting_on_deps pinned_head: pinned head mismatch on main"},
		{kernel.Fact[kernel.CommitID]{}, "waiting_on_deps pinned_head: pinned head mismatch on main"},
	} {
		f := facts()
		f.Heads["main"] = c.head
		expect(t, snapshot(f, job("q", pinned("main", "c1"))), "q", c.want)
	}
}

// What each precondition looks at, and its reasons (seed 000 and the original).
func TestPreconditions(t *testing.T) {
	f := facts()
	f.Heads["main"], f.Heads["here"] = kernel.Seen(kernel.CommitID("c1")), kernel.Seen(kernel.CommitID("c1"))
	f.Heads["gone"], f.Heads["bad"] = kernel.Seen(kernel.CommitID("")), kernel.Unseen[kernel.CommitID]("no repository")
	dirty, unclear, detached, headless, onGone := f, f, f, f, f
	dirty.Clean = kernel.Seen(false)
	unclear.Clean = kernel.Unseen[bool]("no repository")
	detached.Head = kernel.Seen("")
	headless.Head = kernel.Unseen[string]("no repository")
	onGone.Head = kernel.Seen("gone")
	clean := pre(kernel.Precondition{Kind: kernel.CleanWorktree})
	cleanByID := pre(kernel.Precondition{Kind: kernel.CustomPrecondition, ID: "clean_worktree"})
	exists := func(branch string) option {
		return pre(kernel.Precondition{Kind: kernel.BranchExists, Branch: branch})
	}
	existsByID := func(branch string) option {
		return pre(kernel.Precondition{Kind: kernel.CustomPrecondition, ID: "branch_exists", Branch: branch})
	}
	const waits, blocks = "waiting_on_deps preconditions: ", "blocked_by_dependency preconditions: "
	for _, c := range []struct {
		name  string
		facts kernel.Facts
		job   kernel.Job
		want  string
	}{
		{"clean", f, job("q", clean), "running"},
		{"dirty", dirty, job("q", clean), waits + "working tree has uncommitted or untracked changes"},
		{"unclear", unclear, job("q", clean), waits + "cannot tell whether the working tree is clean: no repository"},
		{"custom clean", f, job("q", cleanByID), "running"},
		{"custom dirty", dirty, job("q", cleanByID), waits + "custom precondition clean_worktree failed: working tree has uncommitted or untracked changes"},
		{"branch", f, job("q", exists("here")), "running"},
		{"branch gone", f, job("q", exists("gone")), waits + "required branch `gone` does not exist"},
		{"branch unobservable", f, job("q", exists("bad")), waits + "cannot tell whether branch `bad` exists: no repository"},
		{"branch not observed", f, job("q", exists("new")), waits + "cannot tell whether branch `new` exists: not observed"},
		{"branch of the pinned head", f, job("q", exists(""), pinned("here", "c1"), locks(excl("branch:gone"))), "running"},
		{"own branch before the pinned one", f, job("q", exists("gone"), pinned("here", "c1")), waits + "required branch `gone` does not exist"},
		{"branch of the lock", onGone, job("q", exists(""), locks(excl("branch:here"), excl("other"))), "running"},
		{"branch of the lock gone", f, job("q", exists(""), locks(shared("branch:gone"))), waits + "required branch `gone` does not exist"},
		{"two branch locks", onGone, job("q", exists(""), locks(excl("branch:here"), excl("branch:main"))), waits + "required branch `gone` does not exist"},
		{"one branch locked twice", onGone, job("q", exists(""), locks(excl("branch:here"), shared("branch:here"))), "running"},
		{"branch checked out", f, job("q", exists("")), "running"},
		{"branch checked out gone", onGone, job("q", exists("")), waits + "required branch `gone` does not exist"},
		{"detached", detached, job("q", exists("")), blocks + "branch_exists precondition requires branch context (set precondition.branch, pinned_head, or a single branch lock)"},
		{"no head", headless, job("q", exists("")), waits + "cannot tell which branch is checked out: no repository"},
		{"custom branch", f, job("q", existsByID("here")), "running"},
		{"custom branch gone", f, job("q", existsByID("gone")), waits + "custom precondition branch_exists failed: `gone` missing"},
		{"custom detached", detached, job("q", existsByID("")), blocks + "custom precondition branch_exists requires `branch` arg or branch context"},
		{"unknown", f, job("q", pre(kernel.Precondition{Kind: kernel.CustomPrecondition, ID: "odd"})), blocks + "custom precondition `odd` is not supported by scheduler runtime"},
		{"the first decides", dirty, job("q", pre(kernel.Precondition{Kind: kernel.BranchExists, Branch: "gone"}, kernel.Precondition{})), waits + "required branch `gone` does not exist"},
		{"the second decides", dirty, job("q", pre(kernel.Precondition{Kind: kernel.BranchExists, Branch: "here"}, kernel.Precondition{})), waits + "working tree has uncommitted or untracked changes"},
	} {
		t.Run(c.name, func(t *testing.T) { expect(t, snapshot(c.facts, c.job), "q", c.want) })
	}
}

func TestApprovalGate(t *testing.T) {
	for _, c := range []struct {
		approval option
		want     string
	}{
		{approval(kernel.NotRequired, ""), "running"},
		{approval(kernel.Pending, ""), "waiting_on_approval approval: awaiting human approval"},
		{approval(kernel.Approved, ""), "waiting_on_approval approval: approved without saying what: approve it again"},
		{approval(kernel.Rejected, ""), "blocked_by_approval approval: approval rejected"},
		{approval(kernel.Rejected, "too risky"), "blocked_by_approval approval: too risky"},
	} {
		expect(t, snapshot(facts(), job("q", c.approval)), "q", c.want)
	}
}

// Seed 000, K16: waited_on gathers kinds in the order in which the job met
// them. A start clears the reason and keeps the set.
func TestWaitedOnAccumulates(t *testing.T) {
	f := facts()
	j := job("q", after("p"), approval(kernel.Pending, ""), locks(excl("k")))
	p, holder := job("p", is(kernel.Running)), job("h", is(kernel.Running), locks(excl("k")))
	now := t0
	step := func(want string, kinds ...kernel.WaitKind) {
		t.Helper()
		now = now.Add(time.Hour)
		s := kernel.NewSnapshot(kernel.Observation{Now: now, Jobs: []kernel.Job{p, holder, j}, Facts: f})
		d, next := decided(t, s, "q")
		if got := said(d.Next, d.Reason); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if got := next.State.WaitedOn.Kinds(); !slices.Equal(got, kinds) {
			t.Errorf("waited on %v, want %v", got, kinds)
		}
		j = *next
	}
	step("waiting_on_deps dependencies: waiting on job p", kernel.OnDependencies)
	since := j.State.WaitSince
	step("waiting_on_deps dependencies: waiting on job p", kernel.OnDependencies)
	if !j.State.WaitSince.Equal(since) || since.IsZero() {
		t.Errorf("waiting since %v, then since %v for the same reason", since, j.State.WaitSince)
	}
	p.State.Status = kernel.Succeeded
	step("waiting_on_approval approval: awaiting human approval", kernel.OnDependencies, kernel.OnApproval)
	j.State.Approval.State = kernel.Approved
	j = granted(j)
	step("waiting_on_locks locks: waiting on locks", kernel.OnDependencies, kernel.OnApproval, kernel.OnLocks)
	p.State.Status = kernel.Running
	step("waiting_on_deps dependencies: waiting on job p", kernel.OnDependencies, kernel.OnApproval, kernel.OnLocks)
	p.State.Status, holder.State.Status = kernel.Succeeded, kernel.Succeeded
	step("running", kernel.OnDependencies, kernel.OnApproval, kernel.OnLocks)
	if !j.State.WaitSince.IsZero() || j.State.Started != now || j.State.Attempt != 1 {
		t.Errorf("started as %+v", j.State)
	}
}

// Seed 000: a record without a command is a data error, finalised at once, and
// its dependents learn of it in the same tick.
func TestMissingChildArgs(t *testing.T) {
	s := snapshot(facts(), job("a", after("q")), job("q", noArgs))
	_, q := decided(t, s, "q")
	st := q.State
	if st.Status != kernel.Failed || st.Exit != kernel.Exited(1) || st.Outcome != kernel.OutcomeFailed ||
		st.Failure != kernel.DataError || st.Reason != "missing child args" || !st.Finished.Equal(s.Now()) || st.Attempt != 0 {
		t.Errorf("%+v", st)
	}
	if kinds := st.WaitedOn.Kinds(); len(kinds) > 0 {
		t.Errorf("waited on %v, want nothing", kinds)
	}
	expect(t, s, "a", "blocked_by_dependency dependencies: dependency failed for job q (failed)")
}

// A terminal job is never judged again, whatever its gates would say.
func TestTerminalJobsAreLeftAlone(t *testing.T) {
	for _, s := range kernel.Statuses() {
		if p := kernel.Decide(snapshot(facts(), job("q", is(s), after("gone")))); s.Terminal() && len(p.Decisions)+len(p.Actions()) > 0 {
			t.Errorf("%s: %+v", s, p)
		}
	}
}
