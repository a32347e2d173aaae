package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/vizier-scheduler/vizier/adapters/fs"
	"github.com/vizier-scheduler/vizier/app"
	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/view"
)

type waitCmd struct {
	Jobs    []string       `arg:"" name:"job" help:"The jobs: their numbers, such as 12 or 14/NODE, names, ids or the beginnings of them, or @last; a run means all of its jobs."`
	Timeout *time.Duration `placeholder:"DURATION" help:"Give up after this long, such as 90s or 2h, or 0 to only look; the jobs continue."`
	Format  string         `enum:"text,json" default:"text" placeholder:"text|json" help:"Output format."`
}

func (*waitCmd) Help() string {
	return "Exits 0 if all succeeded, 1 if some failed or were cancelled, 10 if some are blocked, sleep with nothing to wake them or need more of a pool than it has, 124 if the time is over. " +
		"A job does not count as ended while a job that its end woke may still send it back."
}

// waited is `jobs wait --format json`.
type waited struct {
	Outcome  string        `json:"outcome"` // succeeded, failed, blocked, asleep or timed_out
	ExitCode int           `json:"exit_code"`
	Jobs     []view.Status `json:"jobs"`
}

// ticker ticks once a second while a command waits. Jobs tick as they end, so
// this is only for lost runners and for retries that come due. While a resident
// scheduler runs, which does the same, ticks are rare. The zero value ticks at
// once, unless a resident scheduler runs.
type ticker struct {
	looked, last, asked time.Time
	asking              atomic.Bool // other executors are being queried
}

// How often a waiting command queries other executors if no resident scheduler
// does, and ticks if one runs.
const (
	askEvery  = 5 * time.Second
	restEvery = 5 * time.Second
)

func (t *ticker) tick(ctx context.Context, r *repo) error {
	now := time.Now()
	if now.Sub(t.looked) < time.Second {
		return nil
	}
	t.looked = now
	attended := r.Attended()
	if attended && t.last.IsZero() {
		t.last = now
	}
	if attended && now.Sub(t.last) < restEvery {
		return nil
	}
	t.last = now
	if len(r.Scheduler.Executors) > 0 && now.Sub(t.asked) >= askEvery && !attended && t.asking.CompareAndSwap(false, true) {
		t.asked = now
		resting, _ := r.Scheduler.NeedResident(ctx)
		s := *r.Scheduler // as it is configured now
		go func() {       // because a cluster may take long to answer; a later tick uses the answer
			s.Refresh(ctx, resting...)
			t.asking.Store(false)
		}()
	}
	if _, err := r.Scheduler.Tick(ctx); err != nil && !errors.Is(err, app.ErrBusy) && !readOnly(err) {
		return err
	}
	return nil
}

// deadlock finds out whether a job waits for itself, or for jobs that wait for it. The zero value looks at once.
type deadlock struct {
	looked time.Time
	noted  io.Closer // that the job waits, for others to see
}

// note notes what the job waits for. That is of use to people only, and a sandbox may forbid it.
func (d *deadlock) note(r *repo, own kernel.JobID, open []kernel.JobID) {
	if d.noted == nil && r.HoldWait != nil {
		d.noted, _ = r.HoldWait(own, open)
	}
}

// waitsOf returns what a command in the running job id waits for, as far as that is known.
func (r *repo) waitsOf(id kernel.JobID) []kernel.JobID {
	if r.WaitsOf == nil {
		return nil
	}
	others, err := r.WaitsOf(id)
	if err != nil {
		return nil
	}
	return others
}

// release ends the note.
func (d *deadlock) release() {
	if d != nil && d.noted != nil {
		_ = d.noted.Close()
		d.noted = nil
	}
}

// look fails if this command runs in a job, and that job is one of open, or one of the first of them waits for its
// end. A hook has the variable of the job that it is told of, and is no part of it.
func (d *deadlock) look(c *call, ctx context.Context, r *repo, open []kernel.JobID) error {
	const every, first = 5 * time.Second, 16
	own := kernel.JobID(c.env.Get("VIZIER_JOB_ID"))
	if hook := c.env.Get("VIZIER_EVENT") != ""; hook || !kernel.ValidJobID(string(own)) || r.Root != c.home || time.Since(d.looked) < every || ctx.Err() != nil {
		return ctx.Err()
	}
	d.looked = time.Now()
	if slices.Contains(open, own) {
		return fmt.Errorf("job %s is this one: it never ends if it waits for itself: %w", own, kernel.ErrConflict)
	}
	slices.Sort(open)
	d.note(r, own, open)
	id, err := r.Scheduler.HeldUpBy(ctx, own, open[:min(first, len(open))], r.waitsOf)
	if err == nil && id != "" {
		err = fmt.Errorf("job %s waits for job %s, which is this one: it never ends if it waits: %w", id, own, kernel.ErrConflict)
	}
	return err
}

