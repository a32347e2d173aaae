package watch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vizier-scheduler/vizier/internal/sys"
)

// Host is a host that schedules in a repository, in one of its boots.
type Host struct {
	Name string `json:"host"`
	Boot string `json:"boot"`
}

// Hosts keeps the scheduling of a repository with one host at a time, unless the locks of
// hosts are known to hold on each other. The host that schedules is on record. Another one takes
// its place where nothing is left of it: its resident scheduler left, or has not been heard of for
// long. Who only looks on another host leaves it in place for longer, until what it wrote is seen
// everywhere: nobody has asked for more.
type Hosts struct {
	Record   string // the file with the host that schedules
	Turn     string // the link of the host that is writing
	Seen     string // the directory in which each host notes whose locks it saw held
	Resident string // the resident scheduler's lock
	Self     Host
}

// hostRecord is the content of the record. The file's time is when the host was last heard
// of.
type hostRecord struct {
	Host
	Resident bool `json:"resident,omitempty"` // it has a resident scheduler
}

// heardFor is how long a resident scheduler that is not heard of counts as alive: it looks
// once a minute whatever happens.
const heardFor = 3 * time.Minute

// seenAfter is how long what a host wrote may be missed by others, whose caches of a file
// system are as old. Those of NFS are by default up to a minute.
const seenAfter = 90 * time.Second

// renewed is how old the record's time may get while its host schedules.
const renewed = 10 * time.Second

// HostError says that another host schedules and that its locks do not hold on this one, as far
// as is known.
type HostError struct {
	Other, Self string
	Heard       time.Duration // how long ago
	Writes      bool          // it has the turn to write; else it has a resident scheduler
}

func (e *HostError) Error() string {
	if e.Writes {
		return fmt.Sprintf("host %s is changing something here, or was killed at it, and was heard of %s ago; its locks are not seen on this host, %s; use vizier on %s, or try again in %s, when it counts as gone",
			e.Other, e.Heard.Round(time.Second), e.Self, e.Other, (heardFor - e.Heard).Round(time.Second))
	}
	return fmt.Sprintf("host %s schedules here: its resident scheduler was heard of %s ago, and its lock is not seen on this host, %s; use vizier on %s, or try again in %s, when it counts as gone",
		e.Other, e.Heard.Round(time.Second), e.Self, e.Other, (heardFor - e.Heard).Round(time.Second))
}

// sight is what is known when a host wants to schedule.
type sight struct {
	record  hostRecord    // zero: none
	heard   time.Duration // since the host was heard of
	crosses bool          // its locks hold here, or those of this host there
}

// admit decides whether self may schedule, looks: because somebody only looks, and whether
// the record is to name it. The caller holds the scheduler lock, as far as that means something.
func (s sight) admit(self Host, looks bool) (ok, take bool) {
	switch r := s.record; {
	case r.Host == self:
		return true, false
	case r.Name == "" || r.same(self): // none yet, before the last boot, or a container of this machine
		return true, true
	case s.crosses, s.heard < 0:
		return true, true
	case r.Resident:
		ok = s.heard > heardFor
	default:
		ok = !looks || s.heard > seenAfter
	}
	return ok, ok
}

// Admit makes this host the one that schedules, and takes its turn to write, for which it waits until ctx
// ends. It is a *HostError where another host may do so at the same time. Resident says that the caller is the
// resident scheduler, which is heard of by that; looks, that it completes what a crash left, for somebody
// who only looks, and does not wait. The caller holds the scheduler lock until it has left the turn.
func (h Hosts) Admit(ctx context.Context, resident, looks bool) (*Turn, error) {
	s, take, err := h.mayWrite(looks)
	if err != nil {
		return nil, err
	}
	turn, err := h.take(ctx, looks)
	if err != nil {
		return nil, err
	}
	if turn.late || s.record.Host != h.Self { // the other host may have said more in its turn
		s, take, err = h.mayWrite(looks)
	}
	switch {
	case err != nil:
	case resident && (take || !s.record.Resident):
		err = h.write(hostRecord{h.Self, true})
	case take:
		err = h.write(hostRecord{Host: h.Self})
	case resident || h.old():
		err = unix.UtimesNanoAt(unix.AT_FDCWD, h.Record, nil, unix.AT_SYMLINK_NOFOLLOW) // by the file server's clock
	}
	if err != nil {
		turn.Leave()
		return nil, err
	}
	return turn, nil
}

