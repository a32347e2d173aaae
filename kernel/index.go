package kernel

import (
	"slices"
	"time"
)

// Due returns when the clock alone moves j: a retry, a launch that was refused, or the gate
// that holds j up. The zero time means at the next tick; ever is false if the clock never
// does.
func (j *Job) Due() (at time.Time, ever bool) {
	st := &j.State
	if st.Status == FailedRetryable || st.Status == Queued {
		return st.RetryAt, true
	}
	for i := range gates {
		if g := &gates[i]; g.clock != nil && g.onWait == st.Status && g.kind == st.Wait.Kind {
			at = g.clock(j)
		}
	}
	return at, !at.IsZero()
}

// lists are positions of jobs, in schedule order, that a tick, its probes or its wakes
// visit. There may be few such jobs among many.
type lists struct {
	running   []int32
	waiters   []int32 // for locks, pools or slots
	inLine    []int32 // those of waiters that wait only for a slot: see Job.inLine
	timed     []int32 // the clock may move these: see Job.Due
	outsiders []int32 // something that no job makes may move these: see Job.outside
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
	return lists{slices.Clone(l.running), slices.Clone(l.waiters), slices.Clone(l.inLine), slices.Clone(l.timed), slices.Clone(l.outsiders)}
}
