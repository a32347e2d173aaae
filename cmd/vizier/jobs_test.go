package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/view"
)

func status(t *testing.T, w *fake, id kernel.JobID, want kernel.Status) {
	t.Helper()
	if got := w.job(id).State.Status; got != want {
		t.Errorf("job %s is %s, want %s", id, got, want)
	}
}

// has fails unless text holds every part.
func has(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("%q is missing in:\n%s", p, text)
		}
	}
}

func decode(t testing.TB, text string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), into); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
}

func TestListHidesWhatSucceeded(t *testing.T) {
	w := newFake(t)
	if got := w.ok("jobs", "list", "--format", "block"); got != "Outcome: No jobs\nScheduler: none\n" {
		t.Errorf("empty: %q", got)
	}
	a, b := w.submit("--name", "build"), w.submit("--name", "test")
	w.settle(a, kernel.OutcomeSucceeded)
	w.settle(b, kernel.OutcomeFailed)
	c := w.submit("--lock", "db:shared", "--approval")

	text := w.ok("jobs", "list", "--format", "block")
	has(t, text, "Outcome: 2 jobs\n", "Hidden:  1 succeeded (use --all to include)\n",
		"\n  Job:               "+w.ref(c), "  Wait:              approval: awaiting human approval", "  Locks:             db:shared")
	if strings.Contains(text, "Job:     "+w.ref(a)) || strings.Index(text, "Job:               "+w.ref(c)) > strings.Index(text, "Job:     "+w.ref(b)) {
		t.Errorf("expected the newest first and no %s:\n%s", a, text)
	}
	has(t, w.ok("jobs", "list", "--all", "--format", "block"), "Job:     "+w.ref(a)+"\n", "Outcome: 3 jobs")
	has(t, w.ok("jobs", "list", "--dismiss-failures", "--format", "block"), "1 failed, 1 succeeded (use --all to include)")

	w.resident = 4711
	has(t, w.ok("jobs", "list", "--format", "block"), "\nScheduler: resident (pid 4711)\n")
	has(t, w.ok("jobs", "list", "--format", "json"), `"resident_pid": 4711`)
	w.config["VIZIER_DISPLAY_LISTS_JOBS_FORMAT"] = "table"
	w.config["VIZIER_DISPLAY_LISTS_JOBS_FIELDS"] = "Job,Status"
	want := "Outcome: 2 jobs\nHidden:  1 succeeded (use --all to include)\nScheduler: resident (pid 4711)\n\n" +
		"Job  Status\n" + w.ref(c) + "    waiting_on_approval\n" + w.ref(b) + "    failed\n"
	if got := w.ok("jobs", "list"); got != want {
		t.Errorf("table:\n%s\nwant:\n%s", got, want)
	}
	var doc struct {
		Header struct{ Outcome string }
		Jobs   []map[string]string
	}
	decode(t, w.ok("jobs", "list", "--format", "json", "--fields", "job,name"), &doc)
	if len(doc.Jobs) != 2 || doc.Jobs[1]["name"] != "test" || doc.Jobs[1]["status"] != "" {
		t.Errorf("json: %+v", doc)
	}
	has(t, w.fails(2, "jobs", "submit", "--in-doubt", "x", "--", "true"), `--in-doubt: expected fail, ask or rerun, not "x"`)
	has(t, w.fails(2, "jobs", "list", "--fields", "stauts"), `unknown field "stauts" (did you mean status?)`)
}

func TestUnreadableRecordsDoNotHideTheOthers(t *testing.T) {
	w := newFake(t)
	a := w.submit()
	w.unreadable["ff"] = "job.json: unexpected end"
	code, out, err := w.run("jobs", "list", "--format", "block")
	if code != 0 {
		t.Errorf("exit %d", code)
	}
	has(t, out, "Job:     "+w.ref(a)+"\n")
	has(t, err, "vizier: the record of job ff cannot be read: job.json: unexpected end\n")
	if _, _, err := w.run("-q", "jobs", "list"); err != "" {
		t.Errorf("quiet: %q", err)
	}
}

