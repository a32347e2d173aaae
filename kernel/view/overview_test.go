package view_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/view"
)

// numbered returns a job the reference N or N/PART.
func numbered(n int, part string) func(*kernel.Job) {
	return func(j *kernel.Job) { j.Number, j.Part = kernel.Number(n), part }
}

// What follows from a job that somebody cancelled is shown by the first job of another run that it blocks:
// nothing else tells of it. A failure tells of what follows from it.
func TestOverviewOfWhatACancelledJobBlocks(t *testing.T) {
	t.Parallel()
	token := kernel.Artifact{Kind: kernel.Custom, Name: kernel.StageToken, Ref: "approve:x"}
	makes := func(j *kernel.Job) { j.Spec.Produces = []kernel.Artifact{token} }
	blocked := func(id string, n int, part string, at int, edit ...func(*kernel.Job)) kernel.Job {
		return job(id, at, kernel.BlockedByDependency, append(edit, numbered(n, part), ended(20, "", kernel.NoFailure))...)
	}
	lacks := func(j *kernel.Job) {
		j.Spec.Needs = []kernel.Artifact{token}
		j.State.Wait = kernel.WaitReason{Kind: kernel.OnDependencies, Cause: kernel.ArtifactMissing, Artifact: token, Detail: "dependency failed for " + token.String()}
	}
	earlier := job("a0", 0, kernel.Failed, numbered(1, "terminal"), ended(1, "exit code 2", kernel.ExitFailure), makes)
	made := job("a1", 1, kernel.Succeeded, numbered(2, "terminal"), ended(2, "", kernel.NoFailure), makes)
	rest := []kernel.Job{
		blocked("b2", 3, "terminal", 3, after("b1"), makes), blocked("c1", 4, "merge", 4, lacks), blocked("c2", 4, "check", 5, after("c1")),
		blocked("d1", 5, "", 6, after("c2")), job("e1", 7, kernel.Cancelled, numbered(6, ""), ended(20, "", kernel.NoFailure)), blocked("e2", 7, "", 8, after("e1")),
		blocked("f1", 8, "x", 9, after("e1")), blocked("f2", 8, "y", 10, after("e1", "f1")),
	}
	cancelled := job("b1", 2, kernel.Cancelled, numbered(3, "agent"), ended(20, "", kernel.NoFailure))
	text(t, sketch(overviewOf(t, snap(append([]kernel.Job{earlier, made, cancelled}, rest...)...), view.OverviewOptions{FailedSince: hour.Add(10 * time.Minute)})),
		"failed 4/merge do c1 dependency failed for custom:stage_token:approve:x vizier why 4/merge\nfailed 7 do e2 blocked_by_dependency vizier why 7\nfailed 8/x do f1 blocked_by_dependency vizier why 8/x\n")
	failed := job("b1", 2, kernel.Failed, numbered(3, "agent"), ended(20, "exit code 2", kernel.ExitFailure))
	text(t, sketch(overviewOf(t, snap(append([]kernel.Job{earlier, made, failed}, rest[:4]...)...), view.OverviewOptions{FailedSince: hour.Add(10 * time.Minute)})),
		"failed 3/agent do b1 exit 2 vizier tail 3/agent\n")
	waits := func(j *kernel.Job) { j.Spec.MissingProducer = kernel.Wait }
	text(t, sketch(overviewOf(t, snap(blocked("c1", 4, "merge", 4, lacks, waits)), view.OverviewOptions{FailedSince: hour})),
		"failed 4/merge do c1 awaiting producer for custom:stage_token:approve:x vizier why 4/merge\n")
}

