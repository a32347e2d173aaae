package kernel

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// LockMode says whether holders of a key exclude each other. The zero value is
// Exclusive, the safe mode.
type LockMode uint8

// The modes of seed 000.
const (
	Exclusive LockMode = iota
	Shared
)

var lockModeNames = NewNames[LockMode]("lock mode", "exclusive", "shared")

// Lock is a request for one lock: a key, shared or exclusive, or, if Units is
// positive, that many units of the pool named Key.
type Lock struct {
	Key   string
	Mode  LockMode
	Units int
}

// Pool reports whether l asks for units of a counted pool.
func (l Lock) Pool() bool { return l.Units > 0 }

// queue names the line in which jobs wait for a lock or a pool: the two are independent,
// even if they have the same key.
type queue struct {
	key  string
	pool bool
}

func (l Lock) queue() queue { return queue{l.Key, l.Pool()} }

// Prefixes of keys that have a meaning. They are stored in records, so they
// never change.
const (
	branchKey   = "branch:"
	conflictKey = "merge_sentinel:"
)

// BranchLock returns the lock that changes to a branch require.
func BranchLock(branch string) Lock { return Lock{Key: branchKey + branch} }

// Branch returns the branch that l locks, if it locks one.
func (l Lock) Branch() (branch string, ok bool) {
	branch, ok = strings.CutPrefix(l.Key, branchKey)
	return branch, ok && !l.Pool()
}

// Conflict returns the plan whose merge conflict l locks, if it locks one.
func (l Lock) Conflict() (plan string, ok bool) { return strings.CutPrefix(l.Key, conflictKey) }

// Validate returns ErrInvalid for an empty key, an unknown mode or negative
// units.
func (l Lock) Validate() error {
	if strings.TrimSpace(l.Key) == "" || l.Units < 0 || !lockModeNames.Has(l.Mode) {
		return fmt.Errorf("lock %q (units %d): %w", l.Key, l.Units, ErrInvalid)
	}
	return nil
}

// Limits is the configuration that decisions depend on: capacities of counted
// locks, the grace period and who may approve.
type Limits struct {
	MaxRunning int            // on this machine; 0: no limit
	Executors  map[string]int // MaxRunning of other executors
	Pools      map[string]int // units of each pool; 1 if the pool is not named here
	Grace      time.Duration  // time between TERM and KILL for jobs that name none; 0: DefaultGrace
	Remote     bool           // another host starts the jobs of the local executor

	OthersApprove bool // the submitter of a job may not approve it
}

// String identifies the capacities: if it changes, jobs may wait for other
// reasons.
func (l Limits) String() string {
	text := fmt.Sprint(l.MaxRunning, l.Executors, l.Pools)
	if l.Remote {
		text += " remote"
	}
	return text
}

// limitOf returns how many jobs an executor may run, where 0 is no limit, and
// the name of that limit.
func (l Limits) limitOf(executor string) (int, string) {
	if executor == LocalExecutor {
		return l.MaxRunning, "max_running"
	}
	return l.Executors[executor], "max_running of " + executor
}

// Exclude reports whether two jobs can never run at once: a lock is one's alone, or a pool or an
// executor has no room for both.
func (l Limits) Exclude(a, b *Spec) bool {
	if most, _ := l.limitOf(a.Task.On()); most == 1 && b.Task.On() == a.Task.On() {
		return true
	}
	return slices.ContainsFunc(a.Locks, func(x Lock) bool {
		return slices.ContainsFunc(b.Locks, func(y Lock) bool {
			if x.queue() != y.queue() {
				return false
			}
			if x.Pool() {
				return x.Units+y.Units > l.capacity(x.Key)
			}
			return x.Mode == Exclusive || y.Mode == Exclusive
		})
	})
}

func (l Limits) capacity(pool string) int {
	if n, ok := l.Pools[pool]; ok {
		return n
	}
	return 1
}

// tooSmall returns the first of locks that asks for more units than its pool has, with
// all that locks ask of that pool.
func (l Limits) tooSmall(locks []Lock) (first Lock, never bool) {
	for _, k := range locks {
		if !k.Pool() {
			continue
		}
		if k.Units = units(locks, k.Key); k.Units > l.capacity(k.Key) {
			return k, true
		}
	}
	return Lock{}, false
}

