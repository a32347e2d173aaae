package view_test

import (
	"cmp"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/view"
)

func show(t *testing.T, s *kernel.Snapshot, id kernel.JobID, p view.Paths) [][2]string {
	t.Helper()
	values, err := view.Show(s, id, p)
	if err != nil {
		t.Fatal(err)
	}
	doc, out := map[string]string{}, [][2]string{}
	for _, v := range values {
		doc[v.Key] = v.Text
		out = append(out, [2]string{v.Label, v.Text})
	}
	valid(t, "job_show.schema.json", doc)
	return out
}

func TestShowLeavesOutWhatIsAbsent(t *testing.T) {
	t.Parallel()
	equal(t, show(t, snap(job("a", 0, kernel.Queued)), "a", view.Paths{}), [][2]string{
		{"ID", "a"}, {"Status", "queued"},
		{"Command", "<command unavailable>"}, {"Name", "do a"}, {"Created", "2026-02-01T12:00:00+00:00"},
	})
}

func TestShowEverything(t *testing.T) {
	t.Parallel()
	j := job("a", 0, kernel.Running, after("z"), func(j *kernel.Job) {
		j.Spec.Origin = kernel.Origin{Run: "run_1", Node: "merge__integrate", Command: []string{"vizier", "run", "merge"},
			Alias: "merge", Plan: "Foo", Branch: "draft/Foo", Target: "main",
			Template: kernel.Template{Selector: "merge@v1", ID: "merge", Version: "v1", PolicyHash: "h"},
			About: kernel.NodeInfo{Name: "Integrate", Class: "environment_builtin", Operation: "git.integrate",
				Control: "gate.approval", Gates: []string{"approval(required=true)", "script(x)"}}}
		j.Spec.Task = kernel.Task{Args: []string{"__workflow-node"}, Builtin: true, Timeout: time.Minute}
		j.Spec.Task.Dir, j.Spec.Task.Env, j.Spec.Task.PassEnv = "sub", []string{"A=1", "B="}, []string{"C"}
		j.Spec.Task.Secrets = []kernel.Secret{{Name: "KEY", Source: "!pass key"}}
		j.Spec.Task.Sandbox = kernel.Sandbox{Mode: kernel.RequiredSandbox, Write: []string{"out"}, Network: kernel.NoNetwork, ReadOnly: true}
		j.Spec.Estimate = 90 * time.Second
		j.Spec.Preconditions = []kernel.Precondition{{Kind: kernel.CleanWorktree}, {Kind: kernel.BranchExists, Branch: "main"}, {Kind: kernel.CustomPrecondition, ID: "x"}}
		j.Spec.Retry = kernel.RetryPolicy{Exits: kernel.ExitSet{}.With(75)}.On(kernel.Timeout)
		j.Spec.Budget = kernel.Budget{Retries: 2, Resumes: 1}
		j.State.Spent = kernel.Budget{Retries: 1}
		j.State.Attempt, j.State.Generation = 3, 1
		j.State.Started = noon
		j.State.Agent = &kernel.AgentState{Last: kernel.AgentRun{Agent: "claude", Version: "2.1", Model: "m", Session: "s", Resets: noon, Denied: []string{"Bash", "Web"}},
			Runs: 1, Turns: 4, Total: kernel.Usage{Input: 12345, Cached: 10000, Output: 67, CostUSD: 0.0123}}
		j.State.Failure, j.State.Reason = kernel.Timeout, "too slow"
		j.State.Stop = kernel.StopRequest{At: noon, By: "Bob"}
		j.State.Context = kernel.Context{Root: "wt/x", Worktree: "wt/x", Name: "x"}
		j.State.Retried = kernel.Cleanup{Status: kernel.CleanupDegraded, Error: "busy"}
		j.State.Approval = kernel.Approval{State: kernel.Approved, RequestedAt: noon, RequestedBy: "Ann", DecidedAt: noon, DecidedBy: "Bob", Reason: "ok"}
	})
	equal(t, show(t, snap(j), "a", view.Paths{Stdout: "o", Stderr: "e", Outcome: "r", Attempts: []kernel.Result{{Attempt: kernel.AttemptID{Job: "a", N: 2}, Outcome: kernel.OutcomeFailed, Exit: 2, Class: kernel.RateLimited,
		Place: kernel.Place{Host: "h", PID: 6}, Started: noon, Ended: noon.Add(75 * time.Second)}, {Attempt: kernel.AttemptID{Job: "a", N: 3}, Place: kernel.Place{Host: "h", PID: 7}}}}), [][2]string{
		{"ID", "a"}, {"Status", "running"}, {"PID", "7"}, {"Started", "2026-02-01T12:00:00+00:00"},
		{"Stdout", "o"}, {"Stderr", "e"}, {"Outcome", "r"},
		{"Scope", "merge"}, {"Plan", "Foo"}, {"Target", "main"}, {"Branch", "draft/Foo"}, {"Workflow run", "run_1"},
		{"Workflow template", "merge@v1"}, {"Workflow template version", "v1"}, {"Workflow node", "merge__integrate"},
		{"Workflow node attempt", "3"}, {"Workflow executor class", "environment_builtin"},
		{"Workflow executor operation", "git.integrate"}, {"Workflow control policy", "gate.approval"},
		{"Workflow policy snapshot", "h"}, {"Workflow gates", "approval(required=true) | script(x)"},
		{"After", "z (success)"},
		{"Approval required", "true"}, {"Approval state", "approved"},
		{"Approval requested at", "2026-02-01T12:00:00+00:00"}, {"Approval requested by", "Ann"},
		{"Approval decided at", "2026-02-01T12:00:00+00:00"}, {"Approval decided by", "Bob"}, {"Approval seal", "none: it was approved by an earlier version, or by hand"}, {"Approval reason", "ok"},
		{"Requires", "clean_worktree, branch_exists=main, x"},
		{"Execution root", "wt/x"}, {"Worktree", "wt/x"}, {"Worktree name", "x"},
		{"Retry cleanup", "degraded"}, {"Retry cleanup error", "busy"},
		{"Directory", "sub"}, {"Environment", "A, B, passed on: C"}, {"Secrets", "KEY"},
		{"Sandbox", "required, reads its working tree only, may write out, without network"}, {"Time limit", "1m0s"}, {"Estimate", "1m30s"}, {"Command", "vizier run merge"},
		{"Name", "Integrate"}, {"Created", "2026-02-01T12:00:00+00:00"}, {"Failure class", "timeout"}, {"Reason", "too slow"},
		{"Attempt", "3"}, {"Attempts", "2 failed (rate_limited) exit 2 at 2026-02-01T12:00:00+00:00 for 1m15s on h | 3 running at 2026-02-01T12:00:00+00:00 on h"},
		{"Agent", "claude 2.1"}, {"Model", "m"}, {"Session", "s"}, {"Usage", "12,345 tokens in (10,000 cached), 67 out, $0.0123, 4 turns, 1 run"}, {"Denied", "Bash, Web"},
		{"Limit resets at", "2026-02-01T12:00:00+00:00"}, {"Generation", "1"}, {"Retries", "1 of 2"}, {"Retries on", "timeout, exit 75"}, {"Resumes", "0 of 1"},
		{"Deadline", "2026-02-01T12:01:00+00:00"}, {"Cancel requested at", "2026-02-01T12:00:00+00:00"}, {"Cancel requested by", "Bob"},
	})
}

