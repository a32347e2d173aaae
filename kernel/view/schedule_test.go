package view_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/view"
)

func ids(v view.Schedule) []string {
	out := []string{}
	for i, r := range v.Rows {
		if r.Order != i+1 {
			panic(fmt.Sprintf("row %d has order %d", i, r.Order))
		}
		out = append(out, string(r.ID))
	}
	return out
}

// Every status, alone and with a dependent in every status.
func TestScheduleVisibility(t *testing.T) {
	t.Parallel()
	always := map[kernel.Status]bool{kernel.Queued: true, kernel.WaitingOnDeps: true, kernel.WaitingOnApproval: true,
		kernel.WaitingOnLocks: true, kernel.Running: true, kernel.FailedRetryable: true,
		kernel.BlockedByDependency: true, kernel.BlockedByApproval: true}
	for _, st := range kernel.Statuses() {
		for _, dependent := range kernel.Statuses() {
			for name, link := range map[string]func(*kernel.Job){"after": after("a"), "artifact": needs(t, "custom:t:k")} {
				s := snap(job("a", 0, st, makes(t, "custom:t:k")), job("b", 1, dependent, link))
				holds := st == kernel.Failed && (dependent == kernel.WaitingOnDeps || dependent == kernel.BlockedByDependency)
				got := slices.Contains(ids(view.ScheduleOf(s, view.ScheduleOptions{})), "a")
				if want := always[st] || holds; got != want {
					t.Errorf("%s with a dependent (%s) %s: visible %v, want %v", st, name, dependent, got, want)
				}
				equal(t, ids(view.ScheduleOf(s, view.ScheduleOptions{All: true})), []string{"a", "b"})
			}
		}
	}
}

func TestScheduleOrder(t *testing.T) {
	t.Parallel()
	s := snap(job("c", 1, kernel.Queued), job("b", 1, kernel.Queued), job("d", 0, kernel.Queued))
	equal(t, ids(view.ScheduleOf(s, view.ScheduleOptions{})), []string{"d", "b", "c"})
}

func TestScheduleFocus(t *testing.T) {
	t.Parallel()
	// a -> b -> c (by artifact) -> d, s sleeps after c, done precedes c, x is alone.
	s := snap(
		job("a", 0, kernel.Queued), job("b", 1, kernel.Queued, after("a"), makes(t, "target_branch:m")),
		job("done", 2, kernel.Succeeded),
		job("c", 3, kernel.Queued, needs(t, "target_branch:m"), after("done")), job("d", 4, kernel.Queued, after("c")),
		job("s", 5, kernel.Unscheduled, after("c")), job("x", 6, kernel.Queued))
	for _, c := range []struct {
		focus kernel.JobID
		depth int
		all   bool
		want  []string
	}{
		{"c", 0, false, []string{"c"}},
		{"c", 1, false, []string{"c", "b", "d", "s"}},
		{"c", 2, false, []string{"c", "a", "b", "d", "s"}},
		{"c", 1, true, []string{"c", "b", "done", "d", "s"}},
		{"done", 1, false, []string{"done", "c"}},
		{"x", 9, false, []string{"x"}},
		{"gone", 3, true, []string{}},
		{"", 3, false, []string{"a", "b", "c", "d", "x"}},
	} {
		v := view.ScheduleOf(s, view.ScheduleOptions{Focus: c.focus, MaxDepth: c.depth, All: c.all})
		equal(t, ids(v), c.want)
		valid(t, "schedule.schema.json", v.Document())
	}
}

