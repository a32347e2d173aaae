package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/vizier-scheduler/vizier/kernel"
)

// parkedRefs is where work is kept that would have gone with its worktree.
const parkedRefs = "refs/vizier/parked/"

// Parked is work that was kept when its worktree went away.
type Parked struct {
	Worktree string // its path
	Branch   string // the branch it stood on; "" : none
	Ref      string // where the work is now
	Commit   kernel.CommitID
}

// String is a line for people, with the command that brings the work back.
func (p Parked) String() string {
	return fmt.Sprintf("unsaved work of worktree %s is kept as %s: see it with `git show %s`, "+
		"get it back with `git switch --create NAME %s`", p.Worktree, p.Ref, p.Ref, p.Ref)
}

// save makes sure that nothing is lost when w goes: it refuses a worktree that
// is locked or holds other repositories, and parks what no ref keeps. present
// tells whether w's files are there.
func (r *Repo) save(ctx context.Context, w Worktree, present bool) error {
	if w.Locked {
		why := ""
		if w.Reason != "" {
			why = " (" + w.Reason + ")"
		}
		return fmt.Errorf("it is locked%s: run `git worktree unlock %s`, then try again", why, w.Path)
	}
	if inner, _ := os.ReadDir(filepath.Join(w.gitDir, "modules")); len(inner) > 0 {
		return errors.New("it has submodules whose commits would go with it: save them, then run `git worktree remove --force` on it")
	}
	t := tree{cli: r.cli, w: w}
	if present {
		t.dir = w.Path
	}
	head, err := t.head(ctx)
	if err != nil {
		return err
	}
	work := head
	if present {
		dirty, err := t.dirty(ctx)
		if err != nil {
			return err
		}
		if dirty {
			if work, err = t.commit(ctx, head); err != nil {
				return fmt.Errorf("park its changes: %w", err)
			}
		}
	}
	if work == "" || work == head && w.Branch != "" {
		return nil
	}
	if work == head {
		if kept, err := t.reachable(ctx, head); kept || err != nil {
			return err
		}
	}
	return r.park(ctx, t, work)
}

// park keeps work under a ref of its own.
func (r *Repo) park(ctx context.Context, t tree, work kernel.CommitID) error {
	p := Parked{Worktree: t.w.Path, Branch: t.w.Branch, Commit: work, Ref: parkedRefs + refPart(t.w.Name) + "-" + string(work[:12])}
	now, err := r.cli.refAt(ctx, p.Ref)
	if err == nil && now != work {
		absent := strings.Repeat("0", len(work))
		_, err = t.git(ctx, identity, "update-ref", "-m", "vizier: parked", p.Ref, string(work), absent)
	}
	if err != nil {
		return fmt.Errorf("park its work: %w", err)
	}
	if r.OnPark != nil {
		r.OnPark(p)
	}
	return nil
}

// refPart is name as a part of a ref's name.
func refPart(name string) string {
	return strings.Map(func(c rune) rune {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '_', c == '-':
			return c
		}
		return '-'
	}, name)
}

// tree runs git on a worktree by its git directory, so that it works on the
// right one even if the files that connect the two are damaged. No hooks run:
// this is housekeeping, and a hook that fails must not cost anybody's work.
type tree struct {
	cli *cli
	w   Worktree
	dir string // where git runs: the worktree if it is there, else the main one
}

func (t tree) git(ctx context.Context, env []string, args ...string) (string, error) {
	out, err := t.cli.run(ctx, command{
		dir:    t.dir,
		args:   append([]string{"-c", "core.hooksPath=/dev/null"}, args...),
		env:    append([]string{"GIT_DIR=" + t.w.gitDir, "GIT_WORK_TREE=" + t.w.Path}, env...),
		writes: len(env) > 0,
	})
	return strings.TrimSuffix(string(out), "\n"), err
}

