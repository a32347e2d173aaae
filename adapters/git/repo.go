// Package git is Vizier's access to git: where the repository is, what its
// branches and files contain, and the worktrees that jobs own.
//
// The git program can do everything here. With the build tag libgit2, queries
// go to libgit2 first, which answers them without a process, and to the program
// if libgit2 fails.
package git

import (
	"context"
	"sync/atomic"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Repo is a repository as the program uses it: an observer, a manager of
// worktrees, and a Backend for the operations of jobs.
type Repo struct {
	Backend

	// OnPark, unless nil, is called for all work that is parked before its
	// worktree or branch is removed.
	OnPark func(Parked)

	// ParkedBy is the job that this Repo works for; "": none. A ref that keeps the commits of a
	// branch names this job. A ref that keeps the work in a worktree names the job that owns it.
	ParkedBy kernel.JobID

	// Own has the content of the files that Vizier makes by itself in the main working tree, by their paths
	// there. git ignores them, and one that is as it was made is not in the way of what a commit has there.
	Own map[string]string

	root Root
	cli  *cli

	kept *atomic.Int64 // see Kept
}

// Open returns the Repo at root. It does not access the repository yet.
func Open(root Root) *Repo {
	c := newCLI(root)
	return &Repo{Backend: newBackend(c), root: root, cli: c, kept: new(atomic.Int64)}
}

// Kept returns how much work this Repo has parked, as often as OnPark would be called.
func (r *Repo) Kept() int { return int(r.kept.Load()) }

// tell tells of parked work.
func (r *Repo) tell(p Parked) {
	r.kept.Add(1)
	if r.OnPark != nil {
		r.OnPark(p)
	}
}

// Version returns the engine of this build, such as "libgit2 1.5.1" or "git CLI
// 2.39.5". It needs no repository.
func Version(ctx context.Context) (string, error) { return newBackend(newCLI(Root{})).Version(ctx) }

// Worktrees returns the repository's linked worktrees in the order of their
// names.
func (r *Repo) Worktrees() ([]Worktree, error) { return worktrees(r.root.CommonDir) }

// planDoc returns the path of a plan's document on the plan's branch (seed
// 000).
func planDoc(slug string) string { return ".vizier/implementation-plans/" + slug + ".md" }

// Observe answers probes about branches, plan documents and the main working
// tree. If it cannot answer one, the fact has an error. It starts at most four
// git processes, however many probes there are.
func (r *Repo) Observe(ctx context.Context, p kernel.Probes, f *kernel.Facts) {
	r.observeBranches(ctx, p, f)
	if p.Head {
		f.Head = fact(r.Head(ctx))
	}
	if p.Clean {
		f.Clean = fact(r.Clean(ctx))
	}
	if p.Merging {
		f.Merging = fact(operation(r.root.CommonDir))
	}
}

func (r *Repo) observeBranches(ctx context.Context, p kernel.Probes, f *kernel.Facts) {
	names := append([]string(nil), p.Branches...)
	for _, a := range p.Artifacts {
		if b := a.Branch(); b != "" {
			names = append(names, b)
		}
	}
	if len(names) == 0 {
		return
	}
	heads, err := r.Heads(ctx, names)
	for _, name := range p.Branches {
		f.Heads[name] = fact(heads[name], err)
	}
	docs := map[kernel.Artifact]File{}
	for _, a := range p.Artifacts {
		tip := heads[a.Branch()]
		switch {
		case a.Branch() == "":
		case a.Kind == kernel.PlanDoc && err == nil: // no tip, no document
			docs[a] = File{tip, planDoc(a.Name)}
		default:
			f.Present[a] = fact(tip != "", err)
		}
	}
	if len(docs) == 0 {
		return
	}
	files := make([]File, 0, len(docs))
	for _, file := range docs {
		files = append(files, file)
	}
	found, err := r.Files(ctx, files)
	for a, file := range docs {
		f.Present[a] = fact(found[file], err)
	}
}

// fact returns an answer, or why there is none.
func fact[T any](v T, err error) kernel.Fact[T] {
	if err != nil {
		return kernel.Unseen[T](err.Error())
	}
	return kernel.Seen(v)
}
