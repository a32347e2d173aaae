package git

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Git runs what the configuration of a submodule says. One that an agent left in its
// working tree has nothing run when its work is committed, in whichever way it is
// connected.
func TestNoRepositoryOfAnAgentsIsLookedInto(t *testing.T) {
	for name, connect := range map[string]func(t *testing.T, sub fixture){
		"a directory": func(*testing.T, fixture) {},
		"a file that leads out": func(t *testing.T, sub fixture) {
			if err := os.Rename(sub.path(".git"), sub.path("../hidden")); err != nil {
				t.Fatal(err)
			}
			sub.write(".git", "gitdir: ../hidden\n")
		},
		"a link": func(t *testing.T, sub fixture) {
			if err := os.Rename(sub.path(".git"), sub.path("../hidden")); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink("../hidden", sub.path(".git")); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.commit("a", "a")
			tree := f.path("../tree")
			f.git("worktree", "add", "--quiet", "-b", "work", tree)
			sub := f.in(filepath.Join(tree, "sub"))
			sub.mkdir("")
			sub.git("init", "--quiet")
			sub.commit("f", "a")
			f.in(tree).git("add", "sub")
			f.in(tree).git("commit", "--quiet", "-m", "a link")
			ran := f.path("../ran")
			sub.git("config", "core.fsmonitor", "touch '"+ran+"'; :")
			sub.git("config", "filter.x.clean", "touch '"+ran+"'; cat")
			sub.write(".gitattributes", "f filter=x\n")
			sub.write("f", "b")
			connect(t, sub)
			f.in(tree).write(".gitmodules", "[submodule \"sub\"]\n\tpath = sub\n\turl = x\n\tignore = none\n")
			os.Remove(ran) // by the fixture itself

			r := Open(f.root())
			for what, err := range map[string]error{
				"stage":         r.Stage(t.Context(), tree, nil, nil),
				"stage tracked": r.StageTracked(t.Context(), tree),
			} {
				if err == nil || !strings.Contains(err.Error(), "sub is a repository within") {
					t.Errorf("%s: %v", what, err)
				}
			}
			if _, err := r.Commit(t.Context(), tree, "work"); err == nil {
				t.Error("it was committed")
			}
			if _, err := os.Stat(ran); err == nil {
				t.Error("git ran what the agent's repository says")
			}
		})
	}
}

// Of a repository without a commit in its working tree, as after an agent's git init, an agent's stage says what it is, and
// what to do.
func TestARepositoryWithoutACommitIsTold(t *testing.T) {
	f := newFixture(t)
	f.commit("a", "a")
	f.mkdir("an app/sub")
	sub := f.in(f.path("an app/sub"))
	sub.git("init", "--quiet")
	sub.write("f", "a")
	r := Open(f.root())
	for _, paths := range [][]string{nil, {"an app"}} {
		if err := r.Stage(t.Context(), f.dir, paths, nil); err == nil || !strings.HasPrefix(err.Error(), "an app/sub is a repository without a commit, which git cannot add: remove an app/sub/.git, or") {
			t.Errorf("%v: %v", paths, err)
		}
	}
	if err := os.RemoveAll(sub.path(".git")); err != nil {
		t.Fatal(err)
	}
	if err := r.Stage(t.Context(), f.dir, nil, nil); err != nil || !strings.Contains(f.git("ls-files"), "an app/sub/f") {
		t.Errorf("without its .git: %v, %s", err, f.git("ls-files"))
	}
}

// A repository that an agent has put into its working tree stays out of the index: once its .git is
// removed, as the error says, its files are staged. So they are if an earlier version had added it.
func TestARepositoryOfAnAgentsIsNotLeftInTheIndex(t *testing.T) {
	f := newFixture(t)
	f.commit("a", "a")
	tree := f.in(f.path("../tree"))
	f.git("worktree", "add", "--quiet", "-b", "work", tree.dir)
	sub := f.in(tree.path("sub"))
	sub.mkdir("")
	sub.git("init", "--quiet")
	sub.commit("f", "a")
	r := Open(f.root())
	staged := func() string { return tree.git("ls-files", "--stage", "sub") }
	for _, earlier := range []bool{false, true} {
		for _, paths := range [][]string{nil, {"sub"}} {
			if earlier {
				tree.git("add", "sub")
			}
			if err := r.Stage(t.Context(), tree.dir, paths, nil); err == nil || !strings.Contains(err.Error(), "remove sub/.git") || staged() != "" {
				t.Errorf("%v, earlier %v: %v; in the index: %s", paths, earlier, err, staged())
			}
		}
	}
	tree.git("add", "sub")
	if err := os.Rename(sub.path(".git"), f.path("../hidden")); err != nil {
		t.Fatal(err)
	}
	if err := r.Stage(t.Context(), tree.dir, nil, nil); err != nil || !strings.HasSuffix(staged(), "\tsub/f") {
		t.Errorf("without its .git: %v; in the index: %s", err, staged())
	}

	// What .gitmodules names is meant.
	tree.git("reset", "--quiet")
	if err := os.Rename(f.path("../hidden"), sub.path(".git")); err != nil {
		t.Fatal(err)
	}
	tree.git("add", "sub")
	tree.write(".gitmodules", "[submodule \"s\"]\n\tpath = sub\n\turl = x\n")
	if err := r.Stage(t.Context(), tree.dir, nil, nil); err == nil || !strings.HasPrefix(staged(), "160000 ") {
		t.Errorf("a submodule: %v; in the index: %s", err, staged())
	}
}
