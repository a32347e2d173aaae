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

// lookAgain is how often a watcher looks at runs that are open: what becomes of
// one may change no file of the inbox.
const lookAgain = time.Second

// Watch makes pass after pass until ctx ends: when something changes, when
// something is due, and in any case every poll. What a pass did goes to tell, and
// so does how runs of prompts end; a pass that failed is tried again, more and
// more seldom.
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
		if !errors.Is(err, ErrBusy) { // another watcher does the same
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
		free := time.After(min(max(minPause, time.Since(begun)), maxPause)) // much happening at once is one pass
		x.await(ctx, n, wait, tell)
		select {
		case <-ctx.Done():
		case <-free:
		}
	}
}

// await waits for as long as wait, or until something changes, and tells what
// becomes of open runs meanwhile.
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
