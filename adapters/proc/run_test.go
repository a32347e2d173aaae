package proc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/internal/disktest"
	"github.com/vizier-scheduler/vizier/kernel"
)

func TestRunClassifiesTheEnd(t *testing.T) {
	for name, test := range map[string]struct {
		args   []string
		exit   int
		class  kernel.FailureClass
		reason string
	}{
		"success":           {[]string{"true"}, 0, kernel.NoFailure, ""},
		"exit code":         {[]string{"sh", "-c", "exit 75"}, 75, kernel.ExitFailure, "exit code 75"},
		"killed":            {[]string{"sh", "-c", "kill -KILL $$"}, 137, kernel.Signal, "ended by signal SIGKILL"},
		"segmentation":      {[]string{"sh", "-c", "kill -SEGV $$"}, 139, kernel.Signal, "ended by signal SIGSEGV"},
		"not in the path":   {[]string{"no-such-command"}, 127, kernel.LaunchFailure, "command not found: no-such-command"},
		"no such file":      {[]string{"./no/such"}, 127, kernel.LaunchFailure, "command not found: ./no/such"},
		"below a file":      {[]string{"./text/such"}, 127, kernel.LaunchFailure, "command not found: ./text/such"},
		"not executable":    {[]string{"./text"}, 126, kernel.LaunchFailure, "cannot execute: ./text"},
		"a directory":       {[]string{"./jobs"}, 126, kernel.LaunchFailure, "cannot execute: ./jobs"},
		"no interpreter":    {[]string{"./orphan"}, 126, kernel.LaunchFailure, "cannot execute: ./orphan: its interpreter was not found"},
		"no program at all": {[]string{"./bare"}, 126, kernel.LaunchFailure, "cannot execute: ./bare: exec format error"},
		"NUL":               {[]string{"true", "a\x00b"}, 126, kernel.LaunchFailure, "cannot execute: true: a NUL byte in an argument or a variable"},
		"too long":          {[]string{"true", strings.Repeat("x", 1<<20)}, 126, kernel.LaunchFailure, "cannot execute: true: argument list too long"},
		"nothing":           {nil, 126, kernel.LaunchFailure, "the job has no command"},
	} {
		t.Run(name, func(t *testing.T) {
			w := setup(t, test.args...)
			w.file("text", "", 0o600)
			w.file("orphan", "#!/no/such/interpreter\n", 0o700)
			w.file("bare", "\x00\x01\x02", 0o700)
			outcome := kernel.OutcomeFailed
			if test.exit == 0 {
				outcome = kernel.OutcomeSucceeded
			}
			w.Now = func() time.Time { return time.Unix(1, 2345).In(time.FixedZone("", 3600)) }
			r := w.Run(bg, &w.job)
			wantResult(t, r, outcome, test.exit, test.class, test.reason)
			if r.Attempt != w.job.Attempt() || r.Ended != time.Unix(1, 2000).UTC() {
				t.Fatalf("attempt %v ended %v", r.Attempt, r.Ended)
			}
		})
	}
}

// An attempt on another executor waited there before it was claimed, which is no part of it.
func TestAnAttemptBeginsWhereItRuns(t *testing.T) {
	handedOver, here := time.Unix(1000, 0).UTC(), time.Unix(5000, 123000).UTC()
	for executor, want := range map[string]time.Time{"": handedOver, "far": here} {
		w := setup(t, "true")
		w.job.Spec.Task.Executor, w.job.State.Started = executor, handedOver
		w.Now = func() time.Time { return here }
		if err := w.Claim(w.job.Attempt()); err != nil {
			t.Fatal(err)
		}
		w.Now = nil
		if claim, err := w.Claimed(w.job.Attempt()); err != nil || claim.Began != here || claim.Host == "" {
			t.Errorf("claimed: %+v, %v", claim, err)
		}
		if r := w.Run(bg, &w.job); !r.Started.Equal(want) || r.Outcome != kernel.OutcomeSucceeded {
			t.Errorf("on executor %q it began at %v (%v), want %v", executor, r.Started, r.Outcome, want)
		}
	}
}

func TestRunOfABuiltinIsThisProgram(t *testing.T) {
	w := setup(t, "\xff\xfe", "", "ü b")
	w.job.Spec.Task.Builtin = true
	w.ExeArgs = []string{"args"}
	wantResult(t, w.Run(bg, &w.job), kernel.OutcomeSucceeded, 0, kernel.NoFailure, "")
	if want := `["\xff\xfe" "" "ü b"]` + "\n"; w.log("stdout") != want {
		t.Fatalf("arguments %s, want %s", w.log("stdout"), want)
	}
}