// What is blocked has no line where another one tells of it: of two jobs that follow from the same one, of a job that its run has held back, and
// of one that lacks what several jobs made and the last failed to.
func TestOverviewOfWhatIsToldAlready(t *testing.T) {
	t.Parallel()
	token, other := kernel.Artifact{Kind: kernel.Custom, Name: "x", Ref: "1"}, kernel.Artifact{Kind: kernel.Custom, Name: "y"}
	later := func(j *kernel.Job) { j.Spec.MissingProducer = kernel.Wait }
	at := func(n int, part string, edit ...func(*kernel.Job)) func(*kernel.Job) {
		return func(j *kernel.Job) {
			for _, e := range append(edit, numbered(n, part), ended(20, "", kernel.NoFailure)) {
				e(j)
			}
		}
	}
	waits := func(w kernel.WaitReason) func(*kernel.Job) {
		return func(j *kernel.Job) { j.State.Wait = w }
	}
	makes := func(j *kernel.Job) { j.Spec.Produces = []kernel.Artifact{token} }
	lacks := waits(kernel.WaitReason{Kind: kernel.OnDependencies, Cause: kernel.ArtifactMissing, Artifact: token})
	failed := func(id string, minute int, edit ...func(*kernel.Job)) kernel.Job {
		return job(id, minute, kernel.Failed, append(edit, ended(20, "exit code 2", kernel.ExitFailure))...)
	}
	blocked, succeeded := kernel.BlockedByDependency, kernel.Succeeded
	for name, c := range map[string]struct {
		jobs []kernel.Job
		want string
	}{
		"by two ways from what was cancelled": {[]kernel.Job{job("a", 0, kernel.Cancelled, at(1, "a")), job("b", 1, blocked, at(1, "b", after("a"))), job("c", 2, blocked, at(1, "c", after("b"))), job("d", 3, blocked, at(1, "d", after("b"))),
			job("e", 4, blocked, at(2, "", after("c", "d")))}, "failed 2 do e blocked_by_dependency vizier why 2"},
		"held back":           {[]kernel.Job{failed("a", 0, numbered(1, "a")), job("b", 1, blocked, at(1, "b", waits(kernel.WaitReason{Kind: kernel.OnDependencies, Cause: kernel.RunStopped, Job: "a"})))}, "failed 1/a do a exit 2 vizier tail 1/a"},
		"held back elsewhere": {[]kernel.Job{job("a", 0, kernel.Cancelled, at(1, "a")), job("b", 1, blocked, at(2, "b", waits(kernel.WaitReason{Kind: kernel.OnDependencies, Cause: kernel.RunStopped, Job: "a", Detail: "its run has stopped"})))}, "failed 2/b do b its run has stopped vizier why 2/b"},
		"made before": {[]kernel.Job{job("a", 0, succeeded, at(1, "", makes)), job("b", 1, succeeded, at(2, "", makes)), job("c", 2, succeeded, at(3, "", makes)), job("c2", 2, succeeded, at(6, "", makes)), failed("d", 3, numbered(4, ""), makes),
			job("e", 4, blocked, at(5, "", lacks, func(j *kernel.Job) { j.Spec.Needs = []kernel.Artifact{token} }))}, "failed 4 do d exit 2 vizier tail 4"},
		"one of two things": {[]kernel.Job{job("a", 0, kernel.Cancelled, at(1, "", makes)), failed("b", 1, numbered(2, ""), func(j *kernel.Job) { j.Spec.Produces = []kernel.Artifact{other} }),
			job("c", 2, blocked, at(3, "", lacks, func(j *kernel.Job) { j.Spec.Needs = []kernel.Artifact{token, other} }))}, "failed 2 do b exit 2 vizier tail 2\nfailed 3 do c blocked_by_dependency vizier why 3"},
		"before what has a line": {[]kernel.Job{job("a", 0, blocked, at(1, "", after("b"))), job("b", 1, blocked, at(2, "", after("c"))), job("c", 2, kernel.Cancelled, at(3, ""))}, "failed 2 do b blocked_by_dependency vizier why 2"},
		"another still runs": {[]kernel.Job{job("a", 0, kernel.Cancelled, at(1, "")), job("b", 1, kernel.Running, numbered(2, "")), job("c", 2, blocked, at(3, "", after("a", "b")))},
			"runs 2 do b\nfailed 3 do c blocked_by_dependency vizier why 3"},
		"made again, and gone": {[]kernel.Job{failed("a", 0, numbered(1, ""), makes), job("b", 1, succeeded, at(2, "", makes)), job("c", 2, blocked, at(3, "", lacks, func(j *kernel.Job) { j.Spec.Needs = []kernel.Artifact{token} }))},
			"failed 1 do a exit 2 vizier tail 1\nfailed 3 do c blocked_by_dependency vizier why 3"},
		"never begun": {[]kernel.Job{job("a", 0, kernel.Failed, numbered(1, ""), func(j *kernel.Job) {
			j.State.Finished, j.State.Failure, j.State.Reason, j.State.Exit = hour, kernel.LaunchFailure, "no such program", kernel.Exited(127)
		})}, "failed 1 do a no such program vizier why 1"},
		"after what is not on record": {[]kernel.Job{job("a", 0, kernel.WaitingOnDeps, numbered(1, ""), waitsForJob("gone"))}, "waits 1 do a after gone"},
		"nobody makes it":             {[]kernel.Job{job("a", 0, blocked, at(1, "", lacks, func(j *kernel.Job) { j.State.Wait.Detail = "nobody makes x" }))}, "failed 1 do a nobody makes x vizier why 1"},
		"nobody makes it, later":      {[]kernel.Job{job("a", 0, blocked, at(1, "", lacks, later))}, "failed 1 do a awaiting producer for custom:x:1 vizier why 1"},
		"rejected":                    {[]kernel.Job{job("a", 0, kernel.BlockedByApproval, at(1, "", lacks, later), func(j *kernel.Job) { j.State.Reason = "not today" })}, "failed 1 do a not today vizier why 1"},
		"any end will do": {[]kernel.Job{failed("a", 0, numbered(1, "")), job("b", 1, kernel.Cancelled, at(2, "")), job("c", 2, blocked, at(3, "", after("a", "b"), func(j *kernel.Job) { j.Spec.AfterAny = []kernel.JobID{"a"} }))},
			"failed 1 do a exit 2 vizier tail 1\nfailed 3 do c blocked_by_dependency vizier why 3"},
	} {
		t.Run(name, func(t *testing.T) {
			s := snap(c.jobs...)
			v := overviewOf(t, s, view.OverviewOptions{FailedSince: hour})
			text(t, sketch(v), c.want)
			for _, it := range v.Failed {
				st := &s.Job(it.Job).State
				if own := st.Status == kernel.Failed; own != (it.ExitCode != nil) {
					t.Errorf("%s has an exit code: %v", it.Name, it.ExitCode)
				}
				if begun := !st.Started.IsZero(); begun && it.Took != 3 || !begun && it.Took != 0 {
					t.Errorf("%s took %ds", it.Name, it.Took)
				}
			}
		})
	}
}

