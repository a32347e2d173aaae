package kernel_test

import (
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// onBranch makes a job of a run for branch draft/p: of an operation, or of none.
func onBranch(run kernel.RunID, operation string) option {
	return func(j *kernel.Job) {
		j.Spec.Origin.Run, j.Spec.Origin.Plan, j.Spec.Origin.Branch, j.Spec.Origin.About.Operation = run, "p", "draft/p", operation
	}
}

func begun(at time.Time) option { return func(j *kernel.Job) { j.State.Started = at } }

// What makes a branch: a worktree of it, and what declares it.
func TestWhatMakesABranch(t *testing.T) {
	for _, c := range []struct {
		is   []option
		want bool
	}{
		{[]option{onBranch("r", "worktree.prepare")}, true},
		{[]option{onBranch("", "worktree.prepare")}, true},
		{[]option{onBranch("r", "git.integrate_plan_branch")}, false},
		{[]option{produces("custom:t:x", "plan_branch:p (draft/p)")}, true},
		{[]option{produces("plan_branch:q (draft/q)")}, false},
		{[]option{needs("plan_branch:p (draft/p)")}, false},
		{[]option{produces("plan_branch:q (draft/q)"), onBranch("r", "worktree.prepare"), func(j *kernel.Job) { j.Spec.Origin.Branch = "other" }}, false},
	} {
		j := job("a", c.is...)
		if got := j.Spec.MakesBranch("draft/p"); got != c.want {
			t.Errorf("%+v: %v", j.Spec, got)
		}
	}
}

// A job that a branch holds up starts in the tick in which a later one takes the branch whose run waits for it.
func TestATickFreesWhoABranchHeldUp(t *testing.T) {
	s := snapshot(facts(),
		job("a", onBranch("r1", "worktree.prepare"), is(kernel.Succeeded), begun(t0)),
		job("b", onBranch("r2", "worktree.prepare")),          // r1 took the branch
		job("c", onBranch("r3", "git.integrate_plan_branch")), // r1 waits for it
		job("d", onBranch("r3", ""), after("b")), job("e", onBranch("r1", ""), after("c")))
	s = s.Apply(kernel.Decide(s))
	for _, id := range []kernel.JobID{"b", "c"} {
		if st := s.Job(id).State; st.Status != kernel.Running {
			t.Errorf("%s is %s: %s", id, st.Status, st.Wait.Detail)
		}
	}
	if p := kernel.Decide(s); len(p.Actions()) > 0 {
		t.Errorf("a second tick: %+v", p.Actions())
	}
}

// One run at a time works on a branch.
func TestOneRunAtATimeWorksOnABranch(t *testing.T) {
	const tree, merge = "worktree.prepare", "git.integrate_plan_branch"
	ok, failed := is(kernel.Succeeded), is(kernel.Failed)
	blocked := func(j *kernel.Job) {
		j.State.Status, j.State.Outcome = kernel.BlockedByDependency, kernel.OutcomeBlocked
	}
	retired := func(j *kernel.Job) { j.State.Retired = true }
	elsewhere := func(j *kernel.Job) { j.Spec.Origin.Branch = "draft/q" }
	closed := func(j *kernel.Job) { j.State.Closed = true }
	inTree := func(j *kernel.Job) { j.State.Context.Worktree = "w" }
	gave := []option{needs("custom:t:made")}
	makes := job("m", onBranch("r1", ""), produces("custom:t:made"), ok)
	child := func(j *kernel.Job) { j.Spec.Origin.Parent = "b" }
	held := "waiting_on_deps dependencies: another run works on branch draft/p"
	for name, c := range map[string]struct {
		others []kernel.Job
		mine   []option
		want   string
	}{
		"at work":                                    {[]kernel.Job{job("a", onBranch("r1", tree), ok, begun(t0)), job("b", onBranch("r1", ""), after("a"), running(1))}, nil, held},
		"that waits for a person":                    {[]kernel.Job{job("a", onBranch("r1", tree), ok, begun(t0)), job("b", onBranch("r1", ""), after("a"), approval(kernel.Pending, ""))}, nil, held},
		"between two stages":                         {[]kernel.Job{job("a", onBranch("r1", tree), ok, begun(t0)), job("b", onBranch("r1", tree), pinned("b", "c"))}, nil, held},
		"beginning":                                  {[]kernel.Job{job("a", onBranch("r1", tree), running(1), begun(t0))}, nil, held},
		"that this tick begins":                      {[]kernel.Job{job("a", onBranch("r1", tree))}, nil, held},
		"that begins with the next lock":             {[]kernel.Job{job("l", running(1), locks(excl("x"))), job("a", onBranch("r1", tree), locks(excl("x")))}, nil, held},
		"whose merge is in conflict":                 {[]kernel.Job{job("a", onBranch("r1", merge), blocked, begun(t0)), job("b", onBranch("r1", ""), routed, func(j *kernel.Job) { j.State.Awake = true }, running(1))}, nil, held},
		"whose merge is blocked":                     {[]kernel.Job{job("a", onBranch("r1", merge), blocked, begun(t0))}, nil, held},
		"whose merge is blocked, behind a stage":     {[]kernel.Job{job("a", onBranch("r1", merge), blocked, begun(t0)), job("b", onBranch("r3", tree))}, []option{onBranch("r2", merge)}, held},
		"whose merge is blocked, for an older stage": {[]kernel.Job{job("a", onBranch("r1", merge), blocked, begun(t0.Add(time.Second)))}, []option{begun(t0)}, held},
		"blocked that needs what this one makes":     {[]kernel.Job{job("a", onBranch("r1", merge), blocked, begun(t0), needs("custom:t:x"))}, []option{produces("custom:t:x")}, held},
		"that merges":                                {[]kernel.Job{job("a", onBranch("r1", merge), running(1), begun(t0))}, nil, held},
		"that took it later":                         {[]kernel.Job{job("a", onBranch("r1", tree), ok, begun(t0.Add(time.Second))), job("b", onBranch("r1", ""), running(1))}, []option{begun(t0)}, held},
		"that has a worktree and made what it needs": {[]kernel.Job{makes, job("a", onBranch("r1", tree), ok, begun(t0), inTree), job("b", onBranch("r1", ""), running(1))}, gave, held},
		"that makes one and made what it needs":      {[]kernel.Job{makes, job("a", onBranch("r1", tree), running(1), begun(t0))}, gave, held},
		"in conflict that made what it needs":        {[]kernel.Job{makes, job("a", onBranch("r1", merge), blocked, begun(t0)), job("b", onBranch("r1", ""), running(1))}, gave, held},
		"whose own need the other makes for itself":  {[]kernel.Job{makes, job("a", onBranch("r1", tree), ok, begun(t0)), job("b", onBranch("r1", ""), running(1))}, append(gave, produces("custom:t:made")), held},

		"between two stages that made what it needs": {[]kernel.Job{makes, job("a", onBranch("r1", tree), ok, begun(t0)), job("b", onBranch("r1", tree), pinned("b", "c"))}, gave, "running"},
		"that is none":                     {[]kernel.Job{job("a", onBranch("", tree), running(1), begun(t0))}, nil, "running"},
		"that it is to wait for later":     {[]kernel.Job{job("a", onBranch("r1", tree), ok, begun(t0), inTree), job("b", onBranch("r1", ""), running(1), produces("custom:t:x")), job("y", onBranch("r2", ""), needs("custom:t:x"))}, nil, held},
		"between two stages, for a merge":  {[]kernel.Job{makes, job("a", onBranch("r1", tree), ok, begun(t0)), job("b", onBranch("r1", tree), pinned("b", "c"))}, append(gave, onBranch("r2", merge)), held},
		"that waits for a third job":       {[]kernel.Job{job("a", onBranch("r1", tree), ok, begun(t0)), job("x", after("z")), job("b", onBranch("r1", ""), after("x"))}, nil, "running"},
		"that took it earlier":             {[]kernel.Job{job("a", onBranch("r1", tree), ok, begun(t0)), job("b", onBranch("r1", ""), running(1))}, []option{begun(t0.Add(time.Second))}, "running"},
		"that has not begun":               {[]kernel.Job{job("a", onBranch("r1", tree), pinned("b", "c")), job("b", onBranch("r1", ""), after("a"))}, nil, "running"},
		"that wants an approval":           {[]kernel.Job{job("a", onBranch("r1", tree), approval(kernel.Pending, ""))}, nil, "running"},
		"that has ended":                   {[]kernel.Job{job("a", onBranch("r1", tree), ok, begun(t0)), job("b", onBranch("r1", ""), after("a"), failed)}, nil, "running"},
		"that this tick ends":              {[]kernel.Job{job("a", onBranch("r1", tree), failed, begun(t0)), job("b", onBranch("r1", ""), after("a"))}, nil, "running"},
		"that has merged":                  {[]kernel.Job{job("a", onBranch("r1", merge), ok, begun(t0), closed), job("b", onBranch("r1", ""), running(1))}, nil, "running"},
		"whose merge is blocked, to merge": {[]kernel.Job{job("a", onBranch("r1", merge), blocked, begun(t0)), job("b", onBranch("r3", tree), is(kernel.Failed))}, []option{onBranch("r2", merge)}, "running"},
		"whose merge is blocked, ahead":    {[]kernel.Job{job("a", onBranch("r1", merge), blocked, begun(t0)), job("zz", onBranch("r3", tree))}, []option{onBranch("r2", merge)}, "running"},
		"whose merge is blocked, of two":   {[]kernel.Job{job("a", onBranch("r1", merge), blocked, begun(t0.Add(time.Second)))}, []option{onBranch("r2", merge), begun(t0)}, "running"},
		"whose merge lacks what it needs":  {[]kernel.Job{job("a", onBranch("r1", merge), is(kernel.BlockedByDependency), begun(t0))}, nil, "running"},
		"whose stage is blocked":           {[]kernel.Job{job("a", onBranch("r1", tree), blocked, begun(t0))}, nil, "running"},
		"whose merge another made":         {[]kernel.Job{job("a", onBranch("r1", merge), blocked, begun(t0), retired)}, nil, "running"},
		"of another branch":                {[]kernel.Job{job("a", onBranch("r1", tree), ok, begun(t0), elsewhere), job("b", onBranch("r1", ""), elsewhere, running(1))}, nil, "running"},
		"that waits for it":                {[]kernel.Job{job("a", onBranch("r1", tree), ok, begun(t0)), job("b", onBranch("r1", ""), needs("custom:t:x"))}, []option{produces("custom:t:x")}, "running"},
		"that waits for a job":             {[]kernel.Job{job("a", onBranch("r1", tree), ok, begun(t0)), job("b", onBranch("r1", ""), after("z"))}, nil, "running"},
		"that took it before one that waits for it": {[]kernel.Job{job("a", onBranch("r1", tree), ok, begun(t0.Add(time.Second))), job("b", onBranch("r1", ""), running(1)),
			job("c", onBranch("r3", tree), ok, begun(t0.Add(2*time.Second))), job("d", onBranch("r3", ""), after("z"))}, nil, "running"},
		"that took it after one that waits for it": {[]kernel.Job{job("a", onBranch("r1", tree), ok, begun(t0.Add(2*time.Second))), job("b", onBranch("r1", ""), running(1)),
			job("c", onBranch("r3", tree), ok, begun(t0.Add(time.Second))), job("d", onBranch("r3", ""), after("z"))}, nil, held},
		"whose attempt submits it":       {[]kernel.Job{job("a", onBranch("r1", tree), ok, begun(t0)), job("b", onBranch("r1", ""), running(1))}, []option{child}, "running"},
		"behind it, with the next lock":  {[]kernel.Job{job("l", running(1), locks(excl("x"))), job("zz", onBranch("r1", tree), is(kernel.WaitingOnLocks), locks(excl("x")))}, nil, "running"},
		"of its own, with the next lock": {[]kernel.Job{job("l", running(1), locks(excl("x"))), job("a", onBranch("r2", tree), locks(excl("x")))}, nil, "running"},
		"of its own":                     {[]kernel.Job{job("a", onBranch("r2", tree), ok, begun(t0)), job("b", onBranch("r2", ""), running(1))}, nil, "running"},
	} {
		f := facts()
		f.Heads["b"] = kernel.Seen(kernel.CommitID("other"))
		f.Markers[artifact("custom:t:x")] = kernel.Seen([]kernel.JobID(nil))
		f.Markers[artifact("custom:t:made")] = kernel.Seen([]kernel.JobID{"m", "z"})
		s := snapshot(f, append(c.others, job("z", append([]option{onBranch("r2", tree)}, c.mine...)...))...)
		st := s.Apply(kernel.Decide(s)).Job("z").State
		got := st.Status.String()
		if st.Wait.Kind != kernel.NoWait {
			got += " " + st.Wait.Kind.String() + ": " + st.Wait.Detail
		}
		if got != c.want {
			t.Errorf("a run %s: %s, want %s", name, got, c.want)
		}
	}
}
