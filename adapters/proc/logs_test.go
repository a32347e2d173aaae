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

	"github.com/vizier-scheduler/vizier/adapters/proc/joblog"
	"github.com/vizier-scheduler/vizier/internal/disktest"
	"github.com/vizier-scheduler/vizier/kernel"
)

// A command that floods its logs does not fill the disk, goes on to its end,
// and its last words are there.
func TestFloodIsBounded(t *testing.T) {
	const most, steps = 1 << 20, 60
	script := fmt.Sprintf(`for i in $(seq %d); do head -c 1048576 /dev/zero | tr '\0' x; echo; echo step $i; sleep 0.02; done; echo the end; echo sad >&2; exit 3`, steps)
	w := setup(t, "sh", "-c", script)
	if !cutsLogs(t) {
		t.Skip("logs are not cut on this system")
	}
	w.MaxLog = most
	path := layout(w.root).LogFile(w.job.ID, "stdout")
	ended, peak := make(chan kernel.Result), int64(0)
	go func() { ended <- w.Run(bg, &w.job) }()
	var r kernel.Result
	for running := true; running; {
		select {
		case r = <-ended:
			running = false
		case <-time.After(time.Millisecond):
		}
		if info, err := os.Stat(path); err == nil {
			peak = max(peak, info.Sys().(*syscall.Stat_t).Blocks*512)
		}
	}
	wantResult(t, r, kernel.OutcomeFailed, 3, kernel.ExitFailure, "exit code 3")
	if peak > steps<<20/2 {
		t.Errorf("the log took up to %d bytes of the disk", peak)
	}
	out := strings.TrimLeft(w.log("stdout"), "\x00") // where only a hole can be left
	if len(out) > most || !strings.HasPrefix(out, "[vizier: ") {
		t.Errorf("%d bytes are left, which begin with %.80q", len(out), out)
	}
	if !strings.HasSuffix(out, "x\nstep 60\nthe end\n") || w.log("stderr") != "sad\n" {
		t.Errorf("the logs end with %.80q and %.80q", out[max(0, len(out)-80):], w.log("stderr"))
	}
}

// A flood that is over before anybody looked is cut as well, and one that
// never had a bound is not.
func TestShortFlood(t *testing.T) {
	for most, atMost := range map[int64]int{1 << 16: 1 << 16, 0: 8 << 20} {
		if most > 0 && !cutsLogs(t) {
			continue
		}
		w := setup(t, "sh", "-c", "head -c 4194304 /dev/zero | tr '\\0' y; echo end")
		w.MaxLog = most
		wantResult(t, w.Run(bg, &w.job), kernel.OutcomeSucceeded, 0, kernel.NoFailure, "")
		out := strings.TrimLeft(w.log("stdout"), "\x00")
		if len(out) > atMost || most == 0 && len(out) != 4<<20+4 || !strings.HasSuffix(out, "yend\n") {
			t.Errorf("bound %d: %d bytes are left, which end with %q", most, len(out), out[max(0, len(out)-20):])
		}
	}
}

// cutsLogs reports whether something can be cut out of a log here.
func cutsLogs(t *testing.T) bool {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(t.TempDir(), "log"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	must(t, err)
	defer f.Close()
	again, err := joblog.Reopen(f)
	if errors.Is(err, errors.ErrUnsupported) {
		return false
	}
	must(t, errors.Join(err, again.Close()))
	return true
}

// Where the disk is full, a job's end says that output is missing.
func TestAFullDiskIsSaid(t *testing.T) {
	small := disktest.Small(t, 1<<20)
	w := setup(t, "sh", "-c", "head -c 3000000 /dev/zero; exit 3")
	dir := layout(w.root).dir(w.job.ID)
	if err := errors.Join(os.Rename(dir, dir+".aside"), os.Symlink(small, dir), os.Mkdir(filepath.Join(small, "attempts"), 0o700)); err != nil {
		t.Fatal(err)
	}
	r := w.Run(bg, &w.job)
	if r.Exit != 3 || r.Reason != "exit code 3; "+joblog.Missing {
		t.Errorf("%+v", r)
	}
}
