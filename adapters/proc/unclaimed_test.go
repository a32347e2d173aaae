package proc

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// preparing starts a runner that fetches a secret, and stops it before its claim.
func preparing(t *testing.T) (w *world, a kernel.AttemptID, runner, fetches process) {
	t.Helper()
	w = setup(t, as("polite")...)
	w.job.Spec.Task.Secrets = []kernel.Secret{{Name: "TOKEN", Source: "echo $$ >pid.new; mv pid.new pid; exec sleep 600"}}
	a = w.launch()
	t.Cleanup(func() { _, _ = w.Enforce(bg, a) })
	var pid []byte
	w.eventually("its secret is fetched", func() (there bool) {
		b, err := os.ReadFile(filepath.Join(w.root, "pid"))
		pid = b
		return err == nil
	})
	fetches = mustPID(t, strings.TrimSpace(string(pid)))
	runner, _ = unclaimed(a)
	if runner.pid != fetches.parent {
		t.Fatalf("the runner is %+v, and its secret is fetched by %+v", runner, fetches)
	}
	runner.signal(syscall.SIGSTOP)
	w.eventually("it is stopped", func() bool { return Stopped(runner.pid) })
	return w, a, runner, fetches
}

// Enforce ends a runner that was stopped before its claim, with what fetches its secrets. Nobody can
// run the attempt afterwards.
func TestEnforceBeforeTheClaim(t *testing.T) {
	w, a, runner, fetches := preparing(t)
	if ended, err := w.Enforce(bg, a); !ended || err != nil || alive(runner) || alive(fetches) || w.liveness(a) != kernel.Dead {
		t.Fatalf("ended %v, %v; runner alive %v, what fetches its secret %v", ended, err, alive(runner), alive(fetches))
	}
	if c, err := w.Claimed(a); c.Void == "" || err != nil {
		t.Errorf("the claim is %+v, %v", c, err)
	}
	if err := w.Claim(a); !errors.Is(err, kernel.ErrStale) {
		t.Errorf("it is claimed afterwards: %v", err)
	}
}

// Whoever stops an attempt lets its runner go on, and whoever looks is told how, also before the claim.
func TestARunnerStoppedBeforeItsClaimGoesOn(t *testing.T) {
	w, a, runner, _ := preparing(t)
	at := time.Now().Add(-time.Hour)
	must(t, os.Chtimes(w.Files.LockFile(a.Job), at, at))
	r := w.Alive(bg, []kernel.AttemptID{a})[a].Value
	if !r.Stuck || !strings.HasSuffix(r.Remark, fmt.Sprintf("`kill -CONT %d` lets it continue", runner.pid)) {
		t.Errorf("it is told of as %+v", r)
	}
	must(t, w.Stop(bg, a))
	w.eventually("it goes on", func() bool { return !Stopped(runner.pid) })
	if r := w.Alive(bg, []kernel.AttemptID{a})[a].Value; r.Stuck {
		t.Errorf("it goes on, and is told of as %+v", r)
	}
}
