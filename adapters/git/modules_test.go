package git

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vizier-scheduler/vizier/kernel"
)

// submodule adds a submodule to the worktree and commits that.
func (o *owned) submodule(at string) fixture {
	o.Helper()
	if _, err := os.Stat(o.path("../library")); err != nil {
		o.mkdir("../library")
		library := o.in(o.path("../library"))
		library.git("init", "--quiet", "--initial-branch=main")
		library.commit("file", "library")
	}
	url, err := filepath.Rel(o.tree.dir, o.path("../library")) // the same in every repository: it is in .gitmodules
	if err != nil {
		o.Fatal(err)
	}
	o.tree.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", url, at)
	o.tree.git("commit", "--quiet", "-m", "a submodule")
	return o.in(o.tree.path(at))
}

// A worktree with submodules is removed, and what is only in these is parked.
func TestSubmodulesAreRemovedWithTheirWorktree(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(o *owned) []kernel.CommitID // returns what is to be parked as it is
		want []string                         // the files of other parked commits, with their text
	}{
		{"nothing to keep", func(o *owned) []kernel.CommitID { o.submodule("sub"); return nil }, nil},
		{"changes", func(o *owned) []kernel.CommitID {
			sub := o.submodule("dir/sub")
			sub.write("file", "changed")
			sub.write("new", "made")
			return nil
		}, []string{"file=changed new=made"}},
		{"what is only staged", func(o *owned) []kernel.CommitID {
			sub := o.submodule("sub")
			sub.write("file", "staged")
			sub.git("add", "file")
			sub.write("file", "library")
			return nil
		}, []string{"file=staged"}},
		{"a commit", func(o *owned) []kernel.CommitID { return []kernel.CommitID{o.submodule("sub").commit("new", "x")} }, nil},
		{"a commit that was left", func(o *owned) []kernel.CommitID {
			sub := o.submodule("sub")
			id := sub.commit("new", "x")
			sub.git("reset", "--quiet", "--hard", "origin/main")
			return []kernel.CommitID{id}
		}, nil},
		{"a stash", func(o *owned) []kernel.CommitID {
			sub := o.submodule("sub")
			sub.write("file", "changed")
			sub.git("stash", "--quiet")
			return []kernel.CommitID{sub.rev("stash")}
		}, nil},
		{"a commit that was pushed", func(o *owned) []kernel.CommitID {
			sub := o.submodule("sub")
			sub.commit("new", "x")
			sub.git("push", "--quiet", "origin", "HEAD:other")
			return nil
		}, nil},
		{"a submodule within, and one that is removed", func(o *owned) []kernel.CommitID {
			sub := o.submodule("sub")
			sub.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", o.path("../library"), "deep")
			within := o.in(sub.path("deep")).commit("new", "deep")
			sub.git("add", "--all")
			sub.git("commit", "--quiet", "-m", "a submodule within")
			gone := o.submodule("gone").commit("new", "gone")
			o.tree.git("submodule", "--quiet", "deinit", "--force", "gone")
			o.tree.git("rm", "--quiet", "gone")
			o.tree.git("add", "--all")
			o.tree.git("commit", "--quiet", "-m", "none")
			return []kernel.CommitID{within, gone, sub.rev("HEAD")}
		}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := newOwned(t, Open)
			want := c.do(o)
			o.rehearsedRemove()
			o.gone()
			var parked []kernel.CommitID
			var files []string
			for _, p := range o.parked {
				if o.rev(p.Ref) != p.Commit {
					t.Errorf("%s is at %s, want %s", p, o.rev(p.Ref), p.Commit)
				}
				if p.Module == "" { // where the submodule is, a change of the worktree's
					continue
				}
				if slices.Contains(want, p.Commit) {
					parked = append(parked, p.Commit)
					continue
				}
				var text []string
				for _, name := range strings.Fields(o.git("ls-tree", "-r", "--name-only", p.Ref)) {
					text = append(text, name+"="+o.git("show", p.Ref+":"+name))
				}
				files = append(files, strings.Join(text, " "))
			}
			slices.Sort(want)
			slices.Sort(parked)
			if !slices.Equal(parked, want) || !slices.Equal(files, c.want) {
				t.Errorf("parked %v and %q, want %v and %q", parked, files, want, c.want)
			}
			o.git("fsck", "--strict")
		})
	}
}

