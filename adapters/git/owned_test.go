package git

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
)

// What is merged or judged in a worktree is a whole commit, however the checkout is sparse. The checkout stays as it is, and
// so do its settings. The worktree of a branch is sparse as well.
func TestAWorktreeAtACommitIsWhole(t *testing.T) {
	for name, narrow := range map[string]func(fixture){
		"cone":     func(f fixture) { f.git("sparse-checkout", "set", "in") },
		"patterns": func(f fixture) { f.git("sparse-checkout", "set", "--no-cone", "/in/", "!/in/b") },
		"index":    func(f fixture) { f.git("sparse-checkout", "set", "--sparse-index", "in") },
		"by hand": func(f fixture) { // as it was done before git had a command for it, and per working tree
			f.git("config", "core.sparseCheckout", "true")
			f.write(".git/info/sparse-checkout", "/in/\n")
			f.git("read-tree", "-m", "-u", "HEAD")
		},
	} {
		f := newFixture(t)
		for _, file := range []string{"top", "in/a", "in/b", "out/c", "out/d/e"} {
			f.commit(file, "x")
		}
		f.git("branch", "draft/a")
		narrow(f)
		r, all := Open(f.root()), f.git("ls-tree", "-r", "--name-only", "HEAD")
		mine := func() string {
			return f.git("ls-files", "-t") + f.content(".git/config") + f.git("config", "--list", "--show-origin") + f.content(".git/info/sparse-checkout") + f.git("status", "--untracked-files=no")
		}
		before := mine()
		if f.git("ls-files", "-t", "out") == "H out/c\nH out/d/e" {
			t.Fatalf("%s: the checkout is not sparse", name)
		}
		for _, killed := range []bool{false, true} {
			if killed { // right after git made it
				if _, err := r.addWorktree(t.Context(), f.path(worktreeHome+"/gate-2"), "", f.rev("HEAD")); err != nil {
					t.Fatal(err)
				}
			}
			c, err := r.EnsureWorktree(t.Context(), map[bool]string{false: "gate-1", true: "gate-2"}[killed], "gate", "", f.rev("HEAD"))
			if err != nil {
				t.Fatal(err)
			}
			in := f.in(f.path(c.Worktree))
			for range 2 {
				if got := in.git("ls-files", "-t"); got != "H "+strings.ReplaceAll(all, "\n", "\nH ") || in.git("ls-files", "--deleted") != "" || in.git("status", "--porcelain") != "" {
					t.Errorf("%s, killed %v: it has\n%s\nand lacks %q", name, killed, got, in.git("ls-files", "--deleted"))
				}
				in.git("checkout", "--quiet", "HEAD~1") // no later git makes it sparse
				in.git("checkout", "--quiet", "main~0")
			}
			if sparse, err := r.Sparse(t.Context(), in.dir); sparse || err != nil {
				t.Errorf("%s: it is said to be sparse: %v", name, err)
			}
		}
		if got := mine(); got != before {
			t.Errorf("%s: the checkout was\n%s\nand is\n%s", name, before, got)
		}
		if sparse, err := r.Sparse(t.Context(), f.dir); !sparse || err != nil {
			t.Errorf("%s: the checkout is said to be whole: %v", name, err)
		}
		if name == "by hand" {
			continue // git has patterns for the main working tree only
		}
		c, err := r.EnsureWorktree(t.Context(), "stage-1", "stage", "draft/a", "")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(f.path(c.Worktree + "/out/d")); !os.IsNotExist(err) {
			t.Errorf("%s: the worktree of a branch is not sparse: %v", name, err)
		}
		if sparse, err := r.Sparse(t.Context(), f.path(c.Worktree)); !sparse || err != nil {
			t.Errorf("%s: the worktree of a branch is said to be whole: %v", name, err)
		}
	}
}