func TestShowAndStatus(t *testing.T) {
	w := newFake(t)
	t.Chdir(w.dir)
	a := w.submit("--name", "build")
	stdout := "jobs/" + string(a) + "/stdout.log"
	has(t, w.ok("jobs", "show", "@last"), "Job "+w.ref(a)+"\n", "Status:", "running", "Stdout:", stdout, "make all")
	var doc map[string]string
	decode(t, w.ok("jobs", "show", string(a)[:8], "--format", "json"), &doc)
	if doc["status"] != "running" || doc["stdout"] != stdout || doc["outcome"] != "" {
		t.Errorf("json: %v", doc)
	}
	if got := w.ok("jobs", "show", string(a), "--fields", "status,name", "--format=table"); got != "Status  running\nName    build\n" {
		t.Errorf("table: %q", got)
	}
	if got, want := w.ok("jobs", "status", string(a)), w.ref(a)+" build [running]\n"; got != want {
		t.Errorf("status: %q, want %q", got, want)
	}
	w.settle(a, kernel.OutcomeFailed)
	var st struct {
		Status   string
		ExitCode *int `json:"exit_code"`
	}
	decode(t, w.ok("jobs", "status", string(a), "--format", "json"), &st)
	if st.Status != "failed" || st.ExitCode == nil || *st.ExitCode != 3 {
		t.Errorf("status json: %+v", st)
	}
	has(t, w.fails(1, "jobs", "status", "nope"), "vizier: no job \"nope\"\n", "hint: vizier ls --all")
}

func TestApproveAndReject(t *testing.T) {
	w := newFake(t)
	a, b := w.submit("--approval"), w.submit("--approval")
	w.env = environment{"USER=ann", "GIT_AUTHOR_NAME=  ", "GIT_COMMITTER_NAME=bob"}
	var doc approved
	decode(t, w.ok("jobs", "approve", string(a), "--format", "json"), &doc)
	if doc.Outcome != "Job approval granted" || doc.Status != "running" || doc.ApprovalState != "approved" ||
		len(doc.Started) != 1 || doc.Started[0] != a || len(doc.Updated) != 1 {
		t.Errorf("%+v", doc)
	}
	if by := w.job(a).State.Approval; by.DecidedBy != "bob" || by.RequestedBy != "ann" {
		t.Errorf("decided by %q, requested by %q", by.DecidedBy, by.RequestedBy)
	}
	has(t, w.fails(1, "jobs", "approve", string(a)), "job "+w.ref(a)+" is running\n")
	has(t, w.ok("jobs", "reject", string(b), "--reason", "too big"), "Outcome:        Job approval rejected\n",
		"Status:         blocked_by_approval\n", "Reason:         too big\n")
	status(t, w, b, kernel.BlockedByApproval)
	has(t, w.fails(1, "jobs", "approve", string(w.submit()), "--format", "json"), `"code":"conflict"`)
}

// Approve prints what it approves, and refuses a digest of anything else.
func TestApproveSaysWhat(t *testing.T) {
	w := newFake(t)
	a := w.submit("--approval")
	digest := string(w.job(a).Spec.Digest())
	has(t, w.ok("jobs", "show", string(a)), "Approval digest: ", digest)
	has(t, w.fails(1, "jobs", "approve", string(a), "--digest", strings.Repeat("0", 64)), "its digest is "+digest)
	status(t, w, a, kernel.WaitingOnApproval)
	has(t, w.ok("jobs", "approve", string(a), "--digest", digest), "Digest:         "+digest+"\n", "  command \"make\" \"all\"\n  executor \"local\"\n")
	has(t, w.ok("jobs", "show", string(a)), "Approval decided how:", " script\n")
	status(t, w, a, kernel.Running)
}

