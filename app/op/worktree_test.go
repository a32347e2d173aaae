package op

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vizier-scheduler/vizier/internal/disktest"
	"github.com/vizier-scheduler/vizier/kernel"
)

func TestPrepareAndCleanUpAWorktree(t *testing.T) {
	w := newWorld(t)
	n := w.node("worktree.prepare", map[string]string{"slug": "foo", "purpose": "stage/draft"})
	r := w.want(n, kernel.OutcomeSucceeded)
	rel := ".vizier/tmp-worktrees/stage-draft-draft-foo"
	want := kernel.Context{Root: rel, Worktree: rel, Name: "stage-draft-" + string(n.Job.ID), Branch: "draft/foo", Owned: true}
	if *r.Context != want {
		t.Errorf("context %+v, want %+v", *r.Context, want)
	}
	dir := filepath.Join(w.dir, rel)
	if w.git(dir, "symbolic-ref", "HEAD") != "refs/heads/draft/foo" || w.rev("draft/foo") != w.rev("main") {
		t.Error("the worktree is not on a new branch at main")
	}
	w.write(dir, "work.txt", "mine")
	again := w.want(n, kernel.OutcomeSucceeded)
	if *again.Context != want || w.read(dir, "work.txt") != "mine" {
		t.Error("executing it again did not keep the worktree")
	}

	c := w.node("worktree.cleanup", nil)
	w.want(c, kernel.OutcomeSucceeded, "skipped")
	c.Job.State.Context = *r.Context
	c.Job.State.Context.Owned = false
	for range 2 {
		r := w.want(c, kernel.OutcomeSucceeded, "removed")
		if r.Context == nil || *r.Context != (kernel.Context{}) {
			t.Errorf("context after cleanup: %+v", r.Context)
		}
	}
	if w.there(w.dir, rel) || !w.has("draft/foo") {
		t.Error("the worktree is there, or its branch is not")
	}
	if kept := w.git(w.dir, "for-each-ref", "--format=%(refname)", "refs/vizier/parked"); kept == "" {
		t.Error("uncommitted work was not parked")
	}
}

// A plan begins at the branch that it was queued from, as that is now, whatever is checked out by then.
func TestAPlanBeginsWhereItWasQueued(t *testing.T) {
	w := newWorld(t)
	w.git(w.dir, "switch", "--quiet", "--create", "other")
	w.commit(w.dir, "other.txt", "x\n")
	w.git(w.dir, "branch", "later", "main")
	tree := filepath.Join(t.TempDir(), "later")
	w.git(w.dir, "worktree", "add", "--quiet", tree, "later")
	w.commit(tree, "later.txt", "x\n")
	for from, want := range map[string]string{"main": "main", "later": "later", "": "other"} {
		n := w.node("worktree.prepare", map[string]string{"slug": "of-" + want, "from": from})
		w.want(n, kernel.OutcomeSucceeded)
		if w.rev("draft/of-"+want) != w.rev(want) {
			t.Errorf("from %q it begins at %s", from, w.rev("draft/of-"+want))
		}
	}
	w.want(w.node("worktree.prepare", map[string]string{"slug": "none", "from": "gone"}), kernel.OutcomeFailed, "branch gone, at which it begins, is gone", "`git branch gone COMMIT`")
	was := w.rev("other")
	w.git(w.dir, "switch", "--quiet", "main")
	w.git(w.dir, "branch", "--quiet", "-D", "other")
	w.want(w.node("worktree.prepare", map[string]string{"slug": "none", "from": "other"}), kernel.OutcomeFailed, "`git branch other "+was+"`")
}

// What agents keep by directory is kept once for a stage of a plan, however many
// runs it has; and a cleanup of an earlier one that comes late takes nothing
// from a later one.
func TestRunsOfAPlanWorkInOnePlace(t *testing.T) {
	w := newWorld(t)
	var before kernel.Context
	for range 3 {
		dir, r := w.prepared(map[string]string{"slug": "foo", "purpose": "stage"})
		if r.Context.Worktree != ".vizier/tmp-worktrees/stage-draft-foo" || r.Context.Name == before.Name {
			t.Fatalf("context %+v after %+v", r.Context, before)
		}
		c := w.node("worktree.cleanup", nil)
		if c.Job.State.Context = before; before.Name != "" {
			w.want(c, kernel.OutcomeSucceeded)
		}
		if w.read(dir, "readme.txt") != "one\n" || w.git(dir, "symbolic-ref", "HEAD") != "refs/heads/draft/foo" {
			t.Fatal("the earlier run took the later one's worktree")
		}
		c.Job.State.Context = *r.Context
		w.want(c, kernel.OutcomeSucceeded, "removed")
		before = *r.Context
	}
	w.tidy()
}

