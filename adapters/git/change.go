package git

import (
	"context"
	"fmt"
	"strings"

	"github.com/vizier-scheduler/vizier/kernel"
)

func (c *cli) CreateBranch(ctx context.Context, name string, at kernel.CommitID) error {
	if !validBranch(name) {
		return fmt.Errorf("create branch %q: git does not allow this name", name)
	}
	if err := c.moveRef(ctx, "refs/heads/"+name, at, ""); err != nil {
		return fmt.Errorf("create branch %s: %w", name, err)
	}
	return nil
}

func (c *cli) DeleteBranch(ctx context.Context, name string, old kernel.CommitID) error {
	if err := c.deletable(ctx, name, old); err != nil {
		return err
	}
	if err := c.moveRef(ctx, "refs/heads/"+name, "", old); err != nil {
		return fmt.Errorf("delete branch %s: %w", name, err)
	}
	return nil
}

// deletable returns why a branch cannot be deleted at old, or nil.
func (c *cli) deletable(ctx context.Context, name string, old kernel.CommitID) error {
	if !validBranch(name) {
		return fmt.Errorf("delete branch %q: git does not allow this name", name)
	}
	err := commits(old)
	if err == nil {
		var where string
		if where, err = c.checkedOut(ctx, name); err == nil && where != "" {
			err = fmt.Errorf("%w in %s", ErrCheckedOut, where)
		}
	}
	if err != nil {
		return fmt.Errorf("delete branch %s: %w", name, err)
	}
	return nil
}

func (c *cli) UpdateRef(ctx context.Context, ref string, to, from kernel.CommitID) error {
	err := commits(to, from)
	if err == nil {
		err = c.moveRef(ctx, ref, to, from)
	}
	if err != nil {
		return fmt.Errorf("update %s: %w", ref, err)
	}
	return nil
}

// moveRef is the compare-and-swap of refs: to "" deletes, from "" creates.
func (c *cli) moveRef(ctx context.Context, ref string, to, from kernel.CommitID) error {
	if rest, ok := strings.CutPrefix(ref, "refs/"); !ok || !validBranch(rest) {
		return fmt.Errorf("%q is no full ref name", ref)
	}
	var line string
	var ids []kernel.CommitID
	switch {
	case from == "":
		line, ids = "create "+ref+"\x00"+string(to)+"\x00", []kernel.CommitID{to}
	case to == "":
		line, ids = "delete "+ref+"\x00"+string(from)+"\x00", []kernel.CommitID{from}
	default:
		line, ids = "update "+ref+"\x00"+string(to)+"\x00"+string(from)+"\x00", []kernel.CommitID{to, from}
	}
	if err := commits(ids...); err != nil {
		return err
	}
	_, err := c.run(ctx, command{args: []string{"update-ref", "-m", "vizier", "--stdin", "-z"},
		stdin: []byte(line), writes: true})
	if exitCode(err) < 0 {
		return err
	}
	// To find out whether somebody else was faster, read the ref instead of
	// parsing the message.
	now, readErr := c.refAt(ctx, ref)
	switch {
	case readErr != nil || now == from:
		return err
	case now == "":
		return fmt.Errorf("%w: it does not exist", ErrMoved)
	default:
		return fmt.Errorf("%w: it is at %s", ErrMoved, now)
	}
}

// refAt returns the value of a ref, given by its full name, or "" if it does
// not exist.
func (c *cli) refAt(ctx context.Context, ref string) (kernel.CommitID, error) {
	out, err := c.read(ctx, "for-each-ref", "--format=%(objectname) %(refname)", ref)
	for line := range strings.Lines(string(out)) {
		if id, name, _ := strings.Cut(strings.TrimSpace(line), " "); name == ref {
			return kernel.CommitID(id), err
		}
	}
	return "", err
}

// checkedOut returns a working tree that has branch checked out or rebases it, or "".
func (c *cli) checkedOut(ctx context.Context, branch string) (string, error) {
	head, err := c.Head(ctx)
	if err != nil {
		return "", err
	}
	if head == branch || rebases(c.root.CommonDir, branch) {
		return c.root.Dir, nil
	}
	all, err := worktrees(c.root.CommonDir)
	if err != nil {
		return "", err
	}
	for _, w := range all {
		if w.Branch == branch || rebases(w.gitDir, branch) {
			return w.Path, nil
		}
	}
	return "", nil
}

// forget is the last resort for a worktree that could not be pruned (seed 000).
func (c *cli) forget(ctx context.Context, w Worktree) error {
	_, removed := c.run(ctx, command{args: []string{"worktree", "remove", "--force", "--", w.Path}, writes: true})
	_, pruned := c.run(ctx, command{args: []string{"worktree", "prune", "--expire", "now"}, writes: true})
	if pruned != nil {
		return fmt.Errorf("%w; %w", removed, pruned)
	}
	return removed
}
