package git

import (
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// DropStaleLocks removes lock files older than before that a killed git left in
// the git directory of a job's worktree at dir. The caller must know that no
// git of before that time is running there. For any other tree it does nothing:
// in a user's working tree a person may be at work, and the locks of branches
// are shared.
func (r *Repo) DropStaleLocks(dir string, before time.Time) error {
	if _, err := r.ownedDir(kernel.Context{Worktree: dir, Owned: true}); err != nil {
		return nil //nolint:nilerr // it is not a job's
	}
	w, err := worktreeAt(r.root.CommonDir, dir)
	if err != nil || w.Name == "" {
		return err
	}
	err = filepath.WalkDir(w.gitDir, func(path string, d iofs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && d.Name() == "modules": // submodules' repositories
			return filepath.SkipDir
		case !d.Type().IsRegular() || !strings.HasSuffix(d.Name(), ".lock"):
			return nil
		}
		info, err := d.Info()
		if err == nil && info.ModTime().Before(before) {
			err = os.Remove(path)
		}
		if errors.Is(err, iofs.ErrNotExist) {
			return nil
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("drop stale locks of worktree %s: %w", w.Name, err)
	}
	return nil
}

// IndexLockIn returns the file with which a git locks the index of the working tree at dir; "": none does, or it is not known.
func (r *Repo) IndexLockIn(dir string) string {
	gitDir := r.root.CommonDir
	if resolved(dir) != resolved(r.root.Dir) {
		w, err := worktreeAt(r.root.CommonDir, dir)
		if err != nil || w.Name == "" {
			return ""
		}
		gitDir = w.gitDir
	}
	file := filepath.Join(gitDir, "index.lock")
	if info, err := os.Lstat(file); err != nil || !info.Mode().IsRegular() {
		return ""
	}
	return file
}

// DropStaleRefLocks removes lock files older than before that a killed git left
// for branches and Vizier's own refs, for HEAD, for the packed refs or the reftables, and for the configuration. It keeps a
// lock that a program still at work may hold; git reports such a
// lock to whoever runs into it.
func (r *Repo) DropStaleRefLocks(branches []string, before time.Time) error {
	paths, err := r.locksBelow("refs/vizier")
	if err != nil {
		return err
	}
	paths = append(paths, "HEAD.lock", "packed-refs.lock", "config.lock", tablesLock)
	for _, b := range branches {
		if filepath.IsLocal(b) {
			paths = append(paths, filepath.Join("refs", "heads", b+".lock"))
		}
	}
	for _, p := range paths {
		if err := r.dropStale(filepath.Join(r.root.CommonDir, p), func(at time.Time) bool { return at.Before(before) }); err != nil {
			return err
		}
	}
	return nil
}

// locksBelow returns the lock files in a directory of the common git directory, relative to the latter.
func (r *Repo) locksBelow(dir string) (paths []string, err error) {
	root := r.root.CommonDir
	err = filepath.WalkDir(filepath.Join(root, dir), func(path string, d iofs.DirEntry, err error) error {
		rel, _ := filepath.Rel(root, path)
		switch {
		case errors.Is(err, iofs.ErrNotExist): // a git has removed it meanwhile
			return nil
		case err != nil:
			return err
		case d.IsDir() && (slices.Contains([]string{"objects", "hooks", "lfs", "annex"}, rel) || filepath.Base(rel) == "modules"): // the last are submodules' repositories
			return filepath.SkipDir
		case d.Type().IsRegular() && strings.HasSuffix(rel, ".lock"):
			paths = append(paths, rel)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("look for locks that a killed git left: %w", err)
	}
	return paths, nil
}

// StaleLocks returns the lock files older than before that a killed git left in the git directory and those of the
// worktrees. drop removes one of them. A lock that a program still at work may hold is none.
func (r *Repo) StaleLocks(before time.Time) (paths []string, drop func(path string) error, err error) {
	all, err := r.locksBelow(".")
	old := func(at time.Time) bool { return at.Before(before) }
	for _, p := range all {
		path := filepath.Join(r.root.CommonDir, p)
		if info, err := os.Lstat(path); err == nil && old(info.ModTime()) && !r.holds(path, info) {
			paths = append(paths, path)
		}
	}
	return paths, func(path string) error { return r.dropStale(path, old) }, err
}

// holds reports whether a program that is still at work may hold the lock file at path: a git in the repository, or one with a
// git library, which has the file open.
func (r *Repo) holds(path string, info iofs.FileInfo) bool {
	return r.atWorkSince(info.ModTime(), info.Sys().(*syscall.Stat_t).Uid) || opened(path)
}

// dropStale removes a lock file that was made when may says, unless a program still at work may hold it.
func (r *Repo) dropStale(path string, may func(at time.Time) bool) error {
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() || !may(info.ModTime()) || r.holds(path, info) {
		return nil //nolint:nilerr // it is not there, or whoever runs into it reports it
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, iofs.ErrNotExist) {
		return fmt.Errorf("drop the lock that a killed git left: %w", err)
	}
	return nil
}
