package kernel_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// oneOfEach has one artifact of every kind.
var oneOfEach = []string{"plan_branch:foo (draft/foo)", "plan_doc:foo (draft/foo)", "plan_commits:foo (draft/foo)",
	"target_branch:main", "merge_sentinel:foo", "command_patch:gone", "custom:stage_token:approve"}

type existence int

const (
	present existence = iota
	absent
	notObserved
	unobservable
)

func (e existence) String() string {
	return [...]string{"present", "absent", "not observed", "unobservable"}[e]
}

// observed returns facts in which e holds for a. The marker's owner is enqueued
// after every producer, so that none supersedes it.
func (e existence) observed(a kernel.Artifact) kernel.Facts {
	f := facts()
	one, owners := kernel.Fact[bool]{}, kernel.Fact[[]kernel.JobID]{}
	switch e {
	case present:
		one, owners = kernel.Seen(true), kernel.Seen([]kernel.JobID{"z"})
	case absent:
		one, owners = kernel.Seen(false), kernel.Seen[[]kernel.JobID](nil)
	case unobservable:
		one, owners = kernel.Unseen[bool]("disk on fire"), kernel.Unseen[[]kernel.JobID]("disk on fire")
	case notObserved:
		return f
	}
	if a.Kind == kernel.Custom {
		f.Markers[a] = owners
	} else {
		f.Present[a] = one
	}
	return f
}

// seed003 is the scheduler contract of seed 003, sentence by sentence.
func seed003(label string, e existence, producers []kernel.Status, m kernel.MissingProducer) string {
	active := func(s kernel.Status) bool { return s.Active() || s == kernel.Unscheduled }
	switch {
	case e == present:
		return "running"
	case e == notObserved:
		return "waiting_on_deps dependencies: cannot tell whether " + label + " exists: not observed"
	case e == unobservable:
		return "waiting_on_deps dependencies: cannot tell whether " + label + " exists: disk on fire"
	case slices.ContainsFunc(producers, active):
		return "waiting_on_deps dependencies: waiting on " + label
	case slices.Contains(producers, kernel.Succeeded):
		return "blocked_by_dependency dependencies: missing " + label
	case len(producers) > 0:
		return "blocked_by_dependency dependencies: dependency failed for " + label
	case m == kernel.Wait:
		return "waiting_on_deps dependencies: awaiting producer for " + label
	default:
		return "blocked_by_dependency dependencies: missing " + label
	}
}

func producerSets() [][]kernel.Status {
	sets := [][]kernel.Status{{}}
	for _, s := range kernel.Statuses() {
		sets = append(sets, []kernel.Status{s})
		for _, u := range kernel.Statuses() {
			sets = append(sets, []kernel.Status{s, u})
		}
	}
	return sets
}

// Every kind of artifact × what is known of it × no producer, one of each
// status, two of each pair of statuses × both policies: 8,792 rows.
func TestArtifactResolution(t *testing.T) {
	rows := 0
	for _, label := range oneOfEach {
		for e := present; e <= unobservable; e++ {
			for _, producers := range producerSets() {
				for _, m := range []kernel.MissingProducer{kernel.Block, kernel.Wait} {
					jobs := []kernel.Job{job("q", needs(label), policy(m))}
					for i, s := range producers {
						p := job(kernel.JobID([]string{"p", "r"}[i]), is(s), produces(label), approval(kernel.Pending, ""))
						p.State.RetryAt = t0.AddDate(1, 0, 0)
						jobs = append(jobs, p)
					}
					want := seed003(label, e, producers, m)
					d, _ := decided(t, snapshot(e.observed(artifact(label)), jobs...), "q")
					if got := said(d.Next, d.Reason); got != want {
						t.Errorf("%s %s, producers %v, %s:\n got %s\nwant %s", label, e, producers, m, got, want)
					}
					rows++
				}
			}
		}
	}
	if want := len(oneOfEach) * 4 * (1 + 12 + 144) * 2; rows != want {
		t.Errorf("looked at %d rows, want %d", rows, want)
	}
}

// A job that produces what it needs does not wait for itself.
func TestNobodyIsItsOwnProducer(t *testing.T) {
	expect(t, snapshot(marked(facts(), "custom:t:x"), job("a", needs("custom:t:x"), produces("custom:t:x"))), "a",
		"blocked_by_dependency dependencies: missing custom:t:x")
}

