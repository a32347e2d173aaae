package git

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
	"github.com/vizier-scheduler/vizier/kernel/effect"
)

// Stage stages paths of the working tree at dir, including removals and
// everything below directories; nil is the whole tree. Paths are relative to
// dir and taken literally. The paths in force are relative to the top and are
// staged even if they are ignored. Vizier's own files (jobs, sessions, tmp,
// tmp-worktrees, state) are never staged. Stage fails while files at dir are in
// conflict. In a linked working tree, Stage fails
// for the whole tree while there are files that git does not see: below a
// submodule that is not initialised. What was staged in a job's worktree, and is not
// what its files have, is parked before the whole tree is staged.
func (r *Repo) Stage(ctx context.Context, dir string, paths, force []string) error {
	specs := []string{":(top)"}
	if paths != nil {
		specs = specs[:0]
		for _, p := range paths {
			specs = append(specs, ":(literal)"+p)
		}
	}
	before, top, err := r.ready(ctx, dir, true)
	if err == nil {
		err = linkedHome(cmp.Or(top, r.root.Dir))
	}
	if err != nil {
		return err
	}
	if paths == nil {
		if err := r.checkUnseen(ctx, top, before.links); err != nil {
			return err
		}
		if err := r.keepStaged(ctx, top); err != nil {
			return err
		}
	}
	own, err := r.cli.unignored(ctx, command{dir: top}, scratch[:]) // "" is the main working tree
	if err != nil {
		return err
	}
	for _, d := range own {
		specs = append(specs, ":(top,exclude)"+d)
	}
	if len(paths) > 0 || paths == nil {
		if err := r.cli.add(ctx, dir, specs, "--all"); err != nil {
			return err
		}
	}
	if len(force) > 0 {
		specs = specs[:0]
		for _, p := range force {
			specs = append(specs, ":(top,literal)"+p)
		}
		if err := r.cli.add(ctx, dir, specs, "--force"); err != nil {
			return err
		}
	}
	staged, err := r.cli.index(ctx, command{dir: dir})
	if err != nil {
		return err
	}
	if err := r.checkLinks(top, staged.links); err != nil {
		_, dropped := r.dropAdded(ctx, top, staged.links)
		return errors.Join(err, dropped)
	}
	return r.cli.unstage(ctx, dir, staged)
}

// keepStaged parks what is staged in the job's worktree at top and is not what its files have. It does nothing if top is no
// such worktree.
func (r *Repo) keepStaged(ctx context.Context, top string) error {
	if filepath.Dir(top) != filepath.Join(r.root.Dir, worktreeHome) {
		return nil
	}
	if any, err := r.Staged(ctx, top); err != nil || !any {
		return err
	}
	t, err := r.treeAt(top)
	if err != nil {
		return err
	}
	head, err := t.head(ctx)
	if err != nil {
		return err
	}
	work, err := t.commit(ctx, head, nil)
	if err != nil {
		return err
	}
	staged, err := t.staged(ctx, head, work, false)
	if err != nil || staged == "" {
		return err
	}
	return r.park(ctx, Parked{Worktree: t.w.Path, Branch: t.w.Branch, Commit: staged, Staged: true}, t.w.Name)
}

// StageTracked stages every change to tracked files at dir, including removals. It fails while files there are
// in conflict. It parks what Stage does.
func (r *Repo) StageTracked(ctx context.Context, dir string) error {
	_, top, err := r.ready(ctx, dir, false)
	if err == nil {
		err = r.keepStaged(ctx, top)
	}
	if err != nil {
		return err
	}
	return r.cli.add(ctx, dir, []string{":(top)"}, "--update")
}

// Uncommitted returns the paths at dir, relative to the top, that differ from
// the checked-out commit or are untracked, without Vizier's own files and
// ignored ones. A submodule with changes within it is one of these paths. It does
// not look below an untracked repository.
func (r *Repo) Uncommitted(ctx context.Context, dir string) ([]string, error) {
	tracked, untracked, err := r.differing(ctx, dir)
	return append(tracked, untracked...), err
}

// Untracked returns the untracked paths of Uncommitted, without files that were
// removed from the index and left where they are.
func (r *Repo) Untracked(ctx context.Context, dir string) ([]string, error) {
	tracked, untracked, err := r.differing(ctx, dir)
	return slices.DeleteFunc(untracked, func(p string) bool { return slices.Contains(tracked, p) }), err
}

