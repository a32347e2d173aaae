package foresight_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/foresight"
)

var t0 = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func world(jobs ...kernel.Job) *kernel.Snapshot {
	facts := kernel.NewFacts()
	for i := range jobs {
		j := &jobs[i]
		j.Created, j.Rev, j.Spec.Task.Args = t0, 1, []string{"true"}
		if j.State.Status == kernel.Running {
			j.State.Attempt = 1
			facts.Runners[j.Attempt()] = kernel.Seen(kernel.Runner{Liveness: kernel.Alive})
		}
		for _, a := range slices.Concat(j.Spec.Needs, j.Spec.Produces) {
			facts.Markers[a] = kernel.Seen[[]kernel.JobID](nil)
		}
	}
	s := kernel.NewSnapshot(kernel.Observation{Now: t0, Jobs: jobs, Facts: facts, Limits: kernel.Limits{Pools: map[string]int{"gpu": 1}}})
	return s.Apply(kernel.Decide(s))
}

func named(id kernel.JobID, more func(*kernel.Job)) kernel.Job {
	j := kernel.Job{ID: id}
	if more != nil {
		more(&j)
	}
	return j
}

func running(j *kernel.Job) { j.State.Status = kernel.Running }

func gated(j *kernel.Job) { j.State.Approval = kernel.Require(t0, "ann") }

func after(ids ...kernel.JobID) func(*kernel.Job) {
	return func(j *kernel.Job) { j.Spec.After = ids }
}

func locked(key string) func(*kernel.Job) {
	return func(j *kernel.Job) { j.Spec.Locks = []kernel.Lock{{Key: key}} }
}

func both(f ...func(*kernel.Job)) func(*kernel.Job) {
	return func(j *kernel.Job) {
		for _, f := range f {
			f(j)
		}
	}
}

