package view_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/view"
)

// What needs a person comes first, then what goes on, then how it ended; a job
// that only a route starts does not count.
func TestRunStatus(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		want string
		jobs []kernel.Status
	}{
		{"succeeded", []kernel.Status{kernel.Succeeded, kernel.Unscheduled}},
		{"running", []kernel.Status{kernel.Running, kernel.WaitingOnDeps, kernel.Failed}},
		{"waiting", []kernel.Status{kernel.Succeeded, kernel.WaitingOnLocks, kernel.Failed}},
		{"waiting", []kernel.Status{kernel.FailedRetryable}},
		{"needs you", []kernel.Status{kernel.Running, kernel.WaitingOnApproval}},
		{"failed", []kernel.Status{kernel.Failed, kernel.BlockedByDependency, kernel.Cancelled}},
		{"cancelled", []kernel.Status{kernel.Cancelled, kernel.BlockedByDependency}},
		{"blocked", []kernel.Status{kernel.Succeeded, kernel.BlockedByDependency}},
	} {
		var jobs []kernel.Job
		for i, st := range c.jobs {
			jobs = append(jobs, job("job"+string(rune('a'+i)), i, st, node("run_ab12", "n")))
		}
		s := snap(jobs...)
		if got := view.RunStatusOf(s, s.Jobs()).String(); got != c.want {
			t.Errorf("%v: %s, want %s", c.jobs, got, c.want)
		}
	}
	conflict := snap(job("a", 0, kernel.BlockedByDependency, func(j *kernel.Job) { j.State.Outcome = kernel.OutcomeBlocked }))
	if got := view.RunStatusOf(conflict, conflict.Jobs()); got != view.RunNeedsYou {
		t.Errorf("a job that is blocked by itself: %s", got)
	}
}