// readOnly reports whether err says that this process may read a store and not write it. Then other
// processes have to tick.
func readOnly(err error) bool {
	return errors.Is(err, syscall.EROFS) || errors.Is(err, iofs.ErrPermission)
}

// Run waits until the jobs are terminal.
func (w *waitCmd) Run(c *call) error {
	r, err := c.repo()
	if err != nil {
		return err
	}
	all, err := c.waitFor(r, w.Jobs)
	if err != nil {
		return err
	}
	defer all.release(c)
	ids := all.ids
	ctx, cancel := c.ctx, context.CancelFunc(func() {})
	if w.Timeout != nil {
		ctx, cancel = context.WithTimeout(c.ctx, *w.Timeout)
	}
	defer cancel()
	snap, asleep, err := c.await(ctx, all, &deadlock{})
	timedOut := w.Timeout != nil && c.ctx.Err() == nil && ctx.Err() != nil &&
		(errors.Is(err, context.DeadlineExceeded) || errors.Is(err, app.ErrBusy))
	switch {
	case timedOut:
		var open int
		if open, _, err = all.look(c.ctx); err == nil { // the last one, or with a timeout of 0 the only one
			timedOut, asleep = open > 0, all.asleep
			snap, err = r.Scheduler.Records(c.ctx, app.Only(ids))
		}
		if err != nil {
			return err
		}
	case c.ctx.Err() != nil:
		return fmt.Errorf("%w: the jobs continue", context.Canceled)
	case err != nil:
		return err
	}
	if snap, err = r.Scheduler.WithPromptRuns(c.ctx, app.Only(ids), snap, ids); err != nil {
		return err
	}
	removed, err := all.removed(snap)
	if err != nil {
		return err
	}
	doc, err := w.answer(all, snap, asleep, removed, timedOut)
	if err != nil {
		return err
	}
	c.knows(r, snap)
	for _, id := range slices.Sorted(maps.Keys(asleep)) {
		c.ui.warn("job %s sleeps: %s", id, asleep[id])
	}
	if w.Format == "json" {
		if err := c.ui.json(doc); err != nil {
			return err
		}
	} else {
		for _, s := range doc.Jobs {
			text := string(s.Job) + " " + s.Status
			if s.Run != "" {
				text += " (" + s.Run + ")"
			}
			if _, is := removed[s.Job]; is {
				text += " (removed)"
			}
			c.ui.print(c.ui.paint(s.Status, text))
		}
	}
	if timedOut {
		return &failure{class: classTimeout, err: fmt.Errorf("not all jobs have ended after %s", *w.Timeout), hint: "vizier why " + string(doc.firstOpen())}
	}
	return exits(doc.ExitCode)
}

// await waits, ticking, until all jobs have ended; sleepers need not be woken. It
// returns the state at that time, and the other jobs that nothing is going to
// start, with the reason. It fails if d, which may be nil, finds a deadlock.
func (c *call) await(ctx context.Context, all *waiting, d *deadlock) (*kernel.Snapshot, map[kernel.JobID]string, error) {
	c.staysInFront()
	var p pace
	var t ticker
	defer c.ui.progress("")
	defer d.release()
	for before := ""; ; {
		if err := t.tick(ctx, all.r); err != nil {
			return nil, nil, err
		}
		open, counts, err := all.look(ctx)
		if err != nil {
			return nil, nil, err
		}
		all.persons.tell(c)
		if open == 0 {
			snap, err := all.r.Scheduler.Records(ctx, app.Only(all.ids))
			return snap, all.asleep, err
		}
		if d != nil {
			if err := d.look(c, ctx, all.r, slices.Collect(maps.Keys(all.open))); err != nil {
				return nil, nil, err
			}
		}
		if counts != before {
			c.ui.progress(fmt.Sprintf("waiting for %d of %d: %s", open, len(all.ids), counts))
		}
		const few, many = 16, 128
		if open > many { // a look at many jobs takes long, so wait for more changes
			err = all.lull(ctx)
		} else {
			err = p.wait(ctx, counts != before && open <= few)
		}
		if err != nil {
			return nil, nil, err
		}
		before = counts
	}
}

