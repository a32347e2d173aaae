package kernel_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

func routesOf(r ...kernel.Route) option { return func(j *kernel.Job) { j.Spec.Routes = r } }

func on(o kernel.Outcome, to kernel.JobID) kernel.Route { return kernel.Route{On: o, To: to} }

func within(c kernel.Context) option { return func(j *kernel.Job) { j.State.Context = c } }

// ending returns s after the running attempt of id has ended as o.
func ending(t *testing.T, s *kernel.Snapshot, id kernel.JobID, o kernel.Outcome) *kernel.Snapshot {
	t.Helper()
	j := s.Job(id)
	p, err := kernel.Finish(s, kernel.Result{Attempt: j.Attempt(), Outcome: o, Exit: map[bool]int{true: 1}[o != kernel.OutcomeSucceeded]})
	if err != nil {
		t.Fatal(err)
	}
	return s.Apply(p)
}

// A success hands its context to the jobs that its routes name and that run
// after it, but not to those that have begun or have another context.
func TestHandOver(t *testing.T) {
	made := kernel.Context{Root: "w", Worktree: "w", Name: "n", Branch: "b", Owned: true}
	lent := made
	lent.Owned = false
	other := kernel.Context{Root: "v", Worktree: "v"}
	for name, c := range map[string]struct {
		child option
		from  kernel.Context
		want  kernel.Context
		state string
	}{
		"one that waits":     {is(kernel.WaitingOnDeps), made, lent, "waiting_on_deps"},
		"one that sleeps":    {routed, made, lent, "queued"},
		"no context":         {is(kernel.WaitingOnDeps), kernel.Context{}, kernel.Context{}, "waiting_on_deps"},
		"the same":           {func(j *kernel.Job) { is(kernel.WaitingOnDeps)(j); within(lent)(j) }, made, lent, "waiting_on_deps"},
		"one that runs":      {running(1), made, kernel.Context{}, "running"},
		"one that is over":   {is(kernel.Cancelled), made, kernel.Context{}, "cancelled"},
		"one with another's": {func(j *kernel.Job) { is(kernel.WaitingOnDeps)(j); within(other)(j) }, made, other, "blocked_by_dependency dependencies: its parents hand over different execution contexts: v and w"},
	} {
		s := snapshot(facts(), job("a", running(1), within(c.from), routesOf(on(kernel.OutcomeSucceeded, "b"), on(kernel.OutcomeFailed, "a"))),
			job("b", func(j *kernel.Job) { j.State.Status = kernel.Unscheduled; c.child(j) }, after("a")))
		b := ending(t, s, "a", kernel.OutcomeSucceeded).Job("b")
		if got := said(b.State.Status, b.State.Wait); b.State.Context != c.want || got != c.state {
			t.Errorf("%s: %+v %s", name, b.State.Context, got)
		}
		if strings.HasPrefix(c.state, "blocked") != b.State.WaitSince.Equal(t0.Add(time.Hour)) {
			t.Errorf("%s: since %v", name, b.State.WaitSince)
		}
	}
}

