package sim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/vizier-scheduler/vizier/app"
	"github.com/vizier-scheduler/vizier/kernel"
)

// world is the machine: a disk, processes, commands, a clock, a repository, and the
// faults that are on.
type world struct {
	disk      disk
	narrow    bool // the store can read only near jobs
	now       time.Time
	limits    kernel.Limits
	processes []*process // those that live
	pids      int
	hosts     int
	farm      bool // there are pilots
	orders    map[kernel.AttemptID]*order
	shared    bool // hosts see each other's job locks
	trusting  bool // and know that they do
	locks     map[kernel.JobID]*jobLock
	claims    map[kernel.AttemptID]*process
	beats     map[kernel.AttemptID]time.Time // when an attempt last gave a sign of life
	children  map[kernel.AttemptID]*child
	sentinels map[string]bool
	faults
	ledger
}

// faults are switched on and off by a drawn history.
type faults struct {
	refuse     error                // what the executor says; nil: it starts what it is asked to
	broken     kernel.JobID         // never started, for want of its program
	blind      bool                 // observations fail
	impatient  bool                 // commands do not wait for a busy scheduler
	unsweeping bool                 // a sweep ends nothing
	daemons    bool                 // commands outlive their runner
	cleanup    kernel.CleanupStatus // what comes of removing a worktree
}

func (w *world) clock() time.Time {
	if w.now.After(w.latest) {
		w.latest = w.now
	}
	for id, at := range w.earliest {
		if w.now.Before(at) {
			w.earliest[id] = w.now
		}
	}
	return w.now
}

// jobLock is a job's flock, which another host may not see. All hosts see what is
// written in its file: the attempt it was last taken for, and on which host.
type jobLock struct {
	holders   [2]*process
	inscribed int
	by        int
}

func (l *jobLock) free(p *process) {
	for i, h := range l.holders {
		if h == p {
			l.holders[i] = nil
		}
	}
}

// holder returns the process that holds the lock, as far as host can see.
func (w *world) holder(l *jobLock, host int) *process {
	if w.shared {
		host = 0
	}
	return l.holders[host]
}

func (w *world) hold(l *jobLock, p *process) {
	if w.shared {
		l.holders[0] = p
	} else {
		l.holders[p.host] = p
	}
}

func (w *world) inscribe(l *jobLock, a kernel.AttemptID, by *process) {
	l.inscribed, l.by = a.N, by.host
	w.beats[a] = w.now
}

// handle is a job's lock in a process.
type handle struct {
	p       *process // nil: somebody took it over
	attempt kernel.AttemptID
	lock    *jobLock
}

func (h *handle) Close() error {
	if h.p == nil || h.p.dead {
		return nil
	}
	h.p.effect("let go of %s", h.attempt.Job)
	h.lock.free(h.p)
	delete(h.p.held, h.attempt.Job)
	h.p = nil
	return nil
}

func (w *world) lockOf(id kernel.JobID) *jobLock {
	if w.locks[id] == nil {
		w.locks[id] = &jobLock{}
	}
	return w.locks[id]
}

// child is a running command.
type child struct {
	attempt kernel.AttemptID
	locks   []kernel.Lock
	parent  *process
	ctx     context.Context
	result  *kernel.Result // once it ended
	orphan  bool           // a fault keeps it running beside its job's next attempt
}

// GoString returns the form in which a drawn history shows it.
func (c *child) GoString() string { return fmt.Sprint("command of ", c.attempt) }

// takeOver is like that of adapters/proc: a process passes the lock of one attempt
// on to the job's next.
func (n *node) takeOver(a kernel.AttemptID) (l *jobLock, started bool) {
	h := n.held[a.Job]
	switch {
	case h == nil:
		return nil, false
	case h.attempt.N >= a.N:
		return nil, true
	}
	delete(n.held, a.Job)
	h.p = nil
	if h.lock != n.w.lockOf(a.Job) { // its file was lost: nobody sees the lock that is passed on
		n.w.excuse(a)
	}
	return h.lock, false
}

