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

	"github.com/vizier-scheduler/vizier/internal/disktest"
	"github.com/vizier-scheduler/vizier/kernel"
)

// owned is a repository with a worktree that a job owns.
type owned struct {
	fixture
	tree   fixture // the worktree
	repo   *Repo
	ctx    kernel.Context
	parked []Parked
}

func newOwned(t *testing.T, open func(Root) *Repo) *owned {
	t.Helper()
	return ownedLike(t, "owned", open, func() *owned {
		o := &owned{fixture: newFixture(t)}
		o.commit("file", "x")
		o.commit(".gitignore", "ignored\n.vizier/tmp-worktrees/\n")
		o.git("branch", "draft/a")
		var err error
		if o.ctx, err = Open(o.root()).EnsureWorktree(t.Context(), "draft-1", "draft-1", "draft/a", ""); err != nil {
			t.Fatal(err)
		}
		return o
	})
}

// ownedLike is like for repositories with a worktree.
func ownedLike(t *testing.T, name string, open func(Root) *Repo, build func() *owned) *owned {
	t.Helper()
	o := new(owned)
	o.fixture, o.ctx = like(t, name, func() (fixture, kernel.Context) {
		first := build()
		return first.fixture, first.ctx
	})
	o.tree = o.in(o.path(o.ctx.Worktree))
	o.tree.mayFail("update-index", "-q", "--refresh")
	o.repo = open(o.root())
	o.repo.OnPark = func(p Parked) { o.parked = append(o.parked, p) }
	return o
}

// remove removes the worktree and expects a status.
func (o *owned) remove(want kernel.CleanupStatus) string {
	o.Helper()
	got := o.repo.RemoveWorktree(o.Context(), o.ctx)
	if got.Status != want || (got.Error == "") != (want == kernel.CleanupDone || want == kernel.CleanupSkipped) {
		o.Fatalf("cleanup %s %q, want %s", got.Status, got.Error, want)
	}
	return got.Error
}

// gone checks that nothing of the worktree is left.
func (o *owned) gone() {
	o.Helper()
	if left, err := os.ReadDir(o.path(worktreeHome)); err != nil || len(left) != 0 {
		o.Errorf("files are left: %v, %v", left, err)
	}
	if list, err := o.repo.Worktrees(); err != nil || len(list) != 0 {
		o.Errorf("git still lists %+v, %v", list, err)
	}
	if list := o.git("worktree", "list"); strings.Contains(list, "draft-1") {
		o.Errorf("git still lists it:\n%s", list)
	}
}

// kept checks that the worktree is as it was.
func (o *owned) kept() {
	o.Helper()
	if w, err := worktreeAt(o.repo.root.CommonDir, o.tree.dir); err != nil || w.Branch != "draft/a" {
		o.Errorf("worktree %+v, %v", w, err)
	}
	o.tree.git("status")
	if content, err := os.ReadFile(o.tree.path("file")); err != nil || string(content) != "x" {
		o.Errorf("file: %q, %v", content, err)
	}
}

// saved checks that exactly one piece of work was parked and returns it.
func (o *owned) saved() Parked {
	o.Helper()
	if len(o.parked) != 1 {
		o.Fatalf("parked %+v", o.parked)
	}
	p := o.parked[0]
	if !strings.HasPrefix(p.Ref, "refs/vizier/parked/draft-1-") || o.rev(p.Ref) != p.Commit || !strings.Contains(p.String(), p.Ref) {
		o.Errorf("parked %+v, the ref is at %s", p, o.rev(p.Ref))
	}
	return p
}

// Of a worktree that is discarded, only commits are kept.
func TestDiscardWorktree(t *testing.T) {
	for _, commits := range []bool{false, true} {
		o := newOwned(t, Open)
		if commits {
			o.tree.git("switch", "--quiet", "--detach")
			o.tree.commit("made", "x")
		}
		at := o.tree.rev("HEAD")
		o.tree.write("file", "changed")
		o.tree.write("new", "x")
		o.tree.git("add", "new")
		o.tree.write("new", "y")
		o.tree.git("init", "--quiet", "inner")
		if got := o.repo.DiscardWorktree(t.Context(), o.ctx); got != (kernel.Cleanup{Status: kernel.CleanupDone}) {
			t.Fatalf("%+v", got)
		}
		o.gone()
		if commits && o.saved().Commit != at || !commits && len(o.parked) > 0 {
			t.Errorf("with commits %t: parked %+v", commits, o.parked)
		}
	}
}