func TestRunTellsTheCommandWhereItIs(t *testing.T) {
	w := setup(t, "sh", "-c", `unset VIZIER_LONG; env | grep -E '^(VIZIER_|GIVEN|TWICE|PWD)' | sort; pwd; test -z "$(cat)"`)
	w.job.State.Attempt, w.job.State.Generation = 7, 3
	w.job.Spec.Origin = kernel.Origin{Run: "run_1", Node: "build"}
	w.job.Number, w.job.Part = 14, "build"
	w.job.Spec.Task.Env = []string{"GIVEN=a=b", "TWICE=1", "TWICE=2", "VIZIER_JOB_ID=forged", "VIZIER_RUNNER=forged"}
	w.job.Spec.Task.Dir = "src"
	w.job.State.Context.Root = "tree"
	dir := w.root + "/tree/src"
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("VIZIER_NODE", "outer")
	t.Setenv("TWICE", "0")
	wantResult(t, w.Run(bg, &w.job), kernel.OutcomeSucceeded, 0, kernel.NoFailure, "")
	a := w.job.Attempt()
	want := fmt.Sprintf("GIVEN=a=b\nPWD=%s\nTWICE=2\nVIZIER_ATTEMPT=7\nVIZIER_ATTEMPT_ID=%s\nVIZIER_EFFECT_KEY=%s.3\nVIZIER_JOB_ID=%s\nVIZIER_NODE=build\nVIZIER_NUMBER=14\nVIZIER_REF=14/build\nVIZIER_REPORT=%s\nVIZIER_RESULT_FILE=%s\nVIZIER_ROOT=%s\nVIZIER_RUN_ID=run_1\nVIZIER_SUBMISSIONS=%s\n%s\n",
		dir, label(a), a.Job, a.Job, w.Files.ReportFile(a), w.Files.ResultFile(a), w.root, w.Files.SubmissionsFile(a), dir)
	if w.log("stdout") != want {
		t.Fatalf("the command saw\n%s\nwant\n%s", w.log("stdout"), want)
	}
}

// A command with a time limit knows when it is over.
func TestRunTellsTheDeadline(t *testing.T) {
	w := setup(t, "sh", "-c", `echo $VIZIER_DEADLINE`)
	w.job.Spec.Task.Timeout = time.Hour
	before := time.Now()
	wantResult(t, w.Run(bg, &w.job), kernel.OutcomeSucceeded, 0, kernel.NoFailure, "")
	end, err := time.Parse(time.RFC3339, strings.TrimSpace(w.log("stdout")))
	if err != nil || end.Before(before.Add(time.Hour-time.Second)) || end.After(time.Now().Add(time.Hour)) {
		t.Errorf("%s: %v, %v", w.log("stdout"), end, err)
	}
}

// A job does not inherit the variables of a git hook, which are about another
// repository, or the parameters of another run.
func TestJobsKnowNothingOfTheirSubmittersRepository(t *testing.T) {
	listed, err := exec.Command("git", "rev-parse", "--local-env-vars").Output()
	if err != nil {
		t.Fatal(err)
	}
	foreign := append(strings.Fields(string(listed)), "GIT_NAMESPACE", "GIT_QUARANTINE_PATH", "GIT_REFLOG_ACTION", "VIZIER_PARAM_TAG")
	for _, name := range foreign {
		t.Setenv(name, "/elsewhere")
	}
	t.Setenv("GIT_AUTHOR_NAME", "Ann")
	t.Setenv("GIT_COMMITTER_NAME", "Ann")
	w := setup(t, "env")
	w.job.Spec.Task.Env = []string{"GIT_WORK_TREE=/asked", "GIT_DIR=/asked"}
	wantResult(t, w.Run(bg, &w.job), kernel.OutcomeSucceeded, 0, kernel.NoFailure, "")
	seen := map[string]string{}
	for name, env := range map[string]string{"the job": w.log("stdout"), "its runner": strings.Join(runnerEnv(w.job.Attempt()), "\n")} {
		for line := range strings.Lines(env) {
			v, value, _ := strings.Cut(strings.TrimSpace(line), "=")
			seen[name+" "+v] = value
		}
		for _, v := range foreign {
			if value, there := seen[name+" "+v]; there && value != "/asked" {
				t.Errorf("%s has %s=%s", name, v, value)
			}
		}
		if seen[name+" GIT_AUTHOR_NAME"] != "Ann" {
			t.Errorf("%s does not know who it works for", name)
		}
	}
	if seen["the job GIT_DIR"] != "/asked" || seen["the job GIT_WORK_TREE"] != "/asked" {
		t.Error("what was asked for is not there")
	}
}

