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

// Hosts ensures that one host at a time schedules in a repository, unless the hosts' locks
// are known to hold on each other. The scheduling host is on record. Another host takes over
// when the first has no resident scheduler, or that has not been heard of for long. A command
// that only reads waits longer before it takes over: until all hosts see what the first wrote.
type Hosts struct {
	Record   string // the file with the scheduling host
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

// heardFor is how long a resident scheduler counts as alive after it was last heard of: it
// looks at least once a minute.
const heardFor = 3 * time.Minute

// seenAfter is how long other hosts may miss what a host wrote, because of their file system
// caches. With NFS this is a minute by default.
const seenAfter = 90 * time.Second

// renewed is how old the record's time may get while its host schedules.
const renewed = 10 * time.Second

// HostError says that another host schedules, and that its locks are not known to hold on
// this one.
type HostError struct {
	Other, Self string
	Heard       time.Duration // how long ago the other host was last heard of
	Writes      bool          // it has the turn to write; else it has a resident scheduler
}

func (e *HostError) Error() string {
	again := "try again: it counts as gone now" // somebody else is about to end its turn
	if left := heardFor - e.Heard; left > 0 {
		again = fmt.Sprintf("try again in %s, when it counts as gone", left.Round(time.Second))
	}
	if e.Writes {
		return fmt.Sprintf("host %s is changing something here, or was killed at it, and was heard of %s ago; its locks are not seen on this host, %s; use vizier on %s, or %s",
			e.Other, e.Heard.Round(time.Second), e.Self, e.Other, again)
	}
	return fmt.Sprintf("host %s schedules here: its resident scheduler was heard of %s ago, and its lock is not seen on this host, %s; use vizier on %s, or %s",
		e.Other, e.Heard.Round(time.Second), e.Self, e.Other, again)
}

// sight is what is known of the scheduling host when another one wants to schedule.
type sight struct {
	record  hostRecord    // zero: none
	heard   time.Duration // since the host was last heard of
	crosses bool          // its locks hold here, or this host's locks hold there
}

// admit decides whether self may schedule, and whether the record must then name it. looks
// says that the caller only reads. The caller holds the scheduler lock, which may not hold on
// other hosts.
func (s sight) admit(self Host, looks bool) (ok, take bool) {
	switch r := s.record; {
	case r.Host == self:
		return true, false
	case r.Name == "" || r.same(self): // no host yet, or this host before a reboot, or a container of this machine
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

// Admit makes this host the scheduling host and takes its turn to write, for which it waits until ctx
// ends. It is a *HostError if another host may schedule at the same time. resident says that the caller is the
// resident scheduler: Admit then renews the time when it was last heard of. looks says that the caller only
// reads, and completes what a crash left: Admit then does not wait. The caller holds the scheduler lock until
// it has left the turn.
func (h Hosts) Admit(ctx context.Context, resident, looks bool) (*Turn, error) {
	s, take, err := h.mayWrite(looks)
	if err != nil {
		return nil, err
	}
	turn, err := h.take(ctx, looks)
	if err != nil {
		return nil, err
	}
	if turn.late || s.record.Host != h.Self { // the other host may have written the record in its turn
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

// mayWrite returns what is known of the scheduling host, and whether the record must name this host. It is a
// *HostError if this host may not write.
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

// old reports that the record's time must be renewed.
func (h Hosts) old() bool {
	file, err := sys.Look(unix.AT_FDCWD, h.Record)
	return err == nil && time.Since(time.Unix(0, file.Modified)).Abs() > renewed
}

// Leave records that this host's resident scheduler has ended. It creates no file, since
// the repository may have been removed.
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
	_, _ = f.Write(append(without, strings.Repeat(" ", len(with)-len(without))...)) // in one write, so that nobody reads half of it
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

// Elsewhere reports that another host schedules, and that a command that only reads must
// not take over from it.
func (h Hosts) Elsewhere() bool {
	s, err := h.look()
	ok, _ := s.admit(h.Self, true)
	return err == nil && !ok
}

// Probe notes if this host sees another one's resident scheduler hold its lock: locks are
// then known to hold between the two.
func (h Hosts) Probe() { _, _ = h.look() }

func (h Hosts) read() (r hostRecord, err error) {
	f, err := os.Open(h.Record)
	if errors.Is(err, os.ErrNotExist) {
		return r, nil
	}
	if err == nil {
		defer f.Close()
		_, err = sys.Look(int(f.Fd()), "") // so that the read does not end at a cached size
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
	b, _ := json.Marshal(r)
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

// fileName returns a host's name as the name of a file, without white space.
func fileName(host string) string {
	return strings.Map(func(r rune) rune {
		if r == '/' || r <= ' ' {
			return '_'
		}
		return r
	}, "host-"+host)
}

// now returns the time by the clock of the file system.
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