// mayWrite is what is known of who schedules, and whether the record is to name this host. It is a *HostError where
// this host may not write.
func (h Hosts) mayWrite(looks bool) (s sight, take bool, err error) {
	if s, err = h.look(); err != nil {
		return s, false, err
	}
	ok, take := s.admit(h.Self, looks)
	if !ok {
		return s, false, &HostError{Other: s.record.Name, Self: h.Self.Name, Heard: s.heard}
	}
	return s, take, nil
}

// old reports that the record's time is to be renewed.
func (h Hosts) old() bool {
	file, err := sys.Look(unix.AT_FDCWD, h.Record)
	return err == nil && time.Since(time.Unix(0, file.Modified)).Abs() > renewed
}

// Leave says that this host's resident scheduler is gone. It makes no file, since the
// repository may be what is gone.
func (h Hosts) Leave() {
	r, err := h.read()
	if err != nil || r.Host != h.Self || !r.Resident {
		return
	}
	f, err := os.OpenFile(h.Record, os.O_WRONLY, 0)
	if err != nil {
		return
	}
	defer f.Close()
	with, _ := json.Marshal(r)
	r.Resident = false
	without, _ := json.Marshal(r)
	_, _ = f.Write(append(without, strings.Repeat(" ", len(with)-len(without))...)) // in one, so that nobody reads half of it
}

func (h Hosts) look() (s sight, err error) {
	if s.record, err = h.read(); err != nil || s.record.Host == h.Self {
		return s, err
	}
	if holder := holderHost(h.Resident); holder != "" && holder == s.record.Name && holder != h.Self.Name {
		s.crosses = true
		h.note(holder)
	}
	s.crosses = s.crosses || h.cross(s.record.Name)
	file, err := sys.Look(unix.AT_FDCWD, h.Record)
	if errors.Is(err, os.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return s, err
	}
	s.heard = h.now().Sub(time.Unix(0, file.Modified))
	return s, nil
}

// Elsewhere reports that another host schedules, as far as somebody who only looks is
// concerned.
func (h Hosts) Elsewhere() bool {
	s, err := h.look()
	ok, _ := s.admit(h.Self, true)
	return err == nil && !ok
}

// Probe notes whether this host sees another one's resident scheduler hold its lock: from
// then on it is known that locks hold between the two.
func (h Hosts) Probe() { _, _ = h.look() }

func (h Hosts) read() (r hostRecord, err error) {
	f, err := os.Open(h.Record)
	if errors.Is(err, os.ErrNotExist) {
		return r, nil
	}
	if err == nil {
		defer f.Close()
		_, err = sys.Look(int(f.Fd()), "") // so that it is read whole
	}
	var b []byte
	if err == nil {
		b, err = io.ReadAll(f)
	}
	if err != nil {
		return r, fmt.Errorf("which host schedules: %w", err)
	}
	if len(b) > 0 && json.Unmarshal(b, &r) != nil {
		r.Name = "(unknown)"
	}
	return r, nil
}

func (h Hosts) write(r hostRecord) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return sys.ReplaceFile(h.Record, append(b, '\n'))
}

// cross reports that locks are known to hold between this host and another.
func (h Hosts) cross(other string) bool {
	return h.noted(h.Self.Name, other) || h.noted(other, h.Self.Name)
}

// noted reports that host saw a lock of other's.
func (h Hosts) noted(host, other string) bool {
	b, err := os.ReadFile(filepath.Join(h.Seen, fileName(host)))
	return err == nil && slices.Contains(strings.Fields(string(b)), fileName(other))
}

func (h Hosts) note(other string) {
	if h.noted(h.Self.Name, other) {
		return
	}
	path := filepath.Join(h.Seen, fileName(h.Self.Name))
	have, _ := os.ReadFile(path)
	if err := os.Mkdir(h.Seen, 0o700); err == nil || errors.Is(err, os.ErrExist) {
		_ = sys.ReplaceFile(path, append(have, fileName(other)+"\n"...))
	}
}

// fileName is a host's name as a file's, and as a word.
func fileName(host string) string {
	return strings.Map(func(r rune) rune {
		if r == '/' || r <= ' ' {
			return '_'
		}
		return r
	}, "host-"+host)
}

// now is the time by the clock that gives files theirs.
func (h Hosts) now() time.Time {
	f, err := os.CreateTemp(filepath.Dir(h.Record), ".clock.*.tmp")
	if err != nil {
		return time.Now()
	}
	defer os.Remove(f.Name())
	info, err := f.Stat()
	if err = errors.Join(err, f.Close()); err != nil {
		return time.Now()
	}
	return info.ModTime()
}