func TestPrepareDeterminesTheBranch(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		args   map[string]string
		origin kernel.Origin
		want   string
	}{
		{map[string]string{"branch": "b/1", "slug": "s"}, kernel.Origin{Branch: "o"}, "b/1"},
		{map[string]string{"slug": "s"}, kernel.Origin{Branch: "o"}, "draft/s"},
		{map[string]string{"plan": "p"}, kernel.Origin{}, "draft/p"},
		{nil, kernel.Origin{Branch: "o", Plan: "p"}, "o"},
		{nil, kernel.Origin{Plan: "q"}, "draft/q"},
	} {
		n := w.node("worktree.prepare", c.args)
		n.Job.Spec.Origin = c.origin
		if r := w.want(n, kernel.OutcomeSucceeded); r.Context.Branch != c.want {
			t.Errorf("%v %v: branch %s, want %s", c.args, c.origin, r.Context.Branch, c.want)
		}
	}
	w.want(w.node("worktree.prepare", nil), kernel.OutcomeFailed, "could not determine branch")
}

func TestPrepareSaysWhatIsWrong(t *testing.T) {
	w := newEmptyWorld(t)
	w.want(w.node("worktree.prepare", map[string]string{"slug": "s"}), kernel.OutcomeFailed, "no commit to start it from")

	w = newWorld(t)
	w.want(w.node("worktree.prepare", map[string]string{"branch": "bad..name"}), kernel.OutcomeFailed, "could not ensure branch")
	w.write(w.dir, "readme.txt", "operator's\n")
	before := w.photograph()
	w.want(w.node("worktree.prepare", map[string]string{"branch": "main"}), kernel.OutcomeFailed, "checked out in "+w.dir, "switch")
	w.unchanged(before)

	w.git(w.dir, "checkout", "--quiet", "--detach")
	dir, _ := w.prepared(map[string]string{"branch": "main"})
	if w.git(dir, "symbolic-ref", "HEAD") != "refs/heads/main" {
		t.Error("a branch that the operator left cannot be had")
	}
}

func TestPrepareAfterACrash(t *testing.T) {
	for name, spoil := range map[string]func(w *world, dir string){
		"branch made, no worktree": func(w *world, dir string) { w.git(w.dir, "worktree", "remove", "--force", dir) },
		"half a checkout": func(w *world, dir string) {
			w.write(w.git(dir, "rev-parse", "--git-dir"), "locked", "initializing")
			os.Remove(filepath.Join(dir, "readme.txt"))
		},
		"files gone":      func(_ *world, dir string) { os.RemoveAll(dir) },
		"empty directory": func(w *world, dir string) { w.git(w.dir, "worktree", "remove", "--force", dir); os.Mkdir(dir, 0o755) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			n := w.node("worktree.prepare", map[string]string{"slug": "foo"})
			r := w.want(n, kernel.OutcomeSucceeded)
			dir := filepath.Join(w.dir, r.Context.Root)
			spoil(w, dir)
			w.want(n, kernel.OutcomeSucceeded)
			if w.read(dir, "readme.txt") != "one\n" || w.git(dir, "status", "--porcelain") != "" {
				t.Error("the worktree is not whole")
			}
		})
	}
}

// A later run takes the branch; the earlier run's worktree keeps its work and
// can no longer commit to the branch what the later one has moved on from.
func TestPrepareTakesTheBranchFromAnEarlierJob(t *testing.T) {
	w := newWorld(t)
	old, first := w.prepared(map[string]string{"slug": "foo"})
	w.write(old, "left.txt", "unsaved\n")
	dir, _ := w.prepared(map[string]string{"slug": "foo"})
	if w.git(dir, "symbolic-ref", "HEAD") != "refs/heads/draft/foo" || w.read(old, "left.txt") != "unsaved\n" {
		t.Fatal("the branch was not handed over, or work was lost")
	}
	w.commit(dir, "new.txt", "new\n")
	tip := w.rev("draft/foo")

	n := w.node("git.stage_commit", nil).in(old)
	n.Job.State.Context = *first.Context
	w.want(n, kernel.OutcomeFailed, "not on branch draft/foo any more")
	if w.rev("draft/foo") != tip {
		t.Error("the stale worktree moved the branch")
	}
}

// leaving is git that cannot take a tree off its branch. Its own run may have removed the tree meanwhile.
type leaving struct {
	Git
	meanwhile func(dir string)
	unread    bool // nor can it tell who is on the branch since
	asked     bool
}

func (l *leaving) Release(_ context.Context, dir string) error {
	l.meanwhile(dir)
	l.asked = true
	return errFaulty
}

func (l *leaving) Standing(ctx context.Context, branch string) ([]string, string, error) {
	if l.asked && l.unread {
		return nil, "", errFaulty
	}
	return l.Git.Standing(ctx, branch)
}

// A branch that cannot be taken from an earlier job is not taken, unless that job's tree has gone by itself.
func TestPrepareWhereTheEarlierTreeDoesNotLeave(t *testing.T) {
	for name, c := range map[string]struct{ goes, unread bool }{"it stays": {}, "it goes": {goes: true}, "nobody knows": {goes: true, unread: true}} {
		w := newWorld(t)
		w.prepared(map[string]string{"slug": "foo"})
		w.env.Git = &leaving{Git: w.env.Git, unread: c.unread, meanwhile: func(dir string) {
			if c.goes {
				w.git(w.dir, "worktree", "remove", "--force", dir)
			}
		}}
		r := w.run(w.node("worktree.prepare", map[string]string{"slug": "foo"}))
		if went := c.goes && !c.unread; went != (r.Outcome == kernel.OutcomeSucceeded) || !went && !strings.Contains(r.Reason, "off branch draft/foo") {
			t.Errorf("%s: %v (%s)", name, r.Outcome, r.Reason)
		}
	}
}

