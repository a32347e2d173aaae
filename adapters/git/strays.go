package git

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vizier-scheduler/vizier/internal/sys"
	"github.com/vizier-scheduler/vizier/kernel"
)

// StrayWorktrees returns the worktrees below .vizier/tmp-worktrees that are not
// owned: directories, and entries of git's whose directory is gone. An entry
// without a name is a directory that git does not know.
func (r *Repo) StrayWorktrees(owned func(kernel.Context) bool) ([]kernel.Context, error) {
	home := filepath.Join(r.root.Dir, worktreeHome)
	entries, err := os.ReadDir(home)
	if err != nil && !errors.Is(err, iofs.ErrNotExist) {
		return nil, err
	}
	all, err := r.Worktrees()
	if err != nil {
		return nil, err
	}
	names, known := map[string]Worktree{}, map[string]bool{}
	paths := []string{}
	for _, w := range all {
		if r.movedTo(w) != "" {
			known[w.Name] = true
		} else if below, err := filepath.Rel(home, w.Path); err == nil && filepath.IsLocal(below) {
			names[w.Path], known[w.Name] = w, true
			paths = append(paths, w.Path)
		}
	}
	for _, e := range entries {
		if path := filepath.Join(home, e.Name()); e.IsDir() && names[path].Name == "" && !known[NameAt(path)] { // known: on its way to its place, or moved with the repository
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	var out []kernel.Context
	for _, path := range paths {
		rel, err := filepath.Rel(r.root.Dir, path)
		base := filepath.Base(path)
		c := kernel.Context{Worktree: rel, Name: names[path].Name, Branch: names[path].Branch, Owned: true}
		if err == nil && !owned(c) && !strings.HasPrefix(base, "workspace-") && !strings.HasPrefix(base, ".") {
			out = append(out, c)
		}
	}
	return out, nil
}

// MovedWorktrees returns the worktrees below .vizier/tmp-worktrees that do not work because the
// repository was moved or copied: git looks for them elsewhere, or they lead to another git
// directory.
func (r *Repo) MovedWorktrees() (out []kernel.Context, err error) {
	all, err := r.Worktrees()
	for _, w := range all {
		if r.movedTo(w) != "" {
			out = append(out, contextOf(w))
		}
	}
	return out, err
}

// WorktreesAway returns where the files are of the linked worktrees that are not below .vizier/tmp-worktrees, by git's names.
func (r *Repo) WorktreesAway() (map[string]string, error) {
	all, err := r.Worktrees()
	away := map[string]string{}
	for _, w := range all {
		if !r.atHome(w) && NameAt(w.Path) == w.Name {
			away[w.Name] = w.Path
		}
	}
	return away, err
}

// WorktreeNamed returns where the files of the linked worktree are that git has under a name; "": git has none, or its files are not
// there.
func (r *Repo) WorktreeNamed(name string) (dir string, err error) {
	all, err := r.Worktrees()
	for _, w := range all {
		if w.Name == name && NameAt(w.Path) == name {
			return w.Path, nil
		}
	}
	return "", err
}

// movedTo returns where the files of w are, if the repository was moved or copied with them;
// "": it was not.
func (r *Repo) movedTo(w Worktree) string {
	here := filepath.Join(r.root.Dir, worktreeHome, filepath.Base(w.Path))
	if leadsTo(w.Path) == resolved(w.gitDir) || NameAt(here) != w.Name {
		return ""
	}
	return here
}

// leadsTo returns the git directory that the working tree at dir names, with links resolved, or
// "" if it is no linked one.
func leadsTo(dir string) string {
	link, err := sys.ReadRegular(filepath.Join(dir, ".git"), maxLink)
	to, ok := strings.CutPrefix(strings.TrimSpace(string(link)), "gitdir:")
	if err != nil || !ok {
		return ""
	}
	return resolved(absolute(dir, strings.TrimSpace(to)))
}

// RepairWorktree corrects the links between a worktree and its git directory. It does not use git
// for that: in a copy, git would make the original look for its worktree here.
func (r *Repo) RepairWorktree(_ context.Context, c kernel.Context) error {
	all, err := r.Worktrees()
	if err != nil {
		return err
	}
	for _, w := range all {
		if w.Name == c.Name {
			_, err := r.repaired(w)
			return err
		}
	}
	return nil
}

// SeparateWorktrees repairs the worktrees of a copy, in which git would work on the original.
func (r *Repo) SeparateWorktrees() error {
	all, err := r.Worktrees()
	for _, w := range all {
		here := r.movedTo(w)
		if here == "" {
			continue
		}
		there, again := exists(leadsTo(here))
		if again == nil && there {
			_, again = r.repaired(w)
		}
		err = errors.Join(err, again)
	}
	return err
}

// repaired returns w with the path of its files. If the repository was moved or copied, it first
// corrects the links between w and its git directory. It begins with w's own link, so that nothing
// works on another repository.
func (r *Repo) repaired(w Worktree) (Worktree, error) {
	here := r.movedTo(w)
	if here == "" {
		return w, nil
	}
	aside := filepath.Join(w.gitDir, fmt.Sprintf("link.%d.new", os.Getpid())) // two jobs may begin in w at once
	err := os.WriteFile(aside, []byte("gitdir: "+w.gitDir+"\n"), 0o666)
	if err == nil {
		err = os.Rename(aside, filepath.Join(here, ".git"))
	}
	if err == nil {
		err = os.WriteFile(aside, []byte(filepath.Join(here, ".git")+"\n"), 0o666)
	}
	if err == nil {
		err = os.Rename(aside, filepath.Join(w.gitDir, "gitdir"))
	}
	if err != nil {
		return w, fmt.Errorf("have git find worktree %s at %s: %w", w.Name, here, err)
	}
	w.Path = here
	return w, nil
}

// MinimumVersion is the oldest git version that Vizier supports.
const MinimumVersion = "2.39"

// ProgramVersion returns the version of the git program, and whether it is new
// enough.
func (r *Repo) ProgramVersion(ctx context.Context) (version string, ok bool, err error) {
	text, err := r.cli.Version(ctx)
	if err != nil {
		return "", false, err
	}
	version = strings.TrimPrefix(text, "git CLI ")
	return version, !olderThan(version, MinimumVersion), nil
}

// olderThan compares the first two numbers of versions.
func olderThan(a, b string) bool {
	x, y := numbers(a), numbers(b)
	return x[0] < y[0] || x[0] == y[0] && x[1] < y[1]
}

func numbers(version string) (out [2]int) {
	for i, part := range strings.SplitN(version, ".", 3) {
		if i == len(out) {
			break
		}
		for _, d := range part {
			if d < '0' || d > '9' {
				break
			}
			out[i] = out[i]*10 + int(d-'0')
		}
	}
	return out
}
