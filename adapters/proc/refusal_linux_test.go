//go:build !portable

package proc

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/vizier-scheduler/vizier/internal/disktest"
	"github.com/vizier-scheduler/vizier/kernel"
)

// waited calls then when somebody begins to wait for its end.
type waited struct {
	context.Context
	then func()
}

func (w waited) Done() <-chan struct{} {
	w.then()
	return w.Context.Done()
}

// Where there is no room for what an attempt has outside of the store, it waits until there is.
func TestAnAttemptWaitsForRoom(t *testing.T) {
	for variable, files := range map[string]string{ // as many as there is room for at first
		"XDG_RUNTIME_DIR": "nr_inodes=2", // for the directory of secrets, and none of them
		"TMPDIR":          "nr_inodes=1", // for no temporary directory
	} {
		t.Run(variable, func(t *testing.T) {
			privateRuntime(t)
			w := setup(t, "sh", "-c", `echo "$(cat "$VIZIER_SECRET_T") in $TMPDIR"`)
			w.job.Spec.Task.Sandbox = kernel.Sandbox{Mode: kernel.BestEffortSandbox}
			w.job.Spec.Task.Secrets = []kernel.Secret{{Name: "T", Source: "echo hunter2"}}
			small := disktest.Small(t, 1<<20)
			room := func(files string) { must(t, unix.Mount("", small, "", unix.MS_REMOUNT, files)) }
			must(t, os.Chmod(small, 0o700))
			room(files)
			t.Setenv(variable, small)
			must(t, w.Provide(bg, &w.job))
			ctx, cancel := context.WithCancelCause(bg)
			stop := waited{ctx, func() { cancel(errors.New("cancelled by ann")) }}
			wantResult(t, w.Run(stop, &w.job), kernel.OutcomeFailed, 143, kernel.Signal, "cancelled by ann")
			must(t, w.Provide(bg, &w.job))
			r := w.Run(waited{bg, func() { room("nr_inodes=100") }}, &w.job)
			if r.Outcome != kernel.OutcomeSucceeded || !strings.HasPrefix(w.log("stdout"), "[secret T] in "+os.Getenv("TMPDIR")) {
				t.Errorf("%+v; %q", r, w.log("stdout"))
			}
			if left, err := os.ReadDir(small); len(left) > 0 || err != nil {
				t.Errorf("%v are left, %v", left, err)
			}
		})
	}
}

// What is mounted in place of the file .git of a linked working tree is not removed.
func TestWhatIsMountedAtTheLinkOfAWorkingTreeStays(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	root, tree := filepath.Join(top, "root"), filepath.Join(top, "tree")
	admin, link := filepath.Join(root, ".git", "worktrees", "x"), filepath.Join(tree, ".git")
	if err := errors.Join(os.MkdirAll(admin, 0o700), os.MkdirAll(tree, 0o700), os.WriteFile(filepath.Join(admin, "gitdir"), []byte(link+"\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	l := &Local{Root: root}
	for _, at := range []string{link, link + ".vizier"} {
		if err := errors.Join(os.RemoveAll(link), os.RemoveAll(link+".vizier"), os.Mkdir(at, 0o700)); err != nil {
			t.Fatal(err)
		}
		from, undo := disktest.Bind(t, at)
		want := "it changed " + link + ", which says where the repository is, and that cannot be put back: "
		if err := l.MendLink(tree); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v", at, err)
		}
		if _, err := os.Stat(filepath.Join(from, "gold")); err != nil {
			t.Error(err)
		}
		undo()
	}
}
