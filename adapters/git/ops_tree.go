package git

import (
	"bytes"
	"context"
	"errors"
	iofs "io/fs"
	"strings"

	"github.com/vizier-scheduler/vizier/kernel"
)

// HeadCommit returns the commit of the working tree at dir, or "" if its branch
// has none yet.
func (r *Repo) HeadCommit(ctx context.Context, dir string) (kernel.CommitID, error) {
	if _, commit, ok := head(dir); ok && commit != "" {
		return commit, nil
	}
	return r.cli.resolve(ctx, dir, "HEAD")
}

// resolve returns the commit that a name refers to in dir, or "".
func (c *cli) resolve(ctx context.Context, dir, name string) (kernel.CommitID, error) {
	out, err := c.run(ctx, command{dir: dir, args: []string{"rev-parse", "--quiet", "--verify", "--end-of-options", name + "^{commit}"}})
	if exitCode(err) == 1 {
		return "", nil
	}
	return kernel.CommitID(strings.TrimSpace(string(out))), err
}

// HeadBranch returns the branch that the working tree at dir has checked out,
// or "" if HEAD is detached.
func (r *Repo) HeadBranch(ctx context.Context, dir string) (string, error) {
	return r.cli.headBranch(ctx, dir)
}

func (c *cli) headBranch(ctx context.Context, dir string) (string, error) {
	if branch, _, ok := head(dir); ok {
		return branch, nil
	}
	out, err := c.run(ctx, command{dir: dir, args: []string{"symbolic-ref", "--quiet", "HEAD"}})
	if exitCode(err) == 1 {
		return "", nil
	}
	name, _ := strings.CutPrefix(strings.TrimSuffix(string(out), "\n"), "refs/heads/")
	return name, err
}

// releasedMessage is what the reflog of a worktree's head says of its Release.
const releasedMessage = "vizier: released"

// Release detaches the linked working tree at dir from its branch, at the same
// commit. Neither its files nor its index change, unless that is damaged.
func (r *Repo) Release(ctx context.Context, dir string) error {
	w, err := worktreeAt(r.root.CommonDir, dir)
	if err != nil || w.Name == "" {
		return err
	}
	why, err := r.damage(w)
	if err == nil && why != "" {
		w, err = r.mend(ctx, w, "")
	}
	if err != nil {
		return err
	}
	t := tree{cli: r.cli, w: w}
	head, err := t.head(ctx)
	if err != nil || head == "" {
		return err
	}
	_, err = r.cli.run(ctx, command{env: t.env(), writes: true,
		args: []string{"update-ref", "-m", releasedMessage, "--no-deref", "HEAD", string(head), string(head)}})
	return err
}

// Base returns the commit that the linked working tree at dir was made at, as the
// reflog of its head tells, or "" if there is none.
func (r *Repo) Base(dir string) (kernel.CommitID, error) {
	name := NameAt(dir)
	if name == "" {
		return "", nil
	}
	return r.baseOf(name)
}

func (r *Repo) baseOf(name string) (kernel.CommitID, error) {
	log, err := r.headLog(name)
	if errors.Is(err, iofs.ErrNotExist) {
		return "", nil
	}
	if f := strings.Fields(log[0]); err == nil && len(f) > 1 && strings.Trim(f[0], "0") == "" && commits(kernel.CommitID(f[1])) == nil {
		return kernel.CommitID(f[1]), nil
	}
	return "", err
}

// RestoreMissing makes the tracked files anew that the tree at dir lacks, as its index has them, and
// returns how many these were. It changes no file that is there.
func (r *Repo) RestoreMissing(ctx context.Context, dir string) (int, error) {
	out, err := r.cli.run(ctx, command{dir: dir, args: []string{"ls-files", "--deleted", "-z"}})
	if err != nil || len(out) == 0 {
		return 0, err
	}
	_, err = r.cli.run(ctx, command{dir: dir, args: []string{"checkout-index", "-z", "--stdin"}, stdin: out, quiet: true, writes: true})
	return bytes.Count(out, []byte{0}), err
}
