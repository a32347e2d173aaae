package app

import (
	"context"
	"errors"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Waker is how a transaction hands over the jobs that only time or the outside
// world can move: no command and no runner will tick for them.
type Waker interface {
	// Wake makes sure that a resident scheduler runs and knows of w. It never
	// fails: without a resident scheduler, the next command ticks.
	Wake(w kernel.Wakes)
}

// LeaderLock makes one process the resident scheduler of its repository. The
// lock that a Resident is given is already held.
type LeaderLock interface {
	// Held reports whether the lock file is still there and belongs to the caller.
	Held() bool

	// Announce publishes what the holder looks after: a transaction that leaves
	// exactly that behind need not wake it. Nil means that the holder is about
	// to look, so that every transaction wakes it.
	Announce(*kernel.Wakes)

	// Release gives the lock up; Reacquire takes it again and reports whether
	// it could.
	Release()
	Reacquire() bool
}

// Watcher tells when the facts that jobs wait for may have changed, and when a
// Waker wakes the resident scheduler.
type Watcher interface {
	// Watch watches from now on what p names and nothing else. Fresh means that
	// at least one watch is new: a change just before it may have been missed.
	// Complete means that everything in p is watched.
	Watch(p kernel.Probes) (fresh, complete bool)

	// Changed has a value when a tick may find something to do, Touched when
	// the working tree may have become clean.
	Changed() <-chan struct{}
	Touched() <-chan struct{}
}

// RunnerWatcher tells when runners end.
type RunnerWatcher interface {
	// Watch watches the runners of these attempts and no others, and reports
	// whether it can watch all of them.
	Watch([]kernel.AttemptID) bool

	// Ended has a value when one of them has ended.
	Ended() <-chan struct{}
}

// Resident ticks when time or the outside world lets a job go on. It makes the
// same decisions as a command, and holds nothing that others need: when it dies,
// the next transaction starts another.
type Resident struct {
	Scheduler *Scheduler
	Lock      LeaderLock
	Watcher   Watcher
	Runners   RunnerWatcher
	Linger    time.Duration // how long it stays when nothing is left to look after
	Outdated  func() bool   // whether another is to take over: the configuration changed
	Starved   func() bool   // whether this process lacks what it takes to start others; nil: never

	collection *Collection // under way; nil: none is
	collected  time.Time   // when it began the last one
}

// Pauses of a resident, and how often it looks if nothing tells it when to.
const (
	minPause        = 20 * time.Millisecond // between two ticks, however much happens
	pauseRatio      = 4                     // pause after a tick, as a multiple of its duration: others use the machine
	maxPause        = time.Second
	endPause        = 100 * time.Millisecond // at most, once a runner has ended: a tick may take long only because others use the machine
	firstRetry      = 200 * time.Millisecond
	firstCleanCheck = time.Second     // before the first look at the working tree
	quietAfter      = 5 * time.Second // without news: then it packs and collects old jobs, and gives its memory back
	maxWait         = time.Minute     // whatever else is known: clocks jump, notices get lost
)

// Serve ticks until nothing is left to look after, the lock is lost, ctx ends, or the
// process is starved or the journal has reached its limit on the size of files. It reports whether another process is to take over.
func (r *Resident) Serve(ctx context.Context) (outdated bool) {
	retry, cleanCheck := backoff{first: firstRetry}, backoff{first: firstCleanCheck}
	for ctx.Err() == nil && r.Lock.Held() {
		if r.Outdated() {
			r.Lock.Release()
			return true
		}
		begun := time.Now()
		w, sure, err := r.tick(ctx)
		if errors.Is(err, syscall.EFBIG) || r.Starved != nil && r.Starved() { // whoever starts the next resident has more, or learns that there is none
			r.Lock.Release()
			return false
		}
		done := time.Now()
		took, why := done.Sub(begun), nothing
		if sure {
			retry.reset()
		}
		if w.Idle() && sure {
			if r.lingerOrLeave(ctx) {
				return false
			}
		} else if why = r.await(ctx, w, sure, &retry, &cleanCheck); why != nothing {
			retry.reset()
			cleanCheck.reset()
		}
		r.rest(ctx, done, took, why == ended)
	}
	return false
}

// tick ticks, and watches everything that has to be watched afterwards. sure is
// false if something cannot be watched: then only another tick finds out.
func (r *Resident) tick(ctx context.Context) (w kernel.Wakes, sure bool, err error) {
	for range 3 {
		r.Lock.Announce(nil)
		rep, err := r.Scheduler.Tick(ctx)
		if err != nil {
			return w, false, err
		}
		w = rep.Wakes
		fresh, complete := r.Watcher.Watch(w.Outside)
		sure = r.Runners.Watch(w.Attempts()) && complete && !w.Poll
		if !fresh {
			r.Lock.Announce(&w)
			return w, sure, nil
		}
	}
	return w, false, nil // much is happening: look again soon
}

// lingerOrLeave waits to be woken. If that does not happen, it gives the lock up
// and reports true.
func (r *Resident) lingerOrLeave(ctx context.Context) (left bool) {
	linger := time.NewTimer(r.Linger)
	defer linger.Stop()
	select {
	case <-ctx.Done():
		return true
	case <-r.Watcher.Changed():
		return false
	case <-linger.C:
	}
	if r.Outdated() { // where nothing can be watched
		return false
	}
	_ = r.Scheduler.Pack(ctx)
	if r.collect(ctx) {
		return false
	}
	r.Lock.Release()
	// A transaction that found the lock taken until now relied on its holder.
	snap, err := r.Scheduler.Snapshot(ctx, kernel.Scope{})
	return err != nil || snap.Wakes().Idle() || !r.Lock.Reacquire()
}

// rest leaves the machine to others after a tick that was done at the given time and took so
// long. It ends sooner if a runner has ended.
func (r *Resident) rest(ctx context.Context, done time.Time, took time.Duration, ended bool) {
	soon := done.Add(min(max(minPause, took), endPause))
	if pause(ctx, time.Until(soon)); ended {
		return
	}
	late := time.NewTimer(time.Until(done.Add(min(pauseRatio*took, maxPause))))
	defer late.Stop()
	select {
	case <-ctx.Done():
	case <-r.Runners.Ended():
	case <-late.C:
	}
}

// cue is why it is time for a tick.
type cue int

const (
	nothing cue = iota // only time went by
	changed
	ended // a runner has
)

// await waits until it is time for a tick, and returns why.
func (r *Resident) await(ctx context.Context, w kernel.Wakes, sure bool, retry, cleanCheck *backoff) cue {
	wait := maxWait
	if !w.At.IsZero() {
		wait = min(wait, max(0, w.At.Sub(r.Scheduler.Now())))
	}
	if left := w.Overdue.Sub(r.Scheduler.Now()); left > 0 { // else the last tick could not end it
		wait = min(wait, left)
	}
	if !sure {
		wait = min(wait, retry.next())
	}
	due := time.NewTimer(wait)
	defer due.Stop()
	tree := time.NewTimer(maxWait + time.Second)
	defer tree.Stop()
	if w.Outside.Clean {
		tree.Reset(cleanCheck.next())
	}
	slim := time.NewTimer(quietAfter)
	defer slim.Stop()
	for {
		select {
		case <-ctx.Done():
			return nothing
		case <-due.C:
			return nothing
		case <-slim.C:
			_ = r.Scheduler.Pack(ctx) // the error is ignored: the next one packs what is left
			if r.collect(ctx) {
				return changed
			}
			debug.FreeOSMemory()
		case <-r.Watcher.Changed():
			return changed
		case <-r.Runners.Ended():
			return ended
		case <-r.Watcher.Touched():
			cleanCheck.reset()
			tree.Reset(minPause)
		case <-tree.C:
			if r.treeIsClean(ctx) {
				return changed
			}
			tree.Reset(cleanCheck.next())
		}
	}
}

// treeIsClean reports whether the working tree is known to be clean. It takes no
// lock.
func (r *Resident) treeIsClean(ctx context.Context) bool {
	f := kernel.NewFacts()
	for _, o := range r.Scheduler.Observers {
		o.Observe(ctx, kernel.Probes{Clean: true}, &f)
	}
	return f.Clean.Known && f.Clean.Value
}

// backoff is a pause that doubles up to maxWait.
type backoff struct{ first, now time.Duration }

func (b *backoff) reset() { b.now = 0 }

func (b *backoff) next() time.Duration {
	b.now = min(max(2*b.now, b.first), maxWait)
	return b.now
}

func pause(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
