package op

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// flaky is git, of which one call fails before it does anything.
type flaky struct {
	Git
	calls []string
	at    int // the call that fails, from 1; 0: none
}

func (g *flaky) fails(what string) error {
	if g.calls = append(g.calls, what); len(g.calls) == g.at {
		return errFaulty
	}
	return nil
}

// Whichever call of git fails, an operation says so, or has done the same as without that. A retry does what is
// left.
func TestWhicheverCallOfGitFails(t *testing.T) {
	resolvedBy := func(text string) func(*world) *Node {
		return func(w *world) *Node {
			w.env.Shell = script{}
			n := w.merge(nil)
			w.want(n, kernel.OutcomeBlocked)
			return w.conflictGate(n, map[string]string{"auto_resolve": "true", "auto_resolve_script": text})
		}
	}
	resumed := func(squash string) func(*world) *Node {
		return func(w *world) *Node {
			n := w.merge(map[string]string{"squash": squash, "delete_branch": "true"})
			w.want(n, kernel.OutcomeBlocked)
			w.resolve(n, "both\n")
			n.Job.State.Generation++
			return n
		}
	}
	committed := func(message string) func(*world) *Node {
		return func(w *world) *Node {
			dir, r := w.prepared(map[string]string{"slug": "foo"})
			w.write(dir, "new.txt", "new\n")
			n := w.node("git.stage_commit", map[string]string{"message": message}).in(dir)
			n.Job.State.Context = *r.Context
			return n
		}
	}
	moves := func(file, squash string) func(*world) *Node { // the target moves once, just before it is advanced
		return func(w *world) *Node {
			w.git(w.dir, "switch", "--quiet", "--create", "mine")
			moved := false
			w.env.Git = &moving{Git: w.env.Git, move: func(branch string) {
				if branch == "main" && !moved {
					moved = true
					dir := filepath.Join(w.TempDir(), "main")
					w.git(w.dir, "worktree", "add", "--quiet", dir, "main")
					w.commit(dir, file, "ours\n")
					w.git(w.dir, "worktree", "remove", "--force", dir)
				}
			}}
			return w.merge(map[string]string{"squash": squash})
		}
	}
	changing := func(t *testing.T) *world {
		return worldLike(t, "change", newWorld, func(w *world) { w.plan(map[string]string{"readme.txt": "theirs\n"}) })
	}
	tried := map[string]bool{} // what was called until the failure
	for _, c := range []struct {
		name  string
		world func(*testing.T) *world
		node  func(*world) *Node
		how   kernel.Outcome
	}{
		{"a target that moves", changing, moves("other.txt", "true"), kernel.OutcomeSucceeded},
		{"a target that moves into a conflict with a squash", changing, moves("readme.txt", "true"), kernel.OutcomeBlocked},
		{"a target that moves into a conflict with a merge", changing, moves("readme.txt", "false"), kernel.OutcomeBlocked},
		{"a merge with two parents", planned, func(w *world) *Node { return w.merge(map[string]string{"squash": "false", "delete_branch": "true"}) }, kernel.OutcomeSucceeded},
		{"a merge that is checked", planned, func(w *world) *Node { w.env.Shell = script{}; return w.merge(nil).gatedBy("true", "block") }, kernel.OutcomeSucceeded},
		{"a conflict", conflicting, func(w *world) *Node { return w.merge(nil) }, kernel.OutcomeBlocked},
		{"a squash that goes on", conflicting, resumed("true"), kernel.OutcomeSucceeded},
		{"a merge that goes on", conflicting, resumed("false"), kernel.OutcomeSucceeded},
		{"a merge in whose place something else was committed", conflicting, func(w *world) *Node {
			n := resumed("false")(w)
			w.git(w.mergeDir(n), "reset", "--quiet", "--merge")
			w.commit(w.mergeDir(n), "other.txt", "other\n")
			return n
		}, kernel.OutcomeBlocked},
		{"a gate of a conflict", conflicting, resolvedBy("echo both > readme.txt"), kernel.OutcomeSucceeded},
		{"a gate that resolves none", conflicting, resolvedBy("true"), kernel.OutcomeBlocked},
		{"a gate of a branch", newWorld, func(w *world) *Node { w.env.Shell = script{}; return w.judge("test -f readme.txt", nil) }, kernel.OutcomeSucceeded},
		{"a commit of a worktree", newWorld, committed("feat: new"), kernel.OutcomeSucceeded},
		{"a commit of nothing", newWorld, func(w *world) *Node { return w.node("git.stage_commit", map[string]string{"message": "feat: new"}) }, kernel.OutcomeSucceeded},
		{"a plan", newWorld, func(w *world) *Node {
			return w.node("plan.persist", map[string]string{"name_override": "foo", "spec_text": "a"})
		}, kernel.OutcomeSucceeded},
		{"a worktree", newWorld, func(w *world) *Node { return w.node("worktree.prepare", map[string]string{"slug": "foo"}) }, kernel.OutcomeSucceeded},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := c.world(t)
			n := c.node(w)
			g := &flaky{Git: w.env.Git}
			w.env.Git = g
			first := w.run(n)
			if first.Outcome != c.how {
				t.Fatalf("%v (%s)\n%s", first.Outcome, first.Reason, w.stderr)
			}
			want, calls := w.standing(), g.calls
			if len(calls) < 3 {
				t.Fatalf("git was called %d times", len(calls))
			}
			every := 6
			if os.Getenv("VIZIER_LONG") != "" {
				every = 1
			}
			for i := 0; i < len(calls); i += every {
				where := calls[i]
				until := strings.Join(calls[:i+1], " ")
				if tried[until] {
					continue // which bounds the time
				}
				tried[until] = true
				w := c.world(t)
				n := c.node(w)
				g := &flaky{Git: w.env.Git, at: i + 1}
				w.env.Git = g
				w.stderr.Reset()
				r := w.run(n)
				told := strings.Contains(r.Reason+w.stderr.String(), errFaulty.Error())
				if !told && (r.Outcome != c.how || w.standing() != want) || r.Outcome != kernel.OutcomeSucceeded && r.Reason == "" {
					t.Errorf("%s fails, call %d of %d: %v (%s)\n%s", where, i+1, len(calls), r.Outcome, r.Reason, w.stderr)
				}
				if slices.Contains([]kernel.Outcome{kernel.OutcomeSucceeded, c.how}, r.Outcome) {
					continue
				}
				n.Job.State.Generation++
				if r := w.run(n); r.Outcome != c.how || w.standing() != want {
					t.Errorf("%s failed, call %d of %d, and a retry: %v (%s)\n%s\nand not\n%s", where, i+1, len(calls), r.Outcome, r.Reason, w.standing(), want)
				}
			}
		})
	}
}