func (r *Repo) differing(ctx context.Context, dir string) (tracked, untracked []string, err error) {
	if err := r.checkInner(ctx, dir); err != nil {
		return nil, nil, err
	}
	return r.status(ctx, dir, func(byte) bool { return true })
}

// Unstaged returns the paths at dir, relative to the top, whose files differ from
// the index, and those that are untracked, without Vizier's own files and ignored
// ones. A submodule that a merge has left at its former commit does not count: a
// merge does not check out submodules.
func (r *Repo) Unstaged(ctx context.Context, dir string) (tracked, untracked []string, err error) {
	top, err := r.linkedTop(dir)
	if err != nil {
		return nil, nil, err
	}
	i, err := r.indexIn(ctx, dir, top)
	if err != nil {
		return nil, nil, err
	}
	tracked, untracked, err = r.status(ctx, dir, func(file byte) bool { return file != ' ' })
	for _, name := range i.links {
		i := slices.Index(tracked, name)
		if i < 0 {
			continue
		}
		left, err := r.cli.leftBehind(ctx, dir, name)
		if err != nil {
			return nil, nil, err
		}
		if left {
			tracked = slices.Delete(tracked, i, i+1)
		}
	}
	return tracked, untracked, err
}

// leftBehind reports whether the commit that is checked out in a submodule of the
// working tree at dir is the one that the tree's commit has, or had before it.
func (c *cli) leftBehind(ctx context.Context, dir, name string) (bool, error) {
	if there, err := exists(filepath.Join(dir, name, ".git")); err != nil || !there {
		return false, err
	}
	now, err := c.resolve(ctx, filepath.Join(dir, name), "HEAD")
	if err != nil || now == "" {
		return false, err
	}
	for _, at := range []string{"HEAD", "HEAD^"} {
		was, err := c.run(ctx, command{dir: dir, args: []string{"rev-parse", "--quiet", "--verify", at + ":" + name}})
		switch {
		case exitCode(err) == 1: // it had none
		case err != nil:
			return false, err
		case strings.TrimSpace(string(was)) == string(now):
			return true, nil
		}
	}
	return false, nil
}

// status returns the tracked paths that git reports as changed, if counts is true
// for the second letter of their status (the file compared with the index), and
// the untracked paths.
func (r *Repo) status(ctx context.Context, dir string, counts func(file byte) bool) (tracked, untracked []string, err error) {
	out, err := r.cli.run(ctx, command{dir: dir, whole: true, args: []string{"status", "--porcelain=v1", "-z", "--untracked-files=all",
		"--ignore-submodules=none", "--no-renames"}})
	for entry := range strings.SplitSeq(string(out), "\x00") {
		switch {
		case len(entry) < 4 || isScratch(entry[3:]):
		case strings.HasPrefix(entry, "??"):
			untracked = append(untracked, entry[3:])
		case counts(entry[1]):
			tracked = append(tracked, entry[3:])
		}
	}
	return tracked, untracked, err
}

// unignored returns those of dirs, given relative to the top, that git does not
// ignore in the tree of at, which runs at the top. Excluding an ignored one would be an error for git
// add. Nothing is below a link, and to ask for that would be one too.
func (c *cli) unignored(ctx context.Context, at command, dirs []string) ([]string, error) {
	if linkedHome(cmp.Or(at.dir, c.root.Dir)) != nil {
		return nil, nil
	}
	at.args, at.stdin = []string{"check-ignore", "--no-index", "--stdin", "-z"}, []byte(strings.Join(dirs, "\x00")+"\x00")
	out, err := c.run(ctx, at)
	if err != nil && exitCode(err) != 1 { // exit code 1: none is ignored
		return nil, err
	}
	ignored := strings.Split(string(out), "\x00")
	return slices.DeleteFunc(slices.Clone(dirs), func(d string) bool { return slices.Contains(ignored, d) }), nil
}

