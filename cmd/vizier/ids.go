package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
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
	if err := r.follow(ctx, refs); err != nil {
		return nil, nil, err
	}
	scope := r.mentioned(refs)
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
	snap, err = r.withPromptRuns(ctx, scope, snap, ids)
	return snap, ids, err
}

// follow makes r the repository that the jobs of refs are in, where that is
// another one that r's inbox runs prompts in: whoever drops a prompt there knows
// its id, and not where the inbox has it run. Only whole ids lead there; what r
// has itself counts first.
func (r *repo) follow(ctx context.Context, refs []string) error {
	if r.Elsewhere == nil || len(r.Config.Inbox.Repositories) == 0 {
		return nil
	}
	to := r
	for i, ref := range refs {
		at, err := r.whose(ctx, ref)
		if err != nil || at == nil {
			return err
		}
		if i > 0 && at.Root != to.Root {
			return fmt.Errorf("%s is a job of %s, and %s of %s: name those of one repository at a time: %w", refs[0], to.Root, ref, at.Root, kernel.ErrInvalid)
		}
		to = at
	}
	*r = *to
	return nil
}

// whose is the repository that has the job or the run that ref is the whole id
// of; nil: none that is known of.
func (r *repo) whose(ctx context.Context, ref string) (*repo, error) {
	whole, _, _ := strings.Cut(strings.TrimPrefix(ref, "run_"), "/")
	if !kernel.ValidJobID(whole) {
		return nil, nil
	}
	if here, err := r.has(ctx, ref, kernel.JobID(whole)); err != nil || here {
		return r, err
	}
	for _, name := range slices.Sorted(maps.Keys(r.Config.Inbox.Repositories)) {
		other, err := r.Elsewhere(name)
		if err != nil { // `vizier doctor` tells of it
			continue
		}
		if there, err := other.has(ctx, ref, kernel.JobID(whole)); err == nil && there {
			return other, nil
		}
	}
	return nil, nil
}

// has reports that r has the job of that id, or the run, if ref says so.
func (r *repo) has(ctx context.Context, ref string, id kernel.JobID) (bool, error) {
	scope := only([]kernel.JobID{id})
	run := kernel.RunID("run_" + string(id))
	if strings.HasPrefix(ref, "run_") {
		scope = kernel.Scope{Near: []kernel.Near{{Kind: kernel.Members, Run: run}}, All: true} // all, of a store that cannot tell
	}
	snap, err := r.records(ctx, scope)
	if err != nil {
		return false, err
	}
	return snap.Job(id) != nil || slices.Contains(snap.UnreadableIDs(), id) || scope.All && len(snap.Members(run)) > 0, nil
}

// withPromptRuns is snap, which was read as scope, with the runs of those jobs of
// ids that stand for prompts: how such a job stands is told by them.
func (r *repo) withPromptRuns(ctx context.Context, scope kernel.Scope, snap *kernel.Snapshot, ids []kernel.JobID) (*kernel.Snapshot, error) {
	before := len(scope.Near)
	for _, id := range ids {
		if j := snap.Job(id); before > 0 && j != nil && j.Spec.Intake != nil && j.Spec.Origin.Run != "" {
			scope.Near = append(scope.Near, kernel.Near{Kind: kernel.Members, Run: j.Spec.Origin.Run})
			scope.All = true // of a store that cannot tell
		}
	}
	if len(scope.Near) == before {
		return snap, nil
	}
	return r.records(ctx, scope)
}

// members are the jobs that a person means by refs, where a run means all of
// its jobs, each once; sleepers are those that were only named by their run.
func (r *repo) members(ctx context.Context, refs []string) (ids []kernel.JobID, sleepers map[kernel.JobID]bool, err error) {
	if err := r.follow(ctx, refs); err != nil {
		return nil, nil, err
	}
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
func (r *repo) details(id kernel.JobID, format string) (view.Paths, error) {
	p := r.paths(id, format)
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
