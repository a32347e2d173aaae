package git

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Unmerged returns the paths in conflict in the working tree at dir, relative to its
// top.
func (r *Repo) Unmerged(ctx context.Context, dir string) ([]string, error) {
	out, err := r.cli.run(ctx, command{dir: dir, args: []string{"ls-files", "--unmerged", "--full-name", "-z", "--", ":(top)"}})
	var paths []string
	for entry := range strings.SplitSeq(string(out), "\x00") {
		if _, p, ok := strings.Cut(entry, "\t"); ok && !slices.Contains(paths, p) {
			paths = append(paths, p)
		}
	}
	return paths, err
}

// checkUnmerged returns an error if files at dir are in conflict: git add would take their conflict markers for a
// resolution.
func (r *Repo) checkUnmerged(ctx context.Context, dir string) error {
	files, err := r.Unmerged(ctx, dir)
	if err != nil {
		return err
	}
	return inConflict(dir, files)
}

func inConflict(dir string, files []string) error {
	if len(files) == 0 {
		return nil
	}
	return fmt.Errorf("%s has files in conflict: %s", dir, strings.Join(files, ", "))
}

// MergeState returns the progress of a merge in a worktree of its own. It is
// stored in refs of that worktree, so it is removed with it. Other refs keep the commits it
// names from garbage collection (heldRefs).
func (r *Repo) MergeState(ctx context.Context, dir string) (source, target, merged kernel.CommitID, err error) {
	if present, err := exists(dir); err != nil || !present {
		return "", "", "", err
	}
	w, err := worktreeAt(r.root.CommonDir, dir)
	if err != nil || w.Name == "" || w.Reason == initializing {
		return "", "", "", err
	}
	out, err := r.cli.run(ctx, command{dir: dir, args: []string{"for-each-ref", "--format=%(objectname) %(refname)", mergeRefs}})
	for line := range strings.Lines(string(out)) {
		id, name, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch strings.TrimPrefix(name, mergeRefs) {
		case "source":
			source = kernel.CommitID(id)
		case "target":
			target = kernel.CommitID(id)
		case "merged":
			merged = kernel.CommitID(id)
		}
	}
	return source, target, merged, err
}

// mergeRefs are the refs of a worktree that MergeState reads.
const mergeRefs = "refs/worktree/vizier/"

// SetMergeState atomically records the result of MergeState. An empty commit is
// not recorded; with a source, an empty merged means that there is no result any
// more.
func (r *Repo) SetMergeState(ctx context.Context, dir string, source, target, merged kernel.CommitID) error {
	t, err := r.treeAt(dir)
	if err != nil {
		return err
	}
	var holds []hold
	for _, h := range []hold{{"source", source, source}, {"target", target, target}, {"merged", merged, merged}} {
		if h.commit != "" || source != "" {
			holds = append(holds, h)
		}
	}
	return t.hold(ctx, holds...)
}

// Merge merges source into the commit of the worktree at dir, without
// committing. Conflicts are left in progress and are not an error: see
// Unmerged. A path that both sides renamed to different names is no conflict: it is
// gone on both sides. With squash, the result has no reference to source.
func (r *Repo) Merge(ctx context.Context, dir string, source kernel.CommitID, squash bool) error {
	args := []string{"merge", "--quiet", "--no-commit", "--no-ff", string(source)}
	if squash {
		args = []string{"merge", "--quiet", "--squash", "--ff", string(source)} // --ff, because merge.ff = false forbids squash
	}
	_, err := r.cli.run(ctx, command{dir: dir, args: args, env: r.cli.fallbackIdentity(ctx, dir), writes: true, hooks: true})
	if exitCode(err) == 1 {
		if paths, err := r.Unmerged(ctx, dir); err != nil || len(paths) > 0 {
			return errors.Join(err, r.dropRenamed(ctx, dir))
		}
		if merging, _ := r.cli.resolve(ctx, dir, "MERGE_HEAD"); merging != "" {
			return nil // recorded resolutions resolved every conflict
		}
		if staged, _ := r.Staged(ctx, dir); staged && squash {
			return nil
		}
	}
	return hookedInTheWay(err)
}

