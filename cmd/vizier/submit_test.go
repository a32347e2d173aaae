package main

import (
	"context"
	"errors"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vizier-scheduler/vizier/app/enqueue"
	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/view"
)

func TestSubmitReadsEveryFlag(t *testing.T) {
	w := newFake(t)
	first := w.submit()
	w.facts.Heads["main"] = kernel.Seen(kernel.CommitID("c0ffee"))
	oid := strings.Repeat("a", 40)
	out := w.ok("jobs", "submit", "--name", "n", "--after", string(first)[:8], "--need", "plan_branch:x", "--produce", "custom:t:k",
		"--lock", "branch:a:shared", "--lock", "db", "--pool", "gpu", "--missing-producer", "wait", "--pinned", "main@"+oid,
		"--require", "clean_worktree", "--require", "branch_exists=b", "--approval", "--timeout", "90s", "--retries", "2",
		"--idempotent", "--resumable", "--cwd", "sub/dir", "--env", "A=b=c", "--env", "HOME", "--", "sh", "-c", "echo -- hi", "--after")
	j := w.job(w.id(strings.TrimSpace(out)))
	want := kernel.Spec{
		Name: "n", After: []kernel.JobID{first}, MissingProducer: kernel.Wait, Idempotent: true, Resumable: true,
		Needs:         []kernel.Artifact{{Kind: kernel.PlanBranch, Name: "x", Ref: "draft/x"}},
		Produces:      []kernel.Artifact{{Kind: kernel.Custom, Name: "t", Ref: "k"}},
		Locks:         []kernel.Lock{{Key: "branch:a", Mode: kernel.Shared}, {Key: "db"}, {Key: "gpu", Units: 1}},
		Pinned:        kernel.PinnedHead{Branch: "main", Commit: kernel.CommitID(oid)},
		Preconditions: []kernel.Precondition{{Kind: kernel.CleanWorktree}, {Kind: kernel.BranchExists, Branch: "b"}},
		Budget:        kernel.Budget{Retries: 2, Resumes: 3, Reclaims: 2},
		Task: kernel.Task{Args: []string{"sh", "-c", "echo -- hi", "--after"}, Dir: "sub/dir", Env: []string{"A=b=c"},
			PassEnv: []string{"HOME"}, Timeout: 90 * time.Second},
	}
	got := j.Spec
	if !got.Retry.Covers(kernel.ExitFailure, 1) || got.Retry.Covers(kernel.WorkerLost, 1) {
		t.Errorf("retry policy %+v", got.Retry)
	}
	if c := got.Origin.Command; len(c) < 3 || c[0] != "vizier" || c[2] != "submit" {
		t.Errorf("command line on record: %q", c)
	}
	if c := got.Configured; c == nil || c.MaxRunning != 100 || !slices.Equal(c.Pools, []kernel.Capacity{{Pool: "gpu", Units: 1}}) {
		t.Errorf("configured: %+v", c)
	}
	got.Retry, got.Origin, got.Configured = kernel.RetryPolicy{}, kernel.Origin{}, nil
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if a := j.State.Approval; a.State != kernel.Pending || a.RequestedBy != "ann" {
		t.Errorf("approval %+v", a)
	}
	p := w.submit("--pinned", "main")
	if got := w.job(p).Spec.Pinned.Commit; got != "c0ffee" {
		t.Errorf("pinned at %q", got)
	}
}

func TestSubmitSaysWhatBecomesOfADoubt(t *testing.T) {
	w := newFake(t)
	for text, want := range map[string]kernel.Spec{"": {}, "fail": {}, "ask": {InDoubt: kernel.AskInDoubt},
		"rerun": {InDoubt: kernel.RerunInDoubt, Budget: kernel.Budget{Reclaims: 2}}} {
		_, out, _ := w.runIn(`{"command":["true"],"in_doubt":"`+text+`"}`, "jobs", "submit", "--batch")
		ids := []kernel.JobID{w.id(strings.TrimSpace(out))}
		if text != "" {
			ids = append(ids, w.submit("--in-doubt", text))
		}
		for _, id := range ids {
			if got := w.job(id).Spec; got.InDoubt != want.InDoubt || got.Budget != want.Budget {
				t.Errorf("%q: %s, %+v", text, got.InDoubt, got.Budget)
			}
		}
	}
	if _, _, err := w.runIn(`{"command":["true"],"in_doubt":"maybe"}`, "jobs", "submit", "--batch"); !strings.Contains(err, `unknown effect_in_doubt policy "maybe"`) {
		t.Errorf("it says %s", err)
	}
	has(t, w.fails(2, "jobs", "submit", "--idempotent", "--in-doubt", "ask", "--", "true"), "--in-doubt ask has no effect on an idempotent job")
	has(t, w.fails(2, "jobs", "submit", "--in-doubt", "maybe", "--", "true"), "in-doubt")
}

