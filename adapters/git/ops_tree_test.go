package git

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// A repository may ignore .vizier as a whole; git add must then not hear of
// what is below it.
func TestWorkIsParkedWhereViziersDirectoryIsIgnored(t *testing.T) {
	f := newFixture(t)
	f.commit(".gitignore", ".vizier/\n")
	f.commit(".vizier/config.toml", "")
	f.git("branch", "b")
	r := Open(f.root())
	ctx, rel := context.Background(), ".vizier/tmp-worktrees/x"
	if _, err := r.EnsureWorktree(ctx, "x", "x", "b", ""); err != nil {
		t.Fatal(err)
	}
	f.write(rel+"/new.txt", "work")
	f.write(rel+"/.vizier/jobs/x", "private")
	if gone := r.RemoveWorktree(ctx, kernel.Context{Worktree: rel, Owned: true}); gone.Status != kernel.CleanupDone {
		t.Fatal(gone)
	}
	ref := f.git("for-each-ref", "--format=%(refname)", parkedRefs)
	if got := f.git("ls-tree", "-r", "--name-only", ref); got != ".gitignore\n.vizier/config.toml\nnew.txt" {
		t.Errorf("parked %q", got)
	}
}

// twoCommits returns the commit of main, which is checked out, and one on top of it on branch next.
func (f fixture) twoCommits() (from, to kernel.CommitID) {
	from = f.commit("a.txt", "1\n")
	f.git("switch", "--quiet", "--create", "next")
	to = f.commit("a.txt", "2\n")
	f.git("switch", "--quiet", "main")
	return from, to
}

func TestAdvance(t *testing.T) {
	ctx := context.Background()
	f := newFixture(t)
	from, to := f.twoCommits()
	r := Open(f.root())
	advance := func(branch string, from, to kernel.CommitID, obstacle, moved bool) {
		t.Helper()
		o, m, err := r.Advance(ctx, branch, from, to)
		if err != nil || (o != "") != obstacle || m != moved {
			t.Fatalf("%q, moved %v, %v; want obstacle %v, moved %v", o, m, err, obstacle, moved)
		}
	}
	f.write("a.txt", "mine\n")
	advance("main", from, to, true, false)
	f.git("reset", "--quiet", "--hard")
	advance("main", from, to, false, true)
	if f.rev("main") != to || f.git("status", "--porcelain") != "" {
		t.Error("the checkout did not follow")
	}
	advance("main", from, to, false, false) // it is not at from

	f.git("branch", "free", string(from))
	advance("free", to, from, false, false)
	advance("free", from, to, false, true)

	f.git("branch", "--force", "free", string(from))
	f.git("switch", "--quiet", "free")
	f.mayFail("merge", "--no-commit", "--no-ff", "main")
	advance("free", from, to, true, false)
}

// A branch by another name is the branch: the tree that has it checked out follows.
func TestAdvanceByAnotherName(t *testing.T) {
	for name, names := range map[string][2]string{"another name of what is checked out": {"trunk", "main"}, "what is checked out by another name": {"main", "trunk"}} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			from, to := f.twoCommits()
			f.git("branch", "--move", "trunk")
			f.git("symbolic-ref", "refs/heads/main", "refs/heads/trunk")
			if names[0] == "main" {
				f.git("symbolic-ref", "HEAD", "refs/heads/main")
			}
			f.git("worktree", "add", "--quiet", "--force", "../linked", names[0])
			if obstacle, moved, err := Open(f.root()).Advance(t.Context(), names[1], from, to); obstacle != "" || !moved || err != nil {
				t.Fatal(obstacle, moved, err)
			}
			for _, dir := range []string{f.dir, f.path("../linked")} {
				if left := f.in(dir).git("status", "--porcelain"); left != "" || f.rev("trunk") != to {
					t.Errorf("%s: trunk is at %s, %q", dir, f.rev("trunk"), left)
				}
			}
		})
	}
}

// Where git merge would have brought the checkout along, its hook runs, with the index free again, and
// settings of it that would not do not count.
func TestAdvanceRunsTheHookOfAMerge(t *testing.T) {
	f := newFixture(t)
	from, to := f.twoCommits()
	r := Open(f.root())
	f.git("config", "branch.main.mergeOptions", "--squash --no-commit")
	f.write(".git/hooks/post-merge", "#!/bin/sh\n[ $1 = 0 ] && echo new >new && git add new\n")
	if err := os.Chmod(f.path(".git/hooks/post-merge"), 0o755); err != nil {
		t.Fatal(err)
	}
	if obstacle, moved, err := r.Advance(t.Context(), "main", from, to); obstacle != "" || !moved || err != nil || f.rev("main") != to || f.git("status", "--porcelain") != "A  new" {
		t.Error(obstacle, moved, err, f.rev("main"), f.git("status", "--porcelain"))
	}
}