func TestEnsureWorktree(t *testing.T) {
	eachRepo(t, func(t *testing.T, open func(Root) *Repo) {
		f := newFixture(t)
		tip := f.commit("file", "x")
		f.git("branch", "draft/ä")
		f.commit("file", "y")
		f.git("tag", "draft/ä")
		f.git("tag", "released")
		f.write(".git/hooks/post-checkout", "#!/bin/sh\necho \"$(pwd) $*\" >'"+f.path("../hook-ran")+"'\n")
		if err := os.Chmod(f.path(".git/hooks/post-checkout"), 0o755); err != nil {
			t.Fatal(err)
		}
		r := open(f.root())
		for n, want := range []string{"here", "here-2", "here-3"} { // from the second on the branch is checked out already
			name := "job-" + strconv.Itoa(n)
			c, err := r.EnsureWorktree(t.Context(), name, "here", "draft/ä", "")
			rel := worktreeHome + "/" + want
			if full := (kernel.Context{Root: rel, Worktree: rel, Name: name, Branch: "draft/ä", Owned: true}); err != nil || c != full {
				t.Fatalf("got %+v, %v, want %+v", c, err, full)
			}
			in := f.in(f.path(c.Worktree))
			if got := in.rev("HEAD"); got != tip || in.git("symbolic-ref", "HEAD") != "refs/heads/draft/ä" || in.git("status", "--short") != "" {
				t.Errorf("it is at %s: %s", got, in.git("status"))
			}
			told, err := os.ReadFile(f.path("../hook-ran"))
			if want := f.path(c.Worktree) + " " + strings.Repeat("0", 40) + " " + string(tip) + " 1\n"; err != nil || string(told) != want {
				t.Errorf("the hook ran as %q, %v, want %q", told, err, want)
			}
			in.write("work", "mine")
			if again, err := r.EnsureWorktree(t.Context(), name, "elsewhere", "draft/ä", ""); again != c || err != nil || in.git("status", "--short") != "?? work" {
				t.Errorf("executed again: %+v, %v", again, err)
			}
			if found, err := r.OwnedWorktree(name); found != c || err != nil {
				t.Errorf("found %+v, %v", found, err)
			}
		}
		if list := f.git("worktree", "list"); strings.Contains(list, "locked") || strings.Contains(list, "prunable") || strings.Count(list, "\n") != 3 {
			t.Errorf("git lists\n%s", list)
		}
		if found, err := r.OwnedWorktree("job-9"); found != (kernel.Context{}) || err != nil {
			t.Errorf("found %+v, %v", found, err)
		}
		for _, bad := range [][3]string{{"x", "x", "missing"}, {"x", "x", "released"}, {"x", "x", "-f"}, {"../x", "x", "main"}, {"x", "../../x", "main"}, {"x", "workspace-x", "main"}, {"", "x", "main"}, {"x", "", "main"}} {
			if c, err := r.EnsureWorktree(t.Context(), bad[0], bad[1], bad[2], ""); err == nil {
				t.Errorf("added %+v", c)
			}
		}
	})
}

// A link in the place of the directory of worktrees is named.
func TestALinkInThePlaceOfTheDirectoryOfWorktrees(t *testing.T) {
	f := newFixture(t)
	f.commit("file", "x")
	f.mkdir(".vizier")
	r, to := Open(f.root()), t.TempDir()
	if got := r.LinkedHome(); got != "" {
		t.Errorf("without one it leads to %s", got)
	}
	if err := os.Symlink(to, f.path(worktreeHome)); err != nil {
		t.Fatal(err)
	}
	const says = "add worktree here: .vizier/tmp-worktrees is a link to %s, but the worktrees of jobs need a directory there: remove the link, then try again"
	if c, err := r.EnsureWorktree(t.Context(), "job-1", "here", "main", ""); err == nil || err.Error() != fmt.Sprintf(says, to) {
		t.Errorf("%+v, %v", c, err)
	}
	if got := r.LinkedHome(); got != to {
		t.Errorf("it leads to %q", got)
	}
	if err := os.Remove(f.path(worktreeHome)); err != nil {
		t.Fatal(err)
	}
	if _, err := r.EnsureWorktree(t.Context(), "job-1", "here", "main", ""); err != nil || r.LinkedHome() != "" {
		t.Errorf("after the advice: %v", err)
	}
}

