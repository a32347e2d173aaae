package git

import (
	"os"
	"strings"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
)

// Worktrees that nobody owns are told by their paths: those that git knows,
// those it knows of and that are gone, and directories of nobody's.
func TestStrayWorktrees(t *testing.T) {
	f := newFixture(t)
	f.commit("file", "x")
	r := Open(f.root())
	if strays, err := r.StrayWorktrees(func(kernel.Context) bool { return false }); err != nil || len(strays) > 0 {
		t.Errorf("of none: %+v %v", strays, err)
	}
	for _, name := range []string{"mine", "stray", "gone", "workspace-1", ".hidden"} {
		f.git("worktree", "add", "--quiet", "-b", "b-"+strings.Trim(name, "."), worktreeHome+"/"+name)
	}
	f.git("worktree", "add", "--quiet", "-b", "outside", "../outside")
	f.git("worktree", "add", "--quiet", "--detach", worktreeHome+"/detached")
	f.mkdir(worktreeHome + "/nobodys")
	f.write(worktreeHome+"/file", "no directory")
	f.write(worktreeHome+"/gone.txt", "")
	if err := os.RemoveAll(f.path(worktreeHome + "/gone")); err != nil {
		t.Fatal(err)
	}
	strays, err := r.StrayWorktrees(func(c kernel.Context) bool { return c.Worktree == worktreeHome+"/mine" })
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range strays {
		if !s.Owned {
			t.Errorf("%+v is not to be removed", s)
		}
		got = append(got, strings.TrimPrefix(s.Worktree, worktreeHome+"/")+"="+s.Name+":"+s.Branch)
	}
	if all := strings.Join(got, " "); all != "detached=detached: gone=gone:b-gone nobodys=: stray=stray:b-stray" {
		t.Error(all)
	}
}

// In a copy of a repository nothing reaches the worktrees of the original: those of jobs become
// the copy's own, in each way in which they are come by, and a person's are none of the copy's.
func TestWorktreesOfACopy(t *testing.T) {
	for name, use := range map[string]func(o *owned, r *Repo) error{
		"found": func(o *owned, r *Repo) error { _, err := r.OwnedWorktree("draft-1"); return err },
		"standing": func(o *owned, r *Repo) error {
			on, obstacle, err := r.Standing(o.Context(), "draft/a")
			if obstacle != "" || len(on) != 1 || !strings.HasPrefix(on[0], r.root.Dir) {
				t.Errorf("on the branch are %q, obstacle %q", on, obstacle)
			}
			return err
		},
		"repaired": func(o *owned, r *Repo) error { return r.RepairWorktree(o.Context(), o.ctx) },
		"adopted":  func(o *owned, r *Repo) error { return r.SeparateWorktrees() },
	} {
		t.Run(name, func(t *testing.T) {
			o := newOwned(t, Open)
			o.git("worktree", "add", "--quiet", "-b", "mine", "../mine")
			copied := o.in(o.path("../copy"))
			if err := os.CopyFS(copied.dir, os.DirFS(o.dir)); err != nil {
				t.Fatal(err)
			}
			r := Open(copied.root())
			if moved, err := r.MovedWorktrees(); err != nil || len(moved) != 1 || moved[0] != o.ctx {
				t.Errorf("moved are %+v, %v", moved, err)
			}
			if err := use(o, r); err != nil {
				t.Fatal(err)
			}
			if moved, err := r.MovedWorktrees(); err != nil || len(moved) != 0 {
				t.Errorf("still moved are %+v, %v", moved, err)
			}
			tree := copied.in(copied.path(o.ctx.Worktree))
			if got := tree.git("rev-parse", "--show-toplevel", "--git-common-dir"); got != tree.dir+"\n"+copied.path(".git") {
				t.Errorf("the copy's worktree is of %q", got)
			}
			if got := o.tree.git("rev-parse", "--show-toplevel", "--git-common-dir"); got != o.tree.dir+"\n"+o.path(".git") {
				t.Errorf("the original's worktree is of %q", got)
			}
			if on, obstacle, err := r.Standing(t.Context(), "mine"); err != nil || obstacle != "" || len(on) != 0 {
				t.Errorf("a person's worktree counts for the copy's: %q, obstacle %q, %v", on, obstacle, err)
			}
			if got := r.RemoveWorktree(t.Context(), o.ctx); got.Status != kernel.CleanupDone || r.InPlace(o.ctx) {
				t.Errorf("removed: %+v", got)
			}
			o.kept()
		})
	}
}