// An error of an advance names it, and the branch.
func TestAdvanceIsNamedInItsErrors(t *testing.T) {
	f := newFixture(t)
	from, to := f.twoCommits()
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, moved, err := Open(f.root()).Advance(ctx, "main", from, to); moved || !errors.Is(err, context.Canceled) || !strings.HasPrefix(err.Error(), "advance main: ") {
		t.Error(moved, err)
	}
}

// What a job changed outside of the sparse checkout is staged, and parked.
func TestWorkOutsideOfASparseCheckout(t *testing.T) {
	f := newFixture(t)
	f.commit("in/a", "1\n")
	f.commit("out/b", "1\n")
	f.git("sparse-checkout", "set", "in")
	r := Open(f.root())
	var parked []Parked
	r.OnPark = func(p Parked) { parked = append(parked, p) }
	rel := ".vizier/tmp-worktrees/job"
	f.git("worktree", "add", "--quiet", "--detach", rel)
	w := f.in(f.path(rel))
	w.write("out/b", "2\n")
	if gone := r.RemoveWorktree(t.Context(), kernel.Context{Worktree: rel, Owned: true}); gone.Status != kernel.CleanupDone || len(parked) != 1 {
		t.Fatal(gone, parked)
	}
	if got := f.git("show", parked[0].Ref+":out/b"); got != "2" {
		t.Errorf("parked was %q", got)
	}
	f.write("out/b", "3\n")
	if err := r.Stage(t.Context(), f.dir, nil, nil); err != nil || f.git("show", ":out/b") != "3" {
		t.Errorf("staged was %q, %v", f.git("show", ":out/b"), err)
	}
}

func TestReplay(t *testing.T) {
	ctx := context.Background()
	f := newFixture(t)
	base := f.commit("a.txt", "1\n")
	f.git("-c", "user.name=x", "commit", "--quiet", "--allow-empty", "--author=Zoé <z@example.org>", "-m", "say\n\nwhy")
	f.write("b.txt", "new\n")
	f.git("add", "b.txt")
	f.git("commit", "--quiet", "--amend", "--no-edit")
	merged := f.rev("HEAD")
	f.git("switch", "--quiet", "--create", "other", string(base))
	onto := f.commit("c.txt", "")
	bad := f.commit("b.txt", "other\n")
	r := Open(f.root())
	got, err := r.Replay(ctx, merged, base, onto)
	if err != nil || got == "" {
		t.Fatal(got, err)
	}
	if f.rev(string(got)+"^") != onto || f.git("ls-tree", "--name-only", string(got)) != "a.txt\nb.txt\nc.txt" ||
		f.git("log", "-1", "--format=%an|%B", string(got)) != "Zoé|say\n\nwhy" {
		t.Errorf("replayed as %s", f.git("cat-file", "commit", string(got)))
	}
	if got, err := r.Replay(ctx, merged, base, bad); got != "" || err != nil {
		t.Errorf("a conflict gave %q, %v", got, err)
	}
}

func TestMarkedStopsAtTheTime(t *testing.T) {
	ctx := context.Background()
	f := newFixture(t)
	f.git("commit", "--quiet", "--allow-empty", "-m", "a\n\nVizier-Effect: x.y")
	id := f.rev("HEAD")
	f.commit("a.txt", "")
	r, tip := Open(f.root()), f.rev("HEAD")
	for _, c := range []struct {
		key   string
		since time.Time
		want  kernel.CommitID
	}{
		{"x.y", time.Time{}, id},
		{"x.y", time.Now().Add(-time.Hour), id},
		{"x.y", time.Now().Add(time.Hour), ""},
		{"xzy", time.Time{}, ""},
	} {
		if got, err := r.Marked(ctx, tip, c.key, c.since); got != c.want || err != nil {
			t.Errorf("%s since %v: %q, %v", c.key, c.since, got, err)
		}
	}
}

