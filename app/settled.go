package app

import (
	"context"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Looker is a caller that wants to see how jobs stand. What it does besides, a resident scheduler would do too: it
// settles jobs whose runners are gone, so that they are not shown as running (ADR 28), and lets jobs of other
// executors go on (ADR 39).
type Looker struct {
	Attended  func() bool   // reports whether a resident scheduler is alive
	Elsewhere func() bool   // reports whether another host schedules, which settles its jobs itself
	Mine      func() bool   // reports whether the store is this user's: else no scheduler is started for it
	All       bool          // whether jobs of other executors are looked at while a resident scheduler does that as well
	Refresh   bool          // whether executors are asked for new answers, if no resident scheduler does
	Forbidden string        // why the caller must neither tick nor start one; "": it may
	Patience  time.Duration // how long it waits for the answers of executors, and then for a tick
}

// Seen is what a Looker sees.
type Seen struct {
	Snapshot   *kernel.Snapshot
	Report     Report         // of its tick; zero: there was none
	Unsettled  []kernel.JobID // on record as running, although their runners are gone
	Why        string         // why they are not settled
	Failed     error          // of its tick
	Unattended *kernel.Job    // a job that goes on only with a resident scheduler, if none is alive and none may be started; nil: there is none
}

// Settled returns the result of read, with jobs settled whose runners are gone. It calls read once more if that
// changed something. An error is read's.
func (s *Scheduler) Settled(ctx context.Context, l Looker, read func() (*kernel.Snapshot, error)) (seen Seen, err error) {
	if seen.Snapshot, err = read(); err != nil {
		return seen, err
	}
	alone := len(s.Executors) > 0 && !l.Attended()
	lost := func() []kernel.JobID {
		within, stop := context.WithTimeout(ctx, l.Patience)
		defer stop()
		if alone && l.Refresh {
			s.Refresh(within, seen.Snapshot.Jobs()...)
		}
		next, ids := s.Lost(within, seen.Snapshot, alone || l.All)
		seen.Snapshot = next
		return ids
	}
	if gone := lost(); len(gone) > 0 && !l.Elsewhere() {
		seen.Unsettled, seen.Why = gone, l.Forbidden
		if seen.Why == "" {
			within, stop := context.WithTimeout(ctx, l.Patience)
			defer stop()
			if seen.Report, seen.Failed = s.Tick(within); seen.Failed != nil {
				seen.Why = seen.Failed.Error()
			} else if seen.Snapshot, err = read(); err != nil {
				return seen, err
			} else {
				seen.Unsettled = lost()
			}
		}
	}
	if alone {
		seen.Unattended = s.attend(ctx, l)
	}
	return seen, nil
}

// attend starts a resident scheduler if jobs elsewhere need one and none is alive. If it may not, it returns such a job.
func (s *Scheduler) attend(ctx context.Context, l Looker) *kernel.Job {
	resting, err := s.NeedResident(ctx)
	if err != nil || len(resting) == 0 || l.Attended() || !l.Mine() {
		return nil
	}
	if l.Forbidden != "" || s.Waker == nil {
		return resting[0]
	}
	s.Waker.Wake(kernel.Wakes{Poll: true})
	return nil
}