// A patch exists if its file does or if the job that it names succeeded (seed
// 000), whatever else is known.
func TestPatchOfASucceededJob(t *testing.T) {
	for e := present; e <= unobservable; e++ {
		for _, s := range kernel.Statuses() {
			p := job("p", is(s), approval(kernel.Pending, ""))
			p.State.RetryAt = t0.AddDate(1, 0, 0)
			d, _ := decided(t, snapshot(e.observed(artifact("command_patch:p")), p,
				job("q", needs("command_patch:p"), policy(kernel.Wait))), "q")
			if started := d.Next == kernel.Running; started != (e == present || s == kernel.Succeeded) {
				t.Errorf("%s, p %s: %v", e, s, d)
			}
		}
	}
}

func TestFirstNeedDecides(t *testing.T) {
	f := marked(marked(marked(facts(), "custom:t:x", "o"), "custom:t:y"), "custom:t:z")
	p := job("p", is(kernel.Running), produces("custom:t:y"))
	for _, c := range []struct {
		needs []string
		want  string
	}{
		{[]string{"custom:t:x", "custom:t:y", "custom:t:z"}, "waiting_on_deps dependencies: waiting on custom:t:y"},
		{[]string{"custom:t:x", "custom:t:z", "custom:t:y"}, "blocked_by_dependency dependencies: missing custom:t:z"},
		{[]string{"custom:t:x"}, "running"},
	} {
		expect(t, snapshot(f, p, job("q", needs(c.needs...))), "q", c.want)
	}
}

// Semantics 3.8: if the consumer's own run has a producer, only that one
// counts; otherwise those of all runs do.
func TestRunScopedArtifacts(t *testing.T) {
	const x = "custom:t:x"
	own := func(s kernel.Status) kernel.Job { return job("b", inRun("r1"), produces(x), is(s)) }
	other := func(s kernel.Status) kernel.Job { return job("c", inRun("r2"), produces(x), is(s)) }
	consumer := job("q", inRun("r1"), needs(x))
	loose := job("q", needs(x))
	both := job("q", inRun("r1"), needs(x), produces(x)) // its own product does not count
	for i, c := range []struct {
		owners []kernel.JobID
		jobs   []kernel.Job
		want   string
	}{
		{nil, []kernel.Job{own(kernel.Failed), other(kernel.Running), consumer}, "blocked_by_dependency dependencies: dependency failed for " + x},
		{nil, []kernel.Job{own(kernel.Running), other(kernel.Failed), consumer}, "waiting_on_deps dependencies: waiting on " + x},
		{[]kernel.JobID{"c"}, []kernel.Job{own(kernel.Failed), other(kernel.Succeeded), consumer}, "blocked_by_dependency dependencies: dependency failed for " + x},
		{[]kernel.JobID{"b"}, []kernel.Job{own(kernel.Succeeded), other(kernel.Running), consumer}, "running"},
		{[]kernel.JobID{"gone"}, []kernel.Job{own(kernel.Running), consumer}, "waiting_on_deps dependencies: waiting on " + x},
		{[]kernel.JobID{"c"}, []kernel.Job{other(kernel.Succeeded), consumer}, "running"},
		{nil, []kernel.Job{other(kernel.Running), consumer}, "waiting_on_deps dependencies: waiting on " + x},
		{nil, []kernel.Job{own(kernel.Failed), other(kernel.Running), both}, "blocked_by_dependency dependencies: dependency failed for " + x},
		{nil, []kernel.Job{job("r", inRun("r1"), produces(x), is(kernel.Failed)), other(kernel.Running), both}, "blocked_by_dependency dependencies: dependency failed for " + x},
		{nil, []kernel.Job{other(kernel.Running), both}, "waiting_on_deps dependencies: waiting on " + x},
		{nil, []kernel.Job{own(kernel.Failed), other(kernel.Running), loose}, "waiting_on_deps dependencies: waiting on " + x},
		{[]kernel.JobID{"c"}, []kernel.Job{own(kernel.Failed), other(kernel.Succeeded), loose}, "running"},
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) { expect(t, snapshot(marked(facts(), x, c.owners...), c.jobs...), "q", c.want) })
	}
}

