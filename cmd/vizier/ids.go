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

// reader reads jobs, and those of runs, by key: what it cannot find has no
// reference. The numbers are those of s, and mean nothing in another repository.
func (c *call) reader(s *app.Scheduler) func([]kernel.JobID, []kernel.RunID) []*kernel.Job {
	return func(ids []kernel.JobID, runs []kernel.RunID) []*kernel.Job {
		scope := app.Only(ids)
		for _, run := range runs {
			scope.Near = append(scope.Near, kernel.Near{Kind: kernel.Members, Run: run})
			scope.All = true // of a store that cannot tell
		}
		snap, err := s.Records(context.WithoutCancel(c.ctx), scope) // an interrupt is told of by what its job is called
		if err != nil {
			return nil // text with ids is better than none
		}
		return snap.Jobs()
	}
}

// label is how text writes the id of a job of s.
func label(s *kernel.Snapshot) func(kernel.JobID) string {
	return func(id kernel.JobID) string {
		if j := s.Job(id); j != nil && j.Number != 0 {
			return j.Ref()
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
	if pack := r.Logs.Packed(id); pack != "" {
		return view.Paths{Pack: rel(pack)}
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
