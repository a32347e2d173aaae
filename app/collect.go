package app

import (
	"context"
	"errors"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/history"
	"github.com/vizier-scheduler/vizier/kernel/retention"
)

// Bounds of automatic collection: how many jobs are removed under one lock, so
// that nobody waits for it for long, and the time between two collections.
const (
	mostAtOnce   = 200
	collectEvery = time.Hour
)

// Collection removes the jobs that Scheduler.Keep does not keep, a part at a
// time.
type Collection struct {
	Jobs []kernel.JobID // what is left to remove, as of when the collection began

	s     *Scheduler
	sizes map[kernel.JobID]int64
}

// Collect prepares a collection. It changes nothing.
func (s *Scheduler) Collect(ctx context.Context) (*Collection, error) {
	if s.Keep == (retention.Policy{}) { // all jobs stay
		return &Collection{s: s}, nil
	}
	snap, err := s.Snapshot(ctx, kernel.Scope{All: true}) // markers decide what must stay
	c := &Collection{s: s}
	if err != nil {
		return c, err
	}
	if s.Keep.Bytes > 0 && s.Cleaner != nil {
		var ended []kernel.JobID
		for _, j := range snap.Jobs() {
			if !j.Open() {
				ended = append(ended, j.ID)
			}
		}
		c.sizes = s.Cleaner.Sizes(ctx, ended)
	}
	c.Jobs = removed(retention.Apply(snap, s.Keep, c.sizes, 0))
	return c, nil
}

// Next removes one part, if there is something to remove, and reports whether
// there may be more. The last part records that the collection is complete.
func (c *Collection) Next(ctx context.Context) (rep Report, more bool, err error) {
	if len(c.Jobs) > 0 {
		rep, err = c.s.transact(ctx, kernel.Scope{All: true}, verb{decide: func(snap *kernel.Snapshot) (kernel.Plan, []history.Verb, error) {
			keep := retention.Keeping{Policy: c.s.Keep, Sizes: c.sizes, Most: mostAtOnce}
			p, err := keep.Decide(snap)
			more = len(removed(p)) >= mostAtOnce
			return p, []history.Verb{keep.Short(snap, p)}, err
		}})
		if err == nil {
			err = c.s.dropMergesOf(ctx, rep)
		}
	}
	if err == nil && !more && c.s.Cleaner != nil {
		err = errors.Join(c.s.Cleaner.TrimHistory(ctx), c.s.dropRefs(ctx), c.s.Cleaner.NoteCollected())
	}
	return rep, more, err
}

// dropRefs drops the refs that nobody needs any more. What was parked and had only been staged is kept no longer than jobs.
func (s *Scheduler) dropRefs(ctx context.Context) error {
	trees, ok := s.Worktrees.(refDropper)
	if !ok {
		return nil
	}
	err := trees.DropHeld(ctx)
	if s.Keep.Age > 0 {
		err = errors.Join(err, trees.DropStaged(ctx, s.Now().Add(-s.Keep.Age)))
	}
	return err
}

func removed(p kernel.Plan) (ids []kernel.JobID) {
	for _, a := range p.Records {
		if gone, ok := a.(kernel.RemoveJob); ok {
			ids = append(ids, gone.Job)
		}
	}
	return ids
}

// collect removes one part of what need not be kept, unless that was done
// recently. It reports whether it removed something, which changes the world.
func (r *Resident) collect(ctx context.Context) bool {
	s := r.Scheduler
	if s.Cleaner == nil {
		return false
	}
	if r.collection == nil {
		if now := s.Now(); since(now, r.collected) < collectEvery || since(now, s.Cleaner.Collected()) < collectEvery {
			return false
		}
		r.collected = s.Now() // set first, so that a failing collection is not repeated all the time
		c, err := s.Collect(ctx)
		if err != nil {
			return false
		}
		r.collection = c
	}
	rep, more, err := r.collection.Next(ctx)
	if err != nil || !more {
		r.collection = nil
	}
	return len(rep.Applied) > 0
}

// packer is a Tx that can pack the files of jobs, which saves space.
type packer interface {
	// Pack packs the files of at most most jobs that ended before the given
	// time. It reports whether there may be more, and the next call gets on with that.
	Pack(ended time.Time, most int) (more bool, err error)
}

// How many jobs are packed per acquisition of the lock, and how long to wait
// for the lock.
const (
	packedAtOnce = 64
	packWaits    = 100 * time.Millisecond
)

// Pack packs the files of jobs that ended longer than PackAfter ago. It stops
// early rather than keep others waiting for the lock, and when ctx ends.
func (s *Scheduler) Pack(ctx context.Context) error {
	if s.PackAfter <= 0 || s.Sandboxed {
		return nil
	}
	for {
		more, err := s.packSome(ctx)
		if errors.Is(err, ErrBusy) || errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil { // others use the store
			return nil
		}
		if err != nil || !more {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

func (s *Scheduler) packSome(ctx context.Context) (more bool, err error) {
	ctx, stop := context.WithTimeout(ctx, packWaits)
	defer stop()
	tx, err := s.Store.Begin(ctx)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, tx.Close()) }()
	if p, can := tx.(packer); can {
		return p.Pack(s.Now().Add(-s.PackAfter), packedAtOnce)
	}
	return false, nil
}

// since returns how long ago at was. A time in the future, from a clock that
// was wrong, counts as never.
func since(now, at time.Time) time.Duration {
	if at.After(now) {
		at = time.Time{}
	}
	return now.Sub(at)
}
