package cluster

import (
	"context"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Watch notifies of the ends of attempts on the cluster. A runner that ends touches
// a file in the shared directory, the bell. This host notices that at once if the
// file system is its own, and else within a second. For runners that died, the
// cluster is asked; the longer nothing happens, the more rarely.
type Watch struct {
	c       *Cluster
	current func() bool
	ended   chan struct{}
	poke    chan struct{}
	send    chan struct{}
	room    chan struct{} // something ended: there may be room for what waits

	mu sync.Mutex
	of []kernel.AttemptID
}

const (
	bellEvery  = time.Second // between two looks at the bell
	sendPause  = 100 * time.Millisecond
	pollAtMost = 12 // times the poll interval, when nothing happens
)

// NewWatch returns a Watch that watches nothing yet. It ends with ctx. While current is false, the
// user has changed the settings since c was made, and it leaves the outbox to a process with the new ones.
// Its goroutines call current.
func (c *Cluster) NewWatch(ctx context.Context, current func() bool) *Watch {
	w := &Watch{c: c, current: current, ended: make(chan struct{}, 1), poke: make(chan struct{}, 1), send: make(chan struct{}, 1), room: make(chan struct{}, 1)}
	go w.serve(ctx)
	go w.deliver(ctx)
	return w
}

// Send makes this process do the errands in the outbox soon.
func (w *Watch) Send() { tell(w.send) }

// tell puts a value into a channel, unless it has one.
func tell(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// deliver does errands when Send was called, when an attempt ended, and when errands that were put
// off are due. Otherwise it looks at the outbox the more rarely, the longer nothing happens. It reacts
// to ends once a second: each look asks the cluster, and small jobs end all the time.
func (w *Watch) deliver(ctx context.Context) {
	poll := orDefault(w.c.Settings.Poll, DefaultPoll)
	pause, last := poll, time.Now() // the process that left the present errands has started a sender
	due := last.Add(poll)
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.send:
			pause = poll
		case <-w.room:
			pause = poll / 2
			if soon := last.Add(bellEvery); soon.Before(due) {
				due = soon
			}
			continue
		case <-time.After(time.Until(due)):
			pause = min(2*pause, pollAtMost*poll)
		}
		last = time.Now()
		if !w.current() {
			due = last.Add(poll)
			continue
		}
		again, _ := w.c.Deliver(ctx) // Alive reports errors
		last = time.Now()
		due = last.Add(pause)
		if !again.IsZero() {
			due = last.Add(max(again.Sub(last), sendPause))
		}
	}
}

// Ended receives a value when a watched attempt may be over.
func (w *Watch) Ended() <-chan struct{} { return w.ended }

// Watch watches these attempts from now on, and no others.
func (w *Watch) Watch(attempts []kernel.AttemptID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.Equal(w.of, attempts) {
		w.of = slices.Clone(attempts)
		time.AfterFunc(orDefault(w.c.Settings.Poll, DefaultPoll), w.Send) // in case the sender that was started for them has died
		tell(w.poke)
	}
}

func (w *Watch) watched() []kernel.AttemptID {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.of
}

func (w *Watch) serve(ctx context.Context) {
	_ = os.Mkdir(w.c.Files.ClusterDir(), 0o700)
	if _, err := os.Lstat(w.c.bell()); err != nil {
		w.c.ring()
	}
	var rung <-chan fsnotify.Event
	if n, err := fsnotify.NewWatcher(); err == nil {
		defer n.Close()
		if n.Add(w.c.bell()) == nil {
			rung = n.Events
		}
	}
	poll := orDefault(w.c.Settings.Poll, DefaultPoll)
	pause, heard := poll, w.bellAt()
	look, ask := time.NewTicker(bellEvery), time.NewTimer(poll)
	defer look.Stop()
	defer ask.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.poke:
			pause = poll
			ask.Reset(pause)
		case <-rung:
			heard = w.bellAt()
			w.signal()
			tell(w.room)
		case <-look.C:
			if at := w.bellAt(); !at.Equal(heard) && len(w.watched()) > 0 { // earlier, if the clock was set back
				heard = at
				w.signal()
				tell(w.room)
			}
		case <-ask.C:
			if of := w.watched(); len(of) > 0 {
				_, _ = w.c.refresh(ctx) // without an answer, the files decide
				for _, f := range w.c.Alive(ctx, of) {
					if f.Known && (f.Value.Liveness == kernel.Dead || f.Value.Liveness == kernel.NeverStarted) {
						w.signal()
						pause = poll / 2
						break
					}
				}
			}
			pause = min(2*pause, pollAtMost*poll)
			ask.Reset(pause)
		}
	}
}

func (w *Watch) bellAt() time.Time {
	at, _, _ := beatOf(w.c.bell())
	return at
}

func (w *Watch) signal() { tell(w.ended) }