func (n *node) Start(_ context.Context, a kernel.AttemptID) error {
	w := n.w
	n.effect("start %s/%d", a.Job, a.N)
	w.perform(kernel.Launch{Attempt: a})
	l, started := n.takeOver(a)
	if started {
		return nil
	}
	if l == nil {
		l = w.lockOf(a.Job)
		switch held := w.holder(l, n.host) != nil; {
		case held && (l.inscribed == a.N || w.claims[a] != nil):
			return nil
		case l.inscribed == a.N && l.by != n.host:
			return nil // started on the other host
		case held:
			return w.refused(a, fmt.Errorf("the runner of attempt %d has not let go", l.inscribed))
		}
		w.hold(l, n.process)
	}
	defer l.free(n.process)
	if w.claims[a] != nil {
		return nil
	}
	if w.refuse != nil || w.broken == a.Job {
		return w.refused(a, w.refuse)
	}
	w.inscribe(l, a, n.process)
	n.effect("fork %s/%d", a.Job, a.N)
	w.startRunner(a, l)
	return nil
}

func (n *node) Alive(_ context.Context, attempts []kernel.AttemptID) map[kernel.AttemptID]kernel.Fact[kernel.Runner] {
	n.effect("who lives")
	out := map[kernel.AttemptID]kernel.Fact[kernel.Runner]{}
	for _, a := range attempts {
		if n.w.blind {
			out[a] = kernel.Unseen[kernel.Runner]("cannot tell")
		} else {
			out[a] = kernel.Seen(kernel.Runner{Liveness: n.liveness(a)})
		}
	}
	return out
}

// lease is how long a runner on the other host counts as alive without a heartbeat.
const lease = 30 * time.Second

// liveness is like that of adapters/proc.
func (n *node) liveness(a kernel.AttemptID) kernel.Liveness {
	w, l := n.w, n.w.lockOf(a.Job)
	held, by := w.holder(l, n.host) != nil, w.claims[a]
	switch {
	case by == nil && l.inscribed != a.N:
		if held {
			return kernel.Alive
		}
		return kernel.Dead
	case by != nil && by.host != n.host, by == nil && l.by != n.host:
		if w.trusting && !held && by == nil {
			return kernel.NeverStarted
		}
		if w.trusting && !held {
			return kernel.Dead
		}
		if w.now.Sub(w.beats[a]) <= lease {
			return kernel.Alive
		}
		if by == nil || w.lives(a) || w.children[a] != nil { // cut off, paused, or never begun: it looks like a dead one
			w.excuse(a)
		}
		return kernel.Dead
	case held:
		return kernel.Alive
	case by == nil:
		return kernel.NeverStarted
	}
	return kernel.Dead
}

func (n *node) Stop(ctx context.Context, a kernel.AttemptID) error {
	w := n.w
	n.effect("stop %s/%d", a.Job, a.N)
	w.perform(kernel.Stop{Attempt: a})
	p := w.claims[a]
	if p == nil || p.host != n.host {
		return nil
	}
	if p.live() && w.holder(w.lockOf(a.Job), n.host) != nil {
		p.told = true
		return nil
	}
	return n.sweep(a)
}

func (n *node) Sweep(_ context.Context, a kernel.AttemptID) error {
	n.effect("sweep %s/%d", a.Job, a.N)
	n.w.perform(kernel.Sweep{Attempt: a})
	return n.sweep(a)
}

func (n *node) sweep(a kernel.AttemptID) error {
	w := n.w
	if w.unsweeping {
		w.excuse(a)
		return errors.New("its processes do not end")
	}
	if p := w.claims[a]; p != nil && p.host != n.host {
		if w.children[a] != nil {
			w.excuse(a)
		}
		return errors.New("it can only be ended on its own host")
	}
	if c := w.children[a]; c != nil {
		delete(w.children, a)
		if c.parent.live() { // it sees its command die
			c.result = &kernel.Result{Attempt: a, Outcome: kernel.OutcomeFailed, Exit: 137, Class: kernel.Signal, Ended: w.now}
		}
	}
	if l, p := w.lockOf(a.Job), w.claims[a]; p != nil && w.holder(l, n.host) == p && l.inscribed == a.N && p != n.process {
		w.kill(p)
	}
	return nil
}

// Beat is not called: heartbeats are drawn (see machine.beat).
func (n *node) Beat(kernel.AttemptID) error { return nil }

// beat makes p give a heartbeat. A runner also looks at its record then.
func (w *world) beat(p *process) {
	for a, by := range w.claims {
		if by == p {
			w.beats[a] = w.now
		}
	}
	p.told = p.runner != nil
}

