package fs

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vizier-scheduler/vizier/kernel"
)

// A job's size counts each of its files once, and nothing that a link leads to. A job
// without files has no size.
func TestSizes(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, dir)
	if got := s.Sizes(t.Context(), []kernel.JobID{id(77)}); len(got) > 0 {
		t.Errorf("without a store: %v", got)
	}
	makeBase(t, dir)
	outside := filepath.Join(t.TempDir(), "large")
	writeAt(t, outside, string(make([]byte, 1<<20)))
	job := s.JobDir(id(77))
	writeAt(t, filepath.Join(job, "job.json"), string(make([]byte, 5000)))
	writeAt(t, filepath.Join(job, "attempts", "1.outcome.json"), string(make([]byte, 9000)))
	if err := os.Link(filepath.Join(job, "attempts", "1.outcome.json"), filepath.Join(job, "outcome.json")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(job, "stdout.log")); err != nil {
		t.Fatal(err)
	}
	var want int64
	for _, name := range []string{".", "job.json", "attempts", "attempts/1.outcome.json", "stdout.log"} {
		var st unix.Stat_t
		if err := unix.Lstat(filepath.Join(job, name), &st); err != nil {
			t.Fatal(err)
		}
		want += int64(st.Blocks) * 512
	}
	got := s.Sizes(t.Context(), []kernel.JobID{id(77), id(78), "../.."})
	if got[id(77)] != want || want < 14000 || got[id(78)] != 0 || got["../.."] != 0 {
		t.Errorf("%v, want %d", got, want)
	}
}

// Nothing is said of the sizes when there is no time to look.
func TestSizesInNoTime(t *testing.T) {
	dir := t.TempDir()
	makeBase(t, dir)
	s := newStore(t, dir)
	writeAt(t, filepath.Join(s.JobDir(id(77)), "job.json"), "{}")
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if got := s.Sizes(ctx, []kernel.JobID{id(77)}); len(got) > 0 {
		t.Errorf("%v", got)
	}
}

// A few small files need 64 KiB and an inode. A file system that does not count them has no bound.
func TestFull(t *testing.T) {
	for _, row := range []struct {
		blocks, free, files, inodes int64
		want                        bool
	}{
		{1000, 16, 100, 1, false},
		{1000, 15, 100, 1, true},
		{1000, 0, 100, 1, true},
		{1, 16, 1, 0, true},
		{1, 16, 1, 1, false},
		{1, 0, 0, 0, true},
		{1000, 16, 0, 0, false}, // as many inodes as are needed
		{0, 0, 0, 0, false},
		{0, 0, 100, 0, false},
		{0, 16, 100, 1, false},
		{1, 0, 0, 9, true},
	} {
		if full(row.blocks, row.free*4096, row.files, row.inodes) != row.want {
			t.Errorf("%+v", row)
		}
	}
	dir := t.TempDir()
	if newStore(t, dir).Full() {
		t.Error("of no store it is not known")
	}
	makeBase(t, dir)
	if newStore(t, dir).Full() {
		t.Error("there is room for the tests")
	}
}

// The last export of spans is on record as long as it has failed.
func TestTracesThatFailed(t *testing.T) {
	dir := t.TempDir()
	makeBase(t, dir)
	s := newStore(t, dir)
	asked := func(want string) {
		t.Helper()
		if why, at := s.TracesFailed(); why != want || at.IsZero() != (want == "") {
			t.Errorf("%q at %s, want %q", why, at, want)
		}
	}
	asked("")
	if err := s.NoteTraces(nil); err != nil {
		t.Error(err)
	}
	writeAt(t, s.abs(hookLogsDir+"/x.log"), "")
	for _, why := range []string{"no route", "refused"} {
		if err := s.NoteTraces(errors.New(why)); err != nil {
			t.Fatal(err)
		}
		asked(why)
	}
	if err := s.NoteTraces(nil); err != nil {
		t.Error(err)
	}
	asked("")
	writeAt(t, s.abs(tracesFile+"/in the way"), "")
	if err := s.NoteTraces(nil); err == nil {
		t.Error("it is still there")
	}
}

// A hook is called for the end of an attempt, or for something without a job.
func TestLogsOfHooks(t *testing.T) {
	l := NewLayout("/r")
	for want, got := range map[string]string{
		"/r/.vizier/jobs/hooks/logs/h.log":      l.HookLog(kernel.AttemptID{}, 0, "h"),
		"/r/.vizier/jobs/ab/hooks/2.3.mail.log": l.HookLog(kernel.AttemptID{Job: "ab", N: 3}, 2, "mail"),
	} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// The time of the last collection is read back as it was noted; nonsense counts as no
// collection. The note does not count as a change of the jobs.
func TestNoteCollected(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, dir)
	if at := s.Collected(); !at.IsZero() {
		t.Errorf("without a store: %s", at)
	}
	if err := s.NoteCollected(); err != nil {
		t.Fatal(err)
	}
	stamp := s.jobsStamp()
	if err := s.NoteCollected(); err != nil {
		t.Fatal(err)
	}
	if at, now := s.Collected(), s.opts.Now().Truncate(time.Second); !at.Equal(now) || s.jobsStamp() != stamp {
		t.Errorf("%s, want %s; directory of the jobs changed: %v", at, now, s.jobsStamp() != stamp)
	}
	writeAt(t, s.abs(collectedFile), "yesterday")
	if at := s.Collected(); !at.IsZero() {
		t.Errorf("nonsense: %s", at)
	}
}
