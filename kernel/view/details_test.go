package view_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/event"
	"github.com/vizier-scheduler/vizier/kernel/view"
)

// DAG stops drawing when its consumer stops the iteration.
func TestADrawingStopsWhereItIsTold(t *testing.T) {
	s := snap(job("a", 0, kernel.Succeeded), job("b", 1, kernel.Succeeded, after("a")), job("c", 2, kernel.Queued, after("a", "b")), job("d", 3, kernel.Queued, after("c")))
	v := view.ScheduleOf(s, view.ScheduleOptions{All: true, MaxDepth: 4})
	whole := slices.Collect(v.DAG())
	for n := 1; n <= len(whole); n++ {
		var got []string
		for line := range v.DAG() {
			if got = append(got, line); len(got) == n {
				break
			}
		}
		if !slices.Equal(got, whole[:n]) {
			t.Errorf("%d lines: %q", n, got)
		}
	}
}

// What nobody produces is there, is not, or is not known.
func TestArtifactsThatNobodyProduces(t *testing.T) {
	f := kernel.NewFacts()
	labels := []string{"custom:t:there", "custom:t:not", "custom:t:unknown", "merge_sentinel:there", "merge_sentinel:not", "merge_sentinel:unknown"}
	as := parse(t, labels)
	f.Markers[as[0]], f.Markers[as[1]] = kernel.Seen([]kernel.JobID{"x"}), kernel.Seen([]kernel.JobID(nil))
	f.Present[as[3]], f.Present[as[4]] = kernel.Seen(true), kernel.Seen(false)
	s := kernel.NewSnapshot(kernel.Observation{Now: noon, Jobs: []kernel.Job{job("a", 0, kernel.Queued, needs(t, labels...))}, Facts: f})
	var got []string
	for _, e := range view.ScheduleOf(s, view.ScheduleOptions{All: true}).Document().Edges {
		got = append(got, strings.TrimPrefix(e.To, "artifact:")+"="+e.State)
	}
	equal(t, strings.Join(got, " "), "custom:t:not=missing custom:t:there=present custom:t:unknown= merge_sentinel:not=missing merge_sentinel:there=present merge_sentinel:unknown=")
}

func TestMembersOfARun(t *testing.T) {
	s := snap(job("a", 0, kernel.Queued, node("run_abc", "x")), job("b", 1, kernel.Queued, node("run_abd", "x")), job("c", 2, kernel.Queued, node("run_abc", "y")), job("d", 3, kernel.Queued))
	for ref, want := range map[string]string{"run_abc": "[a c] true", "run_abd": "[b] true", "run_ab": "error", "run_": "error", "run_zz": "error", "abc": "error", "run_abc/x": "[a] false", "a": "[a] false"} {
		target, err := view.NewFinder(s).Find(ref)
		var ids []kernel.JobID
		for _, j := range target.Jobs {
			ids = append(ids, j.ID)
		}
		got := fmt.Sprint(ids, " ", target.Whole)
		if err != nil {
			got = "error"
		}
		if got != want {
			t.Errorf("%s: %s, %v", ref, got, err)
		}
	}
}

func TestWhatIsOlder(t *testing.T) {
	s := snap(job("a", 0, kernel.Queued), job("b", 1, kernel.Failed), job("c", 2, kernel.Queued), job("d", 3, kernel.Succeeded))
	for most, want := range map[int]string{0: "1 succeeded (use --all to include)", 2: "1 succeeded (use --all to include); 1 older", 3: "1 succeeded (use --all to include)", 1: "1 succeeded (use --all to include); 2 older"} {
		l := view.ListOf(s, view.ListOptions{Most: most})
		if l.Hidden != want || most > 0 && len(l.Rows) != most || l.Outcome != "3 jobs" {
			t.Errorf("%d: %q of %q", most, l.Hidden, l.Outcome)
		}
	}
	if l := view.ListOf(s, view.ListOptions{Most: 1, All: true}); l.Hidden != "3 older" || len(l.Rows) != 1 || l.Rows[0].ID != "d" {
		t.Errorf("%+v", l)
	}
	if l := view.ListOf(snap(job("b", 1, kernel.Failed)), view.ListOptions{DismissFailures: true}); l.Outcome != "No jobs to show" || l.Hidden != "1 failed (use --all to include)" {
		t.Errorf("%+v", l)
	}
	if l := view.ListOf(snap(job("b", 1, kernel.Unscheduled)), view.ListOptions{}); l.Outcome != "No open jobs" || l.Hidden != "1 unscheduled (use --all to include)" {
		t.Errorf("%+v", l)
	}
	l := view.ListOf(s, view.ListOptions{Counts: map[kernel.Status]int{kernel.Queued: 5, kernel.Succeeded: 7}})
	if l.Outcome != "5 jobs" || l.Hidden != "7 succeeded (use --all to include)" {
		t.Errorf("%+v", l)
	}
}