// Every change leads where the kernel's tick leads it, and to nothing else.
func TestWhatIf(t *testing.T) {
	binary := kernel.Artifact{Kind: kernel.Custom, Name: "binary", Ref: "app"}
	branch := kernel.Artifact{Kind: kernel.PlanBranch, Name: "p", Ref: "draft/p"}
	report := kernel.Artifact{Kind: kernel.Custom, Name: "report", Ref: "app"}
	makes := func(j *kernel.Job) {
		j.Spec.Produces = []kernel.Artifact{binary, report, branch}
		j.Spec.ProducesOn = []kernel.Products{{On: kernel.OutcomeSucceeded, Artifacts: []kernel.Artifact{binary}}, {On: kernel.OutcomeFailed, Artifacts: []kernel.Artifact{report, branch}}}
	}
	gpu := kernel.Lock{Key: "gpu", Mode: kernel.Shared, Units: 1}
	for name, c := range map[string]struct {
		jobs    []kernel.Job
		changes []foresight.Change
		want    map[kernel.JobID]kernel.Status
	}{
		"an approval starts the job": {
			[]kernel.Job{named("a", gated), named("b", after("a"))},
			[]foresight.Change{foresight.Approve{Job: "a"}},
			map[kernel.JobID]kernel.Status{"a": kernel.Running},
		},
		"a rejection blocks what comes after": {
			[]kernel.Job{named("a", gated), named("b", after("a")), named("c", nil)},
			[]foresight.Change{foresight.Reject{Job: "a"}},
			map[kernel.JobID]kernel.Status{"a": kernel.BlockedByApproval, "b": kernel.BlockedByDependency},
		},
		"a success starts what waits for it, and for what it makes": {
			[]kernel.Job{named("a", both(running, func(j *kernel.Job) { j.Spec.Produces = []kernel.Artifact{binary} })), named("b", after("a")),
				named("c", func(j *kernel.Job) { j.Spec.Needs = []kernel.Artifact{binary} })},
			[]foresight.Change{foresight.Succeed{Job: "a"}},
			map[kernel.JobID]kernel.Status{"a": kernel.Succeeded, "b": kernel.Running, "c": kernel.Running},
		},
		"a success starts what waits for the branch that it makes": {
			[]kernel.Job{named("a", both(running, func(j *kernel.Job) { j.Spec.Produces = []kernel.Artifact{branch} })),
				named("b", func(j *kernel.Job) { j.Spec.Needs = []kernel.Artifact{branch} })},
			[]foresight.Change{foresight.Succeed{Job: "a"}},
			map[kernel.JobID]kernel.Status{"a": kernel.Succeeded, "b": kernel.Running},
		},
		"a failure starts what waits for what it makes": {
			[]kernel.Job{named("a", both(running, makes)), named("b", func(j *kernel.Job) { j.Spec.Needs = []kernel.Artifact{binary} }),
				named("c", func(j *kernel.Job) { j.Spec.Needs = []kernel.Artifact{report} }), named("d", func(j *kernel.Job) { j.Spec.Needs = []kernel.Artifact{branch} })},
			[]foresight.Change{foresight.Fail{Job: "a", Code: 1}},
			map[kernel.JobID]kernel.Status{"a": kernel.Failed, "b": kernel.BlockedByDependency, "c": kernel.Running, "d": kernel.Running},
		},
		"a success does not make what only a failure makes": {
			[]kernel.Job{named("a", both(running, makes)), named("b", func(j *kernel.Job) { j.Spec.Needs = []kernel.Artifact{binary} }),
				named("c", func(j *kernel.Job) { j.Spec.Needs = []kernel.Artifact{report} })},
			[]foresight.Change{foresight.Succeed{Job: "a"}},
			map[kernel.JobID]kernel.Status{"a": kernel.Succeeded, "b": kernel.Running, "c": kernel.BlockedByDependency},
		},
		"a job that waits succeeds as well": {
			[]kernel.Job{named("a", gated), named("b", after("a"))},
			[]foresight.Change{foresight.Succeed{Job: "a"}},
			map[kernel.JobID]kernel.Status{"a": kernel.Succeeded, "b": kernel.Running},
		},
		"a failure": {
			[]kernel.Job{named("a", running), named("b", after("a"))},
			[]foresight.Change{foresight.Fail{Job: "a", Code: 3}},
			map[kernel.JobID]kernel.Status{"a": kernel.Failed, "b": kernel.BlockedByDependency},
		},
		"a cancel ends what runs, and its lock is free": {
			[]kernel.Job{named("a", both(running, locked("x"))), named("b", locked("x"))},
			[]foresight.Change{foresight.Cancel{Jobs: []kernel.JobID{"a"}}},
			map[kernel.JobID]kernel.Status{"a": kernel.Cancelled, "b": kernel.Running},
		},
		"a lock that is let go": {
			[]kernel.Job{named("a", both(running, locked("x"))), named("b", locked("x"))},
			[]foresight.Change{foresight.Release{Lock: "x"}},
			map[kernel.JobID]kernel.Status{"b": kernel.Running},
		},
		"a larger pool": {
			[]kernel.Job{named("a", both(running, func(j *kernel.Job) { j.Spec.Locks = []kernel.Lock{gpu} })), named("b", func(j *kernel.Job) { j.Spec.Locks = []kernel.Lock{gpu} })},
			[]foresight.Change{foresight.Resize{Pool: "gpu", Units: 2}},
			map[kernel.JobID]kernel.Status{"b": kernel.Running},
		},
		"a retry of what failed": {
			[]kernel.Job{named("a", func(j *kernel.Job) { j.State.Status, j.State.Attempt = kernel.Failed, 1 }), named("b", after("a"))},
			[]foresight.Change{foresight.Retry{Jobs: []kernel.JobID{"a"}}},
			map[kernel.JobID]kernel.Status{"a": kernel.Running, "b": kernel.WaitingOnDeps},
		},
		"time after which a failure is tried again": {
			[]kernel.Job{named("a", func(j *kernel.Job) {
				j.State.Status, j.State.Attempt, j.State.RetryAt = kernel.FailedRetryable, 1, t0.Add(time.Minute)
			})},
			[]foresight.Change{foresight.Pass{Time: 2 * time.Minute}},
			map[kernel.JobID]kernel.Status{"a": kernel.Running},
		},
		"less time": {
			[]kernel.Job{named("a", func(j *kernel.Job) {
				j.State.Status, j.State.Attempt, j.State.RetryAt = kernel.FailedRetryable, 1, t0.Add(time.Minute)
			})},
			[]foresight.Change{foresight.Pass{Time: time.Second}},
			map[kernel.JobID]kernel.Status{},
		},
		"new jobs": {
			[]kernel.Job{named("a", nil)},
			[]foresight.Change{foresight.Submit{Jobs: []kernel.NewJob{{ID: "0123456789abcdef0123456789abcdef", Spec: kernel.Spec{Task: kernel.Task{Args: []string{"true"}}, After: []kernel.JobID{"a"}}}}}},
			map[kernel.JobID]kernel.Status{"0123456789abcdef0123456789abcdef": kernel.WaitingOnDeps},
		},
		"one after the other": {
			[]kernel.Job{named("a", gated), named("b", both(gated, after("a"))), named("c", after("b"))},
			[]foresight.Change{foresight.Approve{Job: "a"}, foresight.Approve{Job: "b"}, foresight.Succeed{Job: "a"}, foresight.Succeed{Job: "b"}},
			map[kernel.JobID]kernel.Status{"a": kernel.Succeeded, "b": kernel.Succeeded, "c": kernel.Running},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := world(c.jobs...)
			f, err := foresight.WhatIf(s, c.changes)
			if err != nil {
				t.Fatal(err)
			}
			got := map[kernel.JobID]kernel.Status{}
			for _, m := range f.Moved() {
				got[m.Then.ID] = m.Then.State.Status
			}
			if len(got) != len(c.want) {
				t.Errorf("moved %v, want %v", got, c.want)
			}
			for id, want := range c.want {
				if st, moved := got[id]; !moved || st != want {
					t.Errorf("%s: %v (moved: %v), want %v", id, st, moved, want)
				}
			}
			if s.Limits().Pools["gpu"] != 1 {
				t.Error("the snapshot itself was changed")
			}
			if asked := f.Then.Probes().Attempts; len(asked) > len(s.Probes().Attempts) {
				t.Errorf("it asks for runners of %v, which nobody has launched", asked)
			}
		})
	}
}