func (g *flaky) Heads(ctx context.Context, branches []string) (out map[string]kernel.CommitID, err error) {
	if err = g.fails("Heads"); err != nil {
		return out, err
	}
	return g.Git.Heads(ctx, branches)
}

func (g *flaky) LastTip(ctx context.Context, branch string) (out kernel.CommitID, err error) {
	if err = g.fails("LastTip"); err != nil {
		return out, err
	}
	return g.Git.LastTip(ctx, branch)
}

func (g *flaky) Head(ctx context.Context) (out string, err error) {
	if err = g.fails("Head"); err != nil {
		return out, err
	}
	return g.Git.Head(ctx)
}

func (g *flaky) CreateBranch(ctx context.Context, name string, at kernel.CommitID) error {
	if err := g.fails("CreateBranch"); err != nil {
		return err
	}
	return g.Git.CreateBranch(ctx, name, at)
}

func (g *flaky) DeleteBranch(ctx context.Context, name string, old kernel.CommitID) error {
	if err := g.fails("DeleteBranch"); err != nil {
		return err
	}
	return g.Git.DeleteBranch(ctx, name, old)
}

func (g *flaky) Obstacle(ctx context.Context, branch string) (out string, err error) {
	if err = g.fails("Obstacle"); err != nil {
		return out, err
	}
	return g.Git.Obstacle(ctx, branch)
}

