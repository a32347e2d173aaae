//go:build darwin || freebsd

package proc

import (
	"sync"

	"golang.org/x/sys/unix"
)

// watchExit calls ended once when the process that i names ends, unless stop was
// called before. It reports false where that cannot be watched, and where the
// process has ended. It waits in a thread of its own on a kqueue, which stop
// wakes by an event of the user's.
func watchExit(i Identity, ended func()) (stop func(), ok bool) {
	queue, err := unix.Kqueue()
	if err != nil {
		return nil, false
	}
	unix.CloseOnExec(queue)
	var wanted [2]unix.Kevent_t
	unix.SetKevent(&wanted[0], i.PID, unix.EVFILT_PROC, unix.EV_ADD|unix.EV_ONESHOT)
	wanted[0].Fflags = unix.NOTE_EXIT
	unix.SetKevent(&wanted[1], 0, unix.EVFILT_USER, unix.EV_ADD|unix.EV_CLEAR)
	if _, err := unix.Kevent(queue, wanted[:], nil, nil); err != nil || !i.Running() { // the latter: another process has its number
		_ = unix.Close(queue)
		return nil, false
	}
	var mu sync.Mutex // of the descriptor, whose number is another's once it is closed
	open := true
	go func() {
		over := awaitExit(queue)
		mu.Lock()
		open = false
		_ = unix.Close(queue)
		mu.Unlock()
		if over {
			ended()
		}
	}()
	return func() {
		mu.Lock()
		defer mu.Unlock()
		if open {
			var wake [1]unix.Kevent_t
			unix.SetKevent(&wake[0], 0, unix.EVFILT_USER, 0)
			wake[0].Fflags = unix.NOTE_TRIGGER
			_, _ = unix.Kevent(queue, wake[:], nil, nil)
		}
	}, true
}

// awaitExit reports false when the queue tells of something else than the end
// of a process.
func awaitExit(queue int) bool {
	var events [1]unix.Kevent_t
	for {
		n, err := unix.Kevent(queue, nil, events[:], nil)
		if err != unix.EINTR {
			return err == nil && n == 1 && events[0].Filter == unix.EVFILT_PROC
		}
	}
}
