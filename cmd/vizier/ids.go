package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/vizier-scheduler/vizier/app"
	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/view"
)

// look shows look the records of some jobs, and again with what it looked at
// besides, until that is all.
func (r *repo) look(ctx context.Context, ids []kernel.JobID, look func(*kernel.Snapshot)) (*kernel.Snapshot, error) {
	return r.Scheduler.Look(ctx, app.Only(ids).Near, func(s *kernel.Snapshot) *kernel.Snapshot {
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
	ids = append(ids, r.Scheduler.IDs()...) // those that the snapshot leaves out as well
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