func TestRemoveWorktree(t *testing.T) {
	eachRepo(t, func(t *testing.T, open func(Root) *Repo) {
		o := newOwned(t, open)
		o.tree.write("ignored", "build product")
		o.tree.write(".vizier/tmp/x", "scratch")
		o.remove(kernel.CleanupDone)
		o.gone()
		if len(o.parked) != 0 || o.git("branch", "--list", "draft/a") == "" {
			o.Errorf("parked %+v; branches %s", o.parked, o.git("branch"))
		}
		o.remove(kernel.CleanupDone) // already gone
		o.ctx.Owned = false
		o.remove(kernel.CleanupSkipped)
		o.ctx = kernel.Context{Owned: true}
		o.remove(kernel.CleanupSkipped)
	})
}

// A person removed all worktrees with the directory that they are in.
func TestRemoveWorktreeWithoutItsHome(t *testing.T) {
	eachRepo(t, func(t *testing.T, open func(Root) *Repo) {
		o := newOwned(t, open)
		if err := os.RemoveAll(o.path(worktreeHome)); err != nil {
			t.Fatal(err)
		}
		o.remove(kernel.CleanupDone)
		o.gone()
	})
}

func TestRemoveWorktreeParksWork(t *testing.T) {
	eachRepo(t, func(t *testing.T, open func(Root) *Repo) {
		o := newOwned(t, open)
		tip := o.rev("draft/a")
		o.tree.write("file", "changed")
		o.tree.write("staged", "y")
		o.tree.git("add", "staged")
		o.tree.write("new\nname", "z")
		o.tree.write("ignored", "build product")
		o.tree.write(".vizier/tmp/x", "scratch")
		for _, hook := range []string{".git/hooks/reference-transaction", ".git/hooks/post-index-change"} {
			o.write(hook, "#!/bin/sh\ntouch '"+o.path("../hook-ran")+"'\n")
			if err := os.Chmod(o.path(hook), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		o.remove(kernel.CleanupDone)
		o.gone()
		p := o.saved()
		for name, want := range map[string]string{"file": "changed", "staged": "y", "new\nname": "z"} {
			if got := o.git("show", p.Ref+":"+name); got != want {
				t.Errorf("%q: %q", name, got)
			}
		}
		if files := o.git("ls-tree", "-r", "--name-only", p.Ref); strings.Contains(files, "ignored") || strings.Contains(files, ".vizier") {
			t.Errorf("parked too much:\n%s", files)
		}
		if o.rev(p.Ref+"^") != tip || o.rev("draft/a") != tip || p.Branch != "draft/a" {
			t.Errorf("parent %s, branch %s; want %s", o.rev(p.Ref+"^"), o.rev("draft/a"), tip)
		}
		if _, err := os.Stat(o.path("../hook-ran")); err == nil {
			t.Error("a hook ran")
		}
		o.git("switch", "--quiet", "--create", "rescued", p.Ref)
	})
}

func TestRemoveWorktreeParksCommits(t *testing.T) {
	eachRepo(t, func(t *testing.T, open func(Root) *Repo) {
		o := newOwned(t, open)
		o.tree.git("switch", "--quiet", "--detach")
		lone := o.tree.commit("lone", "x")
		if err := os.RemoveAll(o.tree.dir); err != nil { // its files vanished as well
			t.Fatal(err)
		}
		o.remove(kernel.CleanupDone)
		o.gone()
		if p := o.saved(); p.Commit != lone || p.Branch != "" {
			t.Errorf("parked %+v, want %s", p, lone)
		}
	})
}

func TestRemoveWorktreeParksNothingTwice(t *testing.T) {
	o := newOwned(t, Open)
	o.tree.write("file", "changed")
	o.git("worktree", "lock", o.tree.dir)
	o.remove(kernel.CleanupFailed)
	o.git("worktree", "unlock", o.tree.dir)
	failing(o.repo, "worktree")
	o.repo.Backend = &fallback{Backend: o.repo.cli, first: broken{}}
	for _, date := range []string{"2030-01-01T00:00:00Z", "2030-01-02T00:00:00Z"} {
		t.Setenv("GIT_COMMITTER_DATE", date)
		o.remove(kernel.CleanupDegraded)
	}
	if refs := o.git("for-each-ref", parkedRefs); strings.Count(refs, "refs/") != 1 {
		t.Errorf("parked:\n%s", refs)
	}
}

func TestRemoveWorktreeKeptElsewhere(t *testing.T) {
	for _, ref := range []string{"refs/heads/kept", "refs/tags/kept", "refs/remotes/origin/kept"} {
		o := newOwned(t, Open)
		o.tree.git("switch", "--quiet", "--detach")
		o.git("update-ref", ref, string(o.tree.commit("more", "x")))
		o.remove(kernel.CleanupDone)
		o.gone()
		if len(o.parked) != 0 {
			t.Errorf("kept by %s, and yet parked: %+v", ref, o.parked)
		}
	}
}

func TestRemoveWorktreeUnborn(t *testing.T) {
	o := newOwned(t, Open)
	o.tree.git("switch", "--quiet", "--orphan", "fresh")
	o.tree.write("first", "x")
	o.remove(kernel.CleanupDone)
	o.gone()
	if got := o.git("show", o.saved().Ref+":first"); got != "x" {
		t.Errorf("parked %q", got)
	}
}

// A worktree that git was killed over while making it has nothing to save.
func TestRemoveWorktreeUnfinished(t *testing.T) {
	eachRepo(t, func(t *testing.T, open func(Root) *Repo) {
		o := newOwned(t, open)
		o.write(".git/worktrees/draft-1/locked", "initializing")
		o.write(".git/worktrees/draft-1/HEAD", strings.Repeat("0", 40)+"\n")
		for _, p := range []string{o.path(".git/worktrees/draft-1/index"), o.tree.path("file")} {
			if err := os.Remove(p); err != nil {
				t.Fatal(err)
			}
		}
		run := o.repo.cli.exec
		failing(o.repo, "worktree")
		o.repo.Backend = &fallback{Backend: o.repo.cli, first: broken{}}
		o.remove(kernel.CleanupDegraded) // which leaves it as unfinished as it was
		o.repo.cli.exec = run
		o.remove(kernel.CleanupDone)
		o.gone()
		if len(o.parked) != 0 {
			t.Errorf("parked %+v", o.parked)
		}
	})
}

func TestRemoveWorktreeRefuses(t *testing.T) {
	for _, c := range []struct {
		name, want string
		do         func(o *owned)
	}{
		{"locked", "it is locked (by hand): run `git worktree unlock", func(o *owned) { o.git("worktree", "lock", "--reason", "by hand", o.tree.dir) }},
		{"a repository within", "it contains another repository, dir/inner/", func(o *owned) { o.tree.git("init", "--quiet", "dir/inner") }},
		{"a repository added as it is", "it contains another repository, inner, ", func(o *owned) {
			o.tree.git("init", "--quiet", "inner")
			o.in(o.tree.path("inner")).commit("only", "copy")
			o.tree.git("add", "inner")
			o.tree.git("commit", "--quiet", "-m", "inner")
		}},
		{"a submodule that cannot be parked", "its submodule sub has work that is nowhere else and cannot be parked: it contains another repository, inner/: commit and push it from", func(o *owned) {
			o.submodule("sub").git("init", "--quiet", "inner")
		}},
		{"a submodule that is a shallow clone", "its submodule sub has work that is nowhere else and cannot be parked: git did not fetch commit", func(o *owned) {
			sub := o.submodule("sub")
			o.in(o.path("../library")).commit("more", "x")
			sub.git("fetch", "--quiet", "--depth=1", "file://"+o.path("../library"), "main")
			sub.git("checkout", "--quiet", "--detach", "FETCH_HEAD")
			sub.commit("new", "x")
		}},
		{"outside", "it is not below .vizier/tmp-worktrees", func(o *owned) { o.ctx.Worktree = ".vizier" }},
		{"the home itself", "it is not below", func(o *owned) { o.ctx.Worktree = worktreeHome }},
		{"climbing", "it is not below", func(o *owned) { o.ctx.Worktree = worktreeHome + "/../../../other" }},
		{"absolute and elsewhere", "it is not below", func(o *owned) { o.ctx.Worktree = filepath.Dir(o.dir) }},
		{"through a link", "a symbolic link is in the place", func(o *owned) {
			o.mkdir("../other")
			o.ctx.Worktree = worktreeHome + "/link"
			if err := os.Symlink(o.path("../other"), o.path(o.ctx.Worktree)); err != nil {
				o.Fatal(err)
			}
		}},
		{"a link to another worktree", "a symbolic link is in the place", func(o *owned) {
			o.ctx.Worktree = worktreeHome + "/link"
			if err := os.Symlink("draft-1", o.path(o.ctx.Worktree)); err != nil {
				o.Fatal(err)
			}
		}},
		{"workspace", "it is a workspace", func(o *owned) { o.ctx.Worktree = worktreeHome + "/workspace-1" }},
		{"named workspace", "it is a workspace", func(o *owned) { o.ctx.Name = "vizier-workspace-1" }},
		{"unknown to git", "git does not list it", func(o *owned) {
			o.write(worktreeHome+"/stray/work", "x")
			o.ctx.Worktree = worktreeHome + "/stray"
		}},
		{"a file", "a file is in the place", func(o *owned) {
			o.write(worktreeHome+"/stray", "x")
			o.ctx.Worktree = worktreeHome + "/stray"
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := newOwned(t, Open)
			c.do(o)
			before := o.files()
			if got := o.remove(kernel.CleanupFailed); !strings.Contains(got, c.want) {
				t.Errorf("reason %q, want %q", got, c.want)
			}
			if after := o.files(); !slices.Equal(before, after) {
				t.Errorf("files changed:\n%v\n%v", before, after)
			}
			o.kept()
		})
	}
}

// A worktree is taken off its branch with its files and its index as they are; a damaged one is mended.
func TestReleaseOfAWorktree(t *testing.T) {
	for name, damage := range map[string]string{"sound": "", "damaged": "nonsense"} {
		o := newOwned(t, Open)
		o.tree.write("file", "changed")
		o.tree.git("add", "file")
		index := o.path(".git/worktrees/draft-1/index")
		if damage != "" {
			o.write(".git/worktrees/draft-1/index", damage)
		}
		before, err := os.ReadFile(index)
		if err != nil {
			t.Fatal(err)
		}
		tip := o.rev("draft/a")
		if err := o.repo.Release(t.Context(), o.tree.dir); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		after, err := os.ReadFile(index)
		if err != nil || (string(before) == string(after)) != (damage == "") {
			t.Errorf("%s: its index has become %q, %v", name, after, err)
		}
		if branch, err := o.repo.HeadBranch(t.Context(), o.tree.dir); branch != "" || err != nil || o.tree.rev("HEAD") != tip || o.tree.git("status", "--porcelain") == "" {
			t.Errorf("%s: it is on %q, %v, at %s", name, branch, err, o.tree.rev("HEAD"))
		}
		if text, err := os.ReadFile(o.tree.path("file")); err != nil || string(text) != "changed" {
			t.Errorf("%s: file is %q, %v", name, text, err)
		}
	}
}

// Where the files of an unfinished worktree are is known by their link, wherever they were moved to.
func TestThePlaceOfAWorktree(t *testing.T) {
	o := newOwned(t, Open)
	w, err := worktreeAt(o.repo.root.CommonDir, o.tree.dir)
	if err != nil {
		t.Fatal(err)
	}
	o.mkdir(worktreeHome + "/another")
	moved := o.path(worktreeHome + "/moved")
	if err := os.Rename(o.tree.dir, moved); err != nil {
		t.Fatal(err)
	}
	if got := o.repo.placeOf(w); got != moved {
		t.Errorf("moved: it is at %s", got)
	}
	if err := os.RemoveAll(moved); err != nil {
		t.Fatal(err)
	}
	if got := o.repo.placeOf(w); got != w.Path {
		t.Errorf("gone: it is at %s", got)
	}
}

// A worktree whose index cannot be read may have staged work in it.
func TestRemoveWorktreeWithAnUnreadableIndex(t *testing.T) {
	o := newOwned(t, Open)
	index, aside := o.path(".git/worktrees/draft-1/index"), o.path("../index")
	move := func(from, to string) {
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	move(index, aside)
	if err := os.Mkdir(index, 0o700); err != nil {
		t.Fatal(err)
	}
	if got := o.remove(kernel.CleanupFailed); !strings.Contains(got, "is a directory") {
		t.Errorf("reason %q", got)
	}
	if err := os.Remove(index); err != nil {
		t.Fatal(err)
	}
	move(aside, index)
	o.kept()
	o.remove(kernel.CleanupDone)
	o.gone()
}

// files returns all files below the fixture's parent, git's own aside.
func (o *owned) files() []string {
	var all []string
	err := filepath.WalkDir(filepath.Dir(o.dir), func(p string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() && d.Name() == ".git" {
			return filepath.SkipDir
		}
		all = append(all, p)
		return err
	})
	if err != nil {
		o.Fatal(err)
	}
	return all
}

// failing makes every `git op` of r fail.
func failing(r *Repo, op string) {
	run := r.cli.exec
	r.cli.exec = func(cmd *exec.Cmd) error {
		if slices.Contains(cmd.Args, op) {
			cmd.Args = []string{"git", "no-such-command"}
		}
		return run(cmd)
	}
}

func TestRemoveWorktreeDegraded(t *testing.T) {
	eachRepo(t, func(t *testing.T, open func(Root) *Repo) {
		o := newOwned(t, open)
		backend := o.repo.Backend
		o.repo.Backend = &fallback{Backend: o.repo.cli, first: broken{}}
		run := o.repo.cli.exec
		failing(o.repo, "worktree")
		got := o.remove(kernel.CleanupDegraded)
		const want = "failed to prune worktree draft-1: broken on purpose; fallback cleanup failed: git worktree: git: 'no-such-command'"
		if !strings.HasPrefix(got, want) {
			t.Errorf("reason %q, want %q", got, want)
		}
		o.kept()
		o.repo.Backend, o.repo.cli.exec = backend, run
		o.remove(kernel.CleanupDone)
		o.gone()
	})
}

// liar says it pruned and did not.
type liar struct{ broken }

func (liar) PruneWorktree(context.Context, Worktree) error { return nil }

func TestRemoveWorktreeConfirms(t *testing.T) {
	o := newOwned(t, Open)
	o.repo.Backend = &fallback{Backend: o.repo.cli, first: liar{}}
	run := o.repo.cli.exec
	failing(o.repo, "worktree")
	if got := o.remove(kernel.CleanupDegraded); !strings.HasPrefix(got, "failed to prune worktree draft-1: git still lists it; fallback") {
		t.Errorf("reason %q", got)
	}
	o.kept()
	o.repo.cli.exec = run
	o.remove(kernel.CleanupDone)
	o.gone()
}

// After a crash between any two steps, the next call completes the removal.
func TestRemoveWorktreeAfterCrash(t *testing.T) {
	for name, crash := range map[string]func(o *owned, aside string){
		"files moved": func(o *owned, aside string) {},
		"and forgotten": func(o *owned, aside string) {
			o.git("worktree", "prune", "--expire", "now")
		},
		"and half removed": func(o *owned, aside string) {
			o.git("worktree", "prune", "--expire", "now")
			os.Remove(filepath.Join(aside, "file"))
		},
		"half removed, made anew": func(o *owned, aside string) {
			o.git("worktree", "prune", "--expire", "now")
			if _, err := o.repo.EnsureWorktree(o.Context(), "draft-1", "draft-1", "draft/a", ""); err != nil {
				o.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			eachRepo(t, func(t *testing.T, open func(Root) *Repo) {
				o := newOwned(t, open)
				aside := o.path(worktreeHome + "/.removed-draft-1")
				if err := os.Rename(o.tree.dir, aside); err != nil {
					t.Fatal(err)
				}
				crash(o, aside)
				o.remove(kernel.CleanupDone)
				o.gone()
			})
		})
	}
}

// A worktree is in place until it is gone or taken off its branch; a detached head of a
// person's, or a switch back, is not that.
func TestInPlace(t *testing.T) {
	o := newOwned(t, Open)
	step := func(want bool, what string) {
		t.Helper()
		if got := o.repo.InPlace(o.ctx); got != want {
			t.Errorf("%s: in place %v", what, got)
		}
	}
	step(true, "new")
	o.tree.git("checkout", "--quiet", "--detach")
	step(true, "detached by a person")
	o.tree.git("checkout", "--quiet", "draft/a")
	if err := o.repo.Release(t.Context(), o.tree.dir); err != nil {
		t.Fatal(err)
	}
	step(false, "released")
	o.tree.git("checkout", "--quiet", "draft/a")
	step(true, "switched back")
	o.remove(kernel.CleanupDone)
	step(false, "removed")
}

// What an agent leaves read-only, such as a cache of modules, is removed all the same.
func TestRemoveWorktreeWithReadOnlyDirectories(t *testing.T) {
	if !disktest.AsUser(t) {
		return
	}
	eachRepo(t, func(t *testing.T, open func(Root) *Repo) {
		o := newOwned(t, open)
		o.tree.write("ignored/d/f", "")
		if err := os.Chmod(o.tree.path("ignored/d"), 0o555); err != nil {
			t.Fatal(err)
		}
		o.remove(kernel.CleanupDone)
		o.gone()
	})
}

// Files that cannot be removed are left aside: the worktree is gone, a later one of the job is not in
// the way of them, and they are found and removed once they can be.
func TestRemoveWorktreeLeavesFilesAside(t *testing.T) {
	eachRepo(t, func(t *testing.T, open func(Root) *Repo) {
		o := newOwned(t, open)
		o.tree.write("ignored/d/f", "")
		aside := worktreeHome + "/" + leftPrefix + "draft-1"
		chattr := func(how, path string) error { return exec.Command("chattr", how, path).Run() }
		if err := chattr("+i", o.tree.path("ignored/d/f")); err != nil {
			t.Skipf("no file can be made immutable here: %v", err)
		}
		t.Cleanup(func() { _ = chattr("-i", o.path(aside)+"/ignored/d/f") })
		gone := o.repo.RemoveWorktree(t.Context(), o.ctx)
		if gone.Status != kernel.CleanupDone || !strings.Contains(gone.Error, o.path(aside)) || !strings.Contains(gone.Error, "`vizier doctor --fix`") {
			t.Errorf("%s: %s", gone.Status, gone.Error)
		}
		if list, err := o.repo.Worktrees(); err != nil || len(list) != 0 {
			t.Errorf("git still lists %+v, %v", list, err)
		}
		again, err := o.repo.EnsureWorktree(t.Context(), "draft-1", "draft-1", "draft/a", "")
		if err != nil || again.Worktree != o.ctx.Worktree {
			t.Errorf("made anew: %+v, %v", again, err)
		}
		left, err := o.repo.LeftFiles()
		if err != nil || !slices.Equal(left, []string{aside}) {
			t.Errorf("left: %q, %v", left, err)
		}
		if err := o.repo.RemoveLeft(aside); err == nil {
			t.Error("it could be removed")
		}
		if err := chattr("-i", o.path(aside)+"/ignored/d/f"); err != nil {
			t.Fatal(err)
		}
		if err := o.repo.RemoveLeft(aside); err != nil {
			t.Error(err)
		}
		o.remove(kernel.CleanupDone)
		o.gone()
	})
}

// A git that is killed while it forgets an unfinished worktree may leave the lock of that, and no word of where it is. The next
// removal forgets it, and so does who makes the worktree anew.
func TestAnUnfinishedWorktreeThatIsHalfForgotten(t *testing.T) {
	for _, again := range []bool{false, true} {
		o := newOwned(t, Open)
		admin := o.path(".git/worktrees/draft-1")
		if err := errors.Join(os.WriteFile(filepath.Join(admin, "locked"), []byte(initializing+"\n"), 0o600), os.Remove(filepath.Join(admin, "gitdir"))); err != nil {
			t.Fatal(err)
		}
		if !again {
			o.remove(kernel.CleanupDone)
			o.gone()
		} else if c, err := o.repo.EnsureWorktree(t.Context(), "draft-1", "draft-1", "draft/a", ""); err != nil || c != o.ctx {
			t.Errorf("%+v, %v", c, err)
		}
	}
}