func (g *flaky) Advance(ctx context.Context, branch string, from, to kernel.CommitID) (obstacle string, moved bool, err error) {
	if err = g.fails("Advance"); err != nil {
		return obstacle, moved, err
	}
	return g.Git.Advance(ctx, branch, from, to)
}

func (g *flaky) EndAdvance(ctx context.Context, branch string) (obstacle string, err error) {
	if err = g.fails("EndAdvance"); err != nil {
		return obstacle, err
	}
	return g.Git.EndAdvance(ctx, branch)
}

func (g *flaky) Keep(ctx context.Context, commit kernel.CommitID) error {
	if err := g.fails("Keep"); err != nil {
		return err
	}
	return g.Git.Keep(ctx, commit)
}

func (g *flaky) IsAncestor(ctx context.Context, commit, tip kernel.CommitID) (out bool, err error) {
	if err = g.fails("IsAncestor"); err != nil {
		return out, err
	}
	return g.Git.IsAncestor(ctx, commit, tip)
}

func (g *flaky) Parent(ctx context.Context, commit kernel.CommitID) (out kernel.CommitID, err error) {
	if err = g.fails("Parent"); err != nil {
		return out, err
	}
	return g.Git.Parent(ctx, commit)
}

func (g *flaky) FileAt(ctx context.Context, commit kernel.CommitID, path string) (out []byte, err error) {
	if err = g.fails("FileAt"); err != nil {
		return out, err
	}
	return g.Git.FileAt(ctx, commit, path)
}

func (g *flaky) LastFile(ctx context.Context, tip, base kernel.CommitID, path string) (out []byte, err error) {
	if err = g.fails("LastFile"); err != nil {
		return out, err
	}
	return g.Git.LastFile(ctx, tip, base, path)
}

func (g *flaky) Marked(ctx context.Context, tip kernel.CommitID, mark string, since time.Time) (out kernel.CommitID, err error) {
	if err = g.fails("Marked"); err != nil {
		return out, err
	}
	return g.Git.Marked(ctx, tip, mark, since)
}

func (g *flaky) Containing(ctx context.Context, commit kernel.CommitID, except string) (out []string, err error) {
	if err = g.fails("Containing"); err != nil {
		return out, err
	}
	return g.Git.Containing(ctx, commit, except)
}

func (g *flaky) Touched(ctx context.Context, tip, base kernel.CommitID, branch string, since time.Time) (out bool, err error) {
	if err = g.fails("Touched"); err != nil {
		return out, err
	}
	return g.Git.Touched(ctx, tip, base, branch, since)
}

func (g *flaky) HeadCommit(ctx context.Context, dir string) (out kernel.CommitID, err error) {
	if err = g.fails("HeadCommit"); err != nil {
		return out, err
	}
	return g.Git.HeadCommit(ctx, dir)
}

func (g *flaky) HeadBranch(ctx context.Context, dir string) (out string, err error) {
	if err = g.fails("HeadBranch"); err != nil {
		return out, err
	}
	return g.Git.HeadBranch(ctx, dir)
}

func (g *flaky) Base(dir string) (out kernel.CommitID, err error) {
	if err = g.fails("Base"); err != nil {
		return out, err
	}
	return g.Git.Base(dir)
}

func (g *flaky) Standing(ctx context.Context, branch string) (dirs []string, obstacle string, err error) {
	if err = g.fails("Standing"); err != nil {
		return dirs, obstacle, err
	}
	return g.Git.Standing(ctx, branch)
}

func (g *flaky) WorktreeNamed(name string) (dir string, err error) {
	if err = g.fails("WorktreeNamed"); err != nil {
		return "", err
	}
	return g.Git.WorktreeNamed(name)
}

