package fs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Moment is a place in the history of a store: after an entry or, if Entry is 0, after the
// last one that was written by Time. The zero value is after the last entry, whatever its
// time.
type Moment struct {
	Entry uint64
	Time  time.Time
}

// Past is a store as it was, by its history. It can be read and not written.
type Past struct {
	Entry  uint64        // the last one that had been written
	At     time.Time     // the time that was asked for, or when the entry was written
	Limits kernel.Limits // of the last decision

	state *pastState
	facts func() (kernel.Facts, error)
}

// PastAt returns the store as it was at a moment. The error is ErrNotFound if the history
// does not reach that far, and a *SegmentError if a file that it needs is damaged.
func (s *Store) PastAt(ctx context.Context, when Moment) (*Past, error) {
	for try := 0; ; try++ {
		p, err := s.history(ctx, false)
		if err != nil {
			return nil, err
		}
		c, err := p.course()
		if err != nil {
			return nil, err
		}
		past, err := c.at(ctx, when)
		if try == 0 && errors.Is(err, iofs.ErrNotExist) { // another process has just dropped the file
			continue
		}
		return past, err
	}
}

// Read returns the records of a scope as they were.
func (p *Past) Read(_ context.Context, scope kernel.Scope) (kernel.Records, error) {
	return p.state.store.records(scope)
}

// Close releases what the past holds open.
func (p *Past) Close() { p.state.close() }

// Observe answers probes with the facts in the history. Facts that it does not have are
// not known.
func (p *Past) Observe(_ context.Context, asked kernel.Probes, f *kernel.Facts) {
	seen, err := p.facts()
	p.state.answer(asked, seen, err, f)
}

// notThen is why a fact of the past is not known.
const notThen = "the history does not say what was seen of it then"

func (w *pastState) answer(asked kernel.Probes, seen kernel.Facts, err error, f *kernel.Facts) {
	why := notThen
	if err != nil {
		why = err.Error()
	}
	for _, a := range asked.Artifacts {
		f.Present[a] = recalled(seen.Present[a], why)
	}
	for _, a := range asked.Markers {
		f.Markers[a] = recalled(w.markers(a, seen.Markers[a]), why)
	}
	for _, b := range asked.Branches {
		f.Heads[b] = recalled(seen.Heads[b], why)
	}
	if asked.Head {
		f.Head = recalled(seen.Head, why)
	}
	if asked.Clean {
		f.Clean = recalled(seen.Clean, why)
	}
	if asked.Merging {
		f.Merging = recalled(seen.Merging, why)
	}
	if asked.Sandbox {
		f.Sandbox = recalled(seen.Sandbox, why)
	}
}

func recalled[T any](f kernel.Fact[T], why string) kernel.Fact[T] {
	if !f.Known && f.Err == "" {
		return kernel.Unseen[T](why)
	}
	return f
}

// Start is ErrPast, as are Stop and Sweep.
func (p *Past) Start(context.Context, kernel.AttemptID) error { return ErrPast }

// Stop is ErrPast.
func (p *Past) Stop(context.Context, kernel.AttemptID) error { return ErrPast }

// Sweep is ErrPast.
func (p *Past) Sweep(context.Context, kernel.AttemptID) error { return ErrPast }

// ErrPast is the error of every action in the past.
var ErrPast = errors.New("this is the past: nothing is changed in it")

// Alive answers that every attempt is alive: the history does not say otherwise.
func (p *Past) Alive(_ context.Context, attempts []kernel.AttemptID) map[kernel.AttemptID]kernel.Fact[kernel.Runner] {
	out := map[kernel.AttemptID]kernel.Fact[kernel.Runner]{}
	for _, a := range attempts {
		out[a] = kernel.Seen(kernel.Runner{Liveness: kernel.Alive})
	}
	return out
}

// pastState is the state that the entries so far have led to.
type pastState struct {
	store   *Store                  // in memory, over a milestone if there is one
	pending map[kernel.JobID][]byte // records that are not in store yet; empty: gone
	told    [][]byte                // accounts that have facts
	limits  []byte                  // the last account that has limits
	number  uint64                  // of the last entry
	written time.Time               // and when it was written
	begun   kernel.Facts            // as of the milestone
	bounds  *limitsRecord           // likewise
	whole   bool                    // it has every entry from the first one on
	marks   map[string]bool         // markers that came or went; see keyMarked
}

func newPastState(tables ...*table) *pastState {
	return &pastState{pending: map[kernel.JobID][]byte{}, marks: map[string]bool{}, begun: kernel.NewFacts(),
		store: &Store{cache: &cache{kv: &kv{tables: tables}, rebuilt: true}}}
}

func (w *pastState) close() { w.store.dropCache() }

// take applies e.
func (w *pastState) take(e *pastEntry) {
	if e.head != nil && e.head.Opening {
		w.close()
		*w = *newPastState()
		w.number, w.written = e.head.First-1, time.Time(e.head.Began)
	} else if e.number > 0 {
		w.number = e.number
	}
	for id, record := range e.found() {
		w.pending[id] = record
	}
	for _, g := range e.groups {
		switch {
		case g.does(opRemoveJob):
			w.pending[g.job] = nil
		case g.record != nil:
			w.pending[g.job] = g.record
		}
		for _, op := range g.ops {
			if strings.HasPrefix(op.path, markersDir+"/") {
				w.marks[op.path] = op.kind == opWrite
			}
		}
	}
	if len(e.account) > 0 {
		if bytes.Contains(e.account, []byte(`"facts":{`)) {
			w.told = append(w.told, e.account)
		}
		if bytes.Contains(e.account, []byte(`"limits":{`)) {
			w.limits = e.account
		}
	}
}