// Of jobs that block each other, the first is shown, and none that follow from them, wherever they come; if one of them also
// follows from a failure, that tells of all.
func TestOverviewOfJobsThatBlockEachOther(t *testing.T) {
	t.Parallel()
	x, y := kernel.Artifact{Kind: kernel.Custom, Name: "x"}, kernel.Artifact{Kind: kernel.Custom, Name: "y"}
	blocked := func(id string, at int, needs, makes kernel.Artifact, edit ...func(*kernel.Job)) kernel.Job {
		return job(id, at, kernel.BlockedByDependency, append(edit, numbered(at, ""), ended(20, "", kernel.NoFailure), func(j *kernel.Job) {
			j.Spec.Needs, j.Spec.Produces = []kernel.Artifact{needs}, []kernel.Artifact{makes}
			j.State.Wait = kernel.WaitReason{Kind: kernel.OnDependencies, Cause: kernel.ArtifactMissing, Artifact: needs, Detail: "missing " + needs.Name}
		})...)
	}
	behind := job("c", 4, kernel.BlockedByDependency, numbered(4, ""), ended(20, "", kernel.NoFailure), after("b"))
	before := job("c", 1, kernel.BlockedByDependency, numbered(1, ""), ended(20, "", kernel.NoFailure), after("b"))
	for name, jobs := range map[string][]kernel.Job{
		"one artifact":           {blocked("a", 2, x, x), blocked("b", 3, x, x), behind},
		"two artifacts":          {blocked("a", 2, x, y), blocked("b", 3, y, x), behind},
		"what follows is before": {before, blocked("a", 2, x, x), blocked("b", 3, x, x)},
	} {
		t.Run(name, func(t *testing.T) {
			text(t, sketch(overviewOf(t, snap(jobs...), view.OverviewOptions{FailedSince: hour})), "failed 2 do a missing x vizier why 2\n")
		})
	}
	failed := job("d", 5, kernel.Failed, numbered(5, ""), ended(20, "exit code 2", kernel.ExitFailure), func(j *kernel.Job) { j.Spec.Produces = []kernel.Artifact{x} })
	text(t, sketch(overviewOf(t, snap(blocked("a", 2, x, x), blocked("b", 3, x, x), behind, failed), view.OverviewOptions{FailedSince: hour})),
		"failed 5 do d exit 2 vizier tail 5\n")
}

