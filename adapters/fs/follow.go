package fs

import (
	"github.com/vizier-scheduler/vizier/kernel"
)

// catchUp makes the index stand for the store at pos, by the cheapest way that
// is right: the journal since, the file and the journal since, or every record.
func (s *Store) catchUp(pos position) error {
	dir := s.jobsStamp()
	if s.goOn(pos, dir) == nil {
		return nil
	}
	s.warm = index{}
	if pos.dir == dir && s.readIndex(pos) == nil {
		return nil
	}
	s.warm = index{}
	return s.scan(pos, dir)
}

// changes is what other processes changed since the jobs were loaded.
func (s *Store) changes(pos position) (kernel.Changes, bool) {
	x := &s.warm
	if len(s.held) > 0 || !x.served || s.goOn(pos, s.jobsStamp()) != nil || !x.served { // what is followed may end it
		return kernel.Changes{}, false
	}
	c := kernel.Changes{Archived: x.archive.len() - len(x.brought), Settled: x.settled, Jobs: make([]kernel.Job, 0, len(x.changed))}
	for _, id := range x.changed {
		if k, live := x.live[id]; live { // or it settled
			c.Jobs = append(c.Jobs, *k.job)
		}
	}
	x.changed, x.settled = nil, nil
	return c, true
}

// goOn brings what this process knows to pos by the journal alone. Where
// another process wrote the index meanwhile, what it archived is taken over at
// the point of the journal that its file stands for.
func (s *Store) goOn(pos position, dir int64) error {
	x := &s.warm
	if !x.caught || x.epoch != pos.epoch || x.end > pos.end || x.file > pos.index || pos.dir != dir {
		return errShort
	}
	if x.file != pos.index {
		if err := s.goOver(pos); err != nil {
			x.caught = false
			return err
		}
	}
	err := s.follow(x.end, pos, true)
	x.caught = err == nil
	return err
}

// goOver makes this index continue the file that pos names instead of an
// earlier one.
func (s *Store) goOver(pos position) error {
	x := &s.warm
	b, err := s.base.read(indexFile, 1<<31)
	if err != nil {
		return err
	}
	var to index
	if err := to.readHead(&reader{b: b}, pos); err != nil {
		return err
	}
	if to.begun > x.file && x.archive.size > 0 || to.end < x.end || to.archive.size < x.archive.size {
		return errShort
	}
	there := pos
	there.end = to.end
	if err := s.follow(x.end, there, true); err != nil {
		return err
	}
	old := x.archive
	to.archive.producers = old.producers
	for id := range old.gone { // it was asked for here, which tells nobody else
		if !to.archive.gone[id] {
			delete(x.live, id)
			x.served = false
		}
	}
	if err := s.readArchive(old, to.archive, func(j kernel.Job) {
		if !to.archive.gone[j.ID] {
			x.settle(j.ID)
			remember(to.archive.producers, j)
		}
	}); err != nil {
		return err
	}
	for id := range to.archive.gone { // or by the other
		if !old.gone[id] && !x.holds(id) {
			s.reread(id)
			x.served = false
		}
	}
	x.archive, x.file, x.begun, x.written, x.size = to.archive, to.file, to.begun, to.written, int64(len(b))
	return nil
}

// follow applies the journal from at to pos. A process that has been following
// takes records as the journal has them; a new one reads them. Jobs that the
// index names and the disk perhaps no longer has are listed.
func (s *Store) follow(at int64, pos position, trust bool, listed ...kernel.JobID) error {
	seen := map[kernel.JobID]bool{} // where a job was is told by its first entry alone
	for _, id := range listed {
		seen[id] = true
	}
	for at < pos.end {
		e, next, err := s.log.read(at)
		if err != nil {
			return err
		}
		for _, g := range e.groups {
			if err := s.followGroup(g, trust, seen); err != nil {
				return err
			}
		}
		at = next
	}
	s.warm.caught, s.warm.epoch, s.warm.end, s.warm.dir = true, pos.epoch, pos.end, pos.dir
	return nil
}

func (s *Store) followGroup(g group, trust bool, seen map[kernel.JobID]bool) error {
	removed, created := g.does(opRemoveJob), g.rev == 1 || g.does(opCreateJob)
	if g.record == nil && !removed {
		return nil
	}
	if !created && !seen[g.job] {
		s.leaveArchive(g.job)
	}
	seen[g.job] = true
	switch {
	case removed:
		s.warm.served = false
		delete(s.warm.live, g.job)
		delete(s.warm.unread, g.job)
	case trust:
		j, f, err := decodeRecord(g.job, g.record)
		if err != nil {
			return err
		}
		if was, ok := s.warm.live[g.job]; !ok || !was.job.Open() && j.Open() {
			s.warm.served = false // what a new or rewound job refers to may not have been loaded
		}
		delete(s.warm.unread, g.job)
		s.warm.live[g.job] = known{job: &j, foreign: f}
		if s.warm.served {
			s.warm.changed = append(s.warm.changed, g.job)
		}
	default:
		s.reread(g.job)
	}
	return nil
}