// keyMarked is followed by the path of a marker; the value says whether it is there.
const keyMarked = "M"

// flush puts the pending records into the store.
func (w *pastState) flush() error {
	ids := slices.Sorted(maps.Keys(w.pending))
	jobs := make([]readRecord, len(ids))
	each(len(ids), func(i int) {
		if b := w.pending[ids[i]]; len(b) > 0 {
			jobs[i] = readRecordOf(ids[i], b)
		}
	})
	c := w.store.cache
	for i, id := range ids {
		err := error(nil)
		switch r := jobs[i]; {
		case r.job != nil:
			err = c.put(cachedJob{job: r.job}, false)
		case r.err != nil:
			err = c.remove(id)
			c.set(keyUnread+string(id), []byte(r.err.Error()))
		default:
			err = c.remove(id)
		}
		if err != nil {
			return err
		}
	}
	for path, there := range w.marks {
		v := []byte("0")
		if there {
			v = []byte("1")
		}
		c.set(keyMarked+path, v)
	}
	clear(w.pending)
	clear(w.marks)
	return nil
}

// each calls f with 0 to n-1, on all processors.
func each(n int, f func(int)) {
	var wait sync.WaitGroup
	workers := min(runtime.GOMAXPROCS(0), n/16+1)
	for k := range workers {
		wait.Go(func() {
			for i := k; i < n; i += workers {
				f(i)
			}
		})
	}
	wait.Wait()
}

// facts returns the facts that were on record last.
func (w *pastState) facts() (kernel.Facts, error) {
	f := w.begun
	f = kernel.Facts{Present: maps.Clone(f.Present), Markers: maps.Clone(f.Markers), Heads: maps.Clone(f.Heads), Head: f.Head, Clean: f.Clean, Merging: f.Merging, Sandbox: f.Sandbox}
	type read struct {
		facts []kernel.Facts
		err   error
	}
	all := make([]read, len(w.told))
	each(len(w.told), func(i int) {
		var r struct {
			Steps []struct {
				Facts *factsRecord `json:"facts"`
			} `json:"steps"`
		}
		if all[i].err = fromJSON(w.told[i], &r); all[i].err != nil {
			return
		}
		for _, step := range r.Steps {
			one, err := step.Facts.facts()
			all[i].facts, all[i].err = append(all[i].facts, one), errors.Join(all[i].err, err)
		}
	})
	for _, r := range all {
		if r.err != nil {
			return f, fmt.Errorf("the facts on record cannot be read: %w", r.err)
		}
		for _, one := range r.facts {
			maps.Copy(f.Present, one.Present)
			maps.Copy(f.Markers, one.Markers)
			maps.Copy(f.Heads, one.Heads)
			newer(&f.Head, one.Head)
			newer(&f.Clean, one.Clean)
			newer(&f.Merging, one.Merging)
			newer(&f.Sandbox, one.Sandbox)
		}
	}
	return f, nil
}

func newer[T any](have *kernel.Fact[T], f kernel.Fact[T]) {
	if f.Known || f.Err != "" {
		*have = f
	}
}

// markers returns the jobs that had a marker of a: those that were seen last, with the
// changes that entries have made since.
func (w *pastState) markers(a kernel.Artifact, seen kernel.Fact[[]kernel.JobID]) kernel.Fact[[]kernel.JobID] {
	of := map[kernel.JobID]bool{}
	for _, id := range seen.Value {
		of[id] = true
	}
	known := seen.Known || w.whole
	prefix := keyMarked + artifactDir(markersDir, a) + "/"
	err := w.store.cache.kv.each(prefix, func(key string, there []byte) bool {
		id := kernel.JobID(strings.TrimSuffix(key[len(prefix):], ".json"))
		of[id], known = string(there) == "1", true
		return true
	})
	if err != nil {
		return kernel.Unseen[[]kernel.JobID](err.Error())
	}
	if !known {
		return seen
	}
	maps.DeleteFunc(of, func(_ kernel.JobID, there bool) bool { return !there })
	return kernel.Seen(slices.Sorted(maps.Keys(of)))
}

// bound returns the limits of the last decision.
func (w *pastState) bound() (*limitsRecord, error) {
	if w.limits == nil {
		return w.bounds, nil
	}
	var r struct {
		Limits *limitsRecord `json:"limits"`
	}
	err := fromJSON(w.limits, &r)
	return r.Limits, err
}

// past returns w as a Past.
func (w *pastState) past() (*Past, error) {
	if err := w.flush(); err != nil {
		return nil, err
	}
	limits, err := w.bound()
	if err != nil {
		return nil, err
	}
	bound, err := limits.limits()
	p := &Past{Entry: w.number, At: w.written, Limits: bound, state: w, facts: sync.OnceValues(w.facts)}
	return p, err
}