// A success rewinds the jobs that its routes name and that do not run after it.
// They get its context unless they make their own. Each route does so as often
// as its budget allows.
func TestSendBack(t *testing.T) {
	made := kernel.Context{Root: "w", Worktree: "w", Owned: true}
	first := func(own bool) kernel.Job {
		return job("a", is(kernel.Succeeded), func(j *kernel.Job) { j.Spec.OwnsContext, j.State.Attempt = own, 1 })
	}
	for name, c := range map[string]struct {
		own   bool
		ctx   kernel.Context
		taken int
		want  kernel.Context
		gen   int
		why   string
	}{
		"with a context":       {false, made, 0, kernel.Context{Root: "w", Worktree: "w"}, 1, ""},
		"without one":          {false, kernel.Context{}, 0, kernel.Context{}, 1, ""},
		"one that has its own": {true, made, 0, kernel.Context{}, 1, ""},
		"twice":                {false, made, 2, kernel.Context{Root: "w", Worktree: "w"}, 1, ""},
		"too often":            {false, made, 3, kernel.Context{}, 0, "its route to a was taken 3 times and is exhausted"},
	} {
		s := snapshot(facts(), first(c.own), job("b", running(2), within(c.ctx), after("a"), routesOf(on(kernel.OutcomeFailed, "a"), on(kernel.OutcomeFailed, "gone"), on(kernel.OutcomeBlocked, "b")),
			func(j *kernel.Job) { j.State.Routed = c.taken }))
		next := ending(t, s, "b", kernel.OutcomeFailed)
		a, b := next.Job("a").State, next.Job("b").State
		if a.Context != c.want || a.Generation != c.gen || b.Reason != c.why || b.Routed != min(3, c.taken+1) {
			t.Errorf("%s: %+v, generation %d, %q, taken %d times", name, a.Context, a.Generation, b.Reason, b.Routed)
		}
	}
	busy := snapshot(facts(), first(false), job("b", running(1), after("a"), routesOf(on(kernel.OutcomeFailed, "a"))), job("c", running(1), after("a")))
	next := ending(t, busy, "b", kernel.OutcomeFailed)
	if b := next.Job("b").State; !b.Deferred || b.Reason != "" || b.Routed != 0 || next.Job("a").State.Generation != 0 {
		t.Errorf("%+v", b)
	}
	reasoned := job("b", running(1), after("a"), routesOf(on(kernel.OutcomeFailed, "a")), func(j *kernel.Job) { j.State.Routed = 3 })
	s := snapshot(facts(), first(false), reasoned)
	for reason, want := range map[string]string{"no": "no", "resolve it, then `vizier retry a`": "resolve it, then `vizier retry b`"} { // one advice
		p, err := kernel.Finish(s, kernel.Result{Attempt: reasoned.Attempt(), Outcome: kernel.OutcomeFailed, Exit: 1, Reason: reason})
		if got := s.Apply(p).Job("b").State.Reason; err != nil || got != want+"; its route to a was taken 3 times and is exhausted" {
			t.Errorf("%q, %v", got, err)
		}
	}
}

// While a job runs that a route takes back, the route waits, and so does what it takes back. `why` says for what, and
// what only waits for that needs nobody; a cancel gives the route up.
func TestARouteWaitsForWhatRuns(t *testing.T) {
	parent := func(id kernel.JobID) option { return func(j *kernel.Job) { j.Spec.Origin.Parent = id } }
	s := snapshot(facts(), job("a", is(kernel.Succeeded)), job("b", running(1), after("a"), routesOf(on(kernel.OutcomeFailed, "a"))), job("c", running(1), after("a")),
		job("d", after("a")), job("e", after("a"), parent("c")), job("f"))
	s = ending(t, s, "b", kernel.OutcomeFailed)
	s = s.Apply(kernel.Decide(s))
	if got := statuses(s); got != "a:succeeded b:failed c:running d:waiting_on_deps e:running f:running" {
		t.Error(got)
	}
	if got := []any{s.Pending("b"), s.SeenTo(s.Job("b")), s.Tally([]*kernel.Job{s.Job("b")}).Statuses[kernel.Failed]}; !slices.Equal(got, []any{kernel.JobID("b"), true, 0}) {
		t.Error(got)
	}
	waitsAlone(t, s, "its routes are about to be taken, once job c has ended", "b")
	waitsAlone(t, s, "job b is about to send it back, once job c has ended", "d")
	dropped, err := kernel.Cancel(s, "b", "ann", false)
	if err != nil {
		t.Fatal(err)
	}
	free := s.Apply(dropped)
	free = free.Apply(kernel.Decide(free))
	if b := free.Job("b").State; b.Deferred || b.Status != kernel.Failed || b.Reason != "its routes are not taken: cancelled by ann" || free.Job("d").State.Status != kernel.Running {
		t.Errorf("%+v, d %s", b, free.Job("d").State.Status)
	}
	if _, err := kernel.Cancel(free, "b", "ann", false); !errors.Is(err, kernel.ErrConflict) {
		t.Errorf("cancelled again: %v", err)
	}
	for _, id := range []kernel.JobID{"c", "e"} {
		s = ending(t, s, id, kernel.OutcomeSucceeded)
	}
	s = s.Apply(kernel.Decide(s))
	if got := statuses(s); got != "a:running b:waiting_on_deps c:waiting_on_deps d:waiting_on_deps e:waiting_on_deps f:running" || s.Job("b").State.Deferred {
		t.Error(got)
	}
}

