package git

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"path/filepath"
	"strings"

	"github.com/vizier-scheduler/vizier/kernel"
)

// module is a repository that git has made for a submodule of a worktree, in the
// worktree's git directory. It is removed with the worktree.
type module struct {
	name    string // of the submodule; those within it follow after "/modules/"
	gitDir  string
	dir     string // where its files are, or were
	present bool   // they are there
}

// modules returns the repositories that git has made for w's submodules, also
// for those that w's commit does not have any more.
func (c *cli) modules(ctx context.Context, w Worktree) ([]module, error) {
	home := filepath.Join(w.gitDir, "modules")
	var all []module
	err := filepath.WalkDir(home, func(path string, d iofs.DirEntry, err error) error {
		if errors.Is(err, iofs.ErrNotExist) && path == home {
			return nil
		}
		if err != nil || !d.IsDir() {
			return err
		}
		switch within, err := exists(filepath.Join(filepath.Dir(path), "HEAD")); {
		case err != nil:
			return err
		case within && d.Name() != "modules":
			return iofs.SkipDir // in a repository, only its submodules are of interest
		}
		if there, err := exists(filepath.Join(path, "HEAD")); err != nil || !there {
			return err
		}
		m := module{gitDir: path, name: strings.TrimPrefix(path, home+string(filepath.Separator))}
		out, err := c.run(ctx, command{args: []string{"config", "--file", filepath.Join(path, "config"), "--default=", "--get", "core.worktree"}})
		if err != nil {
			return err
		}
		if at := strings.TrimSuffix(string(out), "\n"); at != "" {
			m.dir = absolute(path, at)
			m.present, err = ownSubmodule(m.dir, path)
			if err == nil && m.present {
				m.present, err = exists(filepath.Join(m.dir, ".git"))
			}
		}
		all = append(all, m)
		return err
	})
	return all, err
}

// saveModules parks what exists only in w's submodules: their changes, and their
// commits that no remote's branch has. They are fetched into the repository.
func (r *Repo) saveModules(ctx context.Context, w Worktree, modules []module) error {
	given, err := r.givenModules(ctx, w)
	if err != nil {
		return err
	}
	for _, m := range modules {
		if err := r.saveModule(ctx, w, m, modules, given); err != nil {
			at := m.dir
			if !m.present {
				at = m.gitDir
			}
			return fmt.Errorf("its submodule %s has work that is nowhere else and cannot be parked: %w: commit and push it from %s, then try again", m.name, err, at)
		}
	}
	return nil
}

// givenModules returns the commits of submodules that the worktree was made with,
// as revisions to exclude: they came from elsewhere.
func (r *Repo) givenModules(ctx context.Context, w Worktree) ([]string, error) {
	base, err := r.baseOf(w.Name)
	if err != nil || base == "" {
		return nil, err
	}
	out, err := r.cli.read(ctx, "ls-tree", "-r", "-z", "--full-tree", string(base))
	var given []string
	for entry := range strings.SplitSeq(string(out), "\x00") {
		if id, ok := strings.CutPrefix(entry, "160000 commit "); ok {
			id, _, _ = strings.Cut(id, "\t")
			given = append(given, "^"+id)
		}
	}
	return given, err
}

func (r *Repo) saveModule(ctx context.Context, w Worktree, m module, modules []module, given []string) error {
	t := tree{cli: r.cli, w: Worktree{Name: w.Name, Path: m.gitDir, gitDir: m.gitDir}} // git needs a directory that it can be in
	if m.present {
		t.w.Path, t.dir = m.dir, m.dir
	}
	args := []string{"rev-list", "--ignore-missing", "--parents", "--branches", "--reflog"}
	head, err := t.head(ctx)
	if err != nil {
		return err
	}
	if head != "" {
		args = append(args, string(head))
	}
	if m.present {
		s, err := t.status(ctx, modules)
		switch {
		case err != nil:
			return err
		case s.inner != "":
			return fmt.Errorf("it contains another repository, %s", s.inner)
		}
		if s.dirty {
			work, staged, err := t.changes(ctx, head, s.unseen, removed)
			if err != nil {
				return err
			}
			for _, id := range []kernel.CommitID{work, staged} {
				if id != "" {
					args = append(args, string(id))
				}
			}
		}
	}
	out, err := t.git(ctx, nil, append(append(args, "--not", "--remotes"), given...)...)
	if err != nil {
		return err
	}
	for _, tip := range tips(out) {
		if err := r.parkModule(ctx, t, Parked{Worktree: w.Path, Module: m.name, Repo: r.root.Dir, Commit: tip}); err != nil {
			return err
		}
	}
	return nil
}

// tips returns the commits in the output of git rev-list --parents that have no
// child there.
func tips(list string) (out []kernel.CommitID) {
	parents := map[string]bool{}
	for line := range strings.Lines(list) {
		ids := strings.Fields(line)
		for _, p := range ids[1:] {
			parents[p] = true
		}
		if !parents[ids[0]] {
			out = append(out, kernel.CommitID(ids[0]))
		}
	}
	return out
}

// parkModule parks p, a commit of the submodule t: there, so that it can be
// fetched, and then in the repository.
func (r *Repo) parkModule(ctx context.Context, t tree, p Parked) error {
	p.Ref = parkedRefs + refPart(t.w.Name+"-"+p.Module) + "-" + string(p.Commit[:12])
	if _, err := t.git(ctx, identity, "update-ref", p.Ref, string(p.Commit)); err != nil {
		return err
	}
	_, err := r.cli.run(ctx, command{writes: true, quiet: true, env: []string{"GIT_ALLOW_PROTOCOL=file"}, args: []string{
		"fetch", "--quiet", "--no-tags", "--no-prune", "--no-auto-gc", "--no-recurse-submodules", "--no-write-fetch-head", "--", t.w.gitDir, p.Ref + ":" + p.Ref}})
	if err != nil {
		return err
	}
	switch there, err := r.cli.refAt(ctx, p.Ref); {
	case err != nil:
		return err
	case there != p.Commit: // git does not report that as a failure
		return fmt.Errorf("git did not fetch commit %s, since it is a shallow clone", p.Commit)
	}
	r.tell(p)
	return nil
}