// A job that waits for a pool which was made too small for it since is said to want more than it has.
func TestWaitsForAPoolThatShrank(t *testing.T) {
	t.Parallel()
	j := job("a", 0, kernel.WaitingOnLocks, numbered(1, ""), func(j *kernel.Job) {
		j.Spec.Locks = []kernel.Lock{{Key: "gpu", Units: 2}}
		j.State.Wait = kernel.WaitReason{Kind: kernel.OnLocks, Detail: "waiting on pool gpu (needs 2 of 4)"}
	})
	for units, want := range map[int]string{1: "waiting on pool gpu (needs 2 of 1: more than it has)", 4: "waiting on pool gpu (needs 2 of 4)"} {
		s := kernel.NewSnapshot(kernel.Observation{Now: hour, Limits: kernel.Limits{Pools: map[string]int{"gpu": units}}, Jobs: []kernel.Job{j}})
		lines := view.Lines(s, s.Jobs(), view.LinesOptions{})
		if len(lines) != 1 || lines[0].What != want {
			t.Errorf("%d units: %+v, want %q", units, lines, want)
		}
		part := "waits 1 do a " + want
		if units == 1 {
			part = "needs 1 do a pool " + want + " vizier why 1"
		}
		text(t, sketch(overviewOf(t, s, view.OverviewOptions{FailedSince: hour})), part)
	}
}

// A job that asks for more than a pool ever has needs a person, until the pool is larger: then the next tick sees to it.
func TestWaitsForAPoolThatWasTooSmall(t *testing.T) {
	t.Parallel()
	j := job("a", 0, kernel.WaitingOnLocks, numbered(1, ""), func(j *kernel.Job) {
		j.Spec.Locks = []kernel.Lock{{Key: "gpu", Units: 2}}
		j.State.Wait = kernel.WaitReason{Kind: kernel.OnLocks, Cause: kernel.PoolTooSmall, Detail: "pool gpu is too small"}
	})
	for units, want := range map[int]string{1: "needs 1 do a pool pool gpu is too small vizier why 1", 2: "waits 1 do a the next tick: its pool is larger now"} {
		s := kernel.NewSnapshot(kernel.Observation{Now: hour, Limits: kernel.Limits{Pools: map[string]int{"gpu": units}}, Jobs: []kernel.Job{j}})
		text(t, sketch(overviewOf(t, s, view.OverviewOptions{FailedSince: hour})), want)
	}
}

// jobsOf are the jobs that ref means.
func jobsOf(t *testing.T, s *kernel.Snapshot, ref string) []*kernel.Job {
	t.Helper()
	target, err := view.NewFinder(s).Find(ref)
	if err != nil {
		t.Fatal(err)
	}
	return target.Jobs
}

// waitsForJob has a job wait for another.
func waitsForJob(id kernel.JobID) func(*kernel.Job) {
	return func(j *kernel.Job) {
		j.Spec.After = []kernel.JobID{id}
		j.State.Wait = kernel.WaitReason{Kind: kernel.OnDependencies, Detail: "waiting on job " + string(id), Cause: kernel.JobNotEnded, Job: id}
	}
}

// ended returns when and how a job ended, at a minute of the hour.
func ended(minute int, reason string, class kernel.FailureClass) func(*kernel.Job) {
	return func(j *kernel.Job) {
		at := hour.Add(time.Duration(minute) * time.Minute)
		j.State.Started, j.State.Finished, j.State.Reason, j.State.Failure, j.State.Exit = at.Add(-3*time.Second), at, reason, class, kernel.Exited(2)
	}
}

// hour is when the jobs of these tests were created, and now is an hour later.
var hour = time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)

// later is when something is tried again.
var later = time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)

// againLater makes a job wait for its next attempt until later.
func againLater(j *kernel.Job) {
	const centuries = 200 * 365 * 24 * time.Hour
	j.State.RetryAt, j.Spec.Retry.Base, j.Spec.Retry.Cap = later, centuries, centuries
}

// sketch returns an overview in a few words: a line for each item.
func sketch(v view.Overview) string {
	var b strings.Builder
	for _, part := range []struct {
		title string
		items []view.Item
	}{{"needs", v.Attention}, {"runs", v.Running}, {"waits", v.Waiting}, {"failed", v.Failed}} {
		for _, it := range part.items {
			fmt.Fprintln(&b, strings.Join(strings.Fields(strings.Join([]string{part.title, it.Ref, it.Name, it.Progress(), string(it.Kind), it.What, strings.Join(it.Command, " ")}, " ")), " "))
		}
	}
	return b.String()
}

