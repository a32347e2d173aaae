package kernel

import (
	"slices"
	"time"
)

// Retention bounds what is kept of jobs that have ended. A bound of 0 is none,
// and the zero value keeps everything.
type Retention struct {
	Age   time.Duration // since they ended
	Count int           // jobs
	Bytes int64         // of their files
}

// youngest is how long ago a job has ended at least that goes without anybody
// asking for it: somebody may still wait for it, or enqueue a job after it.
const youngest = time.Hour

// Retain removes what r need not keep, those that ended first first, as far as
// that takes. Nobody asked for it, so besides what a GC keeps it keeps what a
// person or a script may come back to: jobs that own a worktree, jobs with an
// idempotency key, and those whose files are gone and whose result stands. A
// run goes whole or not at all, and sleepers only with their run. While a record
// cannot be read, nobody knows what it refers to, and nothing goes.
//
// sizes are the bytes of jobs' files; a job that is not there has none. Once
// most jobs go, the rest is left to the next time; 0: all go.
// The snapshot must hold every job.
func Retain(s *Snapshot, r Retention, sizes map[JobID]int64, most int) Plan {
	var p Plan
	if r == (Retention{}) || len(s.unreadable) > 0 {
		return p
	}
	batches := s.batches(sizes)
	count, bytes := 0, int64(0)
	for _, b := range batches {
		count, bytes = count+len(b.jobs), bytes+b.size
	}
	gone := 0
	for _, b := range batches {
		old := r.Age > 0 && s.now.Sub(b.over) > r.Age
		if !old && (r.Count == 0 || count <= r.Count) && (r.Bytes == 0 || bytes <= r.Bytes) || most > 0 && gone >= most {
			break // those that follow are younger
		}
		if b.stays {
			continue
		}
		for _, j := range b.jobs {
			p.add(RemoveJob{j.ID, j.Spec.Produces})
		}
		count, bytes, gone = count-len(b.jobs), bytes-b.size, gone+len(b.jobs)
	}
	s.dropEmptied(&p)
	return p
}

// batch is what goes together: a run, or a job without one.
type batch struct {
	jobs   []*Job
	over   time.Time // when the last of them ended
	size   int64
	ended  bool // one did
	active bool // one goes on
	stays  bool
}

func (b *batch) add(j *Job, size int64) {
	b.jobs, b.size = append(b.jobs, j), b.size+size
	b.ended = b.ended || !j.Open()
	b.active = b.active || j.Open() && j.State.Status != Unscheduled
	b.stays = b.stays || j.State.Context.Owned || j.Spec.IdempotencyKey != "" || !j.State.Removed.IsZero()
	if b.over.Before(j.over()) {
		b.over = j.over()
	}
}

// sleeps reports that a job of b may be woken, and then needs what it refers to.
func (b *batch) sleeps() bool { return slices.ContainsFunc(b.jobs, (*Job).Open) }

// batches are all that have ended, those that ended first first.
func (s *Snapshot) batches(sizes map[JobID]int64) []*batch {
	s.requireAll()
	runs := map[RunID]*batch{}
	of := make(map[JobID]*batch, len(s.jobs))
	var all []*batch
	for _, j := range s.jobs {
		run := j.Spec.Origin.Run
		b := runs[run]
		if b == nil || run == "" {
			b = &batch{}
			runs[run], all = b, append(all, b)
		}
		b.add(j, sizes[j.ID])
		of[j.ID] = b
	}
	old := func(j *Job) bool {
		b := of[j.ID]
		return b.ended && !b.active && !b.stays && s.now.Sub(b.over) > youngest
	}
	for again := true; again; {
		goes := map[JobID]bool{}
		for _, j := range s.collectable(old) {
			goes[j.ID] = true
		}
		again = false
		for _, j := range s.jobs {
			if b := of[j.ID]; !goes[j.ID] && !b.stays {
				b.stays, again = true, again || b.sleeps()
			}
		}
	}
	all = slices.DeleteFunc(all, func(b *batch) bool { return b.active || !b.ended })
	slices.SortStableFunc(all, func(a, b *batch) int { return a.over.Compare(b.over) })
	return all
}