// A worktree that is gone is told of, so that a retry begins where it is made.
func TestRunInAWorktreeThatIsGone(t *testing.T) {
	w := setup(t, "true")
	w.job.State.Context = kernel.Context{Root: "gone", Worktree: "gone"}
	if r := w.Run(bg, &w.job); r.Class != kernel.LaunchFailure || r.Context == nil || *r.Context != (kernel.Context{}) {
		t.Errorf("%+v", r)
	}
	w.job.State.Context, w.job.Spec.Task.Dir = kernel.Context{}, "nowhere"
	if r := w.Run(bg, &w.job); r.Class != kernel.LaunchFailure || r.Context != nil {
		t.Errorf("a directory that was named wrongly: %+v", r)
	}
}

// So is one whose place is another run's by now: nothing of this run is executed
// in it, but for the cleanup, which ends its work from the repository's root.
func TestRunInAWorktreeThatIsAnothers(t *testing.T) {
	w := setup(t, "true")
	tree := ".vizier/tmp-worktrees/branch-x"
	for link, gone := range map[string]bool{
		"gitdir: /r/.git/worktrees/draft-2\n":  true,
		"gitdir: /r/.git/worktrees/draft-1\n":  false,
		"gitdir: ../../.git/worktrees/draft-1": false,
		"gitdir: /r/.git/modules/sub\n":        false,
		"":                                     false,
	} {
		if err := errors.Join(os.MkdirAll(filepath.Join(w.root, tree), 0o755), os.WriteFile(filepath.Join(w.root, tree, ".git"), []byte(link), 0o600)); err != nil {
			t.Fatal(err)
		}
		for _, sub := range []string{"", "."} {
			w.job.State.Context, w.job.Spec.Task.Dir = kernel.Context{Root: tree, Worktree: tree, Name: "draft-1"}, sub
			r := w.Run(bg, &w.job)
			if told := r.Class == kernel.LaunchFailure && r.Context != nil && *r.Context == (kernel.Context{}); told != gone {
				t.Errorf("%q: %+v", link, r)
			}
		}
	}
	if err := os.WriteFile(filepath.Join(w.root, tree, ".git"), []byte("gitdir: /r/.git/worktrees/draft-2"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.job.Spec.Task.Builtin, w.job.Spec.Origin.About.Operation = true, "worktree.cleanup"
	if dir, err := w.dir(&w.job); err != nil || dir != w.root {
		t.Errorf("the cleanup is in %q, %v", dir, err)
	}
}

// Nothing is executed in a worktree from which git would work on another repository.
func TestRunInAWorktreeOfACopy(t *testing.T) {
	w := setup(t, "true")
	tree := ".vizier/tmp-worktrees/branch-x"
	if err := errors.Join(os.MkdirAll(filepath.Join(w.root, tree), 0o755), os.MkdirAll(filepath.Join(w.root, ".git/worktrees/draft-1"), 0o755)); err != nil {
		t.Fatal(err)
	}
	original := t.TempDir()
	if err := os.MkdirAll(filepath.Join(original, ".git/worktrees/draft-1"), 0o755); err != nil {
		t.Fatal(err)
	}
	w.job.State.Context = kernel.Context{Root: tree, Worktree: tree, Name: "draft-1"}
	for link, astray := range map[string]bool{
		"gitdir: /original/.git/worktrees/draft-1\n":                  true,
		"gitdir: " + w.root + "/.git/worktrees/draft-1\n":             false,
		"gitdir: ../../../.git/worktrees/draft-1\n":                   false,
		"gitdir: " + filepath.Dir(w.root) + "/.git/worktrees/draft-1": true,
		"gitdir: " + original + "/.git/worktrees/draft-1":             true,
	} {
		if err := os.WriteFile(filepath.Join(w.root, tree, ".git"), []byte(link), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := w.dir(&w.job)
		if says := "git would work on "; (err != nil) != astray || astray && (!strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), "`vizier doctor --fix`, then `vizier retry "+string(w.job.ID)+"`")) {
			t.Errorf("%q: %v", link, err)
		}
	}
	if err := errors.Join(os.Remove(filepath.Join(w.root, ".git/worktrees/draft-1")), os.WriteFile(filepath.Join(w.root, tree, ".git"), []byte("gitdir: /original/.git/worktrees/draft-1\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, err := w.dir(&w.job); err == nil || err.Error() != "git does not know the worktree "+tree+" any more: `vizier retry "+string(w.job.ID)+"` parks what is in it, and has it made anew" {
		t.Error(err)
	}
}

// A job may put a pipe in the place of the file that leads to its repository: the jobs after it do not wait for that.
func TestRunInAWorktreeWithAPipe(t *testing.T) {
	w := setup(t, "true")
	tree := ".vizier/tmp-worktrees/draft-1"
	if err := errors.Join(os.MkdirAll(filepath.Join(w.root, tree), 0o755), syscall.Mkfifo(filepath.Join(w.root, tree, ".git"), 0o600)); err != nil {
		t.Fatal(err)
	}
	w.job.State.Context = kernel.Context{Root: tree, Worktree: tree, Name: "draft-1"}
	done := make(chan error, 1)
	go func() { _, err := w.dir(&w.job); done <- err }()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("it is waited for")
	}
}

func TestRunWantsTheVariablesPassedOn(t *testing.T) {
	w := setup(t, "sh", "-c", `echo "$PASSED_ON"`)
	w.job.Spec.Task.PassEnv = []string{"PATH", "PASSED_ON"}
	if r := w.Run(bg, &w.job); r.Class != kernel.LaunchFailure || !strings.HasPrefix(r.Reason, "PASSED_ON is not set where the job was started") {
		t.Errorf("without the variable: %+v", r)
	}
	t.Setenv("PASSED_ON", "a value")
	wantResult(t, w.Run(bg, &w.job), kernel.OutcomeSucceeded, 0, kernel.NoFailure, "")
	if got := w.log("stdout"); got != "a value\n" {
		t.Errorf("the command saw %q", got)
	}
}

func TestRunStaysInTheRepository(t *testing.T) {
	w := setup(t, "true")
	w.file("file", "", 0o600)
	outside := t.TempDir()
	for link, to := range map[string]string{"out": outside, "up": "..", "in": "jobs"} {
		if err := os.Symlink(to, filepath.Join(w.root, link)); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct{ root, dir, reason string }{
		{"", "in", ""},
		{".", "", ""},
		{"jobs", "../in", ""},
		{"", "..", "is outside the repository"},
		{"jobs", "../..", "is outside the repository"},
		{"", "out", "is outside the repository"},
		{"up", "", "is outside the repository"},
		{"", outside, "is outside the repository"},
		{outside, "", "is outside the repository"},
		{"", "gone", "does not exist"},
		{"", "file", "is not a directory"},
	} {
		w.job.State.Context.Root, w.job.Spec.Task.Dir = test.root, test.dir
		r := w.Run(bg, &w.job)
		if test.reason == "" {
			wantResult(t, r, kernel.OutcomeSucceeded, 0, kernel.NoFailure, "")
		} else if r.Class != kernel.LaunchFailure || !strings.HasSuffix(r.Reason, test.reason) {
			t.Errorf("root %q, dir %q: %+v, want %q", test.root, test.dir, r, test.reason)
		}
	}
}

// A cleanup that was killed once it had moved its worktree away ends its work
// from the repository's root. Nothing else starts where there is nothing, and
// nothing at all outside of the repository.
func TestACleanupGoesOnWithoutItsWorktree(t *testing.T) {
	w := setup(t, "gone on")
	w.ExeArgs = []string{"args"}
	outside := t.TempDir()
	for link, to := range map[string]string{"out": outside, "dangling": filepath.Join(outside, "gone")} {
		if err := os.Symlink(to, filepath.Join(w.root, link)); err != nil {
			t.Fatal(err)
		}
	}
	tree := ".vizier/tmp-worktrees/gone"
	for _, c := range []struct {
		operation, root string
		builtin         bool
		reason          string
	}{
		{"worktree.cleanup", tree, true, ""},
		{"worktree.cleanup", tree, false, "does not exist"},
		{"git.commit", tree, true, "does not exist"},
		{"", tree, true, "does not exist"},
		{"worktree.cleanup", "out", true, "is outside the repository"},
		{"worktree.cleanup", "../elsewhere/gone", true, "is outside the repository"},
	} {
		w.job.Spec.Origin.About.Operation, w.job.State.Context.Root, w.job.Spec.Task.Builtin = c.operation, c.root, c.builtin
		dir, err := w.dir(&w.job)
		if c.reason == "" && (err != nil || dir != w.root) || c.reason != "" && (err == nil || !strings.HasSuffix(err.Error(), c.reason)) {
			t.Errorf("%+v: %q, %v", c, dir, err)
		}
	}
	w.job.Spec.Origin.About.Operation, w.job.State.Context.Root, w.job.Spec.Task.Builtin = "worktree.cleanup", tree, true
	wantResult(t, w.Run(bg, &w.job), kernel.OutcomeSucceeded, 0, kernel.NoFailure, "")
	if got := w.log("stdout"); got != "[\"gone on\"]\n" {
		t.Errorf("it said %q", got)
	}
}

func TestRunFindsCommandsAsAShellWould(t *testing.T) {
	w := setup(t, "tool")
	for _, dir := range []string{"a", "b", "sub"} {
		if err := os.Mkdir(filepath.Join(w.root, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	w.file("a/tool", "", 0o600)
	w.job.Spec.Task.Env = []string{"PATH=" + w.root + "/a"}
	wantResult(t, w.Run(bg, &w.job), kernel.OutcomeFailed, 126, kernel.LaunchFailure, "cannot execute: tool")
	w.file("b/tool", "#!/bin/sh\necho found\n", 0o700)
	w.job.Spec.Task.Env = []string{"PATH=" + w.root + "/a:../b:/usr/bin:/bin"}
	w.job.Spec.Task.Dir = "sub"
	wantResult(t, w.Run(bg, &w.job), kernel.OutcomeSucceeded, 0, kernel.NoFailure, "")
	if w.log("stdout") != "found\n" {
		t.Fatal(w.log("stdout"))
	}
}

func TestRunWithoutItsLogs(t *testing.T) {
	w := setup(t, "true")
	if err := os.Mkdir(w.Files.LogFile(w.job.ID, "stderr"), 0o700); err != nil {
		t.Fatal(err)
	}
	if r := w.Run(bg, &w.job); r.Class != kernel.LaunchFailure || !strings.Contains(r.Reason, "stderr.log") {
		t.Fatalf("%+v", r)
	}
}

func TestRunKeepsAFloodOfOutput(t *testing.T) {
	const size = 32 << 20
	w := setup(t, as("flood", fmt.Sprint(size))...)
	wantResult(t, w.Run(bg, &w.job), kernel.OutcomeSucceeded, 0, kernel.NoFailure, "")
	for _, stream := range []string{"stdout", "stderr"} {
		if st, err := os.Stat(w.Files.LogFile(w.job.ID, stream)); err != nil || st.Size() != size || st.Mode().Perm() != 0o600 {
			t.Fatalf("%s: %v, error %v", stream, st, err)
		}
	}
}

func TestRunEndsACommandThatTakesTooLong(t *testing.T) {
	for _, role := range []string{"sleeper", "stubborn", "polite"} {
		w := setup(t, as(role)...)
		w.job.Spec.Task.Timeout, w.job.Spec.Task.Grace = 500*time.Millisecond, 100*time.Millisecond
		r := w.Run(bg, &w.job)
		wantResult(t, r, kernel.OutcomeFailed, 124, kernel.Timeout, "timed out after 500ms")
	}
}

func TestRunIsStopped(t *testing.T) {
	for _, role := range []string{"polite", "stubborn", "sleeper"} {
		w := setup(t, as(role)...)
		if role != "polite" { // which needs none
			w.Grace = 100 * time.Millisecond
		}
		ctx, cancel := context.WithCancelCause(bg)
		var command process
		go func() {
			command = mustPID(t, w.said(role+" "))
			if role == "polite" {
				command.signal(syscall.SIGSTOP)
			}
			cancel(errors.New("cancelled by ada"))
		}()
		wantResult(t, w.Run(ctx, &w.job), kernel.OutcomeFailed, 143, kernel.Signal, "cancelled by ada")
		if _, there := readProcess(command.pid); there {
			t.Fatalf("%s is still there", role)
		}
		said := fmt.Sprintf("%s %d\n", role, command.pid)
		if role == "polite" {
			said += "goodbye\n"
		}
		if r := w.Run(ctx, &w.job); r.Exit != 143 || w.log("stdout") != said {
			t.Fatalf("started although it was to stop: %+v", r)
		}
	}
}

func (w *world) file(name, content string, mode os.FileMode) {
	w.t.Helper()
	if err := os.WriteFile(filepath.Join(w.root, name), []byte(content), mode); err != nil {
		w.t.Fatal(err)
	}
}

// What an attempt used is measured: the command, what it waited for, and what it left
// behind where the system gives such to the runner.
func TestRunMeasuresWhatWasUsed(t *testing.T) {
	const much = 100 << 20
	hold := fmt.Sprintf(`x=$(head -c %d /dev/zero | tr '\0' x); exit 3`, much)
	burn := `i=0; while [ $i -lt 150000 ]; do i=$((i+1)); done`
	for name, c := range map[string]struct {
		script string
		cpu    time.Duration
		memory int64
	}{
		"nothing":            {"exit 3", 0, 0},
		"memory":             {hold, 0, much},
		"memory of a child":  {"sh -c '" + strings.ReplaceAll(hold, "'", `'\''`) + "'; exit 3", 0, much},
		"a processor":        {burn + "; exit 3", 50 * time.Millisecond, 0},
		"one that is killed": {burn + "; kill -KILL $$", 50 * time.Millisecond, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := setup(t, "sh", "-c", c.script)
			got := w.outcome(w.launch()).Place.Used // of a runner of its own: a command counts what it was forked from
			if got.CPU < c.cpu || got.Memory < c.memory || got.Memory == 0 || c.memory == 0 && got.Memory > much {
				t.Errorf("used %v, %d bytes; want %v, %d bytes at least", got.CPU, got.Memory, c.cpu, c.memory)
			}
		})
	}
	t.Run("left behind", func(t *testing.T) {
		if !adoptsOrphans {
			t.Skip("orphans go to the system's first process here")
		}
		w := setup(t, "sh", "-c", fmt.Sprintf(`( x=$(head -c %d /dev/zero | tr '\0' x); echo >left; while :; do sleep 0.01; done ) & until [ -e left ]; do sleep 0.01; done`, much))
		if got := w.Run(bg, &w.job).Place.Used; got.Memory < much {
			t.Errorf("used %+v", got)
		}
	})
	t.Run("not started", func(t *testing.T) {
		w := setup(t, "no-such-command")
		if got := w.Run(bg, &w.job).Place.Used; got != (kernel.Used{}) {
			t.Errorf("used %+v", got)
		}
	})
}

// A command that fails where the repository was is told that it was moved.
func TestTheRepositoryIsMovedUnderACommand(t *testing.T) {
	w := setup(t, "sh", "-c", `mv "$0" "$0.new"; exit 3`)
	w.job.Spec.Task.Args = append(w.job.Spec.Task.Args, w.root)
	r := w.Run(bg, &w.job)
	if err := os.Rename(w.root+".new", w.root); err != nil {
		t.Fatal(err)
	}
	wantResult(t, r, kernel.OutcomeFailed, 3, kernel.ExitFailure, "exit code 3; the repository was moved meanwhile, and "+w.root+" is no more: run `vizier doctor --fix` at its new place, and retry")
}

// Where something else is in the place of a job's worktree, the reason says what to do, and a retry
// begins where the worktree is made.
func TestSomethingInThePlaceOfTheWorktree(t *testing.T) {
	if !disktest.AsUser(t) {
		return
	}
	for name, c := range map[string]struct {
		do   func(dir string) error
		says string
		anew bool
	}{
		"a file":          {func(dir string) error { return os.WriteFile(dir, nil, 0o600) }, "move DIR away, then retry", true},
		"a link":          {func(dir string) error { return os.Symlink(t.TempDir(), dir) }, "move DIR away, then retry", true},
		"of another mode": {func(dir string) error { return os.Mkdir(dir, 0) }, "`chmod u+rwx DIR`, then retry", false},
	} {
		t.Run(name, func(t *testing.T) {
			w := setup(t, "true")
			dir := filepath.Join(w.root, "trees", "a")
			must(t, errors.Join(os.Mkdir(filepath.Dir(dir), 0o700), c.do(dir)))
			w.job.State.Context = kernel.Context{Root: "trees/a", Worktree: "trees/a", Name: "a-1"}
			r := w.Run(bg, &w.job)
			if r.Outcome != kernel.OutcomeFailed || !strings.Contains(r.Reason, strings.ReplaceAll(c.says, "DIR", dir)) {
				t.Errorf("%+v", r)
			}
			if anew := r.Context != nil && *r.Context == (kernel.Context{}); anew != c.anew {
				t.Errorf("context %+v", r.Context)
			}
			_ = os.Chmod(dir, 0o700)
		})
	}
}
