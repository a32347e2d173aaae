package fs

import (
	"context"
	"errors"
	"fmt"
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
// never the newest one, and those that an earlier call was to drop. The rest begins with an
// opening, and gets the milestones that are worth their room. It takes no lock: sealed files
// never change. A damaged file stays, and what it is needed for: Inspect tells of it.
func (s *Store) TrimHistory(ctx context.Context) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("trim the history: %w", err)
		}
	}()
	if err := s.open(false); err != nil {
		return ignoreMissing(err)
	}
	files, err := s.segments()
	if err != nil {
		return err
	}
	sealed, err := s.sealedFiles(files)
	if err != nil {
		return ignoreMissing(err) // another process was faster
	}
	from := chronicle{s: s, sealed: files}.beginning()
	if n := from + surplus(sealed[from:], s.opts.HistoryBytes, s.opts.HistoryAge, s.opts.Now()); n > 0 {
		if err := s.dropFirst(ctx, files, n); err != nil {
			return err
		}
	}
	return s.setMilestones(ctx)
}

// dropFirst drops the first n files; the history begins with the one after them.
func (s *Store) dropFirst(ctx context.Context, files []segment, n int) (err error) {
	if files[n].opening {
		err = s.beginWith(files[n])
	} else {
		err = s.beginBefore(ctx, files[:n], files[n].first)
	}
	if _, damaged := errors.AsType[*SegmentError](err); damaged {
		return nil
	}
	if err != nil {
		return ignoreMissing(err) // another process was faster
	}
	for _, g := range files[:n] {
		err = errors.Join(err, s.base.remove(g.file()))
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
	return s.writeSegment(head, true, just(content))
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

// sealedFile is a sealed file as far as it matters to how much of the history is kept.
type sealedFile struct {
	segment
	size    int64     // with the milestone before its first entry
	ended   time.Time // when its last entry was written; of an opening, when it was written itself
	damaged bool      // that is not known
}

func (s *Store) sealedFiles(files []segment) ([]sealedFile, error) {
	out := make([]sealedFile, len(files))
	for i, g := range files {
		size := s.base.stamp(g.file()).size
		if i == 0 || files[i-1].first < g.first {
			size += s.base.stamp(milestoneFile(g.first)).size
		}
		head, err := s.segmentHead(g)
		_, damaged := errors.AsType[*SegmentError](err)
		if err != nil && !damaged {
			return nil, err
		}
		out[i] = sealedFile{g, size, time.Time(head.Ended), damaged}
	}
	return out, nil
}

// surplus returns how many of the oldest files exceed the bounds; 0 is no bound. An opening
// before a segment has no time of its own and takes no room: a later beginning has one too.
func surplus(files []sealedFile, bytes int64, age time.Duration, now time.Time) (n int) {
	left := int64(0)
	for _, g := range files {
		left += g.size
	}
	for i, g := range files[:max(0, len(files)-1)] {
		if g.opening && files[i+1].first == g.first {
			left -= g.size
			continue
		}
		old, large := age > 0 && now.Sub(g.ended) > age, bytes > 0 && left > bytes
		if g.damaged || !old && !large {
			break
		}
		left, n = left-g.size, i+1
	}
	return n
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
