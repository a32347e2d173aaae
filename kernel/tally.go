package kernel

import (
	"slices"
	"strings"
	"time"
)

// Tally summarises jobs of one number for the line that lists show of a run or
// a batch. A store can compute it without reading the jobs.
type Tally struct {
	Statuses [BlockedByApproval + 1]int // number of jobs by status

	// Stuck is the number of jobs that are BlockedByDependency with
	// OutcomeBlocked and not retired, which need a person. Jobs that were
	// woken to resolve a conflict where there is none are not counted: the
	// merge that woke them is, unless it was rejected.
	Stuck int

	// Routes is the number of jobs that have routes or that only a route
	// starts. If it is not zero, the end of another job may not be final.
	Routes int

	Created  time.Time // time of the first creation; zero: there are no jobs
	Finished time.Time // time of the latest end; zero: no job has ended
}

// Add adds j to the tally.
func (t *Tally) Add(j *Job) { t.add(j, j.State.Status) }

func (t *Tally) add(j *Job, st Status) {
	t.Statuses[st]++
	if st == BlockedByDependency && j.State.Outcome == OutcomeBlocked && !j.State.Retired && !strings.HasPrefix(j.State.Reason, NoConflict) {
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

// Tally returns the tally of jobs of s. A job whose end a route may take back
// counts as queued.
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

// Total returns the number of jobs without the unscheduled ones.
func (t *Tally) Total() (n int) {
	for st, k := range t.Statuses {
		if Status(st) != Unscheduled {
			n += k
		}
	}
	return n
}

// Active reports whether some of the jobs are active.
func (t *Tally) Active() bool {
	for st, k := range t.Statuses {
		if k > 0 && Status(st).Active() {
			return true
		}
	}
	return false
}
