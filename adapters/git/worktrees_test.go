package git

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
)

func TestAddWorktree(t *testing.T) {
	eachRepo(t, func(t *testing.T, open func(Root) *Repo) {
		f := newFixture(t)
		tip := f.commit("file", "x")
		f.git("branch", "draft/ä")
		f.commit("file", "y")
		f.git("tag", "draft/ä")
		r := open(f.root())
		for _, dir := range []string{"one tree", "two\ntrees"} { // the second time the branch is checked out already
			w, err := r.AddWorktree(t.Context(), f.path("../"+dir), "draft/ä")
			if err != nil || w.Path != f.path("../"+dir) || w.Branch != "draft/ä" || w.Locked {
				t.Errorf("got %+v, %v", w, err)
			}
			in := f.in(w.Path)
			if got := in.rev("HEAD"); got != tip || in.git("symbolic-ref", "HEAD") != "refs/heads/draft/ä" || in.git("status", "--short") != "" {
				t.Errorf("it is at %s: %s", got, in.git("status"))
			}
		}
		if list, err := r.Worktrees(); err != nil || len(list) != 2 || list[0].Name != "one-tree" {
			t.Errorf("worktrees %+v, %v", list, err)
		}
		for _, bad := range [][2]string{{f.path("../x"), "missing"}, {f.path("../x"), "-f"}, {"relative", "main"}, {f.path("../one tree"), "main"}} {
			if w, err := r.AddWorktree(t.Context(), bad[0], bad[1]); err == nil {
				t.Errorf("added %+v", w)
			}
		}
	})
}

func TestPruneWorktree(t *testing.T) {
	eachEngine(t, func(t *testing.T, open func(Root) engine) {
		o := newOwned(t, Open)
		e := open(o.root())
		if fb, ok := e.(*fallback); ok && fb.first == (broken{}) {
			t.Skip("does not prune by itself")
		}
		w, err := worktreeAt(o.root().CommonDir, o.tree.dir)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(o.tree.dir); err != nil {
			t.Fatal(err)
		}
		o.git("worktree", "lock", w.Path)
		if err := e.PruneWorktree(t.Context(), w); err == nil {
			t.Error("pruned though it is locked")
		}
		o.git("worktree", "unlock", w.Path)
		if err := e.PruneWorktree(t.Context(), w); err != nil {
			t.Error(err)
		}
		o.gone()
		if err := e.PruneWorktree(t.Context(), w); err == nil {
			t.Error("pruned twice")
		}
	})
}

func TestReadOnlyGit(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("permissions do not bind root")
	}
	eachRepo(t, func(t *testing.T, open func(Root) *Repo) {
		o := newOwned(t, open)
		var dirs []string
		err := filepath.WalkDir(o.path(".git"), func(p string, d os.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				dirs = append(dirs, p)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		mode := func(m os.FileMode) {
			for _, dir := range dirs {
				if err := os.Chmod(dir, m); err != nil && !os.IsNotExist(err) {
					t.Error(err)
				}
			}
		}
		mode(0o555)
		t.Cleanup(func() { mode(0o755) })
		got := kernel.NewFacts()
		o.repo.Observe(t.Context(), kernel.Probes{Branches: []string{"main"}, Head: true, Clean: true, Merging: true}, &got)
		if !got.Heads["main"].Known || !got.Head.Known || !got.Clean.Value || !got.Merging.Known {
			t.Errorf("facts %+v", got)
		}
		if why := o.remove(kernel.CleanupDegraded); !strings.Contains(why, "failed to prune worktree draft-1: ") || !strings.Contains(why, "fallback cleanup failed: ") {
			t.Errorf("reason %q", why)
		}
		o.kept()
		mode(0o755)
		o.remove(kernel.CleanupDone)
		o.gone()
	})
}