// What belongs to nodes of a run is not shown of other jobs, and what a command's own words say is not Vizier's.
func TestShowOfAPlainJob(t *testing.T) {
	t.Parallel()
	j := job("a", 0, kernel.Failed, func(j *kernel.Job) {
		j.Spec.Task.Args, j.Spec.Origin.Command = []string{"x", "--via=own"}, []string{"vizier", "jobs", "submit", "--", "x", "--via=own"}
		j.Spec.Task.Sandbox = kernel.Sandbox{Mode: kernel.BestEffortSandbox}
		j.Spec.Budget, j.Spec.Retry = kernel.Budget{Retries: 1}, kernel.RetryPolicy{}.On(kernel.Timeout)
		j.State.Attempt, j.State.Outcome, j.State.Exit = 1, kernel.OutcomeFailed, kernel.Exited(2)
	})
	got := map[string]string{}
	for _, v := range show(t, snap(j), "a", view.Paths{Attempts: []kernel.Result{{Attempt: kernel.AttemptID{Job: "a", N: 1}, Place: kernel.Place{Host: "h", PID: 6}}}}) {
		got[v[0]] = v[1]
	}
	j.Spec.Origin.Command = []string{"vizier", "jobs", "submit", "--via=web", "--", "x"}
	if values := show(t, snap(j), "a", view.Paths{}); !slices.Contains(values, [2]string{"Front end", "web"}) {
		t.Errorf("by way of a front end: %q", values)
	}
	for label, want := range map[string]string{"PID": "6", "Front end": "", "Sandbox": "best-effort", "Retries on": "timeout", "Workflow node attempt": "", "Workflow node outcome": ""} {
		if got[label] != want {
			t.Errorf("%s: %q, want %q", label, got[label], want)
		}
	}
}