// Semantics 3.8: an old marker does not satisfy a need while a newer producer,
// enqueued before the consumer, is active.
func TestSupersededTokens(t *testing.T) {
	const x = "custom:t:x"
	waits := "waiting_on_deps dependencies: waiting on " + x
	for _, s := range kernel.Statuses() {
		newer := job("b", produces(x), is(s), approval(kernel.Pending, ""))
		newer.State.RetryAt = t0.AddDate(1, 0, 0)
		want := "running"
		if s.Active() {
			want = waits
		}
		expect(t, snapshot(marked(facts(), x, "a"), job("a", produces(x), is(kernel.Succeeded)), newer, job("q", needs(x))), "q", want)
		expect(t, snapshot(marked(facts(), x, "a"), newer, job("q", needs(x))), "q", want) // the owner's record is gone
	}
	held := approval(kernel.Pending, "")
	for name, jobs := range map[string][]kernel.Job{
		"the newer producer's own marker": {job("b", produces(x), is(kernel.Succeeded)), job("a", produces(x), held)},
		"a producer after the consumer":   {job("b", produces(x), is(kernel.Succeeded)), job("r", produces(x), held)},
	} {
		t.Run(name, func(t *testing.T) {
			expect(t, snapshot(marked(facts(), x, "b"), append(jobs, job("q", needs(x)))...), "q", "running")
		})
	}
}

// The artifacts of a producer that is settled in a tick are published before
// its consumers are judged.
func TestTokenOfAnAttemptSettledInTheSameTick(t *testing.T) {
	const x = "custom:t:x"
	p := job("p", running(2), produces(x))
	r := kernel.Result{Attempt: p.Attempt(), Outcome: kernel.OutcomeSucceeded, Produced: artifacts(x)}
	for _, consumer := range []kernel.JobID{"a", "q"} {
		s := snapshot(dead(marked(facts(), x), p.Attempt(), &r), p, job(consumer, needs(x)))
		expect(t, s, "p", "succeeded")
		expect(t, s, consumer, "running")
	}
}

// An explanation of a job that waits for an artifact names the job that makes
// it, and what to do about that job.
func TestWhyNamesTheProducerOfAnUnmetNeed(t *testing.T) {
	const label = "custom:t:x"
	makes := func(id kernel.JobID, o option) kernel.Job { return job(id, produces(label), o) }
	pending := func(j *kernel.Job) { j.State.Approval.State = kernel.Pending }
	removed := func(j *kernel.Job) { j.State.Status, j.State.Removed = kernel.Succeeded, time.Unix(1, 0) }
	for name, c := range map[string]struct {
		producers      []kernel.Job
		job            kernel.JobID
		clears, remedy string
	}{
		"in the making":   {[]kernel.Job{makes("p", running(1))}, "p", "job p, running", ""},
		"the first":       {[]kernel.Job{makes("p", running(1)), makes("r", running(1))}, "p", "job p, running", ""},
		"who still may":   {[]kernel.Job{makes("p", is(kernel.Failed)), makes("r", pending)}, "r", "job r, queued", "approve r"},
		"without it":      {[]kernel.Job{makes("p", is(kernel.Succeeded))}, "p", "a retry of job p, which did not make it", "retry p"},
		"removed":         {[]kernel.Job{makes("p", removed)}, "p", "a retry of job p, whose files were removed", "retry p"},
		"nobody succeeds": {[]kernel.Job{makes("p", is(kernel.Failed)), makes("r", is(kernel.Cancelled))}, "p", "a retry of what failed", "retry p"},
		"nobody":          {nil, "", "a job that produces it, then a retry", "produce "},
	} {
		e, err := kernel.Explain(snapshot(marked(facts(), label), append(c.producers, job("z", needs(label)))...), "z")
		if err != nil || len(e.Unmet) != 1 {
			t.Errorf("%s: %v, unmet %+v", name, err, e.Unmet)
			continue
		}
		if u := e.Unmet[0]; u.Job != c.job || u.Artifact != artifact(label) || u.Clears != c.clears {
			t.Errorf("%s: about job %q and %s, cleared by %q", name, u.Job, u.Artifact, u.Clears)
		}
		remedies := ""
		if len(e.Actions) > 0 {
			remedies = e.Actions[0].Kind.String() + " " + string(e.Actions[0].Job)
		}
		if remedies != c.remedy {
			t.Errorf("%s: do %+v, want %q", name, e.Actions, c.remedy)
		}
	}
}

// A merge does not take the approval of a branch for another one of the same plan's name.
func TestATokenIsOfItsBranch(t *testing.T) {
	const token = "custom:stage_token:approve:w"
	of := func(run kernel.RunID, branch string) option {
		return func(j *kernel.Job) { j.Spec.Origin.Run, j.Spec.Origin.Plan, j.Spec.Origin.Branch = run, "w", branch }
	}
	merges := func(j *kernel.Job) { j.Spec.Origin.About.Operation = "git.integrate_plan_branch" }
	for branch, want := range map[string]string{
		"draft/w": "running",
		"other":   "waiting_on_deps dependencies: awaiting producer for " + token,
	} {
		approve := job("a", of("ra", "draft/w"), produces(token), is(kernel.Succeeded))
		merge := job("m", of("rm", branch), merges, needs(token), policy(kernel.Wait))
		expect(t, snapshot(marked(facts(), token, "a"), approve, merge), "m", want)
	}
}

