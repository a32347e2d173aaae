package fs

import (
	"os"
	"slices"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
)

// What a job waits for is noted until the note is closed; what was killed waits for nothing any more.
func TestWhatAJobWaitsFor(t *testing.T) {
	s := NewStore(t.TempDir(), Options{})
	const own, other = kernel.JobID("0199d3a4b5c670008000000000000001"), kernel.JobID("0199d3a4b5c670008000000000000002")
	if got, err := s.WaitsOf(own); got != nil || err != nil {
		t.Errorf("without a store: %v, %v", got, err)
	}
	if err := os.MkdirAll(s.JobDir(own), 0o700); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		note, err := s.HoldWait(own, []kernel.JobID{other})
		if err != nil {
			t.Fatal(err)
		}
		if again, err := s.HoldWait(own, nil); err == nil {
			t.Error("two notes", again.Close())
		}
		if got, err := s.WaitsOf(own); !slices.Equal(got, []kernel.JobID{other}) || err != nil {
			t.Errorf("while it waits: %v, %v", got, err)
		}
		if err := note.Close(); err != nil {
			t.Error(err)
		}
		if got, err := s.WaitsOf(own); got != nil || err != nil {
			t.Errorf("after that: %v, %v", got, err)
		}
		if err := os.WriteFile(s.abs(jobPath(own, waitName)), []byte(other+"\n"), 0o600); err != nil { // as a kill leaves it
			t.Fatal(err)
		}
		if got, err := s.WaitsOf(own); got != nil || err != nil {
			t.Errorf("after a kill: %v, %v", got, err)
		}
	}
	if note, err := s.HoldWait(other, nil); err == nil {
		t.Error("a job that is not there", note.Close())
	}
}