func TestWhatCannotHappenIsRefused(t *testing.T) {
	closes := func(branch string, also ...func(*kernel.Job)) func(*kernel.Job) {
		return both(append(also, func(j *kernel.Job) {
			j.Spec.Origin = kernel.Origin{Branch: branch, About: kernel.NodeInfo{Operation: "git.integrate_plan_branch"}}
			j.Spec.Produces = []kernel.Artifact{{Kind: kernel.MergeSentinel, Name: strings.TrimPrefix(branch, "draft/")}}
		})...)
	}
	s := world(named("a", nil), named("b", func(j *kernel.Job) { j.State.Status, j.State.Attempt = kernel.Failed, 1 }), named("c", both(running, locked("held"))),
		named("d", both(after("c"), locked("asked"))), named("e", func(j *kernel.Job) {
			j.Spec.After, j.Spec.Locks = []kernel.JobID{"c"}, []kernel.Lock{{Key: "used", Mode: kernel.Shared, Units: 1}}
		}), named("m", closes("draft/p")), named("n", closes("draft/q", func(j *kernel.Job) { j.State.Status = kernel.Succeeded })),
		named("o", func(j *kernel.Job) { j.Spec.Origin.Branch = "draft/r" }))
	for _, c := range []struct {
		change foresight.Change
		want   error
	}{
		{foresight.Approve{Job: "a"}, kernel.ErrConflict},
		{foresight.Succeed{Job: "b"}, kernel.ErrConflict},
		{foresight.Succeed{Job: "z"}, kernel.ErrNotFound},
		{foresight.Fail{Job: "a", Code: 0}, kernel.ErrInvalid},
		{foresight.Merge{Branch: "draft/x"}, kernel.ErrNotFound},
		{foresight.Release{Lock: "x"}, kernel.ErrNotFound},
		{foresight.Resize{Pool: "cpu", Units: 2}, kernel.ErrNotFound},
		{foresight.Resize{Pool: "gpu", Units: -1}, kernel.ErrInvalid},
		{foresight.Pass{Time: -time.Second}, kernel.ErrInvalid},
		{foresight.Pass{}, kernel.ErrInvalid},
		{foresight.Pass{Time: 1}, nil},
		{foresight.Fail{Job: "a", Code: 1}, nil},
		{foresight.Fail{Job: "a", Code: 255}, nil},
		{foresight.Fail{Job: "a", Code: 256}, kernel.ErrInvalid},
		{foresight.Fail{Job: "b", Code: 1}, kernel.ErrConflict},
		{foresight.Merge{Branch: "draft/p"}, nil},
		{foresight.Merge{Branch: "draft/q"}, kernel.ErrNotFound},
		{foresight.Merge{Branch: "draft/r"}, kernel.ErrNotFound},
		{foresight.Release{Lock: "held"}, nil},
		{foresight.Release{Lock: "asked"}, kernel.ErrNotFound},
		{foresight.Resize{Pool: "gpu", Units: 0}, nil},
		{foresight.Resize{Pool: "cpu", Units: 2, Known: true}, nil},
		{foresight.Resize{Pool: "used", Units: 2}, nil},
		{foresight.Resize{Pool: "held", Units: 2}, kernel.ErrNotFound},
		{foresight.Places{N: -1}, kernel.ErrInvalid},
		{foresight.Cancel{Jobs: []kernel.JobID{"b"}}, kernel.ErrConflict},
		{foresight.Cancel{Jobs: []kernel.JobID{"b", "a"}}, nil},
		{foresight.Cancel{Jobs: []kernel.JobID{"z", "a"}}, kernel.ErrNotFound},
		{foresight.Retry{Jobs: []kernel.JobID{"z"}}, kernel.ErrNotFound},
		{foresight.Submit{Jobs: []kernel.NewJob{{ID: "a"}}}, kernel.ErrConflict},
	} {
		if _, err := foresight.WhatIf(s, []foresight.Change{c.change}); !errors.Is(err, c.want) {
			t.Errorf("%+v: %v, want %v", c.change, err, c.want)
		}
	}
}

