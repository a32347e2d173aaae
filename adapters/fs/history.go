package fs

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/history"
)

// The journal is the newest part of the store's history: each entry has a number and
// names the one before it by its digest. What the journal drops when it starts over is
// sealed first (history_segment.go).

// knownTip is the last entry of the history as of a place in the journal.
type knownTip struct {
	at     journalOffset
	number uint64 // 0: there is none yet
	digest digest
}

// Explain says what the next commit was decided by.
func (t *Tx) Explain(a history.Account) { t.account = &a }

// tip is the last entry of the history. It is false where the history has to begin
// anew: its last entry is damaged, or of an earlier version of the program, which kept none.
func (t *Tx) tip() (tip knownTip, known bool, err error) {
	log, here := t.s.log, journalOffset{t.pos.epoch, t.pos.end}
	if log.last.at == here && log.last.number > 0 {
		return log.last, true, nil
	}
	tip.at = here
	if t.pos.end > 0 {
		var e entry
		sum := sha256.New()
		r, _, err := log.body(t.pos.start, sum)
		if err == nil {
			e, err = r.entry(func(group) error { return nil })
		}
		if err == nil && e.number > 0 {
			tip.number, tip.digest = e.number, digest(sum.Sum(nil))
			return tip, true, nil
		}
		tip, _, err = t.s.sealedTip(tip) // the journal may have no entry of the history
		return tip, false, err
	}
	return t.s.sealedTip(tip)
}

// sealedTip is the last entry of the sealed history; none, and known, in a store
// without jobs.
func (s *Store) sealedTip(tip knownTip) (knownTip, bool, error) {
	files, err := s.segments()
	if err != nil {
		return tip, false, nil
	}
	if len(files) == 0 {
		ids, err := s.jobIDs()
		return tip, len(ids) == 0, err
	}
	newest := files[len(files)-1]
	head, err := s.segmentHead(newest)
	if err != nil { // it cannot be gone on from, which is no reason to stop
		tip.number = newest.first + mostEntries
		return tip, false, nil
	}
	tip.number, tip.digest = head.Last, head.Tip
	return tip, true, nil
}

// link gives e its place in the history. The journal is emptied before if full, and what
// it drops is sealed. Where a history cannot be begun, e has no place and is written all
// the same: no repository stops for its history.
func (t *Tx) link(e *entry, full bool) error {
	tip, known, err := t.tip()
	if err != nil {
		return err
	}
	if full || !known {
		next, begun, err := t.startOver(tip, known, false)
		if err != nil {
			return err
		}
		if !begun && !known {
			return nil
		}
		tip = next
	}
	e.number, e.before = tip.number+1, tip.digest
	return nil
}

// startOver seals what the journal has of the history and empties the journal. Where the
// tip is not known, the history goes on from the records as they are. It is not begun
// where nothing can be sealed: the journal grows until that can be done. lost says that
// entries after the tip are gone; a damaged entry in the journal says so too.
func (t *Tx) startOver(tip knownTip, known, lost bool) (_ knownTip, begun bool, err error) {
	s := t.s
	sealed, damaged, err := s.seal(t.pos)
	next := tip
	if err == nil && (!known || lost) {
		next, err = s.openHistory(max(tip.number, sealed)+1, lost || damaged)
	}
	if err != nil {
		if s.log.full(t.pos) {
			s.log.limit *= 2
		}
		return tip, false, nil
	}
	if t.pos, err = s.log.checkpoint(t.pos); err != nil {
		return tip, false, fmt.Errorf("checkpoint: %w", err)
	}
	s.log.last = knownTip{journalOffset{t.pos.epoch, t.pos.end}, next.number, next.digest}
	return next, true, nil
}