func (g *flaky) OwnedWorktree(name string) (out kernel.Context, err error) {
	if err = g.fails("OwnedWorktree"); err != nil {
		return out, err
	}
	return g.Git.OwnedWorktree(name)
}

func (g *flaky) Damage(c kernel.Context) (why string, stays bool, err error) {
	if err = g.fails("Damage"); err != nil {
		return why, stays, err
	}
	return g.Git.Damage(c)
}

func (g *flaky) EnsureWorktree(ctx context.Context, name, place, branch string, commit kernel.CommitID) (out kernel.Context, err error) {
	if err = g.fails("EnsureWorktree"); err != nil {
		return out, err
	}
	return g.Git.EnsureWorktree(ctx, name, place, branch, commit)
}

func (g *flaky) Detach(ctx context.Context, dir string, commit kernel.CommitID) error {
	if err := g.fails("Detach"); err != nil {
		return err
	}
	return g.Git.Detach(ctx, dir, commit)
}

func (g *flaky) Release(ctx context.Context, dir string) error {
	if err := g.fails("Release"); err != nil {
		return err
	}
	return g.Git.Release(ctx, dir)
}

func (g *flaky) DropStaleLocks(dir string, before time.Time) error {
	if err := g.fails("DropStaleLocks"); err != nil {
		return err
	}
	return g.Git.DropStaleLocks(dir, before)
}

func (g *flaky) DropStaleRefLocks(branches []string, before time.Time) error {
	if err := g.fails("DropStaleRefLocks"); err != nil {
		return err
	}
	return g.Git.DropStaleRefLocks(branches, before)
}

func (g *flaky) Stage(ctx context.Context, dir string, paths, force []string) error {
	if err := g.fails("Stage"); err != nil {
		return err
	}
	return g.Git.Stage(ctx, dir, paths, force)
}

func (g *flaky) StageTracked(ctx context.Context, dir string) error {
	if err := g.fails("StageTracked"); err != nil {
		return err
	}
	return g.Git.StageTracked(ctx, dir)
}

func (g *flaky) Unstaged(ctx context.Context, dir string) (tracked, untracked []string, err error) {
	if err = g.fails("Unstaged"); err != nil {
		return tracked, untracked, err
	}
	return g.Git.Unstaged(ctx, dir)
}

func (g *flaky) Uncommitted(ctx context.Context, dir string) (out []string, err error) {
	if err = g.fails("Uncommitted"); err != nil {
		return out, err
	}
	return g.Git.Uncommitted(ctx, dir)
}

func (g *flaky) Untracked(ctx context.Context, dir string) (out []string, err error) {
	if err = g.fails("Untracked"); err != nil {
		return out, err
	}
	return g.Git.Untracked(ctx, dir)
}

func (g *flaky) Staged(ctx context.Context, dir string) (out bool, err error) {
	if err = g.fails("Staged"); err != nil {
		return out, err
	}
	return g.Git.Staged(ctx, dir)
}

func (g *flaky) Leftover(ctx context.Context, dir string) (out []string, err error) {
	if err = g.fails("Leftover"); err != nil {
		return out, err
	}
	return g.Git.Leftover(ctx, dir)
}

func (g *flaky) Commit(ctx context.Context, dir, message string) (out kernel.CommitID, err error) {
	if err = g.fails("Commit"); err != nil {
		return out, err
	}
	return g.Git.Commit(ctx, dir, message)
}

func (g *flaky) Amend(ctx context.Context, dir, message string) (out kernel.CommitID, err error) {
	if err = g.fails("Amend"); err != nil {
		return out, err
	}
	return g.Git.Amend(ctx, dir, message)
}

func (g *flaky) Message(ctx context.Context, commit kernel.CommitID) (out string, err error) {
	if err = g.fails("Message"); err != nil {
		return out, err
	}
	return g.Git.Message(ctx, commit)
}

func (g *flaky) RemoveFile(ctx context.Context, dir, path string) error {
	if err := g.fails("RemoveFile"); err != nil {
		return err
	}
	return g.Git.RemoveFile(ctx, dir, path)
}