// A failure whose routes wait, or that woke a repair whose routes wait, does not stop its run.
func TestAWaitingRouteHoldsNothingBack(t *testing.T) {
	stops := func(j *kernel.Job) {
		j.Spec.Origin.Run, j.Spec.FailureMode, j.Spec.Locks = "r", kernel.BlockDownstream, []kernel.Lock{{Key: "x"}}
	}
	repaired := func(j *kernel.Job) {
		j.Spec.Origin.Run, j.Spec.Routed, j.State.Awake = "r", true, true
		j.State.Status, j.State.Outcome, j.State.Deferred = kernel.Succeeded, kernel.OutcomeSucceeded, true
	}
	for name, failed := range map[string][]kernel.Job{
		"its own":       {job("b", is(kernel.Failed), stops, after("a"), routesOf(on(kernel.OutcomeFailed, "a")), func(j *kernel.Job) { j.State.Outcome, j.State.Deferred = kernel.OutcomeFailed, true })},
		"of its repair": {job("b", is(kernel.Failed), stops, after("a"), routesOf(on(kernel.OutcomeFailed, "fix"))), job("fix", repaired, routesOf(on(kernel.OutcomeSucceeded, "a")))},
	} {
		s := snapshot(facts(), append(failed, job("a", is(kernel.Succeeded), stops), job("c", running(1), stops, after("a")), job("d", stops))...)
		if next, _ := decided(t, s, "d"); next.Next != kernel.WaitingOnLocks {
			t.Errorf("%s: %+v", name, next)
		}
	}
}

// Who cancels the prompt of a run gives up its waiting routes as well.
func TestACancelledPromptTakesNoRoute(t *testing.T) {
	in := inRun("r")
	s := snapshot(facts(), job("a", is(kernel.Succeeded), in), job("b", is(kernel.Failed), in, after("a"), routesOf(on(kernel.OutcomeFailed, "a")),
		func(j *kernel.Job) { j.State.Outcome, j.State.Deferred = kernel.OutcomeFailed, true }),
		job("c", running(1), in, after("a")), job("p", in, after("c"), func(j *kernel.Job) { j.Spec.Prompt = &kernel.Prompt{File: "/x.running.md", Rel: "x.prompt.md"} }))
	p, err := kernel.Cancel(s, "p", "ann", false)
	if b := s.Apply(p).Job("b").State; err != nil || b.Deferred || b.Status != kernel.Failed {
		t.Errorf("%+v, %v", b, err)
	}
}

// waitsAlone checks what Explain says of jobs that nobody has to do anything about.
func waitsAlone(t *testing.T, s *kernel.Snapshot, detail string, ids ...kernel.JobID) {
	t.Helper()
	for _, id := range ids {
		e, err := kernel.Explain(s, id)
		if err != nil || len(e.Actions) > 0 || len(e.Unmet) != 1 || e.Unmet[0].Detail != detail {
			t.Errorf("%s: %+v, %v", id, e, err)
		}
	}
}

// A job that failed waits for the routes of a repair that succeeded and takes it back, and does not wake the repair again.
func TestARepairSendsBackBeforeItIsWokenAgain(t *testing.T) {
	asleep := func(j *kernel.Job) { j.Spec.Routed, j.State.Awake = true, true }
	s := snapshot(facts(), job("a", is(kernel.Succeeded)), job("b", is(kernel.Failed), after("a"), routesOf(on(kernel.OutcomeFailed, "fix"))),
		job("c", running(1), after("a"), routesOf(on(kernel.OutcomeFailed, "fix"))), job("slow", running(1), after("a")),
		job("fix", running(1), asleep, routesOf(on(kernel.OutcomeSucceeded, "a"))),
		job("e", after("b"), func(j *kernel.Job) { j.Spec.AfterAny = j.Spec.After }))
	for _, id := range []kernel.JobID{"c", "fix", "slow"} {
		if id == "slow" {
			waitsAlone(t, s, "job fix is about to send it back, once job slow has ended", "e")
		}
		s = ending(t, s, id, map[kernel.JobID]kernel.Outcome{"c": kernel.OutcomeFailed, "fix": kernel.OutcomeSucceeded, "slow": kernel.OutcomeSucceeded}[id])
		s = s.Apply(kernel.Decide(s))
	}
	if got := statuses(s); got != "a:running b:waiting_on_deps c:waiting_on_deps e:waiting_on_deps fix:succeeded slow:waiting_on_deps" || s.Job("fix").State.Routed != 1 {
		t.Error(got)
	}
}