// What somebody wrote below a submodule that is not initialised, which git does
// not see, is parked; a commit of everything says that it cannot have it.
func TestFilesBelowASubmoduleThatIsNotInitialised(t *testing.T) {
	o := newOwned(t, Open)
	o.submodule("before") // one that is, which git lists first
	o.submodule("dir/sub")
	o.tree.git("submodule", "--quiet", "deinit", "--force", "dir/sub")
	if err := o.repo.Stage(o.Context(), o.tree.dir, nil, nil); err != nil {
		t.Fatal(err)
	}
	o.tree.write("dir/sub/ignored", "x")
	if err := o.repo.Stage(o.Context(), o.tree.dir, nil, nil); err != nil {
		t.Fatal(err)
	}
	o.tree.write("dir/sub/more/new", "made")
	err := o.repo.Stage(o.Context(), o.tree.dir, nil, nil)
	if err == nil || !strings.Contains(err.Error(), "git does not commit dir/sub/more/new, as dir/sub is a submodule that is not initialised: move that out of "+o.tree.path("dir/sub")) {
		t.Errorf("staged: %v", err)
	}
	o.remove(kernel.CleanupDone)
	o.gone()
	if p := o.saved(); o.git("show", p.Ref+":dir/sub/more/new") != "made" || strings.Contains(o.git("ls-tree", "-r", "--name-only", p.Ref), "ignored") {
		t.Errorf("parked %s", o.git("ls-tree", "-r", p.Ref))
	}
}

// Whichever git process fails, a worktree with submodules is removed and their work parked,
// or the removal says that it failed. Nor is anything staged without what git does not see.
func TestWhicheverGitFailsWorkInSubmodulesIsNotLost(t *testing.T) {
	for _, name := range []string{"GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"} { // else the commits of submodules differ
		t.Setenv(name, "2026-01-01T12:00:00Z")
	}
	ctx := t.Context()
	fresh := func() *owned {
		return ownedLike(t, "with submodules", Open, func() *owned {
			o := newOwned(t, Open)
			sub := o.submodule("sub")
			sub.commit("made", "x")
			sub.write("file", "changed")
			o.submodule("gone").commit("left", "x")
			o.tree.git("submodule", "--quiet", "deinit", "--force", "gone")
			o.tree.write("gone/new", "made")
			return o
		})
	}
	whicheverGitFails(t, fresh, (*owned).removed)

	o := fresh()
	calls := brittle(o.repo, 0)
	for k, n := 0, 1; k <= n; k++ {
		brittle(o.repo, k)
		if err := o.repo.Stage(ctx, o.tree.dir, nil, nil); err == nil {
			t.Errorf("process %d of %d fails, and everything is staged without gone/new", k, n)
		}
		if k == 0 {
			n = *calls
		}
	}
}

// A submodule in the place of which there is a file, or above which there is one, is no repository: the file is staged, and
// parked.
func TestAFileInThePlaceOfASubmodule(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(w fixture)
		want string // what changes then
	}{
		"a file": {func(w fixture) { w.write("dir/sub", "file") }, "T\tdir/sub"},
		"a link": {func(w fixture) {
			if err := os.Symlink("../other", w.path("dir/sub")); err != nil {
				w.Fatal(err)
			}
		}, "T\tdir/sub"},
		"a file above": {func(w fixture) {
			if err := os.Remove(w.path("dir")); err != nil {
				w.Fatal(err)
			}
			w.write("dir", "file")
		}, "A\tdir\nD\tdir/sub"},
	} {
		for _, initialised := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				o := newOwned(t, Open)
				o.submodule("dir/sub")
				o.tree.mkdir("other")
				if !initialised {
					o.tree.git("submodule", "--quiet", "deinit", "--force", "dir/sub")
				}
				if err := os.RemoveAll(o.tree.path("dir/sub")); err != nil {
					t.Fatal(err)
				}
				c.do(o.tree)
				if err := o.repo.Stage(t.Context(), o.tree.dir, nil, nil); err != nil || o.tree.git("diff", "--cached", "--name-status") != c.want {
					t.Errorf("staged %q, %v; want %q", o.tree.git("diff", "--cached", "--name-status"), err, c.want)
				}
				o.tree.git("reset", "--quiet")
				if got, _, err := o.repo.Unstaged(t.Context(), o.tree.dir); name != "a link" && (err != nil || !slices.Equal(got, []string{"dir/sub"})) { // git status refuses a link there
					t.Errorf("unstaged %q, %v", got, err)
				}
				o.remove(kernel.CleanupDone)
				if got := o.git("diff", "--name-status", "draft/a", o.saved().Ref); got != c.want {
					t.Errorf("parked %q; want %q", got, c.want)
				}
			})
		}
	}
}

// A link to a repository in the place of a submodule is refused like a repository, and the advice is not to harm that.
func TestALinkToARepositoryInThePlaceOfASubmodule(t *testing.T) {
	o := newOwned(t, Open)
	o.submodule("sub")
	if err := os.RemoveAll(o.tree.path("sub")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(o.path("../library"), o.tree.path("sub")); err != nil {
		t.Fatal(err)
	}
	err := o.repo.Stage(t.Context(), o.tree.dir, nil, nil)
	if err == nil || !strings.HasPrefix(err.Error(), "sub is a link to "+o.path("../library")+", which is a repository") || strings.Contains(err.Error(), "remove sub/.git") {
		t.Error(err)
	}
	o.remove(kernel.CleanupFailed)
}
