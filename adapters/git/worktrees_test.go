package git

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
)

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
		if err := e.PruneWorktree(t.Context(), w); err == nil || !strings.Contains(err.Error(), "locked") {
			t.Errorf("pruned though it is locked: %v", err)
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
