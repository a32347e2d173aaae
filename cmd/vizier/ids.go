package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"time"

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
	o := kernel.Observation{Now: r.Scheduler.Now(), Limits: r.Scheduler.Limits, Jobs: rec.Jobs, Archived: rec.Succeeded, Unreadable: rec.Unreadable}
	if rec.Narrow {
		o.Near, o.Counts = scope.Near, rec.Counts
	}
	return kernel.TakeSnapshot(o), nil
}

// only is what has to be read of some jobs and of nothing else.
func only(ids []kernel.JobID) kernel.Scope {
	scope := kernel.Scope{Jobs: ids, Near: make([]kernel.Near, len(ids))}
	for i, id := range ids {
		scope.Near[i] = kernel.Near{Kind: kernel.Itself, Job: id}
	}
	return scope
}

// look shows look the records of some jobs, and again with what it looked at
// besides, until that is all.
func (r *repo) look(ctx context.Context, ids []kernel.JobID, look func(*kernel.Snapshot)) (*kernel.Snapshot, error) {
	return r.Scheduler.Look(ctx, only(ids).Near, func(s *kernel.Snapshot) *kernel.Snapshot {
		look(s)
		return s
	})
}

// remarks is snap with what executors say, as far as they say it soon: people
// wait for it.
func (r *repo) remarks(ctx context.Context, snap *kernel.Snapshot) *kernel.Snapshot {
	const patience = 2 * time.Second
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	return r.Scheduler.WithRemarks(ctx, snap)
}

// job is the job that a person means by ref, with the records around it.
func (r *repo) job(ctx context.Context, ref string) (*kernel.Snapshot, kernel.JobID, error) {
	snap, ids, err := r.jobs(ctx, []string{ref})
	if err != nil {
		return nil, "", err
	}
	return snap, ids[0], nil
}

// jobs are the jobs that a person means by refs.
func (r *repo) jobs(ctx context.Context, refs []string) (*kernel.Snapshot, []kernel.JobID, error) {
	snap, err := r.records(ctx, r.mentioned(refs))
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
	scope := r.mentioned(refs)
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

// mentioned is what has to be read to know which jobs refs mean. The ids of all
// jobs are at hand without their records; what else a job may be called by is
// in these.
func (r *repo) mentioned(refs []string) kernel.Scope {
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
			others = append(others, kernel.Near{Kind: kernel.Newest, Most: 1})
			continue
		}
		if all == nil && r.IDs != nil {
			all, _ = r.IDs() // without them every record is read
		}
		before := len(ids)
		for _, id := range all {
			if ref != "" && strings.HasPrefix(string(id), ref) {
				ids = append(ids, id)
			}
		}
		if len(ids) == before {
			return kernel.Scope{All: true}
		}
	}
	scope := only(ids)
	scope.Near = append(scope.Near, others...)
	scope.All = len(others) > 0 // of a store that cannot tell
	return scope
}

// labels is how ids are written: whole for programs, as short as they stay
// unambiguous for people.
func (c *call) labels(r *repo, s *kernel.Snapshot) func(kernel.JobID) string {
	if !c.ui.outTTY {
		return func(id kernel.JobID) string { return string(id) }
	}
	ids := s.UnreadableIDs()
	for _, j := range s.Jobs() {
		ids = append(ids, j.ID)
	}
	if r.IDs != nil { // those that the snapshot leaves out as well
		all, _ := r.IDs()
		ids = append(ids, all...)
	}
	short := view.Prefixes(ids)
	return func(id kernel.JobID) string {
		if p := short[id]; p != "" {
			return p
		}
		return string(id)
	}
}

// paths are where a job's files are: for programs as seen from the repository's
// root, for people from the directory they stand in.
func (r *repo) paths(id kernel.JobID, format string) view.Paths {
	rel := r.rel
	if here, err := workingDir(); err == nil && format != "json" {
		rel = func(path string) string { return relative(here, path) }
	}
	p := view.Paths{Stdout: rel(r.Logs.LogFile(id, "stdout")), Stderr: rel(r.Logs.LogFile(id, "stderr"))}
	if file := r.Logs.OutcomeFile(id); file != "" {
		if _, err := os.Stat(file); err == nil {
			p.Outcome = rel(file)
		}
	}
	if logs, err := filepath.Glob(filepath.Join(r.Logs.JobDir(id), "hooks", "*.log")); err == nil {
		for i, log := range logs {
			logs[i] = rel(log)
		}
		p.Hooks = strings.Join(logs, ", ")
	}
	return p
}

// details are paths and the job's attempts, which take a look at each.
func (r *repo) details(a kernel.AttemptID, format string) (view.Paths, error) {
	id := a.Job
	p := r.paths(id, format)
	if r.Progress != nil {
		p.Progress = r.Progress(a)
	}
	var err error
	if r.Attempts != nil {
		p.Attempts, err = r.Attempts(id)
	}
	return p, err
}

func (r *repo) rel(path string) string { return relative(r.Root, path) }

// linked is the linked worktree that the command runs in; "": it is the main one.
func (r *repo) linked() string {
	if r.Tree == r.Root {
		return ""
	}
	return r.Tree
}

// relative is path as seen from dir.
func relative(dir, path string) string {
	if rel, err := filepath.Rel(dir, path); err == nil {
		return rel
	}
	return path
}

// workingDir is the working directory, free of symbolic links.
func workingDir() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(dir)
}
