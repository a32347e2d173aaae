package proc

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/internal/sys"
	"github.com/vizier-scheduler/vizier/kernel"
)

// inPlace makes a directory in the place of a file.
func inPlace(t *testing.T, path string) {
	t.Helper()
	if err := errors.Join(os.RemoveAll(path), os.MkdirAll(filepath.Join(path, "x"), 0o700)); err != nil {
		t.Fatal(err)
	}
}

// Whoever asks about an attempt, or for its end, is told what cannot be read. Nobody takes that for an end.
func TestAnAttemptOfWhichNothingCanBeRead(t *testing.T) {
	bg := t.Context()
	for name, c := range map[string]struct {
		breaks func(w *world, a kernel.AttemptID)
		asks   map[string]func(w *world, a kernel.AttemptID) error
	}{
		"its claim": {func(w *world, a kernel.AttemptID) { inPlace(t, w.Files.ClaimFile(a)) }, map[string]func(*world, kernel.AttemptID) error{
			"stop": func(w *world, a kernel.AttemptID) error { return w.Stop(bg, a) },
			"end": func(w *world, a kernel.AttemptID) error {
				ended, err := w.Enforce(bg, a)
				if ended {
					t.Error("it was ended")
				}
				return err
			},
		}},
		"its lock": {func(w *world, a kernel.AttemptID) {
			lock := w.Files.LockFile(a.Job)
			if err := errors.Join(os.Symlink("elsewhere", lock), w.writeClaimOnce(a, claim{Identity: here(), Lock: inodeOf(lock), Spaces: spaces()})); err != nil {
				t.Fatal(err)
			}
		}, map[string]func(*world, kernel.AttemptID) error{
			"stop": func(w *world, a kernel.AttemptID) error { return w.Stop(bg, a) },
			"acquire": func(w *world, a kernel.AttemptID) error {
				_, err := w.Acquire(a)
				return unlabelled(err, "job lock: ", a)
			},
			"start": func(w *world, a kernel.AttemptID) error { return w.Start(bg, a) },
		}},
		"what was lost": {func(w *world, a kernel.AttemptID) {
			gone := here()
			gone.PID, gone.Start = 1<<30, 1
			if err := w.writeClaimOnce(a, claim{Identity: gone, Lock: inodeOf(w.Files.LockFile(a.Job)), Spaces: spaces()}); err != nil {
				t.Fatal(err)
			}
			inPlace(t, w.Files.LostFile())
		}, map[string]func(*world, kernel.AttemptID) error{
			"note": func(w *world, a kernel.AttemptID) error {
				return unlabelled(w.NoteLost(a), "note that the runner of "+label(a)+" was lost: ", a)
			},
			"end": func(w *world, a kernel.AttemptID) error {
				ended, err := w.Enforce(bg, a)
				if ended {
					t.Error("it was ended")
				}
				return err
			},
			"sweep": func(w *world, a kernel.AttemptID) error { return unlabelled(w.Sweep(bg, a), "sweep "+label(a)+": ", a) },
		}},
		"its heartbeat": {func(w *world, a kernel.AttemptID) {
			if err := os.RemoveAll(filepath.Dir(w.Files.HeartbeatFile(a))); err != nil {
				t.Fatal(err)
			}
		}, map[string]func(*world, kernel.AttemptID) error{
			"beat": func(w *world, a kernel.AttemptID) error {
				return unlabelled(w.Beat(a), "heartbeat of "+label(a)+": ", a)
			},
		}},
		"its log": {func(w *world, a kernel.AttemptID) { inPlace(t, w.Files.LogFile(a.Job, "stderr")) }, map[string]func(*world, kernel.AttemptID) error{
			"start": func(w *world, a kernel.AttemptID) error { return w.Start(bg, a) },
		}},
	} {
		for what, ask := range c.asks {
			w := setup(t, "true")
			a := w.job.Attempt()
			c.breaks(w, a)
			if err := ask(w, a); err == nil || !strings.Contains(err.Error(), label(a)) {
				t.Errorf("%s cannot be read: %s: %v", name, what, err)
			}
		}
	}
}

