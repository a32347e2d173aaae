package main

import (
	"context"
	"time"

	"github.com/vizier-scheduler/vizier/adapters/fs"
	"github.com/vizier-scheduler/vizier/kernel"
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

// news reports which records may have changed since the last call, by the
// store's history or, if that is not available, by time.
type news struct {
	r    *repo
	at   fs.JournalOffset
	told time.Time // when it last reported that all may have changed
}

// changed returns the jobs whose records have changed. all reports that those of other jobs may have, too.
func (n *news) changed() (ids []kernel.JobID, all bool) {
	all = true
	if n.r.Changed != nil {
		var told bool
		ids, n.at, told = n.r.Changed(n.at)
		all = !told || time.Since(n.told) >= readAll
	}
	if all {
		n.told = time.Now()
	}
	return ids, all
}

func (n *news) any() bool {
	ids, all := n.changed()
	return all || len(ids) > 0
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