// head is the commit the worktree stands on, or "" on an unborn branch.
func (t tree) head(ctx context.Context) (kernel.CommitID, error) {
	out, err := t.git(ctx, nil, "rev-parse", "--quiet", "--verify", "HEAD^{commit}")
	if exitCode(err) == 1 {
		return "", nil
	}
	return kernel.CommitID(out), err
}

// dirty reports changes and untracked files. A repository within the worktree
// is refused: it cannot be parked.
func (t tree) dirty(ctx context.Context) (bool, error) {
	out, err := t.git(ctx, nil, "status", "--porcelain=v1", "-z", "--untracked-files=all", "--ignore-submodules=none", "--no-renames")
	if err != nil {
		return false, err
	}
	dirty := false
	for entry := range strings.SplitSeq(strings.TrimSuffix(out, "\x00"), "\x00") {
		if len(entry) < 4 || isScratch(entry[3:]) {
			continue
		}
		dirty = true
		if name, untracked := strings.CutPrefix(entry, "?? "); untracked && strings.HasSuffix(name, "/") {
			return false, fmt.Errorf("it contains another repository, %s: move that away, then try again", name)
		}
	}
	return dirty, nil
}

// reachable reports whether a branch, a tag, a remote's branch or other parked
// work keeps commit.
func (t tree) reachable(ctx context.Context, commit kernel.CommitID) (bool, error) {
	out, err := t.git(ctx, nil, "for-each-ref", "--count=1", "--contains="+string(commit),
		"refs/heads/", "refs/tags/", "refs/remotes/", parkedRefs)
	return out != "", err
}

// commit makes a commit of the worktree's files on top of head, with an index
// of its own and no hooks; nothing of the worktree changes. If a commit of the
// same content is parked already, it is that one.
func (t tree) commit(ctx context.Context, head kernel.CommitID) (kernel.CommitID, error) {
	tmp, err := os.MkdirTemp("", "vizier-park-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(tmp)
	index := filepath.Join(tmp, "index")
	have, err := os.ReadFile(filepath.Join(t.w.gitDir, "index"))
	if err == nil {
		err = os.WriteFile(index, have, 0o600)
	}
	if err != nil && !errors.Is(err, iofs.ErrNotExist) {
		return "", err
	}
	env := append(identity[:len(identity):len(identity)], "GIT_INDEX_FILE="+index)
	if _, err := t.git(ctx, env, append([]string{"add", "--all", "--"}, notScratch()...)...); err != nil {
		return "", err
	}
	content, err := t.git(ctx, env, "write-tree")
	if err != nil {
		return "", err
	}
	if same, err := t.parkedAs(ctx, content, head); same != "" || err != nil {
		return same, err
	}
	var message bytes.Buffer
	fmt.Fprintf(&message, "Unsaved work of worktree %s\n\nBranch: %s\nPath: %s\n", t.w.Name, t.w.Branch, t.w.Path)
	args := []string{"commit-tree", "-m", message.String(), content}
	if head != "" {
		args = append(args, "-p", string(head))
	}
	id, err := t.git(ctx, env, args...)
	return kernel.CommitID(id), err
}

// parkedAs is parked work with that content and parent, or "".
func (t tree) parkedAs(ctx context.Context, content string, parent kernel.CommitID) (kernel.CommitID, error) {
	out, err := t.git(ctx, nil, "for-each-ref", "--format=%(objectname) %(tree) %(parent)", parkedRefs)
	for line := range strings.Lines(out) {
		if id, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " "); rest == content+" "+string(parent) {
			return kernel.CommitID(id), err
		}
	}
	return "", err
}

// identity signs parked work, so that it needs no identity configured.
var identity = []string{
	"GIT_AUTHOR_NAME=vizier", "GIT_AUTHOR_EMAIL=vizier@localhost",
	"GIT_COMMITTER_NAME=vizier", "GIT_COMMITTER_EMAIL=vizier@localhost",
}
