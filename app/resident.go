package app

import (
	"context"
	"runtime/debug"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Lookout is how a transaction leaves to others what no command and no runner
// will see to.
type Lookout interface {
	// Call makes sure that a resident scheduler looks after w and knows of it.
	// It cannot fail: where there is none, the next command ticks.
	Call(w kernel.Wakes)
}

// Post is the place of the one resident scheduler that a repository has. The
// caller holds it.
type Post interface {
	// Held reports that the place exists and is still the caller's.
	Held() bool

	// Announce says what the holder looks after: who leaves just that behind
	// need not call. Nil says that the holder is about to look.
	Announce(*kernel.Wakes)

	// Leave gives the place up; Retake reports whether it could be had again.
	Leave()
	Retake() bool
}

// Outside tells when what jobs wait for may have changed, and when the holder
// of the post is called.
type Outside interface {
	// Watch looks at what p names from now on, and at nothing else. It reports
	// whether it began to look at something, so that a change before that may
	// have been missed, and whether it can look at all of it.
	Watch(p kernel.Probes) (fresh, complete bool)

	// Changed has a value when a tick may find something to do, Touched when
	// the working tree may have become clean.
	Changed() <-chan struct{}
	Touched() <-chan struct{}
}

// Runners tells when runners end.
type Runners interface {
	// Watch looks at the runners of these attempts and no others, and reports
	// whether it can look at all of them.
	Watch([]kernel.AttemptID) bool

	// Ended has a value when one of them has ended.
	Ended() <-chan struct{}
}

// Resident ticks when time or the outside world lets a job go on. It decides
// nothing that a command would not, and holds nothing that anyone needs: when
// it dies, the next transaction starts another.
type Resident struct {
	Scheduler *Scheduler
	Post      Post
	Outside   Outside
	Runners   Runners
	Linger    time.Duration // how long it stays when nothing is left to look after
	Outdated  func() bool   // whether another is to take over: the configuration changed
}

// How often the resident looks where nothing tells it when to.
const (
	leastPause   = 20 * time.Millisecond // between two ticks, however much happens
	restOfWork   = 4                     // times as long as the tick took: the machine is not its own
	mostPause    = time.Second
	firstAgain   = 200 * time.Millisecond
	firstLook    = time.Second     // at the working tree
	dormantAfter = 5 * time.Second // without news: memory counts from here on
	longestWait  = time.Minute     // whatever else is known: clocks jump, notices get lost
)

// Serve looks after the repository until nothing is left to look after, the
// post is lost or ctx ends. It reports whether another is to take over.
func (r *Resident) Serve(ctx context.Context) (outdated bool) {
	again, look := backoff{first: firstAgain}, backoff{first: firstLook}
	for ctx.Err() == nil && r.Post.Held() {
		if r.Outdated() {
			r.Post.Leave()
			return true
		}
		begun := time.Now()
		w, sure := r.tick(ctx)
		free := time.Now().Add(min(max(leastPause, restOfWork*time.Since(begun)), mostPause))
		if sure {
			again.reset()
		}
		switch {
		case w.Idle() && sure:
			if r.idle(ctx) {
				return false
			}
		case r.rest(ctx, w, sure, &again, &look):
			again.reset()
			look.reset()
		}
		pause(ctx, time.Until(free))
	}
	return false
}

// tick ticks and sees that all the tick leaves is watched. It reports false
// where something is not, so that only another tick will tell.
func (r *Resident) tick(ctx context.Context) (w kernel.Wakes, sure bool) {
	for range 3 {
		r.Post.Announce(nil)
		rep, err := r.Scheduler.Tick(ctx)
		if err != nil {
			return w, false
		}
		w = rep.Wakes
		fresh, complete := r.Outside.Watch(w.Outside)
		sure = r.Runners.Watch(w.Attempts()) && complete && !w.Poll
		if !fresh {
			r.Post.Announce(&w)
			return w, sure
		}
	}
	return w, false // much is happening: look again soon
}

// idle waits for someone to call, and reports that the resident has left:
// nobody did.
func (r *Resident) idle(ctx context.Context) (left bool) {
	linger := time.NewTimer(r.Linger)
	defer linger.Stop()
	select {
	case <-ctx.Done():
		return true
	case <-r.Outside.Changed():
		return false
	case <-linger.C:
	}
	r.Post.Leave()
	// Who found the post taken until now relied on it.
	snap, err := r.Scheduler.Snapshot(ctx, kernel.Scope{})
	return err != nil || snap.Wakes().Idle() || !r.Post.Retake()
}

// rest returns when it is time for a tick, and reports whether that is because
// something happened.
func (r *Resident) rest(ctx context.Context, w kernel.Wakes, sure bool, again, look *backoff) (news bool) {
	wait := longestWait
	if !w.At.IsZero() {
		wait = min(wait, max(0, w.At.Sub(r.Scheduler.Now())))
	}
	if left := w.Overdue.Sub(r.Scheduler.Now()); left > 0 { // else the tick could not end it
		wait = min(wait, left)
	}
	if !sure {
		wait = min(wait, again.next())
	}
	due := time.NewTimer(wait)
	defer due.Stop()
	tree := time.NewTimer(longestWait + time.Second)
	defer tree.Stop()
	if w.Outside.Clean {
		tree.Reset(look.next())
	}
	slim := time.NewTimer(dormantAfter)
	defer slim.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-due.C:
			return false
		case <-slim.C:
			debug.FreeOSMemory()
		case <-r.Outside.Changed():
			return true
		case <-r.Runners.Ended():
			return true
		case <-r.Outside.Touched():
			look.reset()
			tree.Reset(leastPause)
		case <-tree.C:
			if r.clean(ctx) {
				return true
			}
			tree.Reset(look.next())
		}
	}
}

// clean reports that the working tree is clean, as far as can be told. It
// takes no lock.
func (r *Resident) clean(ctx context.Context) bool {
	f := kernel.NewFacts()
	for _, o := range r.Scheduler.Observers {
		o.Observe(ctx, kernel.Probes{Clean: true}, &f)
	}
	return f.Clean.Known && f.Clean.Value
}

// backoff is a pause that doubles up to longestWait.
type backoff struct{ first, now time.Duration }

func (b *backoff) reset() { b.now = 0 }

func (b *backoff) next() time.Duration {
	b.now = min(max(2*b.now, b.first), longestWait)
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
