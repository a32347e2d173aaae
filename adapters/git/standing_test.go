package git

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/internal/disktest"
)

// heed does what an obstacle advises: it moves away what it says, and types its commands.
func (f fixture) heed(advice string) {
	f.Helper()
	if _, rest, ok := strings.Cut(advice, "move "); ok {
		away, _, _ := strings.Cut(rest, " away")
		if err := os.Rename(away, filepath.Join(f.TempDir(), "away")); err != nil {
			f.Fatal(err)
		}
	}
	for i, command := range strings.Split(advice, "`") {
		if i%2 == 0 {
			continue
		}
		cmd := exec.Command("sh", "-c", command)
		cmd.Dir = f.dir
		if out, err := cmd.CombinedOutput(); err != nil {
			f.Errorf("%s: %v\n%s", command, err, out)
		}
	}
}

// refusesToMove asserts that rel does not move while git cannot work in the tree at dir, which has it checked out, that the main
// working tree is left alone, and that each of the alternatives that the obstacle names helps.
func (f fixture) refusesToMove(dir, want string, breaks func(w Worktree) error) {
	f.Helper()
	ctx := f.Context()
	for alternative, advice := range strings.Split(want, " or, ") {
		from := f.rev("rel")
		to := f.planned("rel", func(in fixture) { in.write("a", string(from)) })
		f.git("worktree", "add", "--quiet", dir, "rel")
		w, err := worktreeAt(f.path(".git"), dir)
		if err == nil {
			err = breaks(w)
		}
		if err != nil {
			f.Fatal(err)
		}
		f.write("mine", "mine\n")
		r, before := Open(f.root()), journey{fixture: f}.standing()
		says := "rel is checked out in " + dir + ", " + strings.ReplaceAll(want, "DIR", dir)
		if o, err := r.Obstacle(ctx, "rel"); o != says || err != nil {
			f.Errorf("obstacle %q, %v; want %q", o, err, says)
		}
		if on, o, err := r.Standing(ctx, "rel"); len(on) != 0 || o != says || err != nil {
			f.Errorf("standing %q, obstacle %q, %v", on, o, err)
		}
		if o, err := r.EndAdvance(ctx, "rel"); o != "" || err != nil { // nothing is half way
			f.Errorf("end: %q, %v", o, err)
		}
		if o, moved, err := r.Advance(ctx, "rel", from, to); o != says || moved || err != nil || f.rev("rel") != from {
			f.Errorf("obstacle %q, moved %v, %v; rel is at %s", o, moved, err, f.rev("rel"))
		}
		if got := (journey{fixture: f}).standing(); got != before {
			f.Errorf("the main working tree has now\n%s\nand had\n%s", got, before)
		}
		if first, _, both := strings.Cut(want, "away, then run"); both && alternative > 0 {
			advice = first + "away, then " + advice
		}
		f.heed(strings.ReplaceAll(advice, "DIR", dir))
		if o, moved, err := r.Advance(ctx, "rel", from, to); o != "" || !moved || err != nil {
			f.Errorf("after the advice: obstacle %q, moved %v, %v", o, moved, err)
		}
		if all, err := r.Worktrees(); err != nil || len(all) != 1-alternative {
			f.Errorf("git has now %+v, %v", all, err)
		}
		if alternative == 0 {
			if got := f.in(dir).git("status", "--porcelain", "--branch"); got != "## rel" {
				f.Errorf("it is left as %s", got)
			}
			f.mayFail("worktree", "unlock", dir)
			f.git("worktree", "remove", dir)
		}
		if err := os.RemoveAll(dir); err != nil {
			f.Fatal(err)
		}
	}
}

// newHost returns a repository on main, with uncommitted changes, and a branch rel, and the places of worktrees in it and outside.
func newHost(t *testing.T) (f fixture, in, outside string) {
	t.Helper()
	f = newFixture(t)
	f.TB = t
	f.commit("a", "1\n")
	f.git("branch", "rel")
	f.write(".git/info/exclude", "wt\n")
	f.write("a", "mine\n")
	return f, f.path("wt"), f.path("../wt")
}

