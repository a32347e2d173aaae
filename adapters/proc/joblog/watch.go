package joblog

import (
	"os"
	"sync"
	"time"
)

// Watcher keeps logs within bounds while a command writes to them. It looks
// now and then, more often the faster they grow, so they may be larger for a
// moment.
type Watcher struct {
	most int64
	logs []*bounded

	mu    sync.Mutex // held while it looks
	timer *time.Timer
	done  bool
}

type bounded struct {
	log  *os.File // as the command has it; for appending only
	file *os.File // the same to cut; nil: not needed yet
	size int64    // when last looked at
	off  bool     // it cannot be cut
}

// How long a watcher waits before it looks again.
const (
	shortest = 5 * time.Millisecond
	longest  = 250 * time.Millisecond
)

// Watch bounds each of logs to most bytes until the watcher is closed. The
// files are the watcher's from then on. A most of 0 is no bound.
func Watch(most int64, logs ...*os.File) *Watcher {
	w := &Watcher{most: most}
	for _, f := range logs {
		w.logs = append(w.logs, &bounded{log: f})
	}
	if most > 0 {
		w.mu.Lock()
		w.timer = time.AfterFunc(longest/5, w.turn)
		w.mu.Unlock()
	}
	return w
}

func (w *Watcher) turn() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.done {
		begun := time.Now()
		w.timer.Reset(max(w.look(), time.Since(begun)))
	}
}

// look cuts what is too large and says when to look again: before a log that
// grows as it did lately is too large again.
func (w *Watcher) look() time.Duration {
	next := longest
	for _, b := range w.logs {
		left, grew := b.bound(w.most)
		switch {
		case b.off || grew <= 0:
		case w.most-left < grew:
			next = shortest
		case w.most-left < 4*grew:
			next = min(next, longest/8)
		}
	}
	return next
}

// bound cuts the log if it is too large. It returns what is left and how much
// was written since the last time.
func (b *bounded) bound(most int64) (left, grew int64) {
	info, err := b.log.Stat()
	if err != nil || b.off {
		return 0, 0
	}
	left, grew = info.Size(), info.Size()-b.size
	b.size = left
	if left <= most {
		return left, grew
	}
	if b.file == nil {
		if b.file, err = Reopen(b.log); err != nil {
			b.off = true
			return 0, 0
		}
	}
	left, err = Cap(b.file, most)
	b.off = err != nil
	if info, err := b.log.Stat(); err == nil {
		b.size = info.Size()
	}
	return left, grew
}

// Close looks once more and lets go of the files.
func (w *Watcher) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.done = true
	if w.timer != nil {
		w.timer.Stop()
		w.look()
	}
	for _, b := range w.logs {
		_ = b.log.Close()
		if b.file != nil {
			_ = b.file.Close()
		}
	}
}
