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

	"github.com/vizier-scheduler/vizier/kernel"
)

// heldRefs is the prefix of the refs that keep what the refs of linked worktrees below mergeRefs name: a gc that runs
// elsewhere does not count these. What a worktree has is told by its own refs alone, which go with it.
const heldRefs = "refs/vizier/held/"

// heldFor is the prefix of the refs that keep what the refs of the worktree called name say.
func heldFor(name string) string { return heldRefs + refPart(name) + "/" }

// hold is a ref of a worktree below mergeRefs. commit is what it is to be ("": it is to be deleted), and keep a commit to be kept
// as long, which has that.
type hold struct {
	name         string
	commit, keep kernel.CommitID
}

// hold sets refs of t, all at once.
func (t tree) hold(ctx context.Context, holds ...hold) error {
	var in strings.Builder
	for _, h := range holds {
		for _, ref := range []struct {
			name string
			id   kernel.CommitID
		}{{heldFor(t.w.Name) + h.name, h.keep}, {mergeRefs + h.name, h.commit}} {
			if ref.id == "" {
				fmt.Fprintf(&in, "delete %s\x00\x00", ref.name)
			} else {
				fmt.Fprintf(&in, "update %s\x00%s\x00\x00", ref.name, ref.id)
			}
		}
	}
	_, err := t.cli.run(ctx, command{dir: t.dir, args: []string{"update-ref", "--stdin", "-z"}, stdin: []byte(in.String()), writes: true})
	return err
}

// holding returns the commit to keep for a note of t: with the files of commit, and what t's index has besides. It fails if
// git does not have all of that.
func (t tree) holding(ctx context.Context, commit kernel.CommitID) (kernel.CommitID, error) {
	besides, missing, err := t.besides(ctx, nil, commit)
	if err == nil && len(missing) > 0 {
		err = fmt.Errorf("git has no object any more for what is staged of %s: stage that again with `git add`", strings.Join(missing, ", "))
	}
	if err != nil || len(besides) == 0 {
		return commit, err
	}
	var in strings.Builder
	for _, id := range besides {
		fmt.Fprintf(&in, "100644 blob %s\t%s\x00", id, id)
	}
	out, err := t.cli.run(ctx, command{dir: t.dir, env: t.env(), args: []string{"mktree", "-z"}, stdin: []byte(in.String()), writes: true})
	if err != nil {
		return "", err
	}
	id, err := t.git(ctx, identity, "commit-tree", "-m", "What is staged in worktree "+t.w.Name, strings.TrimSpace(string(out)), "-p", string(commit))
	return kernel.CommitID(id), err
}

// besides returns the blobs that t's index, or the one that env names, has and the commit does not, and the paths for which git
// has no object. Of resolved conflicts it returns what git still has.
func (t tree) besides(ctx context.Context, env []string, commit kernel.CommitID) (blobs, missing []string, err error) {
	content, err := t.git(ctx, nil, "ls-tree", "-r", "-z", "--full-tree", string(commit))
	if err != nil {
		return nil, nil, err
	}
	known := map[string]bool{}
	for entry := range strings.SplitSeq(content, "\x00") {
		if f := strings.Fields(entry); len(f) > 2 {
			known[f[2]] = true
		}
	}
	staged, err := t.entries(ctx, env)
	if err != nil {
		return nil, nil, err
	}
	resolved, err := t.git(ctx, env, "ls-files", "--resolve-undo", "-z", "--", ":(top)")
	if err != nil {
		return nil, nil, err
	}
	path := map[string]string{} // of a blob; "": it is of a resolved conflict
	var asked []string
	for i, list := range []string{staged, resolved} {
		for entry := range strings.SplitSeq(list, "\x00") {
			what, name, _ := strings.Cut(entry, "\t")
			f := strings.Fields(what) // mode, object, stage
			if len(f) < 3 || f[0] == "160000" || known[f[1]] {
				continue
			}
			known[f[1]] = true
			if asked = append(asked, f[1]); i == 0 {
				path[f[1]] = name
			}
		}
	}
	if len(asked) == 0 {
		return nil, nil, nil
	}
	out, err := t.cli.run(ctx, command{dir: t.dir, env: t.env(), args: []string{"cat-file", "--batch-check"}, stdin: []byte(strings.Join(asked, "\n") + "\n")})
	for line := range strings.Lines(string(out)) {
		id, what, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		switch {
		case strings.HasPrefix(what, "blob "):
			blobs = append(blobs, id)
		case path[id] != "":
			missing = append(missing, path[id])
		}
	}
	return blobs, missing, err
}

// noted returns the commit that a ref of t below mergeRefs names, "" if there is no such ref. It fails if git does not have the
// commit any more, or not all of what it has and its parent does not.
func (t tree) noted(ctx context.Context, name string) (kernel.CommitID, error) {
	out, err := t.cli.run(ctx, command{dir: t.dir, args: []string{"rev-parse", "--quiet", "--verify", "--end-of-options", mergeRefs + name}})
	if exitCode(err) == 1 {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	id := strings.TrimSpace(string(out))
	_, err = t.cli.run(ctx, command{dir: t.dir, args: []string{"rev-list", "--objects", "--quiet", id + "^!"}})
	if exitCode(err) == 128 {
		return "", t.lost("commit "+id, err)
	}
	return kernel.CommitID(id), err
}

// lost is the error that something which Remember or Settle noted of t is gone.
func (t tree) lost(what string, why error) error {
	err := fmt.Errorf("what worktree %s was before a program worked in it cannot be put back: git does not have all of %s any more, as after `git gc --prune=now`. "+
		"Nothing is changed: make the files there, and what is staged, what they are to be, then %s, and retry", t.dir, what, gitIn(t.dir, "update-ref", "-d", beforeRef))
	if why != nil {
		err = fmt.Errorf("%w (%w)", err, why)
	}
	return err
}

// DropHeld removes the refs that keep commits for the worktrees that git does not have any more.
func (r *Repo) DropHeld(ctx context.Context) error {
	refs, err := r.Unheld(ctx)
	if err != nil || len(refs) == 0 {
		return err
	}
	return r.cli.dropRefs(ctx, refs)
}

// Unheld returns the refs that DropHeld removes.
func (r *Repo) Unheld(ctx context.Context) ([]string, error) {
	if none, err := r.noneBelow(heldRefs); none || err != nil {
		return nil, err
	}
	out, err := r.cli.read(ctx, "for-each-ref", "--format=%(refname)", heldRefs)
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(filepath.Join(r.root.CommonDir, "worktrees")) // also those that Worktrees skips
	if err != nil && !errors.Is(err, iofs.ErrNotExist) {
		return nil, err
	}
	return slices.DeleteFunc(strings.Fields(string(out)), func(ref string) bool {
		return slices.ContainsFunc(entries, func(e iofs.DirEntry) bool { return strings.HasPrefix(ref, heldFor(e.Name())) })
	}), nil
}

// letGo removes the refs that keep commits for the worktree called name, which is gone.
func (r *Repo) letGo(ctx context.Context, name string) error {
	held := heldFor(name)
	if none, err := r.noneBelow(held); none || err != nil {
		return err
	}
	return r.cli.dropRefs(ctx, []string{held + "before", held + "settled", held + "source", held + "target", held + "merged"})
}

// dropRefs removes refs. Those that are not there are none.
func (c *cli) dropRefs(ctx context.Context, refs []string) error {
	in := "delete " + strings.Join(refs, "\ndelete ") + "\n"
	_, err := c.run(ctx, command{args: []string{"update-ref", "--stdin"}, stdin: []byte(in), writes: true})
	return err
}
