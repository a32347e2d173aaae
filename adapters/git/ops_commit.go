package git

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Stage records the state of paths of the working tree at dir in its index,
// directories with everything below them and removed files included; nil is
// the whole tree. Paths are relative to dir and mean what they say. force are
// paths relative to the top that are staged even if they are ignored. What is
// Vizier's own (jobs, sessions, tmp, tmp-worktrees, state) is never staged.
func (r *Repo) Stage(ctx context.Context, dir string, paths, force []string) error {
	specs := []string{":(top)"}
	if paths != nil {
		specs = specs[:0]
		for _, p := range paths {
			specs = append(specs, ":(literal)"+p)
		}
	}
	if err := r.checkInner(ctx, dir); err != nil {
		return err
	}
	own, err := r.cli.unignored(ctx, command{dir: dir}, scratch[:])
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
	return r.cli.unstage(ctx, dir)
}

// StageTracked stages every change to files that the index at dir has, removed
// ones included.
func (r *Repo) StageTracked(ctx context.Context, dir string) error {
	if err := r.checkInner(ctx, dir); err != nil {
		return err
	}
	return r.cli.add(ctx, dir, []string{":(top)"}, "--update")
}

// unignored are those of dirs, given from the top, that git does not ignore
// where at runs. To exclude one that it does ignore is an error to git add.
func (c *cli) unignored(ctx context.Context, at command, dirs []string) ([]string, error) {
	at.args = []string{"rev-parse", "--show-cdup"}
	top, err := c.run(ctx, at)
	if err != nil {
		return nil, err
	}
	up := strings.TrimSuffix(string(top), "\n")
	var in strings.Builder
	for _, d := range dirs {
		in.WriteString(up + d + "\x00")
	}
	at.args, at.stdin = []string{"check-ignore", "--no-index", "--stdin", "-z"}, []byte(in.String())
	out, err := c.run(ctx, at)
	if err != nil && exitCode(err) != 1 { // 1: none is
		return nil, err
	}
	ignored := strings.Split(string(out), "\x00")
	return slices.DeleteFunc(slices.Clone(dirs), func(d string) bool { return slices.Contains(ignored, up+d) }), nil
}

// add runs git add on pathspecs.
func (c *cli) add(ctx context.Context, dir string, specs []string, flag string) error {
	_, err := c.run(ctx, command{dir: dir, writes: true, stdin: []byte(strings.Join(specs, "\x00") + "\x00"),
		args: []string{"add", flag, "--pathspec-from-file=-", "--pathspec-file-nul"}})
	return err
}

// unstage takes out of the index what somebody else staged of Vizier's own.
func (c *cli) unstage(ctx context.Context, dir string) error {
	args := []string{"reset", "--quiet", "--"}
	for _, d := range scratch[:] {
		args = append(args, ":(top)"+d)
	}
	_, err := c.run(ctx, command{dir: dir, args: args, writes: true})
	return err
}

// StagePaths records the state of paths in dir, removed ones included, as
// theirs in the index. Paths are relative to the top of the working tree,
// which dir is. It ends their conflicts.
func (r *Repo) StagePaths(ctx context.Context, dir string, paths []string) error {
	if len(paths) == 0 {
		return nil
	}
	_, err := r.cli.run(ctx, command{dir: dir, writes: true, stdin: []byte(strings.Join(paths, "\x00") + "\x00"),
		args: []string{"update-index", "--add", "--remove", "-z", "--stdin"}})
	return err
}

// Staged reports that the index at dir differs from the commit it stands on.
func (r *Repo) Staged(ctx context.Context, dir string) (bool, error) {
	_, err := r.cli.run(ctx, command{dir: dir, args: []string{"diff", "--cached", "--quiet", "--no-ext-diff", "--ignore-submodules=none"}})
	if exitCode(err) == 1 {
		return true, nil
	}
	return false, err
}

// Commit commits the index of the working tree at dir and returns the commit.
// The repository's hooks and signing apply (semantics 3.19). Where git knows
// no identity, Vizier's is used.
func (r *Repo) Commit(ctx context.Context, dir, message string) (kernel.CommitID, error) {
	return r.commit(ctx, dir, message)
}

// Amend gives the commit that the working tree at dir stands on another
// message, as Commit would make it.
func (r *Repo) Amend(ctx context.Context, dir, message string) (kernel.CommitID, error) {
	return r.commit(ctx, dir, message, "--amend")
}

func (r *Repo) commit(ctx context.Context, dir, message string, more ...string) (kernel.CommitID, error) {
	if err := r.checkInner(ctx, dir); err != nil {
		return "", err
	}
	if err := r.cli.unstage(ctx, dir); err != nil {
		return "", err
	}
	// Git calls the index unchanged where only submodules that are configured
	// to be ignored were staged, though it has staged them.
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

// Message is a commit's message.
func (r *Repo) Message(ctx context.Context, commit kernel.CommitID) (string, error) {
	if err := commits(commit); err != nil {
		return "", fmt.Errorf("message: %w", err)
	}
	out, err := r.cli.read(ctx, "show", "--no-patch", "--no-show-signature", "--format=%B", string(commit))
	return strings.TrimSpace(string(out)), err
}

// fallbackIdentity is the environment that names Vizier as author or committer
// where git would refuse to commit for want of one, or make one up.
func (c *cli) fallbackIdentity(ctx context.Context, dir string) []string {
	var env []string
	for _, who := range []string{"AUTHOR", "COMMITTER"} {
		_, err := c.run(ctx, command{dir: dir, args: []string{"-c", "user.useConfigOnly=true", "var", "GIT_" + who + "_IDENT"}})
		if err == nil {
			continue
		}
		for _, v := range [][2]string{{"GIT_" + who + "_NAME", "Vizier"}, {"GIT_" + who + "_EMAIL", "vizier@local"}} {
			if os.Getenv(v[0]) == "" {
				env = append(env, v[0]+"="+v[1])
			}
		}
	}
	return env
}

// Marked is the newest commit reachable from tip, and made since then, whose
// message has the line mark; "" when there is none.
func (r *Repo) Marked(ctx context.Context, tip kernel.CommitID, mark string, since time.Time) (kernel.CommitID, error) {
	if err := commits(tip); err != nil {
		return "", fmt.Errorf("look for a commit: %w", err)
	}
	args := []string{"rev-list", "--max-count=1", "--fixed-strings", "--grep=" + mark}
	if since.Unix() > 1e9 { // git would take a smaller number for something else than seconds
		args = append(args, fmt.Sprintf("--since=%d", since.Unix()))
	}
	out, err := r.cli.read(ctx, append(args, string(tip), "--")...)
	return kernel.CommitID(strings.TrimSpace(string(out))), err
}

// Commits are the commits reachable from any ref whose message has one of the lines marks,
// each as git keeps it, oldest first.
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

// Touched reports that a commit that leads to tip, was made since then and is on
// no other branch than that of the name changes a file outside of .vizier. Times
// count in seconds. Without a name the other branches are not looked at.
func (r *Repo) Touched(ctx context.Context, tip kernel.CommitID, branch string, since time.Time) (bool, error) {
	if err := commits(tip); err != nil {
		return false, fmt.Errorf("look for a change: %w", err)
	}
	args := []string{"rev-list", "--max-count=1", fmt.Sprintf("--since=%d", since.Unix()), string(tip)}
	if branch != "" {
		args = append(args, "--not", "--exclude="+branch, "--branches")
	}
	out, err := r.cli.read(ctx, append(args, "--", ":(top)", ":(top,exclude).vizier")...)
	return len(strings.TrimSpace(string(out))) > 0, err
}
