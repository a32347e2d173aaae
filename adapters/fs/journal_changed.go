package fs

import (
	"errors"
	"io/fs"
	"slices"

	"github.com/vizier-scheduler/vizier/kernel"
)

// JournalOffset is a place in the journal of a store. The zero value is none.
type JournalOffset = journalOffset

// Changed returns the jobs whose records changed after since, and the offset up
// to which the answer is complete. told is false if the journal does not go back
// that far: then any record may have changed. It takes no lock: the records it
// names are written already.
func (s *Store) Changed(since JournalOffset) (ids []kernel.JobID, now JournalOffset, told bool) {
	if err := s.open(false); err != nil {
		return nil, now, errors.Is(err, fs.ErrNotExist) && since == now
	}
	log, err := s.lookJournal()
	if err != nil {
		return nil, now, false
	}
	defer log.close() //nolint:errcheck // it was only read
	pos, fresh, err := log.position()
	if now = (journalOffset{pos.epoch, pos.end}); err != nil || fresh || since.epoch != now.epoch || since.end > now.end {
		return nil, now, false
	}
	for at := since.end; at < now.end; {
		next, err := log.each(at, func(g group) error {
			if g.job != "" {
				ids = append(ids, g.job)
			}
			return nil
		})
		if err != nil { // the journal was emptied meanwhile
			return nil, now, false
		}
		at = next
	}
	if after, _, err := log.position(); err != nil || after.epoch != now.epoch {
		return nil, now, false
	}
	slices.Sort(ids)
	return slices.Compact(ids), now, true
}
