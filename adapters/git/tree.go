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
	"time"

	"github.com/vizier-scheduler/vizier/internal/sys"
	"github.com/vizier-scheduler/vizier/kernel"
)

// tree runs git on a worktree by means of its git directory, so that it uses
// the right one even if the files that connect the two are damaged.
type tree struct {
	cli *cli
	w   Worktree
	dir string // where git runs: the worktree if it exists, else the main one
}

func (t tree) git(ctx context.Context, env []string, args ...string) (string, error) {
	out, err := t.cli.run(ctx, command{
		dir:    t.dir,
		args:   args,
		env:    append(t.env(), env...),
		writes: len(env) > 0,
		quiet:  true,
		whole:  true,
	})
	return strings.TrimSuffix(string(out), "\n"), err
}

func (t tree) env() []string {
	env := []string{"GIT_DIR=" + t.w.gitDir}
	if t.w.Path != "" { // else only its refs are of interest
		env = append(env, "GIT_WORK_TREE="+t.w.Path)
	}
	return env
}

// head returns the commit of the worktree, or "" on an unborn branch.
func (t tree) head(ctx context.Context) (kernel.CommitID, error) {
	out, err := t.git(ctx, nil, "rev-parse", "--quiet", "--verify", "HEAD^{commit}")
	if exitCode(err) == 1 {
		return "", nil
	}
	return kernel.CommitID(out), err
}

// status is what a worktree has that its commit does not have.
type status struct {
	inner  string   // a repository within it, whether untracked, added, or a submodule that git has not made; "": none
	dirty  bool     // there are changes or untracked files
	unseen []string // submodules that are not initialised and have files all the same
}

// status returns what the worktree has. What is within modules, the submodules
// that git has made for it, does not count.
func (t tree) status(ctx context.Context, modules []module) (s status, err error) {
	at := command{dir: t.dir, env: t.env()}
	i, err := t.cli.index(ctx, at)
	if err != nil {
		return s, err
	}
	for _, name := range i.links {
		dir := filepath.Join(t.w.Path, name)
		own := slices.ContainsFunc(modules, func(m module) bool { return m.present && resolved(m.dir) == resolved(dir) })
		if there, err := exists(filepath.Join(dir, ".git")); err != nil || there && !own {
			return status{inner: name}, err
		}
	}
	var env []string
	if assumed, skipped, err := t.hidden(i); err != nil || len(assumed)+len(skipped) > 0 {
		if err != nil {
			return s, err
		}
		tmp, err := os.MkdirTemp("", "vizier-status-")
		if err != nil {
			return s, err
		}
		defer sys.RemoveTree(tmp)
		if env, _, err = t.copied(ctx, tmp); err != nil {
			return s, err
		}
	}
	out, err := t.git(ctx, env, "status", "--porcelain=v1", "-z", "--untracked-files=all", "--ignore-submodules=dirty", "--no-renames")
	if err != nil {
		return s, err
	}
	unseen, files, err := t.cli.unseen(ctx, at, t.w.Path, i.links)
	if err != nil {
		return s, err
	}
	s.unseen, s.dirty = unseen, len(unseen) > 0
	entries := strings.Split(out, "\x00")
	for _, f := range files {
		entries = append(entries, "?? "+f)
	}
	for _, entry := range entries {
		if len(entry) < 4 || isScratch(entry[3:]) {
			continue
		}
		s.dirty = true
		if name, untracked := strings.CutPrefix(entry, "?? "); untracked && strings.HasSuffix(name, "/") {
			s.inner = name
			return s, nil
		}
	}
	return s, nil
}

