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

// Explain sets the account of the next commit.
func (t *Tx) Explain(a history.Account) { t.account = &a }

// tip returns the last entry of the history. known is false if the history must begin
// anew: its last entry is damaged, or an earlier version wrote it, which kept no history.
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
		if unread(err) {
			return tip, false, err
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

// sealedTip returns the last entry of the sealed history. In a store without jobs and
// without sealed files there is none, and that is known.
func (s *Store) sealedTip(tip knownTip) (knownTip, bool, error) {
	files, err := s.segments()
	if unread(err) {
		return tip, false, err
	}
	if err != nil {
		return tip, false, nil
	}
	if len(files) == 0 {
		ids, err := s.jobIDs()
		return tip, len(ids) == 0, err
	}
	newest := files[len(files)-1]
	head, err := s.segmentHead(newest)
	if unread(err) {
		return tip, false, err
	}
	if err != nil { // nothing can follow this file, but the store works without it
		tip.number = newest.first + mostEntries
		return tip, false, nil
	}
	tip.number, tip.digest = head.Last, head.Tip
	return tip, true, nil
}

// link gives e its place in the history. If full, it first seals and empties the journal.
// If no history can be begun, e gets no place and is written all the same: a repository
// works without its history. But if entries are gone and the disk fails, e is not written before that is on record.
func (t *Tx) link(e *entry, full bool) error {
	tip, known, err := t.tip()
	if err != nil {
		return err
	}
	if full || !known || t.lost {
		next, err := t.startOver(tip, known)
		switch {
		case err == nil:
			tip = next
		case !errors.Is(err, errUnsealed):
			return err
		case t.lost && unread(err):
			return fmt.Errorf("entries are gone, and that cannot be put on record: %w", err)
		case !known:
			return nil
		}
		t.lost = false
	}
	e.number, e.before = tip.number+1, tip.digest
	return nil
}

// errUnsealed says that the history could not be sealed, and the journal is as it was.
var errUnsealed = errors.New("the history cannot be sealed")

// startOver seals what the journal has of the history and empties the journal. If the
// tip is not known, or entries after it are gone, the history goes on from the records as
// they are; a damaged entry in the journal means that entries are gone. If nothing can be
// sealed, that is errUnsealed, and the journal grows until sealing works again.
func (t *Tx) startOver(tip knownTip, known bool) (knownTip, error) {
	s := t.s
	sealed, damaged, err := s.seal(t.pos)
	next := tip
	if err == nil && (!known || t.lost) {
		next, err = s.openHistory(max(tip.number, sealed)+1, t.lost || damaged)
	}
	if err != nil {
		if s.log.full(t.pos) {
			s.log.limit *= 2
		}
		return tip, fmt.Errorf("%w: %w", errUnsealed, err)
	}
	if t.pos, err = s.log.checkpoint(t.pos); err != nil {
		return tip, fmt.Errorf("checkpoint: %w", err)
	}
	t.lost = false
	s.log.last = knownTip{journalOffset{t.pos.epoch, t.pos.end}, next.number, next.digest}
	return next, nil
}

// seal writes what the journal has of the history to a segment, and returns the number
// of its last entry. It stops at the first entry that is damaged, or that a version without
// a history wrote.
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
		if unread(err) {
			return 0, false, err
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

// written returns when e was written; zero if e does not say.
func (e entry) written() time.Time {
	const key = `"written":"`
	if i := bytes.Index(e.account, []byte(key)); i >= 0 { // the first one: it comes before data that others wrote
		text, _, _ := bytes.Cut(e.account[i+len(key):], []byte(`"`))
		if at, err := time.Parse(time.RFC3339Nano, string(text)); err == nil {
			return at.UTC()
		}
	}
	return time.Time{}
}

// found returns the records that somebody else had changed before e.
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
		if unread(err) {
			return tip, err
		}
		if err != nil {
			continue // other commands report records that cannot be read
		}
		e.groups = append(e.groups, group{job: id, record: b})
	}
	b, err := s.base.read(numberFile, 64)
	if unread(err) {
		return tip, err
	}
	if err == nil {
		e.groups = append(e.groups, group{ops: []fileOp{{kind: opWrite, path: numberFile, data: b}}})
	}
	b, err = e.encode()
	if err != nil {
		return tip, err
	}
	tip.number, tip.digest = first-1, sha256.Sum256(b[8:])
	return tip, s.writeOpening(segmentHead{First: first, Tip: tip.digest, Lost: lost}, e)
}

// writeOpening writes an opening with the records of e and the fields of head. It is
// synced: unlike the content of a segment, nothing else has its content.
func (s *Store) writeOpening(head segmentHead, e entry) error {
	b, err := e.encode()
	if err != nil {
		return err
	}
	now := stamp(s.opts.Now())
	head.Last, head.Began, head.Ended, head.Size, head.Opening = head.First-1, now, now, int64(len(b)), true
	return s.writeSegment(head, true, just(b))
}

// accountOf returns the account of an entry for the journal, with the records that
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
		return // no decision reads a record that cannot be read
	}
	if s.found == nil {
		s.found = map[kernel.JobID][]byte{}
	}
	s.found[id] = b
}

// witness puts on record what others had changed, unless a commit did.
func (t *Tx) witness() {
	if len(t.s.found) == 0 || !t.pos.done || t.cut != nil {
		return
	}
	if err := t.write(entry{}, false); errors.Is(err, kernel.ErrRecorded) {
		t.cut = err
	}
}