func TestSubmitSaysWhatIsTriedAgainAndHowOften(t *testing.T) {
	w := newFake(t)
	_, out, _ := w.runIn(`{"command":["true"],"retries":2,"retry_on":["rate_limited","75"],"resumable":true,"max_resumes":0,"idempotent":true,"max_reclaims":7}`, "jobs", "submit", "--batch")
	for _, id := range []kernel.JobID{w.id(strings.TrimSpace(out)),
		w.submit("--retries", "2", "--retry-on", "rate_limited", "--retry-on", "75", "--resumable", "--max-resumes", "0", "--idempotent", "--max-reclaims", "7")} {
		got := w.job(id).Spec
		if got.Budget != (kernel.Budget{Retries: 2, Resumes: 0, Reclaims: 7}) {
			t.Errorf("%+v", got.Budget)
		}
		if r := got.Retry; !r.Covers(kernel.RateLimited, 1) || !r.Covers(kernel.ExitFailure, 75) || r.Covers(kernel.ExitFailure, 1) || r.Covers(kernel.Timeout, 124) {
			t.Errorf("%+v", r)
		}
	}
}

func TestSubmitRefusesNonsense(t *testing.T) {
	w := newFake(t)
	for _, c := range []struct {
		code int
		want string
		args []string
	}{
		{2, "expected a command: vizier submit", nil},
		{1, "unknown --after job id: nope", []string{"--after", "nope", "--", "x"}},
		{1, "unknown --after job id: <empty>", []string{"--after", "", "--", "x"}},
		{2, `--need: artifact "blob"`, []string{"--need", "blob", "--", "x"}},
		{2, `--lock ":shared"`, []string{"--lock", ":shared", "--", "x"}},
		{2, `--pool "gpu=none"`, []string{"--pool", "gpu=none", "--", "x"}},
		{2, "pool gpu has 1 of the 2 units asked for", []string{"--pool", "gpu=2", "--", "x"}},
		{2, `--require "sunshine"`, []string{"--require", "sunshine", "--", "x"}},
		{2, `--pinned "main@abc"`, []string{"--pinned", "main@abc", "--", "x"}},
		{2, "--pinned nix: no such branch", []string{"--pinned", "nix", "--", "x"}},
		{2, `--timeout "10"`, []string{"--timeout", "10", "--", "x"}},
		{2, `--retries: expected a number, 0 or more, not "-1"`, []string{"--retries=-1", "--", "x"}},
		{2, "--retry-on has no effect without retries: add --retries N", []string{"--retry-on", "timeout", "--", "x"}},
		{2, "--retry-on: invalid failure class `sunspots`", []string{"--retries", "1", "--retry-on", "sunspots", "--", "x"}},
		{2, "--retry-on: invalid exit code `256`", []string{"--retries", "1", "--retry-on", "256", "--", "x"}},
		{2, "--max-resumes has no effect: add --resumable", []string{"--max-resumes", "1", "--", "x"}},
		{2, "--max-reclaims has no effect: add --idempotent", []string{"--max-reclaims", "1", "--", "x"}},
		{2, `--max-reclaims: expected a number, 0 or more, not "-1"`, []string{"--idempotent", "--max-reclaims=-1", "--", "x"}},
		{2, `--env "=x"`, []string{"--env", "=x", "--", "x"}},
		{2, `--env "a\x1b[1m=x"`, []string{"--env", "a\x1b[1m=x", "--", "x"}},
		{2, `--cwd "../other": outside the repository`, []string{"--cwd", "../other", "--", "x"}},
		{2, `--cwd "/etc"`, []string{"--cwd", "/etc", "--", "x"}},
		{2, "--batch reads the commands", []string{"--batch", "--", "x"}},
	} {
		err := w.fails(c.code, append([]string{"jobs", "submit"}, c.args...)...)
		has(t, err, "vizier: ", c.want)
		if strings.Contains(err, ": invalid\n") {
			t.Errorf("the class is shown: %s", err)
		}
	}
	if len(w.jobs) != 0 {
		t.Errorf("%d jobs were enqueued", len(w.jobs))
	}
}

// A flag that describes a job does not silently count for nothing beside --batch: each is refused, with the key of the
// lines. Those of the answer still work.
func TestABatchTakesNoFlagsOfAJob(t *testing.T) {
	w := newFake(t)
	line := `{"command":["true"]}`
	refused := func(want string, flags ...string) {
		t.Helper()
		code, _, err := w.runIn(line, append([]string{"submit", "--batch"}, flags...)...)
		if code != 2 || !strings.Contains(err, want) {
			t.Errorf("%q: exit %d: %s", flags, code, err)
		}
	}
	typed := reflect.TypeFor[submitFlags]()
	for i := range typed.NumField() {
		f := typed.Field(i)
		key := reflect.TypeFor[enqueue.Request]().Field(i).Tag.Get("json")
		if key == "command" {
			continue
		}
		flag, value := "--"+strings.ReplaceAll(key, "_", "-"), "1"
		if key == "options" {
			flag = "--option"
		}
		if words := strings.Split(f.Tag.Get("enum"), ","); len(words) > 1 {
			value = words[1]
		}
		if f.Type.Kind() == reflect.Bool {
			value = "true"
		}
		refused("leave out "+flag+", and write "+key+" into", flag+"="+value)
	}
	refused("leave out --missing-producer, --transient, and write missing_producer, transient into", "--transient", "none", "--missing-producer", "block")
	if len(w.jobs) > 0 {
		t.Errorf("%d jobs", len(w.jobs))
	}
	if code, out, err := w.runIn(line, "submit", "--batch", "--format", "json", "-q", "--via", "web"); code != 0 || !strings.Contains(out, "jobs_submitted") {
		t.Errorf("exit %d: %s%s", code, out, err)
	}
}

