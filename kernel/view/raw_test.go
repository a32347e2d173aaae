package view_test

import (
	"strings"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/view"
)

const bareJob = `{"job_id":"a","name":"do a","tags":{},"status":"queued","command":[],"created_at":"2026-02-01T12:00:00+00:00",` +
	`"started_at":null,"finished_at":null,"pid":null,"host":null,"exit_code":null,"stdout_path":"a.out","stderr_path":"a.err",` +
	`"outcome_path":null,"wait":null,"waited_on":[],"attempt":0,"generation":0,"failure_class":null,"reason":null,` +
	`"retry_at":null,"agent":null,"agent_total":null,"schedule":{"after":[],"dependencies":[],"artifacts":[],"locks":[],"approval":null,"pinned_head":null},` +
	`"workflow":{"run_id":null,"node_id":null,"node_name":null,"executor_class":null,"executor_operation":null,` +
	`"control_policy":null,"template_selector":null,"template_id":null,"template_version":null},` +
	`"context":{"command_alias":null,"plan":null,"target":null,"branch":null,"execution_root":null}}`

func paths(id kernel.JobID) view.Paths {
	return view.Paths{Stdout: string(id) + ".out", Stderr: string(id) + ".err"}
}

func TestRawKeepsTypesAndNulls(t *testing.T) {
	t.Parallel()
	s := snap(job("a", 0, kernel.Queued), job("z", -1, kernel.Succeeded))
	shown, err := view.ShowRaw(s, "a", paths("a"), nil)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, valid(t, "jobs_raw.schema.json", shown), `{"version":1,"generated_at":"2026-02-01T13:00:00+00:00","job":`+bareJob+`}`)
	equal(t, valid(t, "jobs_raw.schema.json", view.ListOf(s, view.ListOptions{}).Raw(paths)),
		`{"version":1,"generated_at":"2026-02-01T13:00:00+00:00","jobs":[`+bareJob+`]}`)
	equal(t, valid(t, "jobs_raw.schema.json", view.ListOf(snap(), view.ListOptions{}).Raw(paths)),
		`{"version":1,"generated_at":"2026-02-01T13:00:00+00:00","jobs":[]}`)
	if _, err := view.ShowRaw(s, "gone", view.Paths{}, nil); err == nil {
		t.Error("an unknown job is shown")
	}
}

