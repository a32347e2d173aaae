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

// Watch tells when attempts on the cluster end. Their runners ring a bell in
// the shared directory, which this host hears at once where the file system is
// its own, and within a second where it is not. What they cannot tell, that
// they are gone, the cluster is asked for, the more seldom the longer nothing
// happens.
type Watch struct {
	c     *Cluster
	ended chan struct{}
	poke  chan struct{}
	send  chan struct{}
	room  chan struct{} // something ended: there may be room for what waits

	mu sync.Mutex
	of []kernel.AttemptID
}

const (
	bellEvery  = time.Second // between two looks at the bell
	sendPause  = 100 * time.Millisecond
	pollAtMost = 12 // times the poll interval, when nothing happens
)

// NewWatch watches nothing yet. It ends with ctx.
func (c *Cluster) NewWatch(ctx context.Context) *Watch {
	w := &Watch{c: c, ended: make(chan struct{}, 1), poke: make(chan struct{}, 1), send: make(chan struct{}, 1), room: make(chan struct{}, 1)}
	go w.serve(ctx)
	go w.deliver(ctx)
	return w
}

// Send has errands seen to by this process, soon.
func (w *Watch) Send() { tell(w.send) }

// tell leaves a value for whoever waits for one.
func tell(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// deliver sees to errands when told to, when something ended, to what is put off when that is due,
// and to what waits for others the more seldom the longer nothing happens. It hears of ends once a
// second: each look asks the cluster, and small jobs end all the time.
func (w *Watch) deliver(ctx context.Context) {
	poll := orDefault(w.c.Settings.Poll, DefaultPoll)
	pause, last := poll, time.Now() // who left what is there has started a sender for it
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
		again, _ := w.c.Deliver(ctx) // Alive tells what is wrong
		last = time.Now()
		due = last.Add(pause)
		if !again.IsZero() {
			due = last.Add(max(again.Sub(last), sendPause))
		}
	}
}

// Ended has a value when an attempt under watch may be over.
func (w *Watch) Ended() <-chan struct{} { return w.ended }

// Watch looks at these attempts from now on, and at no others.
func (w *Watch) Watch(attempts []kernel.AttemptID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.Equal(w.of, attempts) {
		w.of = slices.Clone(attempts)
		time.AfterFunc(orDefault(w.c.Settings.Poll, DefaultPoll), w.Send) // should the sender that was started for them have died
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
			if at := w.bellAt(); at.After(heard) && len(w.watched()) > 0 {
				heard = at
				w.signal()
				tell(w.room)
			}
		case <-ask.C:
			if of := w.watched(); len(of) > 0 {
				_, _ = w.c.refresh(ctx) // without an answer files decide
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