func TestScheduleNames(t *testing.T) {
	t.Parallel()
	for want, edit := range map[string]func(*kernel.Job){
		"Nice name":           func(j *kernel.Job) { j.Spec.Origin.About.Name, j.Spec.Origin.Node = "Nice name", "n" },
		"stage a / do it now": func(j *kernel.Job) { j.Spec.Origin.Node, j.Spec.Name = "stage_a__do-it_now", "mine" },
		"mine":                func(j *kernel.Job) { j.Spec.Name, j.Spec.Origin.Alias = "mine", "approve" },
		"approve/foo/main":    func(j *kernel.Job) { o := &j.Spec.Origin; o.Alias, o.Plan, o.Target = "approve", "foo", "main" },
		"approve/main":        func(j *kernel.Job) { o := &j.Spec.Origin; o.Alias, o.Target = "approve", "main" },
		"approve":             func(j *kernel.Job) { j.Spec.Origin.Alias = "approve" },
		"vizier run a ...":    func(j *kernel.Job) { j.Spec.Origin.Command = []string{"vizier", "run", "a", "b"} },
		"vizier run a":        func(j *kernel.Job) { j.Spec.Origin.Command = []string{"vizier", "run", "a"} },
		"make":                func(j *kernel.Job) { j.Spec.Task.Args, j.Spec.Origin.Command = []string{"make"}, []string{"vizier"} },
		"make test": func(j *kernel.Job) {
			j.Spec.Task.Args, j.Spec.Origin.Command = []string{"make", "test"}, []string{"vizier"}
		},
		"vizier run": func(j *kernel.Job) {
			j.Spec.Task.Args, j.Spec.Task.Builtin = []string{"__node"}, true
			j.Spec.Origin.Command = []string{"vizier", "run"}
		},
		"<command unavailable>": func(*kernel.Job) {},
		`red\x1b alert`:         func(j *kernel.Job) { j.Spec.Name = "red\x1b\nalert" },
	} {
		j := job("a", 0, kernel.Queued, func(j *kernel.Job) { j.Spec.Name = "" }, edit)
		equal(t, view.ScheduleOf(snap(j), view.ScheduleOptions{}).Rows[0].Name, want)
	}
}

func TestScheduleWaitAndSlug(t *testing.T) {
	t.Parallel()
	reason := func(k kernel.WaitKind, detail string) func(*kernel.Job) {
		return func(j *kernel.Job) { j.State.Wait = kernel.WaitReason{Kind: k, Detail: detail} }
	}
	s := snap(
		job("a", 0, kernel.WaitingOnDeps, reason(kernel.OnDependencies, "waiting on job Z"), makes(t, "custom:t:k", "plan_doc:Foo")),
		job("b", 1, kernel.WaitingOnLocks, reason(kernel.OnPinnedHead, ""), makes(t, "merge_sentinel:bar"),
			func(j *kernel.Job) { j.Spec.Origin.Plan = "mine" }),
		job("c", 2, kernel.FailedRetryable, makes(t, "merge_sentinel:bar", "target_branch:m"),
			func(j *kernel.Job) { j.State.RetryAt, j.State.Reason = noon, "exit 1" }),
		job("d", 3, kernel.Queued, func(j *kernel.Job) { j.State.Reason = "no such file" }),
		job("e", 4, kernel.BlockedByDependency, func(j *kernel.Job) { j.State.Reason = "dirty checkout" }),
		job("f", 5, kernel.Running, func(j *kernel.Job) { j.State.Reason = "old news" }))
	v := view.ScheduleOf(s, view.ScheduleOptions{Label: func(id kernel.JobID) string { return "<" + string(id) + ">" }})
	equal(t, view.SummaryColumns(), []string{"#", "Slug", "Name", "Status", "Wait", "Job"})
	equal(t, v.Summary(v.Rows), [][]string{
		{"1", "Foo", "do a", "waiting_on_deps", "waiting on job Z", "<a>"},
		{"2", "mine", "do b", "waiting_on_locks", "pinned_head", "<b>"},
		{"3", "bar", "do c", "failed_retryable", "retry at 2026-02-01T12:00:00+00:00", "<c>"},
		{"4", "-", "do d", "queued", "no such file", "<d>"},
		{"5", "-", "do e", "blocked_by_dependency", "dirty checkout", "<e>"},
		{"6", "-", "do f", "running", "-", "<f>"},
	})
}

