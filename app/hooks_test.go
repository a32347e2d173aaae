package app

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// shelf holds pending events in memory.
type shelf struct {
	mu     sync.Mutex
	list   []kernel.Event
	stuck  bool
	broken error // the queue cannot be read
	events []string
}

func (s *shelf) Pending() ([]kernel.Event, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]kernel.Event(nil), s.list...), s.broken
}

func (s *shelf) Ack(e kernel.Event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stuck {
		return errors.New("disk full")
	}
	for i := range s.list {
		if s.list[i] == e {
			s.list = append(s.list[:i:i], s.list[i+1:]...)
			break
		}
	}
	return nil
}

func (s *shelf) AppendEvents(events []kernel.Event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range events {
		s.events = append(s.events, fmt.Sprint(e.Job, " ", e.Kind, " ", e.Reason))
	}
	return nil
}

// The dispatcher runs the hooks of every pending event, several at once but not too many,
// and also those of events that become pending meanwhile.
func TestTheDispatcherRunsEveryHook(t *testing.T) {
	s := &shelf{}
	var mu sync.Mutex
	running, most, calls := 0, 0, map[string]int{}
	hook := func(name string, on ...kernel.EventKind) Hook {
		return Hook{name, on, func(_ context.Context, e kernel.Event) error {
			mu.Lock()
			running++
			most = max(most, running)
			calls[name+" "+string(e.Job)]++
			first := calls[name+" "+string(e.Job)] == 1 && e.Job == "j0" && name == "a"
			mu.Unlock()
			if first {
				s.mu.Lock()
				s.list = append(s.list, kernel.Event{Kind: kernel.JobSucceeded, Job: "late"})
				s.mu.Unlock()
			}
			time.Sleep(10 * time.Millisecond)
			mu.Lock()
			running--
			mu.Unlock()
			if name == "b" {
				return errors.New("exit code 3")
			}
			return nil
		}}
	}
	for n := range 20 {
		kind := kernel.JobSucceeded
		if n%2 == 1 {
			kind = kernel.JobFailedFinal
		}
		s.list = append(s.list, kernel.Event{Kind: kind, Job: kernel.JobID(fmt.Sprint("j", n))})
	}
	d := HookDispatcher{Pending: s, Hooks: func() []Hook {
		return []Hook{hook("a", kernel.JobSucceeded, kernel.JobFailedFinal), hook("b", kernel.JobFailedFinal)}
	}, Events: s, Now: time.Now}
	if err := d.Serve(context.Background()); err != nil {
		t.Fatal(err)
	}
	if len(s.list) > 0 || len(calls) != 31 || most != maxHooks {
		t.Errorf("%d left, %d calls, %d at once", len(s.list), len(calls), most)
	}
	if len(s.events) != 10 || !strings.HasSuffix(s.events[0], "hook.failed hook b: exit code 3") {
		t.Errorf("%q", s.events)
	}
}

// An event that comes while a hook runs does not wait for that hook's end, and the dispatcher does not end before it.
func TestTheDispatcherLooksWhileHooksRun(t *testing.T) {
	for _, gone := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := &shelf{list: []kernel.Event{{Kind: kernel.JobSucceeded, Job: "a"}}}
			second, ended := make(chan struct{}), false
			d := HookDispatcher{Pending: s, Events: s, Now: time.Now, Hooks: func() []Hook {
				return []Hook{{"h", []kernel.EventKind{kernel.JobSucceeded}, func(_ context.Context, e kernel.Event) error {
					if e.Job == "b" {
						close(second)
						return nil
					}
					s.mu.Lock()
					if s.list = append(s.list, kernel.Event{Kind: kernel.JobSucceeded, Job: "b"}); gone {
						s.list = nil
						close(second)
					}
					s.mu.Unlock()
					<-second
					time.Sleep(time.Second)
					ended = true
					return nil
				}}}
			}}
			if err := d.Serve(t.Context()); err != nil || !ended {
				t.Errorf("gone %v: %v, ended %v", gone, err, ended)
			}
		})
	}
}

// Hooks do not run over and over for an event that cannot be acknowledged.
func TestTheDispatcherGivesUpWhereItCannotAck(t *testing.T) {
	s := &shelf{stuck: true, list: []kernel.Event{{Kind: kernel.JobSucceeded, Job: "a"}, {Kind: kernel.JobSucceeded, Job: "b"}}}
	calls := 0
	var mu sync.Mutex
	d := HookDispatcher{Pending: s, Events: s, Now: time.Now, Hooks: func() []Hook {
		return []Hook{{"h", []kernel.EventKind{kernel.JobSucceeded}, func(context.Context, kernel.Event) error {
			mu.Lock()
			calls++
			mu.Unlock()
			return nil
		}}}
	}}
	if err := d.Serve(context.Background()); err == nil || calls != 2 {
		t.Errorf("%v after %d calls", err, calls)
	}
	s.list, s.broken = nil, errDisk
	if err := d.Serve(context.Background()); !errors.Is(err, errDisk) {
		t.Errorf("of a queue that cannot be read: %v", err)
	}
}