// What other runs did on a branch after a stage's token was made takes its worth from it, for what takes the branch.
func TestWhatOutdatesAToken(t *testing.T) {
	const token, other, plan = "custom:stage_token:approve:w", "custom:other:approve:w", "plan_doc:w (draft/w)"
	const merge, tree = "git.integrate_plan_branch", "worktree.prepare"
	in := func(run kernel.RunID, branch, operation string) option {
		return func(j *kernel.Job) {
			j.Spec.Origin.Run, j.Spec.Origin.Plan, j.Spec.Origin.Branch, j.Spec.Origin.About.Operation = run, "w", branch, operation
		}
	}
	began := func(minute int) option {
		return func(j *kernel.Job) { j.State.Attempt, j.State.Started = 1, t0.Add(time.Duration(minute)*time.Minute) }
	}
	retired := func(j *kernel.Job) { j.State.Retired = true }
	made := func(o ...option) kernel.Job {
		return job("a", append([]option{in("ra", "draft/w", ""), produces(token, other), is(kernel.Succeeded), finishedAt(t0)}, o...)...)
	}
	worked := func(run kernel.RunID, branch string, minute int) kernel.Job {
		return job("w", in(run, branch, tree), is(kernel.Succeeded), began(minute))
	}
	drafts := func(run kernel.RunID, branch string, st kernel.Status, minute int, o ...option) kernel.Job {
		return job("d", append([]option{in(run, branch, "plan.persist"), produces("plan_doc:w (" + branch + ")"), is(st), began(minute)}, o...)...)
	}
	again := func(run kernel.RunID, branch string, st kernel.Status, o ...option) kernel.Job {
		return job("b", append([]option{in(run, branch, ""), produces(token), is(st)}, o...)...)
	}
	failed, missing := "blocked_by_dependency dependencies: dependency failed for "+token, "blocked_by_dependency dependencies: missing "+token
	for name, c := range map[string]struct {
		jobs      []kernel.Job
		operation string
		needs     string
		want      string
	}{
		"nothing":                                {[]kernel.Job{made()}, merge, token, "running"},
		"a run that failed after it":             {[]kernel.Job{made(), worked("rb", "draft/w", 1), again("rb", "draft/w", kernel.Failed)}, merge, token, failed},
		"one that was cancelled":                 {[]kernel.Job{made(), worked("rb", "draft/w", 1), again("rb", "draft/w", kernel.Cancelled)}, merge, token, failed},
		"one that succeeded":                     {[]kernel.Job{made(), worked("rb", "draft/w", 1), again("rb", "draft/w", kernel.Succeeded)}, merge, token, "running"},
		"one that failed before it":              {[]kernel.Job{made(), worked("rb", "draft/w", -1), again("rb", "draft/w", kernel.Failed)}, merge, token, "running"},
		"one that failed and never worked on it": {[]kernel.Job{made(), again("rb", "draft/w", kernel.Failed)}, merge, token, "running"},
		"one of another branch":                  {[]kernel.Job{made(), worked("rb", "other", 1), again("rb", "other", kernel.Failed)}, merge, token, "running"},
		"one of an earlier cycle":                {[]kernel.Job{made(), worked("rb", "draft/w", 1), again("rb", "draft/w", kernel.Failed, retired)}, merge, token, "running"},
		"one, for what begins work":              {[]kernel.Job{made(), worked("rb", "draft/w", 1), again("rb", "draft/w", kernel.Failed)}, tree, token, failed},
		"one, for what takes no branch":          {[]kernel.Job{made(), worked("rb", "draft/w", 1), again("rb", "draft/w", kernel.Failed)}, "", token, "running"},
		"one, for what is no token":              {[]kernel.Job{made(), worked("rb", "draft/w", 1), job("b", in("rb", "draft/w", ""), produces(other), is(kernel.Failed))}, merge, other, "running"},
		"a plan that was drafted anew":           {[]kernel.Job{made(), drafts("rb", "draft/w", kernel.Succeeded, 1)}, merge, token, missing},
		"a plan that was drafted before":         {[]kernel.Job{made(), drafts("rb", "draft/w", kernel.Succeeded, -1)}, merge, token, "running"},
		"a draft that failed":                    {[]kernel.Job{made(), drafts("rb", "draft/w", kernel.Failed, 1)}, merge, token, "running"},
		"a draft of its own run":                 {[]kernel.Job{made(), drafts("rm", "draft/w", kernel.Succeeded, 1)}, merge, token, "running"},
		"a draft of another branch":              {[]kernel.Job{made(), drafts("rb", "other", kernel.Succeeded, 1)}, merge, token, "running"},
		"a draft of an earlier cycle":            {[]kernel.Job{made(), drafts("rb", "draft/w", kernel.Succeeded, 1, retired)}, merge, token, "running"},
		"a draft, for what merges nothing":       {[]kernel.Job{made(), drafts("rb", "draft/w", kernel.Succeeded, 1)}, tree, token, "running"},
		"a merge that closed its cycle":          {[]kernel.Job{made(retired)}, merge, token, missing},
	} {
		f := marked(marked(facts(), token, "a"), other, "a")
		f.Present[artifact(plan)] = kernel.Seen(true)
		s := snapshot(f, append(c.jobs, job("m", in("rm", "draft/w", c.operation), needs(c.needs)))...)
		d, _ := decided(t, s, "m")
		if got := said(d.Next, d.Reason); got != c.want {
			t.Errorf("%s: %s\nwant %s", name, got, c.want)
		}
	}
}

