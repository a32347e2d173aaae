package app

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/view"
)

// idLister is a Store that can list the ids of all jobs without reading their
// records.
type idLister interface {
	IDs() ([]kernel.JobID, error)
}

// Records returns a snapshot of the records alone. It is cheaper than Snapshot,
// which also observes git and processes.
func (s *Scheduler) Records(ctx context.Context, scope kernel.Scope) (*kernel.Snapshot, error) {
	rec, err := s.Store.Read(ctx, scope)
	if err != nil {
		return nil, err
	}
	o := kernel.Observation{Now: s.Now(), Limits: s.Limits, Jobs: rec.Jobs, Archived: rec.Succeeded, Unreadable: rec.Unreadable}
	if rec.Narrow {
		o.Near, o.Counts = scope.Near, rec.Counts
	}
	return kernel.TakeSnapshot(o), nil
}

// Only returns the scope of exactly the given jobs.
func Only(ids []kernel.JobID) kernel.Scope {
	scope := kernel.Scope{Jobs: ids, Near: make([]kernel.Near, len(ids))}
	for i, id := range ids {
		scope.Near[i] = kernel.Near{Kind: kernel.Itself, Job: id}
	}
	return scope
}

// Job returns the job that ref names (see view.Finder), with the records around
// it.
func (s *Scheduler) Job(ctx context.Context, ref string) (*kernel.Snapshot, kernel.JobID, error) {
	snap, ids, err := s.Jobs(ctx, []string{ref})
	if err != nil {
		return nil, "", err
	}
	return snap, ids[0], nil
}

// Jobs returns the jobs that refs name, with a single read.
func (s *Scheduler) Jobs(ctx context.Context, refs []string) (*kernel.Snapshot, []kernel.JobID, error) {
	scope := s.mentioned(ctx, refs)
	snap, err := s.Records(ctx, scope)
	if err != nil {
		return nil, nil, err
	}
	ids, f := make([]kernel.JobID, len(refs)), view.NewFinder(snap)
	for i, ref := range refs {
		if ids[i], err = f.Resolve(ref); err != nil {
			return nil, nil, err
		}
	}
	snap, err = s.WithPromptRuns(ctx, scope, snap, ids)
	return snap, ids, err
}

// Targets returns the jobs or whole runs that refs name, in a snapshot that
// holds all jobs of those runs.
func (s *Scheduler) Targets(ctx context.Context, refs []string) (*kernel.Snapshot, []view.Target, error) {
	scope := s.mentioned(ctx, refs)
	narrow, known := len(scope.Near) > 0, map[kernel.Near]bool{}
	for _, n := range scope.Near {
		known[n] = true
	}
	for {
		snap, err := s.Records(ctx, scope)
		if err != nil {
			return nil, nil, err
		}
		targets, f := make([]view.Target, len(refs)), view.NewFinder(snap)
		before := len(scope.Near)
		for i, ref := range refs {
			if targets[i], err = f.Find(ref); err != nil {
				return nil, nil, err
			}
			all := kernel.Near{Kind: kernel.Members, Run: targets[i].Run()}
			if narrow && all.Run != "" && !known[all] {
				known[all], scope.Near, scope.All = true, append(scope.Near, all), true // a store that cannot read narrowly reads everything
			}
		}
		if len(scope.Near) == before {
			return snap, targets, nil
		}
	}
}

// Run returns the run that ref names.
func (s *Scheduler) Run(ctx context.Context, ref string) (kernel.RunID, error) {
	_, targets, err := s.Targets(ctx, []string{ref})
	if errors.Is(err, kernel.ErrNotFound) {
		return "", kernel.Missing{What: "run " + ref}
	}
	if err != nil {
		return "", err
	}
	if run := targets[0].Run(); run != "" && targets[0].Whole {
		return run, nil
	}
	return "", fmt.Errorf("%s is no run: %w", ref, kernel.ErrInvalid)
}