// The status of a prompt's job says how its run stands, where the job's own status does not, and which approval is next.
func TestStatusOfAPrompt(t *testing.T) {
	t.Parallel()
	prompt := func(run kernel.RunID) func(*kernel.Job) {
		return func(j *kernel.Job) { j.Spec.Prompt, j.Spec.Origin.Run = &kernel.Prompt{}, run }
	}
	in := func(j *kernel.Job) { j.Spec.Origin.Run = "r" }
	for name, c := range map[string]struct {
		jobs []kernel.Job
		want string
	}{
		"it waits for a person": {[]kernel.Job{job("p", 1, kernel.WaitingOnDeps, prompt("r")), job("a", 0, kernel.WaitingOnApproval, in), job("b", 0, kernel.WaitingOnApproval, in)}, "waiting_on_approval: job a (do a); next: vizier jobs approve a; next: vizier jobs approve b"},
		"it goes on":            {[]kernel.Job{job("p", 1, kernel.WaitingOnDeps, prompt("r")), job("a", 0, kernel.Running, in)}, ""},
		"it has no run":         {[]kernel.Job{job("p", 1, kernel.WaitingOnDeps, prompt("")), job("a", 0, kernel.WaitingOnApproval)}, ""},
		"it is no prompt":       {[]kernel.Job{job("p", 1, kernel.WaitingOnDeps, in), job("a", 0, kernel.WaitingOnApproval, in)}, ""},
	} {
		st, err := view.StatusOf(snap(c.jobs...), "p", view.Paths{})
		if err != nil || st.Run != c.want {
			t.Errorf("%s: %q, %v, want %q", name, st.Run, err, c.want)
		}
	}
}

func TestShowHasADeadlineOnlyWhileItRuns(t *testing.T) {
	t.Parallel()
	for st, want := range map[kernel.Status]string{kernel.Running: "2026-02-01T12:01:00+00:00", kernel.Succeeded: "", kernel.FailedRetryable: ""} {
		j := job("a", 0, st, func(j *kernel.Job) { j.Spec.Task.Timeout, j.State.Started = time.Minute, noon })
		got := ""
		for _, line := range show(t, snap(j), "a", view.Paths{}) {
			if line[0] == "Deadline" {
				got = line[1]
			}
		}
		equal(t, got, want)
	}
	j := job("a", 0, kernel.Running, func(j *kernel.Job) { j.State.Started = noon })
	if values := show(t, snap(j), "a", view.Paths{}); slices.ContainsFunc(values, func(v [2]string) bool { return v[0] == "Deadline" }) {
		t.Errorf("without a limit: %q", values)
	}
}

func TestShowFieldsMatchTheSchema(t *testing.T) {
	t.Parallel()
	described := properties(t, "job_show.schema.json")
	var off []string
	for _, f := range view.ShowFields() {
		if _, ok := described[f.Key]; !ok {
			t.Errorf("the schema does not describe %s, or it stands twice", f.Key)
		}
		delete(described, f.Key)
		if !f.Default {
			off = append(off, f.Key)
		}
	}
	equal(t, described, map[string]any{})
	equal(t, off, []string{"number", "ref", "workflow_run", "workflow_node_attempt", "workflow_node_outcome", "workflow_executor_class",
		"workflow_executor_operation", "workflow_control_policy", "execution_root", "retry_cleanup", "retry_cleanup_error", "host", "duration", "cpu", "memory"})
}

func TestStatus(t *testing.T) {
	t.Parallel()
	s := snap(job("a", 0, kernel.Running), job("b", 0, kernel.Failed, func(j *kernel.Job) { j.State.Exit = kernel.Exited(0) }))
	p := view.Paths{Stdout: "x/out", Stderr: "x/err"}
	for id, want := range map[kernel.JobID][2]string{
		"a": {"a do a [running]",
			`{"job":"a","status":"running","exit_code":null,"stdout":"x/out","stderr":"x/err"}`},
		"b": {"b do b [failed] exit 0",
			`{"job":"b","status":"failed","exit_code":0,"stdout":"x/out","stderr":"x/err"}`},
	} {
		st, err := view.StatusOf(s, id, p)
		if err != nil {
			t.Fatal(err)
		}
		equal(t, [2]string{st.String(), valid(t, "job_status.schema.json", st)}, want)
	}
}

