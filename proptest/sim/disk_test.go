package sim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/vizier-scheduler/vizier/app"
	"github.com/vizier-scheduler/vizier/app/storetest"
	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/history"
)

// disk is what survives every process: the files of the store in the order in
// which it writes them. A plan is appended to the journal, its records are
// written one by one, and the mark follows; the process that takes the lock next
// completes an entry after the mark.
type disk struct {
	locks    [2]*process // who holds the scheduler lock, as each host sees it
	turn     *process    // on the disk as the process that writes; it may have died
	records  map[kernel.JobID]kernel.Job
	markers  map[kernel.Artifact][]kernel.JobID
	outcomes map[kernel.JobID]map[int]kernel.Result // by attempt
	journal  []entry
	mark     mark
	archive  map[kernel.JobID]bool  // jobs that succeeded: see archiveOld
	archived int                    // the journal's length when jobs were last archived
	dirty    map[kernel.JobID]bool  // jobs that changed since the last tick
	judged   string                 // kernel.Plan.Judged of that tick
	facts    map[kernel.Near]string // the facts that it knew about things that no job makes
	last     kernel.Number          // the last number that a job got
	space    int                    // writes until the disk is full; negative: it is not
}

type mark struct {
	start, end     int // the entry applied last
	done, rebooted bool
}

type entry struct {
	groups []group
	world  []kernel.WorldAction
}

// group is a plan's part about one job. The record comes last.
type group struct {
	job     kernel.JobID
	record  *kernel.Job // nil: it is not written
	remove  bool
	forget  []kernel.Artifact
	publish []kernel.Artifact
	reset   bool
}

var errFull = errors.New("no space left on device")

func (d *disk) write() error {
	if d.space == 0 {
		return errFull
	}
	d.space = max(d.space-1, -1)
	return nil
}

type tx struct {
	n          *node
	pos        mark
	unfinished []kernel.WorldAction
	account    history.Account // of the next commit
	facts      map[kernel.Near]string
}

func (n *node) Begin(context.Context) (app.Tx, error) {
	d := &n.w.disk
	lock := n.schedulerLock()
	free := func() bool { return *lock == nil }
	mine := func() bool { return d.turn == nil || d.turn.dead || d.turn.host == n.host || n.w.shared }
	if n.w.impatient && !(free() && mine()) && n.runner == nil { // runners wait as long as it takes
		return nil, app.ErrBusy
	}
	n.await("lock", free)
	*lock = n.process
	n.await("turn", mine)
	d.turn = n.process
	t := &tx{n: n, pos: d.mark}
	if err := t.recover(); err != nil {
		d.turn, *lock = nil, nil
		return nil, err
	}
	n.w.checkReplayed()
	return t, nil
}

// schedulerLock returns the variable for the lock's holder, as this host sees it.
func (n *node) schedulerLock() **process {
	if n.w.shared {
		return &n.w.disk.locks[0]
	}
	return &n.w.disk.locks[n.host]
}

func (t *tx) recover() error {
	d := &t.n.w.disk
	rebooted := d.mark.end < 0
	if rebooted {
		t.pos = mark{done: true}
	}
	if !t.pos.done {
		t.unfinished = d.journal[t.pos.start].world
	}
	for at := t.pos.end; at < len(d.journal); at++ {
		e := d.journal[at]
		for _, g := range e.groups {
			t.n.effect("replay %s", g.job)
			if err := d.replay(g); err != nil {
				return fmt.Errorf("recover: %w", err)
			}
		}
		t.pos = mark{at, at + 1, len(e.world) == 0, rebooted}
		t.unfinished = e.world
	}
	if t.pos.rebooted {
		t.unfinished = slices.DeleteFunc(slices.Clone(t.unfinished), func(a kernel.WorldAction) bool { return !kernel.OutlastsBoot(a) })
	}
	if t.pos != d.mark {
		t.n.effect("mark")
		d.mark = t.pos
	}
	return nil
}

func (d *disk) replay(g group) error {
	if have, ok := d.records[g.job]; g.record != nil && ok && have.Rev >= g.record.Rev {
		d.applyMarkers(g)
		return nil
	}
	return d.apply(g)
}

func (d *disk) apply(g group) error {
	if !g.remove {
		if err := d.write(); err != nil {
			return err
		}
	}
	d.applyMarkers(g)
	if g.reset {
		delete(d.outcomes, g.job)
	}
	if g.record != nil {
		d.records[g.job] = *g.record
		d.last = max(d.last, g.record.Number)
		d.dirty[g.job] = true
		delete(d.archive, g.job)
	}
	if g.remove {
		delete(d.records, g.job)
		delete(d.dirty, g.job)
		delete(d.outcomes, g.job)
		delete(d.archive, g.job)
	}
	return nil
}