// hookedInTheWay returns err or, if git refused to merge since files are in its way, one that says where these may be from: the
// worktree of a merge is checked out for it, so that to move the files away would not help.
func hookedInTheWay(err error) error {
	var e *Error
	if !errors.As(err, &e) || !strings.Contains(e.Stderr, "would be overwritten by merge") {
		return err
	}
	var files []string
	for line := range strings.Lines(e.Stderr) {
		if name, is := strings.CutPrefix(line, "\t"); is {
			files = append(files, strings.TrimSpace(name))
		}
	}
	return fmt.Errorf("git merge: what is merged would overwrite %s: the hook post-checkout may have made or changed that, since it runs in each new worktree; have it leave that alone", strings.Join(files, ", "))
}

// Related reports whether two commits have an ancestor in common. Otherwise git refuses to merge one into the other.
func (r *Repo) Related(ctx context.Context, a, b kernel.CommitID) (bool, error) {
	if err := commits(a, b); err != nil {
		return false, fmt.Errorf("compare histories: %w", err)
	}
	_, err := r.cli.read(ctx, "merge-base", string(a), string(b))
	if exitCode(err) == 1 {
		return false, nil
	}
	return err == nil, err
}

// Shallow reports whether the repository is a shallow clone, which has only the last part of some histories.
func (r *Repo) Shallow() (bool, error) { return exists(filepath.Join(r.root.CommonDir, "shallow")) }

// dropRenamed removes the paths from the index at dir that only the common
// ancestor of the merge has.
func (r *Repo) dropRenamed(ctx context.Context, dir string) error {
	out, err := r.cli.run(ctx, command{dir: dir, args: []string{"status", "--porcelain=v1", "-z", "--untracked-files=no", "--ignore-submodules=all", "--no-renames"}})
	var paths []string
	for entry := range strings.SplitSeq(string(out), "\x00") {
		if p, ok := strings.CutPrefix(entry, "DD "); ok {
			paths = append(paths, p)
		}
	}
	if err != nil {
		return err
	}
	return r.cli.updateIndex(ctx, command{dir: dir}, paths, "--force-remove")
}

// Merging reports whether a merge with a second parent is in progress at dir.
func (r *Repo) Merging(ctx context.Context, dir string) (bool, error) {
	_, err := r.cli.run(ctx, command{dir: dir, args: []string{"rev-parse", "--quiet", "--verify", "MERGE_HEAD"}}) // which git may not have any more
	if exitCode(err) == 1 {
		return false, nil
	}
	return err == nil, err
}

// Squashing reports whether a squash merge is in progress in the worktree at
// dir.
func (r *Repo) Squashing(_ context.Context, dir string) (bool, error) {
	w, err := worktreeAt(r.root.CommonDir, dir)
	if err != nil || w.Name == "" {
		return false, err
	}
	return exists(filepath.Join(w.gitDir, "SQUASH_MSG"))
}

// Rebasing reports whether a rebase is in progress in the linked worktree at dir.
func (r *Repo) Rebasing(_ context.Context, dir string) (bool, error) {
	w, err := worktreeAt(r.root.CommonDir, dir)
	if err != nil || w.Name == "" {
		return false, err
	}
	now, err := operation(w.gitDir)
	return now == "rebase", err
}

// Detach forces the worktree at dir to a commit, discarding changes that are in
// the way.
func (r *Repo) Detach(ctx context.Context, dir string, commit kernel.CommitID) error {
	if err := commits(commit); err != nil {
		return fmt.Errorf("check out: %w", err)
	}
	_, err := r.cli.run(ctx, command{dir: dir, args: []string{"checkout", "--quiet", "--force", "--detach", string(commit), "--"}, writes: true, hooks: true})
	return err
}

// RemoveFile removes a file, given relative to the top, from the files and the
// index of the working tree at dir, also outside of a sparse checkout.
func (r *Repo) RemoveFile(ctx context.Context, dir, path string) error {
	_, err := r.cli.run(ctx, command{dir: dir, args: []string{"rm", "--quiet", "--force", "--sparse", "--", ":(top,literal)" + path}, writes: true})
	return err
}

