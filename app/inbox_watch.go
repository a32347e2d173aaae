package app

import (
	"context"
	"errors"
	"time"
)

// Notices tells when something in directories may have changed.
type Notices interface {
	// Watch looks at these directories and no others from now on, and reports
	// whether it began to look at one: a change before that may have been
	// missed.
	Watch(dirs []string) (fresh bool)

	Changed() <-chan struct{}
}

// Watch makes pass after pass until ctx ends: when something changes, when
// something is due, and in any case every poll. What a pass did goes to tell;
// one that failed is tried again, more and more seldom.
func (x *Inbox) Watch(ctx context.Context, n Notices, poll time.Duration, tell func(InboxReport, error)) {
	again := backoff{first: leastPause}
	var looked time.Time
	for ctx.Err() == nil {
		begun := time.Now()
		tick := begun.Sub(looked) >= poll
		if tick {
			looked = begun
		}
		rep, err := x.Once(ctx, tick)
		if ctx.Err() != nil {
			return
		}
		if !errors.Is(err, ErrBusy) { // another watcher does the same
			tell(rep, err)
		}
		wait := poll
		switch {
		case err != nil:
			wait = min(again.next(), poll)
		case n.Watch(rep.Dirs):
			wait = leastPause
		default:
			again.reset()
			if rep.Next > 0 {
				wait = min(wait, max(rep.Next, time.Millisecond))
			}
		}
		free := time.After(min(max(leastPause, time.Since(begun)), mostPause)) // much happening at once is one pass
		due := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-due.C:
		case <-n.Changed():
		}
		due.Stop()
		select {
		case <-ctx.Done():
		case <-free:
		}
	}
}
