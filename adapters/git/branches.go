package git

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Branches are the tips of the local branches whose short names begin with
// prefix, a path that ends in "/".
func (r *Repo) Branches(ctx context.Context, prefix string) (map[string]kernel.CommitID, error) {
	out, err := r.cli.read(ctx, "for-each-ref", "--format=%(objectname) %(refname)", "refs/heads/"+prefix)
	if err != nil {
		return nil, fmt.Errorf("list branches: %w", err)
	}
	tips := map[string]kernel.CommitID{}
	for line := range strings.Lines(string(out)) {
		if commit, ref, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			tips[strings.TrimPrefix(ref, "refs/heads/")] = kernel.CommitID(commit)
		}
	}
	return tips, nil
}

// DropBranch deletes a branch, if there is one, and reports that it did. Why it
// was kept is told instead where a working tree stands on it or where it moved
// meanwhile. Commits that no other ref keeps are parked.
func (r *Repo) DropBranch(ctx context.Context, name string) (dropped bool, kept string, err error) {
	tips, err := r.Heads(ctx, []string{name})
	if err != nil || tips[name] == "" {
		return false, "", err
	}
	err = r.DeleteBranch(ctx, name, tips[name])
	if errors.Is(err, ErrCheckedOut) || errors.Is(err, ErrMoved) {
		return false, err.Error(), nil
	}
	return err == nil, "", err
}

// BranchAt reports whether there is a branch of that name, and the working tree
// that stands on it, "" if none does.
func (r *Repo) BranchAt(ctx context.Context, name string) (there bool, tree string, err error) {
	tips, err := r.Heads(ctx, []string{name})
	if err != nil || tips[name] == "" {
		return false, "", err
	}
	tree, err = r.cli.checkedOut(ctx, name)
	return true, tree, err
}