func TestCleanUpRefusesWhatIsNotItsOwn(t *testing.T) {
	w := newWorld(t)
	c := w.node("worktree.cleanup", nil)
	c.Job.State.Context = kernel.Context{Worktree: "."}
	w.want(c, kernel.OutcomeFailed, "not below")
	if !strings.Contains(w.read(w.dir, "readme.txt"), "one") {
		t.Error("the repository is gone")
	}
}

// A tree of an earlier job that lost its file .git is taken off the branch by itself, and not the main
// working tree, in which git would work from there.
func TestPrepareTakesTheBranchFromADamagedTree(t *testing.T) {
	w := newWorld(t)
	old, _ := w.prepared(map[string]string{"slug": "foo"})
	w.write(old, "left.txt", "unsaved\n")
	if err := os.Remove(filepath.Join(old, ".git")); err != nil {
		t.Fatal(err)
	}
	dir, _ := w.prepared(map[string]string{"slug": "foo"})
	if w.git(dir, "symbolic-ref", "HEAD") != "refs/heads/draft/foo" || w.git(w.dir, "symbolic-ref", "HEAD") != "refs/heads/main" || w.read(old, "left.txt") != "unsaved\n" {
		t.Error("the branch was not handed over, or the operator's working tree changed, or work was lost")
	}
}

// No command is advised that git would carry out in another working tree.
func TestPrepareNamesATreeWithoutItsLink(t *testing.T) {
	w := newWorld(t)
	w.git(w.dir, "branch", "b")
	tree := filepath.Join(w.dir, "tree")
	w.git(w.dir, "worktree", "add", "--quiet", tree, "b")
	if err := os.Remove(filepath.Join(tree, ".git")); err != nil {
		t.Fatal(err)
	}
	n := w.node("worktree.prepare", map[string]string{"branch": "b"})
	if r := w.want(n, kernel.OutcomeFailed, tree, "`git worktree repair`"); strings.Contains(r.Reason, "switch") {
		t.Error(r.Reason)
	}
	w.git(w.dir, "worktree", "repair")
	w.want(n, kernel.OutcomeFailed, "`git -C "+tree+" switch OTHER`")
}

// A node whose worktree is damaged says so, and its retry begins where the worktree is made, which makes
// it anew.
func TestANodeInADamagedWorktree(t *testing.T) {
	w := newWorld(t)
	prepare := w.node("worktree.prepare", map[string]string{"slug": "foo"})
	made := w.want(prepare, kernel.OutcomeSucceeded)
	dir := filepath.Join(w.dir, made.Context.Root)
	w.write(dir, "work.txt", "mine\n")
	if err := os.Truncate(filepath.Join(w.git(dir, "rev-parse", "--git-dir"), "index"), 0); err != nil {
		t.Fatal(err)
	}
	n := w.node("git.stage_commit", nil).in(dir)
	n.Job.State.Context = *made.Context
	r := w.want(n, kernel.OutcomeFailed, "worktree "+made.Context.Worktree+" cannot be used: its index is damaged")
	if r.Context == nil || *r.Context != (kernel.Context{}) {
		t.Errorf("context %+v", r.Context)
	}
	again := w.want(prepare, kernel.OutcomeSucceeded)
	if *again.Context != *made.Context || w.git(dir, "status", "--porcelain") != "" {
		t.Errorf("made anew: %+v", again.Context)
	}
	parked := w.git(w.dir, "for-each-ref", "--format=%(refname)", "refs/vizier/parked")
	if w.git(w.dir, "show", parked+":work.txt") != "mine" {
		t.Errorf("parked %s", parked)
	}
}

// A node that its worktree is shut to says how to open it, and its retry goes on there.
func TestANodeInAShutWorktree(t *testing.T) {
	if !disktest.AsUser(t) {
		return
	}
	w := newWorld(t)
	made := w.want(w.node("worktree.prepare", map[string]string{"slug": "foo"}), kernel.OutcomeSucceeded)
	dir := filepath.Join(w.dir, made.Context.Root)
	w.write(dir, "work.txt", "mine\n")
	if err := os.Chmod(dir, 0); err != nil {
		t.Fatal(err)
	}
	n := w.node("git.stage_commit", nil).in(dir)
	n.Job.State.Context = *made.Context
	r := w.want(n, kernel.OutcomeFailed, "worktree "+made.Context.Worktree+" cannot be used: you may not work in the worktree: `chmod u+rwx "+made.Context.Worktree+"`, as its owner, then retry")
	if r.Context != nil && *r.Context != *made.Context {
		t.Errorf("context %+v", r.Context)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	w.want(n, kernel.OutcomeSucceeded)
	if got := w.git(w.dir, "show", "draft/foo:work.txt"); got != "mine" {
		t.Errorf("committed %q", got)
	}
}