// A command that was edited after its approval does not run; show says what is not
// as it was.
func TestAnEditedCommandWaits(t *testing.T) {
	w := newFake(t)
	first := w.submit("--lock", "x")
	a := w.submit("--lock", "x", "--approval")
	w.ok("jobs", "approve", string(a))
	status(t, w, a, kernel.WaitingOnLocks)
	w.job(a).Spec.Task.Args = []string{"rm", "-rf", "/"}
	w.settle(first, kernel.OutcomeSucceeded)
	w.ok("jobs", "status", string(a))
	status(t, w, a, kernel.WaitingOnApproval)
	has(t, w.ok("jobs", "show", string(a)), "changed since it was approved: command", `broken: command: "make" "all" -> "rm" "-rf" "/"`)
	w.ok("jobs", "approve", string(a))
	status(t, w, a, kernel.Running)
}

func TestRefusedLaunchesAreToldAndNotCountedAsStarted(t *testing.T) {
	w := newFake(t)
	a := w.submit("--approval")
	w.refusal = errors.New("no room")
	_, out, err := w.run("jobs", "approve", string(a), "--format", "json")
	has(t, out, `"started": []`)
	has(t, err, "vizier: job "+w.ref(a)+": no room\n")
	w.refusal = nil
	_, _, err = w.run("-v", "jobs", "submit", "--", "true")
	has(t, err, "vizier: job "+w.ref(a)+" started\n")
	_, _, err = w.run("-d", "jobs", "submit", "--approval", "--", "true")
	has(t, err, "waiting_on_approval, was queued awaiting human approval\n")
}

func TestJobsMustNotDecide(t *testing.T) {
	w := newFake(t)
	a := w.submit("--approval")
	w.inside = "me"
	for _, verb := range []string{"approve", "reject", "retry"} {
		has(t, w.fails(10, "jobs", verb, string(a)), "cannot "+verb+" from inside job me")
	}
	status(t, w, a, kernel.WaitingOnApproval)
	w.inside = ""
	w.config["VIZIER_APPROVALS_FROM_JOBS"] = "true"
	has(t, w.fails(2, "jobs", "approve", string(a)), "only your own configuration file may set it")
}

func TestRetry(t *testing.T) {
	w := newFake(t)
	zero := w.submit()
	w.settle(zero, kernel.OutcomeSucceeded)
	a := w.submit("--after", string(zero))
	b := w.submit("--after", string(a))
	w.settle(a, kernel.OutcomeFailed)
	status(t, w, b, kernel.BlockedByDependency)

	has(t, w.fails(10, "jobs", "retry", string(b)), w.ref(b)+" is blocked as before: dependency failed for job "+w.ref(a)+" (failed): `vizier why "+w.ref(b)+"` says what to do")
	code, out, _ := w.run("jobs", "retry", string(b), string(b))
	has(t, out, "Outcome:               Blocked as before\n", "Restarted:             none\n")
	if code != 10 {
		t.Errorf("exit code %d", code)
	}
	dry := w.ok("jobs", "retry", string(a), "--dry-run")
	has(t, dry, "Last successful point: "+w.ref(zero), "  "+w.ref(a)+"  asked for\n", "  "+w.ref(b)+"  runs after "+w.ref(a)+"\n")
	status(t, w, a, kernel.Failed)

	var doc retried
	decode(t, w.ok("jobs", "retry", string(a), "--format", "json"), &doc)
	if doc.Outcome != "Jobs retried" || len(doc.RetrySet) != 2 || len(doc.Restarted) != 1 || doc.Restarted[0] != a ||
		len(doc.LastSuccessfulPoint) != 1 || len(doc.Reset) != 2 {
		t.Errorf("%+v", doc)
	}
	status(t, w, a, kernel.Running)
	status(t, w, b, kernel.WaitingOnDeps)
	has(t, w.fails(1, "jobs", "retry", string(a)), "cannot retry while jobs are running in the retry set: "+w.ref(a))
}

