package fs

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/history"
)

// Tx is a transaction. It holds the scheduler lock until Close.
type Tx struct {
	s          *Store
	unlock     release
	turn       Turn // nil: no other host schedules
	pos        position
	unfinished []kernel.WorldAction
	settling   *kernel.Result         // the result that the transaction settles, while it is not on record; else nil
	account    *history.Account       // of the next commit
	facts      map[kernel.Near]string // that the next commit judged by: see JudgedBy
	caught     *cache                 // the cache that has been brought to pos; nobody else writes it meanwhile
	last       *lastNumber            // as read; nil: not read yet
	lost       bool                   // entries of the history are gone, and that is not on record yet: the mark stays, so that the next Begin finds it again
	edited     bool                   // others have changed a record, and not all open jobs were read since
	completed  bool                   // Begin wrote out what another process had committed
	cut        error                  // why a plan is in the journal and not in the files; the next Begin completes it
}

// Load reads the records of scope.
func (t *Tx) Load(scope kernel.Scope) (kernel.Records, error) {
	if scope.Near != nil && time.Since(t.s.patrolled) >= t.s.pause {
		if err := t.s.catchUp(t.pos); err != nil {
			return kernel.Records{}, err
		}
		if err := t.s.patrol(); err != nil {
			t.s.dropCache()
		}
		t.s.patrolled = time.Now()
	}
	rec, err := t.s.load(t.pos, scope)
	t.edited = t.edited && scope.Near != nil
	return rec, err
}

// JudgedBy sets kernel.Outside.JudgedBy for the next commit that a tick judged. It replaces
// all earlier facts.
func (t *Tx) JudgedBy(facts map[kernel.Near]string) { t.facts = facts }

// Unfinished returns the world actions that an earlier transaction committed
// and did not complete.
func (t *Tx) Unfinished() []kernel.WorldAction { return t.unfinished }

// Completed reports whether Begin wrote out what another process had committed.
func (t *Tx) Completed() bool { return t.completed }

// Close releases the lock. Before that it saves the cache if a new process would be
// slow without it. It ignores errors of that: without a cache only time is lost.
func (t *Tx) Close() (err error) {
	defer func() { err = errors.Join(err, t.unlock()) }()
	t.witness()
	t.s.tx = nil
	c := t.s.cache
	if c == nil || c.offset != (journalOffset{t.pos.epoch, t.pos.end}) {
		return nil
	}
	if c.due() {
		if t.s.saveCache() != nil {
			t.s.dropCache()
			return nil
		}
		t.s.cache.dir = c.dir
	}
	if t.pos.dir != c.dir { // what changed the directory is in the cache now
		if t.pos.dir = c.dir; t.setPosition() != nil {
			t.s.dropCache()
		}
	}
	return nil
}

// setPosition writes the mark.
func (t *Tx) setPosition() error {
	if t.lost {
		return nil
	}
	return t.s.log.setPosition(t.pos)
}

// Commit does the record actions of p durably, all or none, and keeps the world
// actions until Done. Every job that p changes must have been loaded.
func (t *Tx) Commit(p kernel.Plan) (err error) {
	defer func() {
		if err != nil {
			t.s.dropCache()
		}
	}()
	if t.cut != nil {
		return fmt.Errorf("an earlier plan of this transaction is not complete: %w", t.cut)
	}
	if err := t.s.catchUp(t.pos); err != nil {
		return err
	}
	if p.Empty() {
		if t.know(p, nil) != nil {
			t.s.dropCache()
		}
		return nil
	}
	b, err := t.s.entryOf(p)
	damaged := errors.Is(err, errCache)
	if damaged {
		if err = t.s.rebuildCache(journalOffset{t.pos.epoch, t.pos.end}); err == nil {
			b, err = t.s.entryOf(p)
		}
	}
	if err != nil {
		return err
	}
	if err := t.write(b.e, t.s.log.full(t.pos)); errors.Is(err, kernel.ErrRecorded) {
		return err
	} else if err != nil {
		return t.s.unwritable(err)
	}
	if damaged || t.know(p, b.jobs) != nil { // a record that was read anew may have edits that the decision of p did not see
		t.s.dropCache()
	}
	return nil
}

