package fs

import (
	"errors"
	"fmt"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Tx is a transaction: the scheduler lock, held.
type Tx struct {
	s          *Store
	unlock     release
	pos        position
	unfinished []kernel.WorldAction
	settles    *kernel.Result // what the transaction is about to settle, if nobody has recorded it
	cut        error          // a plan is in the journal and not in the files: the next Begin completes it
}

// Load reads the records of scope. The jobs are shared with the store: they are
// neither changed nor moved.
func (t *Tx) Load(scope kernel.Scope) (kernel.Records, error) {
	rec, err := t.s.load(t.pos, scope)
	x := &t.s.warm
	x.served, x.changed, x.settled, x.brought = err == nil, nil, nil, map[kernel.JobID]bool{}
	if err != nil {
		return rec, err
	}
	for i := range rec.Jobs {
		id := rec.Jobs[i].ID
		if k, live := x.live[id]; live { // one copy is enough
			k.job = &rec.Jobs[i]
			x.live[id] = k
		} else {
			x.brought[id] = true
		}
	}
	return rec, nil
}

// Changes is what other processes changed since the records were last loaded
// or committed here; false where a Load is needed to know.
func (t *Tx) Changes() (kernel.Changes, bool) { return t.s.changes(t.pos) }

// Unfinished are world actions that an earlier transaction committed
// and did not see through.
func (t *Tx) Unfinished() []kernel.WorldAction { return t.unfinished }

// Close releases the lock. It first writes the index, if a new process would
// be slow without: a cache, so that its failure is nobody's.
func (t *Tx) Close() (err error) {
	defer func() { err = errors.Join(err, t.unlock()) }()
	t.s.tx = nil
	// A transaction that loaded nothing knows nothing of what others did since.
	x := &t.s.warm
	current := x.epoch == t.pos.epoch && x.end == t.pos.end && x.file == t.pos.index
	if current && t.s.indexDue(t.pos) {
		var failed error
		if t.pos, failed = t.s.writeIndex(t.pos); failed != nil {
			t.s.warm = index{}
		}
	}
	return nil
}

// Commit does the record actions of p durably, all or none, and remembers the
// others until Done. Every job that p changes must have been loaded.
func (t *Tx) Commit(p kernel.Plan) (err error) {
	defer func() {
		if err != nil {
			t.s.warm = index{}
		}
	}()
	if t.cut != nil {
		return fmt.Errorf("an earlier plan of this transaction is not complete: %w", t.cut)
	}
	if !t.s.warm.caught {
		if err := t.s.catchUp(t.pos); err != nil {
			return err
		}
	}
	e, err := t.s.entryOf(p)
	if err != nil {
		return err
	}
	if t.s.log.full(t.pos) {
		if t.pos, err = t.s.log.checkpoint(t.pos); err != nil {
			return fmt.Errorf("checkpoint: %w", err)
		}
		t.s.warm.written = never // the index file is of the epoch before
	}
	start := t.pos.end
	end, err := t.s.log.append(e, start)
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	for _, g := range e.groups {
		if err := t.s.applyGroup(g); err != nil {
			t.cut = fmt.Errorf("apply %s: %w: %w", g.job, err, kernel.ErrRecorded)
			return t.cut
		}
	}
	t.pos.start, t.pos.end, t.pos.done, t.pos.rebooted, t.pos.dir = start, end, len(e.world) == 0, false, t.s.jobsStamp()
	t.s.warm.epoch, t.s.warm.end, t.s.warm.dir = t.pos.epoch, t.pos.end, t.pos.dir
	return t.s.log.setPosition(t.pos)
}

// Done forgets the remembered actions.
func (t *Tx) Done() error {
	t.unfinished = nil
	if t.pos.done {
		return nil
	}
	t.pos.done = true
	return t.s.log.setPosition(t.pos)
}

// aside does what changes names in the jobs directory without being about a
// job: the index that stands for the directory goes on doing so.
func (s *Store) aside(change func() error) error {
	before := s.jobsStamp()
	err := change()
	after := s.jobsStamp()
	if t := s.tx; t != nil && after != before && t.pos.dir == before {
		if s.warm.dir == before {
			s.warm.dir = after
		}
		t.pos.dir = after
		return errors.Join(err, s.log.setPosition(t.pos))
	}
	return err
}
