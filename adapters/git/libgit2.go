//go:build cgo && libgit2

package git

import (
	"context"
	"fmt"
	iofs "io/fs"
	"strings"

	git2go "github.com/libgit2/git2go/v34"

	"github.com/vizier-scheduler/vizier/kernel"
)

// newBackend asks libgit2 first and the git CLI where it fails.
func newBackend(c *cli) Backend { return &fallback{Backend: c, first: libgit2{c.root}} }

// libgit2 answers within the process. It opens the repository anew for every
// call: that takes some 40 µs, and nothing of an older state can be left over
// in a long-lived process.
type libgit2 struct{ root Root }

// in opens the repository and runs f with it.
func (l libgit2) in(ctx context.Context, op string, f func(*git2go.Repository) error) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("libgit2 %s: %w", op, err)
	}
	repo, err := git2go.OpenRepository(l.root.Dir)
	if err == nil {
		defer repo.Free()
		err = f(repo)
	}
	if err != nil {
		return fmt.Errorf("libgit2 %s: %w", op, err)
	}
	return nil
}

func (l libgit2) Heads(ctx context.Context, branches []string) (map[string]kernel.CommitID, error) {
	heads := make(map[string]kernel.CommitID, len(branches))
	for _, name := range branches {
		heads[name] = ""
	}
	err := l.in(ctx, "heads", func(repo *git2go.Repository) error {
		if len(heads) > fewBranches {
			return allHeads(repo, heads)
		}
		for name := range heads {
			if !validBranch(name) {
				continue
			}
			ref, err := repo.References.Lookup("refs/heads/" + name)
			if err == nil {
				heads[name], err = tipOf(ref)
			}
			if err != nil && !git2go.IsErrorCode(err, git2go.ErrorCodeNotFound) {
				return fmt.Errorf("branch %s: %w", name, err)
			}
		}
		return nil
	})
	return heads, err
}

// allHeads fills heads from one listing of all branches, which for many names
// is cheaper than a look-up of each.
func allHeads(repo *git2go.Repository, heads map[string]kernel.CommitID) error {
	all, err := repo.NewReferenceIteratorGlob("refs/heads/*")
	if err != nil {
		return err
	}
	defer all.Free()
	for {
		ref, err := all.Next()
		if git2go.IsErrorCode(err, git2go.ErrorCodeIterOver) {
			return nil
		}
		if err != nil {
			return err
		}
		name := strings.TrimPrefix(ref.Name(), "refs/heads/")
		if _, asked := heads[name]; !asked || !validBranch(name) {
			continue
		}
		heads[name], err = tipOf(ref)
		if err != nil && !git2go.IsErrorCode(err, git2go.ErrorCodeNotFound) {
			return fmt.Errorf("branch %s: %w", name, err)
		}
	}
}

// tipOf is the commit a branch is at, also when it stands for another branch.
func tipOf(ref *git2go.Reference) (kernel.CommitID, error) {
	if ref.Type() == git2go.ReferenceSymbolic {
		var err error
		if ref, err = ref.Resolve(); err != nil {
			return "", err
		}
	}
	return kernel.CommitID(ref.Target().String()), nil
}

func (l libgit2) Files(ctx context.Context, files []File) (map[File]bool, error) {
	found := make(map[File]bool, len(files))
	err := l.in(ctx, "files", func(repo *git2go.Repository) error {
		trees := map[kernel.CommitID]*git2go.Tree{}
		for _, f := range files {
			found[f] = false
			if !f.valid() {
				continue
			}
			tree, ok := trees[f.Commit]
			if !ok {
				var err error
				if tree, err = treeOf(repo, f.Commit); err != nil {
					return fmt.Errorf("commit %s: %w", f.Commit, err)
				}
				trees[f.Commit] = tree
			}
			entry, err := entryOf(tree, f.Path)
			if err != nil {
				return fmt.Errorf("%s in commit %s: %w", f.Path, f.Commit, err)
			}
			found[f] = entry != nil
		}
		return nil
	})
	return found, err
}

func (l libgit2) ReadFile(ctx context.Context, f File) ([]byte, error) {
	var content []byte
	err := l.in(ctx, "read", func(repo *git2go.Repository) error {
		var entry *git2go.TreeEntry
		if f.valid() {
			tree, err := treeOf(repo, f.Commit)
			if err == nil {
				entry, err = entryOf(tree, f.Path)
			}
			if err != nil {
				return fmt.Errorf("%s in commit %s: %w", f.Path, f.Commit, err)
			}
		}
		if entry == nil {
			return fmt.Errorf("%s in commit %s: %w", f.Path, f.Commit, iofs.ErrNotExist)
		}
		blob, err := repo.LookupBlob(entry.Id)
		if err != nil {
			return fmt.Errorf("%s in commit %s: %w", f.Path, f.Commit, err)
		}
		content = blob.Contents()
		return nil
	})
	return content, err
}