// The text of a plan in a merge's message, and the commits that were merged, say nothing of what Vizier has made.
func TestMarkedBelievesNoAgent(t *testing.T) {
	ctx := context.Background()
	f := newFixture(t)
	f.commit("a.txt", "")
	f.git("checkout", "--quiet", "-b", "draft")
	f.git("commit", "--quiet", "--allow-empty", "-m", "an agent's\n\nVizier-Effect: forged")
	f.git("checkout", "--quiet", "main")
	f.git("merge", "--quiet", "--no-ff", "draft", "-m", "merge\n\nA plan:\nVizier-Effect: forged\n\nVizier-Effect: own\nSigned-off-by: Ann")
	own := f.rev("HEAD")
	f.git("commit", "--quiet", "--allow-empty", "-m", "later\n\nVizier-Effect: own\nVizier-Effect: another")
	r, tip := Open(f.root()), f.rev("HEAD")
	for key, want := range map[string]kernel.CommitID{"own": own, "another": tip, "forged": "", "anothe": ""} {
		if got, err := r.Marked(ctx, tip, key, time.Time{}); got != want || err != nil {
			t.Errorf("%s: %q, %v, want %q", key, got, err, want)
		}
	}
}

func TestStageFromASubdirectory(t *testing.T) {
	f := newFixture(t)
	f.commit("a.txt", "")
	f.write("sub/b.txt", "")
	f.write("top.txt", "")
	f.write(".vizier/jobs/x", "")
	r := Open(f.root())
	ctx := context.Background()
	if err := r.Stage(ctx, f.path("sub"), []string{"b.txt"}, nil); err != nil {
		t.Fatal(err)
	}
	if got := f.git("diff", "--cached", "--name-only"); got != "sub/b.txt" {
		t.Errorf("staged %q", got)
	}
	if err := r.Stage(ctx, f.path("sub"), nil, nil); err != nil {
		t.Fatal(err)
	}
	f.git("add", "--force", ".vizier/jobs/x") // somebody else did
	if err := r.Stage(ctx, f.path("sub"), []string{}, nil); err != nil {
		t.Fatal(err)
	}
	if got := f.git("diff", "--cached", "--name-only"); got != "sub/b.txt\ntop.txt" {
		t.Errorf("staged %q", got)
	}
}

// A patch has the lines around a change, by which git finds where it goes, however few the user wants to see.
func TestAPatchHasContext(t *testing.T) {
	lines := func(fifth string) string { return "1\n2\n3\n4\n" + fifth + "\n6\n7\n8\n9\n" }
	for name, set := range map[string]func(t *testing.T, f fixture){
		"a setting":  func(_ *testing.T, f fixture) { f.git("config", "diff.context", "0") },
		"a variable": func(t *testing.T, _ fixture) { t.Setenv("GIT_DIFF_OPTS", "-u0") },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.commit("a.txt", lines("5"))
			r := Open(f.root())
			set(t, f)
			f.write("a.txt", lines("changed"))
			patch, err := r.Patch(t.Context(), f.dir)
			if err != nil {
				t.Fatal(err)
			}
			f.commit("a.txt", "0\n"+lines("5"))
			if err := r.Apply(t.Context(), f.dir, patch); err != nil || f.content("a.txt") != "0\n"+lines("changed") {
				t.Errorf("%q, %v, from the patch\n%s", f.content("a.txt"), err, patch)
			}
		})
	}
}

// What commits say is read and written as UTF-8, whatever encoding the user has set.
func TestCommitsAreUTF8(t *testing.T) {
	ctx := t.Context()
	for _, setting := range []string{"i18n.logOutputEncoding", "i18n.commitEncoding"} {
		f := newFixture(t)
		base := f.commit("a.txt", "1\n")
		f.write("b.txt", "new\n")
		f.git("add", "b.txt")
		f.git("commit", "--quiet", "--author=Анна <a@example.org>", "-m", "добавить")
		merged := f.rev("HEAD")
		f.git("switch", "--quiet", "--create", "other", string(base))
		onto := f.commit("c.txt", "")
		f.git("config", setting, "KOI8-R")
		r := Open(f.root())
		if got, err := r.Message(ctx, merged); got != "добавить" || err != nil {
			t.Errorf("%s: the message is %q, %v", setting, got, err)
		}
		if got, err := r.History(ctx, "", merged); err != nil || len(got) != 2 || got[0][1] != "добавить" {
			t.Errorf("%s: the history is %q, %v", setting, got, err)
		}
		replayed, err := r.Replay(ctx, merged, base, onto)
		if got := f.git("cat-file", "commit", string(replayed)); err != nil || strings.Contains(got, "\nencoding ") || !strings.Contains(got, "author Анна <") || !strings.HasSuffix(got, "добавить") {
			t.Errorf("%s: replayed as %q, %v", setting, got, err)
		}
		f.write("d.txt", "")
		f.git("add", "d.txt")
		made, err := r.Commit(ctx, f.dir, "убрать")
		if got := f.git("cat-file", "commit", string(made)); err != nil || strings.Contains(got, "\nencoding ") || !strings.HasSuffix(got, "убрать") {
			t.Errorf("%s: committed %q, %v", setting, got, err)
		}
	}
}