// All routes of an outcome are taken, in their order, and that counts once. A handler that sleeps is woken whatever
// the routes of other outcomes have used up.
func TestEveryRouteOfAnOutcome(t *testing.T) {
	s := snapshot(facts(), job("a", is(kernel.Succeeded)), job("b", is(kernel.Succeeded)), job("c", running(1), routesOf(on(kernel.OutcomeSucceeded, "x"), on(kernel.OutcomeBlocked, "a"), on(kernel.OutcomeBlocked, "b"))), job("x"))
	next := ending(t, s, "c", kernel.OutcomeBlocked)
	if got := fmt.Sprint(next.Job("a").State.Generation, next.Job("b").State.Generation, next.Job("x").State.Generation, next.Job("c").State.Routed); got != "1 1 0 1" {
		t.Error(got)
	}
	s = snapshot(facts(), job("a", is(kernel.Succeeded)), job("c", running(4), routesOf(on(kernel.OutcomeFailed, "a"), on(kernel.OutcomeBlocked, "a"), on(kernel.OutcomeBlocked, "tell")),
		func(j *kernel.Job) { j.State.Routed = 3 }), job("tell", routed, is(kernel.Unscheduled)))
	next = ending(t, s, "c", kernel.OutcomeBlocked)
	if got := fmt.Sprint(next.Job("a").State.Generation, next.Job("tell").State.Status, next.Job("c").State.Routed, next.Job("c").State.Reason); got != "0 queued 3its route to a was taken 3 times and is exhausted" {
		t.Error(got)
	}
}

// A removed worktree is gone for all jobs of the run that worked in it, and for
// no others.
func TestAWorktreeThatIsGoneIsForgotten(t *testing.T) {
	w, v := kernel.Context{Root: "w", Worktree: "w"}, kernel.Context{Root: "v", Worktree: "v"}
	s := snapshot(facts(), job("a", running(1), inRun("r"), within(w)), job("b", inRun("r"), is(kernel.Succeeded), within(w)), job("c", inRun("r"), is(kernel.Succeeded), within(v)),
		job("d", inRun("q"), is(kernel.Succeeded), within(w)), job("e", inRun("r"), is(kernel.Succeeded)))
	p, err := kernel.Finish(s, kernel.Result{Attempt: s.Job("a").Attempt(), Outcome: kernel.OutcomeSucceeded, Context: &kernel.Context{}})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, j := range s.Apply(p).Jobs() {
		got = append(got, string(j.ID)+":"+j.State.Context.Root)
	}
	if g := strings.Join(got, " "); g != "a: b: c:v d:w e:" {
		t.Error(g)
	}
}

// A job is reopened by a new job that makes what it lacks, and is awake if it
// was before.
func TestReopenedJobs(t *testing.T) {
	const x = "custom:t:x"
	blockedFor := func(detail string, o ...option) kernel.Job {
		return job("a", append([]option{is(kernel.BlockedByDependency), needs(x), policy(kernel.Wait), func(j *kernel.Job) {
			j.State.Wait, j.State.WaitSince = kernel.WaitReasonOf(kernel.OnDependencies, detail), t0
		}}, o...)...)
	}
	for name, c := range map[string]struct {
		job  kernel.Job
		want string
	}{
		"missing":              {blockedFor("missing " + x), "queued 1"},
		"its producers failed": {blockedFor("dependency failed for " + x), "queued 1"},
		"something else":       {blockedFor("missing custom:t:y"), "blocked_by_dependency 0"},
		"it ended so":          {blockedFor("missing "+x, func(j *kernel.Job) { j.State.Outcome = kernel.OutcomeBlocked }), "blocked_by_dependency 0"},
		"it does not wait":     {blockedFor("missing "+x, policy(kernel.Block)), "blocked_by_dependency 0"},
		"it sleeps":            {blockedFor("missing "+x, routed), "unscheduled 1"},
		"it was woken":         {blockedFor("missing "+x, routed, func(j *kernel.Job) { j.State.Awake = true }), "queued 1"},
	} {
		s := snapshot(facts(), c.job)
		p, err := kernel.Enqueue(s, []kernel.NewJob{{ID: "z", Spec: job("z", produces(x)).Spec}})
		if err != nil {
			t.Fatal(err)
		}
		st := s.Apply(p).Job("a").State
		if got := fmt.Sprint(st.Status, " ", st.Generation); got != c.want || st.Generation == 1 && (st.Wait != (kernel.WaitReason{}) || !st.WaitSince.IsZero()) {
			t.Errorf("%s: %s %+v", name, got, st)
		}
	}
}

