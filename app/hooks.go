package app

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Hooks passes events from a transaction to the operator's commands.
type Hooks interface {
	// Wants reports whether a hook is configured for events of that kind.
	Wants(kernel.EventKind) bool

	// Wake makes sure that a process runs the hooks of the pending events. It
	// never fails: if it could not start one, the next transaction tries again.
	Wake()
}

// announced returns p, which leads to after, with a record of each event that a
// hook is configured for, so that events are as durable as the changes that
// they report.
func (s *Scheduler) announced(p kernel.Plan, after *kernel.Snapshot, events []kernel.Event) kernel.Plan {
	if s.Hooks == nil {
		return p
	}
	p.Records = slices.Clone(p.Records)
	for _, e := range events {
		if !s.Hooks.Wants(e.Kind) {
			continue
		}
		a := kernel.Announce{Event: e}
		if e.Job == "" {
			a.Beside = changedOf(p, after, e.Run)
		}
		if a.Subject() != "" {
			p.Records = append(p.Records, a)
		}
	}
	return p
}

// changedOf returns the last job of a run that p changes.
func changedOf(p kernel.Plan, after *kernel.Snapshot, run kernel.RunID) kernel.JobID {
	for _, a := range slices.Backward(p.Records) {
		if j := after.Job(a.Subject()); j != nil && j.Spec.Origin.Run == run {
			return j.ID
		}
	}
	return ""
}

// PendingEvents is the queue of events whose hooks have not all run yet.
type PendingEvents interface {
	Pending() ([]kernel.Event, error)

	// Ack removes an event: all its hooks have run.
	Ack(kernel.Event) error
}

// Hook is one of the operator's commands.
type Hook struct {
	Name string
	On   []kernel.EventKind

	// Run runs the command. It returns once the command and everything that it
	// left running are gone. Its error says how it failed.
	Run func(context.Context, kernel.Event) error
}

// HookDispatcher runs the hooks of pending events, in no particular order. It
// acknowledges an event after its last hook. After a crash an unacknowledged
// event is dispatched again, so each hook runs at least once.
type HookDispatcher struct {
	Pending PendingEvents
	Hooks   func() []Hook // returns the hooks that are configured now
	Events  EventLog
	Now     func() time.Time
}

// maxHooks is how many events are dispatched at once.
const maxHooks = 4

// hookPoll is how often the queue is read while hooks run.
const hookPoll = 200 * time.Millisecond

// Serve dispatches events until none is pending. An event that is being
// dispatched is not begun again: it leaves busy only between two reads of the
// queue, so that a list read before its Ack does not make it look new.
func (d *HookDispatcher) Serve(ctx context.Context) error {
	type end struct {
		of  kernel.Event
		err error
	}
	busy, ended := map[kernel.Event]bool{}, make(chan end)
	places := make(chan struct{}, maxHooks)
	var failed error
	for {
		list, err := d.Pending.Pending()
		if err != nil && failed == nil {
			failed = err
		}
		hooks := d.Hooks()
		for _, e := range list {
			if !busy[e] && failed == nil {
				busy[e] = true
				go func() { ended <- end{e, d.dispatch(ctx, e, hooks, places)} }()
			}
		}
		if len(busy) == 0 && (len(list) == 0 || failed != nil) {
			return failed
		}
		for again := time.After(hookPoll); len(busy) > 0 && again != nil; { // the queue may be long, so it is not read for each event
			select {
			case x := <-ended:
				delete(busy, x.of)
				if failed == nil {
					failed = x.err
				}
			case <-again:
				again = nil
			}
		}
	}
}

// dispatch runs those of hooks that are configured for e, one after another,
// and acknowledges e.
func (d *HookDispatcher) dispatch(ctx context.Context, e kernel.Event, hooks []Hook, places chan struct{}) error {
	places <- struct{}{}
	defer func() { <-places }()
	for _, h := range hooks {
		if !slices.Contains(h.On, e.Kind) {
			continue
		}
		if err := h.Run(ctx, e); err != nil {
			f := e
			f.At, f.Kind, f.Exit, f.Class, f.Reason = d.Now(), kernel.HookFailed, kernel.ExitCode{}, kernel.NoFailure, fmt.Sprintf("hook %s: %v", h.Name, err)
			_ = d.Events.AppendEvents([]kernel.Event{f}) // the error is ignored: the event is history, and the hook's log says the same
		}
	}
	return d.Pending.Ack(e)
}
