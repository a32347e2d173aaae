package sim

import (
	"errors"
	"fmt"
	"slices"

	"github.com/vizier-scheduler/vizier/kernel"
)

// checkReplayed checks, when the lock is taken, that the files agree with the
// journal.
func (w *world) checkReplayed() {
	for _, id := range w.jobIDs() {
		if have := w.disk.records[id]; have.Rev != w.truth[id].Rev || have.State != w.truth[id].State {
			w.fail("%s: the file has revision %d and the journal %d", id, have.Rev, w.truth[id].Rev)
		}
	}
	if len(w.disk.records) != len(w.truth) {
		w.fail("%d records, the journal has %d", len(w.disk.records), len(w.truth))
	}
	for a, owners := range w.markers {
		have := slices.Sorted(slices.Values(w.disk.markers[a]))
		if !slices.Equal(have, slices.Sorted(slices.Values(owners))) {
			w.fail("markers of %s: %v, the journal has %v", a, have, owners)
		}
	}
}

// perform notes that an action on the world was done.
func (w *world) perform(done kernel.WorldAction) {
	key := func(a kernel.WorldAction) string {
		switch a := a.(type) {
		case kernel.Launch:
			return fmt.Sprint("launch ", a.Attempt)
		case kernel.RemoveWorktree:
			return fmt.Sprint("remove ", a.Context)
		case kernel.ClearSentinel:
			return "clear " + a.Slug
		default:
			return fmt.Sprintf("%T %v", a, a)
		}
	}
	w.due = slices.DeleteFunc(slices.Clone(w.due), func(a kernel.WorldAction) bool { return key(a) == key(done) })
}

// checkPerformed checks, when committed actions are forgotten, that they were done.
// Launches of earlier attempts do not count.
func (w *world) checkPerformed(when string) {
	for _, a := range w.due {
		if l, ok := a.(kernel.Launch); ok {
			if j, ok := w.truth[l.Attempt.Job]; !ok || j.Fence(l.Attempt) != nil {
				continue
			}
		}
		w.fail("%T %+v had not been done %s", a, a, when)
	}
}

// checkCommand checks the start of a command.
func (w *world) checkCommand(c *child) {
	a := c.attempt
	if w.commands[a]++; w.commands[a] > 1 {
		w.fail("the command of %v runs a second time", a)
	}
	if w.voided(a) {
		w.fail("the command of %v runs, and it is on record as never started", a)
	}
	j := w.truth[a.Job]
	if w.excused[a] {
		c.orphan = true
		return
	}
	if err := j.Fence(a); err != nil {
		w.fail("the command of %v runs: %v", a, err)
	}
	b := j.Spec.Budget
	e := execution{a.Job, j.State.Generation}
	if w.runs[e]++; w.runs[e] > 1+b.Retries+b.Resumes+b.Reclaims {
		w.fail("%v: execution %d of generation %d with %+v", a, w.runs[e], e.generation, b)
	}
	for other, o := range w.children {
		if o.orphan || o.result != nil {
			continue
		}
		if other.Job == a.Job {
			w.fail("the command of %v runs beside that of %v", a, other)
		}
		if conflict(w.limits, o.locks, c.locks) {
			w.fail("the commands of %v and %v run together: %v, %v", a, other, c.locks, o.locks)
		}
	}
}

func (w *world) returned(r kernel.Result) kernel.Result {
	w.results[r.Attempt] = r
	return r
}

// checkConclude checks a runner that is about to write an outcome, by what the
// runner can know: the record.
func (w *world) checkConclude(r kernel.Result) {
	if j := w.disk.records[r.Attempt.Job]; j.State.Attempt > r.Attempt.N {
		w.fail("an outcome of %v is written after attempt %d began", r.Attempt, j.State.Attempt)
	}
}

func (w *world) record(r kernel.Result) { w.recorded[r.Attempt] = r }

func (w *world) refused(a kernel.AttemptID, err error) error {
	if err == nil {
		err = errors.New("no such program")
	}
	w.refusals[a] = err
	return err
}

// excuse notes that a fault broke the promise of the locks for a.
func (w *world) excuse(a kernel.AttemptID) {
	w.excused[a] = true
	if c := w.children[a]; c != nil {
		c.orphan = true
	}
}

// voided reports whether it is on record that an attempt for pilots never began.
func (w *world) voided(a kernel.AttemptID) bool { return w.orders[a] != nil && w.orders[a].void }

// reported reports whether a worker of a pilot has recorded how an attempt ended, which is all it has to do.
func (w *world) reported(a kernel.AttemptID) bool {
	_, told := w.recorded[a]
	return w.orders[a] != nil && told
}

// checkExit checks, when a runner ends by itself, that what it claimed is settled.
func (w *world) checkExit(p *process) {
	for id := range p.held {
		w.fail("%s left, and had taken the lock of %s", p.name, id)
	}
	for a, by := range w.claims {
		if j := w.truth[a.Job]; by == p && j.Fence(a) == nil && !w.excused[a] && !w.reported(a) {
			w.fail("%s left %v unsettled: %v", p.name, a, p.err)
		}
	}
}