// persons are the jobs that wait for a person, and in words what for. What was told of one is "".
type persons map[kernel.JobID]string

// note notes what j of s, which has not ended, needs a person for, if it waits for one.
func (p *persons) note(s *kernel.Snapshot, j *kernel.Job) {
	const waits = "waits for a person: "
	switch kind := j.Needs(); {
	case kind == kernel.NeedsSecret:
		p.add(j.ID, waits+j.State.Reason)
	case kind == kernel.NeedsApproval, kind == kernel.NeedsDecision:
		by := s.Barred(j).Else()
		if by != "" {
			by = " by " + by
		}
		p.add(j.ID, waits+j.State.Wait.Detail+by+"; next: vizier jobs approve "+string(j.ID))
	case j.AwaitsProducer():
		p.add(j.ID, "waits: "+j.State.Wait.Detail+", which no job is to make; next: vizier why "+string(j.ID))
	}
}

// add notes why a job waits, unless something is known of it.
func (p *persons) add(id kernel.JobID, what string) {
	if *p == nil {
		*p = persons{}
	}
	if _, known := (*p)[id]; !known {
		(*p)[id] = what
	}
}

// tell says which jobs wait for a person, and what for, once each. Of many it only says how many.
func (p persons) tell(c *call) {
	var news []kernel.JobID
	for _, id := range slices.Sorted(maps.Keys(p)) {
		if p[id] != "" {
			news = append(news, id)
		}
	}
	const few = 5
	for _, id := range news[:min(few, len(news))] {
		c.ui.warn("job %s %s", id, p[id])
	}
	if len(news) > few {
		c.ui.warn("%d more jobs wait for a person; next: vizier status", len(news)-few)
	}
	for _, id := range news {
		p[id] = ""
	}
}

// readAll is how long a wait relies on reported changes: a record that was
// edited by hand is not reported.
const readAll = 5 * time.Second

// waiting is the state of a wait. It only reads jobs that changed.
type waiting struct {
	r        *repo
	ids      []kernel.JobID
	sleepers map[kernel.JobID]bool
	only     kernel.AttemptID // it waits only until this attempt has ended, whatever follows; zero: until the jobs have

	at   fs.JournalOffset
	news []kernel.JobID // those of ids that changed between the last look and at
	told bool           // the changes since the last look are all known
	read time.Time      // when all were last read
	of   map[kernel.JobID]bool
	open map[kernel.JobID]kernel.Status // jobs that have not ended
	late []kernel.JobID                 // jobs that have ended but may be sent back by others, or that may be asleep

	asleep map[kernel.JobID]string // jobs that nothing is going to start, and why

	persons persons // those that have not ended and that waited for a person

	ended map[kernel.JobID]*kernel.Snapshot // jobs that have ended, as it was then: somebody may remove them
	refs  map[kernel.JobID]view.Reference   // of jobs that had not ended when the wait began

	followed []io.Closer // ephemeral runs that it keeps
}

// waitFor returns a wait for the jobs that refs name; see app.Scheduler.Members. r
// may become another repository: see follow.
func (c *call) waitFor(r *repo, refs []string) (*waiting, error) {
	if err := r.follow(c.ctx, refs); err != nil {
		return nil, err
	}
	w := &waiting{r: r}
	if r.Changed != nil { // before the read, so that changes during it are read again
		_, w.at, _ = r.Changed(w.at)
	}
	snap, ids, sleepers, err := r.Scheduler.Members(c.ctx, refs)
	if err != nil {
		return nil, err
	}
	c.knows(r, snap)
	w.ids, w.sleepers, w.told = ids, sleepers, true
	w.restart()
	var jobs []*kernel.Job
	w.refs = map[kernel.JobID]view.Reference{}
	for _, id := range ids {
		j := snap.Job(id)
		if j != nil {
			jobs = append(jobs, j)
		}
		if j != nil && j.Open() && j.State.Status != kernel.Unscheduled && j.Needs() != kernel.NeedsPool {
			w.waits(snap, j)
			w.refs[id] = view.ReferenceOf(j)
		} else { // whether it has ended depends on other jobs
			w.late = append(w.late, id)
		}
	}
	return w, w.keep(c.ctx, jobs)
}

