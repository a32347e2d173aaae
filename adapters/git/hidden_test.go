package git

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vizier-scheduler/vizier/kernel"
)

// In a job's worktree a mark in the index hides no change from whoever asks.
func TestMarksHideNothing(t *testing.T) {
	for name, marks := range map[string][]string{"assume-unchanged": {"--assume-unchanged"}, "skip-worktree": {"--skip-worktree"},
		"both": {"--assume-unchanged", "--skip-worktree"}} {
		t.Run(name, func(t *testing.T) {
			o := newOwned(t, Open)
			o.tree.commit("goes", "x")
			o.tree.commit("stays", "x")
			ctx, at := t.Context(), o.tree.dir
			hide := func() {
				t.Helper()
				o.tree.git("reset", "--quiet", "--hard")
				o.tree.write("file", "mine")
				if err := os.Remove(o.tree.path("goes")); err != nil {
					t.Fatal(err)
				}
				for _, mark := range marks {
					o.tree.git("update-index", mark, "file", "goes", "stays")
				}
				if got := o.tree.git("status", "--porcelain"); got != "" {
					t.Fatalf("not hidden: %s", got)
				}
			}
			want := []string{"file", "goes"}
			for what, ask := range map[string]func() ([]string, error){
				"uncommitted": func() ([]string, error) { return o.repo.Uncommitted(ctx, at) },
				"unstaged":    func() ([]string, error) { tracked, _, err := o.repo.Unstaged(ctx, at); return tracked, err },
				"staged all": func() ([]string, error) {
					err := o.repo.Stage(ctx, at, nil, nil)
					return strings.Fields(o.tree.git("diff", "--cached", "--name-only")), err
				},
				"staged what is tracked": func() ([]string, error) {
					err := o.repo.StageTracked(ctx, at)
					return strings.Fields(o.tree.git("diff", "--cached", "--name-only")), err
				},
				"patch": func() ([]string, error) {
					patch, err := o.repo.Patch(ctx, at)
					for _, name := range want {
						if !strings.Contains(string(patch), "diff --git a/"+name) {
							return nil, err
						}
					}
					return want, err
				},
			} {
				hide()
				if got, err := ask(); err != nil || !slices.Equal(got, want) {
					t.Errorf("%s: %q, %v; want %q", what, got, err, want)
				}
			}

			o.tree.git("reset", "--quiet", "--hard")
			if err := o.repo.Remember(ctx, at, false); err != nil {
				t.Fatal(err)
			}
			hide()
			if changed, err := o.repo.PutBack(ctx, at); !changed || err != nil {
				t.Fatal(changed, err)
			}
			if got, err := os.ReadFile(o.tree.path("file")); string(got) != "x" || err != nil {
				t.Errorf("put back as %q, %v", got, err)
			}
			if got := o.git("diff", "--name-status", "draft/a", o.saved().Ref); got != "M\tfile\nD\tgoes" {
				t.Errorf("parked then: %q", got)
			}
			hide()
			o.tree.write("file", "mine, too")
			o.parked = nil
			o.remove(kernel.CleanupDone)
			if got := o.git("diff", "--name-status", "draft/a", o.saved().Ref) + o.git("show", o.saved().Ref+":file"); got != "M\tfile\nD\tgoesmine, too" {
				t.Errorf("parked: %q", got)
			}
			o.gone()
		})
	}
}

// Elsewhere the marks are the user's, and mean what git says.
func TestMarksOfAPersonStay(t *testing.T) {
	f := newFixture(t)
	f.commit("file", "x")
	f.git("worktree", "add", "--quiet", "../linked")
	for _, in := range []fixture{f, f.in(f.path("../linked"))} {
		in.git("update-index", "--skip-worktree", "file")
		in.write("file", "mine")
		in.write("new", "x")
		r := Open(f.root())
		if err := r.Stage(t.Context(), in.dir, nil, nil); err != nil || in.git("diff", "--cached", "--name-only") != "new" || in.git("ls-files", "-v", "file") != "S file" {
			t.Error(err, in.git("diff", "--cached", "--name-only"), in.git("ls-files", "-v"))
		}
	}
}

