package kernel

import (
	"fmt"
	"maps"
	"strconv"
	"strings"
)

// LockMode says whether holders exclude each other. The zero value is
// Exclusive, the safe one.
type LockMode uint8

// The modes of seed 000.
const (
	Exclusive LockMode = iota
	Shared
	numLockModes
)

var lockModeNames = [numLockModes]string{"exclusive", "shared"}

func (m LockMode) String() string { return name(lockModeNames[:], int(m), "lock mode") }

// ParseLockMode is the inverse of String.
func ParseLockMode(s string) (LockMode, error) {
	return parse[LockMode](lockModeNames[:], s, "lock mode")
}

// Lock is one request: a key shared or exclusive, or, where Units is positive,
// that many units of the pool of that name.
type Lock struct {
	Key   string
	Mode  LockMode
	Units int
}

// Pool reports whether l asks for units of a counted pool.
func (l Lock) Pool() bool { return l.Units > 0 }

// Validate refuses empty keys and negative units.
func (l Lock) Validate() error {
	if strings.TrimSpace(l.Key) == "" || l.Units < 0 || l.Mode >= numLockModes {
		return fmt.Errorf("lock %q (units %d): %w", l.Key, l.Units, ErrInvalid)
	}
	return nil
}

// Limits are the capacities of the counted locks.
type Limits struct {
	MaxRunning int            // 0: no limit
	Pools      map[string]int // a pool that is not named here has one unit
}

func (l Limits) capacity(pool string) int {
	if n, ok := l.Pools[pool]; ok {
		return n
	}
	return 1
}

// LockTable is who holds what: a fold over the running jobs, never stored.
// The zero value is empty and unlimited.
type LockTable struct {
	limits  Limits
	keys    map[string]holding
	pools   map[string]pooled
	running int
	full    struct { // why another one waits while this many run: the same for all
		running int
		detail  string
	}
}

type holding struct {
	shared, exclusive int
	reserved          bool // an older job waits to hold it exclusively
	awaited           bool // an older job waits to share it
}

type pooled struct{ used, reserved int }

// NewLockTable is an empty table under limits.
func NewLockTable(limits Limits) LockTable { return LockTable{limits: limits} }

// Denied says why locks cannot be granted, or "" when they can. An exclusive
// request needs the key free and no older job waiting for it; a shared one
// needs no exclusive holder and no older job waiting for the key exclusively
// (semantics 2, decision 11). A job's requests for one pool count together.
func (t *LockTable) Denied(locks []Lock) string {
	for i, l := range locks {
		if l.Pool() {
			l.Units = units(locks[:i+1], l.Key)
			p, size := t.pools[l.Key], t.limits.capacity(l.Key)
			if l.Units > size-p.used-p.reserved {
				return poolDetail(l, p, size)
			}
			continue
		}
		h := t.keys[l.Key]
		if h.exclusive > 0 || h.reserved || l.Mode == Exclusive && (h.shared > 0 || h.awaited) {
			return "waiting on locks"
		}
	}
	if m := t.limits.MaxRunning; m > 0 && t.running >= m {
		if t.full.running != t.running {
			t.full.running, t.full.detail = t.running, fmt.Sprintf("waiting on pool max_running (%d of %d in use)", t.running, m)
		}
		return t.full.detail
	}
	return ""
}

// units is how much of a pool locks ask for together.
func units(locks []Lock, pool string) int {
	sum := 0
	for _, l := range locks {
		if l.Pool() && l.Key == pool {
			sum += l.Units
		}
	}
	return sum
}

// poolDetail names no number that changes with the length of the queue: each
// grant would rewrite the reason of every job that waits.
func poolDetail(l Lock, p pooled, size int) string {
	used := strconv.Itoa(p.used) + " of " + strconv.Itoa(size) + " in use"
	switch {
	case l.Units > size:
		return fmt.Sprintf("waiting on pool %s (needs %d of %d: more than it has)", l.Key, l.Units, size)
	case p.reserved > 0 && p.used < size:
		return "waiting on pool " + l.Key + " (" + used + ", the rest reserved for an older job)"
	default:
		return "waiting on pool " + l.Key + " (" + used + ")"
	}
}

// Take records a job that holds locks.
func (t *LockTable) Take(locks []Lock) {
	t.running++
	for _, l := range locks {
		if l.Pool() {
			t.pool(l.Key, func(p *pooled) { p.used += l.Units })
			continue
		}
		t.key(l.Key, func(h *holding) {
			if l.Mode == Shared {
				h.shared++
			} else {
				h.exclusive++
			}
		})
	}
}

// Reserve keeps what a denied job asked for from every younger one, so that a
// stream of small or shared requests cannot starve it, and so that the reason
// it waits for does not change because a younger job started. A pool request
// larger than the pool reserves nothing: it can never be granted.
func (t *LockTable) Reserve(locks []Lock) {
	for _, l := range locks {
		switch {
		case l.Pool():
			if units(locks, l.Key) <= t.limits.capacity(l.Key) {
				t.pool(l.Key, func(p *pooled) { p.reserved += l.Units })
			}
		case l.Mode == Exclusive:
			t.key(l.Key, func(h *holding) { h.reserved = true })
		default:
			t.key(l.Key, func(h *holding) { h.awaited = true })
		}
	}
}

func (t *LockTable) clone() LockTable {
	c := *t
	c.keys, c.pools = maps.Clone(t.keys), maps.Clone(t.pools)
	return c
}

func (t *LockTable) key(k string, f func(*holding)) {
	if t.keys == nil {
		t.keys = map[string]holding{}
	}
	h := t.keys[k]
	f(&h)
	t.keys[k] = h
}

func (t *LockTable) pool(k string, f func(*pooled)) {
	if t.pools == nil {
		t.pools = map[string]pooled{}
	}
	p := t.pools[k]
	f(&p)
	t.pools[k] = p
}
