package git

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"path/filepath"
	"strconv"
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

// Containing returns the local branches that contain a commit, without the one called except.
func (r *Repo) Containing(ctx context.Context, commit kernel.CommitID, except string) ([]string, error) {
	if err := commits(commit); err != nil {
		return nil, fmt.Errorf("look for a commit: %w", err)
	}
	out, err := r.cli.read(ctx, "for-each-ref", "--format=%(refname)", "--contains="+string(commit), "refs/heads/")
	var on []string
	for ref := range strings.Lines(string(out)) {
		if name := strings.TrimPrefix(strings.TrimSuffix(ref, "\n"), "refs/heads/"); name != except {
			on = append(on, name)
		}
	}
	return on, err
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
	tables, err := exists(filepath.Join(r.root.CommonDir, tablesDir))
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
	text, err := refText(filepath.Join(r.root.CommonDir, ref))
	if errors.Is(err, iofs.ErrNotExist) || errors.Is(err, syscall.EISDIR) || errors.Is(err, syscall.ENOTDIR) {
		return "", nil
	}
	if to, ok := strings.CutPrefix(text, "ref:"); ok {
		return strings.TrimSpace(to), nil
	}
	return "", err
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

// LastTip returns the commit that a branch which is gone was last seen at: that of a linked
// working tree that is on it still, or else the newest of those that the reflog of the main working
// tree names, and that were parked when the branch was deleted, or else where a linked working
// tree left it. It is "" if there are none.
func (r *Repo) LastTip(ctx context.Context, branch string) (kernel.CommitID, error) {
	if at := r.stillOn(branch); at != "" {
		return at, nil
	}
	last, when, err := r.lastCheckedOut(ctx, branch)
	if err != nil {
		return "", fmt.Errorf("look where branch %s was: %w", branch, err)
	}
	refs, err := r.cli.read(ctx, "for-each-ref", "--format=%(objectname) %(committerdate:unix) %(refname)", parkedRefs)
	if err != nil {
		return "", fmt.Errorf("look where branch %s was: %w", branch, err)
	}
	for line := range strings.Lines(string(refs)) {
		f := strings.Fields(line)
		rest, ok := strings.CutPrefix(f[2], parkedRefs+refPart(branch)+"-")
		job, rest, byJob := strings.Cut(rest, "-")
		if !ok || byJob && (!kernel.ValidJobID(job) || strings.ContainsAny(rest, "-.")) { // of another branch, of a submodule, or staged
			continue
		}
		if at, err := strconv.ParseInt(f[1], 10, 64); err == nil && at > when {
			last, when = kernel.CommitID(f[0]), at
		}
	}
	if last == "" {
		last = r.leftBy(branch)
	}
	return last, nil
}

// leftBy returns the commit that a branch was at when a linked working tree last left it for another,
// or renamed it, or "".
func (r *Repo) leftBy(branch string) (last kernel.CommitID) {
	all, _ := worktrees(r.root.CommonDir)
	when := int64(-1)
	for _, w := range all {
		lines, _ := r.headLog(w.Name)
		for _, line := range lines { // old commit, new commit, who, time, zone, tab, what
			head, what, _ := strings.Cut(line, "\t")
			f := strings.Fields(head)
			if len(f) < 4 || !strings.HasPrefix(what, "checkout: moving from "+branch+" to ") && !strings.HasPrefix(what, "Branch: renamed refs/heads/"+branch+" to ") {
				continue
			}
			if at, err := strconv.ParseInt(f[len(f)-2], 10, 64); err == nil && at >= when {
				last, when = kernel.CommitID(f[0]), at
				if strings.Trim(f[0], "0") == "" { // to rename it, git deletes it first
					last = kernel.CommitID(f[1])
				}
			}
		}
	}
	return last
}

// stillOn returns the last commit of a linked working tree whose head is a branch that is gone, or "".
// Git answers nothing about such a head.
func (r *Repo) stillOn(branch string) (last kernel.CommitID) {
	all, _ := worktrees(r.root.CommonDir)
	for _, w := range all {
		if w.Branch != branch {
			continue
		}
		lines, _ := r.headLog(w.Name)
		for _, line := range lines { // the old commit and the new one, which is zero where the branch was deleted
			if f := strings.SplitN(line, " ", 3); len(f) == 3 && strings.Trim(f[1], "0") != "" {
				last = kernel.CommitID(f[1])
			}
		}
	}
	return last
}

// lastCheckedOut returns the commit, and its time, that a branch was at when the main working tree
// last had it checked out, as far as its reflog goes back, or "".
func (r *Repo) lastCheckedOut(ctx context.Context, branch string) (last kernel.CommitID, when int64, err error) {
	out, err := r.cli.read(ctx, "log", "--walk-reflogs", "--format=%H %ct %gs", "HEAD", "--")
	if err != nil {
		return "", 0, err
	}
	left := false                                  // the later entry is a switch from the branch
	for line := range strings.Lines(string(out)) { // the newest first
		f := strings.SplitN(strings.TrimSuffix(line, "\n"), " ", 3)
		if len(f) < 3 {
			continue
		}
		moved, _ := strings.CutPrefix(f[2], "checkout: moving from ")
		from, to, _ := strings.Cut(moved, " to ")
		if left || to == branch || strings.HasPrefix(f[2], "Branch: renamed refs/heads/"+branch+" to ") {
			when, err = strconv.ParseInt(f[1], 10, 64)
			return kernel.CommitID(f[0]), when, err
		}
		left = from == branch
	}
	return "", 0, nil
}