// What needs a person is in the order of its times, whatever has none.
func TestOverviewIsInOrder(t *testing.T) {
	t.Parallel()
	var prompts []view.RefusedPrompt
	for i, n := range []time.Duration{3, 0, 1, 2} {
		prompts = append(prompts, view.RefusedPrompt{Path: fmt.Sprintf("p%d", n)})
		if n > 0 {
			prompts[i].Since = hour.Add(n)
		}
	}
	var order []string
	for _, it := range overviewOf(t, snap(), view.OverviewOptions{Prompts: prompts}).Attention {
		order = append(order, it.File)
	}
	if got := strings.Join(order, " "); got != "p0 p1 p2 p3" {
		t.Error(got)
	}
}

// overviewOf returns the overview of s, which names the jobs that need a person and no others.
func overviewOf(t *testing.T, s *kernel.Snapshot, o view.OverviewOptions) view.Overview {
	t.Helper()
	v := view.OverviewOf(s, o)
	for _, j := range s.Jobs() {
		named := slices.ContainsFunc(v.Attention, func(it view.Item) bool { return it.Job == j.ID })
		if needs := view.NeedsYou(s, j); needs != named {
			t.Errorf("%s: named %v, needs you %v", j.ID, named, needs)
		}
	}
	return v
}

// A run and a batch are one line each; what only waits for a person, or only
// follows from another failure, is told by that.
func TestOverview(t *testing.T) {
	t.Parallel()
	s := snap(
		job("a1", 0, kernel.Running, numbered(1, "build"), node("run_ab12", "build"), func(j *kernel.Job) { j.State.Started, j.State.Attempt = hour, 1 }),
		job("a2", 1, kernel.WaitingOnDeps, numbered(1, "test"), node("run_ab12", "test"), waitsForJob("a1")),
		job("b1", 2, kernel.WaitingOnApproval, numbered(2, "gate"), node("run_cd34", "gate")),
		job("b2", 3, kernel.WaitingOnDeps, numbered(2, "deploy"), node("run_cd34", "deploy"), waitsForJob("b1")),
		job("b3", 4, kernel.WaitingOnDeps, numbered(2, "tell"), node("run_cd34", "tell"), waitsForJob("b2")),
		job("c1", 5, kernel.WaitingOnDeps, numbered(3, ""), waitsForJob("b3"), func(j *kernel.Job) { j.Spec.Name, j.State.Approval.State = "last", kernel.Pending }),
		job("d1", 6, kernel.WaitingOnLocks, numbered(4, "x"), func(j *kernel.Job) {
			j.State.Wait = kernel.WaitReason{Kind: kernel.OnLocks, Cause: kernel.ExecutorFull, Detail: "waiting on pool max_running"}
		}),
		job("d2", 7, kernel.WaitingOnLocks, numbered(4, "y")), job("d3", 8, kernel.Queued, numbered(4, "z")),
		job("e1", 9, kernel.FailedRetryable, numbered(5, ""), ended(10, "exit code 2", kernel.ExitFailure), func(j *kernel.Job) { j.Spec.Name = "flaky" }, againLater),
		job("f1", 10, kernel.Failed, numbered(6, ""), ended(20, "exit code 2", kernel.ExitFailure), func(j *kernel.Job) { j.Spec.Name = "lint" }),
		job("f2", 11, kernel.BlockedByDependency, numbered(7, ""), ended(20, "", kernel.NoFailure), after("f1")),
		job("f3", 12, kernel.BlockedByDependency, numbered(8, ""), ended(30, "", kernel.NoFailure), func(j *kernel.Job) { j.Spec.Name, j.State.Wait.Detail = "pack", "missing custom:a:b" }),
		job("f4", 13, kernel.Failed, numbered(9, ""), ended(-600, "exit code 2", kernel.ExitFailure)),
		job("g1", 14, kernel.Unscheduled, numbered(10, "asleep"), node("run_ef56", "asleep")),
	)
	members := s.Tally(jobsOf(t, s, "1"))
	members.Add(&kernel.Job{State: kernel.State{Status: kernel.Succeeded}})
	v := overviewOf(t, s, view.OverviewOptions{FailedSince: hour, Wholes: map[kernel.Number]kernel.Tally{1: members},
		Prompts: []view.RefusedPrompt{{Path: "in/a b.error.md", Again: "in/a b.prompt.md", Why: "no such\nflow"}},
		Progress: func(a kernel.AttemptID) view.Progress {
			done, total := int64(1), int64(4)
			return view.Progress{Done: &done, Total: &total}
		}})
	text(t, sketch(v), `needs 2/gate gate approval vizier jobs approve 2/gate
needs in/a b.error.md prompt no such flow mv in/a b.error.md in/a b.prompt.md
runs 1 1/3 build, 1 of 4 (25%)
waits 3 last after 2/tell, then approval
waits 4 batch a place among those that run (and 2 more)
waits 5 flaky automatic retry after: exit code 2
failed 8 pack missing custom:a:b vizier why 8
failed 6 lint exit 2 vizier tail 6
`)
	if it := v.Running[0]; it.Remaining != int64(3*s.Now().Sub(hour).Seconds()) {
		t.Errorf("a quarter is done after %v: %ds remain", s.Now().Sub(hour), it.Remaining)
	}
	if it := v.Failed[1]; it.Took != 3 || *it.ExitCode != 2 {
		t.Errorf("lint took %d, exit %v", it.Took, it.ExitCode)
	}
	if it := v.Waiting[2]; it.Until == nil || !it.Until.Equal(later) {
		t.Errorf("flaky is tried again at %v", it.Until)
	}
	valid(t, "status.schema.json", struct {
		Now time.Time `json:"now"`
		view.Overview
		Scheduler struct{} `json:"scheduler"`
	}{s.Now(), v, struct{}{}})
}