// An approval for another branch, also one that is still to come, neither keeps a merge waiting nor takes the place
// of the one that it has. why says which branch it is for, and how to have the right one.
func TestAMergeIsNotHeldUpByTheApprovalOfAnotherBranch(t *testing.T) {
	const token = "custom:stage_token:approve:w"
	of := func(run kernel.RunID, branch string) option {
		return func(j *kernel.Job) { j.Spec.Origin.Run, j.Spec.Origin.Plan, j.Spec.Origin.Branch = run, "w", branch }
	}
	merges := func(j *kernel.Job) { j.Spec.Origin.About.Operation = "git.integrate_plan_branch" }
	own := job("a", of("ra", "draft/w"), produces(token), is(kernel.Succeeded))
	other := func(st kernel.Status) kernel.Job { return job("b", of("rb", "other"), produces(token), is(st)) }
	awaiting := "waiting_on_deps dependencies: awaiting producer for " + token
	for name, c := range map[string]struct {
		marks          []kernel.JobID
		jobs           []kernel.Job
		branch         string // of the merge
		want           string
		detail         string
		branchOfRemedy string
	}{
		"the other is to come":         {nil, []kernel.Job{other(kernel.WaitingOnDeps)}, "draft/w", awaiting, ": the one to come is for branch other", ""},
		"the other is made":            {[]kernel.JobID{"b"}, []kernel.Job{other(kernel.Succeeded)}, "draft/w", awaiting, ": that there is was made for branch other", ""},
		"the other failed":             {nil, []kernel.Job{other(kernel.Failed)}, "draft/w", awaiting, "", ""},
		"its own, and one to come":     {[]kernel.JobID{"a"}, []kernel.Job{own, other(kernel.WaitingOnDeps)}, "draft/w", "running", "", ""},
		"its own, and the other":       {[]kernel.JobID{"a", "b"}, []kernel.Job{own, other(kernel.Succeeded)}, "draft/w", "running", "", ""},
		"its own for a merge of other": {[]kernel.JobID{"a"}, []kernel.Job{own}, "other", awaiting, ": that there is was made for branch draft/w", "other"},
		"both, for the merge of other": {[]kernel.JobID{"a", "b"}, []kernel.Job{own, other(kernel.Succeeded)}, "other", "running", "", ""},
		"the other, that it merges":    {nil, []kernel.Job{own, other(kernel.Running)}, "other", "waiting_on_deps dependencies: waiting on " + token, "", ""},
	} {
		s := snapshot(marked(facts(), token, c.marks...), append(c.jobs, job("m", of("rm", c.branch), merges, needs(token), policy(kernel.Wait)))...)
		expect(t, s, "m", c.want)
		if c.want != awaiting {
			continue
		}
		e, err := kernel.Explain(s, "m")
		want := kernel.Remedy{Kind: kernel.ProduceArtifact, Artifact: artifact(token), Pinned: kernel.PinnedHead{Branch: c.branchOfRemedy}}
		if err != nil || len(e.Unmet) != 1 || e.Unmet[0].Detail != "awaiting producer for "+token+c.detail || !slices.Equal(e.Actions, []kernel.Remedy{want}) {
			t.Errorf("%s: %+v, %+v, %v", name, e.Unmet, e.Actions, err)
		}
	}
}
