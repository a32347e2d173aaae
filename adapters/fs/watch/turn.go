package watch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vizier-scheduler/vizier/internal/sys"
)

// Turn is leave for this host to write: a symbolic link that names the host, for as long as a transaction takes.
// A second link of that name cannot be made on any file system, whatever its locks do, so one host has the
// turn at a time. A living process renews the link's time. Processes of one host keep each other out by the scheduler
// lock, which is held whenever a turn is taken, had or left.
type Turn struct {
	h      Hosts
	mu     sync.Mutex // over what follows, as renewing and leaving may meet
	made   bool       // false: the file system has no such links, or the turn was left
	late   bool       // another host had it first
	heard  time.Time  // when it was taken or renewed, by the wall clock, which goes on while a machine sleeps
	renews *time.Timer
}

const (
	renewEvery = 30 * time.Second     // well within heardFor
	turnPause  = 3 * time.Millisecond // between two tries
	clockPause = time.Second          // between two questions for the file server's time
	endSuffix  = ".end"               // of the link that lets one process at a time end a turn which is not its own
)

// mark is a turn's link as it is found.
type mark struct {
	Host
	at int64 // when it was made or renewed, by the file server's clock
}

func (h Host) String() string { return h.Name + "/" + h.Boot }

// same reports that both are one machine: a container has its boot, and the host itself its name.
func (h Host) same(other Host) bool { return h.Name == other.Name || h.Boot == other.Boot }

// take waits for this host's turn until ctx ends, or not at all where somebody only looks. The turn of a process that was
// killed is over: at once if the scheduler lock proves that, else when it was not renewed for long.
func (h Hosts) take(ctx context.Context, looks bool) (*Turn, error) {
	t := &Turn{h: h}
	var asked, server time.Time
	for {
		err := os.Symlink(h.Self.String(), h.Turn)
		if err == nil {
			t.mu.Lock()
			defer t.mu.Unlock()
			t.made = true
			t.heard = time.Now().Round(0)
			t.renews = time.AfterFunc(renewEvery, t.renew)
			return t, nil
		}
		if !errors.Is(err, os.ErrExist) {
			return t, nil
		}
		if time.Since(asked) > clockPause {
			asked, server = time.Now(), h.now()
		}
		m, err := readMark(h.Turn)
		gone := errors.Is(err, os.ErrNotExist) // which this host's cache of names may not know yet
		if err != nil && !gone {
			return nil, err
		}
		silent := server.Sub(time.Unix(0, m.at))
		if !gone && (m.same(h.Self) || h.cross(m.Name) || silent.Abs() > heardFor) {
			ended, err := h.end(m, server)
			if err != nil {
				return nil, err
			}
			if ended {
				continue
			}
		}
		t.late = t.late || !m.same(h.Self)
		if looks || ctx.Err() != nil {
			return nil, &HostError{Other: m.Name, Self: h.Self.Name, Heard: max(silent, 0), Writes: true}
		}
		select {
		case <-ctx.Done():
		case <-time.After(turnPause):
		}
	}
}

// end ends a turn that is over, unless another process is at that. Whoever looks late finds that the turn is not the one it
// meant.
func (h Hosts) end(m mark, server time.Time) (ended bool, err error) {
	one := h.Turn + endSuffix
	switch err := os.Symlink(h.Self.String(), one); {
	case errors.Is(err, os.ErrExist):
		if by, err := readMark(one); err == nil && (by.same(h.Self) || server.Sub(time.Unix(0, by.at)) > heardFor) {
			_ = os.Remove(one) // that one was killed at it
		}
		return false, nil
	case err != nil:
		return false, err
	}
	defer os.Remove(one)
	switch now, err := readMark(h.Turn); {
	case errors.Is(err, os.ErrNotExist):
		return true, nil
	case err != nil:
		return false, err
	case now == m:
		err = os.Remove(h.Turn)
		return err == nil, err
	}
	return true, nil
}

func readMark(path string) (m mark, err error) {
	file, err := sys.Look(unix.AT_FDCWD, path)
	if err != nil {
		return m, err
	}
	name, err := os.Readlink(path)
	if err != nil {
		return m, err
	}
	at := max(strings.LastIndexByte(name, '/'), 0)
	return mark{Host{name[:at], strings.TrimPrefix(name[at:], "/")}, file.Modified}, nil
}

// renew lets other hosts hear of this process.
func (t *Turn) renew() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.made && t.had() == nil {
		t.renews.Reset(renewEvery)
	}
}

// had renews a turn. It is an error where another host ended it, because this process was not heard of for long.
func (t *Turn) had() error {
	m, err := readMark(t.h.Turn)
	if err != nil || !m.same(t.h.Self) {
		return fmt.Errorf("this process stood still for so long that another host took it for gone: try again")
	}
	if err := unix.UtimesNanoAt(unix.AT_FDCWD, t.h.Turn, nil, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	t.heard = time.Now().Round(0)
	return nil
}

// silent reports that other hosts may have taken this process for gone.
func (t *Turn) silent() bool {
	return time.Since(t.heard).Abs() > heardFor-renewEvery
}

// Holds is an error where the turn is another host's by now.
func (t *Turn) Holds() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.made && t.silent() {
		return t.had()
	}
	return nil
}

// Leave ends the turn. A second call does nothing.
func (t *Turn) Leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.made {
		return
	}
	t.made = false
	t.renews.Stop()
	if !t.silent() || t.had() == nil {
		_ = os.Remove(t.h.Turn) // what is left is ended by the next process of this host
	}
}