// commit makes a commit of the worktree's files on top of head, with an index
// of its own and without hooks. Files below a submodule in unseen, which is not
// initialised, take its place. The worktree does not change.
func (t tree) commit(ctx context.Context, head kernel.CommitID, unseen []string) (kernel.CommitID, error) {
	tmp, err := os.MkdirTemp("", "vizier-park-")
	if err != nil {
		return "", err
	}
	defer func() { _ = sys.RemoveTree(tmp) }()
	env, i, err := t.copied(ctx, tmp)
	if err != nil {
		return "", err
	}
	own, err := t.cli.unignored(ctx, command{dir: t.dir, env: t.env()}, scratch[:])
	if err != nil {
		return "", err
	}
	for _, name := range i.unmerged {
		if !slices.Contains(i.links, name) {
			continue
		}
		if there, err := exists(filepath.Join(t.w.Path, name, ".git")); err != nil || there {
			if err != nil {
				return "", err
			}
			continue
		}
		unseen = append(unseen[:len(unseen):len(unseen)], name) // git add would fail, as there is nothing at it
	}
	for _, name := range unseen {
		if _, err := t.git(ctx, env, "update-index", "--force-remove", "--", name); err != nil {
			return "", err
		}
	}
	if _, err := t.git(ctx, env, append([]string{"add", "--all", "--sparse", "--"}, except(own)...)...); err != nil {
		return "", err
	}
	content, err := t.git(ctx, env, "write-tree")
	if err != nil {
		return "", err
	}
	return t.keep(ctx, head, content, "Unsaved work")
}

// fate is what an index is to become.
type fate int

const (
	removed   fate = iota
	putBack        // what it was at Remember
	untouched      // what it is
	discarded      // gone, and the changes of the files with it
)

// changes returns a commit of t's files, and staged's of what would be lost of its index. If that has all the changes, the
// first is head.
func (t tree) changes(ctx context.Context, head kernel.CommitID, unseen []string, index fate) (work, staged kernel.CommitID, err error) {
	if work, err = t.commit(ctx, head, unseen); err != nil || index == untouched {
		return work, "", err
	}
	if staged, err = t.staged(ctx, head, work, index == putBack); err != nil || staged == "" || head == "" {
		return work, staged, err
	}
	out, err := t.git(ctx, nil, "rev-parse", string(work)+"^{tree}", string(head)+"^{tree}")
	if trees := strings.Fields(out); err == nil && trees[0] == trees[1] {
		work = head
	}
	return work, staged, err
}

// staged returns a commit on top of head of what t's index has, or "" if each file that it has is as in head, in work, a
// commit of t's files, or in the result of the merge that is in progress. Of what is in conflict it has the files. With
// since, what was staged before Remember does not count.
func (t tree) staged(ctx context.Context, head, work kernel.CommitID, since bool) (kernel.CommitID, error) {
	tmp, err := os.MkdirTemp("", "vizier-park-")
	if err != nil {
		return "", err
	}
	defer func() { _ = sys.RemoveTree(tmp) }()
	env, i, err := t.copied(ctx, tmp)
	if err != nil {
		return "", err
	}
	out, err := t.git(ctx, env, "diff", "--cached", "--name-only", "-z", "--no-renames", "--no-ext-diff", "--no-relative", "--ignore-submodules=none", "--diff-filter=du")
	if err != nil || out == "" {
		return "", err
	}
	only := strings.Split(strings.TrimSuffix(out, "\x00"), "\x00")
	among := func(paths []string) {
		only = slices.DeleteFunc(only, func(name string) bool { return !slices.Contains(paths, name) })
	}
	if since {
		paths, err := t.stagedSince(ctx, env)
		if err != nil {
			return "", err
		}
		among(paths)
	}
	if err := t.reset(ctx, env, work, i.unmerged); err != nil {
		return "", err
	}
	content, err := t.git(ctx, env, "write-tree")
	if err != nil {
		return "", err
	}
	elsewhere := []string{string(work)}
	source, err := t.merges(ctx, env)
	if err != nil {
		return "", err
	}
	if source != "" && head != "" {
		merged, err := t.git(ctx, env, "merge-tree", "--write-tree", "--no-messages", string(head), source)
		if merged, _, _ = strings.Cut(merged, "\n"); merged != "" && (err == nil || exitCode(err) == 1) { // exit code 1: in conflict or, with nothing printed, the source is gone
			elsewhere = append(elsewhere, merged)
		}
	}
	for _, other := range elsewhere {
		out, err := t.git(ctx, nil, "diff-tree", "-r", "--name-only", "-z", "--no-renames", content, other)
		if err != nil {
			return "", err
		}
		among(strings.Split(out, "\x00"))
	}
	if len(only) == 0 {
		return "", nil
	}
	return t.keep(ctx, head, content, "Staged work")
}

