package fs

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"path"
	"slices"
	"sync"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// course is the parts of a history, in order.
type course struct {
	p     chronicle
	parts []part
}

// part is a sealed file, or the journal, which comes last.
type part struct {
	file    segment // zero: the journal
	head    segmentHead
	err     error // why the head cannot be read
	journal bool
}

// course returns the parts of the history that can be read. It is ErrNotFound if there are none.
func (p chronicle) course() (c course, err error) {
	c.p = p
	for _, g := range p.sealed[p.beginning():] {
		one := part{file: g}
		if one.head, one.err = p.s.segmentHead(g); one.err != nil && !g.opening && p.journaled(g.first) {
			continue // power went before it was synced, and the journal has its entries
		}
		c.parts = append(c.parts, one)
	}
	j := part{journal: true, file: segment{first: p.firstInJournal()}}
	if j.file.first > 0 {
		c.parts = append(c.parts, j)
	}
	if len(c.parts) == 0 {
		if p.lost {
			return c, beyondError(lostEntries(0).Text)
		}
		return c, beyondError("no history is on record")
	}
	return c, nil
}

// firstInJournal returns the number of the journal's first entry; 0 if the journal is
// empty or that entry has none.
func (p chronicle) firstInJournal() (first uint64) {
	_ = eachEntry(p.journal, "", nil, func(e *pastEntry) error { // errors are reported when the journal is read
		first = e.number
		return errEnough
	})
	return first
}

// at returns the store as it was at a moment.
func (c course) at(ctx context.Context, when Moment) (*Past, error) {
	end := when == Moment{}
	if end {
		when.Time = time.Unix(1<<40, 0)
	}
	last := c.holding(when)
	if last < 0 {
		return nil, c.tooEarly()
	}
	w, from, err := c.begin(last)
	if err == nil {
		err = c.goThrough(ctx, w, from, last, when)
	}
	if err != nil {
		if w != nil {
			w.close()
		}
		return nil, c.explain(err, last)
	}
	if w.number < c.parts[0].file.first && !c.parts[0].file.opening || w.number == 0 {
		w.close()
		return nil, c.tooEarly()
	}
	if when.Entry > 0 && w.number != when.Entry {
		w.close()
		return nil, beyondError(fmt.Sprintf("entry %d is not there: the last one by then is %d", when.Entry, w.number))
	}
	if when.Entry == 0 && w.written.Before(when.Time) && c.lostAfter(last) {
		w.close()
		return nil, beyondError(lostEntries(w.number).Text)
	}
	p, err := w.past()
	if err != nil {
		w.close()
		return nil, err
	}
	if when.Entry == 0 && !end {
		p.At = when.Time
	}
	return p, nil
}

// lostAfter reports that entries after part i are gone.
func (c course) lostAfter(i int) bool {
	if i+1 < len(c.parts) {
		return c.parts[i+1].head.Lost
	}
	return c.p.lost
}

// holding returns the index of the part that has a moment; -1: the moment is before all parts.
func (c course) holding(when Moment) int {
	for i, one := range slices.Backward(c.parts) {
		switch {
		case when.Entry > 0:
			if one.file.first <= when.Entry && !(one.file.opening && one.file.first == when.Entry) {
				return i
			}
		case one.journal:
			if first, err := c.p.beganInJournal(); err != nil || !first.After(when.Time) {
				return i
			}
		case one.err != nil || !time.Time(one.head.Began).After(when.Time) && !one.head.Cut:
			return i
		}
	}
	return -1
}