// add runs git add with pathspecs.
func (c *cli) add(ctx context.Context, dir string, specs []string, flag string) error {
	_, err := c.run(ctx, command{dir: dir, writes: true, whole: true, stdin: []byte(strings.Join(specs, "\x00") + "\x00"),
		args: []string{"add", flag, "--sparse", "--pathspec-from-file=-", "--pathspec-file-nul"}}) // also what a sparse checkout leaves out
	if err == nil {
		return nil
	}
	said, _, unborn := strings.Cut(err.Error(), "/' does not have a commit checked out")
	if _, name, told := strings.Cut(said, "error: '"); unborn && told {
		return fmt.Errorf("%s is a repository without a commit, which git cannot add: remove %s, or leave the directory out of what is committed", name, filepath.Join(name, ".git"))
	}
	return err
}

// unstage removes Vizier's own files from the index at dir if it has some: somebody else staged
// them.
func (c *cli) unstage(ctx context.Context, dir string, staged index) error {
	if !staged.scratch {
		return nil
	}
	args := []string{"reset", "--quiet", "--"}
	for _, d := range scratch[:] {
		args = append(args, ":(top)"+d)
	}
	_, err := c.run(ctx, command{dir: dir, args: args, writes: true})
	return err
}

// stagePaths stages the current state of paths, including removals, which ends
// their conflicts. A directory that is no submodule counts as removal of the path.
// Paths are relative to the directory of at, which must be the top of a working tree.
func (c *cli) stagePaths(ctx context.Context, at command, paths []string) error {
	var there, gone []string
	for _, p := range paths {
		st, err := os.Lstat(filepath.Join(at.dir, p))
		switch {
		case err == nil && !st.IsDir():
			there = append(there, p)
			continue
		case err == nil:
			_, err = os.Lstat(filepath.Join(at.dir, p, ".git"))
		}
		switch {
		case err == nil:
			there = append(there, p)
		case absent(err):
			gone = append(gone, p)
		default:
			return err
		}
	}
	if err := c.updateIndex(ctx, at, gone, "--force-remove"); err != nil {
		return err
	}
	return c.updateIndex(ctx, at, there, "--add", "--remove")
}

// updateIndex runs git update-index for paths.
func (c *cli) updateIndex(ctx context.Context, at command, paths []string, how ...string) error {
	if len(paths) == 0 {
		return nil
	}
	at.writes, at.stdin = true, []byte(strings.Join(paths, "\x00")+"\x00")
	at.args = append(append([]string{"update-index"}, how...), "-z", "--stdin")
	_, err := c.run(ctx, at)
	return err
}

// Staged reports whether the index at dir differs from the checked-out commit.
func (r *Repo) Staged(ctx context.Context, dir string) (bool, error) {
	_, err := r.cli.run(ctx, command{dir: dir, args: []string{"diff", "--cached", "--quiet", "--no-ext-diff", "--ignore-submodules=none"}})
	if exitCode(err) == 1 {
		return true, nil
	}
	return false, err
}

// Commit commits the index of the working tree at dir and returns the commit.
// The repository's hooks and signing apply (semantics 3.19). If no identity is
// configured, Vizier's is used. Commit fails while files there are in conflict, or
// are staged with conflict markers: see Leftover.
func (r *Repo) Commit(ctx context.Context, dir, message string) (kernel.CommitID, error) {
	return r.commit(ctx, dir, message)
}

// Amend replaces the message of the commit that the working tree at dir is at.
// Hooks, signing and identity are as with Commit.
func (r *Repo) Amend(ctx context.Context, dir, message string) (kernel.CommitID, error) {
	return r.commit(ctx, dir, message, "--amend")
}

func (r *Repo) commit(ctx context.Context, dir, message string, more ...string) (kernel.CommitID, error) {
	staged, _, err := r.ready(ctx, dir, false)
	if err != nil {
		return "", err
	}
	if err := r.cli.unstage(ctx, dir, staged); err != nil {
		return "", err
	}
	if err := r.checkLeftover(ctx, dir); err != nil {
		return "", err
	}
	// If only submodules were staged that are configured to be ignored, git
	// calls the index unchanged although it has staged them.
	out, err := r.cli.run(ctx, command{dir: dir, env: r.cli.fallbackIdentity(ctx, dir), stdin: []byte(message), writes: true, hooks: true,
		args: append([]string{"-c", "diff.ignoreSubmodules=none", "commit", "--quiet", "--cleanup=whitespace", "--file=-"}, more...)})
	if e := (*Error)(nil); errors.As(err, &e) {
		e.Op = "commit"
		if e.Stderr == "" {
			e.Stderr = string(out)
		}
	}
	if err != nil {
		return "", err
	}
	return r.HeadCommit(ctx, dir)
}