// A place is taken from what is known of the attempt that runs, and of no other.
func TestThePlaceOfAnAttempt(t *testing.T) {
	j := job("a", 0, kernel.Succeeded)
	j.State.Attempt, j.State.Started, j.State.Finished, j.State.Outcome, j.State.Exit = 1, noon, noon, kernel.OutcomeSucceeded, kernel.Exited(0)
	j.State.Place = kernel.Place{Host: "h", PID: 3}
	known := []kernel.Result{{Attempt: kernel.AttemptID{Job: "a", N: 1}, Place: kernel.Place{Host: "other", PID: 9}}}
	said := func() string {
		for _, line := range show(t, snap(j), "a", view.Paths{Attempts: known}) {
			if line[0] == "Attempts" {
				return line[1]
			}
		}
		return ""
	}
	equal(t, said(), "1 succeeded at 2026-02-01T12:00:00+00:00 for 0s on h")
	j.State.Status, j.State.Outcome, j.State.Place = kernel.Running, kernel.NoOutcome, kernel.Place{}
	equal(t, said(), "1 running at 2026-02-01T12:00:00+00:00 on other")
	known, j.State.Attempt = nil, 0
	equal(t, said(), "")
}

// The end of a run is told once, by the plan in which its last job stops being
// active; what a plan does to jobs that are not there is nobody's history.
func TestEndsOfRunsAreTold(t *testing.T) {
	in := func(run string) func(*kernel.Job) { return node(run, "n") }
	s := snap(job("a", 0, kernel.Running, in("r")), job("b", 1, kernel.Succeeded, in("r")), job("c", 2, kernel.Failed, in("q")), job("e", 3, kernel.Running), job("f", 4, kernel.Running, in("p")), job("g", 5, kernel.Queued, in("p")))
	put := func(id string, st kernel.Status) kernel.Action {
		state := s.Job(kernel.JobID(id)).State
		state.Status = st
		return kernel.PutState{Job: kernel.JobID(id), If: 1, State: state}
	}
	dead := job("z", 9, kernel.Failed, in("new"))
	asleep := job("y", 9, kernel.Queued, in("open"))
	nobody := job("x", 9, kernel.Failed)
	for name, c := range map[string]struct {
		plan kernel.Plan
		want string
	}{
		"the last of it":        {kernel.NewPlan(put("a", kernel.Succeeded)), "job.succeeded a, run.succeeded r"},
		"it failed":             {kernel.NewPlan(put("a", kernel.Failed)), "job.failed.final a, run.failed r"},
		"it is blocked":         {kernel.NewPlan(put("a", kernel.BlockedByApproval)), "job.blocked a, run.blocked r"},
		"it was cancelled":      {kernel.NewPlan(put("a", kernel.Cancelled)), "job.cancelled a, run.failed r"},
		"not the last":          {kernel.NewPlan(put("f", kernel.Succeeded)), "job.succeeded f"},
		"of no run":             {kernel.NewPlan(put("e", kernel.Succeeded)), "job.succeeded e"},
		"over before":           {kernel.NewPlan(put("c", kernel.Cancelled)), "job.cancelled c"},
		"made and over":         {kernel.NewPlan(kernel.Create(dead)), "job.created z, job.failed.final z, run.failed new"},
		"made and over, no run": {kernel.NewPlan(kernel.Create(nobody)), "job.created x, job.failed.final x"},
		"made":                  {kernel.NewPlan(kernel.Create(asleep)), "job.created y"},
		"one that is not there": {kernel.NewPlan(kernel.PutState{Job: "nobody"}, kernel.PurgeFiles{Job: "nobody"}, kernel.RemoveJob{Job: "nobody"}), ""},
		"its files":             {kernel.NewPlan(kernel.PurgeFiles{Job: "b"}, kernel.RemoveJob{Job: "c"}), "job.archived b, job.archived c"},
	} {
		after := s
		if name != "one that is not there" {
			after = s.Apply(c.plan)
		}
		var got []string
		for _, e := range event.Of(s, after, c.plan) {
			id := string(e.Job)
			if id == "" {
				id = string(e.Run)
			}
			got = append(got, string(e.Kind)+" "+id)
		}
		if g := strings.Join(got, ", "); g != c.want {
			t.Errorf("%s: %s, want %s", name, g, c.want)
		}
	}
}