func (n *node) Acquire(a kernel.AttemptID) (io.Closer, error) {
	n.effect("acquire %s/%d", a.Job, a.N)
	l, started := n.takeOver(a)
	if started {
		return nil, fmt.Errorf("lock of %s: %w", a.Job, kernel.ErrConflict)
	}
	if l == nil {
		if l = n.w.lockOf(a.Job); n.w.holder(l, n.host) != nil {
			return nil, fmt.Errorf("lock of %s: %w", a.Job, kernel.ErrConflict)
		}
		n.w.hold(l, n.process)
	}
	n.w.inscribe(l, a, n.process)
	n.w.perform(kernel.Launch{Attempt: a})
	n.w.spawned[a]++
	h := &handle{n.process, a, l}
	n.held[a.Job] = h
	return h, nil
}

func (n *node) Claim(a kernel.AttemptID) error {
	n.effect("claim %s/%d", a.Job, a.N)
	if o := n.w.orders[a]; n.w.claims[a] != nil || o != nil && o.void {
		return fmt.Errorf("claim %s/%d: %w", a.Job, a.N, kernel.ErrStale)
	}
	if err := n.w.disk.write(); err != nil {
		return err
	}
	n.w.claims[a] = n.process
	n.w.beats[a] = n.w.now
	return nil
}

func (n *node) Run(ctx context.Context, j *kernel.Job) kernel.Result {
	w, a := n.w, j.Attempt()
	n.effect("command %s/%d", a.Job, a.N)
	stopped := kernel.Result{Attempt: a, Outcome: kernel.OutcomeFailed, Exit: 143, Class: kernel.Signal, Ended: w.now}
	if ctx.Err() != nil {
		return w.returned(stopped)
	}
	c := &child{attempt: a, locks: j.Spec.Locks, parent: n.process, ctx: ctx}
	w.checkCommand(c)
	w.children[a] = c
	n.await("child", func() bool { return c.result != nil })
	if w.children[a] == c {
		delete(w.children, a)
	}
	return w.returned(*c.result)
}

func (n *node) Job(id kernel.JobID) (kernel.Job, error) {
	j, ok := n.w.disk.records[id]
	if !ok {
		return j, kernel.ErrNotFound
	}
	return j, nil
}

func (n *node) Conclude(r kernel.Result) error {
	w := n.w
	w.checkConclude(r)
	n.effect("outcome %s/%d", r.Attempt.Job, r.Attempt.N)
	if err := w.disk.write(); err != nil {
		return err
	}
	w.conclude(r)
	w.record(r)
	return nil
}

// conclude writes how an attempt ended to the disk.
func (w *world) conclude(r kernel.Result) {
	if w.disk.outcomes[r.Attempt.Job] == nil {
		w.disk.outcomes[r.Attempt.Job] = map[int]kernel.Result{}
	}
	w.disk.outcomes[r.Attempt.Job][r.Attempt.N] = r
}

func (n *node) Observe(_ context.Context, p kernel.Probes, f *kernel.Facts) {
	n.effect("look")
	w := n.w
	for _, a := range p.Markers {
		f.Markers[a] = look(w, slices.Clone(w.disk.markers[a]))
	}
	for _, a := range p.Artifacts {
		f.Present[a] = look(w, w.sentinels[a.Name])
	}
	for _, b := range p.Branches {
		f.Heads[b] = look(w, kernel.CommitID("c1"))
	}
	f.Merging = look(w, "")
	if p.Head {
		f.Head = look(w, "main")
	}
	for _, a := range p.Attempts {
		var on *kernel.Result
		if r, ok := w.disk.outcomes[a.Job][a.N]; ok {
			on = &r
		}
		f.Results[a] = kernel.Seen(on)
	}
}

func look[T any](w *world, v T) kernel.Fact[T] {
	if w.blind {
		return kernel.Unseen[T]("no answer")
	}
	return kernel.Seen(v)
}

func (n *node) RemoveWorktree(_ context.Context, c kernel.Context) kernel.Cleanup {
	n.effect("remove worktree %s", c.Worktree)
	n.w.perform(kernel.RemoveWorktree{Context: c})
	return kernel.Cleanup{Status: n.w.cleanup}
}

func (n *node) DropConflict(slug string, _ *kernel.Job) error {
	n.effect("clear sentinel %s", slug)
	n.w.perform(kernel.ClearSentinel{Slug: slug})
	delete(n.w.sentinels, slug)
	return nil
}

// final is a refusal that trying again cannot change.
var final = &app.Refusal{Reason: "no such program"}