// treeOf is a commit's tree, or nil if there is no such commit.
func treeOf(repo *git2go.Repository, id kernel.CommitID) (*git2go.Tree, error) {
	oid, err := git2go.NewOid(string(id))
	if err != nil {
		return nil, err
	}
	commit, err := repo.LookupCommit(oid)
	if git2go.IsErrorCode(err, git2go.ErrorCodeNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return commit.Tree()
}

// entryOf is the file at path, or nil if there is none.
func entryOf(tree *git2go.Tree, path string) (*git2go.TreeEntry, error) {
	if tree == nil {
		return nil, nil
	}
	entry, err := tree.EntryByPath(path)
	if git2go.IsErrorCode(err, git2go.ErrorCodeNotFound) {
		return nil, nil
	}
	if err != nil || entry.Type != git2go.ObjectBlob {
		return nil, err
	}
	return entry, nil
}

func (l libgit2) Head(ctx context.Context) (branch string, err error) {
	err = l.in(ctx, "head", func(repo *git2go.Repository) error {
		ref, err := repo.References.Lookup("HEAD")
		if err != nil {
			return err
		}
		if ref.Type() == git2go.ReferenceSymbolic {
			branch = strings.TrimPrefix(ref.SymbolicTarget(), "refs/heads/")
		}
		return nil
	})
	return branch, err
}

func (l libgit2) Clean(ctx context.Context) (clean bool, err error) {
	err = l.in(ctx, "status", func(repo *git2go.Repository) error {
		list, err := repo.StatusList(&git2go.StatusOptions{
			Show: git2go.StatusShowIndexAndWorkdir,
			Flags: git2go.StatusOptIncludeUntracked | git2go.StatusOptRecurseUntrackedDirs |
				git2go.StatusOptExcludeSubmodules,
		})
		if err != nil {
			return err
		}
		defer list.Free()
		n, err := list.EntryCount()
		if err != nil {
			return err
		}
		for i := range n {
			entry, err := list.ByIndex(i)
			if err != nil {
				return err
			}
			if !isScratch(changedPath(entry)) {
				return nil
			}
		}
		clean = true
		return nil
	})
	return clean, err
}

func changedPath(e git2go.StatusEntry) string {
	for _, d := range []git2go.DiffDelta{e.IndexToWorkdir, e.HeadToIndex} {
		for _, f := range []git2go.DiffFile{d.NewFile, d.OldFile} {
			if f.Path != "" {
				return f.Path
			}
		}
	}
	return ""
}

func (l libgit2) MergeBase(ctx context.Context, a, b kernel.CommitID) (base kernel.CommitID, err error) {
	err = l.pair(ctx, "merge base", a, b, func(repo *git2go.Repository, a, b *git2go.Oid) error {
		oid, err := repo.MergeBase(a, b)
		if git2go.IsErrorCode(err, git2go.ErrorCodeNotFound) {
			return nil
		}
		if err == nil {
			base = kernel.CommitID(oid.String())
		}
		return err
	})
	return base, err
}

func (l libgit2) IsAncestor(ctx context.Context, commit, tip kernel.CommitID) (yes bool, err error) {
	err = l.pair(ctx, "ancestry", commit, tip, func(repo *git2go.Repository, commit, tip *git2go.Oid) error {
		if commit.Equal(tip) {
			yes = true
			return nil
		}
		var err error
		yes, err = repo.DescendantOf(tip, commit)
		return err
	})
	return yes, err
}

// pair runs f with two commits that exist.
func (l libgit2) pair(ctx context.Context, op string, a, b kernel.CommitID, f func(r *git2go.Repository, a, b *git2go.Oid) error) error {
	if err := commits(a, b); err != nil {
		return fmt.Errorf("libgit2 %s: %w", op, err)
	}
	return l.in(ctx, op, func(repo *git2go.Repository) error {
		var oids [2]*git2go.Oid
		for i, id := range []kernel.CommitID{a, b} {
			oid, err := git2go.NewOid(string(id))
			if err == nil {
				_, err = repo.LookupCommit(oid)
			}
			if err != nil {
				return fmt.Errorf("commit %s: %w", id, err)
			}
			oids[i] = oid
		}
		return f(repo, oids[0], oids[1])
	})
}
