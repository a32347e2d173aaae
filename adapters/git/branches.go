package git

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Branches returns the tips of the local branches whose short names begin with
// prefix, which must end in "/".
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

// real returns the branch that name stands for: another one if name is a symbolic ref, else name.
func (r *Repo) real(ctx context.Context, name string) (string, error) {
	const most = 5 // git follows no more
	for range most {
		if name == "" {
			return "", nil
		}
		to, err := r.symbolic(ctx, "refs/heads/"+name)
		next, ok := strings.CutPrefix(to, "refs/heads/")
		if err != nil || !ok {
			return name, err
		}
		name = next
	}
	return name, nil
}

// symbolic returns the ref that a symbolic ref refers to, or "". A symbolic ref is a file of its own, unless the
// repository has reftables.
func (r *Repo) symbolic(ctx context.Context, ref string) (string, error) {
	tables, err := exists(filepath.Join(r.root.CommonDir, "reftable"))
	switch {
	case err != nil:
		return "", err
	case tables:
		out, err := r.cli.run(ctx, command{args: []string{"symbolic-ref", "--quiet", "--no-recurse", ref}})
		if exitCode(err) == 1 {
			return "", nil
		}
		return strings.TrimSpace(string(out)), err
	}
	b, err := os.ReadFile(filepath.Join(r.root.CommonDir, ref))
	if errors.Is(err, iofs.ErrNotExist) || errors.Is(err, syscall.EISDIR) || errors.Is(err, syscall.ENOTDIR) {
		return "", nil
	}
	to, ok := strings.CutPrefix(string(b), "ref:")
	if !ok {
		return "", err
	}
	return strings.TrimSpace(to), err
}

// DropBranch deletes a branch if it exists, and reports whether it did. If a
// working tree has the branch checked out, or the branch moved meanwhile, kept
// says so. Commits that no other ref keeps are parked.
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

// BranchAt reports whether a branch exists, and returns the working tree that
// has it checked out, or "".
func (r *Repo) BranchAt(ctx context.Context, name string) (there bool, tree string, err error) {
	tips, err := r.Heads(ctx, []string{name})
	if err != nil || tips[name] == "" {
		return false, "", err
	}
	tree, err = r.cli.checkedOut(ctx, name)
	return true, tree, err
}