// A replayed commit is signed where git is told to sign commits, and else not; a commit
// with one parent that changes nothing where it goes is not made, a merge is.
func TestHowACommitIsReplayed(t *testing.T) {
	ctx := context.Background()
	f := newFixture(t)
	base := f.commit("a.txt", "1\n")
	merged := f.commit("b.txt", "new\n")
	f.git("switch", "--quiet", "--create", "side", string(base))
	side := f.commit("s.txt", "")
	f.git("switch", "--quiet", "--create", "other", string(base))
	onto := f.commit("c.txt", "")
	f.signs()
	f.git("config", "--unset", "commit.gpgSign")
	r := Open(f.root())
	for _, sign := range []string{"", "false", "true"} {
		if sign != "" {
			f.git("config", "commit.gpgSign", sign)
		}
		got, err := r.Replay(ctx, merged, base, onto)
		if err != nil || strings.Contains(f.git("cat-file", "commit", string(got)), "gpgsig") != (sign == "true") {
			t.Errorf("commit.gpgSign %q: %s, %v", sign, got, err)
		}
	}
	f.git("config", "commit.gpgSign", "false")
	same := f.commit("b.txt", "new\n") // what the commit changes is there
	if got, err := r.Replay(ctx, merged, base, same); got != same || err != nil {
		t.Errorf("without a change: %s, %v", got, err)
	}
	f.git("switch", "--quiet", "--detach", string(base))
	f.git("merge", "--quiet", "--no-ff", "-m", "join", string(side))
	join := f.rev("HEAD")
	got, err := r.Replay(ctx, join, base, onto)
	if err != nil || f.rev(string(got)+"^1") != onto || f.rev(string(got)+"^2") != side || f.git("ls-tree", "--name-only", string(got)) != "a.txt\nc.txt\ns.txt" {
		t.Errorf("a merge is replayed as %s, %v", got, err)
	}
	f.git("switch", "--quiet", "--detach", string(onto))
	f.git("cherry-pick", string(side))
	there := f.rev("HEAD")
	if got, err = r.Replay(ctx, join, base, there); err != nil || got == there || f.rev(string(got)+"^2") != side {
		t.Errorf("a merge without a change is replayed as %s, %v", got, err)
	}
	for _, bad := range [][3]kernel.CommitID{{"", base, onto}, {merged, "-x", onto}, {merged, base, "main"}, {kernel.CommitID(strings.Repeat("0", 40)), base, onto}} {
		if got, err := r.Replay(ctx, bad[0], bad[1], bad[2]); err == nil {
			t.Errorf("%v is replayed as %s", bad, got)
		}
	}
}

// A branch that is being rebased counts as checked out where that is: its HEAD is detached, and
// when it ends the rebase moves the branch from where it was. So do branches that move with it.
func TestARebasedBranchIsCheckedOut(t *testing.T) {
	ctx := context.Background()
	f := newFixture(t)
	f.commit("a.txt", "1\n")
	f.git("branch", "up")
	f.commit("a.txt", "mine\n")
	f.git("branch", "below")
	from := f.commit("b.txt", "b\n")
	f.git("switch", "--quiet", "up")
	f.commit("a.txt", "theirs\n")
	f.git("switch", "--quiet", "main")
	to := kernel.CommitID(strings.TrimSpace(f.git("commit-tree", "-p", string(from), "-m", "plan", string(from)+"^{tree}")))
	rebase := exec.Command("git", "-C", f.dir, "rebase", "--quiet", "--update-refs", "up")
	if out, err := rebase.CombinedOutput(); err == nil {
		t.Fatalf("there is no conflict: %s", out)
	}
	r := Open(f.root())
	const says = "where a rebase is in progress: finish or abort it"
	for _, branch := range []string{"main", "below"} {
		if o, err := r.Obstacle(ctx, branch); err != nil || !strings.Contains(o, says) {
			t.Errorf("%s: obstacle %q, %v", branch, o, err)
		}
		if on, o, err := r.Standing(ctx, branch); err != nil || o != "" || len(on) != 1 {
			t.Errorf("%s stands in %v, %v", branch, on, err)
		}
	}
	if o, moved, err := r.Advance(ctx, "main", from, to); err != nil || moved || !strings.Contains(o, says) || f.rev("main") != from {
		t.Errorf("obstacle %q, moved %v, %v", o, moved, err)
	}
	f.git("rebase", "--abort")
	if o, moved, err := r.Advance(ctx, "main", from, to); err != nil || !moved || o != "" || f.rev("main") != to {
		t.Errorf("once it is aborted: obstacle %q, moved %v, %v", o, moved, err)
	}
}