func TestSubmitPrintsOnlyReferences(t *testing.T) {
	w := newFake(t)
	_, out, err := w.run("jobs", "submit", "--", "true")
	if out != "1\n" || err != "" {
		t.Errorf("%q, %q", out, err)
	}
	var doc submission
	decode(t, w.ok("jobs", "submit", "--format", "json", "--approval", "--name", "b", "--", "true"), &doc)
	want := submission{"jobs_submitted", []submittedJob{{Job: id(2), Reference: view.Reference{Number: 2, Ref: "2"}, Name: "b", Status: "waiting_on_approval", Wait: "awaiting human approval"}}}
	if d := cmp.Diff(want, doc); d != "" {
		t.Error(d)
	}
}

func TestBatch(t *testing.T) {
	w := newFake(t)
	first := w.submit()
	code, out, err := w.runIn(`
{"ref": "link", "after": ["compile", "`+string(first)+`"], "command": ["ld"], "lock": ["out"]}

{"ref": "compile", "command": ["cc", "-c"], "timeout": "1m", "approval": true}
`, "jobs", "submit", "--batch")
	if code != 0 {
		t.Fatalf("exit %d: %s", code, err)
	}
	if out != "2/link\n2/compile\n" {
		t.Errorf("ids:\n%s", out)
	}
	link := w.job(id(2))
	if d := cmp.Diff([]kernel.JobID{first, id(3)}, link.Spec.After); d != "" {
		t.Error(d)
	}
	if c := w.job(id(3)); c.Spec.Task.Timeout != time.Minute || c.State.Approval.State != kernel.Pending {
		t.Errorf("%+v", c)
	}
}

func TestBatchIsAllOrNothing(t *testing.T) {
	for name, c := range map[string]struct {
		in   string
		want []string
		code int
	}{
		"not JSON":     {"{\"command\":[\"a\"]}\nmake all\n", []string{"line 2: "}, 2},
		"unknown key":  {`{"comand": ["a"]}`, []string{"line 1: unknown key comand (did you mean command?)"}, 2},
		"wrong type":   {`{"command": "a"}`, []string{"line 1: command: expected an array of strings, found string"}, 2},
		"two objects":  {`{"command":["a"]} {"command":["b"]}`, []string{"line 1: expected one JSON object a line"}, 2},
		"ref twice":    {"{\"ref\":\"a\",\"command\":[\"a\"]}\n{\"ref\":\"a\",\"command\":[\"b\"]}", []string{`line 2: ref "a" is that of line 1 already`}, 2},
		"unknown ref":  {"{\"command\":[\"a\"]}\n{\"after\":[\"nix\"],\"command\":[\"b\"]}", []string{"line 2: unknown --after job id: nix"}, 1},
		"cycle":        {"{\"ref\":\"a\",\"name\":\"A\",\"after\":[\"b\"],\"command\":[\"a\"]}\n{\"ref\":\"b\",\"after\":[\"a\"],\"command\":[\"b\"]}", []string{"invalid --after cycle: ", " (A) -> "}, 2},
		"all mistakes": {"{\"timeout\":\"x\"}\n{\"command\":[\"a\"]}\n{\"lock\":[\"\"],\"command\":[\"c\"]}", []string{"line 1: expected a command", "line 1: --timeout", "line 3: --lock"}, 2},
		"nothing":      {"\n", []string{"standard input has no jobs"}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFake(t)
			code, out, err := w.runIn(c.in, "jobs", "submit", "--batch")
			if code != c.code || out != "" || len(w.jobs) != 0 {
				t.Errorf("exit %d, output %q, %d jobs", code, out, len(w.jobs))
			}
			has(t, err, c.want...)
		})
	}
}

func TestBatchBoundsItsComplaints(t *testing.T) {
	_, _, err := newFake(t).runIn(strings.Repeat("x\n", 50), "jobs", "submit", "--batch")
	if n := strings.Count(err, "\n"); n != 20+1 {
		t.Errorf("%d lines:\n%s", n, err)
	}
	has(t, err, "and 30 more")
}

// A batch that is interrupted while it is read is not queued, also where nothing more comes.
func TestAnInterruptedBatch(t *testing.T) {
	r, w := io.Pipe()
	defer w.Close()
	ctx, stop := context.WithCancel(t.Context())
	in := &counted{ctx: ctx, from: r}
	go func() {
		_, _ = io.WriteString(w, "{}\n")
		stop()
	}()
	got, err := io.ReadAll(in)
	if !errors.Is(err, context.Canceled) || len(got) > 3 {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := io.ReadAll(&counted{ctx: t.Context(), from: strings.NewReader("all")}); string(got) != "all" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}
