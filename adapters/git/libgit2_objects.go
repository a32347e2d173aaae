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

// allHeads fills heads from one listing of all branches. For many names that is
// cheaper than looking up each.
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

// tipOf returns the commit of a branch, even if the branch is a symbolic ref.
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

// treeOf returns a commit's tree, or nil if there is no such commit.
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

// entryOf returns the file at path, or nil if there is none.
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
