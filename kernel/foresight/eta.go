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
// time. A job that never ends, or that would be blocked, has none. If asked is
// not empty, gates asked for these facts in vain, and ETAs must be called again
// with them answered. A runner that is known to be gone is assumed to have left
// no result.
func ETAs(s *kernel.Snapshot, h *Habits) (etas map[kernel.JobID]ETA, asked kernel.Probes) {
	if asked = unanswered(s); !asked.Empty() {
		return nil, asked
	}
	lost := kernel.NewFacts()
	for a, r := range s.Facts().Runners {
		if r.Value.Gone() && !s.Facts().Results[a].Known {
			lost.Results[a] = kernel.Seen[*kernel.Result](nil)
		}
	}
	f := &foreteller{s: s.WithFacts(lost), o: Options{Habits: h}}
	story := Tell(f.s, h.Course(0, 0))
	etas = map[kernel.JobID]ETA{}
	for id, sure := range f.basis(story) {
		st := story.Then.Job(id).State.Status
		if at, ends := story.Ended[id]; ends && sure.basis > Guess && st != kernel.BlockedByDependency && st != kernel.BlockedByApproval {
			etas[id] = ETA{at, sure.basis, sure.from}
		}
	}
	return etas, unanswered(story.Then)
}