// What a sparse checkout leaves out of a job's worktree is not taken for removed, not even when somebody has since set
// that the checkout is not sparse. What was made there all the same counts.
func TestWhatASparseCheckoutLeavesOut(t *testing.T) {
	f := newFixture(t)
	for _, name := range []string{"in/a", "out/b", "out/c"} {
		f.commit(name, "x")
	}
	f.git("sparse-checkout", "set", "in")
	f.git("branch", "draft/a")
	r := Open(f.root())
	var parked []Parked
	r.OnPark = func(p Parked) { parked = append(parked, p) }
	for _, setting := range []string{"core.sparseCheckout=true", "sparse.expectFilesOutsideOfPatterns=true", "core.sparseCheckout=false"} {
		c, err := r.EnsureWorktree(t.Context(), "job", "job", "draft/a", "")
		if err != nil {
			t.Fatal(err)
		}
		w := f.in(f.path(c.Worktree))
		if _, err := os.Stat(w.path("out")); !os.IsNotExist(err) {
			t.Fatalf("it is not sparse: %v", err)
		}
		name, value, _ := strings.Cut(setting, "=")
		w.git("config", "--worktree", name, value)
		w.write("in/a", "mine")
		w.git("update-index", "--skip-worktree", "in/a")
		w.write("out/b", "mine")
		if err := r.Stage(t.Context(), w.dir, nil, nil); err != nil || w.git("diff", "--cached", "--name-status") != "M\tin/a\nM\tout/b" {
			t.Errorf("%s: staged %q, %v", setting, w.git("diff", "--cached", "--name-status"), err)
		}
		w.git("reset", "--quiet")
		w.git("update-index", "--skip-worktree", "in/a", "out/b")
		parked = nil
		if gone := r.RemoveWorktree(t.Context(), c); gone.Status != kernel.CleanupDone || len(parked) != 1 {
			t.Fatal(setting, gone, parked)
		}
		if got := f.git("diff", "--name-status", "draft/a", parked[0].Ref); got != "M\tin/a\nM\tout/b" {
			t.Errorf("%s: parked %q", setting, got)
		}
	}
}

// With some settings of the user, git would overlook what an agent changed.
func TestSettingsHideNothing(t *testing.T) {
	then := time.Now().Add(-time.Hour).Truncate(time.Second)
	for setting, change := range map[string]func(w fixture){
		"core.ignoreStat=true": func(w fixture) { w.write("file", "y") },
		"core.checkStat=minimal": func(w fixture) { // the same size and time
			if err := os.Rename(w.path("other"), w.path("file")); err != nil {
				w.Fatal(err)
			}
			w.write("other", "y")
		},
		"core.ignoreCase=true": func(w fixture) {
			if !Open(w.root()).cli.caseSensitive() {
				w.Skip("the file system does not tell it from file")
			}
			w.write("FILE", "y")
		},
		"core.untrackedCache=true":     func(w fixture) { w.write("sub/new", "y") },
		"status.showUntrackedFiles=no": func(w fixture) { w.write("sub/new", "y") },
		"core.splitIndex=true":         func(w fixture) { w.write("file", "y") },
		"diff.autoRefreshIndex=false":  func(w fixture) { w.write("file", "y") },
	} {
		t.Run(setting, func(t *testing.T) {
			o := newOwned(t, Open)
			name, value, _ := strings.Cut(setting, "=")
			o.git("config", name, value)
			o.tree.write("other", "y")
			o.tree.write("sub/old", "y")
			if err := o.repo.Stage(t.Context(), o.tree.dir, nil, nil); err != nil {
				t.Fatal(err)
			}
			o.tree.git("commit", "--quiet", "-m", "begin")
			for _, file := range []string{"file", "other"} {
				if err := os.Chtimes(o.tree.path(file), then, then); err != nil {
					t.Fatal(err)
				}
			}
			o.tree.git("update-index", "--refresh")
			change(o.tree)
			if err := o.repo.Stage(t.Context(), o.tree.dir, nil, nil); err != nil || o.tree.git("diff", "--cached", "--name-only") == "" {
				t.Errorf("staged nothing, %v", err)
			}
			o.tree.git("reset", "--quiet")
			o.remove(kernel.CleanupDone)
			if got := o.git("diff", "--name-only", "draft/a", o.saved().Ref); !slices.Contains([]string{"file", "FILE", filepath.Join("sub", "new"), "file\nother"}, got) {
				t.Errorf("parked %q", got)
			}
		})
	}
	o := newOwned(t, Open)
	o.git("config", "core.trustctime", "false") // with which git overlooks a change that keeps a file's other time, but no test can set that one
	for dir, want := range map[string]string{o.dir: "false\n", o.tree.dir: "true\n"} {
		if got, err := o.repo.cli.run(t.Context(), command{dir: dir, args: []string{"config", "core.trustctime"}}); string(got) != want || err != nil {
			t.Errorf("in %s core.trustctime = %s, %v", dir, got, err)
		}
	}
}
