// Package sim runs the real kernel and the real app on a simulated machine in
// memory, and breaks the machine.
//
// The machine has a disk, processes, commands, locks, a repository and a
// clock. Every scheduler and every runner is a process: the unchanged code of app,
// which stands still before each of its effects on the world. Which process goes
// on, for how many effects, and what happens to it then, is drawn.
//
// # What may go wrong
//
//   - A process dies (kill -9), or is held up for any time, before any effect:
//     taking the scheduler lock, an observation, the journal entry of a plan,
//     each of its records, its mark, each action on the world, the claim of an
//     attempt, its command, its outcome, the release of a lock. While one
//     stands still the others go on, up to the locks.
//   - The machine loses power: all processes end, and records and markers that
//     were not synced are lost. The journal, claims and outcomes are synced.
//   - The executor refuses to start an attempt, for now or for good.
//   - Observations fail. Sweeps fail. A worktree cannot be removed.
//   - A command outlives its runner until it is swept.
//   - A job's lock file is lost while its runner holds it, so that the runner
//     counts as dead, another one gets its job, and the first one reports late.
//   - The disk is full for a while: for the journal, a record after the journal,
//     an outcome, a claim.
//   - The clock stands still, leaps or jumps back.
//   - A second host works on the same disk, which may or may not see the locks
//     of the first, including the scheduler lock: if it does not, both may try to write
//     at the same moment, and either may die then. Heartbeats are late or do not come, so
//     that a live runner counts as dead on the other host, and finds out when it goes on.
//   - Pilots run some of the jobs: their workers take orders from the disk, on either
//     host, and report there. All workers of a pilot die at once, before or after they
//     claim an order. Jobs whose orders they are about to claim are cancelled.
//
// Schedulers of both hosts work in turns, so that each finds what the other has begun.
//
// Not in the model: a disk that forgets what it synced or changes what it
// holds, and records that cannot be read.
//
// # What must hold
//
// The ledger checks every plan as it becomes durable, every command as it starts and
// every outcome as it is written. At the end of each draw, the faults are switched
// off, and then everything that can end must end (rest_test.go).
//
// A draw takes about 30 steps. RAPID_CHECKS and RAPID_STEPS scale the run; a
// failure prints the drawn history, the effects and the seed.
package sim

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/app"
	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/retention"
	"pgregory.net/rapid"
)

type machine struct {
	w             *world
	watchers      [2]*node // long-lived schedulers
	born, batches int
}

func newMachine(t *rapid.T) *machine {
	w := newWorld(kernel.Limits{MaxRunning: rapid.IntRange(0, 3).Draw(t, "max running"), Pools: map[string]int{"gpu": 2}})
	w.hosts, w.shared = 1+rapid.IntRange(0, 1).Draw(t, "second host"), rapid.Bool().Draw(t, "locks are seen everywhere")
	w.trusting = w.shared && rapid.Bool().Draw(t, "and known to be")
	w.farm = rapid.Bool().Draw(t, "pilots")
	w.narrow = rapid.Bool().Draw(t, "the store can tell what is near")
	return &machine{w: w}
}

func newWorld(limits kernel.Limits) *world {
	w := &world{now: epoch, ledger: newLedger(), limits: limits, hosts: 1,
		orders: map[kernel.AttemptID]*order{}, locks: map[kernel.JobID]*jobLock{}, claims: map[kernel.AttemptID]*process{}, beats: map[kernel.AttemptID]time.Time{},
		children: map[kernel.AttemptID]*child{}, sentinels: map[string]bool{}, faults: faults{cleanup: kernel.CleanupDone}}
	w.disk = disk{records: map[kernel.JobID]kernel.Job{}, markers: map[kernel.Artifact][]kernel.JobID{},
		outcomes: map[kernel.JobID]map[int]kernel.Result{}, archive: map[kernel.JobID]bool{}, dirty: map[kernel.JobID]bool{}, mark: mark{done: true}, space: -1}
	return w
}