func TestRawJob(t *testing.T) {
	t.Parallel()
	j := job("a", 0, kernel.BlockedByApproval, after("z"), needs(t, "plan_doc:p"), makes(t, "custom:t:k"), func(j *kernel.Job) {
		j.Spec.Locks = []kernel.Lock{{Key: "k", Mode: kernel.Shared}, {Key: "gpu", Units: 2}}
		j.Spec.Pinned = kernel.PinnedHead{Branch: "main", Commit: "abc"}
		j.State.Wait = kernel.WaitReason{Kind: kernel.OnApproval, Detail: "No"}
		j.State.WaitedOn = j.State.WaitedOn.With(kernel.OnPinnedHead).With(kernel.OnApproval)
		j.State.Approval = kernel.Approval{State: kernel.Rejected, RequestedAt: noon, RequestedBy: "Ann", DecidedAt: noon, DecidedBy: "Bob", ExpiresAt: noon, Reason: "No"}
		j.Spec.Tags = []kernel.Tag{{Key: "team", Value: "core"}}
		j.Spec.After, j.Spec.AfterAny = []kernel.JobID{"y", "z"}, []kernel.JobID{"y"}
		j.State.Attempt, j.State.Exit, j.State.Failure = 2, kernel.Exited(10), kernel.Timeout
		j.State.Started, j.State.Finished, j.State.RetryAt = noon, noon, noon
		j.State.Outcome = kernel.OutcomeFailed
		j.State.Place = kernel.Place{Host: "h", PID: 7}
		j.State.Agent = &kernel.AgentState{Last: kernel.AgentRun{Agent: "claude", Session: "s", Resets: noon}, Runs: 2, Turns: 5, Total: kernel.Usage{Input: 3, CostUSD: 0.5}}
	})
	shown, err := view.ShowRaw(snap(j), "a", view.Paths{Outcome: "o.json", Attempts: []kernel.Result{{Attempt: kernel.AttemptID{Job: "a", N: 1}}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	got := valid(t, "jobs_raw.schema.json", shown)
	for _, part := range []string{
		`"pid":7,"host":"h","exit_code":10,`,
		`"agent":{"agent":"claude","version":null,"model":null,"session":"s","turns":0,"usage":{"input_tokens":0,"cached_tokens":0,"output_tokens":0,"cost_usd":0},` +
			`"resets_at":"2026-02-01T12:00:00+00:00","denied":[]},"agent_total":{"runs":2,"turns":5,"usage":{"input_tokens":3,"cached_tokens":0,"output_tokens":0,"cost_usd":0.5}}`,
		`"attempts":[{"attempt":1,"status":"lost","started_at":null,"finished_at":null,"seconds":null,"host":null,"pid":null,"exit_code":null,"failure_class":null,"reason":null,"agent":null,"sandbox":null,"cpu_seconds":null,"peak_memory_bytes":null},` +
			`{"attempt":2,"status":"failed","started_at":"2026-02-01T12:00:00+00:00"`,
		`"outcome_path":"o.json"`, `"wait":{"kind":"approval","detail":"No"},"waited_on":["pinned_head","approval"]`,
		`"attempt":2,`, `"failure_class":"timeout"`, `"retry_at":"2026-02-01T12:00:00+00:00"`,
		`"tags":{"team":"core"}`, `"expires_at":"2026-02-01T12:00:00+00:00","reason":"No"`,
		`"after":[{"job_id":"y","policy":"any"},{"job_id":"z","policy":"success"}],"dependencies":["plan_doc:p (draft/p)"],"artifacts":["custom:t:k"],`,
		`"locks":[{"key":"k","mode":"shared"},{"key":"gpu","mode":"exclusive","units":2}],`,
		`"approval":{"required":true,"state":"rejected","requested_at":"2026-02-01T12:00:00+00:00","requested_by":"Ann",`,
		`"pinned_head":{"branch":"main","oid":"abc"}`,
	} {
		if !strings.Contains(got, part) {
			t.Errorf("%s is not in %s", part, got)
		}
	}
}

func TestRawSchedule(t *testing.T) {
	t.Parallel()
	s := snap(job("a", 0, kernel.Running), job("b", 1, kernel.WaitingOnDeps, after("a"), func(j *kernel.Job) {
		j.State.Wait = kernel.WaitReason{Kind: kernel.OnDependencies, Detail: "waiting on job a"}
	}))
	equal(t, valid(t, "schedule.schema.json", view.ScheduleOf(s, view.ScheduleOptions{}).Raw()),
		`{"version":1,"ordering":"created_at_then_job_id","edges":[{"from":"b","to":"a","after":{"policy":"success"}}],`+
			`"generated_at":"2026-02-01T13:00:00+00:00","jobs":[`+
			`{"order":1,"job_id":"a","slug":null,"name":"do a","status":"running","created_at":"2026-02-01T12:00:00+00:00","command":[],"wait":null},`+
			`{"order":2,"job_id":"b","slug":null,"name":"do b","status":"waiting_on_deps","created_at":"2026-02-01T12:01:00+00:00",`+
			`"command":[],"wait":{"kind":"dependencies","detail":"waiting on job a"}}]}`)
}

// The raw document of a job says what it is about and which node it is, with null for missing parts.
func TestRawContext(t *testing.T) {
	j := kernel.Job{ID: "a", Spec: kernel.Spec{Origin: kernel.Origin{Alias: "merge", Plan: "p", Target: "main", Branch: "draft/p", Run: "run_1", Node: "n", Template: kernel.Template{Selector: "merge@v1", ID: "m", Version: "v1"},
		About: kernel.NodeInfo{Name: "N", Class: "agent", Operation: "o", Control: "c"}}}}
	j.State.Context.Root = "/w"
	for _, c := range []struct {
		job  kernel.Job
		want string
	}{{j, "merge p main draft/p /w run_1 n N agent o c merge@v1 m v1"}, {kernel.Job{ID: "a"}, strings.TrimSpace(strings.Repeat("- ", 14))}} {
		shown, err := view.ShowRaw(snap(c.job), "a", view.Paths{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		x, w := shown.Job.Context, shown.Job.Workflow
		var got []string
		for _, s := range []*string{x.CommandAlias, x.Plan, x.Target, x.Branch, x.ExecutionRoot, w.RunID, w.NodeID, w.NodeName, w.ExecutorClass, w.ExecutorOperation, w.ControlPolicy, w.TemplateSelector, w.TemplateID, w.TemplateVersion} {
			if s == nil {
				got = append(got, "-")
			} else {
				got = append(got, *s)
			}
		}
		if text := strings.Join(got, " "); text != c.want {
			t.Errorf("%s, want %s", text, c.want)
		}
	}
}
