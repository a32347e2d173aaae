package fs

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	iofs "io/fs"
	"path"
	"syscall"

	"github.com/vizier-scheduler/vizier/kernel"
)

// chronicle is the whole history of a store at one moment: the sealed files, and the journal.
type chronicle struct {
	s         *Store
	sealed    []segment
	journal   []byte
	records   map[kernel.JobID]digest // of job.json, if they were asked for
	odd       map[kernel.JobID]string // the records that cannot be read, and why
	lost      bool                    // entries are missing: the end of the journal is gone, or all of it
	unwritten error                   // why the records lack what the journal has; nil: they have all of it
	foreign   bool                    // the store is not acted on: nobody writes to it, and no file of it is locked or opened for writing
}

// history reads the store's history and, if records is set, the digests of its records,
// under the lock.
func (s *Store) history(ctx context.Context, records bool) (p chronicle, err error) {
	p = chronicle{s: s, records: map[kernel.JobID]digest{}, odd: map[kernel.JobID]string{}}
	if err := s.open(false); err != nil {
		return p, ignoreMissing(err)
	}
	p.foreign = s.elsewhere(ctx)
	behind, err := p.take(ctx, records)
	if behind && err == nil { // changes that cannot be written are in the journal all the same
		failed := s.complete(ctx, true)
		if _, system := errors.AsType[syscall.Errno](failed); system {
			p.unwritten = failed
		} else if failed == nil {
			_, err = p.take(ctx, records)
		}
	}
	return p, err
}

// take reads the history. behind says that the journal has changes that the files lack.
func (p *chronicle) take(ctx context.Context, records bool) (behind bool, err error) {
	s := p.s
	read := func() (err error) {
		behind, err = p.read(records)
		return err
	}
	unlock, err := release(nil), error(nil)
	if !p.foreign {
		unlock, err = s.takeShared(ctx, func(held error) error {
			if err := read(); err != nil || !behind || !records {
				return err
			}
			return held // the records lack what the holder has committed
		})
	}
	if p.foreign || errors.Is(err, iofs.ErrNotExist) || isReadOnly(err) {
		unlock, err = s.lock.alone(ctx)
	}
	if err != nil || unlock == nil { // whoever has the lock writes what the files lack
		return false, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	err = read()
	return behind, err
}

// read is take for a caller that keeps others from writing, or notices that they did.
func (p *chronicle) read(records bool) (behind bool, err error) {
	s := p.s
	clear(p.records)
	clear(p.odd)
	if p.sealed, err = s.segments(); err != nil {
		return false, err
	}
	cutShort := false
	var pos position
	if !p.foreign {
		pos, behind, err = s.behind()
	}
	switch {
	case p.foreign, errors.Is(err, iofs.ErrNotExist), isReadOnly(err), err == nil && behind: // nobody writes to it meanwhile, or its mark is that of another host
		if p.journal, err = s.base.read(plansFile, 1<<32); ignoreMissing(err) != nil {
			return false, err
		}
		p.journal = p.journal[:wholeEntries(p.journal)] // a process that may write drops the rest, too
	case err != nil:
		return false, err
	default:
		p.journal = make([]byte, pos.end)
		if n, err := s.log.ReadAt(p.journal, 0); err != nil {
			if !errors.Is(err, io.EOF) {
				return false, err
			}
			cutShort = n > 0
			p.journal = p.journal[:wholeEntries(p.journal[:n])]
		}
	}
	if p.lost = cutShort; !behind && len(p.journal) == 0 {
		if p.lost, err = s.journalLost(); err != nil {
			return false, err
		}
	}
	if !records {
		return behind, nil
	}
	if err := s.readQuarantine(); err != nil {
		return behind, err
	}
	ids, err := s.jobIDs()
	for _, id := range ids {
		b, err := s.readRecordFile(id)
		if why := s.quarantineReason(id); why != "" {
			p.odd[id] = why
		} else if err == nil {
			p.records[id] = sha256.Sum256(b)
		} else if ignoreMissing(err) != nil {
			p.odd[id] = err.Error()
		}
	}
	return behind, err
}

// pastEntry is an entry with the file that it is in.
type pastEntry struct {
	entry
	body []byte
	file string       // below the repository's root
	head *segmentHead // of the file; nil: the file is the journal
}

// digest is the digest by which the next entry names e.
func (e *pastEntry) digest() digest { return sha256.Sum256(e.body) }

var errEntry = errors.New("an entry was changed, or is damaged: its checksum is another")

// each calls f with every entry, in order, until f returns an error. A damaged file is a
// *SegmentError.
func (p chronicle) each(f func(*pastEntry) error) error {
	return p.eachBut(f, func(bad *SegmentError) error { return bad })
}

// eachBut is each, but it calls damaged for a damaged file, and goes on unless that
// returns an error.
func (p chronicle) eachBut(f func(*pastEntry) error, damaged func(*SegmentError) error) error {
	for _, g := range p.sealed[p.beginning():] {
		head, content, err := p.s.readSegment(g)
		if errors.Is(err, errSegment) && !g.opening && p.journaled(g.first) { // power went before it was synced: it is written again
			continue
		}
		if err == nil {
			err = eachEntry(content, vizierDir+"/"+g.file(), &head, f)
		}
		if bad, is := errors.AsType[*SegmentError](err); is {
			err = damaged(bad)
		}
		if err != nil {
			return err
		}
	}
	name := path.Join(vizierDir, plansFile)
	err := eachEntry(p.journal, name, nil, f)
	if bad, is := errors.AsType[*SegmentError](err); is {
		err = damaged(bad)
	}
	if err == nil && p.lost {
		return &SegmentError{name, errCutShort}
	}
	return err
}

// wholeEntries returns the length of a journal without an incomplete entry at its end.
func wholeEntries(b []byte) (n int) {
	for len(b)-n >= 8 {
		length := int64(binary.LittleEndian.Uint32(b[n:]))
		if length == 0 || length > int64(len(b)-n-8) {
			break
		}
		n += 8 + int(length)
	}
	return n
}

// journaled reports that the journal has entry number and those after it.
func (p chronicle) journaled(number uint64) bool {
	first := p.firstInJournal()
	return 0 < first && first <= number
}

func eachEntry(b []byte, file string, head *segmentHead, f func(*pastEntry) error) error {
	for len(b) > 0 {
		if len(b) < 8 {
			return &SegmentError{file, errEntry}
		}
		length, sum := int64(binary.LittleEndian.Uint32(b)), binary.LittleEndian.Uint32(b[4:])
		if length == 0 || length > int64(len(b)-8) || crc32.ChecksumIEEE(b[8:8+length]) != sum {
			return &SegmentError{file, errEntry}
		}
		body := b[8 : 8+length]
		e, err := decodeEntry(body)
		if err != nil {
			return &SegmentError{file, err}
		}
		if err := f(&pastEntry{e, body, file, head}); err != nil {
			return err
		}
		b = b[8+length:]
	}
	return nil
}
