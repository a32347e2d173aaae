//go:build !portable

package joblog

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// notifier receives, in order, which log was written to. There is one in a
// process, and it is never closed, because the system takes tens of
// milliseconds to close a descriptor that has reported on files.
//
// The system merges successive events of one file. Therefore a log's directory
// is watched as well: its event comes before the file's own, so that no two
// events of a file are adjacent, and each write is reported.
type notifier struct {
	fd int

	mu      sync.Mutex
	watched map[int32]watched
	touched map[*Watcher]bool
	buf     []byte
}

// watched is the target of a watch.
type watched struct {
	w      *Watcher
	stream int // -1: the directory
}

// notePause is the time between two reads of the events, so that a command that
// prints a lot is not slowed down.
const notePause = 5 * time.Millisecond

// rereads is how often one look at the sizes of logs is repeated because more
// was written meanwhile. readsAtMost bounds how many events are read in one
// look, since a command may write faster than they are read.
const (
	rereads     = 6
	readsAtMost = 16
)

var theNotifier = sync.OnceValue(func() *notifier {
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		return nil
	}
	n := &notifier{fd: fd, watched: map[int32]watched{}, touched: map[*Watcher]bool{}, buf: make([]byte, 16<<10)}
	conn, err := os.NewFile(uintptr(fd), "inotify").SyscallConn()
	if err != nil {
		return nil
	}
	go n.serve(conn)
	return n
})

func (n *notifier) serve(conn syscall.RawConn) {
	for {
		err := conn.Read(func(uintptr) bool {
			n.mu.Lock()
			defer n.mu.Unlock()
			return n.drain()
		})
		if err != nil {
			return
		}
		time.Sleep(notePause)
	}
}

// follow reports writes to w's logs to w from now on. It returns false if the
// system cannot.
func follow(w *Watcher) bool {
	n := theNotifier()
	if n == nil {
		return false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for s, path := range []string{w.logs[Stdout].log.Name(), w.logs[Stderr].log.Name(), filepath.Dir(w.order.path)} {
		wd, err := unix.InotifyAddWatch(n.fd, path, unix.IN_MODIFY|unix.IN_DONT_FOLLOW)
		if err != nil {
			n.remove(w)
			return false
		}
		if s == streams {
			s = -1
		}
		n.watched[int32(wd)] = watched{w, s}
	}
	return true
}

// unfollow reports the writes until now to w, and none after that.
func unfollow(w *Watcher) {
	n := theNotifier()
	if n == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.drain()
	n.remove(w)
}

func (n *notifier) remove(w *Watcher) {
	for wd, at := range n.watched {
		if at.w == w {
			_, _ = unix.InotifyRmWatch(n.fd, uint32(wd))
			delete(n.watched, wd)
		}
	}
}

// drain passes on pending events, and reports whether there were any. It
// repeats reading the logs' sizes until nothing was written meanwhile: then
// these are the sizes after the known writes.
func (n *notifier) drain() bool {
	whole := false
	for tries := 0; !whole && tries < rereads; tries++ {
		whole = !n.read()
		for w := range n.touched {
			whole = !w.grown() && whole
		}
	}
	any := len(n.touched) > 0
	for w := range n.touched {
		w.note(whole)
	}
	clear(n.touched)
	return any || !whole
}

func (n *notifier) read() (any bool) {
	for range readsAtMost {
		got, err := unix.Read(n.fd, n.buf)
		if err == unix.EINTR {
			continue
		}
		if err != nil || got <= 0 {
			return any
		}
		any = true
		for b := n.buf[:got]; len(b) >= unix.SizeofInotifyEvent; {
			wd, name := int32(binary.NativeEndian.Uint32(b)), binary.NativeEndian.Uint32(b[12:])
			n.handle(wd, binary.NativeEndian.Uint32(b[4:]))
			b = b[unix.SizeofInotifyEvent+int(name):]
		}
	}
	return any
}

func (n *notifier) handle(wd int32, mask uint32) {
	if mask&unix.IN_Q_OVERFLOW != 0 {
		for _, at := range n.watched {
			at.w.lost()
			n.touched[at.w] = true
		}
		return
	}
	if at, known := n.watched[wd]; known && at.stream >= 0 && mask&unix.IN_MODIFY != 0 {
		at.w.wrote(at.stream)
		n.touched[at.w] = true
	}
}
