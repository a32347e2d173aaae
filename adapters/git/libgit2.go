//go:build cgo && libgit2

package git

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	git2go "github.com/libgit2/git2go/v34"

	"github.com/vizier-scheduler/vizier/kernel"
)

// newBackend asks libgit2 first and the git CLI where it fails.
func newBackend(c *cli) Backend { return &fallback{Backend: c, first: libgit2{c.root}} }

// libgit2 implements engine within the process. It opens the repository anew
// for every call. That takes some 40 µs, and makes sure that a long-lived
// process uses no outdated state.
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

func (l libgit2) Head(ctx context.Context) (branch string, err error) {
	err = l.in(ctx, "head", func(repo *git2go.Repository) error {
		if _, err := os.Readlink(filepath.Join(repo.Path(), "HEAD")); err == nil {
			return errors.New("HEAD is a link, of which libgit2 sees only the commit")
		}
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

func (l libgit2) IsAncestor(ctx context.Context, commit, tip kernel.CommitID) (yes bool, err error) {
	if err := commits(commit, tip); err != nil {
		return false, fmt.Errorf("libgit2 ancestry: %w", err)
	}
	err = l.in(ctx, "ancestry", func(repo *git2go.Repository) error {
		var oids [2]*git2go.Oid
		for i, id := range []kernel.CommitID{commit, tip} {
			oid, err := git2go.NewOid(string(id))
			if err == nil {
				_, err = repo.LookupCommit(oid)
			}
			if err != nil {
				return fmt.Errorf("commit %s: %w", id, err)
			}
			oids[i] = oid
		}
		if oids[0].Equal(oids[1]) {
			yes = true
			return nil
		}
		var err error
		yes, err = repo.DescendantOf(oids[1], oids[0])
		return err
	})
	return yes, err
}