// The repository was moved, and nothing is at its old place: only a repair that was asked for,
// or a job whose worktree it is, changes where git looks, since another host may see it there.
func TestAnAdoptionLeavesWorktreesThatLeadNowhere(t *testing.T) {
	o := newOwned(t, Open)
	moved := o.in(o.path("../moved"))
	if err := os.Rename(o.dir, moved.dir); err != nil {
		t.Fatal(err)
	}
	r := Open(moved.root())
	if err := r.SeparateWorktrees(); err != nil {
		t.Fatal(err)
	}
	if trees, err := r.MovedWorktrees(); err != nil || len(trees) != 1 {
		t.Errorf("%+v, %v", trees, err)
	}
	if trees, err := r.WorktreesOf([]kernel.JobID{"1"}); err != nil || len(trees["1"]) != 1 {
		t.Errorf("of the job are %+v, %v", trees, err)
	}
	if got := r.RemoveWorktree(t.Context(), o.ctx); got.Status != kernel.CleanupDone {
		t.Errorf("removed: %+v", got)
	}
}

func TestVersionsOfGit(t *testing.T) {
	for _, c := range []struct {
		a, b  string
		older bool
	}{{"2.38.9", "2.39", true}, {"2.39", "2.39", false}, {"2.39.0", "2.39", false}, {"2.40", "2.39", false}, {"1.99", "2.39", true}, {"3.0", "2.39", false}, {"3", "2.39", false}, {"2", "2.39", true},
		{"2.39.GIT", "2.39", false}, {"2.45.2.windows.1", "2.39", false}, {"2.100", "2.39", false}, {"10.1", "2.39", false}, {"", "2.39", true}, {"2.9.9", "2.39", true}, {"2.39rc1", "2.39", false}} {
		if got := olderThan(c.a, c.b); got != c.older {
			t.Errorf("%s is older than %s: %t", c.a, c.b, got)
		}
	}
	version, ok, err := Open(newFixture(t).root()).ProgramVersion(t.Context())
	if err != nil || !ok || !strings.Contains(version, ".") || strings.Contains(version, "git") {
		t.Errorf("%q %t %v", version, ok, err)
	}
}

func TestBranchesThatAreDropped(t *testing.T) {
	f := newFixture(t)
	first := f.commit("file", "x")
	f.git("branch", "draft/a")
	f.git("branch", "draft/b/c")
	f.git("branch", "other")
	f.git("worktree", "add", "--quiet", "-b", "draft/held", "../held")
	r := Open(f.root())
	tips, err := r.Branches(t.Context(), "draft/")
	if err != nil || len(tips) != 3 || tips["draft/a"] != first || tips["draft/b/c"] != first || tips["draft/held"] != first {
		t.Errorf("%v %v", tips, err)
	}
	if tips, err = r.Branches(t.Context(), "none/"); err != nil || len(tips) != 0 {
		t.Errorf("%v %v", tips, err)
	}
	for name, want := range map[string]string{"draft/a": "true", "none": "false", "draft/held": "true held", "main": "true repo"} {
		there, tree, err := r.BranchAt(t.Context(), name)
		got := map[bool]string{true: "true", false: "false"}[there]
		if tree != "" {
			got += " " + tree[strings.LastIndexByte(tree, '/')+1:]
		}
		if err != nil || got != want {
			t.Errorf("%s: %s, %v", name, got, err)
		}
	}
	if dropped, kept, err := r.DropBranch(t.Context(), "draft/a"); !dropped || kept != "" || err != nil {
		t.Errorf("%t %q %v", dropped, kept, err)
	}
	if dropped, kept, err := r.DropBranch(t.Context(), "draft/a"); dropped || kept != "" || err != nil {
		t.Errorf("again: %t %q %v", dropped, kept, err)
	}
	if dropped, kept, err := r.DropBranch(t.Context(), "draft/held"); dropped || !strings.Contains(kept, "held") || err != nil {
		t.Errorf("%t %q %v", dropped, kept, err)
	}
	if tips, err = r.Branches(t.Context(), ""); err != nil || len(tips) != 4 || tips["draft/held"] != first {
		t.Errorf("%v %v", tips, err)
	}
	if err := os.RemoveAll(f.path(".git")); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Branches(t.Context(), "draft/"); err == nil || !strings.HasPrefix(err.Error(), "list branches: ") {
		t.Error(err)
	}
	_, _, err = r.BranchAt(t.Context(), "main")
	_, _, err2 := r.DropBranch(t.Context(), "main")
	if err == nil || err2 == nil {
		t.Errorf("where there is no repository: %v, %v", err, err2)
	}
}
