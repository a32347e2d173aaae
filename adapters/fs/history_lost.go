package fs

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// tailLost reports, after a reboot, that the journal had more entries than those that it has.
//
// Within a boot the journal is as long as its mark says. If it is shorter, its end was cut
// off. After a reboot the mark may be an earlier one, and the last entry may be incomplete:
// it was being written at the power failure, was never durable, and so never happened.
// In a store that syncs, records are written after their entry is durable; in another, a
// power failure may keep the records and lose their entries, and the mark of both may be
// from before them. So if a record is newer than the last entry, entries are missing.
func (t *Tx) tailLost() (bool, error) {
	s, end := t.s, t.pos.end
	if p, marked, err := s.log.marked(); err != nil || !marked || s.opts.Durable && p.end <= end {
		return false, err
	}
	files, err := s.segments()
	if err != nil {
		return false, err
	}
	tip, known, err := t.tip()
	if err != nil {
		return false, err
	}
	if known && len(files) > 0 && files[len(files)-1].first > tip.number { // there is an opening that says so, and the journal was to be emptied then
		return true, nil
	}
	c := chronicle{s: s, journal: make([]byte, end)}
	if _, err := s.log.ReadAt(c.journal, 0); err != nil {
		return false, err
	}
	var last time.Time
	if err := c.each(func(e *pastEntry) error { last = e.written(); return nil }); err != nil || last.IsZero() { // a version wrote it that kept no history
		return false, ifUnread(err) // of a history that is damaged that is known already
	}
	c.sealed = files
	return s.recordsAhead(c, last)
}

// ifUnread returns err if what it is about may be whole, and otherwise nil.
func ifUnread(err error) error {
	if unread(err) {
		return err
	}
	return nil
}

// lostEntries is the finding that the end of the history after an entry is gone; 0: all of it is.
func lostEntries(after uint64) Finding {
	if after == 0 {
		return Finding{Kind: FoundGap, Text: "the journal is gone or damaged, and with it all that the history had: only the records tell of it"}
	}
	return Finding{Kind: FoundGap, Text: fmt.Sprintf("the end of the journal is gone or damaged: what came after entry %d is known from the records alone", after)}
}

// missingEntries says of entries that they are not there.
func missingEntries(first, last uint64) string {
	if first == last {
		return fmt.Sprintf("entry %d is missing", first)
	}
	return fmt.Sprintf("entries %d to %d are missing", first, last)
}

// errCutShort is why there is nothing after the last entry of the journal.
var errCutShort = errors.New("its end is gone: the last entry is incomplete, or entries are missing: `vizier history verify` says more")

// recordLoss puts on record that entries are gone: the end of the journal, or all of it. The history goes on from the
// records as they are. If it cannot be sealed now, the next commit tries again: see link.
func (t *Tx) recordLoss() error {
	tip, known, err := t.tip()
	if err != nil {
		return err
	}
	if _, err = t.startOver(tip, known); errors.Is(err, errUnsealed) {
		return nil
	}
	return err
}

// journalLost reports that the journal, which has no entry, had entries that are not sealed.
//
// It has none only in a new store, and after a crash between the moment at which it was
// emptied and the next commit, whose entry may be torn. Then all that it had is sealed. If a
// record is newer than what is sealed, the journal was deleted, or is damaged.
func (s *Store) journalLost() (bool, error) {
	ids, err := s.jobIDs()
	if err != nil || len(ids) == 0 {
		return false, err
	}
	files, err := s.segments()
	if err != nil {
		return false, ifUnread(err)
	}
	if len(files) == 0 { // a version that keeps no history may just have emptied it: its mark says so
		if s.log == nil {
			return true, nil
		}
		p, marked, err := s.log.marked()
		return err == nil && (!marked || p.end > 0), err
	}
	head, err := s.segmentHead(files[len(files)-1])
	if err != nil {
		return false, ifUnread(err)
	}
	return s.recordsAhead(chronicle{s: s, sealed: files}, time.Time(head.Ended))
}

// recordsAhead reports that a record was written after the last entry of c, and not by it.
func (s *Store) recordsAhead(c chronicle, last time.Time) (bool, error) {
	ids, err := s.jobIDs()
	if err != nil {
		return false, err
	}
	var failed error // why a record cannot be read that may be ahead
	newer := map[kernel.JobID][]byte{}
	for _, id := range ids {
		var r struct {
			Updated time.Time `json:"updated_at"`
		}
		b, err := s.readRecordFile(id)
		if err == nil && json.Unmarshal(b, &r) == nil && r.Updated.After(last) {
			newer[id] = b
		}
		failed = cmp.Or(failed, ifUnread(err))
	}
	if len(newer) == 0 {
		return false, failed
	}
	var f fold // a clock may have been set back
	if err := c.each(func(e *pastEntry) error { f.take(e); return nil }); err != nil {
		return false, ifUnread(err) // it is damaged, which is reported elsewhere
	}
	for id, b := range newer {
		if !bytes.Equal(f.records[id], b) {
			return true, nil
		}
	}
	return false, failed
}