// keep keeps the ephemeral runs of the jobs until release, so that their end can be shown. A reader that must not
// write here cannot do that.
func (w *waiting) keep(ctx context.Context, jobs []*kernel.Job) error {
	kept := map[kernel.RunID]bool{}
	for _, j := range jobs {
		if !j.Spec.Origin.Ephemeral || kept[j.Spec.Origin.Run] {
			continue
		}
		if w.r.Foreign != nil && w.r.Foreign(ctx) != nil {
			return nil
		}
		kept[j.Spec.Origin.Run] = true
		hold, err := w.r.FollowRun(j.Spec.Origin.Run)
		if err != nil && !readOnly(err) {
			return err
		}
		if err == nil {
			w.followed = append(w.followed, hold)
		}
	}
	return nil
}

// release lets the runs that it kept be removed, by a tick if they have ended.
func (w *waiting) release(c *call) {
	if len(w.followed) == 0 {
		return
	}
	for _, hold := range w.followed {
		if err := hold.Close(); err != nil {
			c.ui.warn("%v", err)
		}
	}
	if rep, err := w.r.Scheduler.Tick(c.ctx); err == nil { // else the next one does it
		c.report(rep)
	}
}

// restart forgets everything: all jobs are going to be read.
func (w *waiting) restart() {
	w.asleep = map[kernel.JobID]string{}
	w.read, w.open, w.of = time.Now(), make(map[kernel.JobID]kernel.Status, len(w.ids)), make(map[kernel.JobID]bool, len(w.ids))
	for _, id := range w.ids {
		w.of[id] = true
	}
}

// hear notes which jobs have changed, and reports whether any has.
func (w *waiting) hear() bool {
	if w.r.Changed == nil {
		w.told = false
		return false
	}
	ids, now, told := w.r.Changed(w.at)
	ids = slices.DeleteFunc(ids, func(id kernel.JobID) bool { return !w.of[id] })
	w.at, w.told, w.news = now, w.told && told, append(w.news, ids...)
	return len(ids) > 0
}

// lull waits until jobs have changed and no change follows for a moment, for half a
// second at most.
func (w *waiting) lull(ctx context.Context) error {
	const step, steps = 20 * time.Millisecond, 24
	for n, came := 0, false; n < steps; n++ {
		if err := pause(ctx, step); err != nil {
			return err
		}
		news := w.hear()
		if came && !news {
			return nil
		}
		came = came || news
	}
	return nil
}

// look returns how many jobs have not ended, and a summary of their state.
func (w *waiting) look(ctx context.Context) (int, string, error) {
	w.hear()
	changed := append(w.news, w.late...)
	if !w.told || time.Since(w.read) >= readAll {
		changed = w.ids
		w.restart()
	}
	w.news, w.told = nil, true
	if len(changed) > 0 {
		if _, err := w.r.look(ctx, changed, func(s *kernel.Snapshot) { w.take(s, changed) }); err != nil {
			return 0, "", err
		}
	}
	return len(w.open), w.counts(), nil
}

// take updates the state from the jobs of s.
func (w *waiting) take(s *kernel.Snapshot, ids []kernel.JobID) {
	w.late = nil
	asleep := s.Asleep(ids...)
	for _, id := range ids {
		j := s.Job(id)
		delete(w.asleep, id)
		switch {
		case j == nil, w.sleepers[id] && j.State.Status == kernel.Unscheduled,
			w.only.Job == id && (j.State.Status != kernel.Running || j.Attempt() != w.only):
			delete(w.open, id)
		case asleep[id] != "":
			w.late, w.asleep[id] = append(w.late, id), asleep[id]
			delete(w.open, id)
		case j.State.Status == kernel.Unscheduled:
			w.open[id], w.late = j.State.Status, append(w.late, id) // whether it wakes depends on other jobs
		case j.Open():
			w.waits(s, j)
		case s.Pending(id) != "":
			w.open[id], w.late = j.State.Status, append(w.late, id)
		default:
			delete(w.open, id)
			if w.ended == nil {
				w.ended = map[kernel.JobID]*kernel.Snapshot{}
			}
			w.ended[id] = s
		}
	}
}

