package kernel

import (
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"
)

// LockMode says whether holders exclude each other. The zero value is
// Exclusive, the safe one.
type LockMode uint8

// The modes of seed 000.
const (
	Exclusive LockMode = iota
	Shared
)

var lockModeNames = NewNames[LockMode]("lock mode", "exclusive", "shared")

// Lock is one request: a key shared or exclusive, or, where Units is positive,
// that many units of the pool of that name.
type Lock struct {
	Key   string
	Mode  LockMode
	Units int
}

// Pool reports whether l asks for units of a counted pool.
func (l Lock) Pool() bool { return l.Units > 0 }

// What the prefixes of keys mean. They stand in records, so they never change.
const (
	branchKey   = "branch:"
	conflictKey = "merge_sentinel:"
)

// BranchLock is a lock of whoever changes a branch.
func BranchLock(branch string) Lock { return Lock{Key: branchKey + branch} }

// Branch is the branch that l is about.
func (l Lock) Branch() (branch string, ok bool) {
	branch, ok = strings.CutPrefix(l.Key, branchKey)
	return branch, ok && !l.Pool()
}

// Conflict is the plan whose merge conflict l is about.
func (l Lock) Conflict() (plan string, ok bool) { return strings.CutPrefix(l.Key, conflictKey) }

// Validate refuses empty keys and negative units.
func (l Lock) Validate() error {
	if strings.TrimSpace(l.Key) == "" || l.Units < 0 || !lockModeNames.Has(l.Mode) {
		return fmt.Errorf("lock %q (units %d): %w", l.Key, l.Units, ErrInvalid)
	}
	return nil
}

// Limits are the capacities of the counted locks, and of patience.
type Limits struct {
	MaxRunning int            // on this machine; 0: no limit
	Executors  map[string]int // as MaxRunning, for other executors
	Pools      map[string]int // a pool that is not named here has one unit
	Grace      time.Duration  // between TERM and KILL, of jobs that name none; 0: DefaultGrace
	Remote     bool           // it is another host's turn to start jobs of the local executor

	OthersApprove bool // who submitted a job may not approve it
}

// String tells capacities apart: a job waits for another reason where they are
// others.
func (l Limits) String() string {
	text := fmt.Sprint(l.MaxRunning, l.Executors, l.Pools)
	if l.Remote {
		text += " remote"
	}
	return text
}

// running is how many jobs an executor may run, and the name of that limit.
func (l Limits) running(executor string) (int, string) {
	if executor == LocalExecutor {
		return l.MaxRunning, "max_running"
	}
	return l.Executors[executor], "max_running of " + executor
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
	running map[string]int // by executor
}

type holding struct {
	shared, exclusive int
	reserved          bool // an older job waits to hold it exclusively
	awaited           bool // an older job waits to share it
}

type pooled struct{ used, reserved int }

// NewLockTable is an empty table under limits.
func NewLockTable(limits Limits) LockTable { return LockTable{limits: limits} }

// Denied says why a job cannot be granted its locks and a place on its
// executor, or "" when it can. An exclusive request needs the key free and no older job waiting for it; a shared one
// needs no exclusive holder and no older job waiting for the key exclusively
// (semantics 2, decision 11). A job's requests for one pool count together.
func (t *LockTable) Denied(executor string, locks []Lock) (why string, cause WaitCause) {
	for _, l := range locks {
		if l.Pool() {
			l.Units = units(locks, l.Key)
			p, size := t.pools[l.Key], t.limits.capacity(l.Key)
			if l.Units > size-p.used-p.reserved {
				return poolDetail(l, p, size), OtherCause
			}
			continue
		}
		h := t.keys[l.Key]
		if h.exclusive > 0 || h.reserved || l.Mode == Exclusive && (h.shared > 0 || h.awaited) {
			return "waiting on locks", OtherCause
		}
	}
	return t.full(executor)
}

// awaitingHost is why a job of the local executor waits where the process that
// ticks is not on the host that jobs are scheduled on.
const awaitingHost = "waiting for a scheduler on the host that jobs are submitted on"

// AwaitsHost reports that only a tick on the host that jobs are scheduled on starts
// j.
func (j *Job) AwaitsHost() bool {
	return j.State.Status == WaitingOnLocks && j.State.Wait.Cause == HostAbsent
}

// full says why an executor has no place for another job, or "" when it has.
func (t *LockTable) full(executor string) (why string, cause WaitCause) {
	if t.limits.Remote && executor == LocalExecutor {
		return awaitingHost, HostAbsent
	}
	if m, name := t.limits.running(executor); m > 0 && t.running[executor] >= m {
		return "waiting on pool " + name + " (" + strconv.Itoa(t.running[executor]) + " of " + strconv.Itoa(m) + " in use)", ExecutorFull
	}
	return "", OtherCause
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
		return waitingOnPool(l.Key) + fmt.Sprintf("needs %d of %d: more than it has)", l.Units, size)
	case p.reserved > 0 && p.used < size:
		return waitingOnPool(l.Key) + used + ", the rest reserved for an older job)"
	default:
		return waitingOnPool(l.Key) + used + ")"
	}
}

// waitingOnPool is how the reason of a job begins that waits for a pool.
func waitingOnPool(name string) string { return "waiting on pool " + name + " (" }

// Take records a job that runs on executor and holds locks.
func (t *LockTable) Take(executor string, locks []Lock) {
	if t.running == nil {
		t.running = map[string]int{}
	}
	t.running[executor]++
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
	c.keys, c.pools, c.running = maps.Clone(t.keys), maps.Clone(t.pools), maps.Clone(t.running)
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