// A retry of what had succeeded may block it: that is nothing that was so before.
func TestRetryThatBlocks(t *testing.T) {
	w := newFake(t)
	a := w.submit("--need", "plan_branch:p")
	status(t, w, a, kernel.BlockedByDependency)
	branch := w.job(a).Spec.Needs[0]
	w.facts.Present[branch] = kernel.Seen(true)
	w.ok("jobs", "retry", string(a))
	w.settle(a, kernel.OutcomeSucceeded)
	w.facts.Present[branch] = kernel.Seen(false)
	code, out, stderr := w.run("jobs", "retry", string(a))
	has(t, out, "Outcome:               Blocked now\n", "Restarted:             none\n")
	has(t, stderr, w.ref(a)+" is blocked now: missing plan_branch:p")
	if code != 10 {
		t.Errorf("exit code %d", code)
	}
	has(t, w.fails(10, "jobs", "retry", string(a)), w.ref(a)+" is blocked as before: missing plan_branch:p")
}

// A retry of a blocked job runs what waits for any end of it again.
func TestRetryOfWhatOnlyItsDependentRunsAgain(t *testing.T) {
	w := newFake(t)
	a := w.submit()
	b := w.submit("--after", string(a))
	d := w.submit("--after", string(b)+":any")
	w.settle(a, kernel.OutcomeFailed)
	w.settle(d, kernel.OutcomeSucceeded)

	code, out, stderr := w.run("jobs", "retry", string(b), "--format", "json")
	var doc retried
	decode(t, out, &doc)
	if code != 0 || doc.Outcome != "Jobs retried" || !slices.Equal(doc.Restarted, []kernel.JobID{d}) {
		t.Errorf("exit code %d: %+v", code, doc)
	}
	has(t, stderr, w.ref(b)+" is blocked as before: dependency failed for job "+w.ref(a)+" (failed)")
	status(t, w, b, kernel.BlockedByDependency)
	status(t, w, d, kernel.Running)
}

// Somebody else removes a job between two reads of a command: messages still name it by its
// reference, and a wait that saw its end says how it was.
func TestAJobThatGoesMeanwhile(t *testing.T) {
	w := newFake(t)
	t.Chdir(w.dir)
	a := w.submit()
	b := w.submit()
	w.settle(a, kernel.OutcomeCancelled)
	// after has the job removed once the records have been read n more times, and then calls then.
	after := func(n int, id kernel.JobID, then func()) {
		from := w.reads + n
		w.onRead = func() {
			if w.reads > from {
				w.onRead = nil
				w.jobs = slices.DeleteFunc(w.jobs, func(j kernel.Job) bool { return j.ID == id })
				then()
			}
		}
	}
	after(1, a, func() {})
	if says := w.fails(1, "jobs", "retry", "1"); !strings.HasPrefix(says, "vizier: retry 1: no such job\n") {
		t.Errorf("%q", says)
	}

	a = w.submit()
	w.settle(a, kernel.OutcomeFailed)
	after(2, a, func() { w.settle(b, kernel.OutcomeSucceeded) })
	code, out, says := w.run("jobs", "wait", "3", "2")
	if code != 1 || out != "3 failed\n2 succeeded\n" || says != "" {
		t.Errorf("exit %d, %q, %q", code, out, says)
	}
}

func TestCancelEndsWaitingAndRunningJobs(t *testing.T) {
	w := newFake(t)
	t.Chdir(w.dir)
	a := w.submit()
	b := w.submit("--after", string(a))
	got := w.ok("jobs", "cancel", string(b))
	if want := "Job " + w.ref(b) + " cancelled\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	w.ok("jobs", "cancel", string(a))
	status(t, w, a, kernel.Cancelled)
	if e := w.job(a).State.Exit; e != kernel.Exited(143) {
		t.Errorf("exit %v", e)
	}
	has(t, w.fails(1, "jobs", "cancel", string(a)), "has ended (cancelled)")
	w.fails(2, "jobs", "cancel", string(a), "--cleanup-worktree", "--no-cleanup-worktree")
}

