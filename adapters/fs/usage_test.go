package fs

import (
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