// do lets a scheduler do a verb: a new one, or one that is long-lived. The scheduler
// ends, is held up or dies.
func (m *machine) do(t *rapid.T, verb string, f func(*app.Scheduler) (app.Report, error)) {
	w := m.w
	n := w.node()
	n.home = rapid.IntRange(0, w.hosts-1).Draw(t, "host")
	if i := rapid.IntRange(0, 2).Draw(t, "scheduler"); i > 0 {
		if have := m.watchers[i-1]; have == nil || have.dead {
			m.watchers[i-1] = n
		} else if have.ended {
			n = have
		}
	}
	p := w.start(n, verb, f)
	if w.farm && rapid.Bool().Draw(t, "pilots start") {
		defer w.deliver(n.home)
	}
	if cut := rapid.IntRange(0, 40).Draw(t, "effects"); cut > 20 || cut == 0 {
		w.run(p, 500)
	} else {
		w.run(p, cut)
		if rapid.Bool().Draw(t, "dies") {
			w.kill(p)
		}
	}
}

// start makes a process of n that does a verb and checks its report.
func (w *world) start(n *node, verb string, f func(*app.Scheduler) (app.Report, error)) *process {
	p := w.spawn(verb, n.home, func(p *process) error {
		rep, err := f(n.sched)
		w.note("%s: %v", p.name, err)
		if err == nil {
			w.checkReport(rep)
		} else if errors.Is(err, kernel.ErrStale) {
			w.fail("%s under the lock: %v", verb, err)
		}
		return err
	})
	p.verb, _, _ = strings.Cut(verb, " ")
	n.process = p
	return p
}

// checkReport checks, at the end of a transaction, that the scheduler's snapshot
// agrees with the store.
func (w *world) checkReport(rep app.Report) {
	for _, j := range rep.Snapshot.Jobs() {
		if have, ok := w.truth[j.ID]; !ok || have.Rev != j.Rev || have.State != j.State {
			w.fail("a scheduler believes %s to be %s at revision %d: it is %s at %d", j.ID, j.State.Status, j.Rev, have.State.Status, have.Rev)
		}
	}
	for _, id := range w.jobIDs() {
		if j := w.truth[id]; j.Open() && !rep.Snapshot.Narrow() && rep.Snapshot.Job(id) == nil {
			w.fail("a scheduler does not know %s, which is %s", id, j.State.Status)
		}
	}
}

func (m *machine) submit(t *rapid.T) {
	news := m.batch(t)
	m.do(t, "submit", func(s *app.Scheduler) (app.Report, error) {
		rep, err := s.Submit(context.Background(), news, "ann")
		for _, n := range news {
			if _, there := m.w.truth[n.ID]; there != (err == nil) {
				m.w.fail("%s was submitted with the error %v, and is there: %t", n.ID, err, there)
			}
			for _, id := range n.Spec.After {
				if _, there := m.w.truth[id]; err == nil && !there {
					m.w.fail("%s was submitted after %s, which is not there", n.ID, id)
				}
			}
		}
		return rep, err
	})
}

func (m *machine) tick(t *rapid.T) {
	m.do(t, "tick", func(s *app.Scheduler) (app.Report, error) { return s.Tick(context.Background()) })
}

// verb draws a person's decision about any job.
func (m *machine) verb(t *rapid.T) {
	ids := m.w.jobIDs()
	if len(ids) == 0 {
		t.Skip("no jobs")
	}
	id, ctx := oneOf(t, "job", ids...), context.Background()
	switch verb := oneOf(t, "verb", "cancel", "retry", "approve", "reject", "gc", "collect"); verb {
	case "cancel":
		m.cancel(t, id)
	case "retry":
		m.do(t, "retry "+string(id), func(s *app.Scheduler) (app.Report, error) { return s.Retry(ctx, "ann", id) })
	case "approve":
		m.do(t, "approve "+string(id), func(s *app.Scheduler) (app.Report, error) {
			rep, err := s.Approve(ctx, id, kernel.Consent{By: "ann"})
			if j := m.w.truth[id]; err == nil && j.State.Approval.State != kernel.Approved && !strings.HasPrefix(j.State.Approval.RequestedBy, "route") {
				m.w.fail("%s was approved and is %s", id, j.State.Approval.State)
			}
			return rep, err
		})
	case "reject":
		m.do(t, "reject "+string(id), func(s *app.Scheduler) (app.Report, error) {
			return s.Reject(ctx, id, kernel.Refusal{By: "ann", Reason: "no"})
		})
	case "gc":
		m.do(t, "gc", func(s *app.Scheduler) (app.Report, error) { return s.GC(ctx, time.Minute) })
	case "collect":
		m.w.now = m.w.now.Add(2 * time.Hour) // what ended within the hour stays
		m.do(t, "collect", func(s *app.Scheduler) (app.Report, error) {
			s.Keep = retention.Policy{Count: 1}
			work, err := s.Collect(ctx)
			if err != nil || len(work.Jobs) == 0 {
				return s.Tick(ctx)
			}
			rep, _, err := work.Next(ctx)
			return rep, err
		})
	}
}

