package collector

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/vizier-scheduler/vizier/internal/promtest"
	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/view"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// world has a job for each thing that is counted.
func world() *kernel.Snapshot {
	o := kernel.Observation{Now: noon, Archived: 40, Unreadable: map[kernel.JobID]string{"torn": "half a record"},
		Limits: kernel.Limits{MaxRunning: 8, Pools: map[string]int{"gpu": 4}, Executors: map[string]int{"slurm": 0, "big": 100}}}
	add := func(set func(*kernel.Job)) {
		j := kernel.Job{ID: kernel.JobID("j" + string(rune('a'+len(o.Jobs)))), Created: noon, Rev: 1}
		set(&j)
		o.Jobs = append(o.Jobs, j)
	}
	for i, executor := range []string{"", "slurm", "slurm", "gone"} {
		add(func(j *kernel.Job) {
			j.State.Status, j.State.Attempt, j.Spec.Task.Executor = kernel.Running, 1, executor
			j.Spec.Locks = [][]kernel.Lock{{{Key: "a"}, {Key: "gpu", Units: 3}}, {{Key: "b", Mode: kernel.Shared}}, {{Key: "b", Mode: kernel.Shared}, {Key: "odd", Units: 1}}, nil}[i]
		})
	}
	for i, kind := range []kernel.WaitKind{kernel.OnLocks, kernel.OnLocks, kernel.OnDependencies} {
		add(func(j *kernel.Job) {
			j.State.Status = map[kernel.WaitKind]kernel.Status{kernel.OnLocks: kernel.WaitingOnLocks, kernel.OnDependencies: kernel.WaitingOnDeps}[kind]
			j.State.Wait, j.State.WaitSince = kernel.WaitReason{Kind: kind, Detail: "x"}, noon.Add(-time.Duration(i+1)*time.Hour)
		})
	}
	add(func(j *kernel.Job) {
		j.State = kernel.State{Status: kernel.WaitingOnApproval, Wait: kernel.WaitReason{Kind: kernel.OnApproval}, WaitSince: noon.Add(-90 * time.Second), Approval: kernel.Require(noon, "ann")}
	})
	for _, c := range []kernel.FailureClass{kernel.ExitFailure, kernel.ExitFailure, kernel.Timeout, kernel.NoFailure} {
		add(func(j *kernel.Job) {
			j.State = kernel.State{Status: kernel.Failed, Attempt: 2, Outcome: kernel.OutcomeFailed, Failure: c, Exit: kernel.Exited(1), Finished: noon}
		})
	}
	add(func(j *kernel.Job) {
		j.State = kernel.State{Status: kernel.FailedRetryable, Attempt: 1, Outcome: kernel.OutcomeFailed, Failure: kernel.Signal, Exit: kernel.Exited(143), Finished: noon.Add(-time.Minute), RetryAt: noon.Add(time.Minute)}
	})
	add(func(j *kernel.Job) {
		j.State = kernel.State{Status: kernel.Succeeded, Attempt: 1, Outcome: kernel.OutcomeSucceeded, Exit: kernel.Exited(0)}
	})
	add(func(j *kernel.Job) {
		j.State = kernel.State{Status: kernel.Cancelled, Outcome: kernel.OutcomeCancelled, Exit: kernel.Exited(143)}
	})
	return kernel.NewSnapshot(o)
}