// What a job makes tells of the plan that it works on, if it is part of one.
func TestSlugsByWhatIsMade(t *testing.T) {
	t.Parallel()
	for label, want := range map[string]string{"plan_branch:p": "p", "plan_doc:p": "p", "plan_commits:p": "p", "merge_sentinel:p": "p", "target_branch:p": "", "command_patch:p": "", "custom:t:p": ""} {
		equal(t, view.ScheduleOf(snap(job("a", 0, kernel.Queued, makes(t, label))), view.ScheduleOptions{}).Rows[0].Slug, want)
	}
}

// The document of seed 000's example, and the edges it does not show.
func TestScheduleDocument(t *testing.T) {
	t.Parallel()
	focus := job("job-24", 0, kernel.Queued, after("job-17", "gone", "job-17"),
		needs(t, "plan_doc:foo", "custom:t:there", "custom:t:unasked", "target_branch:x", "target_branch:x"),
		func(j *kernel.Job) {
			j.Spec.Name = ""
			j.Spec.Origin = kernel.Origin{Alias: "approve", Plan: "foo", Target: "main", Command: []string{"vizier", "run", "approve"}}
			j.State.Wait = kernel.WaitReason{Kind: kernel.OnDependencies, Detail: "waiting on dependency"}
		})
	done := job("job-17", -1, kernel.Succeeded, makes(t, "plan_doc:foo"))
	f := kernel.NewFacts()
	f.Markers[parse(t, []string{"custom:t:there"})[0]] = kernel.Seen([]kernel.JobID{"removed"})
	f.Present[parse(t, []string{"target_branch:x"})[0]] = kernel.Seen(false)
	s := kernel.NewSnapshot(kernel.Observation{Jobs: []kernel.Job{focus, done}, Facts: f,
		Unreadable: map[kernel.JobID]string{"torn": "unexpected end"}})
	got := valid(t, "schedule.schema.json", view.ScheduleOf(s, view.ScheduleOptions{}).Document())
	equal(t, got, strings.Join([]string{`{"version":1,"ordering":"created_at_then_job_id","jobs":[`,
		`{"order":1,"job_id":"job-24","slug":"foo","name":"approve/foo/main","status":"queued","wait":"waiting on dependency",`,
		`"created_at":"2026-02-01T12:00:00+00:00","command":["vizier","run","approve"]}],"edges":[`,
		`{"from":"job-24","to":"gone","after":{"policy":"success"}},`,
		`{"from":"job-24","to":"job-17","after":{"policy":"success"}},`,
		`{"from":"job-24","to":"artifact:custom:t:there","artifact":"custom:t:there","state":"present"},`,
		`{"from":"job-24","to":"artifact:custom:t:unasked","artifact":"custom:t:unasked"},`,
		`{"from":"job-24","to":"job-17","artifact":"plan_doc:foo (draft/foo)"},`,
		`{"from":"job-24","to":"artifact:target_branch:x","artifact":"target_branch:x","state":"missing"}],`,
		`"unreadable":[{"job":"torn","why":"unexpected end"}]}`}, ""))
}

func TestEmptyScheduleDocument(t *testing.T) {
	t.Parallel()
	got := valid(t, "schedule.schema.json", view.ScheduleOf(snap(), view.ScheduleOptions{}).Document())
	equal(t, got, `{"version":1,"ordering":"created_at_then_job_id","jobs":[],"edges":[]}`)
	bare := job("a", 0, kernel.Queued)
	if got := valid(t, "schedule.schema.json", view.ScheduleOf(snap(bare), view.ScheduleOptions{}).Document()); !strings.Contains(got,
		`"slug":null,"name":"do a","status":"queued","wait":null,`) || !strings.Contains(got, `"command":[]`) {
		t.Errorf("absent values: %s", got)
	}
}
