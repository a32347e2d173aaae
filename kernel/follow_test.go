package kernel

import (
	"testing"
	"time"
)

// What settled leaves the snapshot; what changed is there as it is now, and
// later ticks find both where they look.
func TestFollowLetsGoOfWhatSettled(t *testing.T) {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	job := func(id JobID, st Status) Job {
		j := Job{ID: id, Created: at, Rev: 1}
		j.State.Status = st
		return j
	}
	s := NewSnapshot(Observation{Now: at, Jobs: []Job{job("a", Running), job("b", Queued), job("c", Running)}})
	done := job("a", Succeeded)
	done.Rev = 2
	next, ok := s.Follow(at, Changes{Jobs: []Job{done}, Settled: []JobID{"a", "unknown"}, Archived: 1})
	if !ok || next.Job("a") != nil || len(next.Jobs()) != 2 || next.Archived() != 1 {
		t.Fatalf("%v: %v, %d archived", ok, next.Jobs(), next.Archived())
	}
	if next.Job("c").ID != "c" || next.Job("b").ID != "b" || s.Job("a").State.Status != Running {
		t.Error("a job is not where it is looked for, or the earlier snapshot changed")
	}
	if p := next.Probes(); len(p.Attempts) != 1 || p.Attempts[0].Job != "c" {
		t.Errorf("it asks about %v", p.Attempts)
	}
	if _, ok := next.Follow(at, Changes{Jobs: []Job{done}}); ok {
		t.Error("it follows a job that it let go of")
	}
}
