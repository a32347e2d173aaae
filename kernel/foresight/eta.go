package foresight

import (
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// ETA is when something is expected to end, and the least that this is known from. Of
// something that is guessed there is none.
type ETA struct {
	At    time.Time
	Basis Basis
	From  int // of Recorded: from how many attempts, the fewest
}

// ETAs are those of open jobs, if everything takes its usual time. Of the world nothing
// need be known: it is taken to be as jobs want it.
func ETAs(s *kernel.Snapshot, h *Habits) map[kernel.JobID]ETA {
	f := &foreteller{s: assumed(s, false), o: Options{Habits: h}}
	story := Tell(f.s, h.Course(0, 0))
	out := map[kernel.JobID]ETA{}
	for id, sure := range f.basis(story) {
		if at, ends := story.Ended[id]; ends && sure.basis > Guess {
			out[id] = ETA{at, sure.basis, sure.from}
		}
	}
	return out
}
