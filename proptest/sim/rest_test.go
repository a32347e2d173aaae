package sim

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/vizier-scheduler/vizier/app"
	"github.com/vizier-scheduler/vizier/kernel"
	"pgregory.net/rapid"
)

// rest checks liveness. The faults stop, except for a program that stays missing; the
// processes that stood still go on, or are killed. From then on commands succeed,
// people approve and the clock goes on, perhaps from long ago, and within a bounded number of ticks
// everything that can end has ended.
func (m *machine) rest(t *rapid.T) {
	w := m.w
	w.faults, w.disk.space = faults{cleanup: kernel.CleanupDone}, -1
	if ids := w.jobIDs(); len(ids) > 0 && oneIn(t, 4, "a program is missing") {
		w.broken = oneOf(t, "broken", ids...)
	}
	if rapid.Bool().Draw(t, "all die") {
		w.killAll()
	}
	w.now = w.now.Add(time.Hour)
	if oneIn(t, 4, "the clock is set back") {
		w.now = w.now.AddDate(-1, 0, 0)
		for a, at := range w.beats { // leases go by the clock of the files
			w.beats[a] = at.AddDate(-1, 0, 0)
		}
	}
	w.quiesce(t)
	w.beatAll()
	w.tick(t)
	w.afterOneTick(t)
	for range 20 + 8*len(w.truth) {
		moved := w.succeedAll()
		w.quiesce(t)
		for _, id := range w.jobIDs() {
			if j := w.truth[id]; j.Open() && j.State.Status != kernel.Running && j.State.Approval.State == kernel.Pending {
				moved = true
				w.finish(t, w.start(w.node(), "approve "+string(id), func(s *app.Scheduler) (app.Report, error) {
					return s.Approve(context.Background(), id, kernel.Consent{By: "ann"})
				}))
			}
		}
		w.now = w.now.Add(time.Hour)
		w.beatAll()
		entries := len(w.disk.journal)
		w.tick(t)
		w.quiesce(t)
		m.check(t)
		if !moved && len(w.children) == 0 && (w.broken != "" || entries == len(w.disk.journal)) {
			w.atRest(t)
			return
		}
	}
	t.Fatalf("the scheduler does not come to rest\n\t%s", strings.Join(w.trace, "\n\t"))
}

// beatAll makes every live process give a heartbeat.
func (w *world) beatAll() {
	for _, p := range w.processes {
		w.beat(p)
	}
}

func (w *world) tick(t *rapid.T) {
	w.finish(t, w.start(w.node(), "tick", func(s *app.Scheduler) (app.Report, error) { return s.Tick(context.Background()) }))
}

// finish runs a process to its end. It fails the test if the process does not end, or
// ends with an error.
func (w *world) finish(t *rapid.T, p *process) {
	const bound = 20_000 // effects
	if w.run(p, bound); p.live() {
		t.Fatalf("%s does not end: it is at %q\n\t%s", p.name, p.at, strings.Join(w.trace, "\n\t"))
	}
	if p.err != nil && p.runner == nil {
		t.Fatalf("%s: %v\n\t%s", p.name, p.err, strings.Join(w.trace, "\n\t"))
	}
}

// quiesce lets every process go on until it ends or its command runs.
func (w *world) quiesce(t *rapid.T) {
	pilots := 2
	for again := true; again; {
		again = false
		for _, p := range slices.Clone(w.processes) {
			if !p.runnable() {
				continue
			}
			const bound = 20_000
			if w.run(p, bound); p.runnable() {
				t.Fatalf("%s does not end: it is at %q\n\t%s", p.name, p.at, strings.Join(w.trace, "\n\t"))
			}
			again = true
		}
		if !again && pilots > 0 && w.deliver(0) { // orders that these cannot take now wait for the pilots after the next tick
			again, pilots = true, pilots-1
		}
	}
}

// afterOneTick checks, after a tick, that no job is on record as running without a
// live runner, that no command runs for an attempt that is over, and that every
// command of a cancelled job has been told to stop.
func (w *world) afterOneTick(t *rapid.T) {
	for _, id := range w.jobIDs() {
		j := w.truth[id]
		a := j.Attempt()
		if by := w.claims[a]; w.excused[a] && by != nil && by.live() {
			continue // its lock was lost, and the other host relies on its heartbeat
		}
		if o := w.orders[a]; o != nil && o.posted && !o.void {
			continue // it waits for a pilot
		}
		if j.State.Status == kernel.Running && !w.lives(a) {
			w.fail("%s runs as attempt %d, and nobody runs it", id, j.State.Attempt)
		}
	}
	w.quiesce(t)
	for a, c := range w.children {
		j := w.truth[a.Job]
		switch {
		case c.orphan:
			delete(w.children, a)
			if c.parent.live() {
				c.result = &kernel.Result{Attempt: a, Outcome: kernel.OutcomeFailed, Exit: 1, Class: kernel.ExitFailure}
			}
		case j.Fence(a) != nil || !c.parent.live():
			w.fail("the command of %v is left over: %s is %s/%d", a, j.ID, j.State.Status, j.State.Attempt)
		case !j.State.Stop.At.IsZero() && c.ctx.Err() == nil:
			w.fail("%v was cancelled, and its command was never told", a)
		}
	}
	for _, holder := range w.disk.locks {
		if holder != nil {
			w.fail("%s still holds the scheduler lock", holder.name)
		}
	}
}

// succeedAll ends every command: those that were asked to stop do, the others
// succeed.
func (w *world) succeedAll() bool {
	for a, c := range w.children {
		r := kernel.Result{Attempt: a, Ended: w.now}
		if c.ctx.Err() != nil {
			r.Outcome, r.Exit, r.Class = kernel.OutcomeFailed, 143, kernel.Signal
		} else {
			w.succeed(&r)
		}
		c.result = &r
	}
	return len(w.children) > 0
}

// atRest checks which jobs are open when nothing moves any more: only those that
// sleep, that need what nobody produces, whose program is missing, or that wait for
// an open job.
func (w *world) atRest(t *rapid.T) {
	for _, id := range w.jobIDs() {
		j := w.truth[id]
		waits := false
		for _, k := range w.jobIDs() {
			on := w.truth[k]
			waits = waits || k != id && on.Open() && hangsOn(j, on)
		}
		switch s := j.State.Status; {
		case s.Terminal(), s == kernel.Unscheduled, id == w.broken:
		case strings.HasPrefix(j.State.Wait.Detail, "awaiting producer"):
		case s == kernel.WaitingOnDeps && waits:
		case s == kernel.WaitingOnLocks && w.broken != "": // each tick gives the locks to the job whose start is then refused
		default:
			t.Fatalf("%s is left as %s (%s), generation %d\n\t%s", id, s, j.State.Wait.Detail, j.State.Generation, strings.Join(w.trace, "\n\t"))
		}
	}
}