// The values of all metrics, and that no possible label is missing.
func TestMetrics(t *testing.T) {
	s := stand{snap: world(), lost: 1, resident: true, tick: 1500 * time.Microsecond, ended: results(), prompts: []view.RefusedPrompt{{Path: "x", Since: noon}}}
	s.ended["timeout"] = 7
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(s)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	if problems, err := promlint.NewWithMetricFamilies(families).Lint(); err != nil || len(problems) > 0 {
		t.Errorf("lint: %v, %v", problems, err)
	}
	text := textOf(t, registry)
	for _, want := range []string{
		`vizier_jobs{status="running"} 4`, `vizier_jobs{status="succeeded"} 41`, `vizier_jobs{status="failed"} 4`, `vizier_jobs{status="unscheduled"} 0`,
		`vizier_jobs_unreadable 1`, `vizier_jobs_lost 1`, `vizier_resident_scheduler_up 1`, `vizier_observed_timestamp_seconds 1.7672688e+09`,
		`vizier_jobs_waiting{reason="locks"} 2`, `vizier_jobs_waiting{reason="dependencies"} 1`, `vizier_jobs_waiting{reason="approval"} 1`, `vizier_jobs_waiting{reason="retry"} 1`,
		`vizier_jobs_waiting{reason="pinned_head"} 0`, `vizier_jobs_waiting_oldest_timestamp_seconds{reason="locks"} 1.7672616e+09`,
		`vizier_jobs_latest_attempt{result="succeeded"} 41`, `vizier_jobs_latest_attempt{result="exit"} 2`, `vizier_jobs_latest_attempt{result="timeout"} 1`,
		`vizier_jobs_latest_attempt{result="signal"} 1`, `vizier_jobs_latest_attempt{result="other"} 1`, `vizier_jobs_latest_attempt{result="cancelled"} 0`, `vizier_jobs_latest_attempt{result="oom"} 0`,
		`vizier_jobs_running{executor="local"} 1`, `vizier_jobs_running{executor="slurm"} 2`, `vizier_jobs_running{executor="big"} 0`, `vizier_jobs_running{executor="unconfigured"} 1`,
		`vizier_jobs_running_limit{executor="local"} 8`, `vizier_jobs_running_limit{executor="big"} 100`,
		`vizier_locks_held{mode="exclusive"} 1`, `vizier_locks_held{mode="shared"} 1`, `vizier_pool_units{pool="gpu"} 4`, `vizier_pool_units_used{pool="gpu"} 3`,
		`vizier_attempts_ended_last_hour{result="timeout"} 7`, `vizier_attempts_ended_last_hour{result="succeeded"} 0`, `vizier_tick_seconds 0.0015`,
		`vizier_attention{kind="approval"} 1`, `vizier_attention{kind="prompt"} 1`, `vizier_attention{kind="conflict"} 0`, `vizier_attention_oldest_timestamp_seconds{kind="approval"} 1.76726871e+09`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	for _, odd := range []string{`executor="gone"`, `pool="odd"`, `running_limit{executor="slurm"}`, `oldest_timestamp_seconds{reason="pinned_head"}`, `"ja"`, `"a"`} {
		if strings.Contains(text, odd) {
			t.Errorf("%s in\n%s", odd, text)
		}
	}
	promtest.Check(t, text)
}

func textOf(t *testing.T, g prometheus.Gatherer) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "x.prom")
	if err := prometheus.WriteToTextfile(file, g); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// What the page, the alerts in it and the dashboard name are metrics that there are,
// with these labels.
func TestPagesNameMetricsThatThereAre(t *testing.T) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(stand{snap: world(), ended: results()})
	text := textOf(t, registry)
	for _, file := range []string{"../../../docs/user/metrics.md", "../../../examples/metrics/dashboard.json"} {
		page, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		named := regexp.MustCompile(`vizier_[a-z_]+`).FindAllString(string(page), -1)
		for _, name := range named {
			if !strings.Contains(text, "# TYPE "+name+" ") {
				t.Errorf("%s: there is no %s", file, name)
			}
		}
		for _, m := range regexp.MustCompile(`by \((\w+)\) \((vizier_[a-z_]+)`).FindAllStringSubmatch(string(page), -1) {
			if !regexp.MustCompile(`(?m)^` + m[2] + `\{` + m[1] + `="`).MatchString(text) {
				t.Errorf("%s: %s has no label %s", file, m[2], m[1])
			}
		}
		for _, m := range regexp.MustCompile(`(?m)^# TYPE (\w+) `).FindAllStringSubmatch(text, -1) {
			if !strings.Contains(string(page), m[1]) {
				t.Errorf("%s leaves %s out", file, m[1])
			}
		}
	}
	dashboard, err := os.ReadFile("../../../examples/metrics/dashboard.json")
	if err != nil || !json.Valid(dashboard) {
		t.Errorf("the dashboard is no JSON: %v", err)
	}
}