func TestGC(t *testing.T) {
	w := newFake(t)
	old, kept := w.submit(), w.submit()
	w.settle(old, kernel.OutcomeSucceeded)
	w.settle(kept, kernel.OutcomeSucceeded)
	w.now = w.now.AddDate(0, 0, 8)
	open := w.submit("--after", string(kept))
	if got := w.ok("jobs", "gc", "--days", "9"); got != "Outcome: removed 0 jobs\n" {
		t.Errorf("younger than that: %q", got)
	}
	has(t, w.ok("jobs", "gc", "--dry-run"), "Outcome: would remove 1 job\n  "+w.ref(old))
	ref := w.ref(old)
	if got := w.ok("jobs", "gc"); got != "Outcome: removed 1 job\n  "+ref+"\n" {
		t.Errorf("%q", got)
	}
	if len(w.jobs) != 2 {
		t.Errorf("%d jobs are left", len(w.jobs))
	}
	status(t, w, open, kernel.Running)
	w.fails(2, "jobs", "gc", "--days", "-1")
}

// With --keep the configuration decides.
func TestGCGoesByTheConfiguration(t *testing.T) {
	w := newFake(t)
	old, keyed, kept := w.submit(), w.submit("--idempotency-key", "k"), w.submit()
	for _, id := range []kernel.JobID{old, keyed, kept} {
		w.settle(id, kernel.OutcomeSucceeded)
	}
	w.now = w.now.AddDate(0, 0, 8)
	open := w.submit("--after", string(kept))
	w.config["VIZIER_GC_KEEP_AGE"] = "168h"
	has(t, w.ok("jobs", "gc", "--keep", "--dry-run"), "Outcome: would remove 1 job\n  "+w.ref(old))
	ref := w.ref(old)
	if got := w.ok("jobs", "gc", "--keep"); got != "Outcome: removed 1 job\n  "+ref+"\n" || len(w.jobs) != 3 {
		t.Errorf("%q, %d jobs are left", got, len(w.jobs))
	}
	status(t, w, open, kernel.Running)
}

func TestWhy(t *testing.T) {
	w := newFake(t)
	a := w.submit("--name", "base", "--approval")
	b := w.submit("--after", string(a), "--approval", "--need", "custom:x:y", "--missing-producer", "wait")
	has(t, w.ok("jobs", "why", string(b)), "Job "+w.ref(b)+": waiting_on_deps",
		"dependencies: waiting on job "+w.ref(a), "dependencies: awaiting producer for custom:x:y", "approval: awaiting human approval",
		"To start it:\n", "vizier jobs approve "+w.ref(a), "vizier jobs approve "+w.ref(b))
	w.ok("jobs", "approve", string(a))
	w.settle(a, kernel.OutcomeFailed)
	var doc explanation
	decode(t, w.ok("jobs", "why", string(b), "--format", "json"), &doc)
	if doc.Status != "blocked_by_dependency" || doc.Root == nil || doc.Root.Job != a || doc.Root.Detail != "exit status 3" {
		t.Errorf("%+v", doc)
	}
	var does []string
	for _, a := range doc.Actions {
		does = append(does, a.Text+strings.Join(a.Command, " "))
	}
	want := []string{"queue a job that produces custom:x:y", "vizier retry " + w.ref(a), "vizier jobs approve " + w.ref(a), "vizier jobs approve " + w.ref(b)}
	if len(doc.Unmet) == 0 || !doc.Unmet[0].Final || !slices.Equal(does, want) {
		t.Errorf("%+v", doc)
	}
}

