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
	most  int64
	logs  []*bounded
	order *order // nil: nobody asks in which order they grow
	told  bool   // somebody tells of writes

	mu    sync.Mutex // held while it looks
	timer *time.Timer
	done  bool
}

type bounded struct {
	log  *os.File // as the command has it; for appending only
	file *os.File // the same to cut; nil: not needed yet
	size int64    // when last looked at
	gone int64    // how much further its output is than the file: see Head
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
	w.begin()
	return w
}

// WatchBoth is Watch of a command's two logs that also records, in a file at
// path, in which order and when they grow. What cannot be recorded is not: the
// record is of use to readers and nobody depends on it.
func WatchBoth(most int64, stdout, stderr *os.File, path string) *Watcher {
	w := &Watcher{most: most, logs: []*bounded{{log: stdout}, {log: stderr}}, order: &order{path: path}}
	for s, b := range w.logs {
		b.mind()
		w.order.logs[s] = b
	}
	w.order.look()
	w.order.noted = w.order.now
	w.told = follow(w)
	w.begin()
	return w
}

func (w *Watcher) begin() {
	if w.most > 0 || w.order != nil && !w.told {
		w.mu.Lock()
		w.timer = time.AfterFunc(longest/5, w.turn)
		w.mu.Unlock()
	}
}

func (w *Watcher) turn() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.done {
		return
	}
	begun := time.Now()
	if w.order != nil && !w.told {
		w.order.look()
		w.order.note(begun, true)
	}
	w.timer.Reset(max(w.look(), time.Since(begun)))
}

// wrote tells that the command wrote to a stream's log.
func (w *Watcher) wrote(stream int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.order.writes = append(w.order.writes, uint8(stream))
}

// lost tells that some of what would be told was not.
func (w *Watcher) lost() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.order.unknown = true
}

// grown reports that the logs have grown since it was asked last.
func (w *Watcher) grown() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.order.look()
}

// note records what the command wrote: see order.
func (w *Watcher) note(whole bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.order.note(time.Now(), whole)
}

// look cuts what is too large and says when to look again: before a log that
// grows as it did lately is too large again.
func (w *Watcher) look() time.Duration {
	next := longest
	if w.most <= 0 {
		return next
	}
	logs := w.logs
	if w.order != nil && w.order.out != nil {
		logs = append(logs[:len(logs):len(logs)], w.order.out)
	}
	for _, b := range logs {
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
	if b.reopen() != nil {
		b.off = true
		return 0, 0
	}
	left, err = Cap(b.file, most)
	b.off = err != nil
	b.mind()
	if info, err := b.log.Stat(); err == nil {
		b.size = info.Size()
	}
	return left, grew
}

// mind looks how much of the log's output is not there any more.
func (b *bounded) mind() {
	if info, err := b.log.Stat(); err != nil || info.Size() == 0 || b.reopen() != nil {
		return
	}
	if h, err := Begin(b.file); err == nil {
		b.gone = h.Dropped - h.Start
	}
}

// reopen makes the log one that can be read and cut.
func (b *bounded) reopen() (err error) {
	if b.file == nil {
		b.file, err = Reopen(b.log)
	}
	return err
}

func (b *bounded) close() {
	_ = b.log.Close()
	if b.file != nil {
		_ = b.file.Close()
	}
}

// Close looks once more and lets go of the files.
func (w *Watcher) Close() {
	if w.told {
		unfollow(w)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.done = true
	if w.order != nil {
		w.order.look()
		w.order.note(time.Now(), true)
	}
	if w.timer != nil {
		w.timer.Stop()
		w.look()
	}
	for _, b := range w.logs {
		b.close()
	}
	if w.order != nil && w.order.out != nil {
		w.order.out.close()
	}
}
