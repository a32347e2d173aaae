package view_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/view"
)

func TestListSaysWhatItHides(t *testing.T) {
	t.Parallel()
	s, f, q, u := kernel.Succeeded, kernel.Failed, kernel.Queued, kernel.Unscheduled
	for _, c := range []struct {
		name            string
		have            []kernel.Status
		o               view.ListOptions
		rows            int
		outcome, hidden string
	}{
		{"nothing", nil, view.ListOptions{}, 0, "No jobs", ""},
		{"one", []kernel.Status{q}, view.ListOptions{}, 1, "1 job", ""},
		{"succeeded", []kernel.Status{s, s}, view.ListOptions{}, 0, "No open jobs", "2 succeeded (use --all to include)"},
		{"succeeded shown", []kernel.Status{s, s}, view.ListOptions{ShowSucceeded: true}, 2, "2 jobs", ""},
		{"failed stays", []kernel.Status{s, f}, view.ListOptions{}, 1, "1 job", "1 succeeded (use --all to include)"},
		{"failed dismissed", []kernel.Status{s, f}, view.ListOptions{DismissFailures: true}, 0,
			"No jobs to show", "1 failed, 1 succeeded (use --all to include)"},
		{"all wins", []kernel.Status{s, f, u}, view.ListOptions{All: true, DismissFailures: true}, 3, "3 jobs", ""},
		{"the newest", []kernel.Status{q, s, q, q}, view.ListOptions{Most: 2}, 2, "3 jobs", "1 succeeded (use --all to include); 1 older"},
		{"by status", []kernel.Status{s, f, u}, view.ListOptions{Statuses: []kernel.Status{f}}, 1, "1 job", ""},
		{"none of a status", []kernel.Status{s, q}, view.ListOptions{All: true, Statuses: []kernel.Status{f}}, 0, "No jobs to show", ""},
		{"asleep", []kernel.Status{u, q}, view.ListOptions{}, 1, "1 job", "1 unscheduled (use --all to include)"},
		{"the rest shows", []kernel.Status{kernel.WaitingOnDeps, kernel.WaitingOnApproval, kernel.WaitingOnLocks, kernel.Running,
			kernel.FailedRetryable, kernel.Cancelled, kernel.BlockedByApproval, kernel.BlockedByDependency},
			view.ListOptions{DismissFailures: true}, 8, "8 jobs", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var jobs []kernel.Job
			for i, st := range c.have {
				jobs = append(jobs, job(fmt.Sprintf("job-%d", i), i, st))
			}
			l := view.ListOf(snap(jobs...), c.o)
			equal(t, []any{len(l.Rows), l.Outcome, l.Hidden}, []any{c.rows, c.outcome, c.hidden})
		})
	}
}

func TestListCountsInThousands(t *testing.T) {
	t.Parallel()
	var jobs []kernel.Job
	for i := range 1234 {
		jobs = append(jobs, job(fmt.Sprintf("job-%04d", i), i, kernel.Queued))
	}
	l := view.ListOf(snap(jobs...), view.ListOptions{})
	equal(t, l.Outcome, "1,234 jobs")
	equal(t, []kernel.JobID{l.Rows[0].ID, l.Rows[1233].ID}, []kernel.JobID{"job-1233", "job-0000"})
}

func TestListFields(t *testing.T) {
	t.Parallel()
	var labels []string
	for _, f := range view.ListFields() {
		if f.Default {
			labels = append(labels, f.Label)
		}
	}
	equal(t, labels, []string{"Job", "Status", "Created", "Wait", "Remark", "Progress", "Waited on", "After", "Needs", "Locks", "Pinned head",
		"Approval required", "Approval state", "Approval decided by", "Produces", "Failed", "Command", "Files removed"})
}

func TestListDocument(t *testing.T) {
	t.Parallel()
	full := job("job-1", 0, kernel.WaitingOnDeps, after("job-0"), needs(t, "plan_doc:Foo (Draft/Foo)"), makes(t, "custom:Token:K"),
		func(j *kernel.Job) {
			j.Spec.Locks = []kernel.Lock{{Key: "branch:Main"}, {Key: "repo", Mode: kernel.Shared}, {Key: "gpu", Units: 2}}
			j.Spec.Pinned = kernel.PinnedHead{Branch: "Main", Commit: "abc"}
			j.Spec.Origin.Command = []string{"vizier", "run", "develop\n--evil"}
			j.State.Wait = kernel.WaitReason{Kind: kernel.OnPinnedHead, Detail: "pinned head mismatch on Main"}
			j.State.WaitedOn = j.State.WaitedOn.With(kernel.OnDependencies).With(kernel.OnPinnedHead)
			j.State.Approval = kernel.Approval{State: kernel.Approved, DecidedBy: "Ann"}
		})
	failed := job("job-2", 1, kernel.Failed, func(j *kernel.Job) { j.State.Finished = noon.Add(1500 * 1e6) })
	s := kernel.NewSnapshot(kernel.Observation{Jobs: []kernel.Job{full, failed, job("job-3", 2, kernel.Failed)},
		Unreadable: map[kernel.JobID]string{"job-9": "not JSON"}})
	var keys []string
	for _, f := range view.ListFields() {
		keys = append(keys, f.Key)
	}
	d := view.ListOf(s, view.ListOptions{}).Document(keys)
	valid(t, "jobs_list.schema.json", d)
	equal(t, d, view.ListDocument{
		Header: view.ListHeader{Outcome: "3 jobs"},
		Jobs: []map[string]string{
			{"job": "job-3", "status": "failed", "created": "2026-02-01T12:02:00+00:00",
				"failed": "unknown", "command": "<command unavailable>", "name": "do job-3"},
			{"job": "job-2", "status": "failed", "created": "2026-02-01T12:01:00+00:00",
				"failed": "2026-02-01T12:00:01.5+00:00", "command": "<command unavailable>",
				"name": "do job-2"},
			{"job": "job-1", "status": "waiting_on_deps", "created": "2026-02-01T12:00:00+00:00", "after": "job-0 (success)",
				"dependencies": "plan_doc:Foo (Draft/Foo)", "locks": "branch:Main:exclusive, repo:shared, gpu=2",
				"wait": "pinned_head: pinned head mismatch on Main", "waited_on": "dependencies, pinned_head",
				"approval_required": "true", "approval_state": "approved", "approval_decided_by": "Ann", "pinned_head": "Main@abc",
				"artifacts": "custom:Token:K", "command": "vizier run develop --evil", "name": "do job-1"},
		},
		Unreadable: []view.Unreadable{{ID: "job-9", Why: "not JSON"}},
	})
	described := properties(t, "jobs_list.schema.json", "jobs", "items")
	for _, k := range keys {
		if _, ok := described[k]; !ok {
			t.Errorf("the schema does not describe %s", k)
		}
		delete(described, k)
	}
	equal(t, described, map[string]any{})
}