// A tick does not look at what a blocked job misses any more; a person does.
func TestBlockedJobsAreExplainedByWhatTheyMiss(t *testing.T) {
	w := newFake(t)
	a := w.submit("--need", "custom:x:y")
	b := w.submit("--after", string(a))
	status(t, w, a, kernel.BlockedByDependency)
	has(t, w.ok("jobs", "why", string(b)), "Root cause: job "+w.ref(a)+" (blocked_by_dependency): missing custom:x:y",
		"queue a job that produces custom:x:y", "vizier retry "+w.ref(a))
	has(t, w.ok("jobs", "why", string(a)), "missing custom:x:y (permanent)")
	has(t, w.ok("jobs", "schedule", "--format", "dag"), "`-- custom:x:y -> [missing]")
}

func TestConfigShow(t *testing.T) {
	w := newFake(t)
	w.config["VIZIER_STORE_DURABILITY"] = "relaxed"
	has(t, w.ok("config", "show", "--origin"), `store.durability = "relaxed"`, "# env VIZIER_STORE_DURABILITY",
		`jobs.grace = "10s"`, "# default")
	var doc shownConfig
	decode(t, w.ok("config", "show", "--format", "json"), &doc)
	if doc.Version != 1 || len(doc.Settings) < 10 {
		t.Errorf("%+v", doc)
	}
	w.config["VIZIER_STORE_DURABILITY"] = "fast"
	has(t, w.fails(2, "config", "show"), "env VIZIER_STORE_DURABILITY: expected one of full, relaxed")
}

func TestRawKeepsTypes(t *testing.T) {
	w := newFake(t)
	a := w.submit("--approval")
	type job struct {
		JobID string `json:"job_id"`
		Wait  struct{ Kind string }
	}
	var list struct{ Jobs []job }
	var show struct{ Job job }
	var schedule struct{ Jobs []job }
	decode(t, w.ok("jobs", "list", "--format", "json", "--raw"), &list)
	decode(t, w.ok("jobs", "show", "--format", "json", "--raw", string(a)), &show)
	decode(t, w.ok("jobs", "schedule", "--format", "json", "--raw"), &schedule)
	for _, j := range append(append(list.Jobs, schedule.Jobs...), show.Job) {
		if j.JobID != string(a) || j.Wait.Kind != "approval" {
			t.Errorf("%+v", j)
		}
	}
	for _, verb := range []string{"list", "schedule"} {
		has(t, w.fails(2, "jobs", verb, "--raw"), "`--raw` requires `--format json`.")
	}
	w.fails(2, "jobs", "show", "--raw", string(a))
}

// The cost of a list is linear in what it prints.
func BenchmarkListBlocks(b *testing.B) {
	c := &call{ui: &ui{plain: true}}
	of := func(n int) func() {
		jobs := make([]kernel.Job, n)
		for i := range jobs {
			jobs[i] = kernel.Job{ID: kernel.JobID(fmt.Sprintf("%032x", i)), Spec: kernel.Spec{Task: kernel.Task{Args: []string{"true"}}}}
		}
		l := view.ListOf(kernel.NewSnapshot(kernel.Observation{Jobs: jobs}), view.ListOptions{})
		return func() {
			c.listBlocks(l, view.ListFields(), func(r view.ListRow, f view.Field) string { return r.Text(f.Key) })
		}
	}
	few, many := of(1000), of(10_000)
	var took [2]time.Duration
	for b.Loop() {
		for i, list := range []func(){few, many} {
			begun := time.Now()
			list()
			took[i] += time.Since(begun)
		}
	}
	b.ReportMetric(float64(took[1])/float64(took[0]), "x-1000") // 10 is linear
}