// Somebody who commits to the branch while its checkout is being brought up to date, or has its
// index for a moment, is no obstacle: the merge is made again on what there is.
func TestAdvanceWhileSomebodyCommits(t *testing.T) {
	ctx := context.Background()
	f := newFixture(t)
	from := f.commit("a.txt", "1\n")
	f.git("switch", "--quiet", "--create", "next")
	to := f.commit("b.txt", "2\n")
	f.git("switch", "--quiet", "main")
	lock := filepath.Join(f.dir, ".git", "index.lock")
	f.write(".git/index.lock", "")
	time.AfterFunc(300*time.Millisecond, func() { _ = os.Remove(lock) })
	r := Open(f.root())
	if o, moved, err := r.Advance(ctx, "main", from, to); o != "" || !moved || err != nil {
		t.Errorf("with the index of another process for a moment: %q, %v, %v", o, moved, err)
	}
	f.git("reset", "--quiet", "--hard", string(from))
	run := r.cli.exec
	r.cli.exec = func(cmd *exec.Cmd) error {
		if slices.Contains(cmd.Args, "update-ref") {
			f.git("update-ref", "refs/heads/main", f.git("commit-tree", "-p", "main", "-m", "theirs", "main^{tree}"))
		}
		return run(cmd)
	}
	if o, moved, err := r.Advance(ctx, "main", from, to); o != "" || moved || err != nil || f.rev("main") == from || f.git("status", "--porcelain") != "" {
		t.Errorf("with a commit of somebody else's: %q, %v, %v", o, moved, err)
	}
}

// What git stash does not take away has advice of its own, and the advice works.
func TestObstacleThatIsNotStashed(t *testing.T) {
	t.Setenv("GIT_ALLOW_PROTOCOL", "file")
	sub := newFixture(t)
	sub.commit("a", "1\n")
	for name, c := range map[string]struct {
		change func(f, in fixture)
		advice string
	}{
		"a file": {func(f, _ fixture) { f.write("a", "2\n") }, "`git -C DIR stash`"},
		"a file announced": {func(f, _ fixture) {
			f.write("new", "x")
			f.git("add", "--intent-to-add", "new")
		}, "`git -C DIR reset -- new`"},
		"a file announced that a shell would take for commands": {func(f, _ fixture) {
			f.write("x y; touch PWNED", "x")
			f.git("add", "--intent-to-add", "x y; touch PWNED")
		}, "`git -C DIR reset -- 'x y; touch PWNED'`"},
		"a submodule":          {func(_, in fixture) { in.commit("b", "1\n") }, "`git -C DIR submodule update -- sub`"},
		"a submodule, staged":  {func(f, in fixture) { in.commit("b", "1\n"); f.git("add", "sub") }, "`git -C DIR reset -- sub`, then `git -C DIR submodule update -- sub`"},
		"a submodule, removed": {func(f, _ fixture) { f.git("rm", "--quiet", "--cached", "sub") }, "`git -C DIR reset -- sub`, then `git -C DIR submodule update -- sub`"},
		"several": {func(f, in fixture) {
			f.write("a", "2\n")
			f.write("new", "x")
			f.git("add", "--intent-to-add", "new")
			in.commit("b", "1\n")
		}, "`git -C DIR reset -- new`, then `git -C DIR submodule update -- sub`, then `git -C DIR stash`"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.TB = t
			f.commit("a", "1\n")
			f.git("submodule", "--quiet", "add", sub.dir, "sub")
			f.git("commit", "--quiet", "-m", "sub")
			c.change(f, f.in(f.path("sub")))
			r := Open(f.root())
			got, err := r.Obstacle(t.Context(), "main")
			want := "main is checked out in " + f.dir + " with uncommitted changes: commit them, or " + strings.ReplaceAll(c.advice, "DIR", f.dir)
			if name == "a submodule" {
				want = "main is checked out in " + f.dir + ", where submodules are at other commits than it has: run " + strings.ReplaceAll(c.advice, "DIR", f.dir) + "; a commit would take these for it"
			}
			if got != want || err != nil {
				t.Fatalf("%s, %v; want %s", got, err, want)
			}
			for i, command := range strings.Split(c.advice, "`") {
				if i%2 == 1 {
					f.shell(strings.ReplaceAll(command, "DIR", f.dir))
				}
			}
			if got, err := r.Obstacle(t.Context(), "main"); got != "" || err != nil {
				t.Errorf("after the advice: %s, %v", got, err)
			}
		})
	}
}