// waits notes that j of s has not ended, and what it needs a person for.
func (w *waiting) waits(s *kernel.Snapshot, j *kernel.Job) {
	w.open[j.ID] = j.State.Status
	w.persons.note(s, j)
}

func (w *waiting) counts() string {
	by := map[string]int{}
	for _, st := range w.open {
		by[view.ShortStatus(st)]++
	}
	var parts []string
	for _, word := range slices.Sorted(maps.Keys(by)) {
		parts = append(parts, fmt.Sprintf("%d %s", by[word], word))
	}
	return strings.Join(parts, ", ")
}

// removedJob is how a job ended that is not on record any more.
type removedJob struct {
	view.Status
	ended kernel.Status
}

// removed returns how the jobs ended that somebody removed between two looks, by the event log: cancelled and cleaned at
// once, as an example.
func (w *waiting) removed(now *kernel.Snapshot) (map[kernel.JobID]removedJob, error) {
	out := map[kernel.JobID]removedJob{}
	for _, id := range w.ids {
		if ref, open := w.refs[id]; open && now.Job(id) == nil && w.ended[id] == nil && now.Unreadable(id) == "" {
			out[id] = removedJob{Status: view.Status{Job: id, Reference: ref}}
		}
	}
	if len(out) == 0 {
		return nil, nil
	}
	log := w.r.Events(0)
	defer log.Close()
	err := log.Read(func(text []byte) error {
		var l eventLine
		_ = json.Unmarshal(text, &l) // fields that cannot be decoded are left out
		st, is := out[kernel.JobID(l.Job)]
		if ended, ends := endings[kernel.EventKind(l.Event)]; is && ends {
			st.ended, st.Status.Status, st.ExitCode = ended, ended.String(), l.ExitCode
			out[st.Job] = st
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read events: %w", err)
	}
	for _, id := range w.ids {
		if st, is := out[id]; is && st.Status.Status == "" {
			return nil, fmt.Errorf("job %s was removed, and the event log does not say how it ended: %w", id, kernel.ErrNotFound)
		}
	}
	return out, nil
}

// endings are the events that tell how a job ended.
var endings = map[kernel.EventKind]kernel.Status{kernel.JobSucceeded: kernel.Succeeded, kernel.JobFailedFinal: kernel.Failed,
	kernel.JobCancelled: kernel.Cancelled, kernel.JobBlocked: kernel.BlockedByDependency}

func (w *waitCmd) answer(all *waiting, now *kernel.Snapshot, asleep map[kernel.JobID]string, removed map[kernel.JobID]removedJob, timedOut bool) (waited, error) {
	doc := waited{Outcome: "succeeded", Jobs: make([]view.Status, len(all.ids))}
	for i, id := range all.ids {
		var paths view.Paths
		if w.Format == "json" { // only JSON has them
			paths = all.r.paths(id, w.Format)
		}
		s := now
		if s.Job(id) == nil && all.ended[id] != nil {
			s = all.ended[id]
		}
		status, st := removed[id].Status, removed[id].ended
		if _, gone := removed[id]; !gone {
			var err error
			if status, err = view.StatusOf(s, id, paths); err != nil {
				return doc, err
			}
			st = s.Job(id).State.Status
		}
		doc.Jobs[i] = status
		switch st {
		case kernel.Failed, kernel.Cancelled:
			doc.Outcome, doc.ExitCode = "failed", 1
		case kernel.BlockedByDependency, kernel.BlockedByApproval:
			if doc.ExitCode != 1 {
				doc.Outcome, doc.ExitCode = "blocked", 10
			}
		default:
			if asleep[id] != "" && doc.ExitCode == 0 {
				doc.Outcome, doc.ExitCode = "asleep", 10
			}
		}
	}
	if timedOut {
		doc.Outcome, doc.ExitCode = "timed_out", classTimeout.exit
	}
	return doc, nil
}

// firstOpen returns the first job that has not ended.
func (doc waited) firstOpen() kernel.JobID {
	for _, s := range doc.Jobs {
		if st, err := kernel.ParseStatus(s.Status); err == nil && !st.Terminal() {
			return s.Job
		}
	}
	return ""
}
