package kernel

import (
	"slices"
	"time"
)

// Delay is a wait that the clock alone ends.
type Delay struct {
	Since time.Time // when it began; zero: only Until counts
	Until time.Time // zero: it is over at the next tick
}

// clocksDiffer is by how much the clocks of hosts that share a repository may differ.
const clocksDiffer = time.Minute

// Over reports whether the wait is over at now. One that began later than that, by more than clocks differ, is over: the
// clock was set back since, and otherwise the wait would be longer by as much.
func (d Delay) Over(now time.Time) bool {
	return !now.Before(d.Until) || d.Since.After(now.Add(clocksDiffer))
}

// Due returns what j waits for by the clock alone: a retry, a launch that was refused, or the gate that holds j up.
// ever is false if it does not wait for that.
func (j *Job) Due() (d Delay, ever bool) {
	st := &j.State
	if st.Status == FailedRetryable || st.Status == Queued {
		d.Until = st.RetryAt
		if !d.Until.IsZero() && !j.awaitsLimit() { // before the limit is lifted an attempt only meets it again
			d.Since = st.RetryAt.Add(-j.backoff())
		}
		return d, true
	}
	for i := range gates {
		if g := &gates[i]; g.clock != nil && g.onWait == st.Status && g.kind == st.Wait.Kind {
			d.Until = g.clock(j)
		}
	}
	return d, !d.Until.IsZero()
}

// Delayed returns until when the failure of j's last attempt, or the refusal of its launch, holds it up at now; zero: no longer,
// or that it does not.
func (j *Job) Delayed(now time.Time) time.Time {
	if st := j.State.Status; st != FailedRetryable && st != Queued {
		return time.Time{}
	} else if d, _ := j.Due(); !d.Over(now) {
		return d.Until
	}
	return time.Time{}
}

// lists are positions of jobs, in schedule order, that a tick, its probes or its wakes
// visit. There may be few such jobs among many.
type lists struct {
	running   []int32
	waiters   []int32 // for locks, pools or slots
	inLine    []int32 // those of waiters that wait only for a slot: see Job.inLine
	timed     []int32 // the clock may move these: see Job.Due
	outsiders []int32 // something that no job makes may move these: see Job.outside
	deferred  []int32 // their routes wait, or they wait for such routes
}

// index rebuilds the lists.
func (s *Snapshot) index() {
	s.lists = lists{}
	for i, j := range s.jobs {
		s.relist(int32(i), nil, j)
	}
}

// move is the replacement of a job: its position, and the job before it.
type move struct {
	at   int32
	from *Job
}

// reindex updates the lists, which s must not share with another snapshot.
func (s *Snapshot) reindex(moved []move) {
	const few = 64
	if len(moved) > few {
		s.index()
		return
	}
	for _, m := range moved {
		s.relist(m.at, m.from, s.jobs[m.at])
	}
}

// relist updates the lists for the job at position i after it changed from was to is: the
// job leaves and joins lists accordingly. A nil was means that it is on no list yet.
func (s *Snapshot) relist(i int32, was, is *Job) {
	for _, l := range []struct {
		list *[]int32
		has  func(*Job) bool
	}{
		{&s.running, func(j *Job) bool { return j.State.Status == Running }},
		{&s.waiters, func(j *Job) bool { return j.State.Status == WaitingOnLocks }},
		{&s.inLine, func(j *Job) bool { return j.State.Status == WaitingOnLocks && j.inLine() }},
		{&s.timed, func(j *Job) bool { _, ever := j.Due(); return ever }},
		{&s.outsiders, (*Job).outside},
		{&s.deferred, (*Job).deferred},
	} {
		leaves, joins := was != nil && l.has(was), l.has(is)
		if leaves == joins {
			continue
		}
		switch k, there := slices.BinarySearch(*l.list, i); {
		case joins && !there:
			*l.list = slices.Insert(*l.list, k, i)
		case leaves && there:
			*l.list = slices.Delete(*l.list, k, k+1)
		}
	}
}

func (l lists) clone() lists {
	return lists{slices.Clone(l.running), slices.Clone(l.waiters), slices.Clone(l.inLine), slices.Clone(l.timed), slices.Clone(l.outsiders), slices.Clone(l.deferred)}
}