func (m *machine) cancel(t *rapid.T, id kernel.JobID) {
	m.do(t, "cancel "+string(id), func(s *app.Scheduler) (app.Report, error) {
		rep, err := s.Cancel(context.Background(), id, "ann", true)
		if j := m.w.truth[id]; err == nil && j.State.Status == kernel.Running && j.State.Stop.At.IsZero() && j.State.Generation == 0 {
			m.w.fail("%s was cancelled and runs on", id)
		}
		return rep, err
	})
}

// withdraw cancels a job that a worker is about to claim, which would rarely happen
// by chance.
func (m *machine) withdraw(t *rapid.T) {
	taken := m.w.beingTaken()
	if len(taken) == 0 {
		t.Skip("nothing is being taken")
	}
	m.cancel(t, oneOf(t, "job", taken...))
}

// proceed lets a process go on.
func (m *machine) proceed(t *rapid.T) {
	var able []*process
	for _, p := range m.w.processes {
		if p.runnable() {
			able = append(able, p)
		}
	}
	if len(able) == 0 {
		t.Skip("nobody can go on")
	}
	p := oneOf(t, "process", able...)
	if n := rapid.IntRange(0, 30).Draw(t, "effects"); n > 0 {
		m.w.run(p, n)
	} else {
		m.w.run(p, 500)
	}
}

// beat makes a process give a heartbeat. A process for which none is drawn is cut
// off.
func (m *machine) beat(t *rapid.T) {
	if len(m.w.processes) == 0 {
		t.Skip("nobody lives")
	}
	m.w.beat(oneOf(t, "process", m.w.processes...))
}

// pilot lets the engine start a pilot if one is missing.
func (m *machine) pilot(t *rapid.T) {
	if !m.w.deliver(rapid.IntRange(0, m.w.hosts-1).Draw(t, "host")) {
		t.Skip("no pilot is missing")
	}
}

func (m *machine) kill(t *rapid.T) {
	if len(m.w.processes) == 0 {
		t.Skip("nobody to kill")
	}
	p := oneOf(t, "process", m.w.processes...)
	m.w.note("kill %s before %s", p.name, p.at)
	m.w.kill(p)
}

// end ends a command, and most often lets its runner handle that.
func (m *machine) end(t *rapid.T) {
	var running []*child
	for _, a := range slices.SortedFunc(maps.Keys(m.w.children), compareAttempts) {
		if c := m.w.children[a]; c.result == nil && c.parent.live() {
			running = append(running, c)
		}
	}
	if len(running) == 0 {
		t.Skip("no command runs")
	}
	c := oneOf(t, "command", running...)
	r := m.result(t, c)
	c.result = &r
	m.w.note("%v: %s", c.attempt, r.Outcome)
	if n := rapid.IntRange(0, 60).Draw(t, "effects"); n > 30 || n == 0 {
		m.w.run(c.parent, 500)
	} else {
		m.w.run(c.parent, n)
		if rapid.Bool().Draw(t, "dies") {
			m.w.kill(c.parent)
		}
	}
}

func compareAttempts(a, b kernel.AttemptID) int {
	return strings.Compare(fmt.Sprintf("%s/%05d", a.Job, a.N), fmt.Sprintf("%s/%05d", b.Job, b.N))
}