// A job that is told to succeed while it waits has had its first attempt, now.
func TestASuccessOfWhatWaitsIsAnAttempt(t *testing.T) {
	f, err := foresight.WhatIf(world(named("a", gated)), []foresight.Change{foresight.Succeed{Job: "a"}})
	if err != nil {
		t.Fatal(err)
	}
	if st := f.Then.Job("a").State; st.Attempt != 1 || !st.Started.Equal(t0) {
		t.Errorf("%+v", st)
	}
}

// Every change brings the jobs that it is about along.
func TestNearHoldsTheJobsOfEveryChange(t *testing.T) {
	one, two := kernel.JobID("one"), []kernel.JobID{"two", "three"}
	for _, c := range []foresight.Change{foresight.Approve{Job: one}, foresight.Reject{Job: one}, foresight.Succeed{Job: one}, foresight.Fail{Job: one},
		foresight.Cancel{Jobs: two}, foresight.Retry{Jobs: two}} {
		want := []kernel.JobID{one}
		switch c.(type) {
		case foresight.Cancel, foresight.Retry:
			want = two
		}
		near := foresight.Near([]foresight.Change{c}, time.Time{})
		all := []kernel.Near{{Kind: kernel.Attended}, {Kind: kernel.Outsiders}}
		for _, id := range want {
			all = append(all, kernel.Near{Kind: kernel.Itself, Job: id})
		}
		if !slices.Equal(near, append(all, kernel.Near{Kind: kernel.Due})) {
			t.Errorf("%#v needs %v", c, near)
		}
	}
	late := time.Unix(100, 0)
	if near := foresight.Near([]foresight.Change{foresight.Pass{Time: time.Minute}, foresight.Places{N: 1}}, late); !slices.Equal(near, []kernel.Near{{Kind: kernel.Attended}, {Kind: kernel.Outsiders}, {Kind: kernel.Due, At: late.Add(time.Minute)}}) {
		t.Errorf("a minute later %v is near", near)
	}
	need := kernel.Artifact{Kind: kernel.Custom, Name: "a", Ref: "b"}
	if out := foresight.Artifacts([]foresight.Change{foresight.Pass{Time: 1}, foresight.Submit{Jobs: []kernel.NewJob{{Spec: kernel.Spec{Needs: []kernel.Artifact{need}}}}}}); !slices.Equal(out, []kernel.Artifact{need}) {
		t.Errorf("new jobs need %v", out)
	}
}

