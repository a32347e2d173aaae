package watch

import (
	"encoding/json"
	"errors"
	"fmt"
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
// long.
type Hosts struct {
	Record   string // the file with the host that schedules
	Seen     string // the directory in which each host notes whose locks it saw held
	Resident string // the resident scheduler's lock
	Self     Host
}

// hostRecord is the content of the record. The file's time is when its resident scheduler
// was last heard of.
type hostRecord struct {
	Host
	Resident bool `json:"resident,omitempty"` // it has a resident scheduler
}

// heardFor is how long a resident scheduler that is not heard of counts as alive: it looks
// once a minute whatever happens.
const heardFor = 3 * time.Minute

// HostError says that another host schedules and that its locks do not hold on this one, as far
// as is known.
type HostError struct {
	Other, Self string
	Heard       time.Duration // how long ago
}

func (e *HostError) Error() string {
	return fmt.Sprintf("host %s schedules here: its resident scheduler was heard of %s ago, and its lock is not seen on this host, %s; use vizier on %s, or try again in %s, when it counts as gone",
		e.Other, e.Heard.Round(time.Second), e.Self, e.Other, (heardFor - e.Heard).Round(time.Second))
}

// sight is what is known when a host wants to schedule.
type sight struct {
	record  hostRecord    // zero: none
	heard   time.Duration // since its resident scheduler was heard of
	crosses bool          // its locks hold here, or those of this host there
}

// admit decides whether self may schedule, and whether the record is to name it. The
// caller holds the scheduler lock, as far as that means something.
func (s sight) admit(self Host) (ok, take bool) {
	switch r := s.record; {
	case r.Host == self:
		return true, false
	case r.Name == "" || r.Name == self.Name || r.Boot == self.Boot: // none yet, before the last boot, or a container of this machine
		return true, true
	case s.crosses, !r.Resident, s.heard < 0, s.heard > heardFor:
		return true, true
	default:
		return false, false
	}
}

// Admit makes this host the one that schedules. It is a *HostError where another one may do so
// at the same time. Resident says that the caller is the resident scheduler, which is heard of by that.
func (h Hosts) Admit(resident bool) error {
	s, err := h.look()
	if err != nil {
		return err
	}
	ok, take := s.admit(h.Self)
	switch {
	case !ok:
		return &HostError{s.record.Name, h.Self.Name, s.heard}
	case resident && (take || !s.record.Resident):
		return h.write(hostRecord{h.Self, true})
	case take:
		return h.write(hostRecord{Host: h.Self})
	case resident:
		return unix.UtimesNanoAt(unix.AT_FDCWD, h.Record, nil, unix.AT_SYMLINK_NOFOLLOW) // by the file server's clock
	}
	return nil
}

// Leave says that this host's resident scheduler is gone: the record names nobody then. It makes
// no file, since the repository may be what is gone.
func (h Hosts) Leave() {
	if r, err := h.read(); err == nil && r.Host == h.Self && r.Resident {
		_ = os.Truncate(h.Record, 0)
	}
}

func (h Hosts) look() (s sight, err error) {
	if s.record, err = h.read(); err != nil || s.record.Host == h.Self {
		return s, err
	}
	if holder := holderHost(h.Resident); holder != "" && holder == s.record.Name && holder != h.Self.Name {
		s.crosses = true
		h.note(holder)
	}
	s.crosses = s.crosses || h.noted(h.Self.Name, s.record.Name) || h.noted(s.record.Name, h.Self.Name)
	info, err := os.Lstat(h.Record)
	if errors.Is(err, os.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return s, err
	}
	s.heard = h.now().Sub(info.ModTime())
	return s, nil
}

// Elsewhere reports that a resident scheduler of another host may be at work, which keeps this
// host from scheduling.
func (h Hosts) Elsewhere() bool {
	s, err := h.look()
	ok, _ := s.admit(h.Self)
	return err == nil && !ok
}

// Probe notes whether this host sees another one's resident scheduler hold its lock: from
// then on it is known that locks hold between the two.
func (h Hosts) Probe() { _, _ = h.look() }

func (h Hosts) read() (r hostRecord, err error) {
	b, err := os.ReadFile(h.Record)
	if errors.Is(err, os.ErrNotExist) {
		return r, nil
	}
	if err != nil {
		return r, fmt.Errorf("which host schedules: %w", err)
	}
	_ = json.Unmarshal(b, &r) // one that makes no sense names nobody
	return r, nil
}

func (h Hosts) write(r hostRecord) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return sys.ReplaceFile(h.Record, append(b, '\n'))
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