// Message returns a commit's message.
func (r *Repo) Message(ctx context.Context, commit kernel.CommitID) (string, error) {
	if err := commits(commit); err != nil {
		return "", fmt.Errorf("message: %w", err)
	}
	out, err := r.cli.read(ctx, "show", "--no-patch", "--format=%B", string(commit))
	return strings.TrimSpace(string(out)), err
}

// fallbackIdentity returns the environment that makes Vizier the author or
// committer if git would otherwise refuse to commit, or invent an identity.
func (c *cli) fallbackIdentity(ctx context.Context, dir string) []string {
	var env []string
	for _, who := range []string{"AUTHOR", "COMMITTER"} {
		var missing []string
		for _, v := range [][2]string{{"GIT_" + who + "_NAME", "Vizier"}, {"GIT_" + who + "_EMAIL", "vizier@local"}} {
			if os.Getenv(v[0]) == "" {
				missing = append(missing, v[0]+"="+v[1])
			}
		}
		if len(missing) == 0 {
			continue
		}
		if _, err := c.run(ctx, command{dir: dir, args: []string{"-c", "user.useConfigOnly=true", "var", "GIT_" + who + "_IDENT"}}); err != nil {
			env = append(env, missing...)
		}
	}
	return env
}

// Marked returns the newest commit that was made after since and whose message
// names the effect key, or "" if there is none, among tip and its first
// ancestors: an agent may have written what it likes in the commits that were
// merged into these.
func (r *Repo) Marked(ctx context.Context, tip kernel.CommitID, key string, since time.Time) (kernel.CommitID, error) {
	if err := commits(tip); err != nil {
		return "", fmt.Errorf("look for a commit: %w", err)
	}
	args := []string{"rev-list", "--first-parent", "--format=%B%x00", "--fixed-strings", "--grep=" + effect.Trailer + key}
	if since.Unix() > 1e9 { // git would not read a smaller number as seconds
		args = append(args, fmt.Sprintf("--since=%d", since.Unix()))
	}
	out, err := r.cli.read(ctx, append(args, string(tip), "--")...)
	if err != nil {
		return "", err
	}
	for entry := range strings.SplitSeq(string(out), "\x00") {
		name, message, _ := strings.Cut(strings.TrimLeft(entry, "\n"), "\n")
		if id, is := strings.CutPrefix(name, "commit "); is && effect.Named(message) == key {
			return kernel.CommitID(id), nil
		}
	}
	return "", nil
}

// Commits returns the commits reachable from any ref that have one of the lines
// marks in their messages, oldest first: their ids and their raw objects.
func (r *Repo) Commits(ctx context.Context, marks []string) (ids []kernel.CommitID, objects [][]byte, err error) {
	args := []string{"rev-list", "--all", "--reverse", "--fixed-strings"}
	for _, m := range marks {
		args = append(args, "--grep="+m)
	}
	out, err := r.cli.read(ctx, args...)
	if err != nil {
		return nil, nil, fmt.Errorf("look for commits: %w", err)
	}
	for _, id := range strings.Fields(string(out)) {
		object, err := r.cli.read(ctx, "cat-file", "commit", id)
		if err != nil {
			return nil, nil, fmt.Errorf("read commit %s: %w", id, err)
		}
		ids, objects = append(ids, kernel.CommitID(id)), append(objects, object)
	}
	return ids, objects, nil
}

// Touched reports whether a commit changes a file outside of .vizier, among the
// commits that are reachable from tip, were made after since (in whole seconds)
// and are on no branch but the named one. With branch "", other branches make no
// difference. base and the commits reachable from it do not count, unless base is "".
func (r *Repo) Touched(ctx context.Context, tip, base kernel.CommitID, branch string, since time.Time) (bool, error) {
	if err := commits(tip); err != nil {
		return false, fmt.Errorf("look for a change: %w", err)
	}
	args := []string{"rev-list", "--max-count=1", fmt.Sprintf("--since=%d", since.Unix()), string(tip)}
	if base != "" {
		args = append(args, "^"+string(base))
	}
	if branch != "" {
		args = append(args, "--not", "--exclude="+branch, "--branches")
	}
	out, err := r.cli.read(ctx, append(args, "--", ":(top)", ":(top,exclude).vizier")...)
	return len(strings.TrimSpace(string(out))) > 0, err
}