func TestUnknownAndUnreadableJobs(t *testing.T) {
	t.Parallel()
	s := kernel.NewSnapshot(kernel.Observation{Unreadable: map[kernel.JobID]string{"bad": "not JSON"}})
	_, err := view.StatusOf(s, "gone", view.Paths{})
	if !errors.Is(err, kernel.ErrNotFound) || err.Error() != `no job "gone"` {
		t.Errorf("status of an unknown job: %v", err)
	}
	_, err = view.Show(s, "bad", view.Paths{})
	if !errors.Is(err, kernel.ErrInvalid) || errors.Is(err, kernel.ErrNotFound) || err.Error() != "cannot read job record bad: not JSON: invalid" {
		t.Errorf("show of an unreadable job: %v", err)
	}
}

// A job of another executor started when its attempt began there, which the record does not
// have yet: not at all while it is submitted. Its line tells how long it has been submitted.
func TestStartedElsewhere(t *testing.T) {
	handed, began := noon.Add(time.Minute), noon.Add(50*time.Minute)
	for _, c := range []struct {
		runner         kernel.Runner
		started, since time.Time
	}{
		{kernel.Runner{Liveness: kernel.Alive, Pending: true}, time.Time{}, handed},
		{kernel.Runner{Liveness: kernel.Alive, Began: began}, began, began},
	} {
		j := job("a", 0, kernel.Running, func(j *kernel.Job) {
			j.Spec.Task.Executor, j.Spec.Task.Timeout, j.State.Attempt, j.State.Started = "lab", time.Hour, 1, handed
		})
		f := kernel.NewFacts()
		f.Runners[j.Attempt()] = kernel.Seen(c.runner)
		s := snap(j).WithFacts(f)
		want, attempts := "", 0
		if !c.started.IsZero() {
			want, attempts = c.started.Format("2006-01-02T15:04:05+00:00"), 1
		}
		var shown string
		values, err := view.Show(s, "a", view.Paths{})
		for _, v := range values {
			if v.Key == "started" {
				shown = v.Text
			}
		}
		raw, again := view.ShowRaw(s, "a", view.Paths{}, nil)
		if err = errors.Join(err, again); err != nil {
			t.Fatal(err)
		}
		listed := view.ListOf(s, view.ListOptions{}).Raw(func(kernel.JobID) view.Paths { return view.Paths{} }).Jobs[0]
		for _, got := range []*string{&shown, raw.Job.StartedAt, listed.StartedAt} {
			if text := cmp.Or(got, new(string)); *text != want {
				t.Errorf("%+v: started %q, want %q", c.runner, *text, want)
			}
		}
		equal(t, len(raw.Job.Attempts), attempts)
		equal(t, view.Lines(s, s.Jobs(), view.LinesOptions{})[0].For, s.Now().Sub(c.since))
		equal(t, *view.OverviewOf(s, view.OverviewOptions{}).Running[0].Since, c.since)
	}
}

// A job in a container shows its image, and what starts it if that is known.
func TestShowTellsOfTheContainer(t *testing.T) {
	for _, c := range []struct{ image, by, want string }{
		{"", "", ""}, {"", "podman run", ""}, {"debian", "", "debian"}, {"debian", "podman run", "debian, by: podman run"},
	} {
		j := job("a", 0, kernel.Queued, func(j *kernel.Job) { j.Spec.Task.Container = c.image })
		got := ""
		for _, v := range show(t, snap(j), "a", view.Paths{Container: c.by}) {
			if v[0] == "Container" {
				got = v[1]
			}
		}
		equal(t, got, c.want)
	}
}

