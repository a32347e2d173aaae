package proc

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
)

func artifact(t testing.TB, s string) kernel.Artifact {
	t.Helper()
	a, err := kernel.ParseArtifact(s)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestResultFileCorrectsTheExit(t *testing.T) {
	const ok, failed, blocked = kernel.OutcomeSucceeded, kernel.OutcomeFailed, kernel.OutcomeBlocked
	for _, test := range []struct {
		exit     int
		file     string
		outcome  kernel.Outcome
		code     int
		class    kernel.FailureClass
		reason   string
		produced string
	}{
		{0, ``, ok, 0, kernel.NoFailure, "", "custom:a:1 custom:b:2"},
		{4, ``, failed, 4, kernel.ExitFailure, "exit code 4", ""},
		{0, `{}`, ok, 0, kernel.NoFailure, "", "custom:a:1 custom:b:2"},
		{0, `{"produced":["custom:b:2"]}`, ok, 0, kernel.NoFailure, "", "custom:b:2"},
		{0, `{"produced":[]}`, ok, 0, kernel.NoFailure, "", ""},
		{0, `{"produced":["plan_branch:x"]}`, ok, 0, kernel.NoFailure, "", ""}, // seen, not declared
		{3, `{"outcome":"succeeded","reason":"3 is fine"}`, ok, 3, kernel.NoFailure, "3 is fine", "custom:a:1 custom:b:2"},
		{3, `{"outcome":"succeeded","exit":0}`, ok, 0, kernel.NoFailure, "", "custom:a:1 custom:b:2"},
		{10, `{"outcome":"blocked","reason":"conflict","produced":["custom:a:1"]}`, blocked, 10, kernel.NoFailure, "conflict", "custom:a:1"},
		{0, `{"outcome":"blocked"}`, blocked, 10, kernel.NoFailure, "", ""},
		{0, `{"outcome":"cancelled"}`, kernel.OutcomeCancelled, 143, kernel.NoFailure, "", ""},
		{0, `{} }`, failed, 1, kernel.DataError, "more than one value", ""},
		{0, `{"outcome":"failed"}`, failed, 1, kernel.ExitFailure, "", ""},
		{0, `{"exit":9}`, failed, 9, kernel.ExitFailure, "", ""},
		{0, `{"exit":1}`, failed, 1, kernel.ExitFailure, "", ""},
		{0, `{"exit":255}`, failed, 255, kernel.ExitFailure, "", ""},
		{1, `{"class":"missing_input","reason":"no prompt"}`, failed, 1, kernel.MissingInput, "no prompt", ""},
		{2, `{"attempt":"SELF","class":"timeout"}`, failed, 2, kernel.Timeout, "exit code 2", ""},
		{5, `{"attempt":"other/1","outcome":"succeeded"}`, failed, 5, kernel.ExitFailure, "exit code 5", ""},
		{0, `{"outcome":"succeeded","class":"exit"}`, failed, 1, kernel.DataError, `class "exit" of an attempt that succeeded`, ""},
		{0, `{"outcome":"fine"}`, failed, 1, kernel.DataError, `unknown outcome "fine"; `, ""},
		{0, `{"class":"bad"}`, failed, 1, kernel.DataError, `unknown failure class "bad"`, ""},
		{0, `{"exit":256}`, failed, 1, kernel.DataError, "expected 0 to 255", ""},
		{0, `{"produced":["custom:c:3"]}`, failed, 1, kernel.DataError, "does not declare it", ""},
		{0, `{"produced":["custom"]}`, failed, 1, kernel.DataError, "expected KIND:NAME", ""},
		{0, `{"context":{}}`, failed, 1, kernel.DataError, "only a workflow node has one", ""},
		{0, `{"agent":{}}`, failed, 1, kernel.DataError, "only a workflow node asks one", ""},
		{0, `{"outcme":"succeeded"}`, failed, 1, kernel.DataError, "unknown field", ""},
		{0, `{"Outcome":"succeeded"}`, failed, 1, kernel.DataError, `unknown field "Outcome"`, ""},
		{0, `{"claſs":"exit"}`, failed, 1, kernel.DataError, "unknown field", ""},
		{7, `{"outcome":`, failed, 7, kernel.DataError, "unexpected EOF", ""},
		{0, `{} {}`, failed, 1, kernel.DataError, "more than one value", ""},
		{0, strings.Repeat(" ", resultLimit+1), failed, 1, kernel.DataError, "longer than", ""},
	} {
		w := setup(t, "sh", "-c", fmt.Sprintf(`test ! -e in || cat in > "$VIZIER_RESULT_FILE"; exit %d`, test.exit))
		w.job.Spec.Produces = []kernel.Artifact{artifact(t, "custom:a:1"), artifact(t, "plan_branch:x"), artifact(t, "custom:b:2")}
		if test.file != "" {
			w.file("in", strings.Replace(test.file, "SELF", label(w.job.Attempt()), 1), 0o600)
		}
		r := w.Run(bg, &w.job)
		reason := r.Reason == test.reason || test.class == kernel.DataError && strings.Contains(r.Reason, test.reason)
		var want []kernel.Artifact
		for _, s := range strings.Fields(test.produced) {
			want = append(want, artifact(t, s))
		}
		if test.class == kernel.DataError {
			reason = reason && strings.HasPrefix(r.Reason, "result file ($VIZIER_RESULT_FILE): ") && strings.HasSuffix(r.Reason, `; expected JSON such as {"outcome":"failed","class":"exit","reason":"no disk"}`)
		}
		if r.Outcome != test.outcome || r.Exit != test.code || r.Class != test.class || !reason || !slices.Equal(r.Produced, want) {
			t.Errorf("exit %d and %.80s: %+v", test.exit, test.file, r)
		}
	}
}

// How a command ended by itself is said by its exit code, or by the signal that ended it.
func TestHowACommandEnded(t *testing.T) {
	for status, want := range map[syscall.WaitStatus]kernel.Result{
		0:       {Outcome: kernel.OutcomeSucceeded},
		1 << 8:  {Outcome: kernel.OutcomeFailed, Exit: 1, Class: kernel.ExitFailure, Reason: "exit code 1"},
		15:      {Outcome: kernel.OutcomeFailed, Exit: 143, Class: kernel.Signal, Reason: "ended by signal SIGTERM"},
		9:       {Outcome: kernel.OutcomeFailed, Exit: 137, Class: kernel.Signal, Reason: "ended by signal SIGKILL"},
		50:      {Outcome: kernel.OutcomeFailed, Exit: 178, Class: kernel.Signal, Reason: "ended by signal 50"},
		2 | 128: {Outcome: kernel.OutcomeFailed, Exit: 130, Class: kernel.Signal, Reason: "ended by signal SIGINT"}, // and left a core
	} {
		if got := classify(status, math.MaxUint64); !reflect.DeepEqual(got, want) {
			t.Errorf("%d: %+v, want %+v", status, got, want)
		}
	}
}

// A workflow node may leave a context, and tell of the agent that it asked.
func TestResultFileOfANode(t *testing.T) {
	w := setup(t, "sh", "-c", `printf '{"context":{"execution_root":"w"},"agent":{}}' > "$VIZIER_RESULT_FILE"`)
	w.job.Spec.Task.Builtin = true
	exe := filepath.Join(t.TempDir(), "vizier")
	if err := os.WriteFile(exe, []byte("#!/bin/sh\nexec \"$@\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	w.Exe = exe
	if r := w.Run(bg, &w.job); r.Outcome != kernel.OutcomeSucceeded || r.Context == nil || r.Context.Root != "w" || r.Agent == nil {
		t.Errorf("%+v", r)
	}
}

func TestResultFileThatIsNone(t *testing.T) {
	w := setup(t, "sh", "-c", `echo '{"outcome":"blocked"}' > real; ln -s "$PWD/real" "$VIZIER_RESULT_FILE"`)
	if r := w.Run(bg, &w.job); r.Class != kernel.DataError {
		t.Fatalf("a link: %+v", r)
	}
	w = setup(t, "sh", "-c", `mkfifo "$VIZIER_RESULT_FILE"`)
	if r := w.Run(bg, &w.job); r.Class != kernel.DataError {
		t.Fatalf("a pipe: %+v", r)
	}
	w = setup(t, "true")
	if err := os.WriteFile(w.Files.ResultFile(w.job.Attempt()), []byte(`{"outcome":"blocked"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := w.Run(bg, &w.job); r.Outcome != kernel.OutcomeSucceeded {
		t.Fatalf("a result that an earlier process left: %+v", r)
	}
}

// takeAway makes what its command said unreadable, also for root: the way to it leads through a file.
const takeAway = `echo '{"outcome":"blocked"}' >"$VIZIER_RESULT_FILE"; d=$(dirname "$VIZIER_RESULT_FILE"); mv "$d" "$d.away"; : >"$d.file"; ln -s "$d.file" "$d"; echo done`

// bringBack makes it readable at once: in between it would be missing, and the command have said nothing.
func bringBack(t *testing.T, dir string) {
	t.Helper()
	if err := errors.Join(os.Symlink(dir+".away", dir+".new"), os.Rename(dir+".new", dir)); err != nil {
		t.Fatal(err)
	}
}

// While what a command said cannot be read, its attempt goes on and its executor says why. It
// ends as the command said once that can be read.
func TestWhatACommandSaidIsWaitedForWhileItCannotBeRead(t *testing.T) {
	w := setup(t, "sh", "-c", takeAway)
	a := w.launch()
	w.eventually("a remark", func() bool {
		r := w.Alive(bg, []kernel.AttemptID{a})[a].Value
		return r.Liveness == kernel.Alive && r.Stuck && strings.Contains(r.Remark, w.Files.ClaimFile(a)+": not a directory")
	})
	bringBack(t, filepath.Dir(w.Files.ClaimFile(a)))
	if r := w.outcome(a); r.Outcome != kernel.OutcomeBlocked {
		t.Errorf("%+v", r)
	}
}

// The same for a command with secrets, which says it in a directory of its own.
func TestWhatACommandWithSecretsSaidIsWaitedFor(t *testing.T) {
	privateRuntime(t)
	w := setup(t, "sh", "-c", takeAway+`; echo "at $d"`)
	w.job.Spec.Task.Secrets = []kernel.Secret{{Name: "T", Source: `echo hunter2`}}
	if err := errors.Join(w.Provide(bg, &w.job), w.Claim(w.job.Attempt())); err != nil {
		t.Fatal(err)
	}
	ended := make(chan kernel.Result, 1)
	go func() { ended <- w.Run(bg, &w.job) }()
	dir, a := w.said("at"), w.job.Attempt()
	w.eventually("the reason", func() bool {
		return strings.Contains(w.waitsToRead(a, true), filepath.Join(dir, "result.json")+": not a directory")
	})
	select {
	case r := <-ended:
		t.Fatalf("it has ended: %+v", r)
	default:
	}
	bringBack(t, dir)
	if r := <-ended; r.Outcome != kernel.OutcomeBlocked {
		t.Errorf("%+v", r)
	}
}

// A stop ends the wait for what a command said.
func TestAStopEndsTheWaitForAResult(t *testing.T) {
	w := setup(t, "sh", "-c", takeAway)
	ctx, stop := context.WithCancel(bg)
	go func() {
		w.said("done")
		stop()
	}()
	if r := w.Run(ctx, &w.job); r.Outcome != kernel.OutcomeFailed {
		t.Errorf("%+v", r)
	}
}

func TestResultFileOfACommandThatTookTooLong(t *testing.T) {
	w := setup(t, "sh", "-c", `echo '{"class":"missing_input","reason":"no answer"}' > "$VIZIER_RESULT_FILE"; exec sleep 600`)
	w.job.Spec.Task.Timeout = 500e6
	r := w.Run(bg, &w.job)
	wantResult(t, r, kernel.OutcomeFailed, 124, kernel.MissingInput, "no answer")
}