// WithPromptRuns returns snap, which was read with scope, extended by the runs
// of those jobs of ids that stand for prompts: the state of such a job depends
// on its run.
func (s *Scheduler) WithPromptRuns(ctx context.Context, scope kernel.Scope, snap *kernel.Snapshot, ids []kernel.JobID) (*kernel.Snapshot, error) {
	before := len(scope.Near)
	for _, id := range ids {
		if j := snap.Job(id); before > 0 && j != nil && j.Spec.Prompt != nil && j.Spec.Origin.Run != "" {
			scope.Near = append(scope.Near, kernel.Near{Kind: kernel.Members, Run: j.Spec.Origin.Run})
			scope.All = true // for a store that cannot read narrowly
		}
	}
	if len(scope.Near) == before {
		return snap, nil
	}
	return s.Records(ctx, scope)
}

// Members returns the jobs that refs name, without duplicates, and their records; a run
// stands for all of its jobs. sleepers holds the dormant jobs that were only included
// because of their run.
func (s *Scheduler) Members(ctx context.Context, refs []string) (snap *kernel.Snapshot, ids []kernel.JobID, sleepers map[kernel.JobID]bool, err error) {
	snap, targets, err := s.Targets(ctx, refs)
	if err != nil {
		return nil, nil, nil, err
	}
	named, sleepers := map[kernel.JobID]bool{}, map[kernel.JobID]bool{}
	for _, t := range targets {
		for _, j := range t.Jobs {
			if !named[j.ID] && !sleepers[j.ID] {
				ids = append(ids, j.ID)
			}
			if sleepers[j.ID] = t.Whole && !named[j.ID]; !t.Whole {
				named[j.ID] = true
			}
		}
	}
	return snap, ids, sleepers, nil
}

// Resolver returns a function that resolves each of refs to a job. It reads the
// store once, and only if there are refs.
func (s *Scheduler) Resolver(ctx context.Context, refs []string) (func(string) (kernel.JobID, error), error) {
	var snap *kernel.Snapshot
	if len(refs) > 0 {
		var err error
		if snap, err = s.Records(ctx, s.mentioned(ctx, refs)); err != nil {
			return nil, err
		}
	}
	return view.NewFinder(snap).Resolve, nil
}

// IDs returns the ids of all jobs without reading their records, or nil if the
// store cannot list them.
func (s *Scheduler) IDs() []kernel.JobID {
	index, ok := s.Store.(idLister)
	if !ok {
		return nil
	}
	ids, err := index.IDs()
	if err != nil {
		return nil // every record is read instead, which reports the error
	}
	return ids
}

// mentioned returns the scope that is needed to resolve refs. Names are only in
// the records, so a name needs them all.
func (s *Scheduler) mentioned(ctx context.Context, refs []string) kernel.Scope {
	var others []kernel.Near
	var ids, all []kernel.JobID
	for _, ref := range refs {
		if kernel.ValidJobID(ref) {
			ids = append(ids, kernel.JobID(ref))
			continue
		}
		if run, whole := strings.CutPrefix(ref, "run_"); whole && kernel.ValidJobID(run) {
			others = append(others, kernel.Near{Kind: kernel.Members, Run: kernel.RunID(ref)})
			continue
		}
		if ref == "@last" {
			newest := kernel.Near{Kind: kernel.Newest, Most: 1}
			others = append(others, newest)
			if snap, err := s.Records(ctx, kernel.Scope{All: true, Near: []kernel.Near{newest}}); err == nil { // else the read that follows fails
				if jobs := snap.Jobs(); len(jobs) > 0 && jobs[len(jobs)-1].Spec.Origin.Run != "" { // of a prompt's run another may be meant
					others = append(others, kernel.Near{Kind: kernel.Members, Run: jobs[len(jobs)-1].Spec.Origin.Run})
				}
			}
			continue
		}
		if n, part, ok := kernel.ParseRef(ref); ok {
			others = append(others, kernel.Near{Kind: kernel.OfNumber, Number: n, Key: part})
			continue
		}
		if len(ref) < kernel.PrefixLength || strings.Trim(ref, "0123456789abcdef") != "" {
			return kernel.Scope{All: true} // a name
		}
		if all == nil {
			all = s.IDs()
		}
		before := len(ids)
		for _, id := range all {
			if strings.HasPrefix(string(id), ref) {
				ids = append(ids, id)
			}
		}
		if len(ids) == before {
			return kernel.Scope{All: true}
		}
	}
	scope := Only(ids)
	scope.Near = append(scope.Near, others...)
	scope.All = len(others) > 0 // for a store that cannot read narrowly
	return scope
}
