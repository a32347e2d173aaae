package kernel

import (
	"slices"
	"time"
)

// Tally counts jobs of one number by what the line of a run or a batch tells of all
// of them. A store can answer for it without reading the jobs.
type Tally struct {
	Statuses [BlockedByApproval + 1]int // how many jobs have each

	// Stuck are those BlockedByDependency with OutcomeBlocked: a person has to see
	// to them.
	Stuck int

	// Routes are the jobs that have routes, or that only a route starts. Where there
	// is one, whether the end of another is final depends on it.
	Routes int

	Created  time.Time // of the first; zero: there are no jobs
	Finished time.Time // when the last that has ended did; zero: none has
}

// Add counts j.
func (t *Tally) Add(j *Job) { t.add(j, j.State.Status) }

func (t *Tally) add(j *Job, st Status) {
	t.Statuses[st]++
	if st == BlockedByDependency && j.State.Outcome == OutcomeBlocked {
		t.Stuck++
	}
	if j.Spec.Routed || len(j.Spec.Routes) > 0 {
		t.Routes++
	}
	if t.Created.IsZero() || j.Created.Before(t.Created) {
		t.Created = j.Created
	}
	if st.Terminal() && j.State.Finished.After(t.Finished) {
		t.Finished = j.State.Finished
	}
}

// Tally counts jobs of s. One whose end a route may take back counts as one that
// waits.
func (s *Snapshot) Tally(jobs []*Job) (t Tally) {
	routed := slices.ContainsFunc(s.jobs, (*Job).woken)
	for _, j := range jobs {
		if routed && s.Pending(j.ID) != "" {
			t.add(j, Queued)
		} else {
			t.Add(j)
		}
	}
	return t
}

// Total is how many jobs count: those that only a route starts, and none has, do not.
func (t *Tally) Total() (n int) {
	for st, k := range t.Statuses {
		if Status(st) != Unscheduled {
			n += k
		}
	}
	return n
}

// Active reports that some of the jobs go on.
func (t *Tally) Active() bool {
	for st, k := range t.Statuses {
		if k > 0 && Status(st).Active() {
			return true
		}
	}
	return false
}