// unlabelled returns err, if it begins with these words, as one that names a.
func unlabelled(err error, words string, a kernel.AttemptID) error {
	if err == nil || !strings.HasPrefix(err.Error(), words) {
		return fmt.Errorf("not about it: %w", err)
	}
	return errors.New(label(a))
}

// A process that runs an attempt itself knows that it is alive, and does not end itself.
func TestOnesOwnAttempt(t *testing.T) {
	w := setup(t, "true")
	a := w.job.Attempt()
	lock, err := w.Acquire(a)
	if err == nil {
		err = w.Claim(a)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if f := w.Alive(t.Context(), []kernel.AttemptID{a})[a]; !f.Known || f.Value != (kernel.Runner{Liveness: kernel.Alive}) {
		t.Errorf("%+v", f)
	}
	if ended, err := w.Enforce(t.Context(), a); ended || err != nil {
		t.Errorf("%t, %v", ended, err)
	}
}

// What is already claimed is not started once more, even if who is to start it finds its lock held.
func TestAClaimedAttemptIsNotStarted(t *testing.T) {
	w := setup(t, "true")
	a := w.job.Attempt()
	held, err := os.Create(w.Files.LockFile(a.Job))
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	if got, err := sys.TryLock(held); !got || err != nil {
		t.Fatal(got, err)
	}
	if err := w.Claim(a); err != nil {
		t.Fatal(err)
	}
	if lock, err := w.lockFor(t.Context(), a); lock != nil || err != nil {
		t.Errorf("%v, %v", lock, err)
	}
}

// Of each boot, when the first lost runner began is kept. What a power failure cut off does not count.
func TestWhatIsNotedOfLostRunners(t *testing.T) {
	w := setup(t, "true")
	if err := os.WriteFile(w.Files.LostFile(), []byte("a 7\nhalf\na 5\nb 9\na 6\nc"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := w.lost(); fmt.Sprint(got) != "map[a:5 b:9]" || err != nil {
		t.Errorf("%v, %v", got, err)
	}
	a := w.job.Attempt()
	if err := w.Claim(a); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(w.Files.LostFile()); err != nil {
		t.Fatal(err)
	}
	if err := w.NoteLost(a); err != nil {
		t.Error(err)
	}
	if got, err := w.lost(); len(got) != 1 || got[here().Boot] != Self().Start || err != nil {
		t.Errorf("%v, %v", got, err)
	}
	w.Files = elsewhere{layout(w.root)}
	if err := w.NoteLost(a); !errors.Is(err, fs.ErrNotExist) || !strings.HasPrefix(err.Error(), "note that the runner of "+label(a)+" was lost: ") {
		t.Errorf("%v", err)
	}
}

// elsewhere are files of which the note of lost runners is in a directory that is gone.
type elsewhere struct{ layout }

func (elsewhere) LostFile() string { return "/no/such/directory/lost" }

// What a hook cannot do, or is not let do, is said.
func TestAHookThatIsEnded(t *testing.T) {
	l := newLocal(t.TempDir())
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go func() {
		for begun := filepath.Join(l.Root, "begun"); ; time.Sleep(time.Millisecond) {
			if _, err := os.Stat(begun); err == nil || ctx.Err() != nil {
				stop()
				return
			}
		}
	}()
	h := HookCall{Command: "echo > begun; sleep 600", Log: filepath.Join(l.Root, "log"), Timeout: time.Minute}
	if err := l.RunHook(ctx, h); err == nil || err.Error() != "was ended: context canceled" {
		t.Errorf("%v", err)
	}
	if err := l.RunHook(ctx, h); err == nil || err.Error() != "was ended: context canceled" {
		t.Errorf("once more: %v", err)
	}
	inPlace(t, h.Log)
	if err := l.RunHook(t.Context(), h); !errors.Is(err, sys.ErrNotRegular) {
		t.Errorf("without its log: %v", err)
	}
}

// This host may be called another one, if it is also given a boot.
func TestTheNameOfThisHost(t *testing.T) {
	for value, ok := range map[string]bool{"login1/boot": true, "login1": false, "login1/": false, "/boot": false, "": false} {
		t.Setenv(envHost, value)
		want := fmt.Sprintf("VIZIER_HOST is %q: expected NAME/BOOT, such as VIZIER_HOST=login1/$(cat /proc/sys/kernel/random/boot_id), or leave it unset: invalid", value)
		if err := CheckHost(); (err == nil) != ok || err != nil && (!errors.Is(err, kernel.ErrInvalid) || !strings.HasPrefix(err.Error(), want)) {
			t.Errorf("%q: %v", value, err)
		}
	}
	_ = os.Unsetenv(envHost)
	if err := CheckHost(); err != nil {
		t.Error(err)
	}
}

// An attempt that was ended has the result that whoever ended it gave it; a command that ended by itself has that of its end.
func TestResultsOfEnds(t *testing.T) {
	for _, e := range []*EndedError{{Class: kernel.Timeout, Reason: "late"}, {Class: kernel.Signal, Reason: "stopped"}} {
		ctx, stop := context.WithCancelCause(t.Context())
		stop(fmt.Errorf("ended: %w", e))
		exit := map[kernel.FailureClass]int{kernel.Timeout: 124, kernel.Signal: 143}[e.Class]
		wantResult(t, stopped(ctx), kernel.OutcomeFailed, exit, e.Class, e.Reason)
		wantResult(t, notStarted(e), kernel.OutcomeFailed, exit, e.Class, e.Reason)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	wantResult(t, stopped(ctx), kernel.OutcomeFailed, 143, kernel.Signal, "context canceled")
	wantResult(t, classify(syscall.WaitStatus(15), 0), kernel.OutcomeFailed, 143, kernel.Signal, "ended by signal SIGTERM")
	wantResult(t, classify(syscall.WaitStatus(40), 0), kernel.OutcomeFailed, 168, kernel.Signal, "ended by signal 40")
	if err := exactKeys([]byte("[")); err == nil {
		t.Error("half a list has keys")
	}
	place := "none"
	j := &kernel.Job{}
	if _, err := (explicitResult{Sandbox: &place}).override(kernel.Result{}, j); err == nil || err.Error() != "sandbox: only a workflow node puts what it starts into one" {
		t.Errorf("a command: %v", err)
	}
	j.Spec.Task.Builtin = true
	if r, err := (explicitResult{Sandbox: &place}).override(kernel.Result{}, j); err != nil || r.Place.Sandbox != "none" {
		t.Errorf("a node: %+v, %v", r, err)
	}
}

// What keeps a secret from being read is said.
func TestASecretThatCannotBeRead(t *testing.T) {
	l := newLocal(t.TempDir())
	t.Setenv("HOME", "")
	if b, err := readSecret("~/s"); b != nil || err == nil || err.Error() != "$HOME is not defined" {
		t.Errorf("%q, %v", b, err)
	}
	gone, stop := context.WithCancelCause(t.Context())
	stop(fs.ErrClosed)
	if b, err := l.printed(gone, "echo x", 0); b != nil || !errors.Is(err, fs.ErrClosed) {
		t.Errorf("%q, %v", b, err)
	}
	l.Root += "/gone"
	if b, err := l.printed(t.Context(), "echo x", 0); b != nil || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%q, %v", b, err)
	}
}

// A job goes on from its checkpoints only where there is a directory for them.
func TestNoDirectoryForCheckpoints(t *testing.T) {
	w := setup(t, "true")
	w.job.Spec.Resumable = true
	if err := os.WriteFile(w.Files.CheckpointDir(w.job.ID), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := w.prepare(&w.job); err == nil || !strings.HasPrefix(err.Error(), "make the directory for its checkpoints: ") {
		t.Error(err)
	}
}
