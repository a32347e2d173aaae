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

// Turn is a host's permission to write: a symbolic link that names the host and exists as long as a transaction
// takes. No file system allows a second link of that name, whatever its locks do, so one host has the turn at a
// time. A living process renews the link's time. Processes of one host exclude each other by the scheduler lock,
// which they hold from before they take the turn until they have left it.
type Turn struct {
	h      Hosts
	mu     sync.Mutex // guards the fields below: renew and Leave may run at the same time
	made   bool       // false: the file system has no such links, or the turn was left
	late   bool       // another host had it first
	heard  time.Time  // when it was taken or last renewed, by the wall clock, which goes on while a machine sleeps
	renews *time.Timer
}

const (
	renewEvery = 30 * time.Second     // well within heardFor
	turnPause  = 3 * time.Millisecond // between two tries
	clockPause = time.Second          // between two looks at the file server's time
	endSuffix  = ".end"               // of the link of the process that ends another's turn; there is one at a time
)

// mark is the content and the time of a turn's link.
type mark struct {
	Host
	at int64 // when it was made or renewed, by the file server's clock
}

func (h Host) String() string { return h.Name + "/" + h.Boot }

// same reports that both are one machine: a container has the machine's boot, and after a reboot the host has its
// old name.
func (h Host) same(other Host) bool { return h.Name == other.Name || h.Boot == other.Boot }

// take waits for this host's turn until ctx ends; if looks is set, it does not wait. It ends the turn of a process that
// was killed: at once if the scheduler lock proves that it was, else once the turn has not been renewed for long.
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
		gone := errors.Is(err, os.ErrNotExist) // gone since Symlink, or not yet in this host's cache of names
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

// end ends the turn m, which is over, unless another process is just doing that. It does nothing if the turn is not m any
// more.
func (h Hosts) end(m mark, server time.Time) (ended bool, err error) {
	one := h.Turn + endSuffix
	switch err := os.Symlink(h.Self.String(), one); {
	case errors.Is(err, os.ErrExist):
		if by, err := readMark(one); err == nil && (by.same(h.Self) || server.Sub(time.Unix(0, by.at)) > heardFor) {
			_ = os.Remove(one) // its process was killed before it removed the link
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

// renew renews the turn, so that other hosts hear of this process.
func (t *Turn) renew() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.made && t.had() == nil {
		t.renews.Reset(renewEvery)
	}
}

// had renews a turn. It is an error if another host ended the turn because this process was not heard of for long.
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

// silent reports that other hosts may have taken this process for dead.
func (t *Turn) silent() bool {
	return time.Since(t.heard).Abs() > heardFor-renewEvery
}

// Holds returns an error if another host has ended the turn.
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
		_ = os.Remove(t.h.Turn) // if the link stays, the next process of this host ends the turn
	}
}