// beganInJournal returns when the first entry of the journal was written.
func (p chronicle) beganInJournal() (at time.Time, err error) {
	err = eachEntry(p.journal, "", nil, func(e *pastEntry) error {
		at = e.written()
		return errEnough
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return at, err
}

// begin returns the state before part from: the last part up to last before which the
// state is known.
func (c course) begin(last int) (w *pastState, from int, err error) {
	for from = last; from >= 0; from-- {
		one := c.parts[from]
		if w := c.p.s.openMilestone(one.file.first, c.tipBefore(from)); w != nil {
			if one.file.opening { // it has the milestone's records
				from++
			}
			return w, from, nil
		}
		if one.file.opening && one.err == nil {
			return newPastState(), from, nil
		}
	}
	w = newPastState()
	w.whole = c.parts[0].file.first == 1
	if !w.whole && !c.parts[0].file.opening {
		return nil, 0, errNoBeginning
	}
	return w, 0, nil
}

var errNoBeginning = errors.New("what its first entries go on from is missing")

// tipBefore returns the digest of the entry before part i; nil if no head says it.
func (c course) tipBefore(i int) *digest {
	switch one := c.parts[i]; {
	case one.err != nil:
		return nil
	case one.file.opening:
		return &one.head.Tip
	case !one.journal:
		return &one.head.Before
	case i > 0 && c.parts[i-1].err == nil:
		return &c.parts[i-1].head.Tip
	}
	return nil
}

// goThrough applies the parts from to last to w, as far as a moment, and writes the
// milestones on the way that are worth their room.
func (c course) goThrough(ctx context.Context, w *pastState, from, last int, when Moment) error {
	type content struct {
		head  segmentHead
		bytes []byte
		err   error
	}
	ahead := make(chan chan content, 2)
	ctx, stop := context.WithCancel(ctx)
	var readers sync.WaitGroup
	defer readers.Wait() // they use the store, which the caller may close
	defer stop()
	readers.Go(func() { // the next parts are read meanwhile
		defer close(ahead)
		for i := from; i <= last; i++ {
			one := make(chan content, 1)
			select {
			case ahead <- one:
			case <-ctx.Done():
				return
			}
			readers.Go(func() {
				var got content
				if c.parts[i].journal {
					got.bytes = c.p.journal
				} else {
					got.head, got.bytes, got.err = c.p.s.readSegment(c.parts[i].file)
				}
				one <- got
			})
		}
	})
	passed := int64(0)
	for i := from; i <= last; i++ {
		next, ok := <-ahead
		if !ok {
			return ctx.Err()
		}
		got := <-next
		if got.err != nil {
			return got.err
		}
		one := c.parts[i]
		if i > from && passed >= c.p.s.milestoneWorth(one.file.first) {
			w.written = time.Time(c.parts[i-1].head.Ended)
			if tip := c.tipBefore(i); tip != nil && c.p.s.writeMilestone(w, one.file.first, *tip) == nil {
				passed = 0
			}
		}
		name, head := path.Join(vizierDir, plansFile), (*segmentHead)(nil)
		if !one.journal {
			name, head = vizierDir+"/"+one.file.file(), &got.head
			passed += c.p.s.base.stamp(one.file.file()).size
		}
		err := eachEntry(got.bytes, name, head, func(e *pastEntry) error {
			switch opening := head != nil && head.Opening; {
			case opening && when.Entry == 0 && time.Time(head.Began).After(when.Time) && !head.Cut, when.Entry > 0 && e.number > when.Entry:
				return errEnough
			case opening:
			case e.number == 0 && when.Entry > 0, e.number > 0 && e.number <= w.number: // of a version that keeps no history, or in two parts
				return nil
			case when.Entry == 0 && i == last && e.written().After(when.Time):
				return errEnough
			case e.number == 0:
				w.take(e)
				return nil
			case e.number > w.number+1 && w.number > 0:
				return &SegmentError{name, errors.New(missingEntries(w.number+1, e.number-1))}
			}
			w.take(e)
			if i == last && (head == nil || !head.Opening) {
				w.written = e.written()
			}
			if i == last && when.Entry > 0 && w.number == when.Entry { // entries after it may be damaged
				return errEnough
			}
			return nil
		})
		if errors.Is(err, errEnough) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// tooEarly returns an error that says where the history begins.
func (c course) tooEarly() error {
	number, at := c.beginsWith(0)
	if number == 0 {
		return beyondError("nothing of the history can be shown: " + errNoBeginning.Error())
	}
	return beyondError(fmt.Sprintf("the history begins with entry %d, at %s: nothing before that can be shown", number, at.Format(time.RFC3339)))
}

// beyondError says how far the history reaches. It is ErrNotFound.
type beyondError string

func (e beyondError) Error() string      { return string(e) }
func (beyondError) Is(target error) bool { return target == kernel.ErrNotFound }

// beginsWith returns the first entry from part i on that can be shown, and when it was
// written; 0 if there is none.
func (c course) beginsWith(i int) (number uint64, at time.Time) {
	for ; i < len(c.parts); i++ {
		one := c.parts[i]
		w := c.p.s.openMilestone(one.file.first, c.tipBefore(i))
		if w == nil && !(one.file.opening && one.err == nil) && !(i == 0 && one.file.first == 1) {
			continue
		}
		if w != nil {
			w.close()
		}
		for _, after := range c.parts[i:] {
			if after.journal {
				at, _ = c.p.beganInJournal()
			} else if at = time.Time(after.head.Began); after.file.opening {
				continue
			}
			return after.file.first, at
		}
		return one.file.first, at
	}
	return 0, at
}

// explain adds to an error on the way to part last what can be shown all the same.
func (c course) explain(err error, last int) error {
	if !errors.Is(err, errNoBeginning) {
		if _, damaged := errors.AsType[*SegmentError](err); !damaged || errors.Is(err, iofs.ErrNotExist) {
			return err
		}
	}
	number, at := c.beginsWith(last + 1)
	if number == 0 {
		return fmt.Errorf("%w; nothing after it can be shown until the history is begun anew", err)
	}
	return fmt.Errorf("%w; the history can be shown again from entry %d on, at %s", err, number, at.Format(time.RFC3339))
}
