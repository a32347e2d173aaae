package app

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Hooks is how a transaction leaves the ends of jobs to the operator's
// commands.
type Hooks interface {
	// Wants reports that a command asks for events of that kind.
	Wants(kernel.EventKind) bool

	// Call makes sure that somebody sees to the ends that are pending. It cannot
	// fail: where nobody is, the next transaction calls again.
	Call()
}

// announced is p with the ends that a hook wants to hear of: they are as
// durable as what they tell.
func (s *Scheduler) announced(p kernel.Plan, events []kernel.Event) kernel.Plan {
	if s.Hooks == nil {
		return p
	}
	p.Records = slices.Clone(p.Records)
	for _, e := range events {
		if e.Job != "" && s.Hooks.Wants(e.Kind) {
			p.Records = append(p.Records, kernel.Announce{Event: e})
		}
	}
	return p
}

// Pending are the ends that hooks are still to be told of.
type Pending interface {
	Pending() ([]kernel.Event, error)

	// Told forgets one.
	Told(kernel.Event) error
}

// Hook is one of the operator's commands.
type Hook struct {
	Name string
	On   []kernel.EventKind

	// Run runs it and returns when it, and what it left running, is gone. An
	// error says how it failed.
	Run func(context.Context, kernel.Event) error
}

// Drain runs the hooks of what is pending, in an order that nothing is promised
// of. Each end is forgotten after its last hook: one that a crash cuts short
// comes again.
type Drain struct {
	Pending Pending
	Hooks   func() []Hook // that are configured now
	Events  EventLog
	Now     func() time.Time
}

// mostHooks run at once; the others wait.
const mostHooks = 4

// hookPause is how long something that has become pending may go unnoticed
// while hooks run.
const hookPause = 200 * time.Millisecond

// Serve returns when nothing is pending.
func (d *Drain) Serve(ctx context.Context) error {
	var mu sync.Mutex
	busy, ended := map[kernel.Event]bool{}, make(chan error, mostHooks)
	places := make(chan struct{}, mostHooks)
	var failed error
	for {
		list, err := d.Pending.Pending()
		if err != nil {
			return err
		}
		hooks := d.Hooks()
		mu.Lock()
		for _, e := range list {
			if !busy[e] && failed == nil {
				busy[e] = true
				go func() {
					err := d.tell(ctx, e, hooks, places)
					mu.Lock()
					delete(busy, e)
					mu.Unlock()
					ended <- err
				}()
			}
		}
		idle := len(busy) == 0
		mu.Unlock()
		if idle && (len(list) == 0 || failed != nil) {
			return failed
		}
		select {
		case err := <-ended:
			if failed == nil {
				failed = err
			}
		case <-time.After(hookPause):
		}
	}
}

// tell runs every one of hooks that wants to hear of e, one after another.
func (d *Drain) tell(ctx context.Context, e kernel.Event, hooks []Hook, places chan struct{}) error {
	places <- struct{}{}
	defer func() { <-places }()
	for _, h := range hooks {
		if !slices.Contains(h.On, e.Kind) {
			continue
		}
		if err := h.Run(ctx, e); err != nil {
			f := e
			f.At, f.Kind, f.Exit, f.Class, f.Reason = d.Now(), kernel.HookFailed, kernel.ExitCode{}, kernel.NoFailure, fmt.Sprintf("hook %s: %v", h.Name, err)
			_ = d.Events.AppendEvents([]kernel.Event{f}) // it is history: its log says the same
		}
	}
	return d.Pending.Told(e)
}
