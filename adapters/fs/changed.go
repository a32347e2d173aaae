package fs

import (
	"errors"
	"io/fs"
	"os"
	"slices"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Place is one in the history of a store. The zero value is none.
type JournalOffset = journalOffset

// Changed are the jobs whose records changed since a place, and the place up to
// which that is so. It is false where that cannot be told: then all may have. It
// takes no lock: what it tells of is there to be read.
func (s *Store) Changed(since JournalOffset) (ids []kernel.JobID, now JournalOffset, told bool) {
	if err := s.open(false); err != nil {
		return nil, now, errors.Is(err, fs.ErrNotExist) && since == now
	}
	plans, err := s.base.file(plansFile, os.O_RDONLY)
	if err != nil {
		return nil, now, false
	}
	defer plans.Close()
	mark, err := s.base.file(markFile, os.O_RDONLY)
	if err != nil {
		return nil, now, false
	}
	defer mark.Close()
	log := journal{file: plans, mark: mark, boot: s.opts.Boot}
	pos, fresh, err := log.position()
	if now = (journalOffset{pos.epoch, pos.end}); err != nil || fresh || since.epoch != now.epoch || since.end > now.end {
		return nil, now, false
	}
	for at := since.end; at < now.end; {
		e, next, err := log.read(at)
		if err != nil { // it was emptied meanwhile
			return nil, now, false
		}
		for _, g := range e.groups {
			if g.job != "" {
				ids = append(ids, g.job)
			}
		}
		at = next
	}
	if after, _, err := log.position(); err != nil || after.epoch != now.epoch {
		return nil, now, false
	}
	slices.Sort(ids)
	return slices.Compact(ids), now, true
}