func (g *flaky) Merge(ctx context.Context, dir string, source kernel.CommitID, squash bool) error {
	if err := g.fails("Merge"); err != nil {
		return err
	}
	return g.Git.Merge(ctx, dir, source, squash)
}

func (g *flaky) Related(ctx context.Context, a, b kernel.CommitID) (out bool, err error) {
	if err = g.fails("Related"); err != nil {
		return out, err
	}
	return g.Git.Related(ctx, a, b)
}

func (g *flaky) Merging(ctx context.Context, dir string) (out bool, err error) {
	if err = g.fails("Merging"); err != nil {
		return out, err
	}
	return g.Git.Merging(ctx, dir)
}

func (g *flaky) Squashing(ctx context.Context, dir string) (out bool, err error) {
	if err = g.fails("Squashing"); err != nil {
		return out, err
	}
	return g.Git.Squashing(ctx, dir)
}

func (g *flaky) Rebasing(ctx context.Context, dir string) (out bool, err error) {
	if err = g.fails("Rebasing"); err != nil {
		return out, err
	}
	return g.Git.Rebasing(ctx, dir)
}

func (g *flaky) Sparse(ctx context.Context, dir string) (out bool, err error) {
	if err = g.fails("Sparse"); err != nil {
		return out, err
	}
	return g.Git.Sparse(ctx, dir)
}

func (g *flaky) Unmerged(ctx context.Context, dir string) (out []string, err error) {
	if err = g.fails("Unmerged"); err != nil {
		return out, err
	}
	return g.Git.Unmerged(ctx, dir)
}

func (g *flaky) MergeState(ctx context.Context, dir string) (source, target, merged kernel.CommitID, err error) {
	if err = g.fails("MergeState"); err != nil {
		return source, target, merged, err
	}
	return g.Git.MergeState(ctx, dir)
}

func (g *flaky) SetMergeState(ctx context.Context, dir string, source, target, merged kernel.CommitID) error {
	if err := g.fails("SetMergeState"); err != nil {
		return err
	}
	return g.Git.SetMergeState(ctx, dir, source, target, merged)
}

func (g *flaky) Remember(ctx context.Context, dir string, confined bool) error {
	if err := g.fails("Remember"); err != nil {
		return err
	}
	return g.Git.Remember(ctx, dir, confined)
}

func (g *flaky) PutBack(ctx context.Context, dir string) (changed bool, err error) {
	if err = g.fails("PutBack"); err != nil {
		return changed, err
	}
	return g.Git.PutBack(ctx, dir)
}

func (g *flaky) Forget(ctx context.Context, dir string) error {
	if err := g.fails("Forget"); err != nil {
		return err
	}
	return g.Git.Forget(ctx, dir)
}

func (g *flaky) Settle(ctx context.Context, dir string, resolved []string) error {
	if err := g.fails("Settle"); err != nil {
		return err
	}
	return g.Git.Settle(ctx, dir, resolved)
}

func (g *flaky) Replay(ctx context.Context, merged, from, onto kernel.CommitID) (out kernel.CommitID, err error) {
	if err = g.fails("Replay"); err != nil {
		return out, err
	}
	return g.Git.Replay(ctx, merged, from, onto)
}

func (g *flaky) Patch(ctx context.Context, dir string) (out []byte, err error) {
	if err = g.fails("Patch"); err != nil {
		return out, err
	}
	return g.Git.Patch(ctx, dir)
}

func (g *flaky) Apply(ctx context.Context, dir string, patch []byte) error {
	if err := g.fails("Apply"); err != nil {
		return err
	}
	return g.Git.Apply(ctx, dir, patch)
}

func (g *flaky) Applied(ctx context.Context, dir string, patch []byte) (out bool, err error) {
	if err = g.fails("Applied"); err != nil {
		return out, err
	}
	return g.Git.Applied(ctx, dir, patch)
}