// judge notes what a tick judged, if p is its plan.
func (d *disk) judge(p kernel.Plan, facts map[kernel.Near]string) {
	if p.Judged == "" {
		facts = map[kernel.Near]string{}
	} else {
		clear(d.dirty)
		d.judged = p.Judged
	}
	d.facts = storetest.Judged(slices.Collect(maps.Values(d.records)), d.facts, facts)
}

func (d *disk) applyMarkers(g group) {
	for _, a := range g.forget {
		d.markers[a] = without(d.markers[a], g.job)
	}
	for _, a := range g.publish {
		d.markers[a] = append(without(d.markers[a], g.job), g.job)
	}
}

// ids returns the jobs that a Load of scope reads: those that are not archived,
// those that open jobs, and jobs whose routes wait, refer to, and those that scope names.
func (n *node) ids(scope kernel.Scope) map[kernel.JobID]bool {
	d, out := &n.w.disk, map[kernel.JobID]bool{}
	want := slices.Clone(scope.Jobs)
	needed := slices.Clone(scope.Artifacts)
	for id, j := range d.records {
		if d.archive[id] && !scope.All {
			continue
		}
		out[id] = true
		if j.Open() || j.State.Status == kernel.BlockedByDependency || j.State.Deferred {
			jobs, artifacts := refers(j)
			want, needed = append(want, jobs...), append(needed, artifacts...)
		}
	}
	for _, id := range want {
		if _, ok := d.records[id]; ok && !out[id] {
			out[id] = true
		}
	}
	for id := range d.archive {
		if j, ok := d.records[id]; ok && slices.ContainsFunc(j.Spec.Produces, func(a kernel.Artifact) bool { return slices.Contains(needed, a) }) {
			out[id] = true
		}
	}
	return out
}

// refers lists what the gates and routes of an open job read.
func refers(j kernel.Job) ([]kernel.JobID, []kernel.Artifact) {
	jobs := slices.Clone(j.Spec.After)
	for _, r := range j.Spec.Routes {
		jobs = append(jobs, r.To)
	}
	return jobs, j.Spec.Needs
}

func (t *tx) Load(scope kernel.Scope) (kernel.Records, error) {
	d := &t.n.w.disk
	if scope.Near == nil || !t.n.w.narrow {
		return d.read(t.n.ids(scope)), nil
	}
	var all []kernel.Job
	for _, j := range d.records {
		all = append(all, j)
	}
	slices.SortFunc(all, func(j, k kernel.Job) int { return j.Compare(&k) })
	near := slices.Clone(scope.Near)
	for id := range d.dirty {
		near = append(near, kernel.Near{Kind: kernel.Itself, Job: id})
	}
	rec := kernel.Records{Last: d.last, Narrow: true, Jobs: storetest.Pick(all, near), Judged: d.judged, Dirty: slices.Sorted(maps.Keys(d.dirty))}
	if scope.Reads {
		read := storetest.Elide(storetest.Reads(all, d.facts), func(a kernel.Artifact) bool { return len(d.markers[a]) == 0 })
		rec.Reads, rec.Elided = read.Reads, read.Elided
	}
	return rec, nil
}

func (t *tx) JudgedBy(facts map[kernel.Near]string) { t.facts = facts }

func (d *disk) read(ids map[kernel.JobID]bool) kernel.Records {
	rec := kernel.Records{Last: d.last}
	for _, id := range slices.Sorted(maps.Keys(ids)) {
		rec.Jobs = append(rec.Jobs, d.records[id])
	}
	for id, j := range d.records {
		if !ids[id] && j.State.Status == kernel.Succeeded {
			rec.Succeeded++
		}
	}
	return rec
}

func (n *node) Read(_ context.Context, scope kernel.Scope) (kernel.Records, error) {
	return n.w.disk.read(n.ids(scope)), nil
}

func (t *tx) Unfinished() []kernel.WorldAction { return t.unfinished }

func (t *tx) Commit(p kernel.Plan) (err error) {
	n, d := t.n, &t.n.w.disk
	if p.Empty() {
		d.judge(p, t.facts)
		return nil
	}
	t.decideAgain(p)
	e, err := d.entry(p)
	if err != nil {
		n.w.fail("%s commits a plan that the store refuses: %v", n.name, err)
		return err
	}
	n.effect("journal")
	if err := d.write(); err != nil {
		return err
	}
	n.w.checkEntry(n.process, e)
	d.journal = append(d.journal, e)
	for _, g := range e.groups {
		n.effect("write %s", g.job)
		if err := d.apply(g); err != nil {
			return fmt.Errorf("%w: %w", err, kernel.ErrRecorded)
		}
	}
	n.effect("mark")
	t.pos = mark{start: len(d.journal) - 1, end: len(d.journal), done: len(e.world) == 0}
	d.mark = t.pos
	d.judge(p, t.facts) // a crash before this loses it
	return nil
}