// A batch is retried and cleaned as a whole, in one transaction and one question, and a
// line a job says what was done.
func TestABatchAtOnce(t *testing.T) {
	w := newFake(t)
	code, _, said := w.runIn(`{"ref":"a","command":["false"]}`+"\n"+`{"ref":"b","command":["false"]}`+"\n"+`{"ref":"c","command":["true"],"after":["a","b"]}`+"\n", "jobs", "submit", "--batch")
	if code != 0 {
		t.Fatal(said)
	}
	w.settle(w.id("1/a"), kernel.OutcomeFailed)
	w.settle(w.id("1/b"), kernel.OutcomeFailed)
	status(t, w, w.id("1/c"), kernel.BlockedByDependency)
	if got, want := w.ok("jobs", "retry", "1"), "Job 1/a retried, and 1 job after it\nJob 1/b retried\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if j := w.job(w.id("1/c")); j.State.Generation != 1 || j.State.Status != kernel.WaitingOnDeps {
		t.Errorf("%+v", j.State)
	}
	for _, ref := range []string{"1/a", "1/b", "1/c"} {
		w.settle(w.id(ref), kernel.OutcomeSucceeded)
	}
	has(t, w.ok("clean", "1", "--dry-run"), "Scope:       batch", "1/a, 1/b, 1/c")

	if code, _, said = w.runIn(strings.Repeat(`{"command":["true"],"approval":true}`+"\n", mostExplained+2), "jobs", "submit", "--batch"); code != 0 {
		t.Fatal(said)
	}
	if got := w.ok("why", "2"); strings.Count(got, "awaiting human approval") != mostExplained || !strings.HasSuffix(got, "\n2 more jobs: vizier ls 2\n") {
		t.Errorf("why says\n%s", got)
	}
	if _, got, _ := w.run("what-if", "--cancel", "2"); strings.Count(got, "cancelled by what-if") != mostExplained+2 {
		t.Errorf("what-if says\n%s", got)
	}

	one := w.submit("--approval")
	if got, want := w.ok("cancel", "2/3", "2", string(one)), fmt.Sprintf("Job 3 cancelled\n%d jobs of 2 cancelled\n", mostExplained+2); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := w.ok("retry", "2"), fmt.Sprintf("%d jobs of 2 retried; approval needed: vizier ls 2 --status waiting_on_approval\n", mostExplained+2); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	w.ok("cancel", "2")
	for n := 1; n <= mostExplained+2; n++ {
		if status(t, w, w.id(fmt.Sprintf("2/%d", n)), kernel.Cancelled); n < 5 {
			w.ok("retry", fmt.Sprintf("2/%d", n))
		}
	}
	if got := w.ok("cancel", "2"); strings.Count(got, "\n") != 4 || !strings.HasPrefix(got, "Job 2/4 cancelled\nJob 2/3 cancelled\n") {
		t.Errorf("a few are\n%s", got)
	}
}

// A cancel says which worktree it leaves although it was asked to remove it.
func TestACancelSaysWhichWorktreeStays(t *testing.T) {
	w := newFake(t)
	one, two := w.submit("--approval"), w.submit("--approval")
	for _, id := range []kernel.JobID{one, two} {
		j := w.job(id)
		j.Spec.Origin.Run, j.State.Context.Worktree = "run_"+kernel.RunID(one), ".vizier/tmp-worktrees/shared"
	}
	code, _, warned := w.run("jobs", "cancel", "--cleanup-worktree", string(one))
	if want := ".vizier/tmp-worktrees/shared stays: the jobs of the run share it, and `vizier clean 1` removes it"; code != 0 || strings.Count(warned, want) != 1 {
		t.Errorf("exit %d: %s", code, warned)
	}
	w.config["VIZIER_JOBS_CANCEL_CLEANUP_WORKTREE"] = "true"
	if code, _, warned := w.run("jobs", "cancel", string(two)); code != 0 || strings.Count(warned, ".vizier/tmp-worktrees/shared stays") != 1 {
		t.Errorf("as the configuration says: exit %d: %s", code, warned)
	}
}

// A cancel of a job that stands for a prompt waits for all jobs of its run.
func TestACancelOfAPromptWaitsForItsRun(t *testing.T) {
	w := newFake(t)
	prompt, member, other := w.running(), w.running(), w.running()
	for _, id := range []kernel.JobID{prompt, member} {
		w.job(id).Spec.Origin.Run = "run_" + kernel.RunID(prompt)
	}
	w.job(prompt).Spec.Prompt = &kernel.Prompt{}
	if got := w.ok("cancel", string(prompt)); got != "Job 1 cancelled\nJob 2 cancelled\n" {
		t.Errorf("%s", got)
	}
	status(t, w, member, kernel.Cancelled)
	status(t, w, other, kernel.Running)
}