func TestEmptyListDocument(t *testing.T) {
	t.Parallel()
	got := valid(t, "jobs_list.schema.json", view.ListOf(snap(), view.ListOptions{}).Document([]string{"job"}))
	equal(t, got, `{"header":{"outcome":"No jobs"},"jobs":[]}`)
	// Beside an id stands the reference, and nothing where no id is asked for.
	l := view.ListOf(snap(job("a", 0, kernel.Queued, numbered(7, "x")), job("b", 1, kernel.Queued)), view.ListOptions{})
	equal(t, l.Document([]string{"job"}).Jobs, []map[string]string{{"job": "b"}, {"job": "a", "number": "7", "ref": "7/x"}})
	equal(t, l.Document([]string{"status"}).Jobs, []map[string]string{{"status": "queued"}, {"status": "queued"}})
}

func TestListRowText(t *testing.T) {
	t.Parallel()
	l := view.ListOf(snap(job("a", 0, kernel.Cancelled, func(j *kernel.Job) { j.State.Finished = noon })), view.ListOptions{})
	equal(t, []string{l.Rows[0].Text("colour"), l.Rows[0].Text("failed"), l.Rows[0].Text("status")}, []string{"", "", "cancelled"})
	for want, w := range map[string]kernel.WaitReason{"": {}, "locks": {Kind: kernel.OnLocks}, "of old": {Detail: "of old"}, "locks: gpu is taken": {Kind: kernel.OnLocks, Detail: "gpu is taken"}} {
		j := job("a", 0, kernel.WaitingOnLocks, func(j *kernel.Job) { j.State.Wait = w })
		equal(t, view.RowOf(snap(j), &j).Text("wait"), want)
	}
}

// A list of some jobs counts only those, and says how far those are that run.
func TestListOfSomeJobs(t *testing.T) {
	t.Parallel()
	tagged := func(j *kernel.Job) { j.Spec.Tags = []kernel.Tag{{Key: "k", Value: "v"}} }
	s := snap(job("a", 0, kernel.Running, tagged), job("b", 1, kernel.Queued, tagged), job("c", 2, kernel.Succeeded, tagged), job("d", 3, kernel.Running), job("e", 4, kernel.Unscheduled))
	done := int64(3)
	for _, c := range []struct {
		o                 view.ListOptions
		jobs, out, hidden string
	}{
		{view.ListOptions{}, "d b a", "3 jobs", "1 succeeded, 1 unscheduled (use --all to include)"},
		{view.ListOptions{Tags: []kernel.Tag{{Key: "k", Value: "v"}}}, "b a", "2 jobs", "1 succeeded (use --all to include)"},
		{view.ListOptions{Only: func(j *kernel.Job) bool { return j.ID != "b" }}, "d a", "2 jobs", "1 succeeded, 1 unscheduled (use --all to include)"},
		{view.ListOptions{Only: func(j *kernel.Job) bool { return j.ID != "a" }, Tags: []kernel.Tag{{Key: "k", Value: "v"}}}, "b", "1 job", "1 succeeded (use --all to include)"},
		{view.ListOptions{Statuses: []kernel.Status{kernel.Unscheduled}}, "e", "1 job", ""},
		{view.ListOptions{Most: 1}, "d", "3 jobs", "1 succeeded, 1 unscheduled (use --all to include); 2 older"},
	} {
		c.o.Progress = func(kernel.AttemptID) view.Progress { return view.Progress{Done: &done} }
		l := view.ListOf(s, c.o)
		var ids []string
		for i, j := range l.Jobs() {
			ids = append(ids, string(j.ID))
			if got, want := l.Rows[i].Text("progress"), map[bool]string{true: "3 done"}[j.State.Status == kernel.Running]; got != want {
				t.Errorf("%s: progress %q, want %q", j.ID, got, want)
			}
			if got := l.Raw(paths).Jobs[i].Progress; (got != nil) != (j.State.Status == kernel.Running) || got != nil && *got.Done != done {
				t.Errorf("%s: progress %+v", j.ID, got)
			}
		}
		equal(t, []string{strings.Join(ids, " "), l.Outcome, l.Hidden}, []string{c.jobs, c.out, c.hidden})
	}
	near := kernel.Near{Kind: kernel.Newest, Most: 7}
	for _, st := range []kernel.Status{kernel.Running, kernel.Failed} {
		near = near.With(st)
	}
	equal(t, view.ListOptions{Most: 7, Statuses: []kernel.Status{kernel.Running, kernel.Failed}}.Near(), near)
}
