package retention

import (
	"slices"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Policy bounds what is kept of ended jobs. A bound of 0 means no bound, so the
// zero value keeps everything.
type Policy struct {
	Age   time.Duration // since they ended
	Count int           // jobs
	Bytes int64         // of their files
}

// youngest is how long a job is kept after its end, unless a person asks to
// remove it: until then somebody may still wait for it, or enqueue a job after
// it.
const youngest = time.Hour

// Apply removes what exceeds the bounds of p, beginning with the jobs that ended first.
// Since no person asked for it, it keeps more than a GC: also jobs that own a
// worktree, jobs with an idempotency key, and jobs whose files were already
// removed and whose result stands. A run is removed as a whole or not at all,
// and dormant jobs only with their run. It removes nothing while a record is
// unreadable, because nobody knows what that record refers to.
//
// sizes holds the size of each job's files in bytes. A job without an entry has
// none; the entry of the empty id counts in addition. Once at least most jobs are
// to be removed, the rest is left to the next time; 0: no limit. The snapshot must
// hold every job.
func Apply(s *kernel.Snapshot, p Policy, sizes map[kernel.JobID]int64, most int) kernel.Plan {
	if p == (Policy{}) || len(s.UnreadableIDs()) > 0 {
		return kernel.Plan{}
	}
	batches := batchesOf(s, sizes)
	count, bytes := 0, sizes[""]
	for _, b := range batches {
		count, bytes = count+len(b.jobs), bytes+b.size
	}
	var gone []*kernel.Job
	for _, b := range batches {
		old := p.Age > 0 && s.Now().Sub(b.over) > p.Age
		if !old && (p.Count == 0 || count <= p.Count) && (p.Bytes == 0 || bytes <= p.Bytes) || most > 0 && len(gone) >= most {
			break // the batches that follow ended later
		}
		if !b.stays {
			gone = append(gone, b.jobs...)
			count, bytes = count-len(b.jobs), bytes-b.size
		}
	}
	return remove(s, gone)
}

// batch is a unit of removal: a run, or a job that belongs to none.
type batch struct {
	jobs   []*kernel.Job
	over   time.Time // when its last job ended
	size   int64
	ended  bool // a job has ended
	active bool // a job is active
	stays  bool
}

func (b *batch) add(j *kernel.Job, size int64) {
	b.jobs, b.size = append(b.jobs, j), b.size+size
	b.ended = b.ended || !j.Open()
	b.active = b.active || j.State.Deferred || j.Open() && j.State.Status != kernel.Unscheduled
	b.stays = b.stays || j.State.Context.Owned || j.Spec.IdempotencyKey != "" || !j.State.Removed.IsZero()
	if b.over.Before(over(j)) {
		b.over = over(j)
	}
}

// sleeps reports whether b has a dormant job: one that may be woken, and then
// needs what it refers to.
func (b *batch) sleeps() bool { return slices.ContainsFunc(b.jobs, (*kernel.Job).Open) }

// batchesOf returns the batches that have ended, in the order in which they
// ended. Those that must stay are marked.
func batchesOf(s *kernel.Snapshot, sizes map[kernel.JobID]int64) []*batch {
	jobs := s.Jobs()
	runs := map[kernel.RunID]*batch{}
	of := make(map[kernel.JobID]*batch, len(jobs))
	var all []*batch
	for _, j := range jobs {
		run := j.Spec.Origin.Run
		b := runs[run]
		if b == nil || run == "" {
			b = &batch{}
			runs[run], all = b, append(all, b)
		}
		b.add(j, sizes[j.ID])
		of[j.ID] = b
	}
	old := func(j *kernel.Job) bool {
		b := of[j.ID]
		return b.ended && !b.active && !b.stays && s.Now().Sub(b.over) > youngest
	}
	for again := true; again; {
		goes := map[kernel.JobID]bool{}
		for _, j := range collectable(s, old) {
			goes[j.ID] = true
		}
		again = false
		for _, j := range jobs {
			if b := of[j.ID]; !goes[j.ID] && !b.stays {
				b.stays, again = true, again || b.sleeps()
			}
		}
	}
	all = slices.DeleteFunc(all, func(b *batch) bool { return b.active || !b.ended })
	slices.SortStableFunc(all, func(a, b *batch) int { return a.over.Compare(b.over) })
	return all
}