// A conflict that a merge handed to its gate is one thing to do, and none while
// the gate is at it.
func TestOverviewOfAConflict(t *testing.T) {
	t.Parallel()
	blocked := func(reason string) func(*kernel.Job) {
		return func(j *kernel.Job) {
			j.State.Outcome, j.State.Reason, j.State.Attempt = kernel.OutcomeBlocked, reason, 1
		}
	}
	routes := func(on kernel.Outcome, to kernel.JobID) func(*kernel.Job) {
		return func(j *kernel.Job) { j.Spec.Routes = append(j.Spec.Routes, kernel.Route{On: on, To: to}) }
	}
	conflict := "merging a into b " + kernel.InConflict + ": resolve f in d, `git add` them, then `vizier retry 1/gate`"
	merge := job("a1", 0, kernel.BlockedByDependency, numbered(1, "merge"), node("run_ab12", "merge"), blocked(conflict), routes(kernel.OutcomeBlocked, "a2"))
	gate := func(st kernel.Status, edit ...func(*kernel.Job)) kernel.Job {
		return job("a2", 1, st, append(edit, numbered(1, "gate"), node("run_ab12", "gate"), routes(kernel.OutcomeSucceeded, "a1"), func(j *kernel.Job) { j.Spec.Routed = true })...)
	}
	for _, c := range []struct {
		gate kernel.Job
		want string
	}{
		{gate(kernel.BlockedByDependency, blocked(conflict)), "needs 1/gate gate conflict merging a into b is in conflict: resolve f in d vizier retry 1/gate\n"},
		{gate(kernel.BlockedByDependency, blocked("the tree is gone")), "needs 1/gate gate blocked the tree is gone vizier retry 1/gate\n"},
		{gate(kernel.Failed), "needs 1/merge merge conflict merging a into b is in conflict: resolve f in d vizier retry 1/gate\n"},
		{gate(kernel.Cancelled), "needs 1/merge merge conflict merging a into b is in conflict: resolve f in d vizier retry 1/gate\n"},
		{gate(kernel.Unscheduled), "needs 1/merge merge conflict merging a into b is in conflict: resolve f in d vizier retry 1/merge\n"},
		{gate(kernel.Running), "runs 1 gate\n"},
	} {
		text(t, sketch(overviewOf(t, snap(merge, c.gate), view.OverviewOptions{FailedSince: hour})), c.want)
	}
	// A merge behind the conflict of another has nothing to retry before that is resolved.
	behind := job("a3", 2, kernel.BlockedByDependency, numbered(2, "merge"), node("run_ab13", "merge"), blocked("it "+kernel.BehindConflict+"a1 is open in d"))
	text(t, sketch(overviewOf(t, snap(merge, gate(kernel.Running), behind), view.OverviewOptions{FailedSince: hour})), "needs 2/merge merge blocked it conflicts here too, and that of a1 is open in d vizier why 2/merge\nruns 1 gate\n")

	// Of what else blocks the merge the gate knows nothing.
	dirty := job("a1", 0, kernel.BlockedByDependency, numbered(1, "merge"), node("run_ab12", "merge"), blocked("main has uncommitted changes"), routes(kernel.OutcomeBlocked, "a2"))
	idle := gate(kernel.BlockedByDependency, blocked(kernel.NoConflict+": see to it"))
	text(t, sketch(overviewOf(t, snap(dirty, idle), view.OverviewOptions{FailedSince: hour})), "needs 1/merge merge blocked main has uncommitted changes vizier retry 1/merge\n")
}

