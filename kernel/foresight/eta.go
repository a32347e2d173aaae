package foresight

import (
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// ETA is when something is expected to end, and the weakest basis of that
// estimate. There is no ETA for an end that depends on a guess.
type ETA struct {
	At    time.Time
	Basis Basis
	From  int // with Recorded: from how many attempts, at the weakest place
}

// ETAs returns the expected ends of open jobs, if everything takes its usual
// time. s needs no facts: the world is assumed to be as the jobs require it. A
// runner that is known to be gone is assumed to have left no result.
func ETAs(s *kernel.Snapshot, h *Habits) map[kernel.JobID]ETA {
	lost := kernel.NewFacts()
	for a, r := range s.Facts().Runners {
		if r.Value.Gone() && !s.Facts().Results[a].Known {
			lost.Results[a] = kernel.Seen[*kernel.Result](nil)
		}
	}
	f := &foreteller{s: assumed(s.WithFacts(lost), false), o: Options{Habits: h}}
	story := Tell(f.s, h.Course(0, 0))
	out := map[kernel.JobID]ETA{}
	for id, sure := range f.basis(story) {
		if at, ends := story.Ended[id]; ends && sure.basis > Guess {
			out[id] = ETA{at, sure.basis, sure.from}
		}
	}
	return out
}
