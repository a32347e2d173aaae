package joblog

import (
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Watcher keeps logs within bounds while a command writes to them. It checks
// them periodically, more often the faster they grow, so they may exceed the
// bound for a moment.
type Watcher struct {
	most     int64
	logs     []*boundedLog
	order    *order // nil: the order in which they grow is not recorded
	notified bool   // writes are reported by follow

	mu    sync.Mutex // held while it looks
	timer *time.Timer
	done  bool
	full  bool // there was no room for the logs at one of the looks
}

// Missing is the remark on a command that wrote while there was no room for its
// logs.
const Missing = "output may be missing: the disk was full"

type boundedLog struct {
	log  *os.File // the command's own file, opened for appending only
	file *os.File // the same file, opened for cutting; nil: not needed yet
	size int64    // at the last look
	gone int64    // how much longer the output is than the file: see Head
	off  bool     // the log cannot be cut
}

// The shortest and longest time between two looks of a watcher.
const (
	shortest = 5 * time.Millisecond
	longest  = 250 * time.Millisecond
)

// WatchBoth bounds each of a command's two logs to most bytes until the watcher is closed; 0: no
// bound. It takes over the files. It also records, in a file at path, in which order and when they
// grow. Errors in recording are ignored: the record helps readers, but nothing depends on it.
func WatchBoth(most int64, stdout, stderr *os.File, path string) *Watcher {
	w := &Watcher{most: most, logs: []*boundedLog{{log: stdout}, {log: stderr}}, order: &order{path: path}}
	for s, b := range w.logs {
		b.updateGone()
		w.order.logs[s] = b
	}
	w.order.look()
	w.order.noted = w.order.now
	w.notified = follow(w)
	w.begin()
	return w
}

func (w *Watcher) begin() {
	if w.most > 0 || w.order != nil && !w.notified {
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
	w.full = w.full || noRoom(w.logs[0].log)
	if w.order != nil && !w.notified {
		w.order.look()
		w.order.note(begun, true)
	}
	w.timer.Reset(max(w.look(), time.Since(begun)))
}

// wrote notes that the command wrote to a stream's log.
func (w *Watcher) wrote(stream int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.order.writes = append(w.order.writes, uint8(stream))
}

// lost notes that some events were lost.
func (w *Watcher) lost() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.order.unknown = true
}

// grown reports whether the logs have grown since the last call.
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

// look cuts logs that are too large, and returns when to look again: before a
// log that keeps growing at its recent rate is too large again.
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
// was written since the last call.
func (b *boundedLog) bound(most int64) (left, grew int64) {
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
	b.updateGone()
	if info, err := b.log.Stat(); err == nil {
		b.size = info.Size()
	}
	return left, grew
}

// updateGone determines how much of the log's output has been dropped.
func (b *boundedLog) updateGone() {
	if info, err := b.log.Stat(); err != nil || info.Size() == 0 || b.reopen() != nil {
		return
	}
	if h, err := begin(b.file); err == nil {
		b.gone = h.Dropped - h.Start
	}
}

// reopen opens the log for reading and cutting.
func (b *boundedLog) reopen() (err error) {
	if b.file == nil {
		b.file, err = Reopen(b.log)
	}
	return err
}

func (b *boundedLog) close() {
	_ = b.log.Close()
	if b.file != nil {
		_ = b.file.Close()
	}
}

// Close looks once more and closes the files. It reports whether the file system
// of the logs was full at any look, so that output may be missing.
func (w *Watcher) Close() (full bool) {
	if w.notified {
		unfollow(w)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.done, full = true, w.full || noRoom(w.logs[0].log)
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
	return full
}

// noRoom reports whether nothing can be added to f: its file system has no block
// left for this user.
func noRoom(f *os.File) bool {
	var st unix.Statfs_t
	if unix.Fstatfs(int(f.Fd()), &st) != nil || st.Blocks == 0 {
		return false
	}
	if os.Geteuid() == 0 {
		return st.Bfree == 0
	}
	return st.Bavail <= 0
}