// merges returns the commit that is merged in t, or was, or "".
func (t tree) merges(ctx context.Context, env []string) (source string, err error) {
	source, err = t.git(ctx, env, "rev-parse", "--quiet", "--verify", mergeRefs+"source")
	if exitCode(err) == 1 {
		return "", nil
	}
	return source, err
}

// reset makes the entries of paths in t's index, or in the one that env names, what a commit has there: all of them at once.
func (t tree) reset(ctx context.Context, env []string, to kernel.CommitID, paths []string) error {
	if len(paths) == 0 { // for git these would be all
		return nil
	}
	var in strings.Builder
	for _, path := range paths {
		in.WriteString(":(top,literal)" + path + "\x00")
	}
	_, err := t.cli.run(ctx, command{dir: t.dir, env: append(t.env(), env...), writes: true, quiet: true, stdin: []byte(in.String()),
		args: []string{"reset", "--quiet", "--pathspec-from-file=-", "--pathspec-file-nul", string(to)}})
	return err
}

// keep returns a commit of content, a tree, on top of head, without hooks. If such a one is already parked, it returns that.
func (t tree) keep(ctx context.Context, head kernel.CommitID, content, what string) (kernel.CommitID, error) {
	if same, err := t.parkedAs(ctx, content, head); same != "" || err != nil {
		return same, err
	}
	args := []string{"commit-tree", "-m", fmt.Sprintf("%s of worktree %s\n\nBranch: %s\nPath: %s\n", what, t.w.Name, t.w.Branch, t.w.Path), content}
	if head != "" {
		args = append(args, "-p", string(head))
	}
	id, err := t.git(ctx, identity, args...)
	return kernel.CommitID(id), err
}

// copied copies t's index to the directory tmp, and takes the marks from the copy that hide changes. It returns the
// environment with which git uses that, and what the index has.
func (t tree) copied(ctx context.Context, tmp string) (env []string, i index, err error) {
	to := filepath.Join(tmp, "index")
	if err := copyIndex(filepath.Join(t.w.gitDir, "index"), to); err != nil {
		return nil, i, err
	}
	env = []string{"GIT_INDEX_FILE=" + to}
	i, err = t.cli.index(ctx, command{dir: t.dir, env: append(t.env(), env...)})
	if err == nil {
		err = t.unhide(ctx, env, i)
	}
	return env, i, err
}

// copyIndex copies an index, if there is one, with its time: git compares the content of files
// that are not older than their index, and takes the others for unchanged if their size and
// time are as the index says.
func copyIndex(from, to string) error {
	info, err := os.Stat(from) // before the copy: a time that is too early only makes git compare more
	if err != nil {
		if errors.Is(err, iofs.ErrNotExist) {
			return nil
		}
		return err
	}
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.WriteFile(to, b, 0o600); err != nil {
		return err
	}
	return os.Chtimes(to, time.Time{}, info.ModTime())
}

// parkedAs returns parked work with that content and parent, or "".
func (t tree) parkedAs(ctx context.Context, content string, parent kernel.CommitID) (kernel.CommitID, error) {
	out, err := t.git(ctx, nil, "for-each-ref", "--format=%(objectname) %(tree) %(parent)", parkedRefs)
	for line := range strings.Lines(out) {
		if id, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " "); rest == content+" "+string(parent) {
			return kernel.CommitID(id), err
		}
	}
	return "", err
}

// identity is the author of parked work, so that no identity need be
// configured.
var identity = []string{
	"GIT_AUTHOR_NAME=vizier", "GIT_AUTHOR_EMAIL=vizier@localhost",
	"GIT_COMMITTER_NAME=vizier", "GIT_COMMITTER_EMAIL=vizier@localhost",
}