// Where a worktree's .git does not lead git to it, git works on another repository from there, or not at all. Then the
// branch that it has checked out stays, until the worktree is repaired or given up.
func TestAWorktreeThatGitDoesNotFind(t *testing.T) {
	put := func(text string) func(Worktree) error {
		return func(w Worktree) error { return os.WriteFile(filepath.Join(w.Path, ".git"), []byte(text), 0o600) }
	}
	replace := func(with func(link string) error) func(Worktree) error {
		return func(w Worktree) error {
			link := filepath.Join(w.Path, ".git")
			return errors.Join(os.Remove(link), with(link))
		}
	}
	gone := replace(func(string) error { return nil })
	const (
		missing = "whose .git is missing: run `git worktree repair` or, if it is to be no worktree any more, `git worktree prune`"
		nowhere = "whose .git leads nowhere: run `git worktree repair` or, if it is to be no worktree any more, move DIR/.git away, then `git worktree prune`"
		other   = "whose .git leads nowhere: move DIR/.git away, then run `git worktree repair` or, if it is to be no worktree any more, `git worktree prune`"
	)
	for name, c := range map[string]struct {
		breaks func(w Worktree) error
		want   string
	}{
		"missing": {gone, missing},
		"missing in a locked one": {func(w Worktree) error {
			return errors.Join(gone(w), os.WriteFile(filepath.Join(w.gitDir, "locked"), nil, 0o600))
		}, "whose .git is missing: run `git worktree repair` or, if it is to be no worktree any more, `git worktree unlock DIR`, then `git worktree prune`"},
		"empty":             {put(""), nowhere},
		"junk":              {put("junk"), nowhere},
		"elsewhere":         {put("gitdir: /nowhere/.git/worktrees/wt\n"), nowhere},
		"a link to nothing": {replace(func(link string) error { return os.Symlink("nothing", link) }), other},
		"a directory":       {replace(func(link string) error { return os.Mkdir(link, 0o700) }), other},
		"a repository": {replace(func(link string) error {
			return exec.Command("git", "init", "--quiet", filepath.Dir(link)).Run()
		}), strings.Replace(other, "leads nowhere", "is another repository's", 1)},
	} {
		t.Run(name, func(t *testing.T) {
			f, in, outside := newHost(t)
			for _, dir := range []string{in, outside} {
				f.refusesToMove(dir, c.want, c.breaks)
			}
		})
	}
}

// What keeps the user from a worktree is named.
func TestAWorktreeThatMayNotBeRead(t *testing.T) {
	if !disktest.AsUser(t) {
		return
	}
	for name, what := range map[string]string{"itself": "DIR", "its .git": "DIR/.git", "what it is in": "PARENT"} {
		t.Run(name, func(t *testing.T) {
			f, _, _ := newHost(t)
			dir := f.path("../out/wt")
			what := strings.NewReplacer("DIR", dir, "PARENT", filepath.Dir(dir)).Replace(what)
			f.Cleanup(func() { _ = os.Chmod(what, 0o700) })
			f.refusesToMove(dir, "but "+what+" cannot be read: make it readable, as its owner's `chmod u+rwX "+what+"` does",
				func(Worktree) error { return os.Chmod(what, 0) })
		})
	}
	t.Run("a repository in it", func(t *testing.T) {
		f, _, dir := newHost(t)
		f.git("worktree", "add", "--quiet", dir, "rel")
		if err := os.Remove(filepath.Join(dir, ".git")); err != nil {
			t.Fatal(err)
		}
		f.git("init", "--quiet", dir)
		if err := os.Chmod(filepath.Join(dir, ".git"), 0); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.Chmod(filepath.Join(dir, ".git"), 0o700) })
		if o, err := Open(f.root()).Obstacle(t.Context(), "rel"); !strings.Contains(o, "but "+dir+"/.git cannot be read") || err != nil {
			t.Errorf("obstacle %q, %v", o, err)
		}
	})
}