// What an earlier run's job still has on record is not the tree of a later one
// that is in its place by now.
func TestAnOldRemovalLeavesTheNewTreeAlone(t *testing.T) {
	eachRepo(t, func(t *testing.T, open func(Root) *Repo) {
		for name, leave := range map[string]func(o *owned){
			"removed":         func(o *owned) { o.remove(kernel.CleanupDone) },
			"removed by hand": func(o *owned) { o.git("worktree", "remove", "--force", o.tree.dir) },
			"half removed": func(o *owned) {
				if err := os.Rename(o.tree.dir, o.path(worktreeHome+"/.removed-draft-1")); err != nil {
					o.Fatal(err)
				}
				o.git("worktree", "prune", "--expire", "now")
			},
		} {
			t.Run(name, func(t *testing.T) {
				o := newOwned(t, open)
				leave(o)
				next, err := o.repo.EnsureWorktree(t.Context(), "draft-2", "draft-1", "draft/a", "")
				if err != nil || next.Worktree != o.ctx.Worktree {
					t.Fatalf("the place was not used again: %+v, %v", next, err)
				}
				o.tree.write("work", "of the new run")
				o.remove(kernel.CleanupDone)
				o.kept()
				if got, err := os.ReadFile(o.tree.path("work")); string(got) != "of the new run" || len(o.parked) > 0 {
					t.Errorf("work %q, %v; parked %+v", got, err, o.parked)
				}
				if left, err := os.ReadDir(o.path(worktreeHome)); err != nil || len(left) != 1 {
					t.Errorf("files are left: %v, %v", left, err)
				}
				if gone := o.repo.RemoveWorktree(t.Context(), next); gone.Status != kernel.CleanupDone {
					t.Error(gone)
				}
				o.gone()
			})
		}
	})
}

// However far a killed process came that made a worktree, the next attempt makes
// it, in the same place; and a removal takes away what is there.
func TestEnsureWorktreeAfterCrash(t *testing.T) {
	eachRepo(t, func(t *testing.T, open func(Root) *Repo) {
		for left, step := range map[string]func(o *owned, w Worktree) error{
			"made": func(*owned, Worktree) error { return nil },
			"moved": func(o *owned, w Worktree) error {
				return os.Rename(w.Path, o.path(worktreeHome+"/draft-1"))
			},
			"placed": func(o *owned, w Worktree) error {
				_, err := o.repo.moveToPlace(w, o.path(worktreeHome+"/draft-1"))
				return err
			},
			"filled": func(o *owned, w Worktree) error {
				w, err := o.repo.moveToPlace(w, o.path(worktreeHome+"/draft-1"))
				return errors.Join(err, o.repo.fill(o.Context(), w), os.WriteFile(filepath.Join(w.gitDir, "locked"), []byte(initializing), 0o600))
			},
		} {
			t.Run(left, func(t *testing.T) {
				for _, again := range []bool{true, false} {
					o := newOwned(t, open)
					o.remove(kernel.CleanupDone)
					w, err := o.repo.addWorktree(t.Context(), o.path(worktreeHome+"/draft-7"), "draft/a", "")
					if err := errors.Join(err, step(o, w)); err != nil {
						t.Fatal(err)
					}
					o.git("worktree", "prune", "--expire", "now") // somebody's
					if strays, err := o.repo.StrayWorktrees(func(c kernel.Context) bool { return c.Name == "draft-7" }); err != nil || len(strays) != 0 {
						t.Errorf("strays %+v, %v", strays, err)
					}
					if again {
						if o.ctx, err = o.repo.EnsureWorktree(t.Context(), "draft-7", "draft-1", "draft/a", ""); err != nil {
							t.Fatal(err)
						}
						o.kept()
					} else if o.ctx, err = o.repo.OwnedWorktree("draft-7"); err != nil {
						t.Fatal(err)
					}
					o.remove(kernel.CleanupDone)
					o.gone()
				}
			})
		}
	})
}

// Several that come to a place at once each get one of their own.
func TestPlacesAreSharedOut(t *testing.T) {
	f := newFixture(t)
	f.commit("file", "x")
	f.git("branch", "draft/a")
	const n = 6
	var mu sync.Mutex
	var places []string
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			r, name := Open(f.root()), "job-"+strconv.Itoa(i)
			for range 3 {
				c, err := r.EnsureWorktree(context.Background(), name, "here", "draft/a", "")
				if err == nil && f.in(f.path(c.Worktree)).git("rev-parse", "--git-dir") != f.path(".git/worktrees/"+name) {
					err = errors.New(c.Worktree + " is another's")
				}
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				places = append(places, c.Worktree)
				mu.Unlock()
				if gone := r.RemoveWorktree(context.Background(), c); gone.Status != kernel.CleanupDone {
					t.Error(gone)
					return
				}
			}
		})
	}
	wg.Wait()
	slices.Sort(places)
	if used := slices.Compact(places); len(used) > n || used[0] != worktreeHome+"/here" {
		t.Errorf("places %q", used)
	}
	if left, err := os.ReadDir(f.path(worktreeHome)); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