func TestGates(t *testing.T) {
	var got []string
	for _, g := range kernel.Gates() {
		got = append(got, g.Name+"="+g.Kind.String())
	}
	if s := strings.Join(got, " "); s != "run=dependencies jobs=dependencies artifacts=dependencies pinned head=pinned_head preconditions=preconditions sandbox=preconditions approval=approval branch=dependencies locks=locks" {
		t.Error(s)
	}
}

// An explanation has every condition that does not hold, each once.
func TestEveryUnmetConditionIsToldOnce(t *testing.T) {
	s := snapshot(facts(), job("f", is(kernel.Failed), func(j *kernel.Job) { j.Spec.FailureMode, j.Spec.Origin.Run = kernel.BlockDownstream, "r" }), job("l", running(1), locks(excl("x"))),
		job("j", is(kernel.WaitingOnDeps), inRun("r"), after("l", "gone", "f"), needs("custom:t:x", "custom:t:y"), pinned("b", "c"), approval(kernel.Pending, ""), locks(excl("x")),
			pre(kernel.Precondition{Kind: kernel.BranchExists, Branch: "no"}), func(j *kernel.Job) { j.Spec.FailureMode = kernel.BlockDownstream }))
	e, err := kernel.Explain(s, "j")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, u := range e.Unmet {
		got = append(got, u.Kind.String()+": "+u.Detail+": "+u.Clears)
	}
	want := strings.Join([]string{
		"dependencies: waiting on job l: job l, running",
		"dependencies: missing job dependency gone: a new submission",
		"dependencies: dependency failed for job f (failed): a retry of what failed",
		"dependencies: cannot tell whether custom:t:x exists: not observed: the repository",
		"dependencies: cannot tell whether custom:t:y exists: not observed: the repository",
		"pinned_head: pinned head mismatch on b: branch b at c",
		"preconditions: cannot tell",
		"approval: awaiting human approval: a person",
		"locks: ",
	}, "\n")
	lines := strings.Split(want, "\n")
	if len(got) != len(lines) {
		t.Fatalf("%d:\n%s", len(got), strings.Join(got, "\n"))
	}
	for i := range lines {
		if !strings.HasPrefix(got[i], lines[i]) {
			t.Errorf("got  %s\nwant %s", got[i], lines[i])
		}
	}
}

