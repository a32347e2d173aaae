package fs

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// The journal is empty only in a new store, and where a crash came between the moment at
// which it was emptied and the next commit: then all that it had is sealed. Where the records
// say more than what is sealed, it was deleted.

// lostJournal tells of it.
func lostJournal() Finding {
	return Finding{Kind: FoundGap, Text: "the journal is gone, or was: the records say more than the history before it"}
}

// missJournal puts on record that the journal is gone, where it is, before a new one makes
// that forgotten: the history goes on from the records as they are.
func (s *Store) missJournal() {
	if !s.journalLost() {
		return
	}
	tip, _, err := s.sealedTip(knownTip{})
	if err == nil {
		_, _ = s.openHistory(tip.number+1, true) // what cannot be written is told again
	}
}

// journalLost reports that the journal, which is empty, had what is not sealed.
func (s *Store) journalLost() bool {
	ids, err := s.jobIDs()
	if err != nil || len(ids) == 0 {
		return false
	}
	files, err := s.segments()
	if err != nil {
		return false
	}
	if len(files) == 0 { // a version that keeps no history may just have emptied it: its mark says so
		if s.log == nil {
			return true
		}
		p, marked, err := s.log.marked()
		return err == nil && (!marked || p.end > 0)
	}
	head, err := s.segmentHead(files[len(files)-1])
	if err != nil {
		return false
	}
	newer := map[kernel.JobID][]byte{}
	for _, id := range ids {
		var r struct {
			Updated time.Time `json:"updated_at"`
		}
		b, err := s.readRecordFile(id)
		if err == nil && json.Unmarshal(b, &r) == nil && r.Updated.After(time.Time(head.Ended)) {
			newer[id] = b
		}
	}
	if len(newer) == 0 {
		return false
	}
	var f fold // a clock may have been set back
	if err := (chronicle{s: s, sealed: files}).each(func(e *pastEntry) error { f.take(e); return nil }); err != nil {
		return false // it is damaged, which is told
	}
	for id, b := range newer {
		if !bytes.Equal(f.records[id], b) {
			return true
		}
	}
	return false
}