// entryOf returns the builder of the entry that applies p to the files.
func (s *Store) entryOf(p kernel.Plan) (*builder, error) {
	for _, a := range p.Actions() {
		if id := a.Subject(); !aboutRun(a) && !kernel.ValidJobID(string(id)) { // it would become a path
			return nil, fmt.Errorf("commit %T: job id %q: %w", a, id, kernel.ErrInvalid)
		}
	}
	b := &builder{s: s, e: entry{now: s.opts.Now()}, at: map[kernel.JobID]int{}, jobs: map[kernel.JobID]*cachedJob{}}
	var err error
	if b.e.world, err = encodeActions(p.World); err != nil {
		return b, err
	}
	if err = p.Write(b); err == nil && b.last > 0 {
		b.does("", fileOp{kind: opWrite, path: numberFile, data: []byte(b.last.String() + "\n")})
	}
	return b, err
}

// aboutRun reports that a is about a manifest, and so about no job.
func aboutRun(a kernel.Action) bool {
	switch a.(type) {
	case kernel.CreateRun, kernel.RemoveRun:
		return true
	}
	return false
}

// write makes e durable and then writes the files that e describes. If full is set, it
// empties the journal first.
func (t *Tx) write(e entry, full bool) (err error) {
	if t.turn != nil {
		if err := t.turn.Holds(); err != nil {
			return err
		}
	}
	if err := t.link(&e, full); err != nil {
		return fmt.Errorf("history: %w", err)
	}
	if e.now.IsZero() {
		e.now = t.s.opts.Now()
	}
	if e.tells, err = t.accountOf(e.now); err != nil {
		return err
	}
	start := t.pos.end
	if start == 0 && t.pos.packs { // see packsMark
		e.groups = append(e.groups[:len(e.groups):len(e.groups)], group{ops: []fileOp{{kind: opPack}}})
	}
	dir := t.s.jobsStamp()
	end, body, err := t.s.log.append(e, start)
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	t.account, t.s.found, t.s.log.last.at.epoch = nil, nil, t.pos.epoch
	t.last = nil
	var at kernel.JobID
	if _, err := body.entry(func(g group) error { at = g.job; return t.s.applyGroup(g) }); err != nil {
		t.cut = fmt.Errorf("%w (apply %s: %w)", kernel.ErrRecorded, at, err)
		if concernsOneFile(err) {
			t.cut = fmt.Errorf("%w; if something is in the way, `vizier doctor` names it", t.cut)
		}
		return t.cut
	}
	t.pos.start, t.pos.end, t.pos.done, t.pos.rebooted = start, end, len(e.world) == 0, false
	t.agree(dir)
	if err := t.setPosition(); err != nil {
		t.cut = fmt.Errorf("%w (%w)", kernel.ErrRecorded, err)
	}
	return t.cut
}

// agree notes that the commit changed the jobs directory, whose stamp was before. If
// something else had changed it too, the stamps stay as they are, so that the next
// transaction looks for that.
func (t *Tx) agree(before int64) {
	after := t.s.jobsStamp()
	if t.pos.dir == before {
		t.pos.dir = after
	}
	if c := t.s.cache; c != nil && c.dir == before {
		c.dir = after
	}
}

// know updates the cache with the outcome of p.
func (t *Tx) know(p kernel.Plan, jobs map[kernel.JobID]*cachedJob) error {
	c := t.s.cache
	if p.Judged != "" {
		by := p.Judged
		if t.edited {
			by = "" // it judged what it found to have changed, and not what depended on that before
		}
		if err := c.judge(by, t.facts); err != nil {
			return err
		}
		c.told = t.facts
		defer func() { c.told = nil }()
	}
	for _, id := range slices.Sorted(maps.Keys(jobs)) {
		k := jobs[id]
		if k == nil {
			if err := c.remove(id); err != nil {
				return err
			}
			continue
		}
		k.file = t.s.stampOf(id)
		if err := c.put(*k, p.Judged == ""); err != nil {
			return err
		}
	}
	return c.log(journalOffset{t.pos.epoch, t.pos.end})
}

// Done forgets the remembered actions.
func (t *Tx) Done() error {
	t.unfinished = nil
	if t.pos.done {
		return nil
	}
	t.pos.done = true
	return t.setPosition()
}

// aside makes a change in the jobs directory that concerns no job, and notes that the cache
// agrees with it: after any other change of the directory, somebody compares the two.
func (s *Store) aside(change func() error) error {
	before := s.jobsStamp()
	err := change()
	if t := s.tx; t != nil {
		was := t.pos.dir
		if t.agree(before); t.pos.dir != was {
			return errors.Join(err, t.setPosition())
		}
	}
	return err
}