// seal writes what the journal has of the history to a segment, and returns the number
// of its last entry. Entries from the first damaged one on are not sealed, nor those from the
// first one on that an earlier version wrote.
func (s *Store) seal(pos position) (last uint64, damaged bool, err error) {
	var head segmentHead
	var end int64
	outside := false
	for at := int64(0); at < pos.end && !damaged; {
		var e entry
		sum := sha256.New()
		r, next, err := s.log.body(at, sum)
		if err == nil {
			e, err = r.entry(func(group) error { return nil })
		}
		damaged, outside, at = err != nil, outside || e.number == 0, next
		if damaged || outside {
			continue
		}
		e.account = r.beginning()
		when := e.written()
		if head.First == 0 {
			head.First, head.Before, head.Began = e.number, e.before, stamp(when)
		}
		head.Last, head.Tip, head.Ended = e.number, digest(sum.Sum(nil)), stamp(when)
		end = next
	}
	if head.First == 0 {
		return 0, damaged, nil
	}
	head.Size = end
	return head.Last, damaged, s.writeSegment(head, false, func(w io.Writer) error {
		_, err := io.Copy(w, io.NewSectionReader(s.log, 0, end))
		return err
	})
}

// written is when e was written; zero: it does not say.
func (e entry) written() time.Time {
	const key = `"written":"`
	if i := bytes.Index(e.account, []byte(key)); i >= 0 { // at the beginning, before whatever others wrote
		text, _, _ := bytes.Cut(e.account[i+len(key):], []byte(`"`))
		if at, err := time.Parse(time.RFC3339Nano, string(text)); err == nil {
			return at.UTC()
		}
	}
	return time.Time{}
}

// found are the records that somebody else had changed before e.
func (e entry) found() map[kernel.JobID][]byte {
	var a struct {
		Found map[kernel.JobID][]byte `json:"found"`
	}
	if !bytes.Contains(e.account, []byte(`"found"`)) || fromJSON(e.account, &a) != nil {
		return nil
	}
	return a.Found
}

// openHistory writes an opening: the history goes on with entry first, from the records as
// they are. lost says that entries before it are gone.
func (s *Store) openHistory(first uint64, lost bool) (tip knownTip, err error) {
	ids, err := s.jobIDs()
	if err != nil {
		return tip, err
	}
	var e entry
	for _, id := range ids {
		b, err := s.readRecordFile(id)
		if err != nil {
			continue // what cannot be read is told of by those who look for it
		}
		e.groups = append(e.groups, group{job: id, record: b})
	}
	if b, err := s.base.read(numberFile, 64); err == nil {
		e.groups = append(e.groups, group{ops: []fileOp{{kind: opWrite, path: numberFile, data: b}}})
	}
	b, err := e.encode()
	if err != nil {
		return tip, err
	}
	tip.number, tip.digest = first-1, sha256.Sum256(b[8:])
	return tip, s.writeOpening(segmentHead{First: first, Tip: tip.digest, Lost: lost}, e)
}

// writeOpening writes an opening of the records of e, with what head says. It is synced:
// unlike a segment nothing else has what it says.
func (s *Store) writeOpening(head segmentHead, e entry) error {
	b, err := e.encode()
	if err != nil {
		return err
	}
	now := stamp(s.opts.Now())
	head.Last, head.Began, head.Ended, head.Size, head.Opening = head.First-1, now, now, int64(len(b)), true
	return s.writeSegment(head, true, func(w io.Writer) error {
		_, err := w.Write(b)
		return err
	})
}

// accountOf is what an entry was decided by, for the journal, with the records that
// others had changed.
func (t *Tx) accountOf(written time.Time) (*accountRecord, error) {
	var r accountRecord
	if t.account != nil {
		var err error
		if r, err = newAccount(*t.account); err != nil {
			return nil, fmt.Errorf("history: %w", err)
		}
	}
	r.Written, r.Program = stamp(written), t.s.opts.Program
	r.Found = t.s.found
	return &r, nil
}

// note remembers that somebody else has changed a record, for the history.
func (s *Store) note(id kernel.JobID) {
	b, err := s.readRecordFile(id)
	if err != nil && ignoreMissing(err) != nil {
		return // what cannot be read is not decided on
	}
	if s.found == nil {
		s.found = map[kernel.JobID][]byte{}
	}
	s.found[id] = b
}

// witness puts on record what others had changed, where no commit did.
func (t *Tx) witness() {
	if len(t.s.found) == 0 || !t.pos.done || t.cut != nil {
		return
	}
	if err := t.write(entry{}, false); errors.Is(err, kernel.ErrRecorded) {
		t.cut = err
	}
}