// A retry of all that failed takes along what is blocked and needs only a retry. A conflict is resolved first.
func TestFailedOrBlocked(t *testing.T) {
	t.Parallel()
	blocked := func(reason string, routes ...kernel.Route) func(*kernel.Job) {
		return func(j *kernel.Job) {
			j.State.Outcome, j.State.Reason, j.State.Attempt, j.Spec.Routes = kernel.OutcomeBlocked, reason, 1, routes
		}
	}
	to := func(id kernel.JobID) kernel.Route { return kernel.Route{On: kernel.OutcomeBlocked, To: id} }
	s := snap(
		job("a1", 0, kernel.Failed, numbered(1, "")),
		job("b1", 1, kernel.BlockedByDependency, numbered(2, "merge"), blocked("main has uncommitted changes", to("b2"))),
		job("b2", 2, kernel.BlockedByDependency, numbered(2, "gate"), blocked(kernel.NoConflict+": see to it")),
		job("c1", 3, kernel.BlockedByDependency, numbered(3, "merge"), blocked("it "+kernel.InConflict, to("c2"))),
		job("c2", 4, kernel.BlockedByDependency, numbered(3, "gate"), blocked("it is not resolved")),
		job("d1", 5, kernel.BlockedByDependency, numbered(4, "merge"), blocked("it "+kernel.InConflict)),
		job("e1", 6, kernel.BlockedByDependency, numbered(5, "merge"), blocked("it "+kernel.BehindConflict+"d1 is open in d")),
		job("f1", 7, kernel.BlockedByDependency, numbered(6, "")), // a job before it failed
		job("g1", 8, kernel.Succeeded, numbered(7, "")),
	)
	var got []string
	for _, j := range view.FailedOrBlocked(s) {
		got = append(got, string(j.ID))
	}
	text(t, strings.Join(got, " "), "a1 b1")
}

// Only what was launched has output to look at.
func TestPrinted(t *testing.T) {
	for class, want := range map[kernel.FailureClass]bool{kernel.ExitFailure: true, kernel.Timeout: true, kernel.LaunchFailure: false, kernel.RejectedByHost: false} {
		j := job("a", 0, kernel.Failed, func(j *kernel.Job) { j.State.Exit, j.State.Failure = kernel.Exited(1), class })
		if got := view.Printed(&j); got != want {
			t.Errorf("%v: %v", class, got)
		}
	}
	for what, j := range map[string]kernel.Job{"it runs": job("a", 0, kernel.Running), "it never exited": job("a", 0, kernel.Failed), "it succeeded": job("a", 0, kernel.Succeeded, func(j *kernel.Job) { j.State.Exit = kernel.Exited(0) })} {
		if view.Printed(&j) {
			t.Error(what)
		}
	}
}