// Replay repeats merged, a commit on top of from, on top of onto, with its
// message, its author and its further parents. Nothing is checked out. It
// returns "" if that conflicts, and onto if a commit with one parent would
// change nothing there.
func (r *Repo) Replay(ctx context.Context, merged, from, onto kernel.CommitID) (kernel.CommitID, error) {
	if err := commits(merged, from, onto); err != nil {
		return "", fmt.Errorf("replay: %w", err)
	}
	out, err := r.cli.read(ctx, "show", "--no-patch", "--format=%P%x00%an%x00%ae%x00%ad%x00%B", "--date=raw", string(merged))
	if err != nil {
		return "", err
	}
	f := strings.SplitN(string(out), "\x00", 5)
	if len(f) < 5 {
		return "", fmt.Errorf("replay: git show has no answer for %s", merged)
	}
	me := r.cli.fallbackIdentity(ctx, "")
	step := func(env []string, stdin string, args ...string) (kernel.CommitID, error) {
		out, err := r.cli.run(ctx, command{args: args, env: append(slices.Clone(me), env...), stdin: []byte(stdin), writes: true})
		id, _, _ := strings.Cut(string(out), "\n")
		return kernel.CommitID(id), err
	}
	plain, err := step(nil, "", "commit-tree", "-m", "vizier", "-p", string(from), string(merged)+"^{tree}")
	if err != nil {
		return "", err
	}
	files, err := step(nil, "", "merge-tree", "--write-tree", "--no-messages", string(onto), string(plain))
	if exitCode(err) == 1 {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	args, parents := []string{"commit-tree", "-p", string(onto)}, strings.Fields(f[0])
	if len(parents) <= 1 {
		there, err := step(nil, "", "rev-parse", "--verify", string(onto)+"^{tree}")
		if err != nil || there == files {
			return onto, err
		}
	} else {
		for _, p := range parents[1:] {
			args = append(args, "-p", p)
		}
	}
	if sign, err := r.cli.read(ctx, "config", "--type=bool", "commit.gpgSign"); err == nil && strings.TrimSpace(string(sign)) == "true" {
		args = append(args, "-S")
	}
	author := []string{"GIT_AUTHOR_NAME=" + f[1], "GIT_AUTHOR_EMAIL=" + f[2], "GIT_AUTHOR_DATE=" + f[3]}
	return step(author, f[4], append(args, string(files))...)
}

// Has reports whether git has a commit; a gc may have removed it.
func (r *Repo) Has(ctx context.Context, commit kernel.CommitID) (bool, error) {
	if err := commits(commit); err != nil {
		return false, err
	}
	id, err := r.cli.resolve(ctx, "", string(commit))
	return id != "", err
}

// Parent returns the first parent of a commit, or "" if it has none.
func (r *Repo) Parent(ctx context.Context, commit kernel.CommitID) (kernel.CommitID, error) {
	if err := commits(commit); err != nil {
		return "", fmt.Errorf("parent: %w", err)
	}
	return r.cli.resolve(ctx, "", string(commit)+"^")
}

// FileAt returns a file's content in a commit, or nil if the commit does not
// contain it.
func (r *Repo) FileAt(ctx context.Context, commit kernel.CommitID, path string) ([]byte, error) {
	b, err := r.ReadFile(ctx, File{Commit: commit, Path: path})
	if errors.Is(err, iofs.ErrNotExist) {
		return nil, nil
	}
	return b, err
}

// LastFile returns a file's content in the newest commit that contains it,
// among those reachable from tip but not from base, or nil if there is none.
func (r *Repo) LastFile(ctx context.Context, tip, base kernel.CommitID, path string) ([]byte, error) {
	if err := commits(tip, base); err != nil {
		return nil, fmt.Errorf("look for %s: %w", path, err)
	}
	out, err := r.cli.read(ctx, "rev-list", string(tip), "^"+string(base), "--", ":(top,literal)"+path)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(out)) {
		if b, err := r.FileAt(ctx, kernel.CommitID(strings.TrimSpace(line)), path); b != nil || err != nil {
			return b, err
		}
	}
	return nil, nil
}

// Sparse reports whether the working tree at dir is a sparse checkout, in which git add refuses what
// is outside of it unless it is run with --sparse.
func (r *Repo) Sparse(ctx context.Context, dir string) (bool, error) {
	out, err := r.cli.run(ctx, command{dir: dir, args: []string{"config", "--type=bool", "--default=false", "--get", "core.sparseCheckout"}})
	if err != nil || strings.TrimSpace(string(out)) != "true" {
		return false, err
	}
	gitDir, err := gitDirOf(dir)
	if err != nil {
		return false, err
	}
	return exists(patternsOf(gitDir)) // without patterns, it has everything
}
