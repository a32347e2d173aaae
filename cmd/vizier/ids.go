package main

import (
	"cmp"
	"context"
	"errors"
	iofs "io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/vizier-scheduler/vizier/app"
	"github.com/vizier-scheduler/vizier/app/op"
	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/view"
)

// look calls its argument look with the records of some jobs, and again as long as
// look asks for records that were not read; see app.Scheduler.Look.
func (r *repo) look(ctx context.Context, ids []kernel.JobID, look func(*kernel.Snapshot)) (*kernel.Snapshot, error) {
	return r.Scheduler.Look(ctx, app.Only(ids).Near, func(s *kernel.Snapshot) *kernel.Snapshot {
		look(s)
		return s
	})
}

// remarks returns snap with what is seen now and not on record: the remarks of executors, as far
// as they answer quickly, since a person is waiting, which conflicts of merges cannot be
// resolved any more, since their worktrees are gone, and what the gates of the others have left to resolve.
func (c *call) remarks(r *repo, snap *kernel.Snapshot) *kernel.Snapshot {
	ctx, stop := context.WithTimeout(c.ctx, patience)
	defer stop()
	snap = r.Scheduler.WithRemarks(ctx, snap)
	if c.past != nil {
		return snap
	}
	var gone []kernel.Action
	for _, j := range snap.Jobs() {
		st := j.State
		if st.Status != kernel.BlockedByDependency {
			continue
		}
		st.Reason, st.Wait.Detail = r.toResolve(snap, j, st.Reason), r.resolvable(j, st.Wait.Detail)
		if st.Reason != j.State.Reason || st.Wait.Detail != j.State.Wait.Detail {
			gone = append(gone, kernel.PutState{Job: j.ID, If: j.Rev, State: st})
		}
	}
	return snap.Apply(kernel.NewPlan(gone...))
}

// toResolve returns the reason of job j, as resolvable does. If its merge is in conflict, it names what the gate, which
// ended after it, has left to resolve.
func (r *repo) toResolve(snap *kernel.Snapshot, j *kernel.Job, reason string) string {
	if gate := snap.HandedOnTo(j); gate != nil {
		reason = op.LeftToResolve(reason, gate.State.Reason)
	}
	return r.resolvable(j, reason)
}

// resolvable returns the reason of job j or, if its merge is in conflict and the worktree to resolve it in was moved
// or is gone, one that says so.
func (r *repo) resolvable(j *kernel.Job, reason string) string {
	return op.Resolvable(reason, func(dir string) string { return r.conflictOf(j, dir) })
}

// conflictOf returns where the worktree is in which the conflict of j's merge was left at dir: relative to the root if it is among
// the worktrees of jobs; "": it is gone.
func (r *repo) conflictOf(j *kernel.Job, dir string) string {
	if present(r.Root, dir) {
		return dir
	}
	if r.Doctor.files == nil { // this command does not look at worktrees
		return ""
	}
	mark, err := r.Doctor.files.Sentinel(cmp.Or(j.Spec.Integrates(), j.Spec.Origin.Plan))
	if err != nil {
		return ""
	}
	at := r.treeNamed(op.MarkedTree(mark))
	beside := filepath.Join(filepath.Dir(dir), filepath.Base(at))
	there, err := os.Stat(filepath.Join(r.Root, beside))
	if err != nil {
		return at
	}
	if found, err := os.Stat(at); err == nil && os.SameFile(found, there) {
		return beside
	}
	return at
}

// treeNamed returns where the worktree is that git has under a name; "": nowhere.
func (r *repo) treeNamed(name string) string {
	if name == "" || r.Doctor.git == nil {
		return ""
	}
	dir, err := r.Doctor.git.WorktreeNamed(name)
	if err != nil {
		return ""
	}
	return dir
}

// present reports whether dir, relative to root, exists, as far as that is known.
func present(root, dir string) bool {
	_, err := os.Stat(filepath.Join(root, dir))
	return !errors.Is(err, iofs.ErrNotExist)
}

// patience is how long a person waits for the answers of executors.
const patience = 2 * time.Second

// refresh asks the executors of the running jobs among jobs for their state.
func (r *repo) refresh(ctx context.Context, jobs ...*kernel.Job) {
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	r.Scheduler.Refresh(ctx, jobs...)
}

// reader returns a function that reads jobs, and the jobs of runs, by id. Ids
// that it cannot find have no reference. References are those of s, and mean
// nothing in another repository.
func (c *call) reader(s *app.Scheduler) func([]kernel.JobID, []kernel.RunID) []*kernel.Job {
	return func(ids []kernel.JobID, runs []kernel.RunID) []*kernel.Job {
		scope := app.Only(ids)
		for _, run := range runs {
			scope.Near = append(scope.Near, kernel.Near{Kind: kernel.Members, Run: run})
			scope.All = true // for a store that cannot read narrowly
		}
		snap, err := s.Records(context.WithoutCancel(c.ctx), scope) // even after an interrupt: its message has references too
		if err != nil {
			return nil // text with ids is better than none
		}
		return snap.Jobs()
	}
}

// label returns a function that returns the reference of a job of s, or its id if
// it has none.
func label(s *kernel.Snapshot) func(kernel.JobID) string {
	return func(id kernel.JobID) string {
		if j := s.Job(id); j != nil && j.Number != 0 {
			return j.Ref()
		}
		return string(id)
	}
}

// paths returns the paths of a job's files: relative to the repository's root
// for programs, and to the working directory for people.
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
	dir := r.Logs.JobDir(id)
	logs, _ := iofs.Glob(os.DirFS(dir), "hooks/*.log") // the only possible error is a bad pattern
	for i, log := range logs {
		logs[i] = rel(filepath.Join(dir, log))
	}
	p.Hooks = strings.Join(logs, ", ")
	return p
}

// details returns paths and the job's attempts, which have to be read from
// disk.
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

// relative returns path relative to dir.
func relative(dir, path string) string {
	if rel, err := filepath.Rel(dir, path); err == nil {
		return rel
	}
	return path
}

// workingDir returns the working directory, free of symbolic links.
func workingDir() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(dir)
}
