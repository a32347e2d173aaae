//go:build darwin || freebsd

package proc

import (
	"sync"

	"golang.org/x/sys/unix"
)

// watchExit calls ended once when the process that i identifies ends, unless
// stop was called before. It returns false if that cannot be watched, or if the
// process has ended. It waits on a kqueue in a thread of its own, which stop
// wakes by a user event.
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
	if _, err := unix.Kevent(queue, wanted[:], nil, nil); err != nil || !i.Running() { // in the second case, the pid belongs to another process
		_ = unix.Close(queue)
		return nil, false
	}
	var mu sync.Mutex // guards the descriptor, whose number may be reused once it is closed
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

// awaitExit returns false if the queue reports something other than the end of
// a process.
func awaitExit(queue int) bool {
	var events [1]unix.Kevent_t
	for {
		n, err := unix.Kevent(queue, nil, events[:], nil)
		if err != unix.EINTR {
			return err == nil && n == 1 && events[0].Filter == unix.EVFILT_PROC
		}
	}
}
