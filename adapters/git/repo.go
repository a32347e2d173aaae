// Package git is what Vizier knows of git: where the repository is, what its
// branches and files say, and the worktrees that jobs own.
//
// The git program can do everything here. With the build tag libgit2 the
// questions go to libgit2 first, which answers them without a process, and to
// the program where libgit2 fails.
package git

import (
	"context"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Repo is a repository as the program uses it: an observer, the keeper of
// worktrees, and a Backend for the operations of jobs.
type Repo struct {
	Backend

	// OnPark, unless nil, hears of every piece of work that was parked
	// before its worktree went away.
	OnPark func(Parked)

	root Root
	cli  *cli
}

// Open makes a Repo of what FindRoot found. It touches nothing yet.
func Open(root Root) *Repo {
	c := newCLI(root)
	return &Repo{Backend: newBackend(c), root: root, cli: c}
}

// Version is the engine of this build, "libgit2 1.5.1" or "git CLI 2.39.5".
// It needs no repository.
func Version(ctx context.Context) (string, error) { return newBackend(newCLI(Root{})).Version(ctx) }

// Worktrees are the repository's linked worktrees in the order of their names.
func (r *Repo) Worktrees() ([]Worktree, error) { return worktrees(r.root.CommonDir) }

// planDoc is where a plan's document is on the plan's branch (seed 000).
func planDoc(slug string) string { return ".vizier/implementation-plans/" + slug + ".md" }

// Observe answers what it is asked of branches, plan documents and the main
// working tree. A question it cannot answer becomes a fact with an error. The
// number of git processes is at most four, however many questions there are.
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

// fact is an answer, or the reason there is none.
func fact[T any](v T, err error) kernel.Fact[T] {
	if err != nil {
		return kernel.Unseen[T](err.Error())
	}
	return kernel.Seen(v)
}