// What a person can do about a job that does not run, for each cause.
func TestWhatAPersonCanDo(t *testing.T) {
	const x = "custom:t:x"
	known := func(o ...kernel.JobID) kernel.Facts { return marked(facts(), x, o...) }
	told := func(tell func(*kernel.Facts)) kernel.Facts {
		f := facts()
		tell(&f)
		return f
	}
	inRun := func(j *kernel.Job) { j.Spec.Origin.Run = "r" }
	stops := func(id kernel.JobID, change ...option) kernel.Job {
		return job(id, append(change, inRun, func(j *kernel.Job) { j.Spec.FailureMode = kernel.BlockDownstream })...)
	}
	for name, c := range map[string]struct {
		facts kernel.Facts
		jobs  []kernel.Job
		want  string
	}{
		"a job that is gone":                  {facts(), []kernel.Job{job("j", after("gone"))}, "submit_again j names job gone, which is gone, so a retry is no use"},
		"a job that is gone, and an approval": {facts(), []kernel.Job{job("j", after("gone"), approval(kernel.Pending, ""))}, "submit_again j names job gone, which is gone, so a retry is no use"},
		"one that waits for what failed":      {facts(), []kernel.Job{job("f", is(kernel.Failed)), job("j", after("f"))}, "retry f"},
		"one that waits for an approval":      {facts(), []kernel.Job{job("p", approval(kernel.Pending, "")), job("j", after("p"))}, "approve p"},
		"nobody makes what it needs":          {known(), []kernel.Job{job("j", needs(x))}, "produce custom:t:x; retry j"},
		"nobody does yet":                     {known(), []kernel.Job{job("j", needs(x), policy(kernel.Wait))}, "produce custom:t:x"},
		"who was to make it did not":          {known(), []kernel.Job{job("p", is(kernel.Succeeded), produces(x)), job("j", needs(x))}, "retry p"},
		"a condition that nobody knows": {facts(), []kernel.Job{job("j", func(j *kernel.Job) {
			j.Spec.Preconditions = []kernel.Precondition{{Kind: kernel.CustomPrecondition, ID: "odd"}}
		})}, "submit_again j asks for what cannot be checked: custom precondition `odd` is not supported by scheduler runtime"},
		"a branch that is not": {told(func(f *kernel.Facts) { f.Heads["b"] = kernel.Seen(kernel.CommitID("")) }), []kernel.Job{job("j", func(j *kernel.Job) {
			j.Spec.Preconditions = []kernel.Precondition{{Kind: kernel.BranchExists, Branch: "b"}}
		})}, "make_branch b"},
		"a tree with changes": {told(func(f *kernel.Facts) { f.Clean = kernel.Seen(false) }), []kernel.Job{job("j", func(j *kernel.Job) {
			j.Spec.Preconditions = []kernel.Precondition{{Kind: kernel.CustomPrecondition, ID: "clean_worktree"}}
		})}, "clean_tree"},
		"a tree that cannot be looked at": {told(func(f *kernel.Facts) { f.Clean = kernel.Fact[bool]{Err: "no git"} }), []kernel.Job{job("j", func(j *kernel.Job) {
			j.Spec.Preconditions = []kernel.Precondition{{Kind: kernel.CleanWorktree}}
		})}, "meet_condition  cannot tell whether the working tree is clean: no git"},
		"a branch elsewhere": {facts(), []kernel.Job{job("j", pinned("b", "c"))}, "move_branch b@c"},
		"a rejection":        {facts(), []kernel.Job{job("j", approval(kernel.Rejected, "no"))}, "retry j; approve j"},
		"it failed":          {facts(), []kernel.Job{job("j", is(kernel.Failed))}, "retry j"},
		"another job of its run failed too, and would hold it back": {facts(), []kernel.Job{stops("j", is(kernel.Failed)), stops("k", is(kernel.Failed))}, "retry j; retry k"},
		"two failures hold it back":                                 {facts(), []kernel.Job{stops("j"), stops("k", is(kernel.Failed)), stops("l", is(kernel.Failed))}, "retry k; retry l"},
		"a failure is on its own":                                   {facts(), []kernel.Job{job("j", is(kernel.Failed), inRun), job("k", is(kernel.Failed), inRun)}, "retry j"},
		"it was cancelled":                                          {facts(), []kernel.Job{job("j", is(kernel.Cancelled))}, "retry j"},
		"it runs":                                                   {facts(), []kernel.Job{job("j", running(1))}, ""},
		"locks":                                                     {facts(), []kernel.Job{job("h", running(1), locks(excl("k"))), job("j", locks(excl("k")))}, ""},
	} {
		s := kernel.NewSnapshot(kernel.Observation{Now: t0.Add(time.Hour), Jobs: c.jobs, Facts: c.facts})
		s = s.Apply(kernel.Decide(s))
		e, err := kernel.Explain(s, "j")
		var got []string
		for _, a := range e.Actions {
			text := a.Kind.String() + " " + string(a.Job)
			switch a.Kind {
			case kernel.ProduceArtifact:
				text = a.Kind.String() + " " + a.Artifact.String()
			case kernel.MakeBranch:
				text = a.Kind.String() + " " + a.Pinned.Branch
			case kernel.MoveBranch:
				text = a.Kind.String() + " " + a.Pinned.Branch + "@" + string(a.Pinned.Commit)
			default:
			}
			got = append(got, strings.TrimSpace(text+" "+a.Detail))
		}
		if g := strings.Join(got, "; "); err != nil || g != c.want {
			t.Errorf("%s: %s, %v, want %s\n%+v", name, g, err, c.want, e)
		}
	}
	if e, err := kernel.Explain(snapshot(facts(), job("j", noArgs)), "j"); err != nil || len(e.Actions) != 1 || e.Actions[0] != (kernel.Remedy{Kind: kernel.SubmitAgain, Job: "j", Detail: "has no command"}) {
		t.Errorf("%+v %v", e, err)
	}
	torn := kernel.NewSnapshot(kernel.Observation{Now: t0, Jobs: []kernel.Job{job("j", after("torn"))}, Facts: facts(), Unreadable: map[kernel.JobID]string{"torn": "half"}})
	e, err := kernel.Explain(torn.Apply(kernel.Decide(torn)), "j")
	if err != nil || len(e.Actions) != 2 || e.Actions[0] != (kernel.Remedy{Kind: kernel.MendRecord, Job: "torn", Detail: "half"}) || e.Actions[1] != (kernel.Remedy{Kind: kernel.RetryJob, Job: "j"}) ||
		e.Unmet[0].Detail != "scheduler data error for job dependency torn: half" {
		t.Errorf("%+v %v", e, err)
	}
	blocked := torn.Apply(kernel.Decide(torn)).Job("j")
	for status, want := range map[kernel.Status][]kernel.Remedy{ // the record can be read again, and j has ended
		kernel.Running:           {{Kind: kernel.RetryJob, Job: "j"}},
		kernel.Succeeded:         {{Kind: kernel.RetryJob, Job: "j"}},
		kernel.WaitingOnApproval: {{Kind: kernel.RetryJob, Job: "j"}, {Kind: kernel.ApproveJob, Job: "torn"}},
		kernel.Failed:            {{Kind: kernel.RetryJob, Job: "torn"}},
	} {
		p := job("torn", is(status))
		if status == kernel.WaitingOnApproval {
			p = job("torn", is(status), approval(kernel.Pending, ""))
		}
		e, err := kernel.Explain(snapshot(facts(), p, *blocked), "j")
		if err != nil || !slices.Equal(e.Actions, want) {
			t.Errorf("%s: %+v %v", status, e, err)
		}
	}
}

