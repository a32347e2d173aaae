package fs

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// KeepHistory bounds what is kept of the sealed history from now on; 0: no bound. It is
// for the goroutine that has the lock.
func (s *Store) KeepHistory(bytes int64, age time.Duration) {
	s.opts.HistoryBytes, s.opts.HistoryAge = bytes, age
}

// TrimHistory drops the oldest of the sealed history as far as KeepHistory says, but for the
// newest segment. What is left begins with the records as they were then. It takes no
// lock: sealed files never change. A history that is damaged is left as it is.
func (s *Store) TrimHistory(ctx context.Context) error {
	if s.opts.HistoryBytes == 0 && s.opts.HistoryAge == 0 {
		return nil
	}
	if err := s.open(false); err != nil {
		return ignoreMissing(err)
	}
	files, err := s.segments()
	if err != nil {
		return err
	}
	cut := s.cutOf(files)
	if cut == 0 {
		return nil
	}
	var f fold
	err = chronicle{s: s, sealed: files[:cut]}.each(func(e pastEntry) error {
		f.take(e)
		return ctx.Err()
	})
	if _, damaged := errors.AsType[*SegmentError](err); damaged {
		return nil
	}
	if err != nil {
		return ignoreMissing(err) // another process was faster
	}
	head := segmentHead{First: files[cut].first, Tip: f.tip, Cut: true}
	if err := s.writeOpening(head, f.entry()); err != nil {
		return err
	}
	for _, g := range files[:cut] {
		if g != (segment{head.First, true}) {
			err = errors.Join(err, s.base.remove(g.file()))
		}
	}
	return err
}

// cutOf is how many of the files go.
func (s *Store) cutOf(files []segment) (cut int) {
	left := int64(0)
	for _, g := range files {
		left += s.base.stamp(g.file()).size
	}
	for i, g := range files {
		head, err := s.segmentHead(g)
		if err != nil {
			break
		}
		old := s.opts.HistoryAge > 0 && s.opts.Now().Sub(time.Time(head.Ended)) > s.opts.HistoryAge
		if !old && (s.opts.HistoryBytes == 0 || left <= s.opts.HistoryBytes) {
			break
		}
		left -= s.base.stamp(g.file()).size
		if next := i + 1; !g.opening && next < len(files) && !files[next].opening {
			cut = next
		}
	}
	return cut
}

// fold is the records that a history leads to.
type fold struct {
	records map[kernel.JobID][]byte
	number  []byte // of numberFile
	tip     digest
}

func (f *fold) take(e pastEntry) {
	if e.head != nil && e.head.Opening {
		*f = fold{tip: e.head.Tip}
	} else {
		f.tip = e.digest
	}
	if f.records == nil {
		f.records = map[kernel.JobID][]byte{}
	}
	for id, record := range e.found() {
		f.put(id, record)
	}
	for _, g := range e.groups {
		switch {
		case g.does(opRemoveJob):
			f.put(g.job, nil)
		case g.record != nil:
			f.put(g.job, g.record)
		}
		for _, op := range g.ops {
			if op.kind == opWrite && op.path == numberFile {
				f.number = op.data
			}
		}
	}
}

func (f *fold) put(id kernel.JobID, record []byte) {
	if len(record) == 0 {
		delete(f.records, id)
	} else {
		f.records[id] = record
	}
}

// entry is the content of an opening.
func (f *fold) entry() (e entry) {
	for _, id := range slices.Sorted(maps.Keys(f.records)) {
		e.groups = append(e.groups, group{job: id, record: f.records[id]})
	}
	if f.number != nil {
		e.groups = append(e.groups, group{ops: []fileOp{{kind: opWrite, path: numberFile, data: f.number}}})
	}
	return e
}

// beginning is the index of the file that the history begins with: the last one that
// was made when older ones were dropped, which may not all be gone yet.
func (p chronicle) beginning() int {
	for i, g := range slices.Backward(p.sealed) {
		if !g.opening {
			continue
		}
		if head, err := p.s.segmentHead(g); err == nil && head.Cut {
			return i
		}
	}
	return 0
}