// Whatever people see of a job moves it; what they do not see does not. Jobs that are new or gone have moved.
func TestWhatHasMoved(t *testing.T) {
	at := func(edit func(*kernel.Job)) *kernel.Snapshot {
		j := named("a", func(j *kernel.Job) { j.Rev, j.Created, j.Spec.Task.Args, j.State.Attempt = 1, t0, []string{"true"}, 1 })
		edit(&j)
		return kernel.NewSnapshot(kernel.Observation{Now: t0, Jobs: []kernel.Job{j}})
	}
	none := kernel.NewSnapshot(kernel.Observation{Now: t0})
	was := at(func(*kernel.Job) {})
	for name, c := range map[string]struct {
		then *kernel.Snapshot
		want int
	}{
		"nothing":    {at(func(*kernel.Job) {}), 0},
		"status":     {at(func(j *kernel.Job) { j.State.Status = kernel.Running }), 1},
		"wait":       {at(func(j *kernel.Job) { j.State.Wait.Detail = "x" }), 1},
		"attempt":    {at(func(j *kernel.Job) { j.State.Attempt = 2 }), 1},
		"generation": {at(func(j *kernel.Job) { j.State.Generation = 1 }), 1},
		"approval":   {at(func(j *kernel.Job) { j.State.Approval.State = kernel.Approved }), 1},
		"reason":     {at(func(j *kernel.Job) { j.State.Reason = "x" }), 1},
		"record":     {at(func(j *kernel.Job) { j.Rev = 2 }), 0},
		"gone":       {none, 1},
	} {
		moved := foresight.Forecast{Now: was, Then: c.then}.Moved()
		if len(moved) != c.want || c.want > 0 && (moved[0].Was != was.Job("a") || moved[0].Then != c.then.Job("a")) {
			t.Errorf("%s: %+v", name, moved)
		}
	}
	if moved := (foresight.Forecast{Now: none, Then: was}).Moved(); len(moved) != 1 || moved[0].Was != nil || moved[0].Then != was.Job("a") {
		t.Errorf("a new one: %+v", moved)
	}
	fresh := func(generation int) *kernel.Snapshot {
		return at(func(j *kernel.Job) { j.State.Attempt, j.State.Generation = 0, generation })
	}
	if moved := (foresight.Forecast{Now: fresh(0), Then: fresh(1)}).Moved(); len(moved) > 0 {
		t.Errorf("it begins again before it has begun: %+v", moved)
	}
}