// A retry of a run begins with what ended badly and with what something outside of the run has
// blocked, but not with what follows from another job of the run.
func TestToRetry(t *testing.T) {
	t.Parallel()
	needs, makes := needs(t, "custom:report:lint"), makes(t, "custom:report:lint")
	for _, c := range []struct {
		name string
		jobs []kernel.Job
		want []kernel.JobID
	}{
		{"all succeeded", []kernel.Job{job("a", 0, kernel.Succeeded), job("b", 1, kernel.Unscheduled)}, nil},
		{"after a failure", []kernel.Job{job("a", 0, kernel.Failed), job("b", 1, kernel.BlockedByDependency, after("a")), job("c", 2, kernel.BlockedByDependency, after("b"))}, []kernel.JobID{"a"}},
		{"by an artifact", []kernel.Job{job("a", 0, kernel.BlockedByDependency, needs), job("b", 1, kernel.Cancelled, makes)}, []kernel.JobID{"b"}},
		{"held back", []kernel.Job{job("a", 0, kernel.Failed), job("b", 1, kernel.BlockedByDependency, func(j *kernel.Job) { j.State.Wait = kernel.WaitReason{Cause: kernel.RunStopped, Job: "a"} })}, []kernel.JobID{"a"}},
		{"outside", []kernel.Job{job("a", 0, kernel.BlockedByDependency, needs), job("b", 1, kernel.BlockedByDependency, after("a")), job("c", 2, kernel.Queued)}, []kernel.JobID{"a"}},
		{"outside, after a success", []kernel.Job{job("a", 0, kernel.Succeeded), job("b", 1, kernel.BlockedByDependency, after("a", "elsewhere"))}, []kernel.JobID{"b"}},
		{"outside, while another runs", []kernel.Job{job("a", 0, kernel.Running), job("b", 1, kernel.BlockedByDependency, after("a", "elsewhere"))}, []kernel.JobID{"b"}},
		{"outside and inside", []kernel.Job{job("a", 0, kernel.Failed), job("b", 1, kernel.BlockedByDependency, needs, after("elsewhere"))}, []kernel.JobID{"a", "b"}},
	} {
		var got []kernel.JobID
		for _, j := range view.ToRetry(snap(c.jobs...).Jobs()) {
			got = append(got, j.ID)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// What holds a run up is all that does so by itself: each of its jobs that ended badly, that waits for a person, or
// that something outside of the run keeps from starting.
func TestHoldingUp(t *testing.T) {
	t.Parallel()
	needs, makes := needs(t, "custom:report:lint"), makes(t, "custom:report:lint")
	rejected := func(j *kernel.Job) { j.State.Outcome = kernel.OutcomeBlocked }
	for _, c := range []struct {
		name string
		jobs []kernel.Job
		want []kernel.JobID
	}{
		{"several things", []kernel.Job{job("a", 0, kernel.BlockedByDependency, needs), job("b", 1, kernel.WaitingOnDeps, needs), job("c", 2, kernel.WaitingOnApproval),
			job("d", 3, kernel.BlockedByDependency, after("a")), job("e", 4, kernel.WaitingOnDeps, after("c"))}, []kernel.JobID{"a", "b", "c"}},
		{"after a rejection", []kernel.Job{job("a", 0, kernel.WaitingOnDeps, needs), job("b", 1, kernel.BlockedByApproval, rejected), job("c", 2, kernel.WaitingOnLocks)}, []kernel.JobID{"a", "b"}},
		{"one that makes what another needs", []kernel.Job{job("a", 0, kernel.WaitingOnDeps, needs), job("b", 1, kernel.WaitingOnApproval, makes)}, []kernel.JobID{"b"}},
		{"one that runs", []kernel.Job{job("a", 0, kernel.Running), job("b", 1, kernel.WaitingOnDeps, after("a")), job("c", 2, kernel.WaitingOnDeps, after("b"))}, []kernel.JobID{"b"}},
		{"places that are taken", []kernel.Job{job("a", 0, kernel.WaitingOnLocks), job("b", 1, kernel.WaitingOnLocks)}, []kernel.JobID{"a"}},
		{"a place that is taken", []kernel.Job{job("a", 0, kernel.Running), job("b", 1, kernel.WaitingOnLocks)}, []kernel.JobID{"b"}},
		{"a circle", []kernel.Job{job("a", 0, kernel.BlockedByDependency, needs), job("b", 1, kernel.BlockedByDependency, makes, after("a"))}, []kernel.JobID{"a"}},
		{"nothing", []kernel.Job{job("a", 0, kernel.Succeeded), job("b", 1, kernel.Running)}, nil},
	} {
		var got []kernel.JobID
		for _, j := range view.HoldingUp(snap(c.jobs...).Jobs()) {
			got = append(got, j.ID)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestFind(t *testing.T) {
	t.Parallel()
	of := func(n int, part string) func(*kernel.Job) {
		return func(j *kernel.Job) { j.Number, j.Part = kernel.Number(n), part }
	}
	named := func(name string) func(*kernel.Job) { return func(j *kernel.Job) { j.Spec.Name = name } }
	about := func(alias, plan string) func(*kernel.Job) {
		return func(j *kernel.Job) { j.Spec.Origin.Alias, j.Spec.Origin.Plan = alias, plan }
	}
	s := snap(
		job("aaaa1", 0, kernel.Succeeded, of(1, ""), named("build")),
		job("aaaa2", 1, kernel.Queued, of(2, ""), named("build")),
		job("aaaa3", 2, kernel.Succeeded, of(3, ""), named("lint")), job("aaaa4", 3, kernel.Failed, of(4, ""), named("lint")),
		job("bbbb1", 4, kernel.Succeeded, of(5, "ask"), node("run_ab12", "ask"), about("draft", "greet")),
		job("bbbb2", 5, kernel.Succeeded, of(6, "ask"), node("run_cd34", "ask"), about("approve", "greet")),
		job("bbbb3", 6, kernel.Queued, of(7, ""), node("run_cd34", ""), about("inner", ""), func(j *kernel.Job) { j.Spec.Origin.Parent = "bbbb2" }),
		job("cccc1", 7, kernel.Queued, of(8, "x"), about("loose", "")), job("cccc2", 8, kernel.Queued, of(8, "y")),
		job("dddd1", 9, kernel.Queued, of(10, "ask"), node("run_ef56", "ask"), about("", "again")), job("dddd2", 10, kernel.Succeeded, of(10, "end"), node("run_ef56", "end"), about("", "again")),
		job("dddd3", 11, kernel.Succeeded, of(11, "ask"), node("run_ef78", "ask"), about("", "again")), job("dddd4", 12, kernel.Succeeded, of(12, "ask"), node("run_gh12", "ask"), about("same", "twice"), named("same")), job("dddd5", 13, kernel.Succeeded, of(12, "end"), node("run_gh12", "end"), about("", "twice")),
	)
	f := view.NewFinder(s)
	for ref, want := range map[string]string{
		"1": "aaaa1", "build": "aaaa2", "5/ask": "bbbb1", "greet/ask": "bbbb2", "draft/ask": "bbbb1", "draft": "bbbb1",
		"6": "bbbb2 bbbb3", "run_cd34": "bbbb2 bbbb3", "run_c": "bbbb2 bbbb3", "8": "cccc1 cccc2", "8/y": "cccc2", "7": "bbbb3", "@last": "dddd5",
		"again": "dddd1 dddd2", "again/ask": "dddd3", "same": "dddd4", "twice": "dddd4 dddd5",
		"lint":  `"lint" is ambiguous: it may be 3, 4: name one of them: invalid`,
		"greet": `"greet" is ambiguous: it may be 5, 6: name one of them: invalid`,
		"aaaa":  `"aaaa" is ambiguous: it may be job 1, 2, 3, 4: name one of them: invalid`,
		"run_":  `"run_" is ambiguous: it may be run 5, 6, 10, 11, 12: name one of them: invalid`,
		"loose": "no job \"loose\"", "loose/x": "no job \"loose/x\"", "inner": "no job \"inner\"", "inner/ask": "no job \"inner/ask\"",
		"9": "no job \"9\"", "8/z": "no job \"8/z\"", "greet/none": "no job \"greet/none\"",
	} {
		got := ""
		target, err := f.Find(ref)
		for _, j := range target.Jobs {
			got += " " + string(j.ID)
		}
		if len(target.Jobs) > 0 && target.Run() != target.Jobs[0].Spec.Origin.Run || len(target.Jobs) == 0 && target.Run() != "" {
			t.Errorf("%s is of run %q", ref, target.Run())
		}
		if err != nil {
			got = " " + err.Error()
		}
		if got != " "+want {
			t.Errorf("%s: %s, want %s", ref, got, want)
		}
	}
	if _, err := f.Resolve("8"); !errors.Is(err, kernel.ErrInvalid) {
		t.Errorf("a batch is one job: %v", err)
	}
}
