package proc

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// The environment and the directory of a hook, where its output goes, and how
// its end is reported.
func TestRunHook(t *testing.T) {
	w := setup(t)
	log := filepath.Join(filepath.Dir(w.Files.LockFile(w.job.ID)), "hooks", "mail.log")
	said := func(h HookCall) (string, error) {
		t.Helper()
		h.Log, h.Timeout = log, time.Minute
		err := w.RunHook(t.Context(), h)
		out, _ := os.ReadFile(log)
		return string(out), err
	}
	event := kernel.Event{Job: w.job.ID, Run: "run_1", Node: "n", Name: "say", Attempt: 3, Class: kernel.Timeout, Reason: "why", Exit: kernel.Exited(124)}
	told := `echo "$VIZIER_JOB_ID $VIZIER_RUN_ID $VIZIER_NODE $VIZIER_JOB_NAME $VIZIER_ATTEMPT $VIZIER_STATUS $VIZIER_FAILURE_CLASS $VIZIER_REASON [$VIZIER_EXIT_CODE] $(pwd)" >&2`
	root, err := filepath.EvalSymlinks(w.root)
	if err != nil {
		t.Fatal(err)
	}
	want := string(w.job.ID) + " run_1 n say 3 failed timeout why [124] " + root + "\n"
	if out, err := said(HookCall{Command: told, Event: event, Status: "failed"}); out != want || err != nil {
		t.Errorf("%q %v", out, err)
	}
	event.Exit = kernel.ExitCode{}
	if out, _ := said(HookCall{Command: told, Event: event, Status: "failed"}); !strings.HasPrefix(out, want) || !strings.Contains(out, "why [] ") { // it is appended to
		t.Errorf("%q", out)
	}
	event.Reason = "a\x00b" + strings.Repeat("ü", 100_000)
	if out, err := said(HookCall{Command: `echo "$VIZIER_REASON"`, Event: event}); !strings.HasSuffix(out, "\nab"+strings.Repeat("ü", 2040)+"\n") || err != nil {
		t.Errorf("with a reason that no variable can have: %d bytes, %v", len(out), err)
	}
	for command, want := range map[string]string{"exit 3": "exit code 3", "kill -TERM $$": "ended by signal SIGTERM"} {
		if _, err := said(HookCall{Command: command}); err == nil || err.Error() != want {
			t.Errorf("%s: %v", command, err)
		}
	}
	for _, soon := range []time.Duration{10 * time.Millisecond, time.Nanosecond} { // the latter ends before the hook starts
		if err := w.RunHook(t.Context(), HookCall{Command: "sleep 100", Log: log, Timeout: soon}); err == nil || err.Error() != "timed out after "+soon.String() {
			t.Error(err)
		}
	}
	if err := w.RunHook(t.Context(), HookCall{Command: "trap '' TERM; while :; do sleep 0.01; done", Log: log, Timeout: 10 * time.Millisecond, Grace: 50 * time.Millisecond}); err == nil || err.Error() != "timed out after 10ms" {
		t.Error(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("enough"))
	if err := w.RunHook(ctx, HookCall{Command: "sleep 100", Log: log, Timeout: time.Minute}); err == nil || err.Error() != "was ended: enough" {
		t.Error(err)
	}
	ctx, cancel = context.WithCancelCause(t.Context())
	defer cancel(nil)
	ready := log + ".ready"
	go func() {
		for ; ctx.Err() == nil; time.Sleep(time.Millisecond) {
			if _, err := os.Lstat(ready); err == nil {
				cancel(errors.New("enough"))
			}
		}
	}()
	trap := "trap 'echo asked; exit' TERM; touch " + ready + "; while :; do sleep 0.01; done"
	if err := w.RunHook(ctx, HookCall{Command: trap, Log: log, Timeout: time.Minute, Grace: 20 * time.Second}); err == nil || err.Error() != "was ended: enough" {
		t.Error(err)
	}
	if out, err := os.ReadFile(log); !strings.HasSuffix(string(out), "asked\n") {
		t.Errorf("it was not asked to end: %q, %v", out, err)
	}
	nowhere := newLocal(w.root)
	nowhere.Root = filepath.Join(w.root, "gone")
	if err := nowhere.RunHook(t.Context(), HookCall{Command: "true", Log: log, Timeout: time.Minute}); err == nil || !strings.HasPrefix(err.Error(), "cannot be started: ") {
		t.Error(err)
	}
}

// Processes that a hook leaves in its group end with it, and output is dropped
// if the job is gone.
func TestWhatAHookLeaves(t *testing.T) {
	w := setup(t)
	pid := filepath.Join(t.TempDir(), "pid")
	log := filepath.Join(w.root, "no", "such", "job", "hooks", "x.log")
	if err := w.RunHook(t.Context(), HookCall{Command: "sleep 1000 >/dev/null 2>&1 & echo $! >" + pid, Log: log, Timeout: time.Minute}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(filepath.Join(w.root, "no")); !os.IsNotExist(err) {
		t.Errorf("a directory was made for a job that is gone: %v", err)
	}
	b, err := os.ReadFile(pid)
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		stat, err := os.ReadFile("/proc/" + strings.TrimSpace(string(b)) + "/stat")
		if err != nil || strings.Contains(string(stat), ") Z ") {
			return
		}
		if time.Now().After(end) {
			t.Fatal("what the hook started is still there")
		}
	}
}

// An attempt that is void is nobody's; one that was claimed cannot be made so.
func TestVoid(t *testing.T) {
	w := setup(t)
	first, second := w.job.Attempt(), kernel.AttemptID{Job: w.job.ID, N: 2}
	for _, a := range []kernel.AttemptID{first, second} {
		if claim, err := w.Claimed(a); claim != (Taken{}) || err != nil {
			t.Errorf("of nobody: %+v %v", claim, err)
		}
	}
	if err := w.Void(first, "it was refused"); err != nil {
		t.Fatal(err)
	}
	if claim, err := w.Claimed(first); claim != (Taken{Void: "it was refused"}) || err != nil {
		t.Errorf("%+v %v", claim, err)
	}
	if err := w.Claim(first); !errors.Is(err, kernel.ErrStale) {
		t.Errorf("a void attempt was claimed: %v", err)
	}
	if err := w.Claim(second); err != nil {
		t.Fatal(err)
	}
	if err := w.Void(second, "too late"); !errors.Is(err, kernel.ErrStale) {
		t.Errorf("a claimed attempt was made void: %v", err)
	}
	if claim, err := w.Claimed(second); claim.Host == "" || claim.Void != "" || err != nil {
		t.Errorf("%+v %v", claim, err)
	}
	if err := os.WriteFile(w.Files.ClaimFile(second), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Claimed(second); err == nil {
		t.Error("half a claim is one")
	}
	if err := os.RemoveAll(filepath.Dir(w.Files.ClaimFile(second))); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(t.TempDir(), filepath.Dir(w.Files.ClaimFile(second))); err != nil {
		t.Fatal(err)
	}
	if err := w.Claim(second); err == nil || !strings.Contains(err.Error(), "a symbolic link is not followed") {
		t.Error(err)
	}
}

// A file that was read is not kept open, whatever it was.
func TestWhatWasReadIsClosed(t *testing.T) {
	const times = 1000
	dir := t.TempDir()
	path := filepath.Join(dir, "claim")
	if err := os.WriteFile(path, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	next := func() uintptr {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		return f.Fd()
	}
	before := next()
	for range times {
		if b, err := readFile(path); string(b) != "{}" || err != nil {
			t.Fatalf("%q, %v", b, err)
		}
		if _, err := readFile(dir); err == nil {
			t.Fatal("a directory was read")
		}
	}
	long := strings.Repeat("x", 5000)
	if err := os.WriteFile(path, []byte(long), 0o600); err != nil {
		t.Fatal(err)
	}
	if b, err := readFile(path); string(b) != long || err != nil {
		t.Errorf("%d bytes were read of %d, %v", len(b), len(long), err)
	}
	if after := next(); after > before+times/2 { // other tests open files as well
		t.Errorf("descriptors went from %d to %d", before, after)
	}
}