// A locked worktree that is not there, as on a disk that is away, holds its branch: on coming back, its next commit would
// take back what has moved the branch. One that is gone and not locked, or was never finished, holds nothing.
func TestALockedWorktreeThatIsAway(t *testing.T) {
	eachRepo(t, func(t *testing.T, open func(Root) *Repo) {
		for name, leave := range map[string]func(string) error{
			"gone":                 func(string) error { return nil },
			"an empty mount point": func(dir string) error { return os.Mkdir(dir, 0o755) },
		} {
			t.Run(name, func(t *testing.T) {
				ctx, f := t.Context(), newFixture(t)
				from, to := f.twoCommits()
				usb, away := f.path("../usb"), f.path("../away")
				f.git("worktree", "add", "--quiet", "-b", "rel", usb, string(from))
				f.git("worktree", "lock", "--reason", "on a USB disk", usb)
				if err := errors.Join(os.Rename(usb, away), leave(usb)); err != nil {
					t.Fatal(err)
				}
				r := open(f.root())
				want := "rel is checked out in " + usb + ", a worktree that is locked (on a USB disk) and not there: bring it back or, if it is gone for good, run `git worktree unlock " + usb + "`, then `git worktree prune`"
				if o, err := r.Obstacle(ctx, "rel"); o != want || err != nil {
					t.Errorf("obstacle %q, %v", o, err)
				}
				if on, o, err := r.Standing(ctx, "rel"); len(on) != 0 || o != want || err != nil {
					t.Errorf("standing %q, obstacle %q, %v", on, o, err)
				}
				if o, err := r.EndAdvance(ctx, "rel"); o != "" || err != nil { // nothing is half way
					t.Errorf("end: %q, %v", o, err)
				}
				if o, moved, err := r.Advance(ctx, "rel", from, to); o != want || moved || err != nil || f.rev("rel") != from {
					t.Errorf("obstacle %q, moved %v, %v; rel is at %s", o, moved, err, f.rev("rel"))
				}
				if dropped, kept, err := r.DropBranch(ctx, "rel"); dropped || !strings.Contains(kept, usb) || err != nil {
					t.Errorf("dropped %v, kept %q, %v", dropped, kept, err)
				}
				_ = os.Remove(usb)
				if err := os.Rename(away, usb); err != nil {
					t.Fatal(err)
				}
				if o, moved, err := r.Advance(ctx, "rel", from, to); o != "" || !moved || err != nil {
					t.Errorf("when it is back: %q, moved %v, %v", o, moved, err)
				}
				if got := f.in(usb).git("status", "--porcelain"); got != "" {
					t.Errorf("it has not followed: %s", got)
				}
				f.git("worktree", "unlock", usb)
				if err := os.Rename(usb, away); err != nil {
					t.Fatal(err)
				}
				for _, lock := range []string{"", initializing} {
					if lock != "" {
						f.git("worktree", "lock", "--reason", lock, usb)
					}
					if o, err := r.Obstacle(ctx, "rel"); o != "" || err != nil {
						t.Errorf("with lock %q: obstacle %q, %v", lock, o, err)
					}
					if on, o, err := r.Standing(ctx, "rel"); len(on) != 0 || o != "" || err != nil {
						t.Errorf("with lock %q: standing %q, obstacle %q, %v", lock, on, o, err)
					}
				}
			})
		}
	})
}