// Who does not wait for the end of what was cancelled learns how to.
func TestACancelThatIsInterrupted(t *testing.T) {
	w := newFake(t)
	w.deaf = w.running()
	ctx, stop := context.WithCancel(t.Context())
	w.onRead = func() {
		if !w.job(w.deaf).State.Stop.At.IsZero() {
			stop()
		}
	}
	var out, said strings.Builder
	p := program{args: []string{"cancel", "1"}, stdout: &out, stderr: &said, env: w.env, open: w.open}
	if code := p.runWith(ctx); code == 0 || out.String() != "" {
		t.Errorf("exit %d: %s", code, out.String())
	}
	has(t, said.String(), "detached: job 1 was told to stop; `vizier wait 1` waits for its end")
}

// What a list or a status reads of the store does not grow with what it prints.
func TestAListReadsTheStoreOnce(t *testing.T) {
	w := newFake(t)
	counted := func(args ...string) int {
		before := w.reads
		w.ok(args...)
		return w.reads - before
	}
	one := w.submit("--approval")
	few := counted("ls")
	for range 20 {
		w.submit("--approval")
	}
	if many := counted("ls"); many != few || few > 2 {
		t.Errorf("ls reads %d times with one job, %d times with 21", few, many)
	}
	if n := counted("ls", "--format", "table"); n > 2 {
		t.Errorf("a table reads %d times", n)
	}
	if n := counted("ls", string(one)); n > 2 { // the job, then what is around it
		t.Errorf("a list of one job reads %d times", n)
	}
}

// running submits a job that runs on in the fake.
func (w *fake) running(flags ...string) kernel.JobID {
	w.t.Helper()
	id := w.submit(flags...)
	w.facts.Runners[w.job(id).Attempt()] = kernel.Seen(kernel.Runner{Liveness: kernel.Alive})
	return id
}

// A job that does not end hides no outcome of the others that were cancelled with it.
func TestACancelOfWhichOneJobDoesNotEnd(t *testing.T) {
	w := newFake(t)
	asking, obeys, gone, damaged, deaf := w.submit("--approval"), w.running(), w.running(), w.running(), w.running()
	w.deaf = deaf
	w.onRead = func() { // outside of a transaction, and so after the cancel
		if w.job(deaf).State.Stop.At.IsZero() {
			return
		}
		w.onRead = nil
		w.jobs = slices.DeleteFunc(w.jobs, func(j kernel.Job) bool { return j.ID == gone || j.ID == damaged })
		w.unreadable[damaged] = "it is no JSON"
	}
	synctest.Test(t, func(t *testing.T) {
		w.t = t
		began := time.Now()
		code, out, said := w.run("cancel", "--format", "json", string(asking), string(obeys), string(gone), string(damaged), string(deaf))
		conforms(t, "jobs_cancel", out)
		var doc cancelledJobs
		if err := json.Unmarshal([]byte(out), &doc); err != nil || code != 124 {
			t.Fatalf("exit %d, %v: %s%s", code, err, out, said)
		}
		var got []string
		for _, one := range doc.Jobs {
			got = append(got, one.Ref+" "+one.Outcome+" as "+one.Status)
		}
		if want := []string{"2 Job cancelled as cancelled", "1 Job cancelled as cancelled"}; !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
		has(t, said, "job 5 was told to stop and still runs after ", `"hint":"vizier wait 5"`, "cancel 4: it was told to stop, and its record cannot be read now: it is no JSON",
			"cancel 3: it was told to stop, and somebody has removed its record since")
		if took := time.Since(began); took > time.Minute {
			t.Errorf("it took %v", took)
		}
	})
}