// fault switches one fault on, or all off.
func (m *machine) fault(t *rapid.T) {
	w := m.w
	switch oneOf(t, "fault", "none", "refuse", "blind", "full", "impatient", "unsweeping", "daemons", "cleanup", "lock") {
	case "none":
		w.faults, w.disk.space = faults{cleanup: kernel.CleanupDone}, -1
	case "refuse":
		w.refuse = oneOf[error](t, "says", errors.New("try again"), final)
	case "blind":
		w.blind = true
	case "full":
		w.disk.space = rapid.IntRange(0, 8).Draw(t, "writes left")
	case "impatient":
		w.impatient = true
	case "unsweeping":
		w.unsweeping = true
	case "daemons":
		w.daemons = true
	case "cleanup":
		w.cleanup = oneOf(t, "cleanup", kernel.CleanupDegraded, kernel.CleanupFailed, kernel.CleanupSkipped)
	case "lock":
		w.loseLock(t)
	}
}

// loseLock removes a job's lock file while its runner holds the lock.
func (w *world) loseLock(t *rapid.T) {
	var held []kernel.JobID
	for _, id := range w.jobIDs() {
		if w.lockOf(id).holders != [2]*process{} {
			held = append(held, id)
		}
	}
	if len(held) == 0 {
		t.Skip("no lock is held")
	}
	id := oneOf(t, "lock of", held...)
	j := w.truth[id]
	w.excuse(j.Attempt())
	w.excuse(kernel.AttemptID{Job: id, N: w.lockOf(id).inscribed})
	w.locks[id] = &jobLock{}
}

// losePower ends everything that runs, and removes what was not synced. The sync of
// an outcome covers its job's record.
func (m *machine) losePower(t *rapid.T) {
	w, d := m.w, &m.w.disk
	w.killAll()
	clear(w.children)
	clear(w.locks)
	w.due = nil
	for _, id := range w.jobIDs() {
		if j := w.truth[id]; j.State.Status == kernel.Running {
			w.rebooted[j.Attempt()] = true
		}
		if _, synced := d.outcomes[id]; !synced && rapid.Bool().Draw(t, "lost") {
			delete(d.records, id)
		}
	}
	if rapid.Bool().Draw(t, "markers lost") {
		clear(d.markers)
	}
	clear(d.archive)
	d.archived, d.mark, d.judged = 0, mark{end: -1}, ""
	m.watchers = [2]*node{}
}

func (w *world) killAll() {
	for len(w.processes) > 0 {
		w.kill(w.processes[0])
	}
}

func (m *machine) time(t *rapid.T) {
	m.w.now = m.w.now.Add(time.Duration(rapid.IntRange(-120, 600).Draw(t, "seconds")) * time.Second)
}

func (m *machine) check(t *rapid.T) {
	if m.w.violation != "" {
		t.Fatalf("%s\n\t%s", m.w.violation, strings.Join(m.w.trace, "\n\t"))
	}
}

// detector says that this binary has the race detector.
var detector = false

// TestMain asks for more draws than rapid's hundred, since a draw is cheap. With the race
// detector it is not, which sees the same goroutines in each.
func TestMain(m *testing.M) {
	if os.Getenv("RAPID_CHECKS") == "" {
		checks := "1000"
		if detector && os.Getenv("VIZIER_LONG") == "" {
			checks = "200"
		}
		if err := flag.Set("rapid.checks", checks); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

func TestNothingIsLostOrDoneTwice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rapid.SyncTest(t, func(t *rapid.T) {
			m := newMachine(t)
			defer m.w.killAll()
			rare := func(f func(*rapid.T)) func(*rapid.T) {
				return func(t *rapid.T) {
					if !oneIn(t, 4, "happens") {
						t.Skip("not now")
					}
					f(t)
				}
			}
			t.Repeat(map[string]func(*rapid.T){
				"submit": m.submit, "tick": m.tick, "verb": m.verb, "clock": m.time,
				"proceed": m.proceed, "proceed too": m.proceed, "end": m.end, "end too": m.end, "heartbeat": m.beat,
				"pilot": m.pilot, "withdraw": m.withdraw, "kill": rare(m.kill), "fault": m.fault, "power": rare(rare(m.losePower)), "": m.check,
			})
			m.rest(t)
			m.check(t)
		})
	})
}