// LockTable records who holds which locks. It is computed from the running jobs
// and never stored. The zero value is empty and unlimited.
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

// NewLockTable returns an empty table under limits.
func NewLockTable(limits Limits) LockTable { return LockTable{limits: limits} }

// Denied returns why a job cannot be granted its locks and a place on its
// executor, or "" if it can; now says how full a pool is at the moment. A pool that is
// too small is reported first, since nothing else matters then. An exclusive request is
// granted if the key is free and no older job waits for it. A shared request is granted if
// no job holds the key exclusively and no older job waits to hold it exclusively (semantics
// 2, decision 11). A job's requests for one pool are added up.
func (t *LockTable) Denied(executor string, locks []Lock) (why, now string, cause WaitCause) {
	if l, never := t.limits.tooSmall(locks); never {
		return poolReason(l, t.limits.capacity(l.Key), ": more than it has)"), "", PoolTooSmall
	}
	for _, l := range locks {
		if l.Pool() {
			l.Units = units(locks, l.Key)
			p, size := t.pools[l.Key], t.limits.capacity(l.Key)
			if l.Units > size-p.used-p.reserved {
				why, now = poolDetail(l, p, size)
				return why, now, OtherCause
			}
			continue
		}
		h := t.keys[l.Key]
		if h.exclusive > 0 || h.reserved || l.Mode == Exclusive && (h.shared > 0 || h.awaited) {
			return "waiting on locks", "", OtherCause
		}
	}
	why, cause = t.full(executor)
	return why, "", cause
}

// awaitingHost is the reason of a job of the local executor that waits because
// the ticking process is not on the scheduling host.
const awaitingHost = "waiting for a scheduler on the host that jobs are submitted on"

// AwaitsHost reports whether j waits for a tick on the scheduling host.
func (j *Job) AwaitsHost() bool {
	return j.State.Status == WaitingOnLocks && j.State.Wait.Cause == HostAbsent
}

// full returns why an executor has no place for another job, or "" if it has
// one.
func (t *LockTable) full(executor string) (why string, cause WaitCause) {
	if t.limits.Remote && executor == LocalExecutor {
		return awaitingHost, HostAbsent
	}
	if m, name := t.limits.limitOf(executor); m > 0 && t.running[executor] >= m {
		return waitingOnPool + name + " (" + strconv.Itoa(t.running[executor]) + " of " + strconv.Itoa(m) + " in use)", ExecutorFull
	}
	return "", OtherCause
}

// units returns how many units of a pool locks ask for in total.
func units(locks []Lock, pool string) int {
	sum := 0
	for _, l := range locks {
		if l.Pool() && l.Key == pool {
			sum += l.Units
		}
	}
	return sum
}

// poolDetail returns the reason of a job that waits for a pool and, as now, how full the
// pool is. now is not part of the reason: otherwise each grant would rewrite the records
// of all waiting jobs.
func poolDetail(l Lock, p pooled, size int) (why, now string) {
	end := " in use"
	if p.reserved > 0 && p.used < size {
		end = " in use, the rest reserved for an older job"
	}
	return poolReason(l, size, ")"), ": " + strconv.Itoa(p.used) + end
}

// poolReason returns the reason of a job that waits for a pool of that size.
func poolReason(l Lock, size int, end string) string {
	return waitingOnPool + l.Key + " (needs " + strconv.Itoa(l.Units) + " of " + strconv.Itoa(size) + end
}

// waitingOnPool begins the reason of a job that waits for a pool.
const waitingOnPool = "waiting on pool "

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

// Reserve keeps what a denied job asked for from younger jobs. A stream of
// small or shared requests then cannot starve the job, and its reason does not
// change because a younger job started. A job that asks for more units than a pool
// has reserves nothing at all, since it can never start.
func (t *LockTable) Reserve(locks []Lock) {
	if _, never := t.limits.tooSmall(locks); never {
		return
	}
	for _, l := range locks {
		switch {
		case l.Pool():
			t.pool(l.Key, func(p *pooled) { p.reserved += l.Units })
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