// entry converts p to a journal entry. It refuses a plan as a whole if it is over
// another revision than the store's.
func (d *disk) entry(p kernel.Plan) (entry, error) {
	b := entryBuilder{d: d, e: entry{world: p.World}, at: map[kernel.JobID]int{}}
	err := p.Write(&b)
	return b.e, err
}

type entryBuilder struct {
	d  *disk
	e  entry
	at map[kernel.JobID]int
}

func (b *entryBuilder) of(id kernel.JobID) *group {
	if _, ok := b.at[id]; !ok {
		b.at[id] = len(b.e.groups)
		b.e.groups = append(b.e.groups, group{job: id})
	}
	return &b.e.groups[b.at[id]]
}

func (b *entryBuilder) CreateJob(a kernel.CreateJob) error {
	if _, taken := b.d.records[a.Job.ID]; taken {
		return fmt.Errorf("create %s: %w", a.Job.ID, kernel.ErrConflict)
	}
	b.of(a.Job.ID).record = a.Job
	return nil
}

func (b *entryBuilder) PutState(a kernel.PutState) error {
	j, ok := b.d.records[a.Job]
	if g := b.of(a.Job); g.record != nil {
		j = *g.record
	} else if !ok {
		return fmt.Errorf("commit %s: %w", a.Job, kernel.ErrNotFound)
	}
	if j.Rev != a.If {
		return fmt.Errorf("commit %s: revision %d, planned over %d: %w", a.Job, j.Rev, a.If, kernel.ErrStale)
	}
	j.State, j.Rev = a.State, a.If+1
	b.of(a.Job).record = &j
	return nil
}

func (b *entryBuilder) NumberJob(a kernel.NumberJob) error {
	return fmt.Errorf("number %s: every job of this store has one: %w", a.Job, kernel.ErrConflict)
}

func (b *entryBuilder) RemoveJob(a kernel.RemoveJob) error {
	g := b.of(a.Job)
	g.record, g.publish, g.remove, g.forget = nil, nil, true, custom(a.Produces)
	return nil
}

func (b *entryBuilder) PurgeFiles(a kernel.PurgeFiles) error {
	g := b.of(a.Job)
	g.forget = append(g.forget, custom(a.Produces)...)
	return nil
}

func (b *entryBuilder) Publish(a kernel.Publish) error {
	g := b.of(a.Attempt.Job)
	g.publish = append(g.publish, custom(a.Artifacts)...)
	return nil
}

func (b *entryBuilder) Reset(a kernel.Reset) error {
	g := b.of(a.Attempt.Job)
	g.reset, g.publish, g.forget = true, nil, append(g.forget, custom(a.Produces)...)
	return nil
}

// Logs, manifests and hooks are no part of this world.
func (b *entryBuilder) Rotate(kernel.Rotate) error       { return nil }
func (b *entryBuilder) CreateRun(kernel.CreateRun) error { return nil }
func (b *entryBuilder) RemoveRun(kernel.RemoveRun) error { return nil }
func (b *entryBuilder) Announce(kernel.Announce) error   { return nil }

func custom(in []kernel.Artifact) []kernel.Artifact {
	return slices.DeleteFunc(slices.Clone(in), func(a kernel.Artifact) bool { return a.Kind != kernel.Custom })
}

func (t *tx) Done() error {
	t.unfinished = nil
	if t.pos.done {
		return nil
	}
	t.n.effect("done")
	t.n.w.checkPerformed("when they were forgotten")
	t.pos.done = true
	t.n.w.disk.mark = t.pos
	return nil
}

func (t *tx) Close() error {
	n, d := t.n, &t.n.w.disk
	lock := n.schedulerLock()
	if n.dead || *lock != n.process {
		return nil
	}
	n.effect("unlock")
	const due = 8 // entries that a new process may have to go through
	if len(d.journal)-d.archived >= due {
		n.archiveOld()
	}
	d.turn, *lock = nil, nil
	return nil
}

// archiveOld archives the jobs that succeeded and that no open job refers to, nor one whose routes wait.
func (n *node) archiveOld() {
	d := &n.w.disk
	keep, needed := []kernel.JobID{}, []kernel.Artifact{}
	for _, j := range d.records {
		if j.Open() || j.State.Deferred {
			jobs, artifacts := refers(j)
			keep, needed = append(keep, jobs...), append(needed, artifacts...)
		}
	}
	for id, j := range d.records {
		produces := slices.ContainsFunc(j.Spec.Produces, func(a kernel.Artifact) bool { return slices.Contains(needed, a) })
		if j.State.Status == kernel.Succeeded && !j.State.Deferred && !slices.Contains(keep, id) && !produces {
			d.archive[id] = true
		}
	}
	d.archived = len(d.journal)
}
