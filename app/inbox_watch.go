package app

import (
	"context"
	"errors"
	"time"
)

// Notices reports that something in directories may have changed.
type Notices interface {
	// Watch sets the directories to watch. It reports whether one of them is
	// new: changes in it before this call may have been missed.
	Watch(dirs []string) (fresh bool)

	Changed() <-chan struct{}
}

// lookAgain is how often a watcher looks at open runs. Their progress need not
// change a file of the inbox.
const lookAgain = time.Second

// Watch makes passes until ctx ends: when something changes, when something is
// due, and at least once per poll. It calls tell with the result of each pass
// and with the ends of runs. A failed pass is repeated at growing intervals.
func (x *Inbox) Watch(ctx context.Context, n Notices, poll time.Duration, tell func(InboxReport, error)) {
	x.news = &news{}
	again := backoff{first: minPause}
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
		if !errors.Is(err, ErrBusy) { // ErrBusy means that another watcher is at work
			tell(rep, err)
		}
		wait := poll
		switch {
		case err != nil:
			wait = min(again.next(), poll)
		case n.Watch(rep.Dirs):
			wait = minPause
		default:
			again.reset()
			if rep.Next > 0 {
				wait = min(wait, max(rep.Next, time.Millisecond))
			}
		}
		free := time.After(min(max(minPause, time.Since(begun)), maxPause)) // many changes at once are handled by one pass
		x.await(ctx, n, wait, tell)
		select {
		case <-ctx.Done():
		case <-free:
		}
	}
}

// await waits for the given time or until something changes. Meanwhile it
// reports what becomes of open runs.
func (x *Inbox) await(ctx context.Context, n Notices, wait time.Duration, tell func(InboxReport, error)) {
	due := time.NewTimer(wait)
	defer due.Stop()
	for {
		var look <-chan time.Time
		if len(x.news.open) > 0 {
			look = time.After(lookAgain)
		}
		select {
		case <-ctx.Done():
			return
		case <-due.C:
			return
		case <-n.Changed():
			return
		case <-look:
			var rep InboxReport
			x.news.look(ctx, x, nil, &rep)
			tell(rep, nil)
		}
	}
}