// What runs is told by the job that has run for longest, with what there is to say of it; what waits says for what, and until when.
func TestOverviewOfWhatRuns(t *testing.T) {
	t.Parallel()
	runs := func(minute int, edit ...func(*kernel.Job)) func(*kernel.Job) {
		return func(j *kernel.Job) {
			j.State.Started, j.State.Attempt = hour.Add(time.Duration(minute)*time.Minute), 1
			for _, e := range edit {
				e(j)
			}
		}
	}
	far := func(j *kernel.Job) { j.Spec.Task.Executor = "far" }
	stopped := func(j *kernel.Job) { j.State.Stop = kernel.StopRequest{At: hour} }
	jobs := []kernel.Job{
		job("a1", 0, kernel.Running, numbered(1, "build"), node("run_ab12", "build"), runs(9)), job("a2", 1, kernel.Running, numbered(1, "lint"), node("run_ab12", "lint"), runs(8)),
		job("b", 2, kernel.Running, numbered(2, ""), runs(5, far)), job("c", 3, kernel.Running, numbered(3, ""), runs(7, stopped)),
		job("d", 4, kernel.Running, numbered(4, "x"), runs(6, far)), job("e1", 5, kernel.Running, numbered(5, "p"), runs(1, far)), job("e2", 6, kernel.Running, numbered(5, "q"), runs(2, far)), job("e3", 7, kernel.Running, numbered(5, "r"), runs(3, far)),
		job("f", 8, kernel.WaitingOnApproval, numbered(6, ""), func(j *kernel.Job) { j.State.Approval = kernel.Approval{State: kernel.Pending, ExpiresAt: later} }),
		job("g", 9, kernel.WaitingOnApproval, numbered(7, ""), func(j *kernel.Job) { j.State.WaitSince = hour.Add(time.Minute) }),
		job("h", 10, kernel.WaitingOnApproval, numbered(8, ""), func(j *kernel.Job) { j.State.WaitSince = hour }),
		job("i", 11, kernel.Queued, numbered(9, "y")), job("i2", 12, kernel.Queued, numbered(9, "z")), job("j", 13, kernel.Running, numbered(10, ""), runs(4, far)),
		job("k", 14, kernel.WaitingOnApproval, numbered(11, ""), func(j *kernel.Job) { j.State.Approval = kernel.Approval{State: kernel.Pending, ExpiresAt: hour} }),
	}
	facts := kernel.NewFacts()
	for id, r := range map[kernel.JobID]kernel.Runner{"b": {Liveness: kernel.Alive, Remark: "it is slow"}, "d": {Liveness: kernel.Alive, Remark: "held by the cluster"}, "e1": {Liveness: kernel.Alive, Pending: true},
		"e2": {Liveness: kernel.Alive}, "e3": {Liveness: kernel.Alive}, "j": {Liveness: kernel.Stalled, Remark: "not heard of", Heard: hour}, "c": {Liveness: kernel.Alive, Remark: "is ending"}} {
		facts.Runners[kernel.AttemptID{Job: id, N: 1}] = kernel.Seen(r)
	}
	s := kernel.NewSnapshot(kernel.Observation{Now: hour.Add(time.Hour), Jobs: jobs, Facts: facts, Limits: kernel.Limits{MaxRunning: 5}})
	v := overviewOf(t, s, view.OverviewOptions{FailedSince: hour})
	text(t, sketch(v), `needs 6 do f approval vizier jobs approve 6
needs 8 do h approval vizier jobs approve 8
needs 10 do j stalled not heard of vizier cancel 10
needs 7 do g approval vizier jobs approve 7
runs 5 batch q and 2 more
runs 10 do j not heard of
runs 2 do b it is slow
runs 4 batch x: held by the cluster
runs 3 do c is being cancelled
runs 1 lint and 1 more
waits 9 batch about to start (and 1 more)
waits 11 do k about to start
`)
	if v.Places != 5 || v.Attention[0].Until == nil || !v.Attention[0].Until.Equal(later) || v.Attention[1].Until != nil {
		t.Errorf("%d places, %+v", v.Places, v.Attention)
	}
	idle := view.OverviewOf(s, view.OverviewOptions{Idle: "nobody schedules"}).Waiting[0]
	equal(t, idle.What, "nobody schedules (and 1 more)")
	lines := view.Lines(s, s.Jobs()[2:3], view.LinesOptions{})
	equal(t, []string{lines[0].Status, lines[0].What}, []string{"running", "it is slow"})
	lines = view.Lines(s, s.Jobs()[5:8], view.LinesOptions{})
	equal(t, []string{lines[1].Status, lines[3].Status}, []string{"running", view.Submitted})
}

// An expected end is told with what it is known from; one that is over is now.
func TestExpectedEnds(t *testing.T) {
	for want, e := range map[string]view.ETA{"eta 1m (declared)": {At: hour.Add(time.Minute)}, "eta 1m (of 1 before)": {At: hour.Add(time.Minute), From: 1}, "eta 0s (of 1,200 before)": {At: hour.Add(-time.Minute), From: 1200}} {
		equal(t, e.In(hour), want)
	}
}