// What has been merged is not there any more, what was made is, and what was stopped has ended with the exit code of a signal.
func TestWhatAChangeMakesOfTheWorld(t *testing.T) {
	branch, sentinel := kernel.Artifact{Kind: kernel.PlanBranch, Name: "p", Ref: "draft/p"}, kernel.Artifact{Kind: kernel.MergeSentinel, Name: "p"}
	s := world(named("a", both(running, func(j *kernel.Job) { j.Spec.Produces = []kernel.Artifact{branch} })), named("c", running),
		named("m", func(j *kernel.Job) {
			j.Spec.Origin, j.Spec.Produces = kernel.Origin{Branch: "draft/p", About: kernel.NodeInfo{Operation: "git.integrate_plan_branch"}}, []kernel.Artifact{sentinel}
		}))
	if f, err := foresight.WhatIf(kernel.NewSnapshot(kernel.Observation{Now: t0, Jobs: []kernel.Job{named("x", func(j *kernel.Job) { j.Rev, j.Spec.Task.Args = 1, []string{"true"} })}}), nil); err != nil || f.Now.Job("x").State.Status != kernel.Running || len(f.Moved()) > 0 {
		t.Errorf("a tick comes first: %v, %+v", err, f.Moved())
	}
	f, err := foresight.WhatIf(s, []foresight.Change{foresight.Succeed{Job: "a"}, foresight.Cancel{Jobs: []kernel.JobID{"c"}}})
	if err != nil {
		t.Fatal(err)
	}
	facts := f.Then.Facts()
	if !facts.Present[branch].Value || facts.Heads["draft/p"].Value == "" || len(facts.Heads) != 1 {
		t.Errorf("after the branch was made: %v, %v", facts.Present, facts.Heads)
	}
	if st := f.Then.Job("c").State; st.Status != kernel.Cancelled || st.Exit != kernel.Exited(143) {
		t.Errorf("what was stopped: %+v", st)
	}
	f, err = foresight.WhatIf(f.Then, []foresight.Change{foresight.Merge{Branch: "draft/p"}})
	if err != nil {
		t.Fatal(err)
	}
	facts = f.Then.Facts()
	closes := f.Then.Job("m").Spec.Closes()
	if len(closes) == 0 || !facts.Present[sentinel].Value {
		t.Errorf("%v are closed, there is %v", closes, facts.Present)
	}
	for _, a := range closes {
		if gone := facts.Present[a]; !gone.Known || gone.Value {
			t.Errorf("after the merge there is %s: %+v", a, gone)
		}
	}
}

// What would run again has left its worktree, and the file of a prompt is where its run is.
func TestWhatAChangeMakesOfWorktreesAndPrompts(t *testing.T) {
	failed := both(func(j *kernel.Job) {
		j.State.Status, j.State.Attempt, j.State.Context = kernel.Failed, 1, kernel.Context{Root: "w", Worktree: "w", Name: string(j.ID), Owned: true}
		j.Spec.OwnsContext = true
	})
	prompt := both(running, func(j *kernel.Job) { j.Spec.Prompt = &kernel.Prompt{File: string(j.ID)} })
	f, err := foresight.WhatIf(world(named("a", failed), named("b", failed), named("p", prompt), named("q", prompt)), []foresight.Change{
		foresight.Retry{Jobs: []kernel.JobID{"a", "b"}}, foresight.Succeed{Job: "p"}, foresight.Fail{Job: "q", Code: 1}})
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []kernel.JobID{"a", "b"} {
		if st := f.Then.Job(id).State; st.Status != kernel.Running || st.Retried.Status != kernel.CleanupDone || st.Context != (kernel.Context{}) {
			t.Errorf("%s: %+v", id, st)
		}
	}
	for id, want := range map[kernel.JobID][2]kernel.PromptName{"p": {kernel.RunningPrompt, kernel.DonePrompt}, "q": {kernel.RunningPrompt, kernel.ErrorPrompt}} {
		if was, is := f.Now.Job(id).State.Prompt.Named, f.Then.Job(id).State.Prompt.Named; was != want[0] || is != want[1] {
			t.Errorf("the prompt of %s is named %s and then %s", id, was, is)
		}
	}
}

// With other places, as many jobs run as there are; fewer than none is an error.
func TestPlacesThatAreChanged(t *testing.T) {
	s := world(named("a", nil), named("b", nil), named("c", nil))
	for n, want := range map[int]int{1: 1, 2: 2} {
		f, err := foresight.WhatIf(s, []foresight.Change{foresight.Places{N: n}})
		if err != nil || f.Then.Limits().MaxRunning != n {
			t.Errorf("%d places: %v, %+v", want, err, f.Then.Limits())
		}
	}
	if _, err := foresight.WhatIf(s, []foresight.Change{foresight.Places{N: -1}}); !errors.Is(err, kernel.ErrInvalid) || !strings.HasPrefix(err.Error(), "not -1 jobs can run at once") {
		t.Errorf("%v", err)
	}
	if f, err := foresight.WhatIf(s, []foresight.Change{foresight.Places{}}); err != nil || f.Then.Limits().MaxRunning != 0 {
		t.Errorf("no limit: %v", err)
	}
}
