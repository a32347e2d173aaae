package fs

import (
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// KeepHistory changes how much of the sealed history is kept; 0: no bound. It is for the
// goroutine that has the lock.
func (s *Store) KeepHistory(bytes int64, age time.Duration) {
	s.opts.HistoryBytes, s.opts.HistoryAge = bytes, age
}

// TrimHistory drops the oldest sealed files that exceed the bounds of KeepHistory, but
// never the newest one. The rest begins with an opening, and gets the milestones that are
// worth their room. It takes no lock: sealed files never change. A damaged history stays as
// it is.
func (s *Store) TrimHistory(ctx context.Context) error {
	if err := s.open(false); err != nil {
		return ignoreMissing(err)
	}
	files, err := s.segments()
	if err != nil {
		return err
	}
	if cut := s.cutOf(files); cut > 0 {
		if err := s.cutBefore(ctx, files, cut); err != nil {
			return err
		}
	}
	return s.setMilestones(ctx)
}

// cutBefore drops the files before index cut.
func (s *Store) cutBefore(ctx context.Context, files []segment, cut int) (err error) {
	if files[cut].opening {
		err = s.beginWith(files[cut])
	} else {
		err = s.beginBefore(ctx, files[:cut], files[cut].first)
	}
	if _, damaged := errors.AsType[*SegmentError](err); damaged {
		return nil
	}
	if err != nil {
		return ignoreMissing(err) // another process was faster
	}
	for _, g := range files[:cut] {
		if g != (segment{files[cut].first, true}) {
			err = errors.Join(err, s.base.remove(g.file()))
		}
	}
	return err
}

// beginWith makes the history begin with an opening that it has.
func (s *Store) beginWith(g segment) error {
	head, content, err := s.readSegment(g)
	if err != nil || head.Cut {
		return err
	}
	head.Cut = true
	return s.writeSegment(head, true, func(w io.Writer) error {
		_, err := w.Write(content)
		return err
	})
}

// beginBefore makes the history begin before an entry: it writes an opening with the
// records that files led to.
func (s *Store) beginBefore(ctx context.Context, files []segment, entry uint64) error {
	var f fold
	err := chronicle{s: s, sealed: files}.each(func(e *pastEntry) error {
		f.take(e)
		return ctx.Err()
	})
	if err != nil {
		return err
	}
	return s.writeOpening(segmentHead{First: entry, Tip: f.tip, Cut: true}, f.entry())
}

// cutOf returns how many of the files are dropped.
func (s *Store) cutOf(files []segment) (cut int) {
	if s.opts.HistoryBytes == 0 && s.opts.HistoryAge == 0 {
		return 0
	}
	left, sizes := int64(0), make([]int64, len(files))
	for i, g := range files {
		if sizes[i] = s.base.stamp(g.file()).size; i == 0 || files[i-1].first < g.first {
			sizes[i] += s.base.stamp(milestoneFile(g.first)).size
		}
		left += sizes[i]
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
		left -= sizes[i]
		if next := i + 1; next < len(files) && files[next].first > g.first {
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

func (f *fold) take(e *pastEntry) {
	if e.head != nil && e.head.Opening {
		*f = fold{tip: e.head.Tip}
	} else {
		f.tip = e.digest()
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

// beginning returns the index of the file that the history begins with: the last opening
// that was made to drop older files. Some of these may still exist.
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