// Jobs of one number run on one line, told by the one that has run longest.
func TestJobsOfANumberThatRun(t *testing.T) {
	at := func(minute int) func(*kernel.Job) {
		return func(j *kernel.Job) { j.State.Attempt, j.State.Started = 1, noon.Add(time.Duration(minute)*time.Minute) }
	}
	s := snap(job("a", 0, kernel.Running, numbered(3, "x"), at(5)), job("b", 1, kernel.Running, numbered(3, "y"), at(4)), job("c", 2, kernel.Running, numbered(3, "z"), at(6)))
	v := overviewOf(t, s, view.OverviewOptions{})
	if len(v.Running) != 1 || v.Running[0].Job != "b" || v.Running[0].What != "y and 2 more" {
		t.Errorf("%s", sketch(v))
	}
}

// Runs are listed from the newest to the oldest, by the template and what it is about.
func TestRunsOfASnapshot(t *testing.T) {
	of := func(run kernel.RunID, plan string) func(*kernel.Job) {
		return func(j *kernel.Job) {
			j.Spec.Origin = kernel.Origin{Run: run, Alias: "develop", Plan: plan, Node: j.Spec.Name}
		}
	}
	s := snap(job("a", 0, kernel.Succeeded, of("run_1", "p")), job("b", 1, kernel.Queued, of("run_2", "")), job("c", 2, kernel.Queued, of("run_1", "p")), job("d", 3, kernel.Queued))
	var got []string
	for _, r := range view.RunsOf(s) {
		got = append(got, fmt.Sprint(r.Run, " ", r.Name, " ", r.Progress()))
	}
	equal(t, got, []string{"run_2 develop 0/1", "run_1 develop p 1/2"})
	for _, c := range []struct {
		job  kernel.Job
		want view.Run
	}{
		{job("e", 0, kernel.Queued, numbered(1, "x")), view.Run{Reference: view.ReferenceTo(1), Name: "batch"}},
		{job("f", 1, kernel.Queued, numbered(6, "y"), node("run_1", ""), func(j *kernel.Job) { j.Spec.Origin.Parent = "a" }), view.Run{Reference: view.ReferenceTo(6), Run: "run_1", Name: "batch"}},
		{job("b", 1, kernel.Queued, of("run_2", "")), view.Run{Run: "run_2", Name: "develop"}},
	} {
		c.want.Status, c.want.Total, c.want.Since = "waiting", 1, c.job.Created
		got := view.RunOf(s, []*kernel.Job{&c.job})
		got.Jobs = nil
		equal(t, got, c.want)
	}
}

// What grows with each attempt is told with the next step, once that is known.
func TestResourcesThatGrow(t *testing.T) {
	j := job("a", 0, kernel.FailedRetryable)
	j.Spec.Task.Options, j.State.Failure = []string{"queue=fast", "memory=1G,2G,4G"}, kernel.OutOfMemory
	if _, err := kernel.CheckGrowth(j.Spec.Task.Options); err != nil {
		t.Fatal(err)
	}
	equal(t, view.Resources(&j), "memory 1G (step 1 of 3), then 2G, since it failed with oom")
	j.State.Status = kernel.Running
	equal(t, view.Resources(&j), "memory 1G (step 1 of 3)")
}