// While a job asks, it is shown what an approval would cover and who may not give it; then what was approved, and how that stands.
func TestShowOfAnApproval(t *testing.T) {
	t.Parallel()
	asks := func(j *kernel.Job) {
		j.Spec.Task.Args, j.Spec.Origin.Run, j.Spec.Origin.Branch, j.Spec.Origin.About.Operation = []string{"ship"}, "run_1", "draft/a", "git.integrate_plan_branch"
		j.State.Approval = kernel.Approval{State: kernel.Pending, RequestedBy: "Ann", Head: "c0de"}
	}
	now := job("a", 0, kernel.WaitingOnApproval, asks)
	before := job("a", 0, kernel.WaitingOnDeps, asks)
	granted := job("a", 0, kernel.Queued, asks, func(j *kernel.Job) {
		j.State.Approval.State, j.State.Approval.Grant = kernel.Approved, &kernel.Grant{How: "terminal", Digest: j.Spec.Digest(), Statement: j.Spec.Statement()}
	})
	anew := job("a", 0, kernel.WaitingOnApproval, asks, func(j *kernel.Job) {
		j.State.Approval.State, j.State.Approval.Grant = kernel.Approved, &kernel.Grant{Digest: "0ther"}
	})
	rejected := job("a", 0, kernel.BlockedByApproval, asks, func(j *kernel.Job) { j.State.Approval.State = kernel.Rejected })
	digest := string(now.Spec.Digest())
	for _, c := range []struct {
		job                   kernel.Job
		by, digest, how, seal string
	}{
		{now, "somebody else than Ann", digest, "", ""}, {before, "somebody else than Ann", digest, "", ""}, {granted, "", digest, "terminal", "sealed"}, {anew, "", digest, "", "broken"}, {rejected, "", "", "", ""},
	} {
		s := kernel.NewSnapshot(kernel.Observation{Now: noon, Jobs: []kernel.Job{c.job}, Limits: kernel.Limits{OthersApprove: true}})
		got := map[string]string{}
		for _, v := range show(t, s, "a", view.Paths{}) {
			got[v[0]] = v[1]
		}
		equal(t, []string{got["Approval by"], got["Approval digest"], got["Approval decided how"], got["Approval of commit"]}, []string{c.by, c.digest, c.how, "draft/a@c0de"})
		raw, err := view.ShowRaw(s, "a", view.Paths{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		text := func(s *string) string { return *cmp.Or(s, new(string)) }
		recorded := ""
		if g := c.job.State.Approval.Grant; g != nil {
			recorded = string(g.Digest)
		}
		a := raw.Job.Schedule.Approval
		equal(t, []string{text(a.DecidedHow), text(a.Digest), text(a.Seal)}, []string{c.how, recorded, c.seal})
	}
	equal(t, view.Approves(&now, "version 1\ncommand \"ship\"\n"), []string{`command "ship"`, `branch "draft/a" "c0de"`})
	now.State.Approval.Head = ""
	equal(t, view.Approves(&now, "version 1\ncommand \"ship\"\n"), []string{`command "ship"`})
	equal(t, view.Approves(&now, "version 1\n"), []string{})
	if values := show(t, snap(now), "a", view.Paths{}); slices.ContainsFunc(values, func(v [2]string) bool { return v[0] == "Approval of commit" }) {
		t.Errorf("of no commit: %q", values)
	}
}

// An approval that does not count says why: what of the job differs, or that nothing is there to compare it with.
func TestShowSaysWhyASealIsBroken(t *testing.T) {
	t.Parallel()
	approved := func(change func(*kernel.Job)) string {
		j := job("a", 0, kernel.WaitingOnApproval, func(j *kernel.Job) {
			j.Spec.Task.Args = []string{"ship"}
			j.State.Approval = kernel.Approval{State: kernel.Approved, Grant: &kernel.Grant{Digest: j.Spec.Digest(), Statement: j.Spec.Statement()}}
		}, change)
		for _, v := range show(t, snap(j), "a", view.Paths{}) {
			if v[0] == "Approval seal" {
				return v[1]
			}
		}
		return ""
	}
	nothing := "broken: what was approved is not on record"
	for name, c := range map[string]struct {
		change func(*kernel.Job)
		want   string
	}{
		"as approved":       {func(*kernel.Job) {}, ""},
		"another command":   {func(j *kernel.Job) { j.Spec.Task.Args = []string{"rm"} }, `broken: command: "ship" -> "rm"`},
		"a field more":      {func(j *kernel.Job) { j.Spec.Task.Dir = "x" }, `broken: directory: none -> "x"`},
		"no statement":      {func(j *kernel.Job) { j.Spec.Task.Args = []string{"rm"}; j.State.Approval.Grant.Statement = "" }, nothing},
		"another statement": {func(j *kernel.Job) { j.Spec.Task.Args = []string{"rm"}; j.State.Approval.Grant.Statement += "more\n" }, nothing},
	} {
		if got := approved(c.change); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
