package main

import (
	"context"
	"time"

	"github.com/vizier-scheduler/vizier/adapters/fs"
)

// pace determines how long to wait before polling again: briefly after
// progress, then longer and longer.
type pace struct{ idle int }

var paces = [...]time.Duration{15 * time.Millisecond, 40 * time.Millisecond, 80 * time.Millisecond, 160 * time.Millisecond, 240 * time.Millisecond}

// wait waits. Its error is the context's.
func (p *pace) wait(ctx context.Context, progress bool) error {
	if progress {
		p.idle = 0
	}
	d := paces[min(p.idle, len(paces)-1)]
	p.idle++
	return pause(ctx, d)
}

// news reports whether records may have changed since the last call, by the
// store's history or, if that is not available, by time.
type news struct {
	r    *repo
	at   fs.JournalOffset
	told time.Time // when it last reported a possible change
}

func (n *news) any() bool {
	if n.r.Changed != nil {
		ids, now, told := n.r.Changed(n.at)
		if n.at = now; told && len(ids) == 0 && time.Since(n.told) < readAll {
			return false
		}
	}
	n.told = time.Now()
	return true
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