// An explanation names the jobs that keep a job from its locks: the running
// holders, and older jobs that wait.
func TestHoldersOfLocks(t *testing.T) {
	for name, c := range map[string]struct {
		limits kernel.Limits
		jobs   []kernel.Job
		want   string
	}{
		"one that runs":   {kernel.Limits{}, []kernel.Job{job("a", running(1), locks(excl("k"), excl("l"))), job("b", running(1), locks(excl("m"))), job("j", locks(excl("l"), excl("k")))}, "job a, running (k)"},
		"several":         {kernel.Limits{}, []kernel.Job{job("a", running(1), locks(shared("k"))), job("b", running(1), locks(shared("k"))), job("j", locks(excl("k")))}, "job a, running (k); b, running (k)"},
		"one that waits":  {kernel.Limits{}, []kernel.Job{job("a", running(1), locks(shared("k"))), job("b", is(kernel.WaitingOnLocks), locks(excl("k"))), job("j", is(kernel.WaitingOnLocks), locks(shared("k")))}, "job b, waiting_on_locks (k)"},
		"those of a pool": {kernel.Limits{Pools: map[string]int{"k": 1}}, []kernel.Job{job("a", running(1), locks(pool("k", 1))), job("b", running(1), locks(excl("z"))), job("j", locks(pool("k", 1)))}, "job a, running (k)"},
		"as many as may":  {kernel.Limits{MaxRunning: 2}, []kernel.Job{job("a", running(1)), job("b", running(1)), job("j")}, "2 running jobs: the next that ends makes room"},
	} {
		s := kernel.NewSnapshot(kernel.Observation{Now: t0, Jobs: c.jobs, Facts: facts(), Limits: c.limits})
		s = s.Apply(kernel.Decide(s))
		e, err := kernel.Explain(s, "j")
		if err != nil || len(e.Unmet) != 1 || e.Unmet[0].Clears != c.want {
			t.Errorf("%s: %+v %v", name, e, err)
		}
	}
}

