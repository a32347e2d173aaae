// Package memstore is a store in memory: for tests of front ends, for simulations, and for
// programs whose jobs need not outlive them. It keeps the contract of the ports
// (app/storetest).
package memstore

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/vizier-scheduler/vizier/app"
	"github.com/vizier-scheduler/vizier/kernel"
)

// Vault is the data, which outlives the processes that use it.
type Vault struct {
	lock chan struct{} // holds a value while nobody holds the scheduler lock
	mu   sync.Mutex
	records
	left     []kernel.WorldAction // committed and not done
	outcomes map[kernel.AttemptID]kernel.Result
}

// records are what a plan changes, all or none of it.
type records struct {
	jobs    map[kernel.JobID]kernel.Job
	markers map[kernel.Artifact][]kernel.JobID
	last    kernel.Number
}

// NewVault returns a vault without jobs.
func NewVault() *Vault {
	v := &Vault{lock: make(chan struct{}, 1), outcomes: map[kernel.AttemptID]kernel.Result{},
		records: records{jobs: map[kernel.JobID]kernel.Job{}, markers: map[kernel.Artifact][]kernel.JobID{}}}
	v.lock <- struct{}{}
	return v
}

// Open returns the vault as a new process sees it.
func (v *Vault) Open() *Store { return &Store{v: v} }

// Store is a vault as one process sees it. It implements app.Store, app.Outcomes and
// app.Observer, and may be used by several goroutines.
type Store struct {
	v  *Vault
	tx *tx // the transaction that holds the lock; nil: none
}

// tx implements app.Tx.
type tx struct{ s *Store }

// Begin waits for the lock until ctx ends; then it fails with app.ErrBusy.
func (s *Store) Begin(ctx context.Context) (app.Tx, error) {
	select {
	case <-s.v.lock:
	default:
		select {
		case <-s.v.lock:
		case <-ctx.Done():
			return nil, fmt.Errorf("another transaction is under way: %w", app.ErrBusy)
		}
	}
	s.v.mu.Lock()
	defer s.v.mu.Unlock()
	s.tx = &tx{s}
	return s.tx, nil
}

// Read returns all records, since a scope only says what is needed at least.
func (s *Store) Read(context.Context, kernel.Scope) (kernel.Records, error) {
	s.v.mu.Lock()
	defer s.v.mu.Unlock()
	return kernel.Records{Jobs: slices.Collect(maps.Values(s.v.jobs)), Last: s.v.last}, nil
}

// Die releases the lock, as the end of a process does.
func (s *Store) Die() {
	s.v.mu.Lock()
	defer s.v.mu.Unlock()
	if s.tx != nil {
		s.tx = nil
		s.v.lock <- struct{}{}
	}
}

// Job returns a record. It fails with kernel.ErrNotFound if there is none.
func (s *Store) Job(id kernel.JobID) (kernel.Job, error) {
	s.v.mu.Lock()
	defer s.v.mu.Unlock()
	j, ok := s.v.jobs[id]
	if !ok {
		return j, fmt.Errorf("job %s: %w", id, kernel.ErrNotFound)
	}
	return j, nil
}

// Conclude records how an attempt ended.
func (s *Store) Conclude(r kernel.Result) error {
	s.v.mu.Lock()
	defer s.v.mu.Unlock()
	s.v.outcomes[r.Attempt] = r
	return nil
}

// Observe answers for markers and results. It knows nothing of git.
func (s *Store) Observe(_ context.Context, p kernel.Probes, f *kernel.Facts) {
	s.v.mu.Lock()
	defer s.v.mu.Unlock()
	for _, a := range p.Markers {
		f.Markers[a] = kernel.Seen(s.v.markers[a])
	}
	for _, a := range p.Attempts {
		f.Results[a] = kernel.Seen[*kernel.Result](nil)
		if r, ok := s.v.outcomes[a]; ok {
			f.Results[a] = kernel.Seen(&r)
		}
	}
}

func (t *tx) Load(scope kernel.Scope) (kernel.Records, error) {
	return t.s.Read(context.Background(), scope)
}

// Commit changes a copy, so that a plan which is refused has done nothing.
func (t *tx) Commit(p kernel.Plan) error {
	v := t.s.v
	v.mu.Lock()
	defer v.mu.Unlock()
	next := records{maps.Clone(v.jobs), maps.Clone(v.markers), v.last}
	if err := p.Write(&next); err != nil {
		return err
	}
	v.records = next
	if !p.Empty() {
		v.left = p.World
	}
	return nil
}

func (t *tx) Unfinished() []kernel.WorldAction {
	t.s.v.mu.Lock()
	defer t.s.v.mu.Unlock()
	return t.s.v.left
}

func (t *tx) Done() error {
	t.s.v.mu.Lock()
	defer t.s.v.mu.Unlock()
	t.s.v.left = nil
	return nil
}

func (t *tx) Close() error { t.s.Die(); return nil }

// The methods of kernel.RecordWriter, one for each action: a store that knows too
// few does not compile.

func (r *records) CreateJob(a kernel.CreateJob) error {
	if _, taken := r.jobs[a.Job.ID]; taken {
		return fmt.Errorf("create %s: %w", a.Job.ID, kernel.ErrConflict)
	}
	r.jobs[a.Job.ID], r.last = *a.Job, max(r.last, a.Job.Number)
	return nil
}

// change changes a job if its revision is still over.
func (r *records) change(id kernel.JobID, over kernel.Revision, change func(*kernel.Job)) error {
	j, ok := r.jobs[id]
	switch {
	case !ok:
		return fmt.Errorf("change %s: %w", id, kernel.ErrNotFound)
	case j.Rev != over:
		return fmt.Errorf("change %s: revision %d, planned over %d: %w", id, j.Rev, over, kernel.ErrStale)
	}
	change(&j)
	j.Rev++
	r.jobs[id] = j
	return nil
}

func (r *records) PutState(a kernel.PutState) error {
	return r.change(a.Job, a.If, func(j *kernel.Job) { j.State = a.State })
}

func (r *records) NumberJob(a kernel.NumberJob) error {
	r.last = max(r.last, a.Number)
	return r.change(a.Job, a.If, func(j *kernel.Job) { j.Number, j.Part = a.Number, a.Part })
}

func (r *records) RemoveJob(a kernel.RemoveJob) error {
	delete(r.jobs, a.Job)
	return r.mark(a.Job, a.Produces, false)
}

func (r *records) PurgeFiles(a kernel.PurgeFiles) error { return r.mark(a.Job, a.Produces, false) }

func (r *records) Publish(a kernel.Publish) error { return r.mark(a.Attempt.Job, a.Artifacts, true) }

func (r *records) Reset(a kernel.Reset) error { return r.mark(a.Attempt.Job, a.Produces, false) }

// mark makes or removes a job's markers of custom artifacts.
func (r *records) mark(id kernel.JobID, artifacts []kernel.Artifact, exists bool) error {
	for _, a := range artifacts {
		if a.Kind != kernel.Custom {
			continue // others exist in the repository
		}
		r.markers[a] = slices.DeleteFunc(slices.Clone(r.markers[a]), func(k kernel.JobID) bool { return k == id })
		if exists {
			r.markers[a] = append(r.markers[a], id)
		}
	}
	return nil
}

func (r *records) Rotate(kernel.Rotate) error       { return nil } // there are no logs
func (r *records) Announce(kernel.Announce) error   { return nil } // nor hooks
func (r *records) CreateRun(kernel.CreateRun) error { return nil } // nor templates
func (r *records) RemoveRun(kernel.RemoveRun) error { return nil }
