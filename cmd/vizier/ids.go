package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/view"
)

// records is the world as its records tell it: cheaper than Scheduler.Snapshot,
// which also looks at git and at processes.
func (r *repo) records(ctx context.Context, scope kernel.Scope) (*kernel.Snapshot, error) {
	rec, err := r.Scheduler.Store.Read(ctx, scope)
	if err != nil {
		return nil, err
	}
	return kernel.NewSnapshot(kernel.Observation{Now: r.Scheduler.Now(), Limits: r.Scheduler.Limits,
		Jobs: rec.Jobs, Archived: rec.Succeeded, Unreadable: rec.Unreadable}), nil
}

// job is the job that a person means by ref, with the records around it.
func (r *repo) job(ctx context.Context, ref string) (*kernel.Snapshot, kernel.JobID, error) {
	snap, ids, err := r.jobs(ctx, []string{ref})
	if err != nil {
		return nil, "", err
	}
	return snap, ids[0], nil
}

// jobs are the jobs that a person means by refs. Whole ids do not need every
// record to be read.
func (r *repo) jobs(ctx context.Context, refs []string) (*kernel.Snapshot, []kernel.JobID, error) {
	scope := kernel.Scope{}
	for _, ref := range refs {
		scope.Jobs = append(scope.Jobs, kernel.JobID(ref))
		scope.All = scope.All || !kernel.ValidJobID(ref)
	}
	snap, err := r.records(ctx, scope)
	if err != nil {
		return nil, nil, err
	}
	ids := make([]kernel.JobID, len(refs))
	for i, ref := range refs {
		if ids[i], err = view.Resolve(snap, ref); err != nil {
			return nil, nil, err
		}
	}
	return snap, ids, nil
}

// members are the jobs that a person means by refs, where a run means all of
// its jobs, each once; sleepers are those that were only named by their run.
func (r *repo) members(ctx context.Context, refs []string) (ids []kernel.JobID, sleepers map[kernel.JobID]bool, err error) {
	scope := kernel.Scope{}
	for _, ref := range refs {
		scope.Jobs = append(scope.Jobs, kernel.JobID(ref))
		scope.All = scope.All || !kernel.ValidJobID(ref)
	}
	snap, err := r.records(ctx, scope)
	if err != nil {
		return nil, nil, err
	}
	named, sleepers := map[kernel.JobID]bool{}, map[kernel.JobID]bool{}
	for _, ref := range refs {
		all, isRun, err := view.Members(snap, ref)
		if err == nil && !isRun {
			all = make([]kernel.JobID, 1)
			all[0], err = view.Resolve(snap, ref)
		}
		if err != nil {
			return nil, nil, err
		}
		for _, id := range all {
			if !named[id] && !sleepers[id] {
				ids = append(ids, id)
			}
			if sleepers[id] = isRun && !named[id]; !isRun {
				named[id] = true
			}
		}
	}
	return ids, sleepers, nil
}

// labels is how ids are written: whole for programs, as short as they stay
// unambiguous for people.
func (u *ui) labels(s *kernel.Snapshot) func(kernel.JobID) string {
	if !u.outTTY {
		return func(id kernel.JobID) string { return string(id) }
	}
	ids := s.UnreadableIDs()
	for _, j := range s.Jobs() {
		ids = append(ids, j.ID)
	}
	short := view.Prefixes(ids)
	return func(id kernel.JobID) string {
		if p := short[id]; p != "" {
			return p
		}
		return string(id)
	}
}

// paths are where a job's files are, as seen from the repository's root.
func (r *repo) paths(id kernel.JobID) view.Paths {
	p := view.Paths{Stdout: r.rel(r.Logs.LogFile(id, "stdout")), Stderr: r.rel(r.Logs.LogFile(id, "stderr"))}
	if file := r.Logs.OutcomeFile(id); file != "" {
		if _, err := os.Stat(file); err == nil {
			p.Outcome = r.rel(file)
		}
	}
	if logs, err := filepath.Glob(filepath.Join(r.Logs.JobDir(id), "hooks", "*.log")); err == nil {
		for i, log := range logs {
			logs[i] = r.rel(log)
		}
		p.Hooks = strings.Join(logs, ", ")
	}
	return p
}

func (r *repo) rel(path string) string {
	if rel, err := filepath.Rel(r.Root, path); err == nil {
		return rel
	}
	return path
}