// Write stops at the first error, whichever action it is.
func TestAPlanIsWrittenUpToTheFirstError(t *testing.T) {
	actions := []kernel.Action{kernel.Create(job("a")), kernel.PutState{Job: "b"}, kernel.NumberJob{Job: "n"}, kernel.CreateRun{Run: "r"}, kernel.RemoveRun{Run: "r"}, kernel.RemoveJob{Job: "c"}, kernel.PurgeFiles{Job: "d"},
		kernel.Publish{Attempt: kernel.AttemptID{Job: "e"}}, kernel.Announce{Event: kernel.Event{Job: "f"}}, kernel.Reset{Attempt: kernel.AttemptID{Job: "g"}}, kernel.Rotate{Attempt: kernel.AttemptID{Job: "h"}}}
	subjects := ""
	for i, a := range actions {
		subjects += string(a.Subject()) + ","
		w := &writer{failAt: i}
		if err := kernel.NewPlan(actions...).Write(w); !errors.Is(err, errWrite) || w.n != i+1 {
			t.Errorf("%T: %v after %d", a, err, w.n)
		}
	}
	if subjects != "a,b,n,,,c,d,e,f,g,h," {
		t.Error(subjects)
	}
	if err := kernel.NewPlan(actions...).Write(&writer{failAt: -1}); err != nil {
		t.Error(err)
	}
}

var errWrite = errors.New("no")

type writer struct{ n, failAt int }

func (w *writer) did() error {
	w.n++
	if w.n == w.failAt+1 {
		return errWrite
	}
	return nil
}
func (w *writer) CreateJob(kernel.CreateJob) error   { return w.did() }
func (w *writer) PutState(kernel.PutState) error     { return w.did() }
func (w *writer) NumberJob(kernel.NumberJob) error   { return w.did() }
func (w *writer) CreateRun(kernel.CreateRun) error   { return w.did() }
func (w *writer) RemoveRun(kernel.RemoveRun) error   { return w.did() }
func (w *writer) RemoveJob(kernel.RemoveJob) error   { return w.did() }
func (w *writer) PurgeFiles(kernel.PurgeFiles) error { return w.did() }
func (w *writer) Publish(kernel.Publish) error       { return w.did() }
func (w *writer) Announce(kernel.Announce) error     { return w.did() }
func (w *writer) Reset(kernel.Reset) error           { return w.did() }
func (w *writer) Rotate(kernel.Rotate) error         { return w.did() }

func TestProbesAreEmptyOrNot(t *testing.T) {
	for i, p := range []kernel.Probes{{Artifacts: artifacts("custom:t:x")}, {Markers: artifacts("custom:t:x")}, {Branches: []string{"b"}}, {Head: true}, {Clean: true}, {Merging: true}, {Attempts: []kernel.AttemptID{{}}},
		{Artifacts: artifacts("custom:t:x"), Markers: artifacts("custom:t:x")}, {Branches: []string{"b"}, Attempts: []kernel.AttemptID{{}}}, {Markers: artifacts("custom:t:x"), Branches: []string{"b"}}} {
		if p.Empty() {
			t.Errorf("%d: %+v", i, p)
		}
	}
	if !(kernel.Probes{}).Empty() {
		t.Error("nothing is something")
	}
	s := snapshot(kernel.NewFacts())
	if p := s.Probes(artifacts("custom:t:x", "custom:t:x", "merge_sentinel:foo")...); len(p.Markers) != 1 || len(p.Artifacts) != 1 {
		t.Errorf("%+v", p)
	}
}

// A worktree that somebody removed counts as gone before a job fails because of
// it: a rewind begins at the job that makes it. Worktrees of other runs are not
// checked.
func TestAForgottenWorktreeIsMadeAnew(t *testing.T) {
	tree := kernel.Context{Root: "w", Worktree: "w", Name: "w-1", Owned: true}
	in := func(o ...option) []option { return append(o, inRun("r1")) }
	owner := job("a", in(is(kernel.Succeeded), func(j *kernel.Job) {
		j.Spec.OwnsContext, j.State.Context = true, tree
		j.Spec.Routes = []kernel.Route{{On: kernel.OutcomeSucceeded, To: "b"}}
	})...)
	user := job("b", in(is(kernel.Failed), after("a"))...)
	other := job("z", inRun("r2"), is(kernel.Succeeded), func(j *kernel.Job) { j.State.Context = tree })
	s := snapshot(facts(), owner, user, other)
	for gone, want := range map[bool]kernel.JobID{false: "b", true: "a"} {
		next := s.Apply(kernel.ForgetWorktrees(s, "b", func(kernel.Context) bool { return gone }))
		set, err := kernel.RetryOf(next, "b")
		if err != nil || set.Root != want {
			t.Errorf("gone %v: begins at %s, %v; want %s", gone, set.Root, err, want)
		}
		if next.Job("z").State.Context != tree {
			t.Error("another run lost its worktree")
		}
	}
}