// A file in the place of a worktree is none. Where git fails for another reason, that is named, with the worktree.
func TestAWorktreeWhereGitFails(t *testing.T) {
	f, _, dir := newHost(t)
	f.git("worktree", "add", "--quiet", dir, "rel")
	f.write(".git/worktrees/wt/index", "junk")
	r := Open(f.root())
	if o, err := r.Obstacle(t.Context(), "rel"); o != "" || exitCode(err) != 128 || !strings.Contains(err.Error(), "look at "+dir+", in which rel is checked out: git status: fatal: ") {
		t.Errorf("obstacle %q, %v", o, err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	f.write("../wt", "a file")
	if o, err := r.Obstacle(t.Context(), "rel"); o != "" || err != nil {
		t.Errorf("obstacle %q, %v", o, err)
	}
}

// What was killed half way in a worktree that git does not find is left alone until git finds it.
func TestAWayThatEndsWhereGitDoesNotFindTheWorktree(t *testing.T) {
	ctx := t.Context()
	f, dir, _ := newHost(t)
	from := f.rev("rel")
	to := f.planned("rel", func(in fixture) { in.write("a", "2\n"); in.write("b", "2\n") })
	f.git("worktree", "add", "--quiet", dir, "rel")
	r := Open(f.root())
	on, err := r.worktreesOn(ctx, "rel")
	if err != nil || len(on) != 1 {
		t.Fatalf("%+v, %v", on, err)
	}
	begun, obstacle, err := r.begin(ctx, on[0], from, to)
	if err != nil || obstacle != "" {
		t.Fatal(obstacle, err)
	}
	begun.release()
	link := f.content("wt/.git")
	if err := os.Remove(f.path("wt/.git")); err != nil {
		t.Fatal(err)
	}
	before := journey{fixture: f}.standing()
	const says = "whose .git is missing"
	if o, err := r.EndAdvance(ctx, "rel"); !strings.Contains(o, says) || err != nil {
		t.Errorf("obstacle %q, %v", o, err)
	}
	if err := r.EndHalfWay(ctx, dir); err == nil || !strings.Contains(err.Error(), says) {
		t.Error(err)
	}
	other := newFixture(t) // as in a copy
	f.write("wt/.git", "gitdir: "+other.path(".git")+"\n")
	if err := r.EndHalfWay(ctx, dir); err == nil || !strings.Contains(err.Error(), "where its files are not") {
		t.Error(err)
	}
	if err := os.Remove(f.path("wt/.git")); err != nil {
		t.Fatal(err)
	}
	if got := (journey{fixture: f}).standing(); got != before {
		t.Errorf("it has now\n%s\nand had\n%s", got, before)
	}
	f.write("wt/.git", link)
	f.git("worktree", "add", "--quiet", "--detach", f.path("beside"))
	f.mkdir(".git/worktrees/beside/" + followNote) // what is wrong there is in the way of no other tree
	if err := r.EndHalfWay(ctx, f.path("beside")); err == nil || !strings.Contains(err.Error(), "in the place of a note") {
		t.Error(err)
	}
	if err := r.EndHalfWay(ctx, dir); err != nil {
		t.Error(err)
	}
	if got := f.in(dir).git("status", "--porcelain", "--branch"); got != "## rel" {
		t.Errorf("it is left as %s", got)
	}
}

// Where git's list of worktrees cannot be read, nobody knows who stands on a branch.
func TestAListOfWorktreesThatCannotBeRead(t *testing.T) {
	f := newFixture(t)
	f.commit("file", "x")
	f.git("branch", "rel")
	f.write(".git/worktrees", "no directory")
	r := Open(f.root())
	if on, o, err := r.Standing(t.Context(), "rel"); err == nil {
		t.Errorf("standing %q, obstacle %q", on, o)
	}
	if o, err := r.Obstacle(t.Context(), "rel"); err == nil {
		t.Errorf("obstacle %q", o)
	}
	if files, err := r.Leftover(t.Context(), f.dir); err == nil {
		t.Errorf("left over are %q", files)
	}
	if !r.atWorkSince(time.Now(), 0) {
		t.Error("it is said that no git is at work")
	}
}
